//! The head of a perf.data: events, their ids, and the machine. In a file it stands at the start and
//! the end; through a pipe it comes as records.

use super::feature::{self, Hardware};
use super::layout::{HEAD, Layout};
use crate::dat::{Header, read_embedded};
use crate::encoding::Encoding;
use crate::input::{Cursor, Input, Stop};
use schedlab_model::{Clock, Cpu, CpuSet, Span, Warning};
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

/// Bytes that a build id takes beside its path.
const BUILD_ID: u64 = 96;
/// Bytes that an id takes in its map.
const ID: usize = 48;

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
    /// Build ids of files: whether it is the kernel's, path, id.
    pub(crate) build_ids: Vec<(bool, String, Vec<u8>)>,
    pub(crate) cpus: u32,
    pub(crate) span: Option<Span>,
    /// Formats, from the miniature trace.dat.
    pub(crate) tracing: Option<Header>,
    pub(crate) has_tracepoints: bool,
    /// Whether switches are records of their own (`--switch-events`).
    pub(crate) has_switches: bool,
    /// Which part of the events each attr asks for, as `layouts`.
    pub(crate) scopes: Vec<AttrScope>,
    /// The CPUs on which tracepoints of all tasks were recorded; empty if the file does not say.
    pub(crate) covered: CpuSet,
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
            build_ids: Vec::new(),
            cpus: 0,
            span: None,
            tracing: None,
            has_tracepoints: false,
            has_switches: false,
            scopes: Vec::new(),
            covered: CpuSet::new(),
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
            let ids_at = cursor.u64()?;
            let ids_size = cursor.u64()?;
            cursor.seek(ids_at);
            let ids = cursor.bytes(ids_size)?;
            cursor.take(attr_take(&ids))?;
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
                | feature::BUILD_ID
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
        self.feature(bit, &input.part(bytes))
            .map_err(|stop| Stop { offset: at.start + stop.offset, what: stop.what })
    }

    /// Takes in a feature's content.
    pub(crate) fn feature(&mut self, bit: u32, content: &Input) -> Result<(), Stop> {
        let mut cursor = Cursor::new(content, self.encoding, 0);
        match bit {
            feature::TRACING_DATA => self.tracing = Some(read_embedded(content)?),
            feature::OSRELEASE => self.release = Some(feature::string(&mut cursor)?),
            feature::BUILD_ID => self.build_ids(&mut cursor, content.len())?,
            feature::NRCPUS => self.cpus = cursor.u32()?,
            feature::SAMPLE_TIME => {
                let first = cursor.u64()?;
                let last = cursor.u64()?;
                let nanos = schedlab_model::Nanos;
                self.span = (first < last).then_some(Span::new(nanos(first), nanos(last)));
            }
            other => self.hardware.read(other, &mut cursor)?,
        }
        Ok(())
    }

    /// Takes in build ids, each in a record of its own.
    fn build_ids(&mut self, cursor: &mut Cursor<'_>, end: u64) -> Result<(), Stop> {
        while cursor.offset() < end {
            let (_, misc, size) = (cursor.u32()?, cursor.u16()?, cursor.u16()?);
            let content = cursor.bytes(u64::from(size).saturating_sub(HEAD as u64))?;
            cursor.take(BUILD_ID + content.len() as u64)?;
            self.build_id(misc, &content);
        }
        Ok(())
    }

    /// Takes in what a record says of a build id: a pid, 20 bytes, their number, and the path.
    pub(crate) fn build_id(&mut self, misc: u16, content: &[u8]) {
        const IN_KERNEL: u16 = 1;
        const IN_USER: u16 = 2;
        /// Whether the number of bytes is told.
        const SIZED: u16 = 1 << 15;
        let Some((head, path)) = content.split_at_checked(28) else { return };
        let size = if misc & SIZED != 0 { usize::from(head[24]).min(20) } else { 20 };
        let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
        let path = String::from_utf8_lossy(path).into_owned();
        // A guest's files are nobody's here.
        if matches!(misc & 7, IN_KERNEL | IN_USER) {
            self.build_ids.push((misc & 7 == IN_KERNEL, path, head[4..4 + size].to_vec()));
        }
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
        self.has_switches |= flags >> 26 & 1 == 1;
        let number = u64_at(16).unwrap_or(0);
        let rate = match flags >> 10 & 1 == 1 {
            true => Some(format!("-F {number}")),
            // With its period each sample says how much it stands for.
            false if number > 1 && !layout.has_period() => Some(format!("-c {number}")),
            false => None,
        };
        let tracepoint = if kind == TRACEPOINT { u64_at(8) } else { None };
        let tracepoint = tracepoint.and_then(|id| u16::try_from(id).ok());
        self.scopes.push(AttrScope { tracepoint, rate, by_task: flags >> 12 & 1 == 1 });
        self.layouts.push(layout);
    }

    /// Takes in where and of which tasks each event was recorded (`PERF_RECORD_ID_INDEX`): a count, then an id, an index,
    /// a CPU and a task each.
    pub(crate) fn id_index(&mut self, record: &[u8]) {
        let words = record.get(HEAD + 8..).unwrap_or_default().as_chunks::<8>().0;
        for entry in words.chunks_exact(4) {
            let [id, _, cpu, tid] = [0, 1, 2, 3].map(|at| self.encoding.u64(entry[at]));
            let Some(scope) = self.ids.get(&id).and_then(|index| self.scopes.get_mut(*index))
            else {
                continue;
            };
            // Minus one is all tasks.
            scope.by_task = tid != u64::MAX;
            if let (Some(_), false, Ok(cpu)) = (scope.tracepoint, scope.by_task, u16::try_from(cpu))
            {
                self.covered.insert(Cpu(cpu));
            }
        }
    }
}

