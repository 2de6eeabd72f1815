//! Comma-separated values: a line for each event, the same columns for all.

use super::{EventSink, TaskNames, flush};
use schedlab_model::{Context, Event, Phase, TraceInfo, Warning, What};
use std::io::{self, Write};

/// The columns, in order. Times are nanoseconds of the trace's clock; what does not apply is empty.
const COLUMNS: &str = "time_ns,cpu,event,context,by,by_comm,pid,comm,prio,state,from_cpu,to_cpu,\
    next_pid,next_comm,next_prio,name";

/// Writes CSV.
pub(super) struct Csv<W: Write> {
    out: W,
}

/// The columns behind the first six; each is already text.
#[derive(Default)]
struct Row {
    pid: String,
    comm: String,
    prio: String,
    state: &'static str,
    from: String,
    to: String,
    next: [String; 3],
    name: String,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out }
    }
}

impl<W: Write> EventSink for Csv<W> {
    fn begin(&mut self, _info: &TraceInfo) -> io::Result<()> {
        writeln!(self.out, "{COLUMNS}")
    }

    fn event(&mut self, event: &Event, names: &TaskNames, info: &TraceInfo) -> io::Result<()> {
        let row = row(event, names, info);
        let context = match event.context {
            Context::Task => "task",
            Context::SoftIrq => "softirq",
            Context::HardIrq => "hardirq",
            Context::Nmi => "nmi",
        };
        let Row { pid, comm, prio, state, from, to, next: [next, next_comm, next_prio], name } =
            row;
        writeln!(
            self.out,
            "{},{},{},{context},{},{},{pid},{},{prio},{state},{from},{to},{next},{},{next_prio},{}",
            event.time.0,
            event.cpu,
            event.what.kind().name(),
            event.by,
            quoted(names.get(event.by)),
            quoted(&comm),
            quoted(&next_comm),
            quoted(&name)
        )
    }

    fn end(&mut self, _names: &TaskNames, _info: &TraceInfo) -> io::Result<()> {
        flush(&mut self.out)
    }

    fn dropped(&self) -> Vec<Warning> {
        Vec::new()
    }
}

fn row(event: &Event, names: &TaskNames, info: &TraceInfo) -> Row {
    let mut row = Row::default();
    let task =
        match event.what {
            What::Switch { prev, prev_prio, left, next, next_prio } => {
                row.prio = prev_prio.0.to_string();
                row.state = left.letters();
                row.next = [next.to_string(), names.get(next).to_owned(), next_prio.0.to_string()];
                Some(prev)
            }
            What::Waking { pid, prio, last_cpu } => {
                row.prio = prio.0.to_string();
                row.from = last_cpu.to_string();
                Some(pid)
            }
            What::Wakeup { pid, prio, cpu, .. } => {
                row.prio = prio.0.to_string();
                row.to = cpu.to_string();
                Some(pid)
            }
            What::Migrate { pid, from, to } => {
                row.from = from.to_string();
                row.to = to.to_string();
                Some(pid)
            }
            What::Fork { child } => Some(child),
            What::Exec { old } => Some(old),
            What::Exit { pid } | What::Comm { pid, .. } => Some(pid),
            What::Mark { pid, id, phase } => {
                row.state = match phase {
                    Phase::Begin => "begin",
                    Phase::End => "end",
                    Phase::Point => "point",
                };
                row.name = info.marks.get(id as usize).cloned().unwrap_or_else(|| id.to_string());
                Some(pid)
            }
            What::Lost { count } => {
                row.name = count.map_or_else(|| "unknown".into(), |count| count.to_string());
                None
            }
            What::Other { format } => {
                row.name = info.others.get(usize::from(format)).map_or_else(String::new, |other| {
                    match other.system.as_str() {
                        "" => other.name.clone(),
                        system => format!("{system}:{}", other.name),
                    }
                });
                None
            }
        };
    if let Some(pid) = task {
        row.pid = pid.to_string();
        row.comm = names.get(pid).to_owned();
    }
    row
}

/// A field as RFC 4180 wants it: in quotes where it holds a comma, a quote or a line's end.
fn quoted(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}
