//! Every figure of a run, for `--json`.

use schedlab_jobs::executor::ExecutorFigures;
use schedlab_jobs::profile::{KindTimes, Profile, Starved};
use schedlab_jobs::rig::waiting;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;

/// The figures of a run; `docs/jobs.md` defines them.
#[derive(Clone, Serialize, JsonSchema)]
pub(super) struct Figures {
    jobs: usize,
    workers: usize,
    /// From the first begin to the last end.
    run_ns: u64,
    /// From the run's base to the last end.
    makespan_ns: u64,
    /// Mean number of jobs that ran at once.
    concurrency: f64,
    /// Time at each number of jobs that ran at once, from 0.
    at_concurrency_ns: Vec<u64>,
    /// Offered load in workers; `null` if all jobs were due at once.
    offered: Option<f64>,
    /// Offered load as a part of the workers.
    utilisation: Option<f64>,
    job_wall_ns: f64,
    /// Of one job in sixteen.
    job_cpu_ns: Option<f64>,
    job_planned_ns: f64,
    /// Wall time over planned time.
    inflation: Option<f64>,
    kinds: Vec<Kind>,
    /// Time with fewer than two jobs running.
    impeded_ns: u64,
    /// Time in which workers ran no job, summed over them.
    idle_ns: u64,
    lateness_ns_p50: Option<u64>,
    lateness_ns_p99: Option<u64>,
    lateness_ns_p999: Option<u64>,
    /// What it would be if jobs arrived as a Poisson process (M/M/c).
    lateness_ns_p99_poisson: Option<f64>,
    lateness_ns_max: Option<u64>,
    /// From when a job was due and posted until it began: lateness without that of planning.
    post_to_start_ns_p50: Option<u64>,
    post_to_start_ns_p99: Option<u64>,
    post_to_start_ns_max: Option<u64>,
    /// Jobs that were posted after they were due.
    posted_late: usize,
    posted_late_ns_max: Option<u64>,
    /// The longest time for which a due job waited while a worker had no job and could run.
    starved_ns_max: u64,
    /// The same, with time in which the workers without a job were runnable or their CPUs were stolen.
    starved_whole_ns_max: u64,
    gap_ns_p50: Option<u64>,
    gap_ns_p99: Option<u64>,
    ramp_up_ns: Option<u64>,
    shutdown_ns: Option<u64>,
    planning_ns_per_job: f64,
    management_ns: Option<u64>,
    back_off_ns: Option<u64>,
}

/// The jobs of one kind of work.
#[derive(Clone, Serialize, JsonSchema)]
struct Kind {
    kind: &'static str,
    jobs: u64,
    job_wall_ns: f64,
    job_cpu_ns: Option<f64>,
    job_planned_ns: f64,
    inflation: Option<f64>,
}

impl Kind {
    fn of(times: &KindTimes) -> Self {
        let jobs = times.jobs.max(1) as f64;
        Self {
            kind: times.kind,
            jobs: times.jobs,
            job_wall_ns: times.wall_ns as f64 / jobs,
            job_cpu_ns: mean(times.cpu_ns, times.cpu_jobs as usize),
            job_planned_ns: times.planned_ns as f64 / jobs,
            inflation: times.inflation(),
        }
    }
}

/// From here on, a due job that waits beside a worker without one is worth the first line.
const STARVED_NS: u64 = 10_000_000;

/// The finding that a due job waited though a worker had none, for the first line of an answer. `missing`: the files by
/// which the kernel would tell when workers could not run; `None`: nobody looked.
pub(super) fn starved(
    executor: &str,
    profile: &Profile,
    missing: Option<&[&str]>,
) -> Option<String> {
    let Starved { ns, stopped_ns, .. } = profile.starved;
    let time = |ns: u64| super::table::time(ns as f64);
    let mut text = format!("{executor}: a due job waited {} while a worker had no job", time(ns));
    if stopped_ns > 0 {
        let took = time(stopped_ns);
        let _ = write!(
            text,
            "; {took} more are the machine's: the thread of the worker was runnable, or its CPU stolen"
        );
    }
    match missing {
        None => text += "; nothing is deducted for the machine: the executor is not watched",
        Some([]) => {}
        Some(files) => {
            let files = files.join(" and ");
            let _ = write!(
                text,
                "; the machine's part is unknown: this kernel does not tell it in {files}"
            );
        }
    }
    (ns >= STARVED_NS).then_some(text + "\n")
}

