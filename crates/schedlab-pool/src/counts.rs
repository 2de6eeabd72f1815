//! What became of jobs, counted by each thread apart.

use crate::job::Stage;
use crate::sync::{Apart, AtomicU64, this_thread};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// What became of the jobs so far. At the end [`Counts::ended`] is [`Counts::posted`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Number of jobs that the pool took.
    pub posted: u64,
    /// Number of jobs that ended well.
    pub done: u64,
    /// Number of jobs whose completion said so, or was dropped.
    pub failed: u64,
    /// Number of jobs that ended in a panic.
    pub panicked: u64,
    /// Cancelled on request, with their stream, or because the pool stopped.
    pub cancelled: u64,
    /// Number of jobs that did not run because one that they depend on did not end well.
    pub dependency_failed: u64,
    /// Number of jobs that were dropped because they were too late to start.
    pub too_late: u64,
    /// Number of jobs that were shed.
    pub shed: u64,
    /// Number of jobs that were too late to start, run or not.
    pub late_starts: u64,
    /// Number of jobs that started in time and ended after their deadline.
    pub ended_late: u64,
}

impl Counts {
    /// Number of jobs that ended, in whichever way.
    pub fn ended(&self) -> u64 {
        let dropped = self.cancelled + self.dependency_failed + self.too_late + self.shed;
        self.done + self.failed + self.panicked + dropped
    }
}

/// How many ends there are: from [`Stage::Done`] on.
const ENDS: usize = Stage::Shed as usize - Stage::Done as usize + 1;

/// What one thread counts.
#[derive(Default)]
struct Slot {
    posted: AtomicU64,
    /// Of those, how many were given back.
    refused: AtomicU64,
    /// Up to this number of postings the backlog need not be counted.
    checked: AtomicU64,
    ends: [AtomicU64; ENDS],
    late_starts: AtomicU64,
    ended_late: AtomicU64,
}

/// A backlog of this size or less is counted at each posting.
const SMALL: u64 = 4096;
/// Otherwise a thread counts it once in this many postings.
const STRIDE: u64 = 64;

/// Other threads share so many slots.
const OTHERS: usize = 8;

/// One slot for each worker, and some for all other threads.
pub(crate) struct Counters {
    slots: Vec<Apart<Slot>>,
    workers: usize,
    most: u64,
}

impl Counters {
    pub(crate) fn new(workers: usize, most: usize) -> Self {
        let slots = (0..workers + OTHERS).map(|_| Apart::default()).collect();
        Self { slots, workers, most: most as u64 }
    }

    fn slot(&self, at: Option<usize>) -> &Slot {
        let at = at.unwrap_or_else(|| self.workers + this_thread() % OTHERS);
        &self.slots[at].0
    }

    /// Takes places in the backlog for this many jobs; false when it has no room.
    pub(crate) fn reserve(&self, jobs: u64, at: Option<usize>) -> bool {
        let slot = self.slot(at);
        let posted = slot.posted.fetch_add(jobs, SeqCst) + jobs;
        if posted <= slot.checked.load(Relaxed) {
            return true;
        }
        let live = self.live();
        if live > self.most {
            self.give_back(jobs, at);
            return false;
        }
        if self.most > SMALL {
            let share = (self.most - live) / self.slots.len() as u64;
            slot.checked.store(posted + share.min(STRIDE), Relaxed);
        }
        true
    }

    /// Gives places back that were not used.
    pub(crate) fn give_back(&self, jobs: u64, at: Option<usize>) {
        self.slot(at).refused.fetch_add(jobs, SeqCst);
    }

    /// Counts a job that ended. Its stage has been set before.
    pub(crate) fn end(&self, end: Stage, at: Option<usize>) {
        let which = end as usize - Stage::Done as usize;
        self.slot(at).ends[which].fetch_add(1, SeqCst);
    }

    pub(crate) fn starts_late(&self, at: Option<usize>) {
        self.slot(at).late_starts.fetch_add(1, Relaxed);
    }

    pub(crate) fn ends_late(&self, at: Option<usize>) {
        self.slot(at).ended_late.fetch_add(1, Relaxed);
    }

    /// Jobs that have not ended, counted from above while others post.
    pub(crate) fn live(&self) -> u64 {
        // Ends are read first: both only grow, so equal sums were equal at a moment in between.
        let ended: u64 = self.sum(|slot| {
            let ends = slot.ends.iter().map(|end| end.load(SeqCst)).sum::<u64>();
            ends + slot.refused.load(SeqCst)
        });
        self.sum(|slot| slot.posted.load(SeqCst)) - ended
    }

    fn sum(&self, of: impl Fn(&Slot) -> u64) -> u64 {
        self.slots.iter().map(|slot| of(&slot.0)).sum()
    }

    pub(crate) fn counts(&self) -> Counts {
        let end = |end: Stage| {
            let which = end as usize - Stage::Done as usize;
            self.sum(|slot| slot.ends[which].load(SeqCst))
        };
        let mut counts = Counts {
            done: end(Stage::Done),
            failed: end(Stage::Failed),
            panicked: end(Stage::Panicked),
            cancelled: end(Stage::Cancelled),
            dependency_failed: end(Stage::Dependency),
            too_late: end(Stage::TooLate),
            shed: end(Stage::Shed),
            late_starts: self.sum(|slot| slot.late_starts.load(Relaxed)),
            ended_late: self.sum(|slot| slot.ended_late.load(Relaxed)),
            posted: 0,
        };
        let refused = self.sum(|slot| slot.refused.load(SeqCst));
        counts.posted = self.sum(|slot| slot.posted.load(SeqCst)) - refused;
        counts
    }
}
