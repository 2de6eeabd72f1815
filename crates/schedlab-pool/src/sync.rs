//! What threads share: the standard library's, or in a model that of loom.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};

/// Nothing of a user runs while one of our locks is held, so what a panic leaves behind is whole.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A small number of the calling thread: threads in a row have numbers in a row.
pub(crate) fn this_thread() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Relaxed);
    }
    NUMBER.try_with(|&number| number).unwrap_or(0)
}

/// Keeps what one thread writes often out of the cache lines of others.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);
