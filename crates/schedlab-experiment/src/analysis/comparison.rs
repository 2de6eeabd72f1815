//! Two sets of results: what changed, how surely, and what so many runs could have shown.

use super::Cells;
use crate::{Point, StoredRun};
use schedlab_model::{Better, Metric};
use schedlab_stats::{
    Aim, Sample, Shift, Test, cliffs_delta, detectable, hodges_lehmann, holm, mann_whitney,
    paired_shift, runs_needed, signed_rank,
};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Chance of any false find in one comparison of two sets, all figures together.
pub const LEVEL: f64 = 0.05;

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The second set is better.
    Better,
    /// The second set is worse.
    Worse,
    /// They differ, in a figure that has no better or worse.
    Different,
    /// The runs show no difference; one smaller than [`Comparison::detectable`] may be there.
    NoDifference,
    /// So few runs that no difference, however large, could be shown.
    TooFew,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Different => "different",
            Self::NoDifference => "no difference shown",
            Self::TooFew => "too few runs",
        })
    }
}

/// One figure at one point, before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The workload.
    pub workload: String,
    /// Where in the experiment.
    pub point: Point,
    /// The figure.
    pub metric: Metric,
    /// Values of the first set; in blocks, a median for each.
    pub before: Vec<f64>,
    /// Values of the second set.
    pub after: Vec<f64>,
    /// Relative change with its 95 % interval: 0.03 for 3 % more; of the mean of all values where the median
    /// before is 0. Infinite ends: too few runs.
    pub change: Shift,
    /// The rank test; in blocks, of signed ranks.
    pub test: Test,
    /// Its p, corrected for all comparisons that were made with it (Holm).
    pub p_corrected: f64,
    /// Cliff's delta, -1 to 1; of the sets, blocks left aside.
    pub delta: f64,
    /// The relative change that so many runs find in 8 of 10 cases, by the spread of these.
    pub detectable: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
}

/// Compares two sets of runs, figure by figure, at every point that both have. `blocks`: each pair of
/// slices is a block (a boot, a day); blocks are the units then, each with the median of its runs.
/// `wanted` names the figures; empty takes all that have a better and a worse.
#[must_use]
pub fn compare(blocks: &[(&[StoredRun], &[StoredRun])], wanted: &[String]) -> Vec<Comparison> {
    let cells: Vec<(Cells<'_>, Cells<'_>)> =
        blocks.iter().map(|(a, b)| (Cells::new(a), Cells::new(b))).collect();
    let Some((first, _)) = cells.first() else { return Vec::new() };
    let mut out = Vec::new();
    for cell in &first.cells {
        for metric in first.metrics(&cell.workload) {
            let judging = wanted.is_empty() && metric.better != Better::Neither;
            if !(judging || wanted.contains(&metric.name)) {
                continue;
            }
            let values = |cells: &Cells<'_>| -> Vec<f64> {
                let same = cells.of(&cell.workload).find(|c| c.point == cell.point);
                same.map(|c| c.values(&metric.name).into_values().collect()).unwrap_or_default()
            };
            let sets: Vec<(Vec<f64>, Vec<f64>)> =
                cells.iter().map(|(a, b)| (values(a), values(b))).collect();
            let place = (cell.workload.clone(), cell.point.clone());
            out.extend(Comparison::of(place, metric, &sets));
        }
    }
    let corrected = holm(&out.iter().map(|c| c.test.p).collect::<Vec<_>>());
    for (comparison, p) in out.iter_mut().zip(corrected) {
        comparison.p_corrected = p;
        comparison.verdict = comparison.judge();
    }
    out
}

impl Comparison {
    /// `None` where a side has no values.
    fn of(
        (workload, point): (String, Point),
        metric: Metric,
        sets: &[(Vec<f64>, Vec<f64>)],
    ) -> Option<Self> {
        let median =
            |values: &Vec<f64>| Sample::new(values.iter().copied()).ok().map(|s| s.median());
        let (before, after): (Vec<f64>, Vec<f64>) = match sets {
            [(before, after)] => (before.clone(), after.clone()),
            blocks => blocks.iter().filter_map(|(a, b)| Some((median(a)?, median(b)?))).unzip(),
        };
        let a = Sample::new(before.iter().copied()).ok()?;
        let b = Sample::new(after.iter().copied()).ok()?;
        // Ratios where there are ratios; a count may be zero, then differences to the median.
        let all = || before.iter().chain(&after);
        let positive = all().all(|v| *v > 0.0);
        // Of what is nothing on both sides there is nothing to say; where it is nothing before, a
        // change is relative to the mean of all.
        let mean = all().map(|v| v.abs()).sum::<f64>() / (before.len() + after.len()) as f64;
        if mean == 0.0 {
            return None;
        }
        let scale = if a.median() == 0.0 { mean } else { a.median().abs() };
        let on_scale = |v: &f64| if positive { v.ln() } else { v / scale };
        let (x, y): (Vec<f64>, Vec<f64>) =
            (before.iter().map(on_scale).collect(), after.iter().map(on_scale).collect());
        let (sa, sb) = (Sample::new(x.clone()).ok()?, Sample::new(y.clone()).ok()?);
        let differences: Vec<f64> = y.iter().zip(&x).map(|(y, x)| y - x).collect();
        let blocked = sets.len() > 1;
        let (test, shift) = if blocked {
            let none = Test { p: 1.0, p_min: 0.0, exact: true };
            (
                signed_rank(&differences).unwrap_or(none),
                paired_shift(&differences, 1.0 - LEVEL).ok()?,
            )
        } else {
            (mann_whitney(&sa, &sb), hodges_lehmann(&sa, &sb, 1.0 - LEVEL))
        };
        let relative = |v: f64| if positive { v.exp() - 1.0 } else { v };
        let change = Shift {
            low: if shift.low.is_finite() { relative(shift.low) } else { shift.low },
            estimate: relative(shift.estimate),
            high: if shift.high.is_finite() { relative(shift.high) } else { shift.high },
        };
        let spread = match blocked {
            true => {
                Sample::new(differences).ok()?.deviation().map(|d| d / std::f64::consts::SQRT_2)
            }
            false => pooled(&sa, &sb),
        };
        let runs = a.len().min(b.len());
        let detectable = spread.and_then(|s| detectable(runs, s, Aim::default())).map(relative);
        let delta = cliffs_delta(&a, &b);
        let verdict = Verdict::TooFew;
        let p_corrected = test.p;
        Some(Self {
            workload,
            point,
            metric,
            before,
            after,
            change,
            test,
            p_corrected,
            delta,
            detectable,
            verdict,
        })
    }

