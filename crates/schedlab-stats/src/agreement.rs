//! Whether two lists of values rank alike.

use crate::distribution::normal_quantile;

/// Spearman's rank correlation of pairs of values, with the lower end of a one-sided interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// From -1 (the opposite order) to 1 (the same order).
    pub correlation: f64,
    /// The true correlation is above this with the asked level.
    pub at_least: f64,
    /// The number of compared pairs.
    pub(crate) pairs: usize,
}

/// How alike two lists rank; `None` below 5 pairs, and where all values of a list are the same. The bound
/// is by Fisher's transformation with the variance of Bonett and Wright ("Sample size requirements for
/// estimating Pearson, Kendall and Spearman correlations", Psychometrika 2000).
#[must_use]
pub fn agreement(pairs: &[(f64, f64)], level: f64) -> Option<Agreement> {
    let ranks = |side: fn(&(f64, f64)) -> f64| ranks(&pairs.iter().map(side).collect::<Vec<f64>>());
    let a = ranks(|pair| pair.0);
    let b = ranks(|pair| pair.1);
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let spread = (product(&a, &a) * product(&b, &b)).sqrt();
    let count = pairs.len();
    if count < 5 || spread <= 0.0 {
        return None;
    }
    let correlation = (product(&a, &b) / spread).clamp(-1.0, 1.0);
    let error = ((1.0 + correlation * correlation / 2.0) / (count as f64 - 3.0)).sqrt();
    // The same order of few pairs does not show a correlation of 1.
    let most = 1.0 - 1.0 / (count * count) as f64;
    let seen = correlation.clamp(-most, most);
    let at_least = (seen.atanh() - normal_quantile(level) * error).tanh();
    Some(Agreement { correlation, at_least, pairs: count })
}

/// Ranks about their mean; the same values share one.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count() as f64;
        let same = values.iter().filter(|other| *other == value).count() as f64;
        below + (same - 1.0) / 2.0 - (values.len() as f64 - 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn the_correlation_is_that_of_scipy() {
        // scipy.stats.spearmanr of SciPy 1.17.1
        let a = [2.0, 7.0, 1.0, 8.0, 2.0, 8.0, 4.0, 5.0];
        let b = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        let pairs: Vec<(f64, f64)> = a.into_iter().zip(b).collect();
        let found = agreement(&pairs, 0.95).unwrap();
        assert!((found.correlation - (-0.11515363002180838)).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn few_pairs_and_values_that_are_the_same_say_nothing() {
        let pairs = |n: usize| (0..n).map(|i| (i as f64, i as f64)).collect::<Vec<_>>();
        assert_eq!(agreement(&pairs(4), 0.95), None);
        assert_eq!(agreement(&[(1.0, 2.0); 9], 0.95), None);
        let found = agreement(&pairs(12), 0.95).unwrap();
        assert!(found.correlation > 0.999_999 && found.at_least < 0.99, "{found:?}");
    }

    #[test]
    fn the_bound_is_below_the_true_correlation_as_often_as_stated() {
        // Normal values with Pearson's correlation r have Spearman's 6/pi asin(r/2).
        let r = 0.8_f64;
        let trials = 2_000;
        let truth = 6.0 / std::f64::consts::PI * (r / 2.0).asin();
        let mut random = Random::new(5);
        let mut below = 0;
        for _ in 0..trials {
            let mut pair = || {
                let x = random.normal();
                let y = random.normal();
                (x, r * x + (1.0 - r * r).sqrt() * y)
            };
            let pairs: Vec<(f64, f64)> = (0..12).map(|_| pair()).collect();
            below += usize::from(agreement(&pairs, 0.95).unwrap().at_least <= truth);
        }
        assert!((1_880..=1_990).contains(&below), "{below} of {trials}");
    }
}
