//! Histograms and counters that a task writes while others read: words of shared memory with one
//! writer each. Recording takes no lock and allocates nothing; a reader takes a copy at any time, and
//! what lies between two copies is their difference, so nothing ever has to be reset.

use schedlab_stats::Histogram;
use schedlab_workload::measure::Copied;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The largest value that has a bucket of its own: 4.9 hours in nanoseconds.
const LARGEST: u64 = (1 << 44) - 1;

/// Words before the buckets: sum, smallest + 1 (0: none), largest.
const HEAD: usize = 3;

/// How many words a live histogram has.
pub(super) fn words() -> usize {
    HEAD + Histogram::bucket_of(LARGEST) + 1
}

/// Adds without a locked instruction: the words have one writer.
#[inline]
fn add(word: &AtomicU64, by: u64) {
    word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
}

/// Adds `by` to a counter that only the caller writes.
#[inline]
pub(super) fn count(word: &AtomicU64, by: u64) {
    add(word, by);
}

/// A histogram in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Live<'a>(pub(super) &'a [AtomicU64]);

impl Live<'_> {
    /// Adds a value to the histogram.
    #[inline]
    pub(super) fn record(self, value: u64) {
        let value = value.min(LARGEST);
        add(&self.0[HEAD + Histogram::bucket_of(value)], 1);
        add(&self.0[0], value);
        let smallest = self.0[1].load(Relaxed);
        if smallest == 0 || value < smallest - 1 {
            self.0[1].store(value + 1, Relaxed);
        }
        if value > self.0[2].load(Relaxed) {
            self.0[2].store(value, Relaxed);
        }
    }

    /// A copy as it is now.
    pub(super) fn copy(self) -> Copied {
        let all: Vec<u64> = self.0.iter().map(|word| word.load(Relaxed)).collect();
        let last = all[HEAD..].iter().rposition(|&n| n > 0).map_or(0, |at| at + 1);
        let ends = (all[1] > 0).then(|| (all[1] - 1, all[2]));
        Copied::new(all[0], ends, all[HEAD..HEAD + last].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> &'static [AtomicU64] {
        schedlab_sys::shared::words(words()).unwrap()
    }

    #[test]
    fn a_live_histogram_reads_as_the_plain_one() {
        let memory = memory();
        let mut plain = Histogram::new();
        for value in [0, 1, 127, 128, 129, 1_000, 999_999, 12_345_678_901] {
            Live(memory).record(value);
            plain.record(value);
        }
        assert_eq!(Live(memory).copy().since(&Copied::default()), plain);
    }

    #[test]
    fn what_lies_between_two_copies_is_their_difference() {
        let memory = memory();
        Live(memory).record(5);
        let before = Live(memory).copy();
        for value in [70, 80] {
            Live(memory).record(value);
        }
        let since = Live(memory).copy().since(&before);
        assert_eq!(
            (since.count(), since.sum(), since.min(), since.max()),
            (2, 150, Some(70), Some(80))
        );
    }

    #[test]
    fn a_copy_made_between_two_words_of_a_record_is_still_a_histogram() {
        let memory = memory();
        Live(memory).record(70);
        // The bucket of a second value is there, its sum and maximum are not yet.
        count(&memory[HEAD + Histogram::bucket_of(900)], 1);
        let torn = Live(memory).copy().since(&Copied::default());
        assert_eq!(torn.count(), 2);
        assert!(torn.max().is_some_and(|max| max >= 900));
        let text = serde_json::to_string(&torn).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), torn);
    }

    #[test]
    fn a_value_beyond_all_buckets_falls_into_the_last() {
        let memory = memory();
        Live(memory).record(u64::MAX);
        assert_eq!(Live(memory).copy().since(&Copied::default()).max(), Some(LARGEST));
    }
}
