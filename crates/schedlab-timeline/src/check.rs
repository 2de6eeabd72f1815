//! Whether a trace is complete: what the kernel counted for tasks, beside what the events say.

use crate::change::{Change, Switch};
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId};
use schedlab_model::{Counted, Nanos, Pid, TraceInfo, Warning};
use std::collections::{BTreeMap, BTreeSet};

/// Times that differ by less are taken as equal: a reading takes some microseconds, and a waker is logged before its wakeup.
const SLACK: Nanos = Nanos(1_000_000);
/// The kernel adds up the time of a task that runs at its ticks: a reading may lack one.
const TICK: Nanos = Nanos(10_000_000);
/// A trace ends with its last event: the counters were read up to this much later, or before its first one.
const QUIET: Nanos = Nanos(100_000_000);
/// Times that differ by more than this part of the kernel's are off.
const OFF: f64 = 0.02;

/// Adds up what the counters should say.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    counted: Vec<Counted>,
    /// By pid: the place in `counted`.
    places: BTreeMap<Pid, usize>,
    sums: Vec<Sums>,
    /// Tasks whose group has a quota: since Linux 6.18 the kernel does not count their throttled time as a wait.
    limited: BTreeSet<Pid>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    task: Option<TaskId>,
    ran: Nanos,
    waited: Nanos,
    arrivals: u64,
    /// Whether it ran when its counters were read.
    ran_at_an_end: bool,
    /// Whether it waited when they were read first: the kernel adds all of that wait when it ends.
    waited_at_begin: bool,
}

/// What the kernel counted for a task, and what the events say of the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The task; `None` if no event names it.
    pub task: Option<TaskId>,
    /// What the kernel counted.
    pub counted: Counted,
    /// How long it ran by the events.
    pub ran: Nanos,
    /// How long it waited by the events; `None` if it waited already at the first reading, and where its group has a quota,
    /// since kernels differ in what they count then.
    pub waited: Option<Nanos>,
    /// How often it came to run by the events.
    pub(crate) arrivals: u64,
    /// Whether its run time or its waiting is off by more than 2 %.
    pub is_off: bool,
}

impl Checked {
    /// By how much the run time differs.
    #[must_use]
    pub const fn ran_off(&self) -> Nanos {
        Nanos(self.ran.0.abs_diff(self.counted.ran.0))
    }

    /// By how much the waiting differs; `None` where it cannot be compared.
    #[must_use]
    pub fn waited_off(&self) -> Option<Nanos> {
        self.waited.map(|waited| Nanos(waited.0.abs_diff(self.counted.waited.0)))
    }

    /// How many switches to the task the events lack.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.counted.arrivals.saturating_sub(self.arrivals)
    }
}

/// What to tell when some times are off.
pub(crate) fn warning(checked: &[Checked], state: &State) -> Option<Warning> {
    let worst = checked.iter().find(|one| one.is_off)?;
    let count = checked.iter().filter(|one| one.is_off).count();
    let missing: u64 = checked.iter().map(Checked::missing).sum();
    let name = worst.task.map_or_else(String::new, |task| format!("{} ", state.name(task)));
    let Counted { pid, ran, .. } = worst.counted;
    let what = format!(
        "times of {count} of {} tasks are off, since {missing} switches are missing; most of {name}({pid}): \
         the kernel counted {} of run time, the events have {}",
        checked.len(),
        ran.readable(),
        worst.ran.readable()
    );
    Some(Warning::new("counters-differ", what, "`schedlab trace check` lists them"))
}

impl Check {
    /// Of a trace whose counters were read.
    pub(crate) fn of(info: &TraceInfo) -> Option<Self> {
        let counted = info.counters.clone().filter(|all| !all.is_empty())?;
        let places = counted.iter().enumerate().map(|(place, one)| (one.pid, place)).collect();
        let mut limited = BTreeSet::new();
        if let Some(groups) = &info.groups {
            let count = groups.names.len() as u32;
            let under: BTreeSet<u32> =
                (0..count).filter(|group| groups.quota(*group).is_some()).collect();
            let members = groups.members.iter().filter(|member| under.contains(&member.group));
            limited.extend(members.map(|member| member.pid));
        }
        let sums = vec![Sums::default(); counted.len()];
        Some(Self { counted, places, sums, limited })
    }

    fn sums(&mut self, task: TaskId, state: &State) -> Option<(Counted, &mut Sums)> {
        let place = *self.places.get(&state.task(task).pid)?;
        let sums = &mut self.sums[place];
        sums.task = Some(task);
        Some((self.counted[place], sums))
    }

    fn ran(&mut self, task: TaskId, since: Nanos, until: Nanos, state: &State) {
        let Some((Counted { from, to, .. }, sums)) = self.sums(task, state) else { return };
        let from = from.unwrap_or_default();
        let begin = since.max(from);
        let end = until.min(to);
        if begin < end {
            sums.ran += end - begin;
        }
        let holds = |at: Nanos| since < at && at < until;
        sums.ran_at_an_end |= holds(from) || holds(to);
    }

    #[cold]
    pub(crate) fn see(&mut self, change: &Change, state: &State) {
        let Change::Switch(Switch { at, was, since, is, wait, left, .. }) = *change else { return };
        if let Occupant::Task(task) = was {
            self.ran(task, since, at, state);
        }
        if let (Some(task), Some(_)) = (is.task(), left)
            && let Some((Counted { from, to, .. }, sums)) = self.sums(task, state)
            && from.is_none_or(|from| from < at)
            && at <= to
        {
            let is_first = sums.arrivals == 0;
            sums.arrivals += 1;
            match wait {
                // The kernel counts a wait when it ends.
                Some(wait) if from.is_none_or(|from| from <= wait.since) => {
                    sums.waited += at - wait.since;
                }
                _ => sums.waited_at_begin |= is_first,
            }
        }
    }

    /// Those whose counters were read within the trace, the largest difference of run time first.
    pub(crate) fn answer(mut self, state: &State) -> Vec<Checked> {
        let end = state.window().end;
        for (id, task) in state.tasks() {
            // No event came until the counters were read, so it ran on.
            if matches!(task.activity, Activity::Running { .. }) {
                self.ran(id, task.since, Nanos::MAX, state);
            }
        }
        let Self { counted, sums, limited, .. } = self;
        let one = |(counted, sums): (Counted, Sums)| {
            let Sums { task, ran, waited, arrivals, ran_at_an_end, waited_at_begin } = sums;
            let is_unclear = waited_at_begin || limited.contains(&counted.pid);
            let waited = (!is_unclear).then_some(waited);
            let mut checked = Checked { task, counted, ran, waited, arrivals, is_off: false };
            let slack = if ran_at_an_end { SLACK + TICK } else { SLACK };
            let is_off = |off: Nanos, of: Nanos, slack: Nanos| {
                off > slack && off.0 as f64 > of.0 as f64 * OFF
            };
            checked.is_off = is_off(checked.ran_off(), counted.ran, slack)
                || checked.waited_off().is_some_and(|off| is_off(off, counted.waited, SLACK));
            checked
        };
        let within = |(counted, _): &(Counted, Sums)| {
            counted.to <= end + QUIET
                && counted.from.is_none_or(|from| from + QUIET >= state.origin())
        };
        let mut all: Vec<Checked> = counted.into_iter().zip(sums).filter(within).map(one).collect();
        all.sort_by_key(|one| (std::cmp::Reverse(one.ran_off()), one.counted.pid));
        all
    }
}
