//! Whether runs fall into two groups, so that the middle of all describes neither.

use crate::Sample;

/// With fewer runs a gap between them is anybody's guess.
const RUNS_MIN: usize = 8;
/// The fewest runs of a group, as a number and as a part of all: fewer are outliers.
const GROUP_MIN: usize = 3;
const GROUP_PART: usize = 5;
/// By how much the upper centre exceeds the lower one at least.
const APART: f64 = 1.25;
/// How often one group is taken for two.
const LEVEL: f64 = 0.01;

/// Runs that lie close together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// The median of its runs.
    pub centre: f64,
    /// How many runs are in this group.
    pub runs: usize,
}

/// The two groups into which runs fall, the lower one first; `None` where they may be one.
///
/// The widest gap that leaves at least 3 runs and a fifth of all on both sides separates them. Its part of the range
/// must exceed what spacings of a uniform distribution exceed once in 100 samples (the bound of Bonferroni on the
/// distribution in Pyke, "Spacings", 1965). Distributions with a peak have smaller gaps there. Between whole numbers, a
/// step of one is no gap. Values of zero or below are not judged.
#[must_use]
pub fn two_groups(sample: &Sample) -> Option<[Group; 2]> {
    let values = sample.values();
    let runs = values.len();
    let least = GROUP_MIN.max(runs.div_ceil(GROUP_PART));
    if runs < RUNS_MIN || values[0] <= 0.0 {
        return None;
    }
    let step = if values.iter().all(|value| value.fract() == 0.0) { 1.0 } else { 0.0 };
    // The part of the range by differences or by ratios, whichever is smaller.
    let part = |at: usize| {
        let above = (values[at] - step).max(values[at - 1]);
        let [least, below, most] = [values[0], values[at - 1], values[runs - 1]];
        ((above - below) / (most - least)).min((above / below).ln() / (most / least).ln())
    };
    let at = (least..=runs - least).max_by(|a, b| part(*a).total_cmp(&part(*b)))?;
    let gaps = (runs - 2 * least + 1) as f64;
    let limit = 1.0 - (LEVEL / gaps).powf(1.0 / (runs - 2) as f64);
    let group = |values: &[f64]| {
        let centre = crate::median(values.iter().copied())?;
        Some(Group { centre, runs: values.len() })
    };
    let both = [group(&values[..at])?, group(&values[at..])?];
    let is_apart = both[1].centre >= APART * both[0].centre;
    (is_apart && part(at) > limit).then_some(both)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    fn unit(dice: &mut Random) -> f64 {
        dice.below(1 << 30) as f64 / f64::from(1 << 30) + 1e-12
    }

    fn normal(dice: &mut Random) -> f64 {
        (-2.0 * unit(dice).ln()).sqrt() * (std::f64::consts::TAU * unit(dice)).cos()
    }

    /// A value of a distribution with one peak, or none.
    fn alike(kind: &str, dice: &mut Random) -> f64 {
        match kind {
            "uniform" => 1.0 + 9.0 * unit(dice),
            "log-uniform" => (3.0 * unit(dice)).exp(),
            "normal" => 100.0 + 20.0 * normal(dice),
            "log-normal" => normal(dice).exp(),
            "exponential" => -unit(dice).ln(),
            "cauchy" => (100.0 + (std::f64::consts::PI * (unit(dice) - 0.5)).tan()).max(1.0),
            // Counts around 3, which have few values.
            _ => (0..12).filter(|_| unit(dice) < 0.25).count() as f64 + 1.0,
        }
    }

    fn share(runs: usize, mut draw: impl FnMut(&mut Random) -> f64) -> f64 {
        let mut dice = Random::new(runs as u64);
        let told = |_: &usize| {
            let sample = Sample::new((0..runs).map(|_| draw(&mut dice))).unwrap();
            two_groups(&sample).is_some()
        };
        (0..4_000).filter(told).count() as f64 / 4_000.0
    }

    #[test]
    fn one_group_is_taken_for_two_in_at_most_one_of_100_samples() {
        for kind in
            ["uniform", "log-uniform", "normal", "log-normal", "exponential", "cauchy", "counts"]
        {
            for runs in [8, 10, 12, 15, 20, 30] {
                let told = share(runs, |dice| alike(kind, dice));
                assert!(told <= 0.0125, "{kind}, {runs} runs: {told}");
            }
        }
    }

    #[test]
    fn two_groups_are_found() {
        let sample = |values: &[f64]| Sample::new(values.iter().copied()).unwrap();
        let runs = [536.0, 3_605.0, 541.0, 3_590.0, 529.0, 3_611.0, 560.0, 548.0];
        let [low, high] = two_groups(&sample(&runs)).unwrap();
        assert_eq!((low.centre, low.runs, high.centre, high.runs), (541.0, 5, 3_605.0, 3));
        // Two are outliers, and 2 % apart is near.
        assert_eq!(two_groups(&sample(&[&runs[..2], &[530.0; 6]].concat())), None);
        assert_eq!(two_groups(&sample(&[[100.0; 4], [102.0; 4]].concat())), None);
        for runs in [10, 20, 30] {
            let told = share(runs, |dice| match dice.below(2) {
                0 => 536.0 + 10.0 * normal(dice),
                _ => 1_900.0 + 40.0 * normal(dice),
            });
            // What is missed are samples with less than three runs, or a fifth, in one group.
            assert!(told > 0.85, "{runs} runs: {told}");
        }
    }
}
