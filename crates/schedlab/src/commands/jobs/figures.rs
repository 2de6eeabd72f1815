//! Every figure of a run, for `--json`.

use schedlab_jobs::executor::Told;
use schedlab_jobs::profile::{KindTimes, Profile};
use schedlab_jobs::rig::waiting;
use schemars::JsonSchema;
use serde::Serialize;

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
    /// The longest time for which a due job waited while a worker had no job.
    starved_ns_max: u64,
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

/// The finding that a due job waited though a worker had none, for the first line of an answer.
pub(super) fn starved(executor: &str, profile: &Profile) -> Option<String> {
    let time = super::table::time(profile.starved_ns as f64);
    let text = format!("{executor}: a due job waited {time} while a worker had no job\n");
    (profile.starved_ns >= STARVED_NS).then_some(text)
}

/// The mean; none of no jobs.
pub(super) fn mean(ns: u64, jobs: usize) -> Option<f64> {
    (jobs > 0).then(|| ns as f64 / jobs as f64)
}

impl Figures {
    pub(super) fn of(profile: &Profile, workers: usize, told: &Told) -> Self {
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
            starved_ns_max: profile.starved_ns,
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
