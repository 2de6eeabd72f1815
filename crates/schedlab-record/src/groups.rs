//! Control groups of the tasks, and what the kernel counts for them.
//!
//! A task's group is read when the task is first looked at, and once more at the end. A task that came and went in between
//! was in its parent's. Counters and limits are read at the begin and at the end, also those of the groups above.

use super::spool::Seen;
use schedlab_model::{Count, Limit, Member, Nanos, Pid, lineage};
use schedlab_sys::cgroup::{self, Hierarchy};
use schedlab_sys::clock;
use std::collections::{BTreeMap, BTreeSet};

/// Looks tasks up in the hierarchy that divides CPU time.
pub(crate) struct Groups {
    hierarchy: Hierarchy,
    of: BTreeMap<Pid, String>,
    names: BTreeSet<String>,
}

impl Groups {
    /// Of this machine; `None` where no hierarchy is mounted.
    pub(crate) fn here() -> Option<Self> {
        let hierarchy = cgroup::of_cpu()?;
        Some(Self { hierarchy, of: BTreeMap::new(), names: BTreeSet::new() })
    }

    /// The group of a task, if it changed since the last look. A group that is met for the first time is counted.
    pub(crate) fn look(&mut self, pid: Pid, parent: Option<Pid>) -> Vec<Seen> {
        let inherited = || self.of.get(&parent?).cloned();
        let Some(group) = self.hierarchy.name_of(pid).or_else(inherited) else { return Vec::new() };
        if self.of.get(&pid) == Some(&group) {
            return Vec::new();
        }
        // What the first look finds held before it.
        let first = self.of.insert(pid, group.clone()).is_none();
        let at = if first { Nanos::ZERO } else { clock::monotonic() };
        let mut seen = vec![Seen::Member { pid, at, group: group.clone() }];
        seen.extend(self.met(&group));
        seen
    }

    /// The group of a task; `None` if the task is gone.
    pub(crate) fn of_task(&self, pid: Pid) -> Option<String> {
        self.hierarchy.name_of(pid)
    }

    /// Counters and limits of a group and of those above it that are met for the first time.
    pub(crate) fn met(&mut self, group: &str) -> Vec<Seen> {
        let new: Vec<&str> =
            lineage(group).filter(|name| self.names.insert((*name).to_owned())).collect();
        new.into_iter().flat_map(|name| self.read(name)).collect()
    }

    /// What the kernel counts for all groups and allows them, and the steal time.
    pub(crate) fn count(&self) -> Vec<Seen> {
        let counted = self.names.iter().flat_map(|group| self.read(group));
        let at = clock::monotonic();
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let steal = steal(&stat).map(|steal| Seen::Stolen { at, steal });
        counted.chain(steal).collect()
    }

    /// Counters and limits of a group.
    fn read(&self, group: &str) -> impl Iterator<Item = Seen> + use<> {
        self.count_of(group).into_iter().chain(self.limit_of(group))
    }

    /// What a group is allowed now.
    pub(crate) fn limit_of(&self, group: &str) -> Option<Seen> {
        let cgroup::Allowance { quota, period, burst, shares } = self.hierarchy.allowance(group)?;
        let at = clock::monotonic();
        let limit = Limit { at, group: 0, quota, period, burst, shares };
        Some(Seen::Limited { group: group.to_owned(), limit })
    }

    fn count_of(&self, group: &str) -> Option<Seen> {
        let (periods, throttled_periods, throttled) = self.hierarchy.throttled(group)?;
        let at = clock::monotonic();
        let count = Count { at, group: 0, periods, throttled_periods, throttled };
        Some(Seen::Counted { group: group.to_owned(), count })
    }
}

/// The eighth number of the line for all CPUs, in ticks of a hundredth of a second (`USER_HZ`).
fn steal(stat: &str) -> Option<Nanos> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: u64 = line.split_whitespace().nth(7)?.parse().ok()?;
    Some(Nanos(ticks.saturating_mul(10_000_000)))
}

/// The groups as the trace keeps them; `None` when nobody looked.
pub(crate) fn gather(seen: &[Seen]) -> Option<schedlab_model::Groups> {
    let mut names = Vec::new();
    let mut places = BTreeMap::<&str, u32>::new();
    let mut members = Vec::new();
    let mut counts = Vec::new();
    let mut steal = Vec::new();
    let mut limits = Vec::new();
    for one in seen {
        let place = match one {
            Seen::Member { group, .. }
            | Seen::Counted { group, .. }
            | Seen::Limited { group, .. } => {
                let next = places.len() as u32;
                *places.entry(group).or_insert_with(|| {
                    names.push(group.clone());
                    next
                })
            }
            _ => 0,
        };
        match one {
            Seen::Member { pid, at, .. } => {
                members.push(Member { pid: *pid, at: *at, group: place });
            }
            Seen::Counted { count, .. } => counts.push(Count { group: place, ..*count }),
            Seen::Limited { limit, .. } => limits.push(Limit { group: place, ..*limit }),
            Seen::Stolen { at, steal: sum } => steal.push((*at, *sum)),
            _ => {}
        }
    }
    members.sort_unstable();
    let is_told = !names.is_empty();
    is_told.then_some(schedlab_model::Groups { names, members, counts, steal, limits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_numbered_as_they_are_met() {
        let member =
            |pid, group: &str| Seen::Member { pid: Pid(pid), at: Nanos::ZERO, group: group.into() };
        let count =
            Count { at: Nanos(5), group: 0, periods: 1, throttled_periods: 1, throttled: Nanos(3) };
        let counted = Seen::Counted { group: "/a".into(), count };
        let seen = [member(9, "/"), member(7, "/a"), counted, member(8, "/")];
        let groups = gather(&seen).expect("groups were seen");
        assert_eq!(groups.names, ["/", "/a"]);
        assert_eq!([7, 8, 9].map(|pid| groups.of(Pid(pid))), [Some(1), Some(0), Some(0)]);
        assert_eq!(groups.counts[0].group, 1);
        assert_eq!(gather(&[]), None, "nobody looked");
    }

    #[test]
    fn steal_is_the_eighth_number() {
        assert_eq!(steal("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 0"), Some(Nanos(80_000_000)));
        assert_eq!(steal("cpu  1 2 3"), None);
    }
}
