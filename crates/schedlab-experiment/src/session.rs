//! An experiment from its first to its last run: warm-up, rounds until the stop rule is content, hooks
//! around each run, a watch on the machine, runs with a warning once more.
//!
//! This drives the one run loop round by round; it adds no loop over runs of its own. Each verdict on more
//! runs than before is counted as a look, in the folder of results.

use crate::analysis::Cells;
use crate::environment::mismatch;
use crate::report::answer;
use crate::run_loop::{LoopError, Progress, RetryOptions, Tally, keep_experiment, run_with};
use crate::store::{
    Place, Places, StoreError, StoredRun, boots, keep_looks, lock, looks_of, name_places, runs_of,
};
use crate::{Experiment, Hooks, Machines, Plan};
use schedlab_stats::{Sample, SampleError, interval};
use schedlab_workload::MachineError;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

/// Does an experiment on its machines; results go under `results` with the experiment's file, and what is there already
/// counts.
///
/// Rounds go on up to `repeats`; with planned looks until a look decides every comparison; with a wanted
/// width up to `repeats_max`, or until every point's interval is narrow enough; never beyond the budget of
/// time.
///
/// # Errors
/// As [`crate::run_plan`].
pub fn run_experiment(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    results: &Path,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Tally, LoopError> {
    let began = Instant::now();
    let mut tally = Tally::default();
    let _lock = lock(results)?;
    same_conditions(machines, experiment, results)?;
    keep_experiment(results, &experiment.text)?;
    let boot = this_boot(machines, experiment, results)?;
    let Some(boot) = boot else { return Ok(tally) };
    tally.boots_left = experiment.boots - 1 - boot;
    let most = experiment.stop.repeats_max.unwrap_or(experiment.repeats).max(experiment.repeats);
    let first = boot * most;
    warm_up(machines, experiment, first, results, stop)?;
    let mut session = Session { machines, experiment, results, stop, progress };
    let done = match &experiment.stop {
        stop if !stop.looks.is_empty() => session.looks(began)?,
        // Without a stop rule all is one plan: the time left is then told for all of it.
        stop if stop.width.is_none() && stop.budget.is_none() => {
            session.part(&Plan::rounds(experiment, first, first + experiment.repeats))?
        }
        _ => session.rounds(first..first + most, began)?,
    };
    tally.add(done);
    if !tally.stopped && tally.boots_left == 0 && experiment.stop.looks.is_empty() {
        count_look(results)?;
    }
    Ok(tally)
}

/// Counts the verdict on all runs that are there as a look, unless it was one before.
pub(crate) fn count_look(results: &Path) -> Result<(), StoreError> {
    let mut looks = looks_of(results)?;
    let cells = runs_of(results)?.runs;
    let repeats = cells.iter().map(|run| run.manifest.block + 1).max().unwrap_or(0);
    if looks.take(repeats) {
        keep_looks(results, &looks)?;
    }
    Ok(())
}

/// An experiment under way.
struct Session<'s, 'm> {
    machines: &'s mut Machines<'m>,
    experiment: &'s Experiment,
    results: &'s Path,
    stop: &'s dyn Fn() -> bool,
    progress: &'s mut dyn FnMut(&Progress<'_>),
}

impl Session<'_, '_> {
    /// Does some runs of it.
    fn part(&mut self, plan: &Plan) -> Result<Tally, LoopError> {
        let care = RetryOptions::of(self.experiment);
        run_with(self.machines, plan, self.results, self.stop, self.progress, care)
    }

    /// The stored runs of the machines as they are now, of all measured programs.
    fn here(&mut self) -> Result<Vec<StoredRun>, LoopError> {
        let mut here = Vec::new();
        for name in self.experiment.machines() {
            here.push(Place::of(&self.machines.get(&name)?.facts()));
        }
        let mut runs = runs_of(self.results)?.runs;
        runs.retain(|run| here.iter().any(|here| run.manifest.place.is_near(here)));
        Ok(runs)
    }

    /// Round by round, until points are narrow or the budget is spent.
    fn rounds(&mut self, rounds: Range<u32>, began: Instant) -> Result<Tally, LoopError> {
        let mut tally = Tally::default();
        let sure = rounds.start + self.experiment.repeats;
        for round in rounds {
            let mut plan = Plan::rounds(self.experiment, round, round + 1);
            if round >= sure {
                leave_out_narrow(self.experiment, &mut plan, &self.here()?);
                if plan.runs.is_empty() {
                    break;
                }
            }
            tally.add(self.part(&plan)?);
            if tally.stopped || is_over(self.experiment, began.elapsed()) {
                break;
            }
        }
        Ok(tally)
    }

    /// Look by look, until one decides every comparison. Looks that were taken are not taken again.
    fn looks(&mut self, began: Instant) -> Result<Tally, LoopError> {
        let mut tally = Tally::default();
        let mut looks = looks_of(self.results)?;
        if looks.taken.is_empty() {
            looks.planned.clone_from(&self.experiment.stop.looks);
        }
        let from = looks.taken.last().copied().unwrap_or(0);
        for repeats in self.experiment.stop.looks.iter().copied().filter(|n| *n >= from) {
            // Skipped runs count once, not again at each look.
            let part = self.part(&Plan::rounds(self.experiment, 0, repeats))?;
            tally.skipped = part.skipped.saturating_sub(tally.done);
            tally.add(Tally { skipped: 0, ..part });
            if tally.stopped {
                break;
            }
            if looks.take(repeats) {
                keep_looks(self.results, &looks)?;
            }
            let mut runs = runs_of(self.results)?.runs;
            name_places(&mut runs, self.experiment.hosts);
            if answer::is_decided(self.experiment, &runs, &looks)
                || is_over(self.experiment, began.elapsed())
            {
                break;
            }
        }
        Ok(tally)
    }
}

