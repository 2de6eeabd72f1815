//! Names of tasks as of an event.

use schedlab_model::{Comm, Pid};
use std::collections::BTreeMap;

/// The kernel's largest pid plus one.
const PIDS_MAX: usize = 1 << 22;
const IDLE: Comm = *b"<idle>\0\0\0\0\0\0\0\0\0\0";
const UNKNOWN: Comm = *b"<...>\0\0\0\0\0\0\0\0\0\0\0";

/// Names of tasks as of an event.
#[derive(Clone, Debug)]
pub struct TaskNames {
    /// Places in `comms` by pid; 0 if no name is known.
    places: Vec<u32>,
    /// The first is that of tasks without a known name.
    comms: Vec<Comm>,
    /// Of pids that no kernel gives, which damaged traces have.
    others: BTreeMap<Pid, Comm>,
}

impl TaskNames {
    /// Those that are known before the first event.
    #[must_use]
    pub fn new(known: &BTreeMap<Pid, Comm>) -> Self {
        let comms = vec![UNKNOWN];
        let mut names = Self { places: Vec::new(), comms, others: BTreeMap::new() };
        known.iter().for_each(|(pid, comm)| names.put(*pid, *comm));
        names
    }

    /// From now on a task has this name.
    pub fn put(&mut self, pid: Pid, comm: Comm) {
        let Some(index) = index(pid) else {
            self.others.insert(pid, comm);
            return;
        };
        if index >= self.places.len() {
            self.places.resize(index + 1, 0);
        }
        match self.places[index] as usize {
            0 => {
                // Fewer than there are pids.
                self.places[index] = u32::try_from(self.comms.len()).unwrap_or(0);
                self.comms.push(comm);
            }
            place => self.comms[place] = comm,
        }
    }

    /// The name of a task as [`text`] spells it.
    #[inline]
    pub(crate) fn comm(&self, pid: Pid) -> Comm {
        if pid.is_idle() { IDLE } else { self.known(pid).copied().unwrap_or(UNKNOWN) }
    }

    /// A task's name; `<...>` if no event told it.
    pub(crate) fn get(&self, pid: Pid) -> &str {
        if pid.is_idle() { "<idle>" } else { self.known(pid).map_or("<...>", text) }
    }

    #[inline]
    fn known(&self, pid: Pid) -> Option<&Comm> {
        match index(pid) {
            Some(index) => match *self.places.get(index)? as usize {
                0 => None,
                place => self.comms.get(place),
            },
            None => self.others.get(&pid),
        }
    }

    /// All that are known, by pid.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Pid, &str)> {
        let named = |pid| (pid, self.get(pid));
        let places = (0..).map(Pid).zip(&self.places).filter(|(_, place)| **place > 0);
        let below = self.others.range(..Pid(0)).map(|(pid, _)| *pid);
        let above = self.others.range(Pid(0)..).map(|(pid, _)| *pid);
        below.chain(places.map(|(pid, _)| pid)).chain(above).map(named)
    }
}

#[inline]
fn index(pid: Pid) -> Option<usize> {
    usize::try_from(pid.0).ok().filter(|index| *index < PIDS_MAX)
}

/// A name as text; `<...>` if it is not UTF-8.
#[inline]
pub(crate) fn text(comm: &Comm) -> &str {
    let length = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
    std::str::from_utf8(&comm[..length]).unwrap_or("<...>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comm(name: &str) -> Comm {
        let mut comm = [0; 16];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        comm
    }

    #[test]
    fn names_hold_from_when_they_are_put_on_also_for_pids_that_no_kernel_gives() {
        let known = BTreeMap::from([(Pid(7), comm("seven")), (Pid(i32::MAX), comm("last"))]);
        let mut names = TaskNames::new(&known);
        assert_eq!(names.get(Pid(7)), "seven");
        names.put(Pid(7), comm("other"));
        names.put(Pid(-1), comm("first"));
        names.put(Pid(0), comm("swapper"));
        names.put(Pid(8), [0xff; 16]);
        let all: Vec<_> = names.iter().collect();
        let expected =
            [(-1, "first"), (0, "<idle>"), (7, "other"), (8, "<...>"), (i32::MAX, "last")];
        assert_eq!(all, expected.map(|(pid, name)| (Pid(pid), name)));
        for (pid, name) in all.into_iter().chain([(Pid(9), "<...>"), (Pid(1 << 22), "<...>")]) {
            assert_eq!(names.get(pid), name);
            assert_eq!(text(&names.comm(pid)), name);
        }
    }
}
