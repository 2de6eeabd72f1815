//! Events of a perf.data, put in order of time.
//!
//! Bodies are held until their round is over (`rounds`), and decoded when their turn comes: names are
//! then noticed in the order of time, and an event is written once. What comes too late even for that
//! has its time raised and is told as a warning, so that times ascend whatever the file says.
//!
//! Memory: two rounds of bodies (what the rings hold, twice), not the file.

use super::head::Head;
use super::layout::{Layout, When};
use super::records::{self, Records};
use super::rounds::Rounds;
use super::{MAGIC_BIG, feature};
use crate::encoding::Encoding;
use crate::error::TraceError;
use crate::input::{Input, Stop};
use crate::merge::{ENDED, Lanes, Merge, Out};
use crate::names::{self, Names};
use crate::plan::Decoder;
use crate::spelling::Spelling;
use schedlab_model::{
    Comm, Cpu, CpuSet, Event, EventSink, EventSource, Kind, Pid, TraceInfo, Warning, What,
};
use std::borrow::Cow;
use std::io;
use std::num::NonZeroU32;
use std::ops::Range;

const BATCH: usize = 1024;

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
    rounds: Rounds,
    merge: Merge,
    names: Names,
    /// The time that was handed out last, and how many events came too late for it.
    last: u64,
    late: u64,
    pipe: bool,
    ended: bool,
    /// Samples that carry no tracepoint, and records that make no sense.
    foreign: u64,
    broken: u64,
    /// Changes of name that the record layer met.
    renamed: u64,
    /// How other tracepoints' arguments are spelt, if anybody asks.
    spelling: Option<Spelling>,
}

/// What is due, as lanes.
struct Due<'a> {
    rounds: &'a mut Rounds,
    decoder: &'a Decoder,
    names: &'a mut Names,
}

/// Takes note of the time of what was handed out last.
struct Latest<'a, S> {
    sink: &'a mut S,
    time: u64,
}

impl<S: EventSink> EventSink for Latest<'_, S> {
    #[inline(always)]
    fn take(&mut self, event: &Event) {
        self.time = event.time.0;
        self.sink.take(event);
    }
}

impl Lanes for Due<'_> {
    fn count(&self) -> usize {
        self.rounds.lanes.len()
    }

    fn next(&mut self, lane: usize) -> io::Result<u64> {
        self.rounds.lanes[lane].turn();
        Ok(self.time(lane))
    }

    fn time(&self, lane: usize) -> u64 {
        let due = self.rounds.due;
        self.rounds.lanes[lane].time().filter(|time| *time <= due).unwrap_or(ENDED)
    }

    #[inline(always)]
    fn put(&mut self, lane: usize, out: &mut impl Out) -> Option<u64> {
        let due = self.rounds.due;
        // Lanes are CPUs, which have 16 bits.
        let cpu = Cpu(lane as u16);
        let next = self.rounds.lanes[lane].put(cpu, self.decoder, self.names, out)?;
        Some(if next <= due { next } else { ENDED })
    }
}

