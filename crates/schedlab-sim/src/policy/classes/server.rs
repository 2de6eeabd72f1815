//! The fair server of a CPU (Linux 6.12.117, kernel/sched/deadline.c, `dl_server_*` with `dl_defer`): fair tasks that
//! real-time tasks starve get 50 ms of each second, at the end of the second.
//!
//! Time in which fair tasks run anyway, or in which the CPU idles, is paid from the same budget. So a server whose
//! fair tasks get their time never acts.

use super::budget::{Budget, Renewal};
use crate::policy_view::Reservation;

/// A server's time is not put off for less than this (`dl_server_min_res`).
const LEAST: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Server {
    pub(super) budget: Budget,
    /// It is on, since the first fair task came.
    pub(super) active: bool,
    /// It has to wait: until it is needed, or until its next period.
    throttled: bool,
    /// It waits until it is needed.
    armed: bool,
    /// Fair tasks starved in this period or the last.
    running: bool,
    /// Among the entities that may run.
    pub(super) queued: bool,
    /// When it looks again.
    pub(super) timer: Option<u64>,
}

impl Server {
    fn begins_period(&mut self, of: &Reservation, now: u64) {
        self.budget.renew(of, now);
        if !self.running {
            self.throttled = true;
            self.armed = true;
        }
    }

    /// `start_dl_timer`: whether there is time left to wait.
    fn waits(&mut self, of: &Reservation, now: u64) -> bool {
        let at = match self.armed {
            true => self.budget.deadline.saturating_add_signed(-self.budget.runtime),
            false => self.budget.next_period(of),
        };
        if at < now {
            return false;
        }
        self.timer = self.timer.or(Some(at));
        true
    }

    fn joins(&mut self, of: &Reservation, now: u64) {
        if self.throttled && self.waits(of, now) {
            return;
        }
        if self.throttled {
            self.timer = None;
            self.armed = false;
            self.throttled = false;
        }
        self.queued = true;
    }

    /// `dl_server_start`: a fair task came to a CPU that had none. Whether the server was off; then the CPU looks who should
    /// run, although the server most often waits.
    pub(super) fn start(&mut self, of: &Reservation, now: u64) -> bool {
        if self.active || of.runtime == 0 {
            return false;
        }
        self.active = true;
        let running = self.running;
        match self.budget.wakes(of, now, running) {
            Renewal::New => {
                self.running = false;
                self.begins_period(of, now);
            }
            Renewal::Unchanged if !running => (self.armed, self.throttled) = (true, true),
            Renewal::Unchanged | Renewal::Cut => {}
        }
        self.joins(of, now);
        true
    }

    /// Stops the fair server (`dl_server_stop`).
    pub(super) fn stop(&mut self) {
        self.queued = false;
        self.timer = None;
        self.armed = false;
        self.throttled = false;
        self.active = false;
    }

    /// `update_curr_dl_se`: fair tasks ran for a time. Whether the server has to make room.
    pub(super) fn pays(&mut self, of: &Reservation, now: u64, time: u64) -> bool {
        if !self.active || of.runtime == 0 {
            return false;
        }
        self.budget.runtime -= time as i64;
        if self.budget.runtime > 0 {
            return false;
        }
        if self.throttled {
            self.running = false;
            self.timer = None;
            self.begins_period(of, now);
            self.waits(of, now);
            return false;
        }
        self.throttled = true;
        self.queued = false;
        if !self.waits(of, now) {
            self.replenish(of, now);
        }
        true
    }

    /// `dl_server_update_idle_time`: the CPU idled.
    pub(super) fn pays_idle(&mut self, time: u64) {
        if self.budget.runtime < 0 {
            return;
        }
        self.budget.runtime -= time as i64;
        if self.budget.runtime < 0 {
            self.running = false;
            self.budget.runtime = 0;
        }
    }

    /// `replenish_dl_entity` and the end of `enqueue_dl_entity`.
    fn replenish(&mut self, of: &Reservation, now: u64) {
        if self.armed && self.budget.overflows(of, now) {
            self.budget.renew(of, now);
        }
        self.budget.replenish(of, now);
        self.throttled = false;
        if std::mem::take(&mut self.armed) {
            return self.joins(of, now);
        }
        let latest = self.budget.deadline.saturating_add_signed(-self.budget.runtime);
        if !self.running && now < latest {
            self.armed = true;
            self.throttled = true;
            if !self.waits(of, now) {
                self.timer = None;
                self.armed = false;
                self.throttled = false;
            }
        }
        self.joins(of, now);
    }

    /// `dl_server_timer`: whether the server may run from now on.
    pub(super) fn fires(&mut self, of: &Reservation, now: u64) -> bool {
        self.timer = None;
        if !self.throttled || of.runtime == 0 {
            return false;
        }
        if self.armed {
            let latest = self.budget.deadline.saturating_add_signed(-self.budget.runtime);
            if now < latest.saturating_sub(LEAST) {
                self.timer = Some(latest);
                return false;
            }
            self.running = true;
        }
        self.replenish(of, now);
        self.queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const OF: Reservation =
        Reservation { runtime: 50 * MS, deadline: 1_000 * MS, period: 1_000 * MS };

    #[test]
    fn a_starved_server_acts_at_the_end_of_its_second() {
        let mut server = Server::default();
        server.start(&OF, 0);
        assert_eq!((server.timer, server.queued), (Some(950 * MS), false));
        assert!(server.fires(&OF, 950 * MS) && server.queued);
        // Its 50 ms are over: it waits for its next period, which began as it acted.
        assert!(server.pays(&OF, 1_000 * MS, 50 * MS));
        assert_eq!((server.timer, server.queued), (Some(1_950 * MS), false));
        assert!(server.fires(&OF, 1_950 * MS));
        assert_eq!(server.budget.deadline, 2_950 * MS);
    }

    #[test]
    fn a_server_whose_tasks_run_is_put_off() {
        let mut server = Server::default();
        server.start(&OF, 0);
        assert!(!server.pays(&OF, 20 * MS, 20 * MS));
        // 20 ms of the budget are used: it is needed 20 ms later.
        assert!(!server.fires(&OF, 950 * MS));
        assert_eq!(server.timer, Some(970 * MS));
        assert!(!server.pays(&OF, 960 * MS, 30 * MS));
        assert_eq!(server.timer, Some(960 * MS + 950 * MS));
        server.stop();
        assert_eq!((server.timer, server.active), (None, false));
    }
}
