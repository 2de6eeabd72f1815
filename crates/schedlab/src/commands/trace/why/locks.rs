//! What the holders of locks cost those who waited for them, in sentences.

use crate::commands::trace::input::{Input, Named};
use schedlab_model::table::{At, Column, Row};
use schedlab_model::{Nanos, Span, columns};
use schedlab_timeline::{InReply, LockHeld, LockWait, LocksAnswer, Reply, TaskId};

/// What costs less in sum is not worth a sentence.
const COST_MIN: Nanos = Nanos(1_000_000);

/// The lock whose holder cost most while it had no CPU; `None` if none cost anything worth naming.
pub(super) fn said(reply: &Reply<LocksAnswer>, input: &Input) -> Option<String> {
    let worst = reply.answer.rows.first().filter(|row| row.cost() >= COST_MIN)?;
    let all = reply.answer.rows.iter().fold(Nanos::ZERO, |sum, row| sum + row.waited);
    Some(format!(
        "{} Tasks waited {} for locks. `schedlab trace locks {}` tells more.",
        of_holder(worst, reply)?,
        all.readable(),
        input.shown()
    ))
}

/// `postgres (17), which held the lock ..., was displaced by hog (55) for 12.4 ms while up to 12 tasks waited for the lock: 148 ms
/// of waiting.`
pub(crate) fn of_holder(row: &LockHeld, reply: &Reply<LocksAnswer>) -> Option<String> {
    let state = &reply.state;
    let holder = Named::of(row.holder?, state);
    let lock = reply.answer.title(row.lock, state);
    // What it lacked most, and how much waiting that was.
    let (lacked, part) = match (row.throttled > row.runnable, row.displaced_by()) {
        (true, _) => ("was throttled".to_owned(), row.throttled),
        (false, Some(by)) if row.displaced >= row.runnable - row.displaced => {
            (format!("was displaced by {}", Named::of(by, state)), row.displaced)
        }
        (false, Some(by)) => {
            let what = format!("waited for a CPU behind {}", Named::of(by, state));
            (what, row.runnable - row.displaced)
        }
        (false, None) => ("had no CPU".to_owned(), row.cost()),
    };
    let waiters = match row.tasks_max {
        1 => "a task".to_owned(),
        count => format!("up to {count} tasks"),
    };
    let stalled = row.stalled.readable();
    let cost = row.cost().readable();
    // A part under one percent is no other story.
    if part.0 * 100 >= row.cost().0 * 99 {
        return Some(format!(
            "{holder}, which held the lock {lock}, {lacked} for {stalled} while {waiters} waited for the lock: \
             {cost} of waiting."
        ));
    }
    Some(format!(
        "{holder}, which held the lock {lock}, had no CPU for {stalled} while {waiters} waited for the lock: \
         {cost} of waiting, {} of it while it {lacked}.",
        part.readable()
    ))
}

/// The waits of a task for locks in a span, the longest first.
pub(super) fn within(reply: &Reply<LocksAnswer>, task: TaskId, span: Span) -> Vec<LockWait> {
    let is_own = |wait: &&LockWait| {
        wait.task == task && wait.span.intersection(span).duration() > Nanos::ZERO
    };
    let mut waits: Vec<LockWait> = reply.answer.waits.iter().filter(is_own).copied().collect();
    waits.sort_by_key(|wait| (std::cmp::Reverse(wait.span.duration()), wait.span.start));
    waits
}

/// A wait for a lock, with what knows the names.
pub(crate) struct Waited<'a>(pub(super) InReply<'a, LockWait, LocksAnswer>);

impl Waited<'_> {
    fn holder(&self) -> Option<Named> {
        self.0.holder.map(|task| Named::of(task, &self.0.reply.state))
    }

    fn lock(&self) -> String {
        self.0.reply.answer.title(self.0.lock, &self.0.reply.state)
    }

    /// `waited 12.4 ms for the lock ..., which worker (17) held: the holder had no CPU for 8.00 ms of it`.
    pub(super) fn said(&self) -> String {
        let time = self.0.span.duration().readable();
        let lock = self.lock();
        let Some(holder) = self.holder() else {
            return format!("waited {time} for the lock {lock}, whose holder is not known");
        };
        let stalled = match self.0.stalled {
            Nanos::ZERO => "the holder had a CPU, or was blocked".to_owned(),
            time => format!("the holder had no CPU for {} of it", time.readable()),
        };
        format!("waited {time} for the lock {lock}, which {holder} held: {stalled}")
    }
}

impl Row for Waited<'_> {
    const ABOUT: &'static str = "A wait of the task that ended the request for a lock.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "start_ns" = At(row.0.span.start), "Where it begins.";
            "end_ns" = At(row.0.span.end), "Where it ends: the task was woken, or has the lock.";
            "lock" = row.lock(), "Process and address of the lock, or the name that marks give it.";
            "known_by" = row.0.known_by(), "How the holder is known: `pi`, `word`, `mutex`, `kernel` or `marks`.";
            "holder_pid" = row.0.holder.map(|task| row.0.reply.state.task(task).pid), "The task (thread) that held it longest meanwhile; `null` if that is not known.";
            "holder" = row.0.holder.map(|task| row.0.reply.state.name(task)), "Its name at the end.";
            "holder_stalled_ns" = row.0.stalled, "How long holders waited for a CPU, or were throttled, meanwhile.";
        }
    }
}
