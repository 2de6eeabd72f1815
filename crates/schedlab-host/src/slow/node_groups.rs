//! The control groups of a node: they hold its tasks, so that these can be bound to CPUs
//! including their children, given weight or a budget, frozen, and ended together.

use super::group::{Freezer, Group, members, write};
use super::{SlowError, Support, journalled};
use schedlab_model::{CpuSet, Pid};
use schedlab_sys::cgroup::{self, Hierarchy, Version};
use schedlab_sys::guard::{Guard, Undo};
use schedlab_sys::process;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Default)]
pub(super) struct GroupNeeds {
    pub(super) cpu: bool,
    /// The CPUs to which its tasks are bound; empty for all.
    pub(super) bind: CpuSet,
    /// A process of the node that lives on when the groups go, as do all others in them: those that have no group
    /// of their own to return to go where it was. `None`: all are killed.
    pub(super) keep: Option<Pid>,
}

/// Groups of one node. Undone by the guard.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeGroups {
    pub(super) groups: Vec<PathBuf>,
    pub(super) cpu: Option<Group>,
    /// Where all of its tasks are listed, and the freezer where there is one.
    home: Option<Group>,
    cpuset: Option<PathBuf>,
    /// The group that counts its tasks' CPU time, where there is one.
    count: Option<Group>,
}

impl NodeGroups {
    /// Makes the groups, each journalled before it is made. Where the machine has no control groups
    /// that we may make, an empty zone: tasks are then found as descendants of the command.
    pub(super) fn create(
        name: &str,
        wants: &GroupNeeds,
        support: &Support,
        guard: &mut Guard,
    ) -> Result<Self, SlowError> {
        let mut zone = Self::default();
        if !support.makes_groups() {
            return Ok(zone);
        }
        let cpu = support.cpu_group.as_ref().filter(|_| wants.cpu && support.root);
        let cpuset =
            support.cpuset_group.as_ref().filter(|_| !wants.bind.is_empty() && support.root);
        // A group that only counts must not be one of the CPU controller, which divides the CPU between groups.
        let beside = |h: &&Hierarchy| {
            wants.cpu || support.cpu_group.as_ref().is_none_or(|cpu| cpu.mount != h.mount)
        };
        let count = support.count_group.as_ref().filter(|h| h.version == Version::V2 || beside(h));
        let mut made: Vec<(PathBuf, PathBuf)> = Vec::new();
        for hierarchy in support.any_group.iter().chain(cpu).chain(cpuset).chain(count) {
            if made.iter().any(|(mount, _)| *mount == hierarchy.mount) {
                continue;
            }
            let dir = support.parent(hierarchy).join(name);
            let wants = match support.root {
                true => wants.clone(),
                // No controller can be handed down by a group in which we are ourselves.
                false => GroupNeeds { keep: wants.keep, ..GroupNeeds::default() },
            };
            make(hierarchy, &dir, &wants, guard)?;
            made.push((hierarchy.mount.clone(), dir));
        }
        let at = |hierarchy: &Hierarchy| {
            let (_, dir) = made.iter().find(|(mount, _)| *mount == hierarchy.mount)?;
            Some(Group { version: hierarchy.version, dir: dir.clone() })
        };
        zone.cpu = cpu.and_then(at);
        zone.count = count.and_then(at);
        zone.home = support.any_group.as_ref().and_then(at);
        if let (Some(hierarchy), Some(Group { dir, .. })) = (cpuset, cpuset.and_then(at)) {
            bind(hierarchy, &support.parent(hierarchy), &dir, &wants.bind)?;
            zone.cpuset = Some(dir);
        }
        zone.groups = made.into_iter().map(|(_, dir)| dir).collect();
        Ok(zone)
    }

    /// The processes of the zone; where it has no groups, the roots with their living descendants.
    pub(super) fn members_or_family(&self, roots: &[Pid]) -> Vec<Pid> {
        match &self.home {
            Some(home) => members(&home.dir),
            None => roots.iter().flat_map(|&root| process::family(root)).collect(),
        }
    }

    pub(super) const fn lists_members(&self) -> bool {
        self.home.is_some()
    }

