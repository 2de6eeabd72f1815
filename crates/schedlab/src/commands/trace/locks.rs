//! `schedlab trace locks`: who waited for locks, who held them, and what holders without a CPU cost.

use super::input::{self, Head, Input, Selection};
use super::why::locks::of_holder;
use super::why::overview::Limits;
use crate::json;
use schedlab_model::table::Rows;
use schedlab_model::{Nanos, Warning};
use schedlab_timeline::{InReply, LockHeld, LocksAnswer, Reply};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Options of `schedlab trace locks`.
#[derive(clap::Args)]
#[command(after_help = "\
`schedlab record --locks` records futex calls and contention for the kernel's locks. A program
tells of other locks, such as user spinlocks, by marks (`schedlab record --trace-marker`): it
writes 'begin lock:NAME' and 'end lock:NAME' around the time in which it holds a lock, and
'begin lock-wait:NAME' and 'end lock-wait:NAME' around a wait.

The holder of a mutex is known afterwards, by who released it. `known by` says how:
  pi      the kernel hands the lock over, so only its holder can release it
  word    the word of the futex names the holder
  mutex   each wait found the value 2, as mutexes of glibc, Rust and Go have it
  kernel  the task that woke the waiter released the lock
  marks   marks tell
Other futexes may be condition variables, semaphores or joins: they are counted and have no holder.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    selection: Selection,
    /// Print at most N rows; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let limits = Limits::of(&args.input)?;
    let mut reply = limits.ask_locks(&args.input)?;
    reply.warnings.extend(doubts(&reply, &limits));
    reply.answer.about(&args.input.chosen(&args.selection)?);
    let rows = reply.rows(&reply.answer.rows);
    let sum = |of: fn(&LockHeld) -> Nanos| {
        reply.answer.rows.iter().map(of).fold(Nanos::ZERO, |sum, time| sum + time)
    };
    let document = Document {
        head: Head::of(&reply),
        waited_ns: sum(|row| row.waited),
        holder_runnable_ns: sum(|row| row.runnable),
        holder_throttled_ns: sum(|row| row.throttled),
        other_waits: reply.answer.other_count,
        other_waited_ns: reply.answer.other_time,
        locks: Rows::new(&rows, reply.origin).known(&reply.known),
    };
    let form = args.input.part.form;
    form.print(&reply.warnings, &document, &document.locks, || {
        let mut table = document.locks.text(form.room(), &[]);
        table.all();
        document.text(&reply) + &table.print(args.top)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What limits the answer.
fn doubts(reply: &Reply<LocksAnswer>, limits: &Limits) -> Vec<Warning> {
    let names = |name: &str| reply.state.others().iter().any(|other| other.name.starts_with(name));
    let mut found = Vec::new();
    let calls = names("sys_enter_futex");
    let kernel = names("contention_begin");
    let what = match (calls, kernel) {
        (true, true) => None,
        (true, false) => {
            Some("locks of the kernel are unknown: the trace holds no contention events")
        }
        (false, true) => {
            Some("locks of programs are unknown, but for marks: the trace holds no futex calls")
        }
        (false, false) => Some(
            "locks are unknown, but for marks: the trace holds no futex calls and no contention events",
        ),
    };
    let was_asked = limits.is_own() && (calls || kernel);
    let remedy = if was_asked { "this kernel does not tell them" } else { "record with --locks" };
    found.extend(what.map(|what| Warning::new("locks-unknown", what, remedy)));
    found.extend(listed(reply.answer.listed_waits, reply.answer.listed_wakes));
    if !limits.knows_processes() {
        let what = "locks of several processes may be taken for one: the trace does not hold which threads form a process";
        let remedy = if limits.is_own() { "" } else { "`schedlab record` stores it" };
        found.push(Warning::new("processes-unknown", what, remedy));
    }
    found
}

/// What is missing because events only point to a list of words.
fn listed(waits: u64, wakes: u64) -> Option<Warning> {
    let calls = match (waits, wakes) {
        (0, 0) => return None,
        (waits, 0) => format!("{waits} calls of futex_waitv"),
        (0, wakes) => format!("{wakes} calls of futex_requeue"),
        (waits, wakes) => format!("{waits} calls of futex_waitv and {wakes} of futex_requeue"),
    };
    let what = format!(
        "waits for locks or releases are missing: the events of {calls} do not hold their futexes"
    );
    Some(Warning::new("futexes-in-lists", what, ""))
}

/// `schedlab trace locks --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// How long tasks waited for locks in sum.
    waited_ns: Nanos,
    /// The part of it in which the holder waited for a CPU.
    holder_runnable_ns: Nanos,
    /// The part in which the holder was throttled.
    holder_throttled_ns: Nanos,
    /// Waits on futexes that are taken for no locks.
    other_waits: u64,
    /// How long these were in sum.
    other_waited_ns: Nanos,
    /// By lock and holder, those first whose lack of a CPU cost the most waiting.
    locks: Rows<'a, InReply<'a, LockHeld, LocksAnswer>>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-locks/1";
}

impl Document<'_> {
    fn text(&self, reply: &Reply<LocksAnswer>) -> String {
        let lacked = self.holder_runnable_ns + self.holder_throttled_ns;
        let mut text = format!(
            "Tasks waited {} for locks in {}; for {} of it the holder had no CPU.\n",
            self.waited_ns.readable(),
            input::looked_at(reply),
            lacked.readable()
        );
        let worst = reply.answer.rows.first().filter(|row| row.cost() > Nanos::ZERO);
        if let Some(said) = worst.and_then(|row| of_holder(row, reply)) {
            text += &crate::output::wrapped("", "", &said, 80);
            text.push('\n');
        }
        if self.other_waits > 0 {
            let count = self.other_waits;
            let time = self.other_waited_ns.readable();
            let _ = writeln!(
                text,
                "{count} waits on futexes ({time}) are taken for no locks: condition variables, semaphores, joins."
            );
        }
        text + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_lists_of_futexes_are_a_warning_with_their_number() {
        let said = |waits, wakes| listed(waits, wakes).map(|warning| warning.what);
        assert_eq!(said(0, 0), None);
        for (waits, wakes, calls) in [
            (2, 0, "2 calls of futex_waitv"),
            (0, 3, "3 calls of futex_requeue"),
            (2, 3, "2 calls of futex_waitv and 3 of futex_requeue"),
        ] {
            let events = format!(": the events of {calls} do not hold their futexes");
            assert!(said(waits, wakes).is_some_and(|said| said.ends_with(&events)), "{calls}");
        }
    }
}
