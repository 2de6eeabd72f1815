//! A pool of jobs whose workers are tasks of a simulated kernel of a tree. Each run has a process of its own.

use crate::machine::{OfTree, perform};
use crate::request::{ChildRequest, JobsReply, PoolRequest, Purpose, Tree};
use schedlab_jobs::executor::{Executor, ExecutorError, ExecutorFigures, Offers};
use schedlab_jobs::policy::Policy;
use schedlab_jobs::run::Run;
use schedlab_model::Nanos;
use schedlab_sim::SimulatedPool;
use std::path::PathBuf;
use std::sync::Arc;

/// An executor whose workers a kernel's own code schedules.
pub struct PoolOfTree {
    tree: Tree,
    asked: PoolRequest,
    /// It says what such a pool offers.
    like: SimulatedPool,
}

impl PoolOfTree {
    /// schedlab's pool on a machine, with the workers of a policy. `timer_slack` is what its workers ask the kernel for.
    #[must_use]
    pub fn new(machine: &OfTree, policy: Policy, timer_slack: Nanos) -> Self {
        let like = SimulatedPool::new(machine.model().clone(), policy.clone(), timer_slack);
        let asked = PoolRequest { policy, is_lumiera: false, timer_slack, runs: 0, trace: None };
        Self { tree: machine.tree().clone(), asked, like }
    }

    /// The executor with Lumiera's rules, which the policy has.
    #[must_use]
    pub fn lumiera(mut self) -> Self {
        self.asked.is_lumiera = true;
        Self { like: self.like.lumiera(), ..self }
    }

    /// The executor, writing the events of a run to a file, with a mark for each job.
    #[must_use]
    pub fn recording(mut self, trace: PathBuf) -> Self {
        self.asked.trace = Some(trace);
        self
    }
}

impl Executor for PoolOfTree {
    fn name(&self) -> String {
        self.like.name()
    }

    fn workers(&self) -> usize {
        self.like.workers()
    }

    fn offers(&self) -> Offers {
        self.like.offers()
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<ExecutorFigures, ExecutorError> {
        self.like.takes(run)?;
        let failed =
            |what: String| ExecutorError::Unfinished { executor: "schedlab".to_owned(), what };
        let purpose = Purpose::Jobs(Box::new(run.plain()), Box::new(self.asked.clone()));
        let asked = ChildRequest { tree: self.tree.clone(), purpose };
        self.asked.runs += 1;
        let Some(told) =
            perform(&asked, &|| run.is_stopped()).map_err(|e| failed(e.to_string()))?
        else {
            return Err(ExecutorError::Interrupted);
        };
        let told: Result<JobsReply, String> = serde_json::from_slice(&told)
            .map_err(|_| failed("its process did not tell how the jobs went".to_owned()))?;
        let JobsReply { told, log } = told.map_err(failed)?;
        run.take_over(log);
        Ok(told)
    }
}
