//! What must have happened between two columns, as the events that a kernel would have logged.

use super::grid::{Grid, ParseError, Place, Shown, pid};
use schedlab_model::{Context, Cpu, Event, Left, Nanos, Phase, Pid, Prio, What};
use std::num::NonZeroU32;

/// What the letters alone cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    Wakes { waker: usize, task: usize },
    Interrupt { cpu: Cpu, task: usize },
    Forks { parent: usize, child: usize },
    Dies { task: usize },
    Displaced { task: usize },
    Loses { cpu: Cpu, count: u32 },
    Marks { task: usize, id: u32, phase: Phase, request: u32 },
}

/// The number of the format that stands for "something was logged here".
const HEARTBEAT: What = What::Other { format: 0 };

/// Goes over the edges between columns, left to right.
pub(super) struct Edges<'a> {
    grid: &'a Grid,
    statements: &'a [(usize, (usize, Statement))],
    tick: Nanos,
    events: Vec<Event>,
    /// Where each task last ran or waited.
    last_cpu: [Option<Cpu>; 26],
    /// Whether a task was created and not woken yet.
    newborn: [bool; 26],
    /// Who is current on each CPU by the switches so far; the idle task where that is not shown.
    current: Vec<Pid>,
}

impl<'a> Edges<'a> {
    pub(super) fn new(
        grid: &'a Grid,
        statements: &'a [(usize, (usize, Statement))],
        tick: Nanos,
    ) -> Self {
        let last_cpu = [None; 26];
        let newborn = [false; 26];
        let current = vec![Pid::IDLE; grid.cpus.len()];
        Self { grid, statements, tick, events: Vec::new(), last_cpu, newborn, current }
    }

    pub(super) fn events(mut self) -> Result<Vec<Event>, ParseError> {
        for column in 0..self.grid.places.len() {
            self.begin(column);
            self.forks(column);
            self.losses(column);
            self.wakeups(column, false)?;
            self.moves(column)?;
            self.switches(column)?;
            self.wakeups(column, true)?;
            self.marks(column);
        }
        Ok(self.events)
    }

    /// At first every known CPU logs something, which tells who is current.
    fn begin(&mut self, column: usize) {
        if column > 0 {
            return;
        }
        for row in 0..self.grid.cpus.len() {
            let by = match self.grid.shown[row][0] {
                Shown::Idle => Pid::IDLE,
                Shown::Task(task) => {
                    self.last_cpu[task] = Some(self.grid.cpus[row]);
                    pid(task)
                }
                Shown::Unknown | Shown::Uncovered => continue,
            };
            self.current[row] = by;
            self.log(0, self.grid.cpus[row], by, Context::Task, HEARTBEAT);
        }
    }

    fn forks(&mut self, column: usize) {
        for statement in self.at(column) {
            if let Statement::Forks { parent, child } = statement {
                let (cpu, _) = self.current(parent, column).unwrap_or((Cpu(0), false));
                self.newborn[child] = true;
                self.last_cpu[child] = None;
                let what = What::Fork { child: pid(child) };
                self.log(column, cpu, pid(parent), Context::Task, what);
            }
        }
    }

    fn losses(&mut self, column: usize) {
        for row in 0..self.grid.cpus.len() {
            let cpu = self.grid.cpus[row];
            let before = self.before(row, column);
            let now = self.grid.shown[row][column];
            if column == 0 || now != Shown::Unknown || before == Shown::Unknown {
                continue;
            }
            // Something is logged at the edge, so that the gap begins there and not earlier.
            let by = occupant(before);
            self.log(column, cpu, by, Context::Task, HEARTBEAT);
            let count = self.at(column).into_iter().find_map(|statement| match statement {
                Statement::Loses { cpu: at, count } if at == cpu => NonZeroU32::new(count),
                _ => None,
            });
            self.log(column, cpu, by, Context::Task, What::Lost { count });
        }
    }

