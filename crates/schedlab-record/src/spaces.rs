//! What processes had mapped while a recording went on: those that were there before it by `/proc/PID/maps`, all else by
//! the kernel's own records of mappings, forks and programs that begin.

use super::RecordError;
use super::spool;
use super::symbols::build_id_of_file;
use schedlab_model::Pid;
use schedlab_sys::process;
use schedlab_trace::{AddressSpaces, Encoding, SourceFile, SpaceChange};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// A part of a file that a process had mapped to run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mapped {
    pub(crate) pid: Pid,
    start: u64,
    length: u64,
    offset: u64,
    #[serde(flatten)]
    source: SourceFile,
}

/// Keeps what all processes have mapped, in a file of the spool.
pub(crate) fn keep(path: &Path) -> Result<(), RecordError> {
    let mut out = BufWriter::new(spool::create(path)?);
    let mut build_ids = BTreeMap::new();
    for pid in process::all() {
        for mapped in of_process(pid, &mut build_ids) {
            let line = serde_json::to_string(&mapped).expect("plain values can be written as JSON");
            writeln!(out, "{line}").map_err(RecordError::file(path))?;
        }
    }
    out.flush().map_err(RecordError::file(path))
}

/// Build ids of files by device and inode.
type BuildIds = BTreeMap<(u32, u32, u64), Option<Vec<u8>>>;

fn of_process(pid: Pid, build_ids: &mut BuildIds) -> Vec<Mapped> {
    // It ended meanwhile, or is another user's.
    let Ok(text) = std::fs::read(format!("/proc/{pid}/maps")) else { return Vec::new() };
    let text = String::from_utf8_lossy(&text);
    let mut all: Vec<Mapped> = text.lines().filter_map(|line| of_line(pid, line)).collect();
    for Mapped { start, length, source, .. } in &mut all {
        let Some(inode) = source.inode else { continue };
        // This link leads to the file itself, also if its path leads to another one or nowhere.
        let link = format!("/proc/{pid}/map_files/{start:x}-{:x}", *start + *length);
        let look = || build_id_of_file(Path::new(&link));
        source.build_id.clone_from(build_ids.entry(inode).or_insert_with(look));
    }
    all
}

/// A line of `maps`: `START-END PERMISSIONS OFFSET MAJOR:MINOR INODE PATH`.
fn of_line(pid: Pid, line: &str) -> Option<Mapped> {
    let mut rest = line;
    let mut word = || {
        let (word, behind) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
        rest = behind;
        word
    };
    let (start, end) = word().split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let start = hex(start)?;
    let end = hex(end)?;
    if !word().contains('x') {
        return None;
    }
    let offset = hex(word())?;
    let (major, minor) = word().split_once(':')?;
    let device = (hex(major)?.try_into().ok()?, hex(minor)?.try_into().ok()?);
    let inode: u64 = word().parse().ok()?;
    let path = rest.trim_start();
    let path = if path.is_empty() { "//anon" } else { path }.to_owned();
    let inode = (inode > 0).then_some((device.0, device.1, inode));
    let source = SourceFile { path, build_id: None, inode };
    Some(Mapped { pid, start, length: end.checked_sub(start)?, offset, source })
}

/// All that is known of processes' memory.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    spaces: AddressSpaces,
    pub(crate) files: Vec<SourceFile>,
    numbers: BTreeMap<SourceFile, usize>,
    /// What came later, until it is in order of time.
    changes: Vec<(u64, SpaceChange)>,
}

impl Spaces {
    /// What a file of [`keep`] says: it counts from the begin on. A line that was cut ends it.
    pub(crate) fn read(&mut self, path: &Path) -> Result<(), RecordError> {
        let text = spool::read_if_there(path)?;
        let lines = text.split(|&byte| byte == b'\n');
        for Mapped { pid, start, length, offset, source } in
            lines.map_while(|line| serde_json::from_slice(line).ok())
        {
            let file = self.number(source);
            self.spaces.mapped(pid, 0, start, length, offset, file);
        }
        Ok(())
    }

