//! Reads all of a trace.dat but its records.
//!
//! Version 6 is one run of tables with no directory: a table that cannot be read ends it. In version 7
//! each option names a section anywhere in the file, and a section that cannot be read is a warning. A section
//! that was read is not read again, and all that is kept comes out of the file's budget.

use super::options as id;
use super::pages::{Packing, Unpacker, inflate};
use super::private_option::Companion;
use super::recover;
use super::written_head::{Compression, Header, Version};
use crate::encoding::Encoding;
use crate::format::header_page;
use crate::input::{Cursor, Input, Stop};
use crate::names;
use schedlab_model::{Cpu, CpuSet, Pid, Warning};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// How a trace.dat begins.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// Nobody has more CPUs than the model can number.
const CPUS_MAX: u32 = 1 << 16;
/// No name in these files is longer.
const NAME_MAX: usize = 4096;
/// No chain of options is longer.
const OPTION_SECTIONS_MAX: usize = 10_000;
/// Bytes that a small thing takes beside its content: its place in a list, and what an allocation needs.
const ENTRY: u64 = 64;
/// The name of a task, in the list of the file and in the map that is made of it.
const NAMED: u64 = 96;
/// Bytes for a byte of a format text: the text, and the fields that are read out of it.
const OF_FORMAT: u64 = 4;

/// One buffer of the file: the top one or an instance.
#[derive(Debug)]
pub(crate) struct BufferHead {
    /// Empty for the top buffer.
    pub(crate) name: String,
    /// Its clock where it has one of its own.
    pub(crate) clock: Option<String>,
    pub(crate) page_size: u32,
    pub(crate) packing: Packing,
    pub(crate) cpus: Vec<(Cpu, Range<u64>)>,
}

/// Corrections of time stamps that the options ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeOptions {
    /// Nanoseconds to add (DATE and OFFSET).
    pub(crate) offset: i64,
    /// Multiplier and shift from TSC ticks.
    pub(crate) tsc: Option<(u32, u32)>,
    /// A guest's corrections, for each of its CPUs.
    pub(crate) shift: Option<Vec<Arc<[ShiftSample]>>>,
}

/// One correction of a guest's clock: valid around `time`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShiftSample {
    pub(crate) time: i64,
    pub(crate) offset: i64,
    pub(crate) scaling: i64,
    pub(crate) fraction: i64,
}

#[derive(Debug)]
enum Kallsyms {
    Plain(Range<u64>),
    Section(u64, Packing),
}

/// All that the head says.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) header: Header,
    /// Where the kernel's symbols lie; they can be large and few ask for them.
    kallsyms: Option<Kallsyms>,
    pub(crate) buffers: Vec<BufferHead>,
    pub(crate) time: TimeOptions,
    /// Where the text of a `latency` buffer begins.
    pub(crate) text: Option<u64>,
    pub(crate) warnings: Vec<Warning>,
}

impl Head {
    fn new(header: Header) -> Self {
        let buffers = Vec::new();
        let warnings = Vec::new();
        let time = TimeOptions::default();
        Self { header, kallsyms: None, buffers, time, text: None, warnings }
    }

    /// Reads the kernel's symbols; empty when there are none or they cannot be read.
    pub(crate) fn kallsyms(&self, input: &Input) -> Vec<u8> {
        let encoding = self.header.encoding;
        match &self.kallsyms {
            None => Vec::new(),
            Some(Kallsyms::Plain(range)) => {
                let mut cursor = Cursor::new(input, encoding, range.start);
                cursor.bytes(range.end - range.start).unwrap_or_default()
            }
            Some(Kallsyms::Section(at, packing)) => {
                let reader = Reader::new(input, self.header.clone());
                let data = reader.section(*at, *packing).map(|(_, data)| data).unwrap_or_default();
                data.get(4..).unwrap_or_default().to_vec()
            }
        }
    }
}

