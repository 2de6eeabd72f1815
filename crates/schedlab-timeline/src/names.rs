//! Names of tasks, each stored once.

use schedlab_model::{Comm, visible};
use std::collections::BTreeMap;

/// A name by its number, in order of first appearance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommId(pub u32);

impl CommId {
    /// The empty name: not known.
    pub(crate) const UNKNOWN: Self = Self(0);
}

/// All names seen so far.
#[derive(Clone, Debug)]
pub struct Names {
    names: Vec<Comm>,
    ids: BTreeMap<Comm, CommId>,
}

impl Default for Names {
    fn default() -> Self {
        Self { names: vec![[0; 16]], ids: BTreeMap::from([([0; 16], CommId::UNKNOWN)]) }
    }
}

impl Names {
    /// The number of a name; a new one when it was not seen before.
    pub(crate) fn id(&mut self, comm: Comm) -> CommId {
        *self.ids.entry(comm).or_insert_with(|| {
            self.names.push(comm);
            CommId(u32::try_from(self.names.len() - 1).expect("names fit in memory, so in 32 bits"))
        })
    }

    /// The bytes of a name, padded with NUL.
    #[must_use]
    pub fn comm(&self, id: CommId) -> Comm {
        self.names[id.0 as usize]
    }

    /// A name as text, which may be shown as it stands: bytes that are not UTF-8 are replaced, control characters
    /// are escaped ([`schedlab_model::visible`]); `<...>` when not known, as in ftrace.
    #[must_use]
    pub fn text(&self, id: CommId) -> String {
        if id == CommId::UNKNOWN {
            return "<...>".to_owned();
        }
        let comm = self.comm(id);
        let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
        visible(&String::from_utf8_lossy(&comm[..end])).into_owned()
    }

    /// How many names there are; ids are below this.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }
}
