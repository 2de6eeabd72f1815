//! What the pool's threads share and how they sleep: the system's, or in a model that of loom, with a clock that the
//! model moves. Sleeps of a model end when they are called, or when the model's clock has passed their end.

#[cfg(loom)]
pub use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;

#[cfg(not(loom))]
mod real {
    use crate::policy::Nanos;
    use std::sync::{PoisonError, TryLockError};
    use std::time::Duration;

    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, fence};
    pub(crate) use std::sync::{Mutex, MutexGuard, MutexGuard as OwnedGuard};
    pub(crate) use std::thread::{Builder, JoinHandle, Thread, yield_now};

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

    /// A longer sleep has no timer.
    const ENDLESS_NS: Nanos = u64::MAX / 4;

    /// Sleeps until the thread is called, or until then at the latest.
    pub(crate) fn park(now: Nanos, until: Nanos) {
        let left_ns = until.saturating_sub(now);
        if left_ns > ENDLESS_NS {
            std::thread::park();
        } else {
            std::thread::park_timeout(Duration::from_nanos(left_ns));
        }
    }

    /// Sleeps this long at most, or until the thread is called.
    pub(crate) fn nap(ns: Nanos) {
        std::thread::park_timeout(Duration::from_nanos(ns));
    }

    /// A model has failed: nothing may be shared any more.
    pub(crate) fn is_over() -> bool {
        false
    }
}

#[cfg(loom)]
mod model {
    use crate::policy::Nanos;
    use loom::sync::Condvar;
    use std::cell::{Cell, RefCell};
    use std::sync::Arc;
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    pub use loom::sync::Mutex;
    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, fence};
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

    /// A thread that can be called. Loom's own forgets a call to a thread that waits for a lock.
    #[derive(Clone)]
    pub struct Thread(Arc<(Mutex<bool>, Condvar)>);

    // Loom runs all threads of a model on one thread of the system.
    std::thread_local! {
        static ON_PURPOSE: Cell<bool> = const { Cell::new(false) };
        static NOW: Cell<Nanos> = const { Cell::new(0) };
        static SLEEPERS: RefCell<Vec<(Nanos, Thread)>> = const { RefCell::new(Vec::new()) };
    }

    loom::thread_local! {
        static CURRENT: RefCell<Option<Thread>> = RefCell::new(None);
    }

    impl Thread {
        fn new() -> Self {
            Self(Arc::new((Mutex::new(false), Condvar::new())))
        }

        /// Ends its sleep, or its next one.
        pub fn unpark(&self) {
            *self.0.0.lock().expect("no panic with the lock") = true;
            self.0.1.notify_one();
        }

        fn park(&self) {
            let mut called = self.0.0.lock().expect("no panic with the lock");
            while !*called {
                called = self.0.1.wait(called).expect("no panic with the lock");
            }
            *called = false;
        }
    }

    /// The thread that calls this function.
    pub fn current() -> Thread {
        CURRENT.with(|current| current.borrow_mut().get_or_insert_with(Thread::new).clone())
    }

    pub(crate) struct Builder;

    pub(crate) struct JoinHandle<T> {
        thread: Thread,
        inner: loom::thread::JoinHandle<T>,
    }

    impl Builder {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn name(self, _: String) -> Self {
            self
        }

        pub(crate) fn spawn<T: 'static>(
            self,
            work: impl FnOnce() -> T + 'static,
        ) -> std::io::Result<JoinHandle<T>> {
            let thread = Thread::new();
            let own = thread.clone();
            let inner = loom::thread::spawn(move || {
                CURRENT.with(|current| *current.borrow_mut() = Some(own));
                work()
            });
            Ok(JoinHandle { thread, inner })
        }
    }

    impl<T> JoinHandle<T> {
        pub(crate) fn thread(&self) -> &Thread {
            &self.thread
        }

        pub(crate) fn join(self) -> std::thread::Result<T> {
            self.inner.join()
        }
    }

    /// Sets the clock back to the beginning of a model.
    pub fn reset(now: Nanos) {
        NOW.set(now);
        SLEEPERS.take();
        ON_PURPOSE.set(false);
    }

    /// Time on the model's clock.
    pub fn now() -> Nanos {
        NOW.get()
    }

    /// Moves the clock, and wakes those whose time has come.
    pub fn advance(to: Nanos) {
        NOW.set(to);
        let due: Vec<(Nanos, Thread)> =
            SLEEPERS.with_borrow_mut(|all| all.extract_if(.., |(until, _)| *until <= to).collect());
        due.iter().for_each(|(_, thread)| thread.unpark());
    }

    /// Unwinds what runs as a part of the model, unlike a failure of the model.
    pub fn panic_on_purpose() -> ! {
        ON_PURPOSE.set(true);
        std::panic::resume_unwind(Box::new("on purpose"))
    }

    /// Until it is called.
    pub fn wait() {
        current().park();
    }

    pub(crate) fn park(_: Nanos, until: Nanos) {
        if until > NOW.get() {
            SLEEPERS.with_borrow_mut(|all| all.push((until, current())));
            wait();
        }
    }

    pub(crate) fn nap(_: Nanos) {
        yield_now();
    }

    pub(crate) fn is_over() -> bool {
        std::thread::panicking() && !ON_PURPOSE.get()
    }
}
