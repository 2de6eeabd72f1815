//! How wrong the model is: its figures beside those of a real kernel, and beside two dummies.
//!
//! A truth is a file of cells: a workload with its options and knobs, and what a kernel took for it in several runs
//! that began differently. The dummies are the constant that fits all cells of a workload best, and the table with one
//! number for each value of one knob. A model that does not beat them explains nothing.

use schedlab_stats::Sample;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// What Debian's Linux 6.1.192 took for hackbench, over both granularities: the file that comes with the program.
pub const DEBIAN_6_1: &str = include_str!("../data/debian-6.1.truth.toml");

/// What a kernel did in some cells.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// The simulated machine that is compared: `sim:kernel=cfs-6.1,costs=icount-6.1`.
    pub machine: String,
    /// How the cells were measured, in a sentence.
    pub measured: String,
    /// The cells.
    pub cell: Vec<Cell>,
}

/// A workload with its options and knobs, and what it took.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The name of its group: cells of one group are compared with each other.
    pub label: String,
    /// The workload.
    pub workload: String,
    /// Its options.
    pub options: BTreeMap<String, String>,
    /// The knobs.
    pub knobs: BTreeMap<String, String>,
    /// Time of each run in seconds.
    pub time_s: Vec<f64>,
    /// Voluntary switches of each run.
    pub voluntary: Vec<f64>,
    /// Involuntary switches of each run.
    pub involuntary: Vec<f64>,
}

/// What the model says of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Time in seconds.
    pub time_s: f64,
    /// Voluntary switches.
    pub voluntary: f64,
    /// Involuntary switches.
    pub involuntary: f64,
}

/// Relative errors of the time, as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// In the median of the cells.
    pub median: f64,
    /// At the 90th percentile.
    pub p90: f64,
}

/// A cell beside what the model says.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its group.
    pub label: String,
    /// Its knobs in words.
    pub knobs: String,
    /// Median and spread (greatest minus least) of the times.
    pub truth_s: (f64, f64),
    /// Medians of the switches, voluntary and involuntary.
    pub switches: (f64, f64),
    /// What the model says.
    pub said: Said,
}

impl Row {
    fn error(&self) -> f64 {
        (self.said.time_s - self.truth_s.0).abs() / self.truth_s.0
    }
}

/// How the model fares with one group of cells.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub label: String,
    /// The model's errors.
    pub model: Errors,
    /// Those of the best constant.
    pub constant: Errors,
    /// The knob over which a table is best, and that table's errors.
    pub table: (String, Errors),
    /// Pairs of cells whose truths differ by more than twice the spread, and for how many of them the model says which
    /// is slower.
    pub pairs: (usize, usize),
}

/// The comparison.
#[derive(Clone, Debug)]
pub struct Validation {
    /// Every cell.
    pub rows: Vec<Row>,
    /// Every group.
    pub groups: Vec<Group>,
}

impl Truth {
    /// Reads a file of cells.
    ///
    /// # Errors
    /// A sentence: text that is not such a file (with the line), or a cell without a run.
    pub fn parse(text: &str) -> Result<Self, String> {
        let truth: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let lacks = |cell: &&Cell| {
            [&cell.time_s, &cell.voluntary, &cell.involuntary].iter().any(|runs| runs.is_empty())
        };
        match truth.cell.iter().find(lacks) {
            Some(cell) => Err(format!("the cell {} {} has no run", cell.label, words(&cell.knobs))),
            None => Ok(truth),
        }
    }

    /// Compares the cells with what `say` says of each.
    ///
    /// # Errors
    /// The first error of `say`.
    pub fn compare<E>(
        &self,
        mut say: impl FnMut(&Cell) -> Result<Said, E>,
    ) -> Result<Validation, E> {
        let mut rows = Vec::new();
        for cell in &self.cell {
            let said = say(cell)?;
            let most = cell.time_s.iter().copied().fold(f64::MIN, f64::max);
            let least = cell.time_s.iter().copied().fold(f64::MAX, f64::min);
            rows.push(Row {
                label: cell.label.clone(),
                knobs: words(&cell.knobs),
                truth_s: (median(&cell.time_s), most - least),
                switches: (median(&cell.voluntary), median(&cell.involuntary)),
                said,
            });
        }
        let mut labels: Vec<&String> = self.cell.iter().map(|cell| &cell.label).collect();
        labels.dedup();
        let groups = labels.into_iter().map(|label| self.group(label, &rows)).collect();
        Ok(Validation { rows, groups })
    }

