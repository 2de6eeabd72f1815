//! What an event altered, as questions see it.

use crate::CommId;
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId, Why};
use schedlab_model::{Context, Cpu, Left, Nanos, Phase};
use std::num::NonZeroU32;

/// One alteration of [`crate::State`]; the state that comes with it is the one after.
///
/// Changes come in order of [`crate::State::now`]. Only a loss takes effect earlier: the CPU is
/// unknown since its last event.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// A CPU has another occupant.
    Switch(Switch),
    /// A task began to wait because it was woken.
    Runnable(Runnable),
    /// The CPU of a woken task has been chosen (`sched_wakeup`).
    Placed {
        /// The time of the wakeup.
        at: Nanos,
        /// The task that waits now.
        task: TaskId,
        /// The CPU on whose queue it waits.
        cpu: Cpu,
        /// The queue on which it was taken to wait, when that was another.
        from: Option<Cpu>,
    },
    /// A task was moved to another CPU's queue.
    Moved(Moved),
    /// What a task did is not known any longer: a loss, or a CPU that was not observed.
    Forgotten {
        /// The time from which its state is unknown.
        at: Nanos,
        /// The task whose state is unknown.
        task: TaskId,
        /// What it did before.
        was: Activity,
        /// Since when it had done that.
        since: Nanos,
    },
    /// A task was created.
    Born {
        /// The time of the fork.
        at: Nanos,
        /// The task that was created.
        task: TaskId,
        /// The task that created it.
        parent: TaskId,
    },
    /// A task has another name.
    Renamed {
        /// The time of the change of name.
        at: Nanos,
        /// The task that has a new name.
        task: TaskId,
        /// The name that the task had before.
        was: CommId,
    },
    /// A task said that it ends (it still runs until its last switch).
    Exiting {
        /// The time at which the task said that it ends.
        at: Nanos,
        /// The task that ends.
        task: TaskId,
    },
    /// A user's mark in the trace.
    Mark {
        /// The time of the mark.
        at: Nanos,
        /// The CPU that logged it.
        cpu: Cpu,
        /// The task that it concerns; none when its pid was never seen.
        task: TaskId,
        /// The name of the mark, as an index into [`schedlab_model::TraceInfo::marks`].
        id: u32,
        /// Begin, end or point.
        phase: Phase,
        /// Which request of this name it begins or ends; 0 is none.
        request: u32,
    },
    /// Events of a CPU are missing.
    Lost {
        /// When this was noticed.
        at: Nanos,
        /// The CPU, unknown until its next switch.
        cpu: Cpu,
        /// How many, where the source knows.
        count: Option<NonZeroU32>,
    },
    /// A tracepoint beyond the scheduler's fired.
    Other {
        /// The time of the event.
        at: Nanos,
        /// The CPU that logged the event.
        cpu: Cpu,
        /// The tracepoint, as an index into [`schedlab_model::TraceInfo::others`].
        format: u16,
    },
}

impl Change {
    /// When it took effect.
    #[must_use]
    pub const fn at(&self) -> Nanos {
        match *self {
            Self::Switch(Switch { at, .. })
            | Self::Runnable(Runnable { at, .. })
            | Self::Moved(Moved { at, .. })
            | Self::Placed { at, .. }
            | Self::Forgotten { at, .. }
            | Self::Born { at, .. }
            | Self::Renamed { at, .. }
            | Self::Exiting { at, .. }
            | Self::Mark { at, .. }
            | Self::Lost { at, .. }
            | Self::Other { at, .. } => at,
        }
    }

    /// The CPUs whose occupant or queue it altered, at most two.
    #[inline]
    #[must_use]
    pub fn touched(&self, state: &State) -> [Option<Cpu>; 2] {
        match *self {
            Self::Switch(Switch { cpu, wait, .. }) => {
                [Some(cpu), wait.map(|wait| wait.cpu).filter(|queue| *queue != cpu)]
            }
            Self::Runnable(Runnable { task, .. }) => match state.task(task).activity {
                Activity::Waiting { cpu, placed: true, .. } => [Some(cpu), None],
                _ => [None, None],
            },
            Self::Placed { cpu, from, .. } => [Some(cpu), from],
            Self::Moved(Moved { queue, to, when: When::Waking | When::Waiting, .. }) => {
                [queue, Some(to)]
            }
            Self::Forgotten { was: Activity::Waiting { cpu, .. }, .. } => [Some(cpu), None],
            _ => [None, None],
        }
    }
}

