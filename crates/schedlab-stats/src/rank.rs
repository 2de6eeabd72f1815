//! Tests and shifts by ranks: two sets of runs, compared without taking them for normal.

use crate::distribution::{normal_cdf, normal_quantile, t_cdf};
use crate::sample::median_of_sorted;
use crate::{Sample, SampleError};

/// A shift between two sets with where the truth may well lie.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Shift {
    /// The lower end of the interval, in the unit of the values.
    pub low: f64,
    /// The median of all differences (Hodges and Lehmann), in the unit of the values.
    pub estimate: f64,
    /// The upper end of the interval, in the unit of the values.
    pub high: f64,
}

/// Up to this many runs in both sets the distribution is counted out.
const EXACT_MAX: usize = 40;

/// Ranks of all values, in the order of `values`; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let tied =
            order[start..].iter().take_while(|i| values[**i] == values[order[start]]).count();
        let rank = (2 * start + tied + 1) as f64 / 2.0;
        for index in &order[start..start + tied] {
            ranks[*index] = rank;
        }
        start += tied;
    }
    ranks
}

/// How many subsets of `chosen` of the ranks 1 to `all` have each sum.
fn subset_sums(all: usize, chosen: usize) -> Vec<f64> {
    let width = all * (all + 1) / 2 + 1;
    let mut counts = vec![vec![0.0; width]; chosen + 1];
    counts[0][0] = 1.0;
    for rank in 1..=all {
        for size in (1..=chosen.min(rank)).rev() {
            let (fewer, this) = counts.split_at_mut(size);
            for (sum, count) in fewer[size - 1][..width - rank].iter().enumerate() {
                this[0][sum + rank] += count;
            }
        }
    }
    counts.swap_remove(chosen)
}

/// In how many ways signs of the ranks 1 to `all` give each sum of positive ranks.
fn sign_sums(all: usize) -> Vec<f64> {
    let width = all * (all + 1) / 2 + 1;
    let mut counts = vec![0.0; width];
    counts[0] = 1.0;
    for rank in 1..=all {
        for sum in (rank..width).rev() {
            counts[sum] += counts[sum - rank];
        }
    }
    counts
}

/// The p value of the test of Brunner and Munzel ("The nonparametric Behrens-Fisher problem", Biometrical
/// Journal 2000): as Mann and Whitney's, but right also where the two sets spread differently. Needs about
/// 10 runs each for its level to hold.
///
/// # Errors
/// Below two values in a set, or where all ranks within each set are the same (p is then 0 or 1 by
/// eye).
pub fn brunner_munzel(a: &Sample, b: &Sample) -> Result<f64, SampleError> {
    let fewest = a.len().min(b.len());
    if fewest < 2 {
        return Err(SampleError::TooFew { have: fewest, need: 2 });
    }
    let all: Vec<f64> = a.values().iter().chain(b.values()).copied().collect();
    let among_all = ranks(&all);
    let m = a.len() as f64;
    let n = b.len() as f64;
    let side = |all: &[f64], own: &[f64]| -> (f64, f64) {
        let count = own.len() as f64;
        let mean = crate::sample::mean(all);
        let spread: f64 = all
            .iter()
            .zip(own)
            .map(|(all, own)| (all - own - mean + (count + 1.0) / 2.0).powi(2))
            .sum();
        (mean, spread / (count - 1.0))
    };
    let (mean_a, spread_a) = side(&among_all[..a.len()], &ranks(a.values()));
    let (mean_b, spread_b) = side(&among_all[a.len()..], &ranks(b.values()));
    let part_a = m * spread_a;
    let part_b = n * spread_b;
    if part_a + part_b == 0.0 {
        return Err(SampleError::NoSpread);
    }
    let w = m * n * (mean_b - mean_a) / ((m + n) * (part_a + part_b).sqrt());
    let degrees =
        (part_a + part_b).powi(2) / (part_a.powi(2) / (m - 1.0) + part_b.powi(2) / (n - 1.0));
    Ok(2.0 * t_cdf(-w.abs(), degrees))
}

/// A shift by ranks: between two sets, the median of all their differences; within pairs, the median of all means of
/// two differences (Hodges and Lehmann, "Estimates of location based on rank tests", Annals of Mathematical Statistics
/// 1963). Interval and p value are inversions of each other: the interval at level 1 - a excludes zero exactly when
/// p <= a.
#[derive(Clone, Debug, PartialEq)]
pub struct RankShift {
    /// All differences, or means of two, ascending.
    sorted: Vec<f64>,
    /// How many of them lie on one side of the true shift.
    counts: Counts,
}

/// The distribution of a count of [`RankShift`].
#[derive(Clone, Debug, PartialEq)]
enum Counts {
    /// The chance of each count or fewer, counted out.
    Exact(Vec<f64>),
    /// Mean and standard deviation of a normal one.
    Normal(f64, f64),
}

