//! The intervals of a trace as a Parquet table: who ran, who waited, who was not runnable, and what is
//! not known, row by row as they end.
//!
//! Memory: the tasks and CPUs seen and one row group of the table, for any trace's length.

use schedlab_model::{Cpu, Left, Nanos};
use schedlab_timeline::{Change, CommId, Question, Slices, SlicesAnswer, State, TaskId, Why};
use schedlab_trace::parquet_table::{Cell, ColumnKind, Table};
use schedlab_trace::{Converted, TraceError};
use std::io;
use std::path::Path;

/// The columns: `left` says how a task that ran or sleeps left its CPU (as the kernel's state letters), `why` why a
/// waiting task waited. `cpu` of a task that is not runnable is where it ran last.
/// `interrupts_ns` is how much of a running interval interrupts took, absent while none were seen.
const COLUMNS: [(&str, ColumnKind); 9] = [
    ("start_ns", ColumnKind::Time),
    ("end_ns", ColumnKind::Time),
    ("cpu", ColumnKind::Cpu),
    ("state", ColumnKind::Text),
    ("pid", ColumnKind::Number),
    ("comm", ColumnKind::Text),
    ("left", ColumnKind::Text),
    ("why", ColumnKind::Text),
    ("interrupts_ns", ColumnKind::Duration),
];

/// Intervals that are held before they go to the table.
const HELD: usize = 4096;

/// Writes the intervals of the trace `from` to `part`.
pub(super) fn write(from: &Path, part: &Path) -> Result<Converted, TraceError> {
    let failed = |error| TraceError::io(part, error);
    let mut source = schedlab_trace::open(from)?;
    let table = Table::create(part, "intervals", &COLUMNS).map_err(failed)?;
    let question = Intervals { slices: Slices::new(usize::MAX).with_sleeps(), table, rows: Ok(0) };
    let reply = schedlab_timeline::ask(source.as_mut(), question)
        .map_err(|error| TraceError::io(from, error))?;
    let events = reply.answer.map_err(failed)?;
    Ok(Converted { events, untouched: false, warnings: reply.warnings })
}

/// Asks for all intervals, and passes them on as they come.
struct Intervals {
    slices: Slices,
    table: Table,
    /// Rows so far, or why there are no more.
    rows: io::Result<u64>,
}

/// A row that has yet to be spelt.
struct Interval {
    span: [Nanos; 2],
    cpu: Cpu,
    state: &'static str,
    task: TaskId,
    comm: CommId,
    left: Option<&'static str>,
    why: Option<&'static str>,
    interrupts: Option<Nanos>,
}

impl Intervals {
    fn pass(&mut self, held: &SlicesAnswer, state: &State) {
        let interrupts = self.slices.sees_interrupts();
        let running = held.slices.iter().map(move |slice| Interval {
            span: [slice.from, slice.to],
            cpu: slice.cpu,
            state: if slice.task.is_some() { "running" } else { "unknown" },
            task: slice.task,
            comm: slice.comm,
            left: slice.left.map(|left| left.letters()),
            why: None,
            interrupts: Some(slice.interrupts).filter(|_| interrupts && slice.task.is_some()),
        });
        let waiting = held.waits.iter().map(|wait| Interval {
            span: [wait.from, wait.to],
            cpu: wait.cpu,
            state: "waiting",
            task: wait.task,
            comm: state.task(wait.task).comm,
            left: None,
            why: Some(match wait.why {
                Why::Woken => "woken",
                Why::New => "new",
                Why::Preempted => "preempted",
                Why::Yielded => "yielded",
            }),
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
            task: sleep.task,
            comm: state.task(sleep.task).comm,
            left: Some(sleep.left.letters()),
            why: None,
            interrupts: None,
        });
        for interval in running.chain(waiting).chain(asleep) {
            let Ok(rows) = &mut self.rows else { return };
            match row(&mut self.table, &interval, state) {
                Ok(()) => *rows += 1,
                Err(error) => self.rows = Err(error),
            }
        }
    }
}

fn row(table: &mut Table, interval: &Interval, state: &State) -> io::Result<()> {
    let known = interval.task.is_some();
    let name = if known { state.names().text(interval.comm) } else { String::new() };
    let text = |text: Option<&'static str>| text.map_or(Cell::Absent, Cell::Text);
    table.row(&[
        Cell::Time(interval.span[0].0),
        Cell::Time(interval.span[1].0),
        Cell::Number(interval.cpu.0.into()),
        Cell::Text(interval.state),
        if known { Cell::Number(state.task(interval.task).pid.0) } else { Cell::Absent },
        if known { Cell::Text(&name) } else { Cell::Absent },
        text(interval.left),
        text(interval.why),
        interval.interrupts.map_or(Cell::Absent, |time| Cell::Time(time.0)),
    ])
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
