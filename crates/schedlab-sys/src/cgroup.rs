//! Control groups: where the hierarchies are and where we are in them.

use super::kernel_file;
use schedlab_model::{Nanos, Pid};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Which interface a controller is driven by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller (`cpu.shares`, `cpu.cfs_quota_us`).
    V1,
    /// The unified hierarchy (`cpu.weight`, `cpu.max`).
    V2,
}

/// A controller's hierarchy, and the place of this process in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: Version,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Our group, relative to the mount; empty for its root.
    pub path: PathBuf,
}

impl Hierarchy {
    /// The directory of this process's group.
    #[must_use]
    pub fn group(&self) -> PathBuf {
        self.mount.join(&self.path)
    }

    /// The directories of this process's group and of all groups above it, up to the root. Limits of each of them hold.
    #[must_use]
    pub fn groups(&self) -> Vec<PathBuf> {
        self.path.ancestors().map(|path| self.mount.join(path)).collect()
    }

    /// Whether this process is in the root of the hierarchy, as far as it can see.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// Whether we may go to the root of the hierarchy.
    #[must_use]
    pub fn root_takes_us(&self) -> bool {
        writable(&self.mount.join("cgroup.procs"))
    }
}

/// Finds `controller` (`cpu`, `cpuset`, `freezer`) from the text of `/proc/self/mountinfo` and of
/// `/proc/self/cgroup`. A controller in a hierarchy of its own wins over the unified one, where it
/// is only when [`Version::V2`]'s `cgroup.controllers` names it (the caller checks).
#[must_use]
pub fn find(controller: &str, mountinfo: &str, membership: &str) -> Option<Hierarchy> {
    let v1 = locate(mountinfo, |kind, options| {
        kind == "cgroup" && options.split(',').any(|option| option == controller)
    });
    let path_of = |wanted: &dyn Fn(&str, &str) -> bool| {
        membership.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let id = parts.next()?;
            let names = parts.next()?;
            let path = parts.next()?;
            wanted(id, names).then(|| path.trim_start_matches('/').into())
        })
    };
    if let Some((mount, root)) = v1 {
        let path: PathBuf = path_of(&|_, names| names.split(',').any(|name| name == controller))?;
        return Some(Hierarchy { version: Version::V1, mount, path: below(&root, path) });
    }
    let (mount, root) = locate(mountinfo, |kind, _| kind == "cgroup2")?;
    let path: PathBuf = path_of(&|id, names| id == "0" && names.is_empty())?;
    Some(Hierarchy { version: Version::V2, mount, path: below(&root, path) })
}

/// The unified hierarchy of this machine; `None` if it is not mounted. Its groups hold, freeze and
/// count tasks without any controller.
#[must_use]
pub fn unified() -> Option<Hierarchy> {
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let membership = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    // No hierarchy of version 1 has a controller without a name.
    find("", &mountinfo, &membership)
}

/// Where hierarchies of control groups are mounted, in the order in which they were.
#[must_use]
pub fn mounts() -> Vec<PathBuf> {
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let groups = mountinfo.lines().filter_map(mount);
    groups.filter(|at| matches!(at.kind, "cgroup" | "cgroup2")).map(|at| at.at).collect()
}

/// The unified hierarchy, if our own group in it was given to us (delegated): we may make groups in it and move our
/// children there. Root, to whom all of it belongs, needs none.
#[must_use]
pub fn delegated() -> Option<Hierarchy> {
    let found = unified()?;
    let group = found.group();
    (writable(&group) && writable(&group.join("cgroup.procs"))).then_some(found)
}

fn writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// In a container the mount shows only a part of the tree, `root`; paths are reported from its top.
fn below(root: &Path, path: PathBuf) -> PathBuf {
    let root = root.strip_prefix("/").unwrap_or(root);
    path.strip_prefix(root).map(Path::to_path_buf).unwrap_or(path)
}

/// Mount point and root of the first mount for which `wanted` (type, super options) holds.
fn locate(mountinfo: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<(PathBuf, PathBuf)> {
    let found = mountinfo.lines().filter_map(mount).find(|at| wanted(at.kind, at.options))?;
    Some((found.at, found.root))
}

struct Mount<'a> {
    /// What of the file system is mounted.
    root: PathBuf,
    at: PathBuf,
    kind: &'a str,
    /// The super options of the mount.
    options: &'a str,
}

