//! Tuning: search for a setting that is better than the default, and prove the gain with fresh runs.
//!
//! [`schedlab_tune::Search`] proposes points, and the one run loop measures them, each run in a folder of
//! its own. So a tuning that was stopped goes on: it asks the same questions again and finds the answers
//! stored. The verdict comes from fresh runs alone, default and winner in pairs, by the rules of
//! `docs/statistics.md`.

mod axes;
mod confirm;
mod goals;
mod outcome;
mod profile;
mod screen;

pub use axes::Axes;
pub use goals::Goals;
pub(crate) use outcome::{Matters, Screening};
pub use outcome::{Member, Region, Tuned, Verdict};
pub use profile::{Line, Profiled, profile, profile_runs};
pub use screen::screened;

use crate::run_loop::{LoopError, Progress, RetryOptions, keep_experiment, run_with};
use crate::session::{same_conditions, throw_away};
use crate::store::{StoredRun, lock, runs_of};
use crate::{Experiment, Machines, Plan, Planned, Point, Tuning};
use outcome::ALIVE;
use schedlab_tune::{Outcome, Search, Trial, influences};
use schedlab_workload::MachineError;
use std::path::Path;

/// Blocks of fresh runs begin here; those of the search count repeats of a point from 0.
const FRESH: u32 = 1_000_000;
/// Values within this part of the advised setting's belong to its region, with this probability each.
const TOLERANCE: f64 = 0.01;
const SURE: f64 = 0.95;
/// Points of Pareto's front that are reported.
const FRONT_MAX: usize = 10;

/// What a tuning reports between runs.
#[derive(Debug)]
pub enum Step<'s> {
    /// A point is measured.
    Asks {
        /// Which measurement, from 0.
        index: usize,
        /// The number of measurements in all.
        budget: usize,
        /// The point that is measured.
        point: &'s Point,
    },
    /// A point was measured.
    Measured {
        /// Its goals with their values; none: it failed.
        values: &'s [(String, f64)],
    },
    /// Cheaper runs look for good settings, or do a pilot of this.
    Screens {
        /// The greatest number of measurements.
        budget: usize,
        /// Whether it is the pilot.
        is_pilot: bool,
    },
    /// The search is over; this many pairs of fresh runs begin.
    Confirms {
        /// The setting that is confirmed.
        point: &'s Point,
        /// The number of pairs of runs.
        pairs: usize,
    },
    /// Progress of the run loop.
    Run(&'s Progress<'s>),
}

/// Metrics with their values, and the same as the search sees them.
type Measured = (Vec<(String, f64)>, Outcome);

/// A tuning under way.
struct Tuner<'t, 'm> {
    machines: &'t mut Machines<'m>,
    experiment: &'t Experiment,
    goals: Goals,
    axes: Axes,
    results: &'t Path,
    stop: &'t dyn Fn() -> bool,
    tell: &'t mut dyn FnMut(&Step<'_>),
    /// All runs of this tuning that were done whole.
    runs: Vec<StoredRun>,
    stopped: bool,
}

/// Searches and confirms; results go under `results`, and what is stored there already counts.
///
/// # Errors
/// As [`crate::run_plan`]; also where no run measures the goals.
pub fn tune(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    tuning: &Tuning,
    results: &Path,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&Step<'_>),
) -> Result<Tuned, LoopError> {
    let _lock = lock(results)?;
    same_conditions(machines, experiment, results)?;
    keep_experiment(results, &experiment.text)?;
    let axes = Axes::new(experiment);
    let mut search = axes.search(tuning, experiment.seed);
    let default = axes.default(tuning);
    let first = Plan::at(experiment, &axes.values(&default), 0).runs;
    if experiment.warm_up > 0 && !results.join("runs").is_dir() {
        throw_away(machines, experiment.warm_up, &first, results, stop)?;
    }
    let goals = Goals::new(experiment, tuning);
    let runs = Vec::new();
    let stopped = false;
    let mut tuner = Tuner { machines, experiment, goals, axes, results, stop, tell, runs, stopped };
    let mut values = Vec::new();
    let mut screening = None;
    let budget = tuning.budget as usize;
    while !tuner.stopped
        && let Some(point) = search.ask()
    {
        values.extend(tuner.ask(&mut search, point, budget)?);
        if let Some(screen) = tuning.screen.as_ref().filter(|_| search.is_open()) {
            screening = screen::screen(&mut tuner, tuning, screen, &mut search)?;
        }
    }
    if tuner.stopped {
        return Ok(Tuned::stopped(search.trials().len()));
    }
    let found = tuner.conclude(tuning, &search, &default, &values)?;
    Ok(Tuned { screening, ..found })
}

