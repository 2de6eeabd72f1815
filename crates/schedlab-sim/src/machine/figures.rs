//! From what the world counted to the figures of a run.

use crate::{TaskId, TaskUsage, World};
use schedlab_model::{Metric, Nanos, Warning};
use schedlab_stats::Histogram;
use schedlab_workload::plan::Plan;
use schedlab_workload::{Figure, Interval, MachineError, Output, Series, metrics};

/// Which task is what.
pub(super) struct Shape {
    roles: Vec<usize>,
    groups: Vec<usize>,
    names: Vec<String>,
}

impl Shape {
    pub(super) fn of(plan: &Plan) -> Self {
        Self {
            roles: plan.tasks.iter().map(|task| usize::from(task.role)).collect(),
            groups: plan.tasks.iter().map(|task| task.group as usize).collect(),
            names: plan.roles.clone(),
        }
    }

    fn usage(&self, world: &World, keep: impl Fn(usize) -> bool) -> TaskUsage {
        let tasks = (0..self.roles.len()).filter(|&task| keep(task));
        tasks.map(|task| world.usage(TaskId(task as u32))).fold(TaskUsage::default(), |all, one| {
            TaskUsage {
                user_ns: all.user_ns + one.user_ns,
                system_ns: all.system_ns + one.system_ns,
                run_delay_ns: all.run_delay_ns + one.run_delay_ns,
                timeslices: all.timeslices + one.timeslices,
                voluntary: all.voluntary + one.voluntary,
                involuntary: all.involuntary + one.involuntary,
                migrations: all.migrations + one.migrations,
            }
        })
    }

    fn count(&self, world: &World, plan: &Plan, counter: usize) -> u64 {
        world.counters().iter().skip(counter).step_by(plan.counters.len().max(1)).sum()
    }

    /// How much was done so far, by the counter that says so.
    pub(super) fn progress(&self, world: &World, plan: &Plan) -> Option<u64> {
        plan.progress.map(|counter| self.count(world, plan, counter as usize))
    }

    /// What was measured, over the last `covers` of `elapsed`.
    pub(super) fn interval(
        &self,
        world: &World,
        plan: &Plan,
        (elapsed, covers): (Nanos, Nanos),
        rates: &[f64],
    ) -> Interval {
        let mut total = Vec::new();
        let is_twin = |at: usize| plan.in_buckets.iter().any(|(twin, _)| *twin as usize == at);
        for (at, metric) in plan.samples.iter().enumerate().filter(|(at, _)| !is_twin(*at)) {
            for (role, name) in self.names.iter().enumerate() {
                let mut histogram = Histogram::new();
                for task in (0..self.roles.len()).filter(|&task| self.roles[task] == role) {
                    histogram.merge(&world.histograms()[task * plan.samples.len() + at]);
                }
                if !histogram.is_empty() {
                    total.push(Series { metric: metric.clone(), of: name.clone(), histogram });
                }
            }
        }
        let counters = plan.counters.iter().enumerate();
        let counts = counters
            .map(|(at, metric)| (metric.name.clone(), self.count(world, plan, at)))
            .collect();
        let delay = |(role, name): (usize, &String)| {
            let used = self.usage(world, |task| self.roles[task] == role);
            let mean = used.run_delay_ns.checked_div(used.timeslices).unwrap_or(0);
            (name.clone(), Nanos(mean))
        };
        Interval {
            elapsed,
            covers,
            total,
            counts,
            rates: rates.to_vec(),
            rate: rates.last().copied().unwrap_or(0.0),
            delay: self.names.iter().enumerate().map(delay).collect(),
            dial: (!plan.dials.is_empty()).then(|| world.dial(0)),
            last: world.ended_at().is_some(),
            ..Interval::default()
        }
    }

