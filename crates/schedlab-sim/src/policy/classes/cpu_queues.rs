//! What a CPU has above its fair tasks.

use super::server::Server;
use crate::policy_view::TaskId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    Task(TaskId),
    /// The server of fair tasks.
    Server,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Current {
    #[default]
    Idle,
    Fair,
    RealTime(TaskId),
    Deadline(TaskId),
}

impl Current {
    pub(super) fn is_above(self) -> bool {
        matches!(self, Self::RealTime(_) | Self::Deadline(_))
    }
}

/// The queues of a CPU. The task that runs stays in its queue.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// By priority, the highest first; in each the one that came first.
    real_time: BTreeMap<Reverse<u32>, VecDeque<TaskId>>,
    /// By deadline. Those that wait for their next period are not here.
    pub(super) deadlines: BTreeSet<(u64, u64, Who)>,
    pub(super) current: Current,
    /// Up to when the current task's time is accounted.
    pub(super) since: u64,
    /// What real-time tasks used of the period (`rt_time`).
    pub(super) rt_time: u64,
    pub(super) rt_throttled: bool,
    /// Fair tasks that are runnable.
    pub(super) fair: usize,
    /// Whether any of them may run, when this was looked at last.
    pub(super) has_fair: bool,
    pub(super) server: Server,
    /// When the server's alarm was last set to.
    pub(super) alarm: Option<u64>,
    /// The current task is to be displaced.
    pub(super) resched: bool,
}

impl Lane {
    pub(super) fn joins(&mut self, priority: u32, task: TaskId) {
        self.real_time.entry(Reverse(priority)).or_default().push_back(task);
    }

    pub(super) fn leaves(&mut self, priority: u32, task: TaskId) {
        if let Some(queue) = self.real_time.get_mut(&Reverse(priority)) {
            queue.retain(|queued| *queued != task);
            if queue.is_empty() {
                self.real_time.remove(&Reverse(priority));
            }
        }
    }

    /// `requeue_task_rt`: to the head or the end of its priority; whether others are there.
    pub(super) fn requeue(&mut self, priority: u32, task: TaskId, head: bool) -> bool {
        let Some(queue) = self.real_time.get_mut(&Reverse(priority)) else { return false };
        queue.retain(|queued| *queued != task);
        if head {
            queue.push_front(task);
        } else {
            queue.push_back(task);
        }
        queue.len() > 1
    }

    /// The highest priority of a real-time task, throttled or not.
    pub(super) fn rt_priority(&self) -> Option<u32> {
        self.real_time.first_key_value().map(|(priority, _)| priority.0)
    }

    /// The real-time task that runs next.
    pub(super) fn first_real_time(&self) -> Option<TaskId> {
        let first = self.real_time.values().next().and_then(|queue| queue.front().copied());
        first.filter(|_| !self.rt_throttled)
    }

    pub(super) fn first_deadline(&self) -> Option<Who> {
        self.deadlines.first().map(|key| key.2)
    }

    pub(super) fn position(&self, who: Who) -> Option<(u64, u64, Who)> {
        self.deadlines.iter().copied().find(|key| key.2 == who)
    }

    pub(super) fn has_deadline_task(&self) -> bool {
        self.deadlines.iter().any(|key| key.2 != Who::Server)
    }

    /// Real-time tasks that do not run, the first to run first.
    pub(super) fn waiting_real_time(&self) -> impl Iterator<Item = TaskId> + '_ {
        let all = self.real_time.values().flatten().copied();
        all.filter(|&task| self.current != Current::RealTime(task))
    }

    /// Deadline tasks that do not run, the first to run first.
    pub(super) fn waiting_deadline(&self) -> impl Iterator<Item = TaskId> + '_ {
        let all = self.deadlines.iter().filter_map(|key| match key.2 {
            Who::Task(task) => Some(task),
            Who::Server => None,
        });
        all.filter(|&task| self.current != Current::Deadline(task))
    }
}
