//! The one token, and the entrance beside it.
//!
//! The holder of the token may touch what it guards. A worker tries to get it and never waits. A poster that
//! finds the token taken leaves a message at the entrance, and the holder takes it in: *each holder looks
//! at the entrance again after it let go*. What it finds then, it takes in and *decides on again*: its first
//! decision did not know the message. `tests/all/loom.rs` checks both over all interleavings.

use crate::sync::{AtomicBool, Mutex, Owned, OwnedGuard, fence};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// What a holder of the token does with the messages at the entrance.
pub(crate) trait Feed<M> {
    /// Takes in the messages, leaving the list empty.
    fn feed(&mut self, messages: &mut Vec<M>);
}

/// A value behind a token, with an entrance for messages to it.
#[derive(Debug)]
pub(crate) struct Token<A, M> {
    guarded: Owned<A>,
    entrance: Mutex<Vec<M>>,
    /// There is something at the entrance.
    waiting: AtomicBool,
    entrance_max: usize,
}

/// The entrance is full: the message comes back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full<M>(pub(crate) M);

impl<A: Feed<M>, M> Token<A, M> {
    /// A token that nobody holds. At most `entrance_max` messages may wait at its entrance.
    pub(crate) fn new(guarded: A, entrance_max: usize) -> Self {
        Self {
            guarded: Owned::new(guarded),
            entrance: Mutex::new(Vec::new()),
            waiting: AtomicBool::new(false),
            entrance_max,
        }
    }

    /// Does `work` with the token, the entrance fed before; `None` when another thread has it. After that, `late` is
    /// done with the token each time that further messages were taken in: it decides again.
    pub(crate) fn attempt<T>(
        &self,
        work: impl FnOnce(&mut A) -> T,
        late: impl FnMut(&mut A),
    ) -> Option<T> {
        let held = self.guarded.try_lock()?;
        Some(self.hold(held, work, late))
    }

    /// Does `work` with the token, however long it takes to get it; then `late` as in [`Token::attempt`]. Not for
    /// workers.
    pub(crate) fn insist<T>(&self, work: impl FnOnce(&mut A) -> T, late: impl FnMut(&mut A)) -> T {
        self.hold(self.guarded.lock(), work, late)
    }

    fn hold<T>(
        &self,
        mut held: OwnedGuard<'_, A>,
        work: impl FnOnce(&mut A) -> T,
        late: impl FnMut(&mut A),
    ) -> T {
        self.feed(&mut held);
        let result = work(&mut held);
        drop(held);
        self.look_again(late);
        result
    }

    /// For checks: what is guarded as it is, without the messages at the entrance.
    #[cfg(loom)]
    pub(crate) fn insist_without_feeding<T>(&self, work: impl FnOnce(&mut A) -> T) -> T {
        work(&mut self.guarded.lock())
    }

    /// Leaves a message. It is taken in by the time that this returns, and `late` done, or the token's holder will do so.
    ///
    /// # Errors
    /// When the entrance is full; the message comes back.
    pub(crate) fn leave(&self, message: M, late: impl FnMut(&mut A)) -> Result<(), Full<M>> {
        let mut entrance = self.entrance.lock().unwrap_or_else(PoisonError::into_inner);
        if entrance.len() >= self.entrance_max {
            return Err(Full(message));
        }
        entrance.push(message);
        drop(entrance);
        self.waiting.store(true, Ordering::SeqCst);
        self.look_again(late);
        Ok(())
    }

    /// Takes in what waits at the entrance, unless another thread holds the token: that one looks here afterwards.
    fn look_again(&self, mut late: impl FnMut(&mut A)) {
        loop {
            // Between our letting go (or our message) and this look; its partner is the same fence
            // on the other side. One of the two sees the other.
            fence(Ordering::SeqCst);
            if !self.waiting.load(Ordering::SeqCst) {
                return;
            }
            let Some(mut held) = self.guarded.try_lock() else { return };
            if self.feed(&mut held) {
                late(&mut held);
            }
        }
    }

    /// Whether there was something.
    fn feed(&self, held: &mut OwnedGuard<'_, A>) -> bool {
        // A plain load first: the entrance is empty most of the time.
        if self.waiting.load(Ordering::Relaxed) && self.waiting.swap(false, Ordering::SeqCst) {
            let mut entrance = self.entrance.lock().unwrap_or_else(PoisonError::into_inner);
            let mut messages = std::mem::take(&mut *entrance);
            drop(entrance);
            held.feed(&mut messages);
            return true;
        }
        false
    }
}