/// Reads the head. `Err` when nothing of the trace can be read without what is missing.
pub(crate) fn read(input: &Input) -> Result<Head, Stop> {
    let mut cursor = Cursor::new(input, Encoding::default(), 0);
    cursor.expect(MAGIC)?;
    let version_at = cursor.offset();
    let version = match cursor.text(NAME_MAX)?.as_str() {
        "6" => Version::V6,
        "7" => Version::V7,
        other => {
            let what = format!("unknown version '{other}': schedlab reads versions 6 and 7");
            return Err(Stop { offset: version_at, what });
        }
    };
    let big_endian = match cursor.u8()? {
        0 => false,
        1 => true,
        other => return Err(cursor.stop(format!("invalid byte order {other}: 0 or 1 is valid"))),
    };
    // The size of a user-space long, which says nothing about the kernel.
    let _ = cursor.u8()?;
    cursor.encoding = Encoding { big_endian, long: 8 };
    let page_size = cursor.u32()?;
    let header = Header {
        version,
        encoding: cursor.encoding,
        page_size,
        header_page: String::new(),
        clock: String::new(),
        ..Header::default()
    };
    let mut reader = Reader::new(input, header);
    match version {
        Version::V6 => reader.v6(cursor)?,
        Version::V7 => reader.v7(cursor)?,
    }
    let mut head = reader.head;
    if head.header.clock.is_empty() {
        head.header.clock = "local".into();
    }
    Ok(head)
}

/// Reads the miniature trace.dat that perf keeps: formats only.
pub(crate) fn read_embedded(input: &Input) -> Result<Header, Stop> {
    let mut cursor = Cursor::new(input, Encoding::default(), 0);
    cursor.expect(MAGIC)?;
    let _version = cursor.text(NAME_MAX)?;
    let big_endian = cursor.u8()? != 0;
    let _long = cursor.u8()?;
    cursor.encoding = Encoding { big_endian, long: 8 };
    let page_size = cursor.u32()?;
    let header = Header { encoding: cursor.encoding, page_size, ..Header::default() };
    let mut reader = Reader::new(input, header);
    reader.header_info(&mut cursor)?;
    reader.ftrace_formats(&mut cursor)?;
    reader.event_formats(&mut cursor)?;
    Ok(reader.head.header)
}

struct Reader<'a> {
    input: &'a Input,
    head: Head,
    /// Where the lists, tables and sections begin that were read.
    seen: BTreeSet<u64>,
}

impl<'a> Reader<'a> {
    fn new(input: &'a Input, header: Header) -> Self {
        Self { input, head: Head::new(header), seen: BTreeSet::new() }
    }

    /// Takes note of what begins at `at`, which must not have been read: else a few bytes could ask for it
    /// again and again.
    fn once(&mut self, at: u64) -> Result<(), Stop> {
        if self.seen.insert(at) {
            return Ok(());
        }
        Err(Stop { offset: at, what: "the file names it a second time".into() })
    }

    /// Whether there is room for `bytes` that are kept of an option.
    fn keeps(&self, bytes: usize) -> bool {
        self.input.budget().take(ENTRY + bytes as u64)
    }

    fn warn(&mut self, stop: &Stop, part: &str) {
        let what = format!(
            "{}: cannot read {part}: {} (at offset {})",
            self.input.path().display(),
            stop.what,
            stop.offset
        );
        self.head.warnings.push(Warning::new("trace-head-damaged", what, ""));
    }

