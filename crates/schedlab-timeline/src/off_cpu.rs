//! Time off the CPU by call stack: what a flame graph shows.
//!
//! A task is off the CPU from the switch after which it sleeps until it is woken, and then until it runs. Both times go to
//! the stack with which it went to sleep. A task that was displaced went to sleep nowhere: its waits are not in here.
//! Memory: each different stack once, and a sum for each task and stack.

use crate::change::{Change, Moved, Runnable, Switch};
use crate::question::{Question, Told};
use crate::stacks::{CALLER, Listener, StackId, Stacks};
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId};
use crate::task_filter::Chosen;
use schedlab_model::table::{Column, Row, Share, column};
use schedlab_model::{Left, Nanos, Need, columns};
use std::collections::BTreeMap;

/// The frame in place of a stack that the trace does not hold.
pub const NO_STACK: &str = "[no stack]";
/// The frame in place of callers that the trace does not know.
pub const CUT: &str = "[cut]";
/// The frame on top of a stack for the time from the wakeup until the task ran.
pub const RUN_DELAY: &str = "[run delay]";

/// Asks for the time that tasks were off their CPUs, by stack.
#[derive(Clone, Debug)]
pub struct OffCpuStacks {
    listener: Listener,
    sums: BTreeMap<(TaskId, Option<StackId>), Sum>,
    tasks: Vec<Sleeper>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    blocked: Nanos,
    waited: Nanos,
}

/// Where a task sleeps, or slept last.
#[derive(Clone, Copy, Debug, Default)]
struct Sleeper {
    /// Where it sleeps now.
    stack: Option<StackId>,
    /// How long the last sleep was, while nothing is known of where.
    unstacked: Option<Nanos>,
    /// Where it slept before it was woken, until it runs.
    woken: Option<Option<StackId>>,
    /// Whether an event of it was seen in the window.
    seen: bool,
}

/// Time that one task was off its CPU with one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffCpuStack {
    /// The task.
    pub task: TaskId,
    /// Where it went to sleep; `None` where the trace holds no stack of it.
    pub stack: Option<StackId>,
    /// How often it went to sleep there.
    pub count: u64,
    /// How long it was not runnable.
    pub blocked: Nanos,
    /// How long it then waited for a CPU.
    pub waited: Nanos,
}

/// Time off the CPU by task and stack.
#[derive(Clone, Debug, Default)]
pub struct OffCpuAnswer {
    /// By task, then by stack.
    pub rows: Vec<OffCpuStack>,
    /// The stacks by their numbers.
    pub stacks: Stacks,
}

/// A path of frames, the outermost first, and the time that ends there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldedStack {
    /// The task's name, then functions from the outermost to the one that waited.
    pub frames: Vec<String>,
    /// How long.
    pub time: Nanos,
}

impl Default for OffCpuStacks {
    fn default() -> Self {
        Self { listener: Listener::whole(), sums: BTreeMap::new(), tasks: Vec::new() }
    }
}

impl OffCpuStacks {
    fn of(&mut self, task: TaskId) -> &mut Sleeper {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Sleeper::default);
        }
        &mut self.tasks[task.index()]
    }

    fn sum(&mut self, task: TaskId, stack: Option<StackId>) -> &mut Sum {
        self.sums.entry((task, stack)).or_default()
    }

    fn slept(&mut self, task: TaskId, time: Nanos) {
        let of = self.of(task);
        let stack = of.stack.take();
        (of.unstacked, of.woken) = (stack.is_none().then_some(time), Some(stack));
        let sum = self.sum(task, stack);
        sum.count += 1;
        sum.blocked += time;
    }

    fn waited(&mut self, task: TaskId, time: Nanos) {
        let of = self.of(task);
        if let Some(stack) = of.woken.take() {
            self.sum(task, stack).waited += time;
        }
    }

    fn switch(&mut self, switch: &Switch, state: &State) {
        if let Occupant::Task(task) = switch.was {
            self.of(task).seen = true;
        }
        if let (Some(_), true) = (switch.left, switch.prev.is_some()) {
            // A task that is only seen to leave is not among the tasks of a trace.
            let of = self.of(switch.prev);
            *of = Sleeper { seen: of.seen, ..Sleeper::default() };
            self.listener.left(switch.cpu, switch.prev);
        }
        if let Occupant::Task(task) = switch.is {
            self.of(task).seen = true;
            if let Some(wait) = switch.wait {
                self.waited(task, switch.at - wait.since.max(state.window().start));
            }
        }
    }
}

