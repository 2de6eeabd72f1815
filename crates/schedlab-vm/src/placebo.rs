//! What neutral code does to a metric of a kernel.
//!
//! With the clock of instructions a result is exact, but any change of code moves all later times. So
//! a difference counts only beyond the band of placebos: kernels that differ in instructions that do
//! nothing. The band is the largest change between any two of the base kernel and its placebos.

use schedlab_model::Better;

/// Placebos that a band should rest on.
pub const PLACEBOS: usize = 10;

/// The largest relative change between the centres of any two of a kernel and its placebos, each with one value for each
/// start; `None` without placebos, or where no two of them can be compared. The centre is the one that the change is
/// judged by: where starts spread unevenly, the medians of placebos lie nearer together than their means.
#[must_use]
pub fn band(
    base: &[f64],
    placebos: &[Vec<f64>],
    centre: impl Fn(&[f64]) -> Option<f64>,
) -> Option<f64> {
    let all = placebos.iter().map(Vec::as_slice).chain([base]);
    let centres: Vec<f64> = all.filter_map(centre).collect();
    let pairs = (0..centres.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
    pairs.filter_map(|(one, other)| ratio(centres[one], centres[other])).reduce(f64::max)
}

/// By how much a value is worse than another: positive where it is worse.
#[must_use]
pub fn worse_by(from: f64, to: f64, better: Better) -> Option<f64> {
    let change = (from != 0.0).then(|| to / from - 1.0)?;
    Some(if better == Better::Higher { -change } else { change })
}

/// The larger of two values relative to the smaller one, less 1: the same in both directions.
fn ratio(one: f64, other: f64) -> Option<f64> {
    let small = one.min(other);
    let large = one.max(other);
    (small > 0.0).then(|| large / small - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_stats::median;

    fn centre(values: &[f64]) -> Option<f64> {
        median(values.iter().copied())
    }

    #[test]
    fn the_band_is_the_largest_change_between_two_neutral_kernels() {
        let placebos = [vec![1.01, 1.02, 1.0], vec![0.99, 0.98, 1.0]];
        let found = band(&[1.0; 3], &placebos, centre).unwrap();
        assert!((found - (1.01 / 0.99 - 1.0)).abs() < 1e-12, "{found}");
        assert_eq!(band(&[1.0], &[], centre), None);
        assert_eq!(band(&[0.0], &[vec![0.0]], centre), None, "nothing is relative to 0");
    }

    #[test]
    fn worse_is_more_time_and_less_throughput() {
        assert_eq!(worse_by(2.0, 3.0, Better::Lower), Some(0.5));
        assert_eq!(worse_by(2.0, 3.0, Better::Higher), Some(-0.5));
        assert_eq!(worse_by(0.0, 3.0, Better::Lower), None);
    }
}
