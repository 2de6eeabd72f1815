//! Control groups above a fair scheduler: weights and limits (Linux 6.1.192 and 6.12.117, kernel/sched/fair.c).
//!
//! Each group has a scheduler of its own, of the same kind as the machine's. On each CPU the group stands in its
//! parent's queue as an entity of its own, while it has a runnable task there and is not throttled. Placement and
//! balancing look at all tasks of a CPU. Left out: loads of CPUs count tasks by their own weight, not by their group's
//! share; `cpu.idle`.

mod bandwidth;
mod loads;
mod shares;

pub use bandwidth::Limit;

use super::balance::{self, Balancer, Queues};
use super::place::Placer;
use super::weight;
use super::{Alarm, Arrival, Departure, Move, Moves, Policy, Push, Wake};
use crate::policy_view::{Class, Hardware, Scene, TaskId};
use bandwidth::Pool;
use loads::Loads;

/// A fair scheduler that can be that of a group, and can have groups in its queues.
pub trait Nested: Policy {
    /// The tasks and groups that are runnable on `cpu` beside the one that runs, in no certain order.
    fn waiting(&self, cpu: usize) -> Vec<TaskId>;

    /// The weight of an entity that is no task, from now on (`reweight_entity`).
    fn reweigh(&mut self, scene: &Scene, cpu: usize, entity: TaskId, weight: u64);

    /// The weight of an entity of a CPU, and of all that are queued there.
    fn weights(&self, cpu: usize, entity: TaskId) -> (u64, u64);

    /// How many tasks the CPU has in all groups, and which part of it this scheduler has: the weight of its entity and
    /// of its parent's queue, up to the root.
    fn stands(&mut self, cpu: usize, tasks: u64, parts: &[(u64, u64)]) {
        let _ = (cpu, tasks, parts);
    }

    /// Takes the classes of a task that woke below `entity` and of the one that runs, before [`Policy::preempts`] compares
    /// the entities where their groups part. Whether the woken task displaces the other, if the classes alone decide it.
    fn decide_by_class(&mut self, entity: TaskId, woken: Class, running: Class) -> Option<bool>;

    /// How far the task that runs is ahead of the queue's least virtual time, where forked tasks begin by that.
    fn running_ahead(&mut self, scene: &Scene, cpu: usize) -> i64 {
        let _ = (scene, cpu);
        0
    }

    /// [`Policy::fork`] by a task that may be of another group, and that is so far ahead there.
    fn fork_from(
        &mut self,
        scene: &Scene,
        cpu: usize,
        parent: Option<(TaskId, i64)>,
        child: TaskId,
    ) {
        self.fork(scene, cpu, parent.map(|parent| parent.0), child);
    }

    /// [`Policy::leads`] in a group, to which it was moved as it first ran: it keeps the slice that it was forked with, beside
    /// two others, but not how far these were ahead.
    fn leads_group(&mut self, scene: &Scene, cpu: usize, task: TaskId) {
        self.leads(scene, cpu, task);
    }

    /// What runs in the queue has used the CPU until now, if it is still in it (`update_curr`).
    fn charge(&mut self, scene: &Scene, cpu: usize);

    /// The first half of [`Policy::pick`], after [`Nested::charge`]: whom this scheduler prefers. The entity that runs
    /// stays out of the queue.
    fn choose_next(&mut self, cpu: usize) -> Choice;

    /// The second half: this entity runs from now on.
    fn exchange(&mut self, scene: &Scene, cpu: usize, next: Option<TaskId>);

    /// Makes an entity the buddy of the queue that it is in (`set_next_buddy`, `set_last_buddy`).
    fn favour(&mut self, cpu: usize, entity: TaskId, as_: Buddies);

    /// The entity is no buddy of these kinds any more.
    fn slight(&mut self, cpu: usize, entity: TaskId, as_: Buddies);

    /// The kinds of buddies that [`Policy::preempts`] set on a CPU since the last call.
    fn take_set(&mut self, cpu: usize) -> Buddies;

