//! Waits of which no end was seen.

use schedlab_stats::Histogram;

/// Waits that had not ended at the end of the window, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// As much as was seen of the longest.
    pub longest_ns: u64,
    /// The same of all together.
    pub(crate) sum_ns: u64,
}

impl Open {
    pub(crate) const fn record(&mut self, ns: u64) {
        self.merge(&Self { longest_ns: ns, sum_ns: ns });
    }

    pub(crate) const fn merge(&mut self, other: &Self) {
        self.sum_ns += other.sum_ns;
        if other.longest_ns > self.longest_ns {
            self.longest_ns = other.longest_ns;
        }
    }

    /// The longest of these and of waits that ended, in nanoseconds; `None` without any.
    pub(crate) fn longest_with(self, ended: &Histogram) -> Option<u64> {
        ended.max().max(Some(self.longest_ns).filter(|ns| *ns > 0))
    }

    /// These and waits that ended together, in nanoseconds.
    pub(crate) const fn sum_with(self, ended: &Histogram) -> u64 {
        ended.sum() + self.sum_ns
    }
}
