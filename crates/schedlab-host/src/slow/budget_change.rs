//! A change of how often budgets come, so timed that a node gets no CPU time twice.
//!
//! The kernel gives a new budget when one is written, and again when the period ends that was under way
//! (`tg_set_cfs_bandwidth` and `do_sched_cfs_period_timer` in `kernel/sched`). So a new period is written just before
//! one ends, where the node waits for its next budget anyway. When that is, is known once a budget has been seen to
//! come.
//!
//! A budget also comes before its gap. So in the mean over a period P a node is ahead of its speed s by s (1 - s) P / 2,
//! which is a point of a second at 80 % and 125 ms. The first budget of a new period is smaller by as much as the node
//! is ahead at its end and by this half of a gap. After it the node is ahead as often as behind.

use super::Speed;
use schedlab_model::Nanos;

/// How long before the next budget the new one is written.
const EARLY: Nanos = Nanos::from_micros(500);
/// How often is looked whether a budget has come, and how exactly its time must be known.
const LOOK: Nanos = Nanos::from_micros(250);
const EXACT: Nanos = Nanos::from_millis(1);
/// For how long a budget is awaited, beside three periods.
const PATIENCE: Nanos = Nanos::from_millis(50);
pub(super) const LEAST: Nanos = Nanos::from_millis(1);

pub(super) fn budget(speed: Speed, period: Nanos) -> Nanos {
    Nanos(period.0 - speed.lost(period.0))
}

/// How far a node is ahead of its speed in the mean over a period, if it begins with a full budget.
fn ahead(speed: Speed, period: Nanos) -> i64 {
    let had = u128::from(budget(speed, period).0);
    let lost = u128::from(speed.lost(period.0));
    i64::try_from(had * lost / u128::from(period.0.max(1)) / 2).unwrap_or(0)
}

/// How much more CPU time a node has had than its part of the time, in nanoseconds, and when that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Surplus {
    pub(super) at: Nanos,
    pub(super) used: Nanos,
    pub(super) more: i64,
}

impl Surplus {
    /// The same soon after its tasks came. They began with a full budget, so they have computed since they came.
    pub(super) fn starting(self, at: Nanos, used: Nanos, speed: Speed) -> Self {
        let took = Nanos(used.0.saturating_sub(self.used.0));
        let more = i64::try_from(speed.lost(took.0)).unwrap_or(0);
        Self { at, used, more }
    }

    /// The same at a later moment. A node that slept has no credit: it is behind by `least` at most.
    fn later(self, at: Nanos, used: Nanos, speed: Speed, least: i64) -> Self {
        let took = i64::try_from(used.0.saturating_sub(self.used.0)).unwrap_or(0);
        let had = budget(speed, Nanos(at.0.saturating_sub(self.at.0)));
        let more = self.more + took - i64::try_from(had.0).unwrap_or(0);
        Self { at, used, more: more.max(least) }
    }
}

/// What is written: a budget, how often it comes, and whether that ends the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) budget: Nanos,
    pub(super) period: Nanos,
    pub(super) last: bool,
}

/// How often budgets come, before a change and after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Periods {
    pub(super) speed: Speed,
    pub(super) from: Nanos,
    pub(super) to: Nanos,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// `budgets` had come at this moment.
    Awaiting {
        budgets: u64,
        at: Nanos,
    },
    /// It comes at the moment `next`, after `budgets` of them.
    Timed {
        budgets: u64,
        next: Nanos,
    },
    First,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    periods: Periods,
    /// The kernel charges a task at its ticks, so a budget lasts half of one longer in the mean.
    tick: Nanos,
    stage: Stage,
    pub(super) due: Nanos,
    /// When to write without knowing: budgets come only while somebody runs.
    limit: Nanos,
}

impl Change {
    /// Begins one, `from` a period `to` another one, at the number of `budgets` that have come.
    pub(super) fn begin(periods: Periods, tick: Nanos, now: Nanos, budgets: u64) -> Self {
        let stage = Stage::Awaiting { budgets, at: now };
        let limit = now + PATIENCE + Nanos(periods.from.0 * 3);
        Self { periods, tick, stage, due: now + LOOK, limit }
    }

