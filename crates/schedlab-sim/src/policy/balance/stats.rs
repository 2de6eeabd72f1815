//! Which group of a domain is the busiest, and how much it should give away (Linux 6.1.192, kernel/sched/fair.c:
//! `update_sg_lb_stats`, `group_classify`, `update_sd_pick_busiest`, `find_busiest_group`, `calculate_imbalance`).
//! Left out: asymmetric packing, capacity that other classes take, NUMA balancing.

use super::domains::{Kind, Level};

/// What a CPU can do, in the units of its load.
pub(super) const CAPACITY: u64 = 1_024;

/// Why a CPU looks for tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Idleness {
    /// It has some (`CPU_NOT_IDLE`).
    Busy,
    /// The CPU idles (`CPU_IDLE`).
    Idle,
    /// It is about to idle (`CPU_NEWLY_IDLE`).
    New,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfCpu {
    pub(super) load: u64,
    pub(super) util: u64,
    /// Runnable tasks on average, in 1,024ths.
    pub(super) runnable: u64,
    pub(super) nr: u64,
    pub(super) idle: bool,
    /// What the CPU can do, in 1,024ths of the fastest.
    pub(super) capacity: u64,
    /// The load of a running task that is too large for the CPU; 0: there is none.
    pub(super) misfit: u64,
}

/// How busy a group is; a greater one is busier (`enum group_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GroupType {
    #[default]
    HasSpare,
    FullyBusy,
    Misfit,
    Imbalanced,
    Overloaded,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfGroup {
    pub(super) load: u64,
    pub(super) util: u64,
    pub(super) runnable: u64,
    pub(super) nr: u64,
    pub(super) idle: u64,
    pub(super) cpus: u64,
    pub(super) average: u64,
    pub(super) kind: GroupType,
    /// The capacities of its CPUs: all together, the least and the most.
    pub(super) capacity: u64,
    pub(super) least: u64,
    pub(super) most: u64,
    /// The largest load of a task that is too large for its CPU; 0: there is none.
    pub(super) misfit: u64,
}

impl OfGroup {
    /// The sum over its CPUs.
    pub(super) fn of(cpus: impl Iterator<Item = OfCpu>, percent: u64, imbalanced: bool) -> Self {
        let mut all = Self { least: u64::MAX, ..Self::default() };
        for cpu in cpus {
            all.capacity += cpu.capacity;
            all.least = all.least.min(cpu.capacity);
            all.most = all.most.max(cpu.capacity);
            all.misfit = all.misfit.max(cpu.misfit);
            all.load += cpu.load;
            all.util += cpu.util;
            all.runnable += cpu.runnable;
            all.nr += cpu.nr;
            all.idle += u64::from(cpu.idle);
            all.cpus += 1;
        }
        all.kind = all.classify(percent, imbalanced);
        if all.kind == GroupType::Overloaded {
            all.average = all.load_of_each();
        }
        all
    }

    fn capacity(&self) -> u64 {
        self.capacity.max(1)
    }

    fn classify(&self, percent: u64, imbalanced: bool) -> GroupType {
        let capacity = self.capacity();
        let util = self.util;
        let runnable = self.runnable;
        let crowded = capacity * 100 < util * percent || capacity * percent < runnable * 100;
        if self.nr > self.cpus && crowded {
            return GroupType::Overloaded;
        }
        if imbalanced {
            return GroupType::Imbalanced;
        }
        if self.misfit > 0 {
            return GroupType::Misfit;
        }
        let spare = capacity * percent >= runnable * 100 && capacity * 100 > util * percent;
        if self.nr < self.cpus || spare { GroupType::HasSpare } else { GroupType::FullyBusy }
    }

    /// The load of each of its CPUs (`avg_load`).
    pub(super) fn load_of_each(&self) -> u64 {
        self.load * CAPACITY / self.capacity()
    }

