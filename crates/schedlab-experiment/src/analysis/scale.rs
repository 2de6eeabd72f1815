//! Questions of scale: what a metric does along an axis that says how much work is asked for. Its values are no contest:
//! less work is always done sooner.

use super::cells::by_value;
use super::{Cell, Cells, Centre, position};
use crate::{Axis, Experiment, Point, StoredRun, run_metrics};
use schedlab_model::{Better, Metric, Unit};
use schedlab_stats::paired;
use schedlab_workload::metrics::{self, Form, Work};
use std::collections::BTreeMap;

/// Confidence of all intervals of a curve together.
const LEVEL: f64 = 0.95;
/// The efficiency, as a part of that of the first point, below which a point is beyond the knee.
pub(crate) const KNEE: f64 = 0.8;

/// A curve along a load, all other axes fixed.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// The label of the workload.
    pub(crate) workload: String,
    /// The name of the axis.
    pub(crate) axis: String,
    /// The choices on the other axes.
    pub(crate) fixed: Point,
    /// The metric that leads.
    pub(crate) metric: Metric,
    /// What is done in a second, by name.
    pub(crate) rate: String,
    /// The points in ascending order.
    pub(crate) points: Vec<ScalePoint>,
    /// The point with the most work in a second, by index; `None` where no rate is known.
    pub(crate) best: Option<usize>,
    /// The points that are not shown to do less than the best, itself included.
    pub(crate) as_good: Vec<usize>,
    /// The first point whose efficiency is below [`KNEE`].
    pub(crate) knee: Option<usize>,
    /// Points of which not all runs finished: what did would be the best of them.
    pub(crate) missing: Vec<String>,
    /// Whether the machine repeats itself, so that values are exact for their seeds.
    pub(crate) exact: bool,
}

/// A point of a [`Scale`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScalePoint {
    /// The choice, as written.
    pub(crate) value: String,
    /// The metric that leads, with its interval.
    pub(crate) centre: Centre,
    /// Work in a second.
    pub(crate) rate: Option<Centre>,
    /// Work in a second for each unit of load, as a part of that of the first point, with its interval.
    pub(crate) efficiency: Option<Efficiency>,
    /// The mean numbers of tasks that run, of tasks that wait for a CPU, and of CPUs that idle, as far as they are known.
    pub(crate) time: [Option<f64>; 3],
}

/// An efficiency as a part of that of the first point; the ends are the same where all runs are copies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Efficiency {
    /// The estimate.
    pub(crate) value: f64,
    /// The lower end of the interval.
    pub(crate) low: f64,
    /// The upper end of the interval.
    pub(crate) high: f64,
}

/// The curves along all loads of an experiment.
#[must_use]
pub fn scales(experiment: &Experiment, cells: &Cells<'_>) -> Vec<Scale> {
    let mut out = Vec::new();
    for label in cells.workloads() {
        for axis in experiment.axes.iter().filter(|axis| axis.values.len() > 1) {
            let Some(work) = experiment.work(axis) else { continue };
            out.extend(along(experiment, cells, label, axis, work));
        }
    }
    out
}