    fn v6(&mut self, mut cursor: Cursor<'_>) -> Result<(), Stop> {
        self.header_info(&mut cursor)?;
        self.ftrace_formats(&mut cursor)?;
        self.event_formats(&mut cursor)?;
        let length = cursor.u32()?;
        self.head.kallsyms =
            Some(Kallsyms::Plain(cursor.offset()..cursor.offset() + u64::from(length)));
        cursor.skip(length.into())?;
        self.printk(&mut cursor)?;
        self.cmdlines(&mut cursor)?;
        let cpus = cursor.u32()?;
        if cpus > CPUS_MAX {
            return Err(cursor.stop(format!("{cpus} CPUs")));
        }
        self.head.header.cpus = cpus;
        let mut instances = Vec::new();
        let clock_follows = self.v6_buffer(&mut cursor, String::new(), &mut instances)?;
        if clock_follows && self.head.text.is_none() {
            let text = cursor.u64().and_then(|length| cursor.bytes(length.min(4096)));
            match text {
                Ok(text) => self.clock(&text),
                Err(stop) => self.warn(&stop, "the name of the clock"),
            }
        }
        for (offset, name) in instances {
            cursor.seek(offset);
            let mut nested = Vec::new();
            let read = self
                .once(offset)
                .and_then(|()| self.v6_buffer(&mut cursor, name.clone(), &mut nested));
            if let Err(stop) = read {
                self.warn(&stop, &format!("the buffer '{name}'"));
            }
        }
        Ok(())
    }

    /// Options and the table of CPUs; whether the clock's name follows behind the table.
    fn v6_buffer(
        &mut self,
        cursor: &mut Cursor<'_>,
        name: String,
        instances: &mut Vec<(u64, String)>,
    ) -> Result<bool, Stop> {
        let mut clock_follows = false;
        loop {
            let at = cursor.offset();
            let tag = cursor.array::<10>()?;
            match &tag {
                b"options  \0" => loop {
                    let number = cursor.u16()?;
                    if number == id::DONE {
                        break;
                    }
                    let length = cursor.u32()?;
                    let data = cursor.bytes(length.into())?;
                    if number == id::BUFFER && data.len() > 8 {
                        let offset = first_u64(&data, cursor.encoding);
                        cursor.take(ENTRY + 2 * u64::from(length))?;
                        instances.push((offset, until_nul(&data[8..])));
                    } else if number == id::TRACECLOCK && data.is_empty() {
                        clock_follows = true;
                    } else {
                        self.option(number, &data);
                    }
                },
                b"flyrecord\0" => break,
                b"latency  \0" => {
                    self.head.text = Some(cursor.offset());
                    return Ok(false);
                }
                _ => {
                    let what =
                        "unknown section: 'options', 'flyrecord' and 'latency' are valid".into();
                    return Err(Stop { offset: at, what });
                }
            }
        }
        let mut cpus = Vec::new();
        for cpu in 0..self.head.header.cpus {
            let (offset, size) = match (cursor.u64(), cursor.u64()) {
                (Ok(offset), Ok(size)) => (offset, size),
                (Err(stop), _) | (_, Err(stop)) => {
                    self.warn(&stop, &format!("the table of CPUs from CPU {cpu} on"));
                    break;
                }
            };
            let cpu = Cpu(u16::try_from(cpu).expect("the count was checked"));
            cursor.take(ENTRY)?;
            cpus.push((cpu, offset..offset.saturating_add(size)));
        }
        let page_size = self.head.header.page_size;
        let packing = Packing::None;
        self.head.buffers.push(BufferHead { name, clock: None, page_size, packing, cpus });
        Ok(clock_follows)
    }

