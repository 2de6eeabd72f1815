//! Whether runs agree with published results: each claim of an experiment gets a verdict.
//!
//! A block gives one number: the metric, a ratio, or a slope, averaged over the points of the free axes. The
//! 95 % interval of the mean over blocks, by Student's t, decides. It is corrected for the number of claims
//! (Bonferroni), so that all verdicts of a file hold together.

mod numbers;

use super::Cells;
use crate::{Claim, Experiment, Measure, Point, StoredRun, run_metrics};
use numbers::{Numbers, Scale, gather};
use schedlab_model::{Fact, Unit};
use schedlab_stats::paired;
use schedlab_workload::MachineName;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// Chance of any wrong verdict among the claims of one experiment.
const LEVEL: f64 = 0.05;
/// Bounds that are met up to rounding are met: this part of the bound.
const ROUNDING: f64 = 1e-9;
/// The kind of the machines in virtual time.
const SIMULATED: &str = "sim";

/// What runs say about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The whole interval lies within the bounds.
    Reproduced,
    /// The whole interval lies outside.
    NotReproduced,
    /// The interval holds values of both kinds, or there is none.
    CannotBeJudged,
}

/// A claim with its verdict.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Judged {
    /// The published result in a sentence.
    pub(crate) says: String,
    /// The label of the workload.
    pub(crate) workload: String,
    /// The name of the metric that decides.
    pub(crate) metric: String,
    /// The values on axes that are not averaged over.
    pub(crate) at: Point,
    /// The point that a ratio is to; absent unless the claim is a ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) against: Option<Point>,
    /// The axis of a slope; absent unless the claim is a slope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) along: Option<String>,
    /// The unit of the metric; absent for a ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<Unit>,
    /// The least value that agrees; absent without such a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at_least: Option<f64>,
    /// The greatest value that agrees; absent without such a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at_most: Option<f64>,
    /// Why the bounds are where they are.
    pub(crate) why: String,
    /// The machines of the runs.
    pub(crate) machines: Vec<String>,
    /// The estimate, in the metric's unit or as a ratio; absent without a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<f64>,
    /// The ends of the interval; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interval: Option<(f64, f64)>,
    /// The confidence of the interval, corrected for the number of claims.
    pub(crate) level: f64,
    /// How many blocks decide.
    pub(crate) blocks: usize,
    /// Whether the runs are of a machine that repeats itself and all blocks gave the same number: there is no
    /// interval, and the number decides for these seeds.
    pub(crate) exact: bool,
    /// What the runs say.
    pub finding: Finding,
    /// The verdict in words, with the addition "in the model" for a simulated machine.
    pub(crate) verdict: String,
    /// What limits the verdict, in a sentence; empty: nothing.
    pub(crate) note: String,
    /// What is known of the error of a simulated machine, in sentences.
    pub(crate) model: Vec<String>,
}

/// The verdicts on the claims of an experiment.
#[must_use]
pub fn judge(experiment: &Experiment, runs: &[StoredRun]) -> Vec<Judged> {
    let cells = Cells::new(runs);
    let level = 1.0 - LEVEL / experiment.claims.len().max(1) as f64;
    experiment.claims.iter().map(|claim| judged(&in_runs(claim), &cells, level)).collect()
}

/// The claim with axes named as in runs: there an axis of the claim's own workload does not carry its label.
fn in_runs(claim: &Claim) -> Claim {
    let prefix = format!("{}/", claim.workload);
    let bare = |name: &String| name.strip_prefix(&prefix).unwrap_or(name).to_owned();
    let point =
        |point: &Point| point.iter().map(|(name, value)| (bare(name), value.clone())).collect();
    let measure = match &claim.measure {
        Measure::Value => Measure::Value,
        Measure::Ratio(against) => Measure::Ratio(point(against)),
        Measure::Slope(axis) => Measure::Slope(bare(axis)),
    };
    Claim { at: point(&claim.at), measure, ..claim.clone() }
}

fn judged(claim: &Claim, cells: &Cells<'_>, level: f64) -> Judged {
    let runs = concerned(claim, cells);
    let machines: BTreeSet<&str> = runs.iter().map(|run| run.manifest.machine.as_str()).collect();
    let simulated = !runs.is_empty() && runs.iter().all(|run| is_simulated(run));
    let decided = match gather(claim, cells) {
        Ok(_) if mixed_places(&runs) => {
            Decided::nothing("The runs are of several hosts or kernels: judge each alone.")
        }
        Ok(numbers) => decide(claim, &numbers, level, runs.iter().all(|run| is_exact(run))),
        Err(why) => Decided::nothing(why),
    };
    let finite = |bound: f64| Some(bound).filter(|bound| bound.is_finite());
    let (against, along) = match &claim.measure {
        Measure::Value => (None, None),
        Measure::Ratio(point) => (Some(point.clone()), None),
        Measure::Slope(axis) => (None, Some(axis.clone())),
    };
    let unit = against.is_none().then(|| unit(claim, cells)).flatten();
    Judged {
        says: claim.says.clone(),
        workload: claim.workload.clone(),
        metric: claim.metric.clone(),
        at: claim.at.clone(),
        against,
        along,
        unit,
        at_least: finite(claim.at_least),
        at_most: finite(claim.at_most),
        why: claim.why.clone(),
        machines: machines.into_iter().map(str::to_owned).collect(),
        value: decided.value,
        interval: decided.interval,
        level,
        blocks: decided.blocks,
        exact: decided.exact,
        finding: decided.finding,
        verdict: verdict(decided.finding, simulated),
        note: decided.note,
        model: if simulated { model(&runs) } else { Vec::new() },
    }
}

