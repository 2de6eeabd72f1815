//! A timeline as text: tests read it, a failing test shows two of them, a bug report is a test.
//!
//! A line per CPU, a column per tick (1 µs unless a line `tick 20us` says otherwise), and a capital
//! letter for the task that runs there; `.` is idle, `?` is unknown (events were lost, or none was
//! seen yet), `-` is a CPU that the trace does not cover. Lines without a number belong to the CPU
//! above and show in lower case who waits on its queue:
//!
//! ```text
//! 0 | AAAABB..      A runs for 4 ticks and sleeps; B, woken at 2, waits 2 ticks for it
//!   |   bb
//! 1 | .CC.AAA?      at 4, A goes on here: it was moved
//! at 2: A wakes B
//! ```
//!
//! What the letters alone cannot say stands below, a line each:
//!
//! | line | meaning |
//! |---|---|
//! | `at 2: A wakes B` | `A`, running, wakes `B`; without such a line an interrupt does, on the CPU where `B` is put |
//! | `at 2: interrupt on 1 wakes B` | an interrupt on CPU 1 wakes `B` |
//! | `at 2: A forks B` | `A` creates `B`; its first wakeup comes when it is next seen |
//! | `at 4: A dies` | its last switch says so; a later `A` is another task with the same pid |
//! | `at 4: A is displaced` | it is displaced, and not in the middle of kernel code (`R`, not `R+`) |
//! | `at 4: lose 7 on 1` | seven events of CPU 1 are missing, where the row turns to `?` |
//! | `at 3: A marks 0 begin` | a user's mark with its phase: `begin`, `end` or `point`; `... begin of 7` is request 7 |
//! | `A is called kworker/0:1` | its name; a letter is its own name otherwise |
//! | `; ...` | a comment |
//!
//! `A` has pid 1, `B` pid 2, and so on. At a column's edge things happen in this order: wakeups,
//! moves between queues, switches, and last the wakeups by tasks that only begin to run there.

mod edges;
mod grid;
mod parse;
mod print;

pub use grid::ParseError;
pub use parse::parse;
pub use print::print;

#[cfg(test)]
use schedlab_model::Kind;
use schedlab_model::{Event, EventSource, Nanos, TraceInfo, Warning};
use std::io;

/// A small trace in memory.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What is known besides the events.
    pub info: TraceInfo,
    /// The events, in order of time.
    pub events: Vec<Event>,
    /// The length of a column.
    pub tick: Nanos,
}

impl Trace {
    /// This trace, recorded without some kinds of events.
    #[cfg(test)]
    pub(crate) fn without(mut self, kinds: &[Kind]) -> Self {
        self.events.retain(|event| !kinds.contains(&event.what.kind()));
        let kept = self.info.kinds.iter().filter(|kind| !kinds.contains(kind)).collect();
        self.info.kinds = kept;
        self
    }

    /// A stream of its events.
    #[must_use]
    pub fn source(&self) -> impl EventSource + '_ {
        Stream { trace: self, at: 0 }
    }
}

struct Stream<'a> {
    trace: &'a Trace,
    at: usize,
}

/// Events handed out at once: few, so that tests meet the seams between batches.
const BATCH: usize = 7;

impl EventSource for Stream<'_> {
    fn info(&self) -> &TraceInfo {
        &self.trace.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        batch.clear();
        let rest = &self.trace.events[self.at..];
        batch.extend_from_slice(&rest[..rest.len().min(BATCH)]);
        self.at += batch.len();
        Ok(!batch.is_empty())
    }

    fn warnings(&self) -> &[Warning] {
        &[]
    }
}
