//! The constant bandwidth server: a budget and a deadline, replenished each period (Linux 6.1 and 6.12,
//! kernel/sched/deadline.c).

use crate::policy_view::{Reservation, ratio};

/// What is left of a reservation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    /// Time left; below 0 after an overrun.
    pub(super) runtime: i64,
    /// The absolute deadline in nanoseconds.
    pub(super) deadline: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    /// The budget and its deadline are kept.
    Unchanged,
    /// It is cut to what fits before its deadline.
    Cut,
    /// A new period begins.
    New,
}

impl Budget {
    /// Starts a new period (`replenish_dl_new_period`).
    pub(super) fn renew(&mut self, of: &Reservation, now: u64) {
        self.runtime = of.runtime as i64;
        self.deadline = now + of.deadline;
    }

    /// `dl_entity_overflow`: whether what is left would exceed the bandwidth. The kernel drops ten bits of each time.
    pub(super) fn overflows(&self, of: &Reservation, now: u64) -> bool {
        let left = i128::from(of.deadline >> 10) * i128::from(self.runtime >> 10);
        let until = (i128::from(self.deadline) - i128::from(now)) >> 10;
        until * i128::from(of.runtime >> 10) < left
    }

    /// `update_dl_entity`. `keeps` cuts the budget of an implicit deadline too.
    pub(super) fn wakes(&mut self, of: &Reservation, now: u64, keeps: bool) -> Renewal {
        // One that has never had a deadline begins its first period.
        let past = self.deadline < now || self.deadline == 0;
        if !past && !self.overflows(of, now) {
            return Renewal::Unchanged;
        }
        if !past && (keeps || !of.is_implicit()) {
            let density = u128::from(ratio(of.deadline, of.runtime));
            let cut = (density * u128::from(self.deadline - now)) >> 20;
            self.runtime = i64::try_from(cut).unwrap_or(i64::MAX);
            return Renewal::Cut;
        }
        self.renew(of, now);
        Renewal::New
    }

    /// Adds budget for the periods that passed (`replenish_dl_entity`).
    pub(super) fn replenish(&mut self, of: &Reservation, now: u64) {
        while self.runtime <= 0 {
            self.deadline += of.period;
            self.runtime += of.runtime.max(1) as i64;
        }
        if self.deadline < now {
            self.renew(of, now);
        }
    }

    /// The time at which the next period begins (`dl_next_period`).
    pub(super) fn next_period(&self, of: &Reservation) -> u64 {
        self.deadline + of.period - of.deadline
    }

    /// `dl_check_constrained_dl`: it wakes after its deadline and before its next period.
    pub(super) fn is_early(&self, of: &Reservation, now: u64) -> bool {
        !of.is_implicit() && self.deadline < now && now < self.next_period(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_wakeup_keeps_cuts_or_renews_the_budget() {
        let implicit = Reservation { runtime: 2 * MS, deadline: 10 * MS, period: 10 * MS };
        let constrained = Reservation { deadline: 5 * MS, ..implicit };
        let left = Budget { runtime: MS as i64, deadline: 20 * MS };
        // 1 ms in 10 ms fits into 2 of 10; in 2 ms it does not.
        let at = |of: &Reservation, now: u64, keeps: bool| {
            let mut budget = left;
            (budget.wakes(of, now, keeps), budget.runtime as u64, budget.deadline)
        };
        assert_eq!(at(&implicit, 10 * MS, false), (Renewal::Unchanged, MS, 20 * MS));
        assert_eq!(at(&implicit, 18 * MS, false), (Renewal::New, 2 * MS, 28 * MS));
        // A deadline of 5 ms: 0.4 of the 2 ms that are left.
        let (renewal, runtime, deadline) = at(&constrained, 18 * MS, false);
        assert_eq!((renewal, deadline), (Renewal::Cut, 20 * MS));
        assert!(runtime.abs_diff(800_000) < 10, "{runtime}");
        assert_eq!(at(&implicit, 18 * MS, true).0, Renewal::Cut);
        assert_eq!(at(&implicit, 21 * MS, true).0, Renewal::New);
    }

    #[test]
    fn an_overrun_is_paid_with_later_deadlines() {
        let of = Reservation { runtime: 2 * MS, deadline: 10 * MS, period: 10 * MS };
        let mut budget = Budget { runtime: -3 * MS as i64, deadline: 20 * MS };
        budget.replenish(&of, 20 * MS);
        assert_eq!((budget.runtime, budget.deadline), (MS as i64, 40 * MS));
        assert_eq!(of.bandwidth(), (1 << 20) / 5);
    }
}
