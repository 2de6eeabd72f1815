//! The pool: threads that pull their work from one [`Agenda`], each in turn its manager.
//!
//! A worker's round, and what it may cost: one attempt at the token (a compare and swap), in which what
//! it has finished is given back and what is due is taken; the jobs, with nothing of ours between them but a
//! landing for panics; or a pause as the policy says. With one worker and jobs of no length a
//! job costs about a tenth of a microsecond, a third of which is reading the clock.

mod backlog;
mod binding;
mod deferred_work;
mod events;
mod worker;

pub use crate::worker_stalls::{During, HELD_NS, Held};
pub use binding::{allowed, binding};
pub use events::{Event, Events, What, perfetto, text};
pub use worker::{Context, WorkerReport};

use crate::policy::{
    Agenda, Counts, Fate, Growth, JobId, Nanos, Notice, Plan, Policy, Posting, StreamId,
};
use crate::run::Clock;
use crate::sync::{self, AtomicBool, JoinHandle, Thread};
use crate::token::{Feed, Full, Token};
use backlog::Backlog;
use deferred_work::Errands;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How a job returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The job has ended.
    Done,
    /// It ended without what its dependents need: they are dropped.
    Failed,
    /// It goes on elsewhere and ends when its [`Completion`] is called. Without one it has failed, since nobody could end it.
    Pending,
}

/// Runs the jobs of a pool. Jobs themselves are small values; what they share lives here.
pub trait Runner: Send + Sync + Sized + 'static {
    /// The type of the pool's jobs.
    type Job: Send + 'static;

    /// Runs a job. A panic is contained: the job counts as panicked, its dependents are dropped.
    fn run(&self, job: Self::Job, context: &mut Context<'_, Self>) -> Flow;

    /// Hears of emergencies, from a worker's thread; the callback policy lives here. A panic is contained and counted
    /// ([`WorkerReport::notice_panics`]). It may post, cancel and switch streams off:
    ///
    /// ```
    /// use schedlab_jobs::policy::{Notice, Posting, Criticality, StreamId};
    /// use schedlab_jobs::pool::{Context, Flow, Handle, Options, Pool, Runner};
    /// use schedlab_jobs::run::Clock;
    /// use std::time::Duration;
    ///
    /// struct Frames;
    /// impl Runner for Frames {
    ///     type Job = u32;
    ///     fn run(&self, _: u32, _: &mut Context<'_, Self>) -> Flow { Flow::Done }
    ///     fn notice(&self, notice: Notice, pool: &Handle<Self>) {
    ///         // The preview, stream 2, has to wait when a frame that must come is late.
    ///         if matches!(notice, Notice::Emergency { .. }) { pool.switch_off(StreamId(2)); }
    ///     }
    /// }
    /// let pool = Pool::start(Frames, Options::new(1), Clock::start())?;
    /// let now = pool.handle().now();
    /// let preview = Posting { stream: StreamId(2), ..Posting::new(1, now + 3_600_000_000_000) };
    /// pool.handle().post(preview).expect("room");
    /// // Its deadline has passed already.
    /// let late = Posting::new(2, 0).deadline(now.saturating_sub(1));
    /// pool.handle().post(Posting { criticality: Criticality::Compulsory, ..late }).expect("room");
    /// assert!(pool.handle().wait(Duration::from_secs(10)));
    /// let counts = pool.stop(Duration::from_secs(1)).counts;
    /// assert_eq!((counts.done, counts.emergencies, counts.cancelled), (1, 1, 1));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    fn notice(&self, _notice: Notice, _pool: &Handle<Self>) {}
}

/// Jobs that are closures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Closures;

