//! One attempt of a CPU to take tasks from the busiest CPU of a domain (Linux 6.1.192, kernel/sched/fair.c:
//! `load_balance`, `find_busiest_queue`, `detach_tasks`, `can_migrate_task`).

use super::domains::Kind;
use super::stats::{Idleness, Migration, OfCpu, OfGroup, Pair, is_greater};
use super::{Balancer, MIGRATION_COST, Queues, runnable};
use crate::policy::{Move, Moves, Push};
use crate::policy_view::{Scene, TaskId};

/// The most tasks that are looked at in a queue (`sysctl_sched_nr_migrate`).
const NR_MIGRATE: usize = 32;

/// One attempt of a CPU to take tasks.
pub(super) struct Attempt<'a> {
    pub(super) scene: &'a Scene,
    pub(super) cpu: usize,
    pub(super) level: usize,
    pub(super) idle: Idleness,
}

impl Balancer {
    /// `load_balance`: how many tasks came, and whether larger domains are looked at.
    pub(super) fn load_balance(
        &mut self,
        at: &Attempt<'_>,
        queues: &mut dyn Queues,
        moves: &mut Moves,
    ) -> (usize, bool) {
        let Attempt { scene, cpu, level, .. } = *at;
        if !self.should_balance(at, queues) {
            self.is_balanced(at, true);
            return (0, false);
        }
        let mut left_out: Vec<usize> = Vec::new();
        loop {
            let Some((group, what, amount)) = self.busiest_group(at, queues, &left_out) else {
                self.is_balanced(at, left_out.is_empty());
                return (0, true);
            };
            let Some(from) = self.busiest_queue(at, queues, group, what, amount, &left_out) else {
                self.is_balanced(at, left_out.is_empty());
                return (0, true);
            };
            let several = runnable(scene, queues, from) > 1;
            let mut moved = 0;
            let mut all_pinned = several;
            if several {
                let (left, some_pinned);
                (moved, left, some_pinned, all_pinned) =
                    self.detach(at, queues, from, what, amount, moves);
                if let Some(parent) = self.levels.get_mut(level + 1)
                    && some_pinned
                    && left > 0
                {
                    let group = parent.group_of(cpu);
                    parent.imbalanced[group] = true;
                }
            }
            if all_pinned {
                left_out.push(from);
                let own = self.levels[level].group_of(cpu);
                let others = self.levels[level].span(cpu).iter();
                let mut others = others.filter(|&&other| !left_out.contains(&other));
                if others.any(|&other| self.levels[level].group_of(other) != own) {
                    continue;
                }
                self.is_balanced(at, false);
                return (0, true);
            }
            if moved > 0 {
                self.states[cpu][level].failed = 0;
                self.states[cpu][level].interval = self.levels[level].span(cpu).len() as u64;
                return (moved, true);
            }
            self.fails(at, from, what, moves);
            return (0, true);
        }
    }

    /// No task could be moved: the running one is pushed after too many attempts.
    fn fails(&mut self, at: &Attempt<'_>, from: usize, what: Migration, moves: &mut Moves) {
        let Attempt { scene, cpu, level, idle } = *at;
        let width = self.levels[level].span(cpu).len() as u64;
        let tries = self.levels[level].cache_nice_tries() + 2;
        let state = &mut self.states[cpu][level];
        state.failed += u32::from(idle != Idleness::New);
        if what == Migration::Misfit || (what == Migration::Task && state.failed > tries) {
            let runs = scene.cpus[from].running;
            if !runs.is_some_and(|task| scene.task(task).may_use(cpu)) {
                return;
            }
            if !std::mem::replace(&mut self.rqs[from].pushed, true) {
                moves.pushes.push(Push { from, to: cpu });
            }
        }
        state.interval = width;
    }

