//! `cfs-6.1`: the fair scheduler of Debian's Linux 6.1.192. `groups` builds hierarchies of it.
//!
//! The functions named in the comments are those of kernel/sched/fair.c of that version. Times are integers, and
//! divisions by a weight are the kernel's. Left out: core scheduling, HRTICK.

use super::balance::{self, Balancer, Queues};
use super::groups::{Buddies, Choice, Nested};
use super::ordered::{Key, Ordered};
use super::place::Placer;
use super::weight::{self, NICE_0, share, virtual_time};
use super::{Arrival, Departure, Move, Moves, Policy, Push, Wake};
use crate::policy_view::{Class, Hardware, Scene, TaskId};

/// The tunables and features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CfsKnobs {
    /// `latency_ns`: the period in which each task runs once.
    pub latency: u64,
    /// `min_granularity_ns`: the shortest slice, in nanoseconds.
    pub min_granularity: u64,
    /// `idle_min_granularity_ns`: the shortest slice of a `SCHED_IDLE` task.
    pub idle_min_granularity: u64,
    /// `wakeup_granularity_ns`: how far a waking task must be behind to preempt.
    pub wakeup_granularity: u64,
    /// Tasks beyond which the period grows: 8, until latency or `min_granularity` are set.
    pub nr_latency: u64,
    /// `GENTLE_FAIR_SLEEPERS`: sleepers get half a period of credit, not a whole one.
    pub gentle_fair_sleepers: bool,
    /// `START_DEBIT`: a new task begins a slice behind.
    pub start_debit: bool,
    /// The feature `NEXT_BUDDY`: prefer the task that was woken last.
    pub next_buddy: bool,
    /// The feature `LAST_BUDDY`: prefer the task that was displaced by a wakeup.
    pub last_buddy: bool,
    /// The feature `WAKEUP_PREEMPTION`: a wakeup may displace the running task.
    pub wakeup_preemption: bool,
}

impl CfsKnobs {
    /// The defaults on a machine with `cpus` CPUs (`sched_init_granularity`).
    #[must_use]
    pub fn of(cpus: usize) -> Self {
        let factor = weight::scaling(cpus);
        Self {
            latency: 6_000_000 * factor,
            min_granularity: 750_000 * factor,
            idle_min_granularity: 750_000,
            wakeup_granularity: 1_000_000 * factor,
            nr_latency: 8,
            gentle_fair_sleepers: true,
            start_debit: true,
            next_buddy: false,
            last_buddy: true,
            wakeup_preemption: true,
        }
    }

