//! What the machine did to a run with start times: jobs that it held up, the shadow of each such stall, and the lateness of
//! jobs outside it.

use schedlab_jobs::rig::{Stall, UnstalledLateness};
use schedlab_jobs::run::{Held, Machine, Run};
use schemars::JsonSchema;
use serde::Serialize;

/// What a run's workers saw of the machine.
#[derive(Clone, Debug)]
pub struct MachineStalls {
    /// Lateness outside the shadow of the machine's stalls.
    pub shadow: UnstalledLateness,
    /// Lateness outside the shadow of the machine's stalls and of other tasks.
    pub calm: UnstalledLateness,
    /// How many jobs ran.
    pub(crate) jobs: usize,
    /// Stalls of all workers that the machine made.
    pub stopped: Vec<Held>,
    /// Stalls of all workers that other tasks made, or whose cause is not known.
    pub held: Vec<Held>,
    /// Whether stalls are known: of a job that waits for a lock, a timer or memory nobody can tell why it took longer.
    pub known: bool,
    /// Stolen from all CPUs in nanoseconds, as the hypervisor told the kernel.
    pub steal_ns: Option<u64>,
}

/// What the machine did to a run, in figures. Times are in nanoseconds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Machine")]
pub struct Figures {
    /// How often the machine stopped a worker.
    pub(crate) stalls: usize,
    /// The longest of these stalls.
    pub(crate) stall_ns_max: Option<u64>,
    /// Lost to stalls in jobs, summed over the workers; `null`: not known.
    pub(crate) in_jobs_ns: Option<u64>,
    /// Stolen from all CPUs, as the hypervisor told the kernel.
    pub(crate) steal_ns: Option<u64>,
    /// How often other tasks, or nobody known, held a worker up.
    pub(crate) held_otherwise: usize,
    /// For how long in all.
    pub(crate) held_otherwise_ns: u64,
    /// Jobs that a stall made late.
    pub(crate) jobs_aside: usize,
    /// The share of these jobs of all jobs, from 0 to 1.
    pub share_aside: f64,
    /// Lateness of the jobs that no stall made late: the median.
    pub(crate) lateness_ns_p50_outside: Option<u64>,
    /// Lateness that 99 of 100 of these jobs did not exceed.
    pub(crate) lateness_ns_p99_outside: Option<u64>,
    /// The latest of them.
    pub(crate) lateness_ns_max_outside: Option<u64>,
    /// Lateness of the jobs that neither a stall nor another task made late: what 99 of 100 did not exceed.
    pub(crate) lateness_ns_p99_outside_all: Option<u64>,
    /// Jobs that a stall or another task made late.
    pub(crate) jobs_aside_all: usize,
}

impl MachineStalls {
    /// The stalls inside of jobs of a finished run ([`Run::with_machine`]); `before` is [`steal`] as it was before the
    /// run.
    pub fn of(run: &Run, workers: usize, before: Option<u64>) -> Self {
        let known = (0..run.graph().len()).all(|node| run.kind(node) == "cpu");
        let mut seen = if known { run.held() } else { Vec::new() };
        let spans = run.spans();
        let first = spans.iter().map(|span| span.begin).min().unwrap_or(0);
        let last = spans.iter().map(|span| span.end).max().unwrap_or(0);
        let mut stalls = Vec::new();
        let mut all = Vec::new();
        let mut stopped = Vec::new();
        let mut held = Vec::new();
        seen.retain(|(_, one)| one.from < last && one.from + one.lost_ns > first);
        for (worker, one) in seen {
            let stall = Stall::of(worker, &one);
            all.push(stall);
            if one.by_machine() {
                stalls.push(stall);
                stopped.push(one);
            } else {
                held.push(one);
            }
        }
        let steal_ns = steal().zip(before).map(|(after, before)| after.saturating_sub(before));
        let shadow = UnstalledLateness::of(run, workers, &stalls);
        let calm = UnstalledLateness::of(run, workers, &all);
        Self { shadow, calm, jobs: spans.len(), stopped, held, known, steal_ns }
    }

    /// The share of jobs that a stall of the machine made late, from 0 to 1.
    pub fn share_aside(&self) -> f64 {
        self.shadow.aside as f64 / self.jobs.max(1) as f64
    }

    pub fn figures(&self) -> Figures {
        Figures {
            stalls: self.stopped.len(),
            stall_ns_max: self.stopped.iter().map(|held| held.lost_ns).max(),
            in_jobs_ns: self.known.then(|| self.stopped.iter().map(|held| held.lost_ns).sum()),
            steal_ns: self.steal_ns,
            held_otherwise: self.held.len(),
            held_otherwise_ns: self.held.iter().map(|held| held.lost_ns).sum(),
            jobs_aside: self.shadow.aside,
            share_aside: self.share_aside(),
            lateness_ns_p50_outside: self.shadow.lateness(0.5),
            lateness_ns_p99_outside: self.shadow.lateness(0.99),
            lateness_ns_max_outside: self.shadow.lateness(1.0),
            lateness_ns_p99_outside_all: self.calm.lateness(0.99),
            jobs_aside_all: self.calm.aside,
        }
    }
}

/// Time stolen from all CPUs since the machine's start, in nanoseconds; `None` where the kernel does not tell.
pub fn steal() -> Option<u64> {
    stolen_by_cpu().map(|all| all.iter().sum())
}

fn stolen_by_cpu() -> Option<Vec<u64>> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stolen_in(&stat, schedlab_sys::clock::tick().0)
}

/// Stolen time by the number of the CPU, from the text of `/proc/stat`. A CPU that is out of use has none.
fn stolen_in(stat: &str, tick: u64) -> Option<Vec<u64>> {
    let mut all = Vec::new();
    for line in stat.lines().filter_map(|line| line.strip_prefix("cpu")) {
        let mut fields = line.split_whitespace();
        // The first line is the sum: it has no number.
        let Some(cpu) = (!line.starts_with(' ')).then(|| fields.next()).flatten() else { continue };
        let cpu: usize = cpu.parse().ok().filter(|&cpu| cpu < CPUS_MAX)?;
        let ticks: u64 = fields.nth(7)?.parse().ok()?;
        all.resize(all.len().max(cpu + 1), 0);
        all[cpu] = ticks * tick;
    }
    (!all.is_empty()).then_some(all)
}

/// More CPUs than Linux has.
const CPUS_MAX: usize = 1 << 16;

/// What a run asks this machine about the threads of its workers.
pub fn machine() -> Machine {
    use schedlab_sys::{sched, task};
    Machine {
        own_delay: || task::own_run_delay().map(|delay| delay.0),
        stolen: || stolen_by_cpu().map(|all| (sched::current_cpu().0 as usize, all)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_read_by_cpu_and_a_kernel_without_it_tells_nothing() {
        let stat = "cpu  9 9 9 9 9 9 9 40 0 0\ncpu0 1 2 3 4 5 6 7 30 0 0\ncpu2 1 2 3 4 5 6 7 10 0 0\nintr 5\n";
        assert_eq!(stolen_in(stat, 1_000), Some(vec![30_000, 0, 10_000]));
        // Before Linux 2.6.11 there was no such column.
        assert_eq!(stolen_in("cpu  9 9 9 9\ncpu0 1 2 3 4\n", 1_000), None);
        assert_eq!(stolen_in("", 1_000), None);
        assert_eq!(stolen_in("cpu99999999 1 2 3 4 5 6 7 30\n", 1_000), None);
    }
}
