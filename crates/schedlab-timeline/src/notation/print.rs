//! From events to text.

use crate::change::Change;
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId};
use schedlab_model::{Context, Cpu, EventSource, Nanos};
use std::fmt::Write as _;
use std::io;

/// The most columns that are printed: a longer trace is cut there.
const COLUMNS: usize = 100_000;

/// The printed lines of one CPU.
#[derive(Default)]
struct Row {
    runs: String,
    /// Who stands in each line of waiters, and the line.
    waits: Vec<(TaskId, String)>,
}

/// The state at the beginning of each column, `tick` apart, from the trace's first instant to its
/// last. Tasks have their name as letter where that is a single capital, else the first free one;
/// the 27th and later are `#` and `+`. What happens between two columns is not seen.
///
/// # Errors
/// When the source cannot be read.
pub fn print(source: &mut dyn EventSource, tick: Nanos) -> io::Result<String> {
    let span = source.info().span;
    let mut state = State::new(source.info());
    let mut picture = Picture::default();
    let mut batch = Vec::new();
    let mut start = span.map(|span| span.start);
    let tick = Nanos(tick.0.max(1));
    while source.next(&mut batch)? {
        for event in &batch {
            let origin = *start.get_or_insert(event.time);
            picture.until((event.time - origin).0.div_ceil(tick.0), &state);
            let column = (event.time - origin).0 / tick.0;
            state.step(event, &mut |change, state| picture.note(change, column, state));
        }
    }
    let origin = start.unwrap_or(Nanos::ZERO);
    let end = span.map_or(state.now() + Nanos(1), |span| span.end);
    picture.until((end - origin).0.div_ceil(tick.0), &state);
    Ok(picture.text(&state, tick))
}

#[derive(Default)]
struct Picture {
    columns: usize,
    rows: Vec<Row>,
    letters: Vec<Option<u8>>,
    statements: String,
}

impl Picture {
    /// Draws columns until there are `columns` of them, all alike: nothing happened in between.
    fn until(&mut self, columns: u64, state: &State) {
        let columns = usize::try_from(columns).unwrap_or(usize::MAX).min(COLUMNS);
        while self.columns < columns {
            self.column(state);
        }
    }

    fn column(&mut self, state: &State) {
        self.rows.resize_with(state.cpus().len(), Row::default);
        for (number, cpu) in (0..=u16::MAX).map(Cpu).zip(state.cpus()) {
            let letter = match cpu.occupant {
                Occupant::Unknown if !cpu.observed => '-',
                Occupant::Unknown => '?',
                Occupant::Idle => '.',
                Occupant::Task(task) => self.letter(task, state).map_or('#', char::from),
            };
            let waiters = self.waiters(number, state);
            let row = &mut self.rows[number.index()];
            // A CPU that came late was unknown until then.
            while row.runs.len() < self.columns {
                row.runs.push('?');
            }
            row.runs.push(letter);
            for (task, line) in &mut row.waits {
                if !waiters.iter().any(|(waiter, _)| waiter == task) {
                    *task = TaskId::NONE;
                }
                let pad = self.columns - line.len();
                line.extend(std::iter::repeat_n(' ', pad));
            }
            for (waiter, letter) in waiters {
                let has = row.waits.iter().position(|(task, _)| *task == waiter);
                let free = || row.waits.iter().position(|(task, _)| !task.is_some());
                let at = has.or_else(free).unwrap_or_else(|| {
                    row.waits.push((waiter, " ".repeat(self.columns)));
                    row.waits.len() - 1
                });
                row.waits[at].0 = waiter;
                row.waits[at].1.push(letter);
            }
        }
        self.columns += 1;
    }

    /// Who waits on a CPU or, not placed yet, waits where it last ran; in order of appearance.
    fn waiters(&mut self, cpu: Cpu, state: &State) -> Vec<(TaskId, char)> {
        let here = |activity: Activity| matches!(activity, Activity::Waiting { cpu: queue, .. } if queue == cpu);
        let waiting = state.tasks().filter(|(_, task)| here(task.activity)).map(|(id, _)| id);
        let waiting: Vec<TaskId> = waiting.collect();
        let lower = |letter: Option<u8>| letter.map_or('+', |l| char::from(l.to_ascii_lowercase()));
        waiting.into_iter().map(|task| (task, lower(self.letter(task, state)))).collect()
    }

    fn letter(&mut self, task: TaskId, state: &State) -> Option<u8> {
        if task.index() >= self.letters.len() {
            self.letters.resize(task.index() + 1, None);
        }
        if self.letters[task.index()].is_none() {
            let taken = |letter: u8| {
                let mut others = state.tasks().zip(self.letters.iter().skip(1));
                others.any(|((id, other), given)| {
                    *given == Some(letter) && id != task && other.activity != Activity::Dead
                })
            };
            let own = match state.names().comm(state.task(task).comm) {
                [letter @ b'A'..=b'Z', 0, ..] if !taken(letter) => Some(letter),
                _ => (b'A'..=b'Z').find(|letter| !self.letters.contains(&Some(*letter))),
            };
            self.letters[task.index()] = own;
        }
        self.letters[task.index()]
    }

    /// What the letters alone cannot say.
    fn note(&mut self, change: &Change, column: u64, state: &State) {
        if let Change::Runnable(runnable) = change
            && runnable.waker.context == Context::Task
            && runnable.waker.task.is_some()
        {
            let waker = self.letter(runnable.waker.task, state);
            let task = self.letter(runnable.task, state);
            if let (Some(waker), Some(task)) = (waker, task) {
                let waker = char::from(waker);
                let task = char::from(task);
                let _ = writeln!(self.statements, "at {column}: {waker} wakes {task}");
            }
        }
    }

    fn text(&self, state: &State, tick: Nanos) -> String {
        let mut text = String::new();
        if tick != Nanos::from_micros(1) {
            let _ = writeln!(text, "tick {tick}");
        }
        let width = self.rows.len().saturating_sub(1).to_string().len();
        for (number, row) in self.rows.iter().enumerate() {
            let _ = writeln!(text, "{number:>width$} | {}", row.runs);
            for (_, line) in &row.waits {
                let _ = writeln!(text, "{:>width$} | {}", "", line.trim_end());
            }
        }
        text.push_str(&self.statements);
        for (letter, (id, task)) in self.letters.iter().skip(1).zip(state.tasks()) {
            let name = state.name(id);
            if let Some(letter) = letter.map(char::from)
                && name != letter.to_string()
            {
                let _ = writeln!(text, "{letter} is called {name}");
                let _ = writeln!(text, "; {letter} has pid {}", task.pid);
            }
        }
        text
    }
}
