//! The intervals of a trace as a Parquet table: who ran, who waited, who was not runnable, and what is
//! not known, row by row as they end.
//!
//! Memory: the tasks and CPUs seen and one row group of the table, for any trace's length.

use schedlab_model::table::{At, Column, Row, words};
use schedlab_model::{Cpu, Left, Nanos, Pid, columns};
use schedlab_timeline::{Change, CommId, Question, Slices, SlicesAnswer, State, TaskId};
use schedlab_trace::parquet_table::Table;
use schedlab_trace::{Converted, TraceError};
use std::io;
use std::path::Path;

/// Intervals that are held before they go to the table.
const HELD: usize = 4096;

/// Writes the intervals of the trace `from` to `part`.
pub(super) fn write(from: &Path, part: &Path) -> Result<Converted, TraceError> {
    let failed = |error| TraceError::io(part, &error);
    let mut source = schedlab_trace::open(from)?;
    let table = Table::create(part, "intervals", Interval::columns()).map_err(failed)?;
    let question = Intervals { slices: Slices::new(usize::MAX).with_sleeps(), table, rows: Ok(0) };
    let reply = schedlab_timeline::ask(source.as_mut(), question)
        .map_err(|error| TraceError::io(from, &error))?;
    let events = reply.answer.map_err(failed)?;
    Ok(Converted { events, untouched: false, warnings: reply.warnings })
}

/// Asks for all intervals, and passes them on as they come.
struct Intervals {
    slices: Slices,
    table: Table<Interval>,
    /// Rows so far, or why there are no more.
    rows: io::Result<u64>,
}

struct Interval {
    span: [Nanos; 2],
    cpu: Cpu,
    state: &'static str,
    /// The task and its name; `None` if nothing is known.
    task: Option<(Pid, String)>,
    left: Option<&'static str>,
    why: Option<&'static str>,
    interrupts: Option<Nanos>,
}

impl Row for Interval {
    const ABOUT: &'static str =
        "An interval in which a task ran, waited or was not runnable, or nothing was known.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "start_ns" = At(row.span[0]), "Where it begins.";
            "end_ns" = At(row.span[1]), "Where it ends.";
            "cpu" = row.cpu, "The CPU; of a task that is not runnable, where it ran last.";
            "state" = row.state, "`running`, `waiting`, `sleeping`, `uninterruptible`, `stopped` or `unknown`.";
            "pid" = row.task.as_ref().map(|task| task.0), "The task (thread).";
        };
        columns.push(words("comm", "Its name.", |row: &Self| {
            row.task.as_ref().map(|task| task.1.as_str().into())
        }));
        columns.extend(columns! { row: Self;
            "left" = row.left, "How a task that ran or sleeps left its CPU, as the kernel's state letters.";
            "why" = row.why, "Why a waiting task waited.";
            "interrupts_ns" = row.interrupts, "How much of a running interval interrupts took; absent while none were seen.";
        });
        columns
    }
}

impl Intervals {
    fn pass(&mut self, held: &SlicesAnswer, state: &State) {
        let interrupts = self.slices.sees_interrupts();
        let named = |task: TaskId, comm: CommId| {
            task.is_some().then(|| (state.task(task).pid, state.names().text(comm)))
        };
        let running = held.slices.iter().map(|slice| Interval {
            span: [slice.from, slice.to],
            cpu: slice.cpu,
            state: if slice.task.is_some() { "running" } else { "unknown" },
            task: named(slice.task, slice.comm),
            left: slice.left.map(|left| left.letters()),
            why: None,
            interrupts: Some(slice.interrupts).filter(|_| interrupts && slice.task.is_some()),
        });
        let waiting = held.waits.iter().map(|wait| Interval {
            span: [wait.from, wait.to],
            cpu: wait.cpu,
            state: "waiting",
            task: named(wait.task, state.task(wait.task).comm),
            left: None,
            why: Some(wait.why.name()),
            interrupts: None,
        });
        let asleep = held.sleeps.iter().map(|sleep| Interval {
            span: [sleep.from, sleep.to],
            cpu: sleep.cpu,
            state: match sleep.left {
                Left::Blocked => "uninterruptible",
                Left::Stopped | Left::Traced => "stopped",
                _ => "sleeping",
            },
            task: named(sleep.task, state.task(sleep.task).comm),
            left: Some(sleep.left.letters()),
            why: None,
            interrupts: None,
        });
        for interval in running.chain(waiting).chain(asleep) {
            let Ok(rows) = &mut self.rows else { return };
            match self.table.row(&interval) {
                Ok(()) => *rows += 1,
                Err(error) => self.rows = Err(error),
            }
        }
    }
}

impl Question for Intervals {
    type Answer = io::Result<u64>;

    fn begin(&mut self, state: &State) {
        self.slices.begin(state);
    }

    fn see(&mut self, change: &Change, state: &State) {
        self.slices.see(change, state);
        if self.slices.held() >= HELD {
            let held = self.slices.take();
            self.pass(&held, state);
        }
    }

    fn answer(mut self, state: &State) -> io::Result<u64> {
        let held = self.slices.clone().answer(state);
        self.pass(&held, state);
        self.table.finish()?;
        self.rows
    }
}
