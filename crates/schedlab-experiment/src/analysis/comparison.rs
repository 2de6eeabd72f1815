//! Two sets of results: is the second better or worse, by how much, and how sure is that?
//!
//! [`compare`] sorts runs into points and takes them to units that vary independently ([`units`]), makes
//! an effect of each point and of all points together, and decides at one level for all of them
//! ([`family`]). `docs/statistics.md` holds the method with its papers.

mod basis;
mod conditions;
mod disturbance;
mod effects;
mod failures;
mod family;
mod looks;
mod neutral;
mod prior;
mod sentences;
mod units;

pub use basis::Basis;
pub use conditions::{FailIf, FailIfError};
pub use effects::POWER_MIN;
pub(crate) use failures::Failures;
pub use family::Detail;
pub use looks::{Looks, look_level};
pub use neutral::centre_of;
pub(crate) use prior::PRIORS;
pub use sentences::percent;

/// The CPU time that runs use: judged beside the time that they take, and never called slower.
const CPU_TIME: &str = "cpu_s";

use super::Cells;
use crate::{Point, StoredRun, run_metrics};
use schedlab_model::{Better, Metric};
use schedlab_workload::metrics;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Chance of any false claim in one comparison of two sets: all workloads, points and primary metrics
/// together.
pub const LEVEL: f64 = 0.05;
/// The expected share of false entries among the secondary metrics under "look at these".
pub(crate) const LOOK_LEVEL: f64 = 0.10;
/// Boots a side from which a verdict on kernels counts boots.
pub(crate) const BOOTS_MIN: usize = 3;

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The second set is better.
    Better,
    /// The second set is worse.
    Worse,
    /// They differ, in a metric that has no better direction.
    Different,
    /// The second set has lower values. The sides did not run interleaved, so that a drift is included.
    Lower,
    /// The second set has higher values, a drift included.
    Higher,
    /// They differ by less than the margin: the 90 % interval lies inside.
    Equivalent,
    /// Better at one point and worse at another.
    Mixed,
    /// The runs do not tell. A change within the interval is possible.
    Undecided,
}

impl Verdict {
    /// As it is written.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Different => "different",
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::Equivalent => "equivalent",
            Self::Mixed => "mixed",
            Self::Undecided => "undecided",
        }
    }

    /// Whether it claims a difference.
    #[must_use]
    pub const fn is_claim(self) -> bool {
        !matches!(self, Self::Equivalent | Self::Undecided)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What is asked of a comparison.
#[derive(Clone, Debug, Default)]
pub struct CompareOptions {
    /// The primary metrics; empty: those of the registry.
    pub metrics: Vec<String>,
    /// Metrics of conditions: primary, too. With some, those of the registry are not tested.
    pub conditions: Vec<String>,
    /// The equivalence margin, 0.05 for ±5 %; `None`: that of the registry.
    pub margin: Option<f64>,
    /// How many such comparisons are made together, which share the level; 0 counts as one.
    pub tests: usize,
    /// Whether runs of one block were done as a pair, in random order; else their times tell.
    pub interleaved: bool,
    /// Whether all runs were done in one random order.
    pub shuffled: bool,
    /// The looks at these runs, this one included.
    pub looks: Looks,
    /// Whether a run that failed ranks behind all finished ones; else there is no verdict beside one.
    pub allow_failures: bool,
    /// What was named beforehand to adjust by, of `PRIORS`.
    pub adjust: Vec<String>,
}

/// One side of a comparison at a point.
#[derive(Clone, Debug, Default, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Side {
    /// The values of the runs that were used.
    pub values: Vec<f64>,
    /// Runs that were cut off at their time limit. They rank slower than all others.
    pub censored: usize,
    /// The centre of the units: the geometric mean where changes are ratios, else the mean; the median
    /// where runs were cut off. `None` where half of the runs or more were.
    pub centre: Option<f64>,
}

