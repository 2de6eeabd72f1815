//! Where plain jobs wait, and where timed jobs arrive: a trait with two bodies that decide alike.
//!
//! Posters add to an injector. A worker takes from it into a queue of its own, which others may steal from. What a job
//! posts from inside goes to the inbox of its worker: the queue itself belongs to the worker's loop.

mod deques;
#[cfg(any(test, loom, feature = "model"))]
mod lists;

pub(crate) use deques::Deques;
#[cfg(any(test, loom, feature = "model"))]
pub(crate) use lists::Lists;

/// Where posters leave jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Without an order among them.
    Plain,
    /// With a start, a deadline or a criticality.
    Timed,
    /// Timed and compulsory.
    Compulsory,
}

/// All lanes, as indices.
pub(crate) const LANES: usize = 3;

/// The queues of a pool. Each method may be called by every thread; a [`Queues::Local`] stays with its worker.
pub(crate) trait Queues<J>: Send + Sync {
    /// A worker's own end of its queue.
    type Local;

    /// The queues of this many workers.
    fn new(workers: usize) -> (Self, Vec<Self::Local>)
    where
        Self: Sized;

    /// Adds to the injector of a lane.
    fn post(&self, lane: Lane, job: J);

    /// Takes one from the injector of a lane.
    fn take(&self, lane: Lane) -> Option<J>;

    /// Takes up to `most` plain jobs from the injector: the first is returned, the others go to the worker's queue.
    fn take_batch(&self, local: &Self::Local, most: usize) -> Option<J>;

    /// Adds to the worker's own queue.
    fn push(&self, local: &Self::Local, job: J);

    /// Adds to a worker's inbox.
    fn post_to(&self, worker: usize, job: J);

    /// Takes the oldest of the worker's own jobs: of its queue, then of its inbox.
    fn pop(&self, worker: usize, local: &Self::Local) -> Option<J>;

    /// Steals half of another worker's queue, or else one job of its inbox: the first is returned.
    fn steal(&self, from: usize, local: &Self::Local) -> Option<J>;

    /// Steals one job of a worker's queue or inbox.
    fn steal_one(&self, from: usize) -> Option<J>;

    /// Whether the injector of a lane is empty.
    fn is_empty(&self, lane: Lane) -> bool;

    /// Whether a worker's queue and inbox are empty.
    fn has_none(&self, worker: usize) -> bool;
}

/// The most jobs that a worker moves from its inbox to its queue at once.
pub(crate) const INBOX_BATCH: usize = 32;
