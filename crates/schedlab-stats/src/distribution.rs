//! The distributions that the tests need: normal, Student's t, binomial.
//!
//! Formulas by number from the NIST Digital Library of Mathematical Functions (DLMF). Continued
//! fractions are evaluated by the modified method of Lentz (Thompson and Barnett 1986).

/// Relative error at which series and fractions stop.
const ENOUGH: f64 = 1e-15;
/// Keeps denominators of a fraction off zero.
const TINY: f64 = 1e-300;

/// ln Γ(x) for x > 0 (Lanczos, SIAM J. Numer. Anal. 1964, with g = 7 and Godfrey's coefficients).
fn ln_gamma(x: f64) -> f64 {
    const C: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        // Reflection, DLMF 5.5.3.
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let sum = C.iter().enumerate().skip(1).fold(C[0], |sum, (i, c)| sum + c / (x + i as f64));
    let t = x + 7.5;
    0.5 * std::f64::consts::TAU.ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// A continued fraction 1 / (1 + a1 / (1 + a2 / ..)) by its coefficients.
fn fraction(mut coefficient: impl FnMut(usize) -> f64) -> f64 {
    let mut value = 1.0_f64;
    let mut c = 1.0_f64;
    let mut d = 0.0_f64;
    for i in 1..10_000 {
        let a = coefficient(i);
        d = 1.0 + a * d;
        d = 1.0 / if d.abs() < TINY { TINY } else { d };
        c = 1.0 + a / c;
        c = if c.abs() < TINY { TINY } else { c };
        value *= c * d;
        if (c * d - 1.0).abs() < ENOUGH {
            break;
        }
    }
    1.0 / value
}

/// The regularised incomplete beta function I_x(a, b), DLMF 8.17.22.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front =
        (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp();
    let value = fraction(|i| {
        let m = (i / 2) as f64;
        if i % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        }
    });
    front / a * value
}

/// P(Z <= z) of a standard normal number.
#[must_use]
pub fn normal_cdf(z: f64) -> f64 {
    if z < -8.0 {
        // The upper tail's fraction, DLMF 7.9.1, keeps relative precision far out.
        return normal_upper(-z);
    }
    if z > 2.0 {
        1.0 - normal_upper(z)
    } else if z < -2.0 {
        normal_upper(-z)
    } else {
        // Series of the density's integral: sum of z^(2k+1) / (1·3·5···(2k+1)), DLMF 7.6.2.
        let mut term = z;
        let mut sum = z;
        let mut k = 1.0;
        while term.abs() > ENOUGH * sum.abs() {
            k += 2.0;
            term *= z * z / k;
            sum += term;
        }
        0.5 + density(z) * sum
    }
}

fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()
}

/// P(Z > z) for z >= 2.
fn normal_upper(z: f64) -> f64 {
    density(z) / z * fraction(|i| i as f64 / (z * z))
}

/// The z with P(Z <= z) = p, for 0 < p < 1; infinite at the ends. Bisection and Newton steps on
/// [`normal_cdf`]: slow, exact, without a table.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    invert(p, normal_cdf)
}

