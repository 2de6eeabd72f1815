//! Marks on their way from a workload's tasks to the trace: a file of fixed records, appended to.
//!
//! Every task writes its marks by one `write(2)` each, so that processes need nothing in common but
//! the open file, and what was written stays when a task is killed.

use crate::{Mark, Marks as All};
use schedlab_model::{Cpu, Nanos, Phase, Pid};
use schedlab_sys::regular_file;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The environment variable by which a load child learns where its marks go.
pub const VARIABLE: &str = "SCHEDLAB_MARKS";

/// Where a process beside the load puts its own marks: each process numbers its names itself.
#[must_use]
pub fn of_process(recording: &Path, pid: u32) -> PathBuf {
    let mut name = recording.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{pid}"));
    recording.with_file_name(name)
}

/// The names of a process's marks, a line each, in the order of their numbers.
#[must_use]
pub fn names(marks: &Path) -> PathBuf {
    let mut name = marks.file_name().unwrap_or_default().to_owned();
    name.push(".names");
    marks.with_file_name(name)
}

/// Marks that processes put beside those of the load, with their names; the files of names are removed.
#[must_use]
pub fn of_commands(recording: &Path) -> Vec<(PathBuf, Vec<String>)> {
    let found = so_far(recording);
    for (path, _) in &found {
        let _ = std::fs::remove_file(names(path));
    }
    found
}

/// As [`of_commands`], while these processes may go on: nothing is removed.
#[must_use]
pub fn so_far(recording: &Path) -> Vec<(PathBuf, Vec<String>)> {
    let start = format!("{}.", recording.file_name().unwrap_or_default().to_string_lossy());
    let folder = match recording.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(&start).and_then(|rest| rest.strip_suffix(".names"));
        let Some(pid) = pid.and_then(|pid| pid.parse().ok()) else { continue };
        let marks = of_process(recording, pid);
        let names = names_of(&marks);
        found.push((marks, names));
    }
    found.sort();
    found
}

/// The names of a file of marks; none where nobody wrote any.
pub(crate) fn names_of(marks: &Path) -> Vec<String> {
    let text = regular_file::text(&names(marks)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A record: time u64, pid i32, cpu u16, phase u16, id u32, request u32, in the machine's byte order.
const RECORD: usize = 24;
/// Bytes of the largest file of marks: 89 million of them.
const MARKS_MAX: u64 = 2 << 30;

/// A mark file open for writing.
#[derive(Debug)]
pub struct Marks(File);

impl Marks {
    /// Opens it for appending; creates it where it is not there.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn append(path: &Path) -> io::Result<Self> {
        Ok(Self(File::options().create(true).append(true).open(path)?))
    }

    /// Puts a mark of task `pid`, on the CPU on which the caller is now.
    pub fn put(&self, time: Nanos, pid: Pid, id: u32, phase: Phase, request: u32) {
        self.put_on(schedlab_sys::sched::current_cpu(), time, pid, id, phase, request);
    }

    /// Puts a mark that was seen on `cpu`.
    pub(crate) fn put_on(
        &self,
        cpu: Cpu,
        time: Nanos,
        pid: Pid,
        id: u32,
        phase: Phase,
        request: u32,
    ) {
        let phase: u16 = match phase {
            Phase::Begin => 0,
            Phase::End => 1,
            Phase::Point => 2,
        };
        let mut record = [0; RECORD];
        record[0..8].copy_from_slice(&time.0.to_ne_bytes());
        record[8..12].copy_from_slice(&pid.0.to_ne_bytes());
        record[12..14].copy_from_slice(&cpu.0.to_ne_bytes());
        record[14..16].copy_from_slice(&phase.to_ne_bytes());
        record[16..20].copy_from_slice(&id.to_ne_bytes());
        record[20..24].copy_from_slice(&request.to_ne_bytes());
        // A full disk loses marks, not the run.
        let _ = (&self.0).write_all(&record);
    }
}

/// The marks of several files, each of which numbers its names from 0, in order of time.
///
/// # Errors
/// When a file cannot be read.
pub fn gather(files: &[(PathBuf, Vec<String>)]) -> io::Result<All> {
    let mut all = All::default();
    for (path, names) in files {
        let first = u32::try_from(all.names.len()).unwrap_or(u32::MAX);
        all.marks.extend(read(path)?.into_iter().map(|mark| Mark { id: first + mark.id, ..mark }));
        all.names.extend_from_slice(names);
    }
    all.marks.sort_by_key(|mark| mark.time);
    Ok(all)
}

#[derive(Debug)]
pub(crate) struct Growing {
    file: File,
    /// The begin of a record whose end has not come yet.
    rest: Vec<u8>,
}

impl Growing {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: regular_file::open(path)?, rest: Vec::new() })
    }

    /// The marks that came since the last time.
    pub(crate) fn more(&mut self) -> io::Result<Vec<Mark>> {
        self.file.read_to_end(&mut self.rest)?;
        let whole = self.rest.len() / RECORD * RECORD;
        let marks = self.rest.drain(..whole).collect::<Vec<u8>>();
        Ok(marks.chunks_exact(RECORD).filter_map(decode).collect())
    }
}

