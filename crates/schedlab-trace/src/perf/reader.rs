//! Events of a perf.data, put in order of time.
//!
//! perf dumps each CPU's ring in turn and marks the end of a round; events of a round are never
//! older than the newest of the round before the last. So a lane for each CPU is filled for a round,
//! and all up to the newest event of the previous round are merged and handed out.
//!
//! Memory: two rounds of events (what the rings hold, twice), not the file.

use super::head::Head;
use super::layout::{Layout, When};
use super::pass::{Held, HeldPiece};
use super::records::{self, Records};
use super::{MAGIC_BIG, feature};
use crate::encoding::Encoding;
use crate::error::TraceError;
use crate::input::{Input, Stop};
use crate::merge::{Merge, Refill, ascend};
use crate::names::{self, Recent};
use crate::plan::Decoder;
use schedlab_model::{
    Comm, Context, Cpu, CpuSet, Event, EventSource, Kind, Nanos, Pid, TraceInfo, Warning, What,
};
use std::io;
use std::num::NonZeroU32;
use std::ops::Range;

const BATCH: usize = 1024;
/// A file that marks no rounds is taken in pieces of this many events, and sorted within them.
const ROUND_MAX: usize = 1 << 22;

/// A perf.data as a source of events.
pub(crate) struct PerfReader {
    input: Input,
    records: Records,
    /// Where the records lie.
    data: Range<u64>,
    head: Head,
    /// The layout of all tracepoints when they have one in common.
    common: Option<Layout>,
    decoder: Decoder,
    info: TraceInfo,
    warnings: Vec<Warning>,
    lanes: Vec<Lane>,
    ready: Ready,
    merge: Merge,
    order: Order,
    ended: bool,
    /// Samples that carry no tracepoint, and records that make no sense.
    foreign: u64,
    broken: u64,
    /// Changes of name that the record layer met.
    renamed: u64,
}

/// What the order of rounds says.
#[derive(Default)]
struct Order {
    /// Newest event so far.
    newest: u64,
    /// Newest event when the last round ended: all up to it can be handed out now.
    limit: u64,
    /// Last time that was handed out.
    last: u64,
    /// Events that came too late for their round.
    late: u64,
    /// Events that wait.
    waiting: usize,
}

/// What one CPU logged and was not handed out yet.
#[derive(Default)]
struct Lane {
    events: Vec<Event>,
    names: Recent,
    /// The latest time that came, and whether an earlier one came after it: a ring is in order but
    /// for rare cases, and looking at all events again costs a pass over memory.
    last: u64,
    unsorted: bool,
}

impl Lane {
    /// Takes note of the time of what was appended.
    #[inline]
    fn came(&mut self, time: u64) {
        self.unsorted |= time < self.last;
        self.last = self.last.max(time);
    }
}

/// Sorted events of each CPU that are ready.
#[derive(Default)]
struct Ready(Vec<Vec<Event>>);

impl Refill for Ready {
    fn refill(&mut self, lane: usize, out: &mut Vec<Event>) -> io::Result<bool> {
        let events = &mut self.0[lane];
        if events.is_empty() {
            return Ok(false);
        }
        std::mem::swap(events, out);
        Ok(true)
    }
}

impl PerfReader {
    pub(crate) fn open(input: Input) -> Result<Self, TraceError> {
        let path = input.path().to_owned();
        let broken = |stop: Stop| TraceError::Broken {
            path: path.clone(),
            format: "perf.data",
            offset: stop.offset,
            what: stop.what,
        };
        let mut start = [0; 16];
        let count = input.read_at(0, &mut start).map_err(|error| TraceError::io(&path, error))?;
        if count < 16 {
            return Err(broken(Stop { offset: count as u64, what: "the file ends here".into() }));
        }
        let big_endian = start.starts_with(MAGIC_BIG);
        let encoding = Encoding { big_endian, long: 8 };
        let size = encoding.u64(*start[8..].first_chunk().expect("16 bytes were read"));
        let mut head = Head::new(encoding);
        let pipe = size == 16;
        let data = if pipe { 16..input.len() } else { head.read(&input).map_err(broken)? };
        let form = if pipe { "perf.data (pipe)" } else { "perf.data" };
        let clock = head.clock.clone();
        let mut reader = Self {
            records: Records::new(encoding, data.clone()),
            data,
            common: None,
            decoder: Decoder::new(encoding, std::iter::empty()),
            info: TraceInfo::new(form, clock),
            warnings: Vec::new(),
            lanes: Vec::new(),
            ready: Ready::default(),
            merge: Merge::new(0),
            order: Order::default(),
            ended: false,
            foreign: 0,
            broken: 0,
            renamed: 0,
            head,
            input,
        };
        reader.compile();
        // The first round of a pipe begins with all that a file has in its head.
        reader.round().map_err(|error| TraceError::io(&path, error))?;
        if reader.head.tracing.is_none() || !reader.head.has_tracepoints {
            return Err(TraceError::NoEvents { path, format: "perf.data", what: reader.lacks() });
        }
        Ok(reader)
    }

