//! How a test says what it could not check here. The test harness keeps what a passing test prints to itself, so this goes
//! to stderr directly.

/// Says that something is missing: what, and what was not checked. Takes what `format!` takes.
macro_rules! missing {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "MISSING: {}", format_args!($($what)*));
    }};
}
