//! Executors in virtual time: any number of workers, on any machine, with the same result each time.
//!
//! Workers are events. What costs time on a real machine is a constant here: taking a job, waking, a timer's lateness.
//! [`VirtualPool`] has the policy of schedlab's pool, [`VirtualTime`] the rules of Lumiera's scheduler. With all costs 0
//! and notifications on, the latter is an ideal list schedule.

#[cfg(not(loom))]
mod pool;

#[cfg(not(loom))]
pub use pool::VirtualPool;

use crate::executor::{Executor, ExecutorError, ExecutorFigures, Offers};
use crate::graph::Node;
use crate::planning::{Planner, Planning, plan_range};
use crate::policy::{Agenda, JobId, Nanos, Outcome, Pause, Policy, Verdict};
use crate::rounds::Rounds;
use crate::run::Run;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

/// What things cost, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Nanoseconds for which a worker holds the token in order to pull jobs.
    pub(crate) pull_ns: Nanos,
    /// In addition for every job that the pull took or gave back.
    pub(crate) job_ns: Nanos,
    /// From a notification to the woken worker's first step.
    pub(crate) wake_ns: Nanos,
    /// By how much a timer is late.
    pub(crate) timer_ns: Nanos,
    /// One turn of a spinning worker.
    pub spin_ns: Nanos,
    /// Planning a job while the run goes on, with the token.
    pub(crate) plan_ns: Nanos,
    /// In schedlab's pool: taking a job, ending it and releasing its dependents.
    pub take_ns: Nanos,
}

impl Costs {
    /// Nothing costs anything, but a spinning worker lets a little time pass.
    pub const NONE: Self = Self {
        pull_ns: 0,
        job_ns: 0,
        wake_ns: 0,
        timer_ns: 0,
        spin_ns: 1_000,
        plan_ns: 0,
        take_ns: 0,
    };

    /// About what a small server costs: measured on a virtual machine with two CPUs of 2.x GHz.
    pub const USUAL: Self = Self {
        pull_ns: 80,
        job_ns: 60,
        wake_ns: 8_000,
        timer_ns: 60_000,
        spin_ns: 200,
        plan_ns: 90,
        take_ns: 240,
    };

    /// Nanoseconds of a turn with the token in which `jobs` jobs were taken or given back.
    #[must_use]
    pub const fn hold_ns(&self, jobs: usize) -> Nanos {
        self.pull_ns + self.job_ns * jobs as Nanos
    }

    /// How long a pause that spins takes.
    #[must_use]
    pub const fn spin_for_ns(&self, turns: u32, rounds: u32) -> Nanos {
        // A turn of the spinning loop takes some ten nanoseconds.
        let ns = turns as Nanos * rounds as Nanos * 10;
        if ns > self.spin_ns { ns } else { self.spin_ns }
    }
}

/// Lumiera's rules, run by virtual workers.
#[derive(Clone, Debug)]
pub struct VirtualTime {
    policy: Policy,
    costs: Costs,
    planning: Planning,
    name: &'static str,
}

impl VirtualTime {
    /// As many workers as the policy says, at these costs.
    pub fn new(policy: Policy, costs: Costs) -> Self {
        Self { policy, costs, planning: Planning::default(), name: "lumiera" }
    }

    /// The executor with jobs that are planned in this way.
    #[must_use]
    pub fn planning(self, planning: Planning) -> Self {
        Self { planning, ..self }
    }

    /// The executor with another choice of the due job that goes first.
    #[must_use]
    pub fn ordered(mut self, order: crate::policy::Order) -> Self {
        self.policy.order = order;
        self
    }

    /// The ideal: a list schedule in order of start times without any cost.
    pub fn ideal(workers: usize) -> Self {
        let policy = Policy { batch_ns: 0, ..Policy::new(workers) };
        let costs = Costs::NONE;
        let planning = Planning::default();
        Self { policy, costs, planning, name: "ideal" }
    }
}

impl Executor for VirtualTime {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn workers(&self) -> usize {
        self.policy.workers
    }

