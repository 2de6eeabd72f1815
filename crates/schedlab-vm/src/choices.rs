//! What the scheduler chose, without times: so that two kernels can be compared choice by choice.
//!
//! Tasks are named by their slot in the load's plan, which is the order in which the load forked them.
//! Tasks that are not the load's are left out. Choices begin when the last slot has been forked. At each
//! choice a [`Situation`] says what the scheduler had: the CPU, who ran there and for how long, who waited and
//! why it was asked. Two kernels that chose differently in one situation decided differently; where
//! situations differ, what came before does.
//!
//! A situation holds no virtual times, so neutral code changes choices too. So [`differences`] compares how often
//! each [`Class`] of choices has each answer, beside placebos, and [`first`] shows a choice of a class that changed.

mod compared;
mod difference;
mod reader;
mod slots;

pub use compared::{Chosen, First, first, first_difference};
pub use difference::{Answers, Difference, OfKernel, Starts, differences, judge};
pub use reader::{of_events, read};

use schedlab_model::{Cpu, Nanos};
use std::collections::BTreeSet;
use std::fmt;

/// A task of the load: its slot, the load itself being `load`; children of slots are `3.0`.
pub(crate) type Slot = String;

/// Why the scheduler had to choose.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Occasion {
    /// A task was woken: does the current one go on?
    Woken {
        /// The task that was woken.
        task: Slot,
        /// Who woke it; `None`: an interrupt, or a task that is not the load's.
        by: Option<Slot>,
    },
    /// The current task slept or ended: who is next?
    Left,
    /// The current task has run for a while and others wait: does it go on?
    Ran,
}

/// Kinds of choices: what a scheduler decides by rules of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A task was woken: whether it preempts the current one, for itself or for another one that waits.
    Wakeup,
    /// The current task has run for a while: whether it gives way to one that waits.
    Slice,
    /// The current task slept or ended: who is next.
    Next,
}

/// For how long a task has run since it was chosen, in steps that double.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ran(u8);

impl Ran {
    /// The end of the first step.
    const STEP: Nanos = Nanos::from_micros(250);
    /// The last step has no end.
    const LAST: u8 = 9;

    /// The step that a time is in.
    #[must_use]
    pub fn of(time: Nanos) -> Self {
        let doublings = u64::BITS - (time.0 / Self::STEP.0).leading_zeros();
        Self(u8::try_from(doublings).map_or(Self::LAST, |step| step.min(Self::LAST)))
    }

    /// Where it ends and the next one begins; `None`: the last one.
    fn end(self) -> Option<Nanos> {
        (self.0 < Self::LAST).then(|| Nanos(Self::STEP.0 << self.0))
    }

    fn next(self) -> Self {
        Self(self.0.saturating_add(1).min(Self::LAST))
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begin = self.0.checked_sub(1).and_then(|before| Self(before).end());
        match (begin, self.end()) {
            (None, Some(end)) => write!(f, "up to {end}"),
            (Some(begin), Some(end)) => write!(f, "{begin} to {end}"),
            (begin, None) => write!(f, "{} or more", begin.unwrap_or_default()),
        }
    }
}

/// What the scheduler had when it chose.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Situation {
    /// The CPU that chooses.
    pub cpu: Cpu,
    /// The task that ran on this CPU.
    pub current: Slot,
    /// For how long it had run since it was chosen; the first step where it slept.
    pub ran: Ran,
    /// The tasks that waited on this CPU, the woken one included.
    pub waiting: BTreeSet<Slot>,
    /// Why the scheduler had to choose.
    pub asked: Occasion,
}

/// A choice: the task that runs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The time of the choice, on the trace's clock.
    pub at: Nanos,
    /// What the scheduler had.
    pub situation: Situation,
    /// The task that was chosen.
    pub next: Slot,
    /// Whether no other task had waited for longer than the one that was chosen.
    pub longest: bool,
}

/// Choices that ask the same in situations of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// What the scheduler was asked in all of them.
    pub kind: Kind,
    /// In which situations; `None`: all of this kind.
    pub case: Option<Case>,
}

/// Situations that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// The current task had run for a time of this step.
    Ran(Ran),
    /// At least this number of tasks waited, and fewer than twice this number.
    Waiting(usize),
}

impl Choice {
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self.situation.asked {
            Occasion::Woken { .. } => Kind::Wakeup,
            Occasion::Left => Kind::Next,
            Occasion::Ran => Kind::Slice,
        }
    }

    /// The answer to what its kind asks: whether the current task had to go, or whether the one that waited longest
    /// is next. `None`: there was nothing to choose.
    #[must_use]
    pub(crate) fn answer(&self) -> Option<bool> {
        match self.kind() {
            Kind::Wakeup | Kind::Slice => Some(self.next != self.situation.current),
            Kind::Next => (self.situation.waiting.len() > 1).then_some(self.longest),
        }
    }

    /// The classes that it counts for: all of its kind, and those that are alike.
    #[must_use]
    pub(crate) fn classes(&self) -> [Class; 2] {
        let kind = self.kind();
        let case = match kind {
            Kind::Wakeup | Kind::Slice => Case::Ran(self.situation.ran),
            Kind::Next => Case::Waiting(1 << self.situation.waiting.len().max(1).ilog2()),
        };
        [Class { kind, case: None }, Class { kind, case: Some(case) }]
    }
}
