//! schedlab's pool in virtual time: its own policy over plain lists, its workers as events.

use super::Costs;
use crate::executor::{Executor, ExecutorError, ExecutorFigures, Offers};
use crate::graph::Node;
use crate::modelled::{PoolJobs, Step, Task};
use crate::planning::{Planner, Planning};
use crate::policy::{NEVER, Nanos};
use crate::run::Run;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The pool as an executor, with any number of workers, on any machine, with the same result each time.
#[derive(Clone, Copy, Debug)]
pub struct VirtualPool {
    workers: usize,
    costs: Costs,
    planning: Planning,
}

impl VirtualPool {
    /// So many workers, at these costs, with jobs that are planned in this way.
    pub fn new(workers: usize, costs: Costs, planning: Planning) -> Self {
        Self { workers: workers.max(1), costs, planning }
    }
}

impl Executor for VirtualPool {
    fn name(&self) -> String {
        "virtual".to_owned()
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn offers(&self) -> Offers {
        Offers { real: false, ..Offers::ALL }
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<ExecutorFigures, ExecutorError> {
        run.set_base(0);
        let Self { workers, costs, planning } = *self;
        let mut world = World {
            run,
            costs,
            planning,
            jobs: PoolJobs::new(workers, planning),
            events: BinaryHeap::new(),
            order: 0,
            stamps: vec![0; workers],
            goes_on: vec![false; workers],
            management_ns: 0,
        };
        world.run();
        match world.jobs.left() {
            0 => run.set_dropped(world.jobs.dropped()),
            left => {
                let what = format!("{left} jobs are left");
                return Err(ExecutorError::Unfinished { executor: self.name(), what });
            }
        }
        Ok(ExecutorFigures {
            management_ns: Some(world.management_ns),
            ..ExecutorFigures::default()
        })
    }
}

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The I/O of a job ends.
    Io(Node),
    /// A chunk gets into the pool.
    Planned(u32),
    /// A poster begins with a chunk.
    Poster(u32),
    /// A worker's next step, and its stamp: an older one was overtaken by a wakeup.
    Step(usize, u64),
}

struct World<'r> {
    run: &'r Run,
    costs: Costs,
    planning: Planning,
    jobs: PoolJobs,
    /// Time, order of posting, what.
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    order: u64,
    stamps: Vec<u64>,
    /// By worker, whether its job goes on after it returned.
    goes_on: Vec<bool>,
    management_ns: Nanos,
}

impl World<'_> {
    fn push(&mut self, time: Nanos, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    fn at(&mut self, time: Nanos, worker: usize) {
        self.stamps[worker] += 1;
        self.push(time, Event::Step(worker, self.stamps[worker]));
    }

    fn run(&mut self) {
        self.jobs.begin(self.run);
        if let Planner::Posters(threads) = self.planning.planner {
            for chunk in 0..(threads.max(1) as u32).min(self.planning.chunks(self.run)) {
                self.push(self.planning.due(self.run, 0, chunk), Event::Poster(chunk));
            }
        }
        (0..self.goes_on.len()).for_each(|worker| self.at(0, worker));
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            self.jobs.set_now(now);
            match event {
                Event::Step(worker, stamp) if self.stamps[worker] != stamp => continue,
                Event::Step(worker, _) => self.step(now, worker),
                Event::Poster(chunk) => {
                    let took = self.planning.cost_ns(self.run, chunk);
                    self.push(now + took, Event::Planned(chunk));
                }
                Event::Planned(chunk) => self.plan(now, chunk),
                Event::Io(node) => {
                    let fails = self.run.io(node).is_some_and(|io| io.fails);
                    self.run.end_io(node, fails, Some(now));
                    self.jobs.end_io(node, !fails);
                }
            }
            for woken in self.jobs.woken() {
                self.at(now + self.costs.wake_ns, woken);
            }
            if self.jobs.left() == 0 {
                return;
            }
        }
    }

    fn plan(&mut self, now: Nanos, chunk: u32) {
        if !self.jobs.plan(self.run, chunk, now) {
            return self.push(now + self.costs.spin_ns.max(1), Event::Planned(chunk));
        }
        if let Planner::Posters(threads) = self.planning.planner {
            let next = chunk + threads.max(1) as u32;
            if next < self.planning.chunks(self.run) {
                let due = self.planning.due(self.run, 0, next);
                self.push(due.max(now + self.posting_ns(chunk)), Event::Poster(next));
            }
        }
    }

    /// How long a poster takes for the jobs of a chunk.
    fn posting_ns(&self, chunk: u32) -> Nanos {
        self.costs.plan_ns * self.jobs.chunk(self.run, chunk).len() as Nanos
    }

    fn step(&mut self, now: Nanos, worker: usize) {
        self.jobs.end(worker, self.goes_on[worker]);
        match self.jobs.step(worker) {
            Step::Run(task) => {
                self.management_ns += self.costs.take_ns;
                let begin = now + self.costs.take_ns;
                let (end, goes_on) = self.perform(task, worker, begin);
                self.goes_on[worker] = goes_on;
                self.at(end, worker);
            }
            Step::Again => self.at(now + self.costs.spin_ns.max(1), worker),
            Step::Sleep(NEVER) => {}
            Step::Sleep(until) => self.at(until.max(now) + self.costs.timer_ns, worker),
        }
    }

    /// When a job that begins now returns, and whether it goes on then.
    fn perform(&mut self, task: Task, worker: usize, begin: Nanos) -> (Nanos, bool) {
        let node = match task {
            Task::Node(node) => node,
            Task::Chunk(chunk) => {
                let planned = begin + self.planning.cost_ns(self.run, chunk);
                self.push(planned, Event::Planned(chunk));
                return (planned + self.posting_ns(chunk), false);
            }
        };
        let end = begin + self.run.expected_ns(node);
        let io = self.run.io(node);
        match io {
            Some(io) => {
                self.run.log_return(node, worker, begin, end);
                self.push(end + io.ns, Event::Io(node));
            }
            None => self.run.log(node, worker, begin, Some(end)),
        }
        (end, io.is_some())
    }
}
