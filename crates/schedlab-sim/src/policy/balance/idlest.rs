//! Where a new task begins: from the machine down to a CPU, always towards the idlest group (Linux 6.1.192,
//! kernel/sched/fair.c: `find_idlest_cpu`, `find_idlest_group`, `update_pick_idlest`, `find_idlest_group_cpu`).
//! Left out: idle states that differ in depth, NUMA balancing's preferred node.

use super::domains::{Kind, Level};
use super::stats::{GroupType, Idleness, OfCpu, OfGroup};
use super::{Attempt, Balancer, Queues};
use crate::policy::Wake;
use crate::policy_view::Scene;

impl Balancer {
    /// The CPU on which a task that was just forked becomes runnable.
    pub(in crate::policy) fn idlest(
        &self,
        scene: &Scene,
        queues: &mut dyn Queues,
        wake: &Wake,
    ) -> usize {
        let task = scene.task(wake.task);
        let mut cpu = wake.cpu;
        let mut level = self.levels.len();
        while level > 0 {
            level -= 1;
            let at = Attempt { scene, cpu, level, idle: Idleness::New };
            let Some(group) = self.idlest_group(&at, queues, wake) else { continue };
            // The levels below are those of the CPU that was found.
            cpu = self.idlest_of_group(&at, queues, wake, group);
        }
        let all = || (0..scene.cpus.len()).find(|&cpu| task.may_use(cpu));
        Some(cpu).filter(|&cpu| task.may_use(cpu)).or_else(all).unwrap_or(cpu)
    }

    /// `find_idlest_group`; `None`: the own one.
    fn idlest_group(
        &self,
        at: &Attempt<'_>,
        queues: &mut dyn Queues,
        wake: &Wake,
    ) -> Option<usize> {
        let level = &self.levels[at.level];
        let task = at.scene.task(wake.task);
        let own = level.group_of(at.cpu);
        let mut local: Option<OfGroup> = None;
        let mut best: Option<(usize, OfGroup)> = None;
        for group in level.groups(at.cpu) {
            if !level.group(group).iter().any(|&cpu| task.may_use(cpu)) {
                continue;
            }
            let members = level.group(group).iter();
            let mut members: Vec<OfCpu> =
                members.map(|&cpu| self.of_cpu(at.scene, queues, cpu)).collect();
            if level.is_asymmetric(at.cpu) {
                let mut usable = level.group(group).iter().filter(|&&cpu| task.may_use(cpu));
                let fits = usable.any(|&cpu| queues.placer().fits(at.scene, wake.task, cpu));
                members[0].misfit = u64::from(!fits);
            }
            let members = members.into_iter();
            let imbalanced = level.imbalanced[group];
            let of = OfGroup::of(members, level.imbalance_pct(), imbalanced);
            if group == own {
                local = Some(of);
            } else if best.as_ref().is_none_or(|(_, best)| of.is_idler(best)) {
                best = Some((group, of));
            }
        }
        let (group, best) = best?;
        let Some(local) = local else { return Some(group) };
        let usable = level.group(own).iter().filter(|&&cpu| task.may_use(cpu)).count();
        goes_away(level, &local, &best, usable).then_some(group)
    }

    /// `find_idlest_group_cpu`: the CPU that became idle last; where none is idle, the one with the least load.
    fn idlest_of_group(
        &self,
        at: &Attempt<'_>,
        queues: &mut dyn Queues,
        wake: &Wake,
        group: usize,
    ) -> usize {
        let task = at.scene.task(wake.task);
        let mut idle: Option<(u64, usize)> = None;
        let mut least: Option<(u64, usize)> = None;
        for &cpu in self.levels[at.level].group(group) {
            if !task.may_use(cpu) {
                continue;
            }
            if self.is_idle(at.scene, queues, cpu) {
                let since = at.scene.cpus[cpu].idle_since;
                if idle.is_none_or(|(latest, _)| since > latest) {
                    idle = Some((since, cpu));
                }
            } else {
                let load = queues.placer().loads(cpu).0;
                if least.is_none_or(|(so_far, _)| load < so_far) {
                    least = Some((load, cpu));
                }
            }
        }
        idle.or(least).map_or(at.cpu, |(_, cpu)| cpu)
    }
}

/// Whether a new task leaves its `local` group for the idlest other one. `usable`: CPUs of its own group that it may
/// use.
fn goes_away(level: &Level, local: &OfGroup, idlest: &OfGroup, usable: usize) -> bool {
    if local.kind != idlest.kind {
        return local.kind > idlest.kind;
    }
    match local.kind {
        GroupType::Overloaded | GroupType::FullyBusy => {
            let percent = level.imbalance_pct();
            let margin = super::stats::CAPACITY * (percent - 100) / 100;
            let own = local.load_of_each();
            let other = idlest.load_of_each();
            let far = level.kind != Kind::Numa || other + margin < own;
            far && other < own + margin && 100 * own > percent * other
        }
        GroupType::Imbalanced => false,
        GroupType::Misfit => local.most < idlest.most,
        GroupType::HasSpare => {
            if level.kind == Kind::Numa {
                let difference = local.idle.abs_diff(idlest.idle);
                let few = local.nr < level.imb_numa_nr.min(usable) as u64;
                if difference == 0 || (few && difference <= 2) {
                    return false;
                }
            }
            local.idle < idlest.idle
        }
    }
}
