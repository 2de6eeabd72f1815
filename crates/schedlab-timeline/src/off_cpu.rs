//! Time off the CPU by call stack: what a flame graph shows.
//!
//! A task is off the CPU from the switch after which it sleeps until it is woken, and then until it runs. Both times go to
//! the stack with which it went to sleep. A task that was displaced went to sleep nowhere: its waits are in here only if
//! causes of waits are asked for ([`OffCpuCauses`]).
//! With wakers, the time asleep also has who ended it: a task with its stack, if the trace holds it, or an interrupt. The
//! task that an interrupt met is nobody's waker.
//!
//! Memory: each different stack once, and a sum for each task and stack; with wakers, for each of these and each waker.

mod by_cause;

pub use by_cause::{OffCpuCauses, Unslept};

use crate::causes::{Parts, WaitCause};
use crate::change::{Change, Moved, Runnable, Switch, Waker};
use crate::question::{OtherEvent, Question};
use crate::stacks::{CALLER, Listener, StackId, Stacks, frame};
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId, Why};
use crate::task_filter::Chosen;
use schedlab_model::table::{Column, Row, Share, column};
use schedlab_model::{Context, Left, Nanos, Need, columns};
use std::collections::BTreeMap;

/// The frame in place of a stack that the trace does not hold.
pub const NO_STACK: &str = "[no stack]";
/// The frame in place of callers that the trace does not know.
pub const CUT: &str = "[cut]";
/// The frame on top of a stack for the time from the wakeup until the task ran.
pub const RUN_DELAY: &str = "[run delay]";

/// What the frame of a waker begins with; the functions of the waker stand on it.
pub const WOKEN_BY: &str = "woken by ";
/// What is named as the waker of a task that slept to the end.
const NOBODY: &str = "nobody before the end";

/// Asks for the time that tasks were off their CPUs, by stack.
#[derive(Clone, Debug)]
pub struct OffCpuStacks {
    listener: Listener,
    wakers: bool,
    sums: Sums,
    tasks: Vec<Sleeper>,
    sleeps: Sleeps,
    /// Whether waits are told with their causes, and not here.
    by_cause: bool,
}

/// The first sleeps and unslept waits, each with its times, up to [`OffCpuStacks::with_sleeps`].
#[derive(Clone, Debug, Default)]
pub struct Sleeps {
    /// In order of their ends.
    pub found: Vec<Sleep>,
    /// How many more there were than are kept.
    pub left_out: u64,
    /// Waits that followed no sleep, in order of their ends.
    pub unslept: Vec<UnsleptWait>,
    /// How many more of these there were than are kept.
    pub unslept_left_out: u64,
    most: usize,
}

/// A wait that followed no sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsleptWait {
    /// Who waited.
    pub task: TaskId,
    /// Why it waited; `None` of one that was woken, and whose sleep was not seen.
    pub why: Option<Unslept>,
    /// When it began to wait, or the begin of the window.
    pub since: Nanos,
    /// How long it waited.
    pub waited: Nanos,
}

/// A time for which a task was off its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sleep {
    /// Who slept.
    pub task: TaskId,
    /// Where it went to sleep; `None` where the trace holds no stack of it.
    pub stack: Option<StackId>,
    /// Who ended it; `None` if wakers were not asked for.
    pub woken: Option<WokenBy>,
    /// When it went to sleep, or the begin of the window.
    pub since: Nanos,
    /// How long it was not runnable.
    pub blocked: Nanos,
    /// How long it then waited for a CPU.
    pub waited: Nanos,
}

impl Sleeps {
    /// Keeps a sleep and gives its place; `None` without room.
    fn keep(
        &mut self,
        task: TaskId,
        (stack, woken): Key,
        until: Nanos,
        blocked: Nanos,
    ) -> Option<usize> {
        if self.found.len() < self.most {
            let since = until - blocked;
            let waited = Nanos::ZERO;
            self.found.push(Sleep { task, stack, woken, since, blocked, waited });
            return Some(self.found.len() - 1);
        }
        self.left_out += u64::from(self.most > 0);
        None
    }

