//! Waits in `poll`, `epoll_wait` and `select`. The call does not say for which file it waits, so the next read says it:
//! the wait was for the first bytes that the task read afterwards.
//!
//! In a replay the task takes these bytes where it polled. That is the same wait only if nothing that others can see
//! lies between: a write, a wakeup or a fork there may be what the bytes answer.

use schedlab_timeline::TaskId;
use schedlab_workload::demand::Step;
use std::collections::BTreeMap;

/// The last poll of a task.
#[derive(Clone, Copy, Debug)]
struct Polled {
    call: u32,
    /// The call of the task that ended its wait.
    woken_by: Option<u32>,
    /// The index of the first step after it; `None`: it has not ended, or found nothing.
    after: Option<usize>,
}

/// The polls of all tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Polls {
    last: BTreeMap<TaskId, Polled>,
    /// A poll, and the read of what it waited for.
    pub(crate) pairs: Vec<(u32, u32)>,
}

impl Polls {
    pub(crate) fn begins(&mut self, task: TaskId, call: u32) {
        self.last.insert(task, Polled { call, woken_by: None, after: None });
    }

    /// Another task ended the wait of a poll within a call of its own.
    pub(crate) fn is_woken(&mut self, task: TaskId, by: u32) {
        if let Some(polled) = self.last.get_mut(&task) {
            polled.woken_by = Some(by);
        }
    }

    pub(crate) fn ends(&mut self, task: TaskId, found: bool, steps: usize) {
        if let Some(polled) = self.last.get_mut(&task) {
            polled.after = found.then_some(steps);
        }
    }

    /// A read moved bytes. The call that ended the wait for them, if they are what the task polled for.
    pub(crate) fn reads(&mut self, task: TaskId, read: u32, steps: &[Step]) -> Option<u32> {
        let Polled { call, woken_by, after } = self.last.remove(&task)?;
        let told = |step: &Step| matches!(step, Step::Put { .. } | Step::Post(_) | Step::Fork(_));
        if steps.get(after?..)?.iter().any(told) {
            return None;
        }
        self.pairs.push((call, read));
        woken_by
    }
}
