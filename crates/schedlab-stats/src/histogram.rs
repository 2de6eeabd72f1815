//! A histogram of durations (or any other `u64`) that keeps its relative error over every range.
//!
//! Buckets are log-linear: values below 128 have a bucket each, and every power of two above is cut
//! into 128 buckets of equal width, so a bucket is never wider than 1/128 of the values in it and
//! its middle is at most 0.4 % away from any of them. (The layout is that of G. Tene's
//! HdrHistogram; the code is ours.) Count, sum, minimum and maximum are exact.
//!
//! Resources: recording is two dependent loads and a few adds, no allocation once a range has been
//! seen. Memory is 64 bytes for each quarter of an octave in which a value fell: under 1 KiB for a
//! task that waited three times, about 8 KiB for one whose waits reach from 1 µs to 10 ms, never
//! more than 30 KiB. Thousands of tasks can have one each, and the caches are what limits them: so
//! counts have 16 bits, and what overflows is carried elsewhere.

use serde::{Deserialize, Serialize};

/// Bits of a value that its bucket keeps: 2^7 buckets an octave.
const BITS: u32 = 7;
/// Buckets whose counts are allocated together.
const BLOCK: usize = 32;

/// Counts of values in log-linear buckets. Merging two gives what recording all would have given.
#[derive(Clone, Debug, Default, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(into = "Sparse", try_from = "Sparse")]
pub struct Histogram {
    /// For each block of buckets, where its counts begin in `counts`, in blocks, plus one; 0 is none.
    table: Vec<u8>,
    /// The low 16 bits of each bucket's count.
    counts: Vec<u16>,
    /// The other bits of the few counts that need them, by slot.
    carried: Vec<(usize, u64)>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

/// A bucket that holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value that falls into it.
    pub low: u64,
    /// The largest value that falls into it.
    pub(crate) high: u64,
    /// How many values fell into it; never 0.
    pub count: u64,
}

impl Bucket {
    /// The value that stands for all in the bucket.
    #[must_use]
    pub const fn middle(&self) -> u64 {
        self.low + (self.high - self.low) / 2
    }
}

