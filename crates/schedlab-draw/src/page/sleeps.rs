//! Sleeps with their stacks: of these the page makes the flame graph of what is seen or chosen.

use super::columns::leb128;
use super::printable;
use schedlab_model::Nanos;
use schedlab_timeline::{OffCpuAnswer, Sleep};
use std::collections::BTreeMap;

/// What the page holds of sleeps.
#[derive(Clone, Debug, Default)]
pub(super) struct SleepData {
    /// Names of frames.
    names: Vec<String>,
    /// Places of names, the outermost first.
    stacks: Vec<Vec<usize>>,
    /// Sleeps in order of their begins, with the place of their stack.
    sleeps: Vec<(Sleep, usize)>,
    left_out: u64,
    begin: u64,
}

impl SleepData {
    /// Of a window that begins then.
    pub(super) fn of(answer: &OffCpuAnswer, begin: Nanos) -> Self {
        let left_out = answer.sleeps.left_out;
        let mut data = Self { left_out, begin: begin.0, ..Self::default() };
        let (mut names, mut stacks) = (BTreeMap::new(), BTreeMap::new());
        for sleep in &answer.sleeps.found {
            let place = *stacks.entry(sleep.stack).or_insert_with(|| {
                let frames = answer.frames(sleep).into_iter().map(|name| {
                    *names.entry(name).or_insert_with_key(|name| {
                        data.names.push(printable(name));
                        data.names.len() - 1
                    })
                });
                let frames = frames.collect();
                data.stacks.push(frames);
                data.stacks.len() - 1
            });
            data.sleeps.push((*sleep, place));
        }
        data.sleeps.sort_by_key(|(sleep, _)| (sleep.since, sleep.task));
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
    /// of stacks, tasks, times blocked and times waited; then the names, line by line.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for stack in &self.stacks {
            leb128(&mut bytes, stack.len() as u64);
            for name in stack {
                leb128(&mut bytes, *name as u64);
            }
        }
        let mut before = self.begin;
        for (sleep, _) in &self.sleeps {
            leb128(&mut bytes, sleep.since.0 - std::mem::replace(&mut before, sleep.since.0));
        }
        for (_, stack) in &self.sleeps {
            leb128(&mut bytes, *stack as u64);
        }
        let columns: [fn(&Sleep) -> u64; 3] =
            [|sleep| sleep.task.0.into(), |sleep| sleep.blocked.0, |sleep| sleep.waited.0];
        for column in columns {
            for (sleep, _) in &self.sleeps {
                leb128(&mut bytes, column(sleep));
            }
        }
        bytes.extend_from_slice(self.names.join("\n").as_bytes());
        bytes
    }
}