/// The tasks whose activity a change may have altered.
pub(crate) fn concerned(change: &Change) -> [TaskId; 3] {
    const NONE: TaskId = TaskId::NONE;
    match *change {
        Change::Switch(Switch { was, prev, is, .. }) => {
            [was.task().unwrap_or(NONE), prev, is.task().unwrap_or(NONE)]
        }
        Change::Runnable(Runnable { task, .. })
        | Change::Placed { task, .. }
        | Change::Moved(Moved { task, .. })
        | Change::Forgotten { task, .. } => [task, NONE, NONE],
        _ => [NONE; 3],
    }
}

/// A CPU's occupant changed: an interval of the CPU ended, and perhaps a task's wait.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Switch {
    /// When; not before `since`.
    pub at: Nanos,
    /// Where the occupant changed.
    pub cpu: Cpu,
    /// The occupant that left the CPU.
    pub was: Occupant,
    /// The time at which that occupant came.
    pub since: Nanos,
    /// The task that left, by the event's own word; [`TaskId::NONE`] for the idle task, and when
    /// no switch was logged.
    pub prev: TaskId,
    /// How the occupant left; `None` when no switch was logged: the occupant was discovered, or
    /// lost.
    pub left: Option<Left>,
    /// Who is there now.
    pub is: Occupant,
    /// The wait of the task in `is` that ended; `None` when it was not seen to wait.
    pub wait: Option<Wait>,
    /// The CPU on which the task in `is` ran before; `None` if the trace does not show it.
    pub(crate) last_cpu: Option<Cpu>,
}

/// A wait for a CPU that ended with running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// Since when it waited.
    pub since: Nanos,
    /// The reason why the task waits.
    pub why: Why,
    /// On whose queue it stood last.
    pub cpu: Cpu,
}

/// A wakeup of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Runnable {
    /// The time of the wakeup.
    pub at: Nanos,
    /// The task that was woken.
    pub task: TaskId,
    /// The kind of the wakeup: [`Why::Woken`] or [`Why::New`].
    pub why: Why,
    /// The task, interrupt or idle CPU that woke it.
    pub waker: Waker,
    /// The CPU on which it last ran; `None` if the trace does not show it.
    pub last_cpu: Option<Cpu>,
    /// Since when it had slept, and how it left its CPU then; `None` when not known.
    pub slept: Option<(Nanos, Left)>,
}

/// Who woke a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waker {
    /// The task that was current; [`TaskId::NONE`] on an idle CPU.
    pub task: TaskId,
    /// The CPU on which the waker ran.
    pub cpu: Cpu,
    /// Unless [`Context::Task`], an interrupt woke it and `task` was only interrupted.
    pub context: Context,
}

/// When in a task's life it was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum When {
    /// While it was being woken: the wakeup chose another CPU.
    Waking,
    /// While it was being created.
    Fork,
    /// While it waited on a queue: it was balanced.
    Waiting,
    /// While it was not runnable, or not known.
    Asleep,
    /// While it ran: clocks disagree, or a switch is missing.
    Running,
}

/// A task that moved to another CPU's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moved {
    /// The time of the move.
    pub at: Nanos,
    /// Who was moved.
    pub task: TaskId,
    /// From whose queue, by the event's own word.
    pub from: Cpu,
    /// The queue on which it stood until now: `from`, unless events contradict each other; `None` when it
    /// stood on none.
    pub(crate) queue: Option<Cpu>,
    /// The CPU to whose queue it moved.
    pub to: Cpu,
    /// What the task did.
    pub(crate) when: When,
    /// Whether the stopper moved it, since `sched_setaffinity` or an exec asked for it: no decision of a wakeup or a balancer.
    pub(crate) for_affinity: bool,
    /// Where the move was logged.
    pub(crate) by_cpu: Cpu,
    /// The task that was current there.
    pub(crate) by: TaskId,
}
