//! `schedlab trace cpus`: what each CPU did with its time.

use super::input::{self, Head, Input, Machine};
use super::migrations::Distances;
use super::table::{DISTANCES, Table, percent};
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
    if args.input.part.json {
        let cpus = reply.answer.rows.iter().map(CpuFigures::of).collect();
        json::print(&Document { head: Head::of(&reply), cpus })?;
    } else {
        input::print_text(&to_text(&reply, topology.is_some()))?;
        input::print_notes(&reply.warnings);
    }
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

/// What a CPU did with its time.
#[derive(Serialize, JsonSchema)]
struct CpuFigures {
    cpu: Cpu,
    busy_ns: Nanos,
    idle_ns: Nanos,
    unknown_ns: Nanos,
    /// Busy time as a part of busy and idle time.
    utilisation: Option<f64>,
    switches: u64,
    wakeups: u64,
    switches_voluntary: u64,
    switches_involuntary: u64,
    /// Migrations to this CPU.
    arrivals: u64,
    /// The same by what both CPUs share; all 0 if the topology is not known.
    arrivals_by_distance: Distances,
    /// How long one task ran here and at least one more waited.
    overloaded_ns: Nanos,
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

fn to_text(reply: &Reply<CpusAnswer>, has_topology: bool) -> String {
    let mut heads = vec![
        "cpu",
        "busy",
        "idle",
        "unknown",
        "utilisation",
        "1?switches: all",
        "4?switches: voluntary",
        "5?switches: involuntary",
        "overloaded",
        "6?queue max",
        "7?waited here",
        "2?wakeups",
        "3?migrations: to here",
    ];
    heads.extend(DISTANCES.iter().filter(|_| has_topology));
    let mut table = Table::new(&heads);
    let rows = &reply.answer.rows;
    let cells = |name: String, row: &CpuRow| {
        let mut cells = vec![
            name,
            row.busy.to_string(),
            row.idle.to_string(),
            row.unknown.to_string(),
            percent(row.utilisation()),
            row.switches.to_string(),
            row.voluntary.to_string(),
            row.involuntary.to_string(),
            row.overloaded.to_string(),
            row.waiting_max.to_string(),
            row.waited.to_string(),
            row.wakeups.to_string(),
            row.arrivals.to_string(),
        ];
        let far = row.arrivals_by.iter().skip(1).filter(|_| has_topology);
        cells.extend(far.map(ToString::to_string));
        cells
    };
    for row in rows {
        table.row(cells(row.cpu.to_string(), row));
    }
    let time = |of: fn(&CpuRow) -> Nanos| rows.iter().fold(Nanos::ZERO, |sum, row| sum + of(row));
    let count = |of: fn(&CpuRow) -> u64| rows.iter().map(of).sum();
    let all = CpuRow {
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
    };
    table.row(cells("all".into(), &all));
    format!("{}\n\n{}", input::looked_at(reply), table.text(0))
}
