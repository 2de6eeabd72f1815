//! Events of a trace.dat: one lane for each CPU of each buffer, merged by time.
//!
//! Resource sketch: a window of pages for each lane (at most 1 MiB over all lanes, at least one page
//! each) and one page's worth of decoded events for each. Nothing grows with the file but the names of
//! tasks seen. Decoding a page touches each byte once, in order.

use super::clock::{Correction, clock};
use super::head::{self, BufferHead, Head, TimeOptions};
use super::header::{Header, Instance, Version};
use super::pages::{Layout, Pages, Unpacker, Visit, walk};
use super::parallel::Crew;
use crate::error::TraceError;
use crate::input::Input;
use crate::live::Piece;
use crate::mark;
use crate::merge::{Merge, Refill, ascend};
use crate::names::Recent;
use crate::plan::Decoder;
use crate::record::{RecordSource, Sink};
use schedlab_model::{
    Context, Cpu, Event, EventSource, Nanos, Pid, Span, TraceInfo, Warning, What,
};
use std::io;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of windows over all lanes: no more than a second-level cache holds beside the rest.
const WINDOWS: usize = 1 << 20;
/// Largest window of a lane: larger reads are no faster.
const WINDOW_MAX: usize = 32 << 10;
/// Events handed out at once: 40 KiB, which stay in the first-level cache.
const BATCH: usize = 1024;

/// A trace.dat as a source of events.
pub(crate) struct DatReader {
    info: TraceInfo,
    warnings: Vec<Warning>,
    merge: Merge,
    lanes: Lanes,
    /// Threads that decode ahead, when asked for.
    crew: Option<Crew>,
    header: Header,
}

impl DatReader {
    pub(crate) fn open(input: Input, threads: usize) -> Result<Self, TraceError> {
        Self::open_as(input, threads, false)
    }

    /// `all`: also what is large and only passed on.
    pub(crate) fn open_as(input: Input, threads: usize, all: bool) -> Result<Self, TraceError> {
        let head = head::read(&input).map_err(|stop| TraceError::Broken {
            path: input.path().to_owned(),
            format: "trace.dat",
            offset: stop.offset,
            what: stop.what,
        })?;
        if head.text.is_some() && head.buffers.iter().all(|buffer| buffer.cpus.is_empty()) {
            return Err(TraceError::NoEvents {
                path: input.path().to_owned(),
                format: "trace.dat",
                what: "holds the text of a latency tracer and no events".into(),
            });
        }
        let mut symbols = Vec::new();
        if all {
            symbols = head.kallsyms(&input);
        }
        let Head { mut header, buffers, time, mut warnings, .. } = head;
        header.kallsyms = symbols;
        let instances = buffers.iter().skip(1).map(|buffer| Instance { name: buffer.name.clone() });
        header.instances = instances.collect();
        let ftrace = header.ftrace_formats.iter().map(|text| ("ftrace", text.as_str()));
        let events = header.formats.iter().map(|(system, text)| (system.as_str(), text.as_str()));
        let decoder = Decoder::new(header.encoding, ftrace.chain(events));
        let mut info = info(&header, &decoder, time.tsc.is_some());
        let passing = decoder.passing();
        let decoders = [decoder, passing];
        let shared = Arc::new(Shared { input, decoders });
        let mut lanes = Lanes { shared, unpacker: Unpacker::default(), lanes: Vec::new() };
        let opened = lanes.add(&header, &buffers, &time, &mut warnings);
        opened.map_err(|error| TraceError::io(lanes.shared.input.path(), error))?;
        info.cpus = buffers.iter().flat_map(|buffer| &buffer.cpus).map(|entry| entry.0).collect();
        info.span = lanes.span();
        lanes.choose_buffer(&buffers, &mut warnings);
        let merge = Merge::new(lanes.lanes.len());
        let crew = (threads > 1 && lanes.lanes.len() > 1)
            .then(|| Crew::new(&lanes.shared, std::mem::take(&mut lanes.lanes), threads - 1));
        Ok(Self { info, warnings, merge, lanes, crew, header })
    }
}

