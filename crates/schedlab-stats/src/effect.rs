//! Differences between two sides by Student's t: paired, with unequal spread, pooled over points.
//!
//! Callers hand in logarithms where values are ratios; the effect then is a log ratio. The p value and
//! the interval of an [`Effect`] are inversions of each other: the interval at level 1 - a excludes
//! zero exactly when p < a.

use crate::distribution::{f_cdf, normal_cdf, normal_quantile, t_cdf, t_quantile};
use crate::sample::mean;

/// An estimated difference with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The difference, second minus first, in the unit of the values (or of their logarithms).
    pub estimate: f64,
    /// The standard error of the difference in the same unit, above zero.
    pub error: f64,
    /// Degrees of freedom of the error; infinite where it is known.
    pub degrees: f64,
}

impl Effect {
    /// The two-sided p value: the chance of a difference at least as large were there none.
    #[must_use]
    pub fn p(&self) -> f64 {
        let t = -(self.estimate / self.error).abs();
        let tail = if self.degrees.is_finite() { t_cdf(t, self.degrees) } else { normal_cdf(t) };
        (2.0 * tail).min(1.0)
    }

    /// The two ends of the interval at `level`, in 0 .. 1.
    #[must_use]
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let half = self.reach(level) * self.error;
        (self.estimate - half, self.estimate + half)
    }

    /// The critical value at `level`, in standard errors.
    fn reach(&self, level: f64) -> f64 {
        let p = f64::midpoint(1.0, level);
        if self.degrees.is_finite() { t_quantile(p, self.degrees) } else { normal_quantile(p) }
    }

    /// Whether the difference lies within `low` .. `high` by two one-sided tests at 5 %: the 90 %
    /// interval is inside (Schuirmann, "A comparison of the two one-sided tests procedure and the power
    /// approach", Journal of Pharmacokinetics and Biopharmaceutics 1987).
    #[must_use]
    pub fn is_within(&self, low: f64, high: f64) -> bool {
        let (least, most) = self.interval(0.9);
        low < least && most < high
    }

    /// The effect that is expected of `times` as many runs: the error shrinks by the root.
    #[must_use]
    pub fn with_runs(&self, times: f64) -> Self {
        Self { error: self.error / times.sqrt(), degrees: self.degrees * times, ..*self }
    }
}

/// The effect of differences within pairs (Student, "The probable error of a mean", Biometrika
/// 1908). `None` below two differences, or if all are the same: then their error cannot be
/// estimated.
#[must_use]
pub fn paired(differences: &[f64]) -> Option<Effect> {
    let (estimate, variance) = moments(differences)?;
    let n = differences.len() as f64;
    known(estimate, variance / n, n - 1.0)
}

/// The effect of differences within pairs where what differed before is equal: the intercept of a regression by least
/// squares on the differences of what was known beforehand (Fisher, "Statistical Methods for Research Workers", 4th
/// edition, 1932). A column without spread counts as absent. `None` with fewer than two degrees of freedom, or without any
/// spread.
///
/// # Panics
/// When a row of `before` is shorter than the first one.
#[must_use]
pub fn adjusted(differences: &[f64], before: &[Vec<f64>]) -> Option<Effect> {
    let n = differences.len();
    let width = before.first().map_or(0, Vec::len);
    let column = |at: usize| -> Vec<f64> { before.iter().map(|row| row[at]).collect() };
    let varies = |column: &Vec<f64>| {
        let most = column.iter().fold(0.0f64, |most, v| most.max(v.abs()));
        moments(column).is_some_and(|(_, variance)| variance.sqrt() > ROUNDING * most)
    };
    let columns: Vec<Vec<f64>> = (0..width).map(column).filter(varies).collect();
    let k = columns.len() + 1;
    if n < k + 2 {
        return None;
    }
    let of = |row: usize, at: usize| if at == 0 { 1.0 } else { columns[at - 1][row] };
    let sum = |term: &dyn Fn(usize) -> f64| (0..n).map(term).sum::<f64>();
    // The normal equations, with the unit matrix beside them: both come out solved.
    let mut rows: Vec<Vec<f64>> = (0..k)
        .map(|a| {
            let mut row: Vec<f64> = (0..k).map(|b| sum(&|i| of(i, a) * of(i, b))).collect();
            row.push(sum(&|i| of(i, a) * differences[i]));
            row.extend((0..k).map(|b| if a == b { 1.0 } else { 0.0 }));
            row
        })
        .collect();
    for at in 0..k {
        let pivot = (at..k).max_by(|a, b| rows[*a][at].abs().total_cmp(&rows[*b][at].abs()))?;
        rows.swap(at, pivot);
        let lead = rows[at][at];
        if lead.abs() < f64::MIN_POSITIVE {
            return None;
        }
        rows[at].iter_mut().for_each(|v| *v /= lead);
        let solved = rows[at].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            let factor = row[at];
            row.iter_mut().zip(&solved).for_each(|(v, s)| *v -= factor * s);
        }
    }
    let left = |i: usize| differences[i] - (0..k).map(|a| rows[a][k] * of(i, a)).sum::<f64>();
    let degrees = (n - k) as f64;
    let variance = sum(&|i| left(i).powi(2)) / degrees;
    known(rows[0][k], variance * rows[0][k + 1], degrees)
}