/// A relative change with its interval; ends are infinite where the runs bound nothing.
#[derive(Clone, Copy, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Change {
    /// The lower end: -0.03 for 3 % less.
    #[schemars(with = "Option<f64>")]
    pub low: f64,
    /// The estimate of the change: 0.05 is 5 % more; not a number where only ranks tell.
    #[schemars(with = "Option<f64>")]
    pub estimate: f64,
    /// The upper end of the interval, as a part like the estimate.
    #[schemars(with = "Option<f64>")]
    pub high: f64,
    /// Confidence of the interval, corrected for all that is tested with it.
    pub(crate) level: f64,
}

/// What is beside a shift by ranks, which tells of the typical run: the mean, and the runs far behind their side.
#[derive(Clone, Copy, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Tail {
    /// The change of the mean.
    pub mean: Change,
    /// Slow runs of the first side.
    pub(crate) before: usize,
    /// All its runs.
    pub(crate) of_before: usize,
    /// Slow runs of the second side.
    pub(crate) after: usize,
    /// All its runs.
    pub(crate) of_after: usize,
    /// The chance of shares of slow runs so different if both sides are alike (Fisher).
    pub(crate) p: f64,
}

/// One metric at one point, or over all points.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Row {
    /// The label of the workload.
    pub workload: String,
    /// Where in the experiment; `None`: all common points together.
    pub(crate) point: Option<Point>,
    /// The metric that is compared.
    pub metric: Metric,
    /// The first set of runs.
    pub before: Side,
    /// The second set of runs.
    pub after: Side,
    /// What varies independently in this row.
    pub basis: Basis,
    /// The change with the interval that verdict and conditions read.
    pub change: Change,
    /// Corrected so that it is at most [`LEVEL`] exactly when the interval excludes zero.
    pub p: f64,
    /// The rank test beside Student's, from 6 runs a side on; not corrected.
    pub(crate) p_ranks: Option<f64>,
    /// The change of the mean and the slow runs, where the change is a shift by ranks.
    pub tail: Option<Tail>,
    /// The change that such a comparison finds in 8 of 10 cases. `None` below [`POWER_MIN`] runs a side:
    /// so few do not show their tail.
    pub detectable: Option<f64>,
    /// With about how many more runs a side this is decided in 8 of 10 cases, if the further runs vary as these do.
    /// `None` where ten times the runs would not do.
    pub more_runs: Option<usize>,
    /// Whether a drift between the sides is a part of the change, since they did not run interleaved.
    pub drift: bool,
    /// Whether the values are exact for their seed: the machine repeats itself.
    pub(crate) exact: bool,
    /// What the change is adjusted by; empty: nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) adjusted: Vec<String>,
    /// The margin within which sides are equivalent: 0.05 is 5 %.
    pub(crate) margin: f64,
    /// The verdict on this row.
    pub verdict: Verdict,
    /// What limits the verdict, in a sentence; empty: nothing.
    pub note: String,
}

/// All about one metric of a workload.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Judgement {
    /// The verdict over all points.
    pub verdict: Verdict,
    /// All common points together; of one point, that point.
    pub whole: Row,
    /// Each point, where there are several.
    pub points: Vec<Row>,
    /// p of "all points change alike"; 1 with one point.
    pub(crate) disagreement: f64,
}

/// What was found of one workload.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Comparison {
    /// The label of the workload.
    pub workload: String,
    /// Its primary metrics, the first most of all.
    pub primary: Vec<Judgement>,
    /// Secondary metrics with large changes (Benjamini and Hochberg, 10 %). Nothing is claimed of them.
    pub(crate) look_at: Vec<Row>,
    /// Points that only one side has.
    pub(crate) dropped: Vec<Point>,
    /// Why there is no verdict, in a sentence; empty: there is one.
    pub no_verdict: String,
    /// Attempts that failed.
    pub(crate) failures: Failures,
    /// What made the noise of an undecided time, in a sentence; empty where nothing is known of it.
    pub(crate) noise: String,
    /// What is compared where it is not settings: the boots and kernels, in a sentence; empty: one boot.
    pub(crate) boots: String,
}