    /// Why there is nothing to read.
    fn lacks(&self) -> String {
        let record = "record it with `perf sched record` or `schedlab record`";
        match (&self.records.trouble, self.head.has_tracepoints) {
            (Some((offset, what)), _) => {
                format!("{what} (at offset {offset}), before any format text")
            }
            (None, true) => format!(
                "the formats of its tracepoints are missing (perf was killed before it wrote them?): \
                 {record}"
            ),
            (None, false) => format!("holds samples of other events, but no tracepoints: {record}"),
        }
    }

    /// Makes plans from what the head says so far.
    fn compile(&mut self) {
        if let Some(tracing) = &self.head.tracing {
            let formats =
                tracing.formats.iter().map(|(system, text)| (system.as_str(), text.as_str()));
            let encoding = Encoding { long: tracing.encoding.long, ..self.head.encoding };
            self.decoder = Decoder::new(encoding, formats);
            self.info.others = self.decoder.others().to_vec();
            self.info.kinds = self.decoder.kinds().with(Kind::Comm).with(Kind::Lost);
        }
        let mut tracepoints = self.head.layouts.iter().filter(|layout| layout.is_tracepoint());
        let first = tracepoints.next().copied();
        let alike = |first: &Layout| tracepoints.all(|layout| layout == first);
        self.common = first.filter(|_| !self.head.has_others).filter(alike);
        self.info.clock = self.head.clock.clone();
        self.info.topology = self.head.hardware.topology();
        self.info.kernel.clone_from(&self.head.release);
        self.info.span = self.head.span;
        let cpus = usize::try_from(self.head.cpus).unwrap_or(0).min(1 << 16);
        self.info.cpus = match &self.info.topology {
            Some(topology) => topology.cpus(),
            None => CpuSet::first(cpus),
        };
    }

    /// Reads records up to the end of a round.
    fn round(&mut self) -> io::Result<()> {
        loop {
            let Some(kind) = self.records.next(&self.input)? else {
                self.ended = true;
                self.order.limit = u64::MAX;
                break;
            };
            match kind {
                records::SAMPLE => self.sample(),
                records::FINISHED_ROUND => break,
                records::COMM | records::LOST | records::LOST_SAMPLES => self.aside(kind),
                records::HEADER_ATTR | records::HEADER_FEATURE | records::HEADER_TRACING_DATA => {
                    self.head_record(kind)?;
                }
                _ => {}
            }
            if self.order.waiting >= ROUND_MAX {
                break;
            }
        }
        self.prepare();
        Ok(())
    }

    #[inline]
    fn sample(&mut self) {
        let record = self.records.get();
        let encoding = self.head.encoding;
        let own;
        let layout = match &self.common {
            Some(layout) => layout,
            None => match self.head.layout(record) {
                Some(layout) => {
                    own = layout;
                    &own
                }
                None => return self.foreign += 1,
            },
        };
        if !layout.is_tracepoint() {
            return self.foreign += 1;
        }
        let Some((when, body)) = layout.sample(record, encoding) else {
            return self.broken += 1;
        };
        let Ok(cpu) = u16::try_from(when.cpu) else { return self.broken += 1 };
        if usize::from(cpu) >= self.lanes.len() {
            self.lanes.resize_with(usize::from(cpu) + 1, Lane::default);
        }
        let lane = &mut self.lanes[usize::from(cpu)];
        let before = lane.events.len();
        self.decoder.decode(when.time, Cpu(cpu), body, &mut lane.names, &mut lane.events);
        lane.came(when.time);
        self.order.waiting += lane.events.len() - before;
        self.order.newest = self.order.newest.max(when.time);
    }

