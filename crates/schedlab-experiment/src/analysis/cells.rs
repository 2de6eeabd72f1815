//! Runs sorted into the cells of their experiment.

use crate::{Point, StoredRun};
use schedlab_model::{Metric, percentage};
use std::collections::BTreeMap;

/// The runs of one workload at one point.
#[derive(Clone, Debug)]
pub struct Cell<'r> {
    /// The label of the workload.
    pub(crate) workload: String,
    /// Where in the experiment.
    pub(crate) point: Point,
    /// Its whole runs by block.
    pub(crate) runs: BTreeMap<u32, &'r StoredRun>,
    /// Runs that were cut off at their time limit: they took longer than that.
    pub(crate) censored: BTreeMap<u32, &'r StoredRun>,
    /// Runs that failed: they tell nothing of the metrics.
    pub(crate) failed: BTreeMap<u32, &'r StoredRun>,
}

/// All cells of an experiment, by workload and point.
#[derive(Clone, Debug, Default)]
pub struct Cells<'r> {
    /// The cells, in the order of the plan.
    pub(crate) cells: Vec<Cell<'r>>,
    /// Runs that were left out since somebody stopped them.
    pub(crate) left_out: usize,
}

impl<'r> Cells<'r> {
    /// Sorts runs into cells. Runs that did not come to their end are counted and left out.
    #[must_use]
    pub fn new(runs: &'r [StoredRun]) -> Self {
        let mut cells: BTreeMap<(&str, &Point), Cell<'r>> = BTreeMap::new();
        let mut left_out = 0;
        for run in runs {
            let failed = run.failure().is_some();
            let censored = run.is_censored();
            if !run.is_whole() && !censored && !failed {
                left_out += 1;
                continue;
            }
            let workload = &run.manifest.workload;
            let point = &run.manifest.point;
            let cell = cells.entry((workload, point)).or_insert_with(|| Cell {
                workload: workload.clone(),
                point: point.clone(),
                runs: BTreeMap::new(),
                censored: BTreeMap::new(),
                failed: BTreeMap::new(),
            });
            let runs = match (failed, censored) {
                (true, _) => &mut cell.failed,
                (false, true) => &mut cell.censored,
                (false, false) => &mut cell.runs,
            };
            runs.insert(run.manifest.block, run);
        }
        let mut cells: Vec<Cell<'r>> = cells.into_values().collect();
        // By value: 100us, 10ms, 100ms. Texts alone would say 100ms, 100us, 10ms.
        cells
            .sort_by(|a, b| a.workload.cmp(&b.workload).then_with(|| by_value(&a.point, &b.point)));
        Self { cells, left_out }
    }

    /// The labels of the workloads.
    #[must_use]
    pub(crate) fn workloads(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.cells.iter().map(|c| c.workload.as_str()).collect();
        names.dedup();
        names
    }

    pub(crate) fn of<'a>(&'a self, workload: &'a str) -> impl Iterator<Item = &'a Cell<'r>> + 'a {
        self.cells.iter().filter(move |cell| cell.workload == workload)
    }

    /// The metrics that the runs of a workload give, in the order in which the workload reported
    /// them.
    #[must_use]
    pub(crate) fn metrics(&self, workload: &str) -> Vec<Metric> {
        let runs: Vec<&StoredRun> = self.of(workload).flat_map(Cell::all).collect();
        metrics(&runs)
    }

    /// Axes of a workload with more than one value: name and values, numbers in their order.
    #[must_use]
    pub(crate) fn axes(&self, workload: &str) -> Vec<(String, Vec<String>)> {
        let mut axes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, value) in self.of(workload).flat_map(|cell| &cell.point) {
            let values = axes.entry(name).or_default();
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        axes.into_iter()
            .filter(|(_, values)| values.len() > 1)
            .map(|(name, mut values)| {
                values.sort_by(|a, b| position(a).total_cmp(&position(b)).then_with(|| a.cmp(b)));
                (name.to_owned(), values)
            })
            .collect()
    }
}

impl<'r> Cell<'r> {
    /// One of the cell's runs; `None` if it has none.
    #[must_use]
    pub(crate) fn any(&self) -> Option<&'r StoredRun> {
        self.all().next()
    }

    /// All of them: those that came to their end, were cut off, or failed.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'r StoredRun> + '_ {
        let all = self.runs.values().chain(self.censored.values()).chain(self.failed.values());
        all.copied()
    }

    /// Whether runs failed or were cut off: what finished would be the best of them.
    #[must_use]
    pub(crate) fn is_short(&self) -> bool {
        !self.failed.is_empty() || !self.censored.is_empty()
    }

    /// The values of a metric by block.
    #[must_use]
    pub(crate) fn values(&self, metric: &str) -> BTreeMap<u32, f64> {
        self.runs.iter().filter_map(|(block, run)| Some((*block, run.value(metric)?))).collect()
    }
}

/// The metrics of whole runs, in the order in which they were first told; those of what ran beside are named
/// `label/metric`.
pub(crate) fn metrics(runs: &[&StoredRun]) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for run in runs {
        for figure in &run.figures {
            let beside = run.manifest.spec.beside.iter().any(|b| b.label == figure.of);
            let mut metric = figure.metric.clone();
            if beside {
                metric.name = format!("{}/{}", figure.of, metric.name);
            } else if !figure.of.is_empty() {
                continue;
            }
            if !metrics.contains(&metric) {
                metrics.push(metric);
            }
        }
    }
    metrics
}

/// The order of two points: axis by axis, numbers and durations by their value, words by their letters.
pub(crate) fn by_value(a: &Point, b: &Point) -> std::cmp::Ordering {
    let pairs = a.iter().zip(b);
    let order = pairs.map(|((axis_a, a), (axis_b, b))| {
        let values = position(a).total_cmp(&position(b)).then_with(|| a.cmp(b));
        axis_a.cmp(axis_b).then(values)
    });
    order.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Where a value of an axis lies on a number line: numbers as they are, percentages as
/// fractions, durations in nanoseconds; a word lies nowhere (and after all numbers).
#[must_use]
pub(crate) fn position(value: &str) -> f64 {
    let number = value.parse::<f64>().ok();
    let time = || value.parse::<schedlab_model::Nanos>().ok().map(|t| t.0 as f64);
    let percent = || percentage(value).map(|percent| percent / 100.0);
    number.or_else(time).or_else(percent).filter(|n| n.is_finite()).unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_an_axis_lie_where_they_mean() {
        let all = ["0.25", "50%", "1", "1us", "2ms"].map(position);
        assert!(all.is_sorted() && all.iter().all(|at| at.is_finite()), "{all:?}");
        assert!(position("hogs").is_infinite() && position("%").is_infinite());
    }
}
