//! Writes a trace.dat: the head first, then each CPU's records in turn.
//!
//! One pass and a few pages of memory. The tables that say
//! where each CPU's data lies are filled in at the end; a file whose writer died before
//! [`Writer::finish`] is not readable, so write under another name and rename.

use super::byte_lanes::reserve;
use super::options as id;
use super::page_writer::{PageWriter, SHORT, check_body};
use super::written_head::{Compression, HEADER_EVENT, Header, Version};
use schedlab_model::{Cpu, Nanos};
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::num::NonZeroU32;
use std::path::Path;

/// Pages in a compressed chunk, as trace-cmd has it.
const CHUNK_PAGES: usize = 10;

/// Pages that are written at once where nothing is compressed.
const PLAIN_PAGES: usize = 16;

/// A trace.dat being written. See [`Header`] for what it needs to know first.
pub struct Writer<W: Write + Seek> {
    out: W,
    at: u64,
    header: Header,
    /// Offsets of the head's sections, by option number (version 7).
    sections: Vec<(u16, u64)>,
    /// Where the offset of the options section is to be written (version 7).
    options_at: u64,
    /// For each buffer, where its offset and its table of CPUs are to be written; 0: nowhere.
    places: Vec<(u64, u64)>,
    buffers: Vec<Buffer>,
    packer: Packer,
}

/// What compresses a section or a chunk of pages.
enum Packer {
    Plain,
    Zlib,
    /// One for the whole file: a new one for each chunk would take a sixth of the time.
    Zstd(zstd::bulk::Compressor<'static>),
}

/// One buffer: the top one or an instance.
struct Buffer {
    /// Where its section (version 7) or its block (version 6) begins.
    at: u64,
    /// Version 6: where its table of CPUs is to be written.
    table_at: Option<u64>,
    cpus: Vec<(Cpu, u64, u64)>,
}

impl Writer<BufWriter<File>> {
    /// Creates the file at `path` (an old one is replaced) and writes the head.
    ///
    /// # Errors
    /// I/O; or `InvalidInput` when the header contradicts itself.
    pub fn create(path: &Path, header: &Header) -> io::Result<Self> {
        // Plain: the caller hides the file until it is whole.
        Self::new(BufWriter::with_capacity(1 << 16, File::create(path)?), header)
    }

    /// Gives the next bytes their place on the disk, about as many as will follow. [`Self::close`] gives back the rest.
    pub(crate) fn reserve(&self, bytes: u64) {
        reserve(self.out.get_ref(), self.at, bytes);
    }

    /// The same as [`Self::finish`] after [`Self::reserve`].
    pub(crate) fn close(self) -> io::Result<()> {
        let end = self.at;
        self.finish()?.get_ref().set_len(end)
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Writes the head to `out`, which must be at its start.
    ///
    /// # Errors
    /// I/O; or `InvalidInput` when the header contradicts itself.
    pub fn new(out: W, header: &Header) -> io::Result<Self> {
        let invalid = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if header.version == Version::V6 && header.compression != Compression::None {
            return invalid("version 6 of trace.dat has no compression");
        }
        if !matches!(header.encoding.long, 4 | 8) {
            return invalid("a long has 4 or 8 bytes");
        }
        if header.page_size < 4096
            || !header.page_size.is_multiple_of(4096)
            || header.page_size > 1 << 26
        {
            return invalid("pages are multiples of 4096 bytes up to 64 MiB");
        }
        let mut writer = Self {
            out,
            at: 0,
            header: header.clone(),
            sections: Vec::new(),
            options_at: 0,
            places: Vec::new(),
            buffers: Vec::new(),
            packer: Packer::new(header.compression)?,
        };
        writer.head()?;
        Ok(writer)
    }

    /// Goes on to the records of `cpu` in the current buffer. Each CPU once; CPUs without records
    /// can be left out.
    ///
    /// # Errors
    /// I/O; or `InvalidInput` when `cpu` had its turn or exceeds [`Header::cpus`].
    pub fn cpu(&mut self, cpu: Cpu) -> io::Result<CpuWriter<'_, W>> {
        let invalid = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if u32::from(cpu.0) >= self.header.cpus {
            return invalid("a CPU beyond the header's count");
        }
        if self.buffer().cpus.iter().any(|entry| entry.0 == cpu) {
            return invalid("a CPU's records come in one piece");
        }
        self.align()?;
        let start = self.at;
        let compressed = self.header.compression != Compression::None;
        if compressed {
            self.put_u32(0)?;
        }
        let page_size = self.header.page_size as usize;
        let page = PageWriter::new(self.header.encoding, page_size);
        Ok(CpuWriter { writer: self, cpu, start, page, pages: Vec::new(), chunks: 0 })
    }

