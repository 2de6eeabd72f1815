//! What an interval of one task's life was spent on: its own running, its waits for a CPU, and, while it was blocked, what
//! its waker did meanwhile.
//!
//! Each instant of the interval belongs to exactly one [`Spent`]. While the task is blocked, its waker is followed back to
//! the start of that block only, with the waker's own waits and blocks inside it. An interrupt ends the chain. A waker is
//! evidence, not proof: the events tell who woke the task, not what the task waited for.
//!
//! What ran on a CPU while a task of the chain waited for it is looked up at the end ([`WhyLateAnswer::occupants`]). A task
//! that was throttled waited for its quota, whoever ran meanwhile: an earlier pass tells when ([`crate::Throttling`]). Where
//! that is not certain, nobody knows for which of the two it waited.
//!
//! Memory: one entry for each change of a task's activity in the window, and one for each time that it ran.

use crate::caused_waits::CausedWaits;
use crate::change::{Change, Switch, Waker, concerned};
use crate::occupants::Occupants;
use crate::off_cpu::{OffCpuAnswer, Sums, WokenBy};
use crate::question::{OtherEvent, Question};
use crate::stacks::{BlockedIn, Listener, StackId, Stacks, longest_first};
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId, Why};
use crate::throttling::{Stopped, Throttled, Throttles};
use schedlab_model::{Context, Cpu, Nanos, Pid, Span};
use std::collections::BTreeMap;

/// Longer chains of wakers than this end as unknown.
const DEPTH_MAX: usize = 64;

/// Asks what the window was spent on, as one task sees it.
#[derive(Clone, Debug)]
pub struct WhyLate {
    pid: Pid,
    histories: TaskHistories,
}

/// What each task did in the window so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskHistories {
    tasks: Vec<TaskHistory>,
    /// Times in which nothing was known of a CPU.
    dark: Vec<(Cpu, Span)>,
    /// Where tasks blocked, where the trace tells.
    listener: Listener,
    /// When tasks were throttled, if somebody told.
    throttles: Throttles,
}

/// What one task did so far.
#[derive(Clone, Debug)]
struct TaskHistory {
    past: Vec<Piece>,
    activity: Activity,
    since: Nanos,
    /// Where it blocked, if that is what it does.
    stack: Option<StackId>,
}

/// A time in which a task did one thing.
#[derive(Clone, Copy, Debug)]
struct Piece {
    span: Span,
    activity: Activity,
    /// Who ended it, where a wakeup did.
    waker: Option<Waker>,
    /// Where it blocked, if that is what it did.
    stack: Option<StackId>,
}

/// What a part of the interval was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Doing {
    /// The task ran on a CPU.
    Runs,
    /// The task was runnable and waited for this CPU; `None` while no CPU was chosen.
    Runnable(Option<Cpu>),
    /// The task was runnable, and its control group had used up its CPU quota.
    Throttled,
    /// The task was blocked, and an interrupt on this CPU woke it: a device or a timer.
    Interrupt(Cpu),
    /// The task was blocked, and the trace does not tell who woke it.
    Woken,
    /// The task was blocked to the end of the interval.
    Blocked,
    /// The events do not tell.
    Unknown,
}

impl Doing {
    /// A stable name for scripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Runnable(_) => "runnable",
            Self::Throttled => "throttled",
            Self::Interrupt(_) => "interrupt",
            Self::Woken | Self::Blocked => "blocked",
            Self::Unknown => "unknown",
        }
    }

    /// The CPU that it names; `None` for a state that names none.
    #[must_use]
    pub const fn cpu(self) -> Option<Cpu> {
        match self {
            Self::Runnable(cpu) => cpu,
            Self::Interrupt(cpu) => Some(cpu),
            Self::Runs | Self::Throttled | Self::Woken | Self::Blocked | Self::Unknown => None,
        }
    }

    /// What `who` did, in a sentence.
    #[must_use]
    pub fn sentence(self, who: &str) -> String {
        match self {
            Self::Runs => format!("{who} ran"),
            Self::Runnable(Some(cpu)) => format!("{who} waited for CPU {cpu}"),
            Self::Runnable(None) => format!("{who} was woken and had no CPU yet"),
            Self::Throttled => format!("{who} was throttled by the quota of its group"),
            Self::Interrupt(cpu) => {
                format!("{who} was blocked until an interrupt on CPU {cpu} (device or timer)")
            }
            Self::Woken => format!("{who} was blocked; the trace does not tell who woke it"),
            Self::Blocked => format!("{who} was blocked, and nothing woke it before the end"),
            Self::Unknown => format!("unknown: the events do not show what {who} did"),
        }
    }
}

