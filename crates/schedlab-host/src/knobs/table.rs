//! Where each generation of kernels keeps the scheduler's tunables. What they are called and which
//! values they take is in [`schedlab_workload::knobs`].
//!
//! Places are facts of the kernel: `kernel/sched/debug.c`, `kernel/sched/fair.c`, `kernel/sysctl.c` of
//! Linux 5.10, 6.1 and 6.12, and Documentation/admin-guide/cgroup-v2.rst.

use schedlab_workload::knobs::{Tunable, tunable};

/// Where a knob lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// A file below `/proc/sys/kernel`; a `*` stands for the numbers that are there, a file each.
    Sysctl(&'static str),
    /// A file below `/sys/kernel/debug`, likewise.
    Debugfs(&'static str),
    /// A scheduling attribute of tasks, inherited by their children.
    Task(TaskKnob),
    /// A file of a control group with the CPU controller: version 2, version 1.
    Cgroup(&'static str, Option<&'static str>),
}

/// What can be set for single tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKnob {
    /// Slice of a fair task (`sched_runtime` of `sched_setattr`).
    Slice,
    Nice,
    /// Policy with its parameters.
    Policy,
    /// Lower clamp of utilisation.
    UclampMin,
    /// Upper clamp of utilisation.
    UclampMax,
}

/// A version of Linux, as in `6.12`.
pub type Version = (u32, u32);

/// A home with the kernels that have it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The file or call that holds the knob.
    pub(crate) home: Home,
    /// The first kernel that has the knob there.
    pub(crate) since: Version,
    /// First kernel without it again.
    pub(crate) until: Version,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The tunable's name (see [`schedlab_workload::knobs`]).
    pub name: &'static str,
    /// Where it lives, oldest kernels first.
    pub(crate) places: &'static [Place],
}

const FIRST: Version = (0, 0);
const NEVER: Version = (u32::MAX, 0);
/// Debugfs took the fair scheduler's sysctls over.
const MOVED: Version = (5, 13);
/// The version in which EEVDF replaced CFS.
const EEVDF: Version = (6, 6);

const fn at(home: Home, since: Version, until: Version) -> Place {
    Place { home, since, until }
}

const fn sysctl(file: &'static str, until: Version) -> Place {
    at(Home::Sysctl(file), FIRST, until)
}

const fn debugfs(file: &'static str, since: Version, until: Version) -> Place {
    at(Home::Debugfs(file), since, until)
}

const fn entry(name: &'static str, places: &'static [Place]) -> Entry {
    Entry { name, places }
}