    /// Goes on, and returns what is to be written now. `used` reads the CPU time that the node has used until now.
    pub(super) fn step(
        &mut self,
        now: Nanos,
        budgets: u64,
        used: &dyn Fn() -> Nanos,
        lead: &mut Surplus,
    ) -> Option<Write> {
        match self.stage {
            Stage::Awaiting { .. } if now >= self.limit => Some(self.last(now, used(), lead)),
            Stage::Awaiting { budgets: before, at } => {
                let came = budgets != before && (now - at) <= EXACT;
                let next = at + self.periods.from;
                self.stage = match came {
                    true => Stage::Timed { budgets, next },
                    false => Stage::Awaiting { budgets, at: now },
                };
                self.due = if came { next - EARLY } else { now + LOOK };
                None
            }
            // Also too late: the period in force is the new one, so all that is given twice is what was used since.
            Stage::First => Some(self.last(now, used(), lead)),
            // Too late: it has come. When the next one does is seen anew.
            Stage::Timed { budgets: before, next } if budgets > before || now >= next => {
                self.stage = Stage::Awaiting { budgets, at: now };
                self.due = now + LOOK;
                None
            }
            Stage::Timed { next, .. } => {
                self.stage = Stage::First;
                self.due = next + self.periods.to - EARLY;
                Some(self.smaller(now, used(), lead))
            }
        }
    }

    fn smaller(&self, now: Nanos, used: Nanos, lead: &mut Surplus) -> Write {
        let Periods { speed, from, to } = self.periods;
        let half = i64::try_from(self.tick.0 / 2).unwrap_or(0);
        *lead = lead.later(now, used, speed, -ahead(speed, from) - half);
        let extra = half + i64::try_from(EARLY.0).unwrap_or(0);
        let less = u64::try_from(lead.more + ahead(speed, to) + extra).unwrap_or(0);
        let full = budget(speed, to);
        let budget = Nanos(full.0.saturating_sub(less)).max(LEAST.min(full));
        Write { budget, period: to, last: false }
    }

