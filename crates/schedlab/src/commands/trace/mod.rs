//! `schedlab trace`: questions to a trace, a file each.

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
mod meanwhile;
mod migrations;
mod power;
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
    /// What the file is and what it holds: events per kind and CPU, losses, clock
    Info(info::Args),
    /// Wakeup latency and run delay, with percentiles
    Latency(latency::Args),
    /// Run time, slices, switches and migrations of every task
    Tasks(tasks::Args),
    /// Utilisation, idle, unknown and overloaded time of every CPU
    Cpus(cpus::Args),
    /// How many tasks ran and how many waited, over time
    Waiting(waiting::Args),
    /// CPU time lost while tasks waited: where, how much, and why
    Conservation(conservation::Args),
    /// Why a task was late: what an interval of its life was spent on
    Why(why::Args),
    /// Frequencies, idle states, IPIs and timers of CPUs; work of tasks in cycles
    Power(power::Args),
    /// Who wakes whom, wakeups that leave the LLC, node or socket, run time away from home
    Locality(locality::Args),
    /// How many tasks were moved, how far and by what; chains of moves
    Migrations(migrations::Args),
    /// Two traces side by side on all of the above
    Compare(compare::Args),
    /// A list of events, filtered, page by page
    Events(events::Args),
    /// A part of a trace as a trace.dat: some of its time, CPUs and tasks
    Cut(cut::Args),
    /// From any format to any other; says what the target can't hold
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
