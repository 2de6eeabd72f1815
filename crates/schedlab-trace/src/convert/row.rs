//! An event as a row of a table: the columns are the same for all kinds, and what does not apply is
//! absent.

use schedlab_model::{Context, Cpu, Event, Phase, Pid, Prio, TraceInfo, What};

/// The columns, in order. Times are nanoseconds of the trace's clock.
pub(super) const COLUMNS: [&str; 17] = [
    "time_ns",
    "cpu",
    "event",
    "context",
    "by",
    "by_comm",
    "pid",
    "comm",
    "prio",
    "state",
    "from_cpu",
    "to_cpu",
    "next_pid",
    "next_comm",
    "next_prio",
    "name",
    "arguments",
];

/// What the columns behind `by_comm` hold; names of tasks are looked up by the writer.
#[derive(Default)]
pub(super) struct Row {
    pub(super) pid: Option<Pid>,
    pub(super) prio: Option<Prio>,
    pub(super) state: Option<&'static str>,
    pub(super) from: Option<Cpu>,
    pub(super) to: Option<Cpu>,
    pub(super) next: Option<(Pid, Prio)>,
    pub(super) name: Option<String>,
    /// `request=7` of a mark that has one; the source tells those of other events.
    pub(super) arguments: Option<String>,
}

/// The context of an event as one word.
pub(super) const fn context(context: Context) -> &'static str {
    match context {
        Context::Task => "task",
        Context::SoftIrq => "softirq",
        Context::HardIrq => "hardirq",
        Context::Nmi => "nmi",
    }
}

impl Row {
    pub(super) fn of(event: &Event, info: &TraceInfo) -> Self {
        let mut row = Self::default();
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
                row.arguments = (request > 0).then(|| format!("request={request}"));
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
            What::Other { format } => {
                row.name =
                    info.others.get(usize::from(format)).map(|other| match other.system.as_str() {
                        "" => other.name.clone(),
                        system => format!("{system}:{}", other.name),
                    });
                None
            }
        };
        row
    }
}
