//! Cheaper runs, simulated or short, that look for good settings before the expensive ones do.
//!
//! They are used only if a pilot shows that they rank settings as the expensive runs do: both measure
//! the points that fill the space. Their best settings are then measured like any other; nothing else of
//! them counts, neither for what the search advises nor for the verdict.

use super::{Goals, Screening, Step, Tuner};
use crate::run_loop::LoopError;
use crate::{Experiment, Screen, Tuning};
use schedlab_stats::agreement;
use schedlab_tune::{Options, Outcome, Point, Search};
use schedlab_workload::WorkloadSpec;
use std::collections::BTreeMap;

/// The true rank correlation must be above this with [`LEVEL`].
const ALIKE: f64 = 0.5;
const LEVEL: f64 = 0.95;
/// Settings that are handed on: a third of the measurements that are left, at least and at most these.
const HANDED_ON: (usize, usize) = (2, 8);

/// The experiment of the cheaper runs.
#[must_use]
pub fn screened(experiment: &Experiment, screen: &Screen) -> Experiment {
    let mut other = experiment.clone();
    if let Some(machine) = &screen.machine {
        other.put_on(machine.clone());
    }
    for workload in &mut other.workloads {
        if let WorkloadSpec::Builtin { options, .. } = &mut workload.spec {
            options.extend(screen.options.clone());
        }
    }
    other
}

/// Does a pilot, and where it allows that, searches with the cheaper runs and proposes what they found.
/// `None` where the user stopped it.
pub(super) fn screen(
    tuner: &mut Tuner<'_, '_>,
    tuning: &Tuning,
    screen: &Screen,
    search: &mut Search,
) -> Result<Option<Screening>, LoopError> {
    let cheap = screened(tuner.experiment, screen);
    let mut cheaper = Tuner {
        machines: &mut *tuner.machines,
        experiment: &cheap,
        goals: Goals::new(&cheap, tuning),
        axes: tuner.axes.clone(),
        results: tuner.results,
        stop: tuner.stop,
        tell: &mut *tuner.tell,
        runs: Vec::new(),
        stopped: false,
    };
    let values = means(search);
    let mut told = pilot(&mut cheaper, &values)?;
    if told.is_used && !cheaper.stopped {
        let found = look(&mut cheaper, tuning, screen.budget as usize, search)?;
        let left = (tuning.budget as usize).saturating_sub(search.trials().len());
        let count = (left / 3).clamp(HANDED_ON.0, HANDED_ON.1);
        let best = found.ranking().into_iter().map(|advice| advice.point);
        let new: Vec<Point> =
            best.filter(|point| !values.contains_key(point)).take(count).collect();
        told.handed_on = new.iter().map(|point| cheaper.axes.named(point)).collect();
        search.propose(new);
    }
    let stopped = cheaper.stopped;
    tuner.stopped |= stopped;
    Ok((!stopped).then_some(told))
}

/// The cheaper runs measure the points that are known; whether they rank them alike.
fn pilot(
    cheaper: &mut Tuner<'_, '_>,
    values: &BTreeMap<Point, f64>,
) -> Result<Screening, LoopError> {
    (cheaper.tell)(&Step::Screens { budget: values.len(), is_pilot: true });
    let mut pairs = Vec::new();
    for (point, value) in values {
        let measured = cheaper.measure(point, 0, false)?;
        pairs.extend(measured.map(|(_, outcome)| (outcome.goals[0], *value)));
        if cheaper.stopped {
            break;
        }
    }
    let found = agreement(&pairs, LEVEL);
    Ok(Screening {
        points: pairs.len(),
        correlation: found.map(|found| found.correlation),
        at_least: found.map(|found| found.at_least),
        is_used: found.is_some_and(|found| found.at_least >= ALIKE),
        handed_on: Vec::new(),
    })
}

/// Searches with the cheaper runs.
fn look(
    cheaper: &mut Tuner<'_, '_>,
    tuning: &Tuning,
    budget: usize,
    search: &Search,
) -> Result<Search, LoopError> {
    let options = Options {
        budget,
        // Points of its own.
        seed: cheaper.experiment.seed.wrapping_add(1),
        default: Some(cheaper.axes.default(tuning)),
        ..Options::default()
    };
    let mut other = Search::new(search.space().clone(), options);
    (cheaper.tell)(&Step::Screens { budget, is_pilot: false });
    while !cheaper.stopped
        && let Some(point) = other.ask()
    {
        cheaper.ask(&mut other, point, budget)?;
    }
    Ok(other)
}

/// The mean of the first goal at each point that was measured.
fn means(search: &Search) -> BTreeMap<Point, f64> {
    let mut all: BTreeMap<Point, Vec<f64>> = BTreeMap::new();
    for trial in search.trials() {
        let goal = trial.outcome.as_ref().map(|outcome: &Outcome| outcome.goals[0]);
        all.entry(trial.point.clone()).or_default().extend(goal);
    }
    all.retain(|_, values| !values.is_empty());
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    all.into_iter().map(|(point, values)| (point, mean(values))).collect()
}
