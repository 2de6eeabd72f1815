//! Reads the scheduler's events out of a Perfetto trace.
//!
//! A first pass over the packets notes where each CPU's bundles lie; then each CPU is a lane whose
//! bundles are read again when the merge needs them. Memory: a few bytes for each bundle, one decoded
//! bundle for each CPU, with the arguments of its generic events where they are asked for. All of it comes out of
//! the file's budget.

mod ftrace_events;

use super::generic_kernel::{OF_STEP, OtherKernel};
use super::native;
use super::track_event::{Mark, OF_MARK, Tracks};
use super::{CLOCK_GLOBAL, KERNEL_SYMBOLS, bundle, compact, event, packet, system, trace};
use crate::budget::{Budget, Share};
use crate::decoded_runs::{Refill, Runs};
use crate::error::TraceError;
use crate::input::Input;
use crate::merge::ascend;
use crate::names;
use crate::protobuf::{Fields, Value, packed, packed_count, take_varint};
use crate::states::States;
use ftrace_events::{Found, compact_sched, ftrace, generic, mark, printed, spelt};
use schedlab_model::{
    Clock, Context, Cpu, Event, EventSource, KindSet, Nanos, OtherFormat, Phase, Pid, Prio,
    TraceInfo, Warning, What,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;

const BATCH: usize = 1024;
/// A packet is no larger: Perfetto itself stops at 64 MiB.
const PACKET_MAX: u64 = 1 << 26;
/// Bytes of a packet whose memory is used again for the next one.
const SPARE_MAX: usize = 1 << 20;
/// Bytes of the largest tag and length of a packet.
const PACKET_HEAD: usize = 16;
/// Bytes that a bundle, a mark, a tracepoint or a task takes in its list, beside its name.
const ENTRY: u64 = 64;
/// Bytes that a name takes in the trace's info and among those that events are compared with.
const OF_NAME: u64 = 2;
/// Bytes that an event takes while its bundle is decoded, and with the names that it tells when that is done.
const DECODING: usize = size_of::<Found<'_>>() * 3 / 2 + READY;
const READY: usize = 3 * size_of::<Event>();

/// Whether a file begins as a Perfetto trace does: packets, one behind the other.
pub(crate) fn looks_like(start: &[u8]) -> bool {
    let mut fields = Fields(start);
    match fields.next() {
        Some((trace::PACKET, Value::Bytes(packet))) => {
            let mut rest = Fields(packet);
            let sound = rest.by_ref().all(|(field, _)| (1..2000).contains(&field));
            sound && rest.0.is_empty()
        }
        // A first packet that is longer than what was looked at: its length takes several bytes, as
        // no text's second byte does.
        None => start.len() > 8 && start[0] == 0x0a && start[1] >= 0x80,
        Some(_) => false,
    }
}

/// A Perfetto trace as a source of events.
pub(crate) struct PerfettoReader {
    lanes: Lanes,
    runs: Runs,
    info: TraceInfo,
    warnings: Vec<Warning>,
    /// Of generic events, by their place in the last batch, ascending.
    arguments: Vec<(usize, String)>,
    /// The marks that threads began and did not end.
    open: BTreeMap<Pid, Vec<u32>>,
    /// The marks of requests that have begun.
    requests: BTreeMap<(Pid, u32), u32>,
}

struct Lanes {
    input: Input,
    /// One for each CPU, and behind them one for the marks of tracks, which belong to none.
    lanes: Vec<Lane>,
    cpus: usize,
    raised: u64,
    of: OfTrace,
    /// Memory for a packet.
    content: Vec<u8>,
}

/// What holds for all bundles.
struct OfTrace {
    states: States,
    indexes: NameIndexes,
    symbols: Symbols,
    /// Whether arguments are kept.
    keeps: bool,
    /// Before it the file does not have the events of all CPUs.
    from: u64,
}

/// Names of functions in the kernel, by packet sequence and interned number. Each name holds from an offset in the
/// file on.
type Symbols = BTreeMap<(u64, u64), Vec<(u64, String)>>;

#[derive(Default)]
struct Lane {
    cpu: u16,
    /// Events that are read already, before those of the packets.
    ready: Vec<Event>,
    /// Its bundles' packets, in the order of their first event.
    packets: Vec<(u64, Range<u64>)>,
    /// Events before the time from which the trace has all of them.
    cropped: u64,
    at: usize,
    running: Pid,
    prio: Prio,
    last: u64,
    /// The memory that its bundle took from the file's budget.
    share: Share,
    /// Arguments of tracepoints beyond the scheduler's that are read and not yet passed on.
    arguments: VecDeque<Option<String>>,
}

impl PerfettoReader {
    /// Opens it; with `keeps`, [`EventSource::arguments`] tells those of generic events.
    pub(crate) fn open(input: Input, keeps: bool) -> Result<Self, TraceError> {
        let path = input.path().to_owned();
        let mut info = TraceInfo::new("perfetto", Clock::Nanoseconds("boot".into()));
        info.kinds = KindSet::ALL;
        // What a bundle holds beyond the scheduler's events is counted under this name.
        info.others.push(OtherFormat { system: "ftrace".into(), name: "other".into() });
        let budget = Arc::clone(input.budget());
        let mut scan = Scan::new(info, budget);
        let mut warnings = Vec::new();
        let read = scan.packets(&input).map_err(|error| TraceError::io(&path, &error))?;
        if let Some((offset, what)) = read {
            let what = format!("{}: {what} (at offset {offset})", path.display());
            let remedy = "metrics are partial: schedlab read the trace up to there";
            warnings.push(Warning::new("trace-cut", what, remedy));
        }
        if scan.lanes.values().all(Vec::is_empty) && scan.other_kernel.is_empty() {
            let what =
                "holds no scheduler events: record with ftrace's sched_switch and sched_waking";
            return Err(TraceError::no_events(&path, "perfetto", what));
        }
        scan.processes_of_threads();
        let marks = scan.marks();
        let mut others = scan.events_of_other_kernel();
        let from = scan.ends.values().copied().fold(scan.started, u64::max);
        let Scan { mut info, mut lanes, indexes, symbols, release, states: all, .. } = scan;
        let (states, note) = States::of_perfetto(release.as_deref(), all);
        let shown = path.display();
        let doubts = [
            note.map(|note| ("states-as-in-kernel", note)),
            (scan.of_others > 0).then(|| {
                let what = "packets are of other machines than the first: schedlab leaves them out";
                ("machines-several", format!("{} {what}", scan.of_others))
            }),
            (scan.renumbered > 0).then(|| {
                let what = "tasks have numbers that no Linux gives out: schedlab gives them others";
                ("pids-renumbered", format!("{} {what}", scan.renumbered))
            }),
            (scan.unplaced > 0).then(|| {
                let what = "slices are on clocks that the trace does not relate to its own: schedlab \
                    leaves them out";
                ("marks-unplaced", format!("{} {what}", scan.unplaced))
            }),
        ];
        warnings.extend(
            doubts
                .into_iter()
                .flatten()
                .map(|(code, what)| Warning::new(code, format!("{shown}: {what}"), "")),
        );
        // Ours says so where it does not know the kernel.
        info.kernel = release.filter(|release| !release.contains("states as there"));
        for cpu in others.keys() {
            lanes.entry(*cpu).or_default();
        }
        info.cpus = lanes.keys().map(|cpu| Cpu(*cpu)).collect();
        let mut lanes = lanes
            .into_iter()
            .map(|(cpu, mut packets)| {
                packets.sort_by_key(|packet| packet.0);
                let (ready, arguments) = others.remove(&cpu).unwrap_or_default();
                let arguments = arguments.into_iter().map(Some).collect();
                Lane { cpu, packets, ready, arguments, prio: Prio::NORMAL, ..Lane::default() }
            })
            .collect::<Vec<_>>();
        let cpus = lanes.len();
        if !marks.is_empty() {
            let cpu = lanes.first().map_or(0, |lane| lane.cpu);
            lanes.push(Lane { cpu, ready: marks, ..Lane::default() });
        }
        let runs = Runs::new(lanes.len());
        let of = OfTrace { states, indexes, symbols, keeps, from };
        let lanes = Lanes { input, lanes, cpus, raised: 0, of, content: Vec::new() };
        let (arguments, open, requests) = Default::default();
        Ok(Self { lanes, runs, info, warnings, arguments, open, requests })
    }
}

impl EventSource for PerfettoReader {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        let more = self.runs.next(&mut self.lanes, batch, BATCH)?;
        if !self.info.marks.is_empty() {
            batch.iter_mut().for_each(|event| self.slice(event));
        }
        self.arguments.clear();
        if self.lanes.of.keeps && more {
            for (index, event) in batch.iter().enumerate() {
                if matches!(event.what, What::Other { .. })
                    && let Some(text) = self.lanes.arguments(event.cpu)
                {
                    self.arguments.push((index, text));
                }
            }
        }
        if !more {
            let input = &self.lanes.input;
            self.warnings.extend(input.budget().warning(input.path()));
        }
        let raised = if more { 0 } else { std::mem::take(&mut self.lanes.raised) };
        if raised > 0 {
            let path = self.lanes.input.path().display();
            let what = format!("{path}: {raised} events are earlier than the event before them");
            let remedy = "each of them got the time of the event before it";
            self.warnings.push(Warning::new("time-goes-back", what, remedy));
        }
        if !more {
            let cropped = |lane: &mut Lane| std::mem::take(&mut lane.cropped);
            let cropped: u64 = self.lanes.lanes.iter_mut().map(cropped).sum();
            if cropped > 0 {
                let path = self.lanes.input.path().display();
                let what = format!(
                    "{path}: {cropped} events are left out: the trace does not have those of all CPUs then"
                );
                self.warnings.push(Warning::new("trace-cropped", what, ""));
            }
        }
        Ok(more)
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        let found = self.arguments.binary_search_by_key(&index, |(at, _)| *at).ok()?;
        Some(self.arguments[found].1.as_str().into())
    }
}

