//! The workers of a pool as tasks of any machine: behaviours over the jobs that they share. The clock of the jobs begins
//! when the first worker does.

mod lumiera;
mod pool;

use crate::job_graph::Jobs;
use crate::plan::{Plan, Task};
use crate::{Behaviour, Done, Instruments, LockId, Op, WordId};
use schedlab_jobs::executor::{ExecutorError, ExecutorFigures};
use schedlab_jobs::graph::Node;
use schedlab_jobs::load::Kind;
use schedlab_jobs::modelled::PoolJobs;
use schedlab_jobs::planning::{Planning, plan_of};
use schedlab_jobs::policy::{Agenda, Policy};
use schedlab_jobs::run::Run;
use schedlab_jobs::virtual_time::Costs;
use schedlab_model::{Nanos, Phase};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By whose rules workers take jobs.
#[derive(Clone, Debug, PartialEq)]
pub enum Rules {
    /// Those of schedlab's pool.
    Pool,
    /// Lumiera's.
    Lumiera(Box<Policy>),
}

/// What all workers of a run share.
pub struct Workers {
    run: Arc<Run>,
    /// What the workers' own work costs; the machine knows the rest.
    costs: Costs,
    /// Iterations of the calibrated loop in a microsecond.
    speed: u64,
    /// The kinds of work, in the order of the plan's marks.
    kinds: Vec<&'static str>,
    /// By worker, what wakes it.
    words: Vec<WordId>,
    /// The lock that jobs of the kind `lock` share.
    lock: LockId,
    state: Mutex<State>,
}

/// The jobs, with the rules by which workers take them.
enum Waiting {
    Pool(Box<PoolJobs>),
    Lumiera(Box<Agenda<Node>>),
}

struct State {
    waiting: Waiting,
    /// When the first worker began, on the machine's clock.
    base: Option<Nanos>,
    /// Whether a worker holds the token.
    held: bool,
    /// Nothing is left to do.
    over: bool,
    management_ns: u64,
    back_off_ns: u64,
}

impl State {
    fn left(&self) -> u64 {
        match &self.waiting {
            Waiting::Pool(jobs) => jobs.left(),
            Waiting::Lumiera(agenda) => agenda.backlog() as u64,
        }
    }
}

impl Workers {
    /// Makes the tasks of a plan the workers that run a graph, on a machine whose CPUs do this many iterations in a
    /// microsecond.
    ///
    /// # Errors
    /// A sentence: the workers of the executor that was asked for are not behaviours.
    pub fn of(jobs: &Jobs, plan: &mut Plan, speed: u64) -> Result<Arc<Self>, String> {
        let rules = match jobs.executor.as_str() {
            "schedlab" => Rules::Pool,
            "lumiera" => Rules::Lumiera(Box::new(jobs.policy.clone())),
            library => {
                return Err(format!(
                    "the threads of {library} are those of a library: use schedlab or lumiera"
                ));
            }
        };
        let run = Arc::new(jobs.computed());
        let kinds = jobs.load.all().iter().map(|kind| kind.name()).collect();
        Ok(Self::man(plan, run, rules, Costs::USUAL, speed, kinds))
    }

    /// Makes the tasks of a plan the workers of a run. `costs` says how long taking a job, a turn with the token and a
    /// spin take, `speed` how many iterations a CPU does in a microsecond. Names of kinds are those of the plan's marks.
    #[must_use]
    pub fn man(
        plan: &mut Plan,
        run: Arc<Run>,
        rules: Rules,
        costs: Costs,
        speed: u64,
        kinds: Vec<&'static str>,
    ) -> Arc<Self> {
        let workers = plan.tasks.len();
        let (waiting, step) = match rules {
            Rules::Pool => {
                (Waiting::Pool(Box::new(PoolJobs::new(workers, Planning::default()))), None)
            }
            Rules::Lumiera(policy) => {
                let step = policy.step;
                (Waiting::Lumiera(Box::new(Agenda::new(*policy))), Some(step))
            }
        };
        let words: Vec<WordId> = (0..workers).map(|_| plan.word()).collect();
        let lock = LockId(plan.locks);
        plan.locks += 1;
        let management_ns = 0;
        let back_off_ns = 0;
        let state =
            State { waiting, base: None, held: false, over: false, management_ns, back_off_ns };
        let crew =
            Arc::new(Self { run, costs, speed, kinds, words, lock, state: Mutex::new(state) });
        for (number, task) in plan.tasks.iter_mut().enumerate() {
            task.behaviour = match step {
                None => Box::new(Steps(pool::Worker::new(crew.clone(), number))),
                Some(step) => Box::new(Steps(lumiera::Worker::new(crew.clone(), number, step))),
            };
        }
        crew
    }