/// Gets each point with the metrics that it gave; none: it failed.
pub(crate) type Tells<'t> = dyn FnMut(&Point, &[(String, f64)]) + 't;

/// Measures points that another program chose, each once more than before. `told` gets each with
/// its values, none if it failed.
///
/// # Errors
/// As [`tune`].
pub fn measure(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    tuning: &Tuning,
    results: &Path,
    points: &[Vec<usize>],
    stop: &dyn Fn() -> bool,
    told: &mut Tells<'_>,
) -> Result<(), LoopError> {
    let _lock = lock(results)?;
    same_conditions(machines, experiment, results)?;
    keep_experiment(results, &experiment.text)?;
    let axes = Axes::new(experiment);
    let goals = Goals::new(experiment, tuning);
    let runs = Vec::new();
    let stopped = false;
    let tell = &mut |_: &Step<'_>| ();
    let mut tuner = Tuner { machines, experiment, goals, axes, results, stop, tell, runs, stopped };
    let inside = results.join("runs");
    let stored = if inside.is_dir() { runs_of(results)?.runs } else { Vec::new() };
    let mut done: Vec<crate::RunId> = stored.into_iter().map(|run| run.manifest.id).collect();
    for point in points {
        let at = |block| Plan::at(experiment, &tuner.axes.values(point), block).runs;
        let is_new = |block: &u32| at(*block).iter().all(|run| !done.contains(&run.id));
        let block = (0..FRESH).find(is_new).unwrap_or(FRESH);
        done.extend(at(block).into_iter().map(|run| run.id));
        let measured = tuner.measure(point, block, false)?;
        if tuner.stopped {
            break;
        }
        let values = measured.map(|(values, _)| values).unwrap_or_default();
        told(&tuner.axes.named(point), &values);
    }
    Ok(())
}

impl Tuner<'_, '_> {
    /// Measures a point that a search asks for, and tells the search. Returns the values, none where it
    /// failed; `None` where the user stopped it.
    fn ask(
        &mut self,
        search: &mut Search,
        point: Vec<usize>,
        budget: usize,
    ) -> Result<Option<Vec<(String, f64)>>, LoopError> {
        let named = self.axes.named(&point);
        (self.tell)(&Step::Asks { index: search.trials().len(), budget, point: &named });
        let repeat = search.trials().iter().filter(|trial| trial.point == point).count();
        let measured = self.measure(&point, repeat as u32, search.trials().is_empty())?;
        if self.stopped {
            return Ok(None);
        }
        let told = measured.as_ref().map(|(told, _)| told.clone()).unwrap_or_default();
        (self.tell)(&Step::Measured { values: &told });
        search.tell(point, measured.map(|(_, outcome)| outcome));
        Ok(Some(told))
    }

    /// Measures a point: its goals with their values, and as the search sees them; none where it failed.
    fn measure(
        &mut self,
        point: &[usize],
        block: u32,
        is_first: bool,
    ) -> Result<Option<Measured>, LoopError> {
        let plan = Plan::at(self.experiment, &self.axes.values(point), block);
        let runs = match self.perform(&plan) {
            Ok(runs) => runs,
            // A setting that the machine refuses is a result, but not that of the default.
            Err(LoopError::Machine(_)) if !is_first => return Ok(None),
            Err(error) => return Err(error),
        };
        if self.stopped {
            return Ok(None);
        }
        let whole = |run: &&StoredRun| run.is_whole() && !run.is_censored();
        if runs.iter().filter(whole).count() < plan.runs.len() {
            return if is_first {
                Err(failed("the default did not run to its end"))
            } else {
                Ok(None)
            };
        }
        self.goals.learn(&runs);
        if let Some(question) = self.goals.question() {
            return Err(LoopError::Question(question));
        }
        let outcome = self.goals.outcome(&runs).map_err(|what| failed(&what))?;
        let values = self.goals.values(&runs);
        self.runs.extend(runs);
        Ok(Some((values, outcome)))
    }