impl EventSource for DatReader {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        let more = match &mut self.crew {
            None => self.merge.next(&mut self.lanes, batch, BATCH)?,
            Some(crew) => self.merge.next(crew, batch, BATCH)?,
        };
        if !more {
            if let Some(crew) = self.crew.take() {
                self.lanes.lanes = crew.finish();
            }
            self.lanes.report(&mut self.warnings);
        }
        Ok(more)
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

impl RecordSource for DatReader {
    fn header(&self) -> &Header {
        &self.header
    }

    fn each(&mut self, sink: &mut Sink<'_>) -> io::Result<()> {
        let shared = Arc::clone(&self.lanes.shared);
        for lane in &mut self.lanes.lanes {
            while let Some((page, offset)) =
                lane.pages.next(&shared.input, &mut self.lanes.unpacker)?
            {
                let mut pass = Pass { sink, buffer: lane.buffer, cpu: lane.cpu, result: Ok(()) };
                if let Err(at) = walk(page, lane.layout, &mut pass)
                    && page.len() == lane.layout.page_size
                {
                    pass.lost(0, 0);
                    let first =
                        if lane.damaged.0 == 0 { offset + at as u64 } else { lane.damaged.1 };
                    lane.damaged = (lane.damaged.0 + 1, first);
                }
                pass.result?;
            }
        }
        self.lanes.report(&mut self.warnings);
        Ok(())
    }

