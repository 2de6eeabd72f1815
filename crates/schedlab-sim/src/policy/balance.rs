//! Moving tasks between CPUs (Linux 6.1.192, kernel/sched/fair.c: `rebalance_domains`, `load_balance`,
//! `sched_balance_newidle`, `nohz_balancer_kick`, `_nohz_idle_balance`, `active_load_balance_cpu_stop`).
//!
//! A busy CPU balances at its tick once a domain's interval is over. While CPUs idle, a busy one has the first of
//! them balance for all. A CPU that is about to idle looks for a task itself. A new task begins in the idlest part of
//! the machine (`idlest`). Left out: tasks that may not come to this CPU are not offered to its neighbours, nodes are
//! not serialised, and looking takes no time of the CPU. Looking at a CPU counts as 100 ns where the kernel weighs its
//! cost against the time that a CPU idles.

mod attempt;
mod domains;
mod idlest;
mod stats;

use super::place::Placer;
use super::{Move, Moves, Push, Wake};
use crate::policy_view::{Scene, TaskId};
use attempt::Attempt;
use domains::{Level, levels};
use schedlab_stats::Random;
use stats::Idleness;

/// A task that ran this lately has a warm cache (`sysctl_sched_migration_cost`).
const MIGRATION_COST: u64 = 500_000;
/// What looking at a CPU counts, in nanoseconds.
const LOOK: u64 = 100;
/// Ticks before the simulation begins: the machine has been up and idle, so every domain is due.
const SINCE_BOOT: u64 = 1 << 20;
/// How long the load of idle CPUs is left as it was (`LOAD_AVG_PERIOD`), in nanoseconds.
const BLOCKED: u64 = 32_000_000;
const SECOND: u64 = 1_000_000_000;

pub(super) trait Queues {
    /// The state of load balancing, if the policy balances.
    fn balancer(&mut self) -> &mut Option<Balancer>;
    /// Runnable fair tasks of a CPU, the running one included.
    fn nr(&self, cpu: usize) -> usize;
    /// The load averages of CPUs and tasks.
    fn placer(&mut self) -> &mut Placer;
    /// The load of the running task of a CPU that is too small for it; else 0.
    fn misfit(&self, cpu: usize) -> u64;
    /// Tasks that wait on a CPU, the one that was queued or picked longest ago first.
    fn by_age(&self, cpu: usize) -> Vec<TaskId>;
    /// Whether a task is the one that a CPU runs next, or goes back to.
    fn is_buddy(&self, cpu: usize, task: TaskId) -> bool;
    /// Takes a task out of one queue and puts it into another.
    fn carry(&mut self, scene: &Scene, moved: Move);
}

/// Has the balancer of some queues act on them; `None`: they have none.
pub(super) fn with<Q: Queues, R>(
    queues: &mut Q,
    act: impl FnOnce(&mut Balancer, &mut Q) -> R,
) -> Option<R> {
    let mut balancer = queues.balancer().take()?;
    let result = act(&mut balancer, queues);
    *queues.balancer() = Some(balancer);
    Some(result)
}

/// Where a new task begins; `None`: the task is not new, or nobody balances these queues.
pub(super) fn idlest<Q: Queues>(queues: &mut Q, scene: &Scene, wake: &Wake) -> Option<usize> {
    if !wake.new {
        return None;
    }
    with(queues, |balancer, queues| balancer.idlest(scene, queues, wake))
}

/// Runnable tasks of a CPU, of all classes.
fn runnable(scene: &Scene, queues: &dyn Queues, cpu: usize) -> usize {
    queues.nr(cpu) + scene.cpus[cpu].above as usize
}

/// How a CPU fares with one of its domains.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The interval between two balances, in milliseconds.
    interval: u64,
    /// The time of the last balance, in ticks.
    last: u64,
    failed: u32,
    cost: u64,
    decayed: u64,
    calls: u32,
    successes: u32,
    /// Successes in 1,024 calls.
    ratio: u32,
}

