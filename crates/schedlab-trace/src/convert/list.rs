//! Events as lines of a list, page by page.

use super::report::arguments;
use super::row::context;
use crate::task_names::TaskNames;
use crate::{Names, Options, Part, TraceError, open_with};
use schedlab_model::table::{At, Column, Row};
use schedlab_model::{Cpu, Event, Nanos, Pid, Point, TraceInfo, Warning, What, columns};
use std::path::Path;

/// An event, spelt as `trace-cmd report` spells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// On the trace's clock.
    pub(crate) time: Nanos,
    /// The CPU that logged it.
    pub(crate) cpu: Cpu,
    /// The task that ran there.
    pub(crate) by: Pid,
    /// The name that the task had at that time.
    pub(crate) by_comm: String,
    /// What the CPU was doing: `task`, `softirq`, `hardirq` or `nmi`.
    pub(crate) context: &'static str,
    /// The name of the event.
    pub(crate) event: String,
    /// The arguments of the event as text.
    pub(crate) arguments: String,
}

impl Row for Line {
    const ABOUT: &'static str = "An event.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "time" ["time"] = row.seconds(), "Seconds on the trace's clock, with nine digits. A text, since JSON numbers lose nanoseconds.";
            "at_ns" = At(row.time), "When it fired, since the trace began.";
            "cpu" ["cpu"] = row.cpu, "The CPU that logged it.";
            "pid" ["pid"] = row.by, "The task that ran there.";
            "comm" ["comm"] = row.by_comm.clone(), "Its name then.";
            "context" ["context", 1] = row.context, "What the CPU was doing: `task`, `softirq`, `hardirq` or `nmi`.";
            "event" ["event"] = row.event.clone(), "The event's name.";
            "arguments" ["arguments"] = row.arguments.clone(), "What it says, as `trace-cmd report` spells it.";
        }
    }
}

impl Line {
    fn seconds(&self) -> String {
        Point::At(self.time).to_string().trim_start_matches('@').to_owned()
    }
}

/// A page of a trace's events.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct List {
    /// The events, in order of time.
    pub lines: Vec<Line>,
    /// Whether more events follow that were asked for.
    pub more: bool,
    /// The names of all events that the trace describes, where nothing was found.
    pub known: Vec<String>,
    /// What was found wrong so far.
    pub warnings: Vec<Warning>,
}

/// Lists events of a part of the trace at `path`: `limit` of them behind the first `skip`. `wanted` is given the
/// system (empty for what no kernel has) and the name of each event. Names of tasks are not events. `names` are those of
/// functions in the call chains of a perf.data.
///
/// # Errors
/// As [`crate::open`].
pub fn list(
    path: &Path,
    part: &Part,
    wanted: &dyn Fn(&str, &str) -> bool,
    skip: u64,
    limit: usize,
    names: Option<Names>,
) -> Result<List, TraceError> {
    let failed = |error| TraceError::io(path, &error);
    let options = Options { arguments: true, names, ..Options::default() };
    let mut source = open_with(path, &options)?;
    let mut names = TaskNames::new(&source.info().comms);
    let mut list = List::default();
    let mut batch = Vec::new();
    let mut passed = 0;
    let end = part.span.map_or(Nanos::MAX, |span| span.end);
    'reading: while source.next(&mut batch).map_err(failed)? {
        for (index, event) in batch.iter().enumerate() {
            if event.time >= end {
                break 'reading;
            }
            if let What::Comm { pid, comm } = event.what {
                names.put(pid, comm);
                continue;
            }
            let (system, name) = named(event, source.info());
            if !part.holds(event) || !wanted(system, name) {
                continue;
            }
            passed += 1;
            if passed <= skip {
                continue;
            }
            if list.lines.len() == limit {
                list.more = true;
                break 'reading;
            }
            let told = source.arguments(index);
            list.lines.push(Line::of(event, &names, source.info(), told.as_deref()));
        }
    }
    if passed == 0 {
        list.known = known(source.info());
    }
    list.warnings = source.warnings().to_vec();
    Ok(list)
}

/// The system and the name of an event.
fn named<'a>(event: &Event, info: &'a TraceInfo) -> (&'a str, &'a str) {
    match event.what {
        What::Other { format } => info
            .others
            .get(usize::from(format))
            .map_or(("", "other"), |other| (other.system.as_str(), other.name.as_str())),
        What::Lost { .. } | What::Comm { .. } | What::Online { .. } => {
            ("", event.what.kind().name())
        }
        What::Mark { .. } => (crate::mark::SYSTEM, event.what.kind().name()),
        _ => ("sched", event.what.kind().name()),
    }
}

fn known(info: &TraceInfo) -> Vec<String> {
    let kinds = info.kinds.iter().map(|kind| kind.name().to_owned());
    let others = info.others.iter().map(|other| format!("{}:{}", other.system, other.name));
    kinds.chain(others).collect()
}

impl Line {
    fn of(event: &Event, names: &TaskNames, info: &TraceInfo, told: Option<&str>) -> Self {
        let mut text = String::new();
        arguments(&mut text, &event.what, event, names, info)
            .expect("a String takes all that is written to it");
        if let What::Lost { count } = event.what {
            text =
                count.map_or_else(|| "count unknown".to_owned(), |count| format!("count={count}"));
        }
        text.push_str(told.unwrap_or_default());
        Self {
            time: event.time,
            cpu: event.cpu,
            by: event.by,
            by_comm: names.get(event.by).to_owned(),
            context: context(event.context),
            event: named(event, info).1.to_owned(),
            arguments: text,
        }
    }
}
