//! The events of a trace as columns: those that `schedlab trace convert` writes as CSV.

use crate::columns::{Comms, Found, Numbers, PART, cpu, nanos, numbers, plain, table, time, words};
use crate::table::Table;
use arrow_array::builder::StringBuilder;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt16Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::ArrowError;
use schedlab_model::{
    Context, Cpu, Event, EventSink, Kind, Left, Nanos, Phase, Pid, Prio, Span, TraceInfo, What,
};
use std::sync::Arc;

/// How tasks leave a CPU and what marks do: the column `state`.
const STATES: [&str; 13] =
    ["R+", "R", "S", "D", "T", "t", "X", "P", "I", "?", "begin", "end", "point"];
/// What a CPU does meanwhile, by the number of the context.
const CONTEXTS: [&str; 4] = ["task", "softirq", "hardirq", "nmi"];

/// The rows of a part.
struct Part {
    time: Numbers<Int64Type>,
    cpu: Numbers<UInt16Type>,
    event: Numbers<Int8Type>,
    context: Numbers<Int8Type>,
    by: Numbers<Int32Type>,
    by_comm: Numbers<Int32Type>,
    pid: Numbers<Int32Type>,
    comm: Numbers<Int32Type>,
    prio: Numbers<Int16Type>,
    state: Numbers<Int8Type>,
    from: Numbers<UInt16Type>,
    to: Numbers<UInt16Type>,
    next: Numbers<Int32Type>,
    next_comm: Numbers<Int32Type>,
    next_prio: Numbers<Int16Type>,
    name: Numbers<Int32Type>,
    arguments: Option<StringBuilder>,
}

impl Part {
    fn new(has_arguments: bool) -> Self {
        Self {
            time: numbers(PART),
            cpu: numbers(PART),
            event: numbers(PART),
            context: numbers(PART),
            by: numbers(PART),
            by_comm: numbers(PART),
            pid: numbers(PART),
            comm: numbers(PART),
            prio: numbers(PART),
            state: numbers(PART),
            from: numbers(PART),
            to: numbers(PART),
            next: numbers(PART),
            next_comm: numbers(PART),
            next_prio: numbers(PART),
            name: numbers(PART),
            arguments: has_arguments.then(StringBuilder::new),
        }
    }

    fn arrays(mut self) -> Vec<ArrayRef> {
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(self.time.finish()),
            Arc::new(self.cpu.finish()),
            Arc::new(self.event.finish()),
            Arc::new(self.context.finish()),
            Arc::new(self.by.finish()),
            Arc::new(self.by_comm.finish()),
            Arc::new(self.pid.finish()),
            Arc::new(self.comm.finish()),
            Arc::new(self.prio.finish()),
            Arc::new(self.state.finish()),
            Arc::new(self.from.finish()),
            Arc::new(self.to.finish()),
            Arc::new(self.next.finish()),
            Arc::new(self.next_comm.finish()),
            Arc::new(self.next_prio.finish()),
            Arc::new(self.name.finish()),
        ];
        arrays.extend(self.arguments.map(|mut texts| Arc::new(texts.finish()) as ArrayRef));
        arrays
    }
}

/// What the columns behind `by_comm` hold.
#[derive(Default)]
struct Row {
    pid: Option<Pid>,
    prio: Option<Prio>,
    state: Option<i8>,
    from: Option<Cpu>,
    to: Option<Cpu>,
    next: Option<(Pid, Prio)>,
    name: Option<Named>,
    request: u32,
}

/// What the column `name` names: known at the end, since a stream learns names on the way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Mark(u32),
    Other(u16),
    Lost(u32),
}

impl Row {
    #[inline]
    fn of(event: &Event) -> Self {
        let mut row = Self::default();
        row.pid = match event.what {
            What::Switch { prev, prev_prio, left, next, next_prio } => {
                row.prio = Some(prev_prio);
                row.state = Some(letters(left));
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
                row.request = request;
                row.state = Some(match phase {
                    Phase::Begin => 10,
                    Phase::End => 11,
                    Phase::Point => 12,
                });
                row.name = Some(Named::Mark(id));
                Some(pid)
            }
            What::Lost { count } => {
                row.name = Some(Named::Lost(count.map_or(0, |count| count.get())));
                None
            }
            What::Online { cpu, .. } => {
                row.to = Some(cpu);
                None
            }
            What::Other { format } => {
                row.name = Some(Named::Other(format));
                None
            }
        };
        row
    }
}

/// The place of a state in [`STATES`].
#[inline]
const fn letters(left: Left) -> i8 {
    match left {
        Left::Preempted => 0,
        Left::Displaced => 1,
        Left::Slept => 2,
        Left::Blocked => 3,
        Left::Stopped => 4,
        Left::Traced => 5,
        Left::Dead => 6,
        Left::Parked => 7,
        Left::IdleSleep => 8,
        Left::Other => 9,
    }
}

/// Takes events in.
pub(crate) struct Events {
    comms: Comms,
    /// Events outside are left out; their names of tasks hold all the same.
    window: Span,
    part: Part,
    rows: usize,
    done: Vec<Vec<ArrayRef>>,
    named: Vec<(Named, i32)>,
}

