//! Intervals of what rounds gave, for the benchmarks that interleave their arms.

use schedlab_stats::Random;

/// The middle 95 % of `statistic` over resampled rounds (the percentile bootstrap of Efron, 1979).
pub(crate) fn resampled(rounds: usize, statistic: &dyn Fn(&[usize]) -> f64) -> (f64, f64) {
    let mut random = Random::new(1);
    let mut all: Vec<f64> = (0..4000)
        .map(|_| statistic(&(0..rounds).map(|_| random.below(rounds)).collect::<Vec<_>>()))
        .collect();
    all.sort_by(f64::total_cmp);
    (all[all.len() / 40], all[all.len() - 1 - all.len() / 40])
}
