//! Tasks that wait alike, by number.

use super::Class;
use crate::conservation::ClassId;
use crate::names::CommId;
use crate::task::TaskId;
use rustc_hash::FxHashMap;

/// An index into [`Kinds`].
pub(super) type KindId = u32;

/// What decides why a task waits, and under which name it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    /// The CPUs that it may use.
    pub(super) allowed: ClassId,
    pub(super) group: Option<u32>,
    pub(super) comm: CommId,
    pub(super) class: Class,
    /// The task itself, if each is told apart.
    pub(super) task: Option<TaskId>,
    /// Whether its budget will be used up before the next refill.
    pub(super) is_held_soon: bool,
}

/// All kinds that were met.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds {
    numbers: FxHashMap<Kind, KindId>,
    all: Vec<Kind>,
}

impl Kinds {
    pub(super) fn number(&mut self, kind: Kind) -> KindId {
        let all = &mut self.all;
        *self.numbers.entry(kind).or_insert_with(|| {
            all.push(kind);
            (all.len() - 1) as KindId
        })
    }

    pub(super) fn get(&self, kind: KindId) -> Kind {
        self.all[kind as usize]
    }
}
