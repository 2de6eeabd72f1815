//! Waits of which no end was seen.

/// Waits that had not ended at the end of the window, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// As much as was seen of the longest.
    pub longest_ns: u64,
    /// The same of all together.
    pub sum_ns: u64,
}

impl Open {
    pub(crate) const fn record(&mut self, ns: u64) {
        self.sum_ns += ns;
        if ns > self.longest_ns {
            self.longest_ns = ns;
        }
    }

    pub(crate) const fn merge(&mut self, other: &Self) {
        self.sum_ns += other.sum_ns;
        if other.longest_ns > self.longest_ns {
            self.longest_ns = other.longest_ns;
        }
    }
}
