//! The memory bandwidth of a node's CPUs, by the kernel's `resctrl` (Memory Bandwidth Allocation of Intel and AMD,
//! MPAM of Arm): a group of it holds the CPUs and throttles what they ask of memory.
//!
//! The hardware has steps, so a wish is rounded up to the next one. What a step does to a program depends on the model
//! of the CPU: measure it.

use super::{SlowError, Speed, journalled};
use schedlab_model::CpuSet;
use schedlab_sys::guard::{Guard, Undo};
use std::path::{Path, PathBuf};

pub(super) const ROOT: &str = "/sys/fs/resctrl";

/// The steps in which bandwidth is available, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    least: u32,
    step: u32,
}

/// What is available here.
///
/// # Errors
/// Why nothing can.
pub(super) fn steps(root: &Path) -> Result<Steps, String> {
    if !root.join("schemata").exists() {
        return Err(format!(
            "missing {}: it needs a CPU with Memory Bandwidth Allocation, a kernel with \
             CONFIG_X86_CPU_RESCTRL, and `mount -t resctrl resctrl {ROOT}`",
            root.join("schemata").display()
        ));
    }
    let info = root.join("info/MB");
    if !info.exists() {
        return Err(format!("this CPU lacks Memory Bandwidth Allocation ({})", info.display()));
    }
    let number = |name: &str| {
        let path = info.join(name);
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let wrong = |_| format!("{}: invalid number '{}'", path.display(), text.trim());
        text.trim().parse::<u32>().map_err(wrong)
    };
    Ok(Steps { least: number("min_bandwidth")?, step: number("bandwidth_gran")?.max(1) })
}

impl Steps {
    /// The percentage that is written for a wish: the next step above it.
    fn percent(self, wish: Speed) -> u32 {
        let whole = wish.millionths().div_ceil(10_000);
        (whole.div_ceil(self.step) * self.step).clamp(self.least, 100)
    }
}

/// Limits CPUs; returns the percentage that is in force. The guard removes the group, and the CPUs return to all of
/// the bandwidth.
pub(super) fn limit(
    root: &Path,
    name: &str,
    cpus: &CpuSet,
    wish: Speed,
    guard: &mut Guard,
) -> Result<u32, SlowError> {
    let steps = steps(root).map_err(SlowError::Missing)?;
    let percent = steps.percent(wish);
    let all = read(&root.join("schemata"))?;
    let schemata = schemata(&all, percent).ok_or_else(|| {
        SlowError::Missing(format!("{} lacks the line MB: '{}'", root.display(), all.trim()))
    })?;
    let group = root.join(name);
    journalled(guard, Undo::RemoveDir { path: group.clone() })?;
    std::fs::create_dir(&group).map_err(|error| match error.raw_os_error() {
        // ENOSPC: each group has a class of the hardware, and there are few.
        Some(28) => SlowError::Missing(
            "all bandwidth classes of the CPU are in use: end other groups of resctrl".into(),
        ),
        _ => SlowError::io(format!("making {}", group.display()), error),
    })?;
    put(root, &group.join("schemata"), &schemata)?;
    put(root, &group.join("cpus_list"), &cpus.to_string())?;
    Ok(percent)
}

/// The line for a group: each domain of the root's line with this percentage.
fn schemata(root: &str, percent: u32) -> Option<String> {
    let line = root.lines().find_map(|line| line.trim().strip_prefix("MB:"))?;
    let domains = line.split(';').filter_map(|domain| domain.split_once('='));
    let all: Vec<String> =
        domains.map(|(domain, _)| format!("{}={percent}", domain.trim())).collect();
    (!all.is_empty()).then(|| format!("MB:{}\n", all.join(";")))
}

fn read(path: &Path) -> Result<String, SlowError> {
    let text = std::fs::read_to_string(path);
    text.map_err(|e| SlowError::io(format!("reading {}", path.display()), e))
}

/// Writes, with the kernel's own reason if it refuses.
fn put(root: &Path, path: &PathBuf, text: &str) -> Result<(), SlowError> {
    // Plain: in a folder that was just made, in which the kernel puts the file.
    std::fs::write(path, text).map_err(|error| {
        let why = std::fs::read_to_string(root.join("info/last_cmd_status")).unwrap_or_default();
        let doing = format!("writing {} to {} ({})", text.trim(), path.display(), why.trim());
        SlowError::io(doing, error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::Cpu;

    /// The files of a machine with two domains, steps of 10 % and no less than 10 %.
    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let info = dir.path().join("info/MB");
        std::fs::create_dir_all(&info).unwrap();
        std::fs::write(info.join("min_bandwidth"), "10\n").unwrap();
        std::fs::write(info.join("bandwidth_gran"), "10\n").unwrap();
        std::fs::write(dir.path().join("schemata"), "    L3:0=fff;1=fff\n    MB:0=100;1=100\n")
            .unwrap();
        dir
    }

    #[test]
    fn a_group_holds_the_cpus_with_the_next_step_in_each_domain() {
        let tree = tree();
        let journal = tempfile::tempdir().unwrap();
        let mut guard = Guard::arm_with(journal.path(), Path::new("/bin/true")).unwrap();
        let cpus = CpuSet::from_iter([Cpu(1), Cpu(2)]);
        let wish = "33%".parse().unwrap();
        let made = limit(tree.path(), "schedlab-1-a", &cpus, wish, &mut guard).unwrap();
        assert_eq!(made, 40);
        let group = tree.path().join("schedlab-1-a");
        assert_eq!(std::fs::read_to_string(group.join("schemata")).unwrap(), "MB:0=40;1=40\n");
        assert_eq!(std::fs::read_to_string(group.join("cpus_list")).unwrap(), "1-2");
        // The kernel's files go with their folder; these have to go before.
        std::fs::remove_file(group.join("schemata")).unwrap();
        std::fs::remove_file(group.join("cpus_list")).unwrap();
        assert!(guard.finish().is_empty());
        assert!(!group.exists(), "the guard removes it");
    }

    #[test]
    fn steps_have_a_least_and_a_most() {
        let steps = steps(tree().path()).unwrap();
        let percent = |text: &str| steps.percent(text.parse().unwrap());
        assert_eq!(["1%", "10%", "10.5%", "91%", "100%"].map(percent), [10, 10, 20, 100, 100]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let empty = tempfile::tempdir().unwrap();
        assert!(steps(empty.path()).unwrap_err().contains("mount -t resctrl"));
        std::fs::write(empty.path().join("schemata"), "L3:0=fff\n").unwrap();
        assert!(steps(empty.path()).unwrap_err().contains("lacks Memory Bandwidth Allocation"));
        assert_eq!(schemata("L3:0=fff\n", 50), None);
    }
}
