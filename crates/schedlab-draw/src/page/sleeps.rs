//! Sleeps with their stacks: of these the page makes the flame graph of what is seen or chosen.

use super::columns::leb128;
use super::printable;
use schedlab_model::Nanos;
use schedlab_timeline::{OffCpuAnswer, Sleep, StackId, WokenBy};
use std::collections::BTreeMap;

/// What the page holds of sleeps.
#[derive(Clone, Debug, Default)]
pub(super) struct SleepData {
    /// Names of frames.
    names: Vec<String>,
    /// Places of names, the outermost first.
    stacks: Vec<Vec<usize>>,
    /// In order of their begins.
    sleeps: Vec<Placed>,
    left_out: u64,
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

impl SleepData {
    /// Of a window that begins then.
    pub(super) fn of(answer: &OffCpuAnswer, begin: Nanos) -> Self {
        let left_out = answer.sleeps.left_out;
        let mut data = Self { left_out, begin: begin.0, ..Self::default() };
        let (mut names, mut stacks) = (BTreeMap::new(), BTreeMap::new());
        let mut place_of = |data: &mut Self, stack: Option<StackId>| {
            *stacks.entry(stack).or_insert_with(|| {
                let frames = answer.frames(stack).into_iter().map(|name| {
                    *names.entry(name).or_insert_with_key(|name| {
                        data.names.push(printable(name));
                        data.names.len() - 1
                    })
                });
                let frames = frames.collect();
                data.stacks.push(frames);
                data.stacks.len() - 1
            })
        };
        for sleep in &answer.sleeps.found {
            let stack = place_of(&mut data, sleep.stack);
            let wakers = sleep.woken.and_then(WokenBy::stack);
            let wakers = wakers.map_or(0, |stack| 1 + place_of(&mut data, Some(stack)));
            data.sleeps.push(Placed { sleep: *sleep, stack, wakers });
        }
        data.sleeps.sort_by_key(|Placed { sleep, .. }| (sleep.since, sleep.task));
        data
    }

    /// Counts of stacks and of sleeps, and how many sleeps are left out.
    pub(super) fn head(&self) -> String {
        let Self { stacks, sleeps, left_out, .. } = self;
        format!(
            "{{\"stacks\":{},\"sleeps\":{},\"leftOut\":{left_out}}}",
            stacks.len(),
            sleeps.len()
        )
    }

    /// For each stack the number of its frames and their names; of sleeps a column of gaps between their begins, then
    /// of stacks, tasks, times blocked, times waited, who ended them, and the stacks of these; then the names, line by
    /// line.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for stack in &self.stacks {
            leb128(&mut bytes, stack.len() as u64);
            for name in stack {
                leb128(&mut bytes, *name as u64);
            }
        }
        let mut before = self.begin;
        for Placed { sleep, .. } in &self.sleeps {
            leb128(&mut bytes, sleep.since.0 - std::mem::replace(&mut before, sleep.since.0));
        }
        let columns: [fn(&Placed) -> u64; 6] = [
            |of| of.stack as u64,
            |of| of.sleep.task.0.into(),
            |of| of.sleep.blocked.0,
            |of| of.sleep.waited.0,
            |of| number_of(of.sleep.woken),
            |of| of.wakers as u64,
        ];
        for column in columns {
            for sleep in &self.sleeps {
                leb128(&mut bytes, column(sleep));
            }
        }
        bytes.extend_from_slice(self.names.join("\n").as_bytes());
        bytes
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
