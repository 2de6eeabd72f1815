//! Control groups of the tasks, and what the kernel counts for them.
//!
//! A task's group is read when the task is first looked at, and once more at the end. A task that came and went in between
//! was in its parent's. Counters and limits are read at the begin and at the end, also those of the groups above, and those
//! of empty groups with a quota: tasks may be moved there and be gone before anybody looks again.

use super::containers::Containers;
use super::spool::Seen;
use schedlab_model::{Count, Limit, Member, Nanos, Pid, is_within, lineage};
use schedlab_sys::cgroup::{self, Hierarchy};
use schedlab_sys::clock;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Looks tasks up in the hierarchy that divides CPU time.
pub(crate) struct Groups {
    hierarchy: Hierarchy,
    of: BTreeMap<Pid, String>,
    names: BTreeSet<String>,
    containers: Containers,
}

impl Groups {
    /// Of this machine; `None` where no hierarchy is mounted.
    pub(crate) fn here() -> Option<Self> {
        let hierarchy = cgroup::of_cpu()?;
        let containers = Containers::at(Path::new("/"));
        Some(Self { hierarchy, of: BTreeMap::new(), names: BTreeSet::new(), containers })
    }

    /// The groups of all tasks that were not met yet or changed: by the tree, where it shows what `/proc` does.
    pub(crate) fn look_at_all(&mut self) -> Vec<Seen> {
        let all = self.hierarchy.all_members().unwrap_or_default();
        // Tasks of other namespaces have no number here.
        let tasks = |(group, pids): (String, Vec<Pid>)| {
            if pids.is_empty() && self.hierarchy.has_quota(&group) {
                return self.met(&group);
            }
            let looked =
                pids.into_iter().filter(|pid| !pid.is_idle()).map(|pid| self.found(pid, &group));
            looked.collect::<Vec<_>>().concat()
        };
        all.into_iter().flat_map(tasks).collect()
    }

    /// The group of a task, if it changed since the last look. A group that is met for the first time is counted.
    pub(crate) fn look(&mut self, pid: Pid, parent: Option<Pid>) -> Vec<Seen> {
        let inherited = || self.of.get(&parent?).cloned();
        match self.hierarchy.name_of(pid).or_else(inherited) {
            Some(group) => self.found(pid, &group),
            None => Vec::new(),
        }
    }

    /// Whether a task was met already.
    pub(crate) fn knows(&self, pid: Pid) -> bool {
        self.of.contains_key(&pid)
    }

    fn found(&mut self, pid: Pid, group: &str) -> Vec<Seen> {
        if self.of.get(&pid).map(String::as_str) == Some(group) {
            return Vec::new();
        }
        let is_first = self.of.insert(pid, group.to_owned()).is_none();
        let at = clock::monotonic();
        let group = group.to_owned();
        let mut seen = self.met(&group);
        seen.push(Seen::Member { pid, at, group, is_first: Some(is_first) });
        seen
    }

    /// The group of a task; `None` if the task is gone.
    pub(crate) fn of_task(&self, pid: Pid) -> Option<String> {
        self.hierarchy.name_of(pid)
    }

    /// Counters, limits and names of a group and of those above it that are met for the first time.
    pub(crate) fn met(&mut self, group: &str) -> Vec<Seen> {
        let mut seen = Vec::new();
        for name in lineage(group) {
            if self.names.insert(name.to_owned()) {
                seen.extend(self.read(name));
                let title = self.containers.name_of(name);
                seen.extend(title.map(|title| Seen::Titled { group: name.to_owned(), title }));
            }
        }
        seen
    }

    /// Groups that are gone are not counted, and met anew if they come again.
    pub(crate) fn forget_but(&mut self, used: &BTreeSet<String>) {
        self.names.retain(|name| used.contains(name));
    }

    /// What the kernel counts for all groups and allows them, and the steal time.
    pub(crate) fn count(&self) -> Vec<Seen> {
        self.names.iter().flat_map(|group| self.read(group)).chain(Self::steal()).collect()
    }

