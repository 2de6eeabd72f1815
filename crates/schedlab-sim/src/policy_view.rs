//! What a policy may look at: the time, the tasks, the CPUs and how they share hardware.

use schedlab_model::{Cpu, CpuSet, Distance, Nanos, Topology};
use schedlab_workload::plan::{Placement, Policy};

/// A task, by its index. Index 0 may be the task that starts the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

impl TaskId {
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a task or a server reserved: an amount of time in each period, before the deadline in it.
/// In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// The budget of each period, in nanoseconds.
    pub runtime: u64,
    /// The deadline in nanoseconds from the beginning of a period.
    pub deadline: u64,
    /// The period in nanoseconds.
    pub period: u64,
}

impl Reservation {
    /// From a placement's times.
    #[must_use]
    pub fn of(runtime: Nanos, deadline: Nanos, period: Nanos) -> Self {
        Self { runtime: runtime.0, deadline: deadline.0, period: period.0 }
    }

    /// The share of a CPU in 2^20ths (`to_ratio`).
    #[must_use]
    pub fn bandwidth(&self) -> u64 {
        ratio(self.period, self.runtime)
    }

    pub(crate) fn is_implicit(&self) -> bool {
        self.deadline == self.period
    }
}

/// A part of a whole in 2^20ths (`to_ratio`).
pub(crate) fn ratio(whole: u64, part: u64) -> u64 {
    u64::try_from((u128::from(part) << 20) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

/// The scheduling class of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// The class of fair tasks (`SCHED_OTHER`).
    #[default]
    Normal,
    /// `SCHED_BATCH`: it preempts nobody when it wakes.
    Batch,
    /// `SCHED_IDLE`: every other task preempts it.
    Idle,
    /// `SCHED_FIFO` with its priority, 1 ..= 99.
    Fifo(u32),
    /// `SCHED_RR` with its priority, 1 ..= 99.
    RoundRobin(u32),
    /// The class of deadline tasks (`SCHED_DEADLINE`).
    Deadline(Reservation),
}

impl Class {
    /// The class of a policy; `None` for `SCHED_EXT`, which has no model here.
    #[must_use]
    pub fn of(policy: Policy) -> Option<Self> {
        Some(match policy {
            Policy::Normal => Self::Normal,
            Policy::Batch => Self::Batch,
            Policy::Idle => Self::Idle,
            Policy::Fifo(priority) => Self::Fifo(priority),
            Policy::RoundRobin(priority) => Self::RoundRobin(priority),
            Policy::Deadline { runtime, deadline, period } => {
                Self::Deadline(Reservation::of(runtime, deadline, period))
            }
            Policy::Ext => return None,
        })
    }

    #[must_use]
    pub fn is_above(self) -> bool {
        matches!(self, Self::Fifo(_) | Self::RoundRobin(_) | Self::Deadline(_))
    }

    /// The real-time priority; 0: none.
    #[must_use]
    pub fn priority(self) -> u32 {
        match self {
            Self::Fifo(priority) | Self::RoundRobin(priority) => priority,
            _ => 0,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct TaskView {
    /// The CPUs that it may use; `None`: all.
    pub allowed: Option<CpuSet>,
    /// The CPU that it is on, or was on last.
    pub cpu: usize,
    /// Its nice value, -20 ..= 19.
    pub nice: i32,
    pub class: Class,
    /// The slice that it asked for in nanoseconds; 0: the policy's own.
    pub slice_ns: u64,
    /// When it last began to run, or was last on a CPU, in nanoseconds.
    pub ran_at: u64,
    /// Its control group, by its index; `None`: the root.
    pub group: Option<usize>,
}

impl TaskView {
    /// A task that is placed as a plan says.
    #[must_use]
    pub fn of(placement: &Placement) -> Self {
        let class = placement.policy.and_then(Class::of).unwrap_or_default();
        Self {
            allowed: placement.cpus.clone(),
            nice: placement.nice.unwrap_or(0),
            class,
            slice_ns: placement.slice.map_or(0, |slice| slice.0),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn may_use(&self, cpu: usize) -> bool {
        self.allowed.as_ref().is_none_or(|set| set.contains(id(cpu)))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct CpuView {
    /// Who runs there; `None`: it is idle.
    pub running: Option<TaskId>,
    /// Whether the task that runs there is about to be displaced.
    pub resched: bool,
    /// Wakeups that are on their way to it.
    pub pending: u32,
    /// Runnable tasks of classes above the fair ones.
    pub above: u32,
    /// Since when it has been idle, in nanoseconds.
    pub idle_since: u64,
    /// Time that went to interrupts and to the hypervisor while a task was on it, in nanoseconds, all of the current
    /// gap included.
    pub gone: u64,
    /// When the last such gap ends, in nanoseconds.
    pub gap_until: u64,
    /// When its clock was last read since a wakeup that has the task displaced; the switch does not read it anew
    /// (`rq_clock_skip_update`).
    pub(crate) read_at: Option<u64>,
    /// The time of such a switch.
    pub(crate) held_at: Option<u64>,
}

/// The CPUs and how they share hardware, in tables.
#[derive(Clone, Debug)]
pub struct Hardware {
    topology: Topology,
    llc: Vec<usize>,
    /// CPUs of each LLC, ascending.
    llcs: Vec<Vec<usize>>,
    /// CPUs of each CPU's core, ascending.
    siblings: Vec<Vec<usize>>,
    /// Speed of each CPU in millionths of full speed.
    speeds: Vec<u64>,
    /// What the kernel holds each CPU to be able to do, in 1,024ths of the fastest (`arch_scale_cpu_capacity`).
    capacities: Vec<u64>,
    /// Where capacities differ: the CPUs of the smallest LLC, node or machine around each CPU that has all of them.
    whole: Vec<Vec<usize>>,
}

/// The capacity of the fastest CPU (`SCHED_CAPACITY_SCALE`).
pub(crate) const FULL_CAPACITY: u64 = 1_024;

/// Full speed, in millionths.
pub(crate) const FULL_SPEED: u64 = 1_000_000;

impl Hardware {
    /// All CPUs of `topology`, which must be numbered from 0 without holes, at full speed.
    #[must_use]
    pub fn new(topology: Topology) -> Self {
        let places = topology.places();
        let mut labels: Vec<u32> = places.iter().map(|place| place.llc).collect();
        labels.sort_unstable();
        labels.dedup();
        let at = |label: u32| labels.binary_search(&label).unwrap_or(0);
        let llc: Vec<usize> = places.iter().map(|place| at(place.llc)).collect();
        let mut llcs = vec![Vec::new(); labels.len()];
        for (cpu, &llc) in llc.iter().enumerate() {
            llcs[llc].push(cpu);
        }
        let of_core = |core: u32| {
            (0..places.len()).filter(|&cpu| places[cpu].core == core).collect::<Vec<usize>>()
        };
        let siblings = places.iter().map(|place| of_core(place.core)).collect();
        let speeds = vec![FULL_SPEED; places.len()];
        let capacities = vec![FULL_CAPACITY; places.len()];
        Self { llc, llcs, siblings, speeds, capacities, whole: Vec::new(), topology }
    }

    #[must_use]
    pub fn cpus(&self) -> usize {
        self.llc.len()
    }

    /// How the CPUs share hardware.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Whether two CPUs share their last-level cache.
    #[must_use]
    pub fn share_llc(&self, a: usize, b: usize) -> bool {
        self.llc[a] == self.llc[b]
    }

    #[must_use]
    pub fn llc(&self, cpu: usize) -> usize {
        self.llc[cpu]
    }

    #[must_use]
    pub fn llcs(&self) -> &[Vec<usize>] {
        &self.llcs
    }

    /// The CPUs that share a CPU's LLC, itself included, ascending.
    #[must_use]
    pub fn llc_of(&self, cpu: usize) -> &[usize] {
        &self.llcs[self.llc[cpu]]
    }

    /// The CPUs of a CPU's core, itself included, ascending.
    #[must_use]
    pub fn siblings(&self, cpu: usize) -> &[usize] {
        &self.siblings[cpu]
    }

    /// How far apart two CPUs are.
    #[must_use]
    pub fn distance(&self, a: usize, b: usize) -> Distance {
        self.topology.distance(id(a), id(b)).unwrap_or(Distance::Same)
    }

    /// A CPU's speed in millionths of full speed.
    #[must_use]
    pub fn speed(&self, cpu: usize) -> u64 {
        self.speeds[cpu]
    }

    /// Gives each CPU a capacity, in 1,024ths of the fastest, and the speed that goes with it.
    pub fn set_capacities(&mut self, capacities: &[u64]) {
        self.capacities.copy_from_slice(capacities);
        for (cpu, &capacity) in capacities.iter().enumerate() {
            self.speeds[cpu] = self.speed_of(cpu, FULL_SPEED);
            debug_assert!((1..=FULL_CAPACITY).contains(&capacity));
        }
        self.whole.clear();
        if capacities.iter().all(|one| Some(one) == capacities.first()) {
            return;
        }
        let all = |cpus: &[usize]| {
            capacities.iter().all(|one| cpus.iter().any(|&cpu| capacities[cpu] == *one))
        };
        let places = self.topology.places();
        let spans = (0..capacities.len()).map(|cpu| {
            let node = (0..places.len()).filter(|&at| places[at].node == places[cpu].node);
            let mut spans = [self.llc_of(cpu).to_vec(), node.collect()].into_iter();
            spans.find(|span| all(span)).unwrap_or_else(|| (0..places.len()).collect())
        });
        self.whole = spans.collect();
    }

    /// A CPU's capacity in 1,024ths of the fastest.
    #[must_use]
    pub fn capacity(&self, cpu: usize) -> u64 {
        self.capacities[cpu]
    }

    /// The largest capacity of all CPUs.
    #[must_use]
    pub fn most_capacity(&self) -> u64 {
        self.capacities.iter().copied().max().unwrap_or(FULL_CAPACITY)
    }

    /// Whether CPUs differ in what they can do.
    #[must_use]
    pub fn is_asymmetric(&self) -> bool {
        !self.whole.is_empty()
    }

    /// The CPUs among which one is looked for that fits a task: the smallest domain around `cpu` with all capacities
    /// (`sd_asym_cpucapacity`). Only where capacities differ.
    #[must_use]
    pub fn all_capacities(&self, cpu: usize) -> &[usize] {
        &self.whole[cpu]
    }

    /// The speed, in millionths of the fastest CPU's, that is `part` millionths of a CPU's own full speed.
    #[must_use]
    pub fn speed_of(&self, cpu: usize, part: u64) -> u64 {
        match self.capacities[cpu] {
            FULL_CAPACITY => part,
            capacity => part * capacity / FULL_CAPACITY,
        }
    }

    /// Sets a CPU's speed in millionths of full speed.
    pub fn set_speed(&mut self, cpu: usize, millionths: u64) {
        self.speeds[cpu] = millionths.clamp(1, FULL_SPEED);
    }
}

/// The machine at an instant.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The time in nanoseconds.
    pub now: u64,
    /// All tasks, also those that have ended or not begun; then an entity for each group and CPU.
    pub tasks: Vec<TaskView>,
    /// The index of the first entity that is no task.
    pub first_group: usize,
    /// All CPUs of the machine, by number.
    pub cpus: Vec<CpuView>,
    /// How CPUs share hardware.
    pub hardware: Hardware,
    /// The CPU whose tick it is; `None`: all CPUs tick at once.
    pub tick_of: Option<usize>,
}

impl Scene {
    /// The clock by which a CPU's tasks are charged, in nanoseconds: it stands still in interrupts and while the
    /// hypervisor has the CPU (`rq_clock_task`; Linux 6.1, kernel/sched/core.c, `update_rq_clock_task`).
    #[must_use]
    pub fn task_clock(&self, cpu: usize) -> u64 {
        let of = &self.cpus[cpu];
        of.held_at.unwrap_or(self.now).max(of.gap_until).saturating_sub(of.gone)
    }

    #[must_use]
    pub fn task(&self, task: TaskId) -> &TaskView {
        &self.tasks[task.index()]
    }
}

pub(crate) fn id(cpu: usize) -> Cpu {
    Cpu(u16::try_from(cpu).unwrap_or(u16::MAX))
}