    /// Recomputes how many slices a period holds (`sched_update_scaling`). A sysctl does so by itself; in debugfs
    /// schedlab writes `tunable_scaling` after these knobs, which does the same.
    pub fn fit_period(&mut self) {
        self.nr_latency = self.latency.div_ceil(self.min_granularity.max(1));
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Entity {
    vruntime: i64,
    weight: u64,
    idle: bool,
    batch: bool,
    /// Time on a CPU, and what it was when the task was picked.
    ran: u64,
    ran_when_picked: u64,
    accounted: u64,
    on_rq: bool,
    cpu: usize,
    /// Orders equal vruntimes by their coming.
    turn: u64,
    /// Orders tasks by when they were queued or picked last (`cfs_tasks`).
    touched: u64,
    /// It was forked and has not woken: its vruntime counts from the queue's least.
    relative: bool,
    /// It is no task: its weight is that of a group.
    group: bool,
}

/// Where the scheduler of a group stands on a CPU.
#[derive(Clone, Debug, Default)]
struct Place {
    /// Fair tasks of the CPU, in all groups.
    tasks: u64,
    /// Weights of the group's entity and of its parent's queue, from the root down.
    parts: Vec<(u64, u64)>,
}

#[derive(Debug, Default)]
struct Rq {
    /// Queued tasks beside the one that runs.
    tree: Ordered,
    min_vruntime: i64,
    curr: Option<u32>,
    load: u64,
    nr: u64,
    idle_nr: u64,
    next: Option<u32>,
    last: Option<u32>,
    skip: Option<u32>,
    /// Kinds of buddies that a wakeup set, and that were cleared, until somebody asks.
    set: Buddies,
    cleared: Buddies,
    /// Time that what runs was charged, until somebody asks.
    charged: u64,
}

/// The fair scheduler of Linux 6.1.
#[derive(Debug)]
pub struct Cfs {
    knobs: CfsKnobs,
    entities: Vec<Entity>,
    rqs: Vec<Rq>,
    turns: u64,
    placer: Placer,
    balancer: Option<Balancer>,
    /// By CPU, where there are groups.
    places: Vec<Place>,
}

impl Cfs {
    #[must_use]
    pub fn new(cpus: usize, knobs: CfsKnobs, placer: Placer) -> Self {
        // `init_cfs_rq`; the entity of a group begins at 0 (`init_tg_cfs_entry`).
        let rqs = (0..cpus).map(|_| Rq { min_vruntime: -(1 << 20), ..Rq::default() }).collect();
        let entities = Vec::new();
        let places = Vec::new();
        Self { knobs, entities, rqs, turns: 0, placer, balancer: None, places }
    }

    /// The scheduler, balancing load between CPUs, with ticks of `tick_ns`; chances come from
    /// `seed`.
    #[must_use]
    pub fn balanced(mut self, hardware: &Hardware, tick_ns: u64, seed: u64) -> Self {
        self.balancer = Some(Balancer::new(hardware, tick_ns, seed));
        self
    }

    fn entity(&mut self, task: TaskId) -> &mut Entity {
        if self.entities.len() <= task.index() {
            self.entities.resize(task.index() + 1, Entity { weight: NICE_0, ..Entity::default() });
        }
        &mut self.entities[task.index()]
    }

    fn key(&self, task: u32) -> Key {
        let entity = &self.entities[task as usize];
        (entity.vruntime, entity.turn, task)
    }

    fn insert(&mut self, cpu: usize, task: u32) {
        self.turns += 1;
        self.entities[task as usize].turn = self.turns;
        let key = self.key(task);
        self.rqs[cpu].tree.insert(key);
    }

    fn remove(&mut self, cpu: usize, task: u32) {
        let key = self.key(task);
        self.rqs[cpu].tree.remove(key);
    }

    fn running(&self, cpu: usize) -> Option<u32> {
        self.rqs[cpu].curr.filter(|&task| self.entities[task as usize].on_rq)
    }

    /// Charges the running task for its time (`update_curr`).
    fn account(&mut self, now: u64, cpu: usize) {
        let Some(task) = self.rqs[cpu].curr else { return };
        let entity = &mut self.entities[task as usize];
        let time = now.saturating_sub(entity.accounted);
        if time > 0 {
            entity.accounted = now;
            entity.ran += time;
            entity.vruntime += virtual_time(time, entity.weight) as i64;
            self.rqs[cpu].charged += time;
            self.update_min(cpu);
        }
    }

    /// Moves the queue's least vruntime forward (`update_min_vruntime`).
    fn update_min(&mut self, cpu: usize) {
        let curr = self.running(cpu).map(|task| self.entities[task as usize].vruntime);
        let rq = &mut self.rqs[cpu];
        let left = rq.tree.first().map(|key| key.0);
        let least = match (curr, left) {
            (Some(curr), Some(left)) => curr.min(left),
            (curr, left) => curr.or(left).unwrap_or(rq.min_vruntime),
        };
        rq.min_vruntime = rq.min_vruntime.max(least);
    }

    /// `sched_slice`, with ALT_PERIOD and BASE_SLICE as in 6.1.
    fn slice(&self, cpu: usize, task: u32) -> u64 {
        let entity = &self.entities[task as usize];
        let rq = &self.rqs[cpu];
        let newcomer = u64::from(!entity.on_rq);
        let place = self.places.get(cpu);
        let tasks = place.map_or(rq.nr, |place| place.tasks.max(rq.nr)) + newcomer;
        let knobs = &self.knobs;
        let period = match tasks > knobs.nr_latency {
            true => tasks * knobs.min_granularity,
            false => knobs.latency,
        };
        let slice = share(period, entity.weight, rq.load + newcomer * entity.weight);
        let parts = place.map_or(&[][..], |place| &place.parts);
        let slice = parts.iter().rev().fold(slice, |slice, &(part, all)| share(slice, part, all));
        let least = match entity.idle && rq.idle_nr < rq.nr {
            true => knobs.idle_min_granularity,
            false => knobs.min_granularity,
        };
        slice.max(least)
    }

    /// How far behind the queue's least vruntime a task that wakes may stand (`place_entity`).
    fn credit(&self, task: u32) -> i64 {
        let knobs = &self.knobs;
        let idle = self.entities[task as usize].idle;
        let credit = if idle { knobs.min_granularity } else { knobs.latency };
        (if knobs.gentle_fair_sleepers { credit / 2 } else { credit }) as i64
    }

    /// `place_entity` of a task that wakes.
    fn place_sleeper(&mut self, cpu: usize, task: u32) {
        let least = self.rqs[cpu].min_vruntime - self.credit(task);
        let entity = &mut self.entities[task as usize];
        entity.vruntime = entity.vruntime.max(least);
    }

    /// `wakeup_preempt_entity`: whether `task` is so far left of `other` that it goes first: 1; -1 if it is right of it.
    fn precedes(&self, other: u32, task: u32) -> i32 {
        let entity = &self.entities[task as usize];
        let ahead = self.entities[other as usize].vruntime - entity.vruntime;
        let granularity = virtual_time(self.knobs.wakeup_granularity, entity.weight) as i64;
        match ahead {
            ..=0 => -1,
            _ if ahead > granularity => 1,
            _ => 0,
        }
    }

    fn clear_buddies(&mut self, cpu: usize, task: u32) {
        self.slight(cpu, TaskId(task), Buddies { next: true, last: true });
        let skip = &mut self.rqs[cpu].skip;
        *skip = skip.filter(|one| *one != task);
    }

    /// Whether the running task's slice is over (`check_preempt_tick`).
    fn check_tick(&mut self, cpu: usize, task: u32) -> bool {
        let slice = self.slice(cpu, task);
        let entity = &self.entities[task as usize];
        let ran = entity.ran - entity.ran_when_picked;
        if ran > slice {
            self.clear_buddies(cpu, task);
            return true;
        }
        let Some(left) = self.rqs[cpu].tree.first() else { return false };
        ran >= self.knobs.min_granularity && entity.vruntime - left.0 > slice as i64
    }

    /// The task that runs next (`pick_next_entity`).
    fn choose(&self, cpu: usize, curr: Option<u32>) -> Option<u32> {
        let rq = &self.rqs[cpu];
        let before = |a: u32, b: u32| {
            self.entities[a as usize].vruntime < self.entities[b as usize].vruntime
        };
        let in_tree = rq.tree.first().map(|key| key.2);
        let left = match (in_tree, curr) {
            (Some(first), Some(curr)) if before(curr, first) => curr,
            (Some(first), _) => first,
            (None, curr) => curr?,
        };
        let mut chosen = left;
        if rq.skip == Some(left) {
            let second = if Some(left) == curr {
                in_tree
            } else {
                let second = rq.tree.iter().nth(1).map(|key| key.2);
                match (second, curr) {
                    (Some(second), Some(curr)) if before(curr, second) => Some(curr),
                    (None, curr) => curr,
                    (second, _) => second,
                }
            };
            if let Some(second) = second.filter(|&second| self.precedes(second, left) < 1) {
                chosen = second;
            }
        }
        let fair = |buddy: &u32| self.precedes(*buddy, left) < 1;
        Some(rq.next.filter(fair).or(rq.last.filter(fair)).unwrap_or(chosen))
    }

    /// Exchanges the running task (`put_prev_entity`, `set_next_entity`).
    fn put(&mut self, scene: &Scene, cpu: usize, next: Option<u32>) {
        if next == self.rqs[cpu].curr {
            return;
        }
        if let Some(curr) = self.running(cpu) {
            self.insert(cpu, curr);
        }
        if let Some(next) = next {
            self.clear_buddies(cpu, next);
            self.remove(cpu, next);
            self.turns += 1;
            let entity = &mut self.entities[next as usize];
            entity.accounted = scene.task_clock(cpu);
            entity.touched = self.turns;
            entity.ran_when_picked = entity.ran;
        }
        self.rqs[cpu].curr = next;
    }

    /// Its queue is that of its own group, and the task that forks it runs in its own: the child begins as far ahead of
    /// one as of the other. It has its parent's weight until it is placed.
    fn place_fork(&mut self, scene: &Scene, cpu: usize, parent: TaskId, ahead: i64, child: TaskId) {
        let of = scene.task(parent);
        let idle = of.class == Class::Idle;
        let weight = weight::weight(of.nice, idle);
        let own = *self.entity(child);
        *self.entity(child) = Entity { weight, idle, ..own };
        let debit = match self.knobs.start_debit {
            true => virtual_time(self.slice(cpu, child.0), weight) as i64,
            false => 0,
        };
        *self.entity(child) = Entity { vruntime: ahead.max(debit), relative: true, ..own };
    }

    /// A task that left one CPU's virtual time joins another's.
    fn rebase(&mut self, task: u32, from: usize, to: usize) {
        let shift = self.rqs[to].min_vruntime - self.rqs[from].min_vruntime;
        self.entities[task as usize].vruntime += shift;
    }
}

impl Policy for Cfs {
    fn serves_all(&self) -> bool {
        true
    }

    fn select(&mut self, scene: &Scene, wake: &Wake) -> usize {
        if let Some(cpu) = balance::idlest(self, scene, wake) {
            return cpu;
        }
        let rqs = &self.rqs;
        self.placer.select(scene, wake, &|cpu| rqs[cpu].nr as usize)
    }

    /// Places a created task in the queue (`task_fork_fair`).
    fn fork(&mut self, scene: &Scene, cpu: usize, parent: Option<TaskId>, child: TaskId) {
        let ahead = self.running_ahead(scene, cpu);
        self.fork_from(scene, cpu, parent.map(|parent| (parent, ahead)), child);
    }

    /// It stands a slice ahead, as a forked task does, and so ahead of what slept meanwhile: the kernel's RCU thread.
    fn leads(&mut self, _: &Scene, cpu: usize, task: TaskId) {
        let weight = self.entity(task).weight;
        let ahead = virtual_time(self.slice(cpu, task.0), weight) as i64;
        self.entity(task).vruntime = self.rqs[cpu].min_vruntime + ahead;
    }

    /// Adds a task to the queue (`enqueue_entity`).
    fn enqueue(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival) {
        let view = scene.task(task);
        let entity = self.entity(task);
        if !entity.group {
            entity.idle = view.class == Class::Idle;
            entity.batch = view.class == Class::Batch;
            entity.weight = weight::weight(view.nice, entity.idle);
        }
        let from = std::mem::replace(&mut entity.cpu, cpu);
        self.account(scene.task_clock(cpu), cpu);
        if std::mem::take(&mut self.entities[task.index()].relative) {
            self.entities[task.index()].vruntime += self.rqs[cpu].min_vruntime;
        } else if arrival != Arrival::Woken {
            self.rebase(task.0, from, cpu);
        }
        if matches!(arrival, Arrival::Woken | Arrival::WokenElsewhere) {
            self.place_sleeper(cpu, task.0);
        }
        let entity = &mut self.entities[task.index()];
        entity.on_rq = true;
        entity.touched = self.turns;
        let weight = entity.weight;
        let idle = entity.idle;
        let rq = &mut self.rqs[cpu];
        rq.load += weight;
        rq.nr += 1;
        rq.idle_nr += u64::from(idle);
        self.insert(cpu, task.0);
        self.placer.queued(scene, cpu, task, weight);
        let nr = self.nr(cpu);
        let woke = matches!(arrival, Arrival::Woken | Arrival::WokenElsewhere);
        if let Some(balancer) = &mut self.balancer {
            balancer.queued(scene, cpu, nr, woke);
        }
    }

    /// Whether a woken task displaces the running one (`check_preempt_wakeup`).
    fn preempts(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival) -> bool {
        let Some(curr) = self.rqs[cpu].curr else { return false };
        let crowded = self.rqs[cpu].nr >= self.knobs.nr_latency;
        let marked = self.knobs.next_buddy && crowded && arrival != Arrival::New;
        let woken = self.entities[task.index()];
        if marked && !woken.idle {
            self.rqs[cpu].next = Some(task.0);
            self.rqs[cpu].set.next = true;
        }
        if scene.cpus[cpu].resched {
            return false;
        }
        let running = self.entities[curr as usize];
        let by_class = running.idle && !woken.idle;
        if !by_class {
            if woken.idle || woken.batch || !self.knobs.wakeup_preemption {
                return false;
            }
            self.account(scene.task_clock(cpu), cpu);
            if self.precedes(curr, task.0) < 1 {
                return false;
            }
            if !marked {
                self.rqs[cpu].next = Some(task.0);
                self.rqs[cpu].set.next = true;
            }
        }
        let may_be_last = running.on_rq && !running.group && !running.idle;
        if may_be_last && self.knobs.last_buddy && crowded {
            self.rqs[cpu].last = Some(curr);
            self.rqs[cpu].set.last = true;
        }
        true
    }

    /// Takes a task off the queue (`dequeue_entity`).
    fn dequeue(&mut self, scene: &Scene, cpu: usize, task: TaskId, _: Departure) {
        self.account(scene.task_clock(cpu), cpu);
        self.clear_buddies(cpu, task.0);
        if self.rqs[cpu].curr != Some(task.0) {
            self.remove(cpu, task.0);
        }
        let entity = &mut self.entities[task.index()];
        entity.on_rq = false;
        let weight = entity.weight;
        let idle = entity.idle;
        let rq = &mut self.rqs[cpu];
        rq.load -= weight;
        rq.nr -= 1;
        rq.idle_nr -= u64::from(idle);
        self.update_min(cpu);
        self.placer.left(scene, cpu, task);
    }

    /// Chooses the next task of a CPU (`pick_next_task_fair`).
    fn pick(&mut self, scene: &Scene, cpu: usize) -> Option<TaskId> {
        self.charge(scene, cpu);
        let next = match self.choose_next(cpu) {
            Choice::Entity(next) => Some(next),
            _ => None,
        };
        self.exchange(scene, cpu, next);
        self.placer.note_misfit(scene, cpu, next);
        next
    }

    fn charged(&mut self, cpu: usize) -> u64 {
        std::mem::take(&mut self.rqs[cpu].charged)
    }

    fn put_back(&mut self, scene: &Scene, cpu: usize) {
        self.charge(scene, cpu);
        self.put(scene, cpu, None);
    }

    /// Handles the tick of a CPU (`entity_tick`).
    fn tick(&mut self, scene: &Scene, cpu: usize) -> bool {
        self.account(scene.task_clock(cpu), cpu);
        self.placer.tick(scene, cpu);
        let Some(curr) = self.rqs[cpu].curr else { return false };
        self.rqs[cpu].nr > 1 && self.check_tick(cpu, curr)
    }

    /// Handles the yield of the running task (`yield_task_fair`).
    fn yields(&mut self, scene: &Scene, cpu: usize) {
        let Some(curr) = self.rqs[cpu].curr else { return };
        if self.nr(cpu) > 1 {
            self.clear_buddies(cpu, curr);
            self.account(scene.task_clock(cpu), cpu);
            self.rqs[cpu].skip = Some(curr);
        }
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
}

impl Nested for Cfs {
    fn running_ahead(&mut self, scene: &Scene, cpu: usize) -> i64 {
        self.account(scene.task_clock(cpu), cpu);
        let rq = &self.rqs[cpu];
        rq.curr.map_or(0, |curr| self.entities[curr as usize].vruntime - rq.min_vruntime)
    }

    fn fork_from(
        &mut self,
        scene: &Scene,
        cpu: usize,
        parent: Option<(TaskId, i64)>,
        child: TaskId,
    ) {
        let view = scene.task(child);
        let idle = view.class == Class::Idle;
        let batch = view.class == Class::Batch;
        let weight = weight::weight(view.nice, idle);
        *self.entity(child) = Entity { weight, idle, batch, cpu, ..Entity::default() };
        self.placer.begins(scene, child, weight);
        if let Some((parent, ahead)) = parent {
            self.place_fork(scene, cpu, parent, ahead, child);
        }
    }

    fn waiting(&self, cpu: usize) -> Vec<TaskId> {
        self.rqs[cpu].tree.iter().map(|key| TaskId(key.2)).collect()
    }

    fn reweigh(&mut self, scene: &Scene, cpu: usize, entity: TaskId, weight: u64) {
        if self.rqs[cpu].curr == Some(entity.0) {
            self.account(scene.task_clock(cpu), cpu);
        }
        let of = self.entity(entity);
        let before = std::mem::replace(&mut of.weight, weight);
        of.group = true;
        of.cpu = cpu;
        if of.on_rq {
            let rq = &mut self.rqs[cpu];
            rq.load = rq.load - before + weight;
        }
    }

    fn weights(&self, cpu: usize, entity: TaskId) -> (u64, u64) {
        let own = self.entities.get(entity.index()).map_or(NICE_0, |of| of.weight);
        (own, self.rqs[cpu].load)
    }

    fn stands(&mut self, cpu: usize, tasks: u64, parts: &[(u64, u64)]) {
        if self.places.is_empty() {
            self.places = vec![Place::default(); self.rqs.len()];
        }
        let place = &mut self.places[cpu];
        place.tasks = tasks;
        place.parts.clear();
        place.parts.extend_from_slice(parts);
    }

    /// `check_preempt_wakeup` asks for the classes of both tasks before it looks where they meet.
    fn decide_by_class(&mut self, _: TaskId, woken: Class, running: Class) -> Option<bool> {
        let displaces = running == Class::Idle && woken != Class::Idle;
        (displaces || woken != Class::Normal).then_some(displaces)
    }

    fn is_of_6_1(&self) -> bool {
        true
    }

    fn queued(&self, cpu: usize) -> usize {
        self.rqs[cpu].nr as usize
    }

    fn leads_group(&mut self, _: &Scene, cpu: usize, task: TaskId) {
        let weight = self.entity(task).weight;
        let slice = share(self.knobs.latency, weight, 3 * weight);
        let ahead = virtual_time(slice, weight) as i64;
        self.entity(task).vruntime = self.rqs[cpu].min_vruntime + ahead;
    }

    fn charge(&mut self, scene: &Scene, cpu: usize) {
        if self.running(cpu).is_some() {
            self.account(scene.task_clock(cpu), cpu);
        }
    }

    fn choose_next(&mut self, cpu: usize) -> Choice {
        let curr = self.running(cpu);
        self.choose(cpu, curr).map_or(Choice::Nobody, |next| Choice::Entity(TaskId(next)))
    }

    fn exchange(&mut self, scene: &Scene, cpu: usize, next: Option<TaskId>) {
        self.put(scene, cpu, next.map(|next| next.0));
    }

    fn favour(&mut self, cpu: usize, entity: TaskId, as_: Buddies) {
        if self.entities.get(entity.index()).is_some_and(|of| of.on_rq && !of.idle) {
            let rq = &mut self.rqs[cpu];
            rq.next = if as_.next { Some(entity.0) } else { rq.next };
            rq.last = if as_.last { Some(entity.0) } else { rq.last };
        }
    }

    fn slight(&mut self, cpu: usize, entity: TaskId, as_: Buddies) {
        let rq = &mut self.rqs[cpu];
        rq.cleared.next |= as_.next && rq.next.take_if(|one| *one == entity.0).is_some();
        rq.cleared.last |= as_.last && rq.last.take_if(|one| *one == entity.0).is_some();
    }

    fn take_set(&mut self, cpu: usize) -> Buddies {
        std::mem::take(&mut self.rqs[cpu].set)
    }

    fn take_cleared(&mut self, cpu: usize) -> Buddies {
        std::mem::take(&mut self.rqs[cpu].cleared)
    }
}

impl Queues for Cfs {
    fn balancer(&mut self) -> &mut Option<Balancer> {
        &mut self.balancer
    }

    fn nr(&self, cpu: usize) -> usize {
        self.rqs[cpu].nr as usize
    }

    fn misfit(&self, cpu: usize) -> u64 {
        self.placer.misfit(cpu)
    }

    fn placer(&mut self) -> &mut Placer {
        &mut self.placer
    }

    fn by_age(&self, cpu: usize) -> Vec<TaskId> {
        let mut tasks = self.waiting(cpu);
        tasks.sort_by_key(|task| self.entities[task.index()].touched);
        tasks
    }

    fn is_buddy(&self, cpu: usize, task: TaskId) -> bool {
        let rq = &self.rqs[cpu];
        rq.next == Some(task.0) || rq.last == Some(task.0)
    }

    fn carry(&mut self, scene: &Scene, moved: Move) {
        self.dequeue(scene, moved.from, moved.task, Departure::Moves);
        self.enqueue(scene, moved.to, moved.task, Arrival::Moved);
    }
}
