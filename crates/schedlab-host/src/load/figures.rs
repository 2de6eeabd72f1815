//! From what tasks left in shared memory to figures.

use super::arena::{Arena, Stand};
use super::live::Moment;
use schedlab_model::{Better, Comm, Metric, Nanos, Pid, Unit, Warning};
use schedlab_stats::{Histogram, Sample, Steady};
use schedlab_sys::task::{self, Resources, Usage};
use schedlab_workload::plan::{Plan, Task};
use schedlab_workload::upstream::plat;
use schedlab_workload::{Figure, Series};

/// When things happened, on `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// The first task was about to be started.
    pub(super) began: Nanos,
    /// All were ready.
    pub(super) ready: Nanos,
    /// They were let go.
    pub(super) go: Nanos,
    /// They were told to end; `None`: they ended by themselves.
    pub(super) stopped: Option<Nanos>,
    /// All were gone.
    pub(super) end: Nanos,
}

/// Which task is what.
pub(super) struct Shape {
    roles: Vec<u16>,
    groups: Vec<u32>,
    comms: Vec<String>,
    names: Vec<String>,
}

/// What the kernel counted for processes that were awaited: switches and CPU time.
pub(crate) fn of_resources(used: &Resources) -> [Figure; 4] {
    let figure = |name, unit, value| Figure {
        metric: Metric::new(name, unit, Better::Neither),
        of: String::new(),
        value,
    };
    [
        figure("switches_voluntary", Unit::Count, used.voluntary as f64),
        figure("switches_involuntary", Unit::Count, used.involuntary as f64),
        figure("cpu_user_s", Unit::Seconds, used.user.as_secs_f64()),
        figure("cpu_system_s", Unit::Seconds, used.system.as_secs_f64()),
    ]
}

/// Tasks looked at for the run delay of their role: reading all of a big crew would be load.
const DELAYS_OF: usize = 64;

impl Shape {
    pub(super) fn of(plan: &Plan, tasks: &[Task]) -> Self {
        Self {
            roles: tasks.iter().map(|task| task.role).collect(),
            groups: tasks.iter().map(|task| task.group).collect(),
            comms: tasks.iter().map(|task| task.comm.clone()).collect(),
            names: plan.roles.clone(),
        }
    }

    pub(super) fn tasks(&self) -> usize {
        self.roles.len()
    }

    pub(super) fn groups(&self) -> u32 {
        self.groups.iter().max().map_or(0, |last| last + 1)
    }

    /// A task in words.
    pub(super) fn name(&self, task: usize) -> String {
        format!("{} of group {}", self.names[usize::from(self.roles[task])], self.groups[task])
    }

    pub(super) fn threads(&self, arena: &Arena) -> Vec<(Pid, Comm)> {
        let comm = |task: usize| schedlab_sys::process::comm_of(self.comms[task].as_bytes());
        let there = (0..self.tasks()).filter(|&task| arena.stand(task) != Stand::Absent);
        there.map(|task| (arena.thread(task), comm(task))).collect()
    }

    /// Samples by series and role, and counters, between two moments.
    pub(super) fn since(
        &self,
        moment: &Moment,
        before: &Moment,
        plan: &Plan,
    ) -> (Vec<Series>, Vec<(String, u64)>) {
        let mut all: Vec<Series> = Vec::new();
        let twin = |series: usize| plan.in_buckets.iter().any(|(twin, _)| *twin as usize == series);
        for (series, metric) in plan.samples.iter().enumerate().filter(|(at, _)| !twin(*at)) {
            for (role, name) in self.names.iter().enumerate() {
                let mut histogram = Histogram::new();
                for task in (0..self.tasks()).filter(|&t| usize::from(self.roles[t]) == role) {
                    let at = task * plan.samples.len() + series;
                    histogram.merge(&moment.histograms[at].since(&before.histograms[at]));
                }
                if !histogram.is_empty() {
                    all.push(Series { metric: metric.clone(), of: name.clone(), histogram });
                }
            }
        }
        let width = plan.counters.len();
        let sum = |counter: usize| {
            (0..self.tasks())
                .map(|task| task * width + counter)
                .map(|at| moment.counters[at].wrapping_sub(before.counters[at]))
                .sum()
        };
        let counters = plan.counters.iter().enumerate();
        (all, counters.map(|(i, metric)| (metric.name.clone(), sum(i))).collect())
    }