    /// The kinds that were cleared since the last call.
    fn take_cleared(&mut self, cpu: usize) -> Buddies;

    /// Whether it is that of Linux 6.1. Later `update_cfs_group` leaves the weight of an empty queue,
    /// `post_init_entity_util_avg` takes a task's weight as it is, not scaled up, and a group that is throttled while the
    /// next task is picked leaves who ran where it is.
    fn is_of_6_1(&self) -> bool {
        false
    }

    /// Tasks and groups in the queue of a CPU, those included whose dequeue is delayed.
    fn queued(&self, cpu: usize) -> usize;

    /// Whether a task that sleeps is still queued where it was.
    fn holds(&self, task: TaskId) -> bool {
        let _ = task;
        false
    }
}

/// Whom a scheduler prefers on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Nobody,
    Entity(TaskId),
    /// An entity that slept left the queue at last. Who runs is to be chosen anew, from the root down.
    Left(TaskId),
}

/// Kinds of buddies: entities that a queue prefers where that is fair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buddies {
    pub next: bool,
    pub last: bool,
}

impl Buddies {
    pub(super) const NEXT: Self = Self { next: true, last: false };

    pub(super) fn any(self) -> bool {
        self.next || self.last
    }
}

/// A control group, without the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The path of the group.
    pub name: String,
    /// The group in which it is, by its index; `None`: the root.
    pub parent: Option<usize>,
    /// Its shares: 1,024 are those of a task of nice 0, and of `cpu.weight` 100.
    pub shares: u64,
    pub limit: Option<Limit>,
}

/// The least weight of a group's entity (`MIN_SHARES`).
const MIN_SHARES: u64 = 2;

struct Branch {
    group: Group,
    tree: Box<dyn Nested>,
    pool: Option<Pool>,
    /// The group's queue on each CPU.
    queues: Vec<GroupQueue>,
}

#[derive(Clone, Copy, Debug, Default)]
struct GroupQueue {
    tasks: usize,
    /// Whether its entity is in its parent's queue.
    linked: bool,
}

/// Groups of tasks above fair schedulers.
pub struct Groups {
    root: Box<dyn Nested>,
    branches: Vec<Branch>,
    /// The first entity that is no task.
    first: usize,
    cpus: Vec<OfCpu>,
    loads: Loads,
    placer: Placer,
    balancer: Option<Balancer>,
    /// When each task was queued or picked last.
    touched: Vec<u64>,
    turns: u64,
    alarms: Vec<Alarm>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfCpu {
    nr: usize,
    current: Option<TaskId>,
    resched: bool,
    /// Time that tasks were charged since somebody asked.
    charged: u64,
}

/// What alarms are for: the end of a period, and time given back.
const SLACK: u64 = 1 << 32;

impl Groups {
    /// These groups, on these CPUs, with a load balancer of its own whose chances come from `seed`. `make` gives each
    /// group its scheduler. Groups get their time in slices of `slice` (`sched_cfs_bandwidth_slice_us`).
    #[must_use]
    pub fn new(
        groups: &[Group],
        hardware: &Hardware,
        tick_ns: u64,
        seed: u64,
        slice: u64,
        placer: Placer,
        make: &dyn Fn() -> Box<dyn Nested>,
    ) -> Self {
        let cpus = hardware.cpus();
        let branch = |group: &Group| Branch {
            tree: make(),
            pool: group.limit.map(|limit| Pool::new(limit, slice, cpus)),
            queues: vec![GroupQueue::default(); cpus],
            group: group.clone(),
        };
        Self {
            root: make(),
            branches: groups.iter().map(branch).collect(),
            first: usize::MAX,
            cpus: vec![OfCpu::default(); cpus],
            loads: Loads::new(groups.len(), cpus),
            placer,
            balancer: Some(Balancer::new(hardware, tick_ns, seed)),
            touched: Vec::new(),
            turns: 0,
            alarms: Vec::new(),
        }
    }

