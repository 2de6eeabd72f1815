//! The clock of a run: `CLOCK_MONOTONIC` on Linux, from an origin on.
//!
//! Each job is between two looks at it, so a look must be cheap. The standard library's `Instant` takes a look through libc, and
//! checks and subtracts seconds and nanoseconds apart.

use crate::policy::Nanos;

/// A clock with an origin.
#[derive(Clone, Copy, Debug)]
pub struct Clock(
    /// `None`: it stands still.
    Option<Nanos>,
);

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self(Some(monotonic()))
    }

    /// A clock that stays at 0, for a run whose times another computes.
    pub const fn still() -> Self {
        Self(None)
    }

    /// Time since the origin.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.0.map_or(0, |origin| monotonic().saturating_sub(origin))
    }
}

/// The time on CLOCK_MONOTONIC, in nanoseconds.
#[cfg(all(target_os = "linux", not(miri)))]
fn monotonic() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}

/// Nanoseconds since the first look.
#[cfg(not(all(target_os = "linux", not(miri))))]
fn monotonic() -> Nanos {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed().as_nanos() as Nanos
}
