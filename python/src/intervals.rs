//! Who ran where, and who waited: the intervals of a trace as columns.

use crate::columns::{Found, Numbers, PART, cpu, nanos, numbers, plain, table, time, words};
use crate::table::Table;
use arrow_array::ArrayRef;
use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt16Type};
use arrow_schema::ArrowError;
use schedlab_model::Left;
use schedlab_timeline::{
    Change, CommId, Question, Slice, Slices, SlicesAnswer, State, TaskId, WaitSlice, Why,
};
use std::sync::Arc;

/// How a task leaves its CPU: the column `left`.
const LEFT: [Left; 10] = [
    Left::Preempted,
    Left::Displaced,
    Left::Slept,
    Left::Blocked,
    Left::Stopped,
    Left::Traced,
    Left::Dead,
    Left::Parked,
    Left::IdleSleep,
    Left::Other,
];
/// Why a task waits: the column `why`.
const WHY: [Why; 5] = [Why::Woken, Why::New, Why::Preempted, Why::Displaced, Why::Yielded];
/// Intervals that are held before they become rows.
const HELD: usize = 4096;

/// Asks for the intervals, and makes columns of them as they come.
pub(crate) struct Intervals {
    question: Slices,
    comms: Comms,
    slices: SliceRows,
    waits: WaitRows,
}

impl Intervals {
    /// No interval yet.
    pub(crate) fn new() -> Self {
        Self {
            question: Slices::new(usize::MAX),
            comms: Comms::default(),
            slices: SliceRows::new(),
            waits: WaitRows::new(),
        }
    }

    fn pass(&mut self, held: &SlicesAnswer, state: &State) {
        let sees_interrupts = self.question.sees_interrupts();
        for slice in &held.slices {
            self.slices.put(slice, sees_interrupts, &mut self.comms, state);
        }
        for wait in &held.waits {
            self.waits.put(wait, &mut self.comms, state);
        }
    }
}

impl Question for Intervals {
    type Answer = Result<(Table, Table), ArrowError>;

    const QUEUES: bool = false;

    fn begin(&mut self, state: &State) {
        self.question.begin(state);
    }

    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        self.question.see(change, state);
        if self.question.held() >= HELD {
            let held = self.question.take();
            self.pass(&held, state);
        }
    }

    fn answer(mut self, state: &State) -> Self::Answer {
        let held = self.question.clone().answer(state);
        self.pass(&held, state);
        let comms = self.comms.found.words();
        Ok((self.slices.table(&comms)?, self.waits.table(&comms)?))
    }
}

/// Numbers of words by the timeline's numbers of names.
#[derive(Default)]
struct Comms {
    known: Vec<Option<i32>>,
    found: Found,
}

impl Comms {
    #[inline]
    fn number(&mut self, comm: CommId, state: &State) -> i32 {
        let index = comm.0 as usize;
        match self.known.get(index) {
            Some(Some(number)) => *number,
            _ => self.learn(comm, state),
        }
    }

    #[cold]
    fn learn(&mut self, comm: CommId, state: &State) -> i32 {
        let index = comm.0 as usize;
        if index >= self.known.len() {
            self.known.resize(index + 1, None);
        }
        let number = self.found.number(&state.names().text(comm));
        self.known[index] = Some(number);
        number
    }
}

/// Rows of who ran, or of CPUs of which nothing is known.
struct SliceRows {
    part: SlicePart,
    rows: usize,
    done: Vec<Vec<ArrayRef>>,
}

struct SlicePart {
    start: Numbers<Int64Type>,
    end: Numbers<Int64Type>,
    cpu: Numbers<UInt16Type>,
    pid: Numbers<Int32Type>,
    comm: Numbers<Int32Type>,
    left: Numbers<Int8Type>,
    interrupts: Numbers<Int64Type>,
}

impl SliceRows {
    fn new() -> Self {
        Self { part: SlicePart::new(), rows: 0, done: Vec::new() }
    }

