//! From a spool directory to a trace.dat.
//!
//! Each CPU's file is read in windows. Records of a ring are in order but for those that an interrupt
//! pushed in between (a record's time is taken before its place), so a window is sorted and its last
//! few records wait for the next one. Memory: one window, whatever the length of the recording.

use super::spool::{self, Head, Tail};
use super::tracepoints::Tracepoint;
use super::watch::gather;
use super::{Mark, RecordError};
use schedlab_model::{Comm, Cpu, Nanos, Pid, Span, Warning};
use schedlab_sys::perf::record;
use schedlab_trace::dat::{Companion, Header, Writer};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroU32;
use std::path::Path;

/// User marks to merge into a trace.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Names, by the id that marks carry.
    pub names: Vec<String>,
    /// The marks, in any order.
    pub marks: Vec<Mark>,
}

/// What was recorded.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Records by CPU and event name.
    pub per_cpu: BTreeMap<Cpu, BTreeMap<String, u64>>,
    /// Records that the kernel could not keep, by CPU; CPUs that lost none are not in it.
    pub lost: BTreeMap<Cpu, u64>,
    /// Time of the first and after the last record.
    pub span: Option<Span>,
    /// What is wrong with the recording.
    pub warnings: Vec<Warning>,
}

impl Summary {
    /// Records by event name over all CPUs.
    #[must_use]
    pub fn events(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (name, count) in self.per_cpu.values().flatten() {
            *all.entry(name.clone()).or_default() += count;
        }
        all
    }

    /// Records lost over all CPUs.
    #[must_use]
    pub fn lost_total(&self) -> u64 {
        self.lost.values().sum()
    }
}

/// Writes the recording in `dir` as a trace.dat at `out`, under another name until it is complete.
/// The directory is left as it is.
///
/// # Errors
/// When `dir` is no spool directory, or on I/O. A recording that was cut is no error but a warning.
pub fn stitch(dir: &Path, out: &Path, marks: &Marks) -> Result<Summary, RecordError> {
    let head: Head = spool::read(&spool::head(dir))?;
    if head.schema != spool::SCHEMA {
        let what = format!("made by another version of schedlab (schema {})", head.schema);
        return Err(RecordError::Spool { path: spool::head(dir), what });
    }
    let tail: Option<Tail> = spool::read(&spool::tail(dir)).ok();
    let mut summary = Summary::default();
    if tail.is_none() {
        summary.warnings.push(Warning::new(
            "recording-cut",
            "the recording did not end cleanly: its last moments are missing",
            "",
        ));
    }
    let names = names(dir, &head)?;
    let partial = out.with_extension("partial");
    let mark_id = free_id(&head.tracepoints);
    let header = header(dir, &head, names, marks, mark_id);
    let mut writer = Writer::create(&partial, &header).map_err(RecordError::file(&partial))?;
    for cpu in head.cpus.iter() {
        let mut marks: Vec<Mark> = marks.marks.iter().filter(|m| m.cpu == cpu).copied().collect();
        marks.sort_by_key(|mark| mark.time);
        let kernel_lost = tail.as_ref().and_then(|tail| tail.lost.get(&cpu).copied());
        let mut stitched = Stitched {
            out: writer.cpu(cpu).map_err(RecordError::file(&partial))?,
            kinds: &head.tracepoints,
            counts: vec![0; head.tracepoints.len()],
            marks: marks.into_iter().peekable(),
            mark_id,
            marked: 0,
            lost: 0,
            span: None,
        };
        let whole = copy(&spool::records(dir, cpu), &mut stitched)?;
        if !whole {
            summary.warnings.push(cut_file(cpu));
        }
        stitched.finish(cpu, kernel_lost, &mut summary).map_err(RecordError::file(&partial))?;
    }
    writer.finish().map_err(RecordError::file(&partial))?;
    std::fs::rename(&partial, out).map_err(RecordError::file(out))?;
    summary.warnings.extend(loss(&summary));
    Ok(summary)
}

fn cut_file(cpu: Cpu) -> Warning {
    let what = format!("the last record of CPU {cpu} was cut and left out");
    Warning::new("record-cut", what, "")
}

fn loss(summary: &Summary) -> Option<Warning> {
    let lost = summary.lost_total();
    (lost > 0).then(|| {
        let what = format!("{lost} events were lost because a ring was full");
        Warning::new("events-lost", what, "use larger rings: --ring 16MiB")
    })
}

