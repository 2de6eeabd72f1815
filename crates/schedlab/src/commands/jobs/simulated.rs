//! `--on sim:...`: the workers of schedlab's pool, or of one with lumiera's rules, are tasks of a simulated machine.

use crate::machines::Simulation;
use anyhow::Context;
use schedlab_jobs::executor::{Executor, ExecutorError, ExecutorFigures};
use schedlab_jobs::planning::{Planner, Planning};
use schedlab_jobs::policy::{Cpus, Policy};
use schedlab_jobs::run::Run;
use schedlab_jobs::stealing::Stealing;
use schedlab_jobs::virtual_time::{Costs, VirtualPool, VirtualTime};
use schedlab_kernel::PoolOfTree;
use schedlab_model::{Bytes, Fact, Nanos};
use schedlab_sim::{Model, Simulated, SimulatedPool};
use schedlab_trace::EventWriter;
use schedlab_workload::{Machine, MachineError};
use std::path::Path;
use std::sync::Arc;

/// The executors that a simulated machine has.
pub(super) const EXECUTORS: [&str; 4] = ["schedlab", "lumiera", "virtual", "ideal"];

fn refused(on: &Simulation, what: String, why: &str) -> anyhow::Error {
    let machine = on.model().name.clone();
    MachineError::NotOffered { machine, what, why: why.to_owned() }.into()
}

/// What is asked of workers.
pub(super) struct Workers {
    pub(super) policy: Policy,
    pub(super) timer_slack: Nanos,
    pub(super) planning: Planning,
    pub(super) stealing: Stealing,
    /// Whether they are to have a real-time priority, or a slice.
    pub(super) attributes: bool,
}

/// A pool in virtual time.
pub(super) enum Pool {
    Model(Box<SimulatedPool>),
    Tree(Box<PoolOfTree>),
}

impl Pool {
    pub(super) fn executor(self) -> Box<dyn Executor> {
        match self {
            Self::Model(pool) => pool,
            Self::Tree(pool) => pool,
        }
    }
}

/// An executor by name.
pub(super) fn executor(
    on: &Simulation,
    name: &str,
    workers: Workers,
) -> anyhow::Result<Box<dyn Executor>> {
    let what = || format!("run the executor '{name}'");
    match name {
        "schedlab" | "lumiera" => Ok(pool(on, name, workers)?.executor()),
        "virtual" => {
            let Workers { policy, planning, .. } = workers;
            Ok(Box::new(VirtualPool::new(policy.workers, Costs::USUAL, planning)))
        }
        "ideal" => {
            let Policy { workers, order, .. } = workers.policy;
            Ok(Box::new(VirtualTime::ideal(workers).ordered(order)))
        }
        _ if name.starts_with("cmd:") || name.starts_with("lib:") => {
            match &Simulated::new(on.model().clone()).offers().commands {
                Fact::Unknown(why) => Err(refused(on, what(), why)),
                Fact::Known(()) => Err(refused(on, what(), "its code is not simulated")),
            }
        }
        _ => {
            let why = format!("its code is not simulated: use {}", EXECUTORS.join(", "));
            Err(refused(on, what(), &why))
        }
    }
}

/// A pool by the name of its executor.
pub(super) fn pool(on: &Simulation, name: &str, workers: Workers) -> anyhow::Result<Pool> {
    let Workers { policy, timer_slack, planning, stealing, attributes } = workers;
    if planning.planner != Planner::Ahead {
        let why = "its pool gets all jobs before a run begins: leave --plan out";
        return Err(refused(on, "plan jobs during a run".to_owned(), why));
    }
    if stealing == Stealing::Always {
        let why = "its pool runs each job by itself: leave --queues stealing out";
        return Err(refused(on, "let workers steal jobs".to_owned(), why));
    }
    if attributes {
        let why = "its workers are normal tasks: leave --fifo and --slice out";
        return Err(refused(on, "place workers so".to_owned(), why));
    }
    let cpus = on.model().topology.places().len();
    if let Cpus::List(list) = &policy.cpus
        && (list.is_empty() || list.iter().any(|&cpu| cpu >= cpus))
    {
        let why = format!("--cpus: its CPUs are 0 to {}", cpus.saturating_sub(1));
        return Err(refused(on, "place workers so".to_owned(), &why));
    }
    let is_lumiera = name == "lumiera";
    Ok(match on {
        Simulation::Model(model) => {
            let pool = SimulatedPool::new(Model::clone(model), policy, timer_slack);
            Pool::Model(Box::new(if is_lumiera { pool.lumiera() } else { pool }))
        }
        Simulation::Tree(tree) => {
            let pool = PoolOfTree::new(tree, policy, timer_slack);
            Pool::Tree(Box::new(if is_lumiera { pool.lumiera() } else { pool }))
        }
    })
}

/// Refuses what jobs do that costs nothing in virtual time.
pub(super) fn check_data(on: &Simulation, data: Bytes) -> anyhow::Result<()> {
    if data.0 > 0 {
        let why = "reads and writes of results take no virtual time: leave --data out";
        return Err(refused(on, "run jobs with data".to_owned(), why));
    }
    Ok(())
}

/// Refuses a command that measures threads of this process.
pub(super) fn refuse(on: &Simulation, what: &str) -> anyhow::Error {
    refused(on, what.to_owned(), "it measures threads of this process: leave --on out")
}

/// One run, its scheduler events in a file where one is named.
pub(super) fn run(pool: Pool, run: &Arc<Run>, record: Option<&Path>) -> anyhow::Result<Ran> {
    let Some(path) = record else {
        let mut pool = pool.executor();
        return Ok(Ran { told: pool.run(run), name: pool.name(), workers: pool.workers() });
    };
    match pool {
        Pool::Tree(pool) => {
            let mut pool = pool.recording(path.to_owned());
            Ok(Ran { told: pool.run(run), name: pool.name(), workers: pool.workers() })
        }
        Pool::Model(pool) => {
            let mut pool = pool.recording();
            let told = pool.run(run);
            if let Some((info, events)) = pool.take_recorded() {
                let written = EventWriter::write_all(path, &info, &events);
                written.with_context(|| path.display().to_string())?;
            }
            Ok(Ran { told, name: pool.name(), workers: pool.workers() })
        }
    }
}

/// One run of a pool.
pub(super) struct Ran {
    pub(super) told: Result<ExecutorFigures, ExecutorError>,
    pub(super) name: String,
    pub(super) workers: usize,
}