impl Histogram {
    /// An empty histogram; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            table: Vec::new(),
            counts: Vec::new(),
            carried: Vec::new(),
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Adds one value to its bucket.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.add_one(value);
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(value);
    }

    /// Adds all of these, faster than one by one.
    pub fn record_all(&mut self, values: impl Iterator<Item = u64>) {
        let mut min = if self.count == 0 { u64::MAX } else { self.min };
        let mut max = self.max;
        let mut sum = self.sum;
        let mut count = self.count;
        for value in values {
            self.add_one(value);
            min = min.min(value);
            max = max.max(value);
            sum = sum.saturating_add(value);
            count = count.saturating_add(1);
        }
        self.min = min;
        self.max = max;
        self.sum = sum;
        self.count = count;
    }

    /// Counts a value in its bucket.
    #[inline]
    fn add_one(&mut self, value: u64) {
        let index = index_of(value);
        let slot = match self.table.get(index / BLOCK) {
            Some(&block) if block != 0 => (block as usize - 1) * BLOCK + index % BLOCK,
            _ => self.allocate(index),
        };
        match self.counts.get_mut(slot) {
            Some(count) if *count < u16::MAX => *count += 1,
            _ => self.carry(slot, 1),
        }
    }

    /// Adds `n` equal values; the counts saturate at 2^64 - 1, as does the sum.
    #[inline]
    pub(crate) fn record_n(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        let index = index_of(value);
        let slot = match self.table.get(index / BLOCK) {
            Some(&block) if block != 0 => (block as usize - 1) * BLOCK + index % BLOCK,
            _ => self.allocate(index),
        };
        match u64::from(self.counts[slot]).checked_add(n).map(u16::try_from) {
            Some(Ok(count)) => self.counts[slot] = count,
            _ => self.carry(slot, n),
        }
        if self.count == 0 {
            self.min = value;
        }
        self.count = self.count.saturating_add(n);
        self.sum = self.sum.saturating_add(value.saturating_mul(n));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all values of `other`, as if they had been recorded here.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            return self.clone_from(other);
        }
        let count = self.count;
        let sum = self.sum;
        let min = self.min.min(other.min);
        let max = self.max.max(other.max);
        if other.carried.is_empty() {
            for (block, &used) in other.table.iter().enumerate().filter(|(_, used)| **used != 0) {
                let from = (used as usize - 1) * BLOCK;
                self.add_block(block, &other.counts[from..from + BLOCK]);
            }
        } else {
            for bucket in other.buckets() {
                self.record_n(bucket.low, bucket.count);
            }
        }
        self.count = count.saturating_add(other.count);
        self.sum = sum.saturating_add(other.sum);
        self.min = min;
        self.max = max;
    }

    fn add_block(&mut self, block: usize, counts: &[u16]) {
        let start = match self.table.get(block) {
            Some(&used) if used != 0 => (used as usize - 1) * BLOCK,
            _ => self.allocate(block * BLOCK),
        };
        let slots = &mut self.counts[start..start + BLOCK];
        // Without a way out of the loop the compiler adds many at once.
        let carries =
            slots.iter().zip(counts).fold(false, |any, (a, b)| any | a.checked_add(*b).is_none());
        if !carries {
            slots.iter_mut().zip(counts).for_each(|(slot, count)| *slot += count);
            return;
        }
        for (slot, &count) in (start..).zip(counts) {
            match self.counts[slot].checked_add(count) {
                Some(sum) => self.counts[slot] = sum,
                None => self.carry(slot, count.into()),
            }
        }
    }

    /// The number of the bucket that `value` falls into: for counters that are kept elsewhere (in
    /// memory shared between processes) and read with [`Self::from_counts`].
    #[inline]
    #[must_use]
    pub fn bucket_of(value: u64) -> usize {
        index_of(value)
    }

    /// The smallest value that falls into a bucket: what [`Self::bucket_of`] gives for it is `bucket`.
    #[must_use]
    pub fn lowest_of(bucket: usize) -> u64 {
        bounds_of(bucket).0
    }

    /// The histogram of counts by bucket number, with the exact sum and ends where they are known;
    /// without ends, those of the outermost buckets stand in.
    pub fn from_counts(
        counts: impl IntoIterator<Item = (usize, u64)>,
        sum: u64,
        ends: Option<(u64, u64)>,
    ) -> Self {
        let mut histogram = Self::new();
        for (bucket, count) in counts {
            let (low, high) = bounds_of(bucket);
            histogram.record_n(low, count);
            if count > 0 {
                histogram.max = histogram.max.max(high);
            }
        }
        histogram.sum = sum;
        if let (Some((min, max)), false) = (ends, histogram.is_empty()) {
            histogram.min = min;
            histogram.max = max;
        }
        histogram
    }

    /// How many values were recorded.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The exact sum of all values; saturates at 2^64 - 1 (584 years of nanoseconds).
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// The smallest value, exact; `None` if the histogram is empty.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value, exact; `None` if the histogram is empty.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The arithmetic mean, exact but for the rounding of the float; `None` if the histogram is
    /// empty.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The `q`-quantile (0 ..= 1, clamped) by nearest rank: the smallest value that at least a
    /// fraction `q` of all values does not exceed, within half a bucket's width. The ends are
    /// exact: 0 gives the minimum, 1 the maximum. `None` when empty.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let min = self.min()?;
        let max = self.max()?;
        // A float has 53 bits: ranks above 2^53 are rounded, which no quantile can show.
        let rank = (q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        if rank <= 1 {
            return Some(min);
        }
        let mut seen = 0_u64;
        for (at, first) in self.blocks() {
            // Most blocks lie before the rank as a whole.
            let behind = seen.saturating_add(self.count_of_block(first));
            if behind < rank.min(self.count) {
                seen = behind;
                continue;
            }
            for bucket in self.buckets_of(at, first) {
                seen = seen.saturating_add(bucket.count);
                if seen >= self.count && rank >= self.count {
                    return Some(max);
                }
                if seen >= rank.min(self.count) {
                    return Some(bucket.middle().clamp(min, max));
                }
            }
        }
        Some(max)
    }

    /// How many values are at most `value`: exact where `value` ends a bucket, else a bucket that
    /// `value` falls into counts in full.
    #[must_use]
    pub fn count_up_to(&self, value: u64) -> u64 {
        let low_enough = self.buckets().take_while(|bucket| bucket.low <= value);
        low_enough.fold(0, |sum: u64, bucket| sum.saturating_add(bucket.count))
    }

    /// The buckets that hold something, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.blocks().flat_map(|(at, first)| self.buckets_of(at, first))
    }

    /// The number of each block that has values, and where its counts begin.
    fn blocks(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let used = self.table.iter().enumerate().filter(|(_, block)| **block != 0);
        used.map(|(at, &block)| (at, (block as usize - 1) * BLOCK))
    }

    /// The non-empty buckets of a block.
    fn buckets_of(&self, at: usize, first: usize) -> impl Iterator<Item = Bucket> + '_ {
        let counts = (0..BLOCK).map(move |i| (i, self.count_at(first + i)));
        counts.filter(|(_, count)| *count > 0).map(move |(i, count)| {
            let (low, high) = bounds_of(at * BLOCK + i);
            Bucket { low, high, count }
        })
    }

    fn count_of_block(&self, first: usize) -> u64 {
        let low: u64 =
            self.counts[first..first + BLOCK].iter().map(|count| u64::from(*count)).sum();
        let carried = self.carried.iter().filter(|(at, _)| (first..first + BLOCK).contains(at));
        carried.fold(low, |sum, (_, high)| sum.saturating_add(high << 16))
    }

    fn count_at(&self, slot: usize) -> u64 {
        let low = self.counts[slot].into();
        match self.carried.iter().find(|(at, _)| *at == slot) {
            Some((_, high)) => low | high << 16,
            None => low,
        }
    }

    /// Adds `n` to a count that needs more than 16 bits.
    #[cold]
    fn carry(&mut self, slot: usize, n: u64) {
        let count = self.count_at(slot).saturating_add(n);
        let high = count >> 16;
        self.counts[slot] = count as u16;
        match self.carried.iter_mut().find(|(at, _)| *at == slot) {
            Some((_, part)) => *part = high,
            None => self.carried.push((slot, high)),
        }
    }

    #[cold]
    fn allocate(&mut self, index: usize) -> usize {
        let block = index / BLOCK;
        if block >= self.table.len() {
            self.table.resize(block + 1, 0);
        }
        let start = self.counts.len();
        self.counts.resize(start + BLOCK, 0);
        self.table[block] =
            u8::try_from(start / BLOCK + 1).expect("all values together have 232 blocks");
        start + index % BLOCK
    }
}

