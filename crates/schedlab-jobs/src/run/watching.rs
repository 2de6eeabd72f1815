//! Jobs that were held up, and workers without a job that could not run, as the run itself sees them.

use super::held::{HELD_MAX, Held, Watch};
use crate::policy::Nanos;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// How many runs there were: each has a number.
static RUNS: AtomicU64 = AtomicU64::new(0);
/// Between two jobs of a worker, a shorter time is not looked into.
const GAP_NS: Nanos = 100_000;
/// Workers that could not run for a shorter time are not noted.
const STOPPED_NS: Nanos = 20_000;
/// Stolen time is read after a longer time without a job.
const LATE_NS: Nanos = 5_000_000;
/// Stolen time is read this often while workers are in jobs: a reading takes some ten microseconds.
const STOLEN_NS: Nanos = 50_000_000;

std::thread_local! {
    /// What the calling thread keeps of the run that it works for.
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

/// What a run asks the machine about the threads of its workers.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// For how long the calling thread has waited for a CPU while other tasks had it; `None`: the kernel does not tell.
    pub own_delay: fn() -> Option<Nanos>,
    /// The CPU of the calling thread, and for how long each CPU was stolen; `None`: the kernel does not tell.
    pub stolen: fn() -> Option<(usize, Vec<Nanos>)>,
}

/// A time in which a worker had no job, and for how much of it the worker could not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The worker, from 0.
    pub worker: usize,
    /// The end of the worker's job before, on the run's clock; 0: it had none.
    pub from: Nanos,
    /// When this was read.
    pub to: Nanos,
    /// Run delay of the worker's thread, and time stolen from its CPU.
    pub ns: Nanos,
}

/// A sleep of a worker, on the run's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slept {
    /// From when on others could wake the worker.
    pub from: Nanos,
    /// When the worker was woken, or its timer ended; never: it slept on.
    pub(crate) woken: Nanos,
    /// When the worker was awake.
    pub to: Nanos,
}

struct Own {
    run: u64,
    watch: Watch,
    /// Planned time of the jobs since the last reading.
    planned_ns: Nanos,
    /// When the last job ended.
    ended: Nanos,
}

/// Looks for jobs and workers that were held up.
#[derive(Debug)]
pub(super) struct Watching {
    run: u64,
    machine: Machine,
    /// A thread reads its run delay after jobs that were planned to take this long together: a reading takes some
    /// microseconds.
    look_ns: Nanos,
    /// When stolen time was read, and that of each CPU.
    stolen: Mutex<(Nanos, Vec<Nanos>)>,
    /// The stalls that were seen, each with its worker.
    held: Mutex<Vec<(usize, Held)>>,
    stopped: Mutex<Vec<Stopped>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn push<T>(to: &Mutex<Vec<T>>, one: T) {
    let mut all = lock(to);
    if all.len() < HELD_MAX {
        all.push(one);
    }
}

impl Watching {
    pub(super) fn new(machine: Machine, look_ns: Nanos) -> Self {
        Self {
            run: RUNS.fetch_add(1, Relaxed),
            machine,
            look_ns,
            stolen: Mutex::new((0, (machine.stolen)().map_or_else(Vec::new, |(_, all)| all))),
            held: Mutex::default(),
            stopped: Mutex::default(),
        }
    }

    /// A worker is about to begin a job.
    pub(super) fn begin(&self, worker: usize, now: Nanos) {
        OWN.with_borrow_mut(|own| {
            let is_new = own.as_ref().is_none_or(|own| own.run != self.run);
            if is_new {
                // A thread that has worked for no run has waited for no CPU, as far as this matters.
                let last = own.as_ref().map_or(Some(0), |own| own.watch.last());
                let watch = Watch::since(self.machine.own_delay, last);
                *own = Some(Own { run: self.run, watch, planned_ns: 0, ended: 0 });
            }
            let Some(Own { watch, ended, .. }) = own else { return };
            if is_new || now.saturating_sub(*ended) >= GAP_NS {
                self.look_back(worker, *ended, now, watch);
            }
        });
    }

    /// Whether the worker could run since its job before.
    fn look_back(&self, worker: usize, from: Nanos, now: Nanos, watch: &mut Watch) {
        let delayed = watch.look().unwrap_or(0);
        let stolen = if now.saturating_sub(from) >= LATE_NS { self.stolen_since(now) } else { 0 };
        let ns = delayed + stolen;
        if ns >= STOPPED_NS {
            push(&self.stopped, Stopped { worker, from, to: now, ns });
        }
    }