    /// Keeps a wait that followed no sleep.
    fn keep_wait(&mut self, task: TaskId, why: Why, until: Nanos, waited: Nanos) {
        if self.most == 0 || waited == Nanos::ZERO {
            return;
        }
        if self.unslept.len() < self.most {
            let why = Unslept::of(why);
            let since = until - waited;
            self.unslept.push(UnsleptWait { task, why, since, waited });
        } else {
            self.unslept_left_out += 1;
        }
    }

    fn at(&mut self, place: Option<usize>) -> Option<&mut Sleep> {
        self.found.get_mut(place?)
    }
}

/// Times by task, stack and waker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums(BTreeMap<(TaskId, Option<Unslept>, Key), Sum>);

/// Where a task slept, and who ended it.
pub(crate) type Key = (Option<StackId>, Option<WokenBy>);

/// Who ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WokenBy {
    /// A task, with the stack that it had then, if the trace holds it.
    Task(TaskId, Option<StackId>),
    /// An interrupt: a device or a timer.
    Interrupt,
    /// The trace does not tell.
    Unknown,
    /// It slept to the end of the window.
    Nobody,
}

impl WokenBy {
    pub(crate) fn of(waker: &Waker) -> Self {
        match waker.context {
            Context::Unknown => Self::Unknown,
            Context::Task if waker.task.is_some() => Self::Task(waker.task, None),
            _ => Self::Interrupt,
        }
    }

    fn name(self, state: &State) -> String {
        match self {
            Self::Task(task, _) => state.name(task),
            Self::Interrupt => "an interrupt".to_owned(),
            Self::Unknown => "somebody".to_owned(),
            Self::Nobody => NOBODY.to_owned(),
        }
    }

    /// The stack with which it woke the task, if the trace holds it.
    #[must_use]
    pub const fn stack(self) -> Option<StackId> {
        match self {
            Self::Task(_, stack) => stack,
            Self::Interrupt | Self::Unknown | Self::Nobody => None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    blocked: Nanos,
    waited: Nanos,
    parts: Parts,
}

impl Sum {
    fn add(&mut self, row: &OffCpuStack) {
        self.count += row.count;
        self.blocked += row.blocked;
        self.waited += row.waited;
        self.parts.add(&row.parts);
    }
}

impl Sums {
    fn of_sleep(&mut self, task: TaskId, key: Key) -> &mut Sum {
        self.0.entry((task, None, key)).or_default()
    }

    pub(crate) fn slept(&mut self, task: TaskId, key: Key, time: Nanos) {
        let sum = self.of_sleep(task, key);
        sum.count += 1;
        sum.blocked += time;
    }

    pub(crate) fn waited(&mut self, task: TaskId, key: Key, time: Nanos) {
        self.of_sleep(task, key).waited += time;
    }

    /// A wait with its causes, after the sleep of that key.
    pub(crate) fn explained(&mut self, task: TaskId, slept: Option<Key>, why: Why, parts: &Parts) {
        let sum = match (slept, Unslept::of(why)) {
            (Some(key), _) => self.of_sleep(task, key),
            (None, unslept) => {
                let sum = self.0.entry((task, unslept, (None, None))).or_default();
                sum.count += u64::from(unslept.is_some());
                sum
            }
        };
        sum.waited += parts.sum();
        sum.parts.add(parts);
    }

    pub(crate) fn answer(self, stacks: Stacks) -> OffCpuAnswer {
        let row = |((task, unslept, (stack, woken)), sum)| {
            let Sum { count, blocked, waited, parts } = sum;
            OffCpuStack { task, unslept, stack, woken, count, blocked, waited, parts }
        };
        let is_told = |of: &OffCpuStack| of.blocked + of.waited > Nanos::ZERO;
        let rows = self.0.into_iter().map(row).filter(is_told).collect();
        OffCpuAnswer { rows, stacks, ..OffCpuAnswer::default() }
    }
}

/// What is known of a task's current or last sleep.
#[derive(Clone, Copy, Debug, Default)]
struct Sleeper {
    /// Where it sleeps now.
    stack: Option<StackId>,
    /// The last sleep, until it leaves a CPU again: its stack and its waker's may come late.
    last: Option<(Key, Nanos)>,
    /// The place of the last sleep among those that are kept.
    kept: Option<usize>,
    /// Whether it was woken and has not run yet.
    is_woken: bool,
    /// Whether an event of it was seen in the window.
    seen: bool,
}

/// Time that one task was off its CPU with one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffCpuStack {
    /// Who was off the CPU.
    pub task: TaskId,
    /// Why it waited without a sleep before; `None` of sleeps, and always if causes were not asked for.
    pub(crate) unslept: Option<Unslept>,
    /// Where it went to sleep; `None` where the trace holds no stack of it.
    pub stack: Option<StackId>,
    /// Who ended the sleep; `None` if wakers were not asked for.
    pub(crate) woken: Option<WokenBy>,
    /// How often it went to sleep there, or waited without a sleep.
    pub(crate) count: u64,
    /// How long it was not runnable.
    pub(crate) blocked: Nanos,
    /// How long it then waited for a CPU.
    pub(crate) waited: Nanos,
    /// The same time by cause, if causes were asked for.
    pub(crate) parts: Parts,
}

/// Time off the CPU by task and stack.
#[derive(Clone, Debug, Default)]
pub struct OffCpuAnswer {
    /// By task, then by stack.
    pub rows: Vec<OffCpuStack>,
    /// The stacks by their numbers.
    pub(crate) stacks: Stacks,
    /// Whether the question splits waits by cause. If so, waits that no sleep preceded have rows too.
    pub by_cause: bool,
    /// Sleeps one by one, if they were asked for.
    pub sleeps: Sleeps,
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
        Self {
            listener: Listener::whole(),
            wakers: false,
            sums: Sums::default(),
            tasks: Vec::new(),
            sleeps: Sleeps::default(),
            by_cause: false,
        }
    }
}

