//! A pool's threads, and the ways to post jobs to them.

use crate::counts::Counts;
use crate::handle::{Completion, Handle, JobId, JobState};
use crate::job::{Asks, Item, Job, NEVER, Nanos, TaskRef, Times, Valued};
use crate::options::{Options, Request, ns};
use crate::plan::Plan;
use crate::policy::{Core, Hooks};
use crate::queues::{Deques, Queues};
use crate::sync::{Apart, this_thread};
use crate::worker::{self, work, worker_of};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, Thread};
use std::time::{Duration, Instant};

type Threads = Mutex<Vec<Option<Thread>>>;

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the threads of a pool share.
pub(crate) struct Shared<'env> {
    pub(crate) core: Core<'env, Deques<Item<'env>>>,
    pub(crate) options: Options,
    pub(crate) origin: Instant,
    /// By worker, once it runs.
    pub(crate) threads: Arc<Threads>,
    /// Threads that wait for the end of all jobs.
    waiting: AtomicUsize,
    drained: (Mutex<()>, Condvar),
    /// Workers that have not left.
    alive: (Mutex<Vec<usize>>, Condvar),
    /// Workers that wait inside jobs without running others.
    blocked: AtomicUsize,
    /// By worker, whether it runs a job.
    busy: Vec<Apart<AtomicBool>>,
}

impl<'env> Shared<'env> {
    fn new(
        options: Options,
    ) -> (Arc<Self>, Vec<<Deques<Item<'env>> as Queues<Item<'env>>>::Local>) {
        let origin = Instant::now();
        let workers = options.workers.max(1);
        let threads: Arc<Threads> = Arc::new(Mutex::new(vec![None; workers]));
        let (known, watch) = (Arc::clone(&threads), options.watch.clone());
        let wake = move |worker: usize| {
            if let Some(watch) = &watch {
                watch.wakes(worker);
            }
            if let Some(Some(thread)) = lock(&known).get(worker) {
                thread.unpark();
            }
        };
        let late = options.on_late.clone();
        let hooks = Hooks {
            clock: Box::new(move || ns(origin.elapsed())),
            wake: Box::new(wake),
            late: late.map(|late| Box::new(move |job| late(job)) as Box<_>),
        };
        let (core, locals) = Core::new(workers, options.backlog_max, options.late, hooks);
        let shared = Self {
            core,
            options,
            origin,
            threads,
            waiting: AtomicUsize::new(0),
            drained: (Mutex::new(()), Condvar::new()),
            alive: (Mutex::new(Vec::new()), Condvar::new()),
            blocked: AtomicUsize::new(0),
            busy: (0..workers).map(|_| Apart::default()).collect(),
        };
        (Arc::new(shared), locals)
    }

    pub(crate) fn instant(&self, at: Nanos) -> Option<Instant> {
        (at != NEVER).then(|| self.origin.checked_add(Duration::from_nanos(at))).flatten()
    }

