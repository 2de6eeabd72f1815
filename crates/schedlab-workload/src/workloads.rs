//! The workloads, by name: their options, and the plans made of them.

mod app;
pub mod command;
mod hackbench;
mod jobs;
pub mod replay;
mod rt_app;
pub mod schbench;
mod simple;
mod spinlock;

use crate::options::{OptionDoc, OptionError, Options};
use crate::placement::{COMMON, MachineProperties, place};
use crate::plan::Plan;
use std::collections::BTreeMap;

pub struct Workload {
    pub name: &'static str,
    pub about: &'static str,
    /// Its options, beside those that all take.
    pub options: &'static [OptionDoc],
    build: fn(&Options, &MachineProperties) -> Result<Plan, OptionError>,
}

/// All workloads, in the order of the help.
pub const CATALOGUE: &[Workload] = &[
    schbench::WORKLOAD,
    hackbench::WORKLOAD,
    simple::PINGPONG,
    simple::BARRIER,
    simple::CPU,
    simple::UDP,
    simple::MIXED,
    simple::PROCESSES,
    simple::THREADS,
    simple::STREAM,
    spinlock::WORKLOAD,
    rt_app::WORKLOAD,
    replay::WORKLOAD,
    app::WORKLOAD,
    jobs::WORKLOAD,
    command::WORKLOAD,
];

/// Why a workload cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("unknown workload '{0}': use {1}")]
    NoWorkload(String, String),
    #[error(transparent)]
    Option(#[from] OptionError),
}

/// A workload by name.
///
/// # Errors
/// When there is none.
pub fn find(name: &str) -> Result<&'static Workload, PlanError> {
    CATALOGUE.iter().find(|workload| workload.name == name).ok_or_else(|| {
        let names: Vec<&str> = CATALOGUE.iter().map(|workload| workload.name).collect();
        PlanError::NoWorkload(name.to_owned(), names.join(", "))
    })
}

/// Checks the options of a workload and makes its plan.
///
/// # Errors
/// When there is no such workload, or an option is wrong: before anything was started.
pub fn plan(
    name: &str,
    given: &BTreeMap<String, String>,
    surroundings: &MachineProperties,
) -> Result<Plan, PlanError> {
    let workload = find(name)?;
    let options = Options::new(&[workload.options, COMMON], given)?;
    let mut plan = (workload.build)(&options, surroundings)?;
    plan.upstream = options.text("compat") == "upstream";
    let roles = plan.roles.clone();
    place(&mut plan.tasks, &roles, &options, surroundings)?;
    Ok(plan)
}
