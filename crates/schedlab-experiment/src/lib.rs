//! Experiments: from a question to stored results to a report.
//!
//! An [`Experiment`] is read from a file, a [`Plan`] made of it, and [`run_plan`] does the plan's runs
//! on their [`Machines`], each into a directory of its own that is written
//! once and then only read ([`StoredRun`]). A [`report`] is made from stored runs alone.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let machine: &mut dyn schedlab_workload::Machine = unreachable!();
//! use schedlab_experiment::{Experiment, Machines, Plan, report, run_plan, runs_of};
//! use std::path::Path;
//! let experiment = Experiment::read(Path::new("examples/tour.toml"))?;
//! let results = Path::new("results/tour");
//! run_plan(&mut Machines::one(machine), &Plan::new(&experiment), results, &|| false, &mut |_| ())?;
//! let html = report::of_runs(&experiment.title, &runs_of(results)?.runs).html();
//! schedlab_trace::write_file("report.html".as_ref(), html)?;
//! # Ok(()) }
//! ```

pub mod analysis;
mod check;
mod comparable;
mod environment;
pub mod evaluation;
pub mod export;
#[cfg(test)]
mod fake;
mod file;
pub mod frozen;
mod hooks;
mod id;
#[cfg(test)]
mod judge;
mod machine_files;
mod machines;
mod plan;
#[cfg(test)]
mod recorded_runs;
mod refused_part;
mod repeated_plan;
pub mod report;
mod run_loop;
mod run_metrics;
mod session;
mod shard;
mod store;
mod trace_metrics;
pub mod tune;

pub use check::{knob_of, missing_program};
pub use comparable::incomparable;
pub use environment::{is_passing, machine_line};
pub use file::{
    Axis, Claim, Drawing, Experiment, FileError, Hooks, Limit, Mistake, Screen, Short, StopRule,
    Tuning, Varies, When, Workload, keys, unknown_metric,
};
use file::{Hosts, Measure, Order};
pub use id::RunId;
pub use machine_files::machine_files;
pub use machines::Machines;
pub use plan::{Plan, Planned, Point};
pub use repeated_plan::RepeatedPlan;
pub use run_loop::{LoopError, Progress, Tally, run_plan};
pub use session::run_experiment;
pub use shard::{Shard, run_shard};
use store::MEASURING;
pub use store::{
    FigureLine, IntervalLine, Manifest, Place, SCHEMA, StoreError, StoredRun, StoredRuns,
    mixed_versions, runs_of,
};
