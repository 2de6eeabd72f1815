//! The first half of reading a perf.data: reads its records in the file's order, round by round.
//!
//! This half fetches, unpacks and reduces records (`reduced_record`). The other half (`reader`) puts them in
//! the order of time and may run on another thread. All that the other half needs travels with the rounds.

use super::chains::{self, Chains};
use super::cpu_backlog::Held;
use super::head::{Head, attr_take};
use super::layout::{HEAD, Layout, When};
use super::records::{self, Records};
use super::round::{Ended, HeadUpdate, Round};
use super::{MAGIC_BIG, feature};
use crate::argument_text::{STACK, Spelling};
use crate::chain_names::ChainNames;
use crate::encoding::Encoding;
use crate::error::TraceError;
use crate::function_names::Names;
use crate::input::{Input, Stop};
use crate::name_numbers::Numbers;
use crate::names;
use crate::plan::Decoder;
use schedlab_model::{
    Comm, Cover, Coverage, CpuSet, Kind, KindSet, Left, Pid, Prio, TraceInfo, Warning, What,
};
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bits of a switch's record: the task left, and it stayed runnable.
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// Bytes of the tables by pid that a perf.data has beside [`crate::names::Names`], when they are full.
const TABLES: u64 = (names::PIDS_MAX * (size_of::<(Comm, u32)>() + size_of::<u32>())) as u64;
/// The part of what is left of the budget that a round may have: three wait or are read at a time, five with threads.
const ROUNDS: u64 = 4;
/// No round has more.
const ROUND_MAX: u64 = 1 << 28;
/// Parts of a head that come as records: a session has some thousand events at most, and tens of features.
const HEADS_MAX: usize = 1 << 14;
/// Bytes that a name takes that was given out in a round.
const NEWS: usize = 64;

/// A perf.data whose records are taken up.
pub(crate) struct RoundReader {
    pub(super) input: Input,
    pub(super) records: Records,
    /// Where the records lie.
    data: Range<u64>,
    pub(super) head: Head,
    /// The layout of all tracepoints when they have one in common.
    pub(super) common: Option<Layout>,
    decoder: Arc<Decoder>,
    numbers: Numbers,
    info: TraceInfo,
    warnings: Vec<Warning>,
    /// Whether arguments of other tracepoints are asked for, and how they are spelt.
    arguments: bool,
    spelling: Option<Spelling>,
    /// Takes up call chains, if arguments are asked for.
    chains: Option<Chains>,
    /// Why figures are bounds or unknown.
    notes: Vec<Warning>,
    /// Whether switches are records of their own, and no tracepoint tells them.
    by_records: bool,
    /// Whether the head went on in this round.
    head_changed: bool,
    /// Whether plans must be made anew before the next sample, and how many records the head had.
    stale: bool,
    heads: usize,
    /// Whether the last round held nothing.
    pub(super) was_empty: bool,
    /// Samples that carry no tracepoint, and records that make no sense.
    pub(super) foreign: u64,
    pub(super) broken: u64,
}

impl RoundReader {
    /// Opens a perf.data and takes up its first round.
    pub(crate) fn open(
        input: Input,
        arguments: bool,
        names: Option<Names>,
    ) -> Result<(Self, Round), TraceError> {
        let path = input.path().to_owned();
        let broken = |stop: Stop| TraceError::broken(&path, "perf.data", stop.offset, &stop.what);
        let mut start = [0; 16];
        let count = input.read_at(0, &mut start).map_err(|error| TraceError::io(&path, &error))?;
        if count < 16 {
            return Err(broken(Stop { offset: count as u64, what: "the file ends here".into() }));
        }
        let big_endian = start.starts_with(MAGIC_BIG);
        let encoding = Encoding { big_endian, long: 8 };
        let size = encoding.u64(*start[8..].first_chunk().expect("16 bytes were read"));
        let mut head = Head::new(encoding);
        let budget = input.budget();
        if !budget.take(TABLES) {
            return Err(broken(Stop { offset: 0, what: budget.refusal() }));
        }
        let pipe = size == 16;
        let data = if pipe { 16..input.len() } else { head.read(&input).map_err(broken)? };
        let form = if pipe { "perf.data (pipe)" } else { "perf.data" };
        let recorded = input.modified();
        let names = arguments.then(|| Arc::new(ChainNames::new(budget, names, recorded)));
        let chains = names.map(|names| Chains { names, id: None });
        let mut reader = Self {
            records: Records::new(encoding, data.clone()),
            data,
            common: None,
            decoder: Arc::new(Decoder::new(encoding, std::iter::empty())),
            numbers: Numbers::default(),
            info: TraceInfo::new(form, head.clock.clone()),
            warnings: Vec::new(),
            arguments,
            spelling: None,
            chains,
            notes: Vec::new(),
            by_records: false,
            head_changed: false,
            stale: false,
            heads: 0,
            was_empty: false,
            foreign: 0,
            broken: 0,
            head,
            input,
        };
        reader.compile();
        // The first round of a pipe begins with all that a file has in its head.
        let mut round = Round::default();
        reader.take(&mut round).map_err(|error| TraceError::io(&path, &error))?;
        let has_tracepoints = reader.head.tracing.is_some() && reader.head.has_tracepoints;
        if !has_tracepoints && !reader.head.has_switches {
            let what = reader.lacks(&round);
            return Err(TraceError::no_events(&path, "perf.data", &what));
        }
        Ok((reader, round))
    }