fn mount(line: &str) -> Option<Mount<'_>> {
    let (head, tail) = line.split_once(" - ")?;
    let mut tail = tail.split(' ');
    let kind = tail.next()?;
    let _source = tail.next()?;
    let options = tail.next()?;
    let mut head = head.split(' ').skip(3);
    let root = head.next()?.into();
    let at = head.next()?.into();
    Some(Mount { root, at, kind, options })
}

/// Finds a controller of this machine for groups that are made below the root of its hierarchy: under version 2 our
/// own group may have been given none (a login session has neither `cpu` nor `cpuset` as a rule), and they have.
#[must_use]
pub fn at_root(controller: &str) -> Option<Hierarchy> {
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let membership = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    find(controller, &mountinfo, &membership)
        .filter(|found| found.version == Version::V1 || lists(&found.mount, controller))
}

/// Whether a group of version 2 has a controller to hand down.
fn lists(group: &Path, controller: &str) -> bool {
    let list = std::fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    list.split_whitespace().any(|name| name == controller)
}

/// Finds a controller of this machine; `None` if no hierarchy has it.
#[must_use]
pub fn here(controller: &str) -> Option<Hierarchy> {
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let membership = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let found = find(controller, &mountinfo, &membership)?;
    let enabled = match found.version {
        Version::V1 => true,
        Version::V2 => lists(&found.group(), controller),
    };
    enabled.then_some(found)
}

/// Why [`here`] finds no controller `cpu`, and what helps. Under version 2 a login session usually has none.
#[must_use]
pub fn why_no_cpu() -> String {
    match at_root("cpu") {
        None => "control groups with the CPU controller are not mounted".to_owned(),
        Some(cpu) => format!(
            "the control group /{} has no CPU controller: `systemd-run --scope -p Delegate=yes schedlab ...` starts \
             schedlab in one that has it",
            cpu.path.display()
        ),
    }
}

/// The group that a task is in, in the hierarchy where the group `dir` is; `None` when the task is gone.
#[must_use]
pub fn group_of(task: Pid, dir: &Path) -> Option<PathBuf> {
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let membership = std::fs::read_to_string(format!("/proc/{task}/cgroup")).ok()?;
    place(dir, &mountinfo, &membership)
}

/// Where a task with this membership is, in the hierarchy that is mounted above `dir`.
fn place(dir: &Path, mountinfo: &str, membership: &str) -> Option<PathBuf> {
    let mounts = mountinfo.lines().filter_map(mount);
    let above = mounts.filter(|mount| dir.starts_with(&mount.at));
    let mount = above.max_by_key(|mount| mount.at.as_os_str().len())?;
    let path = membership.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let id = parts.next()?;
        let names = parts.next()?;
        let path = parts.next()?;
        let is_in = match mount.kind {
            "cgroup2" => id == "0" && names.is_empty(),
            _ => {
                let has = |name| mount.options.split(',').any(|option| option == name);
                !names.is_empty() && names.split(',').all(has)
            }
        };
        is_in.then(|| PathBuf::from(path.trim_start_matches('/')))
    })?;
    Some(mount.at.join(below(&mount.root, path)))
}

/// The hierarchy by which the kernel divides CPU time: that of the controller `cpu`, or the unified
/// one. `None` without either.
#[must_use]
pub fn of_cpu() -> Option<Hierarchy> {
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let membership = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    find("cpu", &mountinfo, &membership)
}

impl Hierarchy {
    /// The group of a task as a path from the hierarchy's root: `/system.slice/sshd.service`; `None` when the task is gone.
    #[must_use]
    pub fn name_of(&self, task: Pid) -> Option<String> {
        let who = if task == Pid(0) { "self".to_owned() } else { task.to_string() };
        let membership = std::fs::read_to_string(format!("/proc/{who}/cgroup")).ok()?;
        self.name_in(&membership)
    }

    fn name_in(&self, membership: &str) -> Option<String> {
        self.line_of(membership).map(|(_, path)| path.to_owned())
    }

