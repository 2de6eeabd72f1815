//! `schedlab trace waiting`: how many tasks ran and how many waited, over time.

use super::input::{self, Head, Input, Selection};
use super::table::{Table, percent};
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
    /// Stretches of time to print, at most
    #[arg(long, value_name = "N", default_value_t = 24)]
    bins: usize,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let chosen = args.input.chosen(&args.selection)?;
    let about = input::of_chosen(&chosen);
    let reply = args.input.ask(|_| Waiting::new(args.bins).about(chosen))?;
    if args.input.part.json {
        json::print(&Document::of(&reply))?;
    } else {
        input::print_text(&to_text(&reply, &about))?;
        input::print_notes(&reply.warnings);
    }
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

#[derive(Serialize, JsonSchema)]
struct Stretch {
    start_ns: Nanos,
    #[serde(flatten)]
    curve: Curve,
}

/// How many tasks ran and waited: the mean over the time, and extremes at some instant of it.
#[derive(Serialize, JsonSchema)]
struct Curve {
    running_mean: f64,
    running_min: u32,
    running_max: u32,
    waiting_mean: f64,
    waiting_min: u32,
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

fn to_text(reply: &Reply<WaitingAnswer>, about: &str) -> String {
    let answer = &reply.answer;
    let mut table = Table::new(&[
        "from",
        "running: mean",
        "1?running: min",
        "2?running: max",
        "waiting: mean",
        "3?waiting: min",
        "4?waiting: max",
        "<|running #, waiting + (one a task)",
    ]);
    let longest = answer.bins.iter().map(|bin| bin.running_mean() + bin.waiting_mean());
    // A row of marks is at most 40 wide, so that a table of 128 CPUs stays a table.
    let scale = (40.0 / longest.fold(1.0, f64::max)).min(1.0);
    let marks = |mean: f64| (mean * scale).round() as usize;
    let cells = |name: String, bin: &Bin| {
        vec![
            name,
            format!("{:.2}", bin.running_mean()),
            bin.running_min.to_string(),
            bin.running_max.to_string(),
            format!("{:.2}", bin.waiting_mean()),
            bin.waiting_min.to_string(),
            bin.waiting_max.to_string(),
            format!(
                "|{}{}",
                "#".repeat(marks(bin.running_mean())),
                "+".repeat(marks(bin.waiting_mean()))
            ),
        ]
    };
    for (i, bin) in answer.bins.iter().enumerate() {
        let from = answer.start - reply.origin + Nanos(answer.width.0 * i as u64);
        table.row(cells(from.to_string(), bin));
    }
    table.row(cells("all".into(), &answer.total()));
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
