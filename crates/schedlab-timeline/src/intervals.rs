//! The intervals of a trace as rows: who ran, who waited, who was not runnable, and what is not known, as they end.
//!
//! Memory: the tasks and CPUs seen, for any trace's length.

use crate::change::Change;
use crate::names::CommId;
use crate::question::Question;
use crate::slices::{Slices, SlicesAnswer};
use crate::state::State;
use crate::task::TaskId;
use schedlab_model::table::{At, Column, Row, words};
use schedlab_model::{Cpu, Left, Nanos, Pid, columns};
use std::sync::Arc;

/// Intervals that are held before they are passed on.
const HELD: usize = 4096;
const WAITING: &str = "waiting";

/// An interval.
#[derive(Clone, Debug)]
pub struct Interval {
    span: [Nanos; 2],
    cpu: Cpu,
    state: &'static str,
    /// The task and its name; `None` if nothing is known.
    task: Option<(Pid, Arc<str>)>,
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
            row.task.as_ref().map(|task| (*task.1).into())
        }));
        columns.extend(columns! { row: Self;
            "left" = row.left, "How a task that ran or sleeps left its CPU, as the kernel's state letters.";
            "why" = row.why, "Why a waiting task waited.";
            "interrupts_ns" = row.interrupts, "How much of a running interval interrupts took; absent while none were seen.";
        });
        columns
    }
}

impl Interval {
    /// Whether the task waited for a CPU.
    #[must_use]
    pub fn is_wait(&self) -> bool {
        self.state == WAITING
    }
}

/// Asks for all intervals, and passes them on as they come.
#[derive(Debug)]
pub struct Intervals<S> {
    slices: Slices,
    names: Vec<Option<Arc<str>>>,
    sink: S,
}

impl<S: FnMut(Interval)> Intervals<S> {
    /// Passes intervals in which a task ran or waited, or nothing was known.
    #[must_use]
    pub fn new(sink: S) -> Self {
        Self { slices: Slices::new(usize::MAX), names: Vec::new(), sink }
    }

    /// The same, and intervals in which a task was not runnable.
    #[must_use]
    pub fn with_sleeps(self) -> Self {
        Self { slices: self.slices.with_sleeps(), ..self }
    }

    fn pass(&mut self, held: &SlicesAnswer, state: &State) {
        let interrupts = self.slices.sees_interrupts();
        let Self { names, sink, .. } = self;
        let mut named = |task: TaskId, comm: CommId| {
            task.is_some().then(|| (state.task(task).pid, name(names, comm, state)))
        };
        for slice in &held.slices {
            sink(Interval {
                span: [slice.from, slice.to],
                cpu: slice.cpu,
                state: if slice.task.is_some() { "running" } else { "unknown" },
                task: named(slice.task, slice.comm),
                left: slice.left.map(Left::letters),
                why: None,
                interrupts: Some(slice.interrupts).filter(|_| interrupts && slice.task.is_some()),
            });
        }
        for wait in &held.waits {
            sink(Interval {
                span: [wait.from, wait.to],
                cpu: wait.cpu,
                state: WAITING,
                task: named(wait.task, state.task(wait.task).comm),
                left: None,
                why: Some(wait.why.name()),
                interrupts: None,
            });
        }
        for sleep in &held.sleeps {
            sink(Interval {
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
        }
    }
}

/// A name as text, made once.
fn name(names: &mut Vec<Option<Arc<str>>>, comm: CommId, state: &State) -> Arc<str> {
    let index = comm.0 as usize;
    if index >= names.len() {
        names.resize(index + 1, None);
    }
    let made = names[index].get_or_insert_with(|| state.names().text(comm).into());
    Arc::clone(made)
}

impl<S: FnMut(Interval)> Question for Intervals<S> {
    type Answer = ();

    const QUEUES: bool = false;

    fn begin(&mut self, state: &State) {
        self.slices.begin(state);
    }

    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        self.slices.see(change, state);
        if self.slices.held() >= HELD {
            let held = self.slices.take();
            self.pass(&held, state);
        }
    }

    fn answer(mut self, state: &State) {
        let held = self.slices.clone().answer(state);
        self.pass(&held, state);
    }
}
