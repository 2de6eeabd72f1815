//! Intervals: where a figure may well lie, given this many runs.

use crate::distribution::{binomial_cdf, normal_cdf, normal_quantile, t_quantile};
use crate::sample::median_of_sorted;
use crate::{Random, Sample, SampleError};

/// How an interval was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Between two of the sorted values; assumes nothing about their distribution.
    OrderStatistics,
    /// Student's t; takes the values for normal.
    StudentT,
    /// Bias-corrected and accelerated bootstrap.
    Bootstrap,
    /// All values whose likelihood is near the largest one.
    Likelihood,
}

/// An estimate and where the truth may well lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end of the interval, in the unit of the sample.
    pub low: f64,
    /// The estimate, between the two ends, in the unit of the sample.
    pub estimate: f64,
    /// The upper end of the interval, in the unit of the sample.
    pub high: f64,
    /// Confidence that was reached: at least what was asked for.
    pub level: f64,
    /// The method that made the interval.
    pub(crate) method: Method,
}

impl Interval {
    /// Half its width relative to the estimate; infinite where the estimate is zero.
    #[must_use]
    pub fn relative(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.estimate.abs()
    }

    /// The interval of a metric that cannot be negative: a time, a rate, a count. Student's t does
    /// not know that and may reach below zero. Values below zero cannot be the truth, so cutting
    /// them off keeps the level. The interval of a negative estimate stays as it is: there the
    /// caller is wrong.
    #[must_use]
    pub fn not_negative(self) -> Self {
        if self.estimate < 0.0 { self } else { Self { low: self.low.max(0.0), ..self } }
    }
}

/// Resamples of a bootstrap: enough for two digits of the ends.
const RESAMPLES: usize = 2_000;
/// From this many runs on the bootstrap is trusted.
const MANY: usize = 20;

/// The interval that suits the number of runs: Student's t about the mean for 3 to 5 (order
/// statistics reach 95 % only from 6 on), order statistics about the median for 6 to 19, bootstrap of
/// the median from 20 on. `level` in 0.5 .. 1; `seed` is of the bootstrap.
///
/// # Errors
/// [`SampleError::TooFew`] below 3 runs: two values bound nothing. [`SampleError::NoSpread`] where all
/// values are the same: copies bound nothing either, and an interval of width zero would claim all.
pub fn interval(sample: &Sample, level: f64, seed: u64) -> Result<Interval, SampleError> {
    match sample.len() {
        0..3 => Err(SampleError::TooFew { have: sample.len(), need: 3 }),
        3..MANY => median_interval(sample, level).or_else(|_| t_interval(sample, level)),
        _ => bootstrap(sample, level, seed, median_of_sorted),
    }
}

/// The interval of a median by order statistics.
///
/// # Errors
/// As `quantile_interval`.
pub fn median_interval(sample: &Sample, level: f64) -> Result<Interval, SampleError> {
    let interval = quantile_interval(sample, 0.5, level)?;
    Ok(Interval { estimate: sample.median(), ..interval })
}

/// The interval of a quantile between two order statistics, free of assumptions (Thompson, "On
/// confidence ranges for the median", Annals of Mathematical Statistics 1936; Hahn and Meeker,
/// "Statistical Intervals", 1991, section 5.2). Of all pairs of ranks that reach the level with at most
/// half of the risk on each side, the narrowest.
///
/// # Errors
/// When even the whole range of the sample does not reach the level on each side, and
/// [`SampleError::NoSpread`] where all values are the same.
pub(crate) fn quantile_interval(
    sample: &Sample,
    q: f64,
    level: f64,
) -> Result<Interval, SampleError> {
    let n = sample.len() as u64;
    let risk = (1.0 - level) / 2.0;
    // Rank l (from 1) is below the quantile unless fewer than l values are: P(X <= l - 1) is the risk.
    let low = (1..=n).take_while(|l| binomial_cdf(l - 1, n, q) <= risk).last();
    let high = (1..=n).rev().take_while(|u| 1.0 - binomial_cdf(u - 1, n, q) <= risk).last();
    let (Some(low), Some(high)) = (low, high) else {
        let tail = q.min(1.0 - q);
        let need = (risk.ln() / (1.0 - tail).ln()).ceil() as usize;
        return Err(SampleError::TooFew { have: sample.len(), need: need.max(sample.len() + 1) });
    };
    let values = spread(sample)?;
    Ok(Interval {
        low: values[low as usize - 1],
        estimate: sample.quantile(q),
        high: values[high as usize - 1],
        level: binomial_cdf(high - 1, n, q) - binomial_cdf(low - 1, n, q),
        method: Method::OrderStatistics,
    })
}

