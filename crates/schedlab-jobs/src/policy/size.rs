//! How many workers there are: from [`Policy::workers_min`] to [`Policy::workers`], by the load.
//!
//! One more is started when due work stays behind, nobody sleeps who could be called, and the average lag
//! exceeds [`Policy::grow_lag_ns`], or will by the time that the jobs just pulled have ended; the next
//! one when that one has come. A tick may start one more besides, and four when the lag is five times as
//! large. One that found nothing for [`Policy::retire_ns`] and that nothing waits for ends.
//!
//! Lumiera asks for the lag alone, and for 5 ms before it starts four. Its average lag is limited to
//! 5 ms, so that never comes; and a chain that is late has a lag too, but no use for more workers.

use super::Policy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Empty,
    /// Somebody was asked to start this worker.
    Starting,
    Filled,
}

/// What became of the size of a pool so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Workers now, with those that are about to start.
    pub now: usize,
    /// The largest number of workers that there was.
    pub most: usize,
    /// How many were started beyond those of the beginning.
    pub started: u64,
    /// How many ended because nothing was left for them.
    pub retired: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Staff {
    places: Vec<Place>,
    to_start: Vec<usize>,
    growth: Growth,
}

impl Staff {
    pub(super) fn new(policy: &Policy) -> Self {
        let min = policy.workers_min.clamp(1, policy.workers);
        let place = |number| if number < min { Place::Starting } else { Place::Empty };
        let growth = Growth { now: min, most: min, ..Growth::default() };
        Self { places: (0..policy.workers).map(place).collect(), to_start: Vec::new(), growth }
    }

    pub(super) fn growth(&self) -> Growth {
        self.growth
    }

    /// A worker asks for work; how many have come, if it is its first time.
    pub(super) fn arrive(&mut self, worker: usize) -> Option<u32> {
        if self.places[worker] == Place::Filled {
            return None;
        }
        self.places[worker] = Place::Filled;
        Some(self.filled())
    }

    pub(super) fn filled(&self) -> u32 {
        self.places.iter().filter(|&&place| place == Place::Filled).count() as u32
    }

    pub(super) fn is_full(&self) -> bool {
        self.growth.now == self.places.len()
    }

    pub(super) fn start(&mut self, more: usize) {
        for _ in 0..more {
            let Some(number) = self.places.iter().position(|&place| place == Place::Empty) else {
                return;
            };
            self.places[number] = Place::Starting;
            self.to_start.push(number);
            self.growth.now += 1;
            self.growth.started += 1;
            self.growth.most = self.growth.most.max(self.growth.now);
        }
    }

    fn leave(&mut self, worker: usize) {
        self.places[worker] = Place::Empty;
        self.growth.now -= 1;
    }

    /// Workers to start, each named once.
    pub(super) fn starts(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.to_start)
    }

    /// A worker could not be started.
    pub(super) fn start_failed(&mut self, worker: usize) {
        self.leave(worker);
        self.growth.started -= 1;
    }

    /// Whether somebody was asked to start a worker that has not come.
    pub(super) fn one_comes(&self) -> bool {
        self.places.contains(&Place::Starting)
    }

    /// A worker ends, since nothing is left for it.
    pub(super) fn retire(&mut self, worker: usize) {
        self.leave(worker);
        self.growth.retired += 1;
    }
}
