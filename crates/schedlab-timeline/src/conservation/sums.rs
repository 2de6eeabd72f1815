//! How long, under the definitions of several tools: integrals over the whole machine.

use crate::state::{CpuState, Occupant};
use schedlab_model::{Cpu, Nanos};

/// Times during which work conservation was violated somewhere, by definition. None of these knows
/// affinity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    pub(super) fn is_overloaded(&self, cpu: Cpu) -> bool {
        self.classes.get(cpu.index()).is_some_and(|class| class.overloaded)
    }

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
