//! Dropping jobs: on request, with their stream, for a missed deadline, or because a predecessor
//! was dropped.

use super::edges::NONE;
use super::record::{Record, State, StreamId};
use super::{Agenda, JobId};

impl<J> Agenda<J> {
    /// Drops a job that has not started, and all that depend on it. False when it is running, ended
    /// or was never there.
    pub fn cancel(&mut self, id: JobId) -> bool {
        let Some(id) = self.live(id) else { return false };
        if !self.droppable(id) {
            return false;
        }
        self.counts.cancelled += 1;
        self.drop_job(id);
        true
    }

    /// Switches a stream off: its jobs that have not started are dropped at once, later ones when they
    /// are posted. How many were dropped, dependents included. Stream 0 stays on.
    pub fn switch_off(&mut self, stream: StreamId) -> u64 {
        if stream == StreamId::default() || !self.is_on(stream) {
            return 0;
        }
        self.off.push(stream);
        let before = self.counts.ended();
        for id in self.epochs.ids(None) {
            let of_stream = self.epochs.get(id).is_some_and(|r| r.stream == stream);
            if of_stream {
                self.cancel(id);
            }
        }
        self.compact();
        self.counts.ended() - before
    }

    /// Switches a stream on again.
    pub fn switch_on(&mut self, stream: StreamId) {
        self.off.retain(|&off| off != stream);
    }

    /// Whether jobs of a stream are taken.
    pub fn is_on(&self, stream: StreamId) -> bool {
        self.off.is_empty() || !self.off.contains(&stream)
    }

    pub(super) fn droppable(&self, id: JobId) -> bool {
        let record = self.epochs.get(id);
        record.is_some_and(|r| matches!(r.state, State::Waiting | State::Queued))
    }

    /// Ends a job without success; the caller has counted it. Dependents follow, however many.
    pub(super) fn drop_job(&mut self, id: JobId) {
        let mut dropped = vec![id];
        let mut first = true;
        while let Some(id) = dropped.pop() {
            let Some(record) = self.epochs.get_mut(id).filter(|r| Record::is_live(r)) else {
                continue;
            };
            if !first {
                self.counts.abandoned += 1;
            }
            first = false;
            self.stale += usize::from(record.state == State::Queued);
            record.state = State::Ended;
            self.discarded.extend(record.job.take());
            let ticketed = record.ticketed;
            let mut list = std::mem::replace(&mut record.successors, NONE);
            while let Some((to, rest)) = self.edges.take(list) {
                list = rest;
                dropped.push(to);
            }
            self.failures.add(id);
            if ticketed && let Some(name) = self.names.end(id) {
                self.failures.add(name);
            }
            self.epochs.end(id);
        }
    }

    /// Rids the queues of jobs that ended meanwhile, when they are the greater part.
    pub(super) fn compact(&mut self) {
        if self.stale < 64 || 2 * self.stale < self.lines.len() {
            return;
        }
        let epochs = &self.epochs;
        let queued = |id| epochs.get(id).is_some_and(|r| r.state == State::Queued);
        self.lines.compulsory.retain(queued);
        self.lines.others.retain(queued);
        self.stale = 0;
    }
}
