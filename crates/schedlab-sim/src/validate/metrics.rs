//! Cells of several metrics each: what the model says of each metric, beside the two dummies.
//!
//! A cell names its metrics as results do, `METRIC of ROLE` for one role of the tasks; `cpu_s` is CPU time in user mode
//! and in the kernel together. Times and rates are judged by the relative error of the median. Counts are judged by the
//! factor by which the median lies outside the kernel's least and greatest, less 1.

use super::{Cell, Spread, Truth, median};
use schedlab_model::Setting;
use schedlab_stats::Sample;
use schedlab_workload::{Observed, RunSpec, WorkloadSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A latency below this many nanoseconds, and a time below this many seconds, is taken for this.
const FLOOR_NS: f64 = 1_000.0;
const FLOOR_S: f64 = 1e-4;

/// Errors of several cells as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellErrors {
    /// The median over the cells.
    pub median: f64,
    /// The 90th percentile over the cells.
    pub p90: f64,
    /// That of the worst cell.
    pub worst: f64,
}

/// How the model fares with one metric of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricErrors {
    /// The label of the cells.
    pub label: String,
    /// The metric as the cells name it.
    pub metric: String,
    /// The number of cells that have it.
    pub cells: usize,
    /// The errors of the model.
    pub model: CellErrors,
    /// The errors of the best constant.
    pub constant: CellErrors,
    /// The knob or option over which a table is best, and that table's errors.
    pub table: (String, CellErrors),
    /// The error of the model and that of the constant, for each cell.
    pub each: Vec<(f64, f64)>,
}

/// The errors over all cells and metrics, of the model and of the constants.
#[must_use]
pub fn overall(all: &[MetricErrors]) -> (CellErrors, CellErrors) {
    let each = || all.iter().flat_map(|one| &one.each);
    (errors(each().map(|one| one.0)), errors(each().map(|one| one.1)))
}

/// One metric of one cell: the kernel's values and the model's.
struct Pair<'t> {
    cell: &'t Cell,
    truth: Spread,
    said: Spread,
}

impl Cell {
    /// The run of one start of this cell.
    pub(super) fn spec(&self, repeat: u32) -> RunSpec {
        let workload =
            WorkloadSpec::Builtin { name: self.workload.clone(), options: self.options.clone() };
        let setting = |(knob, value): (&String, &String)| Setting {
            knob: knob.clone(),
            value: value.clone(),
        };
        let settings = self.knobs.iter().map(setting).collect();
        RunSpec { settings, repeat, ..RunSpec::of(workload) }
    }

    /// What a run of this cell gave for each of its metrics, in the order of their names.
    ///
    /// # Errors
    /// A sentence that names the metric that the run lacks.
    pub(super) fn read(&self, seen: &Observed) -> Result<Vec<f64>, String> {
        let lacks = |name: &String| {
            let known: Vec<&String> = seen.figures.keys().collect();
            format!(
                "{}: no metric '{name}' in a run of {}: it has {known:?}",
                self.label, self.workload
            )
        };
        let one = |name: &String| value(seen, name).ok_or_else(|| lacks(name));
        self.metrics.keys().map(one).collect()
    }
}

/// A metric of a run, by the name that cells have for it.
fn value(seen: &Observed, name: &str) -> Option<f64> {
    let (metric, role) = name.split_once(" of ").unwrap_or((name, ""));
    let one = |metric: &str| match role {
        "" => seen.figures.get(metric).copied(),
        role => seen.of_roles.get(&(metric.to_owned(), role.to_owned())).copied(),
    };
    match metric {
        "cpu_s" => Some(one("cpu_user_s")? + one("cpu_system_s")?),
        metric => one(metric),
    }
}

/// Whether a metric counts what happens seldom enough that its median alone says little.
fn is_count(metric: &str) -> bool {
    metric.starts_with("switches_") || metric.starts_with("timers_missed")
}

/// The error of a value beside what the kernel gave.
fn error(metric: &str, truth: &Spread, value: f64) -> f64 {
    let name = metric.split(" of ").next().unwrap_or(metric);
    if is_count(name) {
        return truth.factor_outside(value) - 1.0;
    }
    let floor = if name.contains("_ns") {
        FLOOR_NS
    } else if name.ends_with("_s") && !name.ends_with("_per_s") {
        FLOOR_S
    } else {
        f64::MIN_POSITIVE
    };
    (value.max(floor) - truth.median.max(floor)).abs() / truth.median.max(floor)
}