/// P(T <= t) of Student's t with `degrees` > 0 of freedom.
#[must_use]
pub fn t_cdf(t: f64, degrees: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(degrees / (degrees + t * t), 0.5 * degrees, 0.5);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The quantile of Student's t distribution: the t with P(T <= t) = p.
#[must_use]
pub fn t_quantile(p: f64, degrees: f64) -> f64 {
    invert(p, |t| t_cdf(t, degrees))
}

/// P(F <= f) of Fisher's F with `over` and `under` > 0 degrees of freedom (DLMF 8.17 by substitution).
#[must_use]
pub(crate) fn f_cdf(f: f64, over: f64, under: f64) -> f64 {
    if f <= 0.0 {
        0.0
    } else {
        incomplete_beta(over * f / (over * f + under), over / 2.0, under / 2.0)
    }
}

/// The chance that a two-sided t test at `level` finds a shift of `shift` standard errors, with
/// `degrees` > 0 of freedom: the tails of the noncentral t beyond the critical value (Johnson, Kotz and
/// Balakrishnan, "Continuous Univariate Distributions" 2, 1995, chapter 31). The normal given the
/// estimated deviation is integrated over that deviation's density by Simpson's rule.
#[must_use]
pub(crate) fn t_power(shift: f64, degrees: f64, level: f64) -> f64 {
    t_beyond(shift, degrees, t_reach(level, degrees))
}

/// The critical value of a two-sided t test; of the normal test where the error is known as good as exactly.
pub(crate) fn t_reach(level: f64, degrees: f64) -> f64 {
    let p = 1.0 - level / 2.0;
    if is_known(degrees) { normal_quantile(p) } else { t_quantile(p, degrees) }
}

fn is_known(degrees: f64) -> bool {
    !degrees.is_finite() || degrees > 1e5
}

/// The chance that a noncentral t lies beyond a critical value, on either side.
pub(crate) fn t_beyond(shift: f64, degrees: f64, critical: f64) -> f64 {
    let beyond = |cut: f64| normal_cdf(shift - cut) + normal_cdf(-shift - cut);
    if is_known(degrees) {
        return beyond(critical);
    }
    // s is the estimated deviation over the true one: degrees s^2 is chi-squared.
    let half = degrees / 2.0;
    let log_scale = std::f64::consts::LN_2 + half * half.ln() - ln_gamma(half);
    let density = |s: f64| (log_scale + (degrees - 1.0) * s.max(TINY).ln() - half * s * s).exp();
    // With few degrees the density has a corner at zero.
    let steps = if degrees < 3.0 { 400 } else { 128 };
    let width = 12.0 / (2.0 * degrees).sqrt();
    let from = (1.0 - width).max(0.0);
    let to = 1.0 + width;
    let step = (to - from) / f64::from(steps);
    let sum: f64 = (0..=steps)
        .map(|i| {
            let s = from + f64::from(i) * step;
            let weight = if i == 0 || i == steps { 1.0 } else { 2.0 + 2.0 * f64::from(i % 2) };
            weight * density(s) * beyond(critical * s)
        })
        .sum();
    (sum * step / 3.0).clamp(0.0, 1.0)
}

/// Inverts a distribution function that is symmetric about zero.
fn invert(p: f64, cdf: impl Fn(f64) -> f64) -> f64 {
    if p <= 0.0 || p >= 1.0 {
        return if p <= 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    if p > 0.5 {
        return -invert(1.0 - p, cdf);
    }
    let mut low = -1.0;
    while cdf(low) > p {
        low *= 2.0;
    }
    let mut high = 0.0;
    // Until the two ends are neighbours, as numbers go.
    while high - low > 4.0 * f64::EPSILON * low.abs() {
        let middle = f64::midpoint(low, high);
        if cdf(middle) < p { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// P(X <= k) of a binomial count of `n` trials with chance `p`.
#[must_use]
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n { 1.0 } else { incomplete_beta(1.0 - p, (n - k) as f64, (k + 1) as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        let error = (found - expected).abs() / expected.abs().max(1e-300);
        assert!(error < 1e-10, "{found} instead of {expected}, off by {error}");
    }

    #[test]
    fn values_agree_with_scipy() {
        // scipy 1.17.1: scipy.stats.norm.cdf, norm.ppf, t.cdf, t.ppf, binom.cdf
        close(normal_cdf(1.0), 0.841_344_746_068_542_9);
        close(normal_cdf(-3.0), 0.001_349_898_031_630_095_7);
        close(normal_cdf(-10.0), 7.619_853_024_160_47e-24);
        close(normal_quantile(0.975), 1.959_963_984_540_054);
        close(t_cdf(2.0, 4.0), 0.941_941_738_241_592_2);
        close(t_quantile(0.975, 4.0), 2.776_445_105_197_793_2);
        close(t_quantile(0.95, 1.5), 3.705_180_820_096_75);
        close(f_cdf(3.0, 4.0, 10.0), 0.927_676_777_711_859_7);
        close(f_cdf(0.5, 20.0, 3.7), 0.137_027_041_520_776_63);
        close(binomial_cdf(3, 10, 0.5), 0.171_875);
        close(binomial_cdf(120, 2000, 0.05), 0.980_077_162_702_007_2);
    }

    #[test]
    fn the_power_of_the_t_test_agrees_with_scipy() {
        // scipy 1.17.1: c = t.ppf(1 - level / 2, df); nct.sf(c, df, nc) + nct.cdf(-c, df, nc)
        for (shift, degrees, level, expected) in [
            (2.8, 8.0, 0.05, 0.689_834_727_080_639_2),
            (3.7, 4.0, 0.05, 0.787_825_543_957_596_5),
            (10.0, 2.0, 0.01, 0.633_973_789_901_381_1),
            (0.0, 5.0, 0.05, 0.05),
            (1.5, 1.0, 0.05, 0.097_363_117_520_263_19),
            (4.0, 38.5, 0.0012, 0.687_387_995_995_943),
        ] {
            let found = t_power(shift, degrees, level);
            assert!((found - expected).abs() < 1e-6, "{found} instead of {expected}");
        }
    }
}
