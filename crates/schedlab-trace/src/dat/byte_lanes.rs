//! Bytes of all CPUs, which come in any order of CPUs and are read CPU by CPU.
//!
//! They go in runs of one CPU's bytes to an unnamed file beside the target (it vanishes with the process, however that
//! ends). A read for each page would take longer than one for each run.
//! Memory: a run for each CPU, of all CPUs together at most 4 MiB or a page for each, and 16 bytes for each run.

use crate::new_file::nameless_beside;
use rustix::fs::FallocateFlags;
use schedlab_model::Cpu;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The length of a run in bytes.
const RUN: usize = 64 << 10;
/// The bytes that wait for all CPUs together, where a page of each is not more.
const WAITING: usize = 4 << 20;

/// Bytes of the file that get their place on the disk at once.
const AHEAD: u64 = 16 << 20;

/// What was appended for each CPU, by runs in a file and the last ones in memory.
pub(crate) struct ByteLanes {
    file: File,
    /// Bytes in `file` so far.
    at: u64,
    /// Bytes of it that have their place on the disk.
    reserved: u64,
    lanes: Vec<Lane>,
    /// Bytes of a CPU that are put into the file at once.
    enough: usize,
}

#[derive(Default)]
struct Lane {
    /// Bytes that are not in the file yet.
    waiting: Vec<u8>,
    /// Where its runs lie in the file, and how long they are, in order.
    runs: Vec<(u64, u64)>,
}

impl ByteLanes {
    /// No bytes yet; `path` is the target.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = nameless_beside(path)?;
        Ok(Self { file, at: 0, reserved: 0, lanes: Vec::new(), enough: RUN })
    }

    /// Lets `write` append to the bytes of `cpu`. What it appends at once is read at once.
    #[inline(always)]
    pub(crate) fn append(&mut self, cpu: Cpu, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        if cpu.index() >= self.lanes.len() {
            self.grow(cpu);
        }
        let waiting = &mut self.lanes[cpu.index()].waiting;
        write(waiting);
        if waiting.len() < self.enough { Ok(()) } else { self.put_by(cpu) }
    }

    #[cold]
    fn grow(&mut self, cpu: Cpu) {
        self.lanes.resize_with(cpu.index() + 1, Lane::default);
        self.enough = (WAITING / self.lanes.len()).min(RUN);
    }

    /// Moves a CPU's waiting bytes into the file.
    #[inline(never)]
    fn put_by(&mut self, cpu: Cpu) -> io::Result<()> {
        let Lane { waiting, runs } = &mut self.lanes[cpu.index()];
        if self.at + waiting.len() as u64 > self.reserved {
            reserve(&self.file, self.reserved, AHEAD);
            self.reserved += AHEAD;
        }
        self.file.write_all(waiting)?;
        runs.push((self.at, waiting.len() as u64));
        self.at += waiting.len() as u64;
        waiting.clear();
        Ok(())
    }

    /// One more than the highest CPU with bytes.
    pub(crate) fn cpus(&self) -> usize {
        self.lanes.len()
    }

    /// The CPUs with bytes, in order.
    pub(crate) fn with_bytes(&self) -> impl Iterator<Item = Cpu> {
        let used = |lane: &Lane| !lane.waiting.is_empty() || !lane.runs.is_empty();
        let lanes = self.lanes.iter().enumerate().filter(move |(_, lane)| used(lane));
        lanes.map(|(at, _)| Cpu(u16::try_from(at).expect("lanes are made from CPUs")))
    }

    /// Hands out the bytes of a CPU, run by run.
    pub(crate) fn read(
        &self,
        cpu: Cpu,
        mut each: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(Lane { waiting, runs }) = self.lanes.get(cpu.index()) else { return Ok(()) };
        let mut run = Vec::new();
        for &(at, length) in runs {
            run.resize(usize::try_from(length).expect("it was in memory"), 0);
            self.file.read_exact_at(&mut run, at)?;
            each(&run)?;
        }
        // The last run never went to the file.
        each(waiting)
    }
}

/// Gives a part of a file its place on the disk. Writing takes a third less time then (ext4). Where a file system cannot do
/// this, nothing happens, and where the disk is full, writing will tell.
pub(super) fn reserve(file: &File, from: u64, length: u64) {
    let _ = rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, from, length);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_gets_its_bytes_back_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut lanes = ByteLanes::create(&dir.path().join("target")).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let mut expected = [Vec::new(), Vec::new()];
        for round in 0..60_000_u32 {
            let cpu = usize::from(round % 7 == 0);
            expected[cpu].extend(round.to_le_bytes());
            lanes.append(Cpu(2 * cpu as u16), |to| to.extend(round.to_le_bytes())).unwrap();
        }
        assert_eq!(lanes.with_bytes().collect::<Vec<_>>(), [Cpu(0), Cpu(2)]);
        for (cpu, expected) in [Cpu(0), Cpu(2)].into_iter().zip(expected) {
            let (mut got, mut runs) = (Vec::new(), 0);
            let each = |run: &[u8]| {
                got.extend_from_slice(run);
                runs += 1;
                Ok(())
            };
            lanes.read(cpu, each).unwrap();
            assert_eq!(got, expected);
            assert_eq!(runs, if cpu == Cpu(0) { 4 } else { 1 });
        }
    }
}