fn errors(values: impl Iterator<Item = f64> + Clone) -> CellErrors {
    let p90 = Sample::new(values.clone()).map_or(f64::NAN, |sample| sample.quantile(0.9));
    CellErrors { median: median(values.clone()), p90, worst: values.fold(0.0, f64::max) }
}

impl Truth {
    /// Compares each metric of the cells with what `say` says of a cell: the values of its metrics in each start.
    ///
    /// # Errors
    /// The first error of `say`.
    pub fn compare_metrics<E>(
        &self,
        mut say: impl FnMut(&Cell) -> Result<Vec<Vec<f64>>, E>,
    ) -> Result<Vec<MetricErrors>, E> {
        let mut pairs: BTreeMap<(&str, &str), Vec<Pair<'_>>> = BTreeMap::new();
        let mut order: Vec<&str> = Vec::new();
        for cell in self.cell.iter().filter(|cell| cell.is_of_metrics()) {
            let said = say(cell)?;
            if !order.contains(&&*cell.label) {
                order.push(&cell.label);
            }
            for (at, (metric, runs)) in cell.metrics.iter().enumerate() {
                let truth = Spread::of(runs.iter().copied());
                let said = Spread::of(said.iter().map(|start| start[at]));
                let pair = Pair { cell, truth, said };
                pairs.entry((&cell.label, metric)).or_default().push(pair);
            }
        }
        let of = |label: &&str| {
            let label = *label;
            let those = pairs.iter().filter(move |((of, _), _)| *of == label);
            those.map(|((label, metric), pairs)| judge(label, metric, pairs)).collect::<Vec<_>>()
        };
        Ok(order.iter().flat_map(of).collect())
    }
}

fn judge(label: &str, metric: &str, pairs: &[Pair<'_>]) -> MetricErrors {
    let middle = median(pairs.iter().map(|pair| pair.truth.median));
    let off = |pair: &Pair<'_>, value: f64| error(metric, &pair.truth, value);
    let each: Vec<(f64, f64)> =
        pairs.iter().map(|pair| (off(pair, pair.said.median), off(pair, middle))).collect();
    let model = errors(each.iter().map(|one| one.0));
    let constant = errors(each.iter().map(|one| one.1));
    let names: BTreeSet<&String> = pairs.iter().flat_map(|pair| pair.cell.choices()).collect();
    let tables = names.into_iter().map(|name| (name.clone(), table(metric, pairs, name)));
    let best = tables.min_by(|a, b| a.1.median.total_cmp(&b.1.median));
    MetricErrors {
        label: label.to_owned(),
        metric: metric.to_owned(),
        cells: pairs.len(),
        model,
        constant,
        table: best.unwrap_or_else(|| (String::new(), constant)),
        each,
    }
}

/// The errors of a table with one number for each value of a knob or option.
fn table(metric: &str, pairs: &[Pair<'_>], name: &str) -> CellErrors {
    let mut by_value: BTreeMap<&str, Vec<&Pair<'_>>> = BTreeMap::new();
    for pair in pairs {
        by_value.entry(pair.cell.choice(name)).or_default().push(pair);
    }
    let off = |pairs: &Vec<&Pair<'_>>| {
        let middle = median(pairs.iter().map(|pair| pair.truth.median));
        pairs.iter().map(|pair| error(metric, &pair.truth, middle)).collect::<Vec<f64>>()
    };
    let all: Vec<f64> = by_value.values().flat_map(off).collect();
    errors(all.into_iter())
}

impl Cell {
    /// Names of the knobs and options of a cell. A program is what is measured, and no knob.
    fn choices(&self) -> impl Iterator<Item = &String> {
        self.knobs.keys().chain(self.options.keys()).filter(|name| *name != "program")
    }

    fn choice(&self, name: &str) -> &str {
        self.knobs.get(name).or_else(|| self.options.get(name)).map_or("", String::as_str)
    }
}

/// The errors as a table.
#[must_use]
pub fn table_of(all: &[MetricErrors]) -> String {
    let mut text = String::from(
        "| load | metric | cells | model: median, 90th, worst | constant: median, 90th | best table |\n\
         |---|---|---|---|---|---|\n",
    );
    let percent = |fraction: f64| format!("{:.1} %", fraction * 100.0);
    for one in all {
        let (model, constant, table) = (&one.model, &one.constant, &one.table);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {}, {}, {} | {}, {} | {} ({}) |",
            one.label,
            one.metric,
            one.cells,
            percent(model.median),
            percent(model.p90),
            percent(model.worst),
            percent(constant.median),
            percent(constant.p90),
            percent(table.1.median),
            table.0,
        );
    }
    text
}
