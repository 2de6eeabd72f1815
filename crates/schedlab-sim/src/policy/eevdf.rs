//! `eevdf-6.12`: the fair scheduler of Debian's Linux 6.12.117. `groups` builds
//! hierarchies of it.
//!
//! The functions named in the comments are those of kernel/sched/fair.c of that version. A task is eligible when it
//! received no more than its share; of the eligible tasks the one with the earliest virtual deadline runs. Left out:
//! HRTICK.

use super::balance::{self, Balancer, Queues};
use super::groups::{Buddies, Choice, Nested};
use super::ordered::Ordered;
use super::place::Placer;
use super::weight::{self, NICE_0, virtual_time};
use super::{Arrival, Departure, Move, Moves, Policy, Push, Wake};
use crate::policy_view::{Class, Hardware, Scene, TaskId};

/// The tunables and features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EevdfKnobs {
    /// `base_slice_ns`: what a task asks for at a time.
    pub base_slice: u64,
    /// The tick, below which lag is not bounded.
    pub tick: u64,
    /// `RUN_TO_PARITY`: a task that was picked keeps the CPU until it is no longer eligible or its slice is used up.
    pub run_to_parity: bool,
    /// `PREEMPT_SHORT`: a task with a shorter slice may preempt before that.
    pub preempt_short: bool,
    /// `PLACE_LAG`: a task that wakes keeps its lag.
    pub place_lag: bool,
    /// `PLACE_DEADLINE_INITIAL`: a new task begins with half a slice.
    pub place_deadline_initial: bool,
    /// `PLACE_REL_DEADLINE`: a task that moves keeps the distance to its deadline.
    pub place_rel_deadline: bool,
    /// `DELAY_DEQUEUE`: a task that sleeps while it is not eligible stays in the queue until it is.
    pub delay_dequeue: bool,
    /// `DELAY_ZERO`: such a task gains nothing by its sleep.
    pub delay_zero: bool,
    /// The feature `NEXT_BUDDY`: prefer the task that was woken last.
    pub next_buddy: bool,
    /// The feature `PICK_BUDDY`: pick the preferred task if it is eligible.
    pub pick_buddy: bool,
    /// The feature `WAKEUP_PREEMPTION`: a wakeup may displace the running task.
    pub wakeup_preemption: bool,
}

