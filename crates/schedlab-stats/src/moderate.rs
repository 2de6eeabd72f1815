//! Variances of few values each, moderated by what all of them have in common.

/// A variance with its degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variance {
    /// The variance of one group's values, in their unit squared.
    pub value: f64,
    /// Degrees of freedom of the variance; infinite where the variance is known.
    pub degrees: f64,
}

/// Takes each variance towards their common centre, by as much as they are alike: empirical Bayes with an
/// inverse chi-squared prior fitted to all of them (Smyth, "Linear models and empirical Bayes methods for
/// assessing differential expression", Statistical Applications in Genetics and Molecular Biology 2004,
/// section 6.2). Alike variances are pooled; unlike ones stay as they are. Below three they stay, too.
#[must_use]
pub fn moderated(variances: &[Variance]) -> Vec<Variance> {
    let fitted: Vec<&Variance> =
        variances.iter().filter(|v| v.value > 0.0 && v.degrees > 0.0).collect();
    if fitted.len() < 3 {
        return variances.to_vec();
    }
    let n = fitted.len() as f64;
    let centred = |v: &&Variance| {
        let half = v.degrees / 2.0;
        v.value.ln() - digamma(half) + half.ln()
    };
    let logs: Vec<f64> = fitted.iter().map(centred).collect();
    let mean = logs.iter().sum::<f64>() / n;
    let spread = logs.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let expected = fitted.iter().map(|v| trigamma(v.degrees / 2.0)).sum::<f64>() / n;
    let (prior, degrees) = if spread > expected {
        let half = inverse_trigamma(spread - expected);
        ((mean + digamma(half) - half.ln()).exp(), 2.0 * half)
    } else {
        // No more unlike than luck makes them.
        let all: f64 = fitted.iter().map(|v| v.degrees).sum();
        (fitted.iter().map(|v| v.degrees * v.value).sum::<f64>() / all, f64::INFINITY)
    };
    // All variances together know no more than they have degrees.
    let most: f64 = variances.iter().map(|v| v.degrees).sum();
    let one = |v: &Variance| {
        let total = (degrees + v.degrees).min(most);
        let value = if degrees.is_finite() {
            (degrees * prior + v.degrees * v.value) / (degrees + v.degrees)
        } else {
            prior
        };
        Variance { value, degrees: total }
    };
    variances.iter().map(one).collect()
}

/// The derivative of ln Γ for x > 0: recurrence (DLMF 5.5.2) and asymptotic series (DLMF 5.11.2).
fn digamma(x: f64) -> f64 {
    if x < 6.0 {
        return digamma(x + 1.0) - 1.0 / x;
    }
    let y = 1.0 / (x * x);
    x.ln() - 0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y / 240.0)))
}

/// The second derivative of ln Γ for x > 0 (DLMF 5.15.5 and 5.15.8).
fn trigamma(x: f64) -> f64 {
    if x < 6.0 {
        return trigamma(x + 1.0) + 1.0 / (x * x);
    }
    let y = 1.0 / (x * x);
    1.0 / x + y / 2.0 + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)))
}

/// The x with trigamma(x) = y; it falls from infinity to zero.
fn inverse_trigamma(y: f64) -> f64 {
    let mut low = 1e-3;
    let mut high = 1e7;
    for _ in 0..80 {
        let middle = f64::midpoint(f64::ln(low), f64::ln(high)).exp();
        if trigamma(middle) > y { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn the_functions_agree_with_scipy() {
        // scipy 1.17.1: scipy.special.digamma and polygamma(1, x)
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(digamma(1.0), -0.577_215_664_901_532_9);
        close(digamma(0.5), -1.963_510_026_021_423_5);
        close(trigamma(1.0), 1.644_934_066_848_226_4);
        close(trigamma(2.5), 0.490_357_756_100_234_5);
        close(inverse_trigamma(trigamma(3.7)), 3.7);
    }

    fn drawn(random: &mut Random, deviation: f64) -> Variance {
        let values: Vec<f64> = (0..5).map(|_| deviation * random.normal()).collect();
        let mean = crate::sample::mean(&values);
        let value = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 4.0;
        Variance { value, degrees: 4.0 }
    }

    #[test]
    fn alike_variances_are_pooled_and_unlike_ones_stay() {
        let mut random = Random::new(4);
        let alike: Vec<Variance> = (0..30).map(|_| drawn(&mut random, 1.0)).collect();
        let found = moderated(&alike);
        assert!(found.iter().all(|v| v.degrees > 20.0), "{found:?}");
        assert!(found.iter().all(|v| (0.5..1.8).contains(&v.value)), "{found:?}");
        let unlike: Vec<Variance> =
            (0..30).map(|i| drawn(&mut random, [1.0, 10.0, 100.0][i % 3])).collect();
        let found = moderated(&unlike);
        assert!(found.iter().all(|v| v.degrees < 6.0), "{found:?}");
    }
}