    /// Wakeups by interrupts and by tasks that already run, or (`late`) by those that begin to.
    fn wakeups(&mut self, column: usize, late: bool) -> Result<(), ParseError> {
        for task in 0..26 {
            let target = match (self.place(task, column), self.previous(task, column)) {
                (Place::Runs(cpu) | Place::Waits(cpu), Place::Away) => cpu,
                _ => continue,
            };
            // A task that stands on a CPU that was unknown until now has only come into view; so has
            // the one that runs in the first column.
            let unseen = self.shown_before(target, column) == Shown::Unknown;
            let runs = matches!(self.place(task, column), Place::Runs(_));
            if runs && (unseen || column == 0) {
                continue;
            }
            let (cpu, by, context, is_late) = self.waker(task, target, column);
            if is_late != late {
                continue;
            }
            if late && runs {
                let letter = char::from(b'A' + task as u8);
                let what = format!("{letter} runs in column {column}, where its waker only begins");
                return Err(ParseError { line: 0, what });
            }
            self.wake(task, target, column, cpu, by, context);
        }
        Ok(())
    }

    fn wake(
        &mut self,
        task: usize,
        target: Cpu,
        column: usize,
        cpu: Cpu,
        by: Pid,
        context: Context,
    ) {
        let woken = pid(task);
        let prio = Prio::NORMAL;
        let last = self.last_cpu[task];
        let new = std::mem::take(&mut self.newborn[task]);
        if !new {
            let last_cpu = last.unwrap_or(target);
            let what = What::Waking { pid: woken, prio, last_cpu };
            self.log(column, cpu, by, context, what);
        }
        if let Some(from) = last.filter(|from| *from != target) {
            let what = What::Migrate { pid: woken, from, to: target };
            self.log(column, cpu, by, context, what);
        }
        let what = What::Wakeup { pid: woken, prio, cpu: target, new };
        self.log(column, cpu, by, context, what);
        self.last_cpu[task] = Some(target);
    }

    /// Who wakes a task: where, who is current there, in which context, and whether only after the
    /// switches of this edge.
    fn waker(&self, task: usize, target: Cpu, column: usize) -> (Cpu, Pid, Context, bool) {
        for statement in self.at(column) {
            match statement {
                Statement::Wakes { waker, task: woken } if woken == task => {
                    if let Some((cpu, late)) = self.current(waker, column) {
                        return (cpu, pid(waker), Context::Task, late);
                    }
                }
                Statement::Interrupt { cpu, task: woken } if woken == task => {
                    return (cpu, self.current_on(cpu), Context::HardIrq, false);
                }
                _ => {}
            }
        }
        let covered = self.grid.cpus.iter().zip(&self.grid.shown);
        let mut covered = covered.filter(|(_, row)| row[column] != Shown::Uncovered);
        let cpu = match covered.clone().find(|(cpu, _)| **cpu == target) {
            Some((cpu, _)) => *cpu,
            None => covered.next().map_or(target, |(cpu, _)| *cpu),
        };
        (cpu, self.current_on(cpu), Context::HardIrq, false)
    }

