//! Processes that run already are moved into a node, and each task goes back to where it was.

use super::super::apply::NodeControl;
use super::super::group::processes;
use super::super::{SlowError, journalled};
use super::Active;
use schedlab_model::{Nanos, Pid};
use schedlab_sys::guard::{Guard, Undo};
use schedlab_sys::{cgroup, process, sched};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Moves in all that a node attaches, with their children. A process may fork while it is looked at: children
/// that it had before it was moved are found by another look, children that it has later are born inside. So
/// looks end when one finds nobody new.
pub(super) fn attach(active: &mut Active, guard: &mut Guard) -> Result<(), SlowError> {
    let node = &active.node;
    if node.attach.is_empty() && node.attach_groups.is_empty() {
        return Ok(());
    }
    let no_groups = active.held.groups.is_empty();
    if no_groups && !matches!(active.held.hold, NodeControl::Stop(_)) {
        let what = "attaching needs control groups and root, except with --method stop";
        return Err(SlowError::Missing(what.into()));
    }
    if no_groups {
        let in_groups = node.attach_groups.iter().flat_map(|dir| processes(dir));
        let all = node.attach.iter().copied().chain(in_groups);
        active.attached = all.filter_map(|pid| Some((pid, process::start_ticks(pid)?))).collect();
    }
    let node = &active.node;
    let mut known = BTreeSet::new();
    loop {
        let roots = node.attach.iter().copied();
        let mut found: Vec<Pid> = roots.flat_map(process::family).collect();
        found.extend(node.attach_groups.iter().flat_map(|dir| processes(dir)));
        found.retain(|pid| known.insert(*pid));
        if found.is_empty() {
            return Ok(());
        }
        for pid in found {
            move_in(pid, active, guard)?;
        }
    }
}

const LOOKS: Nanos = Nanos::from_secs(1);

/// A session that only attaches ends when nobody of what it took in is left, children included.
#[derive(Debug)]
pub(super) struct Targets {
    /// When to look next; `MAX`: something else keeps the session going.
    due: Nanos,
}

impl Default for Targets {
    fn default() -> Self {
        Self { due: Nanos::MAX }
    }
}

impl Targets {
    /// Those of nodes, which have taken in all by `now`.
    pub(super) fn of(nodes: &[Active], now: Nanos) -> Self {
        let attaches = |active: &Active| {
            let node = &active.node;
            let held = &active.held;
            let knows_all = held.groups.is_empty() || held.zone.lists_members();
            let attaches = !(node.attach.is_empty() && node.attach_groups.is_empty());
            attaches && node.commands.is_empty() && knows_all
        };
        match !nodes.is_empty() && nodes.iter().all(attaches) {
            true => Self { due: now },
            false => Self::default(),
        }
    }

    pub(super) const fn due(&self) -> Nanos {
        self.due
    }

    pub(super) fn have_ended(&mut self, nodes: &[Active], now: Nanos) -> bool {
        if now < self.due {
            return false;
        }
        self.due = now + LOOKS;
        let is_empty = |active: &Active| active.processes(None).is_empty();
        nodes.iter().all(is_empty)
    }
}

/// Moves a process into a node's groups; where it was is journalled before.
fn move_in(pid: Pid, active: &Active, guard: &mut Guard) -> Result<(), SlowError> {
    if process::kill(pid, 0).is_err_and(|error| error.raw_os_error() == Some(1)) {
        let what = format!("process {pid} belongs to another user: run as root to slow it");
        return Err(SlowError::Missing(what));
    }
    let threads = || process::threads(pid).into_iter();
    if active.bound {
        // Read before the cpuset narrows it.
        for thread in threads() {
            let (Some(started), Ok(cpus)) = (process::start_ticks(thread), sched::affinity(thread))
            else {
                continue;
            };
            journalled(guard, Undo::Affinity { pid: thread, started, cpus })?;
        }
    }
    for group in &active.held.groups {
        for undo in ways_back(pid, group) {
            journalled(guard, undo)?;
        }
        match schedlab_sys::kernel_file::write(group.join("cgroup.procs"), pid.to_string()) {
            // It may have ended meanwhile, as any process may.
            Err(error) if error.raw_os_error() != Some(3) => {
                let doing = format!("moving process {pid} into {}", group.display());
                return Err(SlowError::io(doing, error));
            }
            _ => {}
        }
    }
    if active.bound {
        // Where there is no cpuset; where there is, this changes nothing.
        for thread in threads() {
            let _ = sched::set_affinity(thread, &active.node.cpus());
        }
    }
    Ok(())
}

/// How the tasks of a process get back from `group`: together, where all of them are in one group; none that is in
/// `group` already, since it was born there.
fn ways_back(pid: Pid, group: &Path) -> Vec<Undo> {
    let mut homes: BTreeMap<PathBuf, Vec<Pid>> = BTreeMap::new();
    for thread in process::threads(pid) {
        if let Some(home) = cgroup::group_of(thread, group).filter(|home| home != group) {
            homes.entry(home).or_default().push(thread);
        }
    }
    let back = |pid: Pid, home: &Path, list: &str| {
        let started = process::start_ticks(pid)?;
        let from = group.to_owned();
        Some(Undo::Return { pid, started, from, to: home.join(list) })
    };
    match homes.len() {
        0 => Vec::new(),
        1 => homes.keys().filter_map(|home| back(pid, home, "cgroup.procs")).collect(),
        _ => {
            let list = |home: &Path| match home.join("tasks").exists() {
                true => "tasks",
                false => "cgroup.threads",
            };
            let all =
                homes.iter().flat_map(|(home, threads)| threads.iter().map(move |t| (t, home)));
            all.filter_map(|(thread, home)| back(*thread, home, list(home))).collect()
        }
    }
}
