//! Tasks come, execute programs, change names; and which task a pid means now.

use crate::change::Change;
use crate::names::CommId;
use crate::state::State;
use crate::step::Logged;
use crate::task::{Activity, Task, TaskId, Why};
use schedlab_model::Pid;

impl State {
    pub(crate) fn fork(
        &mut self,
        logged: Logged,
        child: Pid,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        let at = self.now;
        let parent = self.cpus[logged.cpu.index()].occupant.task();
        let parent = parent.unwrap_or_else(|| self.pids.get(logged.by));
        let old = self.pids.get(child);
        let fresh = old.is_some() && {
            let task = &self.tasks[old.index()];
            match task.activity {
                // A wakeup can be logged before the fork when clocks disagree: the same task then.
                Activity::Waiting { why: Why::New, .. } => true,
                // Its name may have been told a moment before.
                Activity::Unknown => task.since == at && task.last_cpu.is_none(),
                _ => false,
            }
        };
        let id = if fresh { old } else { self.reuse(child) };
        let mut comm = CommId::UNKNOWN;
        if parent.is_some() {
            comm = self.tasks[parent.index()].comm;
        }
        // The child's name may come before the fork, when its pid still meant the task before it.
        if let Some((task, when, was)) = self.renamed
            && (task, when) == (old, at)
            && !fresh
        {
            comm = std::mem::replace(&mut self.tasks[old.index()].comm, was);
        }
        let task = &mut self.tasks[id.index()];
        if task.activity == Activity::Unknown {
            task.activity = Activity::New;
        }
        // Who reads names tells the child's when it is not the one that the pid had before.
        if task.comm == CommId::UNKNOWN {
            task.comm = comm;
        }
        see(&Change::Born { at, task: id, parent }, self);
    }

    /// When a thread that is not its process's leader executes a program, it takes the leader's pid.
    pub(crate) fn exec(&mut self, now_called: Pid, old: Pid) {
        let id = self.pids.get(old);
        if now_called == old || !id.is_some() || now_called.is_idle() {
            return;
        }
        let leader = self.pids.get(now_called);
        if leader.is_some() {
            // It is dead already: the kernel waits for it. Its running or waiting is over.
            match self.tasks[leader.index()].activity {
                Activity::Running { .. } | Activity::Waiting { .. } => return,
                _ => self.tasks[leader.index()].activity = Activity::Dead,
            }
        }
        self.pids.set(old, TaskId::NONE);
        self.pids.set(now_called, id);
        self.tasks[id.index()].pid = now_called;
    }

    pub(crate) fn rename(
        &mut self,
        pid: Pid,
        comm: schedlab_model::Comm,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        if pid.is_idle() {
            return;
        }
        let id = self.living(pid);
        if self.names.comm(self.tasks[id.index()].comm) == comm {
            return;
        }
        let is = self.names.id(comm);
        let was = std::mem::replace(&mut self.tasks[id.index()].comm, is);
        if was != is {
            self.renamed = Some((id, self.now, was));
            see(&Change::Renamed { at: self.now, task: id, was }, self);
        }
    }

    /// The task that has `pid` and can act; a new one when none is known or the last one is dead.
    #[inline]
    pub(crate) fn living(&mut self, pid: Pid) -> TaskId {
        let id = self.pids.get(pid);
        if id.is_some() && self.tasks[id.index()].activity != Activity::Dead {
            return id;
        }
        self.reuse(pid)
    }

    #[cold]
    pub(crate) fn reuse(&mut self, pid: Pid) -> TaskId {
        let old = self.pids.get(pid);
        let comm = if old.is_some() {
            self.tally.reused_pids += 1;
            self.tasks[old.index()].comm
        } else {
            let known = self.known_comms.get(&pid).copied().unwrap_or_default();
            self.names.id(known)
        };
        let id =
            TaskId(u32::try_from(self.tasks.len()).expect("tasks fit in memory, so in 32 bits"));
        self.tasks.push(Task::new(pid, comm, self.now));
        self.pids.set(pid, id);
        id
    }
}