    fn v7(&mut self, mut cursor: Cursor<'_>) -> Result<(), Stop> {
        let at = cursor.offset();
        let compressor = cursor.text(NAME_MAX)?;
        let (packing, compression) = match compressor.as_str() {
            "none" | "" => (Packing::None, Compression::None),
            "zlib" => (Packing::Zlib, Compression::Zlib),
            "zstd" => (Packing::Zstd, Compression::Zstd),
            other => {
                let what = format!("unknown compression '{other}': schedlab reads zlib and zstd");
                return Err(Stop { offset: at, what });
            }
        };
        self.head.header.compression = compression;
        let _ = cursor.text(NAME_MAX)?;
        let mut next = cursor.u64()?;
        let sections_at = cursor.offset();
        if next == 0 {
            return Err(self.unlisted(0, "the options, which say where all else lies, are missing"));
        }
        let mut sections = 0;
        let mut listed = 0;
        while next != 0 && sections < OPTION_SECTIONS_MAX {
            sections += 1;
            let section = self.once(next).and_then(|()| self.section(next, packing));
            let data = match section {
                Ok((_, data)) => data,
                Err(stop) if sections == 1 => {
                    let what = format!("the options, which say where all else lies: {}", stop.what);
                    return Err(self.unlisted(next, &what));
                }
                Err(stop) => {
                    self.warn(&stop, "a list of options");
                    break;
                }
            };
            // Where a list is cut, so is all that it would have named.
            listed = next;
            match self.v7_options(data, packing, next) {
                Some(0) => {
                    listed = 0;
                    break;
                }
                Some(following) => (listed, next) = (following, following),
                None => break,
            }
        }
        let nothing = self.head.buffers.is_empty() && self.head.text.is_none();
        if nothing && listed != 0 && !self.recover(packing, sections_at) {
            return Err(self.unlisted(listed, "cannot read the list of each CPU's pages"));
        }
        Ok(())
    }

    /// Finds CPUs whose list is cut away; whether any was.
    fn recover(&mut self, packing: Packing, sections: u64) -> bool {
        let encoding = self.head.header.encoding;
        let page = &self.head.header.header_page;
        // Head and data; the buffer's own entry, which would say it, is cut off too.
        let page_size = header_page(page).map(|(long, data)| 8 + u32::from(long) + data);
        let page_size = page_size.unwrap_or(self.head.header.page_size);
        let align = u64::from(self.head.header.page_size.max(1));
        let place = recover::Place { encoding, packing, sections, align };
        let Some(cpus) = place.cpus(self.input) else { return false };
        let last = cpus.last().map_or(0, |(cpu, _)| u32::from(cpu.0) + 1);
        let count = self.head.header.cpus.max(last);
        self.head.header.cpus = count;
        let absent = (count as usize).saturating_sub(cpus.len());
        let what = format!(
            "{}: the list of each CPU's pages is cut off (the file ends at offset {}): {} CPUs were told apart by the \
             names of their idle tasks, and {absent} are missing, or have no such name",
            self.input.path().display(),
            self.input.len(),
            cpus.len(),
        );
        let remedy =
            "metrics are partial: copy the whole file again, or build it with `trace-cmd restore`";
        self.head.warnings.push(Warning::new("trace-cut", what, remedy));
        let name = String::new();
        let clock = None;
        self.head.buffers.push(BufferHead { name, clock, page_size, packing, cpus });
        true
    }

    /// Why nothing of the records can be told, and what helps. They are there, but a page does not say
    /// its CPU: guessing it would make up migrations.
    fn unlisted(&self, offset: u64, what: &str) -> Stop {
        let end = self.input.len();
        let cut = match offset {
            0 => "the writer stopped before it wrote where the options are".to_owned(),
            _ => format!("the options should be at offset {offset}, but the file ends at {end}"),
        };
        let what = format!(
            "{what}; {cut}. Version 7 keeps them behind the records, and without them nobody knows \
             which CPU an unpacked page is of: copy the whole file again; where the recording was killed, \
             `trace-cmd restore` builds it from what trace-cmd left of each CPU (trace.dat.cpu0, ...)"
        );
        Stop { offset: offset.min(end), what }
    }

