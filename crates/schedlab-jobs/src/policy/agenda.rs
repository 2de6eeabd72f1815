//! The agenda: all jobs that were posted and have not ended, with their gates.

use super::load::LoadControl;
use super::ready_queue::Lines;
use super::record::{Criticality, JobId, Record, Records, State};
use super::{NEVER, Nanos, Order, Policy};
use std::collections::BTreeSet;

/// A job to be run, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posting<J> {
    pub job: J,
    /// The earliest time at which the job may start.
    pub start: Nanos,
    /// Latest start; [`NEVER`] for none.
    pub deadline: Nanos,
    /// How long it is expected to run; [`Order::Laxity`] and [`Order::Path`] ask.
    pub expected_ns: Nanos,
    /// How much it matters.
    pub criticality: Criticality,
}

impl<J> Posting<J> {
    /// A job that may start from `start` on, however late.
    pub fn new(job: J, start: Nanos) -> Self {
        let criticality = Criticality::default();
        Self { job, start, deadline: NEVER, expected_ns: 0, criticality }
    }

    /// The posting with a latest start: the job is dropped if it could not start by then.
    #[must_use]
    pub fn deadline(mut self, deadline: Nanos) -> Self {
        self.deadline = deadline;
        self
    }
}

/// Jobs that are posted together, with what depends on what.
#[derive(Clone, Debug)]
pub struct Plan<J> {
    pub(super) postings: Vec<Posting<J>>,
    /// Within the plan: from, to.
    pub(super) edges: Vec<(u32, u32)>,
    /// From a job posted before.
    pub(super) after: Vec<(JobId, u32)>,
}

impl<J> Default for Plan<J> {
    fn default() -> Self {
        Self { postings: Vec::new(), edges: Vec::new(), after: Vec::new() }
    }
}

impl<J> Plan<J> {
    /// Adds a job; its number within the plan.
    pub fn add(&mut self, posting: Posting<J>) -> u32 {
        self.postings.push(posting);
        self.postings.len() as u32 - 1
    }

    /// `to` starts after `from` ended; both are numbers within the plan.
    pub fn link(&mut self, from: u32, to: u32) {
        self.edges.push((from, to));
    }

    /// The job `to` of the plan starts after a job posted before. It is dropped when that one failed, whether that
    /// is before or after this plan is posted.
    pub fn after(&mut self, from: JobId, to: u32) {
        self.after.push((from, to));
    }

    /// Replaces the expected time of each job by that of the longest path that begins with it. Jobs in a
    /// circle never start, so theirs stays.
    fn expect_paths(&mut self) {
        let mut before = vec![Vec::new(); self.len()];
        let mut open = vec![0u32; self.len()];
        for &(from, to) in &self.edges {
            before[to as usize].push(from as usize);
            open[from as usize] += 1;
        }
        let mut behind = vec![0; self.len()];
        let mut last: Vec<usize> = (0..self.len()).filter(|&job| open[job] == 0).collect();
        while let Some(job) = last.pop() {
            let posting = &mut self.postings[job];
            posting.expected_ns = posting.expected_ns.saturating_add(behind[job]);
            for &from in &before[job] {
                behind[from] = posting.expected_ns.max(behind[from]);
                open[from] -= 1;
                if open[from] == 0 {
                    last.push(from);
                }
            }
        }
    }

    /// How many jobs there are.
    pub(crate) fn len(&self) -> usize {
        self.postings.len()
    }
}

/// How a job went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ended: successors may start.
    Done,
    /// It returned, but ends only when its completion is called.
    Pending,
    /// It failed: successors are dropped.
    Failed,
    /// It panicked: successors are dropped.
    Panicked,
}

/// A job that a worker gives back.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// The job that ended.
    pub id: JobId,
    /// How the job ended.
    pub outcome: Outcome,
}

/// What became of the jobs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of posted jobs, gates included.
    pub posted: u64,
    /// Number of jobs that ended well.
    pub done: u64,
    /// Dropped because their deadline passed.
    pub missed: u64,
    /// Number of jobs that the emergency policy dropped.
    pub shed: u64,
    /// Number of jobs that were dropped because a predecessor was.
    pub abandoned: u64,
    /// Number of jobs that ended in a panic.
    pub panicked: u64,
    /// Said themselves that they failed, or whose completion was dropped without a word.
    pub failed: u64,
    /// Number of compulsory jobs that missed their deadline, under every emergency policy.
    pub emergencies: u64,
}

impl Counts {
    /// Number of jobs that ended, well or not. If it equals [`Counts::posted`] at the end, no job
    /// was lost.
    pub fn ended(&self) -> u64 {
        let dropped = self.missed + self.shed + self.abandoned;
        self.done + dropped + self.panicked + self.failed
    }
}

/// The state machine. See the module for how data passes through it.
#[derive(Debug)]
pub struct Agenda<J> {
    pub(super) policy: Policy,
    pub(super) records: Records<J>,
    pub(super) lines: Lines,
    pub(super) load: LoadControl,
    /// Until when each worker sleeps.
    pub(super) sleepers: Vec<Option<Nanos>>,
    pub(super) in_emergency: bool,
    pub(super) tick: Nanos,
    pub(super) job_ns: Nanos,
    pub(super) counts: Counts,
    /// Jobs that ended badly: what is planned after one of them is dropped.
    failed: BTreeSet<JobId>,
}

