//! Which CPUs are free now, and which were during an interval that ends now.
//!
//! A violation lasts a while, and each CPU that is free meanwhile is one that its task could have used.
//! To add every CPU that becomes free to every violation costs their product; instead each CPU
//! remembers its last free interval in steps, and the set is made when a violation that is kept ends.
//! Only the last interval matters: if any overlaps one that ends now, the last does.

use schedlab_model::{Cpu, CpuSet};

/// A step of [`FreeCpus`]: one change of the state, whether or not time passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step(u64);

/// The free CPUs, and the last time that each was free.
#[derive(Debug, Default)]
pub(super) struct FreeCpus {
    now: CpuSet,
    step: Step,
    /// By CPU: the step at which it became free last.
    since: Vec<Step>,
    /// By CPU: the step at which it last ceased to be free; zero is never.
    until: Vec<Step>,
}

impl FreeCpus {
    /// Those that are free now.
    pub(super) const fn now(&self) -> &CpuSet {
        &self.now
    }

    pub(super) const fn step(&self) -> Step {
        self.step
    }

    /// The state changed: what is set from here on holds from this step.
    pub(super) const fn advance(&mut self) {
        self.step.0 += 1;
    }

    /// A CPU is free, or not, from this step on. Tells whether it was otherwise before.
    pub(super) fn set(&mut self, cpu: Cpu, free: bool) -> bool {
        if self.now.contains(cpu) == free {
            return false;
        }
        if cpu.index() >= self.since.len() {
            self.since.resize(cpu.index() + 1, Step::default());
            self.until.resize(cpu.index() + 1, Step::default());
        }
        if free {
            self.now.insert(cpu);
            self.since[cpu.index()] = self.step;
        } else {
            self.now.remove(cpu);
            self.until[cpu.index()] = self.step;
        }
        true
    }

    /// Those that were free at some time from the step `from` until before this one.
    pub(super) fn during(&self, from: Step) -> CpuSet {
        let mut words = vec![0_u64; self.since.len().div_ceil(64)];
        let blocks = self.since.chunks(64).zip(self.until.chunks(64));
        for (at, (word, (since, until))) in words.iter_mut().zip(blocks).enumerate() {
            let mut earlier = 0;
            let mut before = 0;
            for (bit, (since, until)) in since.iter().zip(until).enumerate() {
                earlier |= u64::from(*until > from) << bit;
                before |= u64::from(*since < self.step) << bit;
            }
            let now = self.now.words().get(at).copied().unwrap_or(0);
            *word = earlier | before & now;
        }
        CpuSet::from_words(&words)
    }
}