    /// Takes in a list of options; the offset of the next list, 0 for none; `None` when it is cut.
    fn v7_options(&mut self, data: Vec<u8>, packing: Packing, at: u64) -> Option<u64> {
        let list = self.input.part(data);
        let mut cursor = Cursor::new(&list, self.head.header.encoding, 0);
        loop {
            let option = cursor.u16().and_then(|number| {
                let length = cursor.u32()?;
                Ok((number, cursor.bytes(length.into())?))
            });
            let (number, data) = match option {
                Ok(option) => option,
                Err(stop) => {
                    let offset = at + 16 + stop.offset;
                    self.warn(&Stop { offset, what: stop.what }, "a list of options");
                    return None;
                }
            };
            match number {
                id::DONE => return Some(first_u64(&data, cursor.encoding)),
                id::BUFFER => {
                    if let Err(stop) = self.v7_buffer(&data, packing) {
                        self.warn(
                            &Stop { offset: at, what: stop.what },
                            "a buffer's table of CPUs",
                        );
                    }
                }
                id::BUFFER_TEXT => {
                    self.head.text = Some(first_u64(&data, cursor.encoding) + 16);
                }
                id::HEADER_INFO..=id::CMDLINES => {
                    self.v7_part(number, first_u64(&data, cursor.encoding), packing);
                }
                _ => self.option(number, &data),
            }
        }
    }

    /// One of the head's tables, from its section.
    fn v7_part(&mut self, number: u16, at: u64, packing: Packing) {
        if number == id::KALLSYMS {
            self.head.kallsyms = Some(Kallsyms::Section(at, packing));
            return;
        }
        let section = self.once(at).and_then(|()| self.section(at, packing));
        let read = section.and_then(|(_, data)| {
            let part = self.input.part(data);
            let mut cursor = Cursor::new(&part, self.head.header.encoding, 0);
            match number {
                id::HEADER_INFO => self.header_info(&mut cursor),
                id::FTRACE_EVENTS => self.ftrace_formats(&mut cursor),
                id::EVENT_FORMATS => self.event_formats(&mut cursor),
                id::PRINTK => self.printk(&mut cursor),
                _ => self.cmdlines(&mut cursor),
            }
        });
        if let Err(stop) = read {
            let part = match number {
                id::HEADER_INFO => "the layout of pages",
                id::FTRACE_EVENTS => "the formats of ftrace's events",
                id::EVENT_FORMATS => "the formats of tracepoints",
                id::PRINTK => "the formats of trace_printk",
                _ => "the names of tasks",
            };
            self.warn(&Stop { offset: at, what: stop.what }, part);
        }
    }

    /// A section's number and its content, unpacked.
    fn section(&self, at: u64, packing: Packing) -> Result<(u16, Vec<u8>), Stop> {
        let mut cursor = Cursor::new(self.input, self.head.header.encoding, at);
        let number = cursor.u16()?;
        let flags = cursor.u16()?;
        let _description = cursor.u32()?;
        let size = cursor.u64()?;
        if flags & id::FLAG_COMPRESSED == 0 {
            return Ok((number, cursor.bytes(size)?));
        }
        let packed = cursor.u32()?;
        let size = cursor.u32()?;
        let data = cursor.bytes(packed.into())?;
        let mut out = Vec::new();
        if !self.input.budget().take(size.into()) {
            let refusal = self.input.budget().refusal();
            let what = format!("a section of {size} bytes, unpacked: {refusal}");
            return Err(Stop { offset: at, what });
        }
        inflate(&mut Unpacker::default(), packing, &data, size as usize, &mut out)
            .map_err(|error| Stop { offset: at, what: error.to_string() })?;
        Ok((number, out))
    }