impl PerfettoReader {
    /// A slice that user space wrote is its thread's, and an end without a name ends what the thread began last.
    fn slice(&mut self, event: &mut Event) {
        let What::Mark { pid, id, phase, request } = &mut event.what else { return };
        let is_named = self.info.marks.get(*id as usize).is_none_or(|name| !name.is_empty());
        if *request != 0 {
            match phase {
                Phase::Begin if self.requests.len() < OPEN_MAX => {
                    self.requests.insert((*pid, *request), *id);
                }
                Phase::End => {
                    let begun = self.requests.remove(&(*pid, *request));
                    *id = begun.filter(|_| !is_named).unwrap_or(*id);
                }
                _ => {}
            }
            return;
        }
        let is_thread = |process: &BTreeMap<Pid, Pid>| process.get(&event.by) == Some(pid);
        if self.info.processes.as_ref().is_some_and(is_thread) {
            *pid = event.by;
        }
        match phase {
            Phase::Begin => {
                let open = self.open.entry(event.by).or_default();
                if open.len() < OPEN_MAX {
                    open.push(*id);
                }
            }
            Phase::End => {
                let open = self.open.entry(event.by).or_default();
                if !is_named {
                    *id = open.pop().unwrap_or(*id);
                } else if let Some(at) = open.iter().rposition(|begun| *begun == *id) {
                    open.remove(at);
                }
            }
            Phase::Point => {}
        }
    }
}

