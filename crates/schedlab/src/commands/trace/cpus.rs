//! `schedlab trace cpus`: what each CPU did with its time.

use super::input::{self, Input};
use super::table::{Table, percent};
use schedlab_model::Nanos;
use schedlab_timeline::{CpuRow, Cpus, CpusAnswer, Reply};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Options of `schedlab trace cpus`.
#[derive(clap::Args)]
#[command(after_help = "\
A CPU is unknown, not idle, before its first event and from a loss to its next switch. It is
overloaded while one task runs on it and at least one more waits there.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let reply = args.input.ask(|_| Cpus::new())?;
    if args.input.part.json {
        let mut object = input::head("cpus", &reply);
        object.insert("cpus".into(), reply.answer.rows.iter().map(row_json).collect());
        input::print_json(object)?;
    } else {
        input::print_text(&to_text(&reply))?;
        input::print_notes(&reply.warnings);
    }
    Ok(ExitCode::SUCCESS)
}

fn row_json(row: &CpuRow) -> Value {
    json!({
        "cpu": row.cpu,
        "busy_ns": row.busy,
        "idle_ns": row.idle,
        "unknown_ns": row.unknown,
        "utilisation": row.utilisation(),
        "switches": row.switches,
        "wakeups": row.wakeups,
        "arrivals": row.arrivals,
        "overloaded_ns": row.overloaded,
        "waiting_max": row.waiting_max,
        "wait_ns": row.waited,
    })
}

fn to_text(reply: &Reply<CpusAnswer>) -> String {
    let mut table = Table::new(&[
        "cpu",
        "busy",
        "idle",
        "unknown",
        "utilisation",
        "1?switches",
        "2?wakeups",
        "3?arrivals",
        "overloaded",
        "4?queue max",
        "5?waited here",
    ]);
    let rows = &reply.answer.rows;
    let cells = |name: String, row: &CpuRow| {
        vec![
            name,
            row.busy.to_string(),
            row.idle.to_string(),
            row.unknown.to_string(),
            percent(row.utilisation()),
            row.switches.to_string(),
            row.wakeups.to_string(),
            row.arrivals.to_string(),
            row.overloaded.to_string(),
            row.waiting_max.to_string(),
            row.waited.to_string(),
        ]
    };
    for row in rows {
        table.row(cells(row.cpu.to_string(), row));
    }
    let time = |of: fn(&CpuRow) -> Nanos| rows.iter().fold(Nanos::ZERO, |sum, row| sum + of(row));
    let count = |of: fn(&CpuRow) -> u64| rows.iter().map(of).sum();
    let all = CpuRow {
        cpu: schedlab_model::Cpu(0),
        busy: time(|row| row.busy),
        idle: time(|row| row.idle),
        unknown: time(|row| row.unknown),
        switches: count(|row| row.switches),
        wakeups: count(|row| row.wakeups),
        arrivals: count(|row| row.arrivals),
        overloaded: time(|row| row.overloaded),
        waiting_max: rows.iter().map(|row| row.waiting_max).max().unwrap_or(0),
        waited: time(|row| row.waited),
    };
    table.row(cells("all".into(), &all));
    format!("{}\n\n{}", input::looked_at(reply), table.text(0))
}
