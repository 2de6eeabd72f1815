//! fio's histogram, by which schbench tells its percentiles: 19 groups of 256 buckets.
//!
//! A value below 512 has a bucket of its own; above, its leading bit and the next eight choose one, and
//! the middle of the bucket stands for it. Written from the numbers that the original prints.

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
    let (shift, step) = (bucket / 256 - 1, (bucket % 256) as u64);
    (1 << (shift + 8)) + (step << shift) + (1 << shift) / 2
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
}