    fn group(&self, label: &str, rows: &[Row]) -> Group {
        let cells = self.cell.iter().zip(rows).filter(|(cell, _)| cell.label == label);
        let rows: Vec<&Row> = cells.clone().map(|(_, row)| row).collect();
        let truths: Vec<f64> = rows.iter().map(|row| row.truth_s.0).collect();
        let model = errors(rows.iter().map(|row| row.error()));
        let middle = median(&truths);
        let constant = errors(truths.iter().map(|truth| (middle - truth).abs() / truth));
        let knobs = cells.clone().flat_map(|(cell, _)| cell.knobs.keys());
        let mut names: Vec<&String> = knobs.collect();
        names.sort();
        names.dedup();
        let table_over = |knob: &&String| {
            let mut by_value: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            for (cell, row) in cells.clone() {
                let value = cell.knobs.get(*knob).map_or("", String::as_str);
                by_value.entry(value).or_default().push(row.truth_s.0);
            }
            let off = |truths: &Vec<f64>| {
                let middle = median(truths);
                truths.iter().map(|truth| (middle - truth).abs() / truth).collect::<Vec<f64>>()
            };
            errors(by_value.values().flat_map(off))
        };
        let tables = names.iter().map(|knob| ((*knob).clone(), table_over(knob)));
        let best = tables.min_by(|a, b| a.1.median.total_cmp(&b.1.median));
        let table = best.unwrap_or_else(|| (String::new(), constant));
        Group { label: label.to_owned(), model, constant, table, pairs: pairs(&rows) }
    }
}

/// Pairs that differ by more than twice the larger spread, and of them those whose direction is right.
fn pairs(rows: &[&Row]) -> (usize, usize) {
    let (mut apart, mut right) = (0, 0);
    for (at, one) in rows.iter().enumerate() {
        for other in &rows[at + 1..] {
            let difference = one.truth_s.0 - other.truth_s.0;
            if difference.abs() > 2.0 * one.truth_s.1.max(other.truth_s.1) && difference != 0.0 {
                apart += 1;
                let said = one.said.time_s - other.said.time_s;
                right += usize::from(said * difference > 0.0);
            }
        }
    }
    (apart, right)
}

fn median(values: &[f64]) -> f64 {
    Sample::new(values.iter().copied()).map_or(f64::NAN, |sample| sample.median())
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
            writeln!(
                f,
                "| {} | {} | {:.3} ± {:.3} | {:.3} | {:+.0} % | {:.0} + {:.0} | {:.0} + {:.0} |",
                row.label,
                row.knobs,
                row.truth_s.0,
                row.truth_s.1 / 2.0,
                row.said.time_s,
                (row.said.time_s / row.truth_s.0 - 1.0) * 100.0,
                row.switches.0,
                row.switches.1,
                row.said.voluntary,
                row.said.involuntary,
            )?;
        }
        writeln!(
            f,
            "\nSwitches are voluntary + involuntary, medians. ± is half the distance from the fastest run to the slowest.\n"
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
                 says for {right} which is slower.",
                group.label
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
machine = "sim"
measured = "by hand"
[[cell]]
label = "a"
workload = "cpu"
options = {}
knobs = { m = "1", w = "1" }
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
            Ok::<_, String>(Said { time_s, voluntary: 1.0, involuntary: 1.0 })
        };
        let found = truth.compare(say).unwrap();
        let group = &found.groups[0];
        assert!((group.model.median - 0.1).abs() < 1e-9, "{group:?}");
        // The constant is 2: off by 100 %, 0 % and 4.8 %.
        assert!((group.constant.median - 0.1 / 2.1).abs() < 1e-9, "{group:?}");
        assert_eq!(group.table.0, "w");
        // 1 and 2, 1 and 2.1 differ by far; 2 and 2.1 have no spread and differ too.
        assert_eq!(group.pairs, (3, 3));
        assert!(found.to_string().contains("| a | model | 10.0 % |"), "{found}");
    }

    #[test]
    fn the_file_that_comes_with_the_program_can_be_read() {
        assert!(Truth::parse(DEBIAN_6_1).unwrap().cell.len() >= 9);
    }

    #[test]
    fn a_cell_without_runs_is_refused() {
        let text = TEXT.replacen("[2.1]", "[]", 1);
        assert_eq!(Truth::parse(&text).unwrap_err(), "the cell a m=2 w=2 has no run");
        assert!(Truth::parse("machine = 3").is_err());
    }
}
