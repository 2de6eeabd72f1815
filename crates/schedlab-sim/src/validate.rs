//! How wrong the model is: its figures beside those of a real kernel, and beside two dummies.
//!
//! A truth is a file of cells: a workload with its options and knobs, and what a kernel took for it in several runs
//! that began differently. The dummies are the constant that fits all cells of a workload best, and the table with one
//! number for each value of one knob. A model that does not beat them explains nothing.

mod compared;
mod metrics;

pub use compared::{COMPARED, Compared, Judged, judged, page};
pub use metrics::{CellErrors, MetricErrors, overall, table_of};

use crate::{Model, Simulated};
use schedlab_stats::Sample;
use schedlab_workload::{Machine as _, MachineError, Observed};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// The files of cells that come with the program: what Debian's Linux 6.1.192 and 5.10.262 took for hackbench over both
/// granularities, and Debian's Linux 6.12.117 over the base slice.
pub const TRUTHS: &[&str] = &[
    include_str!("../data/debian-6.1.truth.toml"),
    include_str!("../data/debian-6.1-second.truth.toml"),
    include_str!("../data/debian-6.1-third.truth.toml"),
    include_str!("../data/debian-5.10.truth.toml"),
    include_str!("../data/debian-6.12.truth.toml"),
    include_str!("../data/debian-6.12-second.truth.toml"),
];

/// What a kernel did in some cells.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// The simulated machine that is compared: `sim:kernel=cfs-6.1,costs=icount-6.1`.
    pub machine: String,
    /// The machine that measured the cells, as it is named on the command line:
    /// `vm:kernel=debian-6.1,cpus=1`.
    pub measured_on: String,
    /// How the cells were measured, in a sentence.
    pub measured: String,
    /// The cells that a real kernel ran.
    pub cell: Vec<Cell>,
}

/// A workload with its options and knobs, and what it took.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The name of its group: cells of one group are compared with each other.
    pub label: String,
    /// The name of the workload.
    pub workload: String,
    /// The options of the workload.
    pub options: BTreeMap<String, String>,
    /// The values of the knobs.
    pub knobs: BTreeMap<String, String>,
    /// Whether the cell lies where the load is slow by its knobs.
    #[serde(default)]
    pub edge: bool,
    /// Time of each run in seconds.
    #[serde(default)]
    pub time_s: Vec<f64>,
    /// Voluntary switches of each run.
    #[serde(default)]
    pub voluntary: Vec<f64>,
    /// Involuntary switches of each run.
    #[serde(default)]
    pub involuntary: Vec<f64>,
    /// In place of the three: what each run gave for any metrics, by their names; `METRIC of ROLE` for one role.
    #[serde(default)]
    pub metrics: BTreeMap<String, Vec<f64>>,
}

impl Cell {
    /// Whether the cell has metrics of its own choice, in place of time and switches.
    #[must_use]
    pub fn is_of_metrics(&self) -> bool {
        !self.metrics.is_empty()
    }
}

/// What the model says of one start of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// The run time in seconds.
    pub time_s: f64,
    /// The number of voluntary switches.
    pub voluntary: f64,
    /// The number of involuntary switches.
    pub involuntary: f64,
}

/// Median, least and greatest of what starts of a cell gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median of the runs, in the unit of the metric.
    pub median: f64,
    /// The least of the runs, in the unit of the metric.
    pub least: f64,
    /// The greatest of the runs, in the unit of the metric.
    pub most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let least = values.clone().fold(f64::MAX, f64::min);
        let most = values.clone().fold(f64::MIN, f64::max);
        Self { median: median(values), least, most }
    }

    fn width(&self) -> f64 {
        self.most - self.least
    }

    /// By which factor a value lies outside; 1 within.
    fn factor_outside(&self, value: f64) -> f64 {
        let (least, most, value) = (self.least.max(1.0), self.most.max(1.0), value.max(1.0));
        (least / value).max(value / most).max(1.0)
    }
}

/// Relative errors of the time, as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// The median error of the cells, as a fraction.
    pub median: f64,
    /// The 90th percentile of the cells' errors, as a fraction.
    pub p90: f64,
}

/// A cell beside what the model says.
#[derive(Clone, Debug)]
pub struct Row {
    /// The label of the row's group.
    pub label: String,
    /// Its knobs in words.
    pub knobs: String,
    /// Whether it lies where the load is slow.
    pub edge: bool,
    /// The kernel's times in seconds.
    pub truth_s: Spread,
    /// The model's times in seconds.
    pub said_s: Spread,
    /// The kernel's switches, voluntary and involuntary together.
    pub switches: Spread,
    /// The switches in the model.
    pub said_switches: Spread,
}

