//! Times with their stacks, one by one: of these the page makes the flame graph of what is seen or chosen.

use super::columns::leb128;
use super::printable;
use schedlab_model::Nanos;
use schedlab_timeline::{
    OffCpuAnswer, OnCpuAnswer, RequestSpansAnswer, Sleep, StackId, Tick, Unslept, UnsleptWait,
    WokenBy,
};
use std::collections::BTreeMap;

/// What the page holds of sleeps, of waits that followed none, and of ticks.
#[derive(Clone, Debug, Default)]
pub(super) struct StackData {
    /// Names of frames.
    names: Vec<String>,
    /// Places of names, the outermost first.
    stacks: Vec<Vec<usize>>,
    /// In order of their begins.
    sleeps: Vec<Placed>,
    waits: Vec<UnsleptWait>,
    ticks: Vec<(Tick, usize)>,
    left_out: [u64; 3],
    begin: u64,
}

/// A sleep with its stacks.
#[derive(Clone, Copy, Debug)]
struct Placed {
    sleep: Sleep,
    /// The place of its stack.
    stack: usize,
    /// The place of its waker's stack plus 1; 0 where the trace holds no stack of the waker.
    wakers: usize,
}

/// Gives frames and stacks their places.
#[derive(Default)]
struct Places {
    names: BTreeMap<String, usize>,
    found: Vec<String>,
    stacks: Vec<Vec<usize>>,
}

impl Places {
    fn add(&mut self, frames: impl IntoIterator<Item = String>) -> usize {
        let found = &mut self.found;
        let place = |name: String| {
            *self.names.entry(name).or_insert_with_key(|name| {
                found.push(printable(name));
                found.len() - 1
            })
        };
        self.stacks.push(frames.into_iter().map(place).collect());
        self.stacks.len() - 1
    }
}

impl StackData {
    /// Of a window that begins then.
    pub(super) fn of(off: &OffCpuAnswer, on: &OnCpuAnswer, begin: Nanos) -> Self {
        let mut places = Places::default();
        let mut slept: BTreeMap<Option<StackId>, usize> = BTreeMap::new();
        let mut place_of = |places: &mut Places, stack: Option<StackId>| {
            *slept.entry(stack).or_insert_with(|| places.add(off.frames(stack)))
        };
        let mut sleeps = Vec::new();
        for sleep in &off.sleeps.found {
            let stack = place_of(&mut places, sleep.stack);
            let wakers = sleep.woken.and_then(WokenBy::stack);
            let wakers = wakers.map_or(0, |stack| 1 + place_of(&mut places, Some(stack)));
            sleeps.push(Placed { sleep: *sleep, stack, wakers });
        }
        sleeps.sort_by_key(|Placed { sleep, .. }| (sleep.since, sleep.task));
        let mut waits = off.sleeps.unslept.clone();
        waits.sort_by_key(|wait| (wait.since, wait.task));
        let mut ran: BTreeMap<StackId, usize> = BTreeMap::new();
        let mut of_tick = |tick: &Tick| {
            let places = &mut places;
            (
                *tick,
                *ran.entry(tick.stack).or_insert_with(|| places.add(on.stacks.frames(tick.stack))),
            )
        };
        let ticks = on.ticks.found.iter().map(&mut of_tick).collect();
        let left_out = [off.sleeps.left_out, off.sleeps.unslept_left_out, on.ticks.left_out];
        let Places { found: names, stacks, .. } = places;
        Self { names, stacks, sleeps, waits, ticks, left_out, begin: begin.0 }
    }

    /// Counts of stacks, sleeps, waits that followed none, and ticks; how many of the last three are left out.
    pub(super) fn head(&self) -> String {
        let Self { stacks, sleeps, waits, ticks, left_out, .. } = self;
        format!(
            "{{\"stacks\":{},\"sleeps\":{},\"waits\":{},\"ticks\":{},\"leftOut\":{left_out:?}}}",
            stacks.len(),
            sleeps.len(),
            waits.len(),
            ticks.len(),
        )
    }

    /// For each stack the number of its frames and their names. Of sleeps a column of gaps between their begins, then of
    /// stacks, tasks, times blocked, times waited, who ended them, and the stacks of these. Of waits that followed none
    /// the columns of gaps, tasks, lengths and reasons. Of ticks those of gaps, tasks and stacks. Then the names, line by
    /// line.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for stack in &self.stacks {
            leb128(&mut bytes, stack.len() as u64);
            for name in stack {
                leb128(&mut bytes, *name as u64);
            }
        }
        let begin = self.begin;
        gaps(&mut bytes, begin, self.sleeps.iter().map(|of| of.sleep.since.0));
        let columns: [fn(&Placed) -> u64; 6] = [
            |of| of.stack as u64,
            |of| of.sleep.task.0.into(),
            |of| of.sleep.blocked.0,
            |of| of.sleep.waited.0,
            |of| number_of(of.sleep.woken),
            |of| of.wakers as u64,
        ];
        for column in columns {
            put(&mut bytes, self.sleeps.iter().map(column));
        }
        gaps(&mut bytes, begin, self.waits.iter().map(|of| of.since.0));
        let columns: [fn(&UnsleptWait) -> u64; 3] =
            [|of| of.task.0.into(), |of| of.waited.0, |of| number_why(of.why)];
        for column in columns {
            put(&mut bytes, self.waits.iter().map(column));
        }
        gaps(&mut bytes, begin, self.ticks.iter().map(|(tick, _)| tick.at.0));
        put(&mut bytes, self.ticks.iter().map(|(tick, _)| tick.task.0.into()));
        put(&mut bytes, self.ticks.iter().map(|(_, stack)| *stack as u64));
        bytes.extend_from_slice(self.names.join("\n").as_bytes());
        bytes
    }
}

/// When requests were: columns of gaps between their begins, of lengths, names and of the tasks that ended them.
pub(super) fn requests(answer: &RequestSpansAnswer, begin: Nanos) -> Vec<u8> {
    let mut all: Vec<_> = answer.found.iter().collect();
    all.sort_by_key(|one| (one.span.start, one.span.end));
    let mut bytes = Vec::new();
    gaps(&mut bytes, begin.0, all.iter().map(|one| one.span.start.0));
    put(&mut bytes, all.iter().map(|one| one.span.duration().0));
    put(&mut bytes, all.iter().map(|one| one.name.into()));
    put(&mut bytes, all.iter().map(|one| one.ended_by.0.into()));
    bytes
}

fn put(bytes: &mut Vec<u8>, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        leb128(bytes, number);
    }
}

/// Ascending times, each as the time since the one before.
fn gaps(bytes: &mut Vec<u8>, begin: u64, times: impl Iterator<Item = u64>) {
    let mut before = begin;
    for time in times {
        leb128(bytes, time - std::mem::replace(&mut before, time));
    }
}

/// Who ended a sleep: tasks are behind the others.
const fn number_of(woken: Option<WokenBy>) -> u64 {
    match woken {
        None | Some(WokenBy::Unknown) => 0,
        Some(WokenBy::Interrupt) => 1,
        Some(WokenBy::Nobody) => 2,
        Some(WokenBy::Task(task, _)) => 3 + task.0 as u64,
    }
}

/// Why a task waited without a sleep: 0 where its sleep was not seen.
const fn number_why(why: Option<Unslept>) -> u64 {
    match why {
        None => 0,
        Some(Unslept::Displaced) => 1,
        Some(Unslept::Yielded) => 2,
        Some(Unslept::New) => 3,
    }
}
