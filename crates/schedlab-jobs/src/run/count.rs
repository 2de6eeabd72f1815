//! How many jobs ran, counted by worker: exact without an atomic addition, since each worker has a counter of its own.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Workers with a counter of their own; the others share one.
const OWN: usize = 64;

/// In a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// The numbers of jobs that ran, by worker.
#[derive(Debug)]
pub(super) struct Counted {
    own: Vec<Counter>,
    shared: Counter,
}

impl Default for Counted {
    fn default() -> Self {
        let own = std::iter::repeat_with(Counter::default).take(OWN).collect();
        Self { own, shared: Counter::default() }
    }
}

impl Counted {
    /// A worker ran a job. No other thread says the same of this worker meanwhile.
    pub(super) fn add(&self, worker: usize) {
        match self.own.get(worker) {
            Some(Counter(count)) => count.store(count.load(Relaxed) + 1, Relaxed),
            None => {
                self.shared.0.fetch_add(1, Relaxed);
            }
        }
    }

    /// The number of all jobs that ran.
    pub(super) fn sum(&self) -> u64 {
        let own = self.own.iter().chain([&self.shared]).map(|counter| counter.0.load(Relaxed));
        own.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_count_apart_and_many_of_them_together() {
        let counted = Counted::default();
        std::thread::scope(|scope| {
            for worker in [0, 1, OWN, OWN + 1] {
                let counted = &counted;
                let work = move || (0..500).for_each(|_| counted.add(worker));
                std::thread::Builder::new().spawn_scoped(scope, work).expect("a thread");
            }
        });
        assert_eq!(counted.sum(), 2_000);
    }
}
