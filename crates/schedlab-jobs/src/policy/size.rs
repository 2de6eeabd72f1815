//! How many workers there are: from [`Policy::workers_min`] to [`Policy::workers`], by the load.
//!
//! One more is started when due work stays behind, nobody sleeps who could be called, and the average lag
//! exceeds [`Policy::grow_lag_ns`], or will by the time that the jobs just pulled have ended; the next
//! one when that one has come. A tick may start one more besides, and four when the lag is five times as
//! large. One that found nothing for [`Policy::retire_ns`] and that nothing waits for ends.
//!
//! Lumiera asks for the lag alone, and for 5 ms before it starts four. Its average lag is limited to
//! 5 ms, so that never comes; and a chain that is late has a lag too, but no use for more workers.

use super::{Agenda, Nanos, Policy};

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
    /// The most there were.
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
    fn arrive(&mut self, worker: usize) -> Option<u32> {
        if self.places[worker] == Place::Filled {
            return None;
        }
        self.places[worker] = Place::Filled;
        Some(self.filled())
    }

    pub(super) fn filled(&self) -> u32 {
        self.places.iter().filter(|&&place| place == Place::Filled).count() as u32
    }

    fn is_full(&self) -> bool {
        self.growth.now == self.places.len()
    }

    fn start(&mut self, more: usize) {
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
}

impl<J> Agenda<J> {
    /// Workers that the driver must start now; each is named once.
    pub fn starts(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.staff.to_start)
    }

    /// The driver could not start this worker.
    pub fn start_failed(&mut self, worker: usize) {
        self.staff.leave(worker);
        self.staff.growth.started -= 1;
    }

    /// What became of the pool's size.
    pub fn growth(&self) -> Growth {
        self.staff.growth()
    }

    pub(super) fn arrive(&mut self, worker: usize) -> Option<u32> {
        self.staff.arrive(worker)
    }

    /// Starts workers if due work stays behind (at `head`) though nobody sleeps; the jobs just pulled
    /// take `ahead_ns`.
    pub(super) fn grow(&mut self, now: Nanos, head: Option<Nanos>, ahead_ns: Nanos, ticked: bool) {
        let waits = head.is_some_and(|head| head <= now);
        if self.staff.is_full() || !waits || self.sleepers.iter().any(Option::is_some) {
            return;
        }
        let lag_ns = self.load.lag_ns().saturating_add_unsigned(ahead_ns);
        let limit = self.policy.grow_lag_ns as i64;
        if lag_ns <= limit {
            return;
        }
        let one_comes = self.staff.places.contains(&Place::Starting);
        if ticked {
            self.staff.start(if self.load.lag_ns() > 5 * limit { 4 } else { 1 });
        } else if !one_comes {
            self.staff.start(1);
        }
    }

    /// Lets a worker that has nothing to do end, if it is one too many.
    pub(super) fn retire(&mut self, worker: usize, idle_ns: Nanos) -> bool {
        let spare = self.staff.growth.now > self.policy.workers_min.max(1);
        if !spare || idle_ns < self.policy.retire_ns {
            return false;
        }
        self.staff.leave(worker);
        self.staff.growth.retired += 1;
        true
    }
}
