//! When the agenda starts one worker more, and when it lets one end: `size` tells the rule.

use super::{Agenda, Growth, Nanos};

impl<J> Agenda<J> {
    /// Workers that the driver must start now; each is named once.
    pub fn starts(&mut self) -> Vec<usize> {
        self.staff.starts()
    }

    /// The driver could not start this worker.
    pub fn start_failed(&mut self, worker: usize) {
        self.staff.start_failed(worker);
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
        let one_comes = self.staff.one_comes();
        if ticked {
            self.staff.start(if self.load.lag_ns() > 5 * limit { 4 } else { 1 });
        } else if !one_comes {
            self.staff.start(1);
        }
    }

    /// Lets a worker that has nothing to do end, if it is one too many.
    pub(super) fn retire(&mut self, worker: usize, idle_ns: Nanos) -> bool {
        let spare = self.staff.growth().now > self.policy.workers_min.max(1);
        if !spare || idle_ns < self.policy.retire_ns {
            return false;
        }
        self.staff.retire(worker);
        true
    }
}
