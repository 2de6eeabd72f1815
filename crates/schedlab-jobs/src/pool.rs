//! A pool by Lumiera's rules: threads that pull their work from one [`Agenda`], each in turn its manager.
//!
//! A worker's round, and what it may cost: one attempt at the token (a compare and swap), in which what
//! it has finished is given back and what is due is taken; the jobs, with nothing of ours between them but a
//! landing for panics; or a pause as the policy says.

mod binding;
mod worker;

pub use binding::{allowed, binding};
pub use worker::Context;

use crate::policy::{Agenda, Counts, JobId, Nanos, Plan, Policy, Posting};
use crate::run::Clock;
use crate::token::{Feed, Full, Token};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Messages that may wait at the entrance; posting beyond them is refused.
const ENTRANCE_MAX: usize = 1 << 16;
/// The most jobs that have not ended. The pool refuses further posts.
const BACKLOG_MAX: usize = 8 << 20;

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
    /// Called on each worker's thread first.
    pub on_start: Option<OnStart>,
}

impl Options {
    /// The usual pool of `workers` workers.
    pub fn new(workers: usize) -> Self {
        Self { policy: Policy::new(workers), on_start: None }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Why a posting was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// Too many jobs have not ended.
    #[error("the backlog is full; post again when jobs have ended")]
    Full,
    /// The pool is shutting down.
    #[error("the pool is shutting down")]
    Closed,
}

impl<J> Feed<Posting<J>> for Agenda<J> {
    fn feed(&mut self, messages: &mut Vec<Posting<J>>) {
        messages.drain(..).for_each(|posting| self.post(posting));
    }
}

struct Shared<R: Runner> {
    runner: R,
    options: Options,
    token: Token<Agenda<R::Job>, Posting<R::Job>>,
    clock: Clock,
    stop: AtomicBool,
    /// Woken when nothing is left to do.
    drained: (Mutex<()>, Condvar),
    /// Whom to unpark, by worker. Locked until all have started.
    threads: Mutex<Vec<Thread>>,
    /// The worker that began to nap last because the token was taken, plus one; 0: none.
    naps: AtomicUsize,
}

impl<R: Runner> Shared<R> {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// With the token, after a change of the agenda: who must wake for it, a worker that naps because it found the token
    /// taken included.
    fn whom_to_wake(&self, agenda: &mut Agenda<R::Job>) -> Option<usize> {
        let now = self.now();
        agenda.wake(now).or_else(|| {
            // A plain load first: hardly ever does anybody nap.
            let naps = self.naps.load(Ordering::Relaxed) != 0
                && agenda.head(now).is_some_and(|head| head <= now);
            naps.then(|| self.naps.swap(0, Ordering::AcqRel))?.checked_sub(1)
        })
    }

    /// Does `work`, which names workers that must wake to what it is given, also with the token. They are woken afterwards,
    /// without it.
    fn waking<T>(&self, work: impl FnOnce(&dyn Fn(Option<usize>)) -> T) -> T {
        let wakes = RefCell::new(Vec::new());
        let result = work(&|worker| wakes.borrow_mut().extend(worker));
        let wakes = wakes.into_inner();
        if !wakes.is_empty() {
            let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
            wakes.into_iter().for_each(|worker| threads[worker].unpark());
        }
        result
    }

    fn tell_drained(&self) {
        let _guard = self.drained.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.drained.1.notify_all();
    }
}

/// A way to a pool that can be kept and passed on.
pub struct Handle<R: Runner>(Arc<Shared<R>>);

impl<R: Runner> Clone for Handle<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Runner> Handle<R> {
    /// Changes the agenda, however long the token takes, and wakes whom that concerns.
    fn insist<T>(&self, work: impl FnOnce(&mut Agenda<R::Job>) -> T) -> T {
        let shared = &*self.0;
        let (result, is_empty) = shared.waking(|wake| {
            let decide = |agenda: &mut Agenda<R::Job>| wake(shared.whom_to_wake(agenda));
            shared.token.insist(
                |agenda| {
                    let result = work(agenda);
                    decide(agenda);
                    (result, agenda.backlog() == 0)
                },
                decide,
            )
        });
        if is_empty {
            shared.tell_drained();
        }
        result
    }

    /// Time on the pool's clock.
    pub fn now(&self) -> Nanos {
        self.0.now()
    }