/// The whole runs that a claim is about.
fn concerned<'r>(claim: &Claim, cells: &Cells<'r>) -> Vec<&'r StoredRun> {
    let against = match &claim.measure {
        Measure::Ratio(point) => Some(numbers::overlaid(&claim.at, point)),
        Measure::Value | Measure::Slope(_) => None,
    };
    let points: Vec<&Point> = std::iter::once(&claim.at).chain(against.as_ref()).collect();
    let is_meant = |point: &Point| points.iter().any(|part| numbers::lies(point, part));
    let cells = cells.of(&claim.workload).filter(|cell| is_meant(&cell.point));
    let runs = cells.flat_map(|cell| cell.runs.values().copied());
    runs.filter(|run| numbers::is_on(run, claim.machine.as_ref())).collect()
}

fn is_simulated(run: &StoredRun) -> bool {
    run.manifest.machine.parse::<MachineName>().is_ok_and(|machine| machine.kind == SIMULATED)
}

/// Whether the machine gives the same result for the same run: in virtual time, or by counted instructions.
fn is_exact(run: &StoredRun) -> bool {
    let counts = match &run.manifest.facts.hypervisor {
        Fact::Known(text) => text.contains(" -icount "),
        Fact::Unknown(_) => false,
    };
    counts || is_simulated(run)
}

/// Whether runs of one machine were done at several places.
fn mixed_places(runs: &[&StoredRun]) -> bool {
    let mut machines: BTreeSet<&str> = BTreeSet::new();
    let mut places = BTreeSet::new();
    for run in runs {
        machines.insert(&run.manifest.machine);
        places.insert((&run.manifest.machine, run.place_axes()));
    }
    places.len() > machines.len()
}

fn unit(claim: &Claim, cells: &Cells<'_>) -> Option<Unit> {
    let told = || cells.metrics(&claim.workload).into_iter().find(|m| m.name == claim.metric);
    run_metrics::find(&claim.metric).or_else(told).map(|metric| metric.unit)
}

/// The errors that simulated runs carry, each once.
fn model(runs: &[&StoredRun]) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for warning in runs.iter().flat_map(|run| &run.manifest.facts.warnings) {
        if !told.contains(&warning.what) {
            told.push(warning.what.clone());
        }
    }
    told
}

fn verdict(finding: Finding, simulated: bool) -> String {
    let where_ = if simulated { " in the model" } else { "" };
    match finding {
        Finding::Reproduced => format!("reproduced{where_}"),
        Finding::NotReproduced => format!("not reproduced{where_}"),
        Finding::CannotBeJudged => "cannot be judged".to_owned(),
    }
}

/// A verdict with its numbers.
struct Decided {
    value: Option<f64>,
    interval: Option<(f64, f64)>,
    blocks: usize,
    exact: bool,
    finding: Finding,
    note: String,
}

impl Decided {
    fn nothing(why: impl Into<String>) -> Self {
        Self {
            value: None,
            interval: None,
            blocks: 0,
            exact: false,
            finding: Finding::CannotBeJudged,
            note: why.into(),
        }
    }
}

fn decide(claim: &Claim, numbers: &Numbers, level: f64, exact: bool) -> Decided {
    let Numbers { of_blocks, scale } = numbers;
    let mean = of_blocks.iter().sum::<f64>() / of_blocks.len() as f64;
    let back = |number: f64| match scale {
        Scale::Plain => number,
        Scale::Logarithms => number.exp(),
    };
    let value = Some(back(mean));
    let blocks = of_blocks.len();
    let open = Decided { value, blocks, ..Decided::nothing("") };
    if blocks < 2 {
        return Decided { note: "One block gives no interval: repeat the runs.".into(), ..open };
    }
    if let Some(effect) = paired(of_blocks) {
        let (low, high) = effect.interval(level);
        let low = back(low);
        let high = back(high);
        let finding = found(claim, low, high);
        return Decided { interval: Some((low, high)), finding, ..open };
    }
    if exact {
        let note = format!("All {blocks} blocks are identical, so the value is exact per seed.");
        let finding = found(claim, back(mean), back(mean));
        return Decided { exact, finding, note, ..open };
    }
    let note = format!("All {blocks} blocks are identical, which says nothing about their spread.");
    Decided { note, ..open }
}

/// Where an interval lies.
fn found(claim: &Claim, low: f64, high: f64) -> Finding {
    let slack = |bound: f64| if bound.is_finite() { bound.abs() * ROUNDING } else { 0.0 };
    let least = claim.at_least - slack(claim.at_least);
    let most = claim.at_most + slack(claim.at_most);
    if low >= least && high <= most {
        Finding::Reproduced
    } else if high < least || low > most {
        Finding::NotReproduced
    } else {
        Finding::CannotBeJudged
    }
}

#[cfg(test)]
mod tests;
