//! What `schedlab load --json` prints of a run, and of repeats.

use super::show::{Measured, Part, suffix};
use super::warnings::concerned;
use crate::json;
use schedlab_experiment::analysis::Comparison;
use schedlab_model::{LoadFacts, MachineFacts, Nanos, Unit, Warning};
use schedlab_stats::Histogram;
use schedlab_workload::{Figure, Interval, RunSpec, Series};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A run.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    #[serde(flatten)]
    own: PartFigures,
    /// What the machine was asked.
    spec: RunSpec,
    /// Whether the user ended the run: the figures are partial.
    interrupted: bool,
    /// Whether the time limit ended the run: times are lower bounds.
    censored: bool,
    /// What limits the figures.
    warnings: Vec<WarningRow>,
    /// The machine before the run.
    machine: Option<MachineFacts>,
    /// The machine's load after the run.
    load_after: Option<LoadFacts>,
    /// What ran beside the workload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    beside: Vec<Beside>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/load/1";
}

/// Repeats of a run, and of a second setting.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Repeats {
    #[serde(flatten)]
    pub(super) figures: Figures,
    pub(super) workload: String,
    /// What the machine was asked.
    pub(super) spec: RunSpec,
    /// Whether the user ended the runs, so that some are missing.
    pub(super) interrupted: bool,
    /// For each run whether the time limit ended it: then its times are lower bounds.
    pub(super) censored: Vec<bool>,
    /// The interval of each metric over the runs.
    pub(super) intervals95: BTreeMap<String, Estimate>,
    /// The samples of all runs together.
    pub(super) series: Vec<Samples>,
    /// What ran beside the workload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) beside: Vec<BesideRepeats>,
    /// The second setting, with `--against`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) against: Option<Against>,
    /// The comparison of both settings, with `--against`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) comparisons: Option<Vec<Comparison>>,
}

impl json::Document for Repeats {
    const ID: &'static str = "schedlab/load-repeat/1";
}

/// Figures by metric (`docs/metrics.md`), in the metric's unit.
pub(super) type Figures = BTreeMap<String, Values>;

/// The values of a metric.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Values {
    /// A count that the options decide: `tasks`, `messages`.
    Count(u64),
    /// With `--repeat`: the value of each run, in the order of the runs.
    Runs(#[schemars(with = "Vec<Option<f64>>")] Vec<f64>),
}

/// The figures of runs, by metric.
pub(super) fn figures<'f>(runs: impl Iterator<Item = &'f [Figure]>) -> Figures {
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for figure in runs.flatten().filter(|figure| figure.of.is_empty()) {
        values.entry(&figure.metric.name).or_default().push(figure.value);
    }
    let told = |(name, values): (&str, Vec<f64>)| {
        let value = match (name, &values[..]) {
            ("tasks" | "messages", [first, ..]) => Values::Count(*first as u64),
            _ => Values::Runs(values),
        };
        (name.to_owned(), value)
    };
    values.into_iter().map(told).collect()
}

/// What one workload of a run measured.
#[derive(Serialize, JsonSchema)]
struct PartFigures {
    #[serde(flatten)]
    figures: Figures,
    workload: String,
    /// The figures of roles.
    by_role: Vec<RoleFigure>,
    #[serde(flatten)]
    whole: Option<Whole>,
    /// What was measured since the interval before, so that intervals can be added up.
    intervals: Vec<Since>,
}

/// What the last interval told of the whole run.
#[derive(Serialize, JsonSchema)]
struct Whole {
    /// The time that the samples and counts cover.
    covers_ns: Nanos,
    counts: BTreeMap<String, u64>,
    series: Vec<Samples>,
    /// How much was done in each second.
    rates: Vec<f64>,
}

#[derive(Serialize, JsonSchema)]
struct RoleFigure {
    metric: String,
    of: String,
    #[schemars(with = "Option<f64>")]
    value: f64,
}

/// What was measured since the interval before.
#[derive(Serialize, JsonSchema)]
struct Since {
    /// Time since the tasks began to work.
    elapsed_ns: Nanos,
    covers_ns: Nanos,
    /// Whether the run has ended.
    last: bool,
    series: Vec<Samples>,
    counts: BTreeMap<String, u64>,
    /// How much was done a second.
    rate: f64,
    /// The mean run delay of a timeslice, by role.
    run_delay_ns: Vec<(String, Nanos)>,
    /// Where the workload's first dial stands.
    dial: Option<u64>,
}

