//! From what tasks left to figures of the run.

use super::{Shape, Tasks};
use crate::plan::Plan;
use crate::{Figure, Interval, Series, metrics};
use schedlab_model::{Better, Metric, Nanos, Unit, Usage};

/// The figures of a run's last interval: quantiles of its series, counters and what they are a second. What several roles
/// sampled has quantiles of all samples, and of those of each role.
#[must_use]
pub fn figures(interval: &Interval) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (at, series) in interval.total.iter().enumerate() {
        let is_same = |one: &&Series| one.metric.name == series.metric.name;
        if interval.total[..at].iter().any(|one| is_same(&one)) {
            continue;
        }
        let others: Vec<&Series> = interval.total[at + 1..].iter().filter(is_same).collect();
        let mut all = Series { of: String::new(), ..series.clone() };
        others.iter().for_each(|one| all.histogram.merge(&one.histogram));
        quantiles(&all, &mut figures);
        if !others.is_empty() {
            quantiles(series, &mut figures);
            others.iter().for_each(|one| quantiles(one, &mut figures));
        }
    }
    let covers = interval.covers.as_secs_f64();
    for (name, count) in &interval.counts {
        // The registry knows units and directions: a rate of bytes, a count of which less is better.
        let whole =
            |name: &str, value| Figure { metric: metrics::metric(name), of: String::new(), value };
        figures.push(whole(name, *count as f64));
        if covers > 0.0 {
            figures.push(whole(&format!("{name}_per_s"), *count as f64 / covers));
        }
    }
    figures
}

fn quantiles(series: &Series, figures: &mut Vec<Figure>) {
    for (name, q) in metrics::QUANTILES {
        let Some(value) = series.histogram.quantile(q) else { continue };
        let name = format!("{}_{name}", series.metric.name);
        let metric = Metric::new(name, series.metric.unit, series.metric.better);
        figures.push(Figure { metric, of: series.of.clone(), value: value as f64 });
    }
}

/// When things happened, on the machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// The first task was about to be started.
    pub began: Nanos,
    /// The time at which all tasks were ready.
    pub ready: Nanos,
    /// When the tasks were let go.
    pub go: Nanos,
    /// When the tasks were asked to end; `None`: they ended by themselves.
    pub stopped: Option<Nanos>,
    /// The time at which all tasks had ended.
    pub end: Nanos,
}

/// All figures of a run but the quantiles, which come with its last interval.
pub(crate) fn of_run(shape: &Shape, tasks: &dyn Tasks, times: &Times, plan: &Plan) -> Vec<Figure> {
    let whole = |metric, value| Figure { metric, of: String::new(), value };
    let seconds = |name, time: Nanos| {
        whole(Metric::new(name, Unit::Seconds, Better::Lower), time.as_secs_f64())
    };
    let ends: Vec<Nanos> =
        (0..shape.tasks()).filter_map(|task| tasks.ended(task)).map(|(at, _)| at).collect();
    let first = ends.iter().min().copied();
    let last = ends.iter().max().copied();
    let count = Metric::new("tasks", Unit::Count, Better::Neither);
    let until = times.stopped.unwrap_or(times.end);
    let mut figures = vec![
        whole(count, tasks.started() as f64),
        seconds("time_s", until - times.go),
        seconds("start_s", times.ready - times.began),
    ];
    if let (Some(first), Some(last), None) = (first, last, times.stopped) {
        figures.push(seconds("steady_s", first - times.go));
        figures.push(seconds("tail_s", last - first));
        figures.push(seconds("exit_s", times.end - last));
    }
    figures.extend(fairness(shape, tasks, times, plan));
    if !plan.upstream {
        figures.extend(by_role(shape, tasks));
    }
    figures
}

/// What the kernel counted for tasks, all of a kind (`of`) or of the run.
#[must_use]
pub fn kernel<'u>(of: &str, tasks: impl IntoIterator<Item = &'u Usage>) -> Vec<Figure> {
    let mut all = Usage { migrations: Some(0), ..Usage::default() };
    for one in tasks {
        all.user += one.user;
        all.system += one.system;
        all.run_delay += one.run_delay;
        all.voluntary += one.voluntary;
        all.involuntary += one.involuntary;
        all.timeslices += one.timeslices;
        all.migrations = all.migrations.zip(one.migrations).map(|(a, b)| a + b);
    }
    let figure = |name, unit, value| Figure {
        metric: Metric::new(name, unit, Better::Neither),
        of: of.to_owned(),
        value,
    };
    let mut told = vec![
        figure("switches_voluntary", Unit::Count, all.voluntary as f64),
        figure("switches_involuntary", Unit::Count, all.involuntary as f64),
        figure("run_delay_s", Unit::Seconds, all.run_delay.as_secs_f64()),
        figure("cpu_user_s", Unit::Seconds, all.user.as_secs_f64()),
        figure("cpu_system_s", Unit::Seconds, all.system.as_secs_f64()),
    ];
    if let Some(migrations) = all.migrations {
        told.push(figure("migrations", Unit::Count, migrations as f64));
    }
    told
}