    fn v7_buffer(&mut self, data: &[u8], packing: Packing) -> Result<(), Stop> {
        let option = self.input.part(data.to_vec());
        let mut cursor = Cursor::new(&option, self.head.header.encoding, 0);
        let section = cursor.u64()?;
        cursor.take(ENTRY + data.len() as u64)?;
        let name = cursor.text(NAME_MAX)?;
        let clock = cursor.text(NAME_MAX)?;
        let page_size = cursor.u32()?;
        let count = cursor.u32()?;
        let mut cpus = Vec::<(Cpu, Range<u64>)>::new();
        let mut listed = CpuSet::new();
        for _ in 0..count {
            let cpu = cursor.u32()?;
            let offset = cursor.u64()?;
            let size = cursor.u64()?;
            let cpu = u16::try_from(cpu).map_err(|_| cursor.stop(format!("CPU {cpu}")))?;
            if size > 0 {
                if listed.contains(Cpu(cpu)) {
                    return Err(cursor.stop(format!("CPU {cpu} is listed twice")));
                }
                listed.insert(Cpu(cpu));
                cursor.take(ENTRY)?;
                cpus.push((Cpu(cpu), offset..offset.saturating_add(size)));
            }
            self.head.header.cpus = self.head.header.cpus.max(u32::from(cpu) + 1);
        }
        // Whether the pages are packed is a flag of their section.
        let flags = Cursor::new(self.input, cursor.encoding, section + 2).u16().unwrap_or(0);
        let packing = if flags & id::FLAG_COMPRESSED == 0 { Packing::None } else { packing };
        let clock = (!clock.is_empty()).then_some(clock);
        if name.is_empty() && self.head.header.clock.is_empty() {
            self.head.header.clock = clock.clone().unwrap_or_default();
        }
        self.head.buffers.push(BufferHead { name, clock, page_size, packing, cpus });
        Ok(())
    }

    fn header_info(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        cursor.expect(b"header_page\0")?;
        let length = cursor.u64()?;
        let page = lossy(&cursor.bytes(length)?);
        cursor.expect(b"header_event\0")?;
        let length = cursor.u64()?;
        self.head.header.header_event = lossy(&cursor.bytes(length)?);
        match header_page(&page) {
            Some((long, _)) => self.head.header.encoding.long = long,
            None => {
                let stop = cursor
                    .stop("assuming 64-bit pages: the layout lacks the fields 'commit' and 'data'");
                self.warn(&stop, "the layout of pages");
            }
        }
        self.head.header.header_page = page;
        Ok(())
    }

    fn ftrace_formats(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        for _ in 0..cursor.u32()? {
            let length = cursor.u64()?;
            let text = lossy(&cursor.bytes(length)?);
            cursor.take(ENTRY + OF_FORMAT * text.len() as u64)?;
            self.head.header.ftrace_formats.push(text);
        }
        Ok(())
    }

    fn event_formats(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        for _ in 0..cursor.u32()? {
            let system = cursor.text(NAME_MAX)?;
            for _ in 0..cursor.u32()? {
                let length = cursor.u64()?;
                let text = lossy(&cursor.bytes(length)?);
                cursor.take(ENTRY + OF_FORMAT * (system.len() + text.len()) as u64)?;
                self.head.header.formats.push((system.clone(), text));
            }
        }
        Ok(())
    }

    fn printk(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let length = cursor.u32()?;
        self.head.header.printk = cursor.bytes(length.into())?;
        Ok(())
    }

    fn cmdlines(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let length = cursor.u64()?;
        let text = cursor.bytes(length)?;
        for line in text.split(|&byte| byte == b'\n') {
            let Some(space) = line.iter().position(|&byte| byte == b' ') else { continue };
            let pid = std::str::from_utf8(&line[..space]).ok().and_then(|pid| pid.parse().ok());
            let Some(pid) = pid.filter(|pid| names::may_be(Pid(*pid))) else { continue };
            cursor.take(NAMED)?;
            self.head.header.cmdlines.push((Pid(pid), names::comm(&line[space + 1..])));
        }
        Ok(())
    }

    fn option(&mut self, number: u16, data: &[u8]) {
        // A text that is no UTF-8 grows.
        if !self.keeps(3 * data.len()) {
            return;
        }
        let header = &mut self.head.header;
        let encoding = header.encoding;
        match number {
            id::CPUSTAT => header.cpustat.push(until_nul(data)),
            id::UNAME => header.uname = Some(until_nul(data)),
            id::TRACECLOCK => self.clock(data),
            id::CPUCOUNT => {
                if let Some(count) = data.first_chunk().map(|bytes| encoding.u32(*bytes)) {
                    header.cpus = header.cpus.max(count.min(CPUS_MAX));
                }
            }
            id::COMPANION => header.companion = Companion::from_json(data, self.input.budget()),
            id::VERSION => {}
            _ => {
                self.time_option(number, data);
                self.head.header.options.push((number, data.to_vec()));
            }
        }
    }