impl OffCpuStacks {
    /// The same, also by who ended each sleep.
    #[must_use]
    pub fn by_waker() -> Self {
        Self { wakers: true, ..Self::default() }
    }

    /// The same, with the first `most` sleeps one by one, and as many waits that followed none.
    #[must_use]
    pub fn with_sleeps(mut self, most: usize) -> Self {
        self.sleeps.most = most;
        self
    }

    fn of(&mut self, task: TaskId) -> &mut Sleeper {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Sleeper::default);
        }
        &mut self.tasks[task.index()]
    }

    fn slept(&mut self, task: TaskId, until: Nanos, time: Nanos, by: WokenBy) {
        let by = self.wakers.then_some(by);
        let key = (self.of(task).stack.take(), by);
        let kept = self.sleeps.keep(task, key, until, time);
        let of = self.of(task);
        (of.last, of.is_woken, of.kept) = (Some((key, time)), true, kept);
        self.sums.slept(task, key, time);
    }

    fn waited(&mut self, task: TaskId, why: Why, until: Nanos, time: Nanos) {
        if self.by_cause {
            return;
        }
        if let Some(key) = self.took_up(task, why, until, time) {
            self.sums.waited(task, key, time);
        }
    }

    /// A wait is over: the sleep before it, if one was seen.
    fn took_up(&mut self, task: TaskId, why: Why, until: Nanos, time: Nanos) -> Option<Key> {
        let of = self.of(task);
        let last = of.last.filter(|_| std::mem::take(&mut of.is_woken));
        let kept = of.kept;
        let Some((key, _)) = last else {
            self.sleeps.keep_wait(task, why, until, time);
            return None;
        };
        if let Some(sleep) = self.sleeps.at(kept) {
            sleep.waited = time;
        }
        Some(key)
    }

    /// More is known of a task's last sleep.
    fn learn(&mut self, task: TaskId, know: impl FnOnce(Key) -> Key) {
        let Some((was, time)) = self.of(task).last else { return };
        let is = know(was);
        let of = self.of(task);
        of.last = Some((is, time));
        let kept = of.kept;
        if let Some(sleep) = self.sleeps.at(kept) {
            (sleep.stack, sleep.woken) = is;
        }
        let less = self.sums.of_sleep(task, was);
        less.count -= 1;
        less.blocked -= time;
        self.sums.slept(task, is, time);
    }

    fn switch(&mut self, switch: &Switch, state: &State) {
        self.listener.switched(switch.cpu);
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
                let since = wait.since.max(state.window().start);
                self.waited(task, wait.why, switch.at, switch.at - since);
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

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        if let Some((woken, stack)) = self.listener.waker_stack(event, state) {
            return self.learn(woken, |(slept, by)| match by {
                Some(WokenBy::Task(waker, None)) => {
                    (slept, Some(WokenBy::Task(waker, Some(stack))))
                }
                other => (slept, other),
            });
        }
        let Some((task, stack)) = self.listener.sleeper_stack(event, state) else { return };
        if matches!(state.task(task).activity, Activity::Sleeping { .. }) {
            self.of(task).stack = Some(stack);
            return;
        }
        // Another CPU may have woken it before the stack was logged.
        self.learn(task, |(slept, by)| (slept.or(Some(stack)), by));
    }

    fn see(&mut self, change: &Change, state: &State) {
        let from = state.window().start;
        match *change {
            Change::Switch(ref switch) => self.switch(switch, state),
            Change::Runnable(Runnable { at, task, slept, ref waker, .. }) => {
                self.of(task).seen = true;
                if let Some((since, _)) = slept {
                    let by = WokenBy::of(waker);
                    self.slept(task, at, at - since.max(from), by);
                    let is_task = matches!(by, WokenBy::Task(..));
                    self.listener.woke(waker.cpu, if is_task { task } else { TaskId::NONE });
                }
            }
            Change::Moved(Moved { task, .. }) => self.of(task).seen = true,
            Change::Forgotten { at, task, was: Activity::Waiting { why, .. }, since } => {
                self.of(task).seen = true;
                self.waited(task, why, at, at - since.max(from));
            }
            _ => {}
        }
    }

    fn answer(mut self, state: &State) -> OffCpuAnswer {
        let window = state.window();
        for (id, task) in state.tasks() {
            let open = window.end - task.since.max(window.start);
            match task.activity {
                Activity::Waiting { why, .. } => self.waited(id, why, window.end, open),
                Activity::Sleeping { left } => {
                    // Who only sleeps tells nothing, but who is stuck in another state does.
                    let stuck = matches!(left, Left::Blocked | Left::Stopped | Left::Traced);
                    self.of(id).seen |= stuck && open > Nanos::ZERO;
                    self.slept(id, window.end, open, WokenBy::Nobody);
                }
                _ => {}
            }
        }
        let Self { listener, sums, tasks, mut sleeps, .. } = self;
        let mut answer = sums.answer(listener.stacks);
        let seen = |task: TaskId| tasks.get(task.index()).is_some_and(|of| of.seen);
        answer.rows.retain(|row| seen(row.task) && state.logs(row.task));
        sleeps.found.retain(|sleep| seen(sleep.task) && state.logs(sleep.task));
        sleeps.unslept.retain(|wait| seen(wait.task) && state.logs(wait.task));
        answer.sleeps = sleeps;
        answer
    }
}

