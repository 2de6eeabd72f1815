//! What an id names: a job that has not ended, one that ended well, or one that did not.
//!
//! Records are used again, so most ids outlive theirs. Nearly all jobs end well, so only the others are remembered: the
//! last [`KEPT`] of them each by its id, older ones by the serial number of their block. An id that old counts as
//! failed. So what a job depends on never runs by luck: the answer is the same whenever it is asked.
//!
//! A job that was left at the entrance has no record yet when its poster wants to know its id. It gets a *ticket*: its
//! number among all that were ever left there. [`Names`] leads from tickets to records while the job lives.

use super::JobId;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// Failed jobs that are remembered by their id: 2 MiB at most.
const KEPT: usize = 1 << 16;

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has not ended.
    Live,
    /// The job ended well.
    Done,
    /// It was dropped, panicked or failed; or no job of this agenda has this id.
    Failed,
}

/// Jobs that did not end well.
#[derive(Debug, Default)]
pub(super) struct Failures {
    kept: HashSet<JobId>,
    order: VecDeque<JobId>,
    /// By line: the last place in it that was forgotten.
    forgotten: HashMap<u32, u32>,
}

impl Failures {
    pub(super) fn add(&mut self, id: JobId) {
        if !self.kept.insert(id) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.kept.remove(&oldest);
            let (line, place) = oldest.line();
            let last = self.forgotten.entry(line).or_insert(place);
            *last = place.max(*last);
        }
    }

    pub(super) fn contains(&self, id: JobId) -> bool {
        let (line, place) = id.line();
        self.kept.contains(&id) || self.forgotten.get(&line).is_some_and(|&last| place <= last)
    }
}

/// Jobs that were left at the entrance and have not ended.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// How many were taken in so far.
    fed: u64,
    records: BTreeMap<u64, JobId>,
    tickets: BTreeMap<JobId, u64>,
}

impl Names {
    /// The next that was left there; its name.
    pub(super) fn next(&mut self) -> JobId {
        self.fed += 1;
        JobId::of_ticket(self.fed)
    }

    /// The last one lives, in this record.
    pub(super) fn bind(&mut self, record: JobId) {
        self.records.insert(self.fed, record);
        self.tickets.insert(record, self.fed);
    }

    /// The job of a record ended; the name that its poster knows.
    pub(super) fn end(&mut self, record: JobId) -> Option<JobId> {
        let ticket = self.tickets.remove(&record)?;
        self.records.remove(&ticket);
        Some(JobId::of_ticket(ticket))
    }

    /// The name that its poster knows.
    pub(super) fn name(&self, record: JobId) -> JobId {
        self.tickets.get(&record).map_or(record, |&ticket| JobId::of_ticket(ticket))
    }

    /// The record of a live job, by either name.
    pub(super) fn record(&self, id: JobId) -> Option<JobId> {
        id.ticket().map_or(Some(id), |ticket| self.records.get(&ticket).copied())
    }

    /// Whether this many were ever taken in.
    pub(super) fn knows(&self, ticket: u64) -> bool {
        (1..=self.fed).contains(&ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_counts_as_failed_and_what_came_after_it_does_not() {
        let mut failures = Failures::default();
        let id = |serial| JobId::new(7, serial);
        (0..KEPT as u32 + 10).map(|n| id(2 * n)).for_each(|id| failures.add(id));
        assert_eq!((failures.kept.len(), failures.order.len()), (KEPT, KEPT));
        assert!(failures.contains(id(0)), "forgotten, so nobody knows");
        assert!(failures.contains(id(1)), "it ended well, but at a time that is forgotten");
        assert!(!failures.contains(id(21)) && failures.contains(id(22)));
        assert!(!failures.contains(JobId::new(600, 1)), "another block");
    }

    #[test]
    fn a_ticket_leads_to_its_record_until_the_job_ended() {
        let mut names = Names::default();
        let record = JobId::new(3, 1);
        let ticket = names.next();
        names.bind(record);
        assert_eq!((names.record(ticket), names.record(record)), (Some(record), Some(record)));
        assert_eq!(names.name(record), ticket);
        assert_eq!(names.end(record), Some(ticket));
        assert_eq!((names.record(ticket), names.name(record)), (None, record));
        assert!(names.knows(1) && !names.knows(2) && !names.knows(0));
    }
}
