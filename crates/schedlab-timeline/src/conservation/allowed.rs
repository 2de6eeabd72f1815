//! Where tasks may run, by class: all tasks that may use the same CPUs are alike.

use crate::state::State;
use crate::task::TaskId;
use schedlab_model::{Affinity, Cpu, CpuSet, Nanos, Pid};
use std::collections::BTreeMap;

/// Tasks that may use the same CPUs: an index into [`Allowed::masks`].
pub(crate) type ClassId = u32;

/// Tasks of unknown affinity: every CPU is taken to be allowed.
pub(crate) const UNKNOWN: ClassId = 0;

/// What the trace told of affinity, and who created whom.
#[derive(Debug)]
pub(crate) struct Allowed {
    /// By class; that of [`UNKNOWN`] is `None`.
    pub(crate) masks: Vec<Option<CpuSet>>,
    by_pid: Option<BTreeMap<Pid, Vec<(Nanos, ClassId)>>>,
    parents: Vec<TaskId>,
    /// When the class of some pid becomes another, latest first.
    turns: Vec<Nanos>,
}

impl Allowed {
    pub(crate) fn new(entries: Option<&Vec<Affinity>>) -> Self {
        let mut allowed =
            Self { masks: vec![None], by_pid: None, parents: Vec::new(), turns: Vec::new() };
        let Some(entries) = entries else { return allowed };
        let mut classes = BTreeMap::new();
        let mut by_pid = BTreeMap::<Pid, Vec<(Nanos, ClassId)>>::new();
        for Affinity { pid, at, allowed: mask } in entries {
            let next = allowed.masks.len() as ClassId;
            let class = *classes.entry(mask).or_insert(next);
            if class == next {
                allowed.masks.push(Some(mask.clone()));
            }
            let told = by_pid.entry(*pid).or_default();
            if told.last().is_some_and(|(_, last)| *last != class) {
                allowed.turns.push(*at);
            }
            told.push((*at, class));
        }
        allowed.turns.sort_unstable_by(|a, b| b.cmp(a));
        allowed.by_pid = Some(by_pid);
        allowed
    }

    /// Whether the trace came with any affinity.
    pub(crate) const fn is_told(&self) -> bool {
        self.by_pid.is_some()
    }

    /// Whether tasks of a class may use no other CPU than `cpu`.
    pub(crate) fn has_only(&self, class: ClassId, cpu: Cpu) -> bool {
        let mask = self.masks[class as usize].as_ref();
        mask.is_some_and(|mask| mask.len() == 1 && mask.contains(cpu))
    }

    /// Remembers a creator: a new task has its affinity.
    pub(crate) fn born(&mut self, task: TaskId, parent: TaskId) {
        if task.index() >= self.parents.len() {
            self.parents.resize(task.index() + 1, TaskId::NONE);
        }
        self.parents[task.index()] = parent;
    }

    /// Whether the class of some task may have become another since [`Self::turned`].
    pub(crate) fn turns_by(&self, now: Nanos) -> bool {
        self.turns.last().is_some_and(|turn| *turn <= now)
    }

    /// The same, until the next time.
    pub(crate) fn turned(&mut self, now: Nanos) -> bool {
        let before = self.turns.len();
        while self.turns_by(now) {
            self.turns.pop();
        }
        self.turns.len() < before
    }

    /// The class of a task now.
    pub(crate) fn class_of(&self, task: TaskId, state: &State) -> ClassId {
        let Some(by_pid) = &self.by_pid else { return UNKNOWN };
        let mut at = task;
        // Each creator is older, so this ends; a depth beyond this is no real family.
        for _ in 0..64 {
            if let Some(told) = by_pid.get(&state.task(at).pid) {
                let after = told.partition_point(|(since, _)| *since <= state.now());
                return told.get(after.saturating_sub(1)).map_or(UNKNOWN, |(_, class)| *class);
            }
            match self.parents.get(at.index()).copied().filter(|parent| parent.is_some()) {
                Some(parent) => at = parent,
                None => return UNKNOWN,
            }
        }
        UNKNOWN
    }
}
