//! What a job asks for.

use crate::handle::Handle;
use crate::job::{Criticality, JobRequests, NEVER, TaskRef};
use crate::options::ns;
use std::time::{Duration, Instant};

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

    /// How long the job is expected to run, rounded up to microseconds. The deadlines of its predecessors are this much
    /// earlier.
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
    pub fn after<T>(mut self, handle: &Handle<'env, T>) -> Self {
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

    pub(crate) fn asks(&self, origin: Instant) -> JobRequests {
        let time = |at: Option<Instant>, none| {
            at.map_or(none, |at| ns(at.saturating_duration_since(origin)))
        };
        let optional = self.criticality == Criticality::Optional;
        let start = self.start.or_else(|| optional.then(Instant::now));
        JobRequests {
            start: time(start, 0),
            deadline: time(self.deadline, NEVER),
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
