//! How fast a CPU is: the part of the time that a task gets on it, and how much it computes.

pub(super) use super::child_entry::Probe;
use super::child_entry::{Entry, answer, answers, enter};
use super::{SlowError, hogs};
use crate::per_cpu;
use schedlab_model::{Cpu, CpuSet, Nanos, Pid};
use schedlab_sys::sched::Policy;
use schedlab_sys::signal::Signals;
use schedlab_sys::{clock, sched};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Reading {
    pub(super) cpu: Cpu,
    pub(super) wall: Nanos,
    pub(super) granted: Nanos,
    /// What interrupts and the hypervisor took meanwhile, in whole ticks.
    pub(super) taken: Nanos,
    /// Rounds of its loop; a number of no meaning but for comparison.
    pub(super) rounds: u64,
    /// Whether it was above all fair tasks.
    pub(super) realtime: bool,
}

impl Reading {
    #[must_use]
    pub(super) fn share(&self) -> f64 {
        self.granted.0 as f64 / self.wall.0.max(1) as f64
    }

    #[must_use]
    pub(super) fn rate(&self) -> f64 {
        self.rounds as f64 / self.wall.as_secs_f64().max(1e-9)
    }
}

impl Probe {
    /// Measures CPUs, half of them at a time, so that the machine stays usable. CPUs whose probe
    /// died (stopped for good, or without the right) are missing from the answer.
    pub(super) fn read(
        &self,
        cpus: &CpuSet,
        signals: Option<Signals>,
    ) -> Result<Vec<Reading>, SlowError> {
        let all: Vec<Cpu> = cpus.iter().collect();
        let mut readings = Vec::new();
        for some in all.chunks((all.len() / 2).max(1)) {
            let entries = some.iter().map(|&cpu| Entry::Probe { cpu, probe: self.clone() });
            readings.extend(answers::<Reading>(entries, signals)?.into_iter().flatten());
        }
        Ok(readings)
    }
}

/// Whether a process of ours can be real-time, in the root CPU group where ours allows none: one is tried.
pub(crate) fn takes_realtime() -> bool {
    let cpus: CpuSet = sched::affinity(Pid(0)).unwrap_or_default().iter().take(1).collect();
    let time = Nanos::from_millis(1);
    let align = Nanos::ZERO;
    let probe = Probe { groups: Vec::new(), time, align, realtime: true };
    probe.read(&cpus, None).is_ok_and(|all| all.iter().any(|reading| reading.realtime))
}

/// Enters groups and binds itself. Returns whether it is a real-time task, and whether it is where it should be. Without
/// the right, and in groups that take no real-time task, it measures as a fair task, other load included.
fn settle(groups: &[PathBuf], cpu: Cpu, realtime: bool) -> (bool, bool) {
    if realtime {
        hogs::leave_fair_group();
    }
    let realtime = realtime && sched::set(Pid(0), &Policy::Fifo { priority: 1 }.into()).is_ok();
    let cpus = CpuSet::from_iter([cpu]);
    match enter(groups, &cpus) {
        Err(_) if realtime => {
            let fair = sched::set(Pid(0), &Policy::Normal { nice: 0 }.into());
            (false, fair.is_ok() && enter(groups, &cpus).is_ok())
        }
        entered => (realtime, entered.is_ok()),
    }
}

pub(super) fn child(probe: &Probe, cpu: Cpu) -> i32 {
    let (realtime, ready) = settle(&probe.groups, cpu, probe.realtime);
    let reading = Reading { realtime, ..measure(cpu, probe.time, probe.align) };
    if ready { answer(&reading) } else { 1 }
}

fn measure(cpu: Cpu, time: Nanos, align: Nanos) -> Reading {
    let taken_before = per_cpu::taken(cpu);
    if align > Nanos::ZERO {
        clock::sleep_until(Nanos((clock::monotonic().0 / align.0 + 1) * align.0));
    }
    let start = clock::monotonic();
    let cpu_start = clock::thread_cpu();
    let mut rounds = 0u64;
    let mut value = 0u64;
    loop {
        for _ in 0..200 {
            value = std::hint::black_box(value.wrapping_mul(3).wrapping_add(1));
        }
        rounds += 1;
        if clock::monotonic() - start >= time {
            // In this order: should the CPU be taken away in between, no more is granted than time passed.
            let granted = clock::thread_cpu() - cpu_start;
            let wall = clock::monotonic() - start;
            let taken = per_cpu::taken(cpu) - taken_before;
            return Reading { cpu, wall, granted, taken, rounds, realtime: false };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_consistent() {
        let reading = measure(Cpu(0), Nanos::from_millis(2), Nanos::from_millis(1));
        assert!(reading.rounds > 0 && reading.wall >= Nanos::from_millis(2));
        assert!(reading.share() > 0.0 && reading.share() <= 1.01 && reading.rate() > 0.0);
    }
}
