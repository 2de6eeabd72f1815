//! Threads that decode portions of a trace ahead of the portion that the caller needs next.
//!
//! Any thread, the caller's too, takes the first portion that no thread has; the caller gets portions in
//! order. If no thread has begun a portion when its turn comes, the caller decodes it straight into its own
//! batch. With many lanes, decoding one lane after the other into a portion is faster, and the caller does that.
//! Memory: a portion for each other thread and [`AHEAD`] more, beside the lanes' windows.

use super::divide::{Divider, Portion};
use super::portion::{Decoded, PortionDecoder};
use crate::decoded_segment::DecodedSegment;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Portions beyond one for each other thread that are decoded, or on the way.
const AHEAD: usize = 2;

/// The portion whose turn it is.
pub(super) enum NextPortion {
    /// The caller is to decode it.
    Own(Portion),
    /// Another thread has decoded this portion.
    Done(Portion, Decoded),
}

/// The threads, and what they share with the caller.
pub(super) struct DecodeThreads {
    pool: Arc<DecodePool>,
    /// Those that have not started.
    others: Vec<PortionDecoder>,
    threads: Vec<JoinHandle<()>>,
    /// With which the caller decodes a portion whose turn has not come.
    decoder: PortionDecoder,
}

struct DecodePool {
    state: Mutex<PoolState>,
    /// A portion was decoded.
    done: Condvar,
    /// One more may be.
    room: Condvar,
}

struct PoolState {
    divider: Divider,
    /// How many portions somebody has, or had.
    begun: usize,
    /// How many the caller was given.
    given: usize,
    /// Those that were decoded and not yet given to the caller; `None`: it is to do that itself.
    done: BTreeMap<usize, (Portion, Option<Decoded>)>,
    /// Memory to be used again.
    spare: Vec<DecodedSegment>,
    ahead: usize,
    stop: bool,
}

impl PoolState {
    /// A portion that nobody has, if there may be one more.
    fn begin(&mut self) -> Option<(Portion, DecodedSegment)> {
        if self.begun - self.given >= self.ahead {
            return None;
        }
        let portion = self.divider.next()?;
        self.begun += 1;
        Some((portion, self.spare.pop().unwrap_or_default()))
    }
}

impl DecodePool {
    /// A thread that panicked left its portion to the caller: what is here is sound.
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decodes a portion and lays it down.
    fn decode(&self, decoder: &mut PortionDecoder, portion: Portion, segment: DecodedSegment) {
        // Also when decoding panics: nobody waits for ever.
        let mut task = Task { pool: self, portion: Some(portion), decoded: None };
        if let Some(portion) = &task.portion {
            task.decoded = decoder.decode(portion, segment);
        }
    }

    /// Decodes portions until none is left or the caller stops.
    fn work(&self, mut decoder: PortionDecoder) {
        let mut state = self.state();
        while !state.stop && !state.divider.has_ended() {
            match state.begin() {
                Some((portion, segment)) => {
                    drop(state);
                    self.decode(&mut decoder, portion, segment);
                    state = self.state();
                }
                None => state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// A portion that somebody has.
struct Task<'a> {
    pool: &'a DecodePool,
    portion: Option<Portion>,
    decoded: Option<Decoded>,
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        if let Some(portion) = self.portion.take() {
            let index = portion.index;
            self.pool.state().done.insert(index, (portion, self.decoded.take()));
            self.pool.done.notify_all();
        }
    }
}

impl DecodeThreads {
    /// A caller with a decoder of its own, and others, whose threads start when the first portion is asked for.
    pub(super) fn new(divider: Divider, own: PortionDecoder, others: Vec<PortionDecoder>) -> Self {
        let ahead = others.len() + AHEAD;
        let done = BTreeMap::new();
        let spare = Vec::new();
        let state = PoolState { divider, begun: 0, given: 0, done, spare, ahead, stop: false };
        let done = Condvar::new();
        let room = Condvar::new();
        let pool = Arc::new(DecodePool { state: Mutex::new(state), done, room });
        Self { pool, others, threads: Vec::new(), decoder: own }
    }

    /// Waits for the portion whose turn it is; `None` behind the last one.
    pub(super) fn next(&mut self) -> Option<NextPortion> {
        let pool = Arc::clone(&self.pool);
        let mut state = pool.state();
        let turn = loop {
            let turn = state.given;
            if let Some((portion, decoded)) = state.done.remove(&turn) {
                break match decoded {
                    Some(decoded) => NextPortion::Done(portion, decoded),
                    None => NextPortion::Own(portion),
                };
            }
            if turn == state.begun && !self.decoder.is_fast() {
                let portion = state.divider.next()?;
                state.begun += 1;
                break NextPortion::Own(portion);
            }
            // Another thread has it: meanwhile the next one that nobody has.
            state = if let Some((portion, segment)) = state.begin() {
                drop(state);
                pool.decode(&mut self.decoder, portion, segment);
                pool.state()
            } else if turn == state.begun {
                return None;
            } else {
                pool.done.wait(state).unwrap_or_else(PoisonError::into_inner)
            };
        };
        state.given += 1;
        drop(state);
        pool.room.notify_one();
        self.start();
        Some(turn)
    }

    /// Takes back memory that a portion was decoded into.
    pub(super) fn give_back(&self, segment: DecodedSegment) {
        self.pool.state().spare.push(segment);
    }

    fn start(&mut self) {
        for decoder in self.others.drain(..) {
            let pool = Arc::clone(&self.pool);
            let name = "schedlab-read".to_owned();
            // Where there can be no more threads, there are fewer.
            let thread = std::thread::Builder::new().name(name).spawn(move || pool.work(decoder));
            self.threads.extend(thread);
        }
    }
}

impl Drop for DecodeThreads {
    fn drop(&mut self) {
        self.pool.state().stop = true;
        self.pool.room.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