/// The mean; none of no jobs.
pub(super) fn mean(ns: u64, jobs: usize) -> Option<f64> {
    (jobs > 0).then(|| ns as f64 / jobs as f64)
}

impl Figures {
    pub(super) fn of(profile: &Profile, workers: usize, told: &ExecutorFigures) -> Self {
        let jobs = profile.jobs.max(1) as f64;
        let poisson = |offered: f64| {
            let wait = waiting(workers, offered / workers as f64, 0.99)?;
            Some(wait * profile.planned_ns as f64 / jobs)
        };
        Self {
            jobs: profile.jobs,
            workers,
            run_ns: profile.covered_ns,
            makespan_ns: profile.makespan_ns,
            concurrency: profile.concurrency(),
            at_concurrency_ns: profile.at_concurrency_ns.clone(),
            offered: profile.offered,
            utilisation: profile.offered.map(|offered| offered / workers as f64),
            job_wall_ns: profile.wall_ns as f64 / jobs,
            job_cpu_ns: mean(profile.cpu_ns, profile.cpu_jobs),
            job_planned_ns: profile.planned_ns as f64 / jobs,
            inflation: profile.inflation(),
            kinds: profile.kinds.iter().map(Kind::of).collect(),
            impeded_ns: profile.impeded_ns(),
            idle_ns: profile.idle_ns(workers),
            lateness_ns_p50: profile.lateness(0.5),
            lateness_ns_p99: profile.lateness(0.99),
            lateness_ns_p999: profile.lateness(0.999),
            lateness_ns_p99_poisson: profile.offered.and_then(poisson),
            lateness_ns_max: profile.lateness_ns.last().copied(),
            post_to_start_ns_p50: profile.post_to_start(0.5),
            post_to_start_ns_p99: profile.post_to_start(0.99),
            post_to_start_ns_max: profile.post_to_start_ns.last().copied(),
            posted_late: profile.posted_late_ns.len(),
            posted_late_ns_max: profile.posted_late_ns.last().copied(),
            starved_ns_max: profile.starved.ns,
            starved_whole_ns_max: profile.starved.whole_ns,
            gap_ns_p50: profile.gap(0.5),
            gap_ns_p99: profile.gap(0.99),
            ramp_up_ns: profile.ramp_up_ns,
            shutdown_ns: profile.shutdown_ns,
            planning_ns_per_job: told.planning_ns as f64 / jobs,
            management_ns: told.management_ns,
            back_off_ns: told.back_off_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starved_job_is_a_finding_that_says_what_was_deducted_or_why_nothing_was() {
        let found = |ns, stopped_ns, missing: Option<&[&str]>| {
            let starved = Starved { ns, stopped_ns, whole_ns: ns + stopped_ns };
            starved_text(&Profile { starved, ..Profile::default() }, missing)
        };
        assert_eq!(found(9_999_999, 50_000_000, Some(&[])), None);
        let text = |found: Option<String>| found.expect("a finding");
        let plain = "pool: a due job waited 20.0 ms while a worker had no job";
        assert_eq!(text(found(20_000_000, 0, Some(&[]))), format!("{plain}\n"));
        let deducted = text(found(20_000_000, 5_000_000, Some(&[])));
        assert!(
            deducted.starts_with(&format!("{plain}; 5.00 ms more are the machine's")),
            "{deducted}"
        );
        let unknown = text(found(20_000_000, 0, Some(&["/proc/stat"])));
        assert!(unknown.ends_with("this kernel does not tell it in /proc/stat\n"), "{unknown}");
        assert!(text(found(20_000_000, 0, None)).ends_with("the executor is not watched\n"));
    }

    fn starved_text(profile: &Profile, missing: Option<&[&str]>) -> Option<String> {
        starved("pool", profile, missing)
    }
}
