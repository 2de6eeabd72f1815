//! `schedlab jobs storm`: threads that post without a pause, and whether each executor does jobs meanwhile.

use super::table;
use crate::commands::UsageError;
use crate::json;
use anyhow::Context;
use schedlab_jobs::adaptors::{POSTING, posting};
use schedlab_model::table::{Column, Row, Rows, Share, column};
use schedlab_model::{Nanos, columns};
use schedlab_rig::{PostTiming, Storm, storm, waits_for_later};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;

/// A standstill of more than this is a finding.
const STANDSTILL: Nanos = Nanos(250_000_000);

/// Options of `jobs storm`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Number of threads that post
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    posters: u16,
    /// Number of workers of each executor
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Post jobs for this time
    #[arg(long, default_value = "1s")]
    time: Nanos,
    /// Let each poster post one job every TIME, whether earlier jobs have started or not (open loop)
    #[arg(long, value_name = "TIME", conflicts_with = "closed")]
    gap: Option<Nanos>,
    /// Let each poster wait for the end of its job before it posts the next one (closed loop)
    #[arg(long)]
    closed: bool,
    /// Executors, in this order: schedlab, lumiera, rayon, tokio, channel
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = POSTING)]
    executor: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What one executor did.
struct ExecutorStorm {
    executor: String,
    later: Option<Nanos>,
    storm: Storm,
}

impl Row for ExecutorStorm {
    const ABOUT: &'static str = "What one executor did.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "executor" ["executor"] = row.executor.clone(), "Name of the executor.";
            "posted" ["posted", 2] = row.storm.posted, "Jobs that the executor took.";
            "done" ["done meanwhile", 5] = row.storm.done, "Jobs that were done while posters posted.";
            "standstill_ns" ["standstill"] = row.storm.standstill, "The longest time without a job that was done, while posters posted.";
            "start_ns_p50" ["post to start p50", 1] = row.storm.start_p50, "From the post of a job to its start.";
            "start_ns_p99" ["p99", 1] = row.storm.start_p99, "99 % of these times are not longer.";
            "refused" ["refused", 4] = row.storm.refused, "How often the executor had no room.";
            "drained_ns" ["rest done after", 3] = row.storm.drained_after, "From the end of posting until all jobs were done; null: they were not within a minute.";
            "later_ns" ["waits for later", 3] = row.later, "From the post of a burst whose first job waits for its last one, until the first has ended; null: it was not served within 2 s, or there is one worker.";
        }
    }
}

/// What `jobs storm` measured.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document<'a> {
    posters: u16,
    workers: u16,
    interrupted: bool,
    results: Rows<'a, ExecutorStorm>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/jobs-storm/1";
}

pub(super) fn run(args: &Args, room: usize) -> anyhow::Result<ExitCode> {
    if let Some(name) = args.executor.iter().find(|name| !POSTING.contains(&name.as_str())) {
        let what = format!("--executor: '{name}' takes no single jobs: use {}", POSTING.join(", "));
        return Err(UsageError(what).into());
    }
    let pace = match args.gap.filter(|gap| gap.0 > 0) {
        Some(gap) => PostTiming::Open(gap),
        None if args.closed => PostTiming::Closed,
        None => PostTiming::Flood,
    };
    let mut results = Vec::new();
    for name in &args.executor {
        if super::interrupted() {
            break;
        }
        let post = posting(name, args.workers.into()).with_context(|| name.clone())?;
        let post = post.with_context(|| format!("{name} is not built in"))?;
        let later = if args.workers > 1 { waits_for_later(&post) } else { None };
        let posters = args.posters.into();
        let storm = storm(&post, posters, args.time, pace, super::interrupted)?;
        results.push(ExecutorStorm { executor: name.clone(), later, storm });
    }
    if args.json {
        json::print(&Document {
            posters: args.posters,
            workers: args.workers,
            interrupted: super::interrupted(),
            results: Rows::new(&results, Nanos::ZERO),
        })?;
    } else {
        table::say(&text(args, &results, room))?;
    }
    Ok(super::code(ExitCode::SUCCESS))
}

fn text(args: &Args, results: &[ExecutorStorm], room: usize) -> String {
    let Args { posters, workers, .. } = args;
    let mut text = String::new();
    for row in results.iter().filter(|row| row.storm.standstill > STANDSTILL) {
        let time = row.storm.standstill.readable();
        let _ = writeln!(
            text,
            "{} did no job for {time} while {posters} threads posted: posting stops its work",
            row.executor
        );
    }
    for row in results.iter().filter(|row| *workers > 1 && row.later.is_none()) {
        let _ = writeln!(
            text,
            "{} leaves a job of a burst to a worker whose job waits for it",
            row.executor
        );
    }
    let partial = if super::interrupted() { " (interrupted)" } else { "" };
    let _ = writeln!(text, "{posters} posters, {workers} workers{partial}");
    let of = |row: &ExecutorStorm| row.storm.done as f64 / row.storm.posted.max(1) as f64;
    let share = column("share", "Done meanwhile, of those posted.", move |row| Share(of(row)))
        .title("share")
        .spelled(move |row| format!("{:.0} %", 100.0 * of(row)));
    let rows = Rows::new(results, Nanos::ZERO).before("standstill_ns", share);
    text + &table::rows(&rows, room, &[])
}
