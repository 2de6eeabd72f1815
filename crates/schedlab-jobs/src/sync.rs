//! What the threads of the token and of a bundle share: the system's, or in a model that of loom.

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;

#[cfg(not(loom))]
mod real {
    use std::sync::{PoisonError, TryLockError};

    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, fence};
    pub(crate) use std::sync::{Mutex, MutexGuard, MutexGuard as OwnedGuard};
    pub(crate) use std::thread::yield_now;

    /// What one thread at a time has, and others mostly do not wait for. A panic of its owner is a defect of ours; the
    /// plain data is still usable, and must not count as taken: no worker would ever get it again.
    #[derive(Debug)]
    pub(crate) struct Owned<T>(Mutex<T>);

    impl<T> Owned<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> OwnedGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn try_lock(&self) -> Option<OwnedGuard<'_, T>> {
            match self.0.try_lock() {
                Ok(held) => Some(held),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            }
        }
    }
}

#[cfg(loom)]
mod model {
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;

    /// As in the real one. Loom does not look for attempts at its own lock that fail, but for those at an atomic.
    #[derive(Debug)]
    pub(crate) struct Owned<T> {
        taken: AtomicBool,
        value: std::sync::Mutex<T>,
    }

    pub(crate) struct OwnedGuard<'a, T> {
        taken: &'a AtomicBool,
        /// `None` once it is given back.
        value: Option<std::sync::MutexGuard<'a, T>>,
    }

    impl<T> Owned<T> {
        pub(crate) fn new(value: T) -> Self {
            Self { taken: AtomicBool::new(false), value: std::sync::Mutex::new(value) }
        }

        pub(crate) fn lock(&self) -> OwnedGuard<'_, T> {
            loop {
                match self.try_lock() {
                    Some(held) => return held,
                    None => yield_now(),
                }
            }
        }

        pub(crate) fn try_lock(&self) -> Option<OwnedGuard<'_, T>> {
            self.taken.compare_exchange(false, true, Acquire, Relaxed).ok()?;
            let value = self.value.try_lock().expect("it was not taken");
            Some(OwnedGuard { taken: &self.taken, value: Some(value) })
        }
    }

    impl<T> std::ops::Deref for OwnedGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.value.as_ref().expect("it is held")
        }
    }

    impl<T> std::ops::DerefMut for OwnedGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.value.as_mut().expect("it is held")
        }
    }

    impl<T> Drop for OwnedGuard<'_, T> {
        fn drop(&mut self) {
            self.value = None;
            self.taken.store(false, Release);
        }
    }
}