impl EevdfKnobs {
    /// The defaults on a machine with `cpus` CPUs and a tick of `tick` nanoseconds.
    #[must_use]
    pub fn of(cpus: usize, tick: u64) -> Self {
        Self {
            base_slice: 700_000 * weight::scaling(cpus),
            tick,
            run_to_parity: true,
            preempt_short: true,
            place_lag: true,
            place_deadline_initial: true,
            place_rel_deadline: true,
            delay_dequeue: true,
            delay_zero: true,
            next_buddy: false,
            pick_buddy: true,
            wakeup_preemption: true,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Entity {
    vruntime: i64,
    deadline: i64,
    slice: u64,
    custom: bool,
    /// While queued and not running, and while it sleeps: the lag. While it runs: the deadline when it was picked.
    vlag: i64,
    relative: bool,
    delayed: bool,
    weight: u64,
    idle: bool,
    batch: bool,
    accounted: u64,
    on_rq: bool,
    turn: u64,
    /// Orders tasks by when they were queued or picked last (`cfs_tasks`).
    touched: u64,
    /// It is no task: its weight is that of a group.
    group: bool,
}

impl Entity {
    fn is_protected(&self) -> bool {
        self.vlag == self.deadline
    }
}

#[derive(Debug, Default)]
struct Rq {
    /// Queued tasks beside the one that runs, by deadline.
    tree: Ordered,
    /// The zero point of `sum`.
    zero: i64,
    /// The sum of weight times vruntime (from `zero`), and of weights, over the tree.
    sum: i64,
    load: i64,
    curr: Option<u32>,
    /// Queued tasks, the running one and those whose dequeue is delayed included.
    nr: usize,
    delayed: usize,
    next: Option<u32>,
    /// A slice ended while time was accounted: the running task is to be displaced.
    resched: bool,
    /// Kinds of buddies that a wakeup set, and that were cleared, until somebody asks.
    set: Buddies,
    cleared: Buddies,
    /// Time that what runs was charged, until somebody asks.
    charged: u64,
}

/// The fair scheduler of Linux 6.12.
#[derive(Debug)]
pub struct Eevdf {
    knobs: EevdfKnobs,
    entities: Vec<Entity>,
    rqs: Vec<Rq>,
    turns: u64,
    placer: Placer,
    balancer: Option<Balancer>,
}

impl Eevdf {
    #[must_use]
    pub fn new(cpus: usize, knobs: EevdfKnobs, placer: Placer) -> Self {
        let rqs = (0..cpus).map(|_| Rq::default()).collect();
        let entities = Vec::new();
        Self { knobs, entities, rqs, turns: 0, placer, balancer: None }
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

    fn of(&self, task: u32) -> &Entity {
        &self.entities[task as usize]
    }

    /// Inserts a task into the tree (`__enqueue_entity`).
    fn insert(&mut self, cpu: usize, task: u32) {
        self.turns += 1;
        let entity = &mut self.entities[task as usize];
        entity.turn = self.turns;
        let rq = &mut self.rqs[cpu];
        rq.sum += (entity.vruntime - rq.zero) * entity.weight as i64;
        rq.load += entity.weight as i64;
        rq.tree.insert((entity.deadline, entity.turn, task));
    }

    /// Removes a task from the tree (`__dequeue_entity`).
    fn remove(&mut self, cpu: usize, task: u32) {
        let entity = &self.entities[task as usize];
        let rq = &mut self.rqs[cpu];
        rq.tree.remove((entity.deadline, entity.turn, task));
        rq.sum -= (entity.vruntime - rq.zero) * entity.weight as i64;
        rq.load -= entity.weight as i64;
    }

    /// Runnable tasks: those that sleep but have not left the queue do not count.
    fn runnable(&self, cpu: usize) -> usize {
        self.rqs[cpu].nr - self.rqs[cpu].delayed
    }

    fn running(&self, cpu: usize) -> Option<u32> {
        self.rqs[cpu].curr.filter(|&task| self.of(task).on_rq)
    }

    /// The sum and the weights of all queued tasks, the running one included.
    fn totals(&self, cpu: usize) -> (i64, i64) {
        let rq = &self.rqs[cpu];
        let curr = self.running(cpu).map(|task| self.of(task));
        let of_curr = curr.map_or((0, 0), |entity| {
            ((entity.vruntime - rq.zero) * entity.weight as i64, entity.weight as i64)
        });
        (rq.sum + of_curr.0, rq.load + of_curr.1)
    }

    /// `avg_vruntime`: the zero-lag point, rounded down. It becomes the zero point of the sum.
    fn average(&mut self, cpu: usize) -> i64 {
        let (sum, load) = self.totals(cpu);
        let shift = if self.rqs[cpu].load != 0 {
            sum.div_euclid(load)
        } else {
            let curr = self.running(cpu).map(|task| self.of(task).vruntime);
            curr.map_or(0, |vruntime| vruntime - self.rqs[cpu].zero)
        };
        let rq = &mut self.rqs[cpu];
        rq.sum -= rq.load * shift;
        rq.zero += shift;
        rq.zero
    }

    /// Whether a task has had less than its share (`entity_eligible`).
    fn is_eligible(&self, cpu: usize, task: u32) -> bool {
        let (sum, load) = self.totals(cpu);
        sum >= (self.of(task).vruntime - self.rqs[cpu].zero) * load
    }

    /// Stores the lag of a task that leaves (`update_entity_lag`).
    fn update_lag(&mut self, cpu: usize, task: u32) {
        let average = self.average(cpu);
        let tick = self.knobs.tick;
        let entity = &mut self.entities[task as usize];
        let limit = virtual_time((2 * entity.slice).max(tick), entity.weight) as i64;
        entity.vlag = (average - entity.vruntime).clamp(-limit, limit);
    }

    /// `update_deadline`: whether the slice is used up.
    fn renews(&mut self, cpu: usize, task: u32) -> bool {
        let base = self.knobs.base_slice;
        let entity = &mut self.entities[task as usize];
        if entity.vruntime < entity.deadline {
            return false;
        }
        if !entity.custom {
            entity.slice = base;
        }
        entity.deadline = entity.vruntime + virtual_time(entity.slice, entity.weight) as i64;
        self.average(cpu);
        true
    }

    /// Charges the running task for its time (`update_curr`).
    fn account(&mut self, now: u64, cpu: usize) {
        let Some(task) = self.rqs[cpu].curr else { return };
        let entity = &mut self.entities[task as usize];
        let time = now.saturating_sub(entity.accounted);
        if time == 0 {
            return;
        }
        entity.accounted = now;
        entity.vruntime += virtual_time(time, entity.weight) as i64;
        self.rqs[cpu].charged += time;
        let used_up = self.renews(cpu, task);
        if self.rqs[cpu].nr == 1 {
            return;
        }
        if used_up || self.lost_to_shorter(cpu, task) {
            self.rqs[cpu].resched = true;
            self.slight(cpu, TaskId(task), Buddies::NEXT);
        }
    }

    /// Whether the running task lost to a shorter slice (`did_preempt_short`).
    fn lost_to_shorter(&self, cpu: usize, task: u32) -> bool {
        self.knobs.preempt_short && !self.of(task).is_protected() && !self.is_eligible(cpu, task)
    }

    /// Whether a task wins by its shorter slice (`do_preempt_short`).
    fn beats_by_its_slice(&self, cpu: usize, task: u32, curr: u32) -> bool {
        let woken = self.of(task);
        let running = self.of(curr);
        self.knobs.preempt_short
            && woken.slice < running.slice
            && self.is_eligible(cpu, task)
            && (woken.deadline < running.deadline || !self.is_eligible(cpu, curr))
    }

    /// What ran is no longer kept until the end of its slice (`cancel_protect_slice`).
    fn cancel_protection(&mut self, curr: u32) {
        let entity = &mut self.entities[curr as usize];
        entity.vlag += i64::from(entity.is_protected());
    }

    /// Places a task in the queue by its lag (`place_entity`).
    fn place(&mut self, cpu: usize, task: u32, new: bool) {
        let average = self.average(cpu);
        let (_, load) = self.totals(cpu);
        let queued = self.rqs[cpu].nr > 0;
        let knobs = self.knobs;
        let entity = &mut self.entities[task as usize];
        if !entity.custom {
            entity.slice = knobs.base_slice;
        }
        let mut vslice = virtual_time(entity.slice, entity.weight) as i64;
        let lag = match knobs.place_lag && queued {
            true => entity.vlag * (load + entity.weight as i64) / load.max(1),
            false => 0,
        };
        entity.vruntime = average - lag;
        if knobs.place_rel_deadline && std::mem::take(&mut entity.relative) {
            entity.deadline += entity.vruntime;
            return;
        }
        if knobs.place_deadline_initial && new {
            vslice /= 2;
        }
        entity.deadline = entity.vruntime + vslice;
    }

    /// The eligible task with the earliest deadline (`pick_eevdf`).
    fn earliest(&self, cpu: usize) -> Option<u32> {
        let rq = &self.rqs[cpu];
        let curr = self.running(cpu);
        if rq.nr == 1 {
            return curr.or_else(|| rq.tree.first().map(|key| key.2));
        }
        let curr = curr.filter(|&task| self.is_eligible(cpu, task));
        if let Some(curr) = curr
            && self.knobs.run_to_parity
            && self.of(curr).is_protected()
        {
            return Some(curr);
        }
        let best = rq.tree.iter().map(|key| key.2).find(|&task| self.is_eligible(cpu, task));
        match (best, curr) {
            (Some(best), Some(curr)) if self.of(curr).deadline < self.of(best).deadline => {
                Some(curr)
            }
            (best, curr) => best.or(curr),
        }
    }

    /// The end of `dequeue_entity`: the task is out of the queue, with its lag.
    fn leave(&mut self, cpu: usize, task: u32, sleeps: bool) {
        self.update_lag(cpu, task);
        let keeps = self.knobs.place_rel_deadline && !sleeps;
        let runs = self.rqs[cpu].curr == Some(task);
        if !runs {
            self.remove(cpu, task);
        }
        let delay_zero = self.knobs.delay_zero;
        let entity = &mut self.entities[task as usize];
        if keeps {
            entity.deadline -= entity.vruntime;
            entity.relative = true;
        }
        entity.on_rq = false;
        let was_delayed = std::mem::take(&mut entity.delayed);
        if was_delayed && delay_zero {
            entity.vlag = entity.vlag.min(0);
        }
        self.rqs[cpu].nr -= 1;
        self.rqs[cpu].delayed -= usize::from(was_delayed);
    }

    /// Exchanges the running task (`put_prev_entity`, `set_next_entity`).
    fn put(&mut self, scene: &Scene, cpu: usize, next: Option<u32>) {
        if let Some(curr) = self.running(cpu) {
            self.insert(cpu, curr);
        }
        self.rqs[cpu].curr = None;
        if let Some(next) = next {
            self.slight(cpu, TaskId(next), Buddies::NEXT);
            self.remove(cpu, next);
            self.turns += 1;
            let entity = &mut self.entities[next as usize];
            entity.vlag = entity.deadline;
            entity.accounted = scene.task_clock(cpu);
            entity.touched = self.turns;
        }
        self.rqs[cpu].curr = next;
    }

    /// `requeue_delayed_entity`: a task wakes that has not left the queue yet.
    fn requeue(&mut self, cpu: usize, task: u32) {
        if self.knobs.delay_zero {
            // The lag of the task that runs is in its place, and is needed as the mark of its slice.
            self.update_lag(cpu, task);
            if self.of(task).vlag > 0 {
                let runs = self.rqs[cpu].curr == Some(task);
                self.rqs[cpu].nr -= 1;
                if !runs {
                    self.remove(cpu, task);
                }
                self.entities[task as usize].vlag = 0;
                self.place(cpu, task, false);
                if !runs {
                    self.insert(cpu, task);
                }
                self.rqs[cpu].nr += 1;
            }
        }
        self.entities[task as usize].delayed = false;
        self.rqs[cpu].delayed -= 1;
    }
}

impl Policy for Eevdf {
    fn serves_all(&self) -> bool {
        true
    }

    fn select(&mut self, scene: &Scene, wake: &Wake) -> usize {
        if self.entity(wake.task).delayed {
            return scene.task(wake.task).cpu;
        }
        if let Some(cpu) = balance::idlest(self, scene, wake) {
            return cpu;
        }
        let rqs = &self.rqs;
        self.placer.select(scene, wake, &|cpu| rqs[cpu].nr - rqs[cpu].delayed)
    }

    fn fork(&mut self, scene: &Scene, _: usize, _: Option<TaskId>, child: TaskId) {
        let view = scene.task(child);
        let idle = view.class == Class::Idle;
        let weight = weight::weight(view.nice, idle);
        *self.entity(child) = Entity { weight, idle, ..Entity::default() };
        self.placer.begins(scene, child, weight);
    }

    /// Adds a task to the queue (`enqueue_task_fair`, `enqueue_entity`).
    fn enqueue(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival) {
        if self.entity(task).delayed {
            let weight = self.entities[task.index()].weight;
            self.placer.queued(scene, cpu, task, weight);
            return self.requeue(cpu, task.0);
        }
        let view = scene.task(task);
        let entity = self.entity(task);
        if !entity.group {
            entity.idle = view.class == Class::Idle;
            entity.batch = view.class == Class::Batch;
            entity.weight = weight::weight(view.nice, entity.idle);
        }
        entity.custom = view.slice_ns > 0;
        if entity.custom {
            entity.slice = view.slice_ns.clamp(100_000, 100_000_000);
        }
        self.account(scene.task_clock(cpu), cpu);
        self.place(cpu, task.0, arrival == Arrival::New);
        self.insert(cpu, task.0);
        let entity = &mut self.entities[task.index()];
        entity.on_rq = true;
        entity.touched = self.turns;
        let weight = entity.weight;
        self.rqs[cpu].nr += 1;
        self.placer.queued(scene, cpu, task, weight);
        let woke = matches!(arrival, Arrival::Woken | Arrival::WokenElsewhere);
        let nr = self.runnable(cpu);
        if let Some(balancer) = &mut self.balancer {
            balancer.queued(scene, cpu, nr, woke);
        }
    }

    /// Whether a woken task displaces the running one (`check_preempt_wakeup_fair`).
    fn preempts(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival) -> bool {
        let Some(curr) = self.rqs[cpu].curr else { return false };
        if curr == task.0 {
            return false;
        }
        if self.knobs.next_buddy && arrival != Arrival::New {
            self.rqs[cpu].next = Some(task.0);
            self.rqs[cpu].set.next = true;
        }
        if std::mem::take(&mut self.rqs[cpu].resched) {
            return true;
        }
        if scene.cpus[cpu].resched || !self.knobs.wakeup_preemption {
            return false;
        }
        let woken = *self.of(task.0);
        let running = *self.of(curr);
        if running.idle != woken.idle {
            if running.idle {
                self.cancel_protection(curr);
            }
            return running.idle;
        }
        if woken.idle || woken.batch {
            return false;
        }
        self.account(scene.task_clock(cpu), cpu);
        if self.beats_by_its_slice(cpu, task.0, curr) {
            self.cancel_protection(curr);
        }
        std::mem::take(&mut self.rqs[cpu].resched) || self.earliest(cpu) == Some(task.0)
    }

    /// Takes a task off the queue (`dequeue_entity`).
    fn dequeue(&mut self, scene: &Scene, cpu: usize, task: TaskId, departure: Departure) {
        self.account(scene.task_clock(cpu), cpu);
        self.placer.left(scene, cpu, task);
        self.slight(cpu, task, Buddies::NEXT);
        let sleeps = departure == Departure::Sleeps;
        if sleeps && self.knobs.delay_dequeue && !self.is_eligible(cpu, task.0) {
            self.entities[task.index()].delayed = true;
            self.rqs[cpu].delayed += 1;
            return;
        }
        self.leave(cpu, task.0, departure != Departure::Moves);
    }

    /// Chooses the next task of a CPU (`pick_next_task_fair`, `pick_next_entity`).
    fn pick(&mut self, scene: &Scene, cpu: usize) -> Option<TaskId> {
        let prev = self.rqs[cpu].curr.map(TaskId);
        let next = loop {
            self.charge(scene, cpu);
            match self.choose_next(cpu) {
                Choice::Entity(next) => break Some(next),
                Choice::Left(_) => {}
                Choice::Nobody => break None,
            }
        };
        self.exchange(scene, cpu, next);
        if next != prev {
            self.placer.note_misfit(scene, cpu, next);
        }
        next
    }

    fn charged(&mut self, cpu: usize) -> u64 {
        std::mem::take(&mut self.rqs[cpu].charged)
    }

    fn put_back(&mut self, scene: &Scene, cpu: usize) {
        self.charge(scene, cpu);
        if self.rqs[cpu].curr.is_some() {
            self.put(scene, cpu, None);
        }
        self.rqs[cpu].resched = false;
    }

    /// Handles the tick of a CPU (`entity_tick`).
    fn tick(&mut self, scene: &Scene, cpu: usize) -> bool {
        self.account(scene.task_clock(cpu), cpu);
        self.placer.tick(scene, cpu);
        std::mem::take(&mut self.rqs[cpu].resched)
    }

    /// Handles the yield of the running task (`yield_task_fair`).
    fn yields(&mut self, scene: &Scene, cpu: usize) {
        let Some(curr) = self.rqs[cpu].curr else { return };
        if self.rqs[cpu].nr == 1 {
            return;
        }
        self.slight(cpu, TaskId(curr), Buddies::NEXT);
        self.account(scene.task_clock(cpu), cpu);
        if self.is_eligible(cpu, curr) {
            let entity = &mut self.entities[curr as usize];
            entity.vruntime = entity.deadline;
            self.renews(cpu, curr);
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

impl Nested for Eevdf {
    fn waiting(&self, cpu: usize) -> Vec<TaskId> {
        let queued = self.rqs[cpu].tree.iter().map(|key| key.2);
        queued.filter(|&task| !self.of(task).delayed).map(TaskId).collect()
    }

    /// `reweight_entity` and `reweight_eevdf`: it keeps its lag and the distance to its deadline in real time.
    fn reweigh(&mut self, scene: &Scene, cpu: usize, entity: TaskId, weight: u64) {
        self.entity(entity).group = true;
        let before = self.of(entity.0).weight;
        if before == weight {
            return;
        }
        let scaled = |time: i64| time * before as i64 / weight as i64;
        if !self.of(entity.0).on_rq {
            let of = &mut self.entities[entity.index()];
            of.vlag = scaled(of.vlag);
            of.weight = weight;
            return;
        }
        self.account(scene.task_clock(cpu), cpu);
        let average = self.average(cpu);
        let runs = self.rqs[cpu].curr == Some(entity.0);
        if !runs {
            self.remove(cpu, entity.0);
        }
        let tick = self.knobs.tick;
        let of = &mut self.entities[entity.index()];
        let limit = virtual_time((2 * of.slice).max(tick), before) as i64;
        of.vruntime = average - scaled((average - of.vruntime).clamp(-limit, limit));
        of.deadline = average + scaled(of.deadline - average);
        of.weight = weight;
        if !runs {
            self.insert(cpu, entity.0);
        }
    }

    /// `check_preempt_wakeup_fair` asks for the class of the woken task where the entities' classes are equal.
    fn decide_by_class(&mut self, entity: TaskId, woken: Class, _: Class) -> Option<bool> {
        self.entity(entity).batch = woken != Class::Normal;
        None
    }

    fn weights(&self, cpu: usize, entity: TaskId) -> (u64, u64) {
        let own = self.entities.get(entity.index()).map_or(NICE_0, |of| of.weight);
        let (_, all) = self.totals(cpu);
        (own, all.unsigned_abs())
    }

    fn queued(&self, cpu: usize) -> usize {
        self.rqs[cpu].nr
    }

    fn charge(&mut self, scene: &Scene, cpu: usize) {
        if self.running(cpu).is_some() {
            self.account(scene.task_clock(cpu), cpu);
        }
    }

    /// `pick_task_fair` and `pick_next_entity` at one level.
    fn choose_next(&mut self, cpu: usize) -> Choice {
        if self.rqs[cpu].nr == 0 {
            return Choice::Nobody;
        }
        let buddy = self.rqs[cpu].next.filter(|_| self.knobs.pick_buddy);
        if let Some(buddy) = buddy.filter(|&buddy| self.is_eligible(cpu, buddy)) {
            return Choice::Entity(TaskId(buddy));
        }
        match self.earliest(cpu) {
            Some(task) if self.of(task).delayed => {
                self.leave(cpu, task, true);
                Choice::Left(TaskId(task))
            }
            Some(task) => Choice::Entity(TaskId(task)),
            None => Choice::Nobody,
        }
    }

    fn exchange(&mut self, scene: &Scene, cpu: usize, next: Option<TaskId>) {
        let next = next.map(|next| next.0);
        if next != self.rqs[cpu].curr {
            self.put(scene, cpu, next);
        }
        self.rqs[cpu].resched = false;
    }

    fn favour(&mut self, cpu: usize, entity: TaskId, as_: Buddies) {
        let queued = |of: &Entity| of.on_rq && !of.delayed && !of.idle;
        if as_.next && self.entities.get(entity.index()).is_some_and(queued) {
            self.rqs[cpu].next = Some(entity.0);
        }
    }

    fn slight(&mut self, cpu: usize, entity: TaskId, as_: Buddies) {
        let rq = &mut self.rqs[cpu];
        rq.cleared.next |= as_.next && rq.next.take_if(|one| *one == entity.0).is_some();
    }

    fn take_set(&mut self, cpu: usize) -> Buddies {
        std::mem::take(&mut self.rqs[cpu].set)
    }

    fn take_cleared(&mut self, cpu: usize) -> Buddies {
        std::mem::take(&mut self.rqs[cpu].cleared)
    }

    fn holds(&self, task: TaskId) -> bool {
        self.entities.get(task.index()).is_some_and(|of| of.delayed)
    }
}

impl Queues for Eevdf {
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
        let mut tasks = self.waiting(cpu);
        tasks.sort_by_key(|task| self.of(task.0).touched);
        tasks
    }

    fn is_buddy(&self, cpu: usize, task: TaskId) -> bool {
        self.rqs[cpu].next == Some(task.0)
    }

    fn carry(&mut self, scene: &Scene, moved: Move) {
        self.dequeue(scene, moved.from, moved.task, Departure::Moves);
        self.enqueue(scene, moved.to, moved.task, Arrival::Moved);
    }
}
