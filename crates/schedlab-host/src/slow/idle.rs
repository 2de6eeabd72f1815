//! How often CPUs had nothing to run any more, by counting switches to the idle task.

use schedlab_model::{Cpu, CpuSet};
use schedlab_sys::perf::Counter;
use schedlab_sys::tracefs::Tracefs;
use std::collections::BTreeMap;

/// A burn on an idle CPU ends in idleness too, and no task went to sleep.
const TO_IDLE: &std::ffi::CStr = c"next_pid == 0 && prev_comm != \"schedlab-hog\"";

/// A counter for each CPU.
#[derive(Debug)]
pub(super) struct Idle {
    counters: BTreeMap<Cpu, Counter>,
}

impl Idle {
    /// Counters that stand still; `None` without the right to observe switches.
    pub(super) fn open(cpus: &CpuSet) -> Option<Self> {
        let (number, _) = Tracefs::open().ok()?.event("sched", "sched_switch").ok()?;
        let one = |cpu| Some((cpu, Counter::open(number, cpu, TO_IDLE).ok()?));
        Some(Self { counters: cpus.iter().map(one).collect::<Option<_>>()? })
    }

    /// Lets all of them count, or stand still.
    pub(super) fn run(&self, on: bool) {
        for counter in self.counters.values() {
            // One that cannot be started counts nothing, and the node looks as if it never slept; only a CPU that went
            // offline does that.
            let _ = if on { counter.start() } else { counter.stop() };
        }
    }

    /// What those of some CPUs have counted.
    pub(super) fn count(&self, cpus: &CpuSet) -> u64 {
        let of = |cpu: Cpu| self.counters.get(&cpu)?.count().ok();
        cpus.iter().filter_map(of).sum()
    }
}
