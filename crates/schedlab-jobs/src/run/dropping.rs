//! Jobs that do not run: what an executor tells of those that it dropped, and the look at the clock before each job for
//! executors that know no deadlines.
//!
//! ```text
//!  executor of others ──> perform_in_time(job) ──> a predecessor did not end well, or the deadline has passed?
//!                                                       no: the job runs        yes: its `DropReason` is noted, and it does nothing
//! ```
//! That is what a program does whose executor cannot drop jobs: each of its closures looks before it works.

use super::{Io, Run};
use crate::graph::Node;
use crate::policy::{Counts, NEVER, Nanos};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

/// Jobs that an executor dropped instead of running them, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Dropped {
    /// Jobs dropped because their deadline passed.
    pub missed: u64,
    /// Number of jobs that the emergency policy shed.
    pub shed: u64,
    /// Number of jobs that were dropped because a predecessor was.
    pub abandoned: u64,
    /// Number of jobs that ran and failed.
    pub failed: u64,
    /// Compulsory jobs that missed their deadline, dropped or not: emergencies.
    pub emergencies: u64,
}

impl Dropped {
    /// How many jobs did not run.
    pub fn jobs(&self) -> u64 {
        self.missed + self.shed + self.abandoned
    }
}

impl From<Counts> for Dropped {
    fn from(counts: Counts) -> Self {
        let Counts { missed, shed, abandoned, failed, emergencies, .. } = counts;
        Self { missed, shed, abandoned, failed, emergencies }
    }
}

/// Why a job must not run any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DropReason {
    /// Its deadline has passed.
    Missed = 1,
    /// A predecessor was dropped, or has failed.
    Abandoned = 2,
}

impl Run {
    /// As `Run::perform_io`, for executors that know no deadlines: a job whose deadline has passed does nothing, and
    /// neither does one whose predecessors did not all end well. [`Run::finish`] counts them.
    pub fn perform_in_time(&self, node: Node, worker: usize) -> Option<Io> {
        if let Some(why) = self.drop_reason(node) {
            self.drop_job(node, why);
            return None;
        }
        self.perform_io(node, worker)
    }

    /// Why a job must not begin now.
    fn drop_reason(&self, node: Node) -> Option<DropReason> {
        if !self.may_drop() {
            return None;
        }
        let badly = |&p: &Node| self.is_dropped(p) || self.has_failed(p);
        if self.graph().predecessors(node).iter().any(badly) {
            return Some(DropReason::Abandoned);
        }
        (self.clock().now() > self.deadline(node)).then_some(DropReason::Missed)
    }

    /// Latest start of a job on the run's clock; [`NEVER`] for none.
    pub(crate) fn deadline(&self, node: Node) -> Nanos {
        match self.schedule().deadline(node) {
            NEVER => NEVER,
            deadline => deadline.saturating_add(self.base()),
        }
    }

    /// Notes that a job did not run, and why.
    pub fn drop_job(&self, node: Node, why: DropReason) {
        self.further[node as usize].drop_reason.store(why as u8, Relaxed);
    }

    /// Whether it was noted that a job did not run.
    pub(crate) fn is_dropped(&self, node: Node) -> bool {
        self.further[node as usize].drop_reason.load(Relaxed) != 0
    }

    /// Whether some jobs may have to be dropped.
    pub(crate) fn may_drop(&self) -> bool {
        self.schedule().has_deadlines() || self.has_failures()
    }

    /// What became of the jobs that did not run; none unless the run has deadlines.
    pub fn dropped(&self) -> Dropped {
        *self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The executor says what it dropped; the proof holds it to that.
    pub fn set_dropped(&self, dropped: Dropped) {
        *self.dropped.lock().unwrap_or_else(PoisonError::into_inner) = dropped;
    }

    /// What was dropped, by the notes of each job.
    pub(crate) fn count_dropped(&self) -> Dropped {
        let mut dropped = Dropped::default();
        for further in &self.further {
            match further.drop_reason.load(Relaxed) {
                0 => {}
                why if why == DropReason::Missed as u8 => dropped.missed += 1,
                _ => dropped.abandoned += 1,
            }
            dropped.failed += u64::from(further.failed.load(Relaxed));
        }
        dropped
    }
}