/// Samples of one series of one role.
#[derive(Serialize, JsonSchema)]
pub(super) struct Samples {
    metric: String,
    unit: Unit,
    of: String,
    /// The percentiles that were asked for: `p99`, `p999`.
    #[serde(flatten)]
    percentiles: BTreeMap<String, Option<u64>>,
    mean: Option<f64>,
    /// It can be merged with others.
    histogram: Histogram,
}

impl Samples {
    /// All series, with these percentiles.
    pub(super) fn of(all: &[Series], percents: &[f64]) -> Vec<Self> {
        let one = |series: &Series| {
            let quantile = |percent: &f64| {
                (suffix(*percent)[1..].to_owned(), series.histogram.quantile(percent / 100.0))
            };
            Self {
                metric: series.metric.name.clone(),
                unit: series.metric.unit,
                of: series.of.clone(),
                percentiles: percents.iter().map(quantile).collect(),
                mean: series.histogram.mean(),
                histogram: series.histogram.clone(),
            }
        };
        all.iter().map(one).collect()
    }
}

/// A warning with the figures that it concerns; with none of them it concerns all.
#[derive(Serialize, JsonSchema)]
struct WarningRow {
    #[serde(flatten)]
    warning: Warning,
    concerns: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Beside {
    label: String,
    #[serde(flatten)]
    part: PartFigures,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct BesideRepeats {
    #[serde(flatten)]
    pub(super) figures: Figures,
    pub(super) label: String,
    pub(super) workload: String,
    pub(super) intervals95: BTreeMap<String, Estimate>,
    pub(super) series: Vec<Samples>,
}

/// The second setting.
#[derive(Serialize, JsonSchema)]
pub(super) struct Against {
    pub(super) spec: RunSpec,
    pub(super) figures: Figures,
    pub(super) series: Vec<Samples>,
    /// The command that ran beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
}

/// A metric over the runs: an estimate with its interval, or why there is none.
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct Estimate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) none: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) estimate: Option<f64>,
    /// The ends of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<[Option<f64>; 2]>")]
    pub(super) ci: Option<[f64; 2]>,
    /// Confidence of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) level: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<Warning>,
}

impl PartFigures {
    fn of(part: &Part, percents: &[f64]) -> Self {
        let role = |figure: &Figure| RoleFigure {
            metric: figure.metric.name.clone(),
            of: figure.of.clone(),
            value: figure.value,
        };
        let roles = part.figures.iter().filter(|figure| !figure.of.is_empty());
        let whole = part.whole().map(|whole| Whole {
            covers_ns: whole.covers,
            counts: whole.counts.iter().cloned().collect(),
            series: Samples::of(&whole.total, percents),
            rates: whole.rates.clone(),
        });
        Self {
            figures: figures(std::iter::once(part.figures.as_slice())),
            workload: part.workload.clone(),
            by_role: roles.map(role).collect(),
            whole,
            intervals: part.intervals.iter().map(|i| Since::of(i, percents)).collect(),
        }
    }
}

impl Since {
    fn of(interval: &Interval, percents: &[f64]) -> Self {
        Self {
            elapsed_ns: interval.elapsed,
            covers_ns: interval.covers_since,
            last: interval.last,
            series: Samples::of(&interval.since, percents),
            counts: interval.counts_since.iter().cloned().collect(),
            rate: interval.rate,
            run_delay_ns: interval.delay.clone(),
            dial: interval.dial,
        }
    }
}

impl Document {
    pub(super) fn of(measured: &Measured, percents: &[f64]) -> Self {
        let parts = measured.parts();
        let (own, beside) = parts.split_first().expect("the workload itself is always there");
        let row = |warning: &Warning| WarningRow {
            warning: warning.clone(),
            concerns: concerned(warning, &own.figures),
        };
        let other = |part: &Part| Beside {
            label: part.label.clone(),
            part: PartFigures::of(part, percents),
        };
        Self {
            own: PartFigures::of(own, percents),
            spec: measured.spec.clone(),
            interrupted: measured.interrupted,
            censored: measured.censored,
            warnings: measured.warnings.iter().map(row).collect(),
            machine: measured.facts.clone(),
            load_after: measured.load_after.clone(),
            beside: beside.iter().map(other).collect(),
        }
    }
}
