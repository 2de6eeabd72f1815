//! Scheduler events: small plain values, the same whether a kernel, a file or a simulator made them.
//!
//! Names carry the traps of the kernel's events. [`What::Waking`] fires *before* a CPU is chosen, so
//! it carries the CPU on which the task last ran; [`What::Wakeup`] carries the placement. Both keep
//! the context in which the waker ran, else tasks are blamed that were only interrupted.

use crate::{Cpu, Nanos};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// A task (a thread), by the kernel's pid; 0 is a CPU's idle task. Pids can be used again.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    schemars::JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct Pid(pub i32);

impl Pid {
    /// The idle task, which every CPU has one of.
    pub const IDLE: Self = Self(0);

    /// Whether this is an idle task.
    #[must_use]
    pub const fn is_idle(self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Display for Pid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A kernel priority: -1 deadline, 0..=99 real-time (0 highest), 100..=139 nice -20..=19.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    schemars::JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct Prio(pub i16);

impl Prio {
    /// The priority of a fair task with nice 0 (120).
    pub const NORMAL: Self = Self(120);

    /// Whether a deadline task has it.
    #[must_use]
    pub const fn is_deadline(self) -> bool {
        self.0 < 0
    }

    /// Whether a real-time task has it: 0 to 99.
    #[must_use]
    pub const fn is_real_time(self) -> bool {
        !(self.is_deadline() || self.is_fair())
    }

    /// Whether a fair task has it: 100 (nice -20) and above.
    #[must_use]
    pub const fn is_fair(self) -> bool {
        self.0 >= 100
    }
}

/// How the previous task left its CPU at a switch (the state letter of `sched_switch`).
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    schemars::JsonSchema,
    Serialize,
    Deserialize,
)]
pub enum Left {
    /// Still runnable, displaced in the middle of kernel code (`R+`): it waits on this CPU until it
    /// runs or migrates.
    Preempted,
    /// Still runnable (`R`): displaced on its way back to user space, or after a yield, which this
    /// event does not tell apart. It waits as well.
    Displaced,
    /// The task blocked in interruptible sleep (`S`).
    Slept,
    /// The task blocked in uninterruptible sleep (`D`).
    Blocked,
    /// Stopped by a signal (`T`).
    Stopped,
    /// Stopped by a tracer (`t`).
    Traced,
    /// Dead or a zombie (`X`, `Z`): it never runs again.
    Dead,
    /// Parked kernel thread (`P`).
    Parked,
    /// Idle kernel thread, uninterruptible and not counted as load (`I`).
    IdleSleep,
    /// A state that this file's kernel knows and we do not: it is not runnable.
    Other,
}

impl Left {
    /// Whether the task went on waiting for a CPU.
    #[must_use]
    pub const fn is_runnable(self) -> bool {
        matches!(self, Self::Preempted | Self::Displaced)
    }

    /// Whether the kernel counts this switch as voluntary (`nvcsw`): the task gave up running
    /// because it had nothing to run. A yield is involuntary to the kernel's counters, and so here.
    #[must_use]
    pub const fn is_voluntary(self) -> bool {
        !self.is_runnable()
    }

    /// The kernel's letter, with `R+` for preempted.
    #[must_use]
    pub const fn letters(self) -> &'static str {
        match self {
            Self::Preempted => "R+",
            Self::Displaced => "R",
            Self::Slept => "S",
            Self::Blocked => "D",
            Self::Stopped => "T",
            Self::Traced => "t",
            Self::Dead => "X",
            Self::Parked => "P",
            Self::IdleSleep => "I",
            Self::Other => "?",
        }
    }
}

/// What the CPU was doing when an event fired (`common_flags`).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    schemars::JsonSchema,
    Serialize,
    Deserialize,
)]
pub enum Context {
    /// The current task itself, as in a system call.
    #[default]
    Task,
    /// A softirq that interrupted [`Event::by`].
    SoftIrq,
    /// A hardware interrupt that interrupted [`Event::by`].
    HardIrq,
    /// The event fired in a non-maskable interrupt.
    Nmi,
    /// The trace does not say: [`Event::by`] may have been interrupted.
    Unknown,
}

