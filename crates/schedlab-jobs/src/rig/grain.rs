//! METG: the smallest job at which an executor still reaches an efficiency (Slaughter et al., "Task
//! Bench", SC 2020).
//!
//! Efficiency of a run is the work over workers times time: n jobs of g nanoseconds on w workers take
//! n g / w at best. The search doubles the grain from below until the efficiency is reached, then bisects
//! between the last two. Time that an executor takes to plan before the run counts, as another's spawns do.

use crate::executor::{Executor, ExecutorError};
use crate::graph::{Graph, Node};
use crate::load::{Burner, Length, Load};
use crate::policy::Nanos;
use crate::profile::Profile;
use crate::run::{Clock, Run, Schedule, Work};
use std::sync::Arc;

/// The jobs whose grain is searched for.
#[derive(Clone, Copy, Debug)]
pub struct Jobs<'a> {
    /// Which job waits for which.
    pub graph: &'a Graph,
    /// The work that the jobs do.
    pub burner: Burner,
    /// How their lengths differ around the grain.
    pub length: Length,
    /// Bytes that each job writes and each of its successors reads.
    pub data_bytes: usize,
    /// Whether the user ended the search.
    pub stop: fn() -> bool,
}

/// A length of jobs that the search tried, and the efficiency at this length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GrainPoint {
    /// Mean length of a job.
    pub(crate) grain_ns: Nanos,
    /// The part of the workers' time that was work, from 0 to 1 (a little above if calibration was disturbed).
    pub(crate) efficiency: f64,
}

/// The efficiency at a grain: of one run, proved.
///
/// # Errors
/// The executor's.
pub(crate) fn grain_at(
    executor: &mut dyn Executor,
    jobs: &Jobs<'_>,
    grain_ns: Nanos,
) -> Result<GrainPoint, ExecutorError> {
    let load = Load::new(jobs.graph, jobs.burner, grain_ns, jobs.length, 0);
    let planned = |node: Node| load.expected_ns(node);
    let work_ns: Nanos = (0..jobs.graph.len()).map(planned).sum();
    let work = Box::new(load.with_data(jobs.graph, jobs.data_bytes));
    let run = Run::new(jobs.graph.clone(), Schedule::default(), work, Clock::start());
    let run = Arc::new(run.with_stop(jobs.stop));
    let told = executor.run(&run)?;
    if let Err(flaw) = run.verify() {
        let what = flaw.to_string();
        return Err(ExecutorError::Unfinished { executor: executor.name(), what });
    }
    let profile = Profile::of(&run, executor.workers());
    let ideal = work_ns as f64 / executor.workers() as f64;
    let took_ns = profile.covered_ns + told.planning_ns;
    Ok(GrainPoint { grain_ns, efficiency: ideal / took_ns.max(1) as f64 })
}

/// The smallest grain at which the efficiency is reached, to about 5 %; `None` when a job of 1 ms does not
/// reach it.
///
/// # Errors
/// The executor's.
pub fn metg(
    executor: &mut dyn Executor,
    jobs: &Jobs<'_>,
    efficiency: f64,
) -> Result<Option<f64>, ExecutorError> {
    // The best of three: a disturbance by others is not the executor's.
    let mut reached = |grain_ns| -> Result<bool, ExecutorError> {
        for _ in 0..3 {
            if grain_at(executor, jobs, grain_ns)?.efficiency >= efficiency {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let mut above: Nanos = 32;
    while !reached(above)? {
        above *= 2;
        if above > 1_000_000 {
            return Ok(None);
        }
    }
    let mut below = above / 2;
    while above - below > (above / 20).max(2) {
        let middle = below.midpoint(above);
        if reached(middle)? {
            above = middle;
        } else {
            below = middle;
        }
    }
    Ok(Some(above as f64))
}
