//! Waiting on a word of memory, between the threads of a process or between processes.
//!
//! The kernel looks at the low half of a word of 64 bits; the program reads and writes whole words. So no two accesses
//! of the program have different sizes.

use rustix::thread::futex;
use schedlab_model::Nanos;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Woken, perhaps for no reason: look at the word again.
    Woken,
    /// The word did not hold the expected value.
    Changed,
    /// The timeout passed without a wakeup.
    TimedOut,
    Interrupted,
}

/// The half of a word that a small value lies in, on every byte order. Only the kernel reads and writes by it.
fn low_half(word: &AtomicU64) -> &AtomicU32 {
    let offset = usize::from(cfg!(target_endian = "big"));
    let base = std::ptr::from_ref(word).cast::<AtomicU32>();
    // SAFETY: both halves lie inside the word.
    let half = unsafe { base.add(offset) };
    // SAFETY: the half is aligned and lives as long as the word.
    unsafe { &*half }
}

/// Sleeps while the low half of `word` holds `expected`, at most for `timeout`.
///
/// # Errors
/// What the kernel refuses beyond the ends of [`Waited`].
pub fn wait(
    word: &AtomicU64,
    expected: u32,
    scope: Scope,
    timeout: Option<Nanos>,
) -> io::Result<Waited> {
    let timeout = timeout.map(|t| futex::Timespec {
        tv_sec: i64::try_from(t.0 / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(t.0 % 1_000_000_000).expect("below a second"),
    });
    match futex::wait(low_half(word), scope.flags(), expected, timeout.as_ref()) {
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
pub fn wake(word: &AtomicU64, count: u32, scope: Scope) -> io::Result<usize> {
    // The kernel takes a signed number: beyond it would wake one.
    Ok(futex::wake(low_half(word), scope.flags(), count.min(i32::MAX.cast_unsigned()))?)
}

/// Takes a lock whose holder the kernel lends the priority of the one that waits for it (`FUTEX_LOCK_PI`, futex(2); the
/// word is 0 or the holder's thread number, with the kernel's bits above). Whether it was taken within this time; no
/// signal ends the wait before.
///
/// # Errors
/// What the kernel refuses: the calling thread holds it already (`EDEADLK`), its holder has ended (`ESRCH`).
pub fn lock_inheriting(word: &AtomicU64, scope: Scope, within: Nanos) -> io::Result<bool> {
    let own = u64::from(crate::process::thread_id().0.cast_unsigned());
    if word.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        return Ok(true);
    }
    // The kernel takes a point in time of the clock of the day.
    let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let until = since_1970 + within.as_duration();
    let until = futex::Timespec {
        tv_sec: i64::try_from(until.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: until.subsec_nanos().into(),
    };
    match futex::lock_pi(low_half(word), scope.flags(), Some(&until)) {
        Ok(()) => Ok(true),
        // Again: its holder is about to end.
        Err(rustix::io::Errno::TIMEDOUT | rustix::io::Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Gives back a lock that the calling thread took by [`lock_inheriting`], to the one that waits with the highest priority.
///
/// # Errors
/// What the kernel refuses: another thread holds it, or none (`EPERM`).
pub fn unlock_inheriting(word: &AtomicU64, scope: Scope) -> io::Result<()> {
    let own = u64::from(crate::process::thread_id().0.cast_unsigned());
    match word.compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed) {
        Ok(_) => Ok(()),
        Err(_) => Ok(futex::unlock_pi(low_half(word), scope.flags())?),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_lends_priority_is_held_by_one_at_a_time() {
        let word = AtomicU64::new(0);
        let inside = AtomicU32::new(0);
        let count = AtomicU32::new(0);
        let long = Nanos::from_secs(60);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        assert!(lock_inheriting(&word, Scope::Private, long).unwrap());
                        assert_eq!(inside.swap(1, Ordering::Relaxed), 0, "two hold it");
                        std::thread::yield_now();
                        count.fetch_add(inside.swap(0, Ordering::Relaxed), Ordering::Relaxed);
                        unlock_inheriting(&word, Scope::Private).unwrap();
                    }
                });
            }
        });
        assert_eq!((count.into_inner(), word.load(Ordering::Relaxed)), (800, 0));
    }

    #[test]
    fn a_lock_that_another_holds_is_not_taken_and_can_not_be_given_back() {
        let word = AtomicU64::new(0);
        assert!(lock_inheriting(&word, Scope::Private, Nanos(0)).unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let soon = Nanos::from_millis(1);
                assert!(!lock_inheriting(&word, Scope::Private, soon).unwrap());
                assert!(unlock_inheriting(&word, Scope::Private).is_err());
            });
        });
        let twice = lock_inheriting(&word, Scope::Private, Nanos(0)).unwrap_err();
        assert_eq!(twice.raw_os_error(), Some(35), "EDEADLK: {twice}");
    }

    #[test]
    fn a_wait_ends_by_value_by_timeout_and_by_wake() {
        let word = AtomicU64::new(1);
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
