//! `schbench --causes OPTION=V,V,...`: requests a second against each of what takes them away (CPUs
//! that idle, involuntary switches, late wakeups), with the lock of a CPU and without it (`-L`), as one
//! table over the values of an option. The runs are a plan for the one run loop.

use super::once::{EXIT_INTERRUPTED, run_error};
use super::repeat::{folder_of, perform};
use super::show::{self, human};
use super::{Wanted, usage};
use crate::json;
use schedlab_experiment::{Hooks, Machines, Plan, Planned, RunId, StoredRun};
use schedlab_model::Unit;
use schedlab_stats::Sample;
use schedlab_workload::{Machine, RunSpec, WorkloadSpec};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

/// A column: its key, its heading, its unit, and its value in a run.
type Column = (&'static str, &'static str, Unit, fn(&StoredRun) -> Option<f64>);

const COLUMNS: [Column; 7] = [
    ("requests_per_s", "achieved", Unit::PerSecond, |run| figure(run, "requests_per_s")),
    ("requests_offered_per_s", "offered", Unit::PerSecond, |run| {
        figure(run, "requests_offered_per_s").filter(|rate| *rate > 0.0)
    }),
    ("cpus_idle", "idle CPUs", Unit::Count, |run| figure(run, "cpus_idle")),
    ("switches_involuntary_per_s", "invol. sw.", Unit::PerSecond, |run| {
        Some(figure(run, "switches_involuntary")? / figure(run, "time_s")?)
    }),
    ("wakeup_latency_ns_p99", "wakeup p99", Unit::Nanoseconds, |run| {
        figure(run, "wakeup_latency_ns_p99")
    }),
    ("queue_depth_p99", "queue p99", Unit::Count, |run| figure(run, "queue_depth_p99")),
    ("requests_dropped", "dropped", Unit::Count, |run| figure(run, "requests_dropped")),
];

fn figure(run: &StoredRun, name: &str) -> Option<f64> {
    let found = run.figures.iter().find(|f| f.of.is_empty() && f.metric.name == name)?;
    Some(found.value)
}

/// A row of the table: its runs share option and locking.
struct Row {
    value: String,
    locks: bool,
    spec: RunSpec,
    runs: Vec<StoredRun>,
}

impl Row {
    /// A column over the repeats.
    fn values(&self, column: &Column) -> Vec<f64> {
        self.runs.iter().filter_map(column.3).collect()
    }

    fn median(&self, column: &Column) -> Option<f64> {
        Sample::new(self.values(column)).ok().map(|sample| sample.median())
    }

    /// Whether less was done than was asked for.
    fn is_overloaded(&self) -> bool {
        let [achieved, offered, .., dropped] = &COLUMNS;
        let done = self.median(achieved);
        let asked = self.median(offered);
        self.median(dropped).is_some_and(|n| n > 0.0)
            || done.zip(asked).is_some_and(|(done, asked)| done < 0.95 * asked)
    }
}