/// Histograms are equal if their buckets hold the same counts, even if they store them differently.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        (self.count, self.sum, self.min(), self.max())
            == (other.count, other.sum, other.min(), other.max())
            && self.buckets().eq(other.buckets())
    }
}

impl Eq for Histogram {}

impl Extend<u64> for Histogram {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.record(value));
    }
}

impl FromIterator<u64> for Histogram {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        let mut histogram = Self::new();
        histogram.extend(values);
        histogram
    }
}

/// The bucket of a value. Below 2^BITS each value is its own; above, the leading bits choose.
#[inline]
fn index_of(value: u64) -> usize {
    // The position of the leading bit, at least BITS, so that small values need no branch.
    let top = 63 - (value | 1 << BITS).leading_zeros();
    let shift = top - BITS;
    ((shift as usize) << BITS) + (value >> shift) as usize
}

/// The smallest and largest value of a bucket; the inverse of [`index_of`].
fn bounds_of(index: usize) -> (u64, u64) {
    let index = index as u64;
    let octave = (index >> BITS).saturating_sub(1);
    let low = (index - (octave << BITS)) << octave;
    (low, low + ((1 << octave) - 1))
}

/// How a histogram is written: only buckets that hold something, by their smallest value, so that
/// a file says what it means without knowing the layout.
#[derive(schemars::JsonSchema, Serialize, Deserialize)]
struct Sparse {
    count: u64,
    sum: u64,
    min: Option<u64>,
    max: Option<u64>,
    /// (smallest value of the bucket, how many)
    buckets: Vec<(u64, u64)>,
}

