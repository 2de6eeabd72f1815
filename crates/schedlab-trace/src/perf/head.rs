//! The head of a perf.data: events, their ids, and the machine. In a file it stands at the start and
//! the end; through a pipe it comes as records.

use super::feature::{self, Hardware};
use super::layout::Layout;
use crate::dat::{Header, read_embedded};
use crate::encoding::Encoding;
use crate::input::{Cursor, Input, Stop};
use schedlab_model::{Clock, Span, Warning};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of the smallest `perf_event_attr` that there was.
const ATTR_MIN: u64 = 64;
/// Where `clockid` lies in an attr, since it grew beyond 92 bytes.
const CLOCKID_AT: usize = 92;
/// The type of an event that is a tracepoint.
const TRACEPOINT: u32 = 2;
/// Type of the kernel's own counters, and the one of them that counts nothing.
const SOFTWARE: u32 = 1;
const SOFTWARE_DUMMY: u64 = 9;

/// What is known about the events.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) encoding: Encoding,
    /// Layouts of the events, in the file's order.
    pub(crate) layouts: Vec<Layout>,
    /// Index into `layouts` by event id.
    pub(crate) ids: BTreeMap<u64, usize>,
    pub(crate) clock: Clock,
    pub(crate) hardware: Hardware,
    pub(crate) release: Option<String>,
    pub(crate) cpus: u32,
    pub(crate) span: Option<Span>,
    /// Formats, from the miniature trace.dat.
    pub(crate) tracing: Option<Header>,
    pub(crate) has_tracepoints: bool,
    /// Whether samples of other events can be among them.
    pub(crate) has_others: bool,
    pub(crate) warnings: Vec<Warning>,
}

