//! What a trace covers, and how exact each figure is that is drawn from it.
//!
//! A reader hands over [`Coverage`]: for each kind of event whether the file holds all of them, some, or none. The state
//! machine adds what it met on the way (losses, CPUs out of sight) and gives [`Known`]. A column or a total declares what it
//! needs ([`Need`]); [`Known::of`] says whether the figure is exact, a bound, or not known.

use crate::bound::Bound;
use crate::{Kind, Nanos};

/// How much of the events of one kind a file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cover {
    /// The file does not say. If such an event comes, all of them were recorded.
    #[default]
    Unsaid,
    /// All of them, but for losses that the file reports.
    Complete,
    /// Some of them, chosen by a rate or a period.
    Sampled,
    /// Those that chosen tasks logged.
    ByTask,
    /// None.
    Absent,
}

/// What a file covers, as its reader knows it: by kind of event. The CPUs are those of
/// [`crate::TraceInfo::cpus`], the unit of time is that of [`crate::TraceInfo::clock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    kinds: [Cover; Kind::ALL.len()],
    /// Number of events that the file holds and that the reader could not understand, so far.
    pub left_out: u64,
}

impl Coverage {
    /// How much of this kind the file holds.
    #[must_use]
    pub const fn of(&self, kind: Kind) -> Cover {
        self.kinds[kind as usize]
    }

    /// Notes how much of this kind the file holds. Of two statements about one kind the worse counts.
    pub fn set(&mut self, kind: Kind, cover: Cover) {
        let known = &mut self.kinds[kind as usize];
        if matches!(*known, Cover::Unsaid | Cover::Complete) {
            *known = cover;
        }
    }

    /// Whether events of this kind are a part of what happened on a CPU.
    #[must_use]
    pub const fn is_partial(&self, kind: Kind) -> bool {
        matches!(self.of(kind), Cover::Sampled | Cover::ByTask)
    }
}

/// What a figure needs to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// How long a task ran, or any sum of such times.
    RunTime,
    /// How long a CPU was busy or idle.
    CpuTime,
    /// A mean over the time of a CPU.
    CpuMean,
    /// The number and the distribution of the slices of a task.
    Slices,
    /// The longest slice of a task.
    LongestSlice,
    /// How often a task left its CPU.
    Switches,
    /// How often tasks left their CPUs, summed over tasks.
    AllSwitches,
    /// How often a CPU switched.
    CpuSwitches,
    /// How often a task was woken.
    Wakeups,
    /// How many wakeups put a task on a CPU.
    CpuWakeups,
    /// How long tasks waited, how often, and the longest of these waits.
    WaitTime,
    /// The distribution of waits.
    Waits,
    /// The sum, the number and the longest of waits after wakeups.
    WokenTime,
    /// The distribution of waits after wakeups.
    Woken,
    /// How long a task was not runnable.
    SleepTime,
    /// Who woke a task.
    Wakers,
    /// How often a task moved to another CPU.
    Migrations,
    /// How many tasks moved to a CPU.
    Arrivals,
    /// For how long who waited on which CPU.
    Queues,
    /// How many waited on a CPU at once.
    QueueLength,
    /// How many tasks ran at an instant.
    Running,
    /// How many tasks waited at an instant.
    Waiting,
    /// A mean over all CPUs.
    Machine,
    /// CPU time that was lost while tasks waited.
    LostTime,
    /// How many stretches of lost CPU time there are, and what caused them.
    Episodes,
}

