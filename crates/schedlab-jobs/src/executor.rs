//! What every executor offers to the rig: run a graph, and say what it cannot do.

use crate::run::Run;
use std::sync::Arc;

/// What an executor can do. What it cannot do is shown as not offered, never faked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offers {
    /// Jobs may have start times.
    pub start_times: bool,
    /// Jobs may have deadlines.
    pub deadlines: bool,
    /// The executor has no deadlines: the rig looks at the clock as each job begins.
    pub looked_at: bool,
    /// Jobs may matter more or less than others.
    pub criticality: bool,
    /// Knows dependencies; otherwise the adaptor counts predecessors.
    pub dependencies: bool,
    /// Jobs can be cancelled.
    pub cancellation: bool,
    /// Jobs may end after they returned.
    pub asynchronous: bool,
    /// Jobs may fail: what depends on them is dropped.
    pub failures: bool,
    /// The executor has no timers: the rig submits each job at its start time.
    pub paced: bool,
    /// Whether the times of its runs are measured; otherwise they are computed.
    pub real: bool,
}

impl Offers {
    /// Runs what is submitted, at once, and no more.
    pub const PLAIN: Self = Self {
        start_times: false,
        deadlines: false,
        looked_at: false,
        criticality: false,
        dependencies: false,
        cancellation: false,
        asynchronous: false,
        failures: false,
        paced: false,
        real: true,
    };

    /// All that a run can ask for, by itself.
    pub(crate) const ALL: Self = Self {
        start_times: true,
        deadlines: true,
        criticality: true,
        dependencies: true,
        cancellation: true,
        asynchronous: true,
        failures: true,
        ..Self::PLAIN
    };

    /// A plain executor beside a rig that looks at the clock as each job begins, and so drops late jobs.
    pub const LOOKED_AT: Self = Self { deadlines: true, looked_at: true, ..Self::PLAIN };

    /// As [`Self::LOOKED_AT`], with a rig that also submits each job at its start time.
    pub(crate) const PACED: Self = Self { start_times: true, paced: true, ..Self::LOOKED_AT };
}

/// Why a graph was not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// The run asks for what the executor does not offer.
    #[error("{executor} does not offer {what}")]
    NotOffered {
        /// The name of the executor.
        executor: String,
        /// What the executor does not offer.
        what: &'static str,
    },
    /// The user ended the run.
    #[error("the run was interrupted")]
    Interrupted,
    /// It did not come to its end.
    #[error("{executor} did not finish: {what}")]
    Unfinished {
        /// The name of the executor.
        executor: String,
        /// What is known of the unfinished run.
        what: String,
    },
}

/// Figures that only the executor knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ExecutorFigures {
    /// Time to take in the graph, apart from running it.
    pub planning_ns: u64,
    /// Time that workers spent with management, where that is measured.
    pub management_ns: Option<u64>,
    /// Time that workers spent backing off from contention, where that is measured.
    pub back_off_ns: Option<u64>,
    /// Of an executor outside, how many of its jobs' values were computed again and agreed.
    pub recomputed: Option<u32>,
}

impl Run {
    /// The result of an executor whose jobs have all returned. Jobs that [`Run::perform_in_time`]
    /// did not let run count as dropped.
    ///
    /// # Errors
    /// When the run was ended meanwhile: the jobs that were left did nothing.
    pub fn finish(&self, figures: ExecutorFigures) -> Result<ExecutorFigures, ExecutorError> {
        if self.is_stopped() {
            return Err(ExecutorError::Interrupted);
        }
        if self.may_drop() {
            self.set_dropped(self.count_dropped());
        }
        Ok(figures)
    }
}

/// Runs graphs of jobs.
pub trait Executor {
    /// What it is called in tables.
    fn name(&self) -> String;

    /// How many jobs it can run at once.
    fn workers(&self) -> usize;

    /// What it can do.
    fn offers(&self) -> Offers;

    /// Runs all jobs of a graph and returns when they ended.
    ///
    /// # Errors
    /// When the run asks for what is not offered, or does not come to its end.
    fn run(&mut self, run: &Arc<Run>) -> Result<ExecutorFigures, ExecutorError>;
}

/// Refuses what plain executors cannot do.
pub fn refuse_times(executor: &dyn Executor, run: &Run) -> Result<(), ExecutorError> {
    let name = || executor.name();
    let offers = executor.offers();
    if run.schedule().is_timed() && !offers.start_times {
        return Err(ExecutorError::NotOffered { executor: name(), what: "start times" });
    }
    if run.schedule().has_deadlines() && !offers.deadlines {
        return Err(ExecutorError::NotOffered { executor: name(), what: "deadlines" });
    }
    if !run.is_normal() && !offers.criticality {
        return Err(ExecutorError::NotOffered { executor: name(), what: "criticality" });
    }
    if run.has_io() && !offers.asynchronous {
        return Err(ExecutorError::NotOffered { executor: name(), what: "asynchronous I/O" });
    }
    if run.has_failures() && !offers.failures {
        return Err(ExecutorError::NotOffered { executor: name(), what: "jobs that fail" });
    }
    Ok(())
}
