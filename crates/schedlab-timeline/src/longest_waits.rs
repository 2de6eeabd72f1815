//! The longest single waits: when, where, and who woke. Who ran instead is looked up in a second pass, when it is
//! known which they are: see [`crate::RanInstead`].

use crate::change::{Change, Switch, Wait};
use crate::question::Question;
use crate::state::State;
use crate::task::{Activity, TaskId, Why};
use crate::task_filter::Chosen;
use schedlab_model::{Context, Cpu, Nanos};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Asks for the longest waits.
#[derive(Clone, Debug)]
pub struct Worst {
    chosen: Chosen,
    waits: Longest<WorstWait>,
}

/// One of the longest waits of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorstWait {
    /// Who waited.
    pub task: TaskId,
    /// The time at which the wait began.
    pub since: Nanos,
    /// The time at which the task ran, or the end of the window.
    pub at: Nanos,
    /// Whether it had not ended.
    pub is_open: bool,
    /// On whose queue it stood last, and where it ran.
    pub cpu: Cpu,
    /// The reason why the task waited.
    pub why: Why,
    /// Who woke it; [`TaskId::NONE`] unless it was woken, by a task or in its time.
    pub waker: TaskId,
    /// In which context it was woken.
    pub waker_context: Context,
}

/// The longest of the waits that are offered, at most so many.
#[derive(Clone, Debug)]
pub(crate) struct Longest<W> {
    limit: usize,
    waits: BinaryHeap<Reverse<Ranked<W>>>,
}

/// A wait with its length; of equally long ones the earliest ranks highest.
#[derive(Clone, Debug)]
struct Ranked<W> {
    rank: (Nanos, Reverse<Nanos>, Reverse<TaskId>),
    wait: W,
}

impl<W> PartialEq for Ranked<W> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<W> Eq for Ranked<W> {}

impl<W> Ord for Ranked<W> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl<W> PartialOrd for Ranked<W> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<W> Longest<W> {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, waits: BinaryHeap::new() }
    }

    /// Keeps a wait of `task` if it is one of the longest; only then `wait` is made.
    pub(crate) fn offer(
        &mut self,
        task: TaskId,
        since: Nanos,
        until: Nanos,
        wait: impl FnOnce() -> W,
    ) {
        let length = until - since;
        let shortest = self.waits.peek().map(|Reverse(ranked)| ranked.rank.0);
        let full = self.waits.len() >= self.limit;
        if self.limit == 0 || (full && shortest.is_some_and(|least| length <= least)) {
            return;
        }
        let rank = (length, Reverse(since), Reverse(task));
        self.waits.push(Reverse(Ranked { rank, wait: wait() }));
        if self.waits.len() > self.limit {
            self.waits.pop();
        }
    }

    /// Those that were kept, longest first.
    pub(crate) fn into_vec(self) -> Vec<W> {
        let ascending = self.waits.into_sorted_vec();
        ascending.into_iter().map(|Reverse(ranked)| ranked.wait).collect()
    }
}

impl Worst {
    /// A question that keeps the `limit` longest waits.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { chosen: Chosen::all(), waits: Longest::new(limit) }
    }

    /// Of these tasks only.
    #[must_use]
    pub fn about(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
    }

    fn offer(&mut self, task: TaskId, wait: Wait, at: Nanos, is_open: bool, state: &State) {
        self.waits.offer(task, wait.since, at, || {
            let known = state.task(task);
            WorstWait {
                task,
                since: wait.since,
                at,
                is_open,
                cpu: wait.cpu,
                why: wait.why,
                waker: if wait.why.is_wakeup() { known.waker } else { TaskId::NONE },
                waker_context: known.waker_context,
            }
        });
    }
}

impl Question for Worst {
    type Answer = Vec<WorstWait>;
    const QUEUES: bool = false;

    fn see(&mut self, change: &Change, state: &State) {
        let Change::Switch(Switch { at, is, wait, .. }) = *change else { return };
        let (Some(wait), Some(task)) = (wait, is.task()) else { return };
        if !self.chosen.has(task) {
            return;
        }
        self.offer(task, wait, at, false, state);
    }

    fn answer(mut self, state: &State) -> Vec<WorstWait> {
        let end = state.window().end;
        for (id, task) in state.tasks() {
            if let Activity::Waiting { cpu, why, .. } = task.activity
                && self.chosen.has(id)
            {
                self.offer(id, Wait { since: task.since, cpu, why }, end, true, state);
            }
        }
        self.waits.into_vec()
    }
}