/// The effect between two independent sides of unequal spread (Welch, "The generalization of Student's
/// problem when several different population variances are involved", Biometrika 1947). `None` below
/// two values on a side, or when neither side varies.
#[must_use]
pub fn welch(before: &[f64], after: &[f64]) -> Option<Effect> {
    let (a, va) = moments(before)?;
    let (b, vb) = moments(after)?;
    let m = before.len() as f64;
    let n = after.len() as f64;
    let parts = [(va / m, m - 1.0), (vb / n, n - 1.0)];
    known(b - a, va / m + vb / n, satterthwaite(&parts))
}

/// The weighted mean of independent effects. Weights must not come from the effects themselves: those
/// of few runs would be luck. Degrees of freedom by Satterthwaite ("An approximate distribution of
/// estimates of variance components", Biometrics Bulletin 1946). `None` without effects.
#[must_use]
pub fn pooled(effects: &[(Effect, f64)]) -> Option<Effect> {
    let all: f64 = effects.iter().map(|(_, weight)| weight).sum();
    let part =
        |(effect, weight): &(Effect, f64)| ((weight / all * effect.error).powi(2), effect.degrees);
    let parts: Vec<(f64, f64)> = effects.iter().map(part).collect();
    let estimate = effects.iter().map(|(effect, weight)| weight / all * effect.estimate).sum();
    known(estimate, parts.iter().map(|(variance, _)| variance).sum(), satterthwaite(&parts))
}

/// The p value of "all effects are the same", for effects of unequal error (Welch, "On the comparison of
/// several mean values: an alternative approach", Biometrika 1951). 1 below two effects.
#[must_use]
pub fn disagreement(effects: &[Effect]) -> f64 {
    let k = effects.len() as f64;
    if effects.len() < 2 {
        return 1.0;
    }
    let weight = |effect: &Effect| 1.0 / effect.error.powi(2);
    let all: f64 = effects.iter().map(weight).sum();
    let centre = effects.iter().map(|e| weight(e) * e.estimate).sum::<f64>() / all;
    let squares: f64 = effects.iter().map(|e| weight(e) * (e.estimate - centre).powi(2)).sum();
    let correction: f64 = effects.iter().map(|e| (1.0 - weight(e) / all).powi(2) / e.degrees).sum();
    let f = squares / (k - 1.0) / (1.0 + 2.0 * (k - 2.0) / (k * k - 1.0) * correction);
    let under = if correction > 0.0 { (k * k - 1.0) / (3.0 * correction) } else { 1e9 };
    1.0 - f_cdf(f, k - 1.0, under)
}

/// Mean and variance with n - 1; `None` below two values.
fn moments(values: &[f64]) -> Option<(f64, f64)> {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
    (values.len() > 1).then(|| (centre, squares / (values.len() - 1) as f64))
}

fn satterthwaite(parts: &[(f64, f64)]) -> f64 {
    let sum: f64 = parts.iter().map(|(variance, _)| variance).sum();
    sum * sum / parts.iter().map(|(variance, degrees)| variance * variance / degrees).sum::<f64>()
}

/// Spread below this part of the values is rounding, not noise.
const ROUNDING: f64 = 1e-12;

