//! Handles: wait for a job, get its value, cancel it, depend on it.

use crate::job::{Links, Stage, TaskRef, Valued};
use crate::shared::Lease;
use crate::worker;
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Names a job, also after it ended. It is never given to another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// Where the pool keeps the job; other jobs have the place later.
    pub place: u64,
    /// The number of the job, which no other job of the pool ever has.
    pub serial: u64,
}

/// Where a job is, and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobState {
    /// It has not started.
    Waiting,
    /// It runs, or its completion has not been told.
    Running,
    /// It ended. How, only its handle knows.
    Ended,
    /// It ended well.
    Done,
    /// It said itself that it failed, or its completion was dropped.
    Failed,
    /// It ended in a panic.
    Panicked,
    /// It was cancelled, alone or with its stream, or the pool stopped.
    Cancelled,
    /// It did not run: a job that it depends on did not end well.
    DependencyFailed,
    /// It was too late to start, and was dropped.
    TooLate,
    /// It was shed: a compulsory job was late.
    Shed,
}

impl JobState {
    pub(crate) fn of(stage: Stage) -> Self {
        match stage {
            Stage::Waiting | Stage::Queued => Self::Waiting,
            Stage::Running | Stage::Deferred | Stage::ToldDone | Stage::ToldFailed => Self::Running,
            Stage::Done => Self::Done,
            Stage::Failed => Self::Failed,
            Stage::Panicked => Self::Panicked,
            Stage::Cancelled => Self::Cancelled,
            Stage::Dependency => Self::DependencyFailed,
            Stage::TooLate => Self::TooLate,
            Stage::Shed => Self::Shed,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Cancelled => "it was cancelled",
            Self::DependencyFailed => "a job that it depends on did not end well",
            Self::TooLate => "it was too late to start",
            Self::Shed => "it was shed, since a compulsory job was late",
            _ => "it failed",
        }
    }
}

/// Why a job has no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// It panicked, with this payload.
    #[error("the job panicked")]
    Panicked(Box<dyn Any + Send>),
    /// It ended in another way than well, or did not run.
    #[error("the job has no value: {}", .0.text())]
    NoValue(JobState),
}

/// A job that was posted. Dropping the handle detaches the job: it runs all the same.
pub struct Handle<'env, T> {
    job: Arc<dyn Valued<'env, T> + 'env>,
    shared: Arc<Lease<'env>>,
}

impl<'env, T> Handle<'env, T> {
    pub(crate) fn new(job: Arc<dyn Valued<'env, T> + 'env>, shared: Arc<Lease<'env>>) -> Self {
        Self { job, shared }
    }

    pub(crate) fn task(&self) -> TaskRef<'env> {
        Arc::clone(&self.job) as TaskRef<'env>
    }

    /// Where the job is, or how it ended.
    pub fn state(&self) -> JobState {
        JobState::of(self.job.head().stage())
    }

    /// Waits until the job has ended, and leaves its value; false if it has not within `patience`. Inside a job and with
    /// `Duration::MAX`, the worker runs other jobs meanwhile.
    pub fn wait_ended(&self, patience: Duration) -> bool {
        let end = Instant::now().checked_add(patience).filter(|_| patience != Duration::MAX);
        self.wait_until(end);
        self.is_ended()
    }

    fn is_ended(&self) -> bool {
        self.job.head().stage().is_end()
    }

    /// The id of the job, which can be copied and kept.
    pub fn id(&self) -> JobId {
        let core = &self.shared.core;
        let task = self.task();
        match core.place(&task) {
            Some((place, serial)) => JobId { place: place as u64, serial },
            None => JobId { place: u64::MAX, serial: core.serial(&task) },
        }
    }

    /// Drops the job if it has not started, and all jobs that depend on it; false if it has.
    pub fn cancel(&self) -> bool {
        let done = self.shared.core.cancel(&self.task(), worker::worker_of(&self.shared));
        self.shared.tell_drained();
        done
    }

    /// Waits until the job has ended: its value. Inside a job, the worker runs other jobs meanwhile.
    ///
    /// # Errors
    /// Why there is no value.
    pub fn wait(self) -> Result<T, JobError> {
        self.wait_until(None);
        self.result()
    }

    fn wait_until(&self, end: Option<Instant>) {
        let this_thread = std::thread::current();
        let wait = |links: &mut Links<'env>| {
            // One that waits again and again is woken once.
            if !links.waiters.iter().any(|waiter| waiter.id() == this_thread.id()) {
                links.waiters.push(this_thread);
            }
        };
        if self.job.head().link(wait).is_none() {
            return;
        }
        let is_over = || self.is_ended() || end.is_some_and(|end| Instant::now() >= end);
        let wait = || {
            while !is_over() {
                match end {
                    Some(end) => {
                        std::thread::park_timeout(end.saturating_duration_since(Instant::now()));
                    }
                    None => std::thread::park(),
                }
            }
        };
        match worker::worker_of(&self.shared) {
            Some(_) if end.is_none() => worker::wait_inside(&self.shared, is_over),
            // A job that it ran meanwhile could take longer than the patience.
            Some(_) => self.shared.block(wait),
            None => wait(),
        }
    }

    fn result(&self) -> Result<T, JobError> {
        let state = self.state();
        // A completion that comes after a stop leaves a value too.
        let has_value = matches!(state, JobState::Done | JobState::Panicked);
        match has_value.then(|| self.job.take()).flatten() {
            Some(Ok(value)) => Ok(value),
            Some(Err(panic)) => Err(JobError::Panicked(panic)),
            None => Err(JobError::NoValue(state)),
        }
    }
}

/// Ends a job that [`Spawner::spawn_deferred`](crate::Spawner::spawn_deferred) posted. The job ends when its function has
/// returned and this was called or dropped. Dropping it fails the job.
pub struct Completion<'env, T> {
    job: Option<Arc<dyn Valued<'env, T> + 'env>>,
    shared: Arc<Lease<'env>>,
}

impl<'env, T> Completion<'env, T> {
    pub(crate) fn new(
        job: Option<Arc<dyn Valued<'env, T> + 'env>>,
        shared: Arc<Lease<'env>>,
    ) -> Self {
        Self { job, shared }
    }

    /// The job has ended well, with this value.
    pub fn complete(mut self, value: T) {
        if let Some(job) = self.job.take() {
            job.put(value);
            self.tell(job, true);
        }
    }

    fn tell(&self, job: Arc<dyn Valued<'env, T> + 'env>, well: bool) {
        self.shared.core.tell(&(job as TaskRef<'env>), well, worker::worker_of(&self.shared));
        self.shared.tell_drained();
    }
}

impl<T> Drop for Completion<'_, T> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.tell(job, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Options, Pool, Request};
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_that_asks_again_and_again_waits_once() {
        let pool = Pool::start(Options::new(1)).expect("threads");
        let far = Request::new().start(Instant::now() + Duration::from_secs(3600));
        let job = pool.spawn_with(far, || ()).expect("room");
        assert!((0..100).all(|_| !job.wait_ended(Duration::ZERO)));
        assert_eq!(job.job.head().link(|links| links.waiters.len()), Some(1));
    }
}