#[derive(Clone, Copy, Debug)]
struct OfRq {
    /// The time of the next balance, in ticks.
    next: u64,
    idle_stamp: Option<u64>,
    average_idle: u64,
    most_cost: u64,
    /// A task is about to be pushed off it.
    pushed: bool,
}

/// Balances load between CPUs.
#[derive(Debug)]
pub(super) struct Balancer {
    levels: Vec<Level>,
    /// By CPU, then level.
    states: Vec<Vec<State>>,
    rqs: Vec<OfRq>,
    /// Whether any CPU may have more than one task.
    overload: bool,
    nohz_next: u64,
    next_blocked: u64,
    dice: Random,
    tick_ns: u64,
}

impl Balancer {
    /// For these CPUs, with ticks of `tick_ns` and chances by `seed`.
    pub(super) fn new(hardware: &crate::Hardware, tick_ns: u64, seed: u64) -> Self {
        let levels = levels(hardware);
        let dice = Random::new(seed ^ 0x6261_6c61_6e63_6572);
        let state = |level: &Level, cpu: usize| {
            let calls = 512;
            let successes = 256;
            let ratio = 512;
            let interval = level.span(cpu).len() as u64;
            State { interval, last: 0, failed: 0, cost: 0, decayed: 0, calls, successes, ratio }
        };
        let of_cpu = |cpu: usize| levels.iter().map(|level| state(level, cpu)).collect();
        let states = (0..hardware.cpus()).map(of_cpu).collect();
        let rq = OfRq {
            next: 0,
            idle_stamp: None,
            average_idle: 2 * MIGRATION_COST,
            most_cost: MIGRATION_COST,
            pushed: false,
        };
        let rqs = vec![rq; hardware.cpus()];
        let tick_ns = tick_ns.max(1);
        Self { levels, states, rqs, overload: false, nohz_next: 0, next_blocked: 0, dice, tick_ns }
    }

    fn jiffies(&self, scene: &Scene) -> u64 {
        scene.now / self.tick_ns + SINCE_BOOT
    }

    fn in_ticks(&self, ms: u64) -> u64 {
        (ms * 1_000_000).div_ceil(self.tick_ns)
    }

    /// A task was queued on a CPU, which now has `nr` (`add_nr_running`, and `ttwu_do_wakeup` where it woke).
    pub(super) fn queued(&mut self, scene: &Scene, cpu: usize, nr: usize, woke: bool) {
        self.overload |= nr + scene.cpus[cpu].above as usize >= 2;
        if let Some(since) = self.rqs[cpu].idle_stamp.filter(|_| woke) {
            let rq = &mut self.rqs[cpu];
            let idled = scene.now.saturating_sub(since);
            let average = rq.average_idle;
            let next = if idled < average {
                average - (average - idled) / 8
            } else {
                average + (idled - average) / 8
            };
            rq.average_idle = next.min(2 * rq.most_cost);
            rq.idle_stamp = None;
        }
    }

    /// `sched_balance_newidle`: a CPU is about to idle.
    pub(super) fn newidle(
        &mut self,
        scene: &Scene,
        queues: &mut dyn Queues,
        cpu: usize,
        moves: &mut Moves,
    ) {
        queues.placer().note_misfit(scene, cpu, None);
        if self.levels.is_empty() || scene.cpus[cpu].pending > 0 {
            return;
        }
        self.rqs[cpu].idle_stamp = Some(scene.now);
        let now = self.jiffies(scene);
        let mut next = now + SECOND / self.tick_ns;
        next = next.min(self.due(cpu, 0));
        if self.overload && self.rqs[cpu].average_idle >= self.states[cpu][0].cost {
            queues.placer().sync(scene, cpu);
            let mut spent = 0;
            for level in 0..self.levels.len() {
                next = next.min(self.due(cpu, level));
                if self.rqs[cpu].average_idle < spent + self.states[cpu][level].cost {
                    break;
                }
                // NI_RANDOM
                let chance = 1 + self.states[cpu][level].ratio;
                if self.dice.below(1_024) as u32 > chance {
                    self.states[cpu][level].tell(0);
                    continue;
                }
                let cost = LOOK * self.levels[level].span(cpu).len() as u64;
                let attempt = Attempt { scene, cpu, level, idle: Idleness::New };
                let (moved, _) = self.load_balance(&attempt, queues, moves);
                spent += cost;
                let weight = if moved > 0 { (1_024 + chance / 2) / chance } else { 0 };
                self.states[cpu][level].pay(cost, weight, now, self.tick_ns);
                if moved > 0 {
                    break;
                }
            }
            let rq = &mut self.rqs[cpu];
            rq.most_cost = rq.most_cost.max(spent);
        }
        let rq = &mut self.rqs[cpu];
        rq.next = rq.next.min(next);
        if !moves.done.is_empty() {
            rq.idle_stamp = None;
        }
    }

