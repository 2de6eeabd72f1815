//! A queue for each CPU, served in order of arrival.

use super::{Arrival, Departure, Policy, Wake};
use crate::policy_view::{Scene, TaskId};
use std::collections::VecDeque;

/// First in, first out on each CPU, with an optional slice that is checked at the tick.
///
/// A waking task goes to its last CPU if that is idle, else to the first idle CPU, else to the shortest queue. Nobody
/// is preempted by a wakeup, and no task moves while it waits.
#[derive(Debug)]
pub struct Fifo {
    slice_ns: Option<u64>,
    cpus: Vec<Lane>,
}

#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<TaskId>,
    running: Option<TaskId>,
    since: u64,
}

impl Fifo {
    /// The scheduler of `cpus` CPUs. A task that ran for `slice_ns` nanoseconds goes to the end of
    /// its queue at the next tick; without a slice it runs until it sleeps.
    #[must_use]
    pub fn new(cpus: usize, slice_ns: Option<u64>) -> Self {
        Self { slice_ns, cpus: (0..cpus).map(|_| Lane::default()).collect() }
    }

    fn load(&self, scene: &Scene, cpu: usize) -> usize {
        let lane = &self.cpus[cpu];
        lane.queue.len() + usize::from(lane.running.is_some()) + scene.cpus[cpu].pending as usize
    }
}

impl Policy for Fifo {
    fn select(&mut self, scene: &Scene, wake: &Wake) -> usize {
        let task = scene.task(wake.task);
        let free = |&cpu: &usize| task.may_use(cpu) && self.load(scene, cpu) == 0;
        let all = 0..self.cpus.len();
        let shortest = || {
            let usable = all.clone().filter(|&cpu| task.may_use(cpu));
            usable.min_by_key(|&cpu| self.load(scene, cpu)).unwrap_or(task.cpu)
        };
        Some(task.cpu).filter(free).or_else(|| all.clone().find(free)).unwrap_or_else(shortest)
    }

    fn enqueue(&mut self, _: &Scene, cpu: usize, task: TaskId, _: Arrival) {
        self.cpus[cpu].queue.push_back(task);
    }

    fn preempts(&mut self, _: &Scene, _: usize, _: TaskId, _: Arrival) -> bool {
        false
    }

    fn dequeue(&mut self, _: &Scene, cpu: usize, task: TaskId, _: Departure) {
        let lane = &mut self.cpus[cpu];
        if lane.running == Some(task) {
            lane.running = None;
        }
        lane.queue.retain(|queued| *queued != task);
    }

    fn pick(&mut self, scene: &Scene, cpu: usize) -> Option<TaskId> {
        let lane = &mut self.cpus[cpu];
        let prev = lane.running.take();
        lane.queue.extend(prev);
        lane.running = lane.queue.pop_front();
        lane.since = scene.now;
        lane.running
    }

    fn tick(&mut self, scene: &Scene, cpu: usize) -> bool {
        let lane = &self.cpus[cpu];
        !lane.queue.is_empty() && self.slice_ns.is_some_and(|slice| scene.now - lane.since >= slice)
    }

    fn yields(&mut self, _: &Scene, _: usize) {}
}