/// Which part of its events an attr asks for.
#[derive(Debug)]
pub(crate) struct AttrScope {
    /// The id of its tracepoint, if it is one.
    pub(crate) tracepoint: Option<u16>,
    /// The option that chose some of the events by a rate or a period.
    pub(crate) rate: Option<String>,
    /// Whether only those of chosen tasks were recorded.
    pub(crate) by_task: bool,
}

/// Bytes that an event and its ids take.
pub(crate) fn attr_take(ids: &[u8]) -> u64 {
    (size_of::<Layout>() + ids.len() / 8 * ID) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::Nanos;
    use std::path::Path;

    /// Bits of what samples hold: time, CPU and the record of a tracepoint.
    const SAMPLE_TYPE: u64 = 1 << 2 | 1 << 7 | 1 << 10;
    /// Whether other records end with time and CPU, and whether the clock was chosen.
    const TRAILER: u64 = 1 << 18;
    const USE_CLOCKID: u64 = 1 << 25;

    /// The kind of an event, its number, and what else its attr says.
    fn attr(kind: u32, number: u64, sample_type: u64, flags: u64, clockid: u32) -> Vec<u8> {
        let mut attr = [kind.to_le_bytes(), 112u32.to_le_bytes()].concat();
        for part in [number, 1, sample_type, 0, flags] {
            attr.extend(part.to_le_bytes());
        }
        attr.resize(CLOCKID_AT, 0);
        attr.extend(clockid.to_le_bytes());
        attr.resize(112, 0);
        attr
    }

    fn with(attrs: &[Vec<u8>]) -> Head {
        let mut head = Head::new(Encoding::default());
        for (index, attr) in (1_u64..).zip(attrs) {
            head.attr(attr, &(100 * index).to_le_bytes());
        }
        head
    }

    #[test]
    fn the_clock_is_the_one_that_the_recording_chose() {
        let clock = |id: u32| with(&[attr(TRACEPOINT, 7, SAMPLE_TYPE, USE_CLOCKID, id)]).clock;
        let named = |name: &str| Clock::Nanoseconds(name.to_owned());
        assert_eq!(clock(1), Clock::Monotonic);
        let names = [0, 4, 7, 11, 99].map(clock);
        assert_eq!(names, ["realtime", "mono_raw", "boot", "tai", "clockid 99"].map(named));
        let unchosen = with(&[attr(TRACEPOINT, 7, SAMPLE_TYPE, TRAILER, 1)]);
        assert_eq!(unchosen.clock, named("perf"));
    }

    #[test]
    fn events_are_tracepoints_or_others_and_a_dummy_is_neither() {
        let kinds = |attrs: &[Vec<u8>]| {
            let head = with(attrs);
            (head.has_tracepoints, head.has_others)
        };
        let tracepoint = attr(TRACEPOINT, 7, SAMPLE_TYPE, 0, 0);
        let dummy = attr(SOFTWARE, SOFTWARE_DUMMY, SAMPLE_TYPE, 0, 0);
        let faults = attr(SOFTWARE, 2, SAMPLE_TYPE, 0, 0);
        let cycles = attr(0, SOFTWARE_DUMMY, SAMPLE_TYPE, 0, 0);
        assert_eq!(kinds(std::slice::from_ref(&tracepoint)), (true, false));
        assert_eq!(kinds(std::slice::from_ref(&dummy)), (false, false));
        assert_eq!(kinds(&[tracepoint.clone(), dummy]), (true, false));
        assert_eq!(kinds(&[faults, tracepoint.clone()]), (true, true));
        assert_eq!(kinds(&[cycles]), (false, true));
    }

    #[test]
    fn a_sample_belongs_to_the_event_of_its_id() {
        // One has its id behind the time, as `attr` of the other says, too.
        let with_id = SAMPLE_TYPE | 1 << 6;
        let head = with(&[
            attr(TRACEPOINT, 7, with_id, TRAILER, 0),
            attr(SOFTWARE, 2, with_id, TRAILER, 0),
        ]);
        let sample = |id: u64| [0, 5, id, 0].map(u64::to_le_bytes).concat();
        assert_eq!(head.layout(&sample(100)), Some(head.layouts[0]));
        assert_eq!(head.layout(&sample(200)), Some(head.layouts[1]));
        assert_eq!(head.layout(&sample(300)), None, "nobody has this id");
        let alone = with(&[attr(TRACEPOINT, 7, with_id, TRAILER, 0)]);
        assert_eq!(alone.layout(&sample(300)), Some(alone.layouts[0]), "the only one has all");
    }

    #[test]
    fn the_bit_for_time_and_cpu_in_other_records_counts_from_the_other_end_in_big_endian() {
        let record = [0_u64, 22, 0].map(u64::to_le_bytes).concat();
        let time = |flags| with(&[attr(TRACEPOINT, 7, 1 << 2 | 1 << 7, flags, 0)]).layouts[0];
        let when = |flags| time(flags).trailer(&record, Encoding::default());
        assert_eq!((when(TRAILER).time, when(TRAILER).cpu), (22, 0));
        assert_eq!(when(0).cpu, u32::MAX);
        assert_eq!(when(TRAILER.reverse_bits()).cpu, u32::MAX, "this is the order of others");
    }

    #[test]
    fn features_say_kernel_cpus_and_span() {
        let mut head = Head::new(Encoding::default());
        let mut read = |bit: u32, bytes: &[u8]| {
            let content = Input::memory(Path::new("x"), bytes.to_vec());
            head.feature(bit, &content).is_ok()
        };
        assert!(read(feature::OSRELEASE, b"\x04\0\0\x006.1\0"));
        assert!(read(feature::NRCPUS, &[6, 0, 0, 0, 8, 0, 0, 0]));
        let span = |from: u64, to: u64| [from, to].map(u64::to_le_bytes).concat();
        assert!(read(feature::SAMPLE_TIME, &span(5, 9)));
        assert!(!read(feature::SAMPLE_TIME, &[1, 2, 3]));
        assert_eq!((head.release.as_deref(), head.cpus), (Some("6.1"), 6));
        assert_eq!(head.span, Some(Span::new(Nanos(5), Nanos(9))));
        let content = Input::memory(Path::new("x"), span(9, 9));
        head.feature(feature::SAMPLE_TIME, &content).unwrap();
        assert_eq!(head.span, None, "no time passed");
    }

    #[test]
    fn the_place_of_a_feature_that_cannot_be_read_is_told() {
        let input = Input::memory(Path::new("x"), vec![0; 100]);
        let mut head = Head::new(Encoding::default());
        let stop = head.feature_at(feature::NRCPUS, &input, 90..92).unwrap_err();
        assert_eq!(stop.offset, 90);
        let stop = head.feature_at(feature::OSRELEASE, &input, 90..200).unwrap_err();
        assert_eq!(stop.offset, 90, "it lies beyond the end");
        let stop = head.feature_at(feature::SAMPLE_TIME, &input, 80..92).unwrap_err();
        assert_eq!(stop.offset, 88, "its second number");
        assert!(head.feature_at(77, &input, 90..200).is_ok(), "nobody wants it");
        assert!(head.feature_at(feature::NRCPUS, &input, 90..94).is_ok());
    }
}