    fn entity(&self, group: usize, cpu: usize) -> TaskId {
        TaskId((self.first + group * self.cpus.len() + cpu) as u32)
    }

    /// After each call of a scheduler: what it charged tasks and the group (`account_cfs_rq_runtime`), and buddies that it
    /// cleared. A group that is not preferred in its own queue's stead is not preferred above it either
    /// (`__clear_buddies_next`).
    fn note(&mut self, scene: &Scene, group: Option<usize>, cpu: usize) {
        let time = self.tree(group).charged(cpu);
        if time > 0 {
            // In the queue of the task itself; above it the same time is charged to groups.
            let own = self.cpus[cpu].current.map(|task| self.own(scene, task));
            self.cpus[cpu].charged += if own == Some(group) { time } else { 0 };
            if let Some(group) = group
                && let Some(pool) = &mut self.branches[group].pool
            {
                self.cpus[cpu].resched |= pool.pays(cpu, scene.now, time);
                self.set_alarm(group, cpu);
            }
        }
        let mut at = group;
        while let Some(group) = at {
            let cleared = self.branches[group].tree.take_cleared(cpu);
            if !cleared.any() {
                return;
            }
            at = self.branches[group].group.parent;
            let entity = self.entity(group, cpu);
            self.tree(at).slight(cpu, entity, cleared);
        }
        self.root.take_cleared(cpu);
    }

    /// The group of an entity; `None`: it is a task.
    fn group_of(&self, entity: TaskId) -> Option<usize> {
        let at = entity.index().checked_sub(self.first)?;
        Some(at / self.cpus.len())
    }

    fn tree(&mut self, group: Option<usize>) -> &mut dyn Nested {
        match group {
            None => &mut *self.root,
            Some(group) => &mut *self.branches[group].tree,
        }
    }

    fn tree_ref(&self, group: Option<usize>) -> &dyn Nested {
        match group {
            None => &*self.root,
            Some(group) => &*self.branches[group].tree,
        }
    }

    /// The group, its parent, and so on, without the root.
    fn chain(&self, group: Option<usize>) -> Vec<usize> {
        let parent = |group: &usize| self.branches[*group].group.parent;
        std::iter::successors(group, parent).collect()
    }

    fn own(&self, scene: &Scene, task: TaskId) -> Option<usize> {
        scene.task(task).group
    }

    /// Tasks of a CPU that no limit holds up.
    fn runnable(&self, cpu: usize) -> usize {
        let held = (0..self.branches.len()).filter(|&group| !self.can_run(group, cpu));
        let held: usize = held.map(|group| self.branches[group].queues[cpu].tasks).sum();
        self.cpus[cpu].nr.saturating_sub(held)
    }

    /// Whether a group and those above it are in their queues.
    fn can_run(&self, group: usize, cpu: usize) -> bool {
        self.chain(Some(group)).iter().all(|&group| self.branches[group].queues[cpu].linked)
    }

    fn touch(&mut self, task: TaskId) {
        self.turns += 1;
        if self.touched.len() <= task.index() {
            self.touched.resize(task.index() + 1, 0);
        }
        self.touched[task.index()] = self.turns;
    }

    fn set_alarm(&mut self, group: usize, cpu: usize) {
        let Some(pool) = &mut self.branches[group].pool else { return };
        let whats = [group as u64, group as u64 | SLACK];
        for (at, what) in pool.news().into_iter().zip(whats) {
            self.alarms.extend(at.map(|at| Alarm { at, cpu, what }));
        }
    }

    fn is_throttled(&self, group: usize, cpu: usize) -> bool {
        self.branches[group].pool.as_ref().is_some_and(|pool| pool.is_throttled(cpu))
    }

    /// Whether the group or one above it is throttled (`throttled_hierarchy`).
    fn is_held(&self, group: usize, cpu: usize) -> bool {
        self.chain(Some(group)).iter().any(|&group| self.is_throttled(group, cpu))
    }