pub(super) fn run(wanted: &Wanted, machine: &mut dyn Machine) -> anyhow::Result<ExitCode> {
    let (option, mut rows) = rows(wanted)?;
    for row in &rows {
        machine.check(&row.spec).map_err(run_error)?;
    }
    let (runs, tally) =
        perform(&mut Machines::one(machine), &plan(wanted, &rows), folder_of(wanted)?.path())?;
    for row in &mut rows {
        let same = |run: &&StoredRun| run.manifest.spec.workload == row.spec.workload;
        row.runs = runs.iter().filter(same).cloned().collect();
    }
    show::print(&match (wanted.own.flag("json"), wanted.own.flag("csv")) {
        (true, _) => json::line(&document(&option, &rows))? + "\n",
        (false, true) => csv(&option, &rows),
        (false, false) => text(&option, &rows),
    })?;
    Ok(match (tally.stopped, tally.failed.is_empty()) {
        (true, _) => ExitCode::from(EXIT_INTERRUPTED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}

/// The option that varies, and a row for each of its values with locks and without.
fn rows(wanted: &Wanted) -> anyhow::Result<(String, Vec<Row>)> {
    if wanted.workload.name != "schbench" {
        return Err(usage("option causes: only schbench has requests of work"));
    }
    let text = wanted.own.text("causes");
    let Some((option, values)) = text.split_once('=').filter(|(_, values)| !values.is_empty())
    else {
        let why = "is invalid: use OPTION=VALUE,VALUE,..., as in threads=2,4,8 or rps=500,1000";
        return Err(usage(format!("option causes: '{text}' {why}")));
    };
    let mut rows = Vec::new();
    for value in values.split(',') {
        for locks in [true, false] {
            let mut spec = wanted.spec.clone();
            if let WorkloadSpec::Builtin { options, .. } = &mut spec.workload {
                options.insert(option.to_owned(), value.to_owned());
                options.insert("no-locking".to_owned(), (!locks).to_string());
            }
            rows.push(Row { value: value.to_owned(), locks, spec, runs: Vec::new() });
        }
    }
    Ok((option.to_owned(), rows))
}

fn plan(wanted: &Wanted, rows: &[Row]) -> Plan {
    let mut random = schedlab_stats::Random::new(wanted.spec.seed);
    let repeats = u32::try_from(wanted.own.number("repeat")).expect("in range");
    let mut runs = Vec::new();
    for block in 0..repeats {
        let one = |row: &Row| {
            let spec = RunSpec { repeat: block, ..row.spec.clone() };
            let workload = wanted.workload.name.to_owned();
            let point = BTreeMap::new();
            let machine = wanted.on.clone();
            let id = RunId::new(&machine, &spec);
            Planned { id, workload, point, block, spec, hooks: Hooks::default(), machine }
        };
        let mut round: Vec<Planned> = rows.iter().map(one).collect();
        random.shuffle(&mut round);
        runs.extend(round);
    }
    Plan { runs }
}

fn text(option: &str, rows: &[Row]) -> String {
    let repeats = rows.iter().map(|row| row.runs.len()).max().unwrap_or(0);
    let mut text = String::from("requests a second, and what takes them away");
    let _ = match repeats {
        0 | 1 => writeln!(text, " (one run each)\n"),
        _ => writeln!(text, " (medians of {repeats} runs)\n"),
    };
    let _ = write!(text, "{option:>12}  locks");
    for column in &COLUMNS {
        let _ = write!(text, "  {:>12}", column.1);
    }
    text.push('\n');
    for row in rows {
        let locks = if row.locks { "yes" } else { "no (-L)" };
        let _ = write!(text, "{:>12}  {locks:<7}", row.value);
        for (at, column) in COLUMNS.iter().enumerate() {
            let shown = row.median(column).map_or("-".to_owned(), |v| human(v, column.2));
            let width = if at == 0 { 10 } else { 12 };
            let _ = write!(text, "  {shown:>width$}");
        }
        text.push_str(if row.is_overloaded() { "  overload\n" } else { "\n" });
    }
    if rows.iter().any(Row::is_overloaded) {
        text.push_str(
            "\noverload: less was done than offered; latencies count from when a request was to start\n",
        );
    }
    text
}

/// `schedlab load schbench --causes --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    /// The option that varies.
    option: String,
    rows: Vec<Cause>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/load-causes/1";
}

/// The runs with one value of the option, with locks or without.
#[derive(Serialize, JsonSchema)]
struct Cause {
    value: String,
    locks: bool,
    /// Whether less was done than offered.
    overload: bool,
    /// Metrics (`docs/metrics.md`), a value for each run.
    #[serde(flatten)]
    figures: BTreeMap<&'static str, Vec<f64>>,
}

fn document(option: &str, rows: &[Row]) -> Document {
    let row = |row: &Row| Cause {
        value: row.value.clone(),
        locks: row.locks,
        overload: row.is_overloaded(),
        figures: COLUMNS.iter().map(|column| (column.0, row.values(column))).collect(),
    };
    Document { option: option.to_owned(), rows: rows.iter().map(row).collect() }
}

/// A line for each run.
fn csv(option: &str, rows: &[Row]) -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.0).collect();
    let mut text = format!("{option},locks,run,overload,{}\n", names.join(","));
    for row in rows {
        for (index, run) in row.runs.iter().enumerate() {
            let overload = row.is_overloaded();
            let _ = write!(text, "{},{},{index},{overload}", row.value, row.locks);
            for column in &COLUMNS {
                let value = column.3(run).map_or(String::new(), |value| value.to_string());
                let _ = write!(text, ",{value}");
            }
            text.push('\n');
        }
    }
    text
}