    fn judge(&self) -> Verdict {
        if self.test.p_min > LEVEL {
            return Verdict::TooFew;
        }
        if self.p_corrected > LEVEL {
            return Verdict::NoDifference;
        }
        match (self.metric.better, self.change.estimate < 0.0) {
            (Better::Neither, _) => Verdict::Different,
            (Better::Lower, true) | (Better::Higher, false) => Verdict::Better,
            (Better::Lower, false) | (Better::Higher, true) => Verdict::Worse,
        }
    }

    /// Runs in each set that a relative change needs to be found in 8 of 10 cases, by the spread of
    /// these runs.
    #[must_use]
    pub fn runs_needed(&self, change: f64) -> Option<usize> {
        let logs = |values: &[f64]| Sample::new(values.iter().map(|v| v.ln())).ok();
        let spread = pooled(&logs(&self.before)?, &logs(&self.after)?)?;
        runs_needed((1.0 + change).ln(), spread, Aim::default())
    }
}

/// The standard deviation within two sets.
fn pooled(a: &Sample, b: &Sample) -> Option<f64> {
    let part = |s: &Sample| s.deviation().map(|d| (d * d * (s.len() - 1) as f64, s.len() - 1));
    let ((x, m), (y, n)) = (part(a).unwrap_or((0.0, 0)), part(b).unwrap_or((0.0, 0)));
    (m + n > 0).then(|| ((x + y) / (m + n) as f64).sqrt())
}

/// A condition for scripts: `time_s > +3%`.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIf {
    /// The figure.
    pub metric: String,
    /// Whether more is the failure.
    pub above: bool,
    /// The relative change beyond which it fails.
    pub change: f64,
}

/// Why a text is no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no condition: write FIGURE > +N% or FIGURE < -N%, as in 'time_s > +3%'")]
pub struct FailIfError(String);

impl FromStr for FailIf {
    type Err = FailIfError;
    fn from_str(text: &str) -> Result<Self, FailIfError> {
        let wrong = || FailIfError(text.to_owned());
        let at = text.find(['<', '>']).ok_or_else(wrong)?;
        let (metric, rest) = text.split_at(at);
        let number = rest[1..].trim().strip_suffix('%').ok_or_else(wrong)?.trim();
        let change: f64 = number.parse().map_err(|_| wrong())?;
        let metric = metric.trim().to_owned();
        if metric.is_empty() || !change.is_finite() {
            return Err(wrong());
        }
        Ok(Self { metric, above: rest.starts_with('>'), change: change / 100.0 })
    }
}

impl FailIf {
    /// `Some(true)` when the change lies beyond the condition for sure (the whole interval does),
    /// `Some(false)` when it surely does not, `None` when the runs can't tell or there are none.
    #[must_use]
    pub fn check(&self, comparisons: &[Comparison]) -> Option<bool> {
        let mut sure = true;
        let mut any = false;
        for comparison in comparisons.iter().filter(|c| c.metric.name == self.metric) {
            any = true;
            let Shift { low, high, .. } = comparison.change;
            let (least, most) = if self.above { (low, high) } else { (-high, -low) };
            let limit = if self.above { self.change } else { -self.change };
            if least > limit {
                return Some(true);
            }
            sure &= most <= limit;
        }
        (any && sure).then_some(false)
    }
}

/// Comparisons of sets of plain numbers, for tests and for callers that hold no runs.
#[must_use]
pub fn compare_values(metric: &Metric, before: &[f64], after: &[f64]) -> Option<Comparison> {
    let sets = [(before.to_vec(), after.to_vec())];
    let place = (String::new(), BTreeMap::new());
    let mut comparison = Comparison::of(place, metric.clone(), &sets)?;
    comparison.verdict = comparison.judge();
    Some(comparison)
}

#[cfg(test)]
mod tests;