/// All of them, in the order of the workload crate's table.
pub(crate) const KNOBS: &[Entry] = &[
    entry(
        "latency",
        &[sysctl("sched_latency_ns", MOVED), debugfs("sched/latency_ns", MOVED, EEVDF)],
    ),
    entry(
        "min_granularity",
        &[
            sysctl("sched_min_granularity_ns", MOVED),
            debugfs("sched/min_granularity_ns", MOVED, EEVDF),
        ],
    ),
    entry(
        "wakeup_granularity",
        &[
            sysctl("sched_wakeup_granularity_ns", MOVED),
            debugfs("sched/wakeup_granularity_ns", MOVED, EEVDF),
        ],
    ),
    entry("idle_min_granularity", &[debugfs("sched/idle_min_granularity_ns", (5, 15), EEVDF)]),
    entry("base_slice", &[debugfs("sched/base_slice_ns", EEVDF, NEVER)]),
    entry("slice", &[at(Home::Task(TaskKnob::Slice), (6, 12), NEVER)]),
    entry("nice", &[at(Home::Task(TaskKnob::Nice), FIRST, NEVER)]),
    entry("policy", &[at(Home::Task(TaskKnob::Policy), FIRST, NEVER)]),
    entry("uclamp_min", &[at(Home::Task(TaskKnob::UclampMin), (5, 3), NEVER)]),
    entry("uclamp_max", &[at(Home::Task(TaskKnob::UclampMax), (5, 3), NEVER)]),
    entry(
        "migration_cost",
        &[
            sysctl("sched_migration_cost_ns", MOVED),
            debugfs("sched/migration_cost_ns", MOVED, NEVER),
        ],
    ),
    entry(
        "nr_migrate",
        &[sysctl("sched_nr_migrate", MOVED), debugfs("sched/nr_migrate", MOVED, NEVER)],
    ),
    entry(
        "tunable_scaling",
        &[sysctl("sched_tunable_scaling", MOVED), debugfs("sched/tunable_scaling", MOVED, NEVER)],
    ),
    entry(
        "features",
        &[debugfs("sched_features", FIRST, MOVED), debugfs("sched/features", MOVED, NEVER)],
    ),
    entry("preempt", &[debugfs("sched/preempt", MOVED, NEVER)]),
    entry(
        "domain_min_interval",
        &[
            sysctl("sched_domain/cpu*/domain*/min_interval", MOVED),
            debugfs("sched/domains/cpu*/domain*/min_interval", MOVED, NEVER),
        ],
    ),
    entry(
        "domain_max_interval",
        &[
            sysctl("sched_domain/cpu*/domain*/max_interval", MOVED),
            debugfs("sched/domains/cpu*/domain*/max_interval", MOVED, NEVER),
        ],
    ),
    entry(
        "domain_busy_factor",
        &[
            sysctl("sched_domain/cpu*/domain*/busy_factor", MOVED),
            debugfs("sched/domains/cpu*/domain*/busy_factor", MOVED, NEVER),
        ],
    ),
    entry(
        "domain_imbalance_pct",
        &[
            sysctl("sched_domain/cpu*/domain*/imbalance_pct", MOVED),
            debugfs("sched/domains/cpu*/domain*/imbalance_pct", MOVED, NEVER),
        ],
    ),
    entry(
        "domain_cache_nice_tries",
        &[
            sysctl("sched_domain/cpu*/domain*/cache_nice_tries", MOVED),
            debugfs("sched/domains/cpu*/domain*/cache_nice_tries", MOVED, NEVER),
        ],
    ),
    entry("verbose", &[debugfs("sched/verbose", MOVED, NEVER)]),
    entry("fair_server_runtime", &[debugfs("sched/fair_server/cpu*/runtime", (6, 12), NEVER)]),
    entry("fair_server_period", &[debugfs("sched/fair_server/cpu*/period", (6, 12), NEVER)]),
    entry("child_runs_first", &[sysctl("sched_child_runs_first", EEVDF)]),
    entry("autogroup", &[sysctl("sched_autogroup_enabled", NEVER)]),
    entry("bandwidth_slice", &[sysctl("sched_cfs_bandwidth_slice_us", NEVER)]),
    entry("schedstats", &[sysctl("sched_schedstats", NEVER)]),
    entry("energy_aware", &[sysctl("sched_energy_aware", NEVER)]),
    entry("rt_period", &[sysctl("sched_rt_period_us", NEVER)]),
    entry("rt_runtime", &[sysctl("sched_rt_runtime_us", NEVER)]),
    entry("rr_timeslice", &[sysctl("sched_rr_timeslice_ms", NEVER)]),
    entry("util_clamp_min", &[sysctl("sched_util_clamp_min", NEVER)]),
    entry("util_clamp_max", &[sysctl("sched_util_clamp_max", NEVER)]),
    entry("numa_balancing", &[sysctl("numa_balancing", NEVER)]),
    entry(
        "numa_scan_delay",
        &[
            sysctl("numa_balancing_scan_delay_ms", MOVED),
            debugfs("sched/numa_balancing/scan_delay_ms", MOVED, NEVER),
        ],
    ),
    entry(
        "numa_scan_size",
        &[
            sysctl("numa_balancing_scan_size_mb", MOVED),
            debugfs("sched/numa_balancing/scan_size_mb", MOVED, NEVER),
        ],
    ),
    entry("cgroup_weight", &[at(Home::Cgroup("cpu.weight", Some("cpu.shares")), FIRST, NEVER)]),
    entry("cgroup_idle", &[at(Home::Cgroup("cpu.idle", Some("cpu.idle")), (5, 15), NEVER)]),
    entry("cgroup_max", &[at(Home::Cgroup("cpu.max", Some("cpu.cfs_quota_us")), FIRST, NEVER)]),
    entry(
        "cgroup_burst",
        &[at(Home::Cgroup("cpu.max.burst", Some("cpu.cfs_burst_us")), (5, 14), NEVER)],
    ),
    entry("cgroup_uclamp_min", &[at(Home::Cgroup("cpu.uclamp.min", None), (5, 4), NEVER)]),
    entry("cgroup_uclamp_max", &[at(Home::Cgroup("cpu.uclamp.max", None), (5, 4), NEVER)]),
];

/// The places of the tunable with a name; `None` if schedlab has none of that name.
#[must_use]
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    KNOBS.iter().find(|entry| entry.name == name)
}

impl Entry {
    /// What it is.
    ///
    /// # Panics
    /// Never: a test compares the two tables.
    #[must_use]
    pub(crate) fn tunable(&self) -> &'static Tunable {
        tunable(self.name).expect("each place is of a tunable")
    }

    /// Where a kernel keeps it; `None` when it has no such knob.
    #[must_use]
    pub(crate) fn home(&self, kernel: Version) -> Option<Home> {
        self.places.iter().find(|p| p.since <= kernel && kernel < p.until).map(|p| p.home)
    }
}