    #[inline]
    fn put(&mut self, slice: &Slice, sees_interrupts: bool, comms: &mut Comms, state: &State) {
        let part = &mut self.part;
        part.start.append_value(time(slice.from));
        part.end.append_value(time(slice.to));
        part.cpu.append_value(cpu(slice.cpu));
        let known = slice.task.is_some();
        part.pid.append_option(known.then(|| pid(slice.task, state)));
        part.comm.append_option(known.then(|| comms.number(slice.comm, state)));
        let place = |left| LEFT.iter().position(|it| *it == left).unwrap_or(LEFT.len() - 1) as i8;
        part.left.append_option(slice.left.map(place));
        part.interrupts.append_option((sees_interrupts && known).then(|| time(slice.interrupts)));
        self.rows += 1;
        if self.rows == PART {
            self.close();
        }
    }

    #[cold]
    fn close(&mut self) {
        self.done.push(std::mem::replace(&mut self.part, SlicePart::new()).arrays());
        self.rows = 0;
    }

    fn table(mut self, comms: &[String]) -> Result<Table, ArrowError> {
        if self.rows > 0 || self.done.is_empty() {
            self.close();
        }
        let heads = vec![
            nanos("start_ns"),
            nanos("end_ns"),
            plain("cpu"),
            plain("pid"),
            words("comm", comms),
            words("left", LEFT.map(Left::letters)),
            nanos("interrupts_ns"),
        ];
        table(heads, self.done)
    }
}

impl SlicePart {
    fn new() -> Self {
        Self {
            start: numbers(PART),
            end: numbers(PART),
            cpu: numbers(PART),
            pid: numbers(PART),
            comm: numbers(PART),
            left: numbers(PART),
            interrupts: numbers(PART),
        }
    }

    fn arrays(mut self) -> Vec<ArrayRef> {
        vec![
            Arc::new(self.start.finish()),
            Arc::new(self.end.finish()),
            Arc::new(self.cpu.finish()),
            Arc::new(self.pid.finish()),
            Arc::new(self.comm.finish()),
            Arc::new(self.left.finish()),
            Arc::new(self.interrupts.finish()),
        ]
    }
}

fn pid(task: TaskId, state: &State) -> i32 {
    state.task(task).pid.0
}

/// Rows of who waited.
struct WaitRows {
    part: WaitPart,
    rows: usize,
    done: Vec<Vec<ArrayRef>>,
}

struct WaitPart {
    start: Numbers<Int64Type>,
    end: Numbers<Int64Type>,
    cpu: Numbers<UInt16Type>,
    pid: Numbers<Int32Type>,
    comm: Numbers<Int32Type>,
    why: Numbers<Int8Type>,
}

impl WaitRows {
    fn new() -> Self {
        Self { part: WaitPart::new(), rows: 0, done: Vec::new() }
    }

    #[inline]
    fn put(&mut self, wait: &WaitSlice, comms: &mut Comms, state: &State) {
        let part = &mut self.part;
        part.start.append_value(time(wait.from));
        part.end.append_value(time(wait.to));
        part.cpu.append_value(cpu(wait.cpu));
        part.pid.append_value(pid(wait.task, state));
        part.comm.append_value(comms.number(state.task(wait.task).comm, state));
        part.why.append_value(match wait.why {
            Why::Woken => 0,
            Why::New => 1,
            Why::Preempted => 2,
            Why::Displaced => 3,
            Why::Yielded => 4,
        });
        self.rows += 1;
        if self.rows == PART {
            self.close();
        }
    }

    #[cold]
    fn close(&mut self) {
        self.done.push(std::mem::replace(&mut self.part, WaitPart::new()).arrays());
        self.rows = 0;
    }

    fn table(mut self, comms: &[String]) -> Result<Table, ArrowError> {
        if self.rows > 0 || self.done.is_empty() {
            self.close();
        }
        let heads = vec![
            nanos("start_ns"),
            nanos("end_ns"),
            plain("cpu"),
            plain("pid"),
            words("comm", comms),
            words("why", WHY.map(Why::name)),
        ];
        table(heads, self.done)
    }
}

impl WaitPart {
    fn new() -> Self {
        Self {
            start: numbers(PART),
            end: numbers(PART),
            cpu: numbers(PART),
            pid: numbers(PART),
            comm: numbers(PART),
            why: numbers(PART),
        }
    }

    fn arrays(mut self) -> Vec<ArrayRef> {
        vec![
            Arc::new(self.start.finish()),
            Arc::new(self.end.finish()),
            Arc::new(self.cpu.finish()),
            Arc::new(self.pid.finish()),
            Arc::new(self.comm.finish()),
            Arc::new(self.why.finish()),
        ]
    }
}
