//! One task as the state machine knows it.

use crate::names::CommId;
pub use schedlab_model::Why;
use schedlab_model::{Context, Cpu, Left, Nanos, Pid, Prio};

/// A task by its number in [`crate::State`], dense from 1 in order of appearance. Unlike a pid it
/// is never used again: a second task with the same pid has another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

impl TaskId {
    /// The id that stands for no task.
    pub const NONE: Self = Self(0);

    /// The number, for tables with an entry for each task.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether this is a task at all.
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// Where a task is now: on a CPU, on a queue, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activity {
    /// Not known: nothing was seen yet, events were lost, or it is on a CPU that was not observed.
    Unknown,
    /// Created, and not woken for the first time yet.
    New,
    /// The task runs on a CPU.
    Running {
        /// The CPU on which it runs.
        cpu: Cpu,
    },
    /// It is runnable and does not run.
    Waiting {
        /// On whose queue; while not `placed`, where it last ran.
        cpu: Cpu,
        /// Whether the CPU has been chosen: false between waking and wakeup.
        placed: bool,
        /// The reason why the task waits.
        why: Why,
    },
    /// It sleeps, stopped, or is parked.
    Sleeping {
        /// How it left its CPU.
        left: Left,
    },
    /// It never runs again.
    Dead,
}

/// What is known about one task.
// One line of the cache: with thousands of tasks, each event would fetch two.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Task {
    /// Since when [`Self::activity`] holds.
    pub since: Nanos,
    /// What the task does at the moment.
    pub activity: Activity,
    /// The pid of the task. It changes only when a thread executes a program in its leader's place.
    pub pid: Pid,
    /// The current name of the task.
    pub comm: CommId,
    /// The next waiter on the same CPU.
    pub(crate) next: TaskId,
    /// The waiter before it on the same CPU.
    pub(crate) prev: TaskId,
    /// Who woke it last; [`TaskId::NONE`] for an idle CPU's interrupt, or when not known.
    pub waker: TaskId,
    /// The CPU that woke it last.
    pub(crate) waker_cpu: Cpu,
    /// In which context: anything but [`Context::Task`] means that the waker was only interrupted.
    pub(crate) waker_context: Context,
    /// The task's priority when last seen, as the kernel numbers it.
    pub prio: Prio,
    /// Where it last ran, or where the kernel said so; `None` when not known.
    pub last_cpu: Option<Cpu>,
    /// Whether the CPU of the present wait was changed by a migration since it was placed.
    pub(crate) moved: bool,
    /// The CPU on which it last ran when the present wait began.
    pub(crate) woken_from: Option<Cpu>,
    /// When it last stopped running; zero when it was not seen to run.
    pub(crate) ran_until: Nanos,
}

impl Task {
    pub(crate) const fn new(pid: Pid, comm: CommId, now: Nanos) -> Self {
        Self {
            since: now,
            activity: Activity::Unknown,
            pid,
            comm,
            next: TaskId::NONE,
            prev: TaskId::NONE,
            waker: TaskId::NONE,
            waker_cpu: Cpu(0),
            waker_context: Context::Task,
            prio: Prio::NORMAL,
            last_cpu: None,
            moved: false,
            woken_from: None,
            ran_until: Nanos::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_fills_a_line_of_the_cache() {
        assert_eq!(size_of::<Task>(), 64);
    }
}