impl Row {
    fn error(&self) -> f64 {
        (self.said_s.median - self.truth_s.median).abs() / self.truth_s.median
    }
}

/// How the model fares with one group of cells.
#[derive(Clone, Debug)]
pub struct Group {
    /// The label of the group.
    pub label: String,
    /// The errors of the model.
    pub model: Errors,
    /// The errors of the best constant.
    pub constant: Errors,
    /// The knob over which a table is best, and that table's errors.
    pub table: (String, Errors),
    /// Pairs of cells whose truths differ by more than twice the spread, and for how many of them the model says which
    /// is slower.
    pub pairs: (usize, usize),
    /// Median errors of the model and of the best constant where the load is slow; without such cells none.
    pub edge: Option<(f64, f64)>,
    /// By which factor the model's switches lie outside those of the kernel: in the median and the worst of the cells.
    pub switches: (f64, f64),
}

/// A comparison of the model with a real kernel.
#[derive(Clone, Debug)]
pub struct Validation {
    /// A row for each cell.
    pub rows: Vec<Row>,
    /// A group for each load.
    pub groups: Vec<Group>,
}

impl Truth {
    /// Reads a file of cells.
    ///
    /// # Errors
    /// A sentence: text that is not such a file (with the line), or a cell without a run.
    pub fn parse(text: &str) -> Result<Self, String> {
        let truth: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let lacks = |cell: &&Cell| match cell.is_of_metrics() {
            true => cell.metrics.values().any(Vec::is_empty),
            false => {
                [&cell.time_s, &cell.voluntary, &cell.involuntary].iter().any(|r| r.is_empty())
            }
        };
        match truth.cell.iter().find(lacks) {
            Some(cell) => {
                Err(format!("missing run of the cell {} {}", cell.label, words(&cell.knobs)))
            }
            None => Ok(truth),
        }
    }

    /// Compares the cells with what `say` says of each, in several starts.
    ///
    /// # Errors
    /// The first error of `say`.
    pub fn compare<E>(
        &self,
        mut say: impl FnMut(&Cell) -> Result<Vec<Said>, E>,
    ) -> Result<Validation, E> {
        let mut rows = Vec::new();
        for cell in self.cell.iter().filter(|cell| !cell.is_of_metrics()) {
            let said = say(cell)?;
            let switches = cell.voluntary.iter().zip(&cell.involuntary).map(|(a, b)| a + b);
            rows.push(Row {
                label: cell.label.clone(),
                knobs: words(&cell.knobs),
                edge: cell.edge,
                truth_s: Spread::of(cell.time_s.iter().copied()),
                said_s: Spread::of(said.iter().map(|said| said.time_s)),
                switches: Spread::of(switches),
                said_switches: Spread::of(said.iter().map(|one| one.voluntary + one.involuntary)),
            });
        }
        let mut labels: Vec<&String> = rows.iter().map(|row| &row.label).collect();
        labels.dedup();
        let groups = labels.into_iter().map(|label| self.group(label, &rows)).collect();
        Ok(Validation { rows, groups })
    }

    fn group(&self, label: &str, rows: &[Row]) -> Group {
        let cells = self.cell.iter().filter(|cell| !cell.is_of_metrics()).zip(rows);
        let cells = cells.filter(|(cell, _)| cell.label == label);
        let rows: Vec<&Row> = cells.clone().map(|(_, row)| row).collect();
        let truths: Vec<f64> = rows.iter().map(|row| row.truth_s.median).collect();
        let model = errors(rows.iter().map(|row| row.error()));
        let middle = median(truths.iter().copied());
        let constant = errors(truths.iter().map(|truth| (middle - truth).abs() / truth));
        let knobs = cells.clone().flat_map(|(cell, _)| cell.knobs.keys());
        let mut names: Vec<&String> = knobs.collect();
        names.sort();
        names.dedup();
        let table_over = |knob: &&String| {
            let mut by_value: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            for (cell, row) in cells.clone() {
                let value = cell.knobs.get(*knob).map_or("", String::as_str);
                by_value.entry(value).or_default().push(row.truth_s.median);
            }
            let off = |truths: &Vec<f64>| {
                let middle = median(truths.iter().copied());
                truths.iter().map(|truth| (middle - truth).abs() / truth).collect::<Vec<f64>>()
            };
            errors(by_value.values().flat_map(off))
        };
        let tables = names.iter().map(|knob| ((*knob).clone(), table_over(knob)));
        let best = tables.min_by(|a, b| a.1.median.total_cmp(&b.1.median));
        let table = best.unwrap_or_else(|| (String::new(), constant));
        let on_edge = rows.iter().filter(|row| row.edge);
        let off = |row: &&&Row| (middle - row.truth_s.median).abs() / row.truth_s.median;
        let edge = (
            median(on_edge.clone().map(|row| row.error())),
            median(on_edge.clone().map(|row| off(&row))),
        );
        let outside = rows.iter().map(|row| row.switches.factor_outside(row.said_switches.median));
        Group {
            label: label.to_owned(),
            model,
            constant,
            table,
            pairs: pairs(&rows),
            edge: (on_edge.count() > 0).then_some(edge),
            switches: (median(outside.clone()), outside.fold(1.0, f64::max)),
        }
    }
}

