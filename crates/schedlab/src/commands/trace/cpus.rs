//! `schedlab trace cpus`: what each CPU did with its time.

use super::columns::{self, Rows, Shown, shown};
use super::input::{self, Head, Input, Machine};
use super::migrations::Distances;
use super::table::DISTANCES;
use crate::json;
use schedlab_model::{Cpu, Nanos};
use schedlab_timeline::{CpuRow, Cpus, CpusAnswer, Reply};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Options of `schedlab trace cpus`.
#[derive(clap::Args)]
#[command(after_help = "\
A CPU is unknown, not idle, before its first event and from a loss to its next switch. It is
overloaded while one task runs on it and at least one more waits there.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    machine: Machine,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut topology = args.machine.topology()?;
    let reply = args.input.ask(|info| {
        topology = topology.take().or_else(|| info.topology.clone());
        Cpus::by_distance(topology.clone())
    })?;
    let cpus = reply.answer.rows.iter().map(CpuFigures::of).collect();
    let document = Document { head: Head::of(&reply), cpus };
    columns::print(&args.input.part, &reply.warnings, &document, |document| {
        to_text(document, &reply, topology.is_some())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab trace cpus --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    #[serde(flatten)]
    head: Head,
    /// Each CPU that was observed.
    cpus: Vec<CpuFigures>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/trace-cpus/1";
}

impl columns::Answer for Document {
    type Row = CpuFigures;

    fn rows(&self) -> Vec<&CpuFigures> {
        self.cpus.iter().collect()
    }
}

/// What a CPU did with its time.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CpuFigures {
    /// The CPU.
    cpu: Cpu,
    /// Time in which a task ran.
    busy_ns: Nanos,
    /// Time in which the idle task ran.
    idle_ns: Nanos,
    /// Time of which nothing is known.
    unknown_ns: Nanos,
    /// Busy time as a part of busy and idle time.
    utilisation: Option<f64>,
    /// Context switches, those of the idle task included.
    switches: u64,
    /// Wakeups that put a task here.
    wakeups: u64,
    /// Switches of tasks that blocked.
    switches_voluntary: u64,
    /// Switches of tasks that stayed runnable.
    switches_involuntary: u64,
    /// Migrations to this CPU.
    arrivals: u64,
    /// The same by what both CPUs share; all 0 if the topology is not known.
    arrivals_by_distance: Distances,
    /// How long one task ran here and at least one more waited.
    overloaded_ns: Nanos,
    /// The most tasks that waited here at once.
    waiting_max: u32,
    /// How long tasks waited here, summed over the tasks.
    wait_ns: Nanos,
}

impl CpuFigures {
    fn of(row: &CpuRow) -> Self {
        Self {
            cpu: row.cpu,
            busy_ns: row.busy,
            idle_ns: row.idle,
            unknown_ns: row.unknown,
            utilisation: row.utilisation(),
            switches: row.switches,
            wakeups: row.wakeups,
            switches_voluntary: row.voluntary,
            switches_involuntary: row.involuntary,
            arrivals: row.arrivals,
            arrivals_by_distance: Distances::of(row.arrivals_by),
            overloaded_ns: row.overloaded,
            waiting_max: row.waiting_max,
            wait_ns: row.waited,
        }
    }
}

static SHOWN: [Shown; 13] = [
    shown("cpu", "cpu"),
    shown("busy", "busy_ns"),
    shown("idle", "idle_ns"),
    shown("unknown", "unknown_ns"),
    shown("utilisation", "utilisation"),
    shown("1?switches: all", "switches"),
    shown("4?switches: voluntary", "switches_voluntary"),
    shown("5?switches: involuntary", "switches_involuntary"),
    shown("overloaded", "overloaded_ns"),
    shown("6?queue max", "waiting_max"),
    shown("7?waited here", "wait_ns"),
    shown("2?wakeups", "wakeups"),
    shown("3?migrations: to here", "arrivals"),
];

/// By distance, where the topology is known.
static SHOWN_FAR: [Shown; 5] = [
    shown(DISTANCES[0], "arrivals_by_distance.same_core"),
    shown(DISTANCES[1], "arrivals_by_distance.same_LLC"),
    shown(DISTANCES[2], "arrivals_by_distance.same_node"),
    shown(DISTANCES[3], "arrivals_by_distance.same_socket"),
    shown(DISTANCES[4], "arrivals_by_distance.other_socket"),
];

fn to_text(document: &Document, reply: &Reply<CpusAnswer>, has_topology: bool) -> String {
    let mut table = Rows::new(SHOWN.iter().chain(SHOWN_FAR.iter().filter(|_| has_topology)));
    for row in &document.cpus {
        table.row(row, &[]);
    }
    let all = sum(&reply.answer.rows);
    table.row(&CpuFigures::of(&all), &[("cpu", "all".to_owned())]);
    format!("{}\n\n{}", input::looked_at(reply), table.text(0))
}

/// All CPUs together.
fn sum(rows: &[CpuRow]) -> CpuRow {
    let time = |of: fn(&CpuRow) -> Nanos| rows.iter().fold(Nanos::ZERO, |sum, row| sum + of(row));
    let count = |of: fn(&CpuRow) -> u64| rows.iter().map(of).sum();
    CpuRow {
        cpu: Cpu(0),
        busy: time(|row| row.busy),
        idle: time(|row| row.idle),
        unknown: time(|row| row.unknown),
        switches: count(|row| row.switches),
        voluntary: count(|row| row.voluntary),
        involuntary: count(|row| row.involuntary),
        wakeups: count(|row| row.wakeups),
        arrivals: count(|row| row.arrivals),
        arrivals_by: std::array::from_fn(|at| rows.iter().map(|row| row.arrivals_by[at]).sum()),
        overloaded: time(|row| row.overloaded),
        waiting_max: rows.iter().map(|row| row.waiting_max).max().unwrap_or(0),
        waited: time(|row| row.waited),
    }
}
