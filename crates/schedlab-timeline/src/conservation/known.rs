//! What the names of tasks tell, looked at once for each name.

use crate::names::CommId;
use crate::state::State;
use crate::task::TaskId;

/// What is known of each name.
#[derive(Debug, Default)]
pub(super) struct Known(Vec<Option<bool>>);

impl Known {
    /// Whether a task is one of those that `test` tells by their names alone.
    pub(super) fn has(
        &mut self,
        task: TaskId,
        state: &State,
        test: fn(&State, TaskId) -> bool,
    ) -> bool {
        let CommId(number) = state.task(task).comm;
        let at = number as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, None);
        }
        *self.0[at].get_or_insert_with(|| test(state, task))
    }
}