    /// Tells the schedulers of a chain which part of the CPU they have.
    fn update_parts(&mut self, chain: &[usize], cpu: usize) {
        let tasks = self.runnable(cpu) as u64;
        self.root.stands(cpu, tasks, &[]);
        let mut parts = Vec::new();
        for &group in chain.iter().rev() {
            let parent = self.branches[group].group.parent;
            let entity = self.entity(group, cpu);
            let (weight, all) = self.tree_ref(parent).weights(cpu, entity);
            // The least weight is too small to count.
            let is_counted = self.branches[group].queues[cpu].linked || weight == MIN_SHARES;
            let waits = if is_counted { 0 } else { weight };
            parts.push((weight, (all + waits).max(weight)));
            self.branches[group].tree.stands(cpu, tasks, &parts);
        }
    }

    /// Enqueues or dequeues the entity of each group from this one up, so that a group is queued in its parent exactly
    /// while it has a runnable task and is not throttled.
    fn relink(&mut self, scene: &Scene, group: Option<usize>, cpu: usize) {
        let chain = self.chain(group);
        for &group in &chain {
            let branch = &self.branches[group];
            let throttled = self.is_throttled(group, cpu);
            let wanted = branch.tree.queued(cpu) > 0 && !throttled;
            let linked = branch.queues[cpu].linked;
            if throttled && !linked {
                break;
            }
            let parent = branch.group.parent;
            let entity = self.entity(group, cpu);
            self.age(scene, parent, cpu, entity);
            self.update_shares(scene, group, cpu);
            if wanted == linked {
                continue;
            }
            self.branches[group].queues[cpu].linked = wanted;
            match (wanted, throttled) {
                (true, _) => self.tree(parent).enqueue(scene, cpu, entity, Arrival::Woken),
                // The dequeue of what is throttled is not delayed.
                (false, true) => self.tree(parent).dequeue(scene, cpu, entity, Departure::Ends),
                (false, false) => self.tree(parent).dequeue(scene, cpu, entity, Departure::Sleeps),
            }
            self.note(scene, parent, cpu);
            self.count(parent, cpu, entity, wanted);
            match wanted {
                true => self.begins(scene, parent, cpu),
                false => self.rests(scene, parent, cpu),
            }
        }
        self.update_parts(&chain, cpu);
    }

    /// `check_enqueue_throttle`: the first entity of a queue finds out whether there is time.
    fn begins(&mut self, scene: &Scene, group: Option<usize>, cpu: usize) {
        let Some(group) = group else { return };
        let current = self.cpus[cpu].current.map(|task| self.chain(self.own(scene, task)));
        let runs = current.is_some_and(|chain| chain.contains(&group));
        if self.branches[group].tree.queued(cpu) != 1 || runs {
            return;
        }
        let Some(pool) = &mut self.branches[group].pool else { return };
        if !pool.is_throttled(cpu) {
            pool.pays(cpu, scene.now, 0);
            let throttled = pool.throttles(cpu, scene.now);
            self.set_alarm(group, cpu);
            if throttled {
                self.hold(scene, cpu);
            }
        }
    }

    /// `return_cfs_rq_runtime`: an empty queue gives back what it does not need.
    fn rests(&mut self, scene: &Scene, group: Option<usize>, cpu: usize) {
        let Some(group) = group.filter(|&group| self.branches[group].tree.queued(cpu) == 0) else {
            return;
        };
        if let Some(pool) = &mut self.branches[group].pool {
            pool.returns(cpu, scene.now);
            self.set_alarm(group, cpu);
        }
    }

    /// `check_cfs_rq_runtime`: whether the group is throttled from now on, because its time is used up.
    fn throttle(&mut self, scene: &Scene, group: usize, cpu: usize) -> bool {
        let Some(pool) = &mut self.branches[group].pool else { return false };
        let throttled = pool.throttles(cpu, scene.now);
        self.set_alarm(group, cpu);
        if throttled {
            self.hold(scene, cpu);
            self.relink(scene, Some(group), cpu);
        }
        throttled
    }

