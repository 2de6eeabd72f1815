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
pub(super) enum Turn {
    /// The caller is to decode it.
    Own(Portion),
    /// Another thread has decoded this portion.
    Done(Portion, Decoded),
}

/// The threads, and what they share with the caller.
pub(super) struct DecodeThreads {
    desk: Arc<Desk>,
    /// Those that have not started.
    others: Vec<PortionDecoder>,
    threads: Vec<JoinHandle<()>>,
    /// With which the caller decodes a portion whose turn has not come.
    decoder: PortionDecoder,
}

struct Desk {
    board: Mutex<Board>,
    /// A portion was decoded.
    done: Condvar,
    /// One more may be.
    room: Condvar,
}

struct Board {
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

impl Board {
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

impl Desk {
    /// A thread that panicked left its portion to the caller: what is here is sound.
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decodes a portion and lays it down.
    fn decode(&self, decoder: &mut PortionDecoder, portion: Portion, segment: DecodedSegment) {
        // Also when decoding panics: nobody waits for ever.
        let mut task = Task { desk: self, portion: Some(portion), decoded: None };
        if let Some(portion) = &task.portion {
            task.decoded = decoder.decode(portion, segment);
        }
    }

    /// What a thread does.
    fn work(&self, mut decoder: PortionDecoder) {
        let mut board = self.board();
        while !board.stop && !board.divider.has_ended() {
            match board.begin() {
                Some((portion, segment)) => {
                    drop(board);
                    self.decode(&mut decoder, portion, segment);
                    board = self.board();
                }
                None => board = self.room.wait(board).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// A portion that somebody has.
struct Task<'a> {
    desk: &'a Desk,
    portion: Option<Portion>,
    decoded: Option<Decoded>,
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        if let Some(portion) = self.portion.take() {
            let index = portion.index;
            self.desk.board().done.insert(index, (portion, self.decoded.take()));
            self.desk.done.notify_all();
        }
    }
}

impl DecodeThreads {
    /// A caller with a decoder of its own, and others, whose threads start when the first portion is asked for.
    pub(super) fn new(divider: Divider, own: PortionDecoder, others: Vec<PortionDecoder>) -> Self {
        let ahead = others.len() + AHEAD;
        let done = BTreeMap::new();
        let spare = Vec::new();
        let board = Board { divider, begun: 0, given: 0, done, spare, ahead, stop: false };
        let done = Condvar::new();
        let room = Condvar::new();
        let desk = Arc::new(Desk { board: Mutex::new(board), done, room });
        Self { desk, others, threads: Vec::new(), decoder: own }
    }

    /// Waits for the portion whose turn it is; `None` behind the last one.
    pub(super) fn turn(&mut self) -> Option<Turn> {
        let desk = Arc::clone(&self.desk);
        let mut board = desk.board();
        let turn = loop {
            let turn = board.given;
            if let Some((portion, decoded)) = board.done.remove(&turn) {
                break match decoded {
                    Some(decoded) => Turn::Done(portion, decoded),
                    None => Turn::Own(portion),
                };
            }
            if turn == board.begun && !self.decoder.is_fast() {
                let portion = board.divider.next()?;
                board.begun += 1;
                break Turn::Own(portion);
            }
            // Another thread has it: meanwhile the next one that nobody has.
            board = if let Some((portion, segment)) = board.begin() {
                drop(board);
                desk.decode(&mut self.decoder, portion, segment);
                desk.board()
            } else if turn == board.begun {
                return None;
            } else {
                desk.done.wait(board).unwrap_or_else(PoisonError::into_inner)
            };
        };
        board.given += 1;
        drop(board);
        desk.room.notify_one();
        self.start();
        Some(turn)
    }

    /// Takes back memory that a portion was decoded into.
    pub(super) fn give_back(&self, segment: DecodedSegment) {
        self.desk.board().spare.push(segment);
    }

    fn start(&mut self) {
        for decoder in self.others.drain(..) {
            let desk = Arc::clone(&self.desk);
            let name = "schedlab-read".to_owned();
            // Where there can be no more threads, there are fewer.
            let thread = std::thread::Builder::new().name(name).spawn(move || desk.work(decoder));
            self.threads.extend(thread);
        }
    }
}

impl Drop for DecodeThreads {
    fn drop(&mut self) {
        self.desk.board().stop = true;
        self.desk.room.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