    /// Goes on with a CPU that was put aside.
    pub(super) fn resume(&mut self, paused: PausedCpu) -> CpuWriter<'_, W> {
        let PausedCpu { cpu, start, page, pages, chunks } = paused;
        CpuWriter { writer: self, cpu, start, page, pages, chunks }
    }

    /// Goes on to the next of [`Header::instances`].
    ///
    /// # Errors
    /// I/O; or `InvalidInput` when there are no more.
    pub fn instance(&mut self) -> io::Result<()> {
        self.end_buffer()?;
        self.begin_buffer()
    }

    /// Fills in the tables and flushes; gives back what was written to.
    ///
    /// # Errors
    /// I/O.
    pub fn finish(mut self) -> io::Result<W> {
        while self.buffers.len() <= self.header.instances.len() {
            self.instance()?;
        }
        self.end_buffer()?;
        self.tables()?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn buffer(&mut self) -> &mut Buffer {
        self.buffers.last_mut().expect("the head begins the first buffer")
    }

    fn head(&mut self) -> io::Result<()> {
        let encoding = self.header.encoding;
        self.put(&[0x17, 0x08, 0x44])?;
        self.put(b"tracing")?;
        self.put(if self.header.version == Version::V6 { b"6\0" } else { b"7\0" })?;
        self.put(&[u8::from(encoding.big_endian), encoding.long])?;
        self.put_u32(self.header.page_size)?;
        match self.header.version {
            Version::V6 => self.head_v6()?,
            Version::V7 => self.head_v7()?,
        }
        self.begin_buffer()
    }

    fn head_v6(&mut self) -> io::Result<()> {
        for (_, part) in self.parts() {
            self.put(&part)?;
        }
        self.put_u32(self.header.cpus)?;
        self.put(b"options  \0")?;
        for (number, data) in self.plain_options() {
            self.option(number, &data)?;
        }
        self.places.push((0, 0));
        for instance in self.header.instances.clone() {
            let mut data = vec![0; 8];
            data.extend_from_slice(instance.name.as_bytes());
            data.push(0);
            self.places.push((self.at + 6, 0));
            self.option(id::BUFFER, &data)?;
        }
        self.put_u16(id::DONE)
    }

    fn head_v7(&mut self) -> io::Result<()> {
        let compression = self.header.compression;
        self.put(compression.name().as_bytes())?;
        // The version of the compressor is a comment; no reader looks at it.
        self.put(b"\0\0")?;
        self.options_at = self.at;
        self.put_u64(0)?;
        for (number, part) in self.parts() {
            self.sections.push((number, self.at));
            self.section(number, &part)?;
        }
        self.section(id::SECTION_STRINGS, b"\0")?;
        self.options_section()
    }

    /// The head's tables in file order, with the numbers that version 7 gives them.
    fn parts(&self) -> Vec<(u16, Vec<u8>)> {
        let header = &self.header;
        let encoding = self.header.encoding;
        let long = |text: &[u8]| {
            let mut bytes = encoding.put_u64(text.len() as u64).to_vec();
            bytes.extend_from_slice(text);
            bytes
        };
        let count = |number: usize| encoding.put_u32(u32::try_from(number).unwrap_or(u32::MAX));
        let page = match header.header_page.as_str() {
            "" => header.header_page_text(),
            text => text.to_owned(),
        };
        let event =
            if header.header_event.is_empty() { HEADER_EVENT } else { &header.header_event };
        let info = [b"header_page\0".as_slice(), &long(page.as_bytes()), b"header_event\0"];
        let info = [info.concat(), long(event.as_bytes())].concat();

        let mut ftrace = count(header.ftrace_formats.len()).to_vec();
        for text in &header.ftrace_formats {
            ftrace.extend(long(text.as_bytes()));
        }
        let mut systems: Vec<&str> = header.formats.iter().map(|(name, _)| name.as_str()).collect();
        systems.sort_unstable();
        systems.dedup();
        let mut formats = count(systems.len()).to_vec();
        for system in systems {
            let texts = header.formats.iter().filter(|(name, _)| name == system);
            formats.extend_from_slice(system.as_bytes());
            formats.push(0);
            formats.extend(count(texts.clone().count()));
            for (_, text) in texts {
                formats.extend(long(text.as_bytes()));
            }
        }
        let short = |text: &[u8]| [&count(text.len()), text].concat();
        let mut names = Vec::new();
        for (pid, comm) in &header.cmdlines {
            names.extend(format!("{pid} ").bytes());
            names.extend(comm.iter().take_while(|&&byte| byte != 0));
            names.push(b'\n');
        }
        vec![
            (id::HEADER_INFO, info),
            (id::FTRACE_EVENTS, ftrace),
            (id::EVENT_FORMATS, formats),
            (id::KALLSYMS, short(&header.kallsyms)),
            (id::PRINTK, short(&header.printk)),
            (id::CMDLINES, long(&names)),
        ]
    }

    /// Options that need no offsets.
    fn plain_options(&self) -> Vec<(u16, Vec<u8>)> {
        let header = &self.header;
        let text = |text: &str| [text.as_bytes(), b"\0"].concat();
        let mut options: Vec<_> =
            header.cpustat.iter().map(|stat| (id::CPUSTAT, text(stat))).collect();
        options.push((id::TRACECLOCK, text(&format!("[{}]", header.clock))));
        options.extend(header.uname.iter().map(|uname| (id::UNAME, text(uname))));
        // Without the count KernelShark shows nothing of a version 7 file.
        options.push((id::CPUCOUNT, header.encoding.put_u32(header.cpus).to_vec()));
        options.push((id::VERSION, text(concat!("schedlab ", env!("CARGO_PKG_VERSION")))));
        options.extend(header.companion.iter().map(|c| (id::COMPANION, c.to_json())));
        options.extend(header.options.iter().cloned());
        options
    }

    fn option(&mut self, number: u16, data: &[u8]) -> io::Result<()> {
        self.put_u16(number)?;
        self.put_u32(u32::try_from(data.len()).map_err(|_| too_long())?)?;
        self.put(data)
    }

    /// A version 7 section, compressed when the file is.
    fn section(&mut self, number: u16, data: &[u8]) -> io::Result<()> {
        let packed = self.packer.pack(data)?;
        self.put_u16(number)?;
        self.put_u16(if packed.is_some() { id::FLAG_COMPRESSED } else { 0 })?;
        self.put_u32(0)?;
        match packed {
            None => {
                self.put_u64(data.len() as u64)?;
                self.put(data)
            }
            Some(packed) => {
                self.put_u64(packed.len() as u64 + 8)?;
                self.put_u32(u32::try_from(packed.len()).map_err(|_| too_long())?)?;
                self.put_u32(u32::try_from(data.len()).map_err(|_| too_long())?)?;
                self.put(&packed)
            }
        }
    }

    fn begin_buffer(&mut self) -> io::Result<()> {
        if self.buffers.len() > self.header.instances.len() {
            let what = "no more instances in the header";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut buffer = Buffer { at: self.at, table_at: None, cpus: Vec::new() };
        match self.header.version {
            Version::V6 => {
                if !self.buffers.is_empty() {
                    self.put(b"options  \0")?;
                    self.put_u16(id::DONE)?;
                }
                self.put(b"flyrecord\0")?;
                buffer.table_at = Some(self.at);
                for _ in 0..u64::from(self.header.cpus) * 2 {
                    self.put_u64(0)?;
                }
            }
            Version::V7 => {
                let packed = self.header.compression != Compression::None;
                self.put_u16(id::BUFFER)?;
                self.put_u16(if packed { id::FLAG_COMPRESSED } else { 0 })?;
                self.put_u32(0)?;
                self.put_u64(0)?;
            }
        }
        self.buffers.push(buffer);
        Ok(())
    }

    fn end_buffer(&mut self) -> io::Result<()> {
        let end = self.at;
        let version = self.header.version;
        let buffer = self.buffer();
        let at = buffer.at;
        if version == Version::V7 {
            self.put_at(at + 8, end - at - 16)?;
        }
        Ok(())
    }

    /// Fills in where everything lies.
    fn tables(&mut self) -> io::Result<()> {
        // Entries of version 7 begin with the number of their CPU.
        let (stride, skip) = match self.header.version {
            Version::V6 => (16, 0),
            Version::V7 => (20, 4),
        };
        for (index, buffer) in std::mem::take(&mut self.buffers).into_iter().enumerate() {
            let (offset_at, table_at) = self.places[index];
            let table_at = buffer.table_at.unwrap_or(table_at);
            if offset_at != 0 {
                self.put_at(offset_at, buffer.at)?;
            }
            for (cpu, offset, size) in buffer.cpus {
                let entry = table_at + u64::from(cpu.0) * stride + skip;
                self.put_at(entry, offset)?;
                self.put_at(entry + 8, size)?;
            }
        }
        Ok(())
    }

    /// Version 7: the options, which name all sections. They stand before the records, with room for
    /// every CPU, so that a file that is cut later still says what it holds.
    fn options_section(&mut self) -> io::Result<()> {
        let encoding = self.header.encoding;
        let mut data = Vec::new();
        let mut put = |number: u16, content: &[u8]| {
            let length = u32::try_from(content.len()).map_err(|_| too_long())?;
            data.extend(encoding.put_u16(number));
            data.extend(encoding.put_u32(length));
            data.extend_from_slice(content);
            io::Result::Ok(data.len() as u64 - u64::from(length))
        };
        for (number, offset) in &self.sections {
            put(*number, &encoding.put_u64(*offset))?;
        }
        for (number, content) in self.plain_options() {
            put(number, &content)?;
        }
        let start = self.at + 16;
        let names = self.header.instances.iter().map(|instance| instance.name.as_str());
        for name in std::iter::once("").chain(names) {
            let mut content = vec![0; 8];
            content.extend(format!("{name}\0{}\0", self.header.clock).bytes());
            content.extend(encoding.put_u32(self.header.page_size));
            content.extend(encoding.put_u32(self.header.cpus));
            let table = content.len() as u64;
            for cpu in 0..self.header.cpus {
                content.extend(encoding.put_u32(cpu));
                content.extend([0; 16]);
            }
            let at = start + put(id::BUFFER, &content)?;
            self.places.push((at, at + table));
        }
        put(id::DONE, &[0; 8])?;
        let at = self.at;
        self.put_at(self.options_at, at)?;
        // Not packed, since the tables of CPUs are filled in later.
        self.put_u16(0)?;
        self.put_u16(0)?;
        self.put_u32(0)?;
        self.put_u64(data.len() as u64)?;
        self.put(&data)
    }

    fn align(&mut self) -> io::Result<()> {
        let page = u64::from(self.header.page_size);
        let short = (page - self.at % page) % page;
        let zeros = [0; 4096];
        let mut left = short;
        while left > 0 {
            let step = left.min(4096);
            self.put(&zeros[..usize::try_from(step).expect("at most a page")])?;
            left -= step;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn put_u16(&mut self, value: u16) -> io::Result<()> {
        self.put(&self.header.encoding.put_u16(value))
    }

    fn put_u32(&mut self, value: u32) -> io::Result<()> {
        self.put(&self.header.encoding.put_u32(value))
    }

    fn put_u64(&mut self, value: u64) -> io::Result<()> {
        self.put(&self.header.encoding.put_u64(value))
    }

    /// Writes a number at an earlier place and comes back.
    fn put_at(&mut self, at: u64, value: u64) -> io::Result<()> {
        self.out.seek(SeekFrom::Start(at))?;
        self.out.write_all(&self.header.encoding.put_u64(value))?;
        self.out.seek(SeekFrom::Start(self.at))?;
        Ok(())
    }
}

/// A CPU's records being written, without the hold on the writer.
pub(super) struct PausedCpu {
    cpu: Cpu,
    start: u64,
    page: PageWriter,
    pages: Vec<u8>,
    chunks: u32,
}

/// The records of one CPU being written, in ascending order of time.
pub struct CpuWriter<'a, W: Write + Seek> {
    writer: &'a mut Writer<W>,
    cpu: Cpu,
    start: u64,
    page: PageWriter,
    /// Whole pages that wait to be compressed together.
    pages: Vec<u8>,
    chunks: u32,
}

impl<W: Write + Seek> CpuWriter<'_, W> {
    /// Adds a record. A time before the last one is kept as it is (a new page begins).
    ///
    /// # Errors
    /// I/O; or `InvalidInput` when the body does not fit a page.
    pub fn record(&mut self, time: Nanos, body: &[u8]) -> io::Result<()> {
        check_body(body.len(), self.page.longest_body())?;
        if !self.page.push(time.0, body) {
            self.flush_page()?;
            let fits = self.page.push(time.0, body);
            debug_assert!(fits, "an empty page takes every body that passed the check");
        }
        Ok(())
    }

    /// Adds a record and gives the place for its body of `length` bytes, a multiple of four up to [`SHORT`]; bytes of the
    /// place beyond them may be written too. `None`: nothing was done, and it is a case for [`Self::record`].
    #[inline(always)]
    pub(crate) fn short(&mut self, time: Nanos, length: usize) -> Option<&mut [u8; SHORT]> {
        self.page.short(time.0, length)
    }

    /// Notes that events of this CPU are missing here; `None`: unknown how many.
    ///
    /// # Errors
    /// I/O.
    pub fn lost(&mut self, count: Option<NonZeroU32>) -> io::Result<()> {
        if !self.page.is_empty() {
            self.flush_page()?;
        }
        self.page.lost(count.map_or(0, NonZeroU32::get));
        Ok(())
    }

    /// Adds whole pages of the header's size as they are.
    pub(super) fn pages(&mut self, pages: &[u8]) -> io::Result<()> {
        debug_assert!(self.page.is_empty(), "whole pages and records do not mix");
        if self.writer.header.compression == Compression::None {
            return self.writer.put(pages);
        }
        for page in pages.chunks_exact(self.writer.header.page_size as usize) {
            self.pages.extend_from_slice(page);
            self.flush_pages()?;
        }
        Ok(())
    }

    /// Lets go of the writer, which must do nothing else until it is resumed.
    pub(super) fn pause(self) -> PausedCpu {
        let Self { cpu, start, page, pages, chunks, .. } = self;
        PausedCpu { cpu, start, page, pages, chunks }
    }

    /// Ends this CPU's records.
    ///
    /// # Errors
    /// I/O.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.page.is_empty() {
            self.flush_page()?;
        }
        if !self.pages.is_empty() {
            self.flush_chunk()?;
        }
        let start = self.start;
        let end = self.writer.at;
        if self.writer.header.compression != Compression::None {
            let count = self.writer.header.encoding.put_u32(self.chunks);
            self.writer.out.seek(SeekFrom::Start(start))?;
            self.writer.out.write_all(&count)?;
            self.writer.out.seek(SeekFrom::Start(end))?;
        }
        let cpu = self.cpu;
        self.writer.buffer().cpus.push((cpu, start, end - start));
        Ok(())
    }

