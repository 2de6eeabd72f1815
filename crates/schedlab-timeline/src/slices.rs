//! The intervals themselves, for pictures of a window: who ran where, who waited where, who woke whom.

use crate::change::{Change, Runnable, Switch, Waker};
use crate::interrupts::Interrupts;
use crate::names::CommId;
use crate::question::Question;
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId, Why};
use schedlab_model::{Cpu, Left, Nanos, Phase, Span};

/// Asks for all intervals of the window, up to a limit: memory grows with what is asked for here.
#[derive(Clone, Debug)]
pub struct Slices {
    answer: SlicesAnswer,
    limit: usize,
    sleeps: bool,
    interrupts: Interrupts,
}

/// An interval in which a task ran, or nothing was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slice {
    /// The CPU on which the task ran.
    pub cpu: Cpu,
    /// The time at which it began to run.
    pub from: Nanos,
    /// The time at which it left the CPU.
    pub to: Nanos,
    /// The task; [`TaskId::NONE`] when the CPU was unknown.
    pub task: TaskId,
    /// The task's name at the end of the slice.
    pub comm: CommId,
    /// How the task left its CPU; `None` if no switch shows it.
    pub left: Option<Left>,
    /// How much of it interrupts took; zero as well where the trace does not hold their events.
    pub interrupts: Nanos,
}

/// An interval in which a task waited on a CPU's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitSlice {
    /// On whose queue it stood last.
    pub cpu: Cpu,
    /// The time at which the wait began.
    pub from: Nanos,
    /// The time at which the wait ended.
    pub to: Nanos,
    /// Who waited.
    pub task: TaskId,
    /// The reason why the task waited.
    pub why: Why,
}

/// An interval in which a task was not runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SleepSlice {
    /// Where it ran last.
    pub cpu: Cpu,
    /// The time at which the sleep began.
    pub from: Nanos,
    /// The time at which the sleep ended.
    pub to: Nanos,
    /// The task that slept.
    pub task: TaskId,
    /// How the task left its CPU to sleep.
    pub left: Left,
}

/// A wakeup, for an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeMark {
    /// The time of the wakeup.
    pub at: Nanos,
    /// The task that was woken.
    pub task: TaskId,
    /// Where it last ran, where known.
    pub(crate) last_cpu: Option<Cpu>,
    /// Where it was put, as far as it was known when the wakeup was logged.
    pub(crate) cpu: Option<Cpu>,
    /// The task, interrupt or idle CPU that woke it.
    pub waker: Waker,
}

/// The intervals of a window.
#[derive(Clone, Debug, Default)]
pub struct SlicesAnswer {
    /// In order of their ends. Idle CPUs have none.
    pub slices: Vec<Slice>,
    /// In order of their ends.
    pub waits: Vec<WaitSlice>,
    /// In order of their ends; none unless asked for ([`Slices::with_sleeps`]).
    pub sleeps: Vec<SleepSlice>,
    /// In order of time.
    pub wakes: Vec<WakeMark>,
    /// User marks: when, where, the task, the mark's id and phase.
    pub(crate) marks: Vec<(Nanos, Cpu, TaskId, u32, Phase)>,
    /// Other tracepoints: when, where, which.
    pub others: Vec<(Nanos, Cpu, u16)>,
    /// How many of all these were left out, since there were more than the limit.
    pub left_out: u64,
    /// What was asked about: no interval reaches beyond it.
    pub window: Span,
}

impl Slices {
    /// At most `limit` items of each kind.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            answer: SlicesAnswer::default(),
            limit,
            sleeps: false,
            interrupts: Interrupts::default(),
        }
    }

    /// The question, listing also the intervals in which tasks were not runnable.
    #[must_use]
    pub fn with_sleeps(self) -> Self {
        Self { sleeps: true, ..self }
    }

    /// How many intervals, wakeups and marks are in memory now.
    #[must_use]
    pub fn held(&self) -> usize {
        let answer = &self.answer;
        let rest = answer.wakes.len() + answer.marks.len() + answer.others.len();
        answer.slices.len() + answer.waits.len() + answer.sleeps.len() + rest
    }

    /// Hands out what is held now, so that a whole trace can pass by without being held.
    pub fn take(&mut self) -> SlicesAnswer {
        std::mem::take(&mut self.answer)
    }

    /// Whether interrupts were recorded so far.
    #[must_use]
    pub const fn sees_interrupts(&self) -> bool {
        self.interrupts.seen()
    }

    fn slice(&mut self, slice: Slice, was: Occupant, state: &State) {
        let from = slice.from.max(state.window().start);
        let (task, comm) = match was {
            Occupant::Idle => return,
            Occupant::Unknown => (TaskId::NONE, CommId::UNKNOWN),
            Occupant::Task(task) => (task, state.task(task).comm),
        };
        if from < slice.to {
            let slice = Slice { from, task, comm, ..slice };
            push(&mut self.answer.slices, slice, self.limit, &mut self.answer.left_out);
        }
    }

    fn wait(&mut self, cpu: Cpu, span: Span, task: TaskId, why: Why, state: &State) {
        let from = span.start.max(state.window().start);
        if from < span.end {
            let wait = WaitSlice { cpu, from, to: span.end, task, why };
            push(&mut self.answer.waits, wait, self.limit, &mut self.answer.left_out);
        }
    }
}