    /// Posts a job without dependencies, without waiting for the token.
    ///
    /// # Errors
    /// When the pool has no room for it, or is shutting down.
    pub fn post(&self, posting: Posting<R::Job>) -> Result<(), PostError> {
        let shared = &*self.0;
        if shared.stop.load(Ordering::Relaxed) {
            return Err(PostError::Closed);
        }
        let mut posting = Some(posting);
        shared.waking(|wake| {
            let decide = |agenda: &mut Agenda<R::Job>| wake(shared.whom_to_wake(agenda));
            let post = |agenda: &mut Agenda<R::Job>| {
                if agenda.backlog() >= BACKLOG_MAX {
                    return Err(PostError::Full);
                }
                posting.take().into_iter().for_each(|posting| agenda.post(posting));
                decide(agenda);
                Ok(())
            };
            match (shared.token.attempt(post, decide), posting) {
                (None, Some(posting)) => {
                    let left = shared.token.leave(posting, decide);
                    left.map_err(|Full(_)| PostError::Full)
                }
                (posted, _) => posted.unwrap_or(Ok(())),
            }
        })
    }

    /// Posts a plan: jobs with dependencies; their ids in its order. Waits for the token.
    ///
    /// # Errors
    /// When the pool is shutting down.
    pub fn plan(&self, plan: Plan<R::Job>) -> Result<Vec<JobId>, PostError> {
        if self.0.stop.load(Ordering::Relaxed) {
            return Err(PostError::Closed);
        }
        Ok(self.insist(|agenda| agenda.plan(plan)))
    }

    /// Waits until nothing is left to do; false when that takes longer.
    pub fn wait(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let (mutex, condvar) = &self.0.drained;
        let mut guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        while self.0.token.insist(|agenda| agenda.backlog(), |_| ()) > 0 {
            let left = end.saturating_duration_since(Instant::now());
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
    /// The job has ended. If it has not ended well, its dependents are dropped.
    pub fn end(mut self, well: bool) {
        self.told = true;
        self.handle.insist(|agenda| agenda.complete(self.id, well));
    }
}

impl<R: Runner> Drop for Completion<R> {
    fn drop(&mut self) {
        if !self.told {
            self.handle.insist(|agenda| agenda.complete(self.id, false));
        }
    }
}

/// A running pool. If it is dropped without [`Pool::stop`], it asks its workers to end after the
/// jobs that they run, and does not wait for them.
pub struct Pool<R: Runner> {
    handle: Handle<R>,
    workers: Vec<JoinHandle<Spent>>,
}

/// What workers spent without a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Nanoseconds with the token, or trying to get it.
    pub(crate) management_ns: Nanos,
    /// Nanoseconds of backing off from contention.
    pub(crate) back_off_ns: Nanos,
}

/// How a pool ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What became of the jobs.
    pub counts: Counts,
    /// The sums of the workers that came back.
    pub(crate) spent: Spent,
    /// The number of workers that were stuck in a job.
    pub stuck: usize,
}

impl<R: Runner> Pool<R> {
    /// Starts the workers.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start(runner: R, options: Options, clock: Clock) -> std::io::Result<Self> {
        let workers = options.policy.workers;
        let bind = binding(&options.policy.cpus, workers);
        let shared = Arc::new(Shared {
            runner,
            token: Token::new(Agenda::new(options.policy.clone()), ENTRANCE_MAX),
            clock,
            stop: AtomicBool::new(false),
            drained: (Mutex::new(()), Condvar::new()),
            threads: Mutex::default(),
            naps: AtomicUsize::new(0),
            options,
        });
        let mut pool = Self { handle: Handle(Arc::clone(&shared)), workers: Vec::new() };
        let mut threads = shared.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for number in 0..workers {
            let handle = pool.handle.clone();
            let bind = Arc::clone(&bind);
            let builder = std::thread::Builder::new().name(format!("worker {number}"));
            let worker = builder.spawn(move || {
                bind(number);
                worker::work(&handle, number)
            })?;
            threads.push(worker.thread().clone());
            pool.workers.push(worker);
        }
        drop(threads);
        Ok(pool)
    }

    /// A way to this pool.
    pub fn handle(&self) -> &Handle<R> {
        &self.handle
    }

    /// Stops the workers after the jobs that they run now. Workers that do not come back within the
    /// patience are left behind and counted as stuck.
    pub fn stop(mut self, patience: Duration) -> Report {
        self.handle.0.stop.store(true, Ordering::SeqCst);
        let end = Instant::now() + patience;
        let mut spent = Spent::default();
        let mut stuck = 0;
        for worker in std::mem::take(&mut self.workers) {
            while !worker.is_finished() && Instant::now() < end {
                worker.thread().unpark();
                std::thread::sleep(Duration::from_micros(200));
            }
            if !worker.is_finished() {
                stuck += 1;
            } else if let Ok(own) = worker.join() {
                spent.management_ns += own.management_ns;
                spent.back_off_ns += own.back_off_ns;
            }
        }
        let counts = self.handle.insist(|agenda| agenda.counts());
        Report { counts, spent, stuck }
    }
}

impl<R: Runner> Drop for Pool<R> {
    fn drop(&mut self) {
        self.handle.0.stop.store(true, Ordering::SeqCst);
        self.workers.iter().for_each(|worker| worker.thread().unpark());
    }
}
