//! What a holder of the token leaves to be done without it.

use super::{Handle, Runner, Shared};
use crate::policy::Agenda;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Decided with the token, done without.
pub(super) struct Errands<J> {
    /// The sleeping workers to wake.
    pub(super) wakes: Vec<usize>,
    /// The workers to start.
    pub(super) starts: Vec<usize>,
    /// The jobs to drop.
    pub(super) discarded: Vec<J>,
}

impl<J> Default for Errands<J> {
    fn default() -> Self {
        Self { wakes: Vec::new(), starts: Vec::new(), discarded: Vec::new() }
    }
}

impl<J: Send + 'static> Errands<J> {
    /// With the token, after a change of the agenda: who must wake for it, who must be started.
    pub(super) fn decide<R: Runner<Job = J>>(
        &mut self,
        shared: &Shared<R>,
        agenda: &mut Agenda<J>,
    ) {
        let now = shared.now();
        let wake = agenda.wake(now).or_else(|| {
            let is_due = |&_: &usize| agenda.head(now).is_some_and(|head| head <= now);
            shared.napper().filter(is_due)
        });
        self.wakes.extend(wake);
        self.collect(shared, agenda);
    }

    /// With the token: what was decided already.
    pub(super) fn collect<R: Runner<Job = J>>(
        &mut self,
        shared: &Shared<R>,
        agenda: &mut Agenda<J>,
    ) {
        shared.backlog.settle(agenda);
        self.starts.append(&mut agenda.starts());
        self.discarded.append(&mut agenda.discarded());
    }

    /// Without the token. Jobs are dropped last: what they do then is theirs.
    pub(super) fn run<R: Runner<Job = J>>(self, handle: &Handle<R>) {
        for worker in self.wakes {
            handle.0.notify(worker);
        }
        if !self.starts.is_empty() {
            handle.start_all(self.starts);
        }
        for job in self.discarded {
            // A worker must survive it, and the other jobs must be dropped as well.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(job)));
        }
    }
}
