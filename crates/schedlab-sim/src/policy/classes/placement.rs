//! On which CPU a task above the fair ones runs (Linux 6.1, `select_task_rq_rt`, `find_lowest_rq`, `push_rt_task`,
//! `select_task_rq_dl`, `find_later_rq`, `push_dl_task`).
//!
//! The machine runs the most urgent tasks, as far as their affinity lets it. A task that waits behind a more urgent one
//! is pushed to a CPU that has less urgent work: when it wakes, and after each switch. A CPU whose work became less
//! urgent has others push to it, which takes no time here (`RT_PUSH_IPI` sends an interrupt for it).

use super::cpu_queues::{Current, Who};
use super::{Arrival, Classes, Departure, Moves, Policy, Wake};
use crate::policy::Move;
use crate::policy_view::{Scene, TaskId};

/// What a CPU has of most urgency (`cpupri`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// No real-time task: fair ones, or none.
    Normal,
    RealTime(u32),
    Deadline,
}

impl Classes {
    fn level(&self, cpu: usize) -> Level {
        let lane = &self.lanes[cpu];
        if lane.has_deadline_task() {
            return Level::Deadline;
        }
        lane.rt_priority().map_or(Level::Normal, Level::RealTime)
    }

    fn is_pinned(&self, scene: &Scene, task: TaskId) -> bool {
        let view = scene.task(task);
        (0..self.lanes.len()).filter(|&cpu| view.may_use(cpu)).nth(1).is_none()
    }

    /// `find_lowest_rq`: where a real-time task may displace somebody; `this` is the CPU that asks.
    pub(super) fn lowest(&mut self, scene: &Scene, task: TaskId, this: usize) -> Option<usize> {
        if self.is_pinned(scene, task) {
            return None;
        }
        let view = scene.task(task);
        let own = Level::RealTime(view.class.priority());
        let usable = || (0..self.lanes.len()).filter(|&cpu| view.may_use(cpu));
        let least = usable().map(|cpu| self.level(cpu)).min().filter(|level| *level < own)?;
        let candidates = usable().filter(|&cpu| self.level(cpu) == least).collect();
        self.nearest(scene, view.cpu, this, candidates)
    }

    /// `find_later_rq`: a CPU without deadline tasks, or that with the latest deadline.
    fn later(&mut self, scene: &Scene, task: TaskId, this: usize) -> Option<usize> {
        if self.is_pinned(scene, task) {
            return None;
        }
        let view = scene.task(task);
        let usable = || (0..self.lanes.len()).filter(|&cpu| view.may_use(cpu));
        let free: Vec<usize> =
            usable().filter(|&cpu| !self.lanes[cpu].has_deadline_task()).collect();
        if !free.is_empty() {
            return self.nearest(scene, view.cpu, this, free);
        }
        let earliest = |cpu: usize| self.lanes[cpu].deadlines.first().map_or(u64::MAX, |key| key.0);
        let last = usable().max_by_key(|&cpu| earliest(cpu))?;
        (self.tasks[task.index()].budget.deadline < earliest(last)).then_some(last)
    }

    /// The task's own CPU, the one that asks if it is near, any near one, any.
    fn nearest(
        &mut self,
        scene: &Scene,
        own: usize,
        this: usize,
        candidates: Vec<usize>,
    ) -> Option<usize> {
        if candidates.contains(&own) {
            return Some(own);
        }
        let near = |cpu: usize| scene.hardware.share_llc(cpu, own);
        if candidates.contains(&this) && near(this) {
            return Some(this);
        }
        let mut among: Vec<usize> = candidates.iter().copied().filter(|&cpu| near(cpu)).collect();
        if among.is_empty() {
            if candidates.contains(&this) {
                return Some(this);
            }
            among = candidates;
        }
        // Searches for any CPU go round (`cpumask_any_and_distribute`).
        let next = among.iter().copied().find(|&cpu| cpu > self.distributed);
        let found = next.or(among.first().copied())?;
        self.distributed = found;
        Some(found)
    }

    pub(super) fn select_real_time(&mut self, scene: &Scene, wake: &Wake) -> usize {
        let view = scene.task(wake.task);
        let own = self.usable(scene, wake.task);
        let priority = view.class.priority();
        let Current::RealTime(running) = self.lanes[own].current else { return own };
        let stays =
            self.is_pinned(scene, running) || scene.task(running).class.priority() >= priority;
        if !stays {
            return own;
        }
        let target = self.lowest(scene, wake.task, wake.cpu);
        let lower = |&cpu: &usize| self.lanes[cpu].rt_priority().is_none_or(|at| at < priority);
        target.filter(lower).unwrap_or(own)
    }

    pub(super) fn select_deadline(&mut self, scene: &Scene, wake: &Wake) -> usize {
        let own = self.usable(scene, wake.task);
        let Current::Deadline(running) = self.lanes[own].current else { return own };
        let deadline = |all: &Self, task: TaskId| all.tasks[task.index()].budget.deadline;
        let first = deadline(self, wake.task) < deadline(self, running);
        if wake.new || (first && !self.is_pinned(scene, running)) {
            return own;
        }
        self.later(scene, wake.task, wake.cpu).unwrap_or(own)
    }

    /// The task's CPU, or the first that it may use.
    fn usable(&self, scene: &Scene, task: TaskId) -> usize {
        let view = scene.task(task);
        let mut all = std::iter::once(view.cpu).chain(0..self.lanes.len());
        all.find(|&cpu| view.may_use(cpu)).unwrap_or(view.cpu)
    }

    /// Tasks that wait behind more urgent ones go where work is less urgent, those of `cpu` first.
    pub(super) fn spread(&mut self, scene: &Scene, cpu: usize, moves: &mut Moves) {
        let others = (0..self.lanes.len()).filter(|&other| other != cpu);
        for from in std::iter::once(cpu).chain(others) {
            while let Some((task, to)) = self.pushed(scene, from) {
                let to_be = Move { task, from, to };
                self.dequeue(scene, from, task, Departure::Moves);
                self.enqueue(scene, to, task, Arrival::Moved);
                moves.done.push(to_be);
            }
        }
    }

    /// The next task that a CPU gives away, and to whom.
    fn pushed(&mut self, scene: &Scene, from: usize) -> Option<(TaskId, usize)> {
        if self.lanes.len() == 1 {
            return None;
        }
        let movable = |all: &Self, task: &TaskId| {
            !all.is_pinned(scene, *task) && scene.task(*task).cpu == from
        };
        let lane = &self.lanes[from];
        let deadline = lane.waiting_deadline().find(|task| movable(self, task));
        if let Some(task) = deadline
            && !self.displaces(from, Who::Task(task))
            && let Some(to) = self.later(scene, task, from)
        {
            let due = self.tasks[task.index()].budget.deadline;
            let first = self.lanes[to].deadlines.first().is_none_or(|key| due < key.0);
            if first && to != from {
                return Some((task, to));
            }
        }
        let lane = &self.lanes[from];
        // One that is about to displace the task that runs stays.
        let behind = |task: &TaskId| match lane.current {
            Current::Deadline(_) => true,
            Current::RealTime(running) => {
                scene.task(running).class.priority() >= scene.task(*task).class.priority()
            }
            Current::Idle | Current::Fair => false,
        };
        let task = lane.waiting_real_time().find(|task| movable(self, task))?;
        if !behind(&task) {
            return None;
        }
        let to = self.lowest(scene, task, from).filter(|&to| to != from)?;
        let priority = scene.task(task).class.priority();
        let lower = self.lanes[to].rt_priority().is_none_or(|at| at < priority);
        lower.then_some((task, to))
    }
}
