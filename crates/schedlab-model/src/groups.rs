//! Control groups of a recording: which task was in which, and what the kernel counted for them.

use crate::{Nanos, Pid, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// What the groups were allowed, in order of time.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// What people call groups that are containers: the container's name, after its pod's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub titles: BTreeMap<u32, String>,
}

/// What a group was allowed when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// When this was read.
    pub at: Nanos,
    /// The group, as an index into [`Groups::names`].
    pub group: u32,
    /// CPU time that its tasks may use in each period, summed over CPUs; `None` without a limit.
    pub quota: Option<Nanos>,
    /// The length of a period.
    pub period: Nanos,
    /// How much unused quota may be kept for later periods.
    pub burst: Nanos,
    /// Its weight against its siblings, where 1024 is the default (`cpu.shares`, or `cpu.weight` scaled to it).
    pub shares: u64,
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
    /// CPU time that its tasks have used; `None` where that is not counted beside the rest (version 1 without `cpuacct`).
    #[serde(default)]
    pub ran: Option<Nanos>,
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
    /// CPU time that its tasks used.
    pub(crate) ran: Option<Nanos>,
    /// Between which instants.
    pub span: Span,
}

/// A group's path and those of the groups above it, nearest first: `/a/b`, `/a`, `/`.
pub fn lineage(path: &str) -> impl Iterator<Item = &str> {
    let above = path.rmatch_indices('/').map(|(end, _)| if end == 0 { "/" } else { &path[..end] });
    std::iter::once(path).chain(above.filter(move |name| *name != path))
}