fn along(
    experiment: &Experiment,
    cells: &Cells<'_>,
    label: &str,
    axis: &Axis,
    work: Work,
) -> Vec<Scale> {
    let Some(metric) = leads(experiment, cells, label) else { return Vec::new() };
    let mut groups: BTreeMap<Point, Vec<(String, &Cell<'_>)>> = BTreeMap::new();
    for cell in cells.of(label) {
        let mut fixed = cell.point.clone();
        let name = [axis.varies.name().to_owned(), axis.name()];
        let Some(value) = name.iter().find_map(|name| fixed.remove(name)) else { continue };
        groups.entry(fixed).or_default().push((value, cell));
    }
    let count = groups.len();
    let scale = |(fixed, points): (Point, Vec<(String, &Cell<'_>)>)| {
        Curve { points, work, count }.scale(label, axis.name(), fixed, metric.clone())
    };
    let mut scales: Vec<Scale> = groups.into_iter().filter_map(scale).collect();
    scales.sort_by(|a, b| by_value(&a.fixed, &b.fixed));
    scales
}

/// The metric that leads: the first of `measure`, else the first primary one.
fn leads(experiment: &Experiment, cells: &Cells<'_>, label: &str) -> Option<Metric> {
    let spec = cells.of(label).find_map(Cell::any).map(|run| &run.manifest.spec.workload)?;
    let primary = metrics::primary(spec).iter().map(|name| (*name).to_owned());
    let names: Vec<String> = experiment.measure.iter().take(1).cloned().chain(primary).collect();
    let all = cells.metrics(label);
    let known = |metric: &Metric| run_metrics::find(&metric.name).unwrap_or_else(|| metric.clone());
    names.iter().find_map(|name| all.iter().find(|metric| metric.name == *name)).map(known)
}

/// The points of a curve before anything is told of them.
struct Curve<'c, 'r> {
    points: Vec<(String, &'c Cell<'r>)>,
    work: Work,
    /// How many curves share the level.
    count: usize,
}

impl Curve<'_, '_> {
    fn scale(
        mut self,
        workload: &str,
        axis: String,
        fixed: Point,
        metric: Metric,
    ) -> Option<Scale> {
        self.points.sort_by(|(a, _), (b, _)| position(a).total_cmp(&position(b)).then(a.cmp(b)));
        let (whole, without): (Vec<_>, Vec<_>) = self
            .points
            .drain(..)
            .partition(|(_, cell)| !cell.is_short() && !cell.values(&metric.name).is_empty());
        self.points = whole;
        let missing: Vec<String> = without.iter().map(|(value, _)| value.clone()).collect();
        let first = self.points.first().or(without.first())?.1;
        let rate = rate_name(&metric, first.any()?);
        let rates: Vec<BTreeMap<u32, f64>> =
            self.points.iter().map(|(value, cell)| rates(cell, &rate, value)).collect();
        // A point has an interval of its metric, of its rate, and of its efficiency.
        let level = 1.0 - (1.0 - LEVEL) / (3 * self.points.len() * self.count).max(1) as f64;
        let points: Vec<ScalePoint> = (0..self.points.len())
            .filter_map(|at| self.point(at, &metric, &rates, level))
            .collect();
        let rate_of = |at: usize| points[at].rate.as_ref().map(|rate| rate.value);
        let known = (0..points.len()).filter(|at| rate_of(*at).is_some());
        let best = known.max_by(|a, b| {
            rate_of(*a).unwrap_or_default().total_cmp(&rate_of(*b).unwrap_or_default())
        });
        let tests = points.len().saturating_sub(1).max(1) * self.count;
        let risk = (1.0 - LEVEL) / tests as f64;
        let is_as_good =
            |at: &usize| best.is_some_and(|best| !is_less(&rates[*at], &rates[best], risk));
        let below = |point: &ScalePoint| point.efficiency.is_some_and(|e| e.value < KNEE);
        Some(Scale {
            workload: workload.to_owned(),
            axis,
            fixed,
            metric,
            rate: rate.map_or_else(|| "work per second".to_owned(), |(name, _)| name),
            as_good: (0..points.len()).filter(is_as_good).collect(),
            knee: points.iter().position(below),
            best,
            missing,
            exact: self
                .points
                .iter()
                .flat_map(|(_, cell)| cell.all())
                .all(StoredRun::is_repeatable),
            points,
        })
    }

    fn point(
        &self,
        at: usize,
        metric: &Metric,
        rates: &[BTreeMap<u32, f64>],
        level: f64,
    ) -> Option<ScalePoint> {
        let (value, cell) = &self.points[at];
        let per_unit = |at: usize| match self.work {
            Work::Amount => 1.0,
            // A word has no size.
            Work::Tasks | Work::Rate => Some(position(&self.points[at].0))
                .filter(|x| x.is_finite() && *x > 0.0)
                .unwrap_or(1.0),
        };
        let load = per_unit(at) / per_unit(0);
        Some(ScalePoint {
            value: value.clone(),
            centre: Centre::at(cell.values(&metric.name).into_values(), level)?,
            rate: Centre::at(rates[at].values().copied(), level),
            efficiency: efficiency(&rates[0], &rates[at], load, level),
            time: time(cell),
        })
    }
}

/// What counts work in a second, and how: a rate that runs store, or amounts of the axis over the time.
fn rate_name(metric: &Metric, run: &StoredRun) -> Option<(String, bool)> {
    if metric.name.ends_with("_per_s") && metric.better == Better::Higher {
        return Some((metric.name.clone(), true));
    }
    let counters =
        metrics::ENTRIES.iter().filter(|e| e.form == Form::Counter && e.better == Better::Higher);
    let mut names = counters.map(|entry| format!("{}_per_s", entry.name));
    let stored = names.find(|name| run.value(name).is_some()).map(|name| (name, true));
    let is_time = metric.unit == Unit::Seconds && metric.name.ends_with("time_s");
    stored.or_else(|| is_time.then(|| (format!("1/{}", metric.name), false)))
}

/// Work in a second by block.
fn rates(cell: &Cell<'_>, rate: &Option<(String, bool)>, value: &str) -> BTreeMap<u32, f64> {
    match rate {
        Some((name, true)) => cell.values(name),
        Some((name, false)) => {
            let amount = Some(position(value)).filter(|x| x.is_finite() && *x > 0.0).unwrap_or(1.0);
            let times = cell.values(name.trim_start_matches("1/"));
            times.into_iter().map(|(block, time)| (block, amount / time)).collect()
        }
        None => BTreeMap::new(),
    }
}

/// The logarithms of a ratio by block.
fn ratios(of: &BTreeMap<u32, f64>, to: &BTreeMap<u32, f64>) -> Vec<f64> {
    let ratio = |(block, value): (&u32, &f64)| Some((value / to.get(block)?).ln());
    of.iter().filter_map(ratio).filter(|ratio| ratio.is_finite()).collect()
}

fn efficiency(
    first: &BTreeMap<u32, f64>,
    here: &BTreeMap<u32, f64>,
    load: f64,
    level: f64,
) -> Option<Efficiency> {
    let ratios = ratios(here, first);
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    if !mean.is_finite() {
        return None;
    }
    let (low, high) = paired(&ratios).map_or((mean, mean), |effect| effect.interval(level));
    let part = |log: f64| log.exp() / load;
    Some(Efficiency { value: part(mean), low: part(low), high: part(high) })
}

/// Whether less is done in a second than at the best point, for sure. Copies are exact.
fn is_less(here: &BTreeMap<u32, f64>, best: &BTreeMap<u32, f64>, risk: f64) -> bool {
    let ratios = ratios(here, best);
    match paired(&ratios) {
        Some(effect) => effect.interval(1.0 - risk).1 < 0.0,
        None => ratios.len() > 1 && ratios[0] < 0.0,
    }
}

/// Where the CPUs' time went: mean numbers of running and of waiting tasks, and of CPUs that idle.
fn time(cell: &Cell<'_>) -> [Option<f64>; 3] {
    let mean = |value: &dyn Fn(&StoredRun) -> Option<f64>| {
        let all: Vec<f64> = cell.runs.values().filter_map(|run| value(run)).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let part = |name: &'static str| {
        move |run: &StoredRun| {
            Some(run.value(name)? / run.value("time_s").filter(|time| *time > 0.0)?)
        }
    };
    [mean(&part("cpu_s")), mean(&part("run_delay_s")), mean(&|run| run.value("cpus_idle"))]
}
