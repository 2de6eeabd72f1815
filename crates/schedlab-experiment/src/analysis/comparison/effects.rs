//! From the units of two sides to an effect, before anything is decided.

use super::basis::Basis;
use super::{Change, Side};
use crate::Point;
use schedlab_model::Metric;
use schedlab_stats::{
    Aim, Effect, Sample, detectable, hodges_lehmann, mann_whitney, paired, paired_shift,
    runs_needed, signed_rank, welch,
};

/// Units a side from which ranks may decide.
pub(super) const RANKS_MIN: usize = 6;

/// Runs and units a side from which a power is stated. Fewer runs show too little of a heavy tail: with 20
/// pairs a stated 80 % was 74 % ("Calibration" in `docs/statistics.md`).
pub const POWER_MIN: usize = 40;

/// How a change is written: as a ratio, or as a difference relative to a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// Logarithms: the values are above zero.
    Log,
    /// Differences over this level.
    Linear(f64),
}

impl Scale {
    pub(super) fn of(self, value: f64) -> f64 {
        match self {
            Self::Log => value.ln(),
            Self::Linear(level) => value / level,
        }
    }

    /// The relative change of an effect on this scale.
    pub(super) fn change(self, effect: f64) -> f64 {
        match self {
            Self::Log if effect.is_finite() => effect.exp_m1(),
            Self::Log | Self::Linear(_) => effect,
        }
    }

    /// The effect of a relative change.
    pub(super) fn effect(self, change: f64) -> f64 {
        match self {
            Self::Log => change.ln_1p(),
            Self::Linear(_) => change,
        }
    }

    /// The value in the metric's own unit.
    pub(super) fn value(self, unit: f64) -> f64 {
        match self {
            Self::Log => unit.exp(),
            Self::Linear(level) => unit * level,
        }
    }
}

/// What tells the error of an effect.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Estimate {
    /// Student's t on the scale.
    Student(Effect),
    /// Ranks: some runs were cut off, or copies have no spread.
    Ranks(Ranks),
    /// The estimate alone: too few units.
    None(f64),
}

/// The units of two sides on the scale; a censored one is infinite.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ranks {
    before: Vec<f64>,
    after: Vec<f64>,
    is_paired: bool,
}

impl Ranks {
    fn differences(&self) -> Vec<f64> {
        self.before.iter().zip(&self.after).map(|(a, b)| b - a).collect()
    }

    pub(super) fn units(&self) -> usize {
        self.before.len().min(self.after.len())
    }

    /// The exact p value. Infinite values are taken to the largest numbers there are.
    pub(super) fn p(&self) -> f64 {
        let finite =
            |values: &[f64]| Sample::new(values.iter().map(|v| v.clamp(-1e300, 1e300))).ok();
        if self.is_paired {
            let differences: Vec<f64> = self
                .differences()
                .iter()
                .map(|d| if d.is_nan() { 0.0 } else { d.clamp(-1e300, 1e300) })
                .collect();
            return signed_rank(&differences).map_or(1.0, |test| test.p);
        }
        match (finite(&self.before), finite(&self.after)) {
            (Some(a), Some(b)) => mann_whitney(&a, &b).p,
            _ => 1.0,
        }
    }

    /// The interval that inverts the test, with the estimate between its ends.
    pub(super) fn interval(&self, level: f64) -> (f64, f64, f64) {
        let bounded = |v: f64| if v.abs() > 1e100 { f64::INFINITY.copysign(v) } else { v };
        let clamped =
            |values: &[f64]| Sample::new(values.iter().map(|v| v.clamp(-1e200, 1e200))).ok();
        let shift = if self.is_paired {
            let differences: Vec<f64> = self
                .differences()
                .iter()
                .map(|d| if d.is_nan() { 0.0 } else { d.clamp(-1e200, 1e200) })
                .collect();
            paired_shift(&differences, level).ok()
        } else {
            clamped(&self.before)
                .zip(clamped(&self.after))
                .map(|(a, b)| hodges_lehmann(&a, &b, level))
        };
        shift.map_or((f64::NEG_INFINITY, f64::NAN, f64::INFINITY), |s| {
            (bounded(s.low), bounded(s.estimate), bounded(s.high))
        })
    }
}

/// One metric at one point, measured, with nothing decided.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Raw {
    pub(super) workload: String,
    pub(super) point: Option<Point>,
    pub(super) metric: Metric,
    pub(super) before: Side,
    pub(super) after: Side,
    pub(super) basis: Basis,
    pub(super) scale: Scale,
    pub(super) estimate: Estimate,
    /// Units a side, the smaller number.
    pub(super) units: usize,
    pub(super) p_ranks: Option<f64>,
    pub(super) margin: f64,
}

