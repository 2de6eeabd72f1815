//! Time on the CPU by call stack, estimated by ticks.
//!
//! How long a task ran is known from switches. In which code, only samples tell: at each tick of the scheduler the kernel
//! interrupts the task that runs, and a recording may hold the stack that this task had (`schedlab record --stacks running`,
//! or call chains of perf at `timer:hrtimer_expire_entry`). A task's run time is divided among its stacks as its ticks are. A
//! stack with `c` of `n` ticks has `c / n` of it, with a standard error of `sqrt(p (1 - p) / n)`, where `p = c / n`: that of a
//! binomial share. A task without a tick ran in code that nobody saw.
//!
//! A tick comes 100 to 1,000 times a second. Code that sleeps and begins to run with the ticks is seen too often or too
//! rarely. CPUs without ticks (`nohz_full`) are not seen.
//!
//! Memory: each different stack once, and a count for each task and stack.

use crate::change::{Change, Switch};
use crate::known_formats::KnownFormats;
use crate::off_cpu::{FoldedStack, innermost};
use crate::question::{OtherEvent, Question};
use crate::stacks::{CALLER, FIRES, STACK, StackId, Stacks, frame};
use crate::state::{Occupant, State};
use crate::task::TaskId;
use crate::task_filter::Chosen;
use schedlab_model::table::{Column, Row, Share, column};
use schedlab_model::{Cpu, Nanos, Need, OtherFormat, Span, columns};
use std::collections::BTreeMap;

/// The frame in place of a stack of a task that ran and met no tick.
pub const NO_TICK: &str = "[no tick]";
/// The frame in place of the program's functions, where only those of the kernel were recorded.
const IN_PROGRAM: &str = "[program]";
/// The tracepoint of timers that expire.
const TIMER: &str = "hrtimer_expire_entry";

/// Asks for the time that tasks were on their CPUs, by stack.
#[derive(Clone, Debug, Default)]
pub struct OnCpuStacks {
    stacks: Stacks,
    formats: KnownFormats<Format>,
    /// By CPU: whether its last timer event was a tick whose stack has not arrived yet.
    ticked: Vec<bool>,
    ticks: BTreeMap<(TaskId, StackId), u64>,
    /// By task.
    ran: Vec<Nanos>,
    kept: Ticks,
    most: usize,
}

/// The first timer ticks, each with its time and stack, up to [`OnCpuStacks::with_ticks`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Ticks {
    /// In order of time.
    pub found: Vec<Tick>,
    /// How many more there were than are kept.
    pub left_out: u64,
}

/// A tick that met a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// When.
    pub at: Nanos,
    /// The task that it interrupted.
    pub task: TaskId,
    /// What that task ran.
    pub stack: StackId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Timer,
    Stack,
}

/// Time on the CPU by task and stack.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OnCpuAnswer {
    /// In order of tasks and stacks.
    pub rows: Vec<OnCpuStack>,
    /// The stacks by their numbers.
    pub stacks: Stacks,
    /// Ticks one by one, if they were asked for.
    pub ticks: Ticks,
}

/// Time that a task ran in one place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnCpuStack {
    /// Who ran.
    pub task: TaskId,
    /// The stack of its ticks; `None` of a task that met none.
    pub(crate) stack: Option<StackId>,
    /// How many ticks.
    pub(crate) ticks: u64,
    /// The task's run time divided among its stacks by their ticks: this stack's part.
    pub(crate) ran: Nanos,
    /// The square of its standard error, in nanoseconds squared.
    pub(crate) variance: f64,
}

/// What the interrupt that a timer makes puts on a stack is left out: the functions from its entry inwards.
fn ran_in(arguments: &str) -> Option<String> {
    if !arguments.contains(FIRES) {
        return None;
    }
    let stack = arguments.strip_prefix("stack=").unwrap_or(arguments);
    let all: Vec<&str> = stack.split(CALLER).collect();
    let last_of = |is: fn(&str) -> bool| all.iter().rposition(|function| is(function));
    // The entry is not named where it is written in assembler without a symbol of its own.
    let entry = all.iter().position(|function| is_entry(function));
    let entry = entry.or_else(|| last_of(|function| function.contains("timer")));
    let rest = entry.map_or(&all[..], |at| &all[at + 1..]);
    Some(if rest.is_empty() { IN_PROGRAM.to_owned() } else { rest.join(CALLER) })
}

/// Whether an interrupt of x86 or AArch64 enters the kernel by this function.
fn is_entry(function: &str) -> bool {
    let is_arms = function.starts_with("el") && function.ends_with("_irq");
    function.starts_with("asm_") || is_arms || function == "apic_timer_interrupt"
}

