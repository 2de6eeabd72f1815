//! Which tasks are asked about.
//!
//! A task is chosen by its pid or by the name that it has at the end, so who is chosen is known only after
//! a pass ([`EveryTask`]). Numbers of tasks are the same in every pass over the same part of a trace, so a second
//! pass then counts the chosen ones alone, exactly, with memory for those alone.

use crate::change::Change;
use crate::question::Question;
use crate::state::State;
use crate::task::TaskId;
use schedlab_model::Pid;

/// The tasks that a question is about: all, or some by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// By number; `None` is all.
    some: Option<Vec<bool>>,
}

impl Chosen {
    /// A filter that chooses all tasks.
    #[must_use]
    pub const fn all() -> Self {
        Self { some: None }
    }

    /// A filter that chooses the tasks of `state` for which `keep` holds, given the task, its pid and its name.
    #[must_use]
    pub fn of(state: &State, keep: impl Fn(TaskId, Pid, &str) -> bool) -> Self {
        let kept = state.tasks().map(|(id, task)| keep(id, task.pid, &state.name(id)));
        Self { some: Some([false].into_iter().chain(kept).collect()) }
    }

    /// Whether a task is chosen.
    #[inline]
    #[must_use]
    pub fn has(&self, task: TaskId) -> bool {
        match &self.some {
            None => true,
            Some(some) => some.get(task.index()).copied().unwrap_or(false),
        }
    }

    /// Whether no choice was made.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.some.is_none()
    }

    /// How many are chosen; `None` is all.
    #[must_use]
    pub fn count(&self) -> Option<usize> {
        self.some.as_ref().map(|some| some.iter().filter(|chosen| **chosen).count())
    }
}

/// Asks only who there is: the reply's state knows every task's pid and name at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryTask;

impl Question for EveryTask {
    type Answer = ();
    const QUEUES: bool = false;

    fn see(&mut self, _: &Change, _: &State) {}

    fn answer(self, _: &State) {}
}
