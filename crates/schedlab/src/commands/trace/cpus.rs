//! `schedlab trace cpus`: what each CPU did with its time.

use super::form::Text;
use super::input::{self, Head, Input, Machine};
use crate::json;
use schedlab_model::table::Rows;
use schedlab_model::{Cpu, Nanos};
use schedlab_timeline::{CpuRow, Cpus};
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

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut topology = args.machine.topology()?;
    let reply = args.input.ask(|info| {
        topology = topology.take().or_else(|| info.topology.clone());
        Cpus::by_distance(topology.clone())
    })?;
    let rows = &reply.answer.rows;
    let document = Document {
        head: Head::of(&reply),
        cpus: Rows::new(rows, reply.origin).known(&reply.known),
    };
    let form = args.input.part.form;
    let hidden = if topology.is_some() { &[][..] } else { &["arrivals_by_distance"] };
    form.print(&reply.warnings, &document, &document.cpus, || {
        let mut text = document.cpus.text(form.room(), hidden);
        text.all();
        text.row(&sum(rows), &[("cpu", "all")]);
        let is_touched = text.is_touched(0);
        let text = format!("{}\n\n{}", input::looked_at(&reply), text.print(0));
        Text { text, is_touched }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab trace cpus --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// Each CPU that was observed.
    cpus: Rows<'a, CpuRow>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-cpus/1";
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
        arrivals_by: rows
            .iter()
            .map(|row| row.arrivals_by)
            .reduce(|sum, of| {
                let sum = sum?;
                let of = of?;
                Some(std::array::from_fn(|at| sum[at] + of[at]))
            })
            .flatten(),
        overloaded: time(|row| row.overloaded),
        waiting_max: rows.iter().map(|row| row.waiting_max).max().unwrap_or(0),
        waited: time(|row| row.waited),
    }
}