    /// Prepares a worker's thread.
    pub(crate) fn set_up(&self, worker: usize) {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            let cpus = &self.options.cpus;
            if !cpus.is_empty() {
                let mut set = rustix::thread::CpuSet::new();
                set.set(cpus[worker % cpus.len()]);
                // A CPU that has vanished leaves the worker free.
                let _ = rustix::thread::sched_setaffinity(None, &set);
            }
            if let Some(nice) = self.options.nice {
                let _ = rustix::process::setpriority_process(None, nice);
            }
        }
        if let Some(hook) = &self.options.on_start {
            hook(worker);
        }
    }

    /// A worker's thread is about to end.
    pub(crate) fn left(&self, worker: usize) {
        self.tell_drained();
        lock(&self.alive.0).retain(|&alive| alive != worker);
        self.alive.1.notify_all();
    }

    /// Notes whether a worker runs a job.
    pub(crate) fn set_busy(&self, worker: usize, busy: bool) {
        self.busy[worker].0.store(busy, Release);
    }

    /// Blocks the current worker.
    pub(crate) fn block(&self, wait: impl FnOnce()) {
        self.blocked.fetch_add(1, SeqCst);
        wait();
        self.blocked.fetch_sub(1, SeqCst);
    }

    /// Calls those that wait for the end of all jobs, if it has come.
    pub(crate) fn tell_drained(&self) {
        fence(SeqCst);
        if self.waiting.load(SeqCst) > 0 && self.core.counters.live() == 0 {
            drop(lock(&self.drained.0));
            self.drained.1.notify_all();
        }
    }

    fn wait(&self, patience: Duration) -> bool {
        let end = Instant::now().checked_add(patience);
        self.waiting.fetch_add(1, SeqCst);
        fence(SeqCst);
        let mut held = lock(&self.drained.0);
        let drained = loop {
            if self.core.counters.live() == 0 {
                break true;
            }
            let Some(end) = end else {
                held = self.drained.1.wait(held).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break false;
            }
            let waited = self.drained.1.wait_timeout(held, left);
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(held);
        self.waiting.fetch_sub(1, SeqCst);
        drained
    }

    /// Waits until all workers have left; those that have not, since they run a job. One that runs none is about to
    /// leave, however long it takes the system to let it.
    fn wait_for_workers(&self, patience: Duration) -> Vec<usize> {
        let end = Instant::now().checked_add(patience);
        let mut alive = lock(&self.alive.0);
        while !alive.is_empty() {
            let Some(end) = end else {
                alive = self.alive.1.wait(alive).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() && alive.iter().all(|&worker| self.busy[worker].0.load(Acquire)) {
                break;
            }
            let waited = self.alive.1.wait_timeout(alive, left.max(Duration::from_millis(1)));
            alive = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        alive.clone()
    }

    fn close(&self) {
        self.core.close();
        self.tell_drained();
    }

    pub(crate) fn id(&self, task: &TaskRef<'env>) -> JobId {
        match self.core.place(task) {
            Some((place, serial)) => JobId { place: place as u64, serial },
            None => JobId { place: u64::MAX, serial: self.core.serial(task) },
        }
    }
}

/// Why a job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The backlog is full: back-pressure.
    #[error("the backlog is full; post again when jobs have ended")]
    Full,
    /// The pool is stopping.
    #[error("the pool is stopping")]
    Closed,
    /// The job would wait for one of a plan that was not posted.
    #[error("the job waits for a job that was not posted")]
    NotPosted,
}

/// A job that was not taken: its function comes back.
#[derive(thiserror::Error)]
#[error("{why}")]
pub struct Refused<F> {
    /// The reason.
    pub why: Refusal,
    /// The function of the job.
    pub function: F,
}

impl<F> fmt::Debug for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.why, f)
    }
}

/// Why waiting for all jobs ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The caller is a job of the pool, which would wait for itself.
    #[error("a job cannot wait for its own pool; wait for handles")]
    InsideJob,
    /// Jobs were left when the patience had passed.
    #[error("jobs are left")]
    Timeout,
}

/// How busy a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// Jobs that have not ended.
    pub backlog: u64,
    /// Number of workers.
    pub workers: usize,
    /// Workers that sleep.
    pub asleep: usize,
    /// Workers that wait inside jobs and run no others. If that is all of them, nothing goes on.
    pub blocked: usize,
}

/// A share in a pool. Each handle has one: several counts of them keep posters from waiting for one cache line.
pub(crate) struct Lease<'env>(Arc<Shared<'env>>);

impl<'env> Deref for Lease<'env> {
    type Target = Arc<Shared<'env>>;

    fn deref(&self) -> &Arc<Shared<'env>> {
        &self.0
    }
}

/// How many counts of handles there are.
const LEASES: usize = 8;

/// A way to post jobs to a pool. It can be cloned and taken into jobs.
#[derive(Clone)]
pub struct Spawner<'env> {
    shared: Arc<Shared<'env>>,
    leases: Arc<[Arc<Lease<'env>>]>,
}