/// Which part of a user's mark an event is.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    schemars::JsonSchema,
    Serialize,
    Deserialize,
)]
pub enum Phase {
    /// The start of what the mark describes.
    Begin,
    /// The end of what the mark describes.
    End,
    /// Something happened at this instant.
    Point,
}

/// A task's name: up to 15 bytes, padded with NUL; bytes, since the kernel promises no encoding.
pub type Comm = [u8; 16];

/// One scheduler event. 40 bytes, `Copy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on the trace's clock.
    pub time: Nanos,
    /// The task that was current on `cpu`.
    pub by: Pid,
    /// The CPU that logged the event.
    pub cpu: Cpu,
    /// What that CPU was doing.
    pub context: Context,
    /// What happened, with its arguments.
    pub what: What,
}

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// `cpu` stopped running `prev` and runs `next` from now on.
    Switch {
        /// The task that ran.
        prev: Pid,
        /// The priority of the task that left the CPU.
        prev_prio: Prio,
        /// Why the task left the CPU.
        left: Left,
        /// The task that runs now.
        next: Pid,
        /// The priority of the task that runs next.
        next_prio: Prio,
    },
    /// `pid` is about to be woken; no CPU has been chosen yet.
    Waking {
        /// The task being woken.
        pid: Pid,
        /// The priority of the woken task.
        prio: Prio,
        /// Where it *last ran*: not the placement, which a [`What::Migrate`] or [`What::Wakeup`] tells.
        last_cpu: Cpu,
    },
    /// `pid` became runnable on `cpu` (which need not be the CPU that logged it).
    Wakeup {
        /// The task that became runnable.
        pid: Pid,
        /// The priority of the woken task.
        prio: Prio,
        /// Where it was put.
        cpu: Cpu,
        /// Whether this is its first wakeup after fork (`sched_wakeup_new`).
        new: bool,
    },
    /// `pid` was moved between runqueues.
    Migrate {
        /// The task that moved.
        pid: Pid,
        /// The CPU on whose runqueue the task was.
        from: Cpu,
        /// The CPU on whose runqueue the task is now.
        to: Cpu,
    },
    /// The task `by` created the task `child`.
    Fork {
        /// The task that was created.
        child: Pid,
    },
    /// `by` executed a new program; its pid was `old` (another thread's when a non-leader executes).
    Exec {
        /// The pid that called.
        old: Pid,
    },
    /// The task `pid` ended.
    Exit {
        /// The task that ended.
        pid: Pid,
    },
    /// From now on `pid` is called `comm`.
    Comm {
        /// The task that has a new name.
        pid: Pid,
        /// Its name from now on.
        comm: Comm,
    },
    /// A user's mark: a phase of a workload, a job.
    Mark {
        /// The task that it concerns.
        pid: Pid,
        /// The name of the mark, as an index into [`crate::TraceInfo::marks`].
        id: u32,
        /// Begin, end or point.
        phase: Phase,
        /// Which request of this name: its begin and its end carry the same number, also when another task ends
        /// it. 0 is none: then a task's end belongs to its own last begin.
        request: u32,
    },
    /// Events of this CPU are missing before this point: its state is unknown until its next switch.
    Lost {
        /// How many, where the source knows.
        count: Option<NonZeroU32>,
    },
    /// A CPU is taken out of use, or put into it again. As a change of name, it comes beside the event that says so
    /// (`cpuhp_enter`).
    Online {
        /// The CPU, which need not be the one that logged the event.
        cpu: Cpu,
        /// Whether it can run tasks from now on.
        online: bool,
    },
    /// Another tracepoint; its raw bytes stay in the record layer.
    Other {
        /// The tracepoint, as an index into [`crate::TraceInfo::others`].
        format: u16,
    },
}

const _: () = assert!(size_of::<Event>() == 40, "events flow by the million: keep them small");