    /// What was stolen from the CPU of the calling thread since that was read last.
    fn stolen_since(&self, now: Nanos) -> Nanos {
        let Some((cpu, all)) = (self.machine.stolen)() else { return 0 };
        let mut known = lock(&self.stolen);
        let at = |all: &[Nanos]| all.get(cpu).copied().unwrap_or(0);
        let since = at(&all).saturating_sub(at(&known.1));
        *known = (now, all);
        since
    }

    /// Reads the clock after a job and notes a stall.
    pub(super) fn end(&self, worker: usize, begin: Nanos, took_ns: Nanos, planned_ns: Nanos) {
        let ended = begin + took_ns;
        let held = OWN.with_borrow_mut(|own| {
            let Own { watch, planned_ns: since, ended: last, .. } = own.as_mut()?;
            *last = ended;
            *since += planned_ns;
            let held = watch.note(begin, took_ns, planned_ns);
            if held.is_none() && *since < self.look_ns {
                return None;
            }
            if held.is_none() {
                watch.look();
            }
            *since = 0;
            let read = lock(&self.stolen).0;
            if ended >= read + STOLEN_NS {
                self.stolen_since(ended);
            }
            held
        });
        if let Some(held) = held {
            push(&self.held, (worker, held));
        }
    }

    /// In order of time.
    pub(super) fn held(&self) -> Vec<(usize, Held)> {
        let mut all = lock(&self.held).clone();
        all.sort_by_key(|(worker, held)| (held.from, *worker));
        all
    }

    pub(super) fn stopped(&self) -> Vec<Stopped> {
        lock(&self.stopped).clone()
    }

    /// The files that the kernel does not have.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let delay = (self.machine.own_delay)().is_none().then_some("/proc/PID/schedstat");
        let stolen = (self.machine.stolen)().is_none().then_some("/proc/stat");
        delay.into_iter().chain(stolen).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    std::thread_local! {
        static DELAY_NS: Cell<Nanos> = const { Cell::new(0) };
        static STOLEN_NS: Cell<Nanos> = const { Cell::new(0) };
        static READINGS: Cell<u32> = const { Cell::new(0) };
    }

    fn read() -> Option<Nanos> {
        READINGS.set(READINGS.get() + 1);
        Some(DELAY_NS.get())
    }

    const MACHINE: Machine =
        Machine { own_delay: read, stolen: || Some((1, vec![0, STOLEN_NS.get()])) };

    #[test]
    fn a_job_that_took_much_longer_than_planned_was_held_up_by_whoever_had_the_cpu() {
        let watching = Watching::new(MACHINE, 100_000);
        let job = |worker, begin, took_ns, delay_ns| {
            watching.begin(worker, begin);
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
    }

    #[test]
    fn a_thread_reads_its_run_delay_once_in_a_tenth_of_a_millisecond_of_work() {
        let watching = Watching::new(MACHINE, 100_000);
        let jobs = |count| {
            for _ in 0..count {
                watching.begin(0, 0);
                watching.end(0, 0, 10_000, 10_000);
            }
            READINGS.get()
        };
        assert_eq!((jobs(1), jobs(8), jobs(1), jobs(10)), (1, 1, 2, 3));
        // Another run begins with a reading of its own.
        Watching::new(MACHINE, 100_000).begin(0, 0);
        assert_eq!(READINGS.get(), 4);
    }

    #[test]
    fn a_worker_without_a_job_that_could_not_run_is_seen_at_its_next_job() {
        let watching = Watching::new(MACHINE, 100_000);
        let job = |begin| {
            watching.begin(0, begin);
            watching.end(0, begin, 50_000, 50_000);
        };
        job(1_000_000);
        // 30 ms in which another task had the CPU for 20, and the hypervisor for 4.
        DELAY_NS.set(DELAY_NS.get() + 20_000_000);
        STOLEN_NS.set(STOLEN_NS.get() + 4_000_000);
        job(31_050_000);
        let first = Stopped { worker: 0, from: 1_050_000, to: 31_050_000, ns: 24_000_000 };
        assert_eq!(watching.stopped(), [first]);
        // A short gap is not looked into.
        DELAY_NS.set(DELAY_NS.get() + 9_000_000);
        job(31_150_000);
        assert_eq!(watching.stopped().len(), 1);
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_named_and_not_guessed() {
        let nothing = Machine { own_delay: || None, stolen: || None };
        let watching = Watching::new(nothing, 100_000);
        watching.begin(0, 0);
        watching.end(0, 0, 10, 10);
        watching.begin(0, 90_000_000);
        assert_eq!(watching.stopped(), []);
        assert_eq!(watching.missing(), ["/proc/PID/schedstat", "/proc/stat"]);
        assert!(Watching::new(MACHINE, 1).missing().is_empty());
    }
}