    /// Records beside the samples: names and losses.
    fn aside(&mut self, kind: u32) {
        let record = self.records.get();
        let encoding = self.head.encoding;
        let Some(layout) = self.head.layouts.first() else { return };
        let When { time, cpu } = layout.trailer(record, encoding);
        let number = |at: usize| record.get(at..).and_then(|rest| rest.first_chunk());
        let u64_at = |at: usize| number(at).map_or(0, |bytes| encoding.u64(*bytes));
        let what = match kind {
            records::COMM => {
                let (pid, comm) = named(record, encoding);
                // Names of tasks that were there before have no time.
                if time == 0 {
                    self.info.comms.insert(pid, comm);
                    return;
                }
                What::Comm { pid, comm }
            }
            _ => {
                let count = u64_at(if kind == records::LOST { 16 } else { 8 });
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                What::Lost { count: NonZeroU32::new(count) }
            }
        };
        // A loss that names no CPU may concern any: the first must bear it.
        let cpu = u16::try_from(cpu).unwrap_or(0);
        if usize::from(cpu) >= self.lanes.len() {
            self.lanes.resize_with(usize::from(cpu) + 1, Lane::default);
        }
        let by = match what {
            What::Comm { pid, .. } => pid,
            _ => Pid::IDLE,
        };
        let (time, context) = (Nanos(time), Context::Task);
        let lane = &mut self.lanes[usize::from(cpu)];
        lane.events.push(Event { time, by, cpu: Cpu(cpu), context, what });
        lane.came(time.0);
        self.order.waiting += 1;
        self.order.newest = self.order.newest.max(time.0);
    }

    /// Parts of the head that come as records through a pipe.
    fn head_record(&mut self, kind: u32) -> io::Result<()> {
        let record = self.records.get().to_vec();
        let encoding = self.head.encoding;
        let u32_at = |at: usize| {
            record.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| encoding.u32(*bytes))
        };
        match kind {
            records::HEADER_ATTR => {
                let size = u32_at(12).unwrap_or(0) as usize;
                let size = if size == 0 { 64 } else { size };
                let rest = record.get(8..).unwrap_or_default();
                let (attr, ids) = rest.split_at(size.min(rest.len()));
                self.head.attr(attr, ids);
            }
            records::HEADER_FEATURE => {
                let bit = record.get(8..).and_then(|rest| rest.first_chunk());
                let bit = bit.map_or(0, |bytes| encoding.u64(*bytes));
                let content = record.get(16..).unwrap_or_default().to_vec();
                let content = Input::memory(self.input.path(), content);
                if let Ok(bit) = u32::try_from(bit) {
                    // What a feature lacks is not needed to read events.
                    let _ = self.head.feature(bit, &content);
                }
            }
            _ => {
                let size = u32_at(8).unwrap_or(0);
                if let Some(bytes) = self.records.payload(&self.input, size)? {
                    let content = Input::memory(self.input.path(), bytes);
                    if let Err(stop) = self.head.feature(feature::TRACING_DATA, &content) {
                        let what = format!(
                            "{}: the format texts could not be read: {}",
                            self.input.path().display(),
                            stop.what
                        );
                        self.warnings.push(Warning::new("trace-head-damaged", what, ""));
                    }
                }
            }
        }
        self.compile();
        Ok(())
    }

    /// Sorts what a round brought and moves what can be handed out.
    fn prepare(&mut self) {
        let limit = self.order.limit;
        let count = self.lanes.len();
        self.ready.0.resize_with(count, Vec::new);
        for (lane, ready) in self.lanes.iter_mut().zip(&mut self.ready.0) {
            let unsorted = std::mem::take(&mut lane.unsorted);
            let lane = &mut lane.events;
            ready.clear();
            if unsorted {
                lane.sort_by_key(|event| event.time);
            }
            let due = lane.partition_point(|event| event.time.0 <= limit);
            // What must wait is copied, what is due changes hands.
            ready.extend_from_slice(&lane[due..]);
            lane.truncate(due);
            std::mem::swap(lane, ready);
            if ready.first().is_some_and(|event| event.time.0 < self.order.last) {
                let (_, raised) = ascend(ready, self.order.last);
                self.order.late += raised;
            }
            self.order.waiting -= ready.len();
        }
        self.merge.restart(count);
        self.order.limit = self.order.newest;
        if self.ended {
            self.order.limit = u64::MAX;
        }
    }

    fn report(&mut self) {
        let path = self.input.path().display();
        if let Some((offset, what)) = self.records.trouble.take() {
            let what = format!("{path}: {what} (at offset {offset})");
            let remedy = "what stands before it was read: figures are partial";
            self.warnings.push(Warning::new("trace-cut", what, remedy));
        }
        let late = std::mem::take(&mut self.order.late);
        if late > 0 {
            let what = format!("{path}: {late} events came later than their round");
            let remedy = "their times were raised to their predecessors'";
            self.warnings.push(Warning::new("time-goes-back", what, remedy));
        }
        let broken = std::mem::take(&mut self.broken);
        if broken > 0 {
            let what = format!("{path}: {broken} samples whose lengths make no sense");
            self.warnings.push(Warning::new("trace-damaged", what, "events are missing there"));
        }
        let foreign = std::mem::take(&mut self.foreign);
        if foreign > 0 {
            let what = format!("{path}: {foreign} samples of events that are no tracepoints");
            self.warnings.push(Warning::new("samples-skipped", what, ""));
        }
        self.warnings.append(&mut self.head.warnings);
    }
}