    fn number(&mut self, source: SourceFile) -> usize {
        if let Some(number) = self.numbers.get(&source) {
            return *number;
        }
        self.files.push(source.clone());
        self.numbers.insert(source, self.files.len() - 1);
        self.files.len() - 1
    }

    /// Takes in a record of the ring.
    pub(crate) fn see(&mut self, kind: u32, record: &[u8], time: u64) {
        let encoding = Encoding { big_endian: cfg!(target_endian = "big"), long: 8 };
        self.changes.extend(SpaceChange::of(kind, record, time, encoding).map(|of| (time, of)));
    }

    /// Puts what several CPUs told into the order of time.
    pub(crate) fn sort(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.sort_by_key(|(time, _)| *time);
        for (time, change) in changes {
            match change {
                SpaceChange::Began { pid, at, parent } => self.spaces.began(pid, at, parent),
                SpaceChange::Mapped { pid, range, offset, source } => {
                    let file = self.number(source);
                    self.spaces.mapped(pid, time, range.0, range.1, offset, file);
                }
            }
        }
    }

    /// The file at an address, by its number, and the place in it.
    pub(crate) fn find(&self, pid: Pid, address: u64, time: u64) -> Option<(usize, u64)> {
        self.spaces.find(pid, address, time)
    }
}

/// Whether a mapping is of a file that can be opened.
pub(crate) fn is_file(source: &SourceFile) -> bool {
    let path = &source.path;
    // A program can run from memory; what a compiler writes there has no build id.
    let is_memory = path.starts_with("/memfd:") && source.build_id.is_none();
    path.starts_with('/') && !path.starts_with("//") && !is_memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_read_from_the_lines_of_maps() {
        let of = |line| of_line(Pid(7), line);
        let code = of("7f00-7fff r-xp 00026000 fe:01 1234   /usr/lib/a b.so (deleted)").unwrap();
        let source = SourceFile {
            path: "/usr/lib/a b.so (deleted)".into(),
            build_id: None,
            inode: Some((0xfe, 1, 1234)),
        };
        let mapped = Mapped { pid: Pid(7), start: 0x7f00, length: 0xff, offset: 0x26000, source };
        assert_eq!(code, mapped);
        assert_eq!(of("7f00-7fff r--p 00000000 fe:01 1234 /usr/lib/a.so"), None, "it is data");
        let jit = of("7f00-7fff rwxp 00000000 00:00 0 ").unwrap();
        assert_eq!((jit.source.path.as_str(), jit.source.inode), ("//anon", None));
        assert_eq!(of("7f00-7fff r-xp 00000000 00:00 0 [vdso]").unwrap().source.path, "[vdso]");
        for wrong in ["", "x", "7f00-7fff", "7fff-7f00 r-xp 0 0:0 0 /a"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn this_process_has_its_program_and_the_later_mapping_of_two_cpus_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("maps");
        keep(&path).unwrap();
        let mut spaces = Spaces::default();
        spaces.read(&path).unwrap();
        let here = this_process_has_its_program_and_the_later_mapping_of_two_cpus_counts as fn();
        let me = Pid(i32::try_from(std::process::id()).unwrap());
        let (file, _) = spaces.find(me, here as usize as u64, 5).unwrap();
        let exe = std::env::current_exe().unwrap();
        assert_eq!(spaces.files[file].path, exe.to_str().unwrap());
        assert_eq!(spaces.files[file].build_id, build_id_of_file(&exe));

        let record = |path: &[u8]| {
            let numbers = [7u32, 7].map(u32::to_ne_bytes).concat();
            let place = [0x1000u64, 0x100, 0].map(u64::to_ne_bytes).concat();
            let head = [10u32.to_ne_bytes().to_vec(), vec![0; 4]].concat();
            [head.as_slice(), &numbers, &place, &[0; 32], path, &[0]].concat()
        };
        let kind = schedlab_sys::perf::record::MMAP2;
        spaces.see(kind, &record(b"/late"), 20);
        spaces.see(kind, &record(b"/early"), 10);
        spaces.sort();
        let path = |time| spaces.find(Pid(7), 0x1010, time).map(|of| &*spaces.files[of.0].path);
        assert_eq!([path(9), path(15), path(25)], [None, Some("/early"), Some("/late")]);
    }
}
