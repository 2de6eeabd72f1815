//! How many runs a difference needs, and which difference this many runs can show.

use crate::Effect;
use crate::distribution::{normal_quantile, t_beyond, t_power, t_reach};

/// What a comparison is to achieve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aim {
    /// Chance of a false claim, two-sided, corrected for all tests of the comparison: 0.05 for one.
    pub level: f64,
    /// Chance of finding a difference that is there: 0.8.
    pub power: f64,
}

impl Default for Aim {
    fn default() -> Self {
        Self { level: 0.05, power: 0.8 }
    }
}

/// The smallest difference that a t test with this standard error and these degrees of freedom finds with
/// the aimed power, in the unit of `error`: the noncentral t inverted (see `t_power`), to a thousandth.
#[must_use]
pub fn detectable(error: f64, degrees: f64, aim: Aim) -> f64 {
    let critical = t_reach(aim.level, degrees);
    let finds = |shift: f64| t_beyond(shift, degrees, critical) >= aim.power;
    // Two quantiles of Student's t come within some percent of it.
    let guess = critical + t_reach(2.0 - 2.0 * aim.power, degrees);
    let mut low = 0.9 * guess;
    let mut high = 1.1 * guess;
    while finds(low) && low > 1e-9 {
        (low, high) = (low / 2.0, low);
    }
    while !finds(high) && high < 1e12 {
        low = high;
        high *= 2.0;
    }
    while high - low > 1e-3 * high {
        let middle = f64::midpoint(low, high);
        if finds(middle) { high = middle } else { low = middle }
    }
    high * error
}

/// Runs a side that find a difference of `shift` with the aimed power, judged by an effect that `runs` a
/// side gave. `None` for a shift of zero, or when more than a million runs were needed.
#[must_use]
pub fn runs_needed(shift: f64, effect: &Effect, runs: usize, aim: Aim) -> Option<usize> {
    let finds = |n: usize| {
        let more = effect.with_runs(n as f64 / runs.max(1) as f64);
        more.degrees >= 1.0
            && t_power(shift.abs() / more.error, more.degrees, aim.level) >= aim.power
    };
    // Normal numbers give a first guess; from there up or down.
    let reach = normal_quantile(1.0 - aim.level / 2.0) + normal_quantile(aim.power);
    let guess = (reach * effect.error / shift).powi(2) * runs as f64;
    if !guess.is_finite() || guess > 1e6 {
        return None;
    }
    let mut high = (guess.ceil() as usize).max(2);
    while !finds(high) {
        high += high.div_ceil(4);
        if high > 1 << 21 {
            return None;
        }
    }
    let mut low = 1;
    while low + 1 < high {
        let middle = usize::midpoint(low, high);
        if finds(middle) { high = middle } else { low = middle }
    }
    Some(if finds(low.max(2)) { low.max(2) } else { high })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, paired};

    #[test]
    fn the_published_number_of_runs_for_one_deviation() {
        // Cohen, "Statistical Power Analysis", 1988, table 2.4.1: d = 1, two-sided 5 %, power 0.8: 17 each.
        let effect = Effect { estimate: 0.0, error: (2.0_f64 / 10.0).sqrt(), degrees: 18.0 };
        assert_eq!(runs_needed(1.0, &effect, 10, Aim::default()), Some(17));
        assert_eq!(runs_needed(0.0, &effect, 10, Aim::default()), None);
    }

    #[test]
    fn the_detectable_shift_is_found_as_often_as_the_aim_says() {
        for (runs, level) in [(3, 0.05), (5, 0.05 / 21.0), (8, 0.05 / 13.0), (20, 0.05)] {
            let aim = Aim { level, power: 0.8 };
            let error = 1.0 / f64::from(runs).sqrt();
            let degrees = f64::from(runs) - 1.0;
            let shift = detectable(error, degrees, aim);
            let mut random = Random::new(1);
            let mut draw = || (0..runs).map(|_| random.normal() + shift).collect::<Vec<f64>>();
            let trials = 1_000;
            let found = (0..trials).filter(|_| paired(&draw()).unwrap().p() <= level).count();
            // 800 are aimed at, standard deviation 13.
            assert!((755..=845).contains(&found), "{runs} runs at {level}: {found} of {trials}");
        }
    }
}