/// The interval of a mean by Student's t ("The probable error of a mean", Biometrika 1908).
///
/// # Errors
/// Below two values, and [`SampleError::NoSpread`] where all values are the same.
pub fn t_interval(sample: &Sample, level: f64) -> Result<Interval, SampleError> {
    let n = sample.len();
    let deviation = sample.deviation().ok_or(SampleError::TooFew { have: n, need: 2 })?;
    spread(sample)?;
    let t = t_quantile(0.5 + level / 2.0, (n - 1) as f64);
    let half = t * deviation / (n as f64).sqrt();
    let mean = sample.mean();
    let method = Method::StudentT;
    Ok(Interval { low: mean - half, estimate: mean, high: mean + half, level, method })
}

/// The interval of any figure of a sample by the bias-corrected and accelerated bootstrap (Efron,
/// "Better bootstrap confidence intervals", JASA 1987) with 2,000 resamples. `figure` gets sorted
/// values. The same seed gives the same interval.
///
/// # Errors
/// Below three values, and [`SampleError::NoSpread`] where all values are the same.
pub(crate) fn bootstrap(
    sample: &Sample,
    level: f64,
    seed: u64,
    figure: impl Fn(&[f64]) -> f64,
) -> Result<Interval, SampleError> {
    let values = sample.values();
    let n = values.len();
    if n < 3 {
        return Err(SampleError::TooFew { have: n, need: 3 });
    }
    spread(sample)?;
    let estimate = figure(values);
    let mut random = Random::new(seed);
    let mut resample = vec![0.0; n];
    let mut figures: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            resample.fill_with(|| values[random.below(n)]);
            resample.sort_by(f64::total_cmp);
            figure(&resample)
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    // Ties with the estimate count half, else a discrete figure looks biased.
    let below = figures.partition_point(|f| *f < estimate) as f64;
    let equal = figures.partition_point(|f| *f <= estimate) as f64 - below;
    let share = ((below + equal / 2.0) / RESAMPLES as f64).clamp(1e-6, 1.0 - 1e-6);
    let bias = normal_quantile(share);
    let acceleration = acceleration(values, &figure);
    let end = |z: f64| {
        let z = bias + (bias + z) / (1.0 - acceleration * (bias + z));
        let at = normal_cdf(z) * (RESAMPLES - 1) as f64;
        figures[at.round() as usize]
    };
    let z = normal_quantile(0.5 + level / 2.0);
    let method = Method::Bootstrap;
    Ok(Interval { low: end(-z), estimate, high: end(z), level, method })
}

/// The values in ascending order, if they differ.
fn spread(sample: &Sample) -> Result<&[f64], SampleError> {
    let values = sample.values();
    if values.first() == values.last() { Err(SampleError::NoSpread) } else { Ok(values) }
}

