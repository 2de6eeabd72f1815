//! The longest single waits: when, where, and who ran instead.

use crate::change::{Change, Switch};
use crate::chosen::Chosen;
use crate::question::Question;
use crate::state::State;
use crate::task::{TaskId, Why};
use schedlab_model::{Context, Cpu, Nanos};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Slices remembered per CPU; a wait that outlasts them is told with those.
const REMEMBERED: usize = 64;

/// Asks for the longest waits.
#[derive(Clone, Debug)]
pub struct Worst {
    limit: usize,
    chosen: Chosen,
    waits: BinaryHeap<Reverse<Ranked>>,
    recent: Vec<Recent>,
}

/// The last slices of a CPU, in a ring.
#[derive(Clone, Debug, Default)]
struct Recent {
    slices: Vec<(TaskId, Nanos, Nanos)>,
    next: usize,
}

/// One long wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstWait {
    /// Who waited.
    pub task: TaskId,
    /// Since when.
    pub since: Nanos,
    /// When it ran.
    pub at: Nanos,
    /// On whose queue it stood last, and where it ran.
    pub cpu: Cpu,
    /// Why it waited.
    pub why: Why,
    /// Who woke it; [`TaskId::NONE`] unless it was woken, by a task or in its time.
    pub waker: TaskId,
    /// In which context it was woken.
    pub waker_context: Context,
    /// Who ran on that CPU meanwhile, and how long; longest first, at most four.
    pub instead: Vec<(TaskId, Nanos)>,
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
    /// The `limit` longest.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, chosen: Chosen::all(), waits: BinaryHeap::new(), recent: Vec::new() }
    }

    /// Of these tasks only; any task may be who ran instead.
    #[must_use]
    pub fn about(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
    }

    fn remember(&mut self, cpu: Cpu, task: TaskId, since: Nanos, at: Nanos) {
        if cpu.index() >= self.recent.len() {
            self.recent.resize_with(cpu.index() + 1, Recent::default);
        }
        let recent = &mut self.recent[cpu.index()];
        if recent.slices.len() < REMEMBERED {
            recent.slices.push((task, since, at));
        } else {
            recent.slices[recent.next] = (task, since, at);
        }
        recent.next = (recent.next + 1) % REMEMBERED;
    }

    fn instead(&self, cpu: Cpu, since: Nanos, at: Nanos) -> Vec<(TaskId, Nanos)> {
        let Some(recent) = self.recent.get(cpu.index()) else { return Vec::new() };
        let mut sums: Vec<(TaskId, Nanos)> = Vec::new();
        for (task, from, to) in &recent.slices {
            let time = (*to).min(at) - (*from).max(since);
            if time > Nanos::ZERO {
                match sums.iter_mut().find(|(other, _)| other == task) {
                    Some((_, sum)) => *sum += time,
                    None => sums.push((*task, time)),
                }
            }
        }
        sums.sort_by_key(|(task, time)| (Reverse(*time), *task));
        sums.truncate(4);
        sums
    }
}

impl Question for Worst {
    type Answer = Vec<WorstWait>;
    const QUEUES: bool = false;

    fn see(&mut self, change: &Change, state: &State) {
        let Change::Switch(Switch { at, cpu, was, since, is, wait, .. }) = *change else { return };
        if let Some(task) = was.task() {
            self.remember(cpu, task, since, at);
        }
        let (Some(wait), Some(task)) = (wait, is.task()) else { return };
        if !self.chosen.has(task) {
            return;
        }
        let shortest = self.waits.peek().map(|Reverse(Ranked(wait))| wait.at - wait.since);
        let full = self.waits.len() >= self.limit;
        if self.limit == 0 || (full && shortest.is_some_and(|least| at - wait.since <= least)) {
            return;
        }
        let instead = self.instead(wait.cpu, wait.since, at);
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
            instead,
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