    /// Whether the head comes as records.
    pub(super) fn is_pipe(&self) -> bool {
        // A file's head stands before its records.
        self.data.start == 16
    }

    pub(super) fn path(&self) -> &Path {
        self.input.path()
    }

    /// Why there is nothing to read.
    fn lacks(&self, round: &Round) -> String {
        let record = "record it with `perf sched record` or `schedlab record`";
        let trouble = round.ended.as_ref().and_then(|ended| ended.trouble.as_ref());
        match (trouble, self.head.has_tracepoints) {
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

    /// Makes plans anew if the head went on.
    fn renew(&mut self) {
        if std::mem::take(&mut self.stale) {
            self.compile();
        }
    }

    /// Makes plans from what the head says so far.
    fn compile(&mut self) {
        if let Some(tracing) = &self.head.tracing {
            let stack = chains::format(&self.head);
            let formats =
                tracing.formats.iter().map(|(system, text)| (system.as_str(), text.as_str()));
            let stacks = stack.iter().map(|(_, text)| (STACK.0, text.as_str()));
            let formats = formats.chain(stacks);
            let encoding = Encoding { long: tracing.encoding.long, ..self.head.encoding };
            let mut decoder = Decoder::new(encoding, formats.clone());
            decoder.keeps = self.arguments;
            self.spelling = self.arguments.then(|| Spelling::new(encoding, formats));
            if let Some(chains) = &mut self.chains {
                chains.id = stack.as_ref().map(|(id, _)| *id);
                chains.names.tell_head(&self.head.build_ids, self.head.release.as_deref());
                let names = Arc::clone(&chains.names);
                self.spelling = self.spelling.take().map(|spelling| spelling.with_chains(names));
            }
            self.info.others = decoder.others().to_vec();
            self.info.kinds = decoder.kinds().with(Kind::Comm).with(Kind::Lost);
            self.decoder = Arc::new(decoder);
        } else {
            self.info.kinds = KindSet::EMPTY.with(Kind::Comm).with(Kind::Lost);
        }
        let tracepoints = self.head.scopes.iter().filter_map(|scope| scope.tracepoint);
        let switches =
            tracepoints.into_iter().any(|id| self.decoder.kind_of(id) == Some(Kind::Switch));
        self.by_records = self.head.has_switches && !switches;
        if self.by_records {
            self.info.kinds = self.info.kinds.with(Kind::Switch);
        }
        self.cover();
        self.head_changed = true;
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
            _ if !self.head.covered.is_empty() => self.head.covered.clone(),
            Some(topology) => topology.cpus(),
            None => CpuSet::first(cpus),
        };
    }

    /// Which part of each kind of events the file holds, and why.
    fn cover(&mut self) {
        let mut coverage = Coverage::default();
        let mut notes: BTreeMap<&str, Warning> = BTreeMap::new();
        for scope in &self.head.scopes {
            let Some(kind) = scope.tracepoint.and_then(|id| self.decoder.kind_of(id)) else {
                continue;
            };
            let name = kind.name();
            if let Some(rate) = &scope.rate {
                coverage.set(kind, Cover::Sampled);
                let what = match kind {
                    Kind::Switch => format!(
                        "switches were sampled ({rate}): run times and waits cannot be known"
                    ),
                    _ => format!("{name} was sampled ({rate}): most of these events are missing"),
                };
                let remedy = "record without -F and -c, as `perf sched record` does";
                notes.insert(name, Warning::new("events-sampled", what, remedy));
            } else if scope.by_task {
                coverage.set(kind, Cover::ByTask);
                let what = "only the tasks of the recorded command have run times, which are lower \
                     bounds, and waits are unknown: perf recorded the events of these tasks alone";
                notes.entry("by task").or_insert_with(|| {
                    Warning::new("events-of-some-tasks", what, "record all tasks with -a")
                });
            } else {
                coverage.set(kind, Cover::Complete);
            }
        }
        self.info.coverage = coverage;
        self.notes = notes.into_values().collect();
    }

    /// Takes the records up to the end of a round up into `round`, whose lanes are empty.
    pub(super) fn take(&mut self, round: &mut Round) -> io::Result<()> {
        let limit = self.round_limit();
        loop {
            // Parts of the head may come between the samples of a pipe.
            let known = self.common.filter(|_| !self.stale);
            let ordinary = known.filter(|layout| layout.is_ordinary(self.head.encoding));
            if let Some(layout) = &ordinary {
                let Self { records, decoder, numbers, .. } = self;
                records.samples(layout, |sample| round.ordinary(sample, decoder, numbers));
            }
            let Some(kind) = self.records.next(&self.input)? else {
                round.ended = Some(Box::new(self.ended()));
                break;
            };
            let is_head = matches!(
                kind,
                records::HEADER_ATTR | records::HEADER_FEATURE | records::HEADER_TRACING_DATA
            );
            // Plans are made once for all parts of a head that follow one another.
            if !is_head {
                self.renew();
            }
            match kind {
                records::SAMPLE => self.sample(round),
                records::FINISHED_ROUND if self.ends(round) => break,
                records::MMAP | records::MMAP2 => self.tell_chains(kind),
                records::FORK => {
                    self.tell_chains(kind);
                    round.threads.extend(thread(kind, self.records.get(), self.head.encoding));
                }
                records::COMM | records::LOST | records::LOST_SAMPLES => {
                    self.tell_chains(kind);
                    self.aside(kind, round);
                }
                records::HEADER_BUILD_ID => self.build_id(),
                records::ID_INDEX => {
                    self.head.id_index(self.records.get());
                    self.compile();
                }
                records::SWITCH_CPU_WIDE if self.by_records => self.switch(round),
                _ if is_head => self.head_record(kind)?,
                _ => {}
            }
            if round.weight() + self.numbers.fresh() * NEWS >= limit {
                self.was_empty = false;
                break;
            }
        }
        self.renew();
        round.lanes.iter_mut().for_each(Held::sort);
        self.numbers.turn(&mut round.news);
        if std::mem::take(&mut self.head_changed) {
            round.head = Some(Box::new(HeadUpdate {
                info: self.info.clone(),
                decoder: Arc::clone(&self.decoder),
                spelling: self.spelling.take(),
                warnings: std::mem::take(&mut self.warnings),
            }));
        }
        Ok(())
    }

    /// Whether a mark ends this round. After an empty one, all that came before is handed out: a further empty one would
    /// only have all CPUs looked at again.
    pub(super) fn ends(&mut self, round: &Round) -> bool {
        let is_empty = round.weight() == 0;
        !(std::mem::replace(&mut self.was_empty, is_empty) && is_empty)
    }

    /// Bytes after which a round is taken to end.
    pub(super) fn round_limit(&self) -> usize {
        let part = self.input.budget().left() / ROUNDS;
        usize::try_from(part.min(ROUND_MAX)).unwrap_or(usize::MAX)
    }

    /// What was found, at the end.
    pub(super) fn ended(&mut self) -> Ended {
        Ended {
            trouble: self.records.trouble.take(),
            broken: std::mem::take(&mut self.broken),
            foreign: std::mem::take(&mut self.foreign),
            warnings: std::mem::take(&mut self.head.warnings)
                .into_iter()
                .chain(std::mem::take(&mut self.notes))
                .collect(),
        }
    }

    /// A task left a CPU; its successor's record says the same again. Some kernels make no record when the idle task
    /// leaves, so then the successor's counts.
    fn switch(&mut self, round: &mut Round) {
        let Some(layout) = self.head.layouts.first() else { return };
        let record = self.records.get();
        let encoding = self.head.encoding;
        let half = |at: usize| record.get(at..).and_then(|rest| rest.first_chunk::<2>());
        let misc = half(4).map_or(0, |bytes| encoding.u16(*bytes));
        let other = record.get(HEAD + 4..).and_then(|rest| rest.first_chunk());
        let Some(other) = other.map(|bytes| Pid(encoding.u32(*bytes).cast_signed())) else {
            return;
        };
        let (When { time, cpu }, current) = layout.trailer_with_task(record, encoding);
        let (Ok(cpu), current) = (u16::try_from(cpu), Pid(current)) else { return };
        let (prev, next) = match misc & SWITCH_OUT != 0 {
            true if !current.is_idle() => (current, other),
            false if other.is_idle() => (other, current),
            _ => return,
        };
        let left = match misc & SWITCH_OUT_PREEMPT != 0 {
            _ if prev.is_idle() => Left::Displaced,
            true => Left::Preempted,
            // It sleeps or ended: the record does not say.
            false => Left::Other,
        };
        if current.0 < 0 {
            return;
        }
        let prev_prio = Prio::NORMAL;
        let next_prio = Prio::NORMAL;
        let what = What::Switch { prev, prev_prio, left, next, next_prio };
        round.aside(cpu, time, what);
    }

    /// The layout of the sample at hand; `None` when it carries no tracepoint.
    #[inline]
    pub(super) fn layout(&self) -> Option<Layout> {
        let layout = self.common.or_else(|| self.head.layout(self.records.get()));
        layout.filter(Layout::is_tracepoint)
    }

    fn sample(&mut self, round: &mut Round) {
        let Some(layout) = self.layout() else { return self.foreign += 1 };
        let sample = layout.sample(self.records.get(), self.head.encoding);
        let taken = sample
            .is_some_and(|(when, body)| round.sample(when, body, &self.decoder, &mut self.numbers));
        self.broken += u64::from(!taken);
        if let (Some(chains), Some((when, body)), true) = (&self.chains, sample, taken) {
            let encoding = self.head.encoding;
            let bytes = self.records.get();
            let stack = chains.record(bytes, &layout, &self.decoder, encoding, when, body);
            if let (Some(stack), Ok(cpu)) = (stack, u16::try_from(when.cpu)) {
                round.body(cpu, when.time, &stack);
            }
        }
    }

    /// Takes note of mappings and processes, if anybody asks for stacks.
    fn tell_chains(&self, kind: u32) {
        if let Some(chains) = self.chains.as_ref().filter(|chains| chains.id.is_some()) {
            let record = self.records.get();
            let time = self.placed().map_or(0, |(_, time)| time);
            chains.tell(kind, record, time, self.head.encoding);
        }
    }

    /// A build id that comes through a pipe.
    fn build_id(&mut self) {
        let record = self.records.get();
        let misc = record.get(4..).and_then(|rest| rest.first_chunk());
        let misc = misc.map_or(0, |bytes| self.head.encoding.u16(*bytes));
        let content = record.get(HEAD..).unwrap_or_default().to_vec();
        self.heads += 1;
        if self.heads <= HEADS_MAX {
            self.head.build_id(misc, &content);
            self.stale = true;
        }
    }

    /// Records beside the samples: names and losses.
    fn aside(&mut self, kind: u32, round: &mut Round) {
        let record = self.records.get();
        let encoding = self.head.encoding;
        let Some((cpu, time)) = self.placed() else { return };
        let what = match kind {
            records::COMM => {
                let (pid, comm) = named(record, encoding);
                round.threads.extend(thread(kind, record, encoding));
                // Names of tasks that were there before have no time.
                if time == 0 {
                    return round.named.push((pid, comm));
                }
                What::Comm { pid, comm }
            }
            _ => What::Lost { count: lost(kind, record, encoding) },
        };
        round.aside(cpu, time, what);
    }

    /// The CPU and the time of the record at hand, which is no sample; `None` while no layout is known.
    pub(super) fn placed(&self) -> Option<(u16, u64)> {
        let layout = self.head.layouts.first()?;
        let When { time, cpu } = layout.trailer(self.records.get(), self.head.encoding);
        // A loss that names no CPU may concern any: the first must bear it.
        Some((u16::try_from(cpu).unwrap_or(0), time))
    }

    /// Parts of the head that come as records through a pipe.
    fn head_record(&mut self, kind: u32) -> io::Result<()> {
        self.heads += 1;
        if self.heads > HEADS_MAX {
            return Ok(());
        }
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
                if self.input.budget().take(attr_take(ids)) {
                    self.head.attr(attr, ids);
                }
            }
            records::HEADER_FEATURE => {
                let bit = record.get(8..).and_then(|rest| rest.first_chunk());
                let bit = bit.map_or(0, |bytes| encoding.u64(*bytes));
                let content = record.get(16..).unwrap_or_default().to_vec();
                let content = self.input.part(content);
                if let Ok(bit) = u32::try_from(bit) {
                    // A damaged feature section is ignored: events can be read without it.
                    let _ = self.head.feature(bit, &content);
                }
            }
            _ => {
                let size = u32_at(8).unwrap_or(0);
                if let Some(bytes) = self.records.payload(&self.input, size)? {
                    let content = self.input.part(bytes);
                    if let Err(stop) = self.head.feature(feature::TRACING_DATA, &content) {
                        let what = format!(
                            "{}: cannot read the format texts: {}",
                            self.input.path().display(),
                            stop.what
                        );
                        self.warnings.push(Warning::new("trace-head-damaged", what, ""));
                    }
                }
            }
        }
        self.stale = true;
        Ok(())
    }

    pub(super) fn tracing(&self) -> Option<&crate::dat::Header> {
        self.head.tracing.as_ref()
    }

    /// Goes back to the first record; what was found wrong is found again.
    pub(super) fn rewind(&mut self) {
        self.records = Records::new(self.head.encoding, self.data.clone());
        (self.foreign, self.broken, self.was_empty) = (0, 0, false);
    }
}

