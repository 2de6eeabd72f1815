//! What the agenda knows of one job.

use super::{NEVER, Nanos, Order};
pub use schedlab_pool::Criticality;

/// A stream of jobs that can be switched off as a whole. Stream 0 is always on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Queued,
    /// A worker has it.
    Running,
    /// It returned, and its completion has not been told.
    Pending,
    Ended,
}

#[derive(Debug)]
pub(super) struct Record<J> {
    pub(super) job: Option<J>,
    pub(super) start: Nanos,
    pub(super) deadline: Nanos,
    pub(super) expected_ns: Nanos,
    /// Predecessors that have not ended.
    pub(super) pending: u32,
    pub(super) successors: u32,
    pub(super) stream: StreamId,
    pub(super) criticality: Criticality,
    pub(super) state: State,
    /// Its emergency was reported.
    pub(super) told: bool,
    /// What its completion said, well or not, before it returned.
    pub(super) word: Option<bool>,
    /// Its poster knows it by a ticket.
    pub(super) ticketed: bool,
}

impl<J> Record<J> {
    pub(super) fn is_live(&self) -> bool {
        self.state != State::Ended
    }

    /// What the rule sorts jobs by that are due.
    pub(super) fn key(&self, order: Order) -> u64 {
        match order {
            Order::Start => self.start,
            Order::Deadline => self.deadline,
            Order::Laxity => self.deadline.saturating_sub(self.expected_ns),
            Order::Path => NEVER - self.expected_ns,
        }
    }
}
