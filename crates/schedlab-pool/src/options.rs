//! What a pool and its jobs are asked for.

use crate::job::{Asks, Criticality, TaskRef};
use crate::policy::{Late, LateJob};
use std::fmt;
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
    pub backlog_max: usize,
    /// What happens to jobs that are too late.
    pub late: Late,
    /// Each worker's thread is called this and its number. Linux shows the first 15 bytes.
    pub name: String,
    /// CPUs for the workers; worker *n* is bound to entry *n* modulo their number. Empty: the workers are free.
    pub cpus: Vec<usize>,
    /// The nice value of the workers' threads; `None`: that of the thread that starts the pool.
    pub nice: Option<i32>,
    /// How many jobs may wait for handles on one worker, each inside the one before; the next one blocks its worker.
    pub depth_max: usize,
    /// Called on each worker's thread first, with its number.
    pub on_start: Option<OnStart>,
    /// Called when a job is too late, by the worker that finds it. The hook may post and cancel.
    pub on_late: Option<OnLate>,
    /// Told of each job's begin and end, and when a worker sleeps.
    pub watch: Option<Arc<dyn Watch>>,
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

    /// The options with a hook that each worker calls first.
    #[must_use]
    pub fn on_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.on_start = Some(Arc::new(hook));
        self
    }

    /// The options with a hook that hears of late jobs.
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

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("workers", &self.workers)
            .field("backlog_max", &self.backlog_max)
            .field("late", &self.late)
            .finish_non_exhaustive()
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

/// What a job asks for: when it may start, by when it has to end, what it waits for.
#[derive(Clone, Default)]
pub struct Request<'env> {
    start: Option<Instant>,
    deadline: Option<Instant>,
    latest_start: Option<Instant>,
    expected: Duration,
    criticality: Criticality,
    stream: u16,
    pub(crate) after: Vec<TaskRef<'env>>,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("start", &self.start)
            .field("deadline", &self.deadline)
            .field("criticality", &self.criticality)
            .finish_non_exhaustive()
    }
}

impl<'env> Request<'env> {
    /// A job that may start at once and has no deadline.
    pub fn new() -> Self {
        Self::default()
    }

    /// The earliest start of the job.
    #[must_use]
    pub fn start(mut self, start: Instant) -> Self {
        self.start = Some(start);
        self
    }

    /// The time by which the job has to be complete.
    #[must_use]
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The time after which it is too late to start, instead of the deadline.
    #[must_use]
    pub fn latest_start(mut self, latest: Instant) -> Self {
        self.latest_start = Some(latest);
        self
    }

    /// How long the job is expected to run, rounded up to microseconds: its predecessors have to end so much before it.
    #[must_use]
    pub fn expected(mut self, expected: Duration) -> Self {
        self.expected = expected;
        self
    }

    /// How much the job matters when not all can be done.
    #[must_use]
    pub fn criticality(mut self, criticality: Criticality) -> Self {
        self.criticality = criticality;
        self
    }

    /// The stream of the job. Jobs of one stream can be cancelled together; stream 0 cannot.
    #[must_use]
    pub fn stream(mut self, stream: u16) -> Self {
        self.stream = stream;
        self
    }

    /// The job starts after that of the handle has ended well. It is dropped if that one does not end well.
    #[must_use]
    pub fn after<T>(mut self, handle: &crate::Handle<'env, T>) -> Self {
        self.after.push(handle.task());
        self
    }

    /// Whether the job asks for nothing but other jobs. What it is expected to take counts for jobs without times too.
    pub(crate) fn is_plain(&self) -> bool {
        let asks = self.start.or(self.deadline).or(self.latest_start);
        asks.is_none() && self.criticality == Criticality::Normal && self.stream == 0
    }

    pub(crate) fn expected_us(&self) -> u32 {
        u32::try_from(self.expected.as_nanos().div_ceil(1000)).unwrap_or(u32::MAX)
    }

    pub(crate) fn asks(&self, origin: Instant) -> Asks {
        let time = |at: Option<Instant>, none| {
            at.map_or(none, |at| ns(at.saturating_duration_since(origin)))
        };
        let optional = self.criticality == Criticality::Optional;
        let start = self.start.or_else(|| optional.then(Instant::now));
        Asks {
            start: time(start, 0),
            deadline: time(self.deadline, crate::NEVER),
            latest_start: self.latest_start.map(|latest| time(Some(latest), 0)),
            expected_us: self.expected_us(),
            criticality: self.criticality,
            stream: self.stream,
            timed: self.start.is_some() || self.latest_start.is_some(),
            queued: false,
            deferred: false,
        }
    }
}

pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
