//! Which tasks are stoppers: the threads `migration/N`, which run above everything and move tasks.

use crate::names::CommId;
use crate::state::State;
use crate::task::TaskId;

/// What is known of each name, looked at once.
#[derive(Debug, Default)]
pub(super) struct Stoppers(Vec<Option<bool>>);

impl Stoppers {
    /// Whether a task is a stopper, by its name.
    pub(super) fn has(&mut self, task: TaskId, state: &State) -> bool {
        let name = state.task(task).comm;
        let CommId(number) = name;
        let at = number as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, None);
        }
        *self.0[at].get_or_insert_with(|| state.names().comm(name).starts_with(b"migration/"))
    }
}
