//! What a run measured, as text and CSV.

use super::warnings::beside;
use crate::output::folded;
use schedlab_model::table::{Csv, TextTable};
use schedlab_model::{LoadFacts, MachineFacts, Unit, Warning, columns};
use schedlab_workload::{Beside, Figure, Interval, RunSpec, WorkloadSpec};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// All that one run measured.
pub(crate) struct Measured {
    pub(crate) workload: String,
    pub(crate) spec: RunSpec,
    pub(crate) facts: Option<MachineFacts>,
    pub(crate) load_after: Option<LoadFacts>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) intervals: Vec<Interval>,
    /// Intervals of what ran beside it, by label.
    pub(crate) beside: BTreeMap<String, Vec<Interval>>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) interrupted: bool,
    pub(crate) censored: bool,
}

impl Measured {
    pub(crate) fn of(spec: &RunSpec) -> Self {
        Self {
            workload: name(&spec.workload),
            spec: spec.clone(),
            facts: None,
            load_after: None,
            figures: Vec::new(),
            intervals: Vec::new(),
            beside: BTreeMap::new(),
            warnings: Vec::new(),
            interrupted: false,
            censored: false,
        }
    }

    pub(crate) fn facts_before(&mut self, facts: MachineFacts) {
        self.facts = Some(facts);
    }

    /// Compares the machine before and after: what else it did is a warning about the figures.
    pub(crate) fn facts_after(&mut self, after: LoadFacts) {
        let Some(facts) = &self.facts else { return };
        let cpus = facts.online.len().max(1);
        let stolen = after.steal_ns.saturating_sub(facts.load.steal_ns);
        let time_ns = self.value("time_s").unwrap_or(0.0) * 1e9;
        if time_ns > 0.0 && stolen as f64 > 0.01 * time_ns * cpus as f64 {
            let percent = 100.0 * stolen as f64 / (time_ns * cpus as f64);
            self.warnings.push(Warning::new(
                "time-stolen",
                format!("the hypervisor gave {percent:.1} % of the CPUs' time to others"),
                "repeat it on a machine of your own, or often: --repeat 20",
            ));
        }
        if facts.load.average[0] > 0.5 * cpus as f64 {
            self.warnings.push(Warning::new(
                "machine-busy",
                format!(
                    "load average was {:.2} on {cpus} CPUs before it began",
                    facts.load.average[0]
                ),
                "stop other programs, or wait for their end",
            ));
        }
        let governors = facts.frequency.governors.known();
        if let Some(other) = governors.and_then(|all| all.iter().find(|g| *g != "performance")) {
            self.warnings.push(Warning::new(
                "frequency-not-fixed",
                format!("the governor is {other}: CPUs change their speed during the run"),
                "cpupower frequency-set -g performance",
            ));
        }
        self.load_after = Some(after);
    }

    /// What was reported of the workload alone, and of each that ran beside it: its label, its workload's
    /// name, its figures as if it had run alone.
    pub(super) fn parts(&self) -> Vec<Part> {
        let own = |figure: &&Figure| self.spec.beside.iter().all(|b| b.role(&figure.of).is_none());
        let mut parts = vec![Part {
            label: String::new(),
            workload: self.workload.clone(),
            figures: self.figures.iter().filter(own).cloned().collect(),
            intervals: self.intervals.clone(),
        }];
        parts.extend(self.spec.beside.iter().map(|beside| Part {
            label: beside.label.clone(),
            workload: name(&beside.workload),
            figures: of_beside(beside, &self.figures),
            intervals: self.beside.get(&beside.label).cloned().unwrap_or_default(),
        }));
        parts
    }

    /// A figure of the whole run.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        let found = self.figures.iter().find(|f| f.of.is_empty() && f.metric.name == name)?;
        Some(found.value)
    }

    /// The last interval: all that was measured.
    pub(crate) fn whole(&self) -> Option<&Interval> {
        self.intervals.iter().rev().find(|interval| interval.last)
    }
}

