//! The names of tasks, as records have them.

use crate::names;
use schedlab_model::{Comm, Pid};
use std::collections::BTreeMap;

/// The names of tasks by pid. Each name that a task had has a number, which stays its own.
///
/// Each record asks for a name or two. The table of recent answers, one for each pid's last bits, gives most of them
/// without a search.
pub(super) struct TaskComms {
    all: BTreeMap<Pid, Comm>,
    numbers: BTreeMap<Pid, u32>,
    named: Vec<(Pid, Comm)>,
    recent: Vec<(Pid, u32)>,
}

/// A power of two; a table of it stays in a CPU's first cache.
const RECENT: i32 = 512;

impl TaskComms {
    pub(super) fn new(all: BTreeMap<Pid, Comm>) -> Self {
        let numbers = BTreeMap::new();
        let named = Vec::new();
        let recent = Vec::new();
        let mut comms = Self { all, numbers, named, recent };
        comms.recent = (0..RECENT).map(|pid| (Pid(pid), comms.look_up(Pid(pid)))).collect();
        comms
    }

    /// All names that are known.
    pub(super) const fn all(&self) -> &BTreeMap<Pid, Comm> {
        &self.all
    }

    /// A task's name from now on; its name before that.
    pub(super) fn insert(&mut self, pid: Pid, comm: Comm) -> Option<Comm> {
        let before = self.all.insert(pid, comm);
        if before != Some(comm) {
            let number = self.add(pid, comm);
            self.recent[place(pid)] = (pid, number);
        }
        before
    }

    /// The number of a task's name as of now, or of what stands for one that is not known.
    #[inline]
    pub(super) fn number(&mut self, pid: Pid) -> u32 {
        let (of, number) = self.recent[place(pid)];
        if of == pid {
            return number;
        }
        let number = self.look_up(pid);
        self.recent[place(pid)] = (pid, number);
        number
    }

    /// The task and the name of a number.
    #[inline]
    pub(super) fn named(&self, number: u32) -> (Pid, Comm) {
        self.named[number as usize]
    }

    fn add(&mut self, pid: Pid, comm: Comm) -> u32 {
        let number = u32::try_from(self.named.len()).expect("each name takes 20 bytes of memory");
        self.named.push((pid, comm));
        self.numbers.insert(pid, number);
        number
    }

    fn look_up(&mut self, pid: Pid) -> u32 {
        if let Some(number) = self.numbers.get(&pid) {
            return *number;
        }
        let comm = match self.all.get(&pid) {
            Some(comm) => *comm,
            None if pid.is_idle() => names::comm(b"swapper"),
            None => names::comm(b"<...>"),
        };
        self.add(pid, comm)
    }
}

fn place(pid: Pid) -> usize {
    (pid.0 & (RECENT - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_with_the_same_last_bits_keep_their_names() {
        let (one, other) = (Pid(3), Pid(3 + RECENT));
        let mut comms = TaskComms::new(BTreeMap::from([(one, names::comm(b"one"))]));
        let name = |comms: &mut TaskComms, pid| {
            let number = comms.number(pid);
            let (of, comm) = comms.named(number);
            assert_eq!(of, pid);
            comm
        };
        assert_eq!(name(&mut comms, other), names::comm(b"<...>"));
        assert_eq!(comms.insert(other, names::comm(b"other")), None);
        assert_eq!(name(&mut comms, other), names::comm(b"other"));
        assert_eq!(name(&mut comms, one), names::comm(b"one"));
        let before = comms.number(one);
        assert_eq!(comms.insert(one, names::comm(b"new")), Some(names::comm(b"one")));
        assert_eq!(name(&mut comms, one), names::comm(b"new"));
        assert_eq!(comms.named(before), (one, names::comm(b"one")));
        assert_eq!(name(&mut comms, Pid::IDLE), names::comm(b"swapper"));
    }
}