impl OnCpuStacks {
    /// The same, with the first `most` ticks one by one.
    #[must_use]
    pub fn with_ticks(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// The time in these spans of tasks, which ran for so long in them, by the ticks that were kept.
    pub(crate) fn within(self, spans: impl Iterator<Item = (TaskId, Span, Nanos)>) -> OnCpuAnswer {
        let mut own: BTreeMap<TaskId, Vec<Tick>> = BTreeMap::new();
        for tick in &self.kept.found {
            own.entry(tick.task).or_default().push(*tick);
        }
        let mut times: BTreeMap<TaskId, Nanos> = BTreeMap::new();
        let mut counts = BTreeMap::new();
        for (task, span, ran) in spans {
            *times.entry(task).or_default() += ran;
            let own = own.get(&task).map_or(&[][..], |own| own);
            let first = own.partition_point(|tick| tick.at < span.start);
            for tick in own[first..].iter().take_while(|tick| tick.at < span.end) {
                *counts.entry((task, tick.stack)).or_default() += 1;
            }
        }
        let rows = divided(times.into_iter(), &counts);
        OnCpuAnswer { rows, stacks: self.stacks, ticks: Ticks::default() }
    }

    fn ran(&mut self, occupant: Occupant, [since, until]: [Nanos; 2]) {
        if let Occupant::Task(task) = occupant {
            if self.ran.len() <= task.index() {
                self.ran.resize(task.index() + 1, Nanos::ZERO);
            }
            self.ran[task.index()] += until - since;
        }
    }

    fn ticked(&mut self, cpu: Cpu) -> &mut bool {
        if self.ticked.len() <= cpu.index() {
            self.ticked.resize(cpu.index() + 1, false);
        }
        &mut self.ticked[cpu.index()]
    }
}

impl Question for OnCpuStacks {
    type Answer = OnCpuAnswer;

    const QUEUES: bool = false;

    fn wants(&mut self, format: u16, state: &State) -> bool {
        let of = |format: &OtherFormat| match &*format.name {
            TIMER => Some(Format::Timer),
            STACK => Some(Format::Stack),
            _ => None,
        };
        self.formats.learn(format, state.others(), of).is_some()
    }

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        match self.formats.get(event.format) {
            Some(Format::Timer) => {
                let function = event.arguments.split("function=").nth(1).unwrap_or_default();
                // Without names of functions any timer's interrupt is taken.
                let is_tick = function.starts_with("tick_") || function.starts_with("0x");
                *self.ticked(event.cpu) = is_tick && event.by.0 > 0;
            }
            Some(Format::Stack) if std::mem::take(self.ticked(event.cpu)) => {
                let Some(text) = ran_in(event.arguments) else { return };
                let Some(task) = state.task_of(event.by) else { return };
                let stack = self.stacks.number(text);
                *self.ticks.entry((task, stack)).or_default() += 1;
                if self.kept.found.len() < self.most {
                    self.kept.found.push(Tick { at: event.at, task, stack });
                } else {
                    self.kept.left_out += u64::from(self.most > 0);
                }
            }
            _ => {}
        }
    }

    fn see(&mut self, change: &Change, state: &State) {
        if let Change::Switch(Switch { at, was, since, .. }) = *change {
            self.ran(was, [since.max(state.window().start), at]);
        }
    }

    fn answer(mut self, state: &State) -> OnCpuAnswer {
        let window = state.window();
        for (_, here) in state.observed_cpus() {
            self.ran(here.occupant, [here.since.max(window.start), window.end]);
        }
        let rows = divided((0..).map(TaskId).zip(self.ran), &self.ticks);
        OnCpuAnswer { rows, stacks: self.stacks, ticks: self.kept }
    }
}

/// Run times of tasks, in their order, each divided as its ticks are.
fn divided(
    ran: impl Iterator<Item = (TaskId, Nanos)>,
    ticks: &BTreeMap<(TaskId, StackId), u64>,
) -> Vec<OnCpuStack> {
    let mut rows = Vec::new();
    for (task, ran) in ran.filter(|(_, ran)| *ran > Nanos::ZERO) {
        let own = ticks.range((task, StackId::FIRST)..).take_while(|((of, _), _)| *of == task);
        let own: Vec<(StackId, u64)> = own.map(|((_, stack), count)| (*stack, *count)).collect();
        let all: u64 = own.iter().map(|(_, count)| count).sum();
        if all == 0 {
            rows.push(OnCpuStack { task, stack: None, ticks: 0, ran, variance: 0.0 });
        }
        // Up to each stack, so that all together are the run time to the nanosecond.
        let part = |count: u64| (u128::from(ran.0) * u128::from(count) / u128::from(all)) as u64;
        let mut before = 0;
        for (stack, ticks) in own {
            let time = Nanos(part(before + ticks) - part(before));
            before += ticks;
            let share = ticks as f64 / all as f64;
            let variance = (ran.0 as f64).powi(2) * share * (1.0 - share) / all as f64;
            rows.push(OnCpuStack { task, stack: Some(stack), ticks, ran: time, variance });
        }
    }
    rows
}