    /// Whether one group of version 2 does all.
    pub(super) fn is_unified(&self) -> bool {
        self.home.as_ref().is_some_and(|home| home.version == Version::V2)
    }

    pub(super) const fn count(&self) -> Option<&Group> {
        self.count.as_ref()
    }

    pub(super) fn cpuset(&self) -> Option<&Path> {
        self.cpuset.as_deref()
    }

    /// Stops all of its tasks, or lets them go on. Returns whether there is a freezer that can.
    pub(super) fn freeze(&self, still: bool, guard: &mut Guard) -> Result<bool, SlowError> {
        let Some(Freezer { file, on, off }) = self.freezer() else { return Ok(false) };
        if still {
            journalled(guard, Undo::Write { path: file.clone(), content: off.to_owned() })?;
        }
        write(&file, if still { on } else { off })?;
        Ok(true)
    }

    pub(super) fn freezer(&self) -> Option<Freezer> {
        let Group { version, dir } = self.home.as_ref()?;
        let freezer = match version {
            Version::V1 => Freezer { file: dir.join("freezer.state"), on: "FROZEN", off: "THAWED" },
            Version::V2 => Freezer { file: dir.join("cgroup.freeze"), on: "1", off: "0" },
        };
        freezer.file.exists().then_some(freezer)
    }
}

/// Makes one group. What is undone last is noted first.
pub(super) fn make(
    hierarchy: &Hierarchy,
    dir: &Path,
    wants: &GroupNeeds,
    guard: &mut Guard,
) -> Result<(), SlowError> {
    let mut note = |undo| journalled(guard, undo).map(drop);
    // A controller can be taken back only when the group that hands it on is gone.
    if hierarchy.version == Version::V2 {
        delegate(hierarchy, wants, &mut note)?;
    }
    note(Undo::RemoveDir { path: dir.to_owned() })?;
    note(match wants.keep {
        Some(like) => {
            let to = cgroup::group_of(like, dir).unwrap_or_else(|| hierarchy.group());
            Undo::MoveTasks { from: dir.to_owned(), to }
        }
        None => Undo::KillGroup { path: dir.to_owned() },
    })?;
    std::fs::create_dir(dir)
        .map_err(|e| SlowError::io(format!("making the control group {}", dir.display()), e))
}

/// Version 2: children have only the controllers that their parent hands down. It hands down only those that no
/// hierarchy of version 1 has.
fn delegate(
    hierarchy: &Hierarchy,
    wants: &GroupNeeds,
    note: &mut dyn FnMut(Undo) -> Result<(), SlowError>,
) -> Result<(), SlowError> {
    let path = hierarchy.mount.join("cgroup.subtree_control");
    let list = |file: &Path| std::fs::read_to_string(file).unwrap_or_default();
    let offered = list(&hierarchy.mount.join("cgroup.controllers"));
    let has = list(&path);
    let is_in = |list: &str, name| list.split_whitespace().any(|word| word == name);
    for (name, wanted) in [("cpu", wants.cpu), ("cpuset", !wants.bind.is_empty())] {
        if wanted && is_in(&offered, name) && !is_in(&has, name) {
            note(Undo::Write { path: path.clone(), content: format!("-{name}") })?;
            write(&path, &format!("+{name}"))?;
        }
    }
    Ok(())
}

/// Binds a cpuset to CPUs; version 1 wants memory nodes before it takes tasks.
pub(super) fn bind(
    hierarchy: &Hierarchy,
    parent: &Path,
    dir: &Path,
    cpus: &CpuSet,
) -> Result<(), SlowError> {
    if hierarchy.version == Version::V1 {
        let read = |file: &str| std::fs::read_to_string(parent.join(file));
        let nodes = read("cpuset.effective_mems").or_else(|_| read("cpuset.mems"));
        let nodes =
            nodes.map_err(|e| SlowError::io("reading the memory nodes of the cpuset", e))?;
        write(&dir.join("cpuset.mems"), nodes.trim())?;
    }
    write(&dir.join("cpuset.cpus"), &cpus.to_string())
}