/// Slices of a thread, or requests, that are open at once.
const OPEN_MAX: usize = 4096;

impl Lanes {
    /// Those of the next event of this CPU that is none of the scheduler's.
    fn arguments(&mut self, cpu: Cpu) -> Option<String> {
        let at = self.lanes[..self.cpus].binary_search_by_key(&cpu.0, |lane| lane.cpu).ok()?;
        self.lanes[at].arguments.pop_front().flatten()
    }
}

/// What the first pass over the file finds.
struct Scan {
    info: TraceInfo,
    lanes: BTreeMap<u16, Vec<(u64, Range<u64>)>>,
    indexes: NameIndexes,
    budget: Arc<Budget>,
    /// The kernel's release, where the trace tells it.
    release: Option<String>,
    /// All bits of the states of all switches.
    states: u64,
    /// When the tracing service says that all data sources ran.
    started: u64,
    /// Where the events before each CPU's first bundle end.
    ends: BTreeMap<u16, u64>,
    symbols: Symbols,
    other_kernel: OtherKernel,
    renumbered: usize,
    tracks: Tracks,
    unplaced: u64,
    /// Threads and the tasks that made them.
    makers: Vec<(Pid, Pid)>,
    /// The machine whose packets are read, and packets with events of others.
    machine: Option<u64>,
    of_others: u64,
}