    /// The end of `load_balance` where nothing is to be done.
    fn is_balanced(&mut self, at: &Attempt<'_>, none_pinned: bool) {
        let Attempt { cpu, level, idle, .. } = *at;
        if let Some(parent) = self.levels.get_mut(level + 1)
            && none_pinned
        {
            let group = parent.group_of(cpu);
            parent.imbalanced[group] = false;
        }
        let most = 2 * self.levels[level].span(cpu).len() as u64;
        let state = &mut self.states[cpu][level];
        state.failed = 0;
        if idle != Idleness::New
            && (state.interval < most || (!none_pinned && state.interval < 512))
        {
            state.interval *= 2;
        }
    }

    /// `should_we_balance`: only the first idle CPU of the group does, or its first.
    fn should_balance(&self, at: &Attempt<'_>, queues: &dyn Queues) -> bool {
        if at.idle == Idleness::New {
            return queues.nr(at.cpu) == 0;
        }
        let level = &self.levels[at.level];
        let group = level.group(level.group_of(at.cpu));
        let idle = group.iter().find(|&&cpu| self.is_idle(at.scene, queues, cpu));
        idle.or(group.first()) == Some(&at.cpu)
    }

    pub(super) fn of_cpu(&self, scene: &Scene, queues: &mut dyn Queues, cpu: usize) -> OfCpu {
        let nr = runnable(scene, queues, cpu) as u64;
        let (load, util, runnable) = queues.placer().loads(cpu);
        let idle = self.is_idle(scene, queues, cpu);
        let capacity = scene.hardware.capacity(cpu);
        // cpu_util_cfs
        let util = if scene.hardware.is_asymmetric() { util.min(capacity) } else { util };
        OfCpu { load, util, runnable, nr, idle, capacity, misfit: 0 }
    }

    /// The group to take tasks from (`find_busiest_group`).
    fn busiest_group(
        &mut self,
        at: &Attempt<'_>,
        queues: &mut dyn Queues,
        left_out: &[usize],
    ) -> Option<(usize, Migration, u64)> {
        let (mut local, mut best): (OfGroup, Option<(usize, OfGroup)>) = Default::default();
        let mut load = 0;
        let mut capacity = 0;
        let mut util = 0;
        let mut overload = false;
        let level = &self.levels[at.level];
        let asymmetric = level.is_asymmetric(at.cpu);
        let own = level.group_of(at.cpu);
        for group in level.groups(at.cpu) {
            let members = level.group(group).iter().filter(|cpu| !left_out.contains(cpu));
            let members = members.map(|&cpu| {
                let of = self.of_cpu(at.scene, queues, cpu);
                let counts = asymmetric && group != own && !of.idle;
                OfCpu { misfit: if counts { queues.placer().misfit(cpu) } else { 0 }, ..of }
            });
            let members: Vec<OfCpu> = members.collect();
            overload |= members.iter().any(|cpu| cpu.nr > 1 || cpu.misfit > 0);
            let imbalanced = level.imbalanced[group];
            let of = OfGroup::of(members.into_iter(), level.imbalance_pct(), imbalanced);
            load += of.load;
            capacity += of.capacity;
            util += of.util;
            let here = at.scene.hardware.capacity(at.cpu);
            if group == own {
                local = of;
            } else if asymmetric && !of.can_be_helped(&local, here) {
                continue;
            } else if of.beats(best.as_ref().map(|(_, best)| best)) {
                best = Some((group, of));
            }
        }
        if at.level + 1 == self.levels.len() {
            self.overload = overload;
        }
        let width = self.levels[at.level].span(at.cpu).len();
        if at.idle != Idleness::New && width == at.scene.hardware.llc_of(at.cpu).len() {
            queues.placer().set_scan(at.scene.hardware.llc(at.cpu), width as u64, util);
        }
        let (group, busiest) = best?;
        let pair = Pair { local, busiest, load, capacity, asymmetric };
        let (what, amount) = pair.imbalance(&self.levels[at.level], at.idle)?;
        Some((group, what, amount))
    }