/// The figures of a workload that ran beside another, as if it had run alone.
pub(super) fn of_beside(beside: &Beside, figures: &[Figure]) -> Vec<Figure> {
    let own = |figure: &Figure| {
        let of = beside.role(&figure.of)?.to_owned();
        Some(Figure { of, ..figure.clone() })
    };
    figures.iter().filter_map(own).collect()
}

/// A workload in a word.
pub(super) fn name(workload: &WorkloadSpec) -> String {
    match workload {
        WorkloadSpec::Builtin { name, .. } => name.clone(),
        WorkloadSpec::Command { argv } => argv.join(" "),
    }
}

/// What one workload of a run measured.
pub(super) struct Part {
    /// Empty for the run's own.
    pub(super) label: String,
    pub(super) workload: String,
    pub(super) figures: Vec<Figure>,
    pub(super) intervals: Vec<Interval>,
}

impl Part {
    fn value(&self, name: &str) -> Option<f64> {
        let found = self.figures.iter().find(|f| f.of.is_empty() && f.metric.name == name)?;
        Some(found.value)
    }

    pub(super) fn whole(&self) -> Option<&Interval> {
        self.intervals.iter().rev().find(|interval| interval.last)
    }
}

/// Reads `50,99,99.9`.
pub(crate) fn quantiles(text: &str) -> Result<Vec<f64>, String> {
    let one = |part: &str| match part.trim().trim_start_matches('p').parse::<f64>() {
        Ok(p) if p > 0.0 && p <= 100.0 => Ok(p),
        _ => Err(format!(
            "option percentiles: invalid value '{part}': use more than 0 and at most 100"
        )),
    };
    text.split(',').map(one).collect()
}

/// Prints to stdout.
pub(crate) fn print(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = crate::output::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// `_p99`, `_p999`: the name of a percentile behind a metric's.
pub(super) fn suffix(percent: f64) -> String {
    format!("_p{}", percent.to_string().replace('.', ""))
}

pub(crate) use schedlab_model::readable as human;

/// Figures whose quantiles stand in a line of their own.
fn is_quantile(figure: &Figure) -> bool {
    ["_p50", "_p90", "_p99", "_p999", "_max"].iter().any(|end| figure.metric.name.ends_with(end))
}

fn bare(name: &str) -> &str {
    name.trim_end_matches("_ns").trim_end_matches("_s")
}

/// The text, in lines of `room` characters.
pub(super) fn text(measured: &Measured, percents: &[f64], room: usize) -> String {
    let mut text = String::new();
    for (index, part) in measured.parts().iter().enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        // Warnings are about the run, whose figures come first.
        let warnings = if index == 0 { &measured.warnings[..] } else { &[] };
        let _ = write!(text, "{gap}{}", part_text(part, end(measured), warnings, percents, room));
    }
    // What follows a metric's name goes on below its first value.
    folded(&text, 35, room)
}

/// What the end of a run means for its figures; empty for one that ended as it should.
fn end(measured: &Measured) -> &'static str {
    match (measured.interrupted, measured.censored) {
        (true, _) => " (interrupted: partial)",
        (false, true) => " at least (ended by the time limit: partial)",
        (false, false) => "",
    }
}