/// What is known of a trace at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// How much the trace holds of `sched_switch`; never [`Cover::Unsaid`], as the three below.
    pub switches: Cover,
    /// The same of `sched_waking`.
    pub wakings: Cover,
    /// The same of `sched_waking` or `sched_wakeup`, of which one suffices.
    pub wakes: Cover,
    /// The same of `sched_wakeup`, with `sched_migrate_task` to place a wakeup without it.
    pub placements: Cover,
    /// The same of `sched_migrate_task`.
    pub migrations: Cover,
    /// Whether events are missing at some places: lost, or not understood.
    pub gaps: bool,
    /// Whether tasks were on CPUs that the trace does not cover.
    pub parts: bool,
    /// Whether some tasks ran without a wakeup, or new tasks without their first one.
    pub unwoken: bool,
    /// Time for which events name another task than the one last seen.
    pub contradicted: Nanos,
    /// Whether times are ticks of a counter, and no nanoseconds.
    pub ticks: bool,
    /// Whether tasks began to run that were taken to run on another CPU still.
    pub overlaps: bool,
    /// Whether it is known if an interrupt woke a task or the task that it interrupted.
    pub contexts: bool,
    /// Time between `sched_waking` and the waker's next event, in which the kernel chose a CPU: so long the woken tasks may
    /// have been taken to wait on another one, or too early. Zero where `sched_wakeup` tells both.
    pub misplaced: Nanos,
}

impl Known {
    /// All of a trace is known.
    pub(crate) const ALL: Self = Self {
        switches: Cover::Complete,
        wakings: Cover::Complete,
        wakes: Cover::Complete,
        placements: Cover::Complete,
        migrations: Cover::Complete,
        gaps: false,
        parts: false,
        unwoken: false,
        contradicted: Nanos::ZERO,
        ticks: false,
        overlaps: false,
        contexts: true,
        misplaced: Nanos::ZERO,
    };

    /// How exact a figure is that needs this; `None` if it is not known at all.
    #[must_use]
    pub fn of(&self, need: Need) -> Option<Bound> {
        let whole = !self.gaps && !self.parts;
        let at_least = |exact: bool| Some(if exact { Bound::Exact } else { Bound::AtLeast });
        let is = |cover: Cover| cover == Cover::Complete;
        let switches = is(self.switches);
        let wakes = is(self.wakes);
        let placed = is(self.placements) && is(self.migrations);
        // Without `sched_wakeup` a woken task is taken to wait on its last CPU until a migration moves it.
        let assumed = self.misplaced > Nanos::ZERO;
        let waits_but_late = whole && wakes && !self.unwoken;
        let waits = waits_but_late && is(self.wakings);
        match need {
            Need::RunTime if self.switches == Cover::ByTask => Some(Bound::AtLeast),
            Need::AllSwitches if self.switches == Cover::ByTask => Some(Bound::AtLeast),
            Need::Wakeups if self.wakes == Cover::ByTask => Some(Bound::AtLeast),
            Need::Switches if self.switches == Cover::ByTask => at_least(whole),
            // A wakeup of a task that was not seen to run before is taken for another one of the same wait.
            Need::Wakeups if wakes => at_least(waits && switches),
            Need::CpuWakeups if wakes && is(self.placements) && !assumed => {
                at_least(waits && switches)
            }
            Need::Wakers if wakes && self.contexts => at_least(whole && !self.unwoken),
            Need::Arrivals if is(self.migrations) => at_least(whole),
            Need::Migrations if is(self.migrations) => at_least(whole),
            _ if !switches => None,
            Need::RunTime => self.run_time(whole),
            Need::CpuTime => self.run_time(!self.gaps),
            Need::CpuMean => Some(Bound::Exact).filter(|_| !self.gaps),
            Need::Slices => Some(Bound::Exact).filter(|_| whole),
            Need::LongestSlice if self.gaps && self.overlaps => None,
            Need::LongestSlice | Need::Switches | Need::AllSwitches => at_least(whole),
            Need::CpuSwitches => at_least(!self.gaps),
            Need::WaitTime => at_least(waits),
            Need::WokenTime if wakes => at_least(waits),
            Need::Woken | Need::Waits if wakes && whole => at_least(is(self.wakings)),
            Need::SleepTime if wakes && !self.parts && is(self.wakings) => {
                at_least(whole && !self.unwoken)
            }
            // The sleep ends later then.
            Need::SleepTime if waits_but_late => Some(Bound::AtMost),
            Need::Waiting if whole => at_least(waits),
            Need::Migrations => Some(Bound::AtLeast),
            Need::Queues | Need::LostTime if placed && assumed && waits => {
                Some(Bound::Within(self.misplaced.0 as f64))
            }
            // Waits of tasks that ran unwoken are missing; those that are there are placed to within microseconds.
            Need::Queues | Need::LostTime
                if placed && assumed && whole && wakes && is(self.wakings) =>
            {
                Some(Bound::AtLeast)
            }
            // A gap is noticed when it is over: until then its CPU's queue was taken to wait.
            Need::Queues if placed && !self.gaps => at_least(waits),
            Need::QueueLength if placed && !assumed && !self.gaps => at_least(waits),
            // A CPU to which a wakeup is on its way is not free.
            Need::LostTime if placed && (is(self.wakings) || !wakes) => at_least(waits),
            Need::Machine => Some(Bound::Exact).filter(|_| whole),
            Need::Running if !self.gaps => at_least(whole),
            Need::Episodes if placed && waits && self.contexts && !assumed => Some(Bound::Exact),
            _ => None,
        }
    }

