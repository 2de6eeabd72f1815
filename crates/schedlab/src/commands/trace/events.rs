//! `schedlab trace events`: events as a list, page by page.

use super::columns::{self, Rows, Shown, shown};
use super::cut::{Bounded, Bounds};
use super::input::Head;
use crate::commands::UsageError;
use crate::json;
use anyhow::bail;
use schedlab_model::{Cpu, Nanos, Pid, Point};
use schedlab_trace::{Line, List, list};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab trace events`.
#[derive(clap::Args)]
#[command(after_help = "\
Times are those of the trace's clock, as trace-cmd and perf print them, and since the trace began.
--pid, --comm and --regex choose events that name one of these tasks or that fired while it ran.
`schedlab trace convert FILE all.csv` writes all events.

Examples:
  schedlab trace events x.dat --from 2s --event sched_waking,irq
  schedlab trace events x.dat --comm server --skip 100")]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads; - is stdin
    file: PathBuf,
    #[command(flatten)]
    bounds: Bounds,
    /// Print only these events: a name, system:name, or a system
    #[arg(long = "event", value_name = "EVENT,...", value_delimiter = ',')]
    events: Vec<String>,
    /// Skip the first N events
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// Print at most N events
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print the rows as CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Bounded { part, origin, span } = args.bounds.of(&args.file)?;
    let wanted = |system: &str, name: &str| {
        let full = |asked: &str| {
            asked.split_once(':').is_some_and(|(before, after)| before == system && after == name)
        };
        let is =
            |asked: &String| asked == name || asked == system && !system.is_empty() || full(asked);
        args.events.is_empty() || args.events.iter().any(is)
    };
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let list = list(&args.file, &part, &wanted, (args.skip, limit))?;
    if list.lines.is_empty() {
        nothing(args, &list)?;
    }
    let rows = list.lines.iter().map(|line| Row::of(line, origin)).collect();
    let next = list.more.then(|| args.skip + list.lines.len() as u64);
    let head = Head::about(origin, span, &list.warnings);
    let document = Document { head, events: rows, next_skip: next };
    columns::print_as((args.json, args.csv), &list.warnings, &document, |document| {
        to_text(document, args.skip)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Why the page is empty, where that is an error.
fn nothing(args: &Args, list: &List) -> anyhow::Result<()> {
    let file = args.file.display();
    if args.skip > 0 {
        let what = format!("{file}: invalid --skip {}: the trace holds fewer events", args.skip);
        return Err(UsageError(what).into());
    }
    let is_known = |asked: &String| {
        list.known.iter().any(|known| {
            known == asked
                || known.split(':').any(|part| part == asked.as_str())
                || asked.strip_prefix("sched:").is_some_and(|name| name == known)
                || asked == "sched" && known.starts_with("sched_")
        })
    };
    if let Some(unknown) = args.events.iter().find(|asked| !is_known(asked)) {
        bail!("{file}: it has no event '{unknown}'; `schedlab trace info {file}` lists them");
    }
    Ok(())
}

/// `schedlab trace events --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    #[serde(flatten)]
    head: Head,
    /// The events, in order of time.
    events: Vec<Row>,
    /// What `--skip` gives the next page; `null` on the last.
    next_skip: Option<u64>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/trace-events/1";
}

impl columns::Answer for Document {
    type Row = Row;

    fn rows(&self) -> Vec<&Row> {
        self.events.iter().collect()
    }
}

/// An event.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Row {
    /// Seconds on the trace's clock, with nine digits. A text, since JSON numbers lose nanoseconds.
    time: String,
    /// When it fired, since the trace began.
    at_ns: Nanos,
    /// The CPU that logged it.
    cpu: Cpu,
    /// The task that ran there.
    pid: Pid,
    /// Its name then.
    comm: String,
    /// What the CPU was doing: `task`, `softirq`, `hardirq` or `nmi`.
    context: &'static str,
    /// The event's name.
    event: String,
    /// What it says, as `trace-cmd report` spells it.
    arguments: String,
}

impl Row {
    fn of(line: &Line, origin: Nanos) -> Self {
        Self {
            time: Point::At(line.time).to_string().trim_start_matches('@').to_owned(),
            at_ns: line.time - origin,
            cpu: line.cpu,
            pid: line.by,
            comm: line.by_comm.clone(),
            context: line.context,
            event: line.event.clone(),
            arguments: line.arguments.clone(),
        }
    }
}

static SHOWN: [Shown; 8] = [
    shown("time", "time"),
    shown("2?since begin", "at_ns"),
    shown("cpu", "cpu"),
    shown("pid", "pid"),
    shown("<comm", "comm"),
    shown("<1?context", "context"),
    shown("<event", "event"),
    shown("<arguments", "arguments"),
];

fn to_text(document: &Document, skip: u64) -> String {
    let mut table = Rows::new(&SHOWN);
    for row in &document.events {
        table.row(row, &[]);
    }
    let mut text = table.text(0);
    let count = document.events.len() as u64;
    match document.next_skip {
        Some(next) => {
            let (first, last) = (skip + 1, skip + count);
            let _ = writeln!(text, "events {first} to {last}; --skip {next} shows the next");
        }
        None => {
            let _ = writeln!(text, "{} events, the last of them", skip + count);
        }
    }
    text
}
