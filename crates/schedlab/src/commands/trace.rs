//! `schedlab trace`: questions to a trace, a file each.

mod blocked;
mod columns;
mod compare;
mod conservation;
mod convert;
mod cpus;
mod cut;
mod episode;
mod events;
mod groups;
mod info;
pub(crate) mod input;
#[cfg(feature = "parquet")]
mod intervals;
mod latency;
mod locality;
mod migrations;
mod power;
mod ran_instead;
pub(crate) mod table;
mod tasks;
mod waiting;
mod why;

use crate::json::{self, Schema};
use clap::Subcommand;
use std::process::ExitCode;

/// Options of `schedlab trace`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    /// Print what the file holds: events by kind and CPU, losses, clock
    Info(info::Args),
    /// Print wakeup latency and run delay, with percentiles
    Latency(latency::Args),
    /// Print run time, slices, switches and migrations of each task
    Tasks(tasks::Args),
    /// Print utilisation, idle, unknown and overloaded time of each CPU
    Cpus(cpus::Args),
    /// Print how many tasks ran and waited over time
    Waiting(waiting::Args),
    /// Print the CPU time that was lost while tasks waited: where, how much, and why
    Conservation(conservation::Args),
    /// Explain why a task was late: what it did in an interval
    Why(why::Args),
    /// Print frequencies, idle states, IPIs and timers of CPUs, and work of tasks in cycles
    Power(power::Args),
    /// Print who wakes whom, wakeups that leave the LLC, node or socket, and run time away from home
    Locality(locality::Args),
    /// Print migrations: how far, by what, and in which chains
    Migrations(migrations::Args),
    /// Compare two traces on all of the above
    Compare(compare::Args),
    /// Print events, filtered, in pages
    Events(events::Args),
    /// Write a part of a trace as trace.dat: a time range, CPUs or tasks
    Cut(cut::Args),
    /// Convert a trace to another format, and report what that format cannot hold
    Convert(convert::Args),
}

/// What the questions print with `--json`.
pub(crate) fn documents() -> Vec<Schema> {
    vec![
        json::of::<info::Document>(),
        json::of::<latency::Document>(),
        json::of::<tasks::Document>(),
        json::of::<cpus::Document>(),
        json::of::<waiting::Document>(),
        json::of::<conservation::Document>(),
        json::of::<why::Document>(),
        json::of::<why::RequestsDocument>(),
        json::of::<locality::Document>(),
        json::of::<migrations::Document>(),
        json::of::<compare::Document>(),
        json::of::<events::Document>(),
        json::of::<groups::Document>(),
        json::of::<power::Document>(),
    ]
}

/// What the docs tell about the rows of each question.
#[cfg(test)]
fn described() -> Vec<columns::Described> {
    vec![
        columns::described::<latency::Document>(),
        columns::described::<tasks::Document>(),
        columns::described::<cpus::Document>(),
        columns::described::<waiting::Document>(),
        columns::described::<conservation::Document>(),
        columns::described::<why::Document>(),
        columns::described::<locality::Document>(),
        columns::described::<migrations::Document>(),
        columns::described::<compare::Document>(),
        columns::described::<events::Document>(),
        columns::described::<groups::Document>(),
        columns::described::<power::Document>(),
    ]
}

/// Runs it.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.question {
        Question::Info(args) => info::run(&args),
        Question::Latency(args) => latency::run(&args),
        Question::Tasks(args) => tasks::run(&args),
        Question::Cpus(args) => cpus::run(&args),
        Question::Waiting(args) => waiting::run(&args),
        Question::Conservation(args) => conservation::run(&args),
        Question::Why(args) => why::run(&args),
        Question::Power(args) => power::run(&args),
        Question::Locality(args) => locality::run(&args),
        Question::Migrations(args) => migrations::run(&args),
        Question::Compare(args) => compare::run(&args),
        Question::Events(args) => events::run(&args),
        Question::Cut(args) => cut::run(&args),
        Question::Convert(args) => convert::run(&args),
    }
}
