//! Warm-up: how many of a run's first values are to be left out until it is steady.

use crate::sample::mean;

/// What a sequence of values at equal distances says of its beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Steady {
    /// It is steady after this many of its first values, which may be none.
    From {
        /// How many values to leave out.
        skip: usize,
        /// Mean of those that are left out; of the others when there are none.
        before: f64,
        /// Mean of the others.
        after: f64,
    },
    /// Leaving out up to half of it makes the rest only more even: it never became steady.
    Never,
    /// Fewer than `STEADY_VALUES_MIN` values say nothing.
    TooFew,
}

/// The number of values below which [`warm_up`] makes no statement.
pub(crate) const STEADY_VALUES_MIN: usize = 15;

/// Finds the warm-up of a run by the marginal standard error rule: of all beginnings, leave out the
/// one that makes the standard error of the rest's mean smallest (MSER: White, "An effective
/// truncation heuristic for bias reduction in simulation output", Simulation 69(6), 1997). Sequences of
/// 100 values and more are taken as means of five (MSER-5: White, Cobb and Spratt, "A comparison of five
/// steady-state truncation heuristics for simulation", Winter Simulation Conference 2000). When the
/// best beginning is the longest that is tried, a half, the rule has found no steady state.
#[must_use]
pub fn warm_up(values: &[f64]) -> Steady {
    if values.len() < STEADY_VALUES_MIN || values.iter().any(|value| !value.is_finite()) {
        return Steady::TooFew;
    }
    let batch = if values.len() >= 100 { 5 } else { 1 };
    let means: Vec<f64> = values.chunks_exact(batch).map(mean).collect();
    let half = means.len() / 2;
    let error = |skip: usize| {
        let rest = &means[skip..];
        let middle = mean(rest);
        let squares: f64 = rest.iter().map(|value| (value - middle).powi(2)).sum();
        squares / (rest.len() as f64).powi(2)
    };
    let mut best = (0, error(0));
    for skip in 1..=half {
        let found = error(skip);
        if found < best.1 {
            best = (skip, found);
        }
    }
    if best.0 == half {
        return Steady::Never;
    }
    let skip = best.0 * batch;
    let after = mean(&values[skip..]);
    let before = if skip == 0 { after } else { mean(&values[..skip]) };
    Steady::From { skip, before, after }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    fn skip(values: &[f64]) -> Option<usize> {
        match warm_up(values) {
            Steady::From { skip, .. } => Some(skip),
            _ => None,
        }
    }

    #[test]
    fn a_slow_beginning_is_left_out_and_no_more() {
        let values = [
            10.0, 50.0, 90.0, 100.0, 101.0, 99.0, 100.0, 100.0, 101.0, 99.0, 100.0, 100.0, 101.0,
            99.0, 100.0, 100.0,
        ];
        // Counted out by hand (Python): squared deviations about the rest's mean over the square of
        // its length are 36.3271, 10.5156, 0.5044, 0.0355, 0.0417 for the first five beginnings.
        assert_eq!(skip(&values), Some(3));
        let Steady::From { before, after, .. } = warm_up(&values) else { unreachable!() };
        assert!((before - 50.0).abs() < 1e-9 && (after - 100.0).abs() < 1e-9);
    }

    #[test]
    fn what_never_stops_climbing_is_not_steady_and_little_says_nothing() {
        let climbing: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(warm_up(&climbing), Steady::Never);
        assert_eq!(warm_up(&climbing[..14]), Steady::TooFew);
        assert_eq!(warm_up(&[f64::NAN; 20]), Steady::TooFew);
        assert_eq!(skip(&[5.0; 20]), Some(0));
    }

    #[test]
    fn long_sequences_are_taken_by_five_and_cut_at_a_multiple() {
        let mut random = Random::new(3);
        let values: Vec<f64> =
            (0..200).map(|i| random.normal() + if i < 23 { -20.0 } else { 0.0 }).collect();
        let found = skip(&values).unwrap();
        assert!(found.is_multiple_of(5) && (25..=40).contains(&found), "{found}");
    }

    #[test]
    fn noise_alone_is_seldom_called_unsteady() {
        let mut random = Random::new(7);
        for n in [15, 30, 100, 200] {
            let never = (0..1_000)
                .filter(|_| {
                    let values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
                    warm_up(&values) == Steady::Never
                })
                .count();
            assert!(never < 100, "{never} of 1000 sequences of {n}");
        }
    }
}
