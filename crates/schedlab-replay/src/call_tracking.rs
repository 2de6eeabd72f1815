//! Calls of tasks while the trace is read: where they begin and end in a task's steps, and which of them belong together.

use crate::calls::{Call, CallKind, Edge, End, Futex, Tracepoints};
use crate::object_events::{CallOutcome, ObjectEvent};
use crate::objects::{Calls, Found};
use crate::performable::{Task, stuck};
use crate::polls::Polls;
use crate::task_draft::Draft;
use schedlab_model::{Nanos, Pid, TraceInfo};
use schedlab_timeline::{OtherEvent, TaskId};
use schedlab_workload::demand::Object;
use std::collections::{BTreeMap, BTreeSet};

/// `-EAGAIN`: the value of a futex had changed before the call.
const CHANGED: i64 = -11;

/// A futex that tasks share: its address, and the process in which it means something.
type Word = (Option<Pid>, u64);

#[derive(Clone, Debug, Default)]
pub(crate) struct CallTracking {
    points: Tracepoints,
    pub(crate) calls: Calls,
    polls: Polls,
    futexes: BTreeMap<TaskId, Futex>,
    /// The last wakeup of a futex that found nobody: its task and its call.
    idle_wakes: BTreeMap<Word, (TaskId, u32)>,
    /// Such a wakeup, and the wait of a task that then found the value changed.
    pairs: Vec<(Word, u32, u32)>,
}

impl CallTracking {
    pub(crate) fn of(info: &TraceInfo) -> Self {
        let points = Tracepoints::of(&info.others, info.processes.clone());
        Self { points, ..Self::default() }
    }

    /// Whether the arguments of a tracepoint say something about calls.
    pub(crate) fn wants(&self, format: u16) -> bool {
        self.points.kind(format).is_some()
    }

    pub(crate) fn has_any(&self) -> bool {
        self.points.has_any()
    }

    pub(crate) fn has_calls(&self) -> bool {
        self.points.has_calls()
    }

    /// A task begins or ends a call.
    pub(crate) fn other_event(&mut self, event: &OtherEvent<'_>, task: TaskId, draft: &mut Draft) {
        match self.points.read(event) {
            Some(Edge::Begins { way, number, of_socket }) => {
                let end = End { task, number, way };
                let call = self.call(Call { end, bytes: 0, is_open: true, of_socket });
                draft.enters(event.at, call, way == CallKind::Reads);
                self.calls
                    .order
                    .extend((way == CallKind::Writes).then_some(ObjectEvent::Begins(call)));
            }
            Some(Edge::Ends { result }) => self.ends(event.at, result, task, draft),
            Some(Edge::Polls) => {
                let end = End { task, number: 0, way: CallKind::Polls };
                let call = self.call(Call { end, bytes: 0, is_open: false, of_socket: false });
                draft.enters(event.at, call, true);
                self.polls.begins(task, call);
            }
            Some(Edge::PollEnds { ready }) => {
                draft.leaves(event.at);
                self.polls.ends(task, ready > 0, draft.steps.len());
            }
            Some(Edge::Futex(futex)) => {
                self.futexes.insert(task, futex);
            }
            Some(Edge::FutexEnds { result }) => self.futex_ends(event, result, task, draft),
            None => {}
        }
    }

    fn call(&mut self, call: Call) -> u32 {
        self.calls.all.push(call);
        self.calls.all.len() as u32 - 1
    }

    fn ends(&mut self, at: Nanos, result: i64, task: TaskId, draft: &mut Draft) {
        let Some(open) = draft.leaves(at) else { return };
        let call = &mut self.calls.all[open.number as usize];
        call.is_open = false;
        let Some(bytes) = u64::try_from(result).ok().filter(|bytes| *bytes > 0) else { return };
        call.bytes = bytes;
        self.calls.order.push(ObjectEvent::Moves(open.number));
        if call.end.way == CallKind::Reads
            && let Some(by) = self.polls.reads(task, open.number, &draft.steps)
        {
            self.calls.link(by, open.number);
        }
    }

    /// A wakeup that found nobody leaves a token to the next wait at the futex, if that wait finds the value changed.
    fn futex_ends(&mut self, event: &OtherEvent<'_>, result: i64, task: TaskId, draft: &mut Draft) {
        let Some(futex) = self.futexes.remove(&task) else { return };
        let process = if futex.is_private { self.points.process(event.by) } else { None };
        if futex.is_private && process.is_none() {
            return;
        }
        let word = (process, futex.address);
        let way = if futex.wakes { CallKind::Writes } else { CallKind::Reads };
        let end = End { task, number: futex.address, way };
        let call = Call { end, bytes: 0, is_open: false, of_socket: false };
        if futex.wakes && result == 0 && draft.cursor.is_some() {
            let number = self.call(call);
            draft.marks(event.at, number, false);
            self.idle_wakes.insert(word, (task, number));
            return;
        }
        let before = self.idle_wakes.remove(&word);
        if let Some((_, put)) = before.filter(|(by, _)| *by != task)
            && !futex.wakes
            && result == CHANGED
        {
            let take = self.call(call);
            draft.marks(event.at, take, true);
            self.pairs.push((word, put, take));
        }
    }

    /// A task wakes another: calls that belong together by it, and whether a call's wait ends.
    pub(crate) fn wakes(&mut self, by: &Draft, woken: &Draft) -> Option<u32> {
        let wait = woken.sleeps_in()?;
        let Some(call) = by.call else { return Some(wait) };
        match self.calls.all[wait as usize].end {
            End { task, way: CallKind::Polls, .. } => self.polls.is_woken(task, call.number),
            _ => self.calls.link(call.number, wait),
        }
        Some(wait)
    }

    /// What each call of the tasks is. Objects with which they would wait for each other for ever are none.
    pub(crate) fn decide(&self, drafts: &[Draft]) -> Found {
        let mut without = BTreeSet::new();
        loop {
            let found = self.decide_without(&without);
            let task =
                |draft: &Draft| Task { steps: draft.resolved(&found).0, is_forked: draft.forked };
            let stuck = match found.objects.len() {
                0 => BTreeSet::new(),
                objects => stuck(&drafts.iter().map(task).collect::<Vec<_>>(), objects),
            };
            if stuck.is_empty() {
                return Found { contradictory: without.len() as u64, ..found };
            }
            without.extend(stuck.iter().map(|object| found.readers[*object as usize]));
        }
    }

    fn decide_without(&self, without: &BTreeSet<End>) -> Found {
        let mut found = self.calls.decide(without);
        let mut objects: BTreeMap<(Word, TaskId), u32> = BTreeMap::new();
        for (word, put, take) in &self.pairs {
            let waiter = self.calls.all[*take as usize].end;
            if without.contains(&waiter) {
                continue;
            }
            let next = found.objects.len() as u32;
            let object = *objects.entry((*word, waiter.task)).or_insert(next);
            if object == next {
                found.objects.push(Object::Pipe);
                found.readers.push(waiter);
            }
            for call in [put, take] {
                found.fates[*call as usize] = CallOutcome::Moves { object, bytes: 1 };
            }
            found.futexes += 1;
        }
        for (poll, read) in &self.polls.pairs {
            let read = &mut found.fates[*read as usize];
            if let CallOutcome::Moves { .. } = *read {
                found.polls += 1;
                found.fates[*poll as usize] = std::mem::replace(read, CallOutcome::Moved);
            }
        }
        found
    }
}
