//! Copies of what is measured, and what lies between two of them.

use schedlab_model::Nanos;
use schedlab_stats::Histogram;

/// A copy of a histogram that goes on growing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    sum: u64,
    ends: Option<(u64, u64)>,
    buckets: Vec<u64>,
}

impl Copied {
    /// A copy: the sum of its values, the smallest and the largest, and the count of each bucket of
    /// [`Histogram`], the empty ones at the end left out.
    #[must_use]
    pub const fn new(sum: u64, ends: Option<(u64, u64)>, buckets: Vec<u64>) -> Self {
        Self { sum, ends, buckets }
    }

    /// A copy of a histogram that nobody writes meanwhile.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Self {
        let mut buckets = Vec::new();
        for bucket in histogram.buckets() {
            let at = Histogram::bucket_of(bucket.low);
            buckets.resize(at + 1, 0);
            buckets[at] = bucket.count;
        }
        Self { sum: histogram.sum(), ends: histogram.min().zip(histogram.max()), buckets }
    }

    /// What was recorded since `before`. With nothing before it the ends are exact; else they are
    /// those of the outermost buckets.
    #[must_use]
    pub fn since(&self, before: &Self) -> Histogram {
        let earlier = |at: usize| before.buckets.get(at).copied().unwrap_or(0);
        let counts =
            self.buckets.iter().enumerate().map(|(at, n)| (at, n.wrapping_sub(earlier(at))));
        // A task may have been between two of its words while they were copied.
        let outermost = |&(min, max): &(u64, u64)| {
            let filled = |&n: &u64| n > 0;
            self.buckets.iter().position(filled) == Some(Histogram::bucket_of(min))
                && self.buckets.iter().rposition(filled) == Some(Histogram::bucket_of(max))
        };
        let ends = self.ends.filter(|ends| before.ends.is_none() && outermost(ends));
        Histogram::from_counts(counts, self.sum.wrapping_sub(before.sum), ends)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    pub at: Nanos,
    /// Copies by task, then series.
    pub histograms: Vec<Copied>,
    /// Counters by task, then counter.
    pub counters: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_two_copies_of_a_plain_histogram_is_their_difference() {
        let mut plain = Histogram::new();
        assert_eq!(Copied::of(&plain), Copied::default());
        plain.record(5);
        let before = Copied::of(&plain);
        for value in [70, 12_345_678_901] {
            plain.record(value);
        }
        let since = Copied::of(&plain).since(&before);
        assert_eq!((since.count(), since.sum()), (2, 70 + 12_345_678_901));
        assert_eq!(Copied::of(&plain).since(&Copied::default()), plain);
    }
}
