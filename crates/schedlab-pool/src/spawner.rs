//! The ways to post single jobs, and to ask for them.

use crate::counts::Counts;
use crate::handle::{Completion, Handle, JobId, JobState};
use crate::job::{Job, JobRequests, TaskRef, Times, Valued};
use crate::request::Request;
use crate::shared::{Lease, Shared, lock};
use crate::sync::this_thread;
use crate::worker::worker_of;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Why a job or a plan was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The backlog is full: back-pressure.
    #[error("the backlog is full; post again when jobs have ended")]
    Full,
    /// The pool is stopping.
    #[error("the pool is stopping")]
    Closed,
    /// A job would wait for one of a plan that was not posted.
    #[error("a job would wait for a job that was not posted")]
    NotPosted,
    /// A link of the plan names a job that it does not have.
    #[error("a link names job {0}, which the plan does not have")]
    NoSuchJob(usize),
    /// Jobs of the plan wait for each other in a circle. This is one of them.
    #[error("job {0} of the plan waits for itself, over other jobs")]
    Cycle(usize),
}

/// A job or a plan that was not taken: the function of the job, or the plan, comes back. A plan that is dropped cancels
/// its jobs.
#[derive(thiserror::Error)]
#[error("{why}")]
pub struct Refused<T> {
    /// The reason.
    pub why: Refusal,
    /// The function, or the plan.
    pub what: T,
}

impl<T> fmt::Debug for Refused<T> {
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
    /// Threads that run jobs; a thread that waits inside a job is one of them.
    pub workers: usize,
    /// Workers that sleep, those included that wait inside jobs for what to do.
    pub asleep: usize,
    /// Workers that wait inside jobs and run no others. If that is all of them, and no start comes, nothing goes on.
    pub blocked: usize,
}

/// How many counts of handles there are.
const LEASES: usize = 8;

/// A way to post jobs to a pool. It can be cloned and taken into jobs.
#[derive(Clone)]
pub struct Spawner<'env> {
    shared: Arc<Shared<'env>>,
    leases: Arc<[Arc<Lease<'env>>]>,
}

impl<'env> Spawner<'env> {
    pub(crate) fn new(shared: &Arc<Shared<'env>>) -> Self {
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
            Err(why) => Err(Refused { why, what: function }),
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
            Err(why) => Err(Refused { why, what: function }),
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
            return Err(Refused { why, what: function });
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
            Err(why) => return Err(Refused { why, what: function }),
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
        let place = Arc::clone(&own);
        let shared = self.lease();
        let deferred = move || -> Option<T> {
            let job = lock(&place).take().and_then(|job| job.upgrade());
            function(Completion::new(job, shared));
            None
        };
        let asks = JobRequests { queued, deferred: true, ..request.asks(self.shared.origin) };
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
            let asks =
                JobRequests { queued, expected_us: request.expected_us(), ..JobRequests::NONE };
            return Arc::new(Job::<_, _, ()>::new(&asks, function));
        }
        let asks = JobRequests { queued, ..request.asks(self.shared.origin) };
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
            blocked: self.shared.blocked.load(std::sync::atomic::Ordering::SeqCst),
        }
    }

    /// Stops taking jobs and cancels what has not started, without waiting. A stop of many pools closes each first.
    pub fn close(&self) {
        self.shared.close();
    }
}