/// Compares two sets of runs workload by workload. Each pair of slices is a block of its own (a boot, a
/// day); with one pair, boots and times of the runs decide what is paired.
#[must_use]
pub fn compare(blocks: &[(&[StoredRun], &[StoredRun])], asked: &CompareOptions) -> Vec<Comparison> {
    let cells: Vec<(Cells<'_>, Cells<'_>)> =
        blocks.iter().map(|(a, b)| (Cells::new(a), Cells::new(b))).collect();
    let Some((first, second)) = cells.first() else { return Vec::new() };
    let both = |label: &&str| second.workloads().contains(label);
    let labels: Vec<&str> = first.workloads().into_iter().filter(both).collect();
    let level = asked.looks.level() / (labels.len() * asked.tests.max(1)).max(1) as f64;
    labels.iter().filter_map(|label| of_workload(&cells, label, asked, level)).collect()
}

fn of_workload(
    cells: &[(Cells<'_>, Cells<'_>)],
    label: &str,
    asked: &CompareOptions,
    level: f64,
) -> Option<Comparison> {
    let (first, second) = &cells[0];
    let places = |cells: &Cells<'_>| -> Vec<Point> {
        cells.of(label).map(|cell| cell.point.clone()).collect()
    };
    let before = places(first);
    let after = places(second);
    let common: Vec<Point> = before.iter().filter(|p| after.contains(p)).cloned().collect();
    let only = |mine: &[Point], others: &[Point]| -> Vec<Point> {
        mine.iter().filter(|p| !others.contains(p)).cloned().collect()
    };
    let dropped = [only(&before, &after), only(&after, &before)].concat();
    let failures = Failures::of(cells, label);
    let mut no_verdict = units::other_work(first, second, label, &common);
    if no_verdict.is_empty() && failures.is_missing && !asked.allow_failures {
        no_verdict = failures.sentence();
    }
    let all = metrics_of(first, label);
    let primary = primary(first, label, asked, &all);
    let rows = |metric: &Metric| units::rows(cells, label, metric, &common, asked);
    let tested: Vec<Vec<effects::Raw>> = primary.iter().map(rows).collect();
    let tested: Vec<Vec<effects::Raw>> = tested.into_iter().filter(|r| !r.is_empty()).collect();
    let mut judged = family::judge(&tested, level, &no_verdict, Detail::Power);
    if judged.is_empty() && no_verdict.is_empty() {
        if !failures.is_missing {
            return None;
        }
        no_verdict = failures.sentence();
    }
    let others = all.iter().filter(|m| !primary.contains(m));
    let look_at = family::look_at(others.map(rows).filter(|r| !r.is_empty()));
    let boots = units::boots_note(cells, label);
    for row in judged.iter_mut().flat_map(|j| std::iter::once(&mut j.whole).chain(&mut j.points)) {
        if row.note.is_empty() {
            row.note = boots.clone();
        }
    }
    let workload = label.to_owned();
    let primary = judged;
    let noise = match primary.first() {
        Some(lead) if lead.verdict == Verdict::Undecided && no_verdict.is_empty() => {
            disturbance::sentence(cells, label, &lead.whole.metric)
        }
        _ => String::new(),
    };
    Some(Comparison { workload, primary, look_at, dropped, no_verdict, failures, noise, boots })
}

fn metrics_of(cells: &Cells<'_>, label: &str) -> Vec<Metric> {
    // The registry decides about directions: runs of older versions may have stored others.
    let known = |metric: Metric| run_metrics::find(&metric.name).unwrap_or(metric);
    cells.metrics(label).into_iter().map(known).collect()
}