impl From<Histogram> for Sparse {
    fn from(histogram: Histogram) -> Self {
        Self {
            count: histogram.count,
            sum: histogram.sum,
            min: histogram.min(),
            max: histogram.max(),
            buckets: histogram.buckets().map(|bucket| (bucket.low, bucket.count)).collect(),
        }
    }
}

/// A stored histogram that cannot be used, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum HistogramError {
    /// The buckets hold another number of values than `count` says.
    #[error("the buckets hold {held} values, but the count is {count}")]
    Count {
        /// The sum of all buckets.
        held: u64,
        /// The number of values that the stored `count` gives.
        count: u64,
    },
    /// Minimum or maximum are absent, or lie outside the outermost buckets.
    #[error("minimum and maximum do not fit the buckets")]
    Range,
}

impl TryFrom<Sparse> for Histogram {
    type Error = HistogramError;
    fn try_from(sparse: Sparse) -> Result<Self, HistogramError> {
        let mut histogram = Self::new();
        for (low, count) in sparse.buckets {
            histogram.record_n(low, count);
        }
        if histogram.count != sparse.count {
            return Err(HistogramError::Count { held: histogram.count, count: sparse.count });
        }
        if histogram.count > 0 {
            let (Some(min), Some(max)) = (sparse.min, sparse.max) else {
                return Err(HistogramError::Range);
            };
            if index_of(min) != index_of(histogram.min)
                || index_of(max) != index_of(histogram.max)
                || min > max
            {
                return Err(HistogramError::Range);
            }
            histogram.min = min;
            histogram.max = max;
            histogram.sum = sparse.sum;
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_random::mix;

    /// The largest relative error of a quantile: half a bucket's width.
    const RELATIVE_ERROR: f64 = 1.0 / (2 << BITS) as f64;

    /// Numbers spread over all magnitudes.
    fn values(count: u64) -> Vec<u64> {
        (1..=count).map(|i| mix(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> (mix(i) % 64)).collect()
    }

    #[test]
    fn buckets_tile_all_values_without_gap_or_overlap() {
        let last = index_of(u64::MAX);
        let mut next = 0;
        for index in 0..=last {
            let (low, high) = bounds_of(index);
            assert_eq!(low, next, "bucket {index} begins where the one before ends");
            assert_eq!((index_of(low), index_of(high)), (index, index));
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends at 2^64 - 1");
    }

    #[test]
    fn the_middle_of_a_bucket_is_within_the_relative_error_of_all_its_values() {
        for value in values(10_000) {
            let (low, high) = bounds_of(index_of(value));
            let middle = Bucket { low, high, count: 1 }.middle();
            assert!(
                middle.abs_diff(value) as f64 <= value as f64 * RELATIVE_ERROR,
                "{middle} for {value}"
            );
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values_within_the_error() {
        let mut sorted = values(9_999);
        let histogram: Histogram = sorted.iter().copied().collect();
        sorted.sort_unstable();
        for q in [0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
            let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
            let exact = sorted[rank - 1];
            let got = histogram.quantile(q).unwrap();
            assert!(
                got.abs_diff(exact) as f64 <= exact as f64 * RELATIVE_ERROR,
                "{q}: {got} instead of {exact}"
            );
        }
        assert_eq!(histogram.quantile(0.0), sorted.first().copied());
        assert_eq!(histogram.quantile(1.0), sorted.last().copied());
    }

    #[test]
    fn small_values_and_single_values_are_exact() {
        let histogram: Histogram = [3, 100, 127].into_iter().collect();
        assert_eq!(histogram.quantile(0.5), Some(100));
        let histogram: Histogram = std::iter::repeat_n(1_234_567, 9).collect();
        for q in [0.0, 0.3, 0.99, 1.0] {
            assert_eq!(histogram.quantile(q), Some(1_234_567));
        }
        assert_eq!(histogram.mean(), Some(1_234_567.0));
    }

    #[test]
    fn recording_all_at_once_is_the_same_as_one_by_one() {
        let mut at_once = Histogram::new();
        let mut one_by_one = Histogram::new();
        for part in values(2_000).chunks(77).chain([&[][..], &[u64::MAX]]) {
            at_once.record_all(part.iter().copied());
            part.iter().for_each(|value| one_by_one.record(*value));
            assert_eq!(at_once, one_by_one);
        }
    }

    #[test]
    fn an_empty_histogram_has_no_figures() {
        let histogram = Histogram::new();
        assert!(histogram.is_empty());
        assert_eq!((histogram.min(), histogram.max(), histogram.quantile(0.5)), (None, None, None));
        assert_eq!(histogram, Histogram::default());
    }

    #[test]
    fn merging_is_the_same_as_recording_all() {
        let all = values(3_000);
        let mut merged = Histogram::new();
        for part in all.chunks(700) {
            merged.merge(&part.iter().copied().collect());
        }
        merged.merge(&Histogram::new());
        let mut order_does_not_matter = Histogram::new();
        order_does_not_matter.extend(all.iter().rev().copied());
        assert_eq!(merged, order_does_not_matter);
    }

    #[test]
    fn what_is_written_reads_back_equal_and_lies_are_refused() {
        let histogram: Histogram = values(500).into_iter().collect();
        let sparse = Sparse::from(histogram.clone());
        assert_eq!(Histogram::try_from(sparse), Ok(histogram.clone()));
        let mut wrong = Sparse::from(histogram.clone());
        wrong.count += 1;
        assert!(matches!(Histogram::try_from(wrong), Err(HistogramError::Count { .. })));
        let mut wrong = Sparse::from(histogram);
        wrong.max = Some(1);
        assert_eq!(Histogram::try_from(wrong), Err(HistogramError::Range));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut histogram = Histogram::new();
        histogram.record_n(u64::MAX, u64::MAX);
        histogram.record(0);
        assert_eq!(histogram.count(), u64::MAX);
        assert_eq!(histogram.sum(), u64::MAX);
        assert_eq!((histogram.min(), histogram.max()), (Some(0), Some(u64::MAX)));
    }

    #[test]
    fn counts_go_on_beyond_32_bits() {
        let mut histogram = Histogram::new();
        for _ in 0..3 {
            histogram.record_n(5, u64::from(u32::MAX));
        }
        histogram.record_n(5, 7);
        histogram.record(6);
        let counts: Vec<u64> = histogram.buckets().map(|bucket| bucket.count).collect();
        assert_eq!(counts, [3 * u64::from(u32::MAX) + 7, 1]);
        assert_eq!(Histogram::try_from(Sparse::from(histogram.clone())), Ok(histogram));
    }

    #[test]
    fn merged_counts_go_on_beyond_32_bits_too() {
        let mut half = Histogram::new();
        half.record_n(5, u64::from(u32::MAX));
        let mut both = half.clone();
        both.merge(&half);
        both.merge(&half);
        assert_eq!(both.buckets().next().unwrap().count, 3 * u64::from(u32::MAX));
        assert_eq!(both.count(), 3 * u64::from(u32::MAX));
    }

    #[test]
    fn the_lowest_value_of_a_bucket_falls_into_it() {
        for bucket in (0..5_000).chain([Histogram::bucket_of(u64::MAX)]) {
            let lowest = Histogram::lowest_of(bucket);
            assert_eq!(Histogram::bucket_of(lowest), bucket);
            assert!(bucket == 0 || Histogram::bucket_of(lowest - 1) == bucket - 1);
        }
    }

    #[test]
    fn counting_up_to_a_bound_counts_whole_buckets() {
        let histogram: Histogram = (1..=100).collect();
        assert_eq!(histogram.count_up_to(0), 0);
        assert_eq!(histogram.count_up_to(60), 60);
        assert_eq!(histogram.count_up_to(u64::MAX), 100);
    }
}