/// A part of the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spent {
    /// The part of the interval.
    pub span: Span,
    /// Who did it: the task itself, or one in the chain of wakers.
    pub task: TaskId,
    /// What the task did in this part.
    pub doing: Doing,
    /// How many wakers lie between: 0 is the task itself.
    pub depth: usize,
    /// The kernel stack with which the task blocked; `None` if it was not blocked or the trace has
    /// no stack of it.
    pub stack: Option<StackId>,
}

impl Spent {
    /// Where and when a task waited for a CPU, if that is what it did.
    #[must_use]
    pub const fn wait(&self) -> Option<(Cpu, Span)> {
        match self.doing {
            Doing::Runnable(Some(cpu)) => Some((cpu, self.span)),
            _ => None,
        }
    }
}

/// What the whole interval was spent on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WhyLateAnswer {
    /// The task whose interval this is.
    pub task: TaskId,
    /// The parts of the interval in order of time. They cover it without gap or overlap.
    pub spent: Vec<Spent>,
    /// Who was on each CPU: what ran while a task of the chain waited ([`Spent::wait`]).
    pub occupants: Occupants,
    /// Where in the kernel the task itself was blocked, the longest first; empty if the trace has
    /// no stacks of it.
    pub blocked: Vec<BlockedIn>,
    /// The stacks by their numbers.
    pub stacks: Stacks,
}

impl WhyLate {
    /// About the task that has `pid` when the window ends.
    #[must_use]
    pub fn new(pid: Pid) -> Self {
        Self { pid, histories: TaskHistories::default() }
    }

    /// The question, knowing when tasks were throttled.
    #[must_use]
    pub fn throttled(mut self, throttled: &[Throttled]) -> Self {
        self.histories.know(throttled);
        self
    }
}

impl TaskHistories {
    /// When tasks were throttled.
    pub(crate) fn know(&mut self, throttled: &[Throttled]) {
        self.throttles = Throttles::of(throttled);
    }

    /// For how long of a wait a task was certainly throttled.
    pub(crate) fn throttled(&self, task: TaskId, wait: Span) -> Nanos {
        let mut sum = Nanos::ZERO;
        self.throttles.part(task, wait, |part, stopped| {
            if stopped == Stopped::Certainly {
                sum += part.duration();
            }
        });
        sum
    }

    /// Keeps stacks up to their outermost function.
    pub(crate) fn with_whole_stacks() -> Self {
        Self { listener: Listener::whole(), ..Self::default() }
    }

    pub(crate) fn begin(&mut self, state: &State) {
        for (id, task) in state.tasks() {
            let history = self.of(id, state);
            history.activity = task.activity;
            if !matches!(task.activity, Activity::Sleeping { .. }) {
                history.stack = None;
            }
        }
    }

    /// Whether it wants the arguments of a tracepoint.
    pub(crate) fn wants(&mut self, format: u16, state: &State) -> bool {
        self.listener.wants(format, state)
    }