    /// The CPU to take tasks from (`find_busiest_queue`).
    fn busiest_queue(
        &self,
        at: &Attempt<'_>,
        queues: &mut dyn Queues,
        group: usize,
        what: Migration,
        amount: u64,
        left_out: &[usize],
    ) -> Option<usize> {
        // Its measure, its capacity where that counts, and the CPU.
        let mut busiest: Option<(u64, u64, usize)> = None;
        let level = &self.levels[at.level];
        let hardware = &at.scene.hardware;
        let asymmetric = level.is_asymmetric(at.cpu);
        for &cpu in level.group(group) {
            let nr = queues.nr(cpu) as u64;
            if nr == 0 || left_out.contains(&cpu) {
                continue;
            }
            let own = hardware.capacity(cpu);
            if asymmetric && nr == 1 && !is_greater(hardware.capacity(at.cpu), own) {
                continue;
            }
            let (load, util, _) = queues.placer().loads(cpu);
            let (measure, capacity, fits) = match what {
                Migration::Load => (load, own, nr > 1 || load <= amount),
                Migration::Util => (util, 1, nr > 1),
                Migration::Task => (nr, 1, true),
                Migration::Misfit => (queues.placer().misfit(cpu), 1, true),
            };
            let (most, of) = busiest.map_or((0, 1), |(most, of, _)| (most, of));
            if fits && most * capacity < measure * of {
                busiest = Some((measure, capacity, cpu));
            }
        }
        busiest.map(|(.., cpu)| cpu)
    }

    /// `detach_tasks`: how many moved, what of the imbalance is left, whether any and whether all may not come here.
    fn detach(
        &mut self,
        at: &Attempt<'_>,
        queues: &mut dyn Queues,
        from: usize,
        what: Migration,
        amount: u64,
        moves: &mut Moves,
    ) -> (usize, u64, bool, bool) {
        let failed = self.states[at.cpu][at.level].failed;
        let mut left = amount;
        let mut moved = 0;
        let mut some_pinned = false;
        let mut all_pinned = true;
        // The running task is the last that is looked at.
        let most = NR_MIGRATE.min(queues.nr(from));
        let runs = at.scene.cpus[from].running;
        if runs.is_some_and(|task| at.scene.task(task).may_use(at.cpu)) {
            all_pinned = false;
        }
        for task in queues.by_age(from).into_iter().take(most) {
            if at.idle != Idleness::Busy && queues.nr(from) <= 1 {
                break;
            }
            if !at.scene.task(task).may_use(at.cpu) {
                some_pinned = true;
                continue;
            }
            all_pinned = false;
            let tries = self.levels[at.level].cache_nice_tries();
            if self.is_hot(at, queues, from, task) && failed <= tries {
                continue;
            }
            let (load, util) = queues.placer().task_loads(task);
            let size = match what {
                Migration::Load => load.max(1),
                Migration::Util => util,
                Migration::Task => 1,
                Migration::Misfit if queues.placer().fits(at.scene, task, from) => continue,
                Migration::Misfit => left,
            };
            if matches!(what, Migration::Load | Migration::Util) && size >> failed.min(63) > left {
                continue;
            }
            left = left.saturating_sub(size);
            let one = Move { task, from, to: at.cpu };
            queues.carry(at.scene, one);
            self.overload |= queues.nr(at.cpu) >= 2;
            moves.done.push(one);
            moved += 1;
            if at.idle == Idleness::New || left == 0 {
                break;
            }
        }
        (moved, left, some_pinned, all_pinned)
    }

    /// Whether the task's cache is still warm (`task_hot`).
    fn is_hot(&self, at: &Attempt<'_>, queues: &dyn Queues, from: usize, task: TaskId) -> bool {
        if self.levels[at.level].kind == Kind::Smt {
            return false;
        }
        if queues.nr(at.cpu) > 0 && queues.is_buddy(from, task) {
            return true;
        }
        at.scene.now.saturating_sub(at.scene.task(task).ran_at) < MIGRATION_COST
    }
}
