//! Events of a trace.dat: one lane for each CPU of each buffer, merged by time.
//!
//! Resource sketch: a window of pages for each lane (at most 1 MiB over all lanes, at least one page
//! each, or an unpacked chunk of ten); a record becomes an event in the caller's batch when its turn
//! comes. Nothing grows with the file but the names of tasks seen. Helpers that fetch and unpack ahead
//! keep two more windows of each lane; threads that decode portions (`parallel_reader`) have lanes of their own.

use super::clock::{Correction, clock};
use super::lane::{Fetch, FileLanes, Lane};
use super::pages::Feed;
use super::parallel_reader::ParallelReader;
use super::read_ahead::{READY, ReadThreads};
use super::read_head::{self, BufferHead, Head, TimeOptions};
use super::records::{Piece, RecordSource, Sink};
use super::shared::Shared;
use super::walk::{Layout, Visit, walk};
use super::written_head::{Header, Instance, Version};
use crate::Options;
use crate::argument_text::{EventBodies, STACK, Spelling};
use crate::background_source::Portable;
use crate::budget::Budget;
use crate::buffers::several;
use crate::chain_names::ChainNames;
use crate::error::TraceError;
use crate::format::identify;
use crate::input::Input;
use crate::mark;
use crate::merge::Merge;
use crate::names::Names;
use crate::plan::Decoder;
use schedlab_model::{
    Context, Cpu, CpuSet, Event, EventSink, EventSource, Nanos, Span, TraceInfo, Warning,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of windows over all lanes: no more than a second-level cache holds beside the rest.
const WINDOWS: usize = 1 << 20;
/// Largest window of a lane: larger reads are no faster.
const WINDOW_MAX: usize = 64 << 10;
/// Events handed out at once: 40 KiB, which stay in the first-level cache.
const BATCH: usize = 1024;
/// Bytes that a lane takes, here and in other threads, beside its window.
const LANE: u64 = 4 * (size_of::<Lane>() + size_of::<Feed>()) as u64;
/// With this many threads, unpacking keeps up with one that decodes ahead of the caller: else it needs them all.
const AHEAD_MIN: usize = 4;

/// Buffers with decoders of their own. Further ones pass on what the last of these does: two that hold events of their own
/// are rare, and a file may name any number.
const PASSING_MAX: usize = 8;

/// Whether a thread of its own decodes ahead of the caller. Without arguments all threads decode what is not packed.
const fn reads_ahead(packed: bool, options: &Options) -> bool {
    options.threads >= if options.arguments { 2 } else { AHEAD_MIN }
        && (packed || options.arguments)
}

/// A trace.dat as a source of events.
pub(crate) struct DatReader {
    info: TraceInfo,
    warnings: Vec<Warning>,
    merge: Merge,
    lanes: FileLanes,
    /// Where several threads decode.
    parallel: Option<Box<ParallelReader>>,
    header: Header,
    /// How other tracepoints' arguments are spelt, if anybody asks.
    spelling: Option<Arc<Spelling>>,
    /// Whether another thread reads, and the caller of that one spells.
    is_ahead: bool,
}

impl DatReader {
    /// Whether one of the threads is left to read ahead of the caller, and the source.
    pub(crate) fn open(input: Input, options: &Options) -> Result<(bool, Self), TraceError> {
        let mut reader = Self::open_as(input, options, false)?;
        reader.is_ahead = reads_ahead(reader.lanes.is_packed(), options);
        Ok((reader.is_ahead, reader))
    }

    /// `all`: also what is large and only passed on.
    pub(crate) fn open_as(input: Input, options: &Options, all: bool) -> Result<Self, TraceError> {
        let head = read_head::read(&input).map_err(|stop| {
            TraceError::broken(input.path(), "trace.dat", stop.offset, &stop.what)
        })?;
        if head.text.is_some() && head.buffers.iter().all(|buffer| buffer.cpus.is_empty()) {
            let what = "holds the text of a latency tracer, but no events";
            return Err(TraceError::no_events(input.path(), "trace.dat", what));
        }
        let names_functions = options.arguments
            && formats(&head.header)
                .any(|(system, text)| is_stack(system, text) || is_timer(system, text));
        let mut symbols = if all || names_functions { head.kallsyms(&input) } else { Vec::new() };
        if names_functions && !input.budget().take(symbols_take(&symbols)) {
            symbols.clear();
        }
        let Head { mut header, buffers, time, mut warnings, .. } = head;
        let instances = buffers.iter().skip(1).map(|buffer| Instance { name: buffer.name.clone() });
        header.instances = instances.collect();
        let mut decoder = Decoder::new(header.encoding, formats(&header));
        decoder.keeps = options.arguments;
        if header.companion.as_ref().is_some_and(|companion| companion.no_contexts) {
            decoder.contexts = [Context::Unknown; 256];
        }
        let spelling = options
            .arguments
            .then(|| spelling(&header, &symbols, input.budget(), options))
            .map(Arc::new);
        header.kallsyms = if all { symbols } else { Vec::new() };
        let mut info = info(&header, &decoder, time.tsc.is_some());
        let shared = Arc::new(Shared { input, decoder, passing: Vec::new() });
        let mut opening =
            Opening { shared, lanes: Vec::new(), feeds: Vec::new(), taken: BTreeMap::new() };
        let opened = opening.add(&header, &buffers, &time, &mut warnings);
        opened.map_err(|error| TraceError::io(opening.shared.input.path(), &error))?;
        hold_the_largest_pages(&mut header, &buffers);
        // Version 7 leaves out CPUs without data that were recorded all the same; the count has them.
        info.cpus = CpuSet::first(header.cpus as usize);
        let companion = header.companion.as_ref();
        if let Some(observed) = companion.and_then(|companion| companion.observed.as_ref()) {
            info.cpus = info.cpus.intersection(observed);
        }
        warnings.extend(companion.and_then(|companion| companion.chosen).map(filtered));
        let known = header.companion.as_ref().and_then(|companion| companion.span);
        info.span = opening.span(known);
        opening.choose_buffers(&buffers, &mut warnings);
        let lanes = opening.finish(options);
        let divided = !options.arguments;
        let parallel = divided
            .then(|| ParallelReader::new(&lanes, options.threads, options.portion))
            .flatten();
        let merge = Merge::default();
        let parallel = parallel.map(Box::new);
        let is_ahead = false;
        Ok(Self { info, warnings, merge, lanes, parallel, header, spelling, is_ahead })
    }
}

#[cfg(test)]
impl DatReader {
    /// The lanes from which the reader takes records.
    pub(super) fn lanes(&self) -> &FileLanes {
        &self.lanes
    }
}

impl Portable for DatReader {
    fn spelling(&self) -> Option<Arc<Spelling>> {
        self.spelling.clone()
    }

    fn bodies(&mut self) -> &mut EventBodies {
        self.merge.bodies()
    }

    fn info_mut(&mut self) -> &mut TraceInfo {
        &mut self.info
    }
}

impl EventSource for DatReader {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        let Self { merge, lanes, .. } = self;
        let more = match &mut self.parallel {
            None => merge.next(lanes, batch, BATCH)?,
            Some(parallel) => parallel.next(merge, lanes, batch, BATCH)?,
        };
        if !more {
            self.lanes.report(&mut self.warnings);
            let spells = self.spelling.as_ref().filter(|_| !self.is_ahead);
            self.warnings.extend(spells.iter().flat_map(|of| of.notes(true)));
        }
        Ok(more)
    }

    fn drain<S: EventSink>(&mut self, sink: &mut S) -> io::Result<()> {
        let Self { merge, lanes, .. } = self;
        match &mut self.parallel {
            None => merge.drain(lanes, sink)?,
            Some(parallel) => parallel.drain(merge, lanes, sink)?,
        }
        self.lanes.report(&mut self.warnings);
        Ok(())
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        let spelling = self.spelling.as_ref()?;
        Some(spelling.text(self.merge.body(index)?).into())
    }
}

