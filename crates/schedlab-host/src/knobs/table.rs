//! Every scheduler tunable that we know, and where each generation of kernels keeps it.
//!
//! Names, places and limits are facts of the kernel: `kernel/sched/debug.c`, `kernel/sched/fair.c`,
//! `kernel/sysctl.c` of Linux 5.10, 6.1 and 6.12, and Documentation/admin-guide/cgroup-v2.rst.

/// Where a knob lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
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
pub enum TaskKnob {
    /// Slice of a fair task (`sched_runtime` of `sched_setattr`).
    Slice,
    /// Nice value.
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
    /// Where.
    pub home: Home,
    /// First kernel.
    pub since: Version,
    /// First kernel without it again.
    pub until: Version,
}

/// A tunable.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Our name, the same on every kernel.
    pub name: &'static str,
    /// Unit of the kernel's number: `ns`, `us`, `ms`, or empty.
    pub unit: &'static str,
    /// Limits that the kernel, or sense, sets; in that unit.
    pub range: Option<(f64, f64)>,
    /// What it does, and what to know before turning it.
    pub meaning: &'static str,
    /// Where it lives, oldest kernels first.
    pub places: &'static [Place],
}

const FIRST: Version = (0, 0);
const NEVER: Version = (u32::MAX, 0);
/// Debugfs took the fair scheduler's sysctls over.
const MOVED: Version = (5, 13);
/// EEVDF replaced CFS.
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

const fn entry(
    name: &'static str,
    unit: &'static str,
    range: Option<(f64, f64)>,
    meaning: &'static str,
    places: &'static [Place],
) -> Entry {
    Entry { name, unit, range, meaning, places }
}

/// Debugfs takes a 32-bit number of nanoseconds without any check.
const U32: f64 = 4_294_967_295.0;

