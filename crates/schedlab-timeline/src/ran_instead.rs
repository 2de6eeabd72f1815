//! Who ran while a task waited: a second look at a trace, once it is known which waits matter.
//!
//! A wait can be as long as a trace, and what ran meanwhile is known only from all switches in it; to remember
//! those for each wait that may turn out to be one of the worst would take memory without bound. So the worst
//! waits are found in one pass ([`crate::Worst`]) and looked into in another.

use crate::change::{Change, Switch, concerned};
use crate::longest_waits::WorstWait;
use crate::question::Question;
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId};
use schedlab_model::{Cpu, Nanos};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Asks what was on the CPUs on whose queues tasks stood during some waits of theirs.
#[derive(Clone, Debug)]
pub struct RanInstead {
    waits: Vec<Looked>,
    /// By task: its waits, by their place in the list.
    of: BTreeMap<TaskId, Vec<usize>>,
    /// By CPU: the waits that stand on its queue now.
    queued: Vec<Vec<usize>>,
}

/// A wait that is looked into.
#[derive(Clone, Debug)]
struct Looked {
    since: Nanos,
    /// On whose queue it stands, and since when what is there has not been counted yet.
    on: Option<(Cpu, Nanos)>,
    ran: BTreeMap<TaskId, Nanos>,
    idle: Nanos,
    unknown: Nanos,
}

/// What was on a task's CPU while it waited. All together is the wait's length, but for the time between
/// `sched_waking` and `sched_wakeup`, in which it stood on no queue, and for what lay before the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meanwhile {
    /// Who ran there and how long, longest first.
    pub ran: Vec<(TaskId, Nanos)>,
    /// How long the CPU idled: it was on its way to the task.
    pub idle: Nanos,
    /// How long nothing is known of.
    pub unknown: Nanos,
}

impl Meanwhile {
    pub(crate) fn of(ran: BTreeMap<TaskId, Nanos>, idle: Nanos, unknown: Nanos) -> Self {
        let mut ran: Vec<(TaskId, Nanos)> = ran.into_iter().collect();
        ran.sort_by_key(|(task, time)| (Reverse(*time), *task));
        Self { ran, idle, unknown }
    }

    /// The sum of all parts: the length of the wait, as far as it lay in the window.
    #[must_use]
    pub fn time(&self) -> Nanos {
        self.ran.iter().fold(self.idle + self.unknown, |sum, (_, time)| sum + *time)
    }
}

impl RanInstead {
    /// About these waits of an earlier pass over the same part of the same trace.
    #[must_use]
    pub fn of(waits: &[WorstWait]) -> Self {
        let mut of = BTreeMap::<TaskId, Vec<usize>>::new();
        for (place, wait) in waits.iter().enumerate() {
            of.entry(wait.task).or_default().push(place);
        }
        let looked = |wait: &WorstWait| {
            let (on, ran, idle, unknown) = Default::default();
            Looked { since: wait.since, on, ran, idle, unknown }
        };
        Self { waits: waits.iter().map(looked).collect(), of, queued: Vec::new() }
    }

    /// A task may wait, or on another queue, or no longer.
    fn follow(&mut self, task: TaskId, at: Nanos, state: &State) {
        let Some(places) = self.of.get(&task) else { return };
        let known = state.task(task);
        for place in places.iter().copied() {
            let wait = &mut self.waits[place];
            let on = match known.activity {
                Activity::Waiting { cpu, placed: true, .. } if known.since == wait.since => {
                    Some(cpu)
                }
                _ => None,
            };
            if on == wait.on.map(|(cpu, _)| cpu) {
                continue;
            }
            if let Some((cpu, from)) = wait.on.take() {
                if let Some(here) = state.cpu(cpu) {
                    wait.count(here.occupant, from.max(here.since), at);
                }
                self.queued[cpu.index()].retain(|other| *other != place);
            }
            if let Some(cpu) = on {
                wait.on = Some((cpu, at));
                if cpu.index() >= self.queued.len() {
                    self.queued.resize(cpu.index() + 1, Vec::new());
                }
                self.queued[cpu.index()].push(place);
            }
        }
    }
}

impl Looked {
    fn count(&mut self, occupant: Occupant, from: Nanos, to: Nanos) {
        let time = to - from;
        match occupant {
            Occupant::Task(task) if time > Nanos::ZERO => {
                *self.ran.entry(task).or_default() += time;
            }
            Occupant::Task(_) => {}
            Occupant::Idle => self.idle += time,
            Occupant::Unknown => self.unknown += time,
        }
    }
}

impl Question for RanInstead {
    /// In the order of the waits that were asked about.
    type Answer = Vec<Meanwhile>;
    const QUEUES: bool = false;

    fn begin(&mut self, state: &State) {
        for (task, _) in state.tasks() {
            self.follow(task, state.window().start, state);
        }
    }

    fn see(&mut self, change: &Change, state: &State) {
        if let Change::Switch(Switch { at, cpu, was, since, .. }) = *change
            && let Some(queued) = self.queued.get(cpu.index())
        {
            for place in queued {
                let wait = &mut self.waits[*place];
                if let Some((_, from)) = &mut wait.on {
                    let begin = std::mem::replace(from, at).max(since);
                    wait.count(was, begin, at);
                }
            }
        }
        for task in concerned(change).into_iter().filter(|task| task.is_some()) {
            self.follow(task, change.at(), state);
        }
    }

    fn answer(mut self, state: &State) -> Vec<Meanwhile> {
        for wait in &mut self.waits {
            if let Some((cpu, from)) = wait.on.take()
                && let Some(here) = state.cpu(cpu)
            {
                wait.count(here.occupant, from.max(here.since), state.window().end);
            }
        }
        let told = |wait: Looked| Meanwhile::of(wait.ran, wait.idle, wait.unknown);
        self.waits.into_iter().map(told).collect()
    }
}