/// Refuses to add runs under another governor and such: they would be compared with the others as if
/// only the experiment's axes differed. Hooks may set those things by purpose.
pub(crate) fn same_conditions(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    results: &Path,
) -> Result<(), LoopError> {
    if experiment.hooks != Hooks::default() || !results.join("runs").is_dir() {
        return Ok(());
    }
    let stored = runs_of(results)?.runs;
    for name in experiment.machines() {
        let now = machines.get(&name)?.facts();
        let place = Place::of(&now);
        let here = stored.iter().filter(|run| run.manifest.place.is_near(&place));
        let last = here.max_by(|a, b| a.manifest.started_at.cmp(&b.manifest.started_at));
        if let Some(what) = last.and_then(|run| mismatch(&run.manifest.facts, &now)) {
            return Err(LoopError::OtherConditions { folder: results.to_owned(), what });
        }
    }
    Ok(())
}

/// Which boot of the experiment's this is, from 0; `None` when it has had them all. An experiment that
/// wants no boots has one, however often the machine is started meanwhile.
fn this_boot(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    results: &Path,
) -> Result<Option<u32>, LoopError> {
    if experiment.boots == 1 {
        return Ok(Some(0));
    }
    let machine = machines.get(&experiment.machine)?;
    let facts = machine.facts();
    let boot = facts.boot.known().ok_or_else(|| MachineError::NotOffered {
        machine: machine.offers().machine.clone(),
        what: "tell one boot from another".into(),
        why: "leave out 'boots' in the experiment".into(),
    })?;
    let stored = if results.join("runs").is_dir() { runs_of(results)?.runs } else { Vec::new() };
    let seen = boots(&stored, &Place::of(&facts));
    let index = seen.iter().position(|b| b == boot).unwrap_or(seen.len());
    Ok(u32::try_from(index).ok().filter(|index| *index < experiment.boots))
}

fn is_over(experiment: &Experiment, spent: Duration) -> bool {
    experiment.stop.budget.is_some_and(|budget| spent >= budget.as_duration())
}

/// Does a fixed part of an experiment: a plan that follows from no result.
pub(crate) fn run_part(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    plan: &Plan,
    results: &Path,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Tally, LoopError> {
    same_conditions(machines, experiment, results)?;
    keep_experiment(results, &experiment.text)?;
    if experiment.warm_up > 0 && is_unfinished(plan, results, machines)? {
        throw_away(machines, experiment.warm_up, &plan.runs, results, stop)?;
    }
    run_with(machines, plan, results, stop, progress, RetryOptions::of(experiment))
}

/// Runs whose results are thrown away: the first points of the plan, into a folder that goes. None
/// when there are results already: the machine is as warm as it was.
fn warm_up(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    first: u32,
    results: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(), LoopError> {
    let all = Plan::rounds(experiment, first, first + experiment.repeats);
    if experiment.warm_up == 0 || !is_unfinished(&all, results, machines)? {
        return Ok(());
    }
    let runs = Plan::rounds(experiment, first, first + 1).runs;
    throw_away(machines, experiment.warm_up, &runs, results, stop)
}

/// Does this many runs, the given ones in turns, into a folder that goes.
pub(crate) fn throw_away(
    machines: &mut Machines<'_>,
    count: u32,
    runs: &[crate::Planned],
    results: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(), LoopError> {
    let folder = results.join(".warm-up");
    let io = |error| StoreError::io(&folder, error);
    let done = (0..count as usize).try_for_each(|index| {
        let one = Plan { runs: vec![runs[index % runs.len()].clone()] };
        run_with(machines, &one, &folder, stop, &mut |_| (), RetryOptions::default())?;
        std::fs::remove_dir_all(&folder).map_err(io)?;
        Ok(())
    });
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(io)?;
    }
    done
}

fn is_unfinished(
    plan: &Plan,
    results: &Path,
    machines: &mut Machines<'_>,
) -> Result<bool, LoopError> {
    let mut places = Places::default();
    for run in &plan.runs {
        let place = places.of(machines.get(&run.machine)?, run);
        match crate::run_loop::is_done(results, run, &place) {
            Ok(true) => {}
            Err(error) if !error.is_damage() => return Err(error.into()),
            _ => return Ok(true),
        }
    }
    Ok(false)
}

/// Takes the runs out of a plan whose points are known well enough.
fn leave_out_narrow(experiment: &Experiment, plan: &mut Plan, stored: &[StoredRun]) {
    let Some(width) = experiment.stop.width else {
        plan.runs.clear();
        return;
    };
    let cells = Cells::new(stored);
    plan.runs.retain(|run| {
        let Some(cell) = cells.of(&run.workload).find(|cell| cell.point == run.point) else {
            return true;
        };
        let metrics = cells.metrics(&run.workload);
        let metric =
            experiment.measure.first().cloned().or_else(|| Some(metrics.first()?.name.clone()));
        let values = metric.map(|name| cell.values(&name).into_values().collect::<Vec<_>>());
        let sample = values.and_then(|values| Sample::new(values).ok());
        // Further copies would be the same again.
        match sample.map(|sample| interval(&sample, 0.95, 1)) {
            Some(Ok(interval)) => interval.relative() > width,
            Some(Err(SampleError::NoSpread)) => false,
            Some(Err(_)) | None => true,
        }
    });
}

#[cfg(test)]
mod tests;