/// All of them.
pub const KNOBS: &[Entry] = &[
    entry(
        "latency",
        "ns",
        Some((1e5, 1e9)),
        "CFS: period in which every task should run once; half of it is the credit of a task that slept",
        &[sysctl("sched_latency_ns", MOVED), debugfs("sched/latency_ns", MOVED, EEVDF)],
    ),
    entry(
        "min_granularity",
        "ns",
        Some((1e5, 1e9)),
        "CFS: time a task keeps its CPU at least; takes effect in steps of the tick",
        &[
            sysctl("sched_min_granularity_ns", MOVED),
            debugfs("sched/min_granularity_ns", MOVED, EEVDF),
        ],
    ),
    entry(
        "wakeup_granularity",
        "ns",
        Some((0.0, 1e9)),
        "CFS: lead that a waking task needs to displace the running one; above latency/2 hardly any does",
        &[
            sysctl("sched_wakeup_granularity_ns", MOVED),
            debugfs("sched/wakeup_granularity_ns", MOVED, EEVDF),
        ],
    ),
    entry(
        "idle_min_granularity",
        "ns",
        Some((0.0, U32)),
        "CFS: as min_granularity, for SCHED_IDLE tasks beside others",
        &[debugfs("sched/idle_min_granularity_ns", (5, 15), EEVDF)],
    ),
    entry(
        "base_slice",
        "ns",
        Some((1e5, 1e8)),
        "EEVDF: time a task asks for; shorter means earlier deadlines and more switches",
        &[debugfs("sched/base_slice_ns", EEVDF, NEVER)],
    ),
    entry(
        "slice",
        "ns",
        Some((1e5, 1e8)),
        "EEVDF: as base_slice for the load's own tasks; 0 gives the machine's; needs no debugfs",
        &[at(Home::Task(TaskKnob::Slice), (6, 12), NEVER)],
    ),
    entry(
        "nice",
        "",
        Some((-20.0, 19.0)),
        "weight of the load's tasks among others; below 0 needs CAP_SYS_NICE",
        &[at(Home::Task(TaskKnob::Nice), FIRST, NEVER)],
    ),
    entry(
        "policy",
        "",
        None,
        "policy of the load's tasks: normal, batch, idle, fifo:PRIORITY, rr:PRIORITY, ext",
        &[at(Home::Task(TaskKnob::Policy), FIRST, NEVER)],
    ),
    entry(
        "uclamp_min",
        "",
        Some((0.0, 1024.0)),
        "least utilisation that the load's tasks are taken for (frequency, big cores)",
        &[at(Home::Task(TaskKnob::UclampMin), (5, 3), NEVER)],
    ),
    entry(
        "uclamp_max",
        "",
        Some((0.0, 1024.0)),
        "greatest utilisation that the load's tasks are taken for",
        &[at(Home::Task(TaskKnob::UclampMax), (5, 3), NEVER)],
    ),
    entry(
        "migration_cost",
        "ns",
        Some((0.0, U32)),
        "a task that ran less than this ago is left where its cache is warm; also slows new-idle balancing",
        &[
            sysctl("sched_migration_cost_ns", MOVED),
            debugfs("sched/migration_cost_ns", MOVED, NEVER),
        ],
    ),
    entry(
        "nr_migrate",
        "",
        Some((1.0, U32)),
        "tasks looked at in one go of the load balancer",
        &[sysctl("sched_nr_migrate", MOVED), debugfs("sched/nr_migrate", MOVED, NEVER)],
    ),
    entry(
        "tunable_scaling",
        "",
        Some((0.0, 2.0)),
        "how defaults grow with CPUs: 0 not, 1 with the logarithm, 2 linearly; writing it rescales the others",
        &[sysctl("sched_tunable_scaling", MOVED), debugfs("sched/tunable_scaling", MOVED, NEVER)],
    ),
    entry(
        "features",
        "",
        None,
        "switches of the scheduler; set one by its name, or NO_ and its name",
        &[debugfs("sched_features", FIRST, MOVED), debugfs("sched/features", MOVED, NEVER)],
    ),
    entry(
        "preempt",
        "",
        None,
        "preemption model in force, where the kernel can change it: none, voluntary, full, lazy",
        &[debugfs("sched/preempt", MOVED, NEVER)],
    ),
    entry(
        "domain_min_interval",
        "ms",
        Some((0.0, U32)),
        "load balancing: least time between two looks at a domain; of all domains of all CPUs",
        &[
            sysctl("sched_domain/cpu*/domain*/min_interval", MOVED),
            debugfs("sched/domains/cpu*/domain*/min_interval", MOVED, NEVER),
        ],
    ),
    entry(
        "domain_max_interval",
        "ms",
        Some((0.0, U32)),
        "load balancing: most time between two looks at a domain",
        &[
            sysctl("sched_domain/cpu*/domain*/max_interval", MOVED),
            debugfs("sched/domains/cpu*/domain*/max_interval", MOVED, NEVER),
        ],
    ),
    entry(
        "domain_busy_factor",
        "",
        Some((1.0, U32)),
        "load balancing: a busy CPU looks so many times less often",
        &[
            sysctl("sched_domain/cpu*/domain*/busy_factor", MOVED),
            debugfs("sched/domains/cpu*/domain*/busy_factor", MOVED, NEVER),
        ],
    ),
    entry(
        "domain_imbalance_pct",
        "",
        Some((100.0, U32)),
        "load balancing: one group must have so many percent of another's load before tasks move",
        &[
            sysctl("sched_domain/cpu*/domain*/imbalance_pct", MOVED),
            debugfs("sched/domains/cpu*/domain*/imbalance_pct", MOVED, NEVER),
        ],
    ),
    entry(
        "domain_cache_nice_tries",
        "",
        Some((0.0, U32)),
        "load balancing: failed tries before a task that is warm in its cache is moved",
        &[
            sysctl("sched_domain/cpu*/domain*/cache_nice_tries", MOVED),
            debugfs("sched/domains/cpu*/domain*/cache_nice_tries", MOVED, NEVER),
        ],
    ),
    entry(
        "verbose",
        "",
        Some((0.0, 1.0)),
        "whether the domains have files in debugfs: the domain_ knobs are there only when it is on",
        &[debugfs("sched/verbose", MOVED, NEVER)],
    ),
    entry(
        "fair_server_runtime",
        "ns",
        Some((0.0, 4e9)),
        "time that fair tasks get of each period against real-time hogs, on every CPU; 0 for none; at most the period",
        &[debugfs("sched/fair_server/cpu*/runtime", (6, 12), NEVER)],
    ),
    entry(
        "fair_server_period",
        "ns",
        Some((1e5, 4_194_304_000.0)),
        "period of fair_server_runtime",
        &[debugfs("sched/fair_server/cpu*/period", (6, 12), NEVER)],
    ),
    entry(
        "child_runs_first",
        "",
        Some((0.0, 1.0)),
        "CFS: a forked child runs before its parent",
        &[sysctl("sched_child_runs_first", EEVDF)],
    ),
    entry(
        "autogroup",
        "",
        Some((0.0, 1.0)),
        "each session is a group of its own: loads of two terminals share by terminal, not by task",
        &[sysctl("sched_autogroup_enabled", NEVER)],
    ),
    entry(
        "bandwidth_slice",
        "us",
        Some((1.0, 1e6)),
        "quota that a CPU takes from its group's pool at once",
        &[sysctl("sched_cfs_bandwidth_slice_us", NEVER)],
    ),
    entry(
        "schedstats",
        "",
        Some((0.0, 1.0)),
        "the kernel's own statistics; costs a little at every switch",
        &[sysctl("sched_schedstats", NEVER)],
    ),
    entry(
        "energy_aware",
        "",
        Some((0.0, 1.0)),
        "placement by an energy model, on machines that have one",
        &[sysctl("sched_energy_aware", NEVER)],
    ),
    entry(
        "rt_period",
        "us",
        Some((1.0, 2_147_483_647.0)),
        "period of the limit on real-time tasks",
        &[sysctl("sched_rt_period_us", NEVER)],
    ),
    entry(
        "rt_runtime",
        "us",
        Some((-1.0, 2_147_483_647.0)),
        "time that real-time tasks may use of each period; -1 for no limit, which can hang a machine",
        &[sysctl("sched_rt_runtime_us", NEVER)],
    ),
    entry(
        "rr_timeslice",
        "ms",
        Some((0.0, 1e6)),
        "slice of SCHED_RR; 0 for the default",
        &[sysctl("sched_rr_timeslice_ms", NEVER)],
    ),
    entry(
        "util_clamp_min",
        "",
        Some((0.0, 1024.0)),
        "greatest uclamp_min that tasks may ask for",
        &[sysctl("sched_util_clamp_min", NEVER)],
    ),
    entry(
        "util_clamp_max",
        "",
        Some((0.0, 1024.0)),
        "greatest uclamp_max that tasks may ask for",
        &[sysctl("sched_util_clamp_max", NEVER)],
    ),
    entry(
        "numa_balancing",
        "",
        Some((0.0, 3.0)),
        "moves memory and tasks together: 0 off, 1 on, 2 memory tiering",
        &[sysctl("numa_balancing", NEVER)],
    ),
    entry(
        "numa_scan_delay",
        "ms",
        Some((0.0, U32)),
        "time after which a task's memory is first sampled",
        &[
            sysctl("numa_balancing_scan_delay_ms", MOVED),
            debugfs("sched/numa_balancing/scan_delay_ms", MOVED, NEVER),
        ],
    ),
    entry(
        "numa_scan_size",
        "",
        Some((1.0, U32)),
        "megabytes sampled at once",
        &[
            sysctl("numa_balancing_scan_size_mb", MOVED),
            debugfs("sched/numa_balancing/scan_size_mb", MOVED, NEVER),
        ],
    ),
    entry(
        "cgroup_weight",
        "",
        Some((1.0, 10_000.0)),
        "weight of the load's control group (100 is a plain group; 1024 of the older interface)",
        &[at(Home::Cgroup("cpu.weight", Some("cpu.shares")), FIRST, NEVER)],
    ),
    entry(
        "cgroup_idle",
        "",
        Some((0.0, 1.0)),
        "the load's control group runs only when nothing else wants to",
        &[at(Home::Cgroup("cpu.idle", Some("cpu.idle")), (5, 15), NEVER)],
    ),
    entry(
        "cgroup_max",
        "us",
        None,
        "quota of the load's control group in each 100 ms, all CPUs together; max for no limit",
        &[at(Home::Cgroup("cpu.max", Some("cpu.cfs_quota_us")), FIRST, NEVER)],
    ),
    entry(
        "cgroup_burst",
        "us",
        Some((0.0, 1e6)),
        "quota that the group may save up for later; at most its quota",
        &[at(Home::Cgroup("cpu.max.burst", Some("cpu.cfs_burst_us")), (5, 14), NEVER)],
    ),
    entry(
        "cgroup_uclamp_min",
        "",
        Some((0.0, 100.0)),
        "percent of utilisation that the group is taken for at least",
        &[at(Home::Cgroup("cpu.uclamp.min", None), (5, 4), NEVER)],
    ),
    entry(
        "cgroup_uclamp_max",
        "",
        Some((0.0, 100.0)),
        "percent of utilisation that the group is taken for at most",
        &[at(Home::Cgroup("cpu.uclamp.max", None), (5, 4), NEVER)],
    ),
];

/// The tunable of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    KNOBS.iter().find(|entry| entry.name == name)
}

impl Entry {
    /// Where a kernel keeps it; `None` when it has no such knob.
    #[must_use]
    pub fn home(&self, kernel: Version) -> Option<Home> {
        self.places.iter().find(|p| p.since <= kernel && kernel < p.until).map(|p| p.home)
    }
}

/// The version at the beginning of a release (`6.12.0-rc3+deb`).
#[must_use]
pub fn version(release: &str) -> Option<Version> {
    let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