/// The task and the name that a `COMM` record tells.
pub(super) fn named(record: &[u8], encoding: Encoding) -> (Pid, Comm) {
    let tid = record.get(12..).and_then(|rest| rest.first_chunk());
    let tid = tid.map_or(0, |bytes| encoding.u32(*bytes));
    (Pid(tid.cast_signed()), names::comm(record.get(16..).unwrap_or_default()))
}

/// The task and its process that a `COMM` or `FORK` record tells.
pub(super) fn thread(kind: u32, record: &[u8], encoding: Encoding) -> Option<(Pid, Pid)> {
    let number = |at: usize| {
        let bytes = record.get(at..)?.first_chunk()?;
        Some(Pid(encoding.u32(*bytes).cast_signed())).filter(|pid| pid.0 > 0)
    };
    Some((number(if kind == records::FORK { 16 } else { 12 })?, number(8)?))
}

/// How many events a record of this kind says were lost.
pub(super) fn lost(kind: u32, record: &[u8], encoding: Encoding) -> Option<NonZeroU32> {
    let at = if kind == records::LOST { 16 } else { 8 };
    let count = record.get(at..).and_then(|rest| rest.first_chunk());
    let count = count.map_or(0, |bytes| encoding.u64(*bytes));
    NonZeroU32::new(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_thread_and_its_process_lie_where_their_record_has_them() {
        let encoding = Encoding::default();
        let pair = |kind, words: &[u32]| thread(kind, &record(words), encoding);
        let found = Some((Pid(8), Pid(7)));
        // Its head, then process and thread; a fork has the parents in between.
        assert_eq!(pair(records::COMM, &[0, 0, 7, 8]), found);
        assert_eq!(pair(records::FORK, &[0, 0, 7, 1, 8, 2]), found);
        assert_eq!(pair(records::COMM, &[0, 0, 0, 8]), None, "the idle task has no process");
        assert_eq!(pair(records::COMM, &[0, 0, 7, u32::MAX]), None);
        assert_eq!(pair(records::FORK, &[0, 0, 7, 1]), None, "it is cut");
    }

    #[test]
    fn losses_are_counted_by_their_record() {
        let encoding = Encoding::default();
        let count = |kind, words: &[u32]| {
            lost(kind, &record(words), encoding).map_or(0, std::num::NonZeroU32::get)
        };
        // The id of the event stands before the number in the older kind.
        assert_eq!(count(records::LOST, &[0, 0, 100, 0, 77, 0]), 77);
        assert_eq!(count(records::LOST_SAMPLES, &[0, 0, 77, 0]), 77);
        assert_eq!(count(records::LOST_SAMPLES, &[0, 0, 7, 1]), u32::MAX, "beyond what is kept");
        assert_eq!(count(records::LOST, &[0, 0, 100, 0]), 0, "not known");
    }

    #[test]
    fn a_name_belongs_to_the_thread_and_ends_at_its_nul() {
        let mut bytes = record(&[0, 0, 7, 8]);
        bytes.extend(b"worker\0old");
        assert_eq!(named(&bytes, Encoding::default()), (Pid(8), names::comm(b"worker")));
    }
}
