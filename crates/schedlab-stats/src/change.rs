//! Change points: where a sequence of means goes from one level to another.

use crate::{normal_quantile, t_quantile};

/// A stretch of a sequence on one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Index of its first value.
    pub start: usize,
    /// Index behind its last value.
    pub end: usize,
    /// The mean of the level, weighted by the runs behind each value.
    pub mean: f64,
}

/// Splits a sequence into stretches of one level each, the best of all splits (optimal partitioning:
/// Jackson et al., "An algorithm for optimal partitioning of data on an interval", IEEE Signal
/// Processing Letters 2005). `errors` are the standard errors of the values. A further stretch must earn
/// `2 ln n + 4` in squared standard errors: the penalty of Schwarz for a place and a level (Yao,
/// "Estimating the number of change-points via Schwarz' criterion", 1988), and some more so that short
/// sequences without any change are split in fewer than 5 % of cases.
///
/// # Panics
/// When the two slices are not of one length, or an error is not above zero.
#[must_use]
pub fn change_points(values: &[f64], errors: &[f64]) -> Vec<Level> {
    split(values, errors, penalty(values.len()))
}

/// As [`change_points`], for one of `sequences` that are looked at together: all of them without any
/// change, fewer than 5 % of such sets have one that is split. A stretch must then also earn what the largest
/// of all squared standard errors at all places reaches by luck (Bonferroni). `degrees` of freedom are those of the
/// errors, infinite where they are known.
///
/// # Panics
/// As [`change_points`].
#[must_use]
pub fn change_points_among(
    values: &[f64],
    errors: &[f64],
    sequences: usize,
    degrees: f64,
) -> Vec<Level> {
    const RISK: f64 = 0.05;
    let places = (sequences.max(1) * values.len().saturating_sub(1).max(1)) as f64;
    let p = 1.0 - RISK / 2.0 / places;
    let reach = if degrees.is_finite() { t_quantile(p, degrees) } else { normal_quantile(p) };
    split(values, errors, penalty(values.len()).max(reach * reach))
}

fn penalty(n: usize) -> f64 {
    2.0 * (n.max(1) as f64).ln() + 4.0
}

fn split(values: &[f64], errors: &[f64], penalty: f64) -> Vec<Level> {
    assert_eq!(values.len(), errors.len(), "a standard error for each value");
    assert!(errors.iter().all(|e| *e > 0.0), "a standard error is above zero");
    let n = values.len();
    // Prefix sums of weight, weighted value, weighted square; about the first value for precision.
    let mut sums = vec![(0.0, 0.0, 0.0)];
    for (value, error) in values.iter().zip(errors) {
        let w = 1.0 / (error * error);
        let x = value - values[0];
        let (a, b, c) = sums[sums.len() - 1];
        sums.push((a + w, b + w * x, c + w * x * x));
    }
    let cost = |start: usize, end: usize| {
        let w = sums[end].0 - sums[start].0;
        let x = sums[end].1 - sums[start].1;
        let xx = sums[end].2 - sums[start].2;
        (xx - x * x / w).max(0.0)
    };
    // best[end]: the least cost of the first `end` values, and where their last stretch begins.
    let mut best: Vec<(f64, usize)> = vec![(-penalty, 0)];
    for end in 1..=n {
        let choice = (0..end)
            .map(|start| (best[start].0 + penalty + cost(start, end), start))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .expect("there is at least one start");
        best.push(choice);
    }
    let mut levels = Vec::new();
    let mut end = n;
    while end > 0 {
        let start = best[end].1;
        let mean = values[0] + (sums[end].1 - sums[start].1) / (sums[end].0 - sums[start].0);
        levels.push(Level { start, end, mean });
        end = start;
    }
    levels.reverse();
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn a_step_is_found_where_it_is() {
        let values = [1.0, 1.1, 0.9, 1.0, 5.0, 5.1, 4.9];
        let levels = change_points(&values, &[0.1; 7]);
        assert_eq!(levels.len(), 2);
        assert_eq!((levels[0].end, levels[1].start), (4, 4));
        assert!((levels[1].mean - 5.0).abs() < 1e-9);
    }

    #[test]
    fn noise_alone_is_hardly_ever_split() {
        let mut random = Random::new(5);
        for n in [4, 9, 20] {
            let split = (0..1_000)
                .filter(|_| {
                    let values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
                    change_points(&values, &vec![1.0; n]).len() > 1
                })
                .count();
            assert!(split < 50, "{split} of 1000 sequences of {n}");
        }
    }

    #[test]
    fn of_many_sequences_without_a_change_hardly_any_set_has_one_that_is_split() {
        let mut random = Random::new(6);
        let sets = 600;
        let sequences = 12;
        let runs = 5;
        for n in [4, 7] {
            let mut alone = 0;
            let mut together = 0;
            for _ in 0..sets {
                // As on curves: cells of few runs, one spread pooled over all of them.
                let cells: Vec<Vec<f64>> = (0..sequences * n)
                    .map(|_| (0..runs).map(|_| random.normal()).collect())
                    .collect();
                let mean = crate::sample::mean;
                let squares: f64 = cells
                    .iter()
                    .flatten()
                    .zip(cells.iter().flat_map(|c| vec![mean(c); runs]))
                    .map(|(v, m)| (v - m).powi(2))
                    .sum();
                let degrees = (cells.len() * (runs - 1)) as f64;
                let errors = vec![(squares / degrees / runs as f64).sqrt(); n];
                let curves: Vec<Vec<f64>> =
                    cells.chunks(n).map(|c| c.iter().map(|v| mean(v)).collect()).collect();
                alone += u32::from(curves.iter().any(|c| change_points(c, &errors).len() > 1));
                together += u32::from(
                    curves
                        .iter()
                        .any(|c| change_points_among(c, &errors, sequences, degrees).len() > 1),
                );
            }
            assert!(
                together < 45,
                "{together} of {sets} sets of curves of {n}: 5 % and 2.8 deviations"
            );
            assert!(alone > 60, "{alone}: without the correction luck would be told as regions");
        }
    }

    #[test]
    fn every_split_is_as_good_as_the_best_of_all() {
        // Counted out: all 2^7 ways to split eight values.
        let mut random = Random::new(9);
        for _ in 0..20 {
            let values: Vec<f64> =
                (0..8).map(|i| random.normal() + f64::from(i / 3) * 3.0).collect();
            let penalty = 2.0 * 8_f64.ln() + 4.0;
            let price = |ends: &[usize]| -> f64 {
                let mut start = 0;
                let mut sum = -penalty;
                for end in ends {
                    let part = &values[start..*end];
                    let mean = crate::sample::mean(part);
                    sum += penalty + part.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
                    start = *end;
                }
                sum
            };
            let least = (0..128_u32)
                .map(|mask| {
                    let mut ends: Vec<usize> =
                        (1..8).filter(|i| mask >> (i - 1) & 1 == 1).collect();
                    ends.push(8);
                    price(&ends)
                })
                .fold(f64::INFINITY, f64::min);
            let found: Vec<usize> =
                change_points(&values, &[1.0; 8]).iter().map(|l| l.end).collect();
            assert!((price(&found) - least).abs() < 1e-9);
        }
    }
}
