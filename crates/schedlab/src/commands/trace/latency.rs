//! `schedlab trace latency`: how long tasks waited for a CPU.

use super::input::{self, Input, Selection};
use super::table::{Table, time};
use schedlab_stats::Histogram;
use schedlab_timeline::{Delays, Latency, LatencyAnswer, Reply};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Options of `schedlab trace latency`.
#[derive(clap::Args)]
#[command(after_help = "\
Wakeup latency: from sched_waking (or sched_wakeup, where that is missing) until the task runs.
Run delay: every time a task was runnable and did not run, after wakeups and after preemption.
Percentiles are within 0.4 %; maxima and sums are exact.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    selection: Selection,
    /// Rows to print, longest wait first; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 40)]
    top: usize,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut reply = args.input.ask(|_| Latency::new())?;
    if args.selection.is_any() {
        reply.answer = reply.answer.only(|pid, comm| args.selection.keeps(pid, comm));
    }
    if args.input.part.json {
        input::print_json(to_json(&reply))?;
    } else {
        input::print_text(&to_text(&reply, args.top))?;
        input::print_notes(&reply.warnings);
    }
    Ok(ExitCode::SUCCESS)
}

fn to_json(reply: &Reply<LatencyAnswer>) -> Value {
    let mut object = input::head("latency", reply);
    let row = |row: &schedlab_timeline::LatencyRow| {
        let mut value = delays_json(&row.delays);
        value["pid"] = json!(row.pid);
        value["comm"] = json!(row.comm);
        value
    };
    object.insert("tasks".into(), reply.answer.tasks.iter().map(row).collect());
    object.insert("total".into(), delays_json(&reply.answer.total));
    object.into()
}

/// `wakeup` and `run_delay` with the figures of the contract.
pub(crate) fn delays_json(delays: &Delays) -> Value {
    json!({
        "wakeup": histogram_json(&delays.wakeup),
        "run_delay": histogram_json(&delays.run_delay),
        "unfinished": delays.unfinished,
    })
}

/// `count` and `latency_ns_*`; `null` where there is no figure.
pub(crate) fn histogram_json(histogram: &Histogram) -> Value {
    let quantile = |q| histogram.quantile(q);
    json!({
        "count": histogram.count(),
        "latency_ns_p50": quantile(0.5),
        "latency_ns_p90": quantile(0.9),
        "latency_ns_p99": quantile(0.99),
        "latency_ns_p999": quantile(0.999),
        "latency_ns_max": histogram.max(),
        "latency_ns_sum": histogram.sum(),
    })
}

const HEADS: [&str; 14] = [
    "pid", "<comm", "wakeups", "p50", "p90", "p99", "p99.9", "max", "waits", "p50", "p99", "p99.9",
    "max", "sum",
];

fn cells(pid: String, comm: &str, delays: &Delays) -> Vec<String> {
    let (wakeup, all) = (&delays.wakeup, &delays.run_delay);
    let quantile = |histogram: &Histogram, q| time(histogram.quantile(q));
    vec![
        pid,
        comm.to_owned(),
        wakeup.count().to_string(),
        quantile(wakeup, 0.5),
        quantile(wakeup, 0.9),
        quantile(wakeup, 0.99),
        quantile(wakeup, 0.999),
        time(wakeup.max()),
        all.count().to_string(),
        quantile(all, 0.5),
        quantile(all, 0.99),
        quantile(all, 0.999),
        time(all.max()),
        time((all.count() > 0).then(|| all.sum())),
    ]
}

fn to_text(reply: &Reply<LatencyAnswer>, top: usize) -> String {
    let mut table = Table::new(&HEADS);
    table.row(cells(String::new(), "total", &reply.answer.total));
    for row in &reply.answer.tasks {
        table.row(cells(row.pid.to_string(), &row.comm, &row.delays));
    }
    let mut text = format!("wakeup latency, then run delay, in {}\n\n", input::looked_at(reply));
    text += &table.text(if top == 0 { 0 } else { top + 1 });
    if reply.answer.total.unfinished > 0 {
        let _ = writeln!(
            text,
            "{} waits were not seen to end; they are not in the figures",
            reply.answer.total.unfinished
        );
    }
    text
}