    /// `put_prev_entity` in a group's queue.
    fn put_entity(&mut self, scene: &Scene, group: usize, cpu: usize) {
        self.tree(Some(group)).charge(scene, cpu);
        self.note(scene, Some(group), cpu);
        self.throttle(scene, group, cpu);
        self.tree(Some(group)).put_back(scene, cpu);
        self.note(scene, Some(group), cpu);
    }

    /// CPUs of a group that may run again.
    fn unthrottle(
        &mut self,
        scene: &Scene,
        group: usize,
        free: Vec<usize>,
        kicks: &mut Vec<usize>,
    ) {
        for cpu in free {
            self.hold(scene, cpu);
            self.relink(scene, Some(group), cpu);
            // Whoever runs goes on until the next tick or wakeup.
            if scene.cpus[cpu].running.is_none() && self.runnable(cpu) > 0 {
                kicks.push(cpu);
            }
        }
    }

    /// The scheduler in which two tasks meet, and what stands for each there.
    fn meeting(
        &self,
        scene: &Scene,
        cpu: usize,
        a: TaskId,
        b: TaskId,
    ) -> (Option<usize>, TaskId, TaskId) {
        let chain_a = self.chain(self.own(scene, a));
        let chain_b = self.chain(self.own(scene, b));
        let common = chain_a.iter().copied().find(|group| chain_b.contains(group));
        let stands = |chain: &[usize], task: TaskId| {
            let below = chain.iter().take_while(|group| Some(**group) != common).last();
            below.map_or(task, |&group| self.entity(group, cpu))
        };
        (common, stands(&chain_a, a), stands(&chain_b, b))
    }

    /// A task went to sleep: its group goes on if it has others, or the one above it (`dequeue_entities`). Not where a
    /// dequeue is delayed.
    fn favour_rest(&mut self, own: Option<usize>, cpu: usize, task: TaskId) {
        let mut at = own;
        let mut left = task;
        while let Some(group) = at {
            if self.tree_ref(at).holds(left) {
                return;
            }
            if self.branches[group].queues[cpu].linked {
                return self.favour(at, cpu, Buddies::NEXT);
            }
            left = self.entity(group, cpu);
            at = self.branches[group].group.parent;
        }
    }

    /// `set_next_buddy`: a group is picked next in its parent's queue, its parent in that of its own, and so on.
    fn favour(&mut self, group: Option<usize>, cpu: usize, as_: Buddies) {
        for group in self.chain(group) {
            let parent = self.branches[group].group.parent;
            let entity = self.entity(group, cpu);
            self.tree(parent).favour(cpu, entity, as_);
        }
    }

    /// `pick_task_fair`: down from the root, and from there again where all that was found slept. Each scheduler of the
    /// way, and whom it prefers.
    fn choose_way(&mut self, scene: &Scene, cpu: usize) -> Vec<(Option<usize>, TaskId)> {
        let mut way = Vec::new();
        let mut at = None;
        loop {
            self.tree(at).charge(scene, cpu);
            self.note(scene, at, cpu);
            if at.is_some_and(|group| self.throttle(scene, group, cpu)) {
                // 6.1 puts back who ran, and picks anew.
                if self.root.is_of_6_1() {
                    self.put_back(scene, cpu);
                }
                at = None;
                way.clear();
                continue;
            }
            let choice = self.tree(at).choose_next(cpu);
            self.note(scene, at, cpu);
            match choice {
                Choice::Entity(entity) => {
                    way.push((at, entity));
                    at = self.group_of(entity);
                    if at.is_none() {
                        return way;
                    }
                }
                Choice::Nobody if at.is_none() => return Vec::new(),
                Choice::Nobody => {
                    self.relink(scene, at.take(), cpu);
                    way.clear();
                }
                Choice::Left(entity) => {
                    let own = at.take();
                    self.rests(scene, own, cpu);
                    self.relink(scene, own, cpu);
                    self.favour_rest(own, cpu, entity);
                    way.clear();
                }
            }
        }
    }

