//! Control groups of a recording: which task was in which, and what the kernel counted for them.

use crate::{Nanos, Pid};
use serde::{Deserialize, Serialize};

/// The control groups of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    /// Paths in the hierarchy (`/system.slice/sshd.service`), by the index that members and counts carry.
    pub names: Vec<String>,
    /// Where tasks were, ascending by pid then time.
    pub members: Vec<Member>,
    /// What the kernel counted, in order of time; only of groups that have such counters.
    pub counts: Vec<Count>,
    /// Steal time of the whole machine: when it was read, and its sum over all CPUs since boot.
    pub steal: Vec<(Nanos, Nanos)>,
}

/// A task in a group from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Member {
    /// The task that is in the group.
    pub pid: Pid,
    /// When this was read; zero if it held before the first look.
    pub at: Nanos,
    /// The group, as an index into [`Groups::names`].
    pub group: u32,
}

/// Counters of a group's `cpu.stat`, since the group was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// When they were read.
    pub at: Nanos,
    /// The group, as an index into [`Groups::names`].
    pub group: u32,
    /// Enforcement periods that passed (`nr_periods`).
    pub periods: u64,
    /// Periods in which the group was throttled (`nr_throttled`).
    pub throttled_periods: u64,
    /// Time in which it was throttled, summed over CPUs (`throttled_usec`, `throttled_time`).
    pub throttled: Nanos,
}

/// What a group's counters grew by between their first and their last reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods of the quota that the kernel has enforced.
    pub periods: u64,
    /// Number of those periods in which the kernel throttled the group.
    pub throttled_periods: u64,
    /// Time in which it was throttled, summed over CPUs.
    pub throttled: Nanos,
}

impl Groups {
    /// The group that a task was in last, as an index into [`Groups::names`]; `None` if its group
    /// was not read.
    #[must_use]
    pub fn of(&self, pid: Pid) -> Option<u32> {
        let after = self.members.partition_point(|member| member.pid <= pid);
        let last = self.members.get(after.checked_sub(1)?)?;
        (last.pid == pid).then_some(last.group)
    }

    /// What a group's counters grew by; `None` where they were not read twice.
    #[must_use]
    pub fn throttling(&self, group: u32) -> Option<Throttling> {
        let mut read = self.counts.iter().filter(|count| count.group == group);
        let first = read.next()?;
        let last = read.next_back()?;
        Some(Throttling {
            periods: last.periods.saturating_sub(first.periods),
            throttled_periods: last.throttled_periods.saturating_sub(first.throttled_periods),
            throttled: last.throttled - first.throttled,
        })
    }

    /// How much the steal time grew; `None` where it was not read twice.
    #[must_use]
    pub fn stolen(&self) -> Option<Nanos> {
        let [(_, first), .., (_, last)] = self.steal.as_slice() else { return None };
        Some(*last - *first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_in_its_last_group_and_counters_are_told_by_their_growth() {
        let member = |pid, at, group| Member { pid: Pid(pid), at: Nanos(at), group };
        let count = |at, group, throttled| Count {
            at: Nanos(at),
            group,
            periods: at,
            throttled_periods: at / 2,
            throttled: Nanos(throttled),
        };
        let groups = Groups {
            names: vec!["/".into(), "/a".into()],
            members: vec![member(3, 0, 0), member(3, 9, 1), member(7, 0, 0)],
            counts: vec![count(0, 1, 5), count(4, 0, 7), count(8, 1, 25)],
            steal: vec![(Nanos(0), Nanos(100)), (Nanos(9), Nanos(130))],
        };
        assert_eq!([3, 7, 5, 9].map(|pid| groups.of(Pid(pid))), [Some(1), Some(0), None, None]);
        let throttling = Throttling { periods: 8, throttled_periods: 4, throttled: Nanos(20) };
        assert_eq!(groups.throttling(1), Some(throttling));
        assert_eq!(groups.throttling(0), None, "once is no growth");
        assert_eq!(groups.stolen(), Some(Nanos(30)));
        assert_eq!(Groups::default().stolen(), None);
    }
}
