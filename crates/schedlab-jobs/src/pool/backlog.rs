//! The bound on the jobs that have not ended.
//!
//! A posting may lie at the entrance, where the holder of the token has not seen it yet. Posters therefore reserve
//! their place before they post: what is reserved and has not ended never exceeds the bound.

use crate::policy::Agenda;
use std::sync::atomic::{AtomicU64, Ordering};

/// Places that were reserved, and jobs that have ended.
#[derive(Debug)]
pub(crate) struct Backlog {
    most: u64,
    reserved: AtomicU64,
    ended: AtomicU64,
}

impl Backlog {
    /// An empty backlog with places for this many jobs.
    pub(super) fn new(most: usize) -> Self {
        Self { most: most as u64, reserved: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }

    /// Reserves places for this many jobs; false when the backlog has less room.
    pub(super) fn reserve(&self, jobs: usize) -> bool {
        let jobs = jobs as u64;
        // What has ended is read first: it never exceeds what is read as reserved afterwards.
        let ended = self.ended.load(Ordering::Acquire);
        let more = |reserved: u64| {
            let reserved = reserved + jobs;
            (reserved - ended <= self.most).then_some(reserved)
        };
        self.reserved.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Gives back places whose jobs were not posted.
    pub(super) fn release(&self, jobs: usize) {
        self.reserved.fetch_sub(jobs as u64, Ordering::AcqRel);
    }

    /// With the token: jobs that have ended give their places back.
    pub(super) fn settle<J>(&self, agenda: &Agenda<J>) {
        let ended = agenda.counts().posted - agenda.backlog() as u64;
        self.ended.store(ended, Ordering::Release);
    }

    /// Whether every place was given back, as of the last time that somebody held the token.
    pub(super) fn is_empty(&self) -> bool {
        let ended = self.ended.load(Ordering::Acquire);
        self.reserved.load(Ordering::Acquire) == ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Finished, Outcome, Policy, Posting};

    #[test]
    fn a_posting_at_the_entrance_keeps_its_place_while_others_hold_the_token() {
        let backlog = Backlog::new(2);
        let mut agenda = Agenda::new(Policy::new(1));
        assert!(backlog.reserve(1), "left at the entrance, not yet taken in");
        assert!(backlog.reserve(1));
        let id = agenda.post(Posting::new((), 0));
        backlog.settle(&agenda);
        assert!(!backlog.reserve(1), "the holder of the token does not know the posting");
        assert!(!backlog.is_empty());
        let mut batch = Vec::new();
        let asker = crate::policy::Asker { worker: 0, idle_ns: 0, from_work: true };
        agenda.pull(0, asker, &mut batch);
        agenda.finish(&mut vec![Finished { id, outcome: Outcome::Done }], 0);
        backlog.settle(&agenda);
        assert!(!backlog.reserve(2) && backlog.reserve(1), "one job has ended");
    }

    #[test]
    fn places_that_were_not_used_come_back() {
        let backlog = Backlog::new(3);
        assert!(!backlog.reserve(4) && backlog.is_empty());
        assert!(backlog.reserve(3));
        backlog.release(3);
        assert!(backlog.is_empty() && backlog.reserve(3));
    }
}