    /// When an idle CPU balances a domain next.
    fn due(&self, cpu: usize, level: usize) -> u64 {
        self.states[cpu][level].last + self.interval(cpu, level, false)
    }

    /// The balance interval in ticks (`get_sd_balance_interval`).
    fn interval(&self, cpu: usize, level: usize, busy: bool) -> u64 {
        let interval = self.states[cpu][level].interval;
        let ticks = match busy {
            true => self.in_ticks(interval * 16).saturating_sub(1),
            false => self.in_ticks(interval),
        };
        let most = (SECOND / self.tick_ns) * self.rqs.len() as u64 / 10;
        ticks.clamp(1, most.max(1))
    }

    /// The tick: busy CPUs balance what is due, and have idle ones do so (`trigger_load_balance`).
    pub(super) fn tick(&mut self, scene: &Scene, queues: &mut dyn Queues, moves: &mut Moves) {
        if self.levels.is_empty() {
            return;
        }
        let now = self.jiffies(scene);
        let mut kicked = None;
        for cpu in scene.tick_of.map_or(0..self.rqs.len(), |cpu| cpu..cpu + 1) {
            if scene.cpus[cpu].running.is_none() {
                continue;
            }
            self.rqs[cpu].idle_stamp = None;
            if now >= self.rqs[cpu].next {
                queues.placer().sync(scene, cpu);
                self.rebalance(scene, queues, cpu, Idleness::Busy, moves);
            }
            if kicked.is_none() && now >= self.nohz_next && self.kicks(scene, queues, cpu) {
                kicked = self.first_idle(scene, queues);
                self.nohz_next = now + 1;
            }
        }
        if scene.now >= self.next_blocked {
            self.next_blocked = scene.now + BLOCKED;
            for cpu in (0..self.rqs.len()).filter(|&cpu| scene.cpus[cpu].running.is_none()) {
                queues.placer().sync(scene, cpu);
            }
        }
        if let Some(first) = kicked {
            self.balance_for_idle(scene, queues, first, moves);
        }
    }

    /// `nohz_balancer_kick`: whether a busy CPU sees that it has too much, or that its neighbours may.
    fn kicks(&self, scene: &Scene, queues: &dyn Queues, cpu: usize) -> bool {
        let busy = |cpu: &&usize| scene.cpus[**cpu].running.is_some();
        let hardware = &scene.hardware;
        if hardware.is_asymmetric() {
            // Only whether each task has a CPU that is large enough counts there (`check_misfit_status`).
            let large = queues.misfit(cpu) > 0;
            let small = hardware.capacity(cpu) < hardware.most_capacity();
            return runnable(scene, queues, cpu) >= 2 || (large && small);
        }
        runnable(scene, queues, cpu) >= 2
            || scene.hardware.llc_of(cpu).iter().filter(busy).count() > 1
    }

    pub(super) fn is_idle(&self, scene: &Scene, queues: &dyn Queues, cpu: usize) -> bool {
        runnable(scene, queues, cpu) == 0 && scene.cpus[cpu].pending == 0
    }

    fn first_idle(&self, scene: &Scene, queues: &dyn Queues) -> Option<usize> {
        (0..self.rqs.len()).find(|&cpu| self.is_idle(scene, queues, cpu))
    }

