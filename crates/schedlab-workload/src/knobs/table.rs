//! Every scheduler tunable that schedlab knows: names, units, limits and meanings.
//!
//! Limits are facts of the kernel: `kernel/sched/debug.c`, `kernel/sched/fair.c`, `kernel/sysctl.c` of
//! Linux 5.10, 6.1 and 6.12, and Documentation/admin-guide/cgroup-v2.rst.

use super::Tunable;

const fn tunable(
    name: &'static str,
    unit: &'static str,
    range: Option<(f64, f64)>,
    meaning: &'static str,
) -> Tunable {
    Tunable { name, unit, range, meaning }
}

/// Debugfs takes a 32-bit number of nanoseconds without any check.
const U32: f64 = 4_294_967_295.0;

pub const TUNABLES: &[Tunable] = &[
    tunable(
        "latency",
        "ns",
        Some((1e5, 1e9)),
        "CFS: period in which every task should run once; half of it is the credit of a task that slept",
    ),
    tunable(
        "min_granularity",
        "ns",
        Some((1e5, 1e9)),
        "CFS: least time that a task keeps its CPU; takes effect in steps of the tick",
    ),
    tunable(
        "wakeup_granularity",
        "ns",
        Some((0.0, 1e9)),
        "CFS: lead that a waking task needs to displace the running one; above latency/2 hardly any does",
    ),
    tunable(
        "idle_min_granularity",
        "ns",
        Some((0.0, U32)),
        "CFS: as min_granularity, for SCHED_IDLE tasks beside others",
    ),
    tunable(
        "base_slice",
        "ns",
        Some((1e5, 1e8)),
        "EEVDF: time a task asks for; shorter means earlier deadlines and more switches",
    ),
    tunable(
        "slice",
        "ns",
        Some((1e5, 1e8)),
        "EEVDF: as base_slice for the load's own tasks; 0 gives the machine's; needs no debugfs",
    ),
    tunable(
        "nice",
        "",
        Some((-20.0, 19.0)),
        "weight of the load's tasks among others; below 0 needs CAP_SYS_NICE",
    ),
    tunable(
        "policy",
        "",
        None,
        "policy of the load's tasks: normal, batch, idle, fifo:PRIORITY, rr:PRIORITY, ext",
    ),
    tunable(
        "uclamp_min",
        "",
        Some((0.0, 1024.0)),
        "least utilisation that the load's tasks are taken for (frequency, big cores)",
    ),
    tunable(
        "uclamp_max",
        "",
        Some((0.0, 1024.0)),
        "greatest utilisation that the load's tasks are taken for",
    ),
    tunable(
        "migration_cost",
        "ns",
        Some((0.0, U32)),
        "a task that ran less than this ago is left where its cache is warm; also slows new-idle balancing",
    ),
    tunable("nr_migrate", "", Some((1.0, U32)), "tasks looked at in one go of the load balancer"),
    tunable(
        "tunable_scaling",
        "",
        Some((0.0, 2.0)),
        "how defaults grow with CPUs: 0 not, 1 with the logarithm, 2 linearly; writing it rescales the others",
    ),
    tunable(
        "features",
        "",
        None,
        "switches of the scheduler; set one by its name, or NO_ and its name",
    ),
    tunable(
        "preempt",
        "",
        None,
        "preemption model in force, where the kernel can change it: none, voluntary, full, lazy",
    ),
    tunable(
        "domain_min_interval",
        "ms",
        Some((0.0, U32)),
        "load balancing: least time between two looks at a domain; of all domains of all CPUs",
    ),
    tunable(
        "domain_max_interval",
        "ms",
        Some((0.0, U32)),
        "load balancing: most time between two looks at a domain",
    ),
    tunable(
        "domain_busy_factor",
        "",
        Some((1.0, U32)),
        "load balancing: a busy CPU looks N times less often",
    ),
    tunable(
        "domain_imbalance_pct",
        "",
        Some((100.0, U32)),
        "load balancing: tasks move if one group has N percent of another's load",
    ),
    tunable(
        "domain_cache_nice_tries",
        "",
        Some((0.0, U32)),
        "load balancing: failed tries before a task that is warm in its cache is moved",
    ),
    tunable(
        "verbose",
        "",
        Some((0.0, 1.0)),
        "whether the domains have files in debugfs: the domain_ knobs are there only when it is on",
    ),
    tunable(
        "fair_server_runtime",
        "ns",
        Some((0.0, 4e9)),
        "time that fair tasks get of each period against real-time hogs, on every CPU; 0 for none; at most the period",
    ),
    tunable(
        "fair_server_period",
        "ns",
        Some((1e5, 4_194_304_000.0)),
        "period of fair_server_runtime",
    ),
    tunable("child_runs_first", "", Some((0.0, 1.0)), "CFS: a forked child runs before its parent"),
    tunable(
        "autogroup",
        "",
        Some((0.0, 1.0)),
        "each session is a group of its own: loads of two terminals share by terminal, not by task",
    ),
    tunable(
        "bandwidth_slice",
        "us",
        Some((1.0, 1e6)),
        "quota that a CPU takes from its group's pool at once",
    ),
    tunable(
        "schedstats",
        "",
        Some((0.0, 1.0)),
        "the kernel's own statistics; costs a little at every switch",
    ),
    tunable(
        "energy_aware",
        "",
        Some((0.0, 1.0)),
        "placement by an energy model, on machines that have one",
    ),
    tunable(
        "rt_period",
        "us",
        Some((1.0, 2_147_483_647.0)),
        "period of the limit on real-time tasks",
    ),
    tunable(
        "rt_runtime",
        "us",
        Some((-1.0, 2_147_483_647.0)),
        "time that real-time tasks may use of each period; -1 for no limit, which can hang a machine",
    ),
    tunable("rr_timeslice", "ms", Some((0.0, 1e6)), "slice of SCHED_RR; 0 for the default"),
    tunable(
        "util_clamp_min",
        "",
        Some((0.0, 1024.0)),
        "greatest uclamp_min that tasks may ask for",
    ),
    tunable(
        "util_clamp_max",
        "",
        Some((0.0, 1024.0)),
        "greatest uclamp_max that tasks may ask for",
    ),
    tunable(
        "numa_balancing",
        "",
        Some((0.0, 3.0)),
        "moves memory and tasks together: 0 off, 1 on, 2 memory tiering",
    ),
    tunable(
        "numa_scan_delay",
        "ms",
        Some((0.0, U32)),
        "time after which a task's memory is first sampled",
    ),
    tunable("numa_scan_size", "", Some((1.0, U32)), "megabytes sampled at once"),
    tunable(
        "cgroup_weight",
        "",
        Some((1.0, 10_000.0)),
        "weight of the load's control group (100 is a plain group; 1024 of the older interface)",
    ),
    tunable(
        "cgroup_idle",
        "",
        Some((0.0, 1.0)),
        "the load's control group runs only when nothing else wants to",
    ),
    tunable(
        "cgroup_max",
        "us",
        None,
        "quota of the load's control group in each 100 ms, all CPUs together; max for no limit",
    ),
    tunable(
        "cgroup_burst",
        "us",
        Some((0.0, 1e6)),
        "quota that the group may save up for later; at most its quota",
    ),
    tunable(
        "cgroup_uclamp_min",
        "",
        Some((0.0, 100.0)),
        "percent of utilisation that the group is taken for at least",
    ),
    tunable(
        "cgroup_uclamp_max",
        "",
        Some((0.0, 100.0)),
        "percent of utilisation that the group is taken for at most",
    ),
];
