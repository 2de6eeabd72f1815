//! The tests of this crate, in one program: it is linked once.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests stop at the first surprise, read files and start peers"
)]

mod calibrate;
mod engine;
mod machine;
#[cfg(target_os = "linux")]
mod memory;
