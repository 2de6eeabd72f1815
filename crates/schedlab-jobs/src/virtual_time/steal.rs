//! Work stealing in virtual time: a bundle on any number of workers, with the same result each time.
//!
//! Nobody waits for anybody in it, as on a machine whose caches cost nothing beyond [`Costs::steal_ns`]: so it is an upper
//! bound for what many workers reach.

use super::Costs;
use crate::graph::Node;
use crate::policy::Nanos;
use crate::run::Run;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// As in the pool: a worker looks for work for this long, and then for this long again in the agenda.
const LINGER_NS: Nanos = 40_000;

/// Time, order, worker, the job that it has ended.
type Event = (Nanos, u64, usize, Option<Node>);

struct Worker {
    deque: VecDeque<Node>,
    /// Since when it has found nothing.
    idle_since: Option<Nanos>,
    asleep: bool,
}

struct Thieves<'r> {
    run: &'r Run,
    costs: Costs,
    waits: Vec<u32>,
    next: Node,
    left: u32,
    workers: Vec<Worker>,
    events: BinaryHeap<Reverse<Event>>,
    posted: u64,
    management_ns: Nanos,
}

/// Runs all jobs; the time that went into management.
pub(super) fn run(run: &Run, workers: usize, costs: Costs) -> Nanos {
    let graph = run.graph();
    let worker = |_| Worker { deque: VecDeque::new(), idle_since: None, asleep: false };
    let mut all = Thieves {
        run,
        costs,
        waits: (0..graph.len()).map(|node| graph.predecessors(node).len() as u32).collect(),
        next: 0,
        left: graph.len(),
        workers: (0..workers).map(worker).collect(),
        events: BinaryHeap::new(),
        posted: 0,
        management_ns: 0,
    };
    // Shares are jobs of the policy: one worker wakes the next.
    for number in 0..workers {
        let doublings = Nanos::from(usize::BITS - number.leading_zeros());
        all.at(doublings * (costs.wake_ns + costs.pull_ns), number, None);
    }
    while let Some(Reverse((now, _, number, ended))) = all.events.pop() {
        all.step(now, number, ended);
        if all.left == 0 {
            break;
        }
    }
    all.management_ns
}

impl Thieves<'_> {
    fn at(&mut self, time: Nanos, worker: usize, ended: Option<Node>) {
        self.posted += 1;
        self.events.push(Reverse((time, self.posted, worker, ended)));
    }

    fn step(&mut self, mut now: Nanos, number: usize, ended: Option<Node>) {
        if let Some(job) = ended {
            self.end(now, number, job);
        }
        let own = self.workers[number].deque.pop_back().or_else(|| self.root());
        let cost = if own.is_some() { self.costs.take_ns } else { self.costs.steal_ns };
        let Some(job) = own.or_else(|| self.steal(number)) else {
            let since = *self.workers[number].idle_since.get_or_insert(now);
            if now - since < LINGER_NS {
                return self.at(now + self.costs.spin_ns.max(1), number, None);
            }
            self.workers[number].asleep = true;
            return;
        };
        self.workers[number].idle_since = None;
        self.management_ns += cost;
        now += cost;
        let end = now + self.run.expected_ns(job);
        self.run.log(job, number, now, Some(end));
        self.at(end, number, Some(job));
    }

    fn end(&mut self, now: Nanos, number: usize, job: Node) {
        self.left -= 1;
        for &next in self.run.graph().successors(job) {
            self.waits[next as usize] -= 1;
            if self.waits[next as usize] == 0 {
                self.workers[number].deque.push_back(next);
            }
        }
        if self.workers[number].deque.len() > 1
            && let Some(sleeper) = self.workers.iter().position(|worker| worker.asleep)
        {
            self.workers[sleeper].asleep = false;
            self.workers[sleeper].idle_since = None;
            self.at(now + self.costs.wake_ns, sleeper, None);
        }
    }

    fn root(&mut self) -> Option<Node> {
        let graph = self.run.graph();
        let root = (self.next..graph.len()).find(|&node| graph.predecessors(node).is_empty());
        self.next = root.map_or(graph.len(), |node| node + 1);
        root
    }

    /// The older half of the next deque that has any.
    fn steal(&mut self, number: usize) -> Option<Node> {
        let count = self.workers.len();
        let victim = (1..count)
            .map(|further| (number + further) % count)
            .find(|&victim| !self.workers[victim].deque.is_empty())?;
        let half = self.workers[victim].deque.len().div_ceil(2);
        let stolen: Vec<Node> = self.workers[victim].deque.drain(..half).collect();
        self.workers[number].deque.extend(stolen);
        self.workers[number].deque.pop_back()
    }
}