/// The task and the name that a `COMM` record tells.
fn named(record: &[u8], encoding: Encoding) -> (Pid, Comm) {
    let tid = record.get(12..).and_then(|rest| rest.first_chunk());
    let tid = tid.map_or(0, |bytes| encoding.u32(*bytes));
    (Pid(tid.cast_signed()), names::comm(record.get(16..).unwrap_or_default()))
}

/// What the record layer needs.
impl PerfReader {
    pub(super) fn info_now(&self) -> &TraceInfo {
        &self.info
    }

    pub(super) fn tracing(&self) -> Option<&crate::dat::Header> {
        self.head.tracing.as_ref()
    }

    /// Whether samples hold call chains.
    pub(super) fn has_chains(&self) -> bool {
        self.head.layouts.iter().any(Layout::has_chain)
    }

    /// How often a task changed its name in the records held so far.
    pub(super) fn renamed(&self) -> u64 {
        self.renamed
    }

    pub(super) fn warnings_now(&self) -> &[Warning] {
        &self.warnings
    }

    /// Goes back to the first record.
    pub(super) fn rewind(&mut self) {
        self.records = Records::new(self.head.encoding, self.data.clone());
    }

    /// Appends the records of a round to `held`; `false` when it was the last.
    pub(super) fn hold_round(
        &mut self,
        held: &mut Vec<Held>,
        newest: &mut u64,
    ) -> io::Result<bool> {
        let encoding = self.head.encoding;
        let mut count = 0;
        loop {
            let Some(kind) = self.records.next(&self.input)? else {
                self.report();
                return Ok(false);
            };
            let record = self.records.get();
            let (when, body) = match kind {
                records::FINISHED_ROUND => return Ok(true),
                records::HEADER_TRACING_DATA => {
                    let size = record.get(8..).and_then(|rest| rest.first_chunk());
                    let size = size.map_or(0, |bytes| encoding.u32(*bytes));
                    self.records.payload(&self.input, size)?;
                    continue;
                }
                records::SAMPLE => {
                    let layout = self.common.or_else(|| self.head.layout(record));
                    let Some(layout) = layout.filter(Layout::is_tracepoint) else {
                        self.foreign += 1;
                        continue;
                    };
                    let Some((when, body)) = layout.sample(record, encoding) else {
                        self.broken += 1;
                        continue;
                    };
                    (when, Ok(body))
                }
                records::LOST | records::LOST_SAMPLES => {
                    let at = if kind == records::LOST { 16 } else { 8 };
                    let count = record.get(at..).and_then(|rest| rest.first_chunk());
                    let count = count.map_or(0, |bytes| encoding.u64(*bytes));
                    let Some(layout) = self.head.layouts.first() else { continue };
                    let when = layout.trailer(record, encoding);
                    (when, Err(u32::try_from(count).unwrap_or(u32::MAX)))
                }
                records::COMM => {
                    let (pid, comm) = named(record, encoding);
                    let before = self.info.comms.insert(pid, comm);
                    self.renamed += u64::from(before.is_some_and(|before| before != comm));
                    continue;
                }
                _ => continue,
            };
            let cpu = usize::from(u16::try_from(when.cpu).unwrap_or(0));
            if cpu >= held.len() {
                held.resize_with(cpu + 1, Held::default);
            }
            let held = &mut held[cpu];
            let piece = match body {
                Ok(body) => {
                    let start = held.bytes.len();
                    held.bytes.extend_from_slice(body);
                    HeldPiece::Body { start, length: body.len() }
                }
                Err(count) => HeldPiece::Lost(count),
            };
            held.pieces.push((when.time, piece));
            *newest = (*newest).max(when.time);
            count += 1;
            if count >= ROUND_MAX {
                return Ok(true);
            }
        }
    }
}

impl EventSource for PerfReader {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        loop {
            if self.merge.next(&mut self.ready, batch, BATCH)? {
                self.order.last = batch.last().map_or(self.order.last, |event| event.time.0);
                return Ok(true);
            }
            if self.ended && self.order.waiting == 0 {
                self.report();
                return Ok(false);
            }
            if self.ended {
                self.prepare();
            } else {
                self.round()?;
            }
        }
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_below_the_latest_is_noticed_even_when_it_follows_an_earlier_one() {
        let mut lane = Lane::default();
        lane.came(5);
        assert!(!lane.unsorted);
        lane.came(3);
        assert!(std::mem::take(&mut lane.unsorted));
        lane.came(4);
        assert!(lane.unsorted, "5 may still wait");
    }
}
