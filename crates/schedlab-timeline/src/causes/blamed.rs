//! For how long whom was waited for.

use super::KindId;
use crate::task::TaskId;
use rustc_hash::FxHashMap;
use schedlab_model::Nanos;

/// Times that are added at once. The table of sums is larger than caches: one after the other, each would wait for memory.
const PENDING: usize = 1 << 12;

/// Times by the kind of tasks that waited and the task that ran.
#[derive(Debug, Default)]
pub(super) struct Blamed {
    pending: Vec<(KindId, TaskId, Nanos)>,
    sums: FxHashMap<(KindId, TaskId), Nanos>,
}

impl Blamed {
    pub(super) fn count(&mut self, kind: KindId, by: TaskId, time: Nanos) {
        self.pending.push((kind, by, time));
        if self.pending.len() == PENDING {
            self.add();
        }
    }

    fn add(&mut self) {
        for (kind, by, time) in self.pending.drain(..) {
            *self.sums.entry((kind, by)).or_default() += time;
        }
    }

    pub(super) fn into_sums(mut self) -> impl Iterator<Item = ((KindId, TaskId), Nanos)> {
        self.add();
        self.sums.into_iter()
    }
}