    fn flush_page(&mut self) -> io::Result<()> {
        self.page.take(&mut self.pages);
        self.flush_pages()
    }

    /// Writes pages once there are enough for a chunk.
    fn flush_pages(&mut self) -> io::Result<()> {
        let wait = match self.writer.header.compression {
            Compression::None => PLAIN_PAGES,
            Compression::Zlib | Compression::Zstd => CHUNK_PAGES,
        };
        if self.pages.len() >= wait * self.writer.header.page_size as usize {
            self.flush_chunk()?;
        }
        Ok(())
    }

    fn flush_chunk(&mut self) -> io::Result<()> {
        if let Some(packed) = self.writer.packer.pack(&self.pages)? {
            self.writer.put_u32(u32::try_from(packed.len()).map_err(|_| too_long())?)?;
            self.writer.put_u32(u32::try_from(self.pages.len()).map_err(|_| too_long())?)?;
            self.writer.put(&packed)?;
        } else {
            self.writer.put(&self.pages)?;
        }
        self.chunks += 1;
        self.pages.clear();
        Ok(())
    }
}

impl Packer {
    fn new(compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::Plain,
            Compression::Zlib => Self::Zlib,
            Compression::Zstd => Self::Zstd(zstd::bulk::Compressor::new(3)?),
        })
    }

    /// `data` compressed; `None` when the file is not.
    fn pack(&mut self, data: &[u8]) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::Plain => Ok(None),
            Self::Zstd(packer) => packer.compress(data).map(Some),
            Self::Zlib => {
                let level = flate2::Compression::new(6);
                let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), level);
                zlib.write_all(data)?;
                zlib.finish().map(Some)
            }
        }
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a part of the head exceeds 4 GiB")
}
