//! Which workers sleep, until when, and whom to wake.
//!
//! At most one wake is under way at a time: a worker that was woken searches, and whoever posts meanwhile leaves it to
//! that worker. The searcher that finds a job and leaves others behind wakes the next one.

use crate::job::{NEVER, Nanos};
use crate::sync::{AtomicUsize, Mutex, fence, lock};
// Nothing is decided by it, so loom need not try its orders.
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

struct Sleeper {
    worker: usize,
    /// A start that the worker keeps, or never.
    until: Nanos,
}

/// The workers that sleep.
pub(crate) struct Parking {
    idle: AtomicUsize,
    searching: AtomicUsize,
    sleepers: Mutex<Vec<Sleeper>>,
    /// By worker, when another took it off the list since it went to sleep; 0: none did. Written with the list locked.
    called: Vec<AtomicU64>,
}

impl Parking {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            idle: AtomicUsize::new(0),
            searching: AtomicUsize::new(0),
            sleepers: Mutex::new(Vec::new()),
            called: (0..workers).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Who has to be woken because there is a new job. Call it after the job is where workers look.
    pub(crate) fn announce(&self, now: impl Fn() -> Nanos) -> Option<usize> {
        // A worker that goes to sleep says so, and then looks once more: one of both sees the other.
        fence(SeqCst);
        let asleep = self.idle.load(SeqCst) > 0;
        (asleep && self.searching.load(SeqCst) == 0).then(|| self.wake_one(now)).flatten()
    }

    /// Takes one worker off the list: one without a start to keep, or else that of the latest. It counts as searching.
    /// `now` is the time that the worker hears ([`Parking::unpark`]).
    pub(crate) fn wake_one(&self, now: impl Fn() -> Nanos) -> Option<usize> {
        let mut sleepers = lock(&self.sleepers);
        let latest = (0..sleepers.len()).max_by_key(|&at| sleepers[at].until)?;
        let worker = sleepers.remove(latest).worker;
        // Before anybody can see that it searches, and leaves a job to it.
        self.called[worker].store(now(), Relaxed);
        self.searching.fetch_add(1, SeqCst);
        self.idle.fetch_sub(1, SeqCst);
        Some(worker)
    }

    /// A worker begins to search.
    pub(crate) fn search(&self) {
        self.searching.fetch_add(1, SeqCst);
    }

    /// A worker has found a job; whether it was the last one that searched, so that it has to look for more.
    pub(crate) fn found(&self) -> bool {
        let last = self.searching.fetch_sub(1, SeqCst) == 1;
        fence(SeqCst);
        last
    }

    /// Puts a worker that searches on the list: it keeps the first of `starts` (ascending) that nobody keeps, and that
    /// is returned. `starts` are one more than there are sleepers, if there are so many.
    pub(crate) fn park(&self, worker: usize, starts: &[Nanos]) -> Nanos {
        let mut sleepers = lock(&self.sleepers);
        let kept_by = |start| sleepers.iter().filter(|sleeper| sleeper.until <= start).count();
        let mut ranked = starts.iter().enumerate();
        let until = ranked.find(|&(rank, &start)| kept_by(start) <= rank);
        let until = until.map_or(NEVER, |(_, &start)| start);
        sleepers.push(Sleeper { worker, until });
        self.called[worker].store(0, Relaxed);
        self.idle.fetch_add(1, SeqCst);
        self.searching.fetch_sub(1, SeqCst);
        drop(sleepers);
        fence(SeqCst);
        until
    }

    /// Takes a worker off the list that was not woken by another. It searches in any case. When it was woken by another;
    /// 0: it was not.
    pub(crate) fn unpark(&self, worker: usize) -> Nanos {
        let mut sleepers = lock(&self.sleepers);
        if let Some(at) = sleepers.iter().position(|sleeper| sleeper.worker == worker) {
            sleepers.remove(at);
            self.searching.fetch_add(1, SeqCst);
            self.idle.fetch_sub(1, SeqCst);
        }
        self.called[worker].load(Relaxed)
    }

    /// Whether a sleeper has to be woken to keep this start, since nobody does.
    pub(crate) fn is_open(&self, start: Nanos) -> bool {
        self.idle.load(SeqCst) > 0 && !lock(&self.sleepers).iter().any(|s| s.until <= start)
    }

    pub(crate) fn asleep(&self) -> usize {
        self.idle.load(SeqCst)
    }
}
