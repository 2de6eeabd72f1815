//! For how long some CPU was free, by the CPUs that tasks may use.

use crate::conservation::{Allowed, ClassId};
use schedlab_model::{Cpu, CpuSet, Nanos};

/// Free CPUs, and the time in which any of those was that a class of tasks may use.
#[derive(Debug)]
pub(super) struct FreeTime {
    free: CpuSet,
    /// By class; that of tasks which may use all CPUs is the first.
    classes: Vec<Class>,
    /// By CPU: the other classes that may use it.
    of_cpu: Vec<Vec<ClassId>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// How many of its CPUs are free, since when any is, and the sum before.
    free: u32,
    since: Nanos,
    sum: Nanos,
}

impl Class {
    const fn change(&mut self, is_free: bool, now: Nanos) {
        match (is_free, self.free) {
            (true, 0) => self.since = now,
            (false, 1) => self.sum.0 += now.0.saturating_sub(self.since.0),
            _ => {}
        }
        self.free = if is_free { self.free + 1 } else { self.free - 1 };
    }
}

impl FreeTime {
    pub(super) fn new(allowed: &Allowed) -> Self {
        let classes = vec![Class::default(); allowed.masks.len()];
        Self { free: CpuSet::default(), classes, of_cpu: Vec::new() }
    }

    /// The next CPU by number.
    pub(super) fn add_cpu(&mut self, cpu: Cpu, allowed: &Allowed) {
        let with_cpu = |(class, mask): (usize, &Option<CpuSet>)| {
            mask.as_ref().is_some_and(|mask| mask.contains(cpu)).then_some(class as ClassId)
        };
        self.of_cpu.push(allowed.masks.iter().enumerate().filter_map(with_cpu).collect());
    }

    pub(super) fn set(&mut self, cpu: Cpu, is_free: bool, now: Nanos) {
        if self.free.contains(cpu) == is_free {
            return;
        }
        if is_free {
            self.free.insert(cpu);
        } else {
            self.free.remove(cpu);
        }
        self.classes[0].change(is_free, now);
        for class in &self.of_cpu[cpu.index()] {
            self.classes[*class as usize].change(is_free, now);
        }
    }

    /// How long a CPU that the class may use was free so far.
    pub(super) fn of(&self, class: ClassId, now: Nanos) -> Nanos {
        let Class { free, since, sum } = self.classes[class as usize];
        if free > 0 { sum + (now - since) } else { sum }
    }

    /// How long any CPU was free so far.
    pub(super) fn any(&self, now: Nanos) -> Nanos {
        self.of(0, now)
    }
}