/// The names that events tell, with their numbers in the trace's info.
#[derive(Default)]
struct NameIndexes {
    /// The indexes of users' marks, by name.
    marks: BTreeMap<String, u32>,
    /// The indexes of other tracepoints, by the bytes of their names: looked up for each event.
    others: BTreeMap<Vec<u8>, u16>,
}

/// Different names of generic events that are distinguished; further ones are counted as `other`.
const OTHERS_MAX: usize = 4096;

impl Scan {
    fn new(info: TraceInfo, budget: Arc<Budget>) -> Self {
        Self {
            info,
            budget,
            lanes: BTreeMap::new(),
            indexes: NameIndexes::default(),
            release: None,
            states: 0,
            started: 0,
            ends: BTreeMap::new(),
            symbols: Symbols::new(),
            other_kernel: OtherKernel::default(),
            renumbered: 0,
            tracks: Tracks::default(),
            unplaced: 0,
            makers: Vec::new(),
            machine: None,
            of_others: 0,
        }
    }

    /// Goes over all packets; where and why it stopped before the end.
    fn packets(&mut self, input: &Input) -> io::Result<Option<(u64, String)>> {
        let mut at = 0;
        let mut content = Vec::new();
        while at < input.len() {
            let mut head = [0; PACKET_HEAD];
            let count = input.read_at(at, &mut head)?;
            let mut rest = &head[..count];
            let tag = take_varint(&mut rest);
            let length = take_varint(&mut rest);
            let (Some(tag), Some(length)) = (tag, length) else {
                return Ok(Some((at, "the file ends inside a packet's head".into())));
            };
            let start = at + (count - rest.len()) as u64;
            if tag & 7 != 2 || length > PACKET_MAX {
                return Ok(Some((at, "missing start of a packet".into())));
            }
            content.resize(usize::try_from(length.min(input.len() - start)).unwrap_or(0), 0);
            let count = input.read_at(start, &mut content)?;
            if (count as u64) < length {
                return Ok(Some((start, "the file ends inside a packet".into())));
            }
            if tag == u64::from(trace::PACKET) << 3 | 2 {
                self.packet(&content, start..start + length);
            }
            at = start + length;
        }
        Ok(None)
    }

    fn packet(&mut self, content: &[u8], at: Range<u64>) {
        let sequence = sequence(content);
        // A trace of several machines: their CPUs and tasks have the same numbers.
        let mine = Fields(content).find(|(field, _)| *field == packet::MACHINE);
        let mine = mine.map_or(0, |(_, machine)| machine.number());
        let has_events =
            |(field, _)| matches!(field, packet::FTRACE_EVENTS | packet::GENERIC_TASK_STATE);
        if self.machine.is_none() && Fields(content).any(has_events) {
            self.machine = Some(mine);
        }
        if self.machine.is_some_and(|machine| machine != mine) {
            self.of_others += u64::from(Fields(content).any(has_events));
            return;
        }
        if let Some(bundle) = bundle_of(content) {
            self.bundle(bundle, at.clone());
        }
        // A packet tells its time and its names before or behind what needs them.
        for (field, value) in Fields(content) {
            match field {
                packet::INTERNED_DATA => self.symbols(value.bytes(), sequence, at.start),
                packet::CLOCK_SNAPSHOT => self.tracks.snapshot(value.bytes(), sequence),
                _ => {}
            }
        }
        let beside = |(field, _)| matches!(field, packet::INTERNED_DATA | packet::DEFAULTS);
        if Fields(content).any(beside) && self.budget.take(ENTRY + OF_NAME * content.len() as u64) {
            self.tracks.beside(content, sequence);
        }
        for (field, value) in Fields(content) {
            let bytes = value.bytes();
            let room = ENTRY + OF_NAME * value.bytes().len() as u64;
            match field {
                packet::PROCESS_TREE => self.process_tree(bytes),
                packet::SYSTEM_INFO => self.system_info(bytes),
                packet::SERVICE_EVENT
                    if Fields(bytes).any(|(field, is)| (field, is.number()) == (2, 1)) =>
                {
                    self.started = time(content);
                }
                packet::TRACK_DESCRIPTOR if self.budget.take(room) => {
                    self.tracks.descriptor(bytes);
                }
                packet::TRACK_EVENT if self.budget.take(OF_MARK + room) => {
                    self.tracks.event(bytes, content, sequence);
                }
                packet::GENERIC_TASK_STATE if self.budget.take(OF_STEP) => {
                    self.other_kernel.state(time(content), bytes);
                }
                packet::GENERIC_RENAME if self.budget.take(OF_STEP) => {
                    self.other_kernel.renamed(time(content), bytes);
                }
                packet::GENERIC_FREQUENCY if self.budget.take(OF_STEP) => {
                    self.named("cpu_frequency");
                    self.other_kernel.frequency(time(content), bytes);
                }
                packet::GENERIC_PROCESS_TREE => self.generic_process_tree(bytes),
                _ => {}
            }
        }
    }