/// Whether a group is `top` or below it, by their paths.
#[must_use]
pub fn is_within(path: &str, top: &str) -> bool {
    let below = path.strip_prefix(top.trim_end_matches('/'));
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What people call a group, by its path alone: `sshd.service`, `pod 1a2b`, `container 0123456789ab`.
fn title_of(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if let Some(place) = parts.iter().position(|part| container_id(part).is_some()) {
        let id = container_id(parts[place]).unwrap_or_default();
        let pod = parts[..place].iter().rev().find_map(|part| pod_id(part));
        let pod = pod.map_or_else(String::new, |pod| format!("pod {pod}/"));
        let below: String = parts[place + 1..].iter().map(|part| format!("/{part}")).collect();
        return format!("{pod}container {}{below}", &id[..12]);
    }
    if let Some(pod) = parts.last().and_then(|part| pod_id(part)) {
        return format!("pod {pod}");
    }
    let is_unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
    match parts.iter().position(is_unit) {
        Some(place) => parts[place..].join("/").replace("\\x2d", "-"),
        None => path.to_owned(),
    }
}

/// The 64 hexadecimal digits in the name of a container's group: `docker-ID.scope`, `cri-containerd-ID.scope`, `ID`.
#[must_use]
pub fn container_id(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id = name.rsplit('-').next()?;
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

/// The identity in the name of a pod's group, as Kubernetes writes it: `kubepods-burstable-pod1a_2b.slice`, `pod1a-2b`.
fn pod_id(part: &str) -> Option<String> {
    let id = match part.strip_suffix(".slice") {
        Some(slice) => slice.starts_with("kubepods").then_some(slice)?.rsplit_once("-pod")?.1,
        None => part.strip_prefix("pod")?,
    };
    let is_id = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_');
    (id.len() >= 8 && id.bytes().all(is_id)).then(|| id.replace('_', "-"))
}

impl Groups {
    /// What people call a group: the name of its container, its systemd unit, or its path.
    #[must_use]
    pub fn title(&self, group: u32) -> String {
        let path = self.names.get(group as usize).map_or("", String::as_str);
        self.titles.get(&group).cloned().unwrap_or_else(|| title_of(path))
    }

    /// Whether a group is meant by what somebody wrote: its path, one above it, or its name.
    #[must_use]
    pub fn is_meant(&self, group: u32, wanted: &str) -> bool {
        let is_named = |group: u32| {
            self.titles
                .get(&group)
                .is_some_and(|title| title == wanted || title.rsplit('/').next() == Some(wanted))
                || self.names.get(group as usize).is_some_and(|path| title_of(path) == wanted)
        };
        let path = self.names.get(group as usize).map_or("", String::as_str);
        is_within(path, wanted) || self.chain(group).any(is_named)
    }

    /// The group that a task was in last, as an index into [`Groups::names`]; `None` if its group
    /// was not read.
    #[must_use]
    pub fn of(&self, pid: Pid) -> Option<u32> {
        let after = self.members.partition_point(|member| member.pid <= pid);
        let last = self.members.get(after.checked_sub(1)?)?;
        (last.pid == pid).then_some(last.group)
    }

    /// The group that a task was in at a time, as an index into [`Groups::names`]; `None` if its group was not read.
    #[must_use]
    pub fn at(&self, pid: Pid, time: Nanos) -> Option<u32> {
        let first = self.members.partition_point(|member| member.pid < pid);
        let own = self.members[first..].iter().take_while(|member| member.pid == pid);
        let mut found = None;
        for member in own {
            if found.is_none() || member.at <= time {
                found = Some(member.group);
            }
        }
        found
    }

    /// What a group was allowed when it was last looked at; `None` if it never was.
    #[must_use]
    pub fn limit(&self, group: u32) -> Option<&Limit> {
        self.limits.iter().rfind(|limit| limit.group == group)
    }

    /// When a group may have had another limit than at its last look: from its first look until the first of those at
    /// the end that agree with the last. `None` if all looks found the same.
    #[must_use]
    pub fn limit_changed(&self, group: u32) -> Option<Span> {
        let allowed = |limit: &Limit| (limit.quota, limit.period, limit.burst);
        let read: Vec<&Limit> = self.limits.iter().filter(|limit| limit.group == group).collect();
        let last = allowed(read.last()?);
        let other = read.iter().rposition(|limit| allowed(limit) != last)?;
        Some(Span::new(read[0].at, read[other + 1].at))
    }

    /// A group and the groups above it that are known by name, nearest first.
    pub fn chain(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        let path = self.names.get(group as usize).map_or("", String::as_str);
        let place = |name: &str| self.names.iter().position(|known| known == name);
        let above = lineage(path).skip(1).filter_map(place).map(|at| at as u32);
        std::iter::once(group).chain(above)
    }

    /// The nearest quota that holds for a group: its own, or that of a group above it.
    #[must_use]
    pub fn quota(&self, group: u32) -> Option<&Limit> {
        self.chain(group).find_map(|at| self.limit(at).filter(|limit| limit.quota.is_some()))
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
            ran: last.ran.zip(first.ran).map(|(last, first)| last - first),
            span: Span::new(first.at, last.at.max(first.at)),
        })
    }

    /// The steal time between the first and the last reading; `None` with fewer than two readings.
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
            ran: None,
        };
        let groups = Groups {
            names: vec!["/".into(), "/a".into()],
            members: vec![member(3, 0, 0), member(3, 9, 1), member(7, 0, 0)],
            counts: vec![count(0, 1, 5), count(4, 0, 7), count(8, 1, 25)],
            steal: vec![(Nanos(0), Nanos(100)), (Nanos(9), Nanos(130))],
            limits: Vec::new(),
            titles: BTreeMap::new(),
        };
        let at = |pid, time| groups.at(Pid(pid), Nanos(time));
        assert_eq!([at(3, 0), at(3, 8), at(3, 9), at(5, 0)], [Some(0), Some(0), Some(1), None]);
        assert_eq!([3, 7, 5, 9].map(|pid| groups.of(Pid(pid))), [Some(1), Some(0), None, None]);
        let throttling = Throttling {
            periods: 8,
            throttled_periods: 4,
            throttled: Nanos(20),
            ran: None,
            span: Span::new(Nanos(0), Nanos(8)),
        };
        assert_eq!(groups.throttling(1), Some(throttling));
        assert_eq!(groups.throttling(0), None, "once is no growth");
        assert_eq!(groups.stolen(), Some(Nanos(30)));
        assert_eq!(Groups::default().stolen(), None);
    }

    #[test]
    fn groups_are_called_as_people_call_them() {
        let id = "0123456789abcdef".repeat(4);
        let uid = "1a2b3c4d_0000_4e5f_8a9b_001122334455";
        let names = [
            "/system.slice/sshd.service".to_owned(),
            "/user.slice/user-1000.slice/session-3.scope".to_owned(),
            "/system.slice/system-my\\x2dapp.slice/my\\x2dapp@1.service/workers".to_owned(),
            format!("/system.slice/docker-{id}.scope"),
            format!("/docker/{id}/init"),
            format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice"),
            format!("/kubepods/burstable/pod1a2b3c4d-0000-4e5f-8a9b-001122334455/{id}"),
            "/plain/group".to_owned(),
            "/".to_owned(),
        ];
        let mut groups = Groups { names: names.to_vec(), ..Groups::default() };
        let pod = "pod 1a2b3c4d-0000-4e5f-8a9b-001122334455";
        let in_pod = format!("{pod}/container 0123456789ab");
        let expected = [
            "sshd.service",
            "session-3.scope",
            "my-app@1.service/workers",
            "container 0123456789ab",
            "container 0123456789ab/init",
            pod,
            &in_pod,
            "/plain/group",
            "/",
        ];
        let titles: Vec<String> = (0..9).map(|group| groups.title(group)).collect();
        assert_eq!(titles, expected);
        groups.titles.insert(3, "web".to_owned());
        assert_eq!(groups.title(3), "web");
        assert!(groups.is_meant(3, "web") && groups.is_meant(3, "/system.slice"));
        assert!(groups.is_meant(0, "sshd.service") && !groups.is_meant(1, "web"));
    }

    #[test]
    fn a_group_is_within_those_of_its_lineage_alone() {
        assert_eq!(lineage("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
        assert_eq!(lineage("/").collect::<Vec<_>>(), ["/"]);
        assert!(lineage("/a/b").all(|top| is_within("/a/b", top)));
        assert!(is_within("/a", "/a/") && !is_within("/ab", "/a") && !is_within("/", "/a"));
    }

    #[test]
    fn groups_above_come_by_their_paths_and_limits_by_their_last_look() {
        let names = ["/a/b/c", "/", "/a", "/ab"].map(str::to_owned).to_vec();
        let limit = |at, quota| Limit {
            at: Nanos(at),
            group: 2,
            quota,
            period: Nanos(100),
            burst: Nanos(0),
            shares: 1024,
        };
        let limits = vec![limit(1, None), limit(5, Some(Nanos(20)))];
        let groups = Groups { names, limits, ..Groups::default() };
        assert_eq!(groups.chain(0).collect::<Vec<_>>(), [0, 2, 1]);
        assert_eq!(groups.chain(1).collect::<Vec<_>>(), [1]);
        assert_eq!(groups.limit(2).and_then(|limit| limit.quota), Some(Nanos(20)));
        assert_eq!(groups.limit_changed(2), Some(Span::new(Nanos(1), Nanos(5))));
        assert_eq!(groups.limit_changed(0), None);
        assert_eq!(groups.limit(0), None);
    }
}
