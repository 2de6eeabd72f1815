//! `schedlab trace events`: events as a list, page by page.

use super::cut::{Bounded, Bounds};
use super::form::Form;
use super::input::Head;
use crate::commands::UsageError;
use crate::json;
use anyhow::bail;
use schedlab_model::table::Rows;
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
    #[command(flatten)]
    form: Form,
}

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
    let names = Some(schedlab_record::names_here());
    let list = list(&args.file, &part, &wanted, args.skip, limit, names)?;
    if list.lines.is_empty() {
        nothing(args, &list)?;
    }
    let last = args.skip + list.lines.len() as u64;
    let head = Head::about(origin, span, &list.warnings);
    let events = Rows::new(&list.lines, origin);
    let document = Document { head, events, next_skip: list.more.then_some(last) };
    args.form.print(&list.warnings, &document, &document.events, || {
        let mut table = document.events.text(args.form.room(), &[]);
        table.all();
        let mut text = crate::output::folded_table(&table.print(0), "arguments", args.form.room());
        let _ = match document.next_skip {
            Some(next) => {
                let first = args.skip + 1;
                writeln!(text, "events {first} to {last}; --skip {next} shows the next")
            }
            None => writeln!(text, "{last} events, the last of them"),
        };
        text
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
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// The events, in order of time.
    events: Rows<'a, Line>,
    /// What `--skip` gives the next page; `null` on the last.
    next_skip: Option<u64>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-events/1";
}
