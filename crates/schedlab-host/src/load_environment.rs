//! What a load finds prepared: control groups of its own and a link to send over.
//!
//! The parent makes them, under its guard, before the load child is started; the child learns where
//! they are. So they go when the run ends, even if a process dies.

use crate::net::Namespace;
use schedlab_model::Warning;
use schedlab_sys::cgroup::{self, Hierarchy, Version};
use schedlab_sys::guard::{Guard, Undo};
use schedlab_workload::plan::Plan;
use schedlab_workload::{Link, MachineError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Where a load finds what was made for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Site {
    /// Folders of control groups, by their names in the plan.
    pub(crate) groups: BTreeMap<String, PathBuf>,
    /// The namespace behind the link.
    pub(crate) network: Option<Namespace>,
}

/// The guard over all sites of a run; armed with the first thing that is made.
#[derive(Debug, Default)]
pub(crate) struct Sites(Option<Guard>);

impl Sites {
    /// Makes what a plan needs; a command has none. `label` keeps its groups apart from those of others in
    /// the same run.
    pub(crate) fn prepare(
        &mut self,
        plan: Option<&Plan>,
        label: &str,
    ) -> Result<Site, MachineError> {
        let Some(plan) = plan else { return Ok(Site::default()) };
        let mut site = Site::default();
        let wanted = wanted(plan);
        if !wanted.is_empty() {
            let refused = |why: String| refused("make control groups", why);
            let hierarchy = cgroup::here("cpu").ok_or_else(|| refused(cgroup::why_no_cpu()))?;
            let own = format!("schedlab-{}{label}", std::process::id());
            let guard = self.guard().map_err(|e| refused(e.to_string()))?;
            site.groups =
                groups(&hierarchy, &wanted, &own, guard).map_err(|e| refused(e.to_string()))?;
        }
        if let Some(rate) = plan.link_bit_s {
            let what = "send over a link";
            // More than all socket buffers: senders wait for the link, and nothing is dropped before it.
            let queue_bytes = (plan.tasks.len() as u64 + 1) << 20;
            let link = Link { rate_bit_s: Some(rate), queue_bytes, ..Link::default() };
            let guard = self.guard().map_err(|e| refused(what, e.to_string()))?;
            let made = Namespace::make(&link, guard).map_err(|e| {
                refused(what, format!("{e}; without --rate datagrams go over the loopback"))
            })?;
            site.network = Some(made);
        }
        Ok(site)
    }

    fn guard(&mut self) -> io::Result<&mut Guard> {
        if self.0.is_none() {
            self.0 = Some(Guard::arm()?);
        }
        Ok(self.0.as_mut().expect("armed above"))
    }

    /// Undoes all of it. What could not be undone stays in the guard's journal.
    pub(crate) fn finish(self) -> Vec<Warning> {
        let failed = self.0.map(Guard::finish).unwrap_or_default();
        let warning = |(undo, error): (Undo, io::Error)| {
            let what = format!("not undone: {undo:?}: {error}");
            Warning::new("not-undone", what, "`schedlab doctor --restore` tries again")
        };
        failed.into_iter().map(warning).collect()
    }
}

fn refused(what: &str, why: String) -> MachineError {
    MachineError::NotOffered { machine: "host".to_owned(), what: what.to_owned(), why }
}

/// The groups of a plan with their weights.
fn wanted(plan: &Plan) -> BTreeMap<String, Option<u32>> {
    let mut all = BTreeMap::new();
    for placement in plan.tasks.iter().map(|task| &task.placement).chain(&plan.places) {
        if let Some(group) = &placement.cgroup {
            let weight: &mut Option<u32> = all.entry(group.clone()).or_default();
            *weight = weight.or(placement.weight);
        }
    }
    all
}

/// Makes groups that are not there, and gives weights; each step is noted before. A name that begins
/// with `@` is a group of the load's own, below ours; others are paths below the mount point.
fn groups(
    hierarchy: &Hierarchy,
    wanted: &BTreeMap<String, Option<u32>>,
    own: &str,
    guard: &mut Guard,
) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut made = BTreeMap::new();
    for (name, weight) in wanted {
        let path = match name.strip_prefix('@') {
            Some(role) => hierarchy.group().join(format!("{own}-{role}")),
            None => hierarchy.mount.join(name.trim_start_matches('/')),
        };
        let told =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let new = !path.exists();
        if new {
            make(hierarchy, &path, guard).map_err(told)?;
        }
        if let Some(weight) = weight {
            let (file, value) = weight_of(hierarchy.version, *weight);
            let file = path.join(file);
            match new {
                // Plain: a group that was just made, in which the kernel puts the files.
                true => std::fs::write(&file, value).map_err(told)?,
                false => drop(guard.write(&file, &value).map_err(told)?),
            }
        }
        made.insert(name.clone(), path);
    }
    Ok(made)
}