    /// `pick_next_task_fair`: down from the root. `anew`: as [`Policy::pick_anew`].
    fn pick_next(&mut self, scene: &Scene, cpu: usize, anew: bool) -> Option<TaskId> {
        let way = self.choose_way(scene, cpu);
        if anew && way.is_empty() {
            return None;
        }
        let before =
            self.cpus[cpu].current.map_or(Vec::new(), |task| self.chain(self.own(scene, task)));
        let next = way.last().map(|(_, entity)| *entity);
        if anew && next.is_some() && next != self.cpus[cpu].current {
            self.put_back(scene, cpu);
        }
        for &group in &before {
            if !way.iter().any(|(at, _)| *at == Some(group)) {
                self.put_entity(scene, group, cpu);
            }
        }
        self.exchange_loads(scene, cpu, &before, &way);
        for &(at, entity) in way.iter().rev() {
            self.tree(at).exchange(scene, cpu, Some(entity));
            self.note(scene, at, cpu);
        }
        if way.is_empty() {
            self.root.exchange(scene, cpu, None);
            self.note(scene, None, cpu);
        }
        if let Some(next) = next {
            self.touch(next);
        }
        let of = &mut self.cpus[cpu];
        of.current = next;
        of.resched = false;
        self.placer.note_misfit(scene, cpu, next);
        next
    }

    /// Whether a task can be picked: no group above it is throttled.
    fn is_linked(&self, scene: &Scene, cpu: usize, task: TaskId) -> bool {
        self.own(scene, task).is_none_or(|group| self.can_run(group, cpu))
    }
}

impl Policy for Groups {
    fn select(&mut self, scene: &Scene, wake: &Wake) -> usize {
        let group = self.own(scene, wake.task);
        if self.tree(group).holds(wake.task) {
            return scene.task(wake.task).cpu;
        }
        if let Some(cpu) = balance::idlest(self, scene, wake) {
            return cpu;
        }
        let runnable: Vec<usize> = (0..self.cpus.len()).map(|cpu| self.runnable(cpu)).collect();
        self.placer.select(scene, wake, &|cpu| runnable[cpu])
    }

    fn fork(&mut self, scene: &Scene, cpu: usize, parent: Option<TaskId>, child: TaskId) {
        self.first = scene.first_group;
        let view = scene.task(child);
        let weight = weight::weight(view.nice, view.class == Class::Idle);
        let own = self.own(scene, child);
        let mut inherited = 1_024;
        let mut keeps = view.class == Class::Normal && view.nice == 0;
        if let Some(of) = parent.map(|parent| scene.task(parent)) {
            inherited = weight::weight(of.nice, of.class == Class::Idle);
            keeps = (of.class, of.nice) == (view.class, view.nice);
        }
        let member = self.member(child);
        self.loads.forks(self.loads.queue(own, cpu), member, inherited, keeps);
        let parent = parent.map(|parent| {
            let of = self.own(scene, parent);
            (parent, self.tree(of).running_ahead(scene, cpu))
        });
        self.update_parts(&self.chain(own), cpu);
        self.tree(own).fork_from(scene, cpu, parent, child);
        self.note(scene, own, cpu);
        self.placer.begins(scene, child, weight);
    }

    fn leads(&mut self, scene: &Scene, cpu: usize, task: TaskId) {
        let own = self.own(scene, task);
        match own {
            None => self.root.leads(scene, cpu, task),
            Some(_) => self.tree(own).leads_group(scene, cpu, task),
        }
        for group in self.chain(own) {
            self.branches[group].pool.iter_mut().for_each(|pool| pool.has_run(cpu));
        }
    }

