//! Time off the CPU whose waits have causes: each wait that [`Causes`] explains goes to the sleep that it followed.
//!
//! Waits that followed no sleep count too. So the times of a task add up to all its time off the CPU.

use super::{OffCpuAnswer, OffCpuStacks};
use crate::causes::{Causes, ExplainedWait};
use crate::change::{Change, Switch};
use crate::question::{OtherEvent, Question};
use crate::state::{Occupant, State};
use crate::task::{Activity, Why};
use schedlab_model::Nanos;

/// Asks for the time that tasks were off their CPUs, by stack, and for their waits by cause.
#[derive(Debug)]
pub struct OffCpuCauses {
    off: OffCpuStacks,
    causes: Causes,
}

/// Why a task waited that had not slept before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unslept {
    /// Another task took its CPU.
    Displaced,
    /// It gave up its CPU by `sched_yield`.
    Yielded,
    /// It was created, and had not run yet.
    New,
}

impl Unslept {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Displaced, Self::Yielded, Self::New];

    /// `None` of a wakeup: a sleep was before it, even if the window does not show it.
    pub(super) const fn of(why: Why) -> Option<Self> {
        match why {
            Why::Woken => None,
            Why::New => Some(Self::New),
            Why::Preempted | Why::Displaced => Some(Self::Displaced),
            Why::Yielded => Some(Self::Yielded),
        }
    }

    /// As a word in JSON and CSV.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Displaced => "displaced",
            Self::Yielded => "yielded",
            Self::New => "new",
        }
    }

    /// The frame in place of a stack.
    #[must_use]
    pub const fn frame(self) -> &'static str {
        match self {
            Self::Displaced => "[displaced]",
            Self::Yielded => "[yielded]",
            Self::New => "[new]",
        }
    }

    /// For legends.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Displaced => "another task took its CPU, and it waited",
            Self::Yielded => "gave up its CPU by sched_yield, and waited",
            Self::New => "was created, and waited for its first run",
        }
    }
}

impl OffCpuStacks {
    /// The same, with the causes of waits; waits without a sleep before count too.
    #[must_use]
    pub fn with_causes(self, causes: Causes) -> OffCpuCauses {
        OffCpuCauses { off: Self { by_cause: true, ..self }, causes }
    }

    /// A wait is over, or the window ends.
    fn explained(&mut self, wait: &ExplainedWait, why: Why) {
        let time = wait.parts.sum();
        self.of(wait.task).seen |= time > Nanos::ZERO;
        let slept = self.took_up(wait.task, why, wait.until, time);
        self.sums.explained(wait.task, slept, why, &wait.parts);
    }
}

/// Why a task waited whose wait a change ended.
fn why(wait: &ExplainedWait, change: &Change, state: &State) -> Why {
    match *change {
        Change::Switch(Switch { is: Occupant::Task(task), wait: Some(ended), .. })
            if task == wait.task =>
        {
            ended.why
        }
        Change::Forgotten { task, was: Activity::Waiting { why, .. }, .. } if task == wait.task => {
            why
        }
        _ => why_open(wait, state),
    }
}

/// Why a task waits that still does.
fn why_open(wait: &ExplainedWait, state: &State) -> Why {
    match state.task(wait.task).activity {
        Activity::Waiting { why, .. } => why,
        _ => Why::Woken,
    }
}

impl Question for OffCpuCauses {
    type Answer = OffCpuAnswer;

    fn wants(&mut self, format: u16, state: &State) -> bool {
        self.off.wants(format, state)
    }

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        self.off.other_event(event, state);
    }

    fn begin(&mut self, state: &State) {
        self.off.begin(state);
        self.causes.begin(state);
    }

    fn see(&mut self, change: &Change, state: &State) {
        self.causes.see(change, state);
        // Before the change: it may begin another sleep.
        for wait in self.causes.ended() {
            self.off.explained(wait, why(wait, change, state));
        }
        self.off.see(change, state);
    }

    fn answer(mut self, state: &State) -> OffCpuAnswer {
        for wait in &self.causes.answer(state).open {
            self.off.explained(wait, why_open(wait, state));
        }
        OffCpuAnswer { by_cause: true, ..self.off.answer(state) }
    }
}
