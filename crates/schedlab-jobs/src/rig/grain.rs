//! METG: the smallest job at which an executor still reaches an efficiency (Slaughter et al., "Task
//! Bench", SC 2020).
//!
//! Efficiency of a run is the work over workers times time: n jobs of g nanoseconds on w workers take
//! n g / w at best. The search doubles the grain from below until the efficiency is reached, then bisects
//! between the last two.

use crate::executor::{Executor, ExecutorError};
use crate::graph::{Graph, Node};
use crate::load::{Burner, Length, Load};
use crate::policy::Nanos;
use crate::profile::Profile;
use crate::run::{Clock, Run, Schedule, Work};
use std::sync::Arc;

/// A grain, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GrainPoint {
    /// Length of a job.
    pub grain_ns: Nanos,
    /// From 0 to 1 (a little above when calibration was disturbed).
    pub efficiency: f64,
}

struct Grains(Load, Nanos);

impl Work for Grains {
    fn perform(&self, node: Node) {
        self.0.perform(node);
    }

    fn expected_ns(&self, _: Node) -> Nanos {
        self.1
    }
}

/// The efficiency at a grain: of one run, proved.
///
/// # Errors
/// The executor's.
pub fn grain_at(
    executor: &mut dyn Executor,
    graph: &Graph,
    burner: Burner,
    grain_ns: Nanos,
    stop: fn() -> bool,
) -> Result<GrainPoint, ExecutorError> {
    let load = Load::new(graph, burner, grain_ns, Length::Fixed, 0);
    let work = Box::new(Grains(load, grain_ns));
    let run = Run::new(graph.clone(), Schedule::default(), work, Clock::start());
    let run = Arc::new(run.with_stop(stop));
    executor.run(&run)?;
    if let Err(flaw) = run.verify() {
        let what = flaw.to_string();
        return Err(ExecutorError::Unfinished { executor: executor.name(), what });
    }
    let profile = Profile::of(&run, executor.workers());
    let ideal = grain_ns as f64 * f64::from(graph.len()) / executor.workers() as f64;
    Ok(GrainPoint { grain_ns, efficiency: ideal / profile.covered_ns.max(1) as f64 })
}

/// The smallest grain at which the efficiency is reached, to about 5 %; `None` when a job of 1 ms does not
/// reach it.
///
/// # Errors
/// The executor's.
pub fn metg(
    executor: &mut dyn Executor,
    graph: &Graph,
    burner: Burner,
    efficiency: f64,
    stop: fn() -> bool,
) -> Result<Option<f64>, ExecutorError> {
    // The best of three: a disturbance by others is not the executor's.
    let mut reached = |grain_ns| -> Result<bool, ExecutorError> {
        for _ in 0..3 {
            if grain_at(executor, graph, burner, grain_ns, stop)?.efficiency >= efficiency {
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