    /// The runs of a plan, done or found.
    fn perform(&mut self, plan: &Plan) -> Result<Vec<StoredRun>, LoopError> {
        let mut done = Vec::new();
        let mut skipped = Vec::new();
        let tell = &mut *self.tell;
        let mut progress = |progress: &Progress<'_>| {
            match progress {
                Progress::Ended { stored, .. } => done.push((*stored).clone()),
                Progress::Skipped { run } => skipped.push(run.id.clone()),
                _ => {}
            }
            tell(&Step::Run(progress));
        };
        let care = RetryOptions::of(self.experiment);
        let tally = run_with(self.machines, plan, self.results, self.stop, &mut progress, care)?;
        self.stopped |= tally.stopped;
        if !skipped.is_empty() {
            let stored = runs_of(self.results)?.runs;
            done.extend(stored.into_iter().filter(|run| skipped.contains(&run.manifest.id)));
        }
        Ok(done)
    }

    /// What the search found, with the verdict of fresh runs.
    fn conclude(
        &mut self,
        tuning: &Tuning,
        search: &Search,
        default: &[usize],
        values: &[Vec<(String, f64)>],
    ) -> Result<Tuned, LoopError> {
        let Some(advice) = search.advice() else {
            return Err(failed("no setting could be measured"));
        };
        let member = |advice: &schedlab_tune::Advice| Member {
            point: self.axes.named(&advice.point),
            goals: self.goals.back(&advice.goals).into_iter().collect(),
        };
        let mut tuned = Tuned {
            trials: search.trials().len(),
            settings: outcome::settings(search.trials()),
            failed: values.iter().filter(|values| values.is_empty()).count(),
            default: self.axes.named(default),
            best: Some(member(&advice)),
            keeps_limits: advice.keeps_limits,
            front: match self.goals.count() {
                1 => Vec::new(),
                _ => search.front().iter().take(FRONT_MAX).map(member).collect(),
            },
            matters: self.matters(search),
            ..Tuned::stopped(0)
        };
        tuned.regions = self.regions(search, &advice.point, &tuned.matters);
        if advice.point == default || !advice.keeps_limits {
            tuned.verdict = Verdict::NoGain;
            return Ok(tuned);
        }
        let pairs =
            confirm::pairs(&samples(search, default), &samples(search, &advice.point), tuning);
        let named = self.axes.named(&advice.point);
        (self.tell)(&Step::Confirms { point: &named, pairs });
        let seed = self.experiment.seed;
        let sides = [default, &advice.point].map(|p| self.axes.values(p));
        let plan = |block| sides.clone().map(|side| Plan::at(self.experiment, &side, block).runs);
        let plan = Plan { runs: confirm::interleaved(pairs, FRESH, seed, &plan) };
        let fresh = self.perform(&plan)?;
        if self.stopped {
            return Ok(Tuned::stopped(search.trials().len()));
        }
        let is_of = |side: &[Option<usize>]| -> Vec<StoredRun> {
            let ids: Vec<_> = (0..pairs as u32)
                .flat_map(|pair| Plan::at(self.experiment, side, FRESH + pair).runs)
                .map(|run: Planned| run.id)
                .collect();
            fresh.iter().filter(|run| ids.contains(&run.manifest.id)).cloned().collect()
        };
        confirm::judge(&mut tuned, is_of(&sides[0]), is_of(&sides[1]), &self.goals, pairs);
        Ok(tuned)
    }

    fn matters(&self, search: &Search) -> Vec<Matters> {
        let found = influences(search.space(), &search.opening(), self.experiment.seed);
        let told = |found: schedlab_tune::Influence| Matters {
            axis: search.space().axes[found.axis].name.clone(),
            p: found.p,
        };
        found.into_iter().map(told).collect()
    }

    /// The regions by the model, as far as they agree with what matters: an axis that is not shown to matter has no border,
    /// one that matters has one, and where none matters nothing is claimed.
    fn regions(&self, search: &Search, point: &[usize], matters: &[Matters]) -> Vec<Region> {
        let is_shown = |axis: &str| matters.iter().any(|m| m.axis == axis && m.p <= ALIVE);
        if !matters.iter().any(|m| m.p <= ALIVE) {
            return Vec::new();
        }
        let named = |found: schedlab_tune::Region| {
            let axis = &self.experiment.axes[found.axis];
            Region {
                axis: axis.name(),
                from: axis.values[found.first].clone(),
                to: axis.values[found.last].clone(),
                values: found.last - found.first + 1,
                of: axis.values.len(),
            }
        };
        let found = search.regions(point, TOLERANCE.ln_1p(), SURE).unwrap_or_default();
        let agrees = |region: &Region| is_shown(&region.axis) == (region.values < region.of);
        found.into_iter().map(named).filter(agrees).collect()
    }
}

/// The first goal at a point, as the search sees it.
fn samples(search: &Search, point: &[usize]) -> Vec<f64> {
    let here = |trial: &&Trial| trial.point == point;
    let value = |trial: &Trial| Some(trial.outcome.as_ref()?.goals[0]);
    search.trials().iter().filter(here).filter_map(value).collect()
}

fn failed(what: &str) -> LoopError {
    LoopError::Machine(MachineError::Load(what.to_owned()))
}

#[cfg(test)]
mod tests;