impl RankShift {
    /// The shift from `a` to `b`, with the interval that belongs to the test of Mann and Whitney (Annals of
    /// Mathematical Statistics 1947; Moses; Hollander and Wolfe, "Nonparametric Statistical Methods", section 4.3).
    #[must_use]
    pub fn between(a: &Sample, b: &Sample) -> Self {
        let mut sorted: Vec<f64> =
            a.values().iter().flat_map(|x| b.values().iter().map(move |y| y - x)).collect();
        sorted.sort_by(f64::total_cmp);
        let m = a.len();
        let n = b.len();
        let counts = if m + n <= EXACT_MAX {
            // The smallest sum is that of the ranks 1 to m.
            cumulated(subset_sums(m + n, m).into_iter().skip(m * (m + 1) / 2))
        } else {
            let m = m as f64;
            let n = n as f64;
            Counts::Normal(m * n / 2.0, (m * n * (m + n + 1.0) / 12.0).sqrt())
        };
        Self { sorted, counts }
    }

    /// The shift within pairs, with the interval of Wilcoxon's signed rank test (Biometrics 1945; Tukey; Hollander and
    /// Wolfe, section 3.3).
    ///
    /// # Errors
    /// Without differences, or where one is not finite.
    pub fn within(differences: &[f64]) -> Result<Self, SampleError> {
        let sample = Sample::new(differences.iter().copied())?;
        let values = sample.values();
        let n = values.len();
        let mut sorted: Vec<f64> =
            (0..n).flat_map(|i| (i..n).map(move |j| f64::midpoint(values[i], values[j]))).collect();
        sorted.sort_by(f64::total_cmp);
        let counts = if n <= EXACT_MAX {
            cumulated(sign_sums(n).into_iter())
        } else {
            let n = n as f64;
            let spread = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
            Counts::Normal(n * (n + 1.0) / 4.0, spread)
        };
        Ok(Self { sorted, counts })
    }

    /// The shift, with its ends at a confidence. With too few runs for the level the ends are infinite.
    #[must_use]
    pub fn interval(&self, level: f64) -> Shift {
        let risk = (1.0 - level) / 2.0;
        let cut = match &self.counts {
            Counts::Exact(below) => below.partition_point(|chance| *chance <= risk),
            Counts::Normal(mean, spread) => {
                (mean + normal_quantile(risk) * spread).floor().max(0.0) as usize
            }
        };
        let estimate = median_of_sorted(&self.sorted);
        let all = self.sorted.len();
        if cut == 0 || 2 * cut > all {
            return Shift { low: f64::NEG_INFINITY, estimate, high: f64::INFINITY };
        }
        Shift { low: self.sorted[cut - 1], estimate, high: self.sorted[all - cut] }
    }

    /// The chance of a shift at least as large were there none.
    #[must_use]
    pub fn p(&self) -> f64 {
        let below = self.sorted.partition_point(|d| *d <= 0.0);
        let above = self.sorted.len() - self.sorted.partition_point(|d| *d < 0.0);
        (2.0 * self.chance(below.min(above))).min(1.0)
    }

    /// The smallest p that this number of runs can give.
    #[must_use]
    pub fn p_min(&self) -> f64 {
        2.0 * self.chance(0)
    }

    /// The chance of so many or fewer.
    fn chance(&self, count: usize) -> f64 {
        match &self.counts {
            Counts::Exact(below) => below[count.min(below.len() - 1)],
            Counts::Normal(mean, spread) => normal_cdf((count as f64 + 1.0 - mean) / spread),
        }
    }
}

fn cumulated(counts: impl Iterator<Item = f64>) -> Counts {
    let counts: Vec<f64> = counts.collect();
    let all: f64 = counts.iter().sum();
    let mut sum = 0.0;
    let below = counts.iter().map(|count| {
        sum += count;
        sum / all
    });
    Counts::Exact(below.collect())
}

/// The exact test of Fisher ("On the interpretation of chi-square from contingency tables, and the calculation of P",
/// JRSS 1922) of two shares: `a` of `of_a` against `b` of `of_b`. Two-sided: all tables that are not more likely.
#[must_use]
pub fn fisher(a: usize, of_a: usize, b: usize, of_b: usize) -> f64 {
    let all = a + b;
    let ln_choose =
        |n: usize, k: usize| -> f64 { (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum() };
    let ln_total = ln_choose(of_a + of_b, all);
    let likelihood = |a: usize| (ln_choose(of_a, a) + ln_choose(of_b, all - a) - ln_total).exp();
    let seen = likelihood(a) * (1.0 + 1e-9);
    let least = all.saturating_sub(of_b);
    let p: f64 = (least..=all.min(of_a)).map(likelihood).filter(|other| *other <= seen).sum();
    p.min(1.0)
}

#[cfg(test)]
mod tests;