    /// Whether a new task is better off here than in the idlest group so far (`update_pick_idlest`).
    pub(super) fn is_idler(&self, idlest: &Self) -> bool {
        if self.kind != idlest.kind {
            return self.kind < idlest.kind;
        }
        match self.kind {
            GroupType::Overloaded | GroupType::FullyBusy => {
                self.load_of_each() < idlest.load_of_each()
            }
            GroupType::Imbalanced => false,
            GroupType::Misfit => self.most > idlest.most,
            GroupType::HasSpare => {
                self.idle > idlest.idle || (self.idle == idlest.idle && self.util < idlest.util)
            }
        }
    }

    /// In a domain whose CPUs differ: whether a CPU with the capacity `here`, in the group `local`, can help this one. It
    /// does not take a large task without being larger itself, nor the only task of a larger CPU
    /// (`update_sd_pick_busiest`).
    pub(super) fn can_be_helped(&self, local: &Self, here: u64) -> bool {
        match self.kind {
            GroupType::Misfit => is_greater(here, self.most) && local.kind == GroupType::HasSpare,
            GroupType::HasSpare | GroupType::FullyBusy => !is_greater(self.least, here),
            _ => true,
        }
    }

    pub(super) fn beats(&self, busiest: Option<&Self>) -> bool {
        if self.nr == 0 {
            return false;
        }
        let Some(busiest) = busiest else {
            // The kernel begins with an empty group of the lowest type that has every CPU idle.
            return true;
        };
        if self.kind != busiest.kind {
            return self.kind > busiest.kind;
        }
        match self.kind {
            GroupType::Overloaded => self.average > busiest.average,
            GroupType::Imbalanced | GroupType::FullyBusy => false,
            GroupType::Misfit => self.misfit >= busiest.misfit,
            GroupType::HasSpare => {
                self.idle < busiest.idle || (self.idle == busiest.idle && self.nr > busiest.nr)
            }
        }
    }
}

/// What a balance should move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Migration {
    /// Tasks of this much load.
    Load,
    /// Tasks of this much use.
    Util,
    /// A number of tasks, independent of their load.
    Task,
    /// A task that is too large for its CPU.
    Misfit,
}

/// Whether a capacity is noticeably greater, by 5 % (`capacity_greater`).
pub(super) fn is_greater(capacity: u64, than: u64) -> bool {
    capacity.saturating_mul(1_024) > than.saturating_mul(1_078)
}

/// Local and busiest group, and the sums over the domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) local: OfGroup,
    pub(super) busiest: OfGroup,
    pub(super) load: u64,
    pub(super) capacity: u64,
    /// Whether the CPUs of the domain differ in capacity.
    pub(super) asymmetric: bool,
}

impl Pair {
    fn average(&self) -> u64 {
        self.load * CAPACITY / self.capacity.max(1)
    }

    /// Whether tasks are spread over the groups. They are not spread over CPUs of different capacities.
    fn spreads(&self, level: &Level) -> bool {
        level.prefer_sibling && !self.asymmetric
    }

    /// What is to be moved, and how much of it; `None`: the groups are balanced.
    pub(super) fn imbalance(&self, level: &Level, idle: Idleness) -> Option<(Migration, u64)> {
        let local = &self.local;
        let busiest = &self.busiest;
        if busiest.kind == GroupType::Misfit {
            return Some((Migration::Misfit, 1));
        }
        if busiest.kind != GroupType::Imbalanced && self.is_balanced(level, idle) {
            return None;
        }
        let (what, amount) = self.amount(level, idle, local, busiest);
        (amount > 0).then_some((what, amount))
    }

    fn is_balanced(&self, level: &Level, idle: Idleness) -> bool {
        let local = &self.local;
        let busiest = &self.busiest;
        if local.kind > busiest.kind {
            return true;
        }
        if local.kind == GroupType::Overloaded {
            let near = 100 * busiest.average <= level.imbalance_pct() * local.average;
            if local.average >= busiest.average || local.average >= self.average() || near {
                return true;
            }
        }
        let spare = local.kind == GroupType::HasSpare;
        if self.spreads(level) && spare && busiest.nr > local.nr + 1 {
            return false;
        }
        busiest.kind != GroupType::Overloaded
            && (idle == Idleness::Busy
                || (busiest.cpus > 1 && local.idle <= busiest.idle + 1)
                || busiest.nr == 1)
    }