    /// Number and path of this hierarchy in a task's list.
    fn line_of<'a>(&self, membership: &'a str) -> Option<(&'a str, &'a str)> {
        membership.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let id = parts.next()?;
            let names = parts.next()?;
            let path = parts.next()?;
            let is_it = match self.version {
                Version::V1 => names.split(',').any(|name| name == "cpu"),
                Version::V2 => id == "0" && names.is_empty(),
            };
            is_it.then_some((id, path))
        })
    }

    /// How often and how long a group was throttled (`nr_periods`, `nr_throttled` and the time), and the CPU time that it
    /// used, where that stands beside; `None` where the kernel does not count periods.
    #[must_use]
    pub fn counters(&self, name: &str) -> Option<(u64, u64, Nanos, Option<Nanos>)> {
        let dir = self.folder(name);
        let stat = kernel_file::read(dir.join("cpu.stat")).ok()?;
        let (periods, throttled_periods, time) = throttled(&stat)?;
        let used = match self.version {
            Version::V1 => usage(Version::V1, &dir).ok(),
            Version::V2 => usage_in(&stat),
        };
        Some((periods, throttled_periods, time, used))
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.mount.join(name.trim_start_matches('/'))
    }

    /// The number by which `cgroup_attach_task` names this hierarchy (`dst_root`); `None` in a namespace of control groups,
    /// where paths in events begin elsewhere than those in `/proc`.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        /// The first namespace (`PROC_CGROUP_INIT_INO`).
        const FIRST: &str = "cgroup:[4026531835]";
        let space = std::fs::read_link("/proc/self/ns/cgroup").ok()?;
        if space.as_os_str() != FIRST {
            return None;
        }
        let membership = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        self.line_of(&membership)?.0.parse().ok()
    }

    /// The paths of all groups.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec!["/".to_owned()];
        while let Some(name) = open.pop() {
            open.extend(self.below(&name));
            found.push(name);
        }
        found
    }

    /// The paths of the groups in a group.
    fn below(&self, name: &str) -> Vec<String> {
        let folder = self.folder(name);
        // Two links: itself and the name above, and so nobody below. To list a group's files takes ten times as long.
        if std::fs::metadata(&folder).is_ok_and(|it| it.nlink() == 2) {
            return Vec::new();
        }
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let named = folders.filter_map(|entry| entry.file_name().into_string().ok());
        named.map(|below| format!("{}/{below}", name.trim_end_matches('/'))).collect()
    }

    /// The groups of all tasks by their threads, in one walk over the tree: much less work than to ask each task. `None` where
    /// the tree shows another part of the hierarchy than `/proc` does.
    #[must_use]
    pub fn all_members(&self) -> Option<Vec<(String, Vec<Pid>)>> {
        let own = self.name_of(Pid(0))?;
        if Path::new(own.trim_start_matches('/')) != self.path {
            return None;
        }
        let file = match self.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        };
        let mut found = Vec::new();
        let mut open = vec!["/".to_owned()];
        while let Some(name) = open.pop() {
            // A group that was removed meanwhile has nobody.
            let list = self.folder(&name).join(file);
            let Ok(members) = kernel_file::read(list) else { continue };
            let members = members.lines().filter_map(|line| line.parse().ok().map(Pid)).collect();
            open.extend(self.below(&name));
            found.push((name, members));
        }
        Some(found)
    }
}

/// What a group is allowed: its CPU bandwidth and its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// CPU time for its tasks in each period; `None` without a limit.
    pub quota: Option<Nanos>,
    /// The length of a period; 100 ms where the kernel has no such file.
    pub period: Nanos,
    /// How much unused quota may be kept for later periods.
    pub burst: Nanos,
    /// Its weight, where 1024 is the default.
    pub shares: u64,
}

impl Hierarchy {
    /// Whether a group has a quota of its own: less work than to read all that it is allowed.
    #[must_use]
    pub fn has_quota(&self, name: &str) -> bool {
        let file = match self.version {
            Version::V1 => "cpu.cfs_quota_us",
            Version::V2 => "cpu.max",
        };
        let text = kernel_file::read(self.folder(name).join(file)).unwrap_or_default();
        text.starts_with(|first: char| first.is_ascii_digit())
    }

    /// What a group is allowed; `None` if the kernel does not limit this group, as the root of version 2.
    #[must_use]
    pub fn allowance(&self, name: &str) -> Option<Allowance> {
        allowance_in(self.version, &self.folder(name))
    }
}