    /// What was recorded in the original's buckets between two moments, by metric.
    pub(super) fn in_buckets(
        &self,
        moment: &Moment,
        before: &Moment,
        plan: &Plan,
    ) -> Vec<(String, Vec<(u64, u64)>)> {
        let of = |twin: u32| {
            let mut histogram = Histogram::new();
            for task in 0..self.tasks() {
                let at = task * plan.samples.len() + twin as usize;
                histogram.merge(&moment.histograms[at].since(&before.histograms[at]));
            }
            plat::read(&histogram)
        };
        let name = |series: u32| plan.samples[series as usize].name.clone();
        plan.in_buckets.iter().map(|&(twin, series)| (name(series), of(twin))).collect()
    }

    /// Mean run delay per timeslice of each role's tasks, from the kernel.
    pub(super) fn delays(&self, arena: &Arena, plan: &Plan) -> Vec<(String, Nanos)> {
        let this = Pid(std::process::id().cast_signed());
        let of_role = |role: usize| {
            let tasks = (0..self.tasks()).filter(|&t| usize::from(self.roles[t]) == role);
            mean_delay(tasks.take(DELAYS_OF).map(|index| match arena.stand(index) {
                Stand::Ended => {
                    let (_, usage, _) = arena.end(index);
                    (usage.run_delay, usage.timeslices)
                }
                _ => {
                    let thread = arena.thread(index);
                    let process = if plan.processes { thread } else { this };
                    task::run_delay(process, thread).unwrap_or_default()
                }
            }))
        };
        self.names.iter().enumerate().map(|(role, name)| (name.clone(), of_role(role))).collect()
    }
}

/// Run delay for each timeslice, of all tasks together; nothing where the kernel counts neither (a schedstat of
/// zeros).
fn mean_delay(tasks: impl Iterator<Item = (Nanos, u64)>) -> Nanos {
    let (delay, slices) = tasks.fold((0, 0), |(d, s), (delay, slices)| (d + delay.0, s + slices));
    Nanos(delay.checked_div(slices).unwrap_or(0))
}

fn metric(name: &str, unit: Unit, better: Better) -> Metric {
    Metric::new(name, unit, better)
}

/// All figures of a run but the quantiles, which come with its last interval.
pub(super) fn of_run(shape: &Shape, arena: &Arena, times: &Times, plan: &Plan) -> Vec<Figure> {
    let whole = |metric, value| Figure { metric, of: String::new(), value };
    let seconds =
        |name, time: Nanos| whole(metric(name, Unit::Seconds, Better::Lower), time.as_secs_f64());
    let ends: Vec<Nanos> = (0..shape.tasks())
        .filter(|&task| arena.stand(task) == Stand::Ended)
        .map(|task| arena.end(task).0)
        .collect();
    let (first, last) = (ends.iter().min().copied(), ends.iter().max().copied());
    let count = metric("tasks", Unit::Count, Better::Neither);
    let until = times.stopped.unwrap_or(times.end);
    let mut figures = vec![
        whole(count, arena.expected().load(std::sync::atomic::Ordering::Acquire) as f64),
        seconds("time_s", until - times.go),
        seconds("start_s", times.ready - times.began),
    ];
    if let (Some(first), Some(last), None) = (first, last, times.stopped) {
        figures.push(seconds("steady_s", first - times.go));
        figures.push(seconds("tail_s", last - first));
        figures.push(seconds("exit_s", times.end - last));
    }
    figures.extend(fairness(shape, arena, times, plan));
    if !plan.upstream {
        figures.extend(kernel(shape, arena));
    }
    figures
}

/// How many CPUs idled, in the mean of the run: of all that are online, whoever kept the others busy.
pub(super) fn idle(percent_busy: f64) -> Figure {
    let cpus = schedlab_sys::topology::online(std::path::Path::new("/sys"));
    let cpus = cpus.map_or(1, |set| set.len()) as f64;
    let metric = metric("cpus_idle", Unit::Count, Better::Neither);
    Figure { metric, of: String::new(), value: (1.0 - percent_busy / 100.0).max(0.0) * cpus }
}