    /// A task left its CPU with this stack. Another CPU may have woken it before the stack was logged.
    pub(crate) fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        let Some((task, stack)) = self.listener.sleeper_stack(event, state) else { return };
        let sleeps = matches!(state.task(task).activity, Activity::Sleeping { .. });
        let history = self.of(task, state);
        let past = history.past.last_mut();
        let past = past.filter(|piece| matches!(piece.activity, Activity::Sleeping { .. }));
        match past {
            _ if sleeps => history.stack = Some(stack),
            Some(piece) if piece.stack.is_none() => piece.stack = Some(stack),
            _ => {}
        }
    }

    #[inline]
    pub(crate) fn see(&mut self, change: &Change, state: &State) {
        let waker = match change {
            Change::Runnable(woken) => Some(woken.waker),
            _ => None,
        };
        if let Change::Switch(Switch { at, cpu, was: Occupant::Unknown, since, .. }) = *change {
            self.darken(cpu, since, at, state);
        }
        if let Change::Switch(Switch { cpu, prev, left: Some(_), .. }) = *change {
            self.listener.left(cpu, prev);
        }
        for task in concerned(change).into_iter().filter(|task| task.is_some()) {
            self.turn(task, change.at(), waker, state);
        }
    }

    /// Nothing was known of a CPU for a while.
    fn darken(&mut self, cpu: Cpu, since: Nanos, at: Nanos, state: &State) {
        let since = since.max(state.window().start);
        if since < at {
            self.dark.push((cpu, Span::new(since, at)));
        }
    }

    /// Closes all open intervals at the end of the window.
    pub(crate) fn end(&mut self, state: &State) {
        let at = state.window().end;
        for (cpu, here) in (0..=u16::MAX).map(Cpu).zip(state.cpus()) {
            if here.occupant == Occupant::Unknown {
                self.darken(cpu, here.since, at, state);
            }
        }
        for history in self.tasks.iter_mut().filter(|history| history.since < at) {
            let span = Span::new(history.since, at);
            let stack = history.stack;
            history.past.push(Piece { span, activity: history.activity, waker: None, stack });
        }
    }

    /// Who was on each CPU, once the window has ended.
    pub(crate) fn occupants(&self) -> Occupants {
        let mut occupants = Occupants::default();
        for (task, history) in (0..).map(TaskId).zip(&self.tasks) {
            for piece in &history.past {
                if let Activity::Running { cpu } = piece.activity {
                    occupants.add(cpu, piece.span, Occupant::Task(task));
                }
            }
        }
        for (cpu, span) in &self.dark {
            occupants.add(*cpu, *span, Occupant::Unknown);
        }
        occupants.sort();
        occupants
    }

    fn of(&mut self, task: TaskId, state: &State) -> &mut TaskHistory {
        if task.index() >= self.tasks.len() {
            let since = state.window().start;
            let history =
                TaskHistory { past: Vec::new(), activity: Activity::Unknown, since, stack: None };
            self.tasks.resize(task.index() + 1, history);
        }
        &mut self.tasks[task.index()]
    }

    /// A task may do something else from `at` on.
    fn turn(&mut self, task: TaskId, at: Nanos, waker: Option<Waker>, state: &State) {
        let is = state.task(task).activity;
        let history = self.of(task, state);
        if is == history.activity {
            return;
        }
        let until = at.max(history.since);
        let since = std::mem::replace(&mut history.since, until);
        let activity = std::mem::replace(&mut history.activity, is);
        let stack = history.stack.take();
        if until > since {
            history.past.push(Piece { span: Span::new(since, until), activity, waker, stack });
        }
    }

    /// What `task` itself did in `within`, in order of time; nothing where the events do not tell.
    pub(crate) fn own(
        &self,
        task: TaskId,
        within: Span,
    ) -> impl Iterator<Item = (Span, Activity)> + '_ {
        let past = self.tasks.get(task.index()).map_or(&[][..], |history| &history.past);
        let first = past.partition_point(|piece| piece.span.end <= within.start);
        let here = past[first..].iter().take_while(move |piece| piece.span.start < within.end);
        here.map(move |piece| (piece.span.intersection(within), piece.activity))
    }

    /// What `within` was spent on, as `task` sees it.
    pub(crate) fn walk(&self, task: TaskId, within: Span, depth: usize, out: &mut Vec<Spent>) {
        let past = self.tasks.get(task.index()).map_or(&[][..], |history| &history.past);
        let mut told = within.start;
        let first = past.partition_point(|piece| piece.span.end <= within.start);
        for piece in &past[first..] {
            let span = Span::new(piece.span.start.max(told), piece.span.end.min(within.end));
            if span.start >= within.end {
                break;
            }
            if span.start > told {
                let gap = Span::new(told, span.start);
                out.push(Spent { span: gap, task, doing: Doing::Unknown, depth, stack: None });
            }
            told = span.end;
            self.explain(task, span, piece, depth, out);
        }
        if told < within.end {
            let span = Span::new(told, within.end);
            out.push(Spent { span, task, doing: Doing::Unknown, depth, stack: None });
        }
    }

    fn explain(&self, task: TaskId, span: Span, piece: &Piece, depth: usize, out: &mut Vec<Spent>) {
        let doing = match (piece.activity, piece.waker) {
            (Activity::Running { .. }, _) => Doing::Runs,
            (Activity::Waiting { cpu, placed, .. }, _) => {
                let doing = Doing::Runnable(placed.then_some(cpu));
                return self.wait(&Spent { span, task, doing, depth, stack: piece.stack }, out);
            }
            (Activity::Sleeping { .. } | Activity::New, Some(waker)) => {
                if waker.context == Context::Unknown {
                    let doing = Doing::Woken;
                    let stack = piece.stack;
                    return out.push(Spent { span, task, doing, depth, stack });
                }
                let by_task = waker.context == Context::Task && waker.task.is_some();
                if by_task && depth < DEPTH_MAX {
                    return self.walk(waker.task, span, depth + 1, out);
                }
                if by_task { Doing::Unknown } else { Doing::Interrupt(waker.cpu) }
            }
            // Nothing woke it, so it goes on to the end of the window.
            (Activity::Sleeping { .. }, None) => Doing::Blocked,
            _ => Doing::Unknown,
        };
        out.push(Spent { span, task, doing, depth, stack: piece.stack });
    }

    /// A wait for a CPU, in which the task may have been throttled.
    fn wait(&self, waited: &Spent, out: &mut Vec<Spent>) {
        self.throttles.part(waited.task, waited.span, |span, stopped| {
            let doing = match stopped {
                Stopped::No => waited.doing,
                Stopped::Perhaps => Doing::Unknown,
                Stopped::Certainly => Doing::Throttled,
            };
            out.push(Spent { span, doing, ..*waited });
        });
    }

    /// The time for which these tasks were off their CPUs in these spans, by stack and waker. A wait belongs to the sleep
    /// before it. With the causes of waits, those without a sleep before count too.
    pub(crate) fn off_cpu(
        self,
        within: impl Iterator<Item = (TaskId, Span)>,
        waits: Option<&CausedWaits>,
    ) -> OffCpuAnswer {
        let mut sums = Sums::default();
        for (task, span) in within {
            let past = self.tasks.get(task.index()).map_or(&[][..], |history| &history.past);
            let first = past.partition_point(|piece| piece.span.end <= span.start);
            // The sleep before a wait may have ended before the span began, and the task have moved while it waited.
            let is_wait = |piece: &Piece| matches!(piece.activity, Activity::Waiting { .. });
            let begin = past[..first].iter().rposition(|piece| !is_wait(piece));
            let mut slept = None;
            let mut explained = Nanos::ZERO;
            for (index, piece) in past.iter().enumerate().skip(begin.unwrap_or(0)) {
                if piece.span.start >= span.end {
                    break;
                }
                let here = piece.span.intersection(span);
                match piece.activity {
                    Activity::Sleeping { .. } => {
                        let by = piece.waker.as_ref().map_or(WokenBy::Nobody, WokenBy::of);
                        slept = Some((piece.stack, Some(by)));
                        if index >= first {
                            sums.slept(task, (piece.stack, Some(by)), here.duration());
                        }
                    }
                    Activity::Waiting { why, .. } if index >= first => {
                        let slept = slept.filter(|_| why == Why::Woken);
                        match (waits, slept) {
                            (None, Some(key)) => sums.waited(task, key, here.duration()),
                            (None, None) => {}
                            (Some(_), _) if here.start < explained => {}
                            (Some(waits), _) => {
                                let (until, parts) = waits.at(task, here, span);
                                explained = until;
                                sums.explained(task, slept, why, &parts);
                            }
                        }
                    }
                    Activity::Waiting { .. } => {}
                    _ => slept = None,
                }
            }
        }
        let answer = sums.answer(self.listener.stacks);
        OffCpuAnswer { by_cause: waits.is_some(), ..answer }
    }

    /// What `task` was blocked in during `within`, the longest first; empty where no stack of it is known.
    pub(crate) fn blocked(&self, task: TaskId, within: Span) -> Vec<BlockedIn> {
        let past = self.tasks.get(task.index()).map_or(&[][..], |history| &history.past);
        let mut times = BTreeMap::<Option<StackId>, (u64, Nanos)>::new();
        for piece in past.iter().filter(|it| matches!(it.activity, Activity::Sleeping { .. })) {
            let start = piece.span.start.max(within.start);
            let end = piece.span.end.min(within.end);
            if start < end {
                let sum = times.entry(piece.stack).or_default();
                *sum = (sum.0 + 1, sum.1 + (end - start));
            }
        }
        if times.keys().all(Option::is_none) { Vec::new() } else { longest_first(times) }
    }

    /// The stacks by their numbers.
    pub(crate) fn stacks(self) -> Stacks {
        self.listener.stacks
    }
}

impl Question for WhyLate {
    /// `None` where the trace has no such pid.
    type Answer = Option<WhyLateAnswer>;
    const QUEUES: bool = false;

    fn wants(&mut self, format: u16, state: &State) -> bool {
        self.histories.wants(format, state)
    }

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        self.histories.other_event(event, state);
    }

    fn begin(&mut self, state: &State) {
        self.histories.begin(state);
    }

    fn see(&mut self, change: &Change, state: &State) {
        self.histories.see(change, state);
    }

    fn answer(mut self, state: &State) -> Option<WhyLateAnswer> {
        let window = state.window();
        let task = state.task_of(self.pid)?;
        self.histories.end(state);
        let mut spent = Vec::new();
        self.histories.walk(task, window, 0, &mut spent);
        let occupants = self.histories.occupants();
        let blocked = self.histories.blocked(task, window);
        Some(WhyLateAnswer { task, spent, occupants, blocked, stacks: self.histories.stacks() })
    }
}
