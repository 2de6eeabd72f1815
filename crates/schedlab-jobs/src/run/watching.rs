//! Jobs that were held up, as the run itself sees them.

use crate::policy::Nanos;
use crate::worker_stalls::{During, HELD_MAX, Held, Watch, lost_in_job};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// A thread reads its run delay after jobs that were planned to take this long together: a reading takes some
/// microseconds.
const LOOK_NS: Nanos = 100_000;

/// How many runs there were: each has a number.
static RUNS: AtomicU64 = AtomicU64::new(0);

std::thread_local! {
    /// What the calling thread keeps of the run that it works for.
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

struct Own {
    /// The number of the run.
    run: u64,
    watch: Watch,
    /// Planned time of the jobs since the last reading.
    planned_ns: Nanos,
}

/// Looks for jobs that were held up.
#[derive(Debug)]
pub(super) struct Watching {
    run: u64,
    run_delay: fn() -> Option<Nanos>,
    /// The stalls that were seen, each with its worker.
    held: Mutex<Vec<(usize, Held)>>,
}

impl Watching {
    pub(super) fn new(run_delay: fn() -> Option<Nanos>) -> Self {
        Self { run: RUNS.fetch_add(1, Relaxed), run_delay, held: Mutex::default() }
    }

    /// Reads the clock before a job.
    pub(super) fn begin(&self) {
        OWN.with_borrow_mut(|own| {
            if own.as_ref().is_none_or(|own| own.run != self.run) {
                let watch = Watch::start(Some(self.run_delay));
                *own = Some(Own { run: self.run, watch, planned_ns: 0 });
            }
        });
    }

    /// Reads the clock after a job and notes a stall.
    pub(super) fn end(&self, worker: usize, begin: Nanos, took_ns: Nanos, planned_ns: Nanos) {
        let mut held = Vec::new();
        OWN.with_borrow_mut(|own| {
            let Some(Own { watch, planned_ns: since, .. }) = own else { return };
            *since += planned_ns;
            watch.note(&mut held, During::Job, begin, lost_in_job(took_ns, planned_ns));
            if !held.is_empty() {
                *since = 0;
            } else if *since >= LOOK_NS {
                watch.look();
                *since = 0;
            }
        });
        if let Some(held) = held.pop() {
            let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() < HELD_MAX {
                all.push((worker, held));
            }
        }
    }

    /// In order of time.
    pub(super) fn held(&self) -> Vec<(usize, Held)> {
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.sort_by_key(|(worker, held)| (held.from, *worker));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    std::thread_local! {
        static DELAY_NS: Cell<Nanos> = const { Cell::new(0) };
        static READINGS: Cell<u32> = const { Cell::new(0) };
    }

    fn read() -> Option<Nanos> {
        READINGS.set(READINGS.get() + 1);
        Some(DELAY_NS.get())
    }

    #[test]
    fn a_job_that_took_much_longer_than_planned_was_held_up_by_whoever_had_the_cpu() {
        let watching = Watching::new(read);
        let job = |worker, begin, took_ns, delay_ns| {
            watching.begin();
            DELAY_NS.set(DELAY_NS.get() + delay_ns);
            watching.end(worker, begin, took_ns, 400_000);
        };
        job(0, 0, 499_000, 0);
        // A quarter longer, and 0.1 ms.
        job(0, 1_000_000, 500_000, 0);
        job(1, 3_000_000, 1_400_000, 499_000);
        job(0, 2_000_000, 1_400_000, 500_000);
        // Nothing is planned: nothing is too long.
        watching.end(0, 5_000_000, 9_000_000, 0);
        let found: Vec<_> = watching
            .held()
            .iter()
            .map(|(worker, held)| (*worker, held.from, held.lost_ns, held.by_machine()))
            .collect();
        assert_eq!(found, [(0, 2_000_000, 1_000_000, false), (1, 3_000_000, 1_000_000, true)]);
        assert!(watching.held().iter().all(|(_, held)| held.during == During::Job));
    }

    #[test]
    fn a_thread_reads_its_run_delay_once_in_a_tenth_of_a_millisecond_of_work() {
        let watching = Watching::new(read);
        let jobs = |count| {
            for _ in 0..count {
                watching.begin();
                watching.end(0, 0, 10_000, 10_000);
            }
            READINGS.get()
        };
        assert_eq!((jobs(1), jobs(8), jobs(1), jobs(10)), (1, 1, 2, 3));
        // Another run begins with a reading of its own.
        Watching::new(read).begin();
        assert_eq!(READINGS.get(), 4);
    }
}