/// Reads a mark file; what was cut off at its end is left out.
///
/// # Errors
/// When it cannot be read. A file that is not there holds no marks.
pub fn read(path: &Path) -> io::Result<Vec<Mark>> {
    let bytes = match regular_file::read(path, MARKS_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        bytes => bytes?,
    };
    Ok(bytes.chunks_exact(RECORD).filter_map(decode).collect())
}

fn decode(record: &[u8]) -> Option<Mark> {
    let phase = match u16::from_ne_bytes(record[14..16].try_into().ok()?) {
        0 => Phase::Begin,
        1 => Phase::End,
        2 => Phase::Point,
        _ => return None,
    };
    Some(Mark {
        time: Nanos(u64::from_ne_bytes(record[0..8].try_into().ok()?)),
        cpu: Cpu(u16::from_ne_bytes(record[12..14].try_into().ok()?)),
        pid: Pid(i32::from_ne_bytes(record[8..12].try_into().ok()?)),
        id: u32::from_ne_bytes(record[16..20].try_into().ok()?),
        phase,
        request: u32::from_ne_bytes(record[20..24].try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_were_put_and_a_cut_one_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("marks");
        assert!(read(&path).unwrap().is_empty());
        let marks = Marks::append(&path).unwrap();
        for (time, phase) in [(5, Phase::Begin), (6, Phase::Point), (9, Phase::End)] {
            marks.put(Nanos(time), Pid(7), 3, phase, 40);
        }
        std::fs::File::options().append(true).open(&path).unwrap().write_all(&[1; 9]).unwrap();
        let back = read(&path).unwrap();
        let seen: Vec<_> = back.iter().map(|m| (m.time.0, m.pid.0, m.id, m.phase)).collect();
        assert!(back.iter().all(|mark| mark.request == 40));
        assert_eq!(seen, [(5, 7, 3, Phase::Begin), (6, 7, 3, Phase::Point), (9, 7, 3, Phase::End)]);
    }

    #[test]
    fn a_growing_file_gives_each_mark_once_and_no_half_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = of_process(&folder.path().join("x.marks"), 8);
        assert!(path.ends_with("x.marks.8"));
        let marks = Marks::append(&path).unwrap();
        let mut growing = Growing::open(&path).unwrap();
        marks.put(Nanos(5), Pid(7), 0, Phase::Begin, 0);
        assert_eq!(growing.more().unwrap().len(), 1);
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        file.write_all(&[0; 10]).unwrap();
        assert_eq!(growing.more().unwrap().len(), 0);
        file.write_all(&[0; 14]).unwrap();
        marks.put(Nanos(6), Pid(7), 1, Phase::End, 0);
        let more = growing.more().unwrap();
        assert_eq!(more.iter().map(|mark| mark.id).collect::<Vec<_>>(), [0, 1]);
        // Names tell whose marks these are, and stay while the process goes on.
        std::fs::write(names(&path), "request\nother\n").unwrap();
        let files = so_far(&folder.path().join("x.marks"));
        assert_eq!(files, [(path.clone(), vec!["request".to_owned(), "other".to_owned()])]);
        assert_eq!(gather(&files).unwrap().marks.len(), 3);
        assert_eq!(of_commands(&folder.path().join("x.marks")), files);
        assert!(so_far(&folder.path().join("x.marks")).is_empty());
    }
}
