//! What a pool is asked for.

use crate::policy::{Late, LateJob};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Called on a worker's thread, with the number of the worker.
type OnStart = Arc<dyn Fn(usize) + Send + Sync>;
/// Called with the number of a worker, and how it slept.
type OnSleep = Arc<dyn Fn(usize, Sleep) + Send + Sync>;
/// Called for each job that is too late.
type OnLate = Arc<dyn Fn(LateJob) + Send + Sync>;

/// A sleep of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(
    not(any(test, feature = "model")),
    expect(unreachable_pub, reason = "without a rig, nobody asks")
)]
pub struct Sleep {
    /// From when on others could wake the worker.
    pub from: Instant,
    /// The start for which the worker was to be awake by itself, if there was one.
    pub until: Option<Instant>,
    /// When another thread decided to wake the worker; `None`: none did.
    pub woken: Option<Instant>,
    /// When the worker was awake.
    pub to: Instant,
}

/// How a pool is set up.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Number of workers, at least 1.
    pub(crate) workers: usize,
    /// The number of jobs that have not ended beyond which posting is refused.
    pub(crate) backlog_max: usize,
    /// What happens to jobs that are too late.
    pub(crate) late: Late,
    /// Each worker's thread is called this and its number. Linux shows the first 15 bytes.
    pub(crate) name: String,
    /// CPUs for the workers; worker *n* is bound to entry *n* modulo their number. Empty: the workers are free.
    pub(crate) cpus: Vec<usize>,
    /// The nice value of the workers' threads; `None`: that of the thread that starts the pool.
    pub(crate) nice: Option<i32>,
    /// How many jobs may wait for handles on one worker, each inside the one before; the next one blocks its worker.
    pub(crate) depth_max: usize,
    /// Called on each worker's thread first, with its number.
    pub(crate) on_start: Option<OnStart>,
    /// Called when a job is too late, by the worker that finds it. The hook may post and cancel.
    pub(crate) on_late: Option<OnLate>,
    /// Called on a worker's thread after each sleep.
    pub(crate) on_sleep: Option<OnSleep>,
}

impl Options {
    /// The usual pool of `workers` workers; 0 means one for each CPU that this thread may use.
    pub fn new(workers: usize) -> Self {
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            workers: if workers == 0 { cpus() } else { workers },
            backlog_max: 8 << 20,
            late: Late::default(),
            name: "worker".to_owned(),
            cpus: Vec::new(),
            nice: None,
            depth_max: 64,
            on_start: None,
            on_late: None,
            on_sleep: None,
        }
    }

    /// The options with a limit of jobs that have not ended.
    #[must_use]
    pub fn backlog_max(mut self, jobs: usize) -> Self {
        self.backlog_max = jobs;
        self
    }

    /// The options with what happens to late jobs.
    #[must_use]
    pub fn late(mut self, late: Late) -> Self {
        self.late = late;
        self
    }

    /// The options with a name for the workers' threads.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// The options with CPUs for the workers.
    #[must_use]
    pub fn cpus(mut self, cpus: Vec<usize>) -> Self {
        self.cpus = cpus;
        self
    }

    /// The options with a nice value for the workers' threads.
    #[must_use]
    pub fn nice(mut self, nice: i32) -> Self {
        self.nice = Some(nice);
        self
    }

    /// The options with the number of jobs that may wait inside one another.
    #[must_use]
    pub fn depth_max(mut self, jobs: usize) -> Self {
        self.depth_max = jobs;
        self
    }

    /// The options with a hook that each worker calls first, such as to set its policy or a real-time priority. A panic
    /// of the hook does not end the worker.
    #[must_use]
    pub fn on_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.on_start = Some(Arc::new(hook));
        self
    }

    /// The options with a hook that hears of late jobs. A panic of the hook does not end the worker.
    #[must_use]
    pub fn on_late(mut self, hook: impl Fn(LateJob) + Send + Sync + 'static) -> Self {
        self.on_late = Some(Arc::new(hook));
        self
    }

    /// The options with a hook that each worker calls after each of its sleeps, with its number. It must not panic. For a
    /// rig, as the model is.
    #[cfg(any(test, feature = "model"))]
    #[must_use]
    pub fn on_sleep(mut self, hook: impl Fn(usize, Sleep) + Send + Sync + 'static) -> Self {
        self.on_sleep = Some(Arc::new(hook));
        self
    }
}

pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
