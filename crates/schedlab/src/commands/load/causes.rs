//! `schbench --causes OPTION=V,V,...`: requests a second against each of what takes them away (CPUs
//! that idle, involuntary switches, late wakeups), with the lock of a CPU and without it (`-L`), as one
//! table over the values of an option. The runs are a plan for the one run loop.

use super::once::{EXIT_INTERRUPTED, run_error};
use super::repeat::{folder_of, perform};
use super::show::{self, human};
use super::{Wanted, usage};
use crate::json;
use schedlab_experiment::{Hooks, Machines, Plan, Planned, RunId, StoredRun};
use schedlab_model::table::{Csv, TextTable, column};
use schedlab_model::{Unit, columns};
use schedlab_stats::Sample;
use schedlab_workload::{Machine, RunSpec, WorkloadSpec};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

/// A metric of the table.
struct Metric {
    /// Its name in JSON and CSV.
    name: &'static str,
    /// What it counts.
    about: &'static str,
    /// Its head in the text table, with its rank there.
    title: &'static str,
    unit: Unit,
    value: fn(&StoredRun) -> Option<f64>,
}

const METRICS: [Metric; 7] = [
    Metric {
        name: "requests_per_s",
        about: "Requests that were done in a second.",
        title: "achieved",
        unit: Unit::PerSecond,
        value: |run| figure(run, "requests_per_s"),
    },
    Metric {
        name: "requests_offered_per_s",
        about: "Requests that were asked for in a second; empty without a rate.",
        title: "1?offered",
        unit: Unit::PerSecond,
        value: |run| figure(run, "requests_offered_per_s").filter(|rate| *rate > 0.0),
    },
    Metric {
        name: "cpus_idle",
        about: "CPUs that idled, in the mean.",
        title: "idle CPUs",
        unit: Unit::Count,
        value: |run| figure(run, "cpus_idle"),
    },
    Metric {
        name: "switches_involuntary_per_s",
        about: "Context switches in a second by which the kernel displaced a task.",
        title: "2?invol. sw.",
        unit: Unit::PerSecond,
        value: |run| Some(figure(run, "switches_involuntary")? / figure(run, "time_s")?),
    },
    Metric {
        name: "wakeup_latency_ns_p99",
        about: "99 % of wakeup latencies are not longer, in nanoseconds.",
        title: "wakeup p99",
        unit: Unit::Nanoseconds,
        value: |run| figure(run, "wakeup_latency_ns_p99"),
    },
    Metric {
        name: "queue_depth_p99",
        about: "In 99 % of the time no more requests waited.",
        title: "3?queue p99",
        unit: Unit::Count,
        value: |run| figure(run, "queue_depth_p99"),
    },
    Metric {
        name: "requests_dropped",
        about: "Requests that were not done at all.",
        title: "4?dropped",
        unit: Unit::Count,
        value: |run| figure(run, "requests_dropped"),
    },
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
    /// A metric over the repeats.
    fn values(&self, metric: &Metric) -> Vec<f64> {
        self.runs.iter().filter_map(metric.value).collect()
    }

    fn median(&self, metric: &Metric) -> Option<f64> {
        Sample::new(self.values(metric)).ok().map(|sample| sample.median())
    }

    /// Whether less was done than was asked for.
    fn is_overloaded(&self) -> bool {
        let [achieved, offered, .., dropped] = &METRICS;
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
        (false, false) => text(&option, &rows, super::room(wanted)),
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

fn text(option: &str, rows: &[Row], room: usize) -> String {
    let repeats = rows.iter().map(|row| row.runs.len()).max().unwrap_or(0);
    let mut text = String::from("requests a second, and what takes them away");
    let _ = match repeats {
        0 | 1 => writeln!(text, " (one run each)\n"),
        _ => writeln!(text, " (medians of {repeats} runs)\n"),
    };
    let mut heads = vec![option, "<locks"];
    heads.extend(METRICS.iter().map(|metric| metric.title));
    heads.push("<");
    let mut table = TextTable::new(&heads);
    for row in rows {
        let shown = |metric: &Metric| {
            row.median(metric).map_or("-".to_owned(), |value| human(value, metric.unit))
        };
        let mut cells = vec![row.value.clone(), if row.locks { "yes" } else { "no (-L)" }.into()];
        cells.extend(METRICS.iter().map(shown));
        cells.push(if row.is_overloaded() { "overload" } else { "" }.to_owned());
        table.row(cells);
    }
    text += &table.text(0, room);
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
        figures: METRICS.iter().map(|metric| (metric.name, row.values(metric))).collect(),
    };
    Document { option: option.to_owned(), rows: rows.iter().map(row).collect() }
}

/// A run with the place of its row's setting.
struct OfRun<'a> {
    row: &'a Row,
    index: usize,
    run: &'a StoredRun,
}

/// A line for each run.
fn csv(option: &str, rows: &[Row]) -> String {
    let value = |of: &OfRun<'_>| of.row.value.clone();
    let mut columns =
        vec![column(option.to_owned(), "The value of the option that varies.", value)];
    columns.extend(columns! { of: OfRun<'_>;
        "locks" = of.row.locks, "Whether requests took the lock of their CPU.";
        "run" = of.index, "The run's place among those of its setting, from 0.";
        "overload" = of.row.is_overloaded(), "Whether less was done than offered.";
    });
    columns.extend(METRICS.iter().map(|metric| {
        let value = |of: &OfRun<'_>| (metric.value)(of.run).map(|value| value.to_string());
        column(metric.name, metric.about, value)
    }));
    let csv = Csv::new(&columns, true);
    let mut text = csv.head();
    for row in rows {
        for (index, run) in row.runs.iter().enumerate() {
            csv.line(&OfRun { row, index, run }, &mut text);
        }
    }
    text
}
