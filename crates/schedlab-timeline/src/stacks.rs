//! Where tasks blocked: the kernel's call stacks at the switches after which they slept.
//!
//! A stack is a record of the tracepoint `kernel_stack` behind the switch on the same CPU (`schedlab record --stacks`,
//! `trace-cmd record -T`, or the trigger `stacktrace` of `sched_switch`). Android tells the function alone, when the task is
//! woken (`sched_blocked_reason`). Behind a wakeup such a record is the stack of the waker. Memory: each different stack once.

use crate::known_formats::KnownFormats;
use crate::question::OtherEvent;
use crate::state::State;
use crate::task::{Activity, TaskId};
use schedlab_model::table::{Column, Row};
use schedlab_model::{Cpu, Nanos, OtherFormat, Pid, columns};
use std::collections::BTreeMap;

/// The tracepoint that holds stacks; ftrace's own name.
pub const STACK: &str = "kernel_stack";
/// The tracepoint that tells in which function a task blocked, and whether for I/O.
const REASON: &str = "sched_blocked_reason";

/// Whether a tracepoint of this name tells where tasks block.
#[must_use]
pub fn tells_where_tasks_block(tracepoint: &str) -> bool {
    matches!(tracepoint, STACK | REASON)
}
/// Functions between these: `<-` leads to the caller.
pub(crate) const CALLER: &str = "<-";
/// Callers that are reported of the function in which a task blocked.
const CALLERS_MAX: usize = 5;

/// Stands for a call stack; [`Stacks`] has its functions. The same stack has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StackId(u32);

impl StackId {
    /// The lowest number.
    pub(crate) const FIRST: Self = Self(0);
}

/// Time that a task was blocked, by where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockedIn {
    /// Where; `None` where the trace holds no stack of it.
    pub stack: Option<StackId>,
    /// How often the task blocked there.
    pub count: u64,
    /// The sum of the times for which the task was blocked there.
    pub time: Nanos,
}

/// The different stacks of a trace.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    texts: Vec<String>,
    numbers: BTreeMap<String, StackId>,
}

/// A name that can stand between semicolons on a line.
pub(crate) fn frame(name: &str) -> String {
    let plain = |c: char| if c == ';' || c.is_control() { ' ' } else { c };
    name.chars().map(plain).collect()
}

impl Stacks {
    /// The function in which the task blocked, and its callers: `futex_wait<-do_futex<-...`. The scheduler's own
    /// functions are left out.
    #[must_use]
    pub fn text(&self, stack: StackId) -> &str {
        self.texts.get(stack.0 as usize).map_or("", String::as_str)
    }

    /// The frames of a stack, the outermost first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = String> + '_ {
        self.text(stack).rsplit(CALLER).map(frame)
    }

    pub(crate) fn number(&mut self, text: String) -> StackId {
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        let number = StackId(u32::try_from(self.texts.len()).expect("stacks fit in memory"));
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        number
    }
}

/// Stacks that are reported of a task.
const REPORTED_MAX: usize = 10;

/// Time that a task was blocked, with the stacks that it names.
#[derive(Clone, Copy, Debug)]
pub struct Blocked<'a> {
    /// The time, and where.
    pub of: BlockedIn,
    stacks: &'a Stacks,
}

impl<'a> Blocked<'a> {
    /// The longest of a task.
    #[must_use]
    pub fn all(blocked: &[BlockedIn], stacks: &'a Stacks) -> Vec<Self> {
        blocked.iter().take(REPORTED_MAX).map(|of| Self { of: *of, stacks }).collect()
    }

    /// The function that waited and its callers.
    #[must_use]
    pub fn stack(&self) -> Option<&'a str> {
        self.of.stack.map(|stack| self.stacks.text(stack))
    }
}

impl Row for Blocked<'_> {
    const ABOUT: &'static str = "Sleeps that began in one place.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "stack" = row.stack().map(str::to_owned), "The function that waited and its callers, `<-` between them; `null` where the trace holds no stack of it.";
            "count" = row.of.count, "How many sleeps.";
            "off_cpu_ns" = row.of.time, "How long these were.";
        }
    }
}