    /// The budget of all later periods. It ends the change.
    fn last(&self, now: Nanos, used: Nanos, lead: &mut Surplus) -> Write {
        let Periods { speed, to, .. } = self.periods;
        *lead = lead.later(now, used, speed, -ahead(speed, to));
        Write { budget: budget(speed, to), period: to, last: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Nanos = Nanos::from_micros(50);
    const TICK: Nanos = Nanos::from_millis(4);

    /// Budgets of one CPU as Linux 6.18 gives them, to a task that always wants to run.
    struct Kernel {
        now: Nanos,
        period: Nanos,
        quota: Nanos,
        /// When the period under way ends: one that is written begins only then.
        ends: Nanos,
        /// What is left of the budget. It gets negative, since a task is charged at ticks.
        left: i64,
        /// What the task used since it was charged last.
        uncharged: i64,
        throttled: bool,
        budgets: u64,
        used: Nanos,
    }

    impl Kernel {
        fn new(speed: Speed, period: Nanos, phase: Nanos) -> Self {
            let quota = budget(speed, period);
            let left = i64::try_from(quota.0).unwrap();
            Self {
                now: Nanos::ZERO,
                period,
                quota,
                ends: phase,
                left,
                uncharged: 0,
                throttled: false,
                budgets: 0,
                used: Nanos::ZERO,
            }
        }

        fn write(&mut self, write: Write) {
            (self.period, self.quota) = (write.period, write.budget);
            self.left = i64::try_from(self.quota.0).unwrap();
            self.throttled = false;
        }

        fn step(&mut self) {
            let step = i64::try_from(STEP.0).unwrap();
            if !self.throttled {
                self.used += STEP;
                self.uncharged += step;
            }
            self.now += STEP;
            if self.now.0.is_multiple_of(TICK.0) {
                self.left -= std::mem::take(&mut self.uncharged);
                self.throttled = self.left <= 0;
            }
            if self.now >= self.ends {
                self.budgets += 1;
                self.ends += self.period;
                // What was used too much is taken from the next one.
                self.left = self.left.min(0) + i64::try_from(self.quota.0).unwrap();
                self.throttled = self.left <= 0;
            }
        }

        /// How far it is ahead of a speed.
        fn ahead(&self, speed: Speed) -> f64 {
            self.used.0 as f64 - self.now.0 as f64 * speed.fraction()
        }
    }

    /// When changes are made: at once, or timed and each written so long after it was decided.
    #[derive(Clone, Copy)]
    enum How {
        AtOnce,
        Timed(Nanos),
    }

    /// Changes from 10 ms to 20 and 50, and what a task has then: how far it is ahead of its speed in the mean of 200 ms, in
    /// milliseconds of work at full speed, and the part of the next 200 ms that it computes.
    fn after_changes(speed: Speed, phase: Nanos, how: How) -> (f64, f64) {
        let ms = Nanos::from_millis;
        let mut kernel = Kernel::new(speed, ms(10), phase);
        let mut lead = Surplus { at: Nanos::ZERO, used: Nanos::ZERO, more: 0 };
        for (from, to) in [(10, 20), (20, 50)] {
            let from = ms(from);
            let to = ms(to);
            (0..ms(100).0 / STEP.0).for_each(|_| kernel.step());
            let How::Timed(stolen) = how else {
                kernel.write(Write { budget: budget(speed, to), period: to, last: true });
                continue;
            };
            let periods = Periods { speed, from, to };
            let mut change = Change::begin(periods, TICK, kernel.now, kernel.budgets);
            let most = kernel.now + ms(1_000);
            loop {
                assert!(kernel.now < most, "it never ends");
                while kernel.now < change.due {
                    kernel.step();
                }
                let now = kernel.now;
                let used = kernel.used;
                let Some(write) = change.step(now, kernel.budgets, &|| used, &mut lead) else {
                    continue;
                };
                (0..stolen.0 / STEP.0).for_each(|_| kernel.step());
                kernel.write(write);
                if write.last {
                    break;
                }
            }
        }
        let steps = ms(200).0 / STEP.0;
        let leads = (0..steps).map(|_| {
            kernel.step();
            kernel.ahead(speed) / 1e6 * speed.fraction()
        });
        let mean = leads.sum::<f64>() / steps as f64;
        let used = kernel.used;
        (0..steps).for_each(|_| kernel.step());
        (mean, (kernel.used - used).0 as f64 / ms(200).0 as f64)
    }

    /// The means of these over ten phases of budgets.
    fn means(speed: Speed, how: How) -> (f64, f64) {
        let phases = (0..10).map(|phase| Nanos::from_micros(phase * 950 + 400));
        let all: Vec<_> = phases.map(|phase| after_changes(speed, phase, how)).collect();
        let mean = |of: fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>() / 10.0;
        (mean(|of| of.0), mean(|of| of.1))
    }

    #[test]
    fn a_node_is_ahead_as_often_as_behind_after_changes() {
        for percent in [20, 50, 80] {
            let speed = Speed::percent(percent).unwrap();
            let ((timed, _), (at_once, _)) =
                (means(speed, How::Timed(Nanos::ZERO)), means(speed, How::AtOnce));
            // 6 ms are a point of a run of 0.6 s.
            println!("{percent} %: {timed:.2} ms, {at_once:.2} ms where it is written at once");
            assert!(timed.abs() < 2.4, "{percent} %: {timed}");
            assert!(at_once > 2.8, "{percent} %: {at_once}");
        }
    }

    #[test]
    fn a_change_that_is_written_too_late_ends_all_the_same() {
        for percent in [20, 50, 80] {
            let speed = Speed::percent(percent).unwrap();
            let (lead, rate) = means(speed, How::Timed(Nanos::from_millis(3)));
            println!("{percent} %: {lead:.2} ms ahead, then {:.1} %", rate * 100.0);
            assert!((rate - speed.fraction()).abs() < 0.03, "{percent} %: {rate}");
        }
    }
}
