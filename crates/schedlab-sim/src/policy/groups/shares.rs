//! What load averages change in groups: their weights, and what has to be accounted when for that.

use super::{Groups, MIN_SHARES};
use crate::policy::Arrival;
use crate::policy::weight;
use crate::policy_view::{Class, Scene, TaskId};

/// The time at which a run of the kernel's own code begins, in nanoseconds of its clock.
const KERNEL_BEGINS: u64 = 2_000_000_000;

impl Groups {
    /// The clock of load averages: their periods begin when they do under the kernel's own code.
    pub(super) fn clock(scene: &Scene, cpu: usize) -> u64 {
        scene.task_clock(cpu) + KERNEL_BEGINS
    }

    /// An entity as a member of a queue.
    pub(super) fn member(&mut self, entity: TaskId) -> usize {
        match entity.index().checked_sub(self.first) {
            Some(group) => group,
            None => self.loads.task(entity.index()),
        }
    }

    /// Accounts the load averages of a queue and of an entity in it.
    pub(super) fn age(&mut self, scene: &Scene, group: Option<usize>, cpu: usize, entity: TaskId) {
        let queue = self.loads.queue(group, cpu);
        let member = self.member(entity);
        self.loads.update(queue, member, Self::clock(scene, cpu));
    }

    /// An entity came to a queue or left it.
    pub(super) fn count(&mut self, group: Option<usize>, cpu: usize, entity: TaskId, queued: bool) {
        let weight = self.tree_ref(group).weights(cpu, entity).1;
        let queue = self.loads.queue(group, cpu);
        let member = self.member(entity);
        self.loads.counts(queue, weight, member, queued);
    }

    /// A task that became fair, or came from another CPU, brings its load along (`attach_task_cfs_rq`), or takes it away.
    pub(super) fn carry_load(&mut self, scene: &Scene, cpu: usize, task: TaskId, joins: bool) {
        let Some(own) = self.own(scene, task) else { return };
        self.age(scene, Some(own), cpu, task);
        let queue = self.loads.queue(Some(own), cpu);
        let member = self.member(task);
        match joins {
            true => self.loads.joins(queue, member),
            false => self.loads.leaves(member),
        }
        for group in self.chain(Some(own)) {
            if self.is_throttled(group, cpu) {
                return;
            }
            let entity = self.entity(group, cpu);
            self.age(scene, self.branches[group].group.parent, cpu, entity);
        }
    }

    /// A group was throttled, or is so no longer.
    pub(super) fn hold(&mut self, scene: &Scene, cpu: usize) {
        for group in 0..self.branches.len() {
            let queue = self.loads.queue(Some(group), cpu);
            let held = self.is_held(group, cpu);
            self.loads.holds(queue, held, Self::clock(scene, cpu));
        }
    }

    /// `update_cfs_group`: a group's weight is its shares, divided between CPUs by load. An empty queue's has the least
    /// weight once its load average is 0.
    pub(super) fn update_shares(&mut self, scene: &Scene, group: usize, cpu: usize) {
        let branch = &self.branches[group];
        let parent = branch.group.parent;
        let linked = branch.queues[cpu].linked;
        let entity = self.entity(group, cpu);
        let weight = match self.shares_of(group, cpu) {
            Some(weight) => {
                let queue = self.loads.queue(parent, cpu);
                let member = self.member(entity);
                self.loads.reweighs(queue, member, weight);
                weight
            }
            None => self.tree_ref(parent).weights(cpu, entity).0,
        };
        self.tree(parent).reweigh(scene, cpu, entity, weight);
        self.note(scene, parent, cpu);
        self.count(parent, cpu, entity, linked);
    }

    /// `calc_group_shares`; `None`: the weight stays what it is.
    fn shares_of(&self, group: usize, cpu: usize) -> Option<u64> {
        let branch = &self.branches[group];
        let weight = branch.tree.weights(cpu, TaskId(u32::MAX)).1;
        if self.is_held(group, cpu) || (weight == 0 && !branch.tree.is_of_6_1()) {
            return None;
        }
        let load = |cpu| self.loads.load(self.loads.queue(Some(group), cpu));
        let own = weight.max(load(cpu));
        let others: u64 = (0..self.cpus.len()).filter(|&other| other != cpu).map(load).sum();
        let shares = branch.group.shares;
        let weight = (shares * own).checked_div(own + others).unwrap_or(0);
        Some(weight.clamp(MIN_SHARES, shares.max(MIN_SHARES)))
    }

    /// The load of a task that comes to a queue, before it counts there.
    pub(super) fn arrive(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival) {
        let Some(own) = self.own(scene, task) else { return };
        let view = scene.task(task);
        let weight = weight::weight(view.nice, view.class == Class::Idle);
        let queue = self.loads.queue(Some(own), cpu);
        let member = self.member(task);
        self.loads.weighs(member, weight);
        if arrival == Arrival::New {
            let scaled = if self.tree_ref(Some(own)).is_of_6_1() { weight << 10 } else { weight };
            self.loads.begins(queue, member, scaled, scene.hardware.capacity(cpu));
        }
        self.age(scene, Some(own), cpu, task);
        if !self.loads.is_known(member) {
            self.loads.joins(queue, member);
        }
    }

    /// A task that was of another class or CPU joins the load of its queue, after it came there (`switched_to_fair`).
    pub(super) fn attach(&mut self, scene: &Scene, cpu: usize, task: TaskId) {
        let own = self.own(scene, task);
        let queue = self.loads.queue(own, cpu);
        let member = self.member(task);
        if !self.loads.is_in(queue, member) {
            self.carry_load(scene, cpu, task, true);
        }
    }

    /// Exchanges the entities that run at each level. Where an entity stays, nothing is accounted.
    pub(super) fn exchange_loads(
        &mut self,
        scene: &Scene,
        cpu: usize,
        before: &[usize],
        way: &[(Option<usize>, TaskId)],
    ) {
        let now = Self::clock(scene, cpu);
        let old = before.iter().map(|&group| Some(group)).chain([None]);
        for at in old {
            let queue = self.loads.queue(at, cpu);
            let next = way.iter().find(|level| level.0 == at).map(|level| level.1);
            let next = next.map(|entity| self.member(entity));
            if next.is_none() || next != self.loads.current(queue) {
                self.loads.stops(queue, now);
            }
        }
        for &(at, entity) in way.iter().rev() {
            let queue = self.loads.queue(at, cpu);
            let member = self.member(entity);
            if self.loads.current(queue) != Some(member) {
                self.loads.runs(queue, member, now);
            }
        }
    }
}