    fn amount(
        &self,
        level: &Level,
        idle: Idleness,
        local: &OfGroup,
        busiest: &OfGroup,
    ) -> (Migration, u64) {
        if busiest.kind == GroupType::Imbalanced {
            return (Migration::Task, 1);
        }
        if local.kind == GroupType::HasSpare {
            if busiest.kind > GroupType::FullyBusy && !level.shares_cache() {
                let free = local.capacity().saturating_sub(local.util);
                return match idle != Idleness::Busy && free == 0 {
                    true => (Migration::Task, 1),
                    false => (Migration::Util, free),
                };
            }
            let mut difference = match busiest.cpus == 1 || self.spreads(level) {
                true => busiest.nr.saturating_sub(local.nr),
                false => local.idle.saturating_sub(busiest.idle),
            };
            // adjust_numa_imbalance
            let few = local.nr < level.imb_numa_nr as u64;
            if level.kind == Kind::Numa && few && difference <= 2 {
                difference = 0;
            }
            return (Migration::Task, difference / 2);
        }
        let own = match local.kind {
            GroupType::Overloaded => local.average,
            _ => local.load_of_each(),
        };
        let all = self.average();
        if local.kind < GroupType::Overloaded && (own >= busiest.average || own >= all) {
            return (Migration::Load, 0);
        }
        let gives = busiest.average.saturating_sub(all) * busiest.capacity();
        let takes = all.saturating_sub(own) * local.capacity();
        (Migration::Load, gives.min(takes) / CAPACITY)
    }
}

#[cfg(test)]
mod tests {
    use super::super::domains::levels;
    use super::*;
    use crate::policy_view::Hardware;
    use schedlab_model::Topology;

    fn cpu(nr: u64) -> OfCpu {
        let load = nr * 1_024;
        let capacity = CAPACITY;
        let misfit = 0;
        OfCpu { load, util: load.min(1_024), runnable: load, nr, idle: nr == 0, capacity, misfit }
    }

    fn group(queues: &[u64]) -> OfGroup {
        OfGroup::of(queues.iter().map(|&nr| cpu(nr)), 117, false)
    }

    fn pair(local: &[u64], busiest: &[u64]) -> Pair {
        let local = group(local);
        let busiest = group(busiest);
        let load = local.load + busiest.load;
        let capacity = local.capacity + busiest.capacity;
        Pair { local, busiest, load, capacity, asymmetric: false }
    }

    #[test]
    fn groups_are_told_apart_by_how_busy_they_are() {
        assert_eq!(group(&[0, 1]).kind, GroupType::HasSpare);
        assert_eq!(group(&[1, 1]).kind, GroupType::FullyBusy);
        assert_eq!(group(&[2, 0]).kind, GroupType::HasSpare);
        assert_eq!(group(&[2, 1]).kind, GroupType::Overloaded);
        let pinned = OfGroup::of([cpu(1), cpu(1)].into_iter(), 117, true);
        assert_eq!(pinned.kind, GroupType::Imbalanced);
        assert!(group(&[2, 1]).beats(Some(&group(&[1, 1]))));
        assert!(group(&[1, 1, 0]).beats(Some(&group(&[1, 0, 0]))));
        assert!(!group(&[0, 0]).beats(None));
    }

    #[test]
    fn an_idle_cpu_takes_half_the_difference_and_a_busy_one_nothing() {
        let level = &levels(&Hardware::new(Topology::flat(4)))[0];
        let three = pair(&[0], &[3]);
        assert_eq!(three.imbalance(level, Idleness::New), Some((Migration::Task, 1)));
        assert_eq!(pair(&[0], &[1]).imbalance(level, Idleness::Idle), None);
        // One task against three of equal weight: up to the average of two.
        let (what, load) = pair(&[1], &[3]).imbalance(level, Idleness::Busy).unwrap();
        assert_eq!((what, load), (Migration::Load, 1_024));
        assert_eq!(pair(&[2], &[2]).imbalance(level, Idleness::Busy), None);
    }
}
