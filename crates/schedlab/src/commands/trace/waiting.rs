//! `schedlab trace waiting`: how many tasks ran and how many waited, over time.

use super::form::Text;
use super::input::{self, Head, Input, Selection};
use crate::json;
use schedlab_model::table::{Bound, One, Rows, column};
use schedlab_model::{Nanos, Need, Unit, readable};
use schedlab_timeline::{Bin, PlacedBin, Reply, Waiting, WaitingAnswer};
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

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let chosen = args.input.chosen(&args.selection)?;
    let about = input::of_chosen(&chosen);
    let reply = args.input.ask(|_| Waiting::new(args.bins).about(chosen))?;
    let answer = &reply.answer;
    let bins = answer.placed();
    let total = answer.total();
    let exact = |need| reply.known.of(need) == Some(Bound::Exact);
    let document = Document {
        head: Head::of(&reply),
        cpus: answer.cpus,
        bin_ns: answer.width,
        bins: Rows::new(&bins, reply.origin).known(&reply.known),
        total: One::new(&total, reply.origin, false).known(&reply.known),
        running_time_ns: exact(Need::Running).then_some(&*answer.running_time_ns),
        waiting_time_ns: exact(Need::Waiting).then_some(&*answer.waiting_time_ns),
    };
    let form = args.input.part.form;
    form.print(&reply.warnings, &document, &document.bins, || {
        to_text(&reply, &bins, &about, form.room())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab trace waiting --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// How many CPUs were observed.
    cpus: usize,
    /// How long a stretch is.
    bin_ns: Nanos,
    /// Stretches of time, one after the other.
    bins: Rows<'a, PlacedBin>,
    /// All stretches together.
    total: One<'a, Bin>,
    /// For how long 0, 1, 2, ... tasks ran; `null` if the trace does not tell.
    running_time_ns: Option<&'a [u64]>,
    /// For how long 0, 1, 2, ... tasks waited; `null` if the trace does not tell.
    waiting_time_ns: Option<&'a [u64]>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-waiting/1";
}

/// Marks that a CPU's worth of tasks takes, where there is room.
const MARKS_MAX: f64 = 40.0;

fn to_text(reply: &Reply<WaitingAnswer>, bins: &[PlacedBin], about: &str, room: usize) -> Text {
    let answer = &reply.answer;
    let longest = answer.bins.iter().map(|bin| bin.running_mean() + bin.waiting_mean());
    // A row of marks has a limit, so that a table of 128 CPUs stays a table.
    let scale = (MARKS_MAX / longest.fold(1.0, f64::max)).min(1.0);
    let marks = move |mean: f64| (mean * scale).round() as usize;
    let bars = column("bars", "", move |row: &PlacedBin| {
        let running = marks(row.bin.running_mean());
        let waiting = marks(row.bin.waiting_mean());
        format!("|{}{}", "#".repeat(running), "+".repeat(waiting))
    });
    let bars = bars.title("|running #, waiting + (one a task)").rank(5);
    let rows = Rows::new(bins, reply.origin).known(&reply.known).and([bars]);
    let mut text = rows.text(room, &[]);
    text.all();
    let total = PlacedBin { start: answer.start, bin: answer.total() };
    text.row(&total, &[("start_ns", "all")]);
    let all: u64 = answer.waiting_time_ns.iter().sum();
    let none = answer.waiting_time_ns.first().copied().unwrap_or(0);
    let someone = if all > 0 { (all - none) as f64 / all as f64 } else { f64::NAN };
    let is_touched = text.is_touched(0);
    let text = format!(
        "running and waiting tasks in {}{about}; somebody waited {} of the time\n\n{}",
        input::looked_at(reply),
        input::figure(&reply.known, Need::Waiting, readable(someone, Unit::Fraction)),
        text.print(0)
    );
    Text { text, is_touched }
}