impl RecordSource for DatReader {
    fn header(&self) -> &Header {
        &self.header
    }

    fn each(&mut self, sink: &mut Sink<'_>) -> io::Result<()> {
        for index in 0..self.lanes.lanes.len() {
            while self.lanes.turn(index)? {
                let lane = &mut self.lanes.lanes[index];
                let page = lane.pages.page();
                let mut pass = Pass { sink, buffer: lane.buffer, cpu: lane.cpu, result: Ok(()) };
                if let Err(at) = walk(page, lane.layout, &mut pass)
                    && page.len() == lane.layout.page_size
                {
                    pass.lost(0, 0);
                    pass.result?;
                    lane.damage(at);
                } else {
                    pass.result?;
                }
            }
        }
        self.lanes.report(&mut self.warnings);
        Ok(())
    }

    fn by_cpu(&self) -> bool {
        true
    }

    fn clock(&self) -> Box<dyn Fn(usize, Cpu, Nanos) -> Nanos> {
        let lanes = self.lanes.lanes.iter();
        let corrected = lanes.filter(|lane| !lane.correction.is_identity());
        let corrections: BTreeMap<_, _> =
            corrected.map(|lane| ((lane.buffer, lane.cpu), lane.correction.clone())).collect();
        Box::new(move |buffer, cpu, time| {
            corrections
                .get(&(buffer, cpu))
                .map_or(time, |correction| Nanos(correction.time(time.0)))
        })
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// What it means that only events about some tasks are there.
fn filtered(tasks: usize) -> Warning {
    let plural = if tasks == 1 { "" } else { "s" };
    let what = format!(
        "metrics of CPUs and of other tasks are not valid: the trace was cut to {tasks} \
         task{plural}"
    );
    Warning::new("events-filtered", what, "use the whole trace for them")
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

/// How other tracepoints are spelt, with names for the functions in stacks.
fn spelling(header: &Header, symbols: &[u8], budget: &Arc<Budget>, options: &Options) -> Spelling {
    let spelling = Spelling::new(header.encoding, formats(header)).with_symbols(symbols);
    match header.companion.as_ref().and_then(|companion| companion.code.as_ref()) {
        Some(code) => {
            spelling.with_chains(Arc::new(ChainNames::of_code(budget, options.names.clone(), code)))
        }
        None => spelling,
    }
}

/// Whether a format is that of call stacks.
fn is_stack(system: &str, text: &str) -> bool {
    (Some(system), identify(text).map(|of| of.0)) == (Some(STACK.0), Some(STACK.1))
}

/// Whether a format names the function of a timer by its address.
fn is_timer(system: &str, text: &str) -> bool {
    system == "timer" && identify(text).is_some_and(|of| of.0 == "hrtimer_expire_entry")
}

/// Bytes that a table of these symbols takes: a name and its address for each line.
fn symbols_take(text: &[u8]) -> u64 {
    let lines = text.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    text.len() as u64 + lines * 64
}

/// All format texts, with their systems.
fn formats(header: &Header) -> impl Iterator<Item = (&str, &str)> {
    let ftrace = header.ftrace_formats.iter().map(|text| ("ftrace", text.as_str()));
    ftrace.chain(header.formats.iter().map(|(system, text)| (system.as_str(), text.as_str())))
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
        info.groups.clone_from(&companion.groups);
        info.conditions.clone_from(&companion.conditions);
        info.processes.clone_from(&companion.processes);
        info.counters.clone_from(&companion.counters);
        info.only.clone_from(&companion.only);
        info.marks.clone_from(&companion.marks);
        info.trigger = companion.trigger;
        info.at_start.clone_from(&companion.at_start);
    }
    if info.marks.is_empty()
        && let Some((_, text)) = header.formats.iter().find(|(system, _)| system == mark::SYSTEM)
    {
        info.marks = mark::names(text);
    }
    info
}

/// A caller that passes the records on has pages of one size: that of the buffer whose pages are the largest.
fn hold_the_largest_pages(header: &mut Header, buffers: &[BufferHead]) {
    let sizes = buffers.iter().map(|buffer| buffer.page_size);
    let sound = sizes.filter(|size| size.is_multiple_of(4096) && *size <= 1 << 26);
    if let Some(largest) = sound.max().filter(|largest| *largest > header.page_size) {
        header.page_size = largest;
        header.header_page = String::new();
    }
}

/// A file's lanes before reading begins.
struct Opening {
    shared: Arc<Shared>,
    lanes: Vec<Lane>,
    /// One for each lane.
    feeds: Vec<Feed>,
    /// Where each lane's data begins and ends.
    taken: BTreeMap<u64, u64>,
}

impl Opening {
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
        let mut again = 0;
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
                let mut feed = Feed::new(buffer.packing, layout, data.clone(), window);
                feed.start(&self.shared.input)?;
                if data.start >= self.shared.input.len() {
                    absent += 1;
                    continue;
                }
                if !self.is_apart(data) {
                    again += 1;
                    continue;
                }
                if !self.shared.input.budget().take(LANE) {
                    continue;
                }
                let correction = Correction::new(time, *cpu, clock);
                let packed = feed.is_packed();
                self.lanes.push(Lane::new(index, *cpu, layout, data.clone(), correction, packed));
                self.feeds.push(feed);
            }
        }
        if again > 0 {
            let path = self.shared.input.path().display();
            let what = format!("{path}: {again} CPUs have data that is another CPU's already");
            warnings.push(Warning::new("trace-damaged", what, "schedlab skips these CPUs"));
        }
        if absent > 0 {
            let path = self.shared.input.path().display();
            let end = self.shared.input.len();
            let what = format!(
                "{path}: the data of {absent} CPUs lies beyond the end of the file (at offset {end})"
            );
            let remedy = "metrics are partial: schedlab read the trace up to there";
            warnings.push(Warning::new("trace-cut", what, remedy));
        }
        Ok(())
    }

    /// Whether no lane has any of this data, which is then taken: else a short file could have as much as it likes.
    fn is_apart(&mut self, data: &Range<u64>) -> bool {
        let before = self.taken.range(..data.end).next_back();
        let apart = before.is_none_or(|(_, end)| *end <= data.start);
        if apart {
            self.taken.insert(data.start, data.end);
        }
        apart
    }

    /// First and last instant, from the first and last page of each CPU; unknown when packed. A recorder
    /// that knows from when to when it looked has said so, and is believed where nothing is cut off.
    fn span(&self, told: Option<Span>) -> Option<Span> {
        let end = self.shared.input.len();
        let whole = self.lanes.iter().all(|lane| lane.data.end <= end);
        let mut span = told.filter(|_| whole);
        for (lane, feed) in self.lanes.iter().zip(&self.feeds) {
            let Some((first, last)) = lane.ends(feed, &self.shared.input) else {
                return told.filter(|_| whole);
            };
            let known = span.get_or_insert(Span::new(first, last));
            known.start = known.start.min(first);
            known.end = known.end.max(last);
        }
        span
    }

    /// Of each of the scheduler's events, the first buffer that begins with some is used and further ones pass it on: else
    /// every switch would happen twice.
    fn choose_buffers(&mut self, buffers: &[BufferHead], warnings: &mut Vec<Warning>) {
        if buffers.len() < 2 {
            return;
        }
        let mut held = BTreeMap::<usize, BTreeSet<u16>>::new();
        for (lane, feed) in self.lanes.iter().zip(&self.feeds) {
            held.entry(lane.buffer).or_default().extend(lane.sched(feed, &self.shared));
        }
        let mut owners = BTreeMap::<u16, usize>::new();
        let mut used = BTreeSet::new();
        let mut again = BTreeSet::new();
        let mut passing: Vec<Decoder> = Vec::new();
        for (buffer, events) in held {
            if !owners.is_empty() && passing.len() < PASSING_MAX {
                passing.push(self.shared.decoder.passing(&owners.keys().copied().collect()));
            }
            for lane in self.lanes.iter_mut().filter(|lane| lane.buffer == buffer) {
                lane.passing = passing.len().checked_sub(1);
            }
            for event in events {
                let owner = *owners.entry(event).or_insert(buffer);
                if owner != buffer {
                    used.insert(owner);
                    again.insert(buffer);
                }
            }
        }
        Arc::get_mut(&mut self.shared).expect("nobody reads yet").passing = passing;
        if !again.is_empty() {
            let name = |index: &usize| buffers[*index].name.as_str();
            warnings.push(several(used.iter().map(name), again.iter().map(name)));
        }
    }

    /// Ready to be read.
    fn finish(self, options: &Options) -> FileLanes {
        let Self { shared, lanes, feeds, .. } = self;
        let packed = feeds.iter().any(Feed::is_packed);
        // What is kept ready must not take the room of what is read: a chunk has ten pages.
        let chunk = |feed: &Feed| (READY * 10 * feed.page_size()) as u64;
        let ready = feeds.iter().map(chunk).sum::<u64>();
        let roomy = ready < shared.input.budget().left() / 2;
        let decoders = 1 + usize::from(reads_ahead(packed, options));
        let fetch = if packed && options.threads > decoders && roomy {
            Fetch::Ahead(ReadThreads::new(&shared, feeds, options.threads - decoders))
        } else {
            Fetch::Here(feeds, Box::default())
        };
        FileLanes { shared, lanes, fetch, names: Names::default() }
    }
}