/// The functions of a stack from the one that called the scheduler on, at most so many.
fn waited_in(arguments: &str, most: usize) -> String {
    let stack = arguments.strip_prefix("stack=").unwrap_or(arguments);
    let all: Vec<&str> = stack.split(CALLER).collect();
    let own = all.iter().rposition(|function| is_schedulers(function)).map_or(0, |last| last + 1);
    // A task that ends has the scheduler's functions alone below the system call.
    let rest = if own < all.len() { &all[own..] } else { &all[..] };
    let callers = rest.iter().take(most).copied();
    callers.collect::<Vec<_>>().join(CALLER)
}

/// Whether a function only leads from the one that waits to the switch.
fn is_schedulers(function: &str) -> bool {
    let is = |start: &str| function.starts_with(start);
    is("schedule")
        || is("__schedule")
        || is("io_schedule")
        || is("preempt_schedule")
        || function.contains("_sched_switch")
}

/// The kernel's function that runs timers in an interrupt: a stack with it is that of the task which was interrupted.
pub(crate) const FIRES: &str = "__hrtimer_run_queues";

/// The kernel's function that wakes.
const WAKES: &str = "try_to_wake_up";

/// The functions of a waker's stack from the one that asked for the wakeup on.
fn woke_in(arguments: &str) -> String {
    let stack = arguments.strip_prefix("stack=").unwrap_or(arguments);
    let all: Vec<&str> = stack.split(CALLER).collect();
    let own = all.iter().rposition(|function| is_wakeups(function)).map_or(0, |last| last + 1);
    let rest = if own < all.len() { &all[own..] } else { &all[..] };
    rest.join(CALLER)
}

/// Whether a function only leads from the one that wakes to the event.
fn is_wakeups(function: &str) -> bool {
    function.starts_with(WAKES) || function.contains("_sched_wak")
}

/// What a tracepoint tells of a task that blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tells {
    Stack,
    Reason,
}

/// Of `pid=7 iowait=1 caller=io_schedule+0x12/0x40` the task, and the function with whether it waits for I/O.
fn reason(arguments: &str) -> Option<(Pid, String)> {
    let told = schedlab_model::fields(arguments);
    let of = |key: &str| Some(told.iter().find(|(name, _)| *name == key)?.1.as_str());
    let caller = of("caller")?;
    let function = caller.split('+').next().unwrap_or(caller);
    let io = if of("iowait") == Some("1") { " (I/O)" } else { "" };
    Some((Pid(of("pid")?.parse().ok()?), format!("{function}{io}")))
}

/// Takes stacks to the tasks that left their CPUs with them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listener {
    pub(crate) stacks: Stacks,
    /// Whether stacks are kept up to their outermost function, not for a table only.
    whole: bool,
    /// By format: what it tells, where it tells where tasks block.
    formats: KnownFormats<Tells>,
    /// By CPU: who left it last, as long as no stack has come.
    left: Vec<TaskId>,
    /// By CPU: whom the task that runs there woke last, as long as no stack of the waker has come.
    woke: Vec<TaskId>,
}

impl Listener {
    /// One that keeps stacks up to their outermost function.
    pub(crate) fn whole() -> Self {
        Self { whole: true, ..Self::default() }
    }

    pub(crate) fn wants(&mut self, format: u16, state: &State) -> bool {
        let of = |format: &OtherFormat| match &*format.name {
            STACK => Some(Tells::Stack),
            REASON => Some(Tells::Reason),
            _ => None,
        };
        self.formats.learn(format, state.others(), of).is_some()
    }

    /// Notes whose stack the next stack event on that CPU may be.
    #[inline]
    pub(crate) fn left(&mut self, cpu: Cpu, task: TaskId) {
        if self.left.len() <= cpu.index() {
            self.left.resize(cpu.index() + 1, TaskId::NONE);
        }
        self.left[cpu.index()] = task;
    }

    /// The occupant of a CPU changed: a stack that comes now is not of who woke somebody there before.
    #[inline]
    pub(crate) fn switched(&mut self, cpu: Cpu) {
        if let Some(woke) = self.woke.get_mut(cpu.index()) {
            *woke = TaskId::NONE;
        }
    }

