//! How much, under our definition and those of several tools: integrals over the whole machine.

use super::allowed::UNKNOWN;
use super::cores::Cores;
use super::matching::Matching;
use crate::state::{CpuState, Occupant};
use schedlab_model::{Cpu, CpuSet, Nanos};

/// Times during which work conservation was violated somewhere, by definition. None of these knows
/// affinity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sums {
    /// SchedViz, wall time: at least one CPU was free and at least one overloaded.
    pub schedviz_wall: Nanos,
    /// SchedViz, CPU time: the lesser of free and overloaded CPUs, integrated.
    pub schedviz_cpu: Nanos,
    /// SchedViz, thread time: the lesser of free CPUs and tasks waiting on overloaded ones, integrated.
    pub schedviz_thread: Nanos,
    /// systing: some CPU had at least two runnable tasks while another ran its idle task.
    pub systing: Nanos,
}

/// What a CPU counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Class {
    free: bool,
    idle: bool,
    overloaded: bool,
    long: bool,
    waiting: u32,
}

impl Class {
    fn of(cpu: &CpuState) -> Self {
        let busy = matches!(cpu.occupant, Occupant::Task(_));
        let idle = cpu.occupant == Occupant::Idle;
        let overloaded = busy && cpu.waiting > 0;
        Self {
            free: idle && cpu.waiting == 0,
            idle,
            overloaded,
            long: cpu.waiting + u32::from(busy) > 1,
            waiting: if overloaded { cpu.waiting } else { 0 },
        }
    }
}

/// Sums as they grow: how many CPUs are of each class now, and since when.
#[derive(Debug, Default)]
pub(super) struct Integrals {
    pub(super) sums: Sums,
    pub(super) since: Nanos,
    classes: Vec<Class>,
    free: u64,
    idle: u64,
    overloaded: u64,
    long: u64,
    long_idle: u64,
    waiting: u64,
}

impl Integrals {
    /// Adds what held until `at`.
    pub(super) fn advance(&mut self, at: Nanos) {
        let time = at - self.since;
        self.since = self.since.max(at);
        let times = |n: u64| Nanos(time.0.saturating_mul(n));
        let pairs = self.free.min(self.overloaded);
        self.sums.schedviz_wall += times(pairs.min(1));
        self.sums.schedviz_cpu += times(pairs);
        self.sums.schedviz_thread += times(self.free.min(self.waiting));
        // A CPU with two waiters and nobody running is long and idle at once: another must be idle.
        if self.long > 0 && self.idle > 0 && self.both() < self.long.max(self.idle) {
            self.sums.systing += time;
        }
    }

    /// CPUs that are long and idle at once: all of the long ones and all of the idle ones only when
    /// there is a single CPU of both kinds.
    fn both(&self) -> u64 {
        if self.long == 1 && self.idle == 1 { self.long_idle } else { 0 }
    }

    /// A CPU may be of another class from now on.
    pub(super) fn note(&mut self, cpu: Cpu, here: &CpuState) {
        if cpu.index() >= self.classes.len() {
            self.classes.resize(cpu.index() + 1, Class::default());
        }
        let is = Class::of(here);
        let was = std::mem::replace(&mut self.classes[cpu.index()], is);
        if was == is {
            return;
        }
        let change =
            |count: &mut u64, was: u32, is: u32| *count = *count + u64::from(is) - u64::from(was);
        change(&mut self.free, was.free.into(), is.free.into());
        change(&mut self.idle, was.idle.into(), is.idle.into());
        change(&mut self.overloaded, was.overloaded.into(), is.overloaded.into());
        change(&mut self.long, was.long.into(), is.long.into());
        let both = |class: &Class| u32::from(class.long && class.idle);
        change(&mut self.long_idle, both(&was), both(&is));
        change(&mut self.waiting, was.waiting, is.waiting);
    }
}

/// CPU time that was lost on the whole machine: the size of the matching, integrated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// With every CPU allowed to tasks of unknown affinity, and no CPU free of which nothing is known.
    pub cpus: Nanos,
    /// The lost time of cores of which all CPUs are free; `None` where no core has several CPUs.
    pub cores: Option<Nanos>,
    /// Not less than this: as if tasks of unknown affinity were pinned where they waited.
    pub low: Nanos,
    /// Not more than this: as if CPUs of which nothing is known were free. It says nothing of waits that the trace lacks.
    pub high: Nanos,
    /// Whether the affinity of every task concerned was known.
    pub affinity_known: bool,
}

/// [`Lost`] as it grows.
#[derive(Debug, Default)]
pub(super) struct Losses {
    pub(super) since: Nanos,
    unknown: CpuSet,
    unknown_count: u64,
    cpus: Nanos,
    cores: Nanos,
    low: Nanos,
    high: Nanos,
    by_unknown: bool,
}

impl Losses {
    /// Adds what held until `at`.
    pub(super) fn advance(&mut self, at: Nanos, matching: &Matching, cores: Option<&Cores>) {
        let time = at - self.since;
        self.since = self.since.max(at);
        if matching.unserved() == 0 && matching.size() == 0 || time == Nanos::ZERO {
            return;
        }
        let times = |n: u64| Nanos(time.0.saturating_mul(n));
        let unknown = u64::from(matching.matched_with(UNKNOWN));
        self.by_unknown |= unknown > 0;
        self.cpus += times(matching.size());
        self.low += times(matching.size() - unknown);
        self.high += times(matching.size() + matching.unserved().min(self.unknown_count));
        self.cores += times(cores.map_or(0, |cores| cores.matching.size()));
    }

    /// A CPU's occupant may be another.
    pub(super) fn note(&mut self, cpu: Cpu, here: &CpuState) {
        let unknown = here.observed && !here.offline && here.occupant == Occupant::Unknown;
        if unknown == self.unknown.contains(cpu) {
            return;
        }
        if unknown {
            self.unknown.insert(cpu);
            self.unknown_count += 1;
        } else {
            self.unknown.remove(cpu);
            self.unknown_count -= 1;
        }
    }

    /// Whether a task of unknown affinity was served.
    pub(super) const fn unknown_affinity(&self) -> bool {
        self.by_unknown
    }

    pub(super) fn sum(&self, affinity_known: bool, has_cores: bool) -> Lost {
        let cores = has_cores.then_some(self.cores);
        let Self { cpus, low, high, .. } = *self;
        Lost { cpus, cores, low, high, affinity_known }
    }
}