impl Raw {
    /// The p-value of this row alone, not corrected.
    pub(super) fn p(&self) -> f64 {
        match &self.estimate {
            Estimate::Student(effect) => effect.p(),
            Estimate::Ranks(ranks) if ranks.units() >= RANKS_MIN => ranks.p(),
            Estimate::Ranks(_) | Estimate::None(_) => 1.0,
        }
    }

    /// The relative change at a confidence.
    pub(super) fn change(&self, level: f64) -> Change {
        let (low, estimate, high) = match &self.estimate {
            Estimate::Student(effect) => {
                let (low, high) = effect.interval(level);
                (low, effect.estimate, high)
            }
            Estimate::Ranks(ranks) if ranks.units() >= RANKS_MIN => ranks.interval(level),
            Estimate::Ranks(ranks) => (f64::NEG_INFINITY, ranks.interval(0.5).1, f64::INFINITY),
            Estimate::None(estimate) => (f64::NEG_INFINITY, *estimate, f64::INFINITY),
        };
        let change = |v| self.scale.change(v);
        Change { low: change(low), estimate: change(estimate), high: change(high), level }
    }

    /// Whether the change lies within the margin by two one-sided tests. Copies that are the same do.
    pub(super) fn is_equivalent(&self) -> bool {
        let (low, high) = (self.scale.effect(-self.margin), self.scale.effect(self.margin));
        match &self.estimate {
            Estimate::Student(effect) => effect.is_within(low, high),
            Estimate::Ranks(ranks) if ranks.units() >= RANKS_MIN => {
                let (least, _, most) = ranks.interval(0.9);
                low < least && most < high
            }
            Estimate::Ranks(_) | Estimate::None(_) => false,
        }
    }

    /// The relative change that such a comparison finds in 8 of 10 cases at `level`; none below
    /// [`POWER_MIN`] runs a side, or as many units.
    pub(super) fn detectable(&self, level: f64) -> Option<f64> {
        let Estimate::Student(effect) = &self.estimate else { return None };
        let runs = self.before.values.len().min(self.after.values.len());
        if runs < POWER_MIN || effect.degrees < (POWER_MIN - 1) as f64 {
            return None;
        }
        let effect = unbiased(effect);
        let aim = Aim { level, ..Aim::default() };
        Some(self.scale.change(detectable(effect.error, effect.degrees, aim)))
    }

    /// About how many units a side find a relative change in 8 of 10 cases.
    pub(super) fn units_needed(&self, change: f64, level: f64) -> Option<usize> {
        let Estimate::Student(effect) = &self.estimate else { return None };
        let aim = Aim { level, ..Aim::default() };
        runs_needed(self.scale.effect(change), &unbiased(effect), self.units, aim)
    }
}

/// The effect with an error whose median over samples is the true one: few runs mostly show less spread
/// than there is (the median of chi-square by Wilson and Hilferty, "The distribution of chi-square",
/// PNAS 1931).
fn unbiased(effect: &Effect) -> Effect {
    let factor = (1.0 - 2.0 / (9.0 * effect.degrees)).powf(-1.5);
    Effect { error: effect.error * if factor.is_finite() { factor } else { 1.0 }, ..*effect }
}

/// The estimate of two sides on a scale. Infinite units were cut off.
pub(super) fn estimate(before: &[f64], after: &[f64], is_paired: bool) -> Estimate {
    let cut = before.iter().chain(after).any(|v| v.is_infinite());
    let ranks =
        || Estimate::Ranks(Ranks { before: before.to_vec(), after: after.to_vec(), is_paired });
    if cut {
        return ranks();
    }
    let differences = || -> Vec<f64> { before.iter().zip(after).map(|(a, b)| b - a).collect() };
    let effect = if is_paired { paired(&differences()) } else { welch(before, after) };
    match effect {
        Some(effect) => Estimate::Student(effect),
        None if before.len().min(after.len()) >= RANKS_MIN => ranks(),
        None => {
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            Estimate::None(mean(after) - mean(before))
        }
    }
}

/// The rank test beside Student's, from [`RANKS_MIN`] units on.
pub(super) fn ranks_beside(before: &[f64], after: &[f64], is_paired: bool) -> Option<f64> {
    let ranks = Ranks { before: before.to_vec(), after: after.to_vec(), is_paired };
    (ranks.units() >= RANKS_MIN).then(|| ranks.p())
}