impl OffCpuAnswer {
    /// The same times, summed over who ended the sleeps.
    #[must_use]
    pub fn without_wakers(mut self) -> Self {
        let mut sums = Sums::default();
        for row in self.rows {
            sums.0.entry((row.task, row.unslept, (row.stack, None))).or_default().add(&row);
        }
        self.rows = sums.answer(Stacks::default()).rows;
        self
    }

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
        let unstacked = |row: &OffCpuStack| match (row.unslept, row.stack) {
            (None, None) => row.blocked + row.waited,
            _ => Nanos::ZERO,
        };
        (sum(|row| row.blocked), sum(|row| row.waited), sum(unstacked))
    }

    /// How long tasks waited that had not slept before.
    #[must_use]
    pub fn unslept(&self) -> Nanos {
        let rows = self.rows.iter().filter(|row| row.unslept.is_some());
        rows.fold(Nanos::ZERO, |all, row| all + row.waited)
    }

    /// The stacks with their times, tasks of one name together, in order of frames. What woke a task stands on its stack.
    #[must_use]
    pub fn folded(&self, state: &State) -> Vec<FoldedStack> {
        let mut all: BTreeMap<Vec<String>, Nanos> = BTreeMap::new();
        for row in &self.rows {
            let mut frames = vec![frame(&state.name(row.task))];
            match (row.unslept, row.stack) {
                (Some(why), _) => frames.push(why.frame().to_owned()),
                (None, Some(stack)) => frames.extend(self.stacks.frames(stack)),
                (None, None) => frames.push(NO_STACK.to_owned()),
            }
            for (on_top, time) in self.waits(row) {
                *all.entry([frames.as_slice(), &on_top].concat()).or_default() += time;
            }
            if let Some(woken) = row.woken {
                frames.push(frame(&format!("{WOKEN_BY}{}", woken.name(state))));
                if let Some(stack) = woken.stack() {
                    frames.extend(self.stacks.frames(stack));
                }
            }
            if row.blocked > Nanos::ZERO {
                *all.entry(frames).or_default() += row.blocked;
            }
        }
        all.into_iter().map(|(frames, time)| FoldedStack { frames, time }).collect()
    }

    /// The frames that stand on a stack for its waits.
    fn waits(&self, row: &OffCpuStack) -> Vec<(Vec<String>, Nanos)> {
        let delay = row.unslept.is_none().then(|| RUN_DELAY.to_owned());
        let causes = row.parts.ranked().into_iter();
        let on_top = |cause: WaitCause| delay.iter().cloned().chain([cause.title().to_owned()]);
        match self.by_cause {
            true => causes.map(|(cause, time)| (on_top(cause).collect(), time)).collect(),
            false if row.waited > Nanos::ZERO => vec![(delay.into_iter().collect(), row.waited)],
            false => Vec::new(),
        }
    }

    /// The frames of a stack, the outermost first.
    #[must_use]
    pub fn frames(&self, stack: Option<StackId>) -> Vec<String> {
        match stack {
            Some(stack) => self.stacks.frames(stack).collect(),
            None => vec![NO_STACK.to_owned()],
        }
    }
}