    fn enqueue(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival) {
        self.first = scene.first_group;
        self.touch(task);
        let own = self.own(scene, task);
        self.arrive(scene, cpu, task, arrival);
        self.tree(own).enqueue(scene, cpu, task, arrival);
        self.note(scene, own, cpu);
        self.count(own, cpu, task, true);
        self.cpus[cpu].nr += 1;
        if let Some(group) = own {
            self.branches[group].queues[cpu].tasks += 1;
        }
        self.begins(scene, own, cpu);
        self.relink(scene, own, cpu);
        self.attach(scene, cpu, task);
        let view = scene.task(task);
        let weight = weight::weight(view.nice, view.class == Class::Idle);
        self.placer.queued(scene, cpu, task, weight);
        let woke = matches!(arrival, Arrival::Woken | Arrival::WokenElsewhere);
        let nr = self.runnable(cpu);
        if let Some(balancer) = &mut self.balancer {
            balancer.queued(scene, cpu, nr, woke);
        }
    }

    /// `check_preempt_wakeup`: where the groups of both tasks part.
    fn preempts(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival) -> bool {
        if std::mem::take(&mut self.cpus[cpu].resched) {
            return true;
        }
        let Some(current) = self.cpus[cpu].current else { return false };
        if !self.is_linked(scene, cpu, task) {
            return false;
        }
        let (common, entity, _) = self.meeting(scene, cpu, task, current);
        let arrival = if self.group_of(entity).is_some() { Arrival::Woken } else { arrival };
        let [woken, running] = [task, current].map(|task| scene.task(task).class);
        let tree = self.tree(common);
        let displaces = match tree.decide_by_class(entity, woken, running) {
            Some(displaces) => return displaces && !scene.cpus[cpu].resched,
            None => tree.preempts(scene, cpu, entity, arrival),
        };
        let set = tree.take_set(cpu);
        self.note(scene, common, cpu);
        if set.any() {
            self.favour(common, cpu, set);
        }
        displaces | std::mem::take(&mut self.cpus[cpu].resched)
    }

    fn dequeue(&mut self, scene: &Scene, cpu: usize, task: TaskId, departure: Departure) {
        let own = self.own(scene, task);
        if own.is_some() {
            self.age(scene, own, cpu, task);
        }
        self.tree(own).dequeue(scene, cpu, task, departure);
        self.note(scene, own, cpu);
        self.count(own, cpu, task, false);
        self.cpus[cpu].nr = self.cpus[cpu].nr.saturating_sub(1);
        if let Some(group) = own {
            let queue = &mut self.branches[group].queues[cpu];
            queue.tasks = queue.tasks.saturating_sub(1);
        }
        self.rests(scene, own, cpu);
        self.relink(scene, own, cpu);
        match departure {
            // One that leaves for another class takes its load along (`detach_task_cfs_rq`).
            Departure::Moves => self.carry_load(scene, cpu, task, false),
            Departure::Ends => {
                let member = self.member(task);
                self.loads.ends(member);
            }
            Departure::Sleeps => {}
        }
        if departure != Departure::Moves {
            self.favour_rest(own, cpu, task);
        }
        self.placer.left(scene, cpu, task);
    }

    fn pick(&mut self, scene: &Scene, cpu: usize) -> Option<TaskId> {
        self.pick_next(scene, cpu, false)
    }

    fn pick_anew(&mut self, scene: &Scene, cpu: usize) -> Option<TaskId> {
        self.pick_next(scene, cpu, true)
    }

    /// `task_tick_fair`: each level looks.
    fn tick(&mut self, scene: &Scene, cpu: usize) -> bool {
        self.placer.tick(scene, cpu);
        let Some(task) = self.cpus[cpu].current else { return false };
        let mut resched = false;
        let own = self.own(scene, task);
        let chain = self.chain(own);
        self.update_parts(&chain, cpu);
        if own.is_some() {
            self.age(scene, own, cpu, task);
        }
        for &group in &chain {
            resched |= self.tree(Some(group)).tick(scene, cpu);
            self.note(scene, Some(group), cpu);
            let parent = self.branches[group].group.parent;
            let entity = self.entity(group, cpu);
            self.age(scene, parent, cpu, entity);
            self.update_shares(scene, group, cpu);
        }
        resched |= self.root.tick(scene, cpu);
        self.note(scene, None, cpu);
        resched | std::mem::take(&mut self.cpus[cpu].resched)
    }

