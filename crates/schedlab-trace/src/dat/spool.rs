//! Takes records of all CPUs in any order of CPUs, and writes a trace.dat, which wants them CPU by CPU.
//!
//! Whole pages wait in [`ByteLanes`] and are copied in order at the end.

use super::byte_lanes::ByteLanes;
use super::page_writer::{PageWriter, check_body};
use super::writer::Writer;
use super::written_head::Header;
use schedlab_model::{Cpu, Nanos};
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// A trace.dat whose records come in order of time rather than of CPU.
pub(crate) struct Spool {
    path: PathBuf,
    header: Header,
    /// The whole pages of each CPU so far.
    lanes: ByteLanes,
    /// The page of each CPU that is being filled; those without records have none.
    pages: Vec<Option<PageWriter>>,
}

impl Spool {
    /// Begins a trace that [`Self::finish`] will write to `path`. The header can still change.
    ///
    /// # Errors
    /// The place beside `path` cannot be written.
    pub(crate) fn create(path: &Path, header: Header) -> io::Result<Self> {
        let (path, lanes) = (path.to_owned(), ByteLanes::create(path)?);
        Ok(Self { path, header, lanes, pages: Vec::new() })
    }

    /// What the head will say; formats, names and the number of CPUs may be learnt on the way, byte
    /// order and page size may not.
    pub(crate) fn header(&mut self) -> &mut Header {
        &mut self.header
    }

    /// Adds a record of `cpu`; each CPU's records ascend in time.
    ///
    /// # Errors
    /// I/O; or `InvalidInput` when the body does not fit a page.
    #[inline]
    pub(crate) fn record(&mut self, cpu: Cpu, time: Nanos, body: &[u8]) -> io::Result<()> {
        let page = self.page(cpu);
        if page.push(time.0, body) {
            return Ok(());
        }
        check_body(body.len(), page.longest_body())?;
        self.flush(cpu)?;
        let fits = self.page(cpu).push(time.0, body);
        debug_assert!(fits, "an empty page takes every body that passed the check");
        Ok(())
    }

    /// Notes that events of `cpu` are missing here; `None`: unknown how many.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn lost(&mut self, cpu: Cpu, count: Option<NonZeroU32>) -> io::Result<()> {
        if !self.page(cpu).is_empty() {
            self.flush(cpu)?;
        }
        self.page(cpu).lost(count.map_or(0, NonZeroU32::get));
        Ok(())
    }

    /// Writes the file.
    ///
    /// # Errors
    /// I/O, or a header that contradicts itself.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        for index in 0..self.pages.len() {
            let cpu = Cpu(u16::try_from(index).expect("pages are made for CPUs"));
            if self.pages[index].as_ref().is_some_and(|page| !page.is_empty()) {
                self.flush(cpu)?;
            }
        }
        self.header.cpus = self.header.cpus.max(self.pages.len() as u32);
        let mut writer = Writer::create(&self.path, &self.header)?;
        for cpu in self.lanes.with_bytes() {
            let mut out = writer.cpu(cpu)?;
            self.lanes.read(cpu, |pages| out.pages(pages))?;
            out.finish()?;
        }
        writer.finish()?;
        Ok(())
    }

    #[inline]
    fn page(&mut self, cpu: Cpu) -> &mut PageWriter {
        if cpu.index() >= self.pages.len() {
            self.pages.resize_with(cpu.index() + 1, || None);
        }
        let encoding = self.header.encoding;
        let size = self.header.page_size as usize;
        self.pages[cpu.index()].get_or_insert_with(|| PageWriter::new(encoding, size))
    }

    /// Ends a CPU's page.
    fn flush(&mut self, cpu: Cpu) -> io::Result<()> {
        match &mut self.pages[cpu.index()] {
            Some(page) => self.lanes.append(cpu, |pages| page.take(pages)),
            None => Ok(()),
        }
    }
}
