//! Whether one kernel is worse than another, beside what neutral code does.
//!
//! With the clock of instructions a result is exact, but any change of code moves all later times. So
//! a difference counts only beyond the band of placebos: kernels that differ in instructions that do
//! nothing. The band is the largest change between any two of the base kernel and its placebos.

use schedlab_model::Better;
use schedlab_stats::median;

/// Placebos that a band should rest on.
pub const PLACEBOS: usize = 10;

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Worse by more than the band.
    Worse,
    /// Better by more than the band.
    Better,
    /// Changed by more than the band; the metric has no direction.
    Changed,
    /// Neutral code changes the metric as much.
    WithinBand,
    /// There is no band: no placebo was measured.
    NoBand,
}

/// A comparison with its band.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The second side's median relative to the first side's: 0.03 is 3 % more.
    pub change: f64,
    /// The largest relative change between two kernels that differ in neutral code only; `None` without
    /// placebos.
    pub band: Option<f64>,
    /// Number of pairs of such kernels.
    pub pairs: usize,
    /// The verdict that follows.
    pub verdict: Verdict,
}

/// Compares the values of two sides, one value for each start; `placebos` are those of kernels that
/// differ from the first side in neutral code only. `None` if a side has no values or a median of 0.
#[must_use]
pub fn judge(
    before: &[f64],
    after: &[f64],
    placebos: &[Vec<f64>],
    better: Better,
) -> Option<Judgement> {
    let (from, to) = (middle(before)?, middle(after)?);
    let change = relative(from, to)?;
    let medians: Vec<f64> =
        placebos.iter().filter_map(|values| middle(values)).chain([from]).collect();
    let pairs: Vec<f64> = (0..medians.len())
        .flat_map(|one| (0..one).map(move |other| (one, other)))
        .filter_map(|(one, other)| ratio(medians[one], medians[other]))
        .collect();
    let band = pairs.iter().copied().reduce(f64::max);
    let verdict = match (band, better) {
        (None, _) => Verdict::NoBand,
        (Some(band), _) if ratio(from, to)? <= band => Verdict::WithinBand,
        (_, Better::Neither) => Verdict::Changed,
        (_, Better::Lower) if change > 0.0 => Verdict::Worse,
        (_, Better::Higher) if change < 0.0 => Verdict::Worse,
        _ => Verdict::Better,
    };
    Some(Judgement { change, band, pairs: pairs.len(), verdict })
}

/// By how much a value is worse than another: positive where it is worse.
#[must_use]
pub fn worse_by(from: f64, to: f64, better: Better) -> Option<f64> {
    let change = relative(from, to)?;
    Some(if better == Better::Higher { -change } else { change })
}

fn middle(values: &[f64]) -> Option<f64> {
    median(values.iter().copied())
}

fn relative(from: f64, to: f64) -> Option<f64> {
    (from != 0.0).then(|| to / from - 1.0)
}

/// The larger of two values relative to the smaller one, less 1: the same in both directions.
fn ratio(one: f64, other: f64) -> Option<f64> {
    let (small, large) = (one.min(other), one.max(other));
    (small > 0.0).then(|| large / small - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_beyond_what_neutral_code_does() {
        let placebos = [vec![1.01, 1.02, 1.0], vec![0.99, 0.98, 1.0]];
        let judged =
            |to: f64, better| judge(&[1.0; 3], &[to; 3], &placebos, better).unwrap().verdict;
        // The band is 1.01 / 0.99 - 1.
        assert_eq!(judged(1.019, Better::Lower), Verdict::WithinBand);
        assert_eq!(judged(1.03, Better::Lower), Verdict::Worse);
        assert_eq!(judged(0.97, Better::Lower), Verdict::Better);
        assert_eq!(judged(0.97, Better::Higher), Verdict::Worse);
        assert_eq!(judged(1.03, Better::Neither), Verdict::Changed);
        let all = judge(&[1.0], &[1.5], &placebos, Better::Lower).unwrap();
        assert_eq!(all.pairs, 3);
        assert!((all.band.unwrap() - (1.01 / 0.99 - 1.0)).abs() < 1e-12);
        let none = judge(&[1.0], &[1.5], &[], Better::Lower).unwrap();
        assert_eq!((none.verdict, none.band), (Verdict::NoBand, None));
        assert_eq!(judge(&[], &[1.0], &[], Better::Lower), None);
    }

    #[test]
    fn at_most_one_of_twenty_placebo_pairs_is_called_worse() {
        // A fixed sequence in [0.95, 1.05): kernels that differ in neutral code.
        let mut state = 12_345_u64;
        let mut kernel = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let one = 0.95 + 0.1 * (state >> 40) as f64 / (1_u64 << 24) as f64;
            vec![one; 8]
        };
        let placebos: Vec<Vec<f64>> = (0..PLACEBOS).map(|_| kernel()).collect();
        let pairs: Vec<Judgement> = (0..20)
            .map(|_| judge(&kernel(), &kernel(), &placebos, Better::Lower).unwrap())
            .collect();
        let worse = pairs.iter().filter(|pair| pair.verdict == Verdict::Worse).count();
        assert!(worse <= 1, "{pairs:?}");
    }

    #[test]
    fn worse_is_more_time_and_less_throughput() {
        assert_eq!(worse_by(2.0, 3.0, Better::Lower), Some(0.5));
        assert_eq!(worse_by(2.0, 3.0, Better::Higher), Some(-0.5));
        assert_eq!(worse_by(0.0, 3.0, Better::Lower), None);
    }
}