impl Events {
    /// Of a trace of which this is known.
    pub(crate) fn new(info: &TraceInfo, window: Span, has_arguments: bool) -> Self {
        Self {
            comms: Comms::new(&info.comms),
            window,
            part: Part::new(has_arguments),
            rows: 0,
            done: Vec::new(),
            named: Vec::new(),
        }
    }

    /// Whether no event behind this time is wanted.
    pub(crate) fn is_over(&self, at: Nanos) -> bool {
        at >= self.window.end
    }

    /// Takes an event with the arguments that its source tells.
    #[inline]
    pub(crate) fn put(&mut self, event: &Event, arguments: Option<&str>) {
        if let What::Comm { pid, comm } = &event.what {
            self.comms.put(*pid, comm);
        }
        if event.time < self.window.start || event.time >= self.window.end {
            return;
        }
        let row = Row::of(event);
        let part = &mut self.part;
        let comms = &self.comms;
        part.time.append_value(time(event.time));
        part.cpu.append_value(cpu(event.cpu));
        part.event.append_value(event.what.kind() as i8);
        part.context.append_option(match event.context {
            Context::Task => Some(0),
            Context::SoftIrq => Some(1),
            Context::HardIrq => Some(2),
            Context::Nmi => Some(3),
            Context::Unknown => None,
        });
        part.by.append_value(event.by.0);
        part.by_comm.append_value(comms.of(event.by));
        part.pid.append_option(row.pid.map(|pid| pid.0));
        part.comm.append_option(row.pid.map(|pid| comms.of(pid)));
        part.prio.append_option(row.prio.map(|prio| prio.0));
        part.state.append_option(row.state);
        part.from.append_option(row.from.map(cpu));
        part.to.append_option(row.to.map(cpu));
        part.next.append_option(row.next.map(|next| next.0.0));
        part.next_comm.append_option(row.next.map(|next| comms.of(next.0)));
        part.next_prio.append_option(row.next.map(|next| next.1.0));
        part.name.append_option(row.name.map(|name| number(&mut self.named, name)));
        if let Some(texts) = &mut part.arguments {
            let request = (row.request > 0).then(|| format!("request={}", row.request));
            texts.append_option(arguments.filter(|text| !text.is_empty()).or(request.as_deref()));
        }
        self.rows += 1;
        if self.rows == PART {
            self.close();
        }
    }

    #[cold]
    fn close(&mut self) {
        let next = Part::new(self.part.arguments.is_some());
        self.done.push(std::mem::replace(&mut self.part, next).arrays());
        self.rows = 0;
    }

    /// The table, once its source has told all names.
    pub(crate) fn table(mut self, info: &TraceInfo) -> Result<Table, ArrowError> {
        let has_arguments = self.part.arguments.is_some();
        if self.rows > 0 || self.done.is_empty() {
            self.close();
        }
        // Two may have one name, such as a mark and a tracepoint; a word stands in a table once.
        let mut found = Found::default();
        self.named.sort_unstable_by_key(|(_, number)| *number);
        let places: Vec<i32> =
            self.named.iter().map(|(name, _)| found.number(&spelt(*name, info))).collect();
        for part in &mut self.done {
            let keys = part[NAME].as_ref();
            let keys = keys.as_any().downcast_ref::<arrow_array::Int32Array>();
            let place =
                |key: i32| usize::try_from(key).ok().and_then(|key| places.get(key)).copied();
            if let Some(keys) = keys.filter(|keys| keys.len() > keys.null_count()) {
                part[NAME] = Arc::new(
                    keys.iter().map(|key| key.and_then(place)).collect::<arrow_array::Int32Array>(),
                );
            }
        }
        let comms = self.comms.words();
        let mut heads = vec![
            nanos("time_ns"),
            plain("cpu"),
            words("event", Kind::ALL.map(Kind::name)),
            words("context", CONTEXTS),
            plain("by"),
            words("by_comm", comms.iter()),
            plain("pid"),
            words("comm", comms.iter()),
            plain("prio"),
            words("state", STATES),
            plain("from_cpu"),
            plain("to_cpu"),
            plain("next_pid"),
            words("next_comm", comms.iter()),
            plain("next_prio"),
            words("name", found.words()),
        ];
        heads.extend(has_arguments.then(|| plain("arguments")));
        table(heads, self.done)
    }
}

/// The place of `name` among the columns.
const NAME: usize = 15;

/// The number of a name: there are few, and the last is mostly the next.
fn number(named: &mut Vec<(Named, i32)>, name: Named) -> i32 {
    match named.binary_search_by_key(&name, |(known, _)| *known) {
        Ok(at) => named[at].1,
        Err(at) => {
            let number = i32::try_from(named.len()).unwrap_or(i32::MAX);
            named.insert(at, (name, number));
            number
        }
    }
}

fn spelt(name: Named, info: &TraceInfo) -> String {
    match name {
        Named::Mark(id) => info.marks.get(id as usize).cloned().unwrap_or_else(|| id.to_string()),
        Named::Lost(0) => "unknown".to_owned(),
        Named::Lost(count) => count.to_string(),
        Named::Other(format) => match info.others.get(usize::from(format)) {
            Some(other) if other.system.is_empty() => other.name.clone(),
            Some(other) => format!("{}:{}", other.system, other.name),
            None => format.to_string(),
        },
    }
}

impl EventSink for Events {
    #[inline]
    fn take(&mut self, event: &Event) {
        self.put(event, None);
    }
}