impl OnCpuAnswer {
    /// The answer about chosen tasks alone.
    #[must_use]
    pub fn only(mut self, chosen: &Chosen) -> Self {
        self.rows.retain(|row| chosen.has(row.task));
        self
    }

    /// How long tasks ran, how much of that met no tick, and how many ticks there were.
    #[must_use]
    pub fn sums(&self) -> (Nanos, Nanos, u64) {
        let of = |rows: &mut dyn Iterator<Item = &OnCpuStack>| {
            rows.fold(Nanos::ZERO, |sum, row| sum + row.ran)
        };
        let without = of(&mut self.rows.iter().filter(|row| row.stack.is_none()));
        (of(&mut self.rows.iter()), without, self.rows.iter().map(|row| row.ticks).sum())
    }

    /// The stacks with their times, tasks of one name together, in order of frames.
    #[must_use]
    pub fn folded(&self, state: &State) -> Vec<FoldedStack> {
        let mut all: BTreeMap<Vec<String>, Nanos> = BTreeMap::new();
        for row in &self.rows {
            let mut frames = vec![frame(&state.name(row.task))];
            match row.stack {
                Some(stack) => frames.extend(self.stacks.frames(stack)),
                None => frames.push(NO_TICK.to_owned()),
            }
            *all.entry(frames).or_default() += row.ran;
        }
        all.into_iter().map(|(frames, time)| FoldedStack { frames, time }).collect()
    }

    /// Run time by name and stack, the longest first.
    #[must_use]
    pub fn by_name(&self, state: &State) -> Vec<RunningStackRow> {
        let mut all: BTreeMap<(String, Option<StackId>), (u64, Nanos, f64)> = BTreeMap::new();
        for row in &self.rows {
            let sum = all.entry((state.name(row.task), row.stack)).or_default();
            *sum = (sum.0 + row.ticks, sum.1 + row.ran, sum.2 + row.variance);
        }
        let whole = self.sums().0.0.max(1) as f64;
        let row = |((comm, stack), (ticks, ran, variance)): ((String, Option<StackId>), _)| {
            let _: (u64, Nanos, f64) = (ticks, ran, variance);
            RunningStackRow {
                comm,
                stack: stack.map(|stack| self.stacks.text(stack).to_owned()),
                ticks,
                ran,
                error: Nanos(variance.sqrt() as u64),
                share: ran.0 as f64 / whole,
            }
        };
        let mut rows: Vec<RunningStackRow> = all.into_iter().map(row).collect();
        rows.sort_by(|a, b| {
            b.ran.cmp(&a.ran).then_with(|| (&a.comm, &a.stack).cmp(&(&b.comm, &b.stack)))
        });
        rows
    }
}

/// Run time of all tasks of a name with one stack.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningStackRow {
    /// The name of the tasks at the end.
    pub(crate) comm: String,
    /// The function that ran and its callers up to the outermost, `<-` between them; `None` of tasks that met no tick.
    pub(crate) stack: Option<String>,
    /// How many ticks met it.
    pub(crate) ticks: u64,
    /// The part of the run time that these stand for.
    pub(crate) ran: Nanos,
    /// Its standard error.
    pub(crate) error: Nanos,
    /// The part in the run time of all rows.
    pub(crate) share: f64,
}

impl RunningStackRow {
    fn shown(&self) -> String {
        self.stack.as_deref().map_or_else(|| NO_TICK.to_owned(), innermost)
    }
}

impl Row for RunningStackRow {
    const ABOUT: &'static str = "Run time of all tasks of a name with one stack.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "comm" ["comm"] = row.comm.clone(), "The name of the tasks at the end.";
            "run_ns" ["ran"] @ RunTime = row.ran, "How long the tasks ran with this stack: their run time, divided as their ticks are.";
            "run_ns_error" ["± (standard error)"] @ RunTime = row.error, "The standard error of that, by the number of ticks.";
        };
        let share =
            column("share", "The part in the run time of all rows.", |row: &Self| Share(row.share));
        let share = share.title("share").needs(Need::RunTime);
        columns.push(share.each_ns(|row| row.share / row.ran.0.max(1) as f64));
        columns.extend(columns! { row: Self;
            "ticks" ["ticks"] @ RunTime = row.ticks, "How many ticks met this stack.";
        });
        let about = "The function that ran and its callers up to the outermost, `<-` between them; `null` of tasks that met no tick.";
        let stack = column("stack", about, |row: &Self| row.stack.clone());
        columns.push(stack.title("in (called by)").needs(Need::RunTime).spelled(Self::shown));
        columns
    }
}
