//! Control groups: who is in one, what it used, and writing its files.

use super::SlowError;
use schedlab_model::{Nanos, Pid};
use schedlab_sys::cgroup::{self, Version};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) version: Version,
    pub(super) dir: PathBuf,
}

impl Group {
    /// CPU time of all of its tasks, ended ones included; `None` where it cannot be read.
    pub(super) fn usage(&self) -> Option<Nanos> {
        cgroup::usage(self.version, &self.dir).ok()
    }
}

/// The file by which all tasks of a group stand still, with what is written to stop them and to let them go on.
#[derive(Clone, Debug)]
pub(super) struct Freezer {
    pub(super) file: PathBuf,
    pub(super) on: &'static str,
    pub(super) off: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    pub(super) file: &'static str,
    /// The weight of a task that nobody gave another, and of a new group.
    pub(super) of_a_task: u64,
    /// The weight of the tasks, as far as it leaves the burners of the slowest CPU the rest. No more: before EEVDF
    /// (Linux 6.6) what a group saves up while it sleeps grows with its weight, and a first burst at full speed took
    /// a second at the largest weight.
    pub(super) usual: u64,
    pub(super) least: u64,
    pub(super) most: u64,
}

pub(super) const V1: Weights =
    Weights { file: "cpu.shares", of_a_task: 1_024, usual: 4_096, least: 2, most: 262_144 };
pub(super) const V2: Weights =
    Weights { file: "cpu.weight", of_a_task: 100, usual: 900, least: 1, most: 10_000 };

impl Weights {
    pub(super) const fn of(version: Version) -> Self {
        match version {
            Version::V1 => V1,
            Version::V2 => V2,
        }
    }

    pub(super) fn write(self, group: &Path, weight: u64) -> Result<(), SlowError> {
        write(&group.join(self.file), &weight.to_string())
    }
}

pub(super) fn members(dir: &Path) -> Vec<Pid> {
    let text = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).map(Pid).collect()
}

/// The processes of a control group and of the groups below it.
pub(super) fn processes(group: &Path) -> Vec<Pid> {
    let mut all = members(group);
    for entry in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(processes(&entry.path()));
        }
    }
    all
}

/// Writes a file of a control group, with its name in the error. Never makes one: the kernel would answer that
/// with a right that is missing, where a file is.
pub(super) fn write(path: &Path, text: &str) -> Result<(), SlowError> {
    match schedlab_sys::kernel_file::write(path, text) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let name = path.file_name().unwrap_or_default().display();
            Err(SlowError::Missing(format!("this kernel lacks {name} ({})", path.display())))
        }
        result => {
            result.map_err(|e| SlowError::io(format!("writing {text} to {}", path.display()), e))
        }
    }
}

/// Files of a control group that hold nothing yet, as the kernel makes them with the directory.
#[cfg(test)]
pub(super) fn fake(dir: &Path, files: &[&str]) {
    std::fs::create_dir_all(dir).unwrap();
    files.iter().for_each(|file| std::fs::write(dir.join(file), "").unwrap());
}
