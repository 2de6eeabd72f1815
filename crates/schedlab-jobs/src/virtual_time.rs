//! The same policy in virtual time: any number of workers, on any machine, with the same result each time.
//!
//! Workers are events. What costs time on a real machine is a constant here: holding the token, waking,
//! and a timer's lateness. With all costs 0 and notifications on, the result is an ideal list schedule.

use crate::executor::{Executor, ExecutorError, Offers, Told};
use crate::graph::Node;
use crate::policy::{
    Agenda, Asker, Finished, Ladder, Nanos, Outcome, Pause, Plan, Policy, Posting, Pulled, Verdict,
};
use crate::run::Run;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// What things cost, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Holding the token for a pull.
    pub pull_ns: Nanos,
    /// In addition for every job that the pull took or gave back.
    pub job_ns: Nanos,
    /// From a notification to the woken worker's first step.
    pub wake_ns: Nanos,
    /// By how much a timer is late.
    pub timer_ns: Nanos,
    /// From the wish for one more worker to its first step.
    pub start_ns: Nanos,
    /// One turn of a spinning worker.
    pub spin_ns: Nanos,
}

impl Costs {
    /// Nothing costs anything, but a spinning worker lets a little time pass.
    pub const NONE: Self =
        Self { pull_ns: 0, job_ns: 0, wake_ns: 0, timer_ns: 0, start_ns: 0, spin_ns: 1_000 };

    /// About what a small server costs: measured on a virtual machine with two CPUs of 2.x GHz.
    pub const USUAL: Self = Self {
        pull_ns: 80,
        job_ns: 60,
        wake_ns: 8_000,
        timer_ns: 60_000,
        start_ns: 60_000,
        spin_ns: 200,
    };
}

/// The policy, run by virtual workers.
#[derive(Clone, Debug)]
pub struct VirtualTime {
    policy: Policy,
    costs: Costs,
    name: &'static str,
}

impl VirtualTime {
    /// So many workers as the policy says, at these costs.
    pub fn new(policy: Policy, costs: Costs) -> Self {
        Self { policy, costs, name: "virtual" }
    }

    /// The ideal: a list schedule in order of start times without any cost.
    pub fn ideal(workers: usize) -> Self {
        let policy = Policy { batch_ns: 0, ..Policy::new(workers) };
        Self { policy, costs: Costs::NONE, name: "ideal" }
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
        Offers {
            start_times: true,
            deadlines: true,
            dependencies: true,
            cancellation: true,
            real: false,
        }
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<Told, ExecutorError> {
        run.set_base(0);
        let mut world = World::new(self.policy.clone(), self.costs);
        world.agenda.plan(plan_of(run, 0));
        world.run(run);
        if world.agenda.backlog() > 0 {
            let what = format!("{} jobs are left", world.agenda.backlog());
            return Err(ExecutorError::Unfinished { executor: self.name(), what });
        }
        run.set_dropped(world.agenda.counts().into());
        Ok(Told { management_ns: Some(world.management_ns), ..Told::default() })
    }
}

/// The whole graph of a run as a plan, its schedule moved to `base`.
pub(crate) fn plan_of(run: &Run, base: Nanos) -> Plan<Node> {
    let mut plan = Plan::default();
    let schedule = run.schedule();
    for node in 0..run.graph().len() {
        let deadline = schedule.deadline(node).saturating_add(base);
        let posting = Posting::new(node, base + schedule.start(node)).deadline(deadline);
        let significance = run.significance(node);
        plan.add(Posting { expected_ns: run.expected_ns(node), significance, ..posting });
        for &p in run.graph().predecessors(node) {
            plan.link(p, node);
        }
    }
    plan
}

struct Worker {
    ladder: Ladder,
    finished: Vec<Finished>,
    batch: Vec<Pulled<Node>>,
    busy_ns: Nanos,
    worked: Nanos,
    slept: bool,
    /// Tells a wake-up that is still meant from one that another has overtaken.
    stamp: u64,
}

struct World {
    agenda: Agenda<Node>,
    costs: Costs,
    workers: Vec<Worker>,
    /// Time, order of posting, worker, stamp.
    events: BinaryHeap<Reverse<(Nanos, u64, usize, u64)>>,
    posted: u64,
    token_free: Nanos,
    management_ns: Nanos,
}

impl World {
    fn new(policy: Policy, costs: Costs) -> Self {
        let worker = |number| Worker {
            ladder: Ladder::new(number, policy.step),
            finished: Vec::new(),
            batch: Vec::new(),
            busy_ns: 0,
            worked: 0,
            slept: true,
            stamp: 0,
        };
        let workers: Vec<_> = (0..policy.workers).map(worker).collect();
        let first = policy.workers_min.clamp(1, policy.workers);
        let mut world = Self {
            agenda: Agenda::new(policy),
            costs,
            events: BinaryHeap::new(),
            posted: 0,
            token_free: 0,
            management_ns: 0,
            workers,
        };
        for number in 0..first {
            world.at(0, number);
        }
        world
    }