/// A closure as a job.
pub type Closure = Box<dyn FnOnce(&mut Context<'_, Closures>) -> Flow + Send>;

impl Runner for Closures {
    type Job = Closure;

    fn run(&self, job: Closure, context: &mut Context<'_, Self>) -> Flow {
        job(context)
    }
}

/// Called on each worker's thread before its first round, with its number: policy, slice, another place than
/// [`Policy::cpus`] says.
pub type OnStart = Arc<dyn Fn(usize) + Send + Sync>;

/// How a pool is set up.
#[derive(Clone)]
pub struct Options {
    /// The policy, with the number of workers.
    pub policy: Policy,
    /// Events kept per worker; 0 switches the trace off.
    pub events: usize,
    /// Called on each worker's thread first.
    pub on_start: Option<OnStart>,
    /// Reads how long the calling thread waited for a CPU while other tasks had it, over its life: then the workers'
    /// reports tell stalls of the machine from those. A few microseconds before each sleep.
    pub run_delay: Option<fn() -> Option<Nanos>>,
    /// The number of messages that may wait at the entrance. Posting beyond it is refused
    /// (back-pressure).
    pub entrance_max: usize,
}

impl Options {
    /// The usual pool of `workers` workers.
    pub fn new(workers: usize) -> Self {
        Self {
            policy: Policy::new(workers),
            events: 0,
            on_start: None,
            run_delay: None,
            entrance_max: 1 << 16,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Why a posting was not taken.
#[derive(PartialEq, Eq, thiserror::Error)]
pub enum PostError<T> {
    /// The backlog is full: back-pressure. What was posted comes back.
    #[error("the backlog is full; post again when jobs have ended")]
    Full(T),
    /// The pool is shutting down.
    #[error("the pool is shutting down")]
    Closed(T),
}

/// What comes back need not be printable.
impl<T> std::fmt::Debug for PostError<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl<J> Feed<Posting<J>> for Agenda<J> {
    fn feed(&mut self, messages: &mut Vec<Posting<J>>) {
        for posting in messages.drain(..) {
            self.post_left(posting);
        }
    }
}

pub(crate) struct Shared<R: Runner> {
    pub(crate) runner: R,
    pub(crate) options: Options,
    /// Binds a worker. Made by the one that starts the pool: a worker that starts another is bound itself.
    pub(crate) bind: OnStart,
    /// Where the workers may be together.
    cpus: Vec<usize>,
    pub(crate) token: Token<Agenda<R::Job>, Posting<R::Job>>,
    pub(crate) clock: Clock,
    pub(crate) stop: AtomicBool,
    pub(crate) backlog: Backlog,
    /// Woken when the backlog is empty.
    pub(crate) drained: (Mutex<()>, Condvar),
    /// Since when each worker runs what it pulled; 0: it does not.
    pub(crate) busy_since: Vec<AtomicU64>,
    /// Whom to unpark, by worker.
    pub(crate) threads: sync::Mutex<Vec<Option<Thread>>>,
    /// All that were started; a worker's number comes again when the pool shrank and grew.
    started: sync::Mutex<Vec<(usize, JoinHandle<WorkerReport>)>>,
    /// The worker that began to nap last because the token was taken, plus one; 0: none.
    pub(crate) naps: AtomicUsize,
}

impl<R: Runner> Shared<R> {
    pub(crate) fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// A worker that naps because it found the token taken. It is handed out once.
    pub(crate) fn napper(&self) -> Option<usize> {
        // A plain load first: hardly ever does anybody nap.
        let some = self.naps.load(Ordering::Relaxed) != 0;
        some.then(|| self.naps.swap(0, Ordering::AcqRel))?.checked_sub(1)
    }

    /// Wakes a worker that sleeps.
    pub(crate) fn notify(&self, worker: usize) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(thread)) = threads.get(worker) {
            thread.unpark();
        }
    }

    pub(crate) fn tell_drained(&self) {
        let _guard = self.drained.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.drained.1.notify_all();
    }
}

/// A way to a pool that can be kept and passed on.
pub struct Handle<R: Runner>(pub(crate) Arc<Shared<R>>);

impl<R: Runner> Clone for Handle<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Runner> Handle<R> {
    pub(crate) fn insist<T>(&self, work: impl FnOnce(&mut Agenda<R::Job>) -> T) -> T {
        let result = self.quietly(work);
        if self.0.backlog.is_empty() {
            self.0.tell_drained();
        }
        result
    }

    /// The same, without a word to those that wait for the end of all jobs.
    fn quietly<T>(&self, work: impl FnOnce(&mut Agenda<R::Job>) -> T) -> T {
        let shared = &*self.0;
        let mut errands = Errands::default();
        let mut late = Errands::default();
        let result = shared.token.insist(
            |agenda| {
                let result = work(agenda);
                errands.decide(shared, agenda);
                result
            },
            |agenda| late.decide(shared, agenda),
        );
        errands.run(self);
        late.run(self);
        result
    }

    /// Starts the workers that the policy asks for. One that the system refuses is asked for again later.
    pub(crate) fn start_all(&self, workers: Vec<usize>) {
        for worker in workers {
            if self.start(worker).is_err() {
                self.insist(|agenda| agenda.start_failed(worker));
            }
        }
    }

    fn start(&self, number: usize) -> std::io::Result<()> {
        let handle = self.clone();
        let mut started = self.0.started.lock().unwrap_or_else(PoisonError::into_inner);
        let builder = sync::Builder::new().name(format!("worker {number}"));
        let spawn = || builder.spawn(move || worker::work(&handle, number));
        // It is known before it can sleep, so that nobody calls it without effect.
        let mut threads = self.0.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = binding::unbound(&self.0.cpus, spawn)?;
        threads[number] = Some(thread.thread().clone());
        drop(threads);
        started.push((number, thread));
        Ok(())
    }

    /// Time on the pool's clock.
    pub fn now(&self) -> Nanos {
        self.0.now()
    }

    /// Posts a job without dependencies, without waiting for the token; its id.
    ///
    /// ```
    /// use schedlab_jobs::policy::{Policy, Posting};
    /// use schedlab_jobs::pool::{Closure, Closures, Flow, Options, Pool, PostError};
    /// use schedlab_jobs::run::Clock;
    ///
    /// let policy = Policy { backlog_max: 1, ..Policy::new(1) };
    /// let pool = Pool::start(Closures, Options { policy, ..Options::new(1) }, Clock::start())?;
    /// let in_an_hour = pool.handle().now() + 3_600_000_000_000;
    /// fn nothing() -> Closure { Box::new(|_| Flow::Done) }
    /// let job = || Posting::new(nothing(), in_an_hour);
    /// pool.handle().post(job()).expect("the first has room");
    /// // The second comes back: to be posted again later, or not at all.
    /// let Err(PostError::Full(again)) = pool.handle().post(job()) else { panic!("there is no room") };
    /// assert_eq!(again.start, in_an_hour);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Back-pressure: the job comes back when the backlog or the entrance is full.
    pub fn post(&self, posting: Posting<R::Job>) -> Result<JobId, PostError<Posting<R::Job>>> {
        let shared = &*self.0;
        if shared.stop.load(Ordering::Relaxed) {
            return Err(PostError::Closed(posting));
        }
        if !shared.backlog.reserve(1) {
            return Err(PostError::Full(posting));
        }
        let (mut errands, mut late) = (Errands::default(), Errands::default());
        let mut posting = Some(posting);
        let post = |agenda: &mut Agenda<R::Job>| {
            let id = posting.take().map(|posting| agenda.post(posting));
            errands.decide(shared, agenda);
            id
        };
        let posted = shared.token.attempt(post, |agenda| late.decide(shared, agenda)).flatten();
        let result = match (posted, posting) {
            (Some(id), _) => Ok(id),
            (None, Some(posting)) => self.leave(posting, &mut late),
            (None, None) => unreachable!("what was taken was posted"),
        };
        errands.run(self);
        late.run(self);
        result
    }

    /// Leaves a job at the entrance, since another thread holds the token.
    fn leave(
        &self,
        posting: Posting<R::Job>,
        late: &mut Errands<R::Job>,
    ) -> Result<JobId, PostError<Posting<R::Job>>> {
        let shared = &*self.0;
        match shared.token.leave(posting, |agenda| late.decide(shared, agenda)) {
            Ok(number) => Ok(JobId::of_ticket(number)),
            Err(Full(posting)) => {
                shared.backlog.release(1);
                Err(PostError::Full(posting))
            }
        }
    }

    /// Posts a plan: jobs with dependencies; their ids in its order. Waits for the token.
    ///
    /// # Errors
    /// Back-pressure: the plan comes back when the backlog is full.
    pub fn plan(&self, plan: Plan<R::Job>) -> Result<Vec<JobId>, PostError<Plan<R::Job>>> {
        if self.0.stop.load(Ordering::Relaxed) {
            return Err(PostError::Closed(plan));
        }
        if !self.0.backlog.reserve(plan.len()) {
            return Err(PostError::Full(plan));
        }
        Ok(self.insist(|agenda| agenda.plan(plan)))
    }

    /// Drops a job that has not started, with all that depend on it; false when it has.
    ///
    /// ```
    /// use schedlab_jobs::policy::{Plan, Posting};
    /// use schedlab_jobs::pool::{Closure, Closures, Flow, Options, Pool};
    /// use schedlab_jobs::run::Clock;
    /// fn nothing() -> Closure { Box::new(|_| Flow::Done) }
    ///
    /// let pool = Pool::start(Closures, Options::new(1), Clock::start())?;
    /// let in_an_hour = pool.handle().now() + 3_600_000_000_000;
    /// let mut plan = Plan::default();
    /// let first = plan.add(Posting::new(nothing(), in_an_hour));
    /// let then = plan.add(Posting::new(nothing(), 0));
    /// plan.link(first, then);
    /// let ids = pool.handle().plan(plan).expect("room");
    /// assert!(pool.handle().cancel(ids[0]));
    /// let counts = pool.handle().counts();
    /// assert_eq!((counts.cancelled, counts.abandoned), (1, 1));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn cancel(&self, id: JobId) -> bool {
        self.insist(|agenda| agenda.cancel(id))
    }

    /// What became of a job: the same answer however long ago that was.
    pub fn fate(&self, id: JobId) -> Fate {
        self.insist(|agenda| agenda.fate(id))
    }

    /// Switches a stream off; how many jobs that dropped.
    pub fn switch_off(&self, stream: StreamId) -> u64 {
        self.insist(|agenda| agenda.switch_off(stream))
    }

    /// Switches a stream on.
    pub fn switch_on(&self, stream: StreamId) {
        self.insist(|agenda| agenda.switch_on(stream));
    }

    /// What became of the jobs so far.
    pub fn counts(&self) -> Counts {
        self.insist(|agenda| agenda.counts())
    }

    /// What became of the pool's size so far.
    pub fn growth(&self) -> Growth {
        self.insist(|agenda| agenda.growth())
    }

    /// The load indicator; 1 is a lag of 200 µs with all workers awake.
    pub fn load(&self) -> f64 {
        self.insist(|agenda| agenda.load())
    }

    /// Blocks of records and edges ever needed at once: flat in a soak.
    pub fn memory(&self) -> (usize, usize) {
        self.insist(|agenda| agenda.memory())
    }

    /// Jobs that have not ended, those at the entrance included.
    fn left(&self) -> usize {
        self.quietly(|agenda| agenda.backlog())
    }

    /// Waits until nothing is left to do; false when that takes longer.
    pub fn wait(&self, patience: Duration) -> bool {
        let end = std::time::Instant::now() + patience;
        let (mutex, condvar) = &self.0.drained;
        let mut guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        while self.left() > 0 {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = condvar.wait_timeout(guard, left.min(Duration::from_millis(20)));
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Ends a job that returned [`Flow::Pending`]. The first word counts. Dropped without a word, it fails the job: its
/// function panicked, or what it went on as was lost. The job ends when its function has returned *and* this was called.
pub struct Completion<R: Runner> {
    handle: Handle<R>,
    id: JobId,
    told: bool,
}

impl<R: Runner> Completion<R> {
    /// The job has ended well: its dependents may start.
    pub fn complete(mut self) {
        self.told = true;
        self.handle.insist(|agenda| agenda.complete(self.id));
    }

    /// The job has failed: its dependents are dropped.
    pub fn fail(mut self) {
        self.told = true;
        self.handle.insist(|agenda| agenda.fail(self.id));
    }
}

impl<R: Runner> Drop for Completion<R> {
    fn drop(&mut self) {
        let id = self.id;
        if !self.told && !sync::is_over() {
            self.handle.insist(|agenda| agenda.fail(id));
        }
    }
}

/// A running pool. If it is dropped without [`Pool::stop`], it asks its workers to end after the
/// jobs that they run, and does not wait for them.
pub struct Pool<R: Runner> {
    handle: Handle<R>,
}

/// How a pool ended.
#[derive(Debug)]
pub struct Report {
    /// Per worker, of all threads that had its number; `None` where one did not come back.
    pub workers: Vec<Option<WorkerReport>>,
    /// What became of the jobs.
    pub counts: Counts,
    /// Workers that were stuck in a job, and for how long.
    pub stuck: Vec<(usize, Duration)>,
    /// What became of the pool's size.
    pub growth: Growth,
}

impl<R: Runner> Pool<R> {
    /// Starts the workers.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start(runner: R, options: Options, clock: Clock) -> std::io::Result<Self> {
        let workers = options.policy.workers;
        let first = options.policy.workers_min.clamp(1, workers);
        let shared = Arc::new(Shared {
            runner,
            token: Token::new(Agenda::new(options.policy.clone()), options.entrance_max),
            clock,
            stop: AtomicBool::new(false),
            backlog: Backlog::new(options.policy.backlog_max),
            drained: (Mutex::new(()), Condvar::new()),
            busy_since: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            threads: sync::Mutex::new(vec![None; workers]),
            started: sync::Mutex::new(Vec::new()),
            naps: AtomicUsize::new(0),
            bind: binding(&options.policy.cpus, workers),
            cpus: allowed().unwrap_or_default(),
            options,
        });
        let pool = Self { handle: Handle(shared) };
        for number in 0..first {
            pool.handle.start(number)?;
        }
        Ok(pool)
    }

    fn shared(&self) -> &Shared<R> {
        &self.handle.0
    }

    /// A way to this pool.
    pub fn handle(&self) -> &Handle<R> {
        &self.handle
    }

    /// Stops the workers after the jobs that they run now. Workers that do not come back within the
    /// patience are left behind and reported as stuck.
    pub fn stop(self, patience: Duration) -> Report {
        self.shared().stop.store(true, Ordering::SeqCst);
        let end = std::time::Instant::now() + patience;
        let mut stuck = Vec::new();
        let mut workers = vec![Some(WorkerReport::default()); self.shared().options.policy.workers];
        // Whom a worker started at the last moment, is in the list before that worker has ended.
        while let Some((number, thread)) = self.next_started() {
            if ended(&thread, end) {
                let report = thread.join().ok();
                let all = workers[number].take().zip(report);
                workers[number] = all.map(|(all, report)| all.joined(report));
            } else {
                let since = self.handle.0.busy_since[number].load(Ordering::Relaxed);
                let now = self.handle.0.now();
                stuck.push((number, Duration::from_nanos(now.saturating_sub(since))));
                workers[number] = None;
            }
        }
        let (counts, growth) = self.handle.insist(|agenda| (agenda.counts(), agenda.growth()));
        Report { workers, counts, stuck, growth }
    }

    fn next_started(&self) -> Option<(usize, JoinHandle<WorkerReport>)> {
        let mut started = self.shared().started.lock().unwrap_or_else(PoisonError::into_inner);
        (!started.is_empty()).then(|| started.remove(0))
    }
}

/// Calls a worker until it ends, or until then.
#[cfg(not(loom))]
fn ended(thread: &JoinHandle<WorkerReport>, end: std::time::Instant) -> bool {
    while !thread.is_finished() && std::time::Instant::now() < end {
        thread.thread().unpark();
        std::thread::sleep(Duration::from_micros(200));
    }
    thread.is_finished()
}

/// One call must be enough.
#[cfg(loom)]
fn ended(thread: &JoinHandle<WorkerReport>, _: std::time::Instant) -> bool {
    thread.thread().unpark();
    true
}

impl<R: Runner> Drop for Pool<R> {
    fn drop(&mut self) {
        if sync::is_over() {
            return;
        }
        self.shared().stop.store(true, Ordering::SeqCst);
        let threads = self.shared().threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().flatten().for_each(Thread::unpark);
    }
}