/// How long the run warmed up by the rates of its seconds, of which `left_out` are not among them; and
/// what is to be done where that was not enough.
pub(super) fn warm_up(rates: &[f64], left_out: f64) -> (Option<Figure>, Option<Warning>) {
    match schedlab_stats::warm_up(rates) {
        Steady::TooFew => (None, None),
        Steady::Never => {
            let what = format!("no steady state was reached in {} s", rates.len());
            let remedy = "measure for longer, and leave the beginning out (--warmup)";
            (None, Some(Warning::new("no-steady-state", what, remedy)))
        }
        Steady::From { skip, before, after } => {
            let metric = metric("warm_up_s", Unit::Seconds, Better::Neither);
            let value = left_out + skip as f64;
            let apart = after > 0.0 && ((before - after) / after).abs() > 0.05;
            let warning = (skip > 0 && apart).then(|| {
                let percent = (before / after - 1.0) * 100.0;
                let what = format!(
                    "the first {skip} s of those measured were {percent:+.0} % from the rest"
                );
                Warning::new("warm-up", what, format!("leave {value:.0} s out (--warmup)"))
            });
            (Some(Figure { metric, of: String::new(), value }), warning)
        }
    }
}

/// The fewest seconds of which some can be said to lie apart.
const SECONDS_MIN: usize = 8;

/// The doubt about a rate of which some seconds lie far from the others (beyond Tukey's fences), the
/// warm-up aside, which has a doubt of its own.
pub(super) fn seconds_apart(rates: &[f64]) -> Option<Warning> {
    let skip = match schedlab_stats::warm_up(rates) {
        Steady::From { skip, .. } => skip,
        Steady::TooFew | Steady::Never => 0,
    };
    let steady = &rates[skip..];
    let sample = Sample::new(steady.iter().copied()).ok()?;
    let apart = sample.outliers();
    // Of a rate that is the same in most seconds any other would lie apart.
    let alike = sample.quantile(0.25) >= sample.quantile(0.75);
    if steady.len() < SECONDS_MIN || alike || apart.is_empty() {
        return None;
    }
    let at = |value: &f64| skip + steady.iter().position(|rate| rate == value).unwrap_or(0) + 1;
    let shown: Vec<String> =
        apart.iter().take(5).map(|value| format!("{value:.0} in second {}", at(value))).collect();
    let more = if apart.len() > shown.len() { ", ..." } else { "" };
    let what = format!(
        "{} of {} seconds lie apart from a median of {:.0}: {}{more}",
        apart.len(),
        steady.len(),
        sample.median(),
        shown.join(", ")
    );
    let remedy = "see what else ran then (--trace), and repeat it (--repeat 10)";
    Some(Warning::new("interval-outliers", what, remedy))
}

/// What the kernel counted: for each role, and for all.
fn kernel(shape: &Shape, arena: &Arena) -> Vec<Figure> {
    let sum = |tasks: &mut dyn Iterator<Item = usize>| {
        let mut all = Usage { migrations: Some(0), ..Usage::default() };
        for task in tasks.filter(|&task| arena.stand(task) == Stand::Ended) {
            let (_, one, _) = arena.end(task);
            all.user += one.user;
            all.system += one.system;
            all.run_delay += one.run_delay;
            all.voluntary += one.voluntary;
            all.involuntary += one.involuntary;
            all.timeslices += one.timeslices;
            all.migrations = all.migrations.zip(one.migrations).map(|(a, b)| a + b);
        }
        all
    };
    let tell = |of: &str, usage: &Usage| {
        let figure = |name, unit, value| Figure {
            metric: metric(name, unit, Better::Neither),
            of: of.to_owned(),
            value,
        };
        let mut told = vec![
            figure("switches_voluntary", Unit::Count, usage.voluntary as f64),
            figure("switches_involuntary", Unit::Count, usage.involuntary as f64),
            figure("run_delay_s", Unit::Seconds, usage.run_delay.as_secs_f64()),
            figure("cpu_user_s", Unit::Seconds, usage.user.as_secs_f64()),
            figure("cpu_system_s", Unit::Seconds, usage.system.as_secs_f64()),
        ];
        if let Some(migrations) = usage.migrations {
            told.push(figure("migrations", Unit::Count, migrations as f64));
        }
        told
    };
    let mut figures = tell("", &sum(&mut (0..shape.tasks())));
    for (role, name) in shape.names.iter().enumerate() {
        let mut tasks = (0..shape.tasks()).filter(|&t| usize::from(shape.roles[t]) == role);
        figures.extend(tell(name, &sum(&mut tasks)));
    }
    figures
}