    fn offers(&self) -> Offers {
        Offers { real: false, ..Offers::ALL }
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<ExecutorFigures, ExecutorError> {
        run.set_base(0);
        let mut world = World::new(self.policy.clone(), self.costs, self.planning);
        world.begin(run);
        world.run(run);
        if world.agenda.backlog() > 0 {
            let what = format!("{} jobs are left", world.agenda.backlog());
            return Err(ExecutorError::Unfinished { executor: self.name(), what });
        }
        run.set_dropped(world.agenda.counts().into());
        Ok(ExecutorFigures {
            management_ns: Some(world.management_ns),
            ..ExecutorFigures::default()
        })
    }
}

/// A job of the virtual pool.
#[derive(Clone, Copy, Debug)]
enum Order {
    Node(Node),
    /// Plans the chunk of this number.
    Chunk(u32),
}

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The I/O of a job ends.
    Io(Node, JobId),
    /// A chunk gets into the agenda; a planning job does that, or a poster.
    Planned(u32),
    /// A poster begins with a chunk.
    Poster(u32),
    /// A worker's next step, and its stamp.
    Step(usize, u64),
}

struct Worker {
    rounds: Rounds<Order>,
    /// Tells a wake-up that is still meant from one that another has overtaken.
    stamp: u64,
}

struct World {
    agenda: Agenda<Order>,
    costs: Costs,
    planning: Planning,
    workers: Vec<Worker>,
    /// Time, order of posting, what.
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    posted: u64,
    /// By node, as far as they were planned.
    ids: Vec<JobId>,
    token_free: Nanos,
    management_ns: Nanos,
}

impl World {
    fn new(policy: Policy, costs: Costs, planning: Planning) -> Self {
        let worker = |number| Worker { rounds: Rounds::new(number, policy.step), stamp: 0 };
        let workers: Vec<_> = (0..policy.workers).map(worker).collect();
        let mut world = Self {
            agenda: Agenda::new(policy),
            costs,
            planning,
            events: BinaryHeap::new(),
            posted: 0,
            ids: Vec::new(),
            token_free: 0,
            management_ns: 0,
            workers,
        };
        for number in 0..world.workers.len() {
            world.at(0, number);
        }
        world
    }

    /// Plans the run, or lets it be planned.
    fn begin(&mut self, run: &Run) {
        match self.planning.planner {
            Planner::Ahead => {
                let all = 0..run.graph().len();
                let none = |_| -> JobId { unreachable!("all predecessors are in the plan") };
                self.ids = self.agenda.plan(plan_range(run, 0, all, none, Order::Node));
            }
            Planner::Jobs => {
                let first = self.planning.posting(run, 0, 0, Order::Chunk(0));
                self.agenda.post(first);
            }
            Planner::Posters(threads) => {
                for chunk in 0..(threads.max(1) as u32).min(self.planning.chunks(run)) {
                    self.push(self.planning.due(run, 0, chunk), Event::Poster(chunk));
                }
            }
        }
    }

    fn push(&mut self, time: Nanos, event: Event) {
        self.posted += 1;
        self.events.push(Reverse((time, self.posted, event)));
    }

    /// The worker's next step is then, and no other.
    fn at(&mut self, time: Nanos, worker: usize) {
        self.workers[worker].stamp += 1;
        let stamp = self.workers[worker].stamp;
        self.push(time, Event::Step(worker, stamp));
    }