impl Question for OffCpuStacks {
    type Answer = OffCpuAnswer;

    const QUEUES: bool = false;

    fn wants(&mut self, format: u16, state: &State) -> bool {
        self.listener.wants(format, state)
    }

    fn begin(&mut self, state: &State) {
        // Stacks from before the window are those of tasks that sleep when it opens.
        for (id, task) in state.tasks() {
            if let (false, Some(of)) =
                (matches!(task.activity, Activity::Sleeping { .. }), self.tasks.get_mut(id.index()))
            {
                of.stack = None;
            }
        }
    }

    fn told(&mut self, told: &Told<'_>, state: &State) {
        let Some((task, stack)) = self.listener.told(told, state) else { return };
        let sleeps = matches!(state.task(task).activity, Activity::Sleeping { .. });
        let of = self.of(task);
        if sleeps {
            of.stack = Some(stack);
            return;
        }
        // Another CPU may have woken it before the stack was logged.
        let Some(time) = of.unstacked.take() else { return };
        of.woken = of.woken.map(|_| Some(stack));
        let unknown = self.sum(task, None);
        unknown.count -= 1;
        unknown.blocked -= time;
        let sum = self.sum(task, Some(stack));
        sum.count += 1;
        sum.blocked += time;
    }

    fn see(&mut self, change: &Change, state: &State) {
        let from = state.window().start;
        match *change {
            Change::Switch(ref switch) => self.switch(switch, state),
            Change::Runnable(Runnable { at, task, slept, .. }) => {
                self.of(task).seen = true;
                if let Some((since, _)) = slept {
                    self.slept(task, at - since.max(from));
                }
            }
            Change::Moved(Moved { task, .. }) => self.of(task).seen = true,
            Change::Forgotten { at, task, was: Activity::Waiting { .. }, since } => {
                self.of(task).seen = true;
                self.waited(task, at - since.max(from));
            }
            _ => {}
        }
    }

    fn answer(mut self, state: &State) -> OffCpuAnswer {
        let window = state.window();
        for (id, task) in state.tasks() {
            let open = window.end - task.since.max(window.start);
            match task.activity {
                Activity::Waiting { .. } => self.waited(id, open),
                Activity::Sleeping { left } => {
                    // Who only sleeps tells nothing, but who is stuck in another state does.
                    let stuck = matches!(left, Left::Blocked | Left::Stopped | Left::Traced);
                    self.of(id).seen |= stuck && open > Nanos::ZERO;
                    self.slept(id, open);
                }
                _ => {}
            }
        }
        let Self { listener, sums, tasks } = self;
        let row = |((task, stack), Sum { count, blocked, waited }): ((TaskId, _), Sum)| {
            OffCpuStack { task, stack, count, blocked, waited }
        };
        let is_told = |of: &OffCpuStack| {
            let seen = tasks.get(of.task.index()).is_some_and(|of| of.seen);
            seen && state.logs(of.task) && of.blocked + of.waited > Nanos::ZERO
        };
        let rows = sums.into_iter().map(row).filter(is_told).collect();
        OffCpuAnswer { rows, stacks: listener.stacks }
    }
}

impl OffCpuAnswer {
    /// The answer about chosen tasks alone.
    #[must_use]
    pub fn only(mut self, chosen: &Chosen) -> Self {
        self.rows.retain(|row| chosen.has(row.task));
        self
    }

    /// How long tasks were not runnable, how long they then waited, and how much of both has no stack.
    #[must_use]
    pub fn sums(&self) -> (Nanos, Nanos, Nanos) {
        let sum = |of: fn(&OffCpuStack) -> Nanos| {
            self.rows.iter().map(of).fold(Nanos::ZERO, |all, time| all + time)
        };
        let unstacked = |row: &OffCpuStack| match row.stack {
            Some(_) => Nanos::ZERO,
            None => row.blocked + row.waited,
        };
        (sum(|row| row.blocked), sum(|row| row.waited), sum(unstacked))
    }

