//! Takes records of all CPUs in any order of CPUs, and writes a trace.dat, which wants them CPU by CPU.
//!
//! Whole pages go to an unnamed place beside the target (a file that is removed at once) and are copied in order at the
//! end. They go there in runs of a CPU's pages: a read for each page takes longer.
//! Memory: a run for each CPU, of all CPUs together at most 4 MiB or a page for each, and 16 bytes for each run.

use super::page_writer::PageWriter;
use super::writer::Writer;
use super::written_head::Header;
use schedlab_model::{Cpu, Nanos};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A trace.dat whose records come in order of time rather than of CPU.
pub struct Spool {
    path: PathBuf,
    header: Header,
    file: File,
    /// Bytes in `file` so far.
    at: u64,
    lanes: Vec<Option<Lane>>,
}

struct Lane {
    page: PageWriter,
    /// Whole pages that are not in the file yet.
    run: Vec<u8>,
    /// Where its runs lie in the file, and how long they are, in order.
    runs: Vec<(u64, u64)>,
}

/// The length of a run in bytes: where pages are longer, each is a run.
const RUN: usize = 64 << 10;
/// The bytes that wait for all CPUs together, where a page of each is not more.
const WAITING: usize = 4 << 20;

impl Spool {
    /// Begins a trace that [`Self::finish`] will write to `path`. The header can still change.
    ///
    /// # Errors
    /// The place beside `path` cannot be written.
    pub fn create(path: &Path, header: Header) -> io::Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.spool", std::process::id()));
        let spool = path.with_file_name(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&spool)?;
        // Without a name it vanishes with us, however we end.
        std::fs::remove_file(&spool)?;
        Ok(Self { path: path.to_owned(), header, file, at: 0, lanes: Vec::new() })
    }

    /// What the head will say; formats, names and the number of CPUs may be learnt on the way, byte
    /// order and page size may not.
    pub fn header(&mut self) -> &mut Header {
        &mut self.header
    }

    /// Adds a record of `cpu`; each CPU's records ascend in time.
    ///
    /// # Errors
    /// I/O; or `InvalidInput` when the body does not fit a page.
    #[inline]
    pub fn record(&mut self, cpu: Cpu, time: Nanos, body: &[u8]) -> io::Result<()> {
        let lane = self.lane(cpu);
        if lane.page.push(time.0, body) {
            return Ok(());
        }
        if body.len() > lane.page.longest_body() {
            let what = format!("a record of {} bytes does not fit a page", body.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.flush(cpu)?;
        let fits = self.lane(cpu).page.push(time.0, body);
        debug_assert!(fits, "an empty page takes every body that passed the check");
        Ok(())
    }

    /// Notes that events of `cpu` are missing here; `None`: unknown how many.
    ///
    /// # Errors
    /// I/O.
    pub fn lost(&mut self, cpu: Cpu, count: Option<NonZeroU32>) -> io::Result<()> {
        if !self.lane(cpu).page.is_empty() {
            self.flush(cpu)?;
        }
        self.lane(cpu).page.lost(count.map_or(0, NonZeroU32::get));
        Ok(())
    }

    /// Writes the file.
    ///
    /// # Errors
    /// I/O, or a header that contradicts itself.
    pub fn finish(mut self) -> io::Result<()> {
        for index in 0..self.lanes.len() {
            let cpu = Cpu(u16::try_from(index).expect("lanes are made from CPUs"));
            if self.lanes[index].as_ref().is_some_and(|lane| !lane.page.is_empty()) {
                self.flush(cpu)?;
            }
        }
        self.header.cpus = self.header.cpus.max(self.lanes.len() as u32);
        let mut writer = Writer::create(&self.path, &self.header)?;
        let mut run = Vec::new();
        for (index, lane) in self.lanes.iter().enumerate() {
            let Some(lane) = lane else { continue };
            let cpu = Cpu(u16::try_from(index).expect("lanes are made from CPUs"));
            let mut out = writer.cpu(cpu)?;
            for &(at, length) in &lane.runs {
                run.resize(usize::try_from(length).expect("it was in memory"), 0);
                self.file.read_exact_at(&mut run, at)?;
                out.pages(&run)?;
            }
            // The last run never went to the file.
            out.pages(&lane.run)?;
            out.finish()?;
        }
        writer.finish()?;
        Ok(())
    }

    #[inline]
    fn lane(&mut self, cpu: Cpu) -> &mut Lane {
        if cpu.index() >= self.lanes.len() {
            self.lanes.resize_with(cpu.index() + 1, || None);
        }
        let (encoding, size) = (self.header.encoding, self.header.page_size as usize);
        self.lanes[cpu.index()].get_or_insert_with(|| Lane {
            page: PageWriter::new(encoding, size),
            run: Vec::new(),
            runs: Vec::new(),
        })
    }

    /// Ends a CPU's page; its run goes to the file if it is long enough.
    fn flush(&mut self, cpu: Cpu) -> io::Result<()> {
        let enough = (WAITING / self.lanes.len()).min(RUN);
        let at = self.at;
        let lane = self.lane(cpu);
        lane.page.take(&mut lane.run);
        let length = lane.run.len();
        if length < enough {
            return Ok(());
        }
        lane.runs.push((at, length as u64));
        let run = std::mem::take(&mut lane.run);
        self.file.write_all(&run)?;
        self.at += length as u64;
        let lane = self.lane(cpu);
        lane.run = run;
        lane.run.clear();
        Ok(())
    }
}
