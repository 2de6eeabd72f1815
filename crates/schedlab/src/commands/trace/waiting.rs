//! `schedlab trace waiting`: how many tasks ran and how many waited, over time.

use super::input::{self, Input, Selection};
use super::table::{Table, percent};
use schedlab_model::Nanos;
use schedlab_timeline::{Bin, Reply, Waiting, WaitingAnswer};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Options of `schedlab trace waiting`.
#[derive(clap::Args)]
#[command(after_help = "\
Exact, from events: means are integrals over the stretch, minima and maxima hold at some instant of it.
While tasks wait and fewer run than there are CPUs, work conservation may be violated: see
`schedlab trace conservation`.")]
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
        input::print_json(to_json(&reply))?;
    } else {
        input::print_text(&to_text(&reply, &about))?;
        input::print_notes(&reply.warnings);
    }
    Ok(ExitCode::SUCCESS)
}

fn bin_json(bin: &Bin) -> Value {
    json!({
        "running_mean": bin.running_mean(),
        "running_min": bin.running_min,
        "running_max": bin.running_max,
        "waiting_mean": bin.waiting_mean(),
        "waiting_min": bin.waiting_min,
        "waiting_max": bin.waiting_max,
        "seen_ns": bin.seen_ns,
    })
}

fn to_json(reply: &Reply<WaitingAnswer>) -> Value {
    let answer = &reply.answer;
    let mut object = input::head("waiting", reply);
    let start = (answer.start - reply.origin).0;
    let bins = answer.bins.iter().zip(0_u64..).map(|(bin, i)| {
        let mut value = bin_json(bin);
        value["start_ns"] = json!(start + i * answer.width.0);
        value
    });
    object.insert("cpus".into(), json!(answer.cpus));
    object.insert("bin_ns".into(), json!(answer.width));
    object.insert("bins".into(), bins.collect());
    object.insert("total".into(), bin_json(&answer.total()));
    object.insert("running_time_ns".into(), json!(answer.running_time_ns));
    object.insert("waiting_time_ns".into(), json!(answer.waiting_time_ns));
    object.into()
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