    fn by_cpu(&self) -> bool {
        true
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// Passes records on undecoded, with the times that the file has.
struct Pass<'a, 'b> {
    sink: &'a mut Sink<'b>,
    buffer: usize,
    cpu: Cpu,
    result: io::Result<()>,
}

impl Visit for Pass<'_, '_> {
    fn record(&mut self, time: u64, body: &[u8]) {
        if self.result.is_ok() {
            self.result = (self.sink)(self.buffer, self.cpu, Piece::Record(Nanos(time), body));
        }
    }

    fn lost(&mut self, _time: u64, count: u32) {
        if self.result.is_ok() {
            self.result = (self.sink)(self.buffer, self.cpu, Piece::Lost(NonZeroU32::new(count)));
        }
    }
}

fn info(header: &Header, decoder: &Decoder, scaled: bool) -> TraceInfo {
    let version = match header.version {
        Version::V6 => "trace.dat v6",
        Version::V7 => "trace.dat v7",
    };
    let mut info = TraceInfo::new(version, clock(&header.clock, scaled));
    info.kinds = decoder.kinds();
    info.comms = header.cmdlines.iter().copied().collect();
    info.others = decoder.others().to_vec();
    info.kernel.clone_from(&header.uname);
    if let Some(companion) = &header.companion {
        info.topology.clone_from(&companion.topology);
        info.affinity.clone_from(&companion.affinity);
        info.marks.clone_from(&companion.marks);
    }
    if info.marks.is_empty()
        && let Some((_, text)) = header.formats.iter().find(|(system, _)| system == mark::SYSTEM)
    {
        info.marks = mark::names(text);
    }
    info
}

/// The data of one CPU in one buffer.
pub(super) struct Lane {
    cpu: Cpu,
    /// Index of its buffer in the file.
    buffer: usize,
    layout: Layout,
    data: Range<u64>,
    pages: Pages,
    correction: Correction,
    /// Index into [`Lanes::decoders`].
    decoder: usize,
    names: Recent,
    last: u64,
    raised: u64,
    /// Pages whose records made no sense: how many, and where the first.
    damaged: (u64, u64),
}

/// What all lanes need, also in several threads.
pub(super) struct Shared {
    input: Input,
    /// The one that decodes, and the one that passes the scheduler's events on as others.
    decoders: [Decoder; 2],
}

struct Lanes {
    shared: Arc<Shared>,
    unpacker: Unpacker,
    lanes: Vec<Lane>,
}

impl Lanes {
    fn add(
        &mut self,
        header: &Header,
        buffers: &[BufferHead],
        time: &TimeOptions,
        warnings: &mut Vec<Warning>,
    ) -> io::Result<()> {
        let lanes: usize = buffers.iter().map(|buffer| buffer.cpus.len()).sum();
        let window = (WINDOWS / lanes.max(1)).min(WINDOW_MAX);
        let mut absent = 0;
        for (index, buffer) in buffers.iter().enumerate() {
            let page_size = buffer.page_size as usize;
            if !(64..=1 << 26).contains(&page_size) {
                let what = format!("pages of {page_size} bytes in buffer '{}'", buffer.name);
                warnings.push(Warning::new("trace-head-damaged", what, ""));
                continue;
            }
            let layout = Layout { encoding: header.encoding, page_size };
            let clock = buffer.clock.as_deref().unwrap_or(&header.clock);
            for (cpu, data) in buffer.cpus.iter().filter(|(_, data)| !data.is_empty()) {
                let mut pages = Pages::new(buffer.packing, layout, data.clone(), window);
                pages.start(&self.shared.input)?;
                if data.start >= self.shared.input.len() {
                    absent += 1;
                    continue;
                }
                self.lanes.push(Lane {
                    cpu: *cpu,
                    buffer: index,
                    layout,
                    data: data.clone(),
                    pages,
                    correction: Correction::new(time, *cpu, clock),
                    decoder: 0,
                    names: Recent::default(),
                    last: 0,
                    raised: 0,
                    damaged: (0, 0),
                });
            }
        }
        if absent > 0 {
            let path = self.shared.input.path().display();
            let end = self.shared.input.len();
            let what = format!(
                "{path}: the data of {absent} CPUs lies beyond the end of the file (at offset {end})"
            );
            let remedy = "what stands before it was read: figures are partial";
            warnings.push(Warning::new("trace-cut", what, remedy));
        }
        Ok(())
    }

    /// First and last instant, from the first and last page of each CPU; unknown when packed.
    fn span(&self) -> Option<Span> {
        let mut span: Option<Span> = None;
        for lane in &self.lanes {
            let (first, last) = lane.ends(&self.shared.input)?;
            let known = span.get_or_insert(Span::new(first, last));
            known.start = known.start.min(first);
            known.end = known.end.max(last);
        }
        span
    }

    /// When several buffers recorded the scheduler's events, the first of them tells the story and
    /// the others are passed on: else every switch would happen twice.
    fn choose_buffer(&mut self, buffers: &[BufferHead], warnings: &mut Vec<Warning>) {
        if buffers.len() < 2 {
            return;
        }
        let has_sched = |lane: &Lane| {
            let mut search = Search { decoder: &self.shared.decoders[0], found: false };
            lane.first_page(&self.shared.input, &mut search);
            search.found
        };
        let mut sched: Vec<usize> =
            self.lanes.iter().filter(|lane| has_sched(lane)).map(|lane| lane.buffer).collect();
        sched.dedup();
        let Some((&first, rest)) = sched.split_first().filter(|(_, rest)| !rest.is_empty()) else {
            return;
        };
        for lane in &mut self.lanes {
            lane.decoder = usize::from(lane.buffer != first);
        }
        let name = |index: usize| match buffers[index].name.as_str() {
            "" => "the top buffer".to_owned(),
            name => format!("buffer '{name}'"),
        };
        let rest: Vec<String> = rest.iter().map(|&index| name(index)).collect();
        let what = format!(
            "scheduler events are in several buffers: those of {} are used, those of {} counted only",
            name(first),
            rest.join(", ")
        );
        warnings.push(Warning::new("several-buffers", what, ""));
    }

    /// What was found wrong in the pages.
    fn report(&mut self, warnings: &mut Vec<Warning>) {
        let path = self.shared.input.path().display();
        for lane in &mut self.lanes {
            let cpu = lane.cpu;
            if let Some((offset, what)) = lane.pages.trouble.take() {
                let what = format!("{path}: CPU {cpu}: {what} (at offset {offset})");
                let remedy = "what stands before it was read: figures are partial";
                warnings.push(Warning::new("trace-cut", what, remedy));
            }
            let (count, offset) = std::mem::take(&mut lane.damaged);
            if count > 0 {
                let what = format!(
                    "{path}: CPU {cpu}: {count} pages hold records that make no sense, the first \
                     at offset {offset}"
                );
                warnings.push(Warning::new("trace-damaged", what, "events are missing there"));
            }
            let raised = std::mem::take(&mut lane.raised);
            if raised > 0 {
                let what = format!("{path}: CPU {cpu}: time goes back before {raised} events");
                let remedy = "their times were raised to their predecessors'";
                warnings.push(Warning::new("time-goes-back", what, remedy));
            }
        }
    }
}

impl Refill for Lanes {
    fn refill(&mut self, lane: usize, out: &mut Vec<Event>) -> io::Result<bool> {
        self.lanes[lane].page(&self.shared, &mut self.unpacker, out)
    }
}

impl Lane {
    /// Appends the events of the next page to `out`; `false` at the end.
    pub(super) fn page(
        &mut self,
        shared: &Shared,
        unpacker: &mut Unpacker,
        out: &mut Vec<Event>,
    ) -> io::Result<bool> {
        let from = out.len();
        let Some((page, offset)) = self.pages.next(&shared.input, unpacker)? else {
            return Ok(false);
        };
        let decoder = &shared.decoders[self.decoder];
        let mut visit = Decode { decoder, names: &mut self.names, cpu: self.cpu, out };
        let walked = walk(page, self.layout, &mut visit);
        if let Err(at) = walked {
            // A page that the file's end cut is told as that.
            if page.len() == self.layout.page_size {
                let first = if self.damaged.0 == 0 { offset + at as u64 } else { self.damaged.1 };
                self.damaged = (self.damaged.0 + 1, first);
            }
            let last = visit.out[from..].last().map_or(self.last, |event| event.time.0);
            visit.lost(last, 0);
        }
        let fresh = &mut out[from..];
        self.correction.apply(fresh);
        let (last, raised) = ascend(fresh, self.last);
        self.last = last;
        self.raised += raised;
        Ok(true)
    }

    /// Times of the first and of the last record; `None` when packed or unreadable.
    fn ends(&self, input: &Input) -> Option<(Nanos, Nanos)> {
        let page_size = self.layout.page_size as u64;
        let end = self.data.end.min(input.len());
        let pages = end.checked_sub(self.data.start)?.div_ceil(page_size);
        let last_at = self.data.start + pages.checked_sub(1)? * page_size;
        let mut times = Times::default();
        self.page_at(input, self.data.start, &mut times)?;
        let first = times.first?;
        self.page_at(input, last_at, &mut times)?;
        let corrected = |time| Nanos(self.correction.time(time));
        Some((corrected(first), corrected(times.last?)))
    }

    fn first_page(&self, input: &Input, visit: &mut impl Visit) {
        let mut pages = self.pages.again(self.data.clone());
        if pages.start(input).is_ok()
            && let Ok(Some((page, _))) = pages.next(input, &mut Unpacker::default())
        {
            let _ = walk(page, self.layout, visit);
        }
    }

    fn page_at(&self, input: &Input, at: u64, visit: &mut impl Visit) -> Option<()> {
        if self.pages.is_packed() {
            return None;
        }
        let mut page = vec![0; self.layout.page_size];
        let count = input.read_at(at, &mut page).ok()?;
        let _ = walk(&page[..count], self.layout, visit);
        Some(())
    }
}

/// Decodes records into events.
struct Decode<'a> {
    decoder: &'a Decoder,
    names: &'a mut Recent,
    cpu: Cpu,
    out: &'a mut Vec<Event>,
}

impl Visit for Decode<'_> {
    #[inline]
    fn record(&mut self, time: u64, body: &[u8]) {
        self.decoder.decode(time, self.cpu, body, self.names, self.out);
    }

    #[cold]
    fn lost(&mut self, time: u64, count: u32) {
        let what = What::Lost { count: NonZeroU32::new(count) };
        let (time, by, context) = (Nanos(time), Pid::IDLE, Context::Task);
        self.out.push(Event { time, by, cpu: self.cpu, context, what });
    }
}

/// Looks for a record of the scheduler's.
struct Search<'a> {
    decoder: &'a Decoder,
    found: bool,
}

impl Visit for Search<'_> {
    fn record(&mut self, _time: u64, body: &[u8]) {
        self.found |= self.decoder.is_sched(body);
    }

    fn lost(&mut self, _time: u64, _count: u32) {}
}

/// Notes the first and the last time.
#[derive(Default)]
struct Times {
    first: Option<u64>,
    last: Option<u64>,
}

impl Visit for Times {
    fn record(&mut self, time: u64, _body: &[u8]) {
        self.first.get_or_insert(time);
        self.last = Some(time);
    }

    fn lost(&mut self, _time: u64, _count: u32) {}
}