    /// `_nohz_idle_balance`: `first`, which was kicked, comes last.
    fn balance_for_idle(
        &mut self,
        scene: &Scene,
        queues: &mut dyn Queues,
        first: usize,
        moves: &mut Moves,
    ) {
        let now = self.jiffies(scene);
        let count = self.rqs.len();
        let mut next = now + 60 * SECOND / self.tick_ns;
        for cpu in (1..=count).map(|step| (first + step) % count) {
            if !self.is_idle(scene, queues, cpu) {
                continue;
            }
            if !self.is_idle(scene, queues, first) {
                return;
            }
            if now >= self.rqs[cpu].next {
                self.rebalance(scene, queues, cpu, Idleness::Idle, moves);
            }
            next = next.min(self.rqs[cpu].next);
        }
        self.nohz_next = next;
    }

    /// Balances the domains that are due (`rebalance_domains`).
    fn rebalance(
        &mut self,
        scene: &Scene,
        queues: &mut dyn Queues,
        cpu: usize,
        mut idle: Idleness,
        moves: &mut Moves,
    ) {
        let now = self.jiffies(scene);
        let mut next = now + 60 * SECOND / self.tick_ns;
        let mut decays = false;
        let mut cost = 0;
        let mut goes_on = true;
        for level in 0..self.levels.len() {
            decays = self.states[cpu][level].pay(0, 0, now, self.tick_ns);
            cost += self.states[cpu][level].cost;
            if !goes_on {
                if decays {
                    continue;
                }
                break;
            }
            let mut interval = self.interval(cpu, level, idle == Idleness::Busy);
            if now >= self.states[cpu][level].last + interval {
                let attempt = Attempt { scene, cpu, level, idle };
                let (moved, on) = self.load_balance(&attempt, queues, moves);
                goes_on = on;
                if moved > 0 {
                    let empty = self.is_idle(scene, queues, cpu);
                    idle = if empty { Idleness::Idle } else { Idleness::Busy };
                }
                self.states[cpu][level].last = now;
                interval = self.interval(cpu, level, idle == Idleness::Busy);
            }
            next = next.min(self.states[cpu][level].last + interval);
        }
        if decays {
            self.rqs[cpu].most_cost = cost.max(MIGRATION_COST);
        }
        self.rqs[cpu].next = next;
    }

    /// `active_load_balance_cpu_stop`: the task that is pushed off a CPU; a waiting one is carried at once.
    pub(super) fn push(
        &mut self,
        scene: &Scene,
        queues: &mut dyn Queues,
        push: Push,
    ) -> Option<TaskId> {
        let Push { from, to } = push;
        self.rqs[from].pushed = false;
        let mut all = queues.by_age(from);
        let fair = |task: &TaskId| queues.nr(from) > 0 && !scene.task(*task).class.is_above();
        all.extend(scene.cpus[from].running.filter(fair));
        let task = all.into_iter().find(|&task| scene.task(task).may_use(to))?;
        let spans = |level: &Level| level.span(to).contains(&from);
        if let Some(level) = self.levels.iter().position(spans) {
            self.states[to][level].failed = 0;
        }
        if scene.cpus[from].running != Some(task) {
            queues.carry(scene, Move { task, from, to });
        }
        Some(task)
    }
}

impl State {
    /// Counts the successes of new-idle balancing (`update_newidle_stats`).
    fn tell(&mut self, successes: u32) {
        self.calls += 1;
        self.successes += successes;
        if self.calls >= 1_024 {
            self.ratio = self.successes;
            self.calls /= 2;
            self.successes /= 2;
        }
    }

    /// `update_newidle_cost`: whether the cost fell.
    fn pay(&mut self, cost: u64, successes: u32, now: u64, tick_ns: u64) -> bool {
        if cost > 0 {
            self.tell(successes);
        }
        if cost > self.cost {
            self.cost = cost;
            self.decayed = now;
        } else if now > self.decayed + SECOND / tick_ns {
            self.cost = self.cost * 253 / 256;
            self.decayed = now;
            return true;
        }
        false
    }
}
