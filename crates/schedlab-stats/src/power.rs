//! Before and after: how many runs a difference needs, and which difference so many runs can show.

use crate::distribution::{normal_cdf, normal_quantile};

/// What a comparison is to achieve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aim {
    /// Chance of a false find, two-sided: 0.05.
    pub level: f64,
    /// Chance of finding a difference that is there: 0.8.
    pub power: f64,
}

impl Default for Aim {
    fn default() -> Self {
        Self { level: 0.05, power: 0.8 }
    }
}

/// Runs needed in each of two sets so that the test of Mann and Whitney finds a shift, by the formula
/// of Noether ("Sample size determination for some common nonparametric tests", JASA 1987, equation 10
/// with equal sets), the chance of one value exceeding another taken for normal numbers. `shift` and
/// `deviation` are in the same unit. Never below the number from which the exact test can reach the
/// level at all (4 for 5 %).
#[must_use]
pub fn runs_needed(shift: f64, deviation: f64, aim: Aim) -> Option<usize> {
    let least = reach(aim.level);
    if deviation == 0.0 && shift != 0.0 {
        return Some(least);
    }
    let exceeds = normal_cdf(shift.abs() / (deviation * std::f64::consts::SQRT_2));
    if exceeds.is_nan() || exceeds - 0.5 < 1e-6 {
        return None;
    }
    let z = normal_quantile(1.0 - aim.level / 2.0) + normal_quantile(aim.power);
    // N = z² / (12 c (1 - c) (p - ½)²) of both sets together, with c = ½.
    let each = z * z / (6.0 * (exceeds - 0.5).powi(2));
    // Rounded up, and a run more for what the discrete exact test loses against the formula.
    Some((each.ceil() as usize + 1).max(least))
}

/// The smallest shift that `runs` in each set find with the aimed power: the inverse of
/// [`runs_needed`], in the unit of `deviation`. `None` with too few runs for any shift.
#[must_use]
pub fn detectable(runs: usize, deviation: f64, aim: Aim) -> Option<f64> {
    if runs < reach(aim.level) {
        return None;
    }
    let z = normal_quantile(1.0 - aim.level / 2.0) + normal_quantile(aim.power);
    let exceeds = 0.5 + z / (6.0 * runs.saturating_sub(1).max(1) as f64).sqrt();
    // So few runs that only sets without any overlap are told apart.
    let exceeds = exceeds.min(1.0 - 1.0 / (2.0 * (runs * runs) as f64));
    Some(normal_quantile(exceeds) * std::f64::consts::SQRT_2 * deviation)
}

/// Runs in each set from which the exact test of Mann and Whitney can reach a level: 2 / C(2n, n).
#[must_use]
pub fn reach(level: f64) -> usize {
    let mut ways = 1.0;
    (1..)
        .find(|n| {
            let n = *n as f64;
            ways *= 2.0 * (2.0 * n - 1.0) / n;
            2.0 / ways <= level
        })
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, Sample, mann_whitney};

    #[test]
    fn four_runs_each_are_the_fewest_at_five_percent() {
        // 2 / C(8, 4) = 0.0286, 2 / C(6, 3) = 0.1.
        assert_eq!(reach(0.05), 4);
        assert_eq!(reach(0.01), 5);
        assert_eq!(detectable(3, 1.0, Aim::default()), None);
    }

    #[test]
    fn noethers_formula_gives_its_published_number() {
        // Shift of one deviation: p = Phi(1/sqrt 2) = 0.7602, N = 7.849 / (6 · 0.2602²) = 19.3 each;
        // rounded up to 20, plus the one for the exact test.
        assert_eq!(runs_needed(1.0, 1.0, Aim::default()), Some(21));
        assert_eq!(runs_needed(0.0, 1.0, Aim::default()), None);
    }

    #[test]
    fn a_shift_is_found_as_often_as_the_aim_says() {
        let aim = Aim::default();
        for shift in [1.0, 1.5, 2.0] {
            let runs = runs_needed(shift, 1.0, aim).unwrap();
            let mut random = Random::new(11);
            let trials = 600;
            let found = (0..trials)
                .filter(|_| {
                    let a = Sample::new((0..runs).map(|_| random.normal())).unwrap();
                    let b = Sample::new((0..runs).map(|_| random.normal() + shift)).unwrap();
                    mann_whitney(&a, &b).p <= aim.level
                })
                .count();
            // 480 of 600 are aimed at, standard deviation 10.
            assert!(found >= 455, "shift {shift}, {runs} runs: {found} of {trials}");
        }
    }

    #[test]
    fn the_detectable_shift_needs_the_runs_that_it_was_made_from() {
        for runs in [8, 20, 50] {
            let shift = detectable(runs, 2.0, Aim::default()).unwrap();
            let needed = runs_needed(shift, 2.0, Aim::default()).unwrap();
            assert!(needed.abs_diff(runs) <= 1, "{runs}: {shift} needs {needed}");
        }
    }
}
