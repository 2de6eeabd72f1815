//! An event as a row of a table: the columns are the same for all kinds, and what does not apply is
//! absent.

use crate::task_names::{TaskNames, text};
use schedlab_model::table::{At, Column, Row, words};
use schedlab_model::{Comm, Context, Cpu, Event, Phase, Pid, Prio, TraceInfo, What, columns};
use std::borrow::Cow;

/// What an event says; names of tasks are those at its time.
#[derive(Clone, Debug)]
pub struct EventRow {
    event: Event,
    by_comm: Comm,
    pid: Option<Pid>,
    comm: Option<Comm>,
    prio: Option<Prio>,
    state: Option<&'static str>,
    from: Option<Cpu>,
    to: Option<Cpu>,
    next: Option<(Pid, Prio)>,
    next_comm: Option<Comm>,
    name: Option<String>,
    arguments: Option<String>,
}

impl Row for EventRow {
    const ABOUT: &'static str = "An event. What does not apply is absent.";

    fn columns() -> Vec<Column<Self>> {
        fn lent(text: Option<&String>) -> Option<Cow<'_, str>> {
            text.map(|text| text.as_str().into())
        }
        fn name(comm: Option<&Comm>) -> Option<Cow<'_, str>> {
            comm.map(|comm| text(comm).into())
        }
        let mut columns = columns! { row: Self;
            "time_ns" = At(row.event.time), "On the trace's clock.";
            "cpu" = row.event.cpu, "The CPU that logged it.";
            "event" = row.event.what.kind().name(), "The kind of the event.";
            "context" = context(row.event.context), "What the CPU was doing.";
            "by" = row.event.by, "The task that ran there.";
        };
        columns.push(words("by_comm", "Its name.", |row: &Self| name(Some(&row.by_comm))));
        columns.extend(columns! { row: Self;
            "pid" = row.pid, "The task that it is about.";
        });
        columns.push(words("comm", "Its name.", |row: &Self| name(row.comm.as_ref())));
        columns.extend(columns! { row: Self;
            "prio" = row.prio, "Its priority.";
            "state" = row.state, "How it left the CPU, or which part of a mark it is.";
            "from_cpu" = row.from, "The CPU on which it was.";
            "to_cpu" = row.to, "The CPU to which it goes.";
            "next_pid" = row.next.map(|next| next.0), "The task that runs next.";
        });
        columns.push(words("next_comm", "Its name.", |row: &Self| name(row.next_comm.as_ref())));
        columns.extend(columns! { row: Self;
            "next_prio" = row.next.map(|next| next.1), "Its priority.";
        });
        columns.push(words("name", "The mark or the tracepoint.", |row: &Self| {
            lent(row.name.as_ref())
        }));
        columns.push(words("arguments", "Its arguments, as text.", |row: &Self| {
            lent(row.arguments.as_ref())
        }));
        columns
    }
}

/// The context of an event as one word.
pub(super) const fn context(context: Context) -> &'static str {
    match context {
        Context::Task => "task",
        Context::SoftIrq => "softirq",
        Context::HardIrq => "hardirq",
        Context::Nmi => "nmi",
        Context::Unknown => "unknown",
    }
}

impl EventRow {
    /// `arguments` are those that the source tells; a mark has its own.
    #[must_use]
    pub fn of(
        event: &Event,
        names: &TaskNames,
        info: &TraceInfo,
        arguments: Option<String>,
    ) -> Self {
        let mut row = Self {
            event: *event,
            by_comm: names.comm(event.by),
            pid: None,
            comm: None,
            prio: None,
            state: None,
            from: None,
            to: None,
            next: None,
            next_comm: None,
            name: None,
            arguments: arguments.filter(|text| !text.is_empty()),
        };
        row.pid = match event.what {
            What::Switch { prev, prev_prio, left, next, next_prio } => {
                row.prio = Some(prev_prio);
                row.state = Some(left.letters());
                row.next = Some((next, next_prio));
                Some(prev)
            }
            What::Waking { pid, prio, last_cpu } => {
                row.prio = Some(prio);
                row.from = Some(last_cpu);
                Some(pid)
            }
            What::Wakeup { pid, prio, cpu, .. } => {
                row.prio = Some(prio);
                row.to = Some(cpu);
                Some(pid)
            }
            What::Migrate { pid, from, to } => {
                row.from = Some(from);
                row.to = Some(to);
                Some(pid)
            }
            What::Fork { child } => Some(child),
            What::Exec { old } => Some(old),
            What::Exit { pid } | What::Comm { pid, .. } => Some(pid),
            What::Mark { pid, id, phase, request } => {
                let request = (request > 0).then(|| format!("request={request}"));
                row.arguments = row.arguments.or(request);
                row.state = Some(match phase {
                    Phase::Begin => "begin",
                    Phase::End => "end",
                    Phase::Point => "point",
                });
                row.name =
                    Some(info.marks.get(id as usize).cloned().unwrap_or_else(|| id.to_string()));
                Some(pid)
            }
            What::Lost { count } => {
                row.name = Some(count.map_or_else(|| "unknown".into(), |count| count.to_string()));
                None
            }
            What::Online { cpu, online } => {
                row.to = Some(cpu);
                row.state = Some(if online { "online" } else { "offline" });
                None
            }
            What::Other { format } => {
                row.name =
                    info.others.get(usize::from(format)).map(|other| match other.system.as_str() {
                        "" => other.name.clone(),
                        system => format!("{system}:{}", other.name),
                    });
                None
            }
        };
        row.comm = row.pid.map(|pid| names.comm(pid));
        row.next_comm = row.next.map(|next| names.comm(next.0));
        row
    }
}
