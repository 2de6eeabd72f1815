//! What a run of jobs tells: figures, and samples of lateness and gaps.

use crate::{Figure, Interval, Series};
use schedlab_jobs::executor::ExecutorFigures;
use schedlab_jobs::profile::Profile;
use schedlab_model::{Better, Metric, Nanos, Unit};
use schedlab_stats::Histogram;

/// The metrics of a run on `workers` workers. `kernel` has those of its machine. A time that the
/// executor does not measure is absent.
#[must_use]
pub fn figures(
    profile: &Profile,
    workers: usize,
    managed: ExecutorFigures,
    kernel: impl IntoIterator<Item = Figure>,
) -> Vec<Figure> {
    use Better::{Higher, Lower, Neither};
    let figure = |name: &str, unit, better, value| Figure {
        metric: Metric::new(name, unit, better),
        of: String::new(),
        value,
    };
    let seconds = |name, better, ns: u64| figure(name, Unit::Seconds, better, ns as f64 / 1e9);
    let count = |name, better, value| figure(name, Unit::Count, better, value);
    let mut all = vec![
        seconds("run_time_s", Lower, profile.covered_ns),
        seconds("time_s", Lower, profile.makespan_ns),
        count("tasks", Neither, workers as f64),
        count("concurrency", Higher, profile.concurrency()),
        seconds("idle_s", Lower, profile.idle_ns(workers)),
        seconds("impeded_s", Lower, profile.impeded_ns()),
        figure("starved_ns_max", Unit::Nanoseconds, Lower, profile.starved.ns as f64),
    ];
    all.extend(kernel);
    all.extend(profile.inflation().map(|times| count("inflation", Lower, times)));
    // Where there are several kinds of work, each has its own.
    let kinds = profile.kinds.iter().filter(|_| profile.kinds.len() > 1);
    all.extend(kinds.filter_map(|kind| {
        let value = kind.inflation()?;
        Some(Figure { of: kind.kind.to_owned(), ..count("inflation", Lower, value) })
    }));
    let times = [("management_ns", managed.management_ns), ("back_off_ns", managed.back_off_ns)];
    let known = times.into_iter().filter_map(|(name, ns)| Some((name, ns?)));
    all.extend(known.map(|(name, ns)| figure(name, Unit::Nanoseconds, Lower, ns as f64)));
    all
}

/// How late jobs began and how long workers paused between them, over all jobs.
#[must_use]
pub fn samples(profile: &Profile) -> Interval {
    let series = |name: &str, values: &[u64]| {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        let metric = Metric::new(name, Unit::Nanoseconds, Better::Lower);
        Series { metric, of: "worker".to_owned(), histogram }
    };
    let total =
        vec![series("lateness_ns", &profile.lateness_ns), series("gap_ns", &profile.gaps_ns)];
    let elapsed = Nanos(profile.makespan_ns);
    Interval {
        elapsed,
        covers: elapsed,
        last: true,
        since: total.clone(),
        total,
        counts: vec![("jobs".to_owned(), profile.jobs as u64)],
        ..Interval::default()
    }
}
