//! fio's histogram, by which schbench tells its percentiles: 19 groups of 256 buckets.
//!
//! A value below 512 has a bucket of its own; above, its leading bit and the next eight choose one, and
//! the middle of the bucket stands for it. Written from the numbers that the original prints.
//!
//! Its buckets are finer than ours, so under `--compat upstream` a worker records the number of the
//! bucket beside the time: as the value whose bucket, in our histogram, has that number.

use schedlab_model::Nanos;
use schedlab_stats::Histogram;

/// The last bucket; what is larger falls into it.
const LAST: usize = 19 * 256 - 1;

fn bucket_of(value: u64) -> usize {
    if value < 512 {
        return value as usize;
    }
    let shift = value.ilog2() - 8;
    let index = 256 * (u64::from(shift) + 1) + ((value >> shift) & 255);
    (index as usize).min(LAST)
}

/// The value that stands for all in a bucket: its middle, cut off.
fn value_of(bucket: usize) -> u64 {
    if bucket < 512 {
        return bucket as u64;
    }
    let shift = bucket / 256 - 1;
    let step = (bucket % 256) as u64;
    (1 << (shift + 8)) + (step << shift) + (1 << shift) / 2
}

/// The microseconds between two moments as the original counts them: by a clock of whole
/// microseconds. `None` for zero, which the original leaves out.
#[must_use]
pub(crate) fn micros(from: Nanos, to: Nanos) -> Option<u64> {
    Some((to.0 / 1_000).saturating_sub(from.0 / 1_000)).filter(|&n| n > 0)
}

/// What is recorded in place of a value, so that its bucket is kept.
#[must_use]
pub(crate) fn recorded(value: u64) -> u64 {
    Histogram::lowest_of(bucket_of(value))
}

/// The filled buckets of what [`recorded`] gave: the value by which each is reported, and how many.
#[must_use]
pub(crate) fn read(histogram: &Histogram) -> Vec<(u64, u64)> {
    let told = |low| value_of(Histogram::bucket_of(low).min(LAST));
    histogram.buckets().map(|bucket| (told(bucket.low), bucket.count)).collect()
}

/// For each percentile of `percents` (rising) the value that the original tells, and how many lie at or
/// below it. Of no values it tells 0.
pub(super) fn percentiles<const N: usize>(
    values: impl Iterator<Item = (u64, u64)>,
    percents: [f64; N],
) -> [(u64, u64); N] {
    let mut buckets = vec![0_u64; LAST + 1];
    for (value, count) in values {
        buckets[bucket_of(value)] += count;
    }
    let all: u64 = buckets.iter().sum();
    percents.map(|percent| {
        let mut below = 0;
        let wanted = percent / 100.0 * all as f64;
        let found = buckets.iter().position(|count| {
            below += count;
            all > 0 && below as f64 >= wanted
        });
        found.map_or((0, 0), |bucket| (value_of(bucket), below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_stats::Random;

    #[test]
    fn buckets_are_those_that_the_original_prints() {
        // What the original prints of such values; the last is its largest bucket.
        let known = [(0, 0), (511, 511), (512, 513), (1_024, 1_026), (100_000, 99_968)];
        let large = [(1_000_000, 1_000_448), (1_444_037, 1_443_840), (u64::MAX, 67_043_328)];
        for (value, told) in known.into_iter().chain(large) {
            assert_eq!(value_of(bucket_of(value)), told, "{value}");
        }
        for bucket in 0..=LAST {
            assert_eq!(bucket_of(value_of(bucket)), bucket);
        }
    }

    #[test]
    fn a_percentile_is_the_first_bucket_that_reaches_it() {
        let values = [(1, 5), (600, 4), (5_000, 1)];
        let told = percentiles(values.into_iter(), [20.0, 50.0, 90.0, 99.0]);
        assert_eq!(told, [(1, 5), (1, 5), (601, 9), (5_000, 10)]);
        assert_eq!(percentiles(std::iter::empty(), [50.0]), [(0, 0)]);
    }

    #[test]
    fn microseconds_are_those_of_a_clock_that_tells_whole_ones() {
        let between = |from, to| micros(Nanos(from), Nanos(to));
        assert_eq!(between(1_999, 2_001), Some(1));
        assert_eq!(between(1_000, 1_999), None);
        assert_eq!(between(5_000, 3_000), None);
        assert_eq!(between(500, 3_400), Some(3));
    }

    /// The scheme in floating point, as fio documents it: for `e` bits that are given up a bucket
    /// reaches over 2^e values from 2^(e+8) + k 2^e, and (k + 0.5) 2^e is its middle.
    fn told_by_the_formula(value: u64) -> f64 {
        if value < 512 {
            return value as f64;
        }
        let mut e = (value as f64).log2().floor() - 8.0;
        // A float rounds up what lies just below a power of two.
        if (2.0_f64).powf(e + 8.0) > value as f64 {
            e -= 1.0;
        }
        let group = (2.0_f64).powf(e + 8.0);
        let width = (2.0_f64).powf(e);
        let k = ((value as f64 - group) / width).floor();
        let last = e > 17.0;
        let (group, width, k) =
            if last { ((2.0_f64).powi(25), (2.0_f64).powi(17), 255.0) } else { (group, width, k) };
        (group + (k + 0.5) * width).floor()
    }

    /// What the original prints of samples: it walks up the sorted values until a share is reached.
    fn percentile_by_the_formula(samples: &[u64], percent: f64) -> (f64, usize) {
        let mut told: Vec<f64> = samples.iter().map(|&v| told_by_the_formula(v)).collect();
        told.sort_by(f64::total_cmp);
        let enough = |n: &usize| *n as f64 >= percent / 100.0 * told.len() as f64;
        let rank = (1..=told.len()).find(enough).unwrap();
        let value = told[rank - 1];
        (value, told.iter().filter(|&&other| other <= value).count())
    }

    #[test]
    fn percentiles_of_any_samples_are_bit_by_bit_those_of_the_formula() {
        let mut random = Random::new(7);
        for case in 0..300 {
            // Samples that reach over all octaves, or crowd in one.
            let octaves = 1.0 + random.unit() * 27.0;
            let count = 1 + (random.unit() * 400.0) as usize;
            let one = |random: &mut Random| 1 + (2.0_f64).powf(random.unit() * octaves) as u64;
            let samples: Vec<u64> = (0..count).map(|_| one(&mut random)).collect();
            let kept: Histogram = samples.iter().map(|&value| recorded(value)).collect();
            let percents = [20.0, 50.0, 90.0, 99.0, 99.9];
            let told = percentiles(read(&kept).into_iter(), percents);
            for (percent, (value, below)) in percents.into_iter().zip(told) {
                let expected = percentile_by_the_formula(&samples, percent);
                assert_eq!((value as f64, below as usize), expected, "case {case}, {percent}");
            }
        }
    }

    #[test]
    fn every_bucket_survives_being_recorded() {
        for bucket in 0..=LAST {
            let kept: Histogram = [recorded(value_of(bucket))].into_iter().collect();
            assert_eq!(read(&kept), [(value_of(bucket), 1)], "{bucket}");
        }
        let kept: Histogram = [recorded(u64::MAX)].into_iter().collect();
        assert_eq!(read(&kept), [(67_043_328, 1)]);
    }
}