impl Head {
    pub(crate) fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            layouts: Vec::new(),
            ids: BTreeMap::new(),
            clock: Clock::Nanoseconds("perf".into()),
            hardware: Hardware::default(),
            release: None,
            cpus: 0,
            span: None,
            tracing: None,
            has_tracepoints: false,
            has_others: false,
            warnings: Vec::new(),
        }
    }

    /// Reads the head of a file (not of a pipe); where the records lie.
    pub(crate) fn read(&mut self, input: &Input) -> Result<Range<u64>, Stop> {
        let mut cursor = Cursor::new(input, self.encoding, 16);
        let entry = cursor.u64()?;
        let attrs = cursor.u64()?..cursor.u64()?;
        let data = cursor.u64()?..cursor.u64()?;
        let _types = (cursor.u64()?, cursor.u64()?);
        let features: [u64; 4] = [cursor.u64()?, cursor.u64()?, cursor.u64()?, cursor.u64()?];
        if !(ATTR_MIN + 16..=4096).contains(&entry) {
            return Err(cursor.stop(format!("entries of {entry} bytes for events")));
        }
        let count = attrs.end / entry;
        for index in 0..count.min(1 << 20) {
            cursor.seek(attrs.start.saturating_add(index * entry));
            let attr = cursor.bytes(entry - 16)?;
            let (ids_at, ids_size) = (cursor.u64()?, cursor.u64()?);
            cursor.seek(ids_at);
            let ids = cursor.bytes(ids_size)?;
            self.attr(&attr, &ids);
        }
        // A perf that was killed left no size behind: then the records go on to the end.
        let end = data.start.saturating_add(data.end);
        let end = if data.end == 0 { input.len() } else { end };
        if data.end != 0 {
            cursor.seek(end);
            for bit in (0..256u32).filter(|bit| features[*bit as usize / 64] >> (bit % 64) & 1 == 1)
            {
                let section = match (cursor.u64(), cursor.u64()) {
                    (Ok(at), Ok(size)) => at..at.saturating_add(size),
                    (Err(stop), _) | (_, Err(stop)) => {
                        self.warn(input, &stop);
                        break;
                    }
                };
                let back = cursor.offset();
                if let Err(stop) = self.feature_at(bit, input, section) {
                    self.warn(input, &stop);
                }
                cursor.seek(back);
            }
        }
        Ok(data.start..end)
    }

    fn warn(&mut self, input: &Input, stop: &Stop) {
        let path = input.path().display();
        let what = format!(
            "{path}: cannot read a feature section: {} (at offset {})",
            stop.what, stop.offset
        );
        self.warnings.push(Warning::new("trace-head-damaged", what, ""));
    }

    fn feature_at(&mut self, bit: u32, input: &Input, at: Range<u64>) -> Result<(), Stop> {
        let wanted = matches!(
            bit,
            feature::TRACING_DATA
                | feature::OSRELEASE
                | feature::NRCPUS
                | feature::CPU_TOPOLOGY
                | feature::NUMA_TOPOLOGY
                | feature::CACHE
                | feature::SAMPLE_TIME
        );
        if !wanted {
            return Ok(());
        }
        let mut cursor = Cursor::new(input, self.encoding, at.start);
        let bytes = cursor.bytes(at.end - at.start)?;
        self.feature(bit, &Input::memory(input.path(), bytes))
            .map_err(|stop| Stop { offset: at.start + stop.offset, what: stop.what })
    }

    /// Takes in a feature's content.
    pub(crate) fn feature(&mut self, bit: u32, content: &Input) -> Result<(), Stop> {
        let mut cursor = Cursor::new(content, self.encoding, 0);
        match bit {
            feature::TRACING_DATA => self.tracing = Some(read_embedded(content)?),
            feature::OSRELEASE => self.release = Some(feature::string(&mut cursor)?),
            feature::NRCPUS => self.cpus = cursor.u32()?,
            feature::SAMPLE_TIME => {
                let (first, last) = (cursor.u64()?, cursor.u64()?);
                let nanos = schedlab_model::Nanos;
                self.span = (first < last).then_some(Span::new(nanos(first), nanos(last)));
            }
            other => self.hardware.read(other, &mut cursor)?,
        }
        Ok(())
    }

    /// The layout of a sample by its event's id; the only one when there is but one.
    pub(crate) fn layout(&self, record: &[u8]) -> Option<Layout> {
        let first = self.layouts.first()?;
        if self.layouts.len() == 1 {
            return Some(*first);
        }
        let id = record.get(first.id_at()?..)?.first_chunk()?;
        let index = self.ids.get(&self.encoding.u64(*id))?;
        self.layouts.get(*index).copied()
    }

    /// Takes in an event's attr and its ids.
    pub(crate) fn attr(&mut self, attr: &[u8], ids: &[u8]) {
        let encoding = self.encoding;
        let u32_at = |at: usize| attr.get(at..)?.first_chunk().map(|bytes| encoding.u32(*bytes));
        let u64_at = |at: usize| attr.get(at..)?.first_chunk().map(|bytes| encoding.u64(*bytes));
        let (Some(kind), Some(sample_type)) = (u32_at(0), u64_at(24)) else { return };
        // Bit fields are filled from the other end on big-endian machines.
        let flags = u64_at(40).unwrap_or(0);
        let flags = if encoding.big_endian { flags.reverse_bits() } else { flags };
        let layout = Layout::new(sample_type, u64_at(32).unwrap_or(0), flags >> 18 & 1 == 1);
        let layout = if kind == TRACEPOINT { layout } else { layout.foreign() };
        self.has_tracepoints |= layout.is_tracepoint();
        // The dummy event carries names and never a sample.
        self.has_others |=
            !layout.is_tracepoint() && (kind, u64_at(8)) != (SOFTWARE, Some(SOFTWARE_DUMMY));
        if flags >> 25 & 1 == 1 {
            self.clock = match u32_at(CLOCKID_AT) {
                Some(1) => Clock::Monotonic,
                Some(0) => Clock::Nanoseconds("realtime".into()),
                Some(4) => Clock::Nanoseconds("mono_raw".into()),
                Some(7) => Clock::Nanoseconds("boot".into()),
                Some(11) => Clock::Nanoseconds("tai".into()),
                other => Clock::Nanoseconds(format!("clockid {}", other.unwrap_or(0))),
            };
        }
        for id in ids.as_chunks().0 {
            self.ids.insert(encoding.u64(*id), self.layouts.len());
        }
        self.layouts.push(layout);
    }
}
