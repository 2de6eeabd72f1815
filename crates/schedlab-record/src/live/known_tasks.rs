//! What events do not say of tasks: groups, allowed CPUs, processes, names. Known of those that live, and of those that
//! ended a short while ago.
//!
//! Each task is looked at when it begins, and when it executes a program. Nobody tells when a task is bound or moved
//! otherwise, so a few tasks are looked at again in each window, in turn.

use super::super::error::RecordError;
use super::super::groups::Groups;
use super::super::spool::{self, Seen};
use schedlab_model::{
    Affinity, Comm, CpuSet, Event, Limit, Member, Nanos, Pid, TraceInfo, What, lineage,
};
use schedlab_sys::{clock, process, sched};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Tasks and groups that are looked at again in a window.
const AGAIN: usize = 64;

/// Fewer groups than this are kept: to forget some takes a look at all tasks.
const GROUPS_MIN: usize = 256;

/// What is known of one task.
#[derive(Clone, Debug, Default)]
struct Known {
    comm: Option<Comm>,
    process: Option<Pid>,
    /// From when on it was where, in order of time.
    groups: Vec<(Nanos, u32)>,
    allowed: Vec<(Nanos, CpuSet)>,
}

pub(super) struct KnownTasks {
    tasks: BTreeMap<Pid, Known>,
    groups: Option<Groups>,
    names: Vec<String>,
    places: BTreeMap<String, u32>,
    /// By group.
    limits: Vec<Option<Limit>>,
    /// What people call groups that are containers.
    titles: BTreeMap<u32, String>,
    /// Those that ended, and when.
    gone: VecDeque<(Nanos, Pid)>,
    /// Where looking again goes on.
    next: (Pid, usize),
    /// How many groups stayed when some were forgotten last.
    stayed: usize,
    is_news: bool,
    out: Option<BufWriter<File>>,
}

impl KnownTasks {
    /// Looks at every task there is. What is found is also written into the spool `dir`.
    pub(super) fn start(dir: Option<&Path>) -> Result<Self, RecordError> {
        let out = dir.map(|dir| spool::create(&spool::tasks(dir))).transpose()?.map(BufWriter::new);
        let mut known_tasks = Self::new(Groups::here(), out);
        known_tasks.look_at_all().map_err(RecordError::io("looking at the tasks"))?;
        Ok(known_tasks)
    }

    fn new(groups: Option<Groups>, out: Option<BufWriter<File>>) -> Self {
        Self {
            tasks: BTreeMap::new(),
            groups,
            names: Vec::new(),
            places: BTreeMap::new(),
            limits: Vec::new(),
            titles: BTreeMap::new(),
            gone: VecDeque::new(),
            next: (Pid(0), 0),
            stayed: 0,
            is_news: true,
            out,
        }
    }

    fn look_at_all(&mut self) -> io::Result<()> {
        for (pid, process) in process::tasks_with_processes() {
            if let Some(comm) = process::comm(pid) {
                self.note(&Seen::Named { pid, comm })?;
            }
            if pid != process {
                self.note(&Seen::Thread { pid, process })?;
            }
            self.look(pid, None, Nanos::ZERO)?;
        }
        self.count()
    }

    /// Notes what the kernel counts for groups.
    fn count(&mut self) -> io::Result<()> {
        let counted = self.groups.as_ref().map(Groups::count).unwrap_or_default();
        counted.iter().try_for_each(|seen| self.note(seen))
    }