/// The metrics that are tested: those that were asked for and those of conditions; else those of the
/// registry; else the first that has a better direction.
fn primary(cells: &Cells<'_>, label: &str, asked: &CompareOptions, all: &[Metric]) -> Vec<Metric> {
    let find = |name: &str| all.iter().find(|metric| metric.name == name).cloned();
    let mut names: Vec<String> = asked.metrics.clone();
    if names.is_empty() && asked.conditions.is_empty() {
        let spec = cells.of(label).find_map(|cell| cell.any());
        let of_registry = spec.map(|run| metrics::primary(&run.manifest.spec.workload));
        names = of_registry.unwrap_or_default().iter().map(|name| (*name).to_owned()).collect();
    }
    let mut found: Vec<Metric> = names.iter().filter_map(|name| find(name)).collect();
    if found.is_empty() && asked.metrics.is_empty() && asked.conditions.is_empty() {
        found.extend(all.iter().find(|m| m.better != Better::Neither).or(all.first()).cloned());
    }
    // The CPU time accompanies a time that leads, also where the time alone is named.
    let is_time = |metric: &Metric| ["time_s", "run_time_s"].contains(&&*metric.name);
    if found.first().is_some_and(is_time) && asked.conditions.is_empty() {
        found.extend(find(CPU_TIME).filter(|cpu| !found.contains(cpu)));
    }
    for metric in asked.conditions.iter().filter_map(|name| find(name)) {
        if !found.contains(&metric) {
            found.push(metric);
        }
    }
    found
}

/// Compares plain numbers of one metric: runs that share nothing. `None` if a side has too few.
#[cfg(test)]
fn compare_values(metric: &Metric, before: &[f64], after: &[f64]) -> Option<Row> {
    judged_alone(units::of_values(metric, before, after, Basis::Runs)?)
}

/// Compares plain numbers of one metric, of runs that were done in pairs: the values of a pair have
/// the same index. `None` if a side has too few.
#[must_use]
pub fn compare_pairs(metric: &Metric, before: &[f64], after: &[f64]) -> Option<Row> {
    judged_alone(units::of_values(metric, before, after, Basis::Pairs)?)
}

/// Compares plain numbers of several metrics that are tested together, as primary metrics of one point:
/// a row for each, at `level` together. For calibration.
#[must_use]
pub fn compare_metrics(
    sides: &[(Metric, Vec<f64>, Vec<f64>)],
    basis: Basis,
    level: f64,
    detail: Detail,
) -> Vec<Row> {
    let raw = |(metric, a, b): &(Metric, Vec<f64>, Vec<f64>)| {
        units::of_values(metric, a, b, basis).map(|raw| vec![raw])
    };
    let raws: Vec<Vec<effects::Raw>> = sides.iter().filter_map(raw).collect();
    family::judge(&raws, level, "", detail).into_iter().map(|judgement| judgement.whole).collect()
}

/// As [`compare_pairs`], adjusted by what was known of each run beforehand. For calibration.
#[must_use]
pub fn compare_adjusted(
    metric: &Metric,
    (before, after): (&[f64], &[f64]),
    priors: &[Vec<f64>],
) -> Option<Row> {
    let mut raw = units::of_values(metric, before, after, Basis::Pairs)?;
    raw.adjust(priors, &["load_before".to_owned()]);
    judged_alone(raw)
}

fn judged_alone(raw: effects::Raw) -> Option<Row> {
    family::judge(&[vec![raw]], LEVEL, "", Detail::Power).pop().map(|judgement| judgement.whole)
}

impl Comparison {
    /// All rows with a verdict, as the table shows them.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.primary.iter().flat_map(|j| std::iter::once(&j.whole).chain(&j.points))
    }
}

impl Row {
    /// Workload, metric and point as text.
    #[must_use]
    pub fn name(&self) -> String {
        let place = |point: &BTreeMap<String, String>| -> String {
            point.iter().map(|(axis, value)| format!(" {axis}={value}")).collect()
        };
        match &self.point {
            Some(point) => format!("{} {}{}", self.workload, self.metric.name, place(point)),
            None => format!("{} {} all points", self.workload, self.metric.name),
        }
    }
}

#[cfg(test)]
mod tests;
