//! One window after the other of a stream: the same questions, asked again and again.
//!
//! A window is a part of a trace as [`crate::ask_within`] cuts it: the state carries over who runs and who waits, and each
//! question begins anew. So the answer for a window is the answer about that part of a file with the same events.
//!
//! The budgets of groups carry over too ([`Throttling`]): when a group was refilled last is known from the windows before.
//!
//! Memory: tasks that ended are forgotten between windows ([`Windows::forget_dead`]).

use crate::question::{OtherEvent, Pass, Question, Reply};
use crate::state::{State, Tally};
use crate::task::{Activity, TaskId};
use crate::throttling::{Throttling, ThrottlingAnswer};
use schedlab_model::{Event, EventSink as _, Nanos, Span, TraceInfo, What};
use std::borrow::Cow;

/// Gives the arguments of an event by its index in the batch.
type Arguments<'a, 'b> = &'a dyn Fn(usize) -> Option<Cow<'b, str>>;

/// The stream between two windows.
#[derive(Debug)]
pub struct Windows {
    state: State,
    throttling: Throttling,
    /// Whether the budgets of groups have seen a window.
    has_begun: bool,
    /// When dead tasks were forgotten last, how many tasks stayed.
    stayed: usize,
}

/// Fewer dead tasks than this are kept: forgetting them looks at all tasks.
const DEAD_MIN: usize = 1_024;

impl Windows {
    /// A stream whose first window begins at `start`, its first event.
    #[must_use]
    pub fn new(info: &TraceInfo, start: Nanos) -> Self {
        let mut state = State::new(info);
        if let Some(at) = &info.at_start {
            state.resume(at);
        }
        begin_at(&mut state, start);
        Self { state, throttling: Throttling::new(info), has_begun: false, stayed: 0 }
    }

    /// The state at the start of the next window.
    #[cfg(test)]
    pub(crate) const fn state(&self) -> &State {
        &self.state
    }

    /// Takes over CPUs, groups, limits and names that became known since the last window.
    pub fn learn(&mut self, info: &TraceInfo) {
        self.state.learn(info);
        self.state.observed.clone_from(&info.cpus);
        self.state.known_comms.clone_from(&info.comms);
        self.throttling.learn(info);
    }

    /// Answers for the window that ends at `end`. `events` are those until then, in order of time. When tasks were throttled
    /// is found in a pass before, for the question that `ask` makes.
    pub fn close<'b, Q: Question>(
        &mut self,
        events: &[Event],
        arguments: Arguments<'_, 'b>,
        end: Nanos,
        ask: impl FnOnce(&ThrottlingAnswer) -> Q,
    ) -> (ThrottlingAnswer, Reply<Q::Answer>) {
        debug_assert!(events.last().is_none_or(|event| event.time < end));
        let throttled = self.throttled(events, arguments, end);
        let question = ask(&throttled);
        let state = std::mem::replace(&mut self.state, nothing());
        let mut pass = Pass::from(state, question);
        for event in events {
            pass.take(event);
        }
        self.state = pass.state.clone();
        self.state.window = Span::new(end, end);
        // What a window says of itself: a loss counts until the last CPU that it blinded has switched, or is out of use.
        if !self.state.cpus.iter().any(|cpu| cpu.blind && !cpu.offline) {
            self.state.tally = Tally::default();
        }
        (throttled, pass.reply(end, &[]))
    }

    /// When tasks were throttled in this window.
    fn throttled(
        &mut self,
        events: &[Event],
        arguments: Arguments<'_, '_>,
        end: Nanos,
    ) -> ThrottlingAnswer {
        if !self.throttling.is_needed() {
            return ThrottlingAnswer::default();
        }
        let mut state = self.state.clone();
        let question = &mut self.throttling;
        if !std::mem::replace(&mut self.has_begun, true) {
            question.begin(&state);
        }
        for (index, event) in events.iter().enumerate() {
            state.step(event, &mut |change, state| question.see(change, state));
            if let What::Other { format } = event.what
                && question.wants(format, &state)
                && let Some(text) = arguments(index)
            {
                let Event { time: at, cpu, by, .. } = *event;
                question.other_event(&OtherEvent { at, cpu, by, format, arguments: &text }, &state);
            }
        }
        state.now = state.now.max(end);
        state.window.end = end;
        question.until(&state)
    }

    /// Forgets tasks that ended, once they are more than those that live. The others get new numbers: answers from before
    /// do not go with `Self::state` then.
    pub fn forget_dead(&mut self) {
        let tasks = &self.state.tasks;
        if tasks.len() < self.stayed * 2 + DEAD_MIN {
            return;
        }
        let mut next = 0;
        let stays = |task: &crate::Task| task.activity != Activity::Dead;
        let numbers: Vec<TaskId> = tasks
            .iter()
            .map(|task| {
                // The first one stands for no task.
                let number = if stays(task) { TaskId(next) } else { TaskId::NONE };
                next += u32::from(stays(task));
                number
            })
            .collect();
        self.stayed = next as usize;
        self.state.renumber(&numbers);
        self.throttling.renumber(&numbers);
    }
}

fn begin_at(state: &mut State, start: Nanos) {
    state.origin = start;
    state.now = start;
    state.cpus.iter_mut().for_each(|cpu| cpu.since = start);
    state.window = Span::new(start, start);
}

/// Stands where the state was taken from.
fn nothing() -> State {
    State::new(&TraceInfo::new("", schedlab_model::Clock::Monotonic))
}

impl State {
    /// Keeps the tasks that have a new number, under that number. The first task has 0 as before.
    pub(crate) fn renumber(&mut self, numbers: &[TaskId]) {
        let new = |task: &mut TaskId| *task = numbers[task.index()];
        let current = |(old, task): (usize, &crate::Task)| {
            (self.pids.get(task.pid) == TaskId(old as u32)).then_some((task.pid, numbers[old]))
        };
        let pids: Vec<_> = self.tasks.iter().enumerate().skip(1).filter_map(current).collect();
        pids.into_iter().for_each(|(pid, number)| self.pids.set(pid, number));
        let logs = std::mem::take(&mut self.logs);
        let names = std::mem::take(&mut self.names);
        let all = std::mem::take(&mut self.tasks);
        for (old, mut task) in all.into_iter().enumerate() {
            let number = numbers[old];
            if old > 0 && !number.is_some() {
                continue;
            }
            new(&mut task.next);
            new(&mut task.prev);
            new(&mut task.waker);
            task.comm = self.names.id(names.comm(task.comm));
            if let Some(is_logged) = logs.get(old) {
                self.logs.push(*is_logged);
            }
            self.tasks.push(task);
        }
        for cpu in &mut self.cpus {
            new(&mut cpu.last_task);
            new(&mut cpu.head);
            if let crate::state::Occupant::Task(task) = &mut cpu.occupant {
                new(task);
            }
        }
    }
}
