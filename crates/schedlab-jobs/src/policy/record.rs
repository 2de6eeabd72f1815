//! What the agenda knows of each job that has not ended. The place of one that ended is used again, under another id.

use super::{NEVER, Nanos, Order};
pub use schedlab_pool::Criticality;

/// Names a group of jobs; the jobs of a run that were given no other have stream 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamId(pub u16);

/// Names a job of an agenda, also after it ended: no other job gets the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    slot: u32,
    serial: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its gate is closed, or it is being posted.
    Waiting,
    Queued,
    Running,
    /// It returned and ends when it is completed.
    Pending,
}

#[derive(Debug)]
pub(super) struct Record<J> {
    /// `None` from when a worker has it.
    pub(super) job: Option<J>,
    pub(super) start: Nanos,
    pub(super) deadline: Nanos,
    pub(super) expected_ns: Nanos,
    /// Predecessors that have not ended.
    pub(super) pending: u32,
    pub(super) successors: Vec<JobId>,
    pub(super) criticality: Criticality,
    pub(super) state: State,
    /// It was completed while it ran: well or not.
    pub(super) word: Option<bool>,
}

impl<J> Record<J> {
    /// What the order sorts due jobs by.
    pub(super) fn key(&self, order: Order) -> u64 {
        match order {
            Order::Start => self.start,
            Order::Deadline => self.deadline,
            Order::Laxity => self.deadline.saturating_sub(self.expected_ns),
            Order::Path => NEVER - self.expected_ns,
        }
    }
}

/// The records by id.
#[derive(Debug)]
pub(super) struct Records<J> {
    slots: Vec<(u32, Option<Record<J>>)>,
    free: Vec<u32>,
}

impl<J> Default for Records<J> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<J> Records<J> {
    pub(super) fn add(&mut self, record: Record<J>) -> JobId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let (serial, place) = &mut self.slots[slot as usize];
        *place = Some(record);
        JobId { slot, serial: *serial }
    }

    pub(super) fn get(&self, id: JobId) -> Option<&Record<J>> {
        let (serial, record) = self.slots.get(id.slot as usize)?;
        record.as_ref().filter(|_| *serial == id.serial)
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Record<J>> {
        let (serial, record) = self.slots.get_mut(id.slot as usize)?;
        record.as_mut().filter(|_| *serial == id.serial)
    }

    /// Takes out the record of a job that ends.
    pub(super) fn end(&mut self, id: JobId) -> Option<Record<J>> {
        self.get(id)?;
        let (serial, record) = &mut self.slots[id.slot as usize];
        *serial = serial.wrapping_add(1);
        self.free.push(id.slot);
        record.take()
    }

    /// How many jobs have not ended.
    pub(super) fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The record of a job that may start then.
    pub(in crate::policy) fn starting(start: Nanos) -> Record<()> {
        Record {
            job: Some(()),
            start,
            deadline: NEVER,
            expected_ns: 0,
            pending: 0,
            successors: Vec::new(),
            criticality: Criticality::default(),
            state: State::Waiting,
            word: None,
        }
    }

    #[test]
    fn the_place_of_a_job_that_ended_is_used_again_and_its_id_is_not() {
        let mut records = Records::default();
        let ids = [1, 2].map(|start| records.add(starting(start)));
        assert_eq!(records.end(ids[0]).map(|record| record.start), Some(1));
        let third = records.add(starting(3));
        assert_eq!((records.slots.len(), records.live()), (2, 2));
        assert!(third != ids[0] && records.get(ids[0]).is_none());
        assert!(records.end(ids[0]).is_none(), "it ended already");
        assert_eq!(records.get_mut(third).map(|record| record.start), Some(3));
    }
}
