//! Whether a graph is run as one bundle, from which workers steal.

use crate::executor::ExecutorError;
use crate::planning::{Planner, Planning};
use crate::run::Run;

/// Whether workers steal jobs from each other ([`crate::bundle`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stealing {
    /// The pool hands out each job.
    #[default]
    Never,
    /// In runs that ask for no start times, deadlines, criticality, I/O or planning meanwhile.
    WherePossible,
    /// As before; other runs are refused.
    Always,
}

impl Stealing {
    /// Whether workers steal in this run.
    ///
    /// # Errors
    /// When they must, and cannot.
    pub(crate) fn decide(self, run: &Run, planning: &Planning) -> Result<bool, ExecutorError> {
        let schedule = run.schedule();
        let plain = !schedule.is_timed() && !schedule.has_deadlines() && !run.has_io();
        let possible = plain && run.is_normal() && planning.planner == Planner::Ahead;
        if self == Self::Always && !possible {
            let what = "work stealing beside start times, deadlines, criticality, I/O, or planning during the run";
            return Err(ExecutorError::NotOffered { executor: "schedlab".to_owned(), what });
        }
        Ok(self != Self::Never && possible)
    }
}
