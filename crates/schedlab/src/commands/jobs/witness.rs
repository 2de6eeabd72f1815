//! What the machine did to a run with start times: stalls that the workers saw themselves, the shadow of each, and
//! the lateness of jobs outside it.

use super::table;
use schedlab_jobs::pool::{During, Held, Report};
use schedlab_jobs::rig::{Shadow, Stall};
use schedlab_jobs::run::Run;
use schemars::JsonSchema;
use serde::Serialize;

/// What a run's workers saw.
pub(super) struct Witness {
    /// Outside the shadow of the machine's stalls.
    shadow: Shadow,
    /// Outside the shadow of what other tasks did as well.
    calm: Shadow,
    jobs: usize,
    /// By the machine, of all workers.
    stopped: Vec<Held>,
    /// By other tasks, or by nobody knows whom.
    held: Vec<Held>,
    /// Stolen from all CPUs, as the hypervisor told the kernel.
    steal_ns: Option<u64>,
}

/// What the machine did to a run, for `--json`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Machine")]
pub(super) struct Document {
    /// How often the machine stopped a worker.
    stalls: usize,
    stall_ns_max: Option<u64>,
    /// Lost to stalls in jobs, summed over the workers.
    in_jobs_ns: u64,
    /// Lost to stalls of workers that were awake without a job.
    awake_ns: u64,
    /// Lost to stalls of workers that slept past their timer.
    timers_ns: u64,
    /// Stolen from all CPUs, as the hypervisor told the kernel.
    steal_ns: Option<u64>,
    /// How often other tasks, or nobody known, held a worker up.
    held_otherwise: usize,
    held_otherwise_ns: u64,
    /// Jobs that a stall made late.
    jobs_aside: usize,
    share_aside: f64,
    /// Lateness of the jobs that no stall made late.
    lateness_ns_p50_outside: Option<u64>,
    lateness_ns_p99_outside: Option<u64>,
    lateness_ns_max_outside: Option<u64>,
    /// Lateness of the jobs that neither a stall nor another task made late.
    lateness_ns_p99_outside_all: Option<u64>,
    jobs_aside_all: usize,
}

impl Witness {
    /// Of a finished run of our pool; `before` is [`steal`] as it was then.
    pub(super) fn of(run: &Run, workers: usize, report: &Report, before: Option<u64>) -> Self {
        let spans = run.spans();
        let first = spans.iter().map(|span| span.begin).min().unwrap_or(0);
        let last = spans.iter().map(|span| span.end).max().unwrap_or(0);
        let (mut stalls, mut all) = (Vec::new(), Vec::new());
        let (mut stopped, mut held) = (Vec::new(), Vec::new());
        for (worker, report) in report.workers.iter().enumerate() {
            let seen = report.iter().flat_map(|report| &report.held).copied();
            for one in seen.filter(|one| one.from < last && one.from + one.lost_ns > first) {
                let stall = Stall::of(worker, &one);
                all.push(stall);
                if one.by_machine() {
                    stalls.push(stall);
                    stopped.push(one);
                } else {
                    held.push(one);
                }
            }
        }
        let steal_ns = steal().zip(before).map(|(after, before)| after.saturating_sub(before));
        let shadow = Shadow::of(run, workers, &stalls);
        let calm = Shadow::of(run, workers, &all);
        Self { shadow, calm, jobs: spans.len(), stopped, held, steal_ns }
    }

    fn share_aside(&self) -> f64 {
        self.shadow.aside as f64 / self.jobs.max(1) as f64
    }

    pub(super) fn document(&self) -> Document {
        let lost = |during| -> u64 {
            self.stopped.iter().filter(|held| held.during == during).map(|held| held.lost_ns).sum()
        };
        Document {
            stalls: self.stopped.len(),
            stall_ns_max: self.stopped.iter().map(|held| held.lost_ns).max(),
            in_jobs_ns: lost(During::Job),
            awake_ns: lost(During::Awake),
            timers_ns: lost(During::Timer),
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

    /// Rows for a table: name, value.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let time = |ns: u64| table::time(ns as f64);
        let maybe = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), time);
        let count = |all: &[Held], during: Option<During>| {
            let some = all.iter().filter(|held| during.is_none_or(|during| held.during == during));
            let (count, sum) = some.fold((0, 0), |(n, sum), held| (n + 1, sum + held.lost_ns));
            format!("{count}, {}", time(sum))
        };
        let row = |name: &str, value: String| vec![format!("  {name}"), value];
        vec![
            vec!["the machine stopped workers".to_owned(), count(&self.stopped, None)],
            row("in jobs", count(&self.stopped, Some(During::Job))),
            row("awake without a job", count(&self.stopped, Some(During::Awake))),
            row("asleep past a timer", count(&self.stopped, Some(During::Timer))),
            row("longest", maybe(self.stopped.iter().map(|held| held.lost_ns).max())),
            row("stolen, says the hypervisor", maybe(self.steal_ns)),
            vec!["held up by other tasks".to_owned(), count(&self.held, None)],
            vec![
                "outside the shadow of stalls".to_owned(),
                format!(
                    "{} jobs ({:.2} % set aside)",
                    self.shadow.lateness_ns.len(),
                    100.0 * self.share_aside()
                ),
            ],
            row("lateness p50", maybe(self.shadow.lateness(0.5))),
            row("lateness p99", maybe(self.shadow.lateness(0.99))),
            row("lateness max", maybe(self.shadow.lateness(1.0))),
            row("p99 without other tasks' shadow as well", maybe(self.calm.lateness(0.99))),
        ]
    }
}

/// Time stolen from all CPUs since the machine's start; `None` where the kernel does not tell.
pub(super) fn steal() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: u64 = line.split_whitespace().nth(7)?.parse().ok()?;
    Some(ticks * schedlab_sys::clock::tick().0)
}