    /// The stacks with their times, tasks of one name together, in order of frames.
    #[must_use]
    pub fn folded(&self, state: &State) -> Vec<FoldedStack> {
        let mut all: BTreeMap<Vec<String>, Nanos> = BTreeMap::new();
        for row in &self.rows {
            let mut frames = vec![frame(&state.name(row.task))];
            match row.stack {
                Some(stack) => {
                    frames.extend(self.stacks.text(stack).split(CALLER).map(frame));
                    frames[1..].reverse();
                }
                None => frames.push(NO_STACK.to_owned()),
            }
            if row.waited > Nanos::ZERO {
                let waited = [frames.as_slice(), &[RUN_DELAY.to_owned()]].concat();
                *all.entry(waited).or_default() += row.waited;
            }
            if row.blocked > Nanos::ZERO {
                *all.entry(frames).or_default() += row.blocked;
            }
        }
        all.into_iter().map(|(frames, time)| FoldedStack { frames, time }).collect()
    }
}

/// Sleeps of all tasks of a name with one stack.
#[derive(Clone, Debug, PartialEq)]
pub struct StackRow {
    /// The name of the tasks at the end.
    pub comm: String,
    /// The function that waited and its callers up to the outermost, `<-` between them; `None` where the trace holds no
    /// stack of it.
    pub stack: Option<String>,
    /// How many sleeps.
    pub count: u64,
    /// How long the tasks were not runnable.
    pub blocked: Nanos,
    /// How long they then waited for a CPU.
    pub waited: Nanos,
    /// The part of both in those of all rows.
    pub share: f64,
}

/// Functions of a stack that a table shows.
const SHOWN: usize = 6;

impl StackRow {
    fn shown(&self) -> String {
        let Some(stack) = &self.stack else { return NO_STACK.to_owned() };
        let shown: Vec<&str> = stack.split(CALLER).take(SHOWN).collect();
        shown.join(CALLER)
    }
}

impl Row for StackRow {
    const ABOUT: &'static str = "Sleeps of all tasks of a name with one stack.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "comm" ["comm"] = row.comm.clone(), "The name of the tasks at the end.";
            "off_cpu_ns" ["off CPU"] @ SleepTime = row.blocked, "How long the tasks were not runnable.";
            "run_delay_ns" ["then run delay"] @ WaitTime = row.waited, "How long they then waited for a CPU.";
            "share" ["share"] @ SleepTime = Share(row.share), "The part of both times in those of all rows.";
            "count" ["times"] @ SleepTime = row.count, "How many sleeps.";
        };
        let about = "The function that waited and its callers up to the outermost, `<-` between them; `null` where the trace holds no stack of it.";
        let stack = column("stack", about, |row: &Self| row.stack.clone());
        columns.push(stack.title("in (called by)").needs(Need::SleepTime).spelled(Self::shown));
        columns
    }
}

impl OffCpuAnswer {
    /// Sleeps by name and stack, the longest first.
    #[must_use]
    pub fn by_name(&self, state: &State) -> Vec<StackRow> {
        let mut all: BTreeMap<(String, Option<StackId>), Sum> = BTreeMap::new();
        for row in &self.rows {
            let sum = all.entry((state.name(row.task), row.stack)).or_default();
            sum.count += row.count;
            sum.blocked += row.blocked;
            sum.waited += row.waited;
        }
        let (blocked, waited, _) = self.sums();
        let whole = (blocked + waited).0.max(1) as f64;
        let row = |((comm, stack), sum): ((String, Option<StackId>), Sum)| StackRow {
            comm,
            stack: stack.map(|stack| self.stacks.text(stack).to_owned()),
            count: sum.count,
            blocked: sum.blocked,
            waited: sum.waited,
            share: (sum.blocked + sum.waited).0 as f64 / whole,
        };
        let mut rows: Vec<StackRow> = all.into_iter().map(row).collect();
        rows.sort_by(|a, b| {
            let time = |of: &StackRow| std::cmp::Reverse(of.blocked + of.waited);
            (time(a), &a.comm, &a.stack).cmp(&(time(b), &b.comm, &b.stack))
        });
        rows
    }
}

/// A name that can stand between semicolons on a line.
fn frame(name: &str) -> String {
    let plain = |c: char| if c == ';' || c.is_control() { ' ' } else { c };
    name.chars().map(plain).collect()
}
