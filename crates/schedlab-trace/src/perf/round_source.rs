//! Where the rounds of a perf.data come from: the caller's thread, or a thread that reads ahead.
//!
//! The rounds are the same. Memory beside waiting rounds: [`READY`] plus one of what is handed over at
//! once, which is a round, or several small ones with [`HANDED`] records together.

use super::round::Round;
use super::round_reader::RoundReader;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// What is kept ready.
const READY: usize = 1;
/// Records below which handing over costs more than it gains.
const HANDED: usize = 8192;
/// Rounds that are handed over at once at most: each has something for every CPU.
const ROUNDS_MAX: usize = 16;

/// Gives one round after the other.
pub(super) enum RoundSource {
    Here(Box<RoundReader>),
    Ahead(Line),
    /// Reading has ended with an error.
    Over,
}

/// What joins the two threads.
pub(super) struct Line {
    full: Receiver<io::Result<Vec<Round>>>,
    /// Rounds that were handed out, to be filled again.
    empty: Sender<Round>,
    ready: VecDeque<Round>,
    thread: Option<JoinHandle<()>>,
}

impl RoundSource {
    /// Goes on on a thread of its own.
    pub(super) fn start(self) -> Self {
        let Self::Here(reader) = self else { return self };
        let (sender, full) = sync_channel(READY);
        let (empty, emptied) = channel();
        // The thread is given the reader once it is there: one that is not started would take it along.
        let (give, given) = channel::<Box<RoundReader>>();
        let life = move || {
            if let Ok(reader) = given.recv() {
                read(*reader, &sender, &emptied);
            }
        };
        let Ok(thread) = std::thread::Builder::new().name("rounds".to_owned()).spawn(life) else {
            return Self::Here(reader);
        };
        if let Err(unsent) = give.send(reader) {
            return Self::Here(unsent.0);
        }
        Self::Ahead(Line { full, empty, ready: VecDeque::new(), thread: Some(thread) })
    }

    /// Replaces `round`, which is empty, by the next one.
    pub(super) fn next(&mut self, round: &mut Round) -> io::Result<()> {
        let result = match self {
            Self::Here(reader) => reader.take(round),
            Self::Ahead(line) => line.next(round),
            Self::Over => Err(io::Error::other("reading has ended with an error")),
        };
        if result.is_err() {
            *self = Self::Over;
        }
        result
    }
}

impl Line {
    fn next(&mut self, round: &mut Round) -> io::Result<()> {
        if self.ready.is_empty() {
            let panicked = |_| io::Error::other("a reading thread panicked");
            self.ready = self.full.recv().map_err(panicked)??.into();
        }
        if let Some(next) = self.ready.pop_front() {
            // A thread that has ended needs no round.
            let _ = self.empty.send(std::mem::replace(round, next));
        }
        Ok(())
    }
}

/// Takes rounds up until the last one, or until nobody listens.
fn read(
    mut reader: RoundReader,
    full: &SyncSender<io::Result<Vec<Round>>>,
    empty: &Receiver<Round>,
) {
    let mut more = true;
    while more {
        let mut rounds = Vec::new();
        let mut count = 0;
        while more && count < HANDED && rounds.len() < ROUNDS_MAX {
            let mut round = empty.try_recv().unwrap_or_default();
            if let Err(error) = reader.take(&mut round) {
                // What came before it is handed out first.
                let _ = full.send(Ok(rounds)).and_then(|()| full.send(Err(error)));
                return;
            }
            more = round.ended.is_none();
            // Lanes take memory of their own, and CPUs are what a file says they are.
            count += round.count + round.lanes.len();
            rounds.push(round);
        }
        more &= full.send(Ok(rounds)).is_ok();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The one that waits for room then learns that nobody listens.
        self.full = channel().1;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