impl fmt::Debug for Spawner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("load", &self.load()).finish()
    }
}

impl<'env> Spawner<'env> {
    fn new(shared: &Arc<Shared<'env>>) -> Self {
        let lease = || Arc::new(Lease(Arc::clone(shared)));
        let leases = (0..LEASES).map(|_| lease()).collect();
        Self { shared: Arc::clone(shared), leases }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<'env>> {
        &self.shared
    }

    pub(crate) fn lease(&self) -> Arc<Lease<'env>> {
        Arc::clone(&self.leases[this_thread() % LEASES])
    }

    /// Posts a job that may start at once.
    ///
    /// # Errors
    /// If the backlog is full or the pool is stopping, the function comes back.
    pub fn spawn<F, T>(&self, function: F) -> Result<Handle<'env, T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'env,
        T: Send + 'env,
    {
        self.spawn_with(Request::new(), function)
    }

    /// Posts a job with what it asks for.
    ///
    /// # Errors
    /// As [`Spawner::spawn`], and if the job would wait for one that was not posted.
    pub fn spawn_with<F, T>(
        &self,
        request: Request<'env>,
        function: F,
    ) -> Result<Handle<'env, T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'env,
        T: Send + 'env,
    {
        match self.admit(&request) {
            Ok(at) => Ok(self.launch(request, at, || Some(function()))),
            Err(why) => Err(Refused { why, function }),
        }
    }

    /// Posts a job that may fail: it does so by returning `None`.
    ///
    /// # Errors
    /// As [`Spawner::spawn_with`].
    pub fn spawn_fallible<F, T>(
        &self,
        request: Request<'env>,
        function: F,
    ) -> Result<Handle<'env, T>, Refused<F>>
    where
        F: FnOnce() -> Option<T> + Send + 'env,
        T: Send + 'env,
    {
        match self.admit(&request) {
            Ok(at) => Ok(self.launch(request, at, function)),
            Err(why) => Err(Refused { why, function }),
        }
    }

    /// Posts a job without a handle: somewhat cheaper, for jobs that nobody waits for. A panic is counted.
    ///
    /// # Errors
    /// As [`Spawner::spawn_with`].
    pub fn post<F>(&self, function: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'env,
    {
        let at = worker_of(&self.shared);
        let why = if self.shared.core.is_closed() {
            Some(Refusal::Closed)
        } else if self.shared.core.counters.reserve(1, at) {
            None
        } else {
            Some(Refusal::Full)
        };
        if let Some(why) = why {
            return Err(Refused { why, function });
        }
        self.shared.core.post_bare(Box::new(function), at);
        if self.shared.core.is_closed() {
            self.shared.tell_drained();
        }
        Ok(())
    }

    /// Posts a job that ends after its function has returned, when its completion is told: by a callback, or by
    /// another thread. Its worker is free meanwhile.
    ///
    /// # Errors
    /// As [`Spawner::spawn_with`].
    pub fn spawn_deferred<F, T>(
        &self,
        request: Request<'env>,
        function: F,
    ) -> Result<Handle<'env, T>, Refused<F>>
    where
        F: FnOnce(Completion<'env, T>) + Send + 'env,
        T: Send + 'env,
    {
        let at = match self.admit(&request) {
            Ok(at) => at,
            Err(why) => return Err(Refused { why, function }),
        };
        let job = self.deferred(&request, request.after.is_empty(), function);
        Ok(self.launch_known(job, request, at))
    }

    /// A job that its completion ends.
    pub(crate) fn deferred<F, T>(
        &self,
        request: &Request<'env>,
        queued: bool,
        function: F,
    ) -> Arc<dyn Valued<'env, T> + 'env>
    where
        F: FnOnce(Completion<'env, T>) + Send + 'env,
        T: Send + 'env,
    {
        let own: Arc<Mutex<Option<Weak<dyn Valued<'env, T> + 'env>>>> = Arc::default();
        let (place, shared) = (Arc::clone(&own), self.lease());
        let deferred = move || -> Option<T> {
            let job = lock(&place).take().and_then(|job| job.upgrade());
            function(Completion::new(job, shared));
            None
        };
        let asks = Asks { queued, deferred: true, ..request.asks(self.shared.origin) };
        let job: Arc<dyn Valued<'env, T> + 'env> =
            Arc::new(Job::<_, _, Times>::new(&asks, deferred));
        *lock(&own) = Some(Arc::downgrade(&job));
        job
    }

    fn admit(&self, request: &Request<'env>) -> Result<Option<usize>, Refusal> {
        if self.shared.core.is_closed() {
            return Err(Refusal::Closed);
        }
        if request.after.iter().any(|task| task.head().is_unposted()) {
            return Err(Refusal::NotPosted);
        }
        let at = worker_of(&self.shared);
        if self.shared.core.counters.reserve(1, at) { Ok(at) } else { Err(Refusal::Full) }
    }

    /// A job of its own, which asks for what the request says.
    pub(crate) fn job<T: Send + 'env>(
        &self,
        request: &Request<'env>,
        queued: bool,
        function: impl FnOnce() -> Option<T> + Send + 'env,
    ) -> Arc<dyn Valued<'env, T> + 'env> {
        if request.is_plain() {
            let asks = Asks { queued, expected_us: request.expected_us(), ..Asks::default() };
            return Arc::new(Job::<_, _, ()>::new(&asks, function));
        }
        let asks = Asks { queued, ..request.asks(self.shared.origin) };
        Arc::new(Job::<_, _, Times>::new(&asks, function))
    }

    fn launch<T: Send + 'env>(
        &self,
        request: Request<'env>,
        at: Option<usize>,
        function: impl FnOnce() -> Option<T> + Send + 'env,
    ) -> Handle<'env, T> {
        let job = self.job(&request, request.after.is_empty(), function);
        self.launch_known(job, request, at)
    }

    fn launch_known<T>(
        &self,
        job: Arc<dyn Valued<'env, T> + 'env>,
        request: Request<'env>,
        at: Option<usize>,
    ) -> Handle<'env, T> {
        let task: TaskRef<'env> = Arc::clone(&job) as TaskRef<'env>;
        self.shared.core.post(task, request.after, at);
        if self.shared.core.is_closed() {
            self.shared.tell_drained();
        }
        Handle::new(job, self.lease())
    }

    /// An empty plan for this pool.
    pub fn plan(&self) -> Plan<'env> {
        Plan::new(self.clone())
    }

    /// Drops a job that has not started, and all jobs that depend on it; false if it has.
    pub fn cancel(&self, id: JobId) -> bool {
        let task =
            usize::try_from(id.place).ok().and_then(|p| self.shared.core.at_place(p, id.serial));
        let cancelled =
            task.is_some_and(|task| self.shared.core.cancel(&task, worker_of(&self.shared)));
        self.shared.tell_drained();
        cancelled
    }

    /// Where a job is: [`JobState::Ended`] however long ago that was.
    pub fn state(&self, id: JobId) -> JobState {
        let task =
            usize::try_from(id.place).ok().and_then(|p| self.shared.core.at_place(p, id.serial));
        task.map_or(JobState::Ended, |task| JobState::of(task.head().stage()))
    }

    /// Switches a stream off: its jobs that have not started are dropped when their turn comes, and later ones too,
    /// until it is on again. Stream 0 stays on.
    pub fn switch_off(&self, stream: u16) {
        self.shared.core.set_stream(stream, true);
    }

    /// Switches a stream on, for jobs that are posted from now on.
    pub fn switch_on(&self, stream: u16) {
        self.shared.core.set_stream(stream, false);
    }

    /// Waits until all jobs have ended.
    ///
    /// # Errors
    /// Inside a job of this pool, and when the patience has passed; `Duration::MAX` waits for ever.
    pub fn wait(&self, patience: Duration) -> Result<(), WaitError> {
        if worker_of(&self.shared).is_some() {
            return Err(WaitError::InsideJob);
        }
        if self.shared.wait(patience) { Ok(()) } else { Err(WaitError::Timeout) }
    }

    /// What became of the jobs so far.
    pub fn counts(&self) -> Counts {
        self.shared.core.counters.counts()
    }

    /// How busy the pool is now.
    pub fn load(&self) -> Load {
        Load {
            backlog: self.shared.core.counters.live(),
            workers: self.shared.options.workers,
            asleep: self.shared.core.asleep(),
            blocked: self.shared.blocked.load(SeqCst),
        }
    }

    /// The start of the pool's clock: nanoseconds of C and of logs count from it.
    pub fn origin(&self) -> Instant {
        self.shared.origin
    }

    /// Stops taking jobs and cancels what has not started, without waiting. A stop of many pools closes each first.
    pub fn close(&self) {
        self.shared.close();
    }
}

