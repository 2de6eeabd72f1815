//! Where events come from, and what a source knows besides them.

use crate::{
    AtStart, Comm, Conditions, Counted, Coverage, CpuSet, Event, Groups, KindSet, Nanos, Pid, Span,
    Topology, Warning,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// The clock of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`: what our own recorder writes.
    Monotonic,
    /// Another clock that counts nanoseconds, by its kernel name (`local`, `global`, `perf`, `boot`, ...).
    Nanoseconds(String),
    /// A counter whose rate the source does not tell (`x86-tsc`, `counter`): differences are ticks.
    Ticks(String),
}

/// The CPUs on which a task was allowed to run, from `at` on (until its next entry).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// The task whose affinity this is.
    pub pid: Pid,
    /// When this was read.
    pub at: Nanos,
    /// Where it may run.
    pub allowed: CpuSet,
}

/// A wait for a CPU that was longer than a recorder was asked to watch for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// The task that waited.
    pub pid: Pid,
    /// When the wait began.
    pub since: Nanos,
    /// When the task ran, or when the wait was found too long.
    pub until: Nanos,
}

/// A tracepoint that is not of the scheduler kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherFormat {
    /// The system of the tracepoint (`irq`).
    pub system: String,
    /// The name of the tracepoint (`irq_handler_entry`).
    pub name: String,
}

/// What a source knows about its trace. Complete when the source is opened, except for names and
/// tracepoints that a stream learns on the way.
#[derive(Clone, Debug)]
pub struct TraceInfo {
    /// The format as people name it: `trace.dat v6`, `perf.data`, `sim`.
    pub format: String,
    /// The clock of the trace's times.
    pub clock: Clock,
    /// The CPUs that were observed: the trace has no events of other CPUs. Empty if unknown.
    pub cpus: CpuSet,
    /// The kinds that the trace can hold.
    pub kinds: KindSet,
    /// How much of each kind the trace holds. What a reader cannot know before the end it adds on the way.
    pub coverage: Coverage,
    /// How the CPUs share hardware; `None` if the trace does not hold it.
    pub topology: Option<Topology>,
    /// Where tasks were allowed to run, ascending by pid then time; `None` when the trace does not tell.
    pub affinity: Option<Vec<Affinity>>,
    /// Control groups of the tasks; `None` when the trace does not tell.
    pub groups: Option<Groups>,
    /// Knobs, tick, preemption and how tasks were scheduled; `None` when the trace does not tell.
    pub conditions: Option<Conditions>,
    /// The process of each thread but its first one, whose number is the process's; `None` when the trace does not tell.
    pub processes: Option<BTreeMap<Pid, Pid>>,
    /// What the kernel counted for tasks that lived at the end, ascending by pid; `None` when nobody read it.
    pub counters: Option<Vec<Counted>>,
    /// The tasks of which the trace holds events, where others were filtered away: what these did is not known.
    pub only: Option<BTreeSet<Pid>>,
    /// First and last instant observed, where known before reading.
    pub span: Option<Span>,
    /// Who ran and waited at the start of [`Self::span`]; `None` when the trace does not tell.
    pub at_start: Option<AtStart>,
    /// The wait that ended the recording; `None` if it ended otherwise.
    pub trigger: Option<Trigger>,
    /// Names known from outside the events (saved command lines).
    pub comms: BTreeMap<Pid, Comm>,
    /// Tracepoints beyond the scheduler's, by the index that [`crate::What::Other`] carries.
    pub others: Vec<OtherFormat>,
    /// Names of user marks, by the id that [`crate::What::Mark`] carries.
    pub marks: Vec<String>,
    /// The kernel that was traced (`uname -a` or release), where known.
    pub kernel: Option<String>,
}

impl TraceInfo {
    /// An info that knows nothing but its format, its clock and that any kind may come.
    #[must_use]
    pub fn new(format: impl Into<String>, clock: Clock) -> Self {
        Self {
            format: format.into(),
            clock,
            cpus: CpuSet::new(),
            kinds: KindSet::ALL,
            coverage: Coverage::default(),
            topology: None,
            affinity: None,
            groups: None,
            conditions: None,
            processes: None,
            counters: None,
            only: None,
            span: None,
            at_start: None,
            trigger: None,
            comms: BTreeMap::new(),
            others: Vec::new(),
            marks: Vec::new(),
            kernel: None,
        }
    }
}

/// Takes in events, one after the other.
pub trait EventSink {
    /// Takes in the next event.
    fn take(&mut self, event: &Event);
}

/// Keeps all events in the order of their arrival.
impl EventSink for Vec<Event> {
    fn take(&mut self, event: &Event) {
        self.push(*event);
    }
}

/// A stream of events in ascending order of time; equal times keep the source's order.
///
/// Memory is bounded by the source's own buffers (windows per CPU, tasks seen), never by the length
/// of the trace. What is wrong inside a trace is a warning or a [`crate::What::Lost`], not an error.
pub trait EventSource {
    /// What is known besides the events.
    fn info(&self) -> &TraceInfo;

    /// Replaces the content of `batch` by the next events; `false` when there are no more (and
    /// `batch` is empty then).
    ///
    /// # Errors
    /// Only I/O: the file could not be read.
    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool>;

    /// Hands all events that are left to `sink`: those that [`Self::next`] would give, in the same order.
    /// A reader that is known by its type compiles itself and the sink into one loop.
    ///
    /// # Errors
    /// As [`Self::next`].
    fn drain<S: EventSink>(&mut self, sink: &mut S) -> io::Result<()>
    where
        Self: Sized,
    {
        let mut batch = Vec::new();
        while self.next(&mut batch)? {
            batch.iter().for_each(|event| sink.take(event));
        }
        Ok(())
    }

    /// What was found wrong so far.
    fn warnings(&self) -> &[Warning];

    /// The arguments of a tracepoint beyond the scheduler's, as text (`irq=42 name=ahci`): of the event at
    /// `index` of the last batch. `None` where the source cannot tell, or was not asked to; empty where the
    /// tracepoint has none.
    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        let _ = index;
        None
    }
}