    /// Numbers of places in the kernel.
    fn symbols(&mut self, content: &[u8], sequence: u64, from: u64) {
        for (_, entry) in Fields(content).filter(|(field, _)| *field == KERNEL_SYMBOLS) {
            let mut iid = 0;
            let mut name = &[][..];
            for (field, value) in Fields(entry.bytes()) {
                match field {
                    1 => iid = value.number(),
                    2 => name = value.bytes(),
                    _ => {}
                }
            }
            let known = self.symbols.entry((sequence, iid)).or_default();
            let name = String::from_utf8_lossy(name);
            if known.last().is_none_or(|(_, last)| *last != name)
                && self.budget.take(ENTRY + OF_NAME * name.len() as u64)
            {
                known.push((from, name.into_owned()));
            }
        }
    }

    /// `GenericKernelProcessTree`.
    fn generic_process_tree(&mut self, content: &[u8]) {
        for (field, value) in Fields(content).filter(|(field, _)| matches!(field, 1 | 2)) {
            let mut numbers = [0; 6];
            let mut name = &[][..];
            for (place, value) in Fields(value.bytes()) {
                match (place, value) {
                    (_, Value::Bytes(bytes)) => name = bytes,
                    (place, Value::Number(number)) => {
                        if let Some(slot) = numbers.get_mut(place as usize) {
                            *slot = number;
                        }
                    }
                }
            }
            let [_, task, process, .., is_idle] = numbers;
            if !self.budget.take(ENTRY) {
                return;
            }
            let pid = self.other_kernel.pid(task);
            if field == 2 && is_idle != 0 {
                self.other_kernel.idles(pid);
                continue;
            }
            if field == 2 && process != task {
                let process = self.other_kernel.pid(process);
                self.info.processes.get_or_insert_default().insert(pid, process);
            }
            // A command line's first word is the process's name.
            let name =
                if field == 1 { name.split(|byte| *byte == b' ').next() } else { Some(name) };
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                self.info.comms.entry(pid).or_insert(names::comm(name));
            }
        }
    }

    fn events_of_other_kernel(&mut self) -> BTreeMap<u16, super::generic_kernel::Ready> {
        let frequency = self.indexes.others.get(&b"cpu_frequency"[..]).copied().unwrap_or(0);
        let other = std::mem::take(&mut self.other_kernel);
        self.renumbered = other.renumbered();
        other.events(frequency)
    }

    /// The marks of all tracks, on the first CPU: they belong to none.
    fn marks(&mut self) -> Vec<Event> {
        self.unplaced = self.tracks.unplaced;
        if self.tracks.is_empty() {
            return Vec::new();
        }
        let marks = self.tracks.marks();
        let names = std::mem::take(&mut self.tracks.names);
        let ids: Vec<u32> =
            names.into_iter().map(|name| self.mark_id(name).unwrap_or(u32::MAX)).collect();
        let first = self.lanes.keys().next().copied().unwrap_or(0);
        let event = |mark: Mark| {
            let id = ids.get(mark.name as usize).copied().filter(|id| *id != u32::MAX)?;
            let what = What::Mark { pid: mark.pid, id, phase: mark.phase, request: mark.request };
            let by = mark.pid;
            let cpu = Cpu(first);
            let context = Context::Unknown;
            Some(Event { time: Nanos(mark.time), by, cpu, context, what })
        };
        marks.into_iter().filter_map(event).collect()
    }

    /// The process of a thread is that of the task which made it, where nothing else says so.
    fn processes_of_threads(&mut self) {
        for (thread, maker) in std::mem::take(&mut self.makers) {
            let processes = self.info.processes.get_or_insert_default();
            let of_maker = processes.get(&maker).copied().unwrap_or(maker);
            processes.entry(thread).or_insert(of_maker);
        }
    }

    fn system_info(&mut self, content: &[u8]) {
        let utsname = Fields(content).find(|(field, _)| *field == system::UTSNAME);
        let names = utsname.map_or(&[][..], |(_, value)| value.bytes());
        let release = Fields(names).find(|(field, _)| *field == system::RELEASE);
        let release = release.map(|(_, value)| String::from_utf8_lossy(value.bytes()).into_owned());
        self.release = release.filter(|text| text.len() <= 256).or_else(|| self.release.take());
    }

    fn bundle(&mut self, content: &[u8], at: Range<u64>) {
        let mut cpu = 0;
        let mut end = 0;
        let mut first = u64::MAX;
        for (field, value) in Fields(content) {
            match field {
                bundle::CPU => cpu = value.number(),
                bundle::LAST_READ_EVENT | bundle::PREVIOUS_END => end = value.number(),
                bundle::FTRACE_CLOCK if value.number() != 0 => {
                    let name = if value.number() == CLOCK_GLOBAL { "global" } else { "unknown" };
                    self.info.clock = Clock::Nanoseconds(name.into());
                }
                bundle::EVENT => {
                    let mut by = Pid::IDLE;
                    for (field, value) in Fields(value.bytes()) {
                        match field {
                            event::TIMESTAMP => first = first.min(value.number()),
                            event::PRINT => self.mark(value.bytes()),
                            event::GENERIC => self.generic(value.bytes()),
                            event::NEWTASK => {
                                self.new_task(by, value.bytes());
                                self.named("task_newtask");
                            }
                            event::PID => by = Pid(value.signed()),
                            event::SWITCH => {
                                let state = Fields(value.bytes()).find(|(field, _)| *field == 4);
                                self.states |= state.map_or(0, |(_, state)| state.number());
                            }
                            other => {
                                if let Some(native) = native::by_field(other) {
                                    self.named(native.name);
                                }
                            }
                        }
                    }
                }
                bundle::COMPACT_SCHED => {
                    for (field, value) in Fields(value.bytes()) {
                        if matches!(field, compact::SWITCH_TIMESTAMP | compact::WAKING_TIMESTAMP) {
                            first = packed(value.bytes()).next().map_or(first, |t| first.min(t));
                        } else if field == compact::SWITCH_PREV_STATE {
                            self.states |= packed(value.bytes()).fold(0, |all, state| all | state);
                        }
                    }
                }
                _ => {}
            }
        }
        let Ok(cpu) = u16::try_from(cpu) else { return };
        self.ends.entry(cpu).or_insert(end);
        let lane = self.lanes.entry(cpu).or_default();
        if first != u64::MAX && self.budget.take(ENTRY) {
            lane.push((first, at));
        }
    }

    fn mark(&mut self, print: &[u8]) {
        match mark(print) {
            Some((_, _, name, _)) => drop(self.mark_id(name)),
            None => self.named("print"),
        }
    }

    fn mark_id(&mut self, name: String) -> Option<u32> {
        if let Some(id) = self.indexes.marks.get(&name) {
            return Some(*id);
        }
        let room = ENTRY + OF_NAME * name.len() as u64;
        let id = u32::try_from(self.indexes.marks.len()).ok().filter(|_| self.budget.take(room))?;
        self.info.marks.push(name.clone());
        self.indexes.marks.insert(name, id);
        Some(id)
    }

    /// A task that is a thread of the one which made it.
    fn new_task(&mut self, by: Pid, content: &[u8]) {
        const CLONE_THREAD: u64 = 0x10000;
        let of = |place| Fields(content).find(|(field, _)| *field == place).map(|(_, value)| value);
        let pid = of(1).map_or(0, Value::signed);
        let flags = of(3).map_or(0, Value::number);
        if flags & CLONE_THREAD != 0 && self.budget.take(ENTRY) {
            self.makers.push((Pid(pid), by));
        }
    }

    fn generic(&mut self, content: &[u8]) {
        let Some(name) = generic(content) else { return };
        if !self.indexes.others.contains_key(name)
            && let Ok(name) = std::str::from_utf8(name)
        {
            self.named(name);
        }
    }

    /// Gives a tracepoint its place among those beyond the scheduler's.
    fn named(&mut self, name: &str) {
        let next = self.info.others.len();
        let is_new = next < OTHERS_MAX && !self.indexes.others.contains_key(name.as_bytes());
        if is_new && self.budget.take(ENTRY + OF_NAME * name.len() as u64) {
            self.info.others.push(OtherFormat { system: String::new(), name: name.to_owned() });
            self.indexes.others.insert(name.into(), u16::try_from(next).expect("bounded"));
        }
    }

    /// Threads and processes with their names.
    fn process_tree(&mut self, content: &[u8]) {
        // Processes (1) have their names as command lines, threads (2) as such: theirs come first.
        let of = |wanted| Fields(content).filter(move |(field, _)| *field == wanted);
        for (field, value) in of(2).chain(of(1)) {
            let name_field = if field == 1 { 3 } else { 2 };
            let mut pid = Pid(0);
            let mut name = None;
            let mut process = None;
            // A kernel thread has no command line: its name is told instead.
            let mut is_comm = field == 2;
            for (in_entry, value) in Fields(value.bytes()) {
                match in_entry {
                    1 => pid = Pid(value.signed()),
                    3 if field == 2 => process = Some(Pid(value.signed())),
                    9 if field == 1 => is_comm = value.number() != 0,
                    n if n == name_field && name.is_none() => name = Some(value.bytes()),
                    _ => {}
                }
            }
            if !names::may_be(pid) {
                continue;
            }
            // Who does not know processes writes each thread as its own.
            if let Some(process) = process.filter(|process| *process != pid && process.0 > 0) {
                let processes = self.info.processes.get_or_insert_default();
                if processes.contains_key(&pid) || self.budget.take(ENTRY) {
                    processes.insert(pid, process);
                }
            }
            if let Some(name) = name
                && !self.info.comms.contains_key(&pid)
                && self.budget.take(ENTRY)
            {
                // procfs adds to a worker's name what it does.
                let does = |byte: &u8| matches!(byte, b'-' | b'+');
                let name = match (is_comm, name.starts_with(b"kworker/")) {
                    (true, false) => Some(name),
                    (true, true) => name.split(does).next(),
                    (false, _) => name.rsplit(|&byte| byte == b'/').next(),
                };
                let name = name.unwrap_or_default();
                self.info.comms.insert(pid, names::comm(name));
            }
        }
    }
}