fn part_text(
    part: &Part,
    end: &str,
    warnings: &[Warning],
    percents: &[f64],
    room: usize,
) -> String {
    let mut text = String::new();
    match part.label.as_str() {
        "" => text.push_str(&part.workload),
        label if label == part.workload => {
            let _ = write!(text, "beside it, {label}");
        }
        label => {
            let _ = write!(text, "beside it, {label} ({})", part.workload);
        }
    }
    // A guest may leave them out, times above all.
    let known = [("tasks", Unit::Count, " tasks"), ("time_s", Unit::Seconds, "")];
    let known = known.map(|(name, unit, of)| Some(human(part.value(name)?, unit) + of));
    let known = known.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "{}{known}{end}", if known.is_empty() { "" } else { ": " });
    text.push_str(&beside(None, warnings, &part.figures));
    text.push('\n');
    if let Some(whole) = part.whole().filter(|whole| !whole.total.is_empty()) {
        let series = series(whole, percents);
        series.text(0, room.saturating_sub(2)).lines().for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
        text.push('\n');
    }
    let shown = |figure: &&Figure| !is_quantile(figure) && figure.metric.name != "tasks";
    for figure in part.figures.iter().filter(|f| f.of.is_empty()).filter(shown) {
        let name = bare(&figure.metric.name).replace('_', " ");
        let name =
            if figure.metric.unit == Unit::PerSecond { format!("{name} a second") } else { name };
        let name = name.replace(" per a second", " a second");
        let _ = write!(text, "  {name:32} {:<14}", human(figure.value, figure.metric.unit));
        for role in part.figures.iter().filter(|f| !f.of.is_empty()) {
            if role.metric == figure.metric {
                let _ = write!(text, " {} {}", role.of, human(role.value, role.metric.unit));
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text.push_str(&beside(Some(&figure.metric.name), warnings, &part.figures));
    }
    text
}

/// A row for each series of an interval, with these percentiles.
fn series(whole: &Interval, percents: &[f64]) -> TextTable {
    let percentiles: Vec<String> = percents.iter().map(|percent| format!("p{percent}")).collect();
    let mut heads = vec!["<"];
    heads.extend(percentiles.iter().map(String::as_str));
    heads.extend(["max", "1?samples"]);
    let mut table = TextTable::new(&heads);
    for series in &whole.total {
        let value = |value: Option<u64>| human(value.unwrap_or(0) as f64, series.metric.unit);
        let at = |percent: &f64| value(series.histogram.quantile(percent / 100.0));
        let mut cells = vec![format!("{} ({})", bare(&series.metric.name), series.of)];
        cells.extend(percents.iter().map(at));
        cells.push(value(series.histogram.max()));
        cells.push(human(series.histogram.count() as f64, Unit::Count));
        table.row(cells);
    }
    table
}

pub(super) fn csv(measured: &Measured, percents: &[f64]) -> String {
    struct Line {
        metric: String,
        of: String,
        unit: Unit,
        value: f64,
    }
    let columns = columns! { row: Line;
        "metric" = row.metric.clone(), "The metric (docs/metrics.md).";
        "of" = row.of.clone(), "Whose it is: a role or a label; empty for all tasks.";
        "unit" = serde_json::to_value(row.unit).unwrap_or_default().as_str().unwrap_or_default().to_owned(), "The unit.";
        "value" = row.value.to_string(), "The value in this unit.";
    };
    // Labels may look like formulas: `-A1`.
    let csv = Csv::new(&columns, false);
    let mut text = csv.head();
    let mut line = |metric: &str, of: &str, unit: Unit, value: f64| {
        csv.line(&Line { metric: metric.into(), of: of.into(), unit, value }, &mut text);
    };
    for figure in &measured.figures {
        line(&figure.metric.name, &figure.of, figure.metric.unit, figure.value);
    }
    let mut all = |whole: Option<&Interval>, of: &dyn Fn(&str) -> String| {
        for series in whole.iter().flat_map(|whole| &whole.total) {
            for percent in percents {
                let value = series.histogram.quantile(percent / 100.0).unwrap_or(0) as f64;
                let name = format!("{}{}", series.metric.name, suffix(*percent));
                line(&name, &of(&series.of), series.metric.unit, value);
            }
        }
    };
    all(measured.whole(), &str::to_owned);
    for beside in &measured.spec.beside {
        let whole = measured.beside.get(&beside.label).and_then(|all| all.last());
        all(whole, &|of| beside.of(of));
    }
    text
}
