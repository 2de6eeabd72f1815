//! Rows of the answer about locks.

use super::{LockKind, LockName, LocksAnswer};
use crate::in_reply::InReply;
use crate::ran_instead::Meanwhile;
use crate::task::TaskId;
use schedlab_model::table::{Column, Row};
use schedlab_model::{Nanos, Span, columns};

/// Waits for a lock while one task held it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockHeld {
    /// The lock that was waited for.
    pub lock: LockName,
    /// How the holder is known.
    pub(crate) kind: LockKind,
    /// Who held it; `None` if that is not known, or nobody did.
    pub holder: Option<TaskId>,
    /// How many waits, or parts of waits, there were.
    pub(crate) waits: u64,
    /// How many tasks these were.
    pub(crate) waiters: u64,
    /// How long they waited, summed over tasks.
    pub waited: Nanos,
    /// The part of it in which the holder ran.
    pub(crate) ran: Nanos,
    /// In which it waited for a CPU, and was not throttled.
    pub runnable: Nanos,
    /// The part of that in which it had been displaced, and was not woken or created.
    pub displaced: Nanos,
    /// In which it was certainly throttled.
    pub throttled: Nanos,
    pub(crate) blocked: Nanos,
    /// The rest: the holder is unknown, or what it did.
    pub(crate) unknown: Nanos,
    /// How long the holder had no CPU while any task waited.
    pub stalled: Nanos,
    /// How many tasks waited at once then, at most.
    pub tasks_max: u64,
    /// Who was on the holder's CPU in that time.
    pub(crate) instead: Meanwhile,
}

/// One wait of one task for one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockWait {
    /// The lock that the task waited for.
    pub lock: LockName,
    /// How its holders are known.
    pub(crate) kind: LockKind,
    /// Who waited.
    pub task: TaskId,
    /// From when until when.
    pub span: Span,
    /// Who held it longest at one go; `None` if that is not known.
    pub holder: Option<TaskId>,
    /// How long holders had no CPU meanwhile.
    pub stalled: Nanos,
}

impl LockWait {
    /// How its holders are known: `pi`, `word`, `mutex`, `kernel` or `marks`.
    #[must_use]
    pub const fn known_by(&self) -> &'static str {
        self.kind.name()
    }
}

impl LockHeld {
    /// How much waiting would not have been if the holder had had a CPU all the time.
    #[must_use]
    pub fn cost(&self) -> Nanos {
        self.runnable + self.throttled
    }

    /// Who was on the holder's CPU longest while it had none.
    #[must_use]
    pub fn displaced_by(&self) -> Option<TaskId> {
        self.instead.ran.first().map(|(task, _)| *task)
    }
}

impl Row for InReply<'_, LockHeld, LocksAnswer> {
    const ABOUT: &'static str =
        "Waits for a lock while one task held it; times are summed over the tasks that waited.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "lock" ["lock"] = row.reply.answer.title(row.lock, &row.reply.state), "Process and address of the lock, or the name that marks give it.";
            "known_by" ["known by"] = row.kind.name(), "How the holder is known: `pi`, `word`, `mutex`, `kernel` or `marks`.";
            "holder_pid" ["pid", 10] = row.holder.map(|task| row.pid(task)), "The task (thread) that held it; `null` if that is not known.";
            "holder" ["holder"] = row.holder.map(|task| row.name(task)), "Its name at the end.";
            "waits" ["waits"] = row.waits, "How many waits it made others wait.";
            "waiters" ["tasks"] = row.waiters, "How many tasks these were.";
            "waited_ns" ["waited"] @ SleepTime = row.waited, "How long they waited.";
            "holder_ran_ns" ["holder ran", 20] @ SleepTime = row.ran, "The part of it in which the holder ran.";
            "holder_runnable_ns" ["holder waited for a CPU"] @ SleepTime = row.runnable, "The part in which the holder waited for a CPU.";
            "holder_displaced_ns" @ SleepTime = row.displaced, "The part of that in which it had been displaced, and was not woken or created.";
            "holder_throttled_ns" ["holder throttled", 20] @ SleepTime = row.throttled, "The part in which the holder was throttled.";
            "holder_blocked_ns" ["holder blocked", 20] @ SleepTime = row.blocked, "The part in which the holder was blocked.";
            "unknown_ns" = row.unknown, "The part in which the holder, or what it did, is unknown.";
            "stalled_ns" @ SleepTime = row.stalled, "How long the holder had no CPU while any task waited; each instant counts once.";
            "stalled_tasks_max" ["tasks at once", 20] = row.tasks_max, "How many tasks waited at once in that time, at most.";
            "displaced_by_pid" = row.displaced_by().map(|task| row.pid(task)), "The task that was on the holder's CPU longest in that time.";
            "displaced_by" ["displaced by"] = row.displaced_by().map(|task| row.name(task)), "Its name at the end.";
        }
    }
}
