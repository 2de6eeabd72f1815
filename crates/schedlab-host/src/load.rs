//! The load child: performs the tasks of a plan as threads or processes and tells what they measured.
//!
//! It is the binary re-executed with [`ARGUMENT`]: the spec comes as one line of JSON on its standard
//! input, what it learns goes as JSON lines to its standard output. All that tasks share is words in
//! one piece of shared memory (`arena`); each task is driven by `interpret`, started and awaited
//! by `start_tasks`, while `run_phases` keeps the clock: intervals, the end, a rate that follows the
//! machine. When the parent dies the child is killed, and its processes with it.

mod arena;
mod calibrate;
mod child_report;
mod child_request;
mod command;
mod figures;
mod group;
mod interpret;
mod jobs;
mod live_counters;
mod memory;
mod native;
mod overhead;
mod run_phases;
mod start_gate;
mod start_tasks;

pub(crate) use calibrate::calibrate;
pub(crate) use child_report::LoadReport;
pub(crate) use child_request::{GO, LoadRequest, Part};
pub(crate) use figures::of_resources;
pub use overhead::{Overhead, overhead};

use crate::load_environment::Site;
use arena::Arena;
use schedlab_model::{Nanos, Topology};
use schedlab_workload::placement::MachineProperties;
use schedlab_workload::plan::Plan;
use schedlab_workload::workloads::{self, PlanError};
use schedlab_workload::{RunSpec, WorkloadSpec};
use std::io::BufRead;
use std::path::Path;
use std::process::ExitCode;

/// The hidden first argument by which the program becomes a load child.
pub const ARGUMENT: &str = "__load";

/// Tells the load child how many iterations of the loop a microsecond at full speed has.
pub(crate) const CALIBRATED: &str = "SCHEDLAB_CALIBRATED";

/// The load child's whole life: reads a spec, performs it, reports, ends.
#[must_use]
pub fn load_child() -> ExitCode {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    let LoadRequest { spec, part, site } = match read
        .map_err(|e| e.to_string())
        .and_then(|_| serde_json::from_str::<LoadRequest>(&line).map_err(|error| error.to_string()))
    {
        Ok(asked) => asked,
        Err(error) => return fail(&LoadReport::Failed { option: None, why: error }),
    };
    // Here, since attributes belong to threads: all tasks of the load are started by this one.
    if let Err(error) = crate::knobs::take_on(&spec.settings) {
        return fail(&LoadReport::Failed { option: None, why: error.to_string() });
    }
    match perform(&spec, part, &site) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(told) => fail(&told),
    }
}

fn fail(told: &LoadReport) -> ExitCode {
    told.tell();
    ExitCode::FAILURE
}

/// The machine as plans see it.
///
/// # Errors
/// When the topology or our own affinity cannot be read.
pub(crate) fn surroundings(seed: u64) -> std::io::Result<MachineProperties> {
    let topology = schedlab_sys::topology::read(Path::new("/sys"))?;
    let allowed = schedlab_sys::sched::affinity(schedlab_model::Pid(0))?;
    let topology = if topology.cpus().is_empty() { Topology::flat(1) } else { topology };
    // On a slowed CPU the loop would be calibrated wrongly: who slowed it says what it was.
    let told = std::env::var(CALIBRATED).ok().and_then(|text| text.parse().ok());
    Ok(MachineProperties { topology, allowed, speed: told.unwrap_or_else(calibrate), seed })
}

fn perform(spec: &RunSpec, part: Part, site: &Site) -> Result<i32, LoadReport> {
    let io = |doing: &str, error: std::io::Error| LoadReport::Failed {
        option: None,
        why: format!("{doing}: {error}"),
    };
    let WorkloadSpec::Builtin { name, options } = &spec.workload else {
        return Err(LoadReport::Failed {
            option: None,
            why: "a command runs outside the load child".into(),
        });
    };
    let signals = schedlab_sys::signal::catch().map_err(|e| io("catching signals", e))?;
    let surroundings = surroundings(spec.seed).map_err(|e| io("reading the machine", e))?;
    let mut plan = workloads::plan(name, options, &surroundings).map_err(|error| match error {
        PlanError::Option(e) => LoadReport::Failed { option: Some(e.option), why: e.why },
        other => LoadReport::Failed { option: None, why: other.to_string() },
    })?;
    limits(&mut plan, spec.time_limit)?;
    if plan.lock_pages {
        schedlab_sys::memory::lock_pages().map_err(|e| {
            let remedy = "lock_pages: raise ulimit -l, or set it to false";
            io(&format!("locking memory ({remedy})"), e)
        })?;
    }
    let places = plan.tasks.iter_mut().map(|task| &mut task.placement).chain(&mut plan.places);
    for group in places.filter_map(|place| place.cgroup.as_mut()) {
        // Groups are looked for where the parent made or found them.
        if let Some(folder) = site.groups.get(group) {
            *group = folder.display().to_string();
        }
    }
    if part == Part::Beside {
        plan.timing.duration = None;
    }
    for note in &plan.notes {
        LoadReport::Note(note.clone()).tell();
    }
    LoadReport::Marks(plan.marks.clone()).tell();
    if let Some(wanted) = plan.jobs.take() {
        return jobs::perform(&wanted, plan.tasks, plan.timing.duration, part, signals);
    }
    if let Some(line) = plan.command.take() {
        let place = plan.tasks.pop().map(|task| task.placement).unwrap_or_default();
        let limit = plan.timing.duration;
        return command::perform(&line, &place, limit, plan.cut_at, part, signals);
    }
    let arena = Arena::new(&plan).map_err(|e| io("sharing memory", e))?;
    let mut leader = start_tasks::Leader::of(options.get("fifo").is_some_and(|v| v == "true"));
    run_phases::conduct(plan, arena, signals, &mut leader, part, site.network.as_ref())
}

/// What can be known to fail before anything was started: files and tasks.
fn limits(plan: &mut Plan, limit: Option<Nanos>) -> Result<(), LoadReport> {
    if let Some(limit) = limit {
        plan.limit(limit);
    }
    let refuse =
        |option: &str, why: String| LoadReport::Failed { option: Some(option.to_owned()), why };
    let tasks = plan.tasks.len() as u64;
    if let Some(left) = schedlab_sys::task::tasks_left()
        && left < tasks + 8
    {
        let why = format!(
            "cannot start {tasks} tasks, only {left} more: raise pids.max of the control group, \
             kernel.pid_max and kernel.threads-max, or use fewer"
        );
        return Err(refuse("groups", why));
    }
    let files = start_tasks::files_needed(plan);
    if let Some(limit) = schedlab_sys::process::raise_open_files()
        && limit < files + 16
    {
        let why = format!(
            "cannot open {files} files, only {limit}: raise the limit (ulimit -n), or use fewer"
        );
        return Err(refuse("groups", why));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
