//! A pool on a simulated machine, as an executor of the rig: its workers are tasks that the machine's kernel schedules.

use super::groups::{Grouping, OwnGroup};
use super::{Model, One, SPEED, trace_info};
use crate::{Board, Step, World};
use schedlab_jobs::executor::{Executor, ExecutorError, ExecutorFigures, Offers};
use schedlab_jobs::policy::Policy;
use schedlab_jobs::run::Run;
use schedlab_jobs::virtual_time::Costs;
use schedlab_model::{Cpu, Event, Nanos, TraceInfo};
use schedlab_workload::jobs::{Rules, Workers, worker};
use schedlab_workload::plan::Plan;
use std::sync::Arc;

/// Virtual time between two looks whether the user wants to stop.
const LOOK: u64 = 50_000_000;

/// An executor whose workers are tasks in virtual time.
pub struct SimulatedPool {
    model: Model,
    /// How many workers, and where they run; the rest counts by Lumiera's rules alone.
    policy: Policy,
    is_lumiera: bool,
    timer_slack: Nanos,
    costs: Costs,
    /// Runs so far: each begins at another phase of the tick, so that repeats are no copies.
    runs: u32,
    /// The events of the last run, where they are wanted.
    recorded: Option<(TraceInfo, Vec<Event>)>,
    records: bool,
    /// The code of a kernel, for one run.
    board: Option<Board>,
}

impl SimulatedPool {
    /// schedlab's pool on a machine, with the workers of a policy. `timer_slack` is what its workers ask the kernel for.
    #[must_use]
    pub fn new(model: Model, policy: Policy, timer_slack: Nanos) -> Self {
        let costs = Costs::USUAL;
        let is_lumiera = false;
        let records = false;
        let runs = 0;
        let recorded = None;
        let board = None;
        Self { model, policy, is_lumiera, timer_slack, costs, runs, recorded, records, board }
    }

    /// The executor for one run with the code of a kernel, which the board enters; `runs` were before it.
    #[must_use]
    pub fn with_code(self, board: Board, runs: u32) -> Self {
        Self { board: Some(board), runs, ..self }
    }

    /// The executor with Lumiera's rules, which the policy has.
    #[must_use]
    pub fn lumiera(self) -> Self {
        Self { is_lumiera: true, ..self }
    }

    /// The executor, keeping the scheduler's events of a run, with a mark for each job.
    #[must_use]
    pub fn recording(mut self) -> Self {
        self.records = true;
        self
    }

    /// What the last run recorded; `None` if nothing was recorded since the last call.
    pub fn take_recorded(&mut self) -> Option<(TraceInfo, Vec<Event>)> {
        self.recorded.take()
    }

    /// Refuses a run that asks for what workers in virtual time do not do.
    ///
    /// # Errors
    /// When it does.
    pub fn takes(&self, run: &Run) -> Result<(), ExecutorError> {
        match run.has_io() {
            false => Ok(()),
            true => {
                let what = "jobs that end after they returned";
                Err(ExecutorError::NotOffered { executor: self.name(), what })
            }
        }
    }

    /// A plan whose tasks are the workers, each where the policy puts it, and a mark for each kind of job.
    fn plan(&self, run: &Arc<Run>) -> (Plan, Arc<Workers>) {
        let mut plan = Plan::new("jobs");
        let role = plan.role("worker");
        let workers = self.policy.workers;
        let allowed: Vec<usize> = self.model.topology.cpus().iter().map(Cpu::index).collect();
        plan.tasks = (0..workers).map(|_| worker(role)).collect();
        for (number, task) in plan.tasks.iter_mut().enumerate() {
            let cpu = self.policy.cpus.of(number, workers, &allowed);
            let cpu = cpu.and_then(|cpu| u16::try_from(cpu).ok());
            task.placement.cpus = cpu.map(|cpu| std::iter::once(Cpu(cpu)).collect());
        }
        let mut kinds: Vec<&'static str> = Vec::new();
        for node in 0..run.graph().len() {
            let kind = run.kind(node);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        plan.marks = kinds.iter().map(|kind| format!("{kind} job")).collect();
        let rules = match self.is_lumiera {
            true => Rules::Lumiera(Box::new(self.policy.clone())),
            false => Rules::Pool,
        };
        let crew = Workers::man(&mut plan, run.clone(), rules, self.costs, SPEED, kinds);
        (plan, crew)
    }

    fn world(&mut self, plan: &mut Plan) -> World {
        let mut model = self.model.clone();
        model.costs.timer_slack = self.timer_slack.0.min(model.costs.timer_slack);
        let grouping = Grouping::of(plan, &OwnGroup::default(), &model);
        let run = One { repeat: self.runs, records: self.records, ..One::default() };
        let mut world = model.world(plan, model.hardware(), &grouping, self.board.take(), run);
        world.boot();
        world
    }
}

impl Executor for SimulatedPool {
    fn name(&self) -> String {
        let rules = if self.is_lumiera { "lumiera" } else { "schedlab" };
        format!("{rules} on {}", self.model.name)
    }

    fn workers(&self) -> usize {
        self.policy.workers
    }

    fn offers(&self) -> Offers {
        Offers {
            start_times: true,
            deadlines: true,
            criticality: true,
            dependencies: true,
            cancellation: true,
            real: false,
            ..Offers::PLAIN
        }
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<ExecutorFigures, ExecutorError> {
        self.takes(run)?;
        let (mut plan, crew) = self.plan(run);
        let mut world = self.world(&mut plan);
        self.runs += 1;
        let info = self.records.then(|| trace_info(&self.model, &world, &plan));
        let mut events = Vec::new();
        let mut keep = |batch: &[Event]| events.extend_from_slice(batch);
        let failed =
            |what: String| ExecutorError::Unfinished { executor: "schedlab".to_owned(), what };
        while world.run_until(world.now() + LOOK, &mut keep).map_err(|e| failed(e.to_string()))?
            != Step::Ended
        {
            if run.is_stopped() {
                world.stop();
            }
        }
        self.recorded = info.map(|info| (info, events));
        // What was left when the user ended it did not run.
        if run.is_stopped() {
            return Err(ExecutorError::Interrupted);
        }
        crew.outcome()
    }
}