/// How a pool stopped.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// What became of the jobs.
    pub counts: Counts,
    /// Workers that still run a job.
    pub stuck: Vec<usize>,
}

/// A running pool. Dropped without [`Pool::stop`], it cancels what has not started and does not wait.
pub struct Pool {
    spawner: Spawner<'static>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("load", &self.load()).finish()
    }
}

impl Deref for Pool {
    type Target = Spawner<'static>;

    fn deref(&self) -> &Spawner<'static> {
        &self.spawner
    }
}

impl Pool {
    /// Starts the workers.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start(mut options: Options) -> io::Result<Self> {
        options.workers = options.workers.max(1);
        let (shared, locals) = Shared::new(options);
        let pool = Self { spawner: Spawner::new(&shared) };
        for (number, local) in locals.into_iter().enumerate() {
            let shared = Arc::clone(&shared);
            let name = format!("{}{number}", shared.options.name);
            lock(&shared.alive.0).push(number);
            let own = Arc::clone(&shared);
            let started = Builder::new().name(name).spawn(move || work(&own, number, &local));
            if let Err(error) = started {
                shared.left(number);
                return Err(error);
            }
        }
        Ok(pool)
    }

    /// Runs `body` with a pool whose jobs may borrow what lives longer than this call. It returns when all jobs have
    /// ended and the workers have left.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn scoped<'env, R>(
        mut options: Options,
        body: impl FnOnce(&Spawner<'env>) -> R,
    ) -> io::Result<R> {
        options.workers = options.workers.max(1);
        let (shared, locals) = Shared::new(options);
        std::thread::scope(|scope| {
            // Whatever happens, the workers leave, or the scope would wait for ever.
            let closing = Closing(&shared);
            for (number, local) in locals.into_iter().enumerate() {
                let name = format!("{}{number}", shared.options.name);
                let own = Arc::clone(&shared);
                Builder::new()
                    .name(name)
                    .spawn_scoped(scope, move || work(&own, number, &local))?;
            }
            let result = body(&Spawner::new(&shared));
            shared.wait(Duration::MAX);
            drop(closing);
            Ok(result)
        })
    }

    /// A way to post jobs that can be kept.
    pub fn spawner(&self) -> Spawner<'static> {
        self.spawner.clone()
    }

    /// Stops the pool: cancels what has not started, and waits for what runs. Workers that still run a job when the
    /// patience has passed are reported as stuck and left behind; `Duration::MAX` waits for ever.
    pub fn stop(self, patience: Duration) -> Report {
        let shared = self.spawner.shared();
        shared.close();
        // A job that stops its own pool does not wait for itself.
        let own = worker_of(shared);
        let patience = if own.is_some() { Duration::ZERO } else { patience };
        let stuck = shared.wait_for_workers(patience);
        if !stuck.is_empty() {
            shared.core.cancel_dependents();
        }
        shared.core.cancel_all();
        shared.tell_drained();
        Report { counts: self.counts(), stuck }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.spawner.shared.close();
    }
}

/// Closes a pool when it goes.
struct Closing<'a, 'env>(&'a Shared<'env>);

impl Drop for Closing<'_, '_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

pub use worker::current_worker;
