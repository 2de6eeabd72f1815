//! `schedlab trace waiting`: how many tasks ran and how many waited, over time.

use super::columns::{self, Rows, Shown, shown};
use super::input::{self, Head, Input, Selection};
use super::table::percent;
use crate::json;
use schedlab_model::Nanos;
use schedlab_timeline::{Bin, Reply, Waiting, WaitingAnswer};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Options of `schedlab trace waiting`.
#[derive(clap::Args)]
#[command(after_help = "\
Means are integrals over the interval; minima and maxima hold at some instant of it. While tasks
wait and fewer run than there are CPUs, CPU time may be lost: see `schedlab trace conservation`.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    selection: Selection,
    /// Divide the time into at most N bins
    #[arg(long, value_name = "N", default_value_t = 24)]
    bins: usize,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let chosen = args.input.chosen(&args.selection)?;
    let about = input::of_chosen(&chosen);
    let reply = args.input.ask(|_| Waiting::new(args.bins).about(chosen))?;
    columns::print(&args.input.part, &reply.warnings, &Document::of(&reply), |document| {
        to_text(document, &reply, &about)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab trace waiting --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    #[serde(flatten)]
    head: Head,
    /// How many CPUs were observed.
    cpus: usize,
    /// How long a stretch is.
    bin_ns: Nanos,
    /// Stretches of time, one after the other.
    bins: Vec<Stretch>,
    /// All stretches together.
    total: Curve,
    /// For how long 0, 1, 2, ... tasks ran.
    running_time_ns: Vec<u64>,
    /// For how long 0, 1, 2, ... tasks waited.
    waiting_time_ns: Vec<u64>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/trace-waiting/1";
}

impl columns::Answer for Document {
    type Row = Stretch;

    fn rows(&self) -> Vec<&Stretch> {
        self.bins.iter().collect()
    }
}

/// A stretch of time: how many tasks ran and waited.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Stretch {
    /// Where it begins.
    start_ns: Nanos,
    #[serde(flatten)]
    curve: Curve,
}

/// How many tasks ran and waited: the mean over the time, and extremes at some instant of it.
#[derive(Serialize, JsonSchema)]
struct Curve {
    /// Mean number of tasks that ran.
    running_mean: f64,
    /// The fewest tasks that ran at an instant.
    running_min: u32,
    /// The most tasks that ran at an instant.
    running_max: u32,
    /// Mean number of tasks that waited.
    waiting_mean: f64,
    /// The fewest tasks that waited at an instant.
    waiting_min: u32,
    /// The most tasks that waited at an instant.
    waiting_max: u32,
    /// Time that was observed.
    seen_ns: u64,
}

impl Curve {
    fn of(bin: &Bin) -> Self {
        Self {
            running_mean: bin.running_mean(),
            running_min: bin.running_min,
            running_max: bin.running_max,
            waiting_mean: bin.waiting_mean(),
            waiting_min: bin.waiting_min,
            waiting_max: bin.waiting_max,
            seen_ns: bin.seen_ns,
        }
    }
}

impl Document {
    fn of(reply: &Reply<WaitingAnswer>) -> Self {
        let answer = &reply.answer;
        let start = answer.start - reply.origin;
        let bins = answer.bins.iter().zip(0_u64..).map(|(bin, i)| Stretch {
            start_ns: start + Nanos(i * answer.width.0),
            curve: Curve::of(bin),
        });
        Self {
            head: Head::of(reply),
            cpus: answer.cpus,
            bin_ns: answer.width,
            bins: bins.collect(),
            total: Curve::of(&answer.total()),
            running_time_ns: answer.running_time_ns.clone(),
            waiting_time_ns: answer.waiting_time_ns.clone(),
        }
    }
}

static SHOWN: [Shown; 8] = [
    shown("from", "start_ns"),
    shown("running: mean", "running_mean"),
    shown("1?running: min", "running_min"),
    shown("2?running: max", "running_max"),
    shown("waiting: mean", "waiting_mean"),
    shown("3?waiting: min", "waiting_min"),
    shown("4?waiting: max", "waiting_max"),
    shown("<|running #, waiting + (one a task)", "bars"),
];

/// Marks that a CPU's worth of tasks takes, where there is room.
const MARKS_MAX: f64 = 40.0;

fn to_text(document: &Document, reply: &Reply<WaitingAnswer>, about: &str) -> String {
    let answer = &reply.answer;
    let longest = answer.bins.iter().map(|bin| bin.running_mean() + bin.waiting_mean());
    // A row of marks has a limit, so that a table of 128 CPUs stays a table.
    let scale = (MARKS_MAX / longest.fold(1.0, f64::max)).min(1.0);
    let marks = |mean: f64| (mean * scale).round() as usize;
    let bars = |curve: &Curve| {
        let (running, waiting) = (marks(curve.running_mean), marks(curve.waiting_mean));
        format!("|{}{}", "#".repeat(running), "+".repeat(waiting))
    };
    let mut table = Rows::new(&SHOWN);
    for row in &document.bins {
        table.row(row, &[("bars", bars(&row.curve))]);
    }
    let all = ("start_ns", "all".to_owned());
    table.row(&document.total, &[all, ("bars", bars(&document.total))]);
    let all: u64 = answer.waiting_time_ns.iter().sum();
    let none = answer.waiting_time_ns.first().copied().unwrap_or(0);
    let someone = (all > 0).then(|| (all - none) as f64 / all as f64);
    format!(
        "running and waiting tasks in {}{about}; somebody waited {} of the time\n\n{}",
        input::looked_at(reply),
        percent(someone),
        table.text(0)
    )
}