/// The same of a run: for all, then for each role.
fn by_role(shape: &Shape, tasks: &dyn Tasks) -> Vec<Figure> {
    let ended = |task: usize| tasks.ended(task).map(|(_, usage)| usage);
    let used: Vec<Option<Usage>> = (0..shape.tasks()).map(ended).collect();
    let mut figures = kernel("", used.iter().flatten());
    for (role, name) in shape.names.iter().enumerate() {
        let those = used.iter().zip(&shape.roles).filter(|(_, of)| usize::from(**of) == role);
        figures.extend(kernel(name, those.filter_map(|(usage, _)| usage.as_ref())));
    }
    figures
}

/// How unequal groups and tasks fared: 0 is equal. Where tasks had the same to do, by when they were
/// done; where they had the same time, by how much they did.
fn fairness(shape: &Shape, tasks: &dyn Tasks, times: &Times, plan: &Plan) -> Vec<Figure> {
    let Some(progress) = plan.progress else { return Vec::new() };
    let worked: Vec<usize> =
        (0..shape.tasks()).filter(|&task| tasks.counter(task, progress) > 0).collect();
    let value = |task: usize| match times.stopped {
        None => tasks.ended(task).map_or(0.0, |(at, _)| (at - times.go).0 as f64),
        Some(_) => tasks.counter(task, progress) as f64,
    };
    let mut groups: Vec<f64> = vec![0.0; shape.groups() as usize];
    for &task in &worked {
        let group = &mut groups[shape.groups[task] as usize];
        *group =
            if times.stopped.is_none() { group.max(value(task)) } else { *group + value(task) };
    }
    groups.retain(|value| *value > 0.0);
    let each: Vec<f64> = worked.into_iter().map(value).collect();
    let figure = |name, values: &[f64]| {
        (values.len() > 1).then(|| Figure {
            metric: Metric::new(name, Unit::Fraction, Better::Lower),
            of: String::new(),
            value: spread(values),
        })
    };
    let groups = figure("unfairness_groups", &groups);
    groups.into_iter().chain(figure("unfairness_tasks", &each)).collect()
}

/// The distance from the least to the most, as a fraction of the mean.
fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    if mean > 0.0 { (most - least) / mean } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_stats::Histogram;

    #[test]
    fn quantiles_of_several_roles_are_of_all_samples_and_of_each_role() {
        let series = |name: &str, of: &str, samples: &[u64]| {
            let mut histogram = Histogram::new();
            samples.iter().for_each(|one| histogram.record(*one));
            let metric = Metric::new(name, Unit::Nanoseconds, Better::Lower);
            Series { metric, of: of.to_owned(), histogram }
        };
        let total = vec![
            series("latency_ns", "a", &[10, 20]),
            series("run_ns", "a", &[5]),
            series("latency_ns", "b", &[30, 1_000]),
        ];
        let found = figures(&Interval { total, ..Interval::default() });
        let of = |name: &str, of: &str| {
            let mut those = found.iter().filter(|f| f.metric.name == name && f.of == of);
            let value = those.next().map(|f| f.value);
            assert_eq!(those.count(), 0, "{name} of '{of}' is told once");
            value
        };
        assert_eq!(of("latency_ns_max", ""), Some(1_000.0));
        assert_eq!(of("latency_ns_p50", ""), Some(20.0));
        assert_eq!(of("latency_ns_max", "a"), Some(20.0));
        assert_eq!(of("latency_ns_max", "b"), Some(1_000.0));
        // One role alone is the whole.
        assert_eq!((of("run_ns_max", ""), of("run_ns_max", "a")), (Some(5.0), None));
    }

    #[test]
    fn counters_have_the_unit_and_direction_of_the_registry() {
        let counts = [("bytes", 100), ("timers_missed", 3), ("requests_offered", 4)];
        let counts = counts.map(|(name, count)| (name.to_owned(), count)).to_vec();
        let interval = Interval { covers: Nanos::from_secs(2), counts, ..Interval::default() };
        let found = figures(&interval);
        let of = |name: &str| found.iter().find(|f| f.metric.name == name).unwrap();
        assert_eq!(of("bytes").metric.unit, Unit::Bytes);
        assert_eq!(of("bytes_per_s").metric.unit, Unit::BytesPerSecond);
        assert_eq!((of("bytes_per_s").value, of("timers_missed").value), (50.0, 3.0));
        assert_eq!(of("timers_missed").metric.better, Better::Lower);
        assert_eq!(of("requests_offered").metric.better, Better::Neither);
    }
}
