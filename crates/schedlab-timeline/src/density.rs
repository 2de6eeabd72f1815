//! For pictures with more slices than pixels: per CPU and pixel column, how much of it was busy,
//! exactly, and with whom mostly. Cost and memory depend on the pixels, not on the events.

use crate::change::{Change, Switch};
use crate::question::Question;
use crate::state::{Occupant, State};
use crate::task::TaskId;
use schedlab_model::{Cpu, Nanos, Span};

/// By what a cell distinguishes tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Each task by itself: [`Cell::top`] is a [`TaskId`]'s number.
    Task,
    /// Tasks of the same name together: [`Cell::top`] is a [`crate::CommId`]'s number.
    Comm,
}

/// One pixel column of one CPU. 16 bytes; times are in the unit of the answer's `scale`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The part of the column in which some task ran: 0 ..= 65,535 for none ..= all of it.
    pub busy: u16,
    /// The part of the cell about which nothing is known, of 65,535.
    pub unknown: u16,
    /// The part of the cell that belongs to [`Self::top`], of 65,535.
    pub top_part: u16,
    /// How many different tasks or names (see [`By`]) ran in the cell; saturates at 65,535.
    pub mixed: u16,
    /// Who ran most (see [`By`]); 0 when nobody.
    pub top: u32,
}

/// Asks for the cells of a window.
#[derive(Clone, Debug)]
pub struct Density {
    window: Span,
    columns: usize,
    by: By,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Default)]
struct Row {
    cells: Vec<Cell>,
    /// The column that is being filled: a CPU's intervals come in order of time.
    column: usize,
    busy: u64,
    unknown: u64,
    /// Who ran in this column and how long. Few: a CPU seldom runs many tasks within a pixel.
    parts: Vec<(u32, u64)>,
}

/// The cells of [`Density`], by CPU and column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DensityAnswer {
    /// What the columns cover, equally; column `i` begins at `start + i * duration / columns`.
    pub window: Span,
    /// Into how many equal parts the window is divided.
    pub columns: usize,
    /// A row of `columns` cells for each CPU that belongs to the trace, by number.
    pub rows: Vec<(Cpu, Vec<Cell>)>,
}

impl Density {
    /// `columns` (at least 1) over `window`, in the trace's own time.
    #[must_use]
    pub fn new(window: Span, columns: usize, by: By) -> Self {
        Self { window, columns: columns.max(1), by, rows: Vec::new() }
    }

    /// The first nanosecond of a column, relative to the window's start.
    fn edge(&self, column: usize) -> u64 {
        edge(self.window, self.columns, column)
    }

    fn spent(&mut self, cpu: Cpu, was: Occupant, since: Nanos, at: Nanos, state: &State) {
        let since = since.max(state.window().start);
        let who = match (was, self.by) {
            (Occupant::Idle, _) => return,
            (Occupant::Unknown, _) => None,
            (Occupant::Task(task), By::Task) => Some(task.0),
            (Occupant::Task(task), By::Comm) => Some(state.task(task).comm.0),
        };
        self.add(cpu, Span::new(since, at), who);
    }

    /// Adds an interval in which a CPU was busy with somebody (see [`By`]), or in which nothing is known of it. The
    /// intervals of a CPU come in order of time.
    pub fn add(&mut self, cpu: Cpu, span: Span, who: Option<u32>) {
        let span = span.intersection(self.window);
        if span.start >= span.end {
            return;
        }
        let mut offset = (span.start - self.window.start).0;
        let end = (span.end - self.window.start).0;
        if cpu.index() >= self.rows.len() {
            self.rows.resize_with(cpu.index() + 1, Row::default);
        }
        let window = self.window;
        let columns = self.columns;
        let duration = window.duration().0.max(1);
        let row = &mut self.rows[cpu.index()];
        let mut column = (u128::from(offset) * columns as u128 / u128::from(duration)) as usize;
        while offset < end {
            // The division above rounds down, as the edges do; one step mends the difference.
            while edge(window, columns, column + 1) <= offset {
                column += 1;
            }
            let stop = edge(window, columns, column + 1).min(end);
            if column != row.column {
                row.close(window, columns);
                row.column = column;
            }
            row.add(who, stop - offset);
            offset = stop;
        }
    }
}

/// The first nanosecond of a column, relative to the window's start.
fn edge(window: Span, columns: usize, column: usize) -> u64 {
    let duration = u128::from(window.duration().0);
    // At most the duration, so it fits.
    (duration * column as u128 / columns as u128) as u64
}

impl Row {
    #[inline]
    fn add(&mut self, who: Option<u32>, ns: u64) {
        let Some(who) = who else {
            self.unknown += ns;
            return;
        };
        self.busy += ns;
        match self.parts.iter_mut().rev().find(|(part, _)| *part == who) {
            Some((_, sum)) => *sum += ns,
            None => self.parts.push((who, ns)),
        }
    }

    /// Turns what was gathered for the present column into its cell.
    fn close(&mut self, window: Span, columns: usize) {
        if self.busy == 0 && self.unknown == 0 {
            return;
        }
        let width = edge(window, columns, self.column + 1) - edge(window, columns, self.column);
        let part = |ns: u64| {
            let part = (u128::from(ns) * 65_535 / u128::from(width.max(1))).min(65_535) as u16;
            // What was there is never rounded away.
            part.max(u16::from(ns > 0))
        };
        // The longest; of equals the one with the smallest number, so that no order matters.
        let top = self.parts.iter().max_by_key(|(who, ns)| (*ns, std::cmp::Reverse(*who)));
        if self.cells.len() < columns {
            self.cells.resize(columns, Cell::default());
        }
        self.cells[self.column] = Cell {
            busy: part(self.busy),
            unknown: part(self.unknown),
            top_part: top.map_or(0, |(_, ns)| part(*ns)),
            mixed: u16::try_from(self.parts.len()).unwrap_or(u16::MAX),
            top: top.map_or(TaskId::NONE.0, |(who, _)| *who),
        };
        (self.busy, self.unknown) = (0, 0);
        self.parts.clear();
    }
}

impl Question for Density {
    type Answer = DensityAnswer;

    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        if let Change::Switch(Switch { at, cpu, was, since, .. }) = *change {
            self.spent(cpu, was, since, at, state);
        }
    }

    fn answer(mut self, state: &State) -> DensityAnswer {
        let mut rows = Vec::new();
        debug_assert_eq!(self.edge(self.columns), self.window.duration().0);
        for (cpu, here) in state.observed_cpus() {
            self.spent(cpu, here.occupant, here.since, state.window().end, state);
            let mut row = self.rows.get_mut(cpu.index()).map(std::mem::take).unwrap_or_default();
            row.close(self.window, self.columns);
            row.cells.resize(self.columns, Cell::default());
            rows.push((cpu, row.cells));
        }
        DensityAnswer { window: self.window, columns: self.columns, rows }
    }
}
