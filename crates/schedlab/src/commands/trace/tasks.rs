//! `schedlab trace tasks`: what each task did with its time.

use super::input::{self, Input, Machine, Selection};
use super::table::{DISTANCES, Table, percent, time};
use schedlab_model::{Distance, Nanos};
use schedlab_timeline::{Reply, TaskRow, Tasks, TasksAnswer};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Options of `schedlab trace tasks`.
#[derive(clap::Args)]
#[command(after_help = "\
A slice is an interval in which a task runs. A switch is voluntary when the task left its CPU to
sleep, stop or die, and involuntary when it stayed runnable (a yield included), as the kernel counts.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    machine: Machine,
    /// Rows to print, longest run time first; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 40)]
    top: usize,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut topology = args.machine.topology()?;
    let mut reply = args.input.ask(|info| {
        topology = topology.take().or_else(|| info.topology.clone());
        Tasks::by_distance(topology.clone())
    })?;
    if args.selection.is_any() {
        args.selection.check(&reply.state, &args.input.file)?;
        reply.answer = reply.answer.only(|pid, comm| args.selection.keeps(pid, comm));
    }
    if args.input.part.json {
        let mut object = input::head("tasks", &reply);
        object.insert("tasks".into(), reply.answer.rows.iter().map(row_json).collect());
        input::print_json(object)?;
    } else {
        input::print_text(&to_text(&reply, args.top, topology.is_some()))?;
        input::print_notes(&reply.warnings);
    }
    Ok(ExitCode::SUCCESS)
}

fn row_json(row: &TaskRow) -> Value {
    let by: serde_json::Map<String, Value> = Distance::ALL
        .into_iter()
        .zip(row.migrations_by)
        .map(|(distance, count)| (distance.name().replace(' ', "_"), json!(count)))
        .collect();
    json!({
        "pid": row.pid,
        "comm": row.comm,
        "run_ns": row.ran,
        "wait_ns": row.waited,
        "slices": row.slices.count(),
        "slice_ns_p50": row.slices.quantile(0.5),
        "slice_ns_p99": row.slices.quantile(0.99),
        "slice_ns_max": row.slices.max(),
        "switches_voluntary": row.voluntary,
        "switches_involuntary": row.involuntary,
        "wakeups": row.wakeups,
        "migrations": row.migrations,
        "migrations_by_distance": by,
    })
}

fn to_text(reply: &Reply<TasksAnswer>, top: usize, has_topology: bool) -> String {
    let mut heads = vec![
        "pid",
        "<comm",
        "run",
        "7?of a CPU",
        "wait",
        "3?slices: count",
        "1?slices: p50",
        "2?slices: p99",
        "4?slices: max",
        "6?switches: voluntary",
        "switches: involuntary",
        "5?wakeups",
        "migrations: all",
    ];
    heads.extend(DISTANCES.iter().filter(|_| has_topology));
    let mut table = Table::new(&heads);
    let window = reply.observed.duration();
    for row in &reply.answer.rows {
        let share = (window > Nanos::ZERO).then(|| row.ran.0 as f64 / window.0 as f64);
        let mut cells = vec![
            row.pid.to_string(),
            row.comm.clone(),
            row.ran.to_string(),
            percent(share),
            row.waited.to_string(),
            row.slices.count().to_string(),
            time(row.slices.quantile(0.5)),
            time(row.slices.quantile(0.99)),
            time(row.slices.max()),
            row.voluntary.to_string(),
            row.involuntary.to_string(),
            row.wakeups.to_string(),
            row.migrations.to_string(),
        ];
        let far = row.migrations_by.iter().skip(1).filter(|_| has_topology);
        cells.extend(far.map(ToString::to_string));
        table.row(cells);
    }
    let sum = |of: fn(&TaskRow) -> u64| reply.answer.rows.iter().map(of).sum::<u64>();
    format!(
        "{} tasks in {}: {} switches voluntary, {} involuntary, {} migrations\n\n{}",
        reply.answer.rows.len(),
        input::looked_at(reply),
        sum(|row| row.voluntary),
        sum(|row| row.involuntary),
        sum(|row| row.migrations),
        table.text(top)
    )
}
