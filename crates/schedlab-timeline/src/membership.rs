//! In which control group each task is, as the trace tells.

use crate::state::State;
use crate::task::TaskId;
use schedlab_model::{Groups, Nanos, Pid, Span};
use std::collections::BTreeMap;

/// The groups of tasks over time. A task of which the trace tells nothing yet is in the group in which its creator was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Membership {
    /// By pid: from when on it is in which group, ascending.
    by_pid: BTreeMap<Pid, Vec<(Nanos, u32)>>,
    /// By task: its group, and until when that holds.
    known: Vec<Known>,
    /// By task: the group of its creator when it was created, or who that was if that is not known.
    origins: Vec<Origin>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    group: Option<u32>,
    until: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
enum Origin {
    #[default]
    Unknown,
    In(u32),
    Of(TaskId),
}

/// Families of tasks are not deeper than this, except where pids contradict each other.
const DEPTH_MAX: usize = 64;

impl Membership {
    pub(crate) fn new(groups: Option<&Groups>) -> Self {
        let mut by_pid = BTreeMap::<Pid, Vec<(Nanos, u32)>>::new();
        for member in groups.map_or(&[][..], |groups| &groups.members) {
            by_pid.entry(member.pid).or_default().push((member.at, member.group));
        }
        Self { by_pid, known: Vec::new(), origins: Vec::new() }
    }

    /// Remembers who created a task.
    pub(crate) fn born(&mut self, task: TaskId, parent: TaskId, state: &State) {
        if task.index() >= self.origins.len() {
            self.origins.resize(task.index() + 1, Origin::Unknown);
        }
        let group = self.of(parent, state);
        self.origins[task.index()] = group.map_or(Origin::Of(parent), Origin::In);
        if let Some(known) = self.known.get_mut(task.index()) {
            known.until = Nanos::ZERO;
        }
    }

    /// Takes over who created whom from an older one of the same tasks.
    pub(crate) fn keep_families(&mut self, older: &mut Self) {
        self.origins = std::mem::take(&mut older.origins);
    }

    /// Groups have new numbers, or are gone.
    pub(crate) fn renumber_groups(&mut self, new: impl Fn(u32) -> Option<u32>) {
        for origin in &mut self.origins {
            if let Origin::In(group) = *origin {
                *origin = new(group).map_or(Origin::Unknown, Origin::In);
            }
        }
        self.known.clear();
    }

    /// Tasks have new numbers. What was learnt of one without a number is forgotten.
    pub(crate) fn renumber(&mut self, numbers: &[TaskId]) {
        let count = numbers.iter().map(|number| number.index() + 1).max().unwrap_or(0);
        let origins = std::mem::replace(&mut self.origins, vec![Origin::Unknown; count]);
        for (number, origin) in numbers.iter().zip(origins).filter(|(number, _)| number.is_some()) {
            self.origins[number.index()] = match origin {
                Origin::Of(parent) => match numbers.get(parent.index()) {
                    Some(parent) if parent.is_some() => Origin::Of(*parent),
                    _ => Origin::Unknown,
                },
                known => known,
            };
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

    /// The groups of a task during a span that ends now, in order of time.
    pub(crate) fn during(
        &self,
        task: TaskId,
        span: Span,
        state: &State,
    ) -> impl Iterator<Item = (Option<u32>, Nanos)> + use<'_> {
        let pid = state.task(task).pid;
        let mut at = span.start;
        std::iter::from_fn(move || {
            let Known { group, until } = (at < span.end).then(|| self.look(task, pid, at))?;
            let until = until.min(span.end);
            let time = until - at;
            at = until;
            Some((group, time))
        })
    }

    /// When tasks come to other groups, by pid, latest first.
    pub(crate) fn moves(&self) -> Vec<(Nanos, Pid)> {
        let later = |(pid, told): (&Pid, &Vec<(Nanos, u32)>)| {
            let pid = *pid;
            told.iter().filter(|(at, _)| *at > Nanos::ZERO).map(move |(at, _)| (*at, pid)).collect()
        };
        let mut all: Vec<(Nanos, Pid)> =
            self.by_pid.iter().map(later).collect::<Vec<Vec<_>>>().concat();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all
    }

    #[cold]
    fn learn(&mut self, task: TaskId, state: &State) -> Option<u32> {
        let known = self.look(task, state.task(task).pid, state.now());
        if task.index() >= self.known.len() {
            let nothing = Known { group: None, until: Nanos::ZERO };
            self.known.resize(task.index() + 1, nothing);
        }
        self.known[task.index()] = known;
        known.group
    }

    fn look(&self, task: TaskId, pid: Pid, now: Nanos) -> Known {
        let told = self.by_pid.get(&pid).map_or(&[][..], Vec::as_slice);
        let later = told.partition_point(|(since, _)| *since <= now);
        let until = told.get(later).map_or(Nanos::MAX, |(since, _)| *since);
        if let Some((_, group)) = later.checked_sub(1).and_then(|last| told.get(last)) {
            return Known { group: Some(*group), until };
        }
        // Of a task that was not seen to be created, the first look tells what was before.
        let group = self.inherited(task).or_else(|| told.first().map(|(_, group)| *group));
        Known { group, until }
    }

    fn inherited(&self, task: TaskId) -> Option<u32> {
        let mut at = task;
        for _ in 0..DEPTH_MAX {
            match self.origins.get(at.index()).copied().unwrap_or_default() {
                Origin::In(group) => return Some(group),
                Origin::Of(parent) => at = parent,
                Origin::Unknown => return None,
            }
        }
        None
    }
}
