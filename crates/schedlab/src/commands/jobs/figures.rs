//! Every figure of a run, for text and `--json`.

use schedlab_jobs::executor::ExecutorFigures;
use schedlab_jobs::profile::{KindTimes, Profile, Starved};
use schedlab_jobs::rig::waiting;
use schedlab_model::table::{Column, Items, MeanTime, Row, Share};
use schedlab_model::{Nanos, columns};
use std::fmt::Write;

/// What the figures of a run follow from; `docs/jobs.md` defines them.
pub(super) struct Figures {
    pub(super) profile: Profile,
    pub(super) workers: usize,
    pub(super) told: ExecutorFigures,
}

impl Row for Figures {
    const ABOUT: &'static str = "The figures of a run; `docs/jobs.md` defines them.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "run_ns" ["run"] = Nanos(row.profile.covered_ns), "From the first begin to the last end.";
            "makespan_ns" = Nanos(row.profile.makespan_ns), "From the run's base to the last end.";
            "jobs" = row.profile.jobs, "Jobs that ran.";
            "workers" = row.workers, "Workers of the executor.";
            "concurrency" ["concurrency"] = row.profile.concurrency() => format!("{:.2}", row.profile.concurrency()), "Mean number of jobs that ran at once.";
            "at_concurrency_ns" = row.profile.at_concurrency_ns.iter().map(|&ns| Nanos(ns)).collect::<Vec<_>>(), "Time at each number of jobs that ran at once, from 0.";
            "offered" ["offered", 3] = row.profile.offered => row.offered_text(), "Offered load in workers; `null` if all jobs were due at once.";
            "utilisation" = row.utilisation().map(Share), "Offered load as a part of the workers.";
            "job_wall_ns" ["job wall", 1] = row.of_a_job(row.profile.wall_ns), "Mean wall time of a job.";
            "job_cpu_ns" ["job CPU", 4] = mean(row.profile.cpu_ns, row.profile.cpu_jobs).map(MeanTime), "Of one job in sixteen.";
            "job_planned_ns" = row.of_a_job(row.profile.planned_ns), "Mean planned time of a job.";
            "inflation" = row.profile.inflation(), "Wall time over planned time.";
            "kinds" = Items(Kind::all(&row.profile)), "The jobs of each kind of work.";
            "idle_ns" = Nanos(row.profile.idle_ns(row.workers)), "Time in which workers ran no job, summed over them.";
            "lateness_ns_p50" = row.profile.lateness(0.5).map(Nanos), "From when a job could have started until it began: half of the jobs are not later.";
            "lateness_ns_p99" ["late p99", 2] = row.profile.lateness(0.99).map(Nanos), "99 % of the jobs are not later.";
            "lateness_ns_p999" = row.profile.lateness(0.999).map(Nanos), "99.9 % of the jobs are not later.";
            "lateness_ns_p99_poisson" = row.poisson(), "What it would be if jobs arrived as a Poisson process (M/M/c).";
            "lateness_ns_max" = row.profile.lateness_ns.last().copied().map(Nanos), "How late the latest job began.";
            "impeded_ns" ["impeded", 3] = Nanos(row.profile.impeded_ns()), "Time with fewer than two jobs running.";
            "post_to_start_ns_p50" = row.profile.post_to_start(0.5).map(Nanos), "From when a job was due and posted until it began: lateness without that of planning.";
            "post_to_start_ns_p99" = row.profile.post_to_start(0.99).map(Nanos), "99 % of these times are not longer.";
            "post_to_start_ns_max" = row.profile.post_to_start_ns.last().copied().map(Nanos), "The longest of these times.";
            "posted_late" = row.profile.posted_late_ns.len(), "Jobs that were posted after they were due.";
            "posted_late_ns_max" = row.profile.posted_late_ns.last().copied().map(Nanos), "How late the latest of them was posted.";
            "starved_ns_max" = Nanos(row.profile.starved.ns), "The longest time for which a due job waited while a worker had no job and could run.";
            "starved_whole_ns_max" = Nanos(row.profile.starved.whole_ns), "The same, with time in which the workers without a job were runnable or their CPUs were stolen.";
            "gap_ns_p50" = row.profile.gap(0.5).map(Nanos), "Between two jobs of a worker while the next one was ready already: half are not longer.";
            "gap_ns_p99" = row.profile.gap(0.99).map(Nanos), "99 % of these gaps are not longer.";
            "ramp_up_ns" = row.profile.ramp_up_ns.map(Nanos), "From the first begin until all workers ran a job for the first time; `null` if they never did.";
            "shutdown_ns" = row.profile.shutdown_ns.map(Nanos), "From when all workers ran a job for the last time to the last end.";
            "planning_ns_per_job" = row.of_a_job(row.told.planning_ns), "Time to take in the graph, apart from running it, over the jobs.";
            "management_ns" = row.told.management_ns.map(Nanos), "Time that workers spent with management; `null` where it is not measured.";
            "back_off_ns" = row.told.back_off_ns.map(Nanos), "Time that workers spent backing off from contention; `null` where it is not measured.";
        }
    }
}

impl Figures {
    fn of_a_job(&self, ns: u64) -> MeanTime {
        MeanTime(ns as f64 / self.profile.jobs.max(1) as f64)
    }

    fn offered_text(&self) -> String {
        let Some(offered) = self.profile.offered else { return format!("all ({})", self.workers) };
        format!("{offered:.2}")
    }

    fn utilisation(&self) -> Option<f64> {
        self.profile.offered.map(|offered| offered / self.workers as f64)
    }

    pub(super) fn poisson(&self) -> Option<MeanTime> {
        let wait = waiting(self.workers, self.utilisation()?, 0.99)?;
        let jobs = self.profile.jobs.max(1) as f64;
        Some(MeanTime(wait * self.profile.planned_ns as f64 / jobs))
    }
}

/// The jobs of one kind of work.
pub(super) struct Kind(KindTimes);

impl Kind {
    pub(super) fn all(profile: &Profile) -> Vec<Self> {
        profile.kinds.iter().cloned().map(Self).collect()
    }

    fn of_a_job(&self, ns: u64) -> MeanTime {
        MeanTime(ns as f64 / self.0.jobs.max(1) as f64)
    }
}

impl Row for Kind {
    const ABOUT: &'static str = "The jobs of one kind of work.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "kind" ["kind"] = row.0.kind, "The kind of work.";
            "jobs" ["jobs"] = row.0.jobs, "Jobs of this kind that ran.";
            "job_wall_ns" ["wall"] = row.of_a_job(row.0.wall_ns), "Mean wall time of a job.";
            "job_cpu_ns" ["CPU"] = mean(row.0.cpu_ns, row.0.cpu_jobs as usize).map(MeanTime), "Of one job in sixteen.";
            "job_planned_ns" ["planned"] = row.of_a_job(row.0.planned_ns), "Mean planned time of a job.";
            "inflation" ["inflation"] = row.0.inflation() => row.0.inflation().map_or_else(|| "-".to_owned(), |of| format!("{of:.2}")), "Wall time over planned time.";
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