/// As [`Hierarchy::allowance`], of the group in a folder.
fn allowance_in(version: Version, dir: &Path) -> Option<Allowance> {
    const PERIOD_US: u64 = 100_000;
    let read = |file: &str| kernel_file::read(dir.join(file)).ok();
    let number = |file: &str| read(file).and_then(|text| text.trim().parse::<u64>().ok());
    let micros = |number: u64| Nanos(number.saturating_mul(1_000));
    match version {
        // Period and burst mean nothing without a quota: with hundreds of groups, each file counts.
        Version::V1 => {
            let shares = number("cpu.shares")?;
            // -1 is no limit.
            let quota = number("cpu.cfs_quota_us").map(micros);
            let with = |file: &str| quota.and_then(|_| number(file));
            let period = micros(with("cpu.cfs_period_us").unwrap_or(PERIOD_US));
            let burst = micros(with("cpu.cfs_burst_us").unwrap_or(0));
            Some(Allowance { quota, period, burst, shares })
        }
        Version::V2 => {
            let max = read("cpu.max")?;
            let mut words = max.split_whitespace();
            let quota: Option<u64> = words.next()?.parse().ok();
            let period = words.next()?.parse().ok()?;
            let weight = number("cpu.weight").unwrap_or(100);
            Some(Allowance {
                quota: quota.map(micros),
                period: micros(period),
                burst: micros(quota.and_then(|_| number("cpu.max.burst")).unwrap_or(0)),
                shares: (weight * 1024).div_ceil(100),
            })
        }
    }
}

/// How many periods the group in a folder had, in how many it was throttled, and for how long (`cpu.stat`). Version 2
/// counts in microseconds, version 1 in nanoseconds. `None` where the kernel does not tell.
#[must_use]
pub fn throttled_in(dir: &Path) -> Option<(u64, u64, Nanos)> {
    throttled(&kernel_file::read(dir.join("cpu.stat")).ok()?)
}

fn throttled(stat: &str) -> Option<(u64, u64, Nanos)> {
    let number = |key: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(name, _)| *name == key)?.1.trim().parse::<u64>().ok()
    };
    let time = number("throttled_usec").map(|micros| micros.saturating_mul(1_000));
    let time = time.or_else(|| number("throttled_time"))?;
    Some((number("nr_periods")?, number("nr_throttled")?, Nanos(time)))
}

/// CPU time that the tasks of a group have used, ended ones included. Version 1 counts in a group of `cpuacct`,
/// version 2 in every group.
///
/// # Errors
/// When the group has no counter, or is gone.
pub fn usage(version: Version, dir: &Path) -> io::Result<Nanos> {
    let unreadable = || io::Error::new(io::ErrorKind::InvalidData, "the counter is not a number");
    match version {
        Version::V1 => {
            let text = kernel_file::read(dir.join("cpuacct.usage"))?;
            text.trim().parse().map(Nanos).map_err(|_| unreadable())
        }
        Version::V2 => {
            let text = kernel_file::read(dir.join("cpu.stat"))?;
            usage_in(&text).ok_or_else(unreadable)
        }
    }
}

