//! What control groups got: run time and waits of their tasks, each instant in the group in which the task was then.

use crate::change::{Change, Switch};
use crate::latency::{Delays, Waits};
use crate::membership::Membership;
use crate::question::Question;
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId};
use crate::task_filter::Chosen;
use schedlab_model::{Groups, Nanos, Span};
use std::collections::{BTreeMap, BTreeSet};

/// Asks what control groups got.
#[derive(Debug)]
pub struct ByGroup {
    membership: Membership,
    chosen: Chosen,
    sums: BTreeMap<Option<u32>, Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    tasks: BTreeSet<TaskId>,
    ran: Nanos,
    waits: Waits,
}

/// What the tasks of a control group got while they were in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfGroup {
    /// Tasks that ran or waited in it.
    pub tasks: u64,
    /// How long they ran.
    pub ran: Nanos,
    /// How long they waited; a wait counts for the group in which it ended.
    pub delays: Delays,
}

impl ByGroup {
    /// A question about chosen tasks in the groups that a trace tells of.
    #[must_use]
    pub fn new(groups: Option<&Groups>, chosen: Chosen) -> Self {
        Self { membership: Membership::new(groups), chosen, sums: BTreeMap::new() }
    }

    fn ran(&mut self, task: TaskId, from: Nanos, to: Nanos, state: &State) {
        let span = Span::new(from.max(state.window().start), to);
        if !self.chosen.has(task) || span.start >= span.end {
            return;
        }
        for (group, time) in self.membership.during(task, span, state) {
            let sums = self.sums.entry(group).or_default();
            sums.ran += time;
            sums.tasks.insert(task);
        }
    }

    fn now(&mut self, task: TaskId, state: &State) -> Option<&mut Sums> {
        if !self.chosen.has(task) {
            return None;
        }
        let sums = self.sums.entry(self.membership.of(task, state)).or_default();
        sums.tasks.insert(task);
        Some(sums)
    }
}

impl Question for ByGroup {
    /// By the index of the group; `None` is tasks of which no group is known.
    type Answer = BTreeMap<Option<u32>, OfGroup>;
    const QUEUES: bool = false;

    fn see(&mut self, change: &Change, state: &State) {
        match *change {
            Change::Born { task, parent, .. } => self.membership.born(task, parent, state),
            Change::Switch(Switch { at, was, since, is, wait, .. }) => {
                if let Occupant::Task(task) = was {
                    self.ran(task, since, at, state);
                }
                if let (Some(task), Some(wait)) = (is.task(), wait)
                    && let Some(sums) = self.now(task, state)
                {
                    sums.waits.record(wait, at);
                }
            }
            Change::Forgotten { task, was: Activity::Waiting { .. }, .. } => {
                if let Some(sums) = self.now(task, state) {
                    sums.waits.unfinished += 1;
                }
            }
            _ => {}
        }
    }

    fn answer(mut self, state: &State) -> Self::Answer {
        let end = state.window().end;
        for (id, task) in state.tasks() {
            match task.activity {
                Activity::Running { .. } => self.ran(id, task.since, end, state),
                Activity::Waiting { .. } => {
                    if let Some(sums) = self.now(id, state) {
                        sums.waits.record_open(task, end);
                    }
                }
                _ => {}
            }
        }
        let told = |(group, sums): (_, Sums)| {
            let Sums { tasks, ran, waits } = sums;
            (group, OfGroup { tasks: tasks.len() as u64, ran, delays: waits.delays() })
        };
        self.sums.into_iter().map(told).collect()
    }
}

/// Asks which control group each task was in at the end; the answer is by number of the task.
#[derive(Clone, Debug)]
pub struct InGroups(Membership);

impl InGroups {
    /// A question about the groups that a trace tells of.
    #[must_use]
    pub fn new(groups: Option<&Groups>) -> Self {
        Self(Membership::new(groups))
    }
}

impl Question for InGroups {
    type Answer = Vec<Option<u32>>;
    const QUEUES: bool = false;

    fn see(&mut self, change: &Change, state: &State) {
        if let Change::Born { task, parent, .. } = *change {
            self.0.born(task, parent, state);
        }
    }

    fn answer(mut self, state: &State) -> Self::Answer {
        let last = state.task_count() as u32;
        (0..=last).map(|task| self.0.of(TaskId(task), state)).collect()
    }
}