/// From the jackknife: how the figure's spread changes with its value (Efron 1987, equation 6.6).
fn acceleration(values: &[f64], figure: &impl Fn(&[f64]) -> f64) -> f64 {
    let without: Vec<f64> = (0..values.len())
        .map(|left_out| {
            let mut rest = values.to_vec();
            rest.remove(left_out);
            figure(&rest)
        })
        .collect();
    let mean = crate::sample::mean(&without);
    let cubes: f64 = without.iter().map(|f| (mean - f).powi(3)).sum();
    let squares: f64 = without.iter().map(|f| (mean - f).powi(2)).sum();
    if squares == 0.0 { 0.0 } else { cubes / (6.0 * squares.powf(1.5)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.iter().copied()).unwrap()
    }

    #[test]
    fn six_values_give_the_whole_range_and_five_give_none() {
        let six = median_interval(&sample(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 0.95).unwrap();
        assert_eq!((six.low, six.high), (1.0, 6.0));
        assert!((six.level - 0.968_75).abs() < 1e-12, "{}", six.level);
        let five = median_interval(&sample(&[1.0, 2.0, 3.0, 4.0, 5.0]), 0.95);
        assert_eq!(five, Err(SampleError::TooFew { have: 5, need: 6 }));
    }

    #[test]
    fn ranks_agree_with_the_published_table() {
        // Ranks of the 95 % interval of a median for n = 10, 20, 30, 50: 2-9, 6-15, 10-21, 18-33
        // (Conover, "Practical Nonparametric Statistics", table of the sign test).
        for (n, low, high) in [(10, 2.0, 9.0), (20, 6.0, 15.0), (30, 10.0, 21.0), (50, 18.0, 33.0)]
        {
            let values: Vec<f64> = (1..=n).map(f64::from).collect();
            let found = median_interval(&sample(&values), 0.95).unwrap();
            assert_eq!((found.low, found.high), (low, high), "n = {n}");
        }
    }

    #[test]
    fn a_figure_that_can_not_be_negative_has_no_interval_below_zero() {
        // By hand: 2.5 - 3.182446 sqrt(19 / 4), the quantile of Student's t with 3 degrees from any table.
        let found = interval(&sample(&[0.0, 0.0, 1.0, 9.0]), 0.95, 1).unwrap();
        assert!((found.low + 4.435_982).abs() < 1e-5, "{}", found.low);
        let cut = found.not_negative();
        assert_eq!((cut.low, cut.estimate, cut.high), (0.0, 2.5, found.high));
        let positive = interval(&sample(&[5.0, 5.1, 5.2]), 0.95, 1).unwrap();
        assert_eq!(positive.not_negative(), positive);
    }

    #[test]
    fn few_runs_get_students_t_and_two_get_none() {
        let found = interval(&sample(&[1.0, 2.0, 3.0, 4.0, 5.0]), 0.95, 1).unwrap();
        assert_eq!(found.method, Method::StudentT);
        // R: t.test(1:5)$conf.int is 1.036757 4.963243
        assert!((found.low - 1.036_756_838_522_439).abs() < 1e-9, "{}", found.low);
        let two = interval(&sample(&[1.0, 2.0]), 0.95, 1);
        assert_eq!(two, Err(SampleError::TooFew { have: 2, need: 3 }));
    }

    #[test]
    fn copies_have_no_interval() {
        for count in [3, 7, 40] {
            let copies = sample(&vec![2.5; count]);
            let none = Err(SampleError::NoSpread);
            assert_eq!(interval(&copies, 0.95, 1), none, "{count}");
            assert_eq!(t_interval(&copies, 0.95), none, "{count}");
            assert_eq!(bootstrap(&copies, 0.95, 1, |values| values[0]), none, "{count}");
        }
        assert_eq!(median_interval(&sample(&[2.5; 7]), 0.95), Err(SampleError::NoSpread));
        let ties = interval(&sample(&[2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 9.0]), 0.95, 1).unwrap();
        assert!(ties.high > ties.low, "one that differs is a spread");
    }

    #[test]
    fn the_bootstrap_covers_a_skewed_mean_about_as_often_as_it_says() {
        // 300 samples of 30 exponential numbers, whose mean is 1.
        let mut random = Random::new(7);
        let hits = (0..300)
            .filter(|seed| {
                let values: Vec<f64> = (0..30).map(|_| -(1.0 - random.unit()).ln()).collect();
                let found = bootstrap(&sample(&values), 0.9, *seed, crate::sample::mean).unwrap();
                found.low <= 1.0 && 1.0 <= found.high
            })
            .count();
        // 270 expected, standard deviation 5.2; BCa at n = 30 falls short by a percent or two.
        assert!((248..=288).contains(&hits), "{hits}");
    }

    #[test]
    fn the_bootstrap_agrees_with_scipy() {
        // scipy.stats.bootstrap((x,), np.mean, method='BCa', n_resamples=200000): scipy
        // 1.17.1 gives 3.875 and 6.267. Resampling leaves a spread of about 0.02.
        let x = [3.1, 4.7, 2.2, 9.8, 5.5, 3.9, 4.1, 7.3, 2.8, 6.0, 3.3, 5.2];
        let found = bootstrap(&sample(&x), 0.95, 3, crate::sample::mean).unwrap();
        assert!(
            (found.low - BCA_LOW).abs() < 0.1 && (found.high - BCA_HIGH).abs() < 0.15,
            "{found:?}"
        );
    }

    const BCA_LOW: f64 = 3.875;
    const BCA_HIGH: f64 = 6.267;
}
