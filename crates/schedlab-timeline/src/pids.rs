//! From a pid to the task that has it now: a table, without hashing.

use crate::TaskId;
use schedlab_model::Pid;
use std::collections::BTreeMap;

/// Linux hands out pids below this (`PID_MAX_LIMIT` of 64-bit kernels); others come from broken files.
const DENSE: usize = 1 << 22;

/// The current task of each pid. 4 bytes for each pid up to the largest seen, so 16 MiB at most for
/// pids that Linux can hand out; anything else lives in a tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pids {
    dense: Vec<TaskId>,
    strange: BTreeMap<Pid, TaskId>,
}

impl Pids {
    /// The task that has `pid` now; [`TaskId::NONE`] when none was seen.
    #[inline]
    pub(crate) fn get(&self, pid: Pid) -> TaskId {
        // A negative pid becomes a huge index and falls out of the dense part.
        match self.dense.get(pid.0 as u32 as usize) {
            Some(task) => *task,
            None => self.beyond(pid),
        }
    }

    #[cold]
    fn beyond(&self, pid: Pid) -> TaskId {
        self.strange.get(&pid).copied().unwrap_or(TaskId::NONE)
    }

    /// From now on `pid` means `task`; [`TaskId::NONE`] forgets it.
    pub(crate) fn set(&mut self, pid: Pid, task: TaskId) {
        let index = pid.0 as u32 as usize;
        if index >= DENSE {
            self.strange.insert(pid, task);
            return;
        }
        if index >= self.dense.len() {
            self.dense.resize((index + 1).next_power_of_two(), TaskId::NONE);
        }
        self.dense[index] = task;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pid_keeps_its_task_even_those_that_linux_never_hands_out() {
        let mut pids = Pids::default();
        let all = [1, 1023, 1024, 4_194_303, 4_194_304, i32::MAX, -1, i32::MIN];
        for (i, pid) in (1..).zip(all) {
            assert_eq!(pids.get(Pid(pid)), TaskId::NONE);
            pids.set(Pid(pid), TaskId(i));
        }
        for (i, pid) in (1..).zip(all) {
            assert_eq!(pids.get(Pid(pid)), TaskId(i), "{pid}");
        }
        assert_eq!(pids.get(Pid(2)), TaskId::NONE);
    }
}
