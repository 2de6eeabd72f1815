//! Waiting on a word of memory, between the threads of a process or between processes.

use rustix::thread::futex;
use schedlab_model::Nanos;
use std::io;
use std::sync::atomic::AtomicU32;

/// Who else may wait on the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only threads of this process: cheaper.
    Private,
    /// Any process that maps the same memory.
    Shared,
}

impl Scope {
    const fn flags(self) -> futex::Flags {
        match self {
            Self::Private => futex::Flags::PRIVATE,
            Self::Shared => futex::Flags::empty(),
        }
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Woken, perhaps for no reason: look at the word again.
    Woken,
    /// The word did not hold the expected value.
    Changed,
    /// The timeout passed.
    TimedOut,
    /// A signal came.
    Interrupted,
}

/// Sleeps while `word` holds `expected`, at most for `timeout`.
///
/// # Errors
/// What the kernel refuses beyond the ends of [`Waited`].
pub fn wait(
    word: &AtomicU32,
    expected: u32,
    scope: Scope,
    timeout: Option<Nanos>,
) -> io::Result<Waited> {
    let timeout = timeout.map(|t| futex::Timespec {
        tv_sec: i64::try_from(t.0 / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(t.0 % 1_000_000_000).expect("below a second"),
    });
    match futex::wait(word, scope.flags(), expected, timeout.as_ref()) {
        Ok(()) => Ok(Waited::Woken),
        Err(rustix::io::Errno::AGAIN) => Ok(Waited::Changed),
        Err(rustix::io::Errno::TIMEDOUT) => Ok(Waited::TimedOut),
        Err(rustix::io::Errno::INTR) => Ok(Waited::Interrupted),
        Err(error) => Err(error.into()),
    }
}

/// Wakes at most `count` waiters of `word`; returns how many were woken.
///
/// # Errors
/// What the kernel refuses.
pub fn wake(word: &AtomicU32, count: u32, scope: Scope) -> io::Result<usize> {
    // The kernel takes a signed number: beyond it would wake one.
    Ok(futex::wake(word, scope.flags(), count.min(i32::MAX.cast_unsigned()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_wait_ends_by_value_by_timeout_and_by_wake() {
        let word = AtomicU32::new(1);
        assert_eq!(wait(&word, 0, Scope::Private, None).unwrap(), Waited::Changed);
        let short = Some(Nanos::from_micros(10));
        assert_eq!(wait(&word, 1, Scope::Shared, short).unwrap(), Waited::TimedOut);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::Acquire) == 1 {
                    wait(&word, 1, Scope::Private, None).unwrap();
                }
            });
            scope.spawn(|| {
                while word.load(Ordering::Acquire) == 1 {
                    wait(&word, 1, Scope::Private, None).unwrap();
                }
            });
            word.store(2, Ordering::Release);
            wake(&word, u32::MAX, Scope::Private).unwrap();
        });
    }
}