    /// All figures of a run.
    pub(super) fn figures(&self, world: &World, plan: &Plan, last: &Interval) -> Vec<Figure> {
        let figure = |name: &str, of: &str, value: f64| Figure {
            metric: metrics::metric(name),
            of: of.to_owned(),
            value,
        };
        let seconds = |name: &str, ns: u64| figure(name, "", ns as f64 / 1e9);
        let (began, end) = (world.began_at(), world.ended_at().unwrap_or(world.now()));
        let went = world.went_at().unwrap_or(end);
        let until = world.stopped_at().unwrap_or(end);
        let mut all = vec![
            figure("tasks", "", world.started() as f64),
            seconds("time_s", until - went),
            seconds("start_s", went - began),
        ];
        let tasks = 0..self.roles.len();
        let ends = tasks.filter_map(|task| world.task_ended_at(TaskId(task as u32)));
        if let (Some(first), None) = (ends.clone().min(), world.stopped_at()) {
            all.push(seconds("steady_s", first.saturating_sub(went)));
            all.push(seconds("tail_s", end - first));
        }
        all.extend(self.fairness(world, plan, went));
        for (role, name) in std::iter::once((None, ""))
            .chain(self.names.iter().enumerate().map(|(at, name)| (Some(at), &**name)))
        {
            let used = self.usage(world, |task| role.is_none_or(|role| self.roles[task] == role));
            all.extend([
                figure("switches_voluntary", name, used.voluntary as f64),
                figure("switches_involuntary", name, used.involuntary as f64),
                figure("run_delay_s", name, used.run_delay_ns as f64 / 1e9),
                figure("cpu_user_s", name, used.user_ns as f64 / 1e9),
                figure("cpu_system_s", name, used.system_ns as f64 / 1e9),
                figure("migrations", name, used.migrations as f64),
            ]);
        }
        all.extend(of_interval(last));
        all
    }

    /// How unequal groups and tasks fared, as on the host: by when they were done where they had the same to do, by
    /// how much they did where they had the same time.
    fn fairness(&self, world: &World, plan: &Plan, went: u64) -> Vec<Figure> {
        let Some(progress) = plan.progress else { return Vec::new() };
        let done = |task: usize| world.counters()[task * plan.counters.len() + progress as usize];
        let worked = (0..self.roles.len()).filter(|&task| done(task) > 0);
        let stopped = world.stopped_at().is_some();
        let value = |task: usize| match stopped {
            true => done(task) as f64,
            false => {
                let end = world.task_ended_at(TaskId(task as u32)).unwrap_or(went);
                end.saturating_sub(went) as f64
            }
        };
        let mut groups = vec![0.0_f64; self.groups.iter().max().map_or(0, |last| last + 1)];
        let mut tasks = Vec::new();
        for task in worked {
            let group = &mut groups[self.groups[task]];
            *group = if stopped { *group + value(task) } else { group.max(value(task)) };
            tasks.push(value(task));
        }
        groups.retain(|value| *value > 0.0);
        let figure = |name, values: &[f64]| {
            let metric = metrics::metric(name);
            (values.len() > 1).then(|| Figure { metric, of: String::new(), value: spread(values) })
        };
        let (groups, tasks) =
            (figure("unfairness_groups", &groups), figure("unfairness_tasks", &tasks));
        groups.into_iter().chain(tasks).collect()
    }

    /// Tells all figures of a run.
    pub(super) fn tell(
        &self,
        world: &World,
        plan: &Plan,
        last: &Interval,
        out: &mut dyn Output,
    ) -> Result<(), MachineError> {
        out.interval(last);
        for figure in self.figures(world, plan, last) {
            out.figure(figure).map_err(|error| MachineError::io("storing a figure", error))?;
        }
        for error in self.errors(world) {
            out.warning(Warning::new("task-failed", error, ""));
        }
        Ok(())
    }

    /// A sentence for each task that ended because of an error.
    pub(super) fn errors(&self, world: &World) -> Vec<String> {
        if world.stopped_at().is_some() {
            return Vec::new();
        }
        let error = |task: usize| {
            let errno = world.task_error(TaskId(task as u32))?;
            let name = &self.names[self.roles[task]];
            Some(format!("{name} of group {} failed with error {errno}", self.groups[task]))
        };
        (0..self.roles.len()).filter_map(error).collect()
    }
}

/// The distance from the least to the most, as a fraction of the mean.
fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    if mean > 0.0 { (most - least) / mean } else { 0.0 }
}

/// The quantiles of an interval's series, its counts and their rates.
fn of_interval(interval: &Interval) -> Vec<Figure> {
    let mut all = Vec::new();
    for series in &interval.total {
        for (end, q) in metrics::QUANTILES {
            let name = format!("{}_{end}", series.metric.name);
            let metric = Metric { name, ..series.metric.clone() };
            if let Some(value) = series.histogram.quantile(q) {
                all.push(Figure { metric, of: String::new(), value: value as f64 });
            }
        }
    }
    let covers = interval.covers.as_secs_f64();
    for (name, count) in &interval.counts {
        let whole =
            |name: &str, value| Figure { metric: metrics::metric(name), of: String::new(), value };
        all.push(whole(name, *count as f64));
        if covers > 0.0 {
            all.push(whole(&format!("{name}_per_s"), *count as f64 / covers));
        }
    }
    all
}