fn known(estimate: f64, variance: f64, degrees: f64) -> Option<Effect> {
    let error = variance.sqrt();
    let spread = error > ROUNDING * estimate.abs().max(1e-3);
    (spread && error.is_finite() && degrees > 0.0).then_some(Effect { estimate, error, degrees })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(values: &[f64]) -> Vec<f64> {
        values.iter().map(|v| v.ln()).collect()
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
    }

    const A: [f64; 5] = [1.02, 0.98, 1.10, 1.05, 0.97];
    const B: [f64; 6] = [1.21, 1.18, 1.30, 1.15, 1.22, 1.40];

    #[test]
    fn welchs_test_agrees_with_scipy() {
        // scipy 1.17.1: ttest_ind(log b, log a, equal_var=False) and its confidence_interval
        let effect = welch(&logs(&A), &logs(&B)).unwrap();
        close(effect.p(), 0.000_624_760_290_380_858_4);
        close(effect.degrees, 8.853_128_660_341_52);
        let (low, high) = effect.interval(0.95);
        close(low, 0.108_190_203_208_802_49);
        close(high, 0.277_708_074_302_530_97);
    }

    #[test]
    fn the_paired_test_agrees_with_scipy() {
        // scipy 1.17.1: ttest_1samp(log b[:5] - log a, 0) and its confidence_interval
        let differences: Vec<f64> = logs(&A).iter().zip(logs(&B)).map(|(a, b)| b - a).collect();
        let effect = paired(&differences).unwrap();
        close(effect.p(), 0.001_654_496_059_297_649_4);
        let (low, high) = effect.interval(0.95);
        close(low, 0.106_653_703_656_527_26);
        close(high, 0.230_894_619_246_005);
        close(effect.estimate, 0.168_774_161_412_658_4);
    }

    #[test]
    fn the_adjusted_difference_agrees_with_least_squares_by_hand() {
        // Columns of zero mean that are orthogonal: the intercept is the mean, and each slope takes its squares out.
        let load = [-1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0];
        let other = [1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0];
        let noise = [0.1, 0.2, -0.1, -0.2, 0.2, 0.1, -0.2, -0.1];
        let of = |i: usize| 0.5 + 3.0 * load[i] + noise[i];
        let differences: Vec<f64> = (0..8).map(of).collect();
        let rows: Vec<Vec<f64>> = (0..8).map(|i| vec![load[i], 7.0, other[i]]).collect();
        let effect = adjusted(&differences, &rows).unwrap();
        close(effect.estimate, 0.5);
        // The slope of the noise on the load is -0.15, on the other 0; a column without spread is left out.
        let left: f64 = (0..8).map(|i| (noise[i] + 0.15 * load[i]).powi(2)).sum();
        close(effect.degrees, 5.0);
        close(effect.error, (left / 5.0 / 8.0).sqrt());
        assert!(paired(&differences).unwrap().error > 10.0 * effect.error);
        // Without columns it is the paired test, and with too few pairs nothing.
        let alone = adjusted(&differences, &vec![Vec::new(); 8]).unwrap();
        close(alone.error, paired(&differences).unwrap().error);
        assert_eq!(adjusted(&differences[..4], &rows[..4]), None);
    }

    #[test]
    fn p_and_interval_are_inversions() {
        let effect = welch(&logs(&A), &logs(&B)).unwrap();
        let (low, _) = effect.interval(1.0 - effect.p());
        close(low, 0.0);
    }

    #[test]
    fn copies_have_no_error() {
        assert_eq!(welch(&[1.0; 5], &[2.0; 5]), None);
        assert_eq!(paired(&[0.3; 8]), None);
        assert_eq!(paired(&[0.3]), None);
    }

    #[test]
    fn one_effect_pools_to_itself_and_alike_effects_agree() {
        let effect = Effect { estimate: 0.2, error: 0.1, degrees: 7.0 };
        let found = pooled(&[(effect, 3.0)]).unwrap();
        close(found.error, 0.1);
        close(found.degrees, 7.0);
        close(disagreement(&[effect, effect, effect]), 1.0);
        let other = Effect { estimate: -0.9, ..effect };
        assert!(disagreement(&[effect, other, effect]) < 0.01);
        // Of two effects this is Welch's own test of their difference.
        let gap = Effect {
            estimate: 1.1,
            error: 0.02_f64.sqrt(),
            degrees: 0.02 * 0.02 / (2.0 * 0.01 * 0.01 / 7.0),
        };
        close(disagreement(&[effect, other]), gap.p());
    }
}
