//! `schedlab jobs storm`: threads that post without a pause, and whether each executor does jobs meanwhile.

use super::table;
use crate::commands::UsageError;
use crate::json;
use anyhow::Context;
use schedlab_jobs::adaptors::{POSTING, posting};
use schedlab_model::Nanos;
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
#[derive(Serialize, JsonSchema)]
struct Row {
    executor: String,
    /// From the post of a burst whose first job waits for its last one, until the first has ended; null: it was not
    /// served within 2 s, or there is one worker.
    later_ns: Option<u64>,
    /// Jobs that the executor took.
    posted: u64,
    /// How often the executor had no room.
    refused: u64,
    /// Jobs that were done while posters posted.
    done: u64,
    /// The longest time without a job that was done, while posters posted.
    standstill_ns: u64,
    /// From the post of a job to its start.
    start_ns_p50: Option<u64>,
    start_ns_p99: Option<u64>,
    /// From the end of posting until all jobs were done; null: they were not within a minute.
    drained_ns: Option<u64>,
}

/// What `jobs storm` measured.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    posters: u16,
    workers: u16,
    interrupted: bool,
    results: Vec<Row>,
}

impl json::Document for Document {
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
        results.push(Row::of(name, later, &storm));
    }
    let interrupted = super::interrupted();
    let document = Document { posters: args.posters, workers: args.workers, interrupted, results };
    if args.json {
        json::print(&document)?;
    } else {
        table::say(&document.text(room))?;
    }
    Ok(super::code(ExitCode::SUCCESS))
}

impl Row {
    fn of(executor: &str, later: Option<Nanos>, storm: &Storm) -> Self {
        Self {
            executor: executor.to_owned(),
            later_ns: later.map(|time| time.0),
            posted: storm.posted,
            refused: storm.refused,
            done: storm.done,
            standstill_ns: storm.standstill.0,
            start_ns_p50: storm.start_p50.map(|time| time.0),
            start_ns_p99: storm.start_p99.map(|time| time.0),
            drained_ns: storm.drained_after.map(|time| time.0),
        }
    }
}

impl Document {
    fn text(&self, room: usize) -> String {
        let Self { posters, workers, .. } = self;
        let mut text = String::new();
        for row in self.results.iter().filter(|row| row.standstill_ns > STANDSTILL.0) {
            let time = table::time(row.standstill_ns as f64);
            let _ = writeln!(
                text,
                "{} did no job for {time} while {posters} threads posted: posting stops its work",
                row.executor
            );
        }
        for row in self.results.iter().filter(|row| *workers > 1 && row.later_ns.is_none()) {
            let _ = writeln!(
                text,
                "{} leaves a job of a burst to a worker whose job waits for it",
                row.executor
            );
        }
        let partial = if self.interrupted { " (interrupted)" } else { "" };
        let _ = writeln!(text, "{posters} posters, {workers} workers{partial}");
        let head = ["executor", "posted", "done meanwhile", "share", "standstill"];
        let more = ["post to start p50", "p99", "refused", "rest done after", "waits for later"];
        let mut rows = vec![head.into_iter().chain(more).map(str::to_owned).collect()];
        let time = |ns: Option<u64>| ns.map_or_else(|| "-".into(), |ns| table::time(ns as f64));
        for row in &self.results {
            let share = 100.0 * row.done as f64 / row.posted.max(1) as f64;
            rows.push(vec![
                row.executor.clone(),
                row.posted.to_string(),
                row.done.to_string(),
                format!("{share:.0} %"),
                time(Some(row.standstill_ns)),
                time(row.start_ns_p50),
                time(row.start_ns_p99),
                row.refused.to_string(),
                time(row.drained_ns),
                time(row.later_ns),
            ]);
        }
        text + &table::fitting(&rows, &[0, 2, 5, 0, 0, 1, 1, 4, 3, 3], room)
    }
}