    /// The task that runs on a CPU woke another.
    #[inline]
    pub(crate) fn woke(&mut self, cpu: Cpu, woken: TaskId) {
        if self.woke.len() <= cpu.index() {
            self.woke.resize(cpu.index() + 1, TaskId::NONE);
        }
        self.woke[cpu.index()] = woken;
    }

    /// The stack with which a task woke another, and the one that was woken.
    pub(crate) fn waker_stack(
        &mut self,
        event: &OtherEvent<'_>,
        state: &State,
    ) -> Option<(TaskId, StackId)> {
        if self.formats.get(event.format)? != Tells::Stack || event.arguments.contains(FIRES) {
            return None;
        }
        let woke = self.woke.get_mut(event.cpu.index())?;
        let woken = std::mem::replace(woke, TaskId::NONE);
        if !woken.is_some() || state.task(state.task(woken).waker).pid != event.by {
            return None;
        }
        Some((woken, self.stacks.number(woke_in(event.arguments))))
    }

    /// The stack with which a task left its CPU, and that task.
    pub(crate) fn sleeper_stack(
        &mut self,
        event: &OtherEvent<'_>,
        state: &State,
    ) -> Option<(TaskId, StackId)> {
        if self.formats.get(event.format)? == Tells::Reason {
            let (pid, text) = reason(event.arguments)?;
            return Some((state.task_of(pid)?, self.stacks.number(text)));
        }
        // The stack of a task that wakes another, or that a timer interrupts, is nobody's sleep.
        if event.arguments.contains(WAKES) || event.arguments.contains(FIRES) {
            return None;
        }
        let left = self.left.get_mut(event.cpu.index());
        let left = left.map(|left| std::mem::replace(left, TaskId::NONE));
        let is_its = |task: &TaskId| task.is_some() && state.task(*task).pid == event.by;
        // Nobody tells of switches before the window.
        let asleep = || {
            let sleeps =
                |task: &TaskId| matches!(state.task(*task).activity, Activity::Sleeping { .. });
            state.task_of(event.by).filter(sleeps)
        };
        let task = left.filter(is_its).or_else(asleep)?;
        let most = if self.whole { usize::MAX } else { CALLERS_MAX + 1 };
        Some((task, self.stacks.number(waited_in(event.arguments, most))))
    }
}

pub(crate) fn longest_first(times: BTreeMap<Option<StackId>, (u64, Nanos)>) -> Vec<BlockedIn> {
    let told = |(stack, (count, time))| BlockedIn { stack, count, time };
    let mut all: Vec<BlockedIn> = times.into_iter().map(told).collect();
    all.sort_by_key(|of| (std::cmp::Reverse(of.time), of.stack));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedulers_own_functions_are_left_out_and_callers_are_few() {
        let stack = "stack=trace_event_raw_event_sched_switch<-__traceiter_sched_switch<-__schedule<-schedule<-\
                     futex_do_wait<-__futex_wait<-futex_wait<-do_futex<-__x64_sys_futex<-do_syscall_64<-entry";
        let told =
            "futex_do_wait<-__futex_wait<-futex_wait<-do_futex<-__x64_sys_futex<-do_syscall_64";
        assert_eq!(waited_in(stack, 6), told);
        assert_eq!(waited_in(stack, usize::MAX), format!("{told}<-entry"));
        assert_eq!(
            reason("pid=7 iowait=1 caller=io_schedule+0x12/0x40"),
            Some((Pid(7), "io_schedule (I/O)".to_owned()))
        );
        assert_eq!(reason("pid=7 iowait=0 caller=0x12"), Some((Pid(7), "0x12".to_owned())));
        assert_eq!(reason("pid=x caller=a"), None);
        let woke = "stack=__traceiter_sched_waking<-try_to_wake_up<-wake_up_q<-futex_wake<-main";
        assert_eq!(woke_in(woke), "wake_up_q<-futex_wake<-main");
        assert_eq!(woke_in("stack=0x1<-0x2"), "0x1<-0x2");
        assert_eq!(waited_in("stack=__schedule<-schedule", 6), "__schedule<-schedule");
        assert_eq!(waited_in("stack=0xffffffff81000000<-0x1", 6), "0xffffffff81000000<-0x1");
    }
}
