//! The workers of a pool as tasks of any machine: behaviours over the one agenda.
//!
//! Each task goes the rounds of [`Rounds`]: it takes the token, gives back what it ran, takes what is due, wakes whom
//! the policy names, and runs jobs, spins or sleeps. While it holds the token it computes for as long as that takes, so
//! a machine that displaces it then keeps the others waiting. The clock of the agenda begins when the first worker does.

use crate::job_graph::Jobs;
use crate::plan::{Plan, Task};
use crate::{Behaviour, Done, Instruments, LockId, Op, WordId};
use schedlab_jobs::executor::{ExecutorError, Told};
use schedlab_jobs::graph::Node;
use schedlab_jobs::load::Kind;
use schedlab_jobs::planning::plan_of;
use schedlab_jobs::policy::{Agenda, Outcome, Pause, Policy, Pulled, Verdict};
use schedlab_jobs::rounds::Rounds;
use schedlab_jobs::run::Run;
use schedlab_jobs::virtual_time::Costs;
use schedlab_model::{Nanos, Phase};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What all workers of a run share.
pub struct Workers {
    run: Arc<Run>,
    /// What the workers' own work costs; the machine knows the rest.
    costs: Costs,
    /// Iterations of the calibrated loop in a microsecond.
    speed: u64,
    /// The kinds of work, in the order of the plan's marks.
    kinds: Vec<&'static str>,
    state: Mutex<State>,
}

struct State {
    agenda: Agenda<Node>,
    /// When the first worker began, on the machine's clock.
    base: Option<Nanos>,
    /// Whether a worker holds the token.
    held: bool,
    /// Nothing is left to do.
    over: bool,
    management_ns: u64,
    back_off_ns: u64,
}

impl Workers {
    /// Makes the tasks of a plan the workers that run a graph, on a machine whose CPUs do this many iterations in a
    /// microsecond.
    ///
    /// # Errors
    /// A sentence: the workers of the executor that was asked for are not behaviours.
    pub fn of(jobs: &Jobs, plan: &mut Plan, speed: u64) -> Result<Arc<Self>, String> {
        if jobs.executor != "schedlab" {
            let executor = &jobs.executor;
            return Err(format!("the threads of {executor} are those of a library: use schedlab"));
        }
        let run = Arc::new(jobs.computed());
        let kinds = jobs.load.all().iter().map(|kind| kind.name()).collect();
        Ok(Self::man(plan, run, jobs.policy.clone(), Costs::USUAL, speed, kinds))
    }

    /// Makes the tasks of a plan, one for each worker of the policy, the workers of a run. `costs` says how long a turn
    /// with the token and a spin take, `speed` how many iterations a CPU does in a microsecond. Names of kinds are
    /// those of the plan's marks.
    #[must_use]
    pub fn man(
        plan: &mut Plan,
        run: Arc<Run>,
        policy: Policy,
        costs: Costs,
        speed: u64,
        kinds: Vec<&'static str>,
    ) -> Arc<Self> {
        let step = policy.step;
        let begin = policy.workers_min.clamp(1, policy.workers);
        let state = State {
            agenda: Agenda::new(policy),
            base: None,
            held: false,
            over: false,
            management_ns: 0,
            back_off_ns: 0,
        };
        let crew = Arc::new(Self { run, costs, speed, kinds, state: Mutex::new(state) });
        let words: Vec<WordId> = (0..plan.tasks.len()).map(|_| plan.word()).collect();
        let lock = LockId(plan.locks);
        plan.locks += 1;
        for (number, task) in plan.tasks.iter_mut().enumerate() {
            let stage = if number < begin { Stage::Begin } else { Stage::Unstarted };
            task.behaviour = Box::new(Worker {
                crew: crew.clone(),
                number,
                rounds: Rounds::new(number, step),
                words: words.clone(),
                lock,
                stage,
            });
        }
        crew
    }

