//! In which control group each task is, as the trace tells.

use crate::state::State;
use crate::task::TaskId;
use schedlab_model::{Groups, Nanos, Pid};
use std::collections::BTreeMap;

/// The groups of tasks over time. A task of which the trace tells nothing is in the group of the task that created it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Membership {
    /// By pid: from when on it is in which group, ascending.
    by_pid: BTreeMap<Pid, Vec<(Nanos, u32)>>,
    /// By task: its group, and until when that holds.
    known: Vec<Known>,
    parents: Vec<TaskId>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    group: Option<u32>,
    until: Nanos,
}

/// Families of tasks are not deeper than this, except where pids contradict each other.
const DEPTH_MAX: usize = 64;

impl Membership {
    pub(crate) fn new(groups: Option<&Groups>) -> Self {
        let mut by_pid = BTreeMap::<Pid, Vec<(Nanos, u32)>>::new();
        for member in groups.map_or(&[][..], |groups| &groups.members) {
            by_pid.entry(member.pid).or_default().push((member.at, member.group));
        }
        Self { by_pid, known: Vec::new(), parents: Vec::new() }
    }

    /// Remembers who created a task.
    pub(crate) fn born(&mut self, task: TaskId, parent: TaskId) {
        if task.index() >= self.parents.len() {
            self.parents.resize(task.index() + 1, TaskId::NONE);
        }
        self.parents[task.index()] = parent;
    }

    /// Takes over who created whom from an older one of the same tasks.
    pub(crate) fn keep_families(&mut self, older: &mut Self) {
        self.parents = std::mem::take(&mut older.parents);
    }

    /// Tasks have new numbers. What was learnt of one without a number is forgotten.
    pub(crate) fn renumber(&mut self, numbers: &[TaskId]) {
        let parents = std::mem::take(&mut self.parents);
        for (number, parent) in numbers.iter().zip(parents) {
            if number.is_some() {
                self.born(*number, numbers.get(parent.index()).copied().unwrap_or(TaskId::NONE));
            }
        }
        self.known.clear();
    }

    /// The group of a task now; `None` if that is not known.
    #[inline]
    pub(crate) fn of(&mut self, task: TaskId, state: &State) -> Option<u32> {
        match self.known.get(task.index()) {
            Some(known) if state.now() < known.until => known.group,
            _ => self.learn(task, state),
        }
    }

    #[cold]
    fn learn(&mut self, task: TaskId, state: &State) -> Option<u32> {
        let known = self.look(task, state);
        if task.index() >= self.known.len() {
            let nothing = Known { group: None, until: Nanos::ZERO };
            self.known.resize(task.index() + 1, nothing);
        }
        self.known[task.index()] = known;
        known.group
    }

    fn look(&self, task: TaskId, state: &State) -> Known {
        let mut at = task;
        for _ in 0..DEPTH_MAX {
            if let Some(told) = self.by_pid.get(&state.task(at).pid) {
                let later = told.partition_point(|(since, _)| *since <= state.now());
                let group = told.get(later.saturating_sub(1)).map(|(_, group)| *group);
                let until = told.get(later.max(1)).map_or(Nanos::MAX, |(since, _)| *since);
                return Known { group, until };
            }
            match self.parents.get(at.index()).copied().filter(|parent| parent.is_some()) {
                Some(parent) => at = parent,
                None => break,
            }
        }
        Known { group: None, until: Nanos::MAX }
    }
}