    fn time_option(&mut self, number: u16, data: &[u8]) {
        let encoding = self.head.header.encoding;
        let time = &mut self.head.time;
        match number {
            // The date is in microseconds and often hexadecimal, the offset in nanoseconds.
            id::DATE => {
                let micros = integer(&until_nul(data)).unwrap_or(0);
                time.offset = time.offset.saturating_add(micros.saturating_mul(1000));
            }
            id::OFFSET => {
                let nanos = integer(&until_nul(data)).unwrap_or(0);
                time.offset = time.offset.saturating_add(nanos);
            }
            id::TSC2NSEC => {
                let number = |at: usize| data.get(at..).and_then(|rest| rest.first_chunk::<4>());
                if let (Some(mult), Some(shift)) = (number(0), number(4)) {
                    time.tsc = Some((encoding.u32(*mult), encoding.u32(*shift)));
                }
            }
            id::TIME_SHIFT => {
                let input = self.input.part(data.to_vec());
                time.shift = time_shift(&mut Cursor::new(&input, encoding, 0)).ok();
            }
            _ => {}
        }
    }

    /// The clock in brackets, or the only one.
    fn clock(&mut self, text: &[u8]) {
        let text = until_nul(text);
        let clock = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let clock = clock.map_or(text.trim(), |(clock, _)| clock);
        // A name is a word; anything else is the known corruption of old files.
        if !clock.is_empty() && clock.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        {
            self.head.header.clock = clock.to_owned();
        }
    }
}

/// The corrections of a guest: peer, flags, then for each CPU arrays of times, offsets, scalings;
/// newer files add an array of fraction bits for each CPU behind all of them.
fn time_shift(cursor: &mut Cursor<'_>) -> Result<Vec<Arc<[ShiftSample]>>, Stop> {
    let _peer = cursor.u64()?;
    let _flags = cursor.u32()?;
    let count = cursor.u32()?;
    let mut cpus: Vec<Vec<ShiftSample>> = Vec::new();
    for _ in 0..count.min(CPUS_MAX) {
        let samples = u64::from(cursor.u32()?);
        let mut column = || -> Result<Vec<i64>, Stop> {
            let bytes = cursor.bytes(samples * 8)?;
            let encoding = cursor.encoding;
            Ok(bytes.as_chunks().0.iter().map(|b| encoding.u64(*b).cast_signed()).collect())
        };
        let times = column()?;
        let offsets = column()?;
        let scalings = column()?;
        let rows = times.into_iter().zip(offsets).zip(scalings);
        cpus.push(
            rows.map(|((time, offset), scaling)| ShiftSample {
                time,
                offset,
                scaling,
                fraction: 0,
            })
            .collect(),
        );
    }
    for samples in &mut cpus {
        let mut fractions = Vec::new();
        for _ in 0..samples.len() {
            match cursor.u64() {
                Ok(fraction) => fractions.push(fraction.cast_signed()),
                Err(_) => break,
            }
        }
        for (sample, fraction) in samples.iter_mut().zip(fractions) {
            sample.fraction = fraction;
        }
        samples.sort_by_key(|sample| sample.time);
        samples.dedup_by_key(|sample| sample.time);
    }
    Ok(cpus.into_iter().map(Arc::from).collect())
}

fn first_u64(data: &[u8], encoding: Encoding) -> u64 {
    data.first_chunk().map_or(0, |bytes| encoding.u64(*bytes))
}

fn until_nul(data: &[u8]) -> String {
    lossy(data.split(|&byte| byte == 0).next().unwrap_or_default())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A number as C's `strtoll` reads it: an optional sign, `0x` for hexadecimal.
fn integer(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.trim_start_matches('+')),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(sign * value)
}

#[cfg(test)]
mod tests;