    /// Reads the counters of all groups with a quota.
    pub(crate) fn count_limited(&mut self) -> Vec<Seen> {
        if self.names.is_empty() {
            let all = self.hierarchy.names().into_iter();
            self.names = all.filter(|name| self.hierarchy.has_quota(name)).collect();
        }
        self.names.iter().filter_map(|group| self.count_of(group)).collect()
    }

    /// The machine's steal time so far.
    pub(crate) fn steal() -> Option<Seen> {
        let at = clock::monotonic();
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        steal(&stat).map(|steal| Seen::Stolen { at, steal })
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
        let (periods, throttled_periods, throttled, ran) = self.hierarchy.counters(group)?;
        let at = clock::monotonic();
        let count = Count { at, group: 0, periods, throttled_periods, throttled, ran };
        Some(Seen::Counted { group: group.to_owned(), count })
    }
}

/// The eighth number of the line for all CPUs, in ticks of a hundredth of a second (`USER_HZ`).
fn steal(stat: &str) -> Option<Nanos> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: u64 = line.split_whitespace().nth(7)?.parse().ok()?;
    Some(Nanos(ticks.saturating_mul(10_000_000)))
}

/// A task was moved to another group, as an event tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attached {
    pub(crate) at: Nanos,
    pub(crate) pid: Pid,
    pub(crate) group: String,
}

/// What events tell of groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    pub(crate) attached: Vec<Attached>,
    pub(crate) renamed: Vec<Renamed>,
}

/// A group got another name, as an event tells; only version 1 has that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Renamed {
    pub(crate) at: Nanos,
    /// The path that it has since.
    pub(crate) group: String,
}

/// By the path that a group had before: what it is called at the end. The event does not tell the old name. The group's
/// tasks do: they are in the new one, and no event moved them there.
fn renamed(seen: &[Seen], attached: &[Attached], all: &[Renamed]) -> BTreeMap<String, String> {
    let mut last = BTreeMap::new();
    let mut found = BTreeMap::new();
    if all.is_empty() {
        return found;
    }
    let moved: BTreeSet<Pid> = attached.iter().map(|one| one.pid).collect();
    for one in seen {
        let Seen::Member { pid, at, group, .. } = one else { continue };
        let before = last.insert(*pid, group);
        let Some(before) = before.filter(|_| !moved.contains(pid)) else { continue };
        for Renamed { group: name, .. } in all.iter().filter(|one| one.at <= *at) {
            let below =
                group.strip_prefix(name.as_str()).and_then(|rest| before.strip_suffix(rest));
            if let Some(old) = below.filter(|old| old != name && is_within(group, name)) {
                found.insert(old.to_owned(), name.clone());
            }
        }
    }
    found
}

/// The path that a group has at the end.
fn last_name(group: &str, renamed: &BTreeMap<String, String>) -> String {
    let above = lineage(group).find_map(|name| Some((name, renamed.get(name)?)));
    above.map_or_else(|| group.to_owned(), |(old, name)| format!("{name}{}", &group[old.len()..]))
}