/// Pairs that differ by more than twice the larger spread, and of them those whose direction is right.
fn pairs(rows: &[&Row]) -> (usize, usize) {
    let (mut apart, mut right) = (0, 0);
    for (at, one) in rows.iter().enumerate() {
        for other in &rows[at + 1..] {
            let difference = one.truth_s.median - other.truth_s.median;
            let spread = one.truth_s.width().max(other.truth_s.width());
            if difference.abs() > 2.0 * spread && difference != 0.0 {
                apart += 1;
                let said = one.said_s.median - other.said_s.median;
                right += usize::from(said * difference > 0.0);
            }
        }
    }
    (apart, right)
}

/// Starts of the model, at shifted phases of the tick, where the truth has fewer.
const STARTS: usize = 8;

/// What a model says of a cell, in as many starts as the kernel had or more.
///
/// # Errors
/// When the model cannot run the cell.
pub fn simulate(cell: &Cell, model: &Model) -> Result<Vec<Said>, MachineError> {
    let starts = cell.time_s.len().max(STARTS) as u32;
    (0..starts).map(|repeat| start(cell, model, repeat)).collect()
}

/// What a model says of a cell of metrics: their values in each start.
///
/// # Errors
/// When the model cannot run the cell, or its runs lack a metric.
pub fn simulate_metrics(cell: &Cell, model: &Model) -> Result<Vec<Vec<f64>>, MachineError> {
    let one = |repeat| cell.read(&observe(cell, model, repeat)?).map_err(MachineError::Load);
    (0..STARTS as u32).map(one).collect()
}

fn observe(cell: &Cell, model: &Model, repeat: u32) -> Result<Observed, MachineError> {
    let mut seen = Observed::default();
    Simulated::new(model.clone()).run(&cell.spec(repeat), &mut seen)?;
    Ok(seen)
}

