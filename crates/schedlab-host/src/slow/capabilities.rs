//! What this machine allows, looked at once before anything is planned; tests make their own.

use super::frequency::{self, Domain};
use schedlab_model::{Cpu, CpuSet, Pid, Topology};
use schedlab_sys::cgroup::{self, Hierarchy};
use schedlab_sys::sched::Policy;
use schedlab_sys::{capability, process, sched};
use std::path::{Path, PathBuf};

pub(crate) const CAP_SYS_NICE: u32 = 23;

/// What this machine and our rights allow: a [`super::Request`] is checked against it.
#[derive(Clone, Debug)]
pub struct Support {
    pub(crate) online: CpuSet,
    /// CPUs that there are, offline ones included.
    pub(crate) present: CpuSet,
    pub(crate) topology: Topology,
    pub allowed: CpuSet,
    pub root: bool,
    /// Whether schedlab's own group of version 2 was delegated: groups below it can be made without
    /// root.
    pub(crate) delegated: bool,
    pub(crate) realtime: bool,
    /// Whether a control group that we cannot leave has no real-time runtime. `SCHED_DEADLINE` needs none.
    pub(crate) no_realtime_runtime: bool,
    /// The part of each second that real-time tasks may have; 1 without a limit.
    pub(crate) realtime_share: f64,
    pub(crate) cpu_group: Option<Hierarchy>,
    pub(crate) cpuset_group: Option<Hierarchy>,
    /// A hierarchy in which the command's processes can be gathered.
    pub(crate) any_group: Option<Hierarchy>,
    /// A hierarchy whose groups count the CPU time of their tasks.
    pub(crate) count_group: Option<Hierarchy>,
    /// Whether links are tried: not where tests make up a machine.
    pub(crate) links: bool,
    pub(crate) resctrl: PathBuf,
    pub(crate) domains: Vec<Domain>,
    pub(crate) deadline_obstacle: Option<String>,
    /// Why utilisation clamps do nothing; `None` where they can.
    pub(crate) clamp_obstacle: Option<String>,
}

impl Support {
    #[must_use]
    pub fn here() -> Self {
        let sys = Path::new("/sys");
        let allowed = sched::affinity(Pid(0)).unwrap_or_default();
        let online = schedlab_sys::topology::online(sys).unwrap_or_else(|_| allowed.clone());
        let present = std::fs::read_to_string("/sys/devices/system/cpu/present");
        let present = present.ok().and_then(|text| text.parse().ok());
        let any_group = ["freezer", "pids", "cpu"].into_iter().find_map(cgroup::at_root);
        let any_group = any_group.or_else(cgroup::unified);
        let root = process::is_root();
        let ours = if root { None } else { cgroup::delegated() };
        let delegated = ours.is_some();
        let any_group = ours.or(any_group);
        // Every group of version 2 counts, without any controller.
        let unified = any_group.clone().filter(|group| group.version == cgroup::Version::V2);
        Self {
            present: present.unwrap_or_else(|| online.clone()),
            topology: schedlab_sys::topology::read(sys).unwrap_or_default(),
            online,
            allowed,
            root,
            delegated,
            realtime: capability::has(CAP_SYS_NICE),
            no_realtime_runtime: no_realtime_runtime(),
            realtime_share: realtime_share(Path::new("/proc/sys/kernel")),
            cpu_group: cgroup::at_root("cpu"),
            cpuset_group: cgroup::at_root("cpuset"),
            count_group: cgroup::at_root("cpuacct").filter(|_| !delegated).or(unified),
            any_group,
            links: true,
            resctrl: super::bandwidth::ROOT.into(),
            domains: frequency::domains(sys),
            deadline_obstacle: deadline_obstacle(),
            clamp_obstacle: super::clamp::obstacle(
                &sys.join("devices/system/cpu"),
                sched::takes_clamps(),
            ),
        }
    }

    /// Why hogs cannot burn at this speed here; `None` if they can.
    #[must_use]
    pub(crate) fn realtime_obstacle(&self, slowest: f64) -> Option<String> {
        if !self.realtime {
            let remedy = capability::remedy("SYS_NICE");
            return Some(format!("real-time burners need CAP_SYS_NICE: {remedy}"));
        }
        if self.no_realtime_runtime {
            let why = "real-time burners are refused: this control group has no real-time runtime \
                       (CONFIG_RT_GROUP_SCHED), and its processes cannot go to the root group; start schedlab there, \
                       or boot with rt_group_sched=0";
            return Some(why.into());
        }
        // Left for the probe, for interrupts that are counted as the burner's time, and for jitter.
        const ROOM: f64 = 0.04;
        let burn = 1.0 - slowest;
        (burn > self.realtime_share - ROOM).then(|| {
            format!(
                "real-time tasks may use {:.0}% of each second, too little to burn {:.0}%: \
                 `sysctl kernel.sched_rt_runtime_us=950000` sets the default",
                self.realtime_share * 100.0,
                burn * 100.0
            )
        })
    }