/// How unequal groups and tasks fared: 0 is equal. Where tasks had the same to do, by when they were
/// done; where they had the same time, by how much they did.
fn fairness(shape: &Shape, arena: &Arena, times: &Times, plan: &Plan) -> Vec<Figure> {
    let Some(progress) = plan.progress else { return Vec::new() };
    let worked: Vec<usize> =
        (0..shape.tasks()).filter(|&task| counter(arena, task, progress) > 0).collect();
    let value = |task: usize| match times.stopped {
        None => (arena.end(task).0 - times.go).0 as f64,
        Some(_) => counter(arena, task, progress) as f64,
    };
    let mut groups: Vec<f64> = vec![0.0; shape.groups() as usize];
    for &task in &worked {
        let group = &mut groups[shape.groups[task] as usize];
        *group =
            if times.stopped.is_none() { group.max(value(task)) } else { *group + value(task) };
    }
    groups.retain(|value| *value > 0.0);
    let tasks: Vec<f64> = worked.into_iter().map(value).collect();
    let figure = |name, values: &[f64]| {
        (values.len() > 1).then(|| Figure {
            metric: metric(name, Unit::Fraction, Better::Lower),
            of: String::new(),
            value: spread(values),
        })
    };
    let (groups, tasks) =
        (figure("unfairness_groups", &groups), figure("unfairness_tasks", &tasks));
    groups.into_iter().chain(tasks).collect()
}

fn counter(arena: &Arena, task: usize, counter: u32) -> u64 {
    arena.counter(task, counter).load(std::sync::atomic::Ordering::Relaxed)
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

    #[test]
    fn a_warm_up_is_a_figure_and_a_slow_one_a_warning() {
        let mut rates = vec![100.0; 20];
        rates[0] = 20.0;
        let (figure, warning) = warm_up(&rates, 2.0);
        assert_eq!(figure.map(|figure| figure.value), Some(3.0));
        assert!(warning.unwrap().remedy.contains("3 s"));
        let (figure, warning) = warm_up(&[100.0; 20], 0.0);
        assert_eq!((figure.map(|figure| figure.value), warning), (Some(0.0), None));
        let climbing: Vec<f64> = (0..20).map(f64::from).collect();
        let (figure, warning) = warm_up(&climbing, 0.0);
        assert!(figure.is_none());
        assert_eq!(warning.unwrap().code, "no-steady-state");
        assert_eq!(warm_up(&[1.0; 3], 0.0), (None, None));
    }

    #[test]
    fn a_kernel_that_counts_no_run_delay_gives_none_and_no_division_by_zero() {
        // A kernel without CONFIG_SCHED_INFO has "0 0 0" in every schedstat.
        assert_eq!(mean_delay([(Nanos(0), 0), (Nanos(0), 0)].into_iter()), Nanos(0));
        assert_eq!(mean_delay(std::iter::empty()), Nanos(0));
        assert_eq!(mean_delay([(Nanos(900), 2), (Nanos(100), 3)].into_iter()), Nanos(200));
    }

    #[test]
    fn seconds_that_lie_apart_are_told_with_their_place() {
        let mut rates: Vec<f64> = (0..12).map(|n| 100.0 + f64::from(n % 4)).collect();
        assert_eq!(seconds_apart(&rates), None);
        rates[6] = 12.0;
        let doubt = seconds_apart(&rates).unwrap();
        assert_eq!(doubt.code, "interval-outliers");
        assert_eq!(doubt.what, "1 of 12 seconds lie apart from a median of 101: 12 in second 7");
        assert!(!doubt.remedy.is_empty());
        assert_eq!(seconds_apart(&rates[..7]), None, "too few");
        // The warm-up of a longer run has its own doubt.
        let mut slow: Vec<f64> = (0..30).map(|n| 100.0 + f64::from(n % 4)).collect();
        slow[0] = 5.0;
        assert_eq!(seconds_apart(&slow), None);
    }
}