/// Sleeps of all tasks of a name with one stack.
#[derive(Clone, Debug, PartialEq)]
pub struct StackRow {
    /// The name of the tasks at the end.
    pub(crate) comm: String,
    /// Why they waited without a sleep before; `None` of sleeps.
    pub(crate) unslept: Option<Unslept>,
    /// The function that waited and its callers up to the outermost, `<-` between them; `None` where the trace holds no
    /// stack of it.
    pub(crate) stack: Option<String>,
    /// Who ended these sleeps: the name of a task, or `an interrupt`; `None` if wakers were not asked for.
    pub(crate) woken_by: Option<String>,
    /// The waker's stack, written as the other; `None` where the trace holds no stack of it.
    pub(crate) waker_stack: Option<String>,
    /// How many sleeps.
    pub(crate) count: u64,
    /// How long the tasks were not runnable.
    pub(crate) blocked: Nanos,
    /// How long they then waited for a CPU.
    pub(crate) waited: Nanos,
    /// The same time by cause; `None` if causes were not asked for.
    pub(crate) parts: Option<Parts>,
    /// The part of both in those of all rows.
    pub(crate) share: f64,
}

/// Functions of a stack that a table shows.
const SHOWN: usize = 6;

/// The functions of a stack that a table shows.
pub(crate) fn innermost(stack: &str) -> String {
    stack.split(CALLER).take(SHOWN).collect::<Vec<_>>().join(CALLER)
}

impl StackRow {
    fn shown(&self) -> String {
        let bare = self.unslept.map_or(NO_STACK, Unslept::frame);
        self.stack.as_deref().map_or_else(|| bare.to_owned(), innermost)
    }

    fn mostly(&self) -> Option<(WaitCause, Nanos)> {
        self.parts?.ranked().first().copied()
    }

    /// The waker and what it did, for the table.
    fn waker_shown(&self) -> String {
        let who = self.woken_by.clone().unwrap_or_default();
        match &self.waker_stack {
            Some(stack) => format!("{who} in {}", innermost(stack)),
            None => who,
        }
    }
}