fn start(cell: &Cell, model: &Model, repeat: u32) -> Result<Said, MachineError> {
    let seen = observe(cell, model, repeat)?;
    let figure = |name: &str| {
        let lacks = || MachineError::Load(format!("the workload {} has no {name}", cell.workload));
        seen.figures.get(name).copied().ok_or_else(lacks)
    };
    Ok(Said {
        time_s: figure("time_s")?,
        voluntary: figure("switches_voluntary")?,
        involuntary: figure("switches_involuntary")?,
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    Sample::new(values).map_or(f64::NAN, |sample| sample.median())
}

fn errors(values: impl Iterator<Item = f64>) -> Errors {
    let nothing = Errors { median: f64::NAN, p90: f64::NAN };
    Sample::new(values)
        .map_or(nothing, |sample| Errors { median: sample.median(), p90: sample.quantile(0.9) })
}

fn words(knobs: &BTreeMap<String, String>) -> String {
    let words: Vec<String> = knobs.iter().map(|(knob, value)| format!("{knob}={value}")).collect();
    words.join(" ")
}

impl fmt::Display for Validation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| load | knobs | kernel s | model s | error | switches of the kernel | of the model |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        for row in &self.rows {
            let times = |s: &Spread| format!("{:.3} ({:.3}–{:.3})", s.median, s.least, s.most);
            let counts = |s: &Spread| format!("{:.0} ({:.0}–{:.0})", s.median, s.least, s.most);
            writeln!(
                f,
                "| {} | {} | {} | {} | {:+.0} % | {} | {} |",
                row.label,
                row.knobs,
                times(&row.truth_s),
                times(&row.said_s),
                (row.said_s.median / row.truth_s.median - 1.0) * 100.0,
                counts(&row.switches),
                counts(&row.said_switches),
            )?;
        }
        writeln!(
            f,
            "\nMedians over starts, with least and greatest. Switches are voluntary and involuntary together.\n"
        )?;
        writeln!(f, "| load | | median error | 90th percentile |")?;
        writeln!(f, "|---|---|---|---|")?;
        let percent = |errors: &Errors| {
            format!("{:.1} % | {:.1} %", errors.median * 100.0, errors.p90 * 100.0)
        };
        for group in &self.groups {
            writeln!(f, "| {} | model | {} |", group.label, percent(&group.model))?;
            writeln!(f, "| | best constant | {} |", percent(&group.constant))?;
            let (knob, errors) = &group.table;
            writeln!(f, "| | best table over one knob ({knob}) | {} |", percent(errors))?;
        }
        for group in &self.groups {
            let (apart, right) = group.pairs;
            writeln!(
                f,
                "\n{}: of {apart} pairs of cells that differ by more than twice the spread, the model \
                 says for {right} which is slower. Its switches lie outside the kernel's by a factor of \
                 {:.2} in the median and {:.2} in the worst cell.",
                group.label, group.switches.0, group.switches.1
            )?;
            if let Some((model, constant)) = group.edge {
                writeln!(
                    f,
                    "Slow cells: median error {:.1} %, of the constant {:.1} %.",
                    model * 100.0,
                    constant * 100.0
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PUBLISHED;

    const TEXT: &str = r#"
machine = "sim"
measured_on = "host"
measured = "by hand"
[[cell]]
label = "a"
workload = "cpu"
options = {}
knobs = { m = "1", w = "1" }
edge = true
time_s = [1.0, 1.02, 0.98]
voluntary = [10.0]
involuntary = [5.0]
[[cell]]
label = "a"
workload = "cpu"
options = {}
knobs = { m = "1", w = "2" }
time_s = [2.0]
voluntary = [10.0]
involuntary = [5.0]
[[cell]]
label = "a"
workload = "cpu"
options = {}
knobs = { m = "2", w = "2" }
time_s = [2.1]
voluntary = [10.0]
involuntary = [5.0]
"#;

    #[test]
    fn errors_stand_beside_those_of_the_dummies() {
        let truth = Truth::parse(TEXT).unwrap();
        let mut times = [1.1, 1.8, 2.1].into_iter();
        let say = |_: &Cell| {
            let time_s = times.next().unwrap();
            Ok::<_, String>(vec![Said { time_s, voluntary: 1.0, involuntary: 4.0 }])
        };
        let found = truth.compare(say).unwrap();
        let group = &found.groups[0];
        assert!((group.model.median - 0.1).abs() < 1e-9, "{group:?}");
        // The constant is 2: off by 100 %, 0 % and 4.8 %.
        assert!((group.constant.median - 0.1 / 2.1).abs() < 1e-9, "{group:?}");
        assert_eq!(group.table.0, "w");
        // The kernel's switches are 15 everywhere, the model's 5.
        assert!((group.switches.0 - 3.0).abs() < 1e-9, "{group:?}");
        let (edge, constant) = group.edge.unwrap();
        assert!((edge - 0.1).abs() < 1e-9 && (constant - 1.0).abs() < 1e-9, "{group:?}");
        // 1 and 2, 1 and 2.1 differ by far; 2 and 2.1 have no spread and differ too.
        assert_eq!(group.pairs, (3, 3));
        assert!(found.to_string().contains("| a | model | 10.0 % |"), "{found}");
    }

    #[test]
    fn the_files_that_come_with_the_program_can_be_read() {
        for (text, cells) in TRUTHS.iter().zip([18, 24, 18, 9, 12, 6]) {
            let truth = Truth::parse(text).unwrap();
            assert_eq!(truth.cell.len(), cells);
            assert!(truth.cell.iter().all(|cell| cell.time_s.len() > 1), "starts are shifted");
        }
    }

    #[test]
    fn published_errors_are_those_of_the_model() {
        let mut all = PUBLISHED.iter();
        for text in TRUTHS {
            let truth = Truth::parse(text).unwrap();
            let name: schedlab_workload::MachineName = truth.machine.parse().unwrap();
            let costs = crate::Costs::preset(&name.settings["costs"]);
            let model = Model::of(&name, costs).unwrap();
            for group in truth.compare(|cell| simulate(cell, &model)).unwrap().groups {
                let told = all.next().expect("each group is published");
                assert_eq!((told.label, told.kernel), (group.label.as_str(), model.kernel.name()));
                let near = |told: (f64, f64), found: Errors| {
                    let off = |told: f64, found: f64| (told - found * 100.0).abs() < 0.051;
                    assert!(
                        off(told.0, found.median) && off(told.1, found.p90),
                        "{told:?}: {found:?}"
                    );
                };
                near(told.model, group.model);
                near(told.constant, group.constant);
            }
        }
        assert_eq!(all.next(), None);
    }

    #[test]
    fn a_cell_without_runs_is_refused() {
        let text = TEXT.replacen("[2.1]", "[]", 1);
        assert_eq!(Truth::parse(&text).unwrap_err(), "missing run of the cell a m=2 w=2");
        assert!(Truth::parse("machine = 3").is_err());
    }
}
