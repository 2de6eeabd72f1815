//! The names of tasks, as records have them.

use crate::names;
use schedlab_model::{Comm, Pid};
use std::collections::BTreeMap;

/// The names of tasks by pid.
///
/// Each record asks for a name or two. The table of recent answers, one for each pid's last bits, gives most of them
/// without a search.
pub(super) struct TaskComms {
    all: BTreeMap<Pid, Comm>,
    recent: Vec<(Pid, Comm)>,
}

/// A power of two; a table of it stays in a CPU's first cache.
const RECENT: i32 = 512;

impl TaskComms {
    pub(super) fn new(all: BTreeMap<Pid, Comm>) -> Self {
        let recent = (0..RECENT).map(|pid| (Pid(pid), look_up(&all, Pid(pid)))).collect();
        Self { all, recent }
    }

    /// All names that are known.
    pub(super) const fn all(&self) -> &BTreeMap<Pid, Comm> {
        &self.all
    }

    /// A task's name from now on; its name before that.
    pub(super) fn insert(&mut self, pid: Pid, comm: Comm) -> Option<Comm> {
        self.recent[place(pid)] = (pid, comm);
        self.all.insert(pid, comm)
    }

    /// A task's name, or what stands for one that is not known.
    #[inline]
    pub(super) fn get(&mut self, pid: Pid) -> Comm {
        let recent = &mut self.recent[place(pid)];
        if recent.0 != pid {
            *recent = (pid, look_up(&self.all, pid));
        }
        recent.1
    }
}

fn place(pid: Pid) -> usize {
    (pid.0 & (RECENT - 1)) as usize
}

fn look_up(all: &BTreeMap<Pid, Comm>, pid: Pid) -> Comm {
    match all.get(&pid) {
        Some(comm) => *comm,
        None if pid.is_idle() => names::comm(b"swapper"),
        None => names::comm(b"<...>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_with_the_same_last_bits_keep_their_names() {
        let (one, other) = (Pid(3), Pid(3 + RECENT));
        let mut comms = TaskComms::new(BTreeMap::from([(one, names::comm(b"one"))]));
        assert_eq!(comms.get(other), names::comm(b"<...>"));
        assert_eq!(comms.insert(other, names::comm(b"other")), None);
        assert_eq!(comms.get(other), names::comm(b"other"));
        assert_eq!(comms.get(one), names::comm(b"one"));
        assert_eq!(comms.insert(one, names::comm(b"new")), Some(names::comm(b"one")));
        assert_eq!(comms.get(one), names::comm(b"new"));
        assert_eq!(comms.get(Pid::IDLE), names::comm(b"swapper"));
    }
}