fn header(
    dir: &Path,
    head: &Head,
    mut names: BTreeMap<Pid, Comm>,
    marks: &Marks,
    mark_id: u16,
) -> Header {
    let (seen, affinity) = gather(spool::read_tasks(dir));
    for (pid, comm) in seen {
        names.entry(pid).or_insert(comm);
    }
    let mut formats: Vec<_> =
        head.tracepoints.iter().map(|t| (t.system.clone(), t.format.clone())).collect();
    if !marks.marks.is_empty() {
        let text = schedlab_trace::mark::format_text(mark_id, &marks.names);
        formats.push((schedlab_trace::mark::SYSTEM.into(), text));
    }
    let companion = Companion {
        topology: head.topology.clone(),
        affinity: Some(affinity),
        marks: marks.names.clone(),
    };
    Header {
        page_size: head.page_size,
        header_page: head.header_page.clone(),
        header_event: head.header_event.clone(),
        formats,
        cmdlines: names.into_iter().collect(),
        cpus: head.cpus.iter().last().map_or(0, |cpu| u32::from(cpu.0) + 1),
        uname: Some(head.uname.clone()),
        companion: Some(companion),
        ..Header::default()
    }
}

/// An event number that no tracepoint of the recording has.
fn free_id(tracepoints: &[Tracepoint]) -> u16 {
    let used = |id: &u16| tracepoints.iter().any(|point| point.id == *id);
    (1..=u16::MAX).rev().find(|id| !used(id)).expect("fewer tracepoints than numbers")
}

/// One CPU's part of the trace.
struct Stitched<'a, W: io::Write + io::Seek> {
    out: schedlab_trace::dat::CpuWriter<'a, W>,
    kinds: &'a [Tracepoint],
    counts: Vec<u64>,
    marks: std::iter::Peekable<std::vec::IntoIter<Mark>>,
    mark_id: u16,
    marked: u64,
    lost: u64,
    span: Option<Span>,
}

impl<W: io::Write + io::Seek> Stitched<'_, W> {
    fn record(&mut self, time: Nanos, body: &[u8]) -> io::Result<()> {
        self.marks_until(time)?;
        let id = body.first_chunk().map(|id| u16::from_ne_bytes(*id));
        let Some(kind) = self.kinds.iter().position(|kind| Some(kind.id) == id) else {
            return Ok(());
        };
        self.counts[kind] += 1;
        self.seen(time);
        // The ring pads records; what lies behind the fields is garbage.
        let len = self.kinds[kind].fixed_len().unwrap_or(body.len()).min(body.len());
        self.out.record(time, &body[..len])
    }

    fn lost(&mut self, count: u64) -> io::Result<()> {
        self.lost += count;
        self.out.lost(NonZeroU32::new(u32::try_from(count).unwrap_or(u32::MAX)))
    }

    fn marks_until(&mut self, time: Nanos) -> io::Result<()> {
        while let Some(mark) = self.marks.next_if(|mark| mark.time <= time) {
            let body =
                schedlab_trace::mark::body(self.mark_id, mark.pid, mark.pid, mark.id, mark.phase);
            self.out.record(mark.time, &body)?;
            self.marked += 1;
            self.seen(mark.time);
        }
        Ok(())
    }

    fn seen(&mut self, time: Nanos) {
        let end = time + Nanos(1);
        let span = self.span.get_or_insert(Span::new(time, end));
        *span = Span::new(span.start.min(time), span.end.max(end));
    }

    fn finish(mut self, cpu: Cpu, kernel_lost: Option<u64>, all: &mut Summary) -> io::Result<()> {
        self.marks_until(Nanos::MAX)?;
        // What was lost last is only in the kernel's count: the ring tells a loss with the record
        // that follows it.
        let unseen = kernel_lost.unwrap_or(0).saturating_sub(self.lost);
        if unseen > 0 {
            self.lost(unseen)?;
        }
        self.out.finish()?;
        let mut counts: BTreeMap<String, u64> =
            self.kinds.iter().zip(&self.counts).map(|(k, n)| (k.name.clone(), *n)).collect();
        counts.retain(|_, count| *count > 0);
        if self.marked > 0 {
            counts.insert(schedlab_trace::mark::NAME.into(), self.marked);
        }
        all.per_cpu.insert(cpu, counts);
        if self.lost > 0 {
            all.lost.insert(cpu, self.lost);
        }
        if let Some(mine) = self.span {
            let span = all.span.get_or_insert(mine);
            *span = Span::new(span.start.min(mine.start), span.end.max(mine.end));
        }
        Ok(())
    }
}

/// Bytes of a window; a record has at most 64 KiB.
const WINDOW: usize = 4 << 20;
/// Records that wait for the next window: more than an interrupt ever logs.
const LATE: usize = 4096;

/// A record within a window.
struct At {
    time: Nanos,
    kind: u32,
    start: usize,
    len: usize,
}

