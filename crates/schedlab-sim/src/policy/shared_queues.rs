//! Queues that several CPUs share: one for the machine, or one for each LLC. Linux has neither; schedulers written for
//! sched_ext often do.
//!
//! A waking task goes to an idle CPU of its last LLC, or anywhere if the queue is the machine's. Where none is idle it
//! waits in the queue, and the first CPU that is free takes it. Nobody is preempted by a wakeup. A task that ran for a
//! slice goes to the end of the queue at the next tick.

use super::{Arrival, Departure, Move, Moves, Policy, Wake};
use crate::policy_view::{Scene, TaskId};
use std::collections::VecDeque;

/// First in, first out, in queues that several CPUs share.
#[derive(Debug)]
pub struct SharedFifo {
    slice_ns: u64,
    queue_of: Vec<usize>,
    queues: Vec<VecDeque<TaskId>>,
    running: Vec<Option<TaskId>>,
    since: Vec<u64>,
}

impl SharedFifo {
    #[must_use]
    pub fn of_machine(cpus: usize, slice_ns: u64) -> Self {
        Self::new(vec![0; cpus], slice_ns)
    }

    /// A queue for each LLC, by the LLC of each CPU.
    #[must_use]
    pub(crate) fn of_llcs(hardware: &crate::Hardware, slice_ns: u64) -> Self {
        Self::new((0..hardware.cpus()).map(|cpu| hardware.llc(cpu)).collect(), slice_ns)
    }

    fn new(queue_of: Vec<usize>, slice_ns: u64) -> Self {
        let count = queue_of.iter().max().map_or(0, |last| last + 1);
        let cpus = queue_of.len();
        let queues = vec![VecDeque::new(); count];
        Self { slice_ns, queue_of, queues, running: vec![None; cpus], since: vec![0; cpus] }
    }

    /// Takes the first task of the queue that `cpu` may run.
    fn take(&mut self, scene: &Scene, cpu: usize, queue: usize) -> Option<TaskId> {
        let queue = &mut self.queues[queue];
        let at = queue.iter().position(|&task| scene.task(task).may_use(cpu))?;
        queue.remove(at)
    }

    fn first_for(&self, scene: &Scene, cpu: usize) -> Option<TaskId> {
        let queue = &self.queues[self.queue_of[cpu]];
        queue.iter().copied().find(|&task| scene.task(task).may_use(cpu))
    }
}

impl Policy for SharedFifo {
    fn select(&mut self, scene: &Scene, wake: &Wake) -> usize {
        let task = scene.task(wake.task);
        let idle = |&cpu: &usize| {
            let view = &scene.cpus[cpu];
            task.may_use(cpu)
                && view.running.is_none()
                && view.pending == 0
                && self.first_for(scene, cpu).is_none()
        };
        let all = 0..self.queue_of.len();
        let own = self.queue_of[task.cpu];
        let near = all.clone().filter(|&cpu| self.queue_of[cpu] == own);
        let usable = || all.clone().find(|&cpu| task.may_use(cpu));
        let stays = Some(task.cpu).filter(|&cpu| task.may_use(cpu));
        let free = Some(task.cpu).filter(idle).or_else(|| near.clone().find(idle));
        free.or(stays).or_else(usable).unwrap_or(task.cpu)
    }

    fn enqueue(&mut self, _: &Scene, cpu: usize, task: TaskId, _: Arrival) {
        self.queues[self.queue_of[cpu]].push_back(task);
    }

    fn preempts(&mut self, _: &Scene, _: usize, _: TaskId, _: Arrival) -> bool {
        false
    }

    fn dequeue(&mut self, _: &Scene, cpu: usize, task: TaskId, _: Departure) {
        if self.running[cpu] == Some(task) {
            self.running[cpu] = None;
        }
        self.queues[self.queue_of[cpu]].retain(|queued| *queued != task);
    }

    fn pick(&mut self, scene: &Scene, cpu: usize) -> Option<TaskId> {
        let own = self.queue_of[cpu];
        let prev = self.running[cpu].take();
        self.queues[own].extend(prev);
        self.running[cpu] = self.take(scene, cpu, own);
        self.since[cpu] = scene.now;
        self.running[cpu]
    }

    fn tick(&mut self, scene: &Scene, cpu: usize) -> bool {
        scene.now - self.since[cpu] >= self.slice_ns && self.first_for(scene, cpu).is_some()
    }

    fn yields(&mut self, _: &Scene, _: usize) {}

    /// A CPU that finds nothing in its queue takes a task from another.
    fn pull(&mut self, scene: &Scene, cpu: usize, moves: &mut Moves) {
        let own = self.queue_of[cpu];
        for other in (0..self.queues.len()).filter(|&queue| queue != own) {
            if let Some(task) = self.take(scene, cpu, other) {
                let from = scene.task(task).cpu;
                self.queues[own].push_back(task);
                return moves.done.push(Move { task, from, to: cpu });
            }
        }
    }
}