/// The groups as the trace keeps them; `None` when nobody looked.
/// Where `counted` has a group twice, its counters were read while events were written; they stand for those of `seen`.
pub(crate) fn gather(
    seen: &[Seen],
    moves: &Moves,
    counted: &[Seen],
) -> Option<schedlab_model::Groups> {
    let new_names = renamed(seen, &moves.attached, &moves.renamed);
    let last = |group: &str| last_name(group, &new_names);
    let attached = moves.attached.iter();
    let attached: Vec<Attached> =
        attached.map(|one| Attached { group: last(&one.group), ..*one }).collect();
    let mut names = Vec::<String>::new();
    let mut places = BTreeMap::<String, u32>::new();
    let mut members = Vec::new();
    let mut counts = Vec::new();
    let mut steal = Vec::new();
    let mut limits = Vec::new();
    let mut titles = BTreeMap::new();
    let mut first_move = BTreeMap::new();
    for Attached { at, pid, .. } in &attached {
        let first = first_move.entry(*pid).or_insert(*at);
        *first = (*first).min(*at);
    }
    // A move of a whole process has one event, for its first thread: when the others moved is known from it.
    let threads = seen.iter().filter_map(|one| match one {
        Seen::Thread { pid, process } => Some((*pid, *process)),
        _ => None,
    });
    let process_of: BTreeMap<Pid, Pid> = threads.collect();
    let with_process = |pid: &Pid, by: Nanos, to: &str| {
        let process = process_of.get(pid)?;
        let own = attached.iter().filter(|one| one.pid == *process && one.group == to);
        own.map(|one| one.at).filter(|at| *at <= by).max()
    };
    // A move tells more exactly than a later look when the task came to its group.
    let is_told = |pid: &Pid, at: Nanos| first_move.get(pid).is_some_and(|first| *first <= at);
    let name_of = |one: &Seen| match one {
        Seen::Counted { group, .. } => Some(last(group)),
        _ => None,
    };
    let mut met = BTreeSet::new();
    let mut read = BTreeMap::<String, u32>::new();
    counted.iter().filter_map(name_of).for_each(|name| *read.entry(name).or_default() += 1);
    let is_better = |one: &Seen| name_of(one).is_some_and(|name| read.get(&name) > Some(&1));
    let first = seen.iter().filter(|one| !is_better(one));
    for one in first.chain(counted.iter().filter(|one| is_better(one))) {
        let place = one.group().map_or(0, |group| {
            let next = places.len() as u32;
            *places.entry(last(group)).or_insert_with_key(|group| {
                names.push(group.clone());
                next
            })
        });
        match one {
            Seen::Member { pid, at, .. } if is_told(pid, *at) => {}
            Seen::Member { pid, at, is_first, .. } => {
                let is_first = is_first.unwrap_or_else(|| !met.contains(pid));
                met.insert(*pid);
                let looked = if is_first { Nanos::ZERO } else { *at };
                let at = with_process(pid, *at, &names[place as usize]).unwrap_or(looked);
                members.push(Member { pid: *pid, at, group: place });
            }
            Seen::Titled { title, .. } => drop(titles.insert(place, title.clone())),
            Seen::Counted { count, .. } => counts.push(Count { group: place, ..*count }),
            Seen::Limited { limit, .. } => limits.push(Limit { group: place, ..*limit }),
            Seen::Stolen { at, steal: sum } => steal.push((*at, *sum)),
            _ => {}
        }
    }
    for Attached { at, pid, group } in &attached {
        let place = names.iter().position(|name| name == group).unwrap_or(names.len());
        if place == names.len() {
            names.push(group.clone());
        }
        members.push(Member { pid: *pid, at: *at, group: place as u32 });
    }
    members.sort_unstable();
    (!names.is_empty()).then_some(schedlab_model::Groups {
        names,
        members,
        counts,
        steal,
        limits,
        titles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_numbered_as_they_are_met() {
        let member = |pid, group: &str| Seen::Member {
            pid: Pid(pid),
            at: Nanos(4),
            group: group.into(),
            is_first: Some(true),
        };
        let count = Count {
            at: Nanos(5),
            group: 0,
            periods: 1,
            throttled_periods: 1,
            throttled: Nanos(3),
            ran: None,
        };
        let counted = Seen::Counted { group: "/a".into(), count };
        let seen = [member(9, "/"), member(7, "/a"), counted, member(8, "/")];
        let groups = gather(&seen, &Moves::default(), &[]).expect("groups were seen");
        assert_eq!(groups.names, ["/", "/a"]);
        assert_eq!([7, 8, 9].map(|pid| groups.of(Pid(pid))), [Some(1), Some(0), Some(0)]);
        assert_eq!(groups.counts[0].group, 1);
        assert_eq!(gather(&[], &Moves::default(), &[]), None, "nobody looked");
    }

    #[test]
    fn a_task_is_in_its_group_from_the_instant_of_its_move() {
        let member = |pid, at, group: &str, is_first| Seen::Member {
            pid: Pid(pid),
            at: Nanos(at),
            group: group.into(),
            is_first: Some(is_first),
        };
        // Task 7 was moved at 20, which the looks at 30 found; task 9 was new then, and moved before anybody looked.
        // Thread 8 went with its process, 7.
        let seen = [
            Seen::Thread { pid: Pid(8), process: Pid(7) },
            member(7, 10, "/a", true),
            member(8, 10, "/a", true),
            member(7, 30, "/b", false),
            member(8, 30, "/b", false),
            member(9, 30, "/b", true),
        ];
        let attached = |at, pid| Attached { at: Nanos(at), pid: Pid(pid), group: "/b".into() };
        let attached = vec![attached(20, 7), attached(25, 9)];
        let groups = gather(&seen, &Moves { attached, renamed: Vec::new() }, &[]).unwrap();
        let told = |member: &Member| (member.pid.0, member.at.0, member.group);
        let members: Vec<_> = groups.members.iter().map(told).collect();
        assert_eq!(members, [(7, 0, 0), (7, 20, 1), (8, 0, 0), (8, 20, 1), (9, 25, 1)]);
    }

    #[test]
    fn a_spool_that_does_not_say_which_look_was_first_has_it_in_the_first_line() {
        let line = |at, group: &str| {
            let text = format!(r#"{{"member":{{"pid":7,"at":{at},"group":"{group}"}}}}"#);
            serde_json::from_str::<Seen>(&text).unwrap()
        };
        let groups = gather(&[line(10, "/a"), line(30, "/b")], &Moves::default(), &[]).unwrap();
        let told: Vec<_> =
            groups.members.iter().map(|member| (member.at.0, member.group)).collect();
        assert_eq!(told, [(0, 0), (30, 1)]);
    }

    #[test]
    fn a_group_that_is_renamed_keeps_its_tasks_limits_and_counters() {
        let member = |pid, at, group: &str, is_first| Seen::Member {
            pid: Pid(pid),
            at: Nanos(at),
            group: group.into(),
            is_first: Some(is_first),
        };
        let limit = |at, group: &str, quota| Seen::Limited {
            group: group.into(),
            limit: Limit {
                at: Nanos(at),
                group: 0,
                quota,
                period: Nanos(100),
                burst: Nanos(0),
                shares: 1024,
            },
        };
        // Task 7 goes with /a/in, task 8 was moved by hand, task 9 is in a group of a similar name.
        let seen = [
            member(7, 1, "/a/in", true),
            limit(1, "/a", Some(Nanos(20))),
            member(8, 1, "/c", true),
            member(9, 1, "/bb/in", true),
            limit(30, "/b", Some(Nanos(20))),
            member(7, 30, "/b/in", false),
            member(8, 30, "/b/in", false),
        ];
        let attached = vec![Attached { at: Nanos(5), pid: Pid(8), group: "/a/in".into() }];
        let renamed = vec![Renamed { at: Nanos(20), group: "/b".into() }];
        let groups = gather(&seen, &Moves { attached, renamed }, &[]).unwrap();
        let at = |pid, time| {
            groups.at(Pid(pid), Nanos(time)).map(|at| groups.names[at as usize].as_str())
        };
        assert_eq!([at(7, 2), at(7, 40)], [Some("/b/in"); 2]);
        assert_eq!([at(8, 2), at(8, 9), at(8, 40)], [Some("/c"), Some("/b/in"), Some("/b/in")]);
        assert_eq!(at(9, 40), Some("/bb/in"));
        let limited = groups.names.iter().position(|name| name == "/b").unwrap() as u32;
        assert_eq!(groups.limits.iter().filter(|limit| limit.group == limited).count(), 2);
        assert!(!groups.names.iter().any(|name| name.starts_with("/a")), "{:?}", groups.names);
    }

    #[test]
    fn counters_that_were_read_while_events_were_written_stand_for_others() {
        let counted = |at, throttled| Seen::Counted {
            group: "/a".into(),
            count: Count {
                at: Nanos(at),
                group: 0,
                periods: 1,
                throttled_periods: 1,
                throttled: Nanos(throttled),
                ran: None,
            },
        };
        let groups = gather(
            &[counted(0, 1), counted(90, 99)],
            &Moves::default(),
            &[counted(5, 10), counted(80, 30)],
        );
        let throttling = groups.unwrap().throttling(0).unwrap();
        assert_eq!((throttling.throttled, throttling.span.start), (Nanos(20), Nanos(5)));
    }

    #[test]
    fn steal_is_the_eighth_number() {
        assert_eq!(steal("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 0"), Some(Nanos(80_000_000)));
        assert_eq!(steal("cpu  1 2 3"), None);
    }
}