/// Copies a spool file; `false` when its last record is cut. A file that is not there is empty: the
/// CPU went offline before it was opened.
fn copy<W: io::Write + io::Seek>(
    path: &Path,
    out: &mut Stitched<'_, W>,
) -> Result<bool, RecordError> {
    let Ok(mut file) = File::open(path) else { return Ok(true) };
    let mut window = Vec::with_capacity(WINDOW);
    let mut index: Vec<At> = Vec::new();
    loop {
        let read = (&mut file).take((WINDOW - window.len()) as u64).read_to_end(&mut window);
        let last = read.map_err(RecordError::file(path))? == 0;
        let used = walk(&window, &mut index).map_err(|offset| RecordError::Spool {
            path: path.to_owned(),
            what: format!("no record at byte {offset} of a window"),
        })?;
        index.sort_by_key(|at| at.time);
        let keep = if last { 0 } else { index.len().min(LATE) };
        for at in index.drain(..index.len() - keep) {
            emit(&window[at.start..at.start + at.len], &at, out)
                .map_err(RecordError::file(path))?;
        }
        if last {
            return Ok(used == window.len());
        }
        // What waits moves to the front, in the order of time, and is walked again.
        let mut rest: Vec<u8> = Vec::with_capacity(WINDOW);
        for at in index.drain(..) {
            rest.extend_from_slice(&window[at.start..at.start + at.len]);
        }
        rest.extend_from_slice(&window[used..]);
        window = rest;
    }
}

/// Indexes the whole records of a window; returns how many bytes they are, or where nonsense begins.
fn walk(window: &[u8], index: &mut Vec<At>) -> Result<usize, usize> {
    index.clear();
    let mut start = 0;
    let mut time = Nanos::ZERO;
    while let Some(header) = window.get(start..start + record::HEADER) {
        let kind = u32::from_ne_bytes(header[..4].try_into().expect("four bytes"));
        let len = usize::from(u16::from_ne_bytes(header[6..].try_into().expect("two bytes")));
        if len < record::HEADER {
            return Err(start);
        }
        let Some(body) = window.get(start + record::HEADER..start + len) else { break };
        // A loss carries no time of its own here: it belongs behind what came before it.
        if kind == record::SAMPLE {
            let own = body.first_chunk().ok_or(start)?;
            time = Nanos(u64::from_ne_bytes(*own));
        }
        index.push(At { time, kind, start, len });
        start += len;
    }
    Ok(start)
}

fn emit<W: io::Write + io::Seek>(
    bytes: &[u8],
    at: &At,
    out: &mut Stitched<'_, W>,
) -> io::Result<()> {
    let body = &bytes[record::HEADER..];
    match at.kind {
        record::SAMPLE => {
            let Some(size) = body.get(8..12) else { return Ok(()) };
            let size = u32::from_ne_bytes(size.try_into().expect("four bytes")) as usize;
            out.record(at.time, body.get(12..12 + size).unwrap_or_default())
        }
        record::LOST => match body.get(8..16) {
            Some(count) => out.lost(u64::from_ne_bytes(count.try_into().expect("eight bytes"))),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The last name under which each task was switched to: what the records themselves know.
fn names(dir: &Path, head: &Head) -> Result<BTreeMap<Pid, Comm>, RecordError> {
    let mut names = BTreeMap::new();
    let switch = head.tracepoints.iter().find(|point| point.name == "sched_switch");
    let Some((switch, pid_at, comm_at)) =
        switch.and_then(|s| Some((s, s.field("next_pid")?.0, s.field("next_comm")?)))
    else {
        return Ok(names);
    };
    for cpu in head.cpus.iter() {
        let path = spool::records(dir, cpu);
        let Ok(file) = File::open(&path) else { continue };
        let mut file = io::BufReader::with_capacity(1 << 20, file);
        let mut record = vec![0; record::HEADER];
        loop {
            record.resize(record::HEADER, 0);
            if file.read_exact(&mut record).is_err() {
                break;
            }
            let len = usize::from(u16::from_ne_bytes([record[6], record[7]]));
            record.resize(len.max(record::HEADER), 0);
            if file.read_exact(&mut record[record::HEADER..]).is_err() || len < record::HEADER {
                break;
            }
            let Some(body) = record.get(record::HEADER + 12..) else { continue };
            if body.first_chunk().is_none_or(|id| u16::from_ne_bytes(*id) != switch.id) {
                continue;
            }
            let pid = body.get(pid_at..pid_at + 4).and_then(|b| b.try_into().ok());
            let comm = body.get(comm_at.0..comm_at.0 + comm_at.1.min(16));
            if let (Some(pid), Some(comm)) = (pid.map(i32::from_ne_bytes), comm) {
                // Idle tasks share a pid, not a name.
                if pid != 0 {
                    names.insert(Pid(pid), schedlab_sys::process::comm_of(comm));
                }
            }
        }
    }
    Ok(names)
}