    fn run(&mut self, run: &Run) {
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            match event {
                Event::Step(worker, stamp) if self.workers[worker].stamp == stamp => {
                    self.step(now, worker, run);
                }
                Event::Step(..) => {}
                Event::Poster(chunk) => {
                    self.push(now + self.planning.cost_ns(run, chunk), Event::Planned(chunk));
                }
                // The one that is no worker waits for the token.
                Event::Io(..) | Event::Planned(_) if now < self.token_free => {
                    self.push(self.token_free, event);
                }
                Event::Io(node, id) => self.end_io(now, node, id, run),
                Event::Planned(chunk) => self.plan(now, chunk, run),
            }
            if self.agenda.backlog() == 0 && self.ids.len() == run.graph().len() as usize {
                return;
            }
        }
    }

    fn end_io(&mut self, now: Nanos, node: Node, id: JobId, run: &Run) {
        let fails = run.io(node).is_some_and(|io| io.fails);
        run.end_io(node, fails, Some(now));
        self.agenda.complete(id, !fails);
        self.hold(now, self.costs.pull_ns + self.costs.job_ns);
        self.call(now);
    }

    /// A chunk gets into the agenda; chunks do so in their order, since jobs wait for those of earlier ones.
    fn plan(&mut self, now: Nanos, chunk: u32, run: &Run) {
        let range = self.planning.range(run, chunk);
        if range.start as usize > self.ids.len() {
            return self.push(now + self.costs.spin_ns.max(1), Event::Planned(chunk));
        }
        let cost = self.costs.plan_ns * Nanos::from(range.end - range.start);
        let ids = &self.ids;
        let plan = plan_range(run, 0, range.clone(), |p| ids[p as usize], Order::Node);
        range.for_each(|node| run.set_posted(node, now.max(1)));
        let new = self.agenda.plan(plan);
        self.ids.extend(new);
        self.hold(now, cost);
        let next = match self.planning.planner {
            Planner::Posters(threads) => chunk + threads.max(1) as u32,
            Planner::Ahead | Planner::Jobs => chunk + 1,
        };
        if next < self.planning.chunks(run) {
            if let Planner::Posters(_) = self.planning.planner {
                let due = self.planning.due(run, 0, next);
                self.push(due.max(now + cost), Event::Poster(next));
            } else {
                let posting = self.planning.posting(run, 0, next, Order::Chunk(next));
                self.agenda.post(posting);
            }
        }
        self.call(now);
    }

    fn hold(&mut self, now: Nanos, ns: Nanos) {
        self.token_free = now + ns;
        self.management_ns += ns;
    }

    /// A caller that changed the agenda without being a worker wakes one.
    fn call(&mut self, now: Nanos) {
        let free = self.token_free.max(now);
        if let Some(sleeper) = self.agenda.wake(now) {
            self.at(free + self.costs.wake_ns, sleeper);
        }
    }

    fn step(&mut self, now: Nanos, number: usize, run: &Run) {
        if now < self.token_free {
            let pause = match self.workers[number].rounds.back_off() {
                Pause::Spin { turns, rounds } => self.costs.spin_for_ns(turns, rounds),
                Pause::Sleep(ns) => (ns + self.costs.timer_ns).max(self.costs.spin_ns),
            };
            return self.at(now + pause, number);
        }
        let (pull, jobs) = self.workers[number].rounds.manage(now, &mut self.agenda);
        let hold = self.costs.hold_ns(jobs);
        let free = now + hold;
        self.hold(now, hold);
        match pull.verdict {
            Verdict::Run => {
                let end = self.perform(free, number, run);
                self.at(end, number);
            }
            Verdict::Spin => self.at(free + self.costs.spin_ns, number),
            Verdict::Sleep { until } => {
                self.workers[number].rounds.slept();
                self.at(until.max(free) + self.costs.timer_ns, number);
            }
        }
        if let Some(sleeper) = pull.wake {
            self.at(free + self.costs.wake_ns, sleeper);
        }
    }

    fn perform(&mut self, from: Nanos, number: usize, run: &Run) -> Nanos {
        let mut now = from;
        while let Some(pulled) = self.workers[number].rounds.next_job() {
            let begin = now;
            let mut outcome = Outcome::Done;
            match pulled.job {
                Order::Chunk(chunk) => {
                    now += self.planning.cost_ns(run, chunk);
                    self.push(now, Event::Planned(chunk));
                    let Range { start, end } = self.planning.range(run, chunk);
                    now += self.costs.plan_ns * Nanos::from(end - start);
                }
                Order::Node(node) => {
                    let end = now + run.expected_ns(node);
                    if let Some(io) = run.io(node) {
                        run.log_return(node, number, now, end);
                        self.push(end + io.ns, Event::Io(node, pulled.id));
                        outcome = Outcome::Pending;
                    } else {
                        run.log(node, number, now, Some(end));
                    }
                    now = end;
                }
            }
            self.workers[number].rounds.ran(pulled.id, outcome);
            self.workers[number].rounds.worked(begin, now);
        }
        now
    }
}
