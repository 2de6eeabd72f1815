//! The causes of waits, and times by cause.

use schedlab_model::Nanos;
use std::cmp::Reverse;

/// Why a task waits at an instant, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WaitCause {
    /// What its CPU did is not known, or whether its group's budget was used up.
    Unknown,
    /// Its CPU was taken out of use.
    Offline,
    /// Its group had used its CPU quota, or a deadline or real-time task its own budget.
    Throttled,
    /// Its CPU idled beside it for longer than a switch takes: a limit that the trace does not hold.
    HeldBack,
    /// Its CPU idled and was about to switch to it, or the wakeup was still choosing a CPU.
    HandingOver,
    /// Its CPU handled an interrupt, by its recorded events; without these the time counts for who was interrupted.
    Interrupt,
    /// Another CPU was free, and the task was not allowed there.
    Pinned,
    /// Another CPU was free, and the task was allowed there as far as the trace tells.
    Misplaced,
    /// A kernel thread ran.
    KernelThread,
    /// A deadline task ran.
    Deadline,
    /// A real-time task ran.
    RealTime,
    /// Another task of its group ran.
    OwnGroup,
    /// A task of another group ran.
    OtherGroup,
    /// Another task ran; the trace does not tell the groups.
    Fair,
}

/// How a cause is called in each place.
struct Words {
    name: &'static str,
    title: &'static str,
    about: &'static str,
}

impl WaitCause {
    /// All causes in the order in which they are tried.
    pub const ALL: [Self; 14] = [
        Self::Unknown,
        Self::Offline,
        Self::Throttled,
        Self::HeldBack,
        Self::HandingOver,
        Self::Interrupt,
        Self::Pinned,
        Self::Misplaced,
        Self::KernelThread,
        Self::Deadline,
        Self::RealTime,
        Self::OwnGroup,
        Self::OtherGroup,
        Self::Fair,
    ];

    /// As a word in JSON and CSV.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.words().name
    }

    /// In a table for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        self.words().title
    }

    /// In a sentence, for legends and the tables of the documentation.
    #[must_use]
    pub const fn about(self) -> &'static str {
        self.words().about
    }

    const fn words(self) -> Words {
        match self {
            Self::Unknown => Words {
                name: "unknown",
                title: "unknown",
                about: "What its CPU did is not known, or whether its group's budget was used up.",
            },
            Self::Offline => {
                Words { name: "offline", title: "offline", about: "Its CPU was taken out of use." }
            }
            Self::Throttled => Words {
                name: "throttled",
                title: "throttled",
                about: "Its control group had used up its CPU quota, or a deadline or real-time task its own budget.",
            },
            Self::HeldBack => Words {
                name: "held_back",
                title: "held back (limit unknown)",
                about: "Its CPU idled beside it for over 1 ms: a limit that the trace does not hold.",
            },
            Self::HandingOver => Words {
                name: "handing_over",
                title: "handing over",
                about: "Its CPU idled and was about to switch to it, or the wakeup was choosing a CPU.",
            },
            Self::Interrupt => Words {
                name: "interrupt",
                title: "interrupts",
                about: "Its CPU handled an interrupt; where interrupts were not recorded, the time counts for the interrupted task.",
            },
            Self::Pinned => Words {
                name: "pinned",
                title: "pinned",
                about: "Another CPU was free where the task was not allowed to run.",
            },
            Self::Misplaced => Words {
                name: "misplaced",
                title: "misplaced",
                about: "Another CPU was free where the task may run; if the affinity is not known, it is taken to run anywhere.",
            },
            Self::KernelThread => Words {
                name: "kernel_thread",
                title: "competition: kernel threads",
                about: "A kernel thread ran.",
            },
            Self::Deadline => Words {
                name: "deadline_task",
                title: "competition: deadline tasks",
                about: "A deadline task ran.",
            },
            Self::RealTime => Words {
                name: "real_time_task",
                title: "competition: real-time tasks",
                about: "A real-time task ran.",
            },
            Self::OwnGroup => Words {
                name: "own_group",
                title: "competition: own group",
                about: "Another fair task of its control group ran.",
            },
            Self::OtherGroup => Words {
                name: "other_group",
                title: "competition: other groups",
                about: "A fair task of another control group ran.",
            },
            Self::Fair => Words {
                name: "competition",
                title: "competition",
                about: "Another fair task ran, and the trace does not tell the groups.",
            },
        }
    }

    /// Whether somebody else ran instead.
    #[must_use]
    pub const fn has_culprit(self) -> bool {
        !matches!(
            self,
            Self::Unknown
                | Self::Offline
                | Self::Throttled
                | Self::HeldBack
                | Self::HandingOver
                | Self::Interrupt
        )
    }
}

/// Times by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts([i64; WaitCause::ALL.len()]);

impl Parts {
    /// The time with this cause.
    #[must_use]
    pub const fn of(&self, cause: WaitCause) -> Nanos {
        let time = self.0[cause as usize];
        Nanos(if time > 0 { time.cast_unsigned() } else { 0 })
    }

    /// The sum over all causes: the length of the wait.
    #[must_use]
    pub fn sum(&self) -> Nanos {
        WaitCause::ALL.into_iter().fold(Nanos::ZERO, |sum, cause| sum + self.of(cause))
    }

    /// Causes that took time, longest first.
    #[must_use]
    pub fn ranked(&self) -> Vec<(WaitCause, Nanos)> {
        let all = WaitCause::ALL.into_iter().map(|cause| (cause, self.of(cause)));
        let mut some: Vec<(WaitCause, Nanos)> =
            all.filter(|(_, time)| *time > Nanos::ZERO).collect();
        some.sort_by_key(|(cause, time)| (Reverse(*time), *cause));
        some
    }

    /// Adds the times of another.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, time)| *sum += time);
    }

    /// Adds time with this cause.
    pub(crate) fn count(&mut self, cause: WaitCause, time: Nanos) {
        self.0[cause as usize] += time.0.cast_signed();
    }

    /// These times without those that a part of them took.
    #[must_use]
    pub fn without(&self, part: &Self) -> Self {
        let mut rest = *self;
        rest.0.iter_mut().zip(part.0).for_each(|(sum, time)| *sum -= time);
        rest
    }

    pub(super) fn move_to(&mut self, to: WaitCause, from: WaitCause, time: Nanos) {
        self.0[from as usize] -= time.0.cast_signed();
        self.count(to, time);
    }
}