impl<J> Agenda<J> {
    /// An agenda without jobs.
    pub fn new(policy: Policy) -> Self {
        Self {
            records: Records::default(),
            lines: Lines::default(),
            load: LoadControl::default(),
            sleepers: vec![None; policy.workers],
            in_emergency: false,
            tick: 0,
            job_ns: policy.batch_ns,
            counts: Counts::default(),
            failed: BTreeSet::new(),
            policy,
        }
    }

    /// Posts a job without dependencies.
    pub(crate) fn post(&mut self, posting: Posting<J>) {
        let id = self.record(posting);
        self.enqueue(id);
    }

    /// Posts all jobs of a plan; their ids, in its order. Jobs that wait for each other in a circle never end.
    ///
    /// # Panics
    /// If an edge names a job that the plan does not have.
    pub fn plan(&mut self, mut plan: Plan<J>) -> Vec<JobId> {
        if self.policy.order == Order::Path {
            plan.expect_paths();
        }
        let ids: Vec<JobId> = plan.postings.into_iter().map(|p| self.record(p)).collect();
        for (from, to) in plan.edges {
            self.gate(ids[from as usize], ids[to as usize]);
        }
        for (from, to) in plan.after {
            self.gate(from, ids[to as usize]);
        }
        for &id in &ids {
            if self.records.get(id).is_some_and(|r| r.pending == 0) {
                self.enqueue(id);
            }
        }
        ids
    }

    /// Takes back jobs from a worker, with the time that they took together.
    pub fn finish(&mut self, finished: &mut Vec<Finished>, busy_ns: Nanos) {
        if finished.is_empty() {
            return;
        }
        let mean = busy_ns / finished.len() as Nanos;
        // Up at once, down slowly: a long job in a batch keeps others waiting.
        self.job_ns = if mean > self.job_ns { mean } else { (7 * self.job_ns + mean) / 8 };
        for Finished { id, outcome } in finished.drain(..) {
            match outcome {
                Outcome::Done => self.end_well(id),
                Outcome::Failed => self.end_badly(id, |counts| &mut counts.failed),
                Outcome::Panicked => self.end_badly(id, |counts| &mut counts.panicked),
                Outcome::Pending => self.returned(id),
            }
        }
    }

    /// A job that returned goes on elsewhere, unless that has ended already.
    fn returned(&mut self, id: JobId) {
        let Some(record) = self.records.get_mut(id).filter(|r| r.state == State::Running) else {
            return;
        };
        record.state = State::Pending;
        if let Some(well) = record.word {
            self.complete(id, well);
        }
    }

    /// A job that returned, or will, with [`Outcome::Pending`] has ended, well or not. The first word counts; of a job
    /// that has ended, or never asked for it, none does.
    pub(crate) fn complete(&mut self, id: JobId, well: bool) {
        let Some(record) = self.records.get_mut(id) else { return };
        match record.state {
            // Its function may still panic, so it has not ended.
            State::Running => {
                record.word.get_or_insert(well);
            }
            State::Pending if well => self.end_well(id),
            State::Pending => self.end_badly(id, |counts| &mut counts.failed),
            State::Waiting | State::Queued => {}
        }
    }

    fn end_badly(&mut self, id: JobId, count: fn(&mut Counts) -> &mut u64) {
        *count(&mut self.counts) += 1;
        self.drop_job(id);
    }

    /// Opens the gates of a job's successors.
    fn end_well(&mut self, id: JobId) {
        let Some(record) = self.records.end(id) else { return };
        self.counts.done += 1;
        for to in record.successors.into_iter().rev() {
            let Some(next) = self.records.get_mut(to) else { continue };
            next.pending -= 1;
            if next.pending == 0 {
                self.enqueue(to);
            }
        }
    }

    /// Ends a job badly, and all that waits for it.
    pub(super) fn drop_job(&mut self, id: JobId) {
        let mut dropped = self.end_failed(id);
        while let Some(id) = dropped.pop() {
            if self.records.get(id).is_some() {
                self.counts.abandoned += 1;
                dropped.extend(self.end_failed(id));
            }
        }
    }

    fn end_failed(&mut self, id: JobId) -> Vec<JobId> {
        self.failed.insert(id);
        self.records.end(id).map_or_else(Vec::new, |record| record.successors)
    }

    /// What became of the jobs so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Jobs that have not ended.
    pub fn backlog(&self) -> usize {
        self.records.live()
    }

    fn record(&mut self, posting: Posting<J>) -> JobId {
        let Posting { job, start, deadline, expected_ns, criticality } = posting;
        self.counts.posted += 1;
        self.records.add(Record {
            job: Some(job),
            start,
            deadline,
            expected_ns,
            pending: 0,
            successors: Vec::new(),
            criticality,
            state: State::Waiting,
            word: None,
        })
    }

    /// Lets `to` wait for the end of `from`. If `from` has failed or was dropped, `to` is dropped too.
    fn gate(&mut self, from: JobId, to: JobId) {
        if self.records.get(to).is_none() {
            return;
        }
        if let Some(before) = self.records.get_mut(from) {
            before.successors.push(to);
            self.records.get_mut(to).into_iter().for_each(|next| next.pending += 1);
        } else if self.failed.contains(&from) {
            self.counts.abandoned += 1;
            self.drop_job(to);
        }
    }

    fn enqueue(&mut self, id: JobId) {
        let Some(record) = self.records.get_mut(id) else { return };
        record.state = State::Queued;
        let start = record.start;
        let criticality = record.criticality;
        self.lines.of(criticality).future.push(start, id);
    }
}
