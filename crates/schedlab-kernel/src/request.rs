//! What the process of a run is asked and what it answers, as JSON.

use schedlab_jobs::elsewhere::{Log, Plain};
use schedlab_jobs::executor::ExecutorFigures;
use schedlab_jobs::policy::Policy;
use schedlab_model::{Nanos, Setting, Topology};
use schedlab_sim::{Model, OfCode};
use schedlab_workload::RunSpec;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// First argument of the program as the process of a run.
pub const ARGUMENT: &str = "__kernel";

/// What a child is asked, as JSON on its standard input.
#[derive(Serialize, Deserialize)]
pub(crate) struct ChildRequest {
    pub(crate) tree: Tree,
    pub(crate) purpose: Purpose,
}

/// The machine of a child.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Tree {
    /// The image; with a scheduler linked to it, if one was asked for.
    pub(crate) image: PathBuf,
    /// Variables of that scheduler.
    pub(crate) set: Vec<(String, u64)>,
    /// The machine's name, and how users know it.
    pub(crate) machine: String,
    pub(crate) written: String,
    /// The text of the file of costs.
    pub(crate) costs: Option<String>,
    pub(crate) code: OfCode,
    /// Its CPUs, if the name does not describe them.
    pub(crate) topology: Option<Topology>,
    /// Knobs that each run has.
    pub(crate) knobs: Vec<Setting>,
}

impl Tree {
    pub(crate) fn model(&self) -> Result<Model, String> {
        let name = self.machine.parse()?;
        let mut model = Model::of_code(&name, self.costs.as_deref(), self.code.clone())?;
        if let Some(topology) = &self.topology {
            let from: Vec<usize> = (0..topology.places().len()).collect();
            model.arrange(topology.clone(), &from);
        }
        self.knobs.iter().try_for_each(|one| model.set(&one.knob, &one.value))?;
        model.name.clone_from(&self.written);
        Ok(model)
    }
}

/// What a child is for.
#[derive(Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// The kernel's knobs.
    Knobs,
    /// A run, whose trace goes to this path.
    Run(Box<RunSpec>, PathBuf),
    /// A graph of jobs for a pool.
    Jobs(Box<Plain>, Box<PoolRequest>),
}

/// What a child tells of the kernel's knobs, by name; else what is wrong.
pub(crate) type KnobsReply = Result<Vec<(String, String)>, String>;

/// A pool, and where its events go.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PoolRequest {
    pub(crate) policy: Policy,
    pub(crate) is_lumiera: bool,
    pub(crate) timer_slack: Nanos,
    /// Runs before this one.
    pub(crate) runs: u32,
    pub(crate) trace: Option<PathBuf>,
}

/// What a child tells of a run of jobs.
#[derive(Serialize, Deserialize)]
pub(crate) struct JobsReply {
    pub(crate) told: ExecutorFigures,
    pub(crate) log: Log,
}