    /// Tasks that waited and now wait, or begin to run, elsewhere.
    fn moves(&mut self, column: usize) -> Result<(), ParseError> {
        for task in 0..26 {
            let Place::Waits(from) = self.previous(task, column) else { continue };
            match self.place(task, column) {
                Place::Waits(to) | Place::Runs(to) if to != from => {
                    self.migrate(task, from, to, column);
                }
                Place::Away if self.shown_at(from, column) != Shown::Unknown => {
                    let letter = char::from(b'A' + task as u8);
                    let what = format!("{letter} stops waiting in column {column} without running");
                    return Err(ParseError { line: 0, what });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn migrate(&mut self, task: usize, from: Cpu, to: Cpu, column: usize) {
        // The CPU that pulls logs it, unless nothing is seen of that CPU.
        let at = if self.shown_at(to, column) == Shown::Uncovered { from } else { to };
        let what = What::Migrate { pid: pid(task), from, to };
        self.log(column, at, self.current_on(at), Context::Task, what);
        self.last_cpu[task] = Some(to);
    }

    /// The switches of one edge, each after the one by which its task left another CPU.
    fn switches(&mut self, column: usize) -> Result<(), ParseError> {
        if column == 0 {
            return Ok(());
        }
        let changed = |row: &usize| {
            let now = self.grid.shown[*row][column];
            now != self.before(*row, column) && !matches!(now, Shown::Unknown | Shown::Uncovered)
        };
        let mut pending: Vec<usize> = (0..self.grid.cpus.len()).filter(changed).collect();
        while !pending.is_empty() {
            let free = pending.iter().position(|row| {
                let Shown::Task(next) = self.grid.shown[*row][column] else { return true };
                let Place::Runs(cpu) = self.previous(next, column) else { return true };
                !pending.iter().any(|other| self.grid.cpus[*other] == cpu)
            });
            let Some(free) = free else {
                let what = format!("tasks swap CPUs within the edge of column {column}");
                return Err(ParseError { line: 0, what });
            };
            self.switch(pending.remove(free), column);
        }
        Ok(())
    }

    fn switch(&mut self, row: usize, column: usize) {
        let cpu = self.grid.cpus[row];
        let was = self.before(row, column);
        let is = self.grid.shown[row][column];
        let mut left = Left::Slept;
        let mut moved = None;
        if let Shown::Task(task) = was {
            let told = |wanted: Statement| self.at(column).contains(&wanted);
            match self.place(task, column) {
                Place::Away if told(Statement::Dies { task }) => left = Left::Dead,
                Place::Away => {}
                Place::Waits(to) | Place::Runs(to) => {
                    let in_kernel = !told(Statement::Displaced { task });
                    left = if in_kernel { Left::Preempted } else { Left::Displaced };
                    moved = (to != cpu).then_some((task, to));
                }
            }
        }
        let prev = occupant(was);
        let next = occupant(is);
        let prev_prio = Prio::NORMAL;
        let next_prio = Prio::NORMAL;
        let what = What::Switch { prev, prev_prio, left, next, next_prio };
        self.log(column, cpu, prev, Context::Task, what);
        self.current[row] = next;
        if let Shown::Task(task) = is {
            self.last_cpu[task] = Some(cpu);
        }
        if let Some((task, to)) = moved {
            self.migrate(task, cpu, to, column);
        }
    }

    fn marks(&mut self, column: usize) {
        for statement in self.at(column) {
            if let Statement::Marks { task, id, phase, request } = statement {
                let cpu = self.current(task, column).map_or(Cpu(0), |(cpu, _)| cpu);
                let what = What::Mark { pid: pid(task), id, phase, request };
                self.log(column, cpu, pid(task), Context::Task, what);
            }
        }
    }

    fn log(&mut self, column: usize, cpu: Cpu, by: Pid, context: Context, what: What) {
        let time = Nanos(column as u64 * self.tick.0);
        self.events.push(Event { time, by, cpu, context, what });
    }

    fn at(&self, column: usize) -> Vec<Statement> {
        let here = self.statements.iter().filter(|(_, (at, _))| *at == column);
        here.map(|(_, (_, statement))| *statement).collect()
    }

    fn place(&self, task: usize, column: usize) -> Place {
        self.grid.places[column][task]
    }

    fn previous(&self, task: usize, column: usize) -> Place {
        if column == 0 { Place::Away } else { self.grid.places[column - 1][task] }
    }

    fn before(&self, row: usize, column: usize) -> Shown {
        if column == 0 { Shown::Unknown } else { self.grid.shown[row][column - 1] }
    }

    fn shown_before(&self, cpu: Cpu, column: usize) -> Shown {
        let row = self.grid.cpus.iter().position(|other| *other == cpu);
        row.map_or(Shown::Uncovered, |row| self.before(row, column))
    }

    fn shown_at(&self, cpu: Cpu, column: usize) -> Shown {
        let row = self.grid.cpus.iter().position(|other| *other == cpu);
        row.map_or(Shown::Uncovered, |row| self.grid.shown[row][column])
    }

    fn current_on(&self, cpu: Cpu) -> Pid {
        let row = self.grid.cpus.iter().position(|other| *other == cpu);
        row.map_or(Pid::IDLE, |row| self.current[row])
    }

    /// Where a task runs when the edge is reached, or else right after it (then true).
    fn current(&self, task: usize, column: usize) -> Option<(Cpu, bool)> {
        match (self.previous(task, column), self.place(task, column)) {
            (Place::Runs(cpu), _) => Some((cpu, false)),
            (_, Place::Runs(cpu)) => Some((cpu, column > 0)),
            _ => None,
        }
    }
}

fn occupant(shown: Shown) -> Pid {
    match shown {
        Shown::Task(task) => pid(task),
        Shown::Idle | Shown::Unknown | Shown::Uncovered => Pid::IDLE,
    }
}