/// A new group. In the unified hierarchy it is threaded, so that threads of one process can be in
/// different groups, and so that the group above may keep its processes.
fn make(hierarchy: &Hierarchy, path: &Path, guard: &mut Guard) -> io::Result<()> {
    let above = path.parent().unwrap_or(&hierarchy.mount);
    if !above.exists() {
        make(hierarchy, above, guard)?;
    }
    guard.before(Undo::RemoveDir { path: path.to_owned() })?;
    std::fs::create_dir(path)?;
    if hierarchy.version == Version::V2 {
        // Plain: a group that was just made, in which the kernel puts the files.
        std::fs::write(path.join("cgroup.type"), "threaded")?;
        hand_on_cpu(above, guard)?;
    }
    Ok(())
}

/// Has a group of the unified hierarchy hand the cpu controller on to the groups below it, until the guard ends.
pub(crate) fn hand_on_cpu(group: &Path, guard: &mut Guard) -> io::Result<()> {
    let control = group.join("cgroup.subtree_control");
    let handed = std::fs::read_to_string(&control).unwrap_or_default();
    if handed.split_whitespace().any(|name| name == "cpu") {
        return Ok(());
    }
    guard.before(Undo::Write { path: control.clone(), content: "-cpu".to_owned() })?;
    // Plain: a group that may have been just made, in which the kernel puts the files.
    std::fs::write(&control, "+cpu")
}

/// The file of a weight and its content. Version 1 counts in shares: 1024 is the weight 100.
fn weight_of(version: Version, weight: u32) -> (&'static str, String) {
    match version {
        Version::V2 => ("cpu.weight", weight.to_string()),
        Version::V1 => ("cpu.shares", (u64::from(weight) * 1024 / 100).max(2).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(version: Version) -> (tempfile::TempDir, Hierarchy) {
        let folder = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy { version, mount: folder.path().join("cg"), path: "job".into() };
        std::fs::create_dir_all(hierarchy.group()).unwrap();
        (folder, hierarchy)
    }

    fn wanted(all: &[(&str, Option<u32>)]) -> BTreeMap<String, Option<u32>> {
        all.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect()
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    /// `true` stands for the guardian: it goes at once.
    fn guard(folder: &Path) -> Guard {
        Guard::arm_with(folder, Path::new("/bin/true")).unwrap()
    }

    #[test]
    fn a_group_of_version_1_has_shares_in_proportion_to_its_weight() {
        let (folder, hierarchy) = tree(Version::V1);
        let mut guard = guard(folder.path());
        let all = wanted(&[("@worker", Some(200)), ("a/b", None)]);
        let made = groups(&hierarchy, &all, "run", &mut guard).unwrap();
        assert_eq!(made["@worker"], hierarchy.group().join("run-worker"));
        assert_eq!(read(&made["@worker"].join("cpu.shares")), "2048");
        assert!(!made["@worker"].join("cgroup.type").exists());
        assert!(hierarchy.mount.join("a/b").is_dir());
        // The kernel's files go with their folder; ours do not.
        std::fs::remove_file(made["@worker"].join("cpu.shares")).unwrap();
        assert!(guard.finish().is_empty());
        assert!(!made["@worker"].exists() && !hierarchy.mount.join("a").exists());
    }

    #[test]
    fn a_group_of_version_2_is_threaded_and_gets_the_controller_for_as_long() {
        let (folder, hierarchy) = tree(Version::V2);
        let control = hierarchy.group().join("cgroup.subtree_control");
        std::fs::write(&control, "memory").unwrap();
        let mut guard = guard(folder.path());
        let all = wanted(&[("@worker", Some(300))]);
        let made = groups(&hierarchy, &all, "run", &mut guard).unwrap();
        let group = &made["@worker"];
        assert_eq!(read(&group.join("cgroup.type")), "threaded");
        assert_eq!(read(&group.join("cpu.weight")), "300");
        assert_eq!(read(&control), "+cpu");
        for name in ["cgroup.type", "cpu.weight"] {
            std::fs::remove_file(group.join(name)).unwrap();
        }
        assert!(guard.finish().is_empty());
        assert_eq!(read(&control), "-cpu");
    }

    #[test]
    fn the_weight_of_a_group_that_was_there_is_put_back() {
        let (folder, hierarchy) = tree(Version::V1);
        let group = hierarchy.mount.join("there");
        std::fs::create_dir(&group).unwrap();
        std::fs::write(group.join("cpu.shares"), "77\n").unwrap();
        let mut guard = guard(folder.path());
        groups(&hierarchy, &wanted(&[("/there", Some(100))]), "run", &mut guard).unwrap();
        assert_eq!(read(&group.join("cpu.shares")), "1024");
        assert!(guard.finish().is_empty());
        assert_eq!(read(&group.join("cpu.shares")), "77");
    }
}