impl Slices {
    fn sleep(&mut self, cpu: Option<Cpu>, span: Span, task: TaskId, left: Left, state: &State) {
        let from = span.start.max(state.window().start);
        if let Some(cpu) = cpu.filter(|_| self.sleeps && from < span.end) {
            let sleep = SleepSlice { cpu, from, to: span.end, task, left };
            push(&mut self.answer.sleeps, sleep, self.limit, &mut self.answer.left_out);
        }
    }
}

/// An interval of a CPU of which nothing else is known yet.
const fn bare(cpu: Cpu, from: Nanos, to: Nanos) -> Slice {
    let task = TaskId::NONE;
    let comm = CommId::UNKNOWN;
    Slice { cpu, from, to, task, comm, left: None, interrupts: Nanos::ZERO }
}

fn push<T>(items: &mut Vec<T>, item: T, limit: usize, left_out: &mut u64) {
    if items.len() < limit {
        items.push(item);
    } else {
        *left_out += 1;
    }
}

impl Question for Slices {
    type Answer = SlicesAnswer;

    fn see(&mut self, change: &Change, state: &State) {
        let limit = self.limit;
        let answer = &mut self.answer;
        match *change {
            Change::Switch(ref switch @ Switch { at, cpu, was, since, left, is, wait, .. }) => {
                let interrupts = self.interrupts.switched(switch, state);
                self.slice(Slice { left, interrupts, ..bare(cpu, since, at) }, was, state);
                if let (Some(wait), Occupant::Task(task)) = (wait, is) {
                    self.wait(wait.cpu, Span::new(wait.since, at), task, wait.why, state);
                }
            }
            Change::Forgotten { at, task, was: Activity::Waiting { cpu, why, .. }, since } => {
                self.wait(cpu, Span::new(since, at), task, why, state);
            }
            Change::Runnable(Runnable { at, task, waker, last_cpu, slept, .. }) => {
                let cpu = match state.task(task).activity {
                    Activity::Waiting { cpu, placed: true, .. } => Some(cpu),
                    _ => None,
                };
                let mark = WakeMark { at, task, last_cpu, cpu, waker };
                push(&mut answer.wakes, mark, limit, &mut answer.left_out);
                if let Some((since, left)) = slept {
                    self.sleep(last_cpu, Span::new(since, at), task, left, state);
                }
            }
            Change::Mark { at, cpu, task, id, phase, .. } => {
                push(&mut answer.marks, (at, cpu, task, id, phase), limit, &mut answer.left_out);
            }
            Change::Other { at, cpu, format } => {
                push(&mut answer.others, (at, cpu, format), limit, &mut answer.left_out);
                self.interrupts.other(at, cpu, format, state);
            }
            Change::Lost { cpu, .. } => self.interrupts.lost(cpu),
            _ => {}
        }
    }

    fn answer(mut self, state: &State) -> SlicesAnswer {
        let window = state.window();
        for (cpu, here) in state.observed_cpus() {
            let interrupts = self.interrupts.open(cpu, here.occupant, window.end, state);
            let slice = Slice { interrupts, ..bare(cpu, here.since, window.end) };
            self.slice(slice, here.occupant, state);
        }
        for (id, task) in state.tasks() {
            let span = Span::new(task.since, window.end);
            match task.activity {
                Activity::Waiting { cpu, why, .. } => self.wait(cpu, span, id, why, state),
                Activity::Sleeping { left } => self.sleep(task.last_cpu, span, id, left, state),
                _ => {}
            }
        }
        self.answer.window = window;
        self.answer
    }
}
