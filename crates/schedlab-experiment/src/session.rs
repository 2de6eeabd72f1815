//! An experiment from its first to its last run: warm-up, rounds until the stop rule is content, hooks
//! around each run, a watch on the machine, doubtful runs once more.
//!
//! This drives the one run loop round by round; it adds no loop over runs of its own.

use crate::analysis::Cells;
use crate::run_loop::{LoopError, Progress, Tally, keep_experiment, run_with};
use crate::store::{StoreError, lock, runs_of};
use crate::{Experiment, Plan};
use schedlab_model::MachineFacts;
use schedlab_stats::{Sample, interval};
use schedlab_workload::{Machine, MachineError};
use std::path::Path;
use std::time::{Duration, Instant};

/// Does an experiment on a machine; results go under `results` with the experiment's file, and what is there already
/// counts.
///
/// Rounds go on up to `repeats`; with a wanted width up to `repeats_max`, or until every point's
/// interval is narrow enough; never beyond the budget of time.
///
/// # Errors
/// As [`crate::run_plan`].
pub fn run_experiment(
    machine: &mut dyn Machine,
    experiment: &Experiment,
    results: &Path,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Tally, LoopError> {
    let began = Instant::now();
    let mut tally = Tally::default();
    let _lock = lock(results)?;
    same_machine(machine, results)?;
    keep_experiment(results, &experiment.text)?;
    let boot = this_boot(machine, experiment, results)?;
    let Some(boot) = boot else { return Ok(tally) };
    tally.boots_left = experiment.boots - 1 - boot;
    let most = experiment.stop.repeats_max.unwrap_or(experiment.repeats).max(experiment.repeats);
    let first = boot * most;
    warm_up(machine, experiment, first, results, stop)?;
    // Without a stop rule all is one plan: the time left is then told for all of it.
    if experiment.stop.width.is_none() && experiment.stop.budget.is_none() {
        let plan = Plan::rounds(experiment, first, first + experiment.repeats);
        tally.add(run_with(machine, &plan, results, stop, progress, experiment.retries)?);
        return Ok(tally);
    }
    for round in first..first + most {
        let mut plan = Plan::rounds(experiment, round, round + 1);
        if round >= first + experiment.repeats {
            leave_out_narrow(experiment, &mut plan, results)?;
            if plan.runs.is_empty() {
                break;
            }
        }
        let part = run_with(machine, &plan, results, stop, progress, experiment.retries)?;
        tally.add(part);
        if tally.stopped || is_over(experiment, began.elapsed()) {
            break;
        }
    }
    Ok(tally)
}

/// Refuses a folder whose runs are of another host or kernel: they would count as done, and be mixed.
fn same_machine(machine: &dyn Machine, results: &Path) -> Result<(), LoopError> {
    if !results.join("runs").is_dir() {
        return Ok(());
    }
    let name = |facts: &MachineFacts| {
        format!("{} with Linux {} ({})", facts.host, facts.kernel.release, facts.kernel.version)
    };
    let here = name(&machine.facts());
    let stored = runs_of(results)?.runs;
    let other = stored.iter().map(|run| name(&run.manifest.facts)).find(|found| *found != here);
    other.map_or(Ok(()), |found| {
        Err(LoopError::OtherMachine { folder: results.to_owned(), found, here })
    })
}

/// Which boot of the experiment's this is, from 0; `None` when it has had them all. An experiment that
/// wants no boots has one, however often the machine is started meanwhile.
fn this_boot(
    machine: &dyn Machine,
    experiment: &Experiment,
    results: &Path,
) -> Result<Option<u32>, LoopError> {
    if experiment.boots == 1 {
        return Ok(Some(0));
    }
    let known = machine.facts().boot;
    let boot = known.known().ok_or_else(|| MachineError::NotOffered {
        machine: machine.offers().machine.clone(),
        what: "tell one boot from another".into(),
        why: "leave out 'boots' in the experiment".into(),
    })?;
    let stored = if results.join("runs").is_dir() { runs_of(results)?.runs } else { Vec::new() };
    let seen = crate::store::boots(&stored);
    let index = seen.iter().position(|b| b == boot).unwrap_or(seen.len());
    Ok(u32::try_from(index).ok().filter(|index| *index < experiment.boots))
}

fn is_over(experiment: &Experiment, spent: Duration) -> bool {
    experiment.stop.budget.is_some_and(|budget| spent >= budget.as_duration())
}

/// Runs whose results are thrown away: the first points of the plan, into a folder that goes. None
/// when there are results already: the machine is as warm as it was.
fn warm_up(
    machine: &mut dyn Machine,
    experiment: &Experiment,
    first: u32,
    results: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(), LoopError> {
    let all = Plan::rounds(experiment, first, first + experiment.repeats);
    if experiment.warm_up == 0 || !is_unfinished(&all, results)? {
        return Ok(());
    }
    let mut plan = Plan::rounds(experiment, first, first + 1);
    let runs = plan.runs.clone();
    plan.runs = (0..experiment.warm_up as usize).map(|i| runs[i % runs.len()].clone()).collect();
    let folder = results.join(".warm-up");
    let io = |error| StoreError::io(&folder, error);
    let done = plan.runs.into_iter().try_for_each(|run| {
        let one = Plan { runs: vec![run] };
        run_with(machine, &one, &folder, stop, &mut |_| (), 0)?;
        std::fs::remove_dir_all(&folder).map_err(io)?;
        Ok(())
    });
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(io)?;
    }
    done
}

fn is_unfinished(plan: &Plan, results: &Path) -> Result<bool, StoreError> {
    for run in &plan.runs {
        match crate::run_loop::is_done(results, run) {
            Ok(true) => {}
            Err(error) if !error.is_damage() => return Err(error),
            _ => return Ok(true),
        }
    }
    Ok(false)
}

/// Takes the runs out of a plan whose points are known well enough.
fn leave_out_narrow(
    experiment: &Experiment,
    plan: &mut Plan,
    results: &Path,
) -> Result<(), StoreError> {
    let Some(width) = experiment.stop.width else {
        plan.runs.clear();
        return Ok(());
    };
    let stored = runs_of(results)?.runs;
    let cells = Cells::new(&stored);
    plan.runs.retain(|run| {
        let Some(cell) = cells.of(&run.workload).find(|cell| cell.point == run.point) else {
            return true;
        };
        let metrics = cells.metrics(&run.workload);
        let metric =
            experiment.measure.first().cloned().or_else(|| Some(metrics.first()?.name.clone()));
        let values = metric.map(|name| cell.values(&name).into_values().collect::<Vec<_>>());
        let sample = values.and_then(|values| Sample::new(values).ok());
        let found = sample.and_then(|sample| interval(&sample, 0.95, 1).ok());
        found.is_none_or(|interval| interval.relative() > width)
    });
    Ok(())
}

#[cfg(test)]
mod tests;
