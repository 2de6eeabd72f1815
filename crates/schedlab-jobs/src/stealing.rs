//! Whether the workers of a pool steal jobs from each other.

use crate::executor::ExecutorError;
use crate::planning::{Planner, Planning};
use crate::policy::{Order, Policy, Queues, Step};
use crate::run::Run;

/// Whether workers steal jobs from each other ([`crate::bundle`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stealing {
    /// The policy hands out each job.
    #[default]
    Never,
    /// In runs that ask for no start times, deadlines, significance or I/O, and in pools with the usual rules, size and
    /// planning.
    WherePossible,
    /// As before; other runs are refused.
    Always,
}

impl Stealing {
    /// Whether workers steal in this run.
    ///
    /// # Errors
    /// When they must, and cannot.
    pub fn decide(
        self,
        run: &Run,
        policy: &Policy,
        planning: &Planning,
    ) -> Result<bool, ExecutorError> {
        let possible = may_steal(run, policy, planning);
        match self {
            Self::Never => Ok(false),
            Self::WherePossible => Ok(possible),
            Self::Always if possible => Ok(true),
            Self::Always => {
                let what = "work stealing beside start times, deadlines, significance, I/O, or other rules of the pool";
                Err(ExecutorError::NotOffered { executor: "schedlab".to_owned(), what })
            }
        }
    }
}

fn may_steal(run: &Run, policy: &Policy, planning: &Planning) -> bool {
    let schedule = run.schedule();
    let plain = !schedule.is_timed() && !schedule.has_deadlines() && !run.has_io();
    // The one that takes a rule out wants to see the policy without it.
    let rules = policy.notify && policy.batch_ns > 0 && policy.step == Step::Halving;
    let usual = rules && policy.order == Order::Start && policy.queues == Queues::OneToken;
    let fixed = policy.workers_min == policy.workers && policy.reserve == 0;
    plain && run.is_normal() && usual && fixed && planning.planner == Planner::Ahead
}