/// The same in the text of a `cpu.stat` of version 2.
fn usage_in(stat: &str) -> Option<Nanos> {
    let micros = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    micros.trim().parse().ok().map(|micros: u64| Nanos(micros.saturating_mul(1_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_is_read_in_the_words_of_both_versions() {
        let v2 = "usage_usec 9\nnr_periods 5\nnr_throttled 2\nthrottled_usec 7\n";
        assert_eq!(throttled(v2), Some((5, 2, Nanos(7_000))));
        assert_eq!(
            throttled("nr_periods 5\nnr_throttled 2\nthrottled_time 7\n"),
            Some((5, 2, Nanos(7)))
        );
        assert_eq!(throttled("usage_usec 9\n"), None, "a root group has no quota");
        let named = |version, text: &str| {
            Hierarchy { version, mount: "/x".into(), path: "".into() }.name_in(text)
        };
        let membership = "2:cpu,cpuacct:/a\n0::/b/c\n";
        assert_eq!(named(Version::V1, membership).as_deref(), Some("/a"));
        assert_eq!(named(Version::V2, membership).as_deref(), Some("/b/c"));
    }

    #[test]
    fn limits_are_read_in_the_words_of_both_versions() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| std::fs::write(dir.path().join(file), text).unwrap();
        let read = |version| allowance_in(version, dir.path());
        assert_eq!(read(Version::V1), None);
        assert_eq!(read(Version::V2), None, "the root has no limit");
        let (period, burst) = (Nanos(50_000_000), Nanos(3_000));
        let limited = Allowance { quota: Some(Nanos(10_000_000)), period, burst, shares: 2048 };
        write("cpu.shares", "2048\n");
        write("cpu.cfs_period_us", "50000\n");
        write("cpu.cfs_quota_us", "10000\n");
        write("cpu.cfs_burst_us", "3\n");
        assert_eq!(read(Version::V1), Some(limited));
        write("cpu.cfs_quota_us", "-1\n");
        let unlimited = Allowance { quota: None, burst: Nanos::ZERO, ..limited };
        let period = Nanos(100_000_000);
        assert_eq!(read(Version::V1), Some(Allowance { period, ..unlimited }));
        write("cpu.max", "10000 50000\n");
        write("cpu.max.burst", "3\n");
        write("cpu.weight", "200\n");
        assert_eq!(read(Version::V2), Some(limited));
        write("cpu.max", "max 50000\n");
        assert_eq!(read(Version::V2), Some(unlimited));
    }

    #[test]
    fn a_task_is_found_in_the_hierarchy_of_a_group() {
        let membership = "4:cpuset:/\n3:cpu,cpuacct:/a/b\n0::/u/x\n";
        let at = |dir: &str| place(Path::new(dir), HYBRID, membership);
        let cpu = "/sys/fs/cgroup/cpu,cpuacct";
        assert_eq!(at(&format!("{cpu}/schedlab-1")), Some(format!("{cpu}/a/b").into()));
        assert_eq!(at("/sys/fs/cgroup/unified/s"), Some("/sys/fs/cgroup/unified/u/x".into()));
        assert_eq!(at("/elsewhere"), None);
    }

    #[test]
    fn both_versions_count_cpu_time() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("cpuacct.usage"), "1234567\n").unwrap();
        std::fs::write(dir.path().join("cpu.stat"), "usage_usec 77\nuser_usec 70\n").unwrap();
        assert_eq!(usage(Version::V1, dir.path()).unwrap(), Nanos(1_234_567));
        assert_eq!(usage(Version::V2, dir.path()).unwrap(), Nanos(77_000));
        std::fs::write(dir.path().join("cpu.stat"), "nr_periods 0\n").unwrap();
        assert!(usage(Version::V2, dir.path()).is_err());
    }

    const HYBRID: &str = "\
30 20 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn a_controller_is_found_in_its_own_hierarchy() {
        let found = find("cpu", HYBRID, "3:cpu,cpuacct:/a/b\n0::/u\n").unwrap();
        assert_eq!(found.version, Version::V1);
        assert_eq!(found.group(), Path::new("/sys/fs/cgroup/cpu,cpuacct/a/b"));
    }

    #[test]
    fn a_group_has_the_controllers_that_it_lists() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!lists(dir.path(), "cpu"));
        std::fs::write(dir.path().join("cgroup.controllers"), "cpuset io memory\n").unwrap();
        assert!(lists(dir.path(), "cpuset") && !lists(dir.path(), "cpu"));
    }

    #[test]
    fn else_in_the_unified_one_seen_from_our_root() {
        let mounts = "40 1 0:9 /ctr/x /sys/fs/cgroup rw - cgroup2 none rw,nsdelegate\n";
        let found = find("cpu", mounts, "0::/ctr/x/job\n").unwrap();
        assert_eq!(
            (found.version, found.group().as_path()),
            (Version::V2, Path::new("/sys/fs/cgroup/job"))
        );
        assert!(!found.is_root());
        assert_eq!(found.groups(), ["/sys/fs/cgroup/job", "/sys/fs/cgroup/"].map(PathBuf::from));
        assert!(find("cpu", mounts, "0::/ctr/x\n").unwrap().is_root());
        assert_eq!(find("cpu", "", "0::/\n"), None);
    }
}