    /// What the workers report after the tasks have ended.
    ///
    /// # Errors
    /// When jobs are left: the tasks were stopped before.
    pub fn outcome(&self) -> Result<ExecutorFigures, ExecutorError> {
        let mut state = self.state();
        let left = state.left();
        if left > 0 || state.base.is_none() {
            let what = format!("{left} jobs are left");
            return Err(ExecutorError::Unfinished { executor: "schedlab".to_owned(), what });
        }
        let (dropped, back_off_ns) = match &mut state.waiting {
            Waiting::Pool(jobs) => (jobs.dropped(), None),
            Waiting::Lumiera(agenda) => (agenda.counts().into(), Some(state.back_off_ns)),
        };
        self.run.set_dropped(dropped);
        Ok(ExecutorFigures {
            management_ns: Some(state.management_ns),
            back_off_ns,
            ..ExecutorFigures::default()
        })
    }

    /// The run, with the log of what the workers did.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time since the first worker began; the first call is its beginning.
    fn since_base(&self, now: Nanos) -> u64 {
        let mut state = self.state();
        let base = state.base.unwrap_or_else(|| {
            self.run.set_base(0);
            match &mut state.waiting {
                Waiting::Pool(jobs) => jobs.begin(&self.run),
                Waiting::Lumiera(agenda) => drop(agenda.plan(plan_of(&self.run, 0))),
            }
            now
        });
        state.base = Some(base);
        (now - base).0
    }

    fn compute(&self, ns: u64) -> Option<Op> {
        let iterations = u128::from(ns) * u128::from(self.speed) / 1_000;
        let iterations = u64::try_from(iterations).unwrap_or(u64::MAX);
        (iterations > 0).then_some(Op::Compute { iterations })
    }

    fn wake(&self, worker: usize, now: Nanos) -> Op {
        Op::Wake { word: self.words[worker], stamp: now }
    }

    /// All workers but this one.
    fn others(&self, worker: usize) -> Vec<usize> {
        (0..self.words.len()).filter(|&other| other != worker).collect()
    }

    fn mark(&self, node: Node) -> u32 {
        let kind = self.run.kind(node);
        self.kinds.iter().position(|known| *known == kind).unwrap_or(0) as u32
    }
}

/// A job under way.
struct AtWork {
    node: Node,
    begin: u64,
    /// The operations that are left, the next one last.
    left: Vec<Op>,
}

impl AtWork {
    fn begin(crew: &Workers, node: Node, now: Nanos, instruments: &mut dyn Instruments) -> Self {
        let begin = crew.since_base(now);
        instruments.mark(now, crew.mark(node), Phase::Begin);
        let ns = crew.run.expected_ns(node);
        let sleep = |ns| Some(Op::Sleep(Nanos(ns)));
        let ops = match crew.run.kind(node).parse().unwrap_or_default() {
            Kind::Cpu | Kind::Memory => [crew.compute(ns), None, None],
            Kind::Lock => {
                [Some(Op::Lock(crew.lock)), crew.compute(ns), Some(Op::Unlock(crew.lock))]
            }
            Kind::Sleep => [crew.compute(ns / 2), sleep(ns / 2), None],
            Kind::Block => [sleep(ns), None, None],
        };
        Self { node, begin, left: ops.into_iter().flatten().rev().collect() }
    }

    /// Logs the job; when it ended.
    fn end(
        &self,
        crew: &Workers,
        worker: usize,
        now: Nanos,
        instruments: &mut dyn Instruments,
    ) -> u64 {
        let end = crew.since_base(now);
        instruments.mark(now, crew.mark(self.node), Phase::End);
        crew.run.log(self.node, worker, self.begin, Some(end));
        end
    }
}

/// What a worker does in steps, some of which take no time.
trait Stepping: Send {
    /// One step; `None`: it took no time.
    fn step(&mut self, now: Nanos, instruments: &mut dyn Instruments) -> Option<Op>;
}

struct Steps<W>(W);

impl<W: Stepping> Behaviour for Steps<W> {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        if last == Done::Stopped {
            return Op::Exit;
        }
        loop {
            if let Some(op) = self.0.step(now, instruments) {
                return op;
            }
        }
    }
}

/// A worker that has no crew yet: where it runs is known, what it does is not.
struct Unmanned;

impl Behaviour for Unmanned {
    fn next(&mut self, _now: Nanos, _last: Done, _instruments: &mut dyn Instruments) -> Op {
        Op::Exit
    }
}

/// A worker's place in a plan; [`Workers::man`] says what it does.
#[must_use]
pub fn worker(role: u16) -> Task {
    Task::new("jobs-worker", role, Box::new(Unmanned))
}