    /// What the workers tell when the tasks have ended.
    ///
    /// # Errors
    /// When jobs are left: the tasks were stopped before.
    pub fn told(&self) -> Result<Told, ExecutorError> {
        let state = self.state();
        match state.agenda.backlog() {
            0 if state.base.is_some() => {}
            left => {
                let what = format!("{left} jobs are left");
                return Err(ExecutorError::Unfinished { executor: "schedlab".to_owned(), what });
            }
        }
        self.run.set_dropped(state.agenda.counts().into());
        Ok(Told {
            management_ns: Some(state.management_ns),
            back_off_ns: Some(state.back_off_ns),
            ..Told::default()
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
            state.agenda.plan(plan_of(&self.run, 0));
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
}

struct Worker {
    crew: Arc<Workers>,
    number: usize,
    rounds: Rounds<Node>,
    words: Vec<WordId>,
    /// The lock that jobs of the kind `lock` share.
    lock: LockId,
    stage: Stage,
}

enum Stage {
    /// It waits until the pool grows.
    Unstarted,
    Begin,
    /// It tries to take the token.
    Ask,
    /// It has spent its time with the token: it lets go, then wakes these workers, the last one first.
    LetGo {
        verdict: Verdict,
        wakes: Vec<usize>,
    },
    Wake {
        verdict: Verdict,
        wakes: Vec<usize>,
    },
    /// It tried without effect, and has stayed away since then.
    BackedOff {
        since: Nanos,
        spun: bool,
    },
    Yield,
    /// It begins the next of its jobs.
    Perform,
    /// It is at a job; the operations that are left, the next one last.
    Job {
        job: Pulled<Node>,
        begin: u64,
        left: Vec<Op>,
    },
}

impl Behaviour for Worker {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        if last == Done::Stopped {
            return Op::Exit;
        }
        loop {
            if let Some(op) = self.step(now, instruments) {
                return op;
            }
        }
    }
}

impl Worker {
    /// One step; `None`: it took no time.
    fn step(&mut self, now: Nanos, instruments: &mut dyn Instruments) -> Option<Op> {
        match std::mem::replace(&mut self.stage, Stage::Ask) {
            Stage::Unstarted => {
                self.stage = Stage::Begin;
                Some(Op::Wait(self.words[self.number]))
            }
            Stage::Begin => {
                self.rounds.begin(self.crew.since_base(now));
                None
            }
            Stage::Ask => self.ask(now),
            Stage::LetGo { verdict, wakes } => {
                self.crew.state().held = false;
                self.stage = Stage::Wake { verdict, wakes };
                None
            }
            Stage::Wake { verdict, mut wakes } => match wakes.pop() {
                Some(other) => {
                    self.stage = Stage::Wake { verdict, wakes };
                    Some(Op::Wake { word: self.words[other], stamp: now })
                }
                None => self.follow(verdict),
            },
            Stage::BackedOff { since, spun } => {
                self.crew.state().back_off_ns += (now - since).0;
                spun.then_some(Op::Yield)
            }
            Stage::Yield => Some(Op::Yield),
            Stage::Perform => {
                self.take_up(now, instruments);
                None
            }
            Stage::Job { job, begin, mut left } => match left.pop() {
                Some(op) => {
                    self.stage = Stage::Job { job, begin, left };
                    Some(op)
                }
                None => {
                    self.put_down(&job, begin, now, instruments);
                    None
                }
            },
        }
    }

    /// One attempt at the token.
    fn ask(&mut self, now: Nanos) -> Option<Op> {
        let crew = self.crew.clone();
        let at = crew.since_base(now);
        let mut state = crew.state();
        if state.over {
            return Some(Op::Exit);
        }
        if state.held {
            let pause = self.rounds.back_off();
            self.stage = Stage::BackedOff { since: now, spun: matches!(pause, Pause::Spin { .. }) };
            return match pause {
                Pause::Spin { turns, rounds } => {
                    crew.compute(crew.costs.spin_for_ns(turns, rounds))
                }
                Pause::Sleep(ns) => Some(Op::Sleep(Nanos(ns))),
            };
        }
        let (pull, jobs) = self.rounds.manage(at, &mut state.agenda);
        let hold_ns = crew.costs.hold_ns(jobs);
        state.held = true;
        state.management_ns += hold_ns;
        state.over = state.agenda.backlog() == 0;
        let mut wakes = state.agenda.starts();
        wakes.extend(pull.wake);
        if state.over {
            wakes = (0..self.words.len()).filter(|&other| other != self.number).collect();
        }
        wakes.reverse();
        self.stage = Stage::LetGo { verdict: pull.verdict, wakes };
        crew.compute(hold_ns)
    }

    /// Does what the policy said.
    fn follow(&mut self, verdict: Verdict) -> Option<Op> {
        let (over, base) = {
            let state = self.crew.state();
            (state.over, state.base.unwrap_or_default())
        };
        let word = self.words[self.number];
        match verdict {
            _ if over => Some(Op::Exit),
            Verdict::Run => {
                self.stage = Stage::Perform;
                None
            }
            Verdict::Spin => {
                self.stage = Stage::Yield;
                self.crew.compute(self.crew.costs.spin_ns)
            }
            Verdict::Sleep { until } => {
                self.rounds.slept();
                Some(Op::WaitUntil { word, until: base + Nanos(until) })
            }
            Verdict::Retire => {
                self.stage = Stage::Begin;
                Some(Op::Wait(word))
            }
        }
    }

    fn take_up(&mut self, now: Nanos, instruments: &mut dyn Instruments) {
        let Some(job) = self.rounds.next_job() else { return };
        let crew = &self.crew;
        let begin = crew.since_base(now);
        instruments.mark(now, self.mark(job.job), Phase::Begin);
        let ns = crew.run.expected_ns(job.job);
        let sleep = |ns| Some(Op::Sleep(Nanos(ns)));
        let kind = crew.run.kind(job.job).parse().unwrap_or_default();
        let ops = match kind {
            Kind::Cpu | Kind::Memory => [crew.compute(ns), None, None],
            Kind::Lock => {
                [Some(Op::Lock(self.lock)), crew.compute(ns), Some(Op::Unlock(self.lock))]
            }
            Kind::Sleep => [crew.compute(ns / 2), sleep(ns / 2), None],
            Kind::Block => [sleep(ns), None, None],
        };
        let left = ops.into_iter().flatten().rev().collect();
        self.stage = Stage::Job { job, begin, left };
    }

    fn put_down(
        &mut self,
        job: &Pulled<Node>,
        begin: u64,
        now: Nanos,
        instruments: &mut dyn Instruments,
    ) {
        let end = self.crew.since_base(now);
        instruments.mark(now, self.mark(job.job), Phase::End);
        self.crew.run.log(job.job, self.number, begin, Some(end));
        self.rounds.ran(job.id, Outcome::Done, begin, end);
        self.stage = Stage::Perform;
    }

    fn mark(&self, node: Node) -> u32 {
        let kind = self.crew.run.kind(node);
        self.crew.kinds.iter().position(|known| *known == kind).unwrap_or(0) as u32
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
