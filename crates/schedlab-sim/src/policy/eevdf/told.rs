//! What a recording tells of tasks and queues of Linux 6.12: compared with the model's own, and taken over.

use super::{Eevdf, Entity, TaskId, virtual_time};
use crate::policy::{Queue, Standing};

impl Eevdf {
    pub(super) fn standing_of(&self, task: TaskId) -> Option<Standing> {
        let of = self.entities.get(task.index())?;
        let Entity { vruntime, deadline, vlag, slice, delayed, relative, on_rq: queued, .. } = *of;
        Some(Standing { vruntime, deadline, vlag, slice, delayed, relative, queued })
    }

    pub(super) fn queue_of(&self, cpu: usize) -> Queue {
        let rq = &self.rqs[cpu];
        Queue { nr: rq.nr as u64, sum: rq.sum, load: rq.load, zero: rq.zero }
    }

    /// Makes a task's state the recorded one, in or out of the queue.
    pub(super) fn adopts(&mut self, cpu: usize, task: u32, standing: &Standing) {
        if self.entity(TaskId(task)).home != cpu {
            self.takes_out(task);
        }
        let runs = self.rqs[cpu].curr == Some(task);
        let before = *self.entity(TaskId(task));
        let moves = (before.vruntime, before.deadline) != (standing.vruntime, standing.deadline)
            || before.on_rq != standing.queued;
        if before.on_rq && !runs && moves {
            self.remove(cpu, task);
        }
        let of = &mut self.entities[task as usize];
        let Standing { vruntime, deadline, vlag, slice, delayed, relative, queued } = *standing;
        of.vruntime = vruntime;
        of.deadline = deadline;
        of.vlag = vlag;
        of.slice = slice;
        of.delayed = delayed;
        of.relative = relative;
        of.on_rq = queued;
        if queued && !runs && moves {
            self.insert(cpu, task);
        }
        let was = usize::from(before.on_rq);
        let is = usize::from(queued);
        let late = |on: bool, delayed: bool| usize::from(on && delayed);
        let rq = &mut self.rqs[cpu];
        rq.nr = rq.nr + is - was;
        rq.delayed = rq.delayed + late(queued, delayed) - late(before.on_rq, before.delayed);
    }

    pub(super) fn takes_out(&mut self, task: u32) {
        let of = *self.of(task);
        let runs = self.rqs[of.home].curr == Some(task);
        if runs {
            self.rqs[of.home].curr = None;
        }
        if !of.on_rq {
            return;
        }
        if !runs {
            self.remove(of.home, task);
        }
        self.rqs[of.home].nr -= 1;
        self.rqs[of.home].delayed -= usize::from(of.delayed);
        let entity = &mut self.entities[task as usize];
        entity.on_rq = false;
        entity.delayed = false;
    }

    /// A recording tells that a task is in the queue of `cpu`, wherever the model has it.
    pub(super) fn comes_home(&mut self, cpu: usize, task: u32) {
        let of = *self.entity(TaskId(task));
        if of.on_rq && of.home == cpu {
            return;
        }
        if self.rqs[cpu].curr != Some(task) {
            self.takes_out(task);
            self.insert(cpu, task);
        }
        self.entities[task as usize].on_rq = true;
        self.rqs[cpu].nr += 1;
    }

    /// Makes the zero point the recorded one.
    pub(super) fn begins_at(&mut self, cpu: usize, zero: i64) {
        let rq = &mut self.rqs[cpu];
        rq.sum -= rq.load * (zero - rq.zero);
        rq.zero = zero;
    }

    /// How far the running task moves if it leaves the queue with its lag and returns (`place_entity`).
    pub(super) fn shift_of_return(&self, cpu: usize) -> i64 {
        let Some(task) = self.running(cpu) else { return 0 };
        let of = self.of(task);
        let rq = &self.rqs[cpu];
        if rq.load == 0 {
            return 0;
        }
        let (sum, load) = self.totals(cpu);
        let average = rq.zero + sum.div_euclid(load);
        let limit = virtual_time((2 * of.slice).max(self.knobs.tick), of.weight) as i64;
        let lag = (average - of.vruntime).clamp(-limit, limit);
        let inflated = lag * (rq.load + of.weight as i64) / rq.load;
        rq.zero + rq.sum.div_euclid(rq.load) - inflated - of.vruntime
    }
}
