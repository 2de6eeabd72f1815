//! From the figures of runs to what a search sees, and back: lower is better, on the scale of logarithms.

use crate::run_metrics::question;
use crate::store::StoredRun;
use crate::{Experiment, Limit, Tuning, run_metrics};
use schedlab_model::{Better, Metric, Unit};
use schedlab_tune::Outcome;
use schedlab_workload::metrics;

/// Values at or below zero count as this: logarithms need something above.
const LEAST: f64 = 1e-9;

/// The metrics to improve, and the limits to keep.
#[derive(Clone, Debug)]
pub struct Goals {
    goals: Vec<(String, Better)>,
    limits: Vec<Limit>,
}

impl Goals {
    /// The goals of a table `[tune]`; where it names none, the first metric of `measure`, else the primary
    /// one of the first workload.
    #[must_use]
    pub fn new(experiment: &Experiment, tuning: &Tuning) -> Self {
        let mut names = tuning.goals.clone();
        if names.is_empty() {
            names.extend(experiment.measure.first().cloned());
        }
        if names.is_empty() {
            let primary = metrics::primary(&experiment.workloads[0].spec);
            names.extend(primary.first().map(|name| (*name).to_owned()));
        }
        let declared = experiment.hooks.declared.as_ref();
        let better = |name: &String| {
            let declared = || declared.filter(|metric| metric.name == *name).cloned();
            run_metrics::find(name).or_else(declared).map_or(Better::Neither, |found| found.better)
        };
        let goals = names.into_iter().map(|name| (name.clone(), better(&name))).collect();
        Self { goals, limits: tuning.limits.clone() }
    }

    /// Takes the directions that runs tell of goals of which the file says nothing.
    pub(super) fn learn(&mut self, runs: &[StoredRun]) {
        let told = |name: &str| {
            let mut figures = runs.iter().flat_map(|run| &run.figures);
            figures.find(|f| f.of.is_empty() && f.metric.name == name).map(|f| f.metric.better)
        };
        for (name, better) in self.goals.iter_mut().filter(|(_, b)| *b == Better::Neither) {
            *better = told(name).unwrap_or(Better::Neither);
        }
    }

    /// The question about a goal of which nothing says what is better.
    #[must_use]
    pub(crate) fn question(&self) -> Option<String> {
        let metric =
            |(name, better): &(String, Better)| question(&Metric::new(name, Unit::Count, *better));
        self.goals.iter().find_map(metric)
    }

    /// How many goals there are.
    #[must_use]
    pub(crate) fn count(&self) -> usize {
        self.goals.len()
    }

    #[must_use]
    pub(crate) fn names(&self) -> Vec<String> {
        self.goals.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The limits that a setting must keep.
    #[must_use]
    pub(crate) fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// All metrics that a measurement has to give.
    #[must_use]
    pub fn needed(&self) -> Vec<String> {
        let limits = self.limits.iter().map(|limit| limit.metric.clone());
        self.names().into_iter().chain(limits).collect()
    }

    /// Goals and limits with their values: of several workloads, the geometric mean.
    pub(super) fn values(&self, runs: &[StoredRun]) -> Vec<(String, f64)> {
        let value = |name: String| {
            let log = log_mean(runs, &name)?;
            Some((name, log.exp()))
        };
        self.needed().into_iter().filter_map(value).collect()
    }

    /// What the search learns from the runs of a point.
    pub(super) fn outcome(&self, runs: &[StoredRun]) -> Result<Outcome, String> {
        self.of_values(&|name| log_mean(runs, name).map(f64::exp))
    }

    /// What the search learns from the values of metrics.
    ///
    /// # Errors
    /// When a metric is missing, or nothing says what is better.
    pub fn of_values(&self, value: &dyn Fn(&str) -> Option<f64>) -> Result<Outcome, String> {
        if let Some(question) = self.question() {
            return Err(question);
        }
        let log = |name: &str| {
            let missing = || format!("no run measures '{name}': name another goal in [tune]");
            value(name).map(|value| value.max(LEAST).ln()).ok_or_else(missing)
        };
        let goal = |(name, better): &(String, Better)| log(name).map(|log| sign(*better) * log);
        let beyond = |limit: &Limit| {
            let over = log(&limit.metric)? - limit.bound.ln();
            Ok(if limit.is_upper { over } else { -over })
        };
        Ok(Outcome {
            goals: self.goals.iter().map(goal).collect::<Result<_, _>>()?,
            beyond: self.limits.iter().map(beyond).collect::<Result<_, String>>()?,
        })
    }

    /// Goals as they are written, from what the search expects.
    #[must_use]
    pub(crate) fn back(&self, seen: &[f64]) -> Vec<(String, f64)> {
        let value = |((name, better), seen): (&(String, Better), &f64)| {
            (name.clone(), (sign(*better) * seen).exp())
        };
        self.goals.iter().zip(seen).map(value).collect()
    }
}

fn sign(better: Better) -> f64 {
    if better == Better::Higher { -1.0 } else { 1.0 }
}

/// The mean of the logarithms over the runs that have the metric.
fn log_mean(runs: &[StoredRun], name: &str) -> Option<f64> {
    let logs: Vec<f64> =
        runs.iter().filter_map(|run| Some(run.value(name)?.max(LEAST).ln())).collect();
    (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
}