/// The time that a packet itself tells.
fn time(packet: &[u8]) -> u64 {
    Fields(packet).find(|(field, _)| *field == packet::TIMESTAMP).map_or(0, |(_, at)| at.number())
}

/// The sequence of packets that this one belongs to.
fn sequence(packet: &[u8]) -> u64 {
    let of = |(field, _): &(u32, Value<'_>)| *field == packet::TRUSTED_PACKET_SEQUENCE_ID;
    Fields(packet).find(of).map_or(0, |(_, value)| value.number())
}

/// The bundle of a packet, which has one at most.
fn bundle_of(packet: &[u8]) -> Option<&[u8]> {
    let bundle = Fields(packet).find(|(field, _)| *field == packet::FTRACE_EVENTS)?;
    Some(bundle.1.bytes())
}

/// How many events a bundle may hold.
fn events(bundle: &[u8]) -> usize {
    let times = |(field, value): (u32, Value<'_>)| match field {
        compact::SWITCH_TIMESTAMP | compact::WAKING_TIMESTAMP => packed_count(value.bytes()),
        compact::INTERN_TABLE => 1,
        _ => 0,
    };
    let of = |(field, value): (u32, Value<'_>)| match field {
        bundle::EVENT => 1,
        bundle::COMPACT_SCHED => Fields(value.bytes()).map(times).sum(),
        _ => 0,
    };
    Fields(bundle).map(of).sum()
}

impl Refill for Lanes {
    fn refill(&mut self, lane: usize, out: &mut Vec<Event>) -> io::Result<bool> {
        let lane = &mut self.lanes[lane];
        if !lane.ready.is_empty() {
            out.append(&mut lane.ready);
            return Ok(true);
        }
        let Some((_, range)) = lane.packets.get(lane.at) else { return Ok(false) };
        let offset = range.start;
        lane.at += 1;
        let mut content = std::mem::take(&mut self.content);
        content.resize(usize::try_from(range.end - range.start).unwrap_or(0), 0);
        let count = self.input.read_at(range.start, &mut content)?;
        content.truncate(count);
        if let Some(bundle) = bundle_of(&content) {
            let count = events(bundle);
            let budget = self.input.budget();
            // While it is decoded, and what waits then.
            let mut decoding = Share::default();
            let room = decoding.grow(budget, (count * DECODING) as u64);
            drop(decoding);
            let held = count * READY + if self.of.keeps { 2 * bundle.len() } else { 0 };
            if !room || !lane.share.grow(budget, held as u64) {
                return Ok(true);
            }
            lane.bundle(bundle, &self.of, sequence(&content), offset, out);
        }
        let (last, raised) = ascend(out, lane.last);
        lane.last = last;
        self.raised += raised;
        if content.capacity() <= SPARE_MAX {
            self.content = content;
        }
        Ok(true)
    }
}

impl Lane {
    fn bundle(
        &mut self,
        content: &[u8],
        of: &OfTrace,
        sequence: u64,
        offset: u64,
        out: &mut Vec<Event>,
    ) {
        let OfTrace { states, indexes, .. } = of;
        let symbol = |iid: u64| {
            let known = of.symbols.get(&(sequence, iid))?;
            let place = known.partition_point(|(from, _)| *from <= offset).checked_sub(1)?;
            Some(known[place].1.clone())
        };
        let mut found = Vec::new();
        let mut lost = false;
        // Compact ones first: our writer puts none behind an event of the same time.
        for (field, value) in Fields(content) {
            match field {
                bundle::COMPACT_SCHED => compact_sched(value.bytes(), states, &mut found),
                bundle::LOST_EVENTS => lost |= value.number() != 0,
                _ => {}
            }
        }
        for (field, value) in Fields(content) {
            if field == bundle::EVENT {
                found.extend(ftrace(value.bytes(), states, indexes));
            }
        }
        found.sort_by_key(|found| found.time);
        let cpu = Cpu(self.cpu);
        if lost && let Some(first) = found.iter().find(|found| found.time >= of.from) {
            let time = Nanos(first.time);
            let by = Pid::IDLE;
            let context = Context::Task;
            out.push(Event { time, by, cpu, context, what: What::Lost { count: None } });
        }
        for mut found in found {
            let by = found.by.unwrap_or(self.running);
            if let What::Switch { prev, prev_prio, next, next_prio, .. } = &mut found.what {
                // A compact switch says only what runs next.
                if prev.0 == i32::MIN {
                    *prev = self.running;
                    *prev_prio = self.prio;
                }
                self.running = *next;
                self.prio = *next_prio;
            }
            if found.time < of.from {
                self.cropped += 1;
                continue;
            }
            let by = match found.what {
                What::Switch { prev, .. } => prev,
                _ => by,
            };
            let time = Nanos(found.time);
            let context = found.context;
            for (pid, comm) in found.comm.into_iter().flatten() {
                if !pid.is_idle() {
                    out.push(Event { time, by, cpu, context, what: What::Comm { pid, comm } });
                }
            }
            let native = found.other.and_then(|(field, _)| native::by_field(field));
            if let (Some(native), Some((_, content))) = (native, found.other)
                && let Some((plugged, online)) = native.hotplug(content)
            {
                let what = What::Online { cpu: Cpu(plugged), online };
                out.push(Event { time, by, cpu, context, what });
            }
            if of.keeps && matches!(found.what, What::Other { .. }) {
                let text = |(field, content)| match native {
                    Some(native) => native.text(content, symbol),
                    None if field == event::PRINT => printed(content).trim_end().to_owned(),
                    None => spelt(content),
                };
                self.arguments.push_back(found.other.map(text));
            }
            out.push(Event { time, by, cpu, context, what: found.what });
        }
    }
}

#[cfg(test)]
mod tests;
