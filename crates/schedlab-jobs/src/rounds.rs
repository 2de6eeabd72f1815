//! A worker's rounds over the agenda, without a thread and without a clock.
//!
//! Three drivers have them: the threads of [`crate::pool`], [`crate::virtual_time`], in which a worker is an event, and the
//! workload `jobs` of schedlab, in which it is a task that a simulated kernel schedules.

use crate::policy::{
    Agenda, Asker, Finished, JobId, Ladder, Nanos, Outcome, Pause, Pull, Pulled, Step,
};

/// A worker: what it has taken, and what it gives back at its next turn with the token.
#[derive(Clone, Debug)]
pub struct Rounds<J> {
    number: usize,
    ladder: Ladder,
    finished: Vec<Finished>,
    /// The next job last.
    batch: Vec<Pulled<J>>,
    busy_ns: Nanos,
    worked: Nanos,
    slept: bool,
}

impl<J> Rounds<J> {
    /// A worker that has not begun.
    pub fn new(number: usize, step: Step) -> Self {
        Self {
            number,
            ladder: Ladder::new(number, step),
            finished: Vec::new(),
            batch: Vec::new(),
            busy_ns: 0,
            worked: 0,
            slept: true,
        }
    }

    /// The worker begins.
    pub fn begin(&mut self, now: Nanos) {
        self.worked = now;
        self.slept = true;
    }

    /// Another worker holds the token: how long this one stays away from it.
    pub fn back_off(&mut self) -> Pause {
        self.ladder.climb()
    }

    /// One turn with the token: gives back what was run, and takes what is due. Also how many jobs went over, both ways:
    /// the time that the worker holds the token follows from it.
    pub fn manage(&mut self, now: Nanos, agenda: &mut Agenda<J>) -> (Pull, usize) {
        self.ladder.ease();
        let given = self.finished.len();
        agenda.finish(&mut self.finished, std::mem::take(&mut self.busy_ns));
        let idle_ns = now.saturating_sub(self.worked);
        let asker = Asker { worker: self.number, idle_ns, from_work: !self.slept };
        let pull = agenda.pull(now, asker, &mut self.batch);
        self.batch.reverse();
        (pull, given + self.batch.len())
    }

    /// The next of the jobs that were taken; `None` when all have been given out.
    pub fn next_job(&mut self) -> Option<Pulled<J>> {
        self.batch.pop()
    }

    /// A job that was taken has returned.
    pub fn ran(&mut self, id: JobId, outcome: Outcome) {
        self.finished.push(Finished { id, outcome });
    }

    /// The worker was in jobs from `begin` to `end`.
    pub fn worked(&mut self, begin: Nanos, end: Nanos) {
        self.busy_ns += end.saturating_sub(begin);
        self.worked = end;
        self.slept = false;
    }

    /// Whether the worker has given back all that it ran.
    pub(crate) fn has_given_back(&self) -> bool {
        self.finished.is_empty()
    }

    /// The worker has slept, or is about to.
    pub fn slept(&mut self) {
        self.slept = true;
    }
}
