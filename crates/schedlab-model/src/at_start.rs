//! What a part of a trace says of the moment at which it begins.

use crate::{Context, Cpu, Left, Nanos, Pid, Prio};
use serde::{Deserialize, Serialize};

/// Who ran, waited and slept when a part of a trace begins, as the events before it told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtStart {
    /// The CPUs that were idle. Of a CPU that is neither here nor has a task nothing is known.
    pub idle: Vec<Cpu>,
    /// The tasks of which something is known, by pid.
    pub tasks: Vec<TaskAtStart>,
    /// The end of the last gap in the events, zero if there was none. Waits from before it are not known.
    pub gap: Nanos,
}

/// What is known of a task when a part begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAtStart {
    /// The kernel's number of the task; idle tasks are in [`AtStart::idle`] instead.
    pub pid: Pid,
    /// Its priority when last seen.
    pub prio: Prio,
    /// Whether it runs, waits or sleeps, and where.
    pub does: Does,
    /// Since when it does that.
    pub since: Nanos,
    /// Where it last ran; `None` when not known.
    pub last_cpu: Option<Cpu>,
    /// When it last stopped running; zero when it was not seen to run.
    pub ran_until: Nanos,
    /// Who woke it last, if a task did, and on which CPU and in which context.
    pub waker: (Option<Pid>, Cpu, Context),
    /// The CPU on which it last ran when the present wait began.
    pub woken_from: Option<Cpu>,
    /// Whether the CPU of the present wait was changed by a migration since it was placed.
    pub moved: bool,
}

/// What a task does when a part begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// It was created, and not woken for the first time yet.
    New,
    /// It is current on this CPU.
    Run(Cpu),
    /// It waits on this CPU's queue, whether the CPU has been chosen already, and why it waits.
    Wait(Cpu, bool, Why),
    /// It sleeps; how it left its CPU.
    Sleep(Left),
}

/// Why a task waits for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// A wakeup made the task runnable.
    Woken,
    /// It was created and woken for the first time.
    New,
    /// It was displaced in the middle of kernel code (`R+`).
    Preempted,
    /// It stayed runnable, and was not in the middle of kernel code (`R`): displaced on its way back
    /// to user space. Where system calls were not recorded, yields are among them.
    Displaced,
    /// It gave up its CPU by `sched_yield`, as the system call's own event tells.
    Yielded,
}

impl Why {
    /// In CSV, JSON and data frames.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Woken => "woken",
            Self::New => "new",
            Self::Preempted => "displaced_in_kernel",
            Self::Displaced => "displaced",
            Self::Yielded => "yielded",
        }
    }

    /// Whether the wait began with a wakeup (a first one included).
    #[must_use]
    pub const fn is_wakeup(self) -> bool {
        matches!(self, Self::Woken | Self::New)
    }
}