    fn run_time(&self, whole: bool) -> Option<Bound> {
        if self.gaps && self.overlaps {
            return None;
        }
        Some(match self.contradicted {
            _ if !whole => Bound::AtLeast,
            Nanos::ZERO => Bound::Exact,
            Nanos(ns) => Bound::Within(ns as f64),
        })
    }

    /// Whether figures may be other than those of a complete trace.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        Self { contexts: true, ticks: false, ..*self } != Self::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_of_two_statements_about_a_kind_counts() {
        let mut coverage = Coverage::default();
        coverage.set(Kind::Switch, Cover::Complete);
        coverage.set(Kind::Switch, Cover::Sampled);
        coverage.set(Kind::Switch, Cover::Complete);
        assert_eq!(coverage.of(Kind::Switch), Cover::Sampled);
        assert!(coverage.is_partial(Kind::Switch) && !coverage.is_partial(Kind::Waking));
    }

    #[test]
    fn a_figure_is_exact_a_bound_or_unknown_by_what_it_needs() {
        let all = Known::ALL;
        let of = |known: Known, need| known.of(need);
        assert_eq!(of(all, Need::Episodes), Some(Bound::Exact));
        let gaps = Known { gaps: true, ..all };
        assert_eq!(of(gaps, Need::RunTime), Some(Bound::AtLeast), "a total becomes a bound");
        assert_eq!(of(gaps, Need::Waits), None);
        let sampled = Known { switches: Cover::Sampled, wakes: Cover::Absent, ..all };
        let needs = [Need::RunTime, Need::WaitTime, Need::Slices, Need::LostTime, Need::CpuTime];
        assert!(needs.iter().all(|need| of(sampled, *need).is_none()));
        let task = Known { switches: Cover::ByTask, ..all };
        assert_eq!(
            [of(task, Need::RunTime), of(task, Need::CpuTime)],
            [Some(Bound::AtLeast), None]
        );
        let silent = Known { wakes: Cover::Absent, wakings: Cover::Absent, ..all };
        assert_eq!(
            [of(silent, Need::WaitTime), of(silent, Need::Woken)],
            [Some(Bound::AtLeast), None]
        );
        let wakeups = Known { wakings: Cover::Absent, ..all };
        assert_eq!(of(wakeups, Need::Woken), Some(Bound::AtLeast), "waits begin later");
        let flags = Known { contexts: false, ..all };
        assert_eq!(
            [of(flags, Need::Wakers), of(flags, Need::WaitTime)],
            [None, Some(Bound::Exact)]
        );
        let disputed = Known { contradicted: Nanos(5), ..all };
        assert_eq!(of(disputed, Need::RunTime), Some(Bound::Within(5.0)));
    }
}
