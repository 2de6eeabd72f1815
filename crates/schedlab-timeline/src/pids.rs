//! From a pid to the task that has it now: a table in pages, without hashing.

use crate::TaskId;
use schedlab_model::Pid;
use std::collections::BTreeMap;

/// Pids of one page.
const PAGE: usize = 1024;
/// Linux hands out pids below this (`PID_MAX_LIMIT` of 64-bit kernels); others come from broken files.
const DENSE: usize = 1 << 22;

/// The current task of each pid. 16 MiB at most for pids that Linux can hand out, 4 KiB a page of
/// 1,024 pids in practice; anything else lives in a tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pids {
    pages: Vec<Option<Box<[TaskId; PAGE]>>>,
    strange: BTreeMap<Pid, TaskId>,
}

impl Pids {
    /// The task that has `pid` now; [`TaskId::NONE`] when none was seen.
    #[inline]
    pub(crate) fn get(&self, pid: Pid) -> TaskId {
        // A negative pid becomes a huge index and falls out of the dense part.
        let index = pid.0 as u32 as usize;
        match self.pages.get(index / PAGE) {
            Some(Some(page)) => page[index % PAGE],
            _ if index < DENSE => TaskId::NONE,
            _ => self.strange.get(&pid).copied().unwrap_or(TaskId::NONE),
        }
    }

    /// From now on `pid` means `task`; [`TaskId::NONE`] forgets it.
    pub(crate) fn set(&mut self, pid: Pid, task: TaskId) {
        let index = pid.0 as u32 as usize;
        if index >= DENSE {
            self.strange.insert(pid, task);
            return;
        }
        let page = index / PAGE;
        if page >= self.pages.len() {
            self.pages.resize(page + 1, None);
        }
        self.pages[page].get_or_insert_with(|| Box::new([TaskId::NONE; PAGE]))[index % PAGE] = task;
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
