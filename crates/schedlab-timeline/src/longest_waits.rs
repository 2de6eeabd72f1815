//! The longest single waits: when, where, and who woke. Who ran instead is looked up in a second pass, when it is
//! known which they are: see [`crate::Instead`].

use crate::change::{Change, Switch};
use crate::question::Question;
use crate::state::State;
use crate::task::{TaskId, Why};
use crate::task_filter::Chosen;
use schedlab_model::{Context, Cpu, Nanos};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Asks for the longest waits.
#[derive(Clone, Debug)]
pub struct Worst {
    limit: usize,
    chosen: Chosen,
    waits: BinaryHeap<Reverse<Ranked>>,
}

/// One of the longest waits of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstWait {
    /// The task that waited.
    pub task: TaskId,
    /// The time at which the wait began.
    pub since: Nanos,
    /// The time at which the task ran.
    pub at: Nanos,
    /// On whose queue it stood last, and where it ran.
    pub cpu: Cpu,
    /// The reason why the task waited.
    pub why: Why,
    /// Who woke it; [`TaskId::NONE`] unless it was woken, by a task or in its time.
    pub waker: TaskId,
    /// In which context it was woken.
    pub waker_context: Context,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Ranked(WorstWait);

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key =
            |wait: &WorstWait| (wait.at - wait.since, Reverse(wait.since), Reverse(wait.task));
        key(&self.0).cmp(&key(&other.0))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Worst {
    /// A question that keeps the `limit` longest waits.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, chosen: Chosen::all(), waits: BinaryHeap::new() }
    }

    /// Of these tasks only.
    #[must_use]
    pub fn about(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
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
        let shortest = self.waits.peek().map(|Reverse(Ranked(wait))| wait.at - wait.since);
        let full = self.waits.len() >= self.limit;
        if self.limit == 0 || (full && shortest.is_some_and(|least| at - wait.since <= least)) {
            return;
        }
        let known = state.task(task);
        let waker = if wait.why.is_wakeup() { known.waker } else { TaskId::NONE };
        self.waits.push(Reverse(Ranked(WorstWait {
            task,
            since: wait.since,
            at,
            cpu: wait.cpu,
            why: wait.why,
            waker,
            waker_context: known.waker_context,
        })));
        if self.waits.len() > self.limit {
            self.waits.pop();
        }
    }

    fn answer(self, _: &State) -> Vec<WorstWait> {
        let mut waits: Vec<Ranked> = self.waits.into_iter().map(|ranked| ranked.0).collect();
        waits.sort_by(|a, b| b.cmp(a));
        waits.into_iter().map(|ranked| ranked.0).collect()
    }
}