impl Row for StackRow {
    const ABOUT: &'static str = "Sleeps of all tasks of a name with one stack.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "comm" ["comm"] = row.comm.clone(), "The name of the tasks at the end.";
            "off_cpu_ns" ["off CPU"] @ SleepTime = row.blocked, "How long the tasks were not runnable.";
            "run_delay_ns" ["then run delay"] @ WaitTime = row.waited, "How long they then waited for a CPU; of rows that did not begin with a sleep, how long they waited.";
            "mostly" ["mostly"] = row.mostly().map(|(cause, _)| cause.name()), "The cause of most of that waiting; `null` where there was none, and without `--causes`.";
            "mostly_ns" ["of which"] @ WaitTime = row.mostly().map(|(_, time)| time), "How much that was.";
            "share" ["share"] @ SleepTime = Share(row.share), "The part of both times in those of all rows.";
            "count" ["times"] @ SleepTime = row.count, "How many sleeps, or waits without a sleep before.";
            "began" = row.unslept.map_or("slept", Unslept::name), "How the time began: `slept`. With `--causes` also `displaced` (another task took the CPU), `yielded` (`sched_yield`) or `new` (the first wait of a task): these tasks waited without a sleep and have no stack.";
        };
        let about = "The function that waited and its callers up to the outermost, `<-` between them; `null` where the trace holds no stack of it.";
        let stack = column("stack", about, |row: &Self| row.stack.clone());
        columns.push(stack.title("in (called by)").needs(Need::SleepTime).spelled(Self::shown));
        let about = "Who ended these sleeps: the name of a task, `an interrupt`, `somebody` where the trace does not tell, or `nobody before the end`; `null` without `--wakers`.";
        let woken_by = column("woken_by", about, |row: &Self| row.woken_by.clone());
        let woken_by = woken_by.title("woken by").needs(Need::SleepTime);
        columns.push(woken_by.spelled(Self::waker_shown));
        let about = "The stack with which the waker woke them, written as the other; `null` where the trace holds no stack of it.";
        let stack = column("waker_stack", about, |row: &Self| row.waker_stack.clone());
        columns.push(stack.needs(Need::SleepTime));
        columns.extend(WaitCause::ALL.into_iter().map(|cause| {
            let about = format!("{} `null` without `--causes`.", cause.about());
            let name = format!("{}_ns", cause.name());
            column(name, about, move |row: &Self| Some(row.parts?.of(cause))).needs(Need::Queues)
        }));
        columns
    }
}

impl OffCpuAnswer {
    /// Sleeps by name and stack, and by waker if these were asked for; the longest first.
    #[must_use]
    pub fn by_name(&self, state: &State) -> Vec<StackRow> {
        type Waker = Option<(String, Option<StackId>)>;
        type Place = (Option<Unslept>, Option<StackId>);
        let mut all: BTreeMap<(String, Place, Waker), Sum> = BTreeMap::new();
        for row in &self.rows {
            let waker = row.woken.map(|woken| (woken.name(state), woken.stack()));
            let place = (row.unslept, row.stack);
            all.entry((state.name(row.task), place, waker)).or_default().add(row);
        }
        let (blocked, waited, _) = self.sums();
        let whole = (blocked + waited).0.max(1) as f64;
        let text = |stack: StackId| self.stacks.text(stack).to_owned();
        let row = |((comm, (unslept, stack), waker), sum): ((String, Place, Waker), Sum)| {
            let (woken_by, waker_stack) = waker.unzip();
            StackRow {
                comm,
                unslept,
                stack: stack.map(text),
                woken_by,
                waker_stack: waker_stack.flatten().map(text),
                count: sum.count,
                blocked: sum.blocked,
                waited: sum.waited,
                parts: self.by_cause.then_some(sum.parts),
                share: (sum.blocked + sum.waited).0 as f64 / whole,
            }
        };
        let mut rows: Vec<StackRow> = all.into_iter().map(row).collect();
        rows.sort_by(|a, b| {
            let time = |of: &StackRow| std::cmp::Reverse(of.blocked + of.waited);
            let name = |of: &StackRow| {
                let waker = (of.woken_by.clone(), of.waker_stack.clone());
                (of.comm.clone(), of.unslept, of.stack.clone(), waker)
            };
            time(a).cmp(&time(b)).then_with(|| name(a).cmp(&name(b)))
        });
        rows
    }
}