    /// Where new control groups of a hierarchy go: below ours, or, as version 2 wants no processes
    /// beside groups that have controllers, below the root. Without root they have none, and go below ours.
    pub(crate) fn parent(&self, hierarchy: &Hierarchy) -> PathBuf {
        match hierarchy.version {
            cgroup::Version::V2 if !self.delegated => hierarchy.mount.clone(),
            _ => hierarchy.group(),
        }
    }

    /// The other online threads of a CPU's core.
    #[must_use]
    pub(crate) fn siblings(&self, cpu: Cpu) -> CpuSet {
        let Some(place) = self.topology.place(cpu) else { return CpuSet::new() };
        let same = self.topology.places().iter().filter(|other| other.core == place.core);
        let others = same.map(|other| other.cpu).filter(|other| *other != cpu);
        others.filter(|other| self.online.contains(*other)).collect()
    }

    #[must_use]
    pub(crate) const fn makes_groups(&self) -> bool {
        self.root || self.delegated
    }

    /// A machine that allows everything, for tests.
    #[cfg(test)]
    pub(super) fn fake(cpus: usize) -> Self {
        let hierarchy = Hierarchy {
            version: cgroup::Version::V1,
            mount: "/nowhere".into(),
            path: PathBuf::new(),
        };
        Self {
            online: CpuSet::first(cpus),
            present: CpuSet::first(cpus),
            topology: Topology::flat(u16::try_from(cpus).expect("few CPUs")),
            allowed: CpuSet::first(cpus),
            root: true,
            delegated: false,
            realtime: true,
            no_realtime_runtime: false,
            realtime_share: 0.95,
            cpu_group: Some(hierarchy.clone()),
            cpuset_group: Some(hierarchy.clone()),
            any_group: Some(hierarchy.clone()),
            count_group: Some(hierarchy),
            links: false,
            resctrl: "/nowhere".into(),
            domains: Vec::new(),
            deadline_obstacle: None,
            clamp_obstacle: None,
        }
    }
}

/// The last CPUs of a set: CPU 0 has most of the interrupts.
#[must_use]
pub fn last(cpus: &CpuSet, count: usize) -> CpuSet {
    let all: Vec<Cpu> = cpus.iter().collect();
    all.into_iter().rev().take(count).collect()
}

/// A thread that becomes real-time tells, since no file does under version 2. Whether the root group allows it is not
/// tried: that takes a process, so this program would start itself before it knows what it was started for.
fn no_realtime_runtime() -> bool {
    let policy = Policy::Fifo { priority: 1 };
    let tried = process::on_a_thread(|| sched::set(Pid(0), &policy.into()));
    // Where no thread can be started, the start of the hogs says so.
    let refused = tried.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
    let leaves = || cgroup::of_cpu().is_some_and(|cpu| !cpu.is_root() && cpu.root_takes_us());
    refused && !leaves()
}

/// Refusals that are about the right or the CPUs are no matter of the kernel: later checks name them.
fn deadline_obstacle() -> Option<String> {
    let error = sched::takes_deadlines().err()?;
    let other = matches!(error.raw_os_error(), Some(1 | 16));
    (!other).then(|| format!("this kernel lacks SCHED_DEADLINE: {error}"))
}

/// The limit of real-time throttling. A kernel without the files has none.
fn realtime_share(dir: &Path) -> f64 {
    let number =
        |name: &str| std::fs::read_to_string(dir.join(name)).ok()?.trim().parse::<i64>().ok();
    match (number("sched_rt_runtime_us"), number("sched_rt_period_us")) {
        (Some(runtime), Some(period)) if runtime >= 0 && period > 0 => {
            (runtime as f64 / period as f64).min(1.0)
        }
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hogs_need_room_below_real_time_throttling() {
        let support = Support::fake(2);
        assert_eq!(support.realtime_obstacle(0.10), None);
        assert!(support.realtime_obstacle(0.08).unwrap().contains("95%"));
        let tight = Support { realtime_share: 0.5, ..Support::fake(2) };
        assert!(tight.realtime_obstacle(0.25).unwrap().contains("sched_rt_runtime_us"));
        assert_eq!(tight.realtime_obstacle(0.75), None);
        let bare = Support { realtime: false, ..Support::fake(2) };
        assert!(bare.realtime_obstacle(0.9).unwrap().contains("root"));
        let grouped = Support { no_realtime_runtime: true, ..Support::fake(2) };
        assert!(grouped.realtime_obstacle(0.9).unwrap().contains("CONFIG_RT_GROUP_SCHED"));
    }

    #[test]
    fn the_limit_is_read_and_minus_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert!((realtime_share(dir.path()) - 1.0).abs() < 1e-9);
        std::fs::write(dir.path().join("sched_rt_period_us"), "1000000\n").unwrap();
        std::fs::write(dir.path().join("sched_rt_runtime_us"), "950000\n").unwrap();
        assert!((realtime_share(dir.path()) - 0.95).abs() < 1e-9);
        std::fs::write(dir.path().join("sched_rt_runtime_us"), "-1\n").unwrap();
        assert!((realtime_share(dir.path()) - 1.0).abs() < 1e-9);
    }
}