    fn yields(&mut self, scene: &Scene, cpu: usize) {
        if let Some(task) = self.cpus[cpu].current {
            let own = self.own(scene, task);
            self.tree(own).yields(scene, cpu);
            self.note(scene, own, cpu);
        }
    }

    fn charged(&mut self, cpu: usize) -> u64 {
        std::mem::take(&mut self.cpus[cpu].charged)
    }

    fn pull(&mut self, scene: &Scene, cpu: usize, moves: &mut Moves) {
        balance::with(self, |balancer, queues| balancer.newidle(scene, queues, cpu, moves));
    }

    fn balance(&mut self, scene: &Scene, moves: &mut Moves) {
        balance::with(self, |balancer, queues| balancer.tick(scene, queues, moves));
    }

    fn push(&mut self, scene: &Scene, push: Push) -> Option<TaskId> {
        balance::with(self, |balancer, queues| balancer.push(scene, queues, push)).flatten()
    }

    fn serves_all(&self) -> bool {
        true
    }

    fn is_held_up(&self, cpu: usize) -> bool {
        let is_limited = self.branches.iter().any(|branch| branch.pool.is_some());
        is_limited && self.runnable(cpu) == 0
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn take_alarm(&mut self) -> Option<Alarm> {
        self.alarms.pop()
    }

    fn alarm(&mut self, scene: &Scene, alarm: Alarm, kicks: &mut Vec<usize>) -> bool {
        let group = (alarm.what & (SLACK - 1)) as usize;
        let Some(pool) = &mut self.branches[group].pool else { return false };
        let free = if alarm.what & SLACK != 0 && pool.slack == Some(alarm.at) {
            pool.hands_out(scene.now)
        } else if alarm.what & SLACK == 0 && pool.ends == Some(alarm.at) {
            pool.next_period(scene.now)
        } else {
            return false;
        };
        self.unthrottle(scene, group, free, kicks);
        self.set_alarm(group, alarm.cpu);
        true
    }

    /// Another class takes the CPU: the tasks that ran are put back at each level.
    fn put_back(&mut self, scene: &Scene, cpu: usize) {
        if let Some(current) = self.cpus[cpu].current {
            let chain = self.chain(self.own(scene, current));
            self.exchange_loads(scene, cpu, &chain, &[]);
            for group in chain {
                self.put_entity(scene, group, cpu);
            }
        }
        self.root.put_back(scene, cpu);
        self.note(scene, None, cpu);
        self.cpus[cpu].current = None;
        self.cpus[cpu].resched = false;
    }
}

impl Queues for Groups {
    fn balancer(&mut self) -> &mut Option<Balancer> {
        &mut self.balancer
    }

    fn nr(&self, cpu: usize) -> usize {
        self.runnable(cpu)
    }

    fn misfit(&self, cpu: usize) -> u64 {
        self.placer.misfit(cpu)
    }

    fn placer(&mut self) -> &mut Placer {
        &mut self.placer
    }

    fn by_age(&self, cpu: usize) -> Vec<TaskId> {
        let groups = (0..self.branches.len()).filter(|&group| self.can_run(group, cpu));
        let trees = groups.map(Some).chain([None]);
        let all = trees.flat_map(|group| self.tree_ref(group).waiting(cpu));
        let mut tasks: Vec<TaskId> =
            all.filter(|entity| self.group_of(*entity).is_none()).collect();
        tasks.sort_by_key(|task| self.touched.get(task.index()).copied());
        tasks
    }

    fn is_buddy(&self, _: usize, _: TaskId) -> bool {
        false
    }

    fn carry(&mut self, scene: &Scene, moved: Move) {
        self.dequeue(scene, moved.from, moved.task, Departure::Moves);
        self.enqueue(scene, moved.to, moved.task, Arrival::Moved);
    }
}