impl PerfReader {
    pub(crate) fn open(input: Input, arguments: bool) -> Result<Self, TraceError> {
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
            rounds: Rounds::default(),
            merge: Merge::default(),
            names: Names::default(),
            last: 0,
            late: 0,
            pipe,
            ended: false,
            foreign: 0,
            broken: 0,
            renamed: 0,
            spelling: arguments.then(Spelling::default),
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

    /// Whether the head comes as records.
    pub(crate) fn is_pipe(&self) -> bool {
        self.pipe
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
            self.decoder = Decoder::new(encoding, formats.clone());
            if let Some(spelling) = &mut self.spelling {
                *spelling = Spelling::new(encoding, formats);
                self.decoder.keeps = true;
            }
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
            // Parts of the head may come between the samples of a pipe.
            let ordinary = self.common.filter(|layout| layout.is_ordinary(self.head.encoding));
            if let Some(layout) = &ordinary {
                self.records.samples(layout, |when, bytes, length| {
                    self.rounds.ordinary(when, bytes, length)
                });
            }
            let Some(kind) = self.records.next(&self.input)? else {
                self.ended = true;
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
            if self.rounds.is_full() {
                break;
            }
        }
        self.rounds.close(self.ended);
        self.late += self.rounds.raise(self.last);
        self.merge.restart();
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
        self.rounds.sample(cpu, when.time, body);
    }

    /// Records beside the samples: names and losses.
    fn aside(&mut self, kind: u32) {
        let record = self.records.get();
        let encoding = self.head.encoding;
        let Some(layout) = self.head.layouts.first() else { return };
        let When { time, cpu } = layout.trailer(record, encoding);
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
            _ => What::Lost { count: lost(kind, record, encoding) },
        };
        // A loss that names no CPU may concern any: the first must bear it.
        let cpu = u16::try_from(cpu).unwrap_or(0);
        self.rounds.aside(cpu, time, what);
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

    fn report(&mut self) {
        let path = self.input.path().display();
        if let Some((offset, what)) = self.records.trouble.take() {
            let what = format!("{path}: {what} (at offset {offset})");
            let remedy = "what stands before it was read: figures are partial";
            self.warnings.push(Warning::new("trace-cut", what, remedy));
        }
        let late = std::mem::take(&mut self.late);
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

/// How many events a record of this kind says were lost.
fn lost(kind: u32, record: &[u8], encoding: Encoding) -> Option<NonZeroU32> {
    let at = if kind == records::LOST { 16 } else { 8 };
    let count = record.get(at..).and_then(|rest| rest.first_chunk());
    let count = count.map_or(0, |bytes| encoding.u64(*bytes));
    NonZeroU32::new(u32::try_from(count).unwrap_or(u32::MAX))
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

    /// Reads the records of a round into `rounds`; `false` when it was the last.
    pub(super) fn hold_round(&mut self, rounds: &mut Rounds) -> io::Result<bool> {
        let encoding = self.head.encoding;
        while !rounds.is_full() {
            let Some(kind) = self.records.next(&self.input)? else {
                self.report();
                return Ok(false);
            };
            let record = self.records.get();
            match kind {
                records::FINISHED_ROUND => return Ok(true),
                records::HEADER_TRACING_DATA => {
                    let size = record.get(8..).and_then(|rest| rest.first_chunk());
                    let size = size.map_or(0, |bytes| encoding.u32(*bytes));
                    self.records.payload(&self.input, size)?;
                }
                records::SAMPLE => {
                    let layout = self.common.or_else(|| self.head.layout(record));
                    let Some(layout) = layout.filter(Layout::is_tracepoint) else {
                        self.foreign += 1;
                        continue;
                    };
                    let sample = layout.sample(record, encoding);
                    let cpu = sample.and_then(|(when, _)| u16::try_from(when.cpu).ok());
                    match sample.zip(cpu) {
                        Some(((when, body), cpu)) => rounds.sample(cpu, when.time, body),
                        None => self.broken += 1,
                    }
                }
                records::LOST | records::LOST_SAMPLES => {
                    let Some(layout) = self.head.layouts.first() else { continue };
                    let When { time, cpu } = layout.trailer(record, encoding);
                    let what = What::Lost { count: lost(kind, record, encoding) };
                    rounds.aside(u16::try_from(cpu).unwrap_or(0), time, what);
                }
                records::COMM => {
                    let (pid, comm) = named(record, encoding);
                    let before = self.info.comms.insert(pid, comm);
                    self.renamed += u64::from(before.is_some_and(|before| before != comm));
                }
                _ => {}
            }
        }
        Ok(true)
    }
}

impl EventSource for PerfReader {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        loop {
            let mut due =
                Due { rounds: &mut self.rounds, decoder: &self.decoder, names: &mut self.names };
            if self.merge.next(&mut due, batch, BATCH)? {
                self.last = batch.last().map_or(self.last, |event| event.time.0);
                return Ok(true);
            }
            if self.ended {
                self.report();
                return Ok(false);
            }
            self.round()?;
        }
    }

    fn drain<S: EventSink>(&mut self, sink: &mut S) -> io::Result<()> {
        loop {
            let mut due =
                Due { rounds: &mut self.rounds, decoder: &self.decoder, names: &mut self.names };
            let mut sink = Latest { sink: &mut *sink, time: self.last };
            self.merge.drain(&mut due, &mut sink)?;
            self.last = sink.time;
            if self.ended {
                self.report();
                return Ok(());
            }
            self.round()?;
        }
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        let spelling = self.spelling.as_ref()?;
        Some(spelling.text(self.merge.kept(index)?).into())
    }
}
