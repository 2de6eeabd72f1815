//! The one token, and the entrance beside it.
//!
//! Whoever holds the token may touch what it guards. A worker tries and never waits; who finds the token
//! taken leaves a message at the entrance, and the holder sees to it: *whoever lets go of the token looks
//! at the entrance again*. So a message is never left lying while nobody is on the way, which
//! is what `tests/loom.rs` checks over all interleavings.

#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering, fence},
};
#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering, fence},
};

/// What a holder of the token does with the messages at the entrance.
pub trait Feed<M> {
    /// Takes in the messages, leaving the list empty.
    fn feed(&mut self, messages: &mut Vec<M>);
}

/// A value behind a token, with an entrance for messages to it.
#[derive(Debug)]
pub struct Token<A, M> {
    guarded: Mutex<A>,
    entrance: Mutex<Vec<M>>,
    /// There is something at the entrance.
    waiting: AtomicBool,
    entrance_max: usize,
}

/// The entrance is full: the message comes back.
#[derive(Debug, PartialEq, Eq)]
pub struct Full<M>(pub M);

impl<A: Feed<M>, M> Token<A, M> {
    /// A token nobody holds; at most so many messages may wait at its entrance.
    pub fn new(guarded: A, entrance_max: usize) -> Self {
        Self {
            guarded: Mutex::new(guarded),
            entrance: Mutex::new(Vec::new()),
            waiting: AtomicBool::new(false),
            entrance_max,
        }
    }

    /// Does `work` with the token, the entrance fed before; `None` when somebody else has it.
    pub fn attempt<T>(&self, work: impl FnOnce(&mut A) -> T) -> Option<T> {
        let mut held = self.guarded.try_lock().ok()?;
        self.feed(&mut held);
        let result = work(&mut held);
        drop(held);
        self.look_again();
        Some(result)
    }

    /// Does `work` with the token, however long it takes to get it. Not for workers.
    pub fn insist<T>(&self, work: impl FnOnce(&mut A) -> T) -> T {
        let mut held = lock(&self.guarded);
        self.feed(&mut held);
        let result = work(&mut held);
        drop(held);
        self.look_again();
        result
    }

    /// For checks: what is guarded as it is, whatever lies at the entrance.
    #[cfg(loom)]
    pub fn insist_without_feeding<T>(&self, work: impl FnOnce(&mut A) -> T) -> T {
        work(&mut lock(&self.guarded))
    }

    /// Leaves a message. It is taken in by the time that this returns, or by whoever holds the token.
    ///
    /// # Errors
    /// When the entrance is full; the message comes back.
    pub fn leave(&self, message: M) -> Result<(), Full<M>> {
        let mut entrance = lock(&self.entrance);
        if entrance.len() >= self.entrance_max {
            return Err(Full(message));
        }
        entrance.push(message);
        drop(entrance);
        self.waiting.store(true, Ordering::SeqCst);
        self.look_again();
        Ok(())
    }

    /// Takes in what waits at the entrance unless somebody else is on it.
    fn look_again(&self) {
        loop {
            // Between our letting go (or our message) and this look; its partner is the same fence
            // on the other side. One of the two sees the other.
            fence(Ordering::SeqCst);
            if !self.waiting.load(Ordering::SeqCst) {
                return;
            }
            let Ok(mut held) = self.guarded.try_lock() else { return };
            self.feed(&mut held);
        }
    }

    fn feed(&self, held: &mut MutexGuard<'_, A>) {
        // A plain load first: the entrance is empty most of the time.
        if self.waiting.load(Ordering::Relaxed) && self.waiting.swap(false, Ordering::SeqCst) {
            let mut messages = std::mem::take(&mut *lock(&self.entrance));
            held.feed(&mut messages);
        }
    }
}

/// A panic while the token was held is a defect of ours; the plain data behind it is still usable.
#[cfg(not(loom))]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(loom)]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread of a model panics with a lock")
}