    /// Follows who comes and goes.
    pub(super) fn see(&mut self, events: &[Event]) -> io::Result<()> {
        for event in events {
            match event.what {
                What::Fork { child } => {
                    // Of a task that has ended nothing is left to read.
                    let process = process::process_of(child).filter(|process| *process != child);
                    if let Some(process) = process {
                        self.note(&Seen::Thread { pid: child, process })?;
                    }
                    self.look(child, Some(event.by), event.time)?;
                }
                What::Exec { .. } => self.look(event.by, None, event.time)?,
                What::Exit { pid } => self.gone.push_back((event.time, pid)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Looks where a task is and where it may run, as of `at`. One that is gone had what its parent has.
    fn look(&mut self, pid: Pid, parent: Option<Pid>, at: Nanos) -> io::Result<()> {
        let of = |pid: Option<Pid>| self.tasks.get(&pid?);
        let inherited = of(parent);
        let now = self.groups.as_ref().and_then(|groups| groups.of_task(pid));
        let group = now.or_else(|| {
            let (_, place) = inherited?.groups.last()?;
            self.names.get(*place as usize).cloned()
        });
        let last = || inherited?.allowed.last().map(|(_, allowed)| allowed.clone());
        let allowed = sched::affinity(pid).ok().or_else(last);
        let known = of(Some(pid));
        // A pid that is used again begins anew.
        let known = known.filter(|_| parent.is_none());
        let same_group = known.and_then(|known| known.groups.last()).map(|(_, place)| *place);
        let same_allowed = known.and_then(|known| known.allowed.last()).map(|(_, cpus)| cpus);
        let news_allowed = allowed.filter(|allowed| same_allowed != Some(allowed));
        let news_group = group
            .filter(|group| same_group.is_none() || self.places.get(group).copied() != same_group);
        if let Some(group) = news_group {
            let met = self.groups.as_mut().map(|groups| groups.met(&group)).unwrap_or_default();
            met.iter().try_for_each(|seen| self.note(seen))?;
            self.note(&Seen::Member { pid, at, group, is_first: Some(false) })?;
        }
        if let Some(cpus) = news_allowed {
            self.note(&Seen::Allowed { pid, at, cpus })?;
        }
        Ok(())
    }

    /// A window has closed: tasks that ended well before it are forgotten, and some are looked at again.
    pub(super) fn window(&mut self, end: Nanos, recent: Nanos) -> io::Result<()> {
        let keep = recent.max(Nanos::from_secs(2));
        while let Some((_, pid)) = self.gone.pop_front_if(|(at, _)| *at + keep < end) {
            // Its number may belong to another one by now.
            let is_new = self.tasks.get(&pid).and_then(|known| known.groups.last());
            if is_new.is_none_or(|(since, _)| *since + keep < end) {
                self.tasks.remove(&pid);
                self.is_news = true;
            }
        }
        if self.names.len() > 2 * self.stayed + GROUPS_MIN {
            self.forget_groups();
        }
        let (after, group) = self.next;
        let some: Vec<Pid> = self.tasks.range(after..).map(|(pid, _)| *pid).take(AGAIN).collect();
        let now = clock::monotonic();
        for pid in &some {
            self.look(*pid, None, now)?;
            if let Some(known) = self.tasks.get_mut(pid) {
                drop_before(&mut known.groups, end - keep);
                drop_before(&mut known.allowed, end - keep);
            }
        }
        let last = some.last().filter(|_| some.len() == AGAIN);
        self.next.0 = last.map_or(Pid(0), |pid| Pid(pid.0 + 1));
        let names: Vec<String> = self.names.iter().skip(group).take(AGAIN).cloned().collect();
        self.next.1 = if names.len() == AGAIN { group + AGAIN } else { 0 };
        for name in names {
            let limit = self.groups.as_ref().and_then(|groups| groups.limit_of(&name));
            limit.iter().try_for_each(|seen| self.note(seen))?;
        }
        self.out.as_mut().map_or(Ok(()), Write::flush)
    }

    /// Writes what is known into a file of a spool.
    pub(super) fn save(&self, path: &Path) -> Result<(), RecordError> {
        let mut out = BufWriter::new(spool::create(path)?);
        let mut write = |seen: &Seen| -> io::Result<()> {
            serde_json::to_writer(&mut out, seen)?;
            out.write_all(b"\n")
        };
        let mut all = || -> io::Result<()> {
            for (pid, known) in &self.tasks {
                let Known { comm, process, groups, allowed } = known;
                comm.map_or(Ok(()), |comm| write(&Seen::Named { pid: *pid, comm }))?;
                process.map_or(Ok(()), |process| write(&Seen::Thread { pid: *pid, process }))?;
                for (at, place) in groups {
                    let group = self.names[*place as usize].clone();
                    write(&Seen::Member { pid: *pid, at: *at, group, is_first: Some(false) })?;
                }
                for (at, cpus) in allowed {
                    write(&Seen::Allowed { pid: *pid, at: *at, cpus: cpus.clone() })?;
                }
            }
            let limits = self.names.iter().zip(&self.limits);
            for (group, limit) in limits.filter_map(|(group, limit)| Some((group, (*limit)?))) {
                write(&Seen::Limited { group: group.clone(), limit })?;
            }
            for (place, title) in &self.titles {
                let group = self.names[*place as usize].clone();
                let title = title.clone();
                write(&Seen::Titled { group, title })?;
            }
            Ok(())
        };
        let written = all();
        written.and_then(|()| out.flush()).map_err(RecordError::file(path))
    }

    /// Notes the counters of groups at the end.
    pub(super) fn finish(&mut self) -> Result<(), RecordError> {
        let done = self.count().and_then(|()| self.out.as_mut().map_or(Ok(()), Write::flush));
        done.map_err(RecordError::io("writing what is known of the tasks"))
    }

    /// Forgets groups in which, or below which, no known task is or was. The others get new numbers.
    fn forget_groups(&mut self) {
        let used: BTreeSet<u32> =
            self.tasks.values().flat_map(|known| &known.groups).map(|(_, place)| *place).collect();
        let used = used.iter().filter_map(|place| self.names.get(*place as usize));
        let used: BTreeSet<String> =
            used.flat_map(|name| lineage(name)).map(str::to_owned).collect();
        if let Some(groups) = &mut self.groups {
            groups.forget_but(&used);
        }
        let names = std::mem::take(&mut self.names);
        let limits = std::mem::take(&mut self.limits);
        let mut titles = std::mem::take(&mut self.titles);
        self.places.clear();
        let mut new = vec![0; names.len()];
        for (old, (name, limit)) in names.iter().zip(limits).enumerate() {
            if used.contains(name) {
                let place = self.place(name);
                new[old] = place;
                self.limits[place as usize] = limit.map(|limit| Limit { group: place, ..limit });
                let title = titles.remove(&(old as u32));
                self.titles.extend(title.map(|title| (place, title)));
            }
        }
        for (_, place) in self.tasks.values_mut().flat_map(|known| &mut known.groups) {
            *place = new[*place as usize];
        }
        self.stayed = self.names.len();
        self.next.1 = 0;
        self.is_news = true;
    }

    fn place(&mut self, group: &str) -> u32 {
        if let Some(place) = self.places.get(group) {
            return *place;
        }
        let place = self.names.len() as u32;
        self.names.push(group.to_owned());
        self.limits.push(None);
        self.places.insert(group.to_owned(), place);
        place
    }

    fn note(&mut self, seen: &Seen) -> io::Result<()> {
        match seen {
            Seen::Named { pid, comm } => self.tasks.entry(*pid).or_default().comm = Some(*comm),
            Seen::Thread { pid, process } => {
                self.tasks.entry(*pid).or_default().process = Some(*process);
            }
            Seen::Member { pid, at, group, .. } => {
                let place = self.place(group);
                self.tasks.entry(*pid).or_default().groups.push((*at, place));
            }
            Seen::Allowed { pid, at, cpus } => {
                self.tasks.entry(*pid).or_default().allowed.push((*at, cpus.clone()));
            }
            Seen::Limited { group, limit } => {
                let place = self.place(group);
                let known = &mut self.limits[place as usize];
                let allows = |limit: &Limit| (limit.quota, limit.period, limit.burst, limit.shares);
                if known.as_ref().map(allows) == Some(allows(limit)) {
                    return Ok(());
                }
                *known = Some(Limit { group: place, ..*limit });
            }
            Seen::Titled { group, title } => {
                let place = self.place(group);
                self.titles.insert(place, title.clone());
            }
            _ => {}
        }
        self.is_news = true;
        let Some(out) = &mut self.out else { return Ok(()) };
        serde_json::to_writer(&mut *out, seen)?;
        out.write_all(b"\n")
    }

    /// Tells what is known; whether it was news.
    pub(super) fn describe(&mut self, info: &mut TraceInfo) -> bool {
        if !std::mem::take(&mut self.is_news) {
            return false;
        }
        let mut members = Vec::new();
        let mut affinity = Vec::new();
        let mut processes = BTreeMap::new();
        info.comms.clear();
        for (pid, known) in &self.tasks {
            info.comms.extend(known.comm.map(|comm| (*pid, comm)));
            processes.extend(known.process.map(|process| (*pid, process)));
            let member = |(at, group): &(Nanos, u32)| Member { pid: *pid, at: *at, group: *group };
            members.extend(known.groups.iter().map(member));
            let may = |(at, cpus): &(Nanos, CpuSet)| Affinity {
                pid: *pid,
                at: *at,
                allowed: cpus.clone(),
            };
            affinity.extend(known.allowed.iter().map(may));
        }
        info.affinity = Some(affinity);
        info.processes = Some(processes);
        info.groups = self.groups.is_some().then(|| schedlab_model::Groups {
            names: self.names.clone(),
            members,
            limits: self.limits.iter().flatten().copied().collect(),
            titles: self.titles.clone(),
            ..schedlab_model::Groups::default()
        });
        true
    }
}

/// Drops what held no longer at a time.
fn drop_before<T>(all: &mut Vec<(Nanos, T)>, time: Nanos) {
    let later = all.partition_point(|(since, _)| *since <= time);
    all.drain(..later.saturating_sub(1));
}

#[cfg(test)]
mod tests {
    use super::super::super::groups;
    use super::*;
    use schedlab_model::Clock;

    /// A day of short-lived containers: each has a group, a name, a quota and some tasks.
    #[test]
    fn groups_and_tasks_that_are_gone_are_forgotten_and_the_others_keep_what_is_known() {
        let mut known_tasks = KnownTasks::new(None, None);
        let limit = |quota| Limit {
            at: Nanos::ZERO,
            group: 0,
            quota: Some(Nanos(quota)),
            period: Nanos(100),
            burst: Nanos::ZERO,
            shares: 1024,
        };
        let join = |known_tasks: &mut KnownTasks, pid: i32, at: u64, group: &str| {
            let (title, group) = (format!("of {group}"), group.to_owned());
            let limit = limit(u64::from(pid.unsigned_abs()));
            known_tasks.note(&Seen::Titled { group: group.clone(), title }).unwrap();
            known_tasks.note(&Seen::Limited { group: group.clone(), limit }).unwrap();
            let (pid, at, is_first) = (Pid(pid), Nanos(at), Some(false));
            known_tasks.note(&Seen::Member { pid, at, group, is_first }).unwrap();
        };
        // The first one outlives them all.
        join(&mut known_tasks, 1, 0, "/pods/long");
        known_tasks.note(&Seen::Limited { group: "/pods".into(), limit: limit(7) }).unwrap();
        let mut most = (0, 0);
        for round in 0..86_400_u64 {
            let end = Nanos::from_secs(round + 1);
            let pid = 2 + (round % 30_000) as i32;
            join(&mut known_tasks, pid, end.0 - 1, &format!("/pods/{round}"));
            known_tasks.gone.push_back((end, Pid(pid)));
            let cpus = CpuSet::first(1 + (round % 2) as usize);
            known_tasks.note(&Seen::Allowed { pid: Pid(1), at: end, cpus }).unwrap();
            known_tasks.window(end, Nanos::ZERO).unwrap();
            most = (most.0.max(known_tasks.names.len()), most.1.max(known_tasks.tasks.len()));
        }
        assert!(most.0 < 600 && most.1 < 100, "{most:?} groups and tasks at most");
        assert!(known_tasks.tasks[&Pid(1)].allowed.len() < 20, "{:?}", known_tasks.tasks[&Pid(1)]);
        let of = |path: &str| known_tasks.places[path];
        let place = of("/pods/long");
        assert_eq!(known_tasks.tasks[&Pid(1)].groups, [(Nanos::ZERO, place)]);
        assert_eq!(known_tasks.titles[&place], "of /pods/long");
        for (path, quota) in [("/pods/long", 1), ("/pods", 7)] {
            let limit = known_tasks.limits[of(path) as usize].unwrap();
            assert_eq!((limit.group, limit.quota), (of(path), Some(Nanos(quota))), "{path}");
        }
    }

    #[test]
    fn names_of_containers_are_in_windows_and_in_saved_traces() {
        let here = Groups::here();
        let is_here = here.is_some();
        let mut known_tasks = KnownTasks::new(here, None);
        let group = || "/docker/0123".to_owned();
        let (pid, at) = (Pid(7), Nanos::ZERO);
        known_tasks.note(&Seen::Titled { group: group(), title: "web".into() }).unwrap();
        known_tasks.note(&Seen::Member { pid, at, group: group(), is_first: Some(false) }).unwrap();
        let dir = tempfile::tempdir().unwrap();
        known_tasks.save(&spool::tasks(dir.path())).unwrap();
        let seen = spool::read_tasks(dir.path()).unwrap();
        let saved = groups::gather(&seen, &groups::Moves::default(), &[]).unwrap();
        let mut all = vec![saved];
        let mut info = TraceInfo::new("x", Clock::Monotonic);
        assert!(known_tasks.describe(&mut info));
        if is_here {
            all.push(info.groups.expect("there are groups here"));
        }
        for groups in all {
            assert_eq!(groups.of(pid).map(|group| groups.title(group)).as_deref(), Some("web"));
        }
    }
}
