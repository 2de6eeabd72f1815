//! The zone of a node: the control groups that hold its tasks, so that they can be bound to CPUs
//! whatever they do themselves, given weight or a budget, frozen, and ended together.

use super::{Ground, SlowError};
use schedlab_model::CpuSet;
use schedlab_sys::cgroup::{Hierarchy, Version};
use schedlab_sys::guard::{Guard, Undo};
use std::path::{Path, PathBuf};

/// What a zone is made with.
#[derive(Clone, Debug, Default)]
pub(super) struct Wants {
    /// A group of the CPU controller.
    pub(super) cpu: bool,
    /// The CPUs to which its tasks are bound; empty for all.
    pub(super) bind: CpuSet,
    /// Its tasks live on when it goes, in the group where they would have been without it.
    pub(super) keep: bool,
}

/// Groups of one node. Undone by the guard.
#[derive(Clone, Debug, Default)]
pub(super) struct Zone {
    /// Each group that a task of the zone enters.
    pub(super) groups: Vec<PathBuf>,
    /// The group of the CPU controller, where asked for.
    pub(super) cpu: Option<(Version, PathBuf)>,
    /// Where all of its tasks are listed, and the freezer where there is one.
    home: Option<(Version, PathBuf)>,
}

impl Zone {
    /// Makes the groups, each journalled before it is made. Where the machine has no control groups
    /// that we may make, an empty zone: tasks are then found as descendants of the command.
    pub(super) fn create(
        name: &str,
        wants: &Wants,
        ground: &Ground,
        guard: &mut Guard,
    ) -> Result<Self, SlowError> {
        let mut zone = Self::default();
        if !ground.root {
            return Ok(zone);
        }
        let cpu = ground.cpu_group.as_ref().filter(|_| wants.cpu);
        let cpuset = ground.cpuset_group.as_ref().filter(|_| !wants.bind.is_empty());
        let mut made: Vec<(PathBuf, PathBuf)> = Vec::new();
        for hierarchy in ground.any_group.iter().chain(cpu).chain(cpuset) {
            if made.iter().any(|(mount, _)| *mount == hierarchy.mount) {
                continue;
            }
            let dir = Ground::parent(hierarchy).join(name);
            make(hierarchy, &dir, wants, guard)?;
            made.push((hierarchy.mount.clone(), dir));
        }
        let at = |hierarchy: &Hierarchy| {
            made.iter().find(|(mount, _)| *mount == hierarchy.mount).map(|(_, dir)| dir.clone())
        };
        zone.cpu = cpu.and_then(|h| Some((h.version, at(h)?)));
        zone.home = ground.any_group.as_ref().and_then(|h| Some((h.version, at(h)?)));
        if let (Some(hierarchy), Some(dir)) = (cpuset, cpuset.and_then(at)) {
            bind(hierarchy, &dir, &wants.bind)?;
        }
        zone.groups = made.into_iter().map(|(_, dir)| dir).collect();
        Ok(zone)
    }

    /// The processes of the zone; none where it has no groups.
    pub(super) fn processes(&self) -> Vec<schedlab_model::Pid> {
        let list =
            self.home.as_ref().map(|(_, dir)| std::fs::read_to_string(dir.join("cgroup.procs")));
        let text = list.and_then(Result::ok).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).map(schedlab_model::Pid).collect()
    }

    /// Whether it has groups at all.
    pub(super) const fn exists(&self) -> bool {
        self.home.is_some()
    }

    /// Stops all of its tasks, or lets them go on. Returns whether there is a freezer that can.
    pub(super) fn freeze(&self, still: bool, guard: &mut Guard) -> Result<bool, SlowError> {
        let Some((path, on, off)) = self.freezer() else { return Ok(false) };
        if still {
            let undo = Undo::Write { path: path.clone(), content: off.to_owned() };
            guard.before(undo).map_err(|e| SlowError::io("writing the journal", e))?;
        }
        write(&path, if still { on } else { off })?;
        Ok(true)
    }

    fn freezer(&self) -> Option<(PathBuf, &'static str, &'static str)> {
        let (version, dir) = self.home.as_ref()?;
        let (file, on, off) = match version {
            Version::V1 => ("freezer.state", "FROZEN", "THAWED"),
            Version::V2 => ("cgroup.freeze", "1", "0"),
        };
        let path = dir.join(file);
        path.exists().then_some((path, on, off))
    }
}

/// Makes one group. What is undone last is noted first.
pub(super) fn make(
    hierarchy: &Hierarchy,
    dir: &Path,
    wants: &Wants,
    guard: &mut Guard,
) -> Result<(), SlowError> {
    let mut note =
        |undo| guard.before(undo).map(|_| ()).map_err(|e| SlowError::io("writing the journal", e));
    note(Undo::RemoveDir { path: dir.to_owned() })?;
    if wants.keep {
        note(Undo::MoveTasks { from: dir.to_owned(), to: hierarchy.group() })?;
    } else {
        note(Undo::KillGroup { path: dir.to_owned() })?;
    }
    if hierarchy.version == Version::V2 {
        delegate(hierarchy, wants, &mut note)?;
    }
    std::fs::create_dir(dir)
        .map_err(|e| SlowError::io(format!("making the control group {}", dir.display()), e))
}

/// Version 2: children have only the controllers that their parent hands down.
fn delegate(
    hierarchy: &Hierarchy,
    wants: &Wants,
    note: &mut dyn FnMut(Undo) -> Result<(), SlowError>,
) -> Result<(), SlowError> {
    let path = hierarchy.mount.join("cgroup.subtree_control");
    let has = std::fs::read_to_string(&path).unwrap_or_default();
    for (name, wanted) in [("cpu", wants.cpu), ("cpuset", !wants.bind.is_empty())] {
        if wanted && !has.split_whitespace().any(|word| word == name) {
            note(Undo::Write { path: path.clone(), content: format!("-{name}") })?;
            write(&path, &format!("+{name}"))?;
        }
    }
    Ok(())
}

/// Binds a cpuset to CPUs; version 1 wants memory nodes before it takes tasks.
fn bind(hierarchy: &Hierarchy, dir: &Path, cpus: &CpuSet) -> Result<(), SlowError> {
    if hierarchy.version == Version::V1 {
        let parent = Ground::parent(hierarchy);
        let read = |file: &str| std::fs::read_to_string(parent.join(file));
        let nodes = read("cpuset.effective_mems").or_else(|_| read("cpuset.mems"));
        let nodes =
            nodes.map_err(|e| SlowError::io("reading the memory nodes of the cpuset", e))?;
        write(&dir.join("cpuset.mems"), nodes.trim())?;
    }
    write(&dir.join("cpuset.cpus"), &cpus.to_string())
}

/// Writes a file of a control group, with its name in the error.
pub(super) fn write(path: &Path, text: &str) -> Result<(), SlowError> {
    std::fs::write(path, text)
        .map_err(|e| SlowError::io(format!("writing {text} to {}", path.display()), e))
}
