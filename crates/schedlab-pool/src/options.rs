//! What a pool is asked for.

use crate::policy::{Late, LateJob};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Called on a worker's thread, with the number of the worker.
type OnStart = Arc<dyn Fn(usize) + Send + Sync>;
/// Called for each job that is too late.
type OnLate = Arc<dyn Fn(LateJob) + Send + Sync>;

/// How a pool is set up.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Number of workers, at least 1.
    pub workers: usize,
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
    /// Told of each job's begin and end, and when a worker sleeps.
    pub(crate) watch: Option<Arc<dyn Watch>>,
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
            watch: None,
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

    /// The options with a watcher of the workers.
    #[must_use]
    pub fn watch(mut self, watch: Arc<dyn Watch>) -> Self {
        self.watch = Some(watch);
        self
    }
}

/// Hears what workers do, on their threads. All hooks do nothing by default. A pool without a watcher pays for none.
pub trait Watch: Send + Sync {
    /// A worker begins a job.
    fn begins(&self, _worker: usize) {}
    /// A worker has ended a job.
    fn ended(&self, _worker: usize) {}
    /// A worker goes to sleep, until the next start if it keeps one.
    fn parks(&self, _worker: usize, _until: Option<Instant>) {}
    /// A worker that slept is awake.
    fn unparked(&self, _worker: usize) {}
    /// Somebody wakes a worker.
    fn wakes(&self, _worker: usize) {}
}

pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