/// The kinds of events, one per kernel event that carries them.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    schemars::JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A context switch (`sched_switch`).
    Switch,
    /// The start of a wakeup, on the waker's CPU (`sched_waking`).
    Waking,
    /// The end of a wakeup, with the chosen CPU (`sched_wakeup`).
    Wakeup,
    /// The first wakeup of a created task (`sched_wakeup_new`).
    WakeupNew,
    /// The move of a task to another CPU's runqueue (`sched_migrate_task`).
    Migrate,
    /// The creation of a task (`sched_process_fork`).
    Fork,
    /// The execution of another program (`sched_process_exec`).
    Exec,
    /// The end of a task (`sched_process_exit`).
    Exit,
    /// A change of name.
    Comm,
    /// A mark that a user wrote into the trace.
    Mark,
    /// Events that the recorder lost.
    Lost,
    /// A CPU that is taken out of use, or put into it.
    Online,
    /// A tracepoint beyond the scheduler's.
    Other,
}

impl Kind {
    /// All kinds, in a fixed order.
    pub const ALL: [Self; 13] = [
        Self::Switch,
        Self::Waking,
        Self::Wakeup,
        Self::WakeupNew,
        Self::Migrate,
        Self::Fork,
        Self::Exec,
        Self::Exit,
        Self::Comm,
        Self::Mark,
        Self::Lost,
        Self::Online,
        Self::Other,
    ];

    /// The kernel's name for the event; a name of schedlab's own for events that the kernel does
    /// not have.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Switch => "sched_switch",
            Self::Waking => "sched_waking",
            Self::Wakeup => "sched_wakeup",
            Self::WakeupNew => "sched_wakeup_new",
            Self::Migrate => "sched_migrate_task",
            Self::Fork => "sched_process_fork",
            Self::Exec => "sched_process_exec",
            Self::Exit => "sched_process_exit",
            Self::Comm => "comm",
            Self::Mark => "mark",
            Self::Lost => "lost",
            Self::Online => "cpu_online",
            Self::Other => "other",
        }
    }
}

impl What {
    /// The variant without its content.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Switch { .. } => Kind::Switch,
            Self::Waking { .. } => Kind::Waking,
            Self::Wakeup { new: false, .. } => Kind::Wakeup,
            Self::Wakeup { new: true, .. } => Kind::WakeupNew,
            Self::Migrate { .. } => Kind::Migrate,
            Self::Fork { .. } => Kind::Fork,
            Self::Exec { .. } => Kind::Exec,
            Self::Exit { .. } => Kind::Exit,
            Self::Comm { .. } => Kind::Comm,
            Self::Mark { .. } => Kind::Mark,
            Self::Lost { .. } => Kind::Lost,
            Self::Online { .. } => Kind::Online,
            Self::Other { .. } => Kind::Other,
        }
    }
}

/// A set of kinds: which of them a source can hold at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KindSet(u16);

impl KindSet {
    /// The set that holds no kind.
    pub const EMPTY: Self = Self(0);
    /// The set that holds every kind.
    pub const ALL: Self = Self((1 << Kind::ALL.len()) - 1);

    /// A copy that also has `kind`.
    #[must_use]
    pub const fn with(self, kind: Kind) -> Self {
        Self(self.0 | 1 << kind as u16)
    }

    /// Whether `kind` is in it.
    #[must_use]
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 >> (kind as u16) & 1 == 1
    }

    /// In the order of [`Kind::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl FromIterator<Kind> for KindSet {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::EMPTY, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_kinds_holds_what_was_put_in() {
        let set: KindSet = [Kind::Switch, Kind::Other].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [Kind::Switch, Kind::Other]);
        assert_eq!(KindSet::ALL.iter().count(), Kind::ALL.len());
        assert!(!KindSet::EMPTY.contains(Kind::Switch));
    }

    #[test]
    fn a_priority_belongs_to_one_class() {
        let classes = |prio: i16| {
            let prio = Prio(prio);
            [prio.is_deadline(), prio.is_real_time(), prio.is_fair()]
        };
        assert_eq!(classes(-1), [true, false, false]);
        assert_eq!([classes(0), classes(99)], [[false, true, false]; 2]);
        assert_eq!([classes(100), classes(120), classes(139)], [[false, false, true]; 3]);
    }

    #[test]
    fn a_yield_waits_and_is_involuntary_as_in_the_kernels_counters() {
        assert!(Left::Displaced.is_runnable() && !Left::Displaced.is_voluntary());
        assert!(!Left::Slept.is_runnable() && Left::Slept.is_voluntary());
    }
}
