//! Each CPU's waiters, in a list through the tasks themselves; and who runs.

use crate::state::{Occupant, State};
use crate::task::{Activity, Task, TaskId};
use schedlab_model::Cpu;

impl State {
    #[inline]
    pub(crate) fn link(&mut self, id: TaskId, cpu: Cpu) {
        if cpu.index() >= self.cpus.len() {
            self.grow(cpu);
        }
        if !self.queues {
            return;
        }
        let here = &mut self.cpus[cpu.index()];
        let first = std::mem::replace(&mut here.head, id);
        here.waiting += 1;
        let task = &mut self.tasks[id.index()];
        task.prev = TaskId::NONE;
        task.next = first;
        if first.is_some() {
            self.tasks[first.index()].prev = id;
        }
    }

    #[inline]
    pub(crate) fn unlink(&mut self, id: TaskId, cpu: Cpu) {
        if !self.queues {
            return;
        }
        let Task { prev, next, .. } = self.tasks[id.index()];
        let here = &mut self.cpus[cpu.index()];
        here.waiting -= 1;
        if prev.is_some() {
            self.tasks[prev.index()].next = next;
        } else {
            here.head = next;
        }
        if next.is_some() {
            self.tasks[next.index()].prev = prev;
        }
    }

    /// Who waits on which queue, also where queues are not kept.
    pub(crate) fn all_on_queues(&self) -> Vec<(TaskId, Cpu)> {
        let of = |(id, task): (TaskId, &Task)| match task.activity {
            Activity::Waiting { cpu, placed: true, .. } => Some((id, cpu)),
            _ => None,
        };
        if self.waiting == 0 { Vec::new() } else { self.tasks().filter_map(of).collect() }
    }

    #[inline]
    pub(crate) fn occupy(&mut self, cpu: Cpu, is: Occupant) {
        let here = &mut self.cpus[cpu.index()];
        self.running -= u32::from(matches!(here.occupant, Occupant::Task(_)));
        self.running += u32::from(matches!(is, Occupant::Task(_)));
        here.occupant = is;
    }
}