impl FileLanes {
    /// What was found wrong in the pages.
    fn report(&mut self, warnings: &mut Vec<Warning>) {
        warnings.extend(self.shared.input.budget().warning(self.shared.input.path()));
        let path = self.shared.input.path().display();
        let troubles = self.fetch.troubles();
        for (lane, trouble) in self.lanes.iter_mut().zip(troubles) {
            let cpu = lane.cpu;
            if let Some((offset, what)) = trouble {
                let what = format!("{path}: CPU {cpu}: {what} (at offset {offset})");
                let remedy = "metrics are partial: schedlab read the trace up to there";
                warnings.push(Warning::new("trace-cut", what, remedy));
            }
            let (count, offset) = std::mem::take(&mut lane.damaged);
            if count > 0 {
                let what = format!(
                    "{path}: CPU {cpu}: {count} pages hold invalid records, the first at offset \
                     {offset}"
                );
                warnings.push(Warning::new("trace-damaged", what, "events are missing there"));
            }
            let raised = std::mem::take(&mut lane.raised);
            if raised > 0 {
                let what = format!(
                    "{path}: CPU {cpu}: {raised} events are earlier than the event before them"
                );
                let remedy = "each of them got the time of the event before it";
                warnings.push(Warning::new("time-goes-back", what, remedy));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dat::pages::Packing;

    #[test]
    fn call_stacks_are_those_of_ftrace() {
        let text = |name: &str| format!("name: {name}\nID: 4\nformat:\n");
        assert!(is_stack("ftrace", &text("kernel_stack")));
        assert!(!is_stack("sched", &text("kernel_stack")));
        assert!(!is_stack("ftrace", &text("user_stack")));
    }

    #[test]
    fn records_are_passed_on_in_pages_as_large_as_the_largest() {
        let size = |sizes: &[u32]| {
            let buffer = |page_size: &u32| BufferHead {
                name: String::new(),
                clock: None,
                page_size: *page_size,
                packing: Packing::None,
                cpus: Vec::new(),
            };
            let buffers: Vec<BufferHead> = sizes.iter().map(buffer).collect();
            let mut header = Header { header_page: "x".into(), ..Header::default() };
            hold_the_largest_pages(&mut header, &buffers);
            (header.page_size, header.header_page.is_empty())
        };
        assert_eq!(size(&[]), (4096, false));
        assert_eq!(size(&[4096]), (4096, false));
        assert_eq!(size(&[4096, 65_536, 8_192]), (65_536, true));
        assert_eq!(size(&[5_000]), (4096, false), "no whole pages");
        assert_eq!(size(&[1 << 26]), (1 << 26, true));
        assert_eq!(size(&[(1 << 26) + 4096]), (4096, false), "larger than any");
    }

    #[test]
    fn a_cut_of_one_task_or_of_several_is_told() {
        assert!(filtered(1).what.ends_with("the trace was cut to 1 task"));
        assert!(filtered(2).what.ends_with("the trace was cut to 2 tasks"));
    }
}