    /// The worker's next step is then, and no other.
    fn at(&mut self, time: Nanos, worker: usize) {
        self.posted += 1;
        self.workers[worker].stamp += 1;
        let stamp = self.workers[worker].stamp;
        self.events.push(Reverse((time, self.posted, worker, stamp)));
    }

    fn run(&mut self, run: &Run) {
        while let Some(Reverse((now, _, worker, stamp))) = self.events.pop() {
            if self.workers[worker].stamp == stamp {
                self.step(now, worker, run);
            }
            if self.agenda.backlog() == 0 {
                return;
            }
        }
    }

    fn step(&mut self, now: Nanos, number: usize, run: &Run) {
        if now < self.token_free {
            let pause = match self.workers[number].ladder.climb() {
                // A turn of the spinning loop takes some ten nanoseconds.
                Pause::Spin { turns, rounds } => Nanos::from(turns * rounds) * 10,
                Pause::Sleep(ns) => ns + self.costs.timer_ns,
            };
            return self.at(now + pause.max(self.costs.spin_ns), number);
        }
        let worker = &mut self.workers[number];
        worker.ladder.ease();
        let busy_ns = std::mem::take(&mut worker.busy_ns);
        let given = worker.finished.len();
        self.agenda.finish(&mut worker.finished, busy_ns);
        let idle_ns = now - worker.worked;
        let asker = Asker { worker: number, idle_ns, from_work: !worker.slept };
        let pull = self.agenda.pull(now, asker, &mut worker.batch);
        let hold = self.costs.pull_ns + self.costs.job_ns * (given + worker.batch.len()) as Nanos;
        let free = now + hold;
        self.token_free = free;
        self.management_ns += hold;
        match pull.verdict {
            Verdict::Run => {
                let end = self.perform(free, number, run);
                self.at(end, number);
            }
            Verdict::Spin => self.at(free + self.costs.spin_ns, number),
            Verdict::Sleep { until } => {
                self.workers[number].slept = true;
                self.at(until.max(free) + self.costs.timer_ns, number);
            }
            // No event of its own is left: it steps no more until it is started again.
            Verdict::Retire => {}
        }
        for newcomer in self.agenda.starts() {
            let from = free + self.costs.start_ns;
            self.workers[newcomer].worked = from;
            self.workers[newcomer].slept = true;
            self.at(from, newcomer);
        }
        if let Some(sleeper) = pull.wake {
            self.at(free + self.costs.wake_ns, sleeper);
        }
    }

    fn perform(&mut self, from: Nanos, number: usize, run: &Run) -> Nanos {
        let worker = &mut self.workers[number];
        let mut now = from;
        for Pulled { id, job, .. } in worker.batch.drain(..) {
            let end = now + run.expected_ns(job);
            run.log(job, number, now, Some(end));
            worker.finished.push(Finished { id, outcome: Outcome::Done });
            now = end;
        }
        worker.busy_ns += now - from;
        worker.worked = now;
        worker.slept = false;
        now
    }
}
