//! From a spool directory to a trace.dat: two passes over the ring files, the first for the names of
//! tasks (the head of the file wants them), the second for the records.

use super::copy::Found;
use super::counters::Grown;
use super::groups::{Attached, Moves, Renamed};
use super::hits::Hits;
use super::lock_events;
use super::request_probes::{HitCost, Probed};
use super::rings::OUT_OF_USE;
use super::spaces::Spaces;
use super::spool::{self, Head, Seen, Source, Tail};
use super::stacks::{self, Stacks};
use super::tracepoints::Tracepoint;
use super::user_stacks::{self, Chains};
use super::watch::{Tasks, gather};
use super::{Mark, Marks, RecordError, Via, copy, mark_file};
use schedlab_model::{Comm, Cpu, Nanos, Phase, Pid, Span, Warning};
use schedlab_trace::dat::{Companion, Compression, Header, Version, Writer};
use schedlab_workload::{Recorded, RecordedRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU32;
use std::path::Path;

/// Writes the recording in `dir` as a trace.dat at `out`, under another name until it is complete: compressed,
/// in version 7, unless [`Options::no_compress`](super::Options) was set. The directory is left as it is.
///
/// # Errors
/// When `dir` is no spool directory, or on I/O. A recording that was cut is no error but a warning.
pub fn stitch(dir: &Path, out: &Path, marks: &Marks) -> Result<Recorded, RecordError> {
    let head: Head = spool::read(&spool::head(dir))?;
    if head.schema != spool::SCHEMA {
        let what = format!("made by another version of schedlab (schema {})", head.schema);
        return Err(RecordError::Spool { path: spool::head(dir), what });
    }
    let tail: Option<Tail> = spool::read(&spool::tail(dir)).ok();
    let via = match head.source {
        Source::Perf => Via::Perf,
        Source::Ftrace => Via::Ftrace,
    };
    let via = via.name().to_owned();
    let mut summary = Recorded { via, ..Recorded::default() };
    if tail.is_none() {
        summary.warnings.push(Warning::new(
            "recording-cut",
            "the last moments are missing: the recording did not end cleanly",
            "",
        ));
    }
    summary.warnings.extend(tail.iter().flat_map(|tail| tail.doubts.clone()));
    let marks = &with_written_marks(marks, dir)?;
    let layout = layout(&head);
    let mut known = Known::of(dir, &head, layout)?;
    let spaces = std::mem::take(&mut known.spaces);
    let made = head.user_stacks.map(|_| user_stacks::make(dir, &head, layout, spaces));
    let (code, told) = made.transpose()?.unzip();
    summary.user_stacks = told;
    let mark_id = free_id(&head.tracepoints);
    let symbols = stacks::symbols(dir, &known.addresses).unwrap_or_else(|warning| {
        summary.warnings.push(warning);
        Vec::new()
    });
    let tasks = spool::read_tasks(dir)?;
    let first_request = u32::try_from(marks.names.len()).unwrap_or(u32::MAX);
    let marks = &with_requests(marks, &head);
    let grown: Grown = spool::read(&spool::counters(dir)).unwrap_or_default();
    let known = Known { counted: grown.groups, ..known };
    let mut header = Header { kallsyms: symbols, ..header(tasks, &head, known, marks, mark_id) };
    let processes = header.companion.as_ref().and_then(|it| it.processes.clone());
    let processes = processes.unwrap_or_default();
    let mut hits = Hits::new(&head.requests, &head.tracepoints);
    let mut seen = vec![[0; 2]; head.requests.len()];
    // Read from the formats once: for each record it took most of the time.
    let lengths: Vec<_> = head.tracepoints.iter().map(Tracepoint::fixed_len).collect();
    if let Some(companion) = &mut header.companion {
        companion.code = code;
        companion.trigger = tail.as_ref().and_then(|tail| tail.trigger);
        companion.counters = Some(grown.tasks).filter(|all| !all.is_empty());
        let is_kept = |pid: Pid| head.only.is_empty() || head.only.contains(&pid);
        let mut at_start = grown.at_start;
        at_start.tasks.retain(|task| is_kept(task.pid));
        companion.at_start = Some(at_start).filter(|at| !at.tasks.is_empty());
    }
    // A device or a pipe is written to, never replaced; a link is followed.
    schedlab_trace::replace(out, |part| {
        let mut writer = Writer::create(part, &header).map_err(RecordError::file(out))?;
        for cpu in head.cpus.iter() {
            let mut marks: Vec<Mark> =
                marks.marks.iter().filter(|m| m.cpu == cpu).copied().collect();
            marks.sort_by_key(|mark| mark.time);
            let kernel_lost = tail.as_ref().and_then(|tail| tail.lost.get(&cpu).copied());
            let mut stitched = Stitched {
                cpu,
                out: writer.cpu(cpu).map_err(RecordError::file(out))?,
                kinds: &head.tracepoints,
                lengths: &lengths,
                overwrites: head.overwrites,
                keeps_end: head.overwrites || head.is_snapshot,
                counts: vec![0; head.tracepoints.len()],
                marks: marks.into_iter().peekable(),
                hits: &mut hits,
                processes: &processes,
                first_request,
                requests_seen: &mut seen,
                mark_id,
                marked: 0,
                lost: 0,
                span: None,
            };
            let whole = stitched.all(dir, layout)?;
            if !whole {
                summary.warnings.push(cut_file(cpu));
            }
            stitched.finish(kernel_lost, &mut summary).map_err(RecordError::file(out))?;
        }
        writer.finish().map_err(RecordError::file(out))?;
        Ok::<(), RecordError>(())
    })?;
    let is_full = |tail: &Tail| {
        let mut doubts = tail.doubts.iter();
        !doubts.any(|doubt| doubt.code == OUT_OF_USE) || tail.lost.values().any(|lost| *lost > 0)
    };
    summary.warnings.extend(loss(&summary).filter(|_| tail.as_ref().is_none_or(is_full)));
    let lock_cost = tail.as_ref().and_then(|tail| tail.lock_cost);
    summary.locks = lock_cost.map(|it| lock_events::counted(&head.tracepoints, &summary, it));
    let cost = tail.and_then(|tail| tail.hit_cost);
    for (request, [begun, ended]) in head.requests.iter().zip(seen) {
        let told = requested(request, begun, ended, cost);
        summary.warnings.extend(unseen(&told));
        summary.requests.push(told);
    }
    Ok(summary)
}

/// What was seen of a request.
fn requested(of: &Probed, begun: u64, ended: u64, cost: Option<HitCost>) -> RecordedRequest {
    let costs = cost.and_then(|cost| of.costs(cost));
    let hits_ns = costs.map(|[begin_ns, end_ns]| {
        Nanos((begun as f64 * begin_ns + ended as f64 * end_ns).round() as u64)
    });
    RecordedRequest { name: of.name.clone(), begun, ended, hits_ns }
}

/// A request of which nothing, or one end alone, was seen.
fn unseen(told: &RecordedRequest) -> Option<Warning> {
    let name = &told.name;
    let what = match (told.begun, told.ended) {
        (0, 0) => format!("no request '{name}' was seen: no program came by its begin or its end"),
        (_, 0) => format!("no request '{name}' ended: no program came by its end"),
        (0, _) => format!("no request '{name}' began: no program came by its begin"),
        _ => return None,
    };
    Some(Warning::new(
        "request-unseen",
        what,
        "see what can be named: schedlab record --request-list",
    ))
}

/// These marks, and the names of the requests that probes tell.
fn with_requests(marks: &Marks, head: &Head) -> Marks {
    let mut marks = marks.clone();
    marks.names.extend(head.requests.iter().map(|request| request.name.clone()));
    marks
}

/// These marks, and those that programs wrote into `trace_marker`.
fn with_written_marks(marks: &Marks, dir: &Path) -> Result<Marks, RecordError> {
    let path = spool::written_marks(dir);
    let names = mark_file::names_of(&path);
    let heard = mark_file::gather(&[(path.clone(), names)]).map_err(RecordError::file(&path))?;
    let Marks { mut names, marks: mut all } = marks.clone();
    let first = u32::try_from(names.len()).unwrap_or(u32::MAX);
    names.extend(heard.names);
    all.extend(heard.marks.into_iter().map(|mark| Mark { id: first + mark.id, ..mark }));
    Ok(Marks { names, marks: all })
}

fn layout(head: &Head) -> copy::Layout {
    let stacks = Stacks::of(&head.tracepoints, head.wakers, head.running);
    let samples = head.samples();
    copy::Layout { source: head.source, page: head.page_size as usize, stacks, samples }
}

fn cut_file(cpu: Cpu) -> Warning {
    let what = format!("the last records of CPU {cpu} are missing: they were cut");
    Warning::new("record-cut", what, "")
}

fn loss(summary: &Recorded) -> Option<Warning> {
    let lost = summary.lost_total();
    (lost > 0).then(|| {
        let what = format!("{lost} events were lost because a ring was full");
        Warning::new("events-lost", what, "use larger rings: --ring 16MiB")
    })
}

fn header(all: Vec<spool::Seen>, head: &Head, known: Known, marks: &Marks, mark_id: u16) -> Header {
    let Known { mut names, moves, counted, .. } = known;
    let groups = super::groups::gather(&all, &moves, &counted);
    let conditions = super::conditions::gather(&all);
    let Tasks { names: seen, allowed, processes } = gather(all);
    for (pid, comm) in seen {
        names.entry(pid).or_insert(comm);
    }
    let (of_stacks, others): (Vec<_>, Vec<_>) =
        head.tracepoints.iter().partition(|point| point.is_stack());
    let mut formats: Vec<_> = others.iter().map(|t| (t.system.clone(), t.format.clone())).collect();
    if !marks.marks.is_empty() || !head.requests.is_empty() {
        let text = schedlab_trace::mark::format_text(mark_id, &marks.names);
        formats.push((schedlab_trace::mark::SYSTEM.into(), text));
    }
    let companion = Companion {
        topology: head.topology.clone(),
        affinity: Some(allowed),
        processes: Some(processes),
        marks: marks.names.clone(),
        only: (!head.only.is_empty()).then(|| head.only.clone()),
        groups,
        conditions,
        ..Companion::default()
    };
    let (version, compression) = match head.no_compress {
        true => (Version::V6, Compression::None),
        false => (Version::V7, Compression::Zstd),
    };
    Header {
        version,
        compression,
        page_size: head.page_size,
        header_page: head.header_page.clone(),
        header_event: head.header_event.clone(),
        ftrace_formats: of_stacks.iter().map(|point| point.format.clone()).collect(),
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
    cpu: Cpu,
    out: schedlab_trace::dat::CpuWriter<'a, W>,
    kinds: &'a [Tracepoint],
    /// Of their records; `None` where they differ.
    lengths: &'a [Option<usize>],
    overwrites: bool,
    /// Marks from before the first record belong to what is not kept.
    keeps_end: bool,
    counts: Vec<u64>,
    marks: std::iter::Peekable<std::vec::IntoIter<Mark>>,
    hits: &'a mut Hits,
    /// Of threads that are not the first of theirs.
    processes: &'a BTreeMap<Pid, Pid>,
    /// The name of the first request among those of marks.
    first_request: u32,
    /// How often each request began and ended.
    requests_seen: &'a mut [[u64; 2]],
    mark_id: u16,
    marked: u64,
    lost: u64,
    span: Option<Span>,
}

impl<W: io::Write + io::Seek> Stitched<'_, W> {
    /// Takes all that the CPU's file of the spool holds; `false` if its end is cut.
    fn all(&mut self, dir: &Path, layout: copy::Layout) -> Result<bool, RecordError> {
        let mut chains = Chains::open(dir, self.cpu);
        copy::read(&spool::records(dir, self.cpu), layout, &mut |found| match found {
            Found::Record(time, body) => self.record(time, body),
            Found::Lost(count) => self.lost(count),
            Found::Beside(..) => Ok(()),
            Found::Stack(sample) => {
                let user = chains.next()?;
                let record = layout.stacks.and_then(|stacks| stacks.record(sample, &user));
                record.map_or(Ok(()), |record| self.record(sample.time, &record))
            }
        })
    }

    fn record(&mut self, time: Nanos, body: &[u8]) -> io::Result<()> {
        self.marks_until(time)?;
        let id = body.first_chunk().map(|id| u16::from_ne_bytes(*id));
        let Some(kind) = self.kinds.iter().position(|kind| Some(kind.id) == id) else {
            return Ok(());
        };
        let process = |thread: Pid| self.processes.get(&thread).copied().unwrap_or(thread);
        for hit in self.hits.marks(body, process) {
            self.requests_seen[hit.request as usize][usize::from(hit.phase == Phase::End)] += 1;
            let mark = self.first_request + hit.request;
            let body = schedlab_trace::mark::body(
                self.mark_id,
                hit.pid,
                hit.pid,
                mark,
                hit.phase,
                hit.number,
            );
            self.out.record(time, &body)?;
            self.marked += 1;
            self.seen(time);
        }
        if self.hits.is_own(self.kinds[kind].id) {
            return Ok(());
        }
        self.counts[kind] += 1;
        self.seen(time);
        // The ring pads records; what lies behind the fields is garbage.
        let len = self.lengths[kind].unwrap_or(body.len()).min(body.len());
        self.out.record(time, &body[..len])
    }

    fn lost(&mut self, count: Option<NonZeroU32>) -> io::Result<()> {
        if self.overwrites && self.span.is_none() {
            return Ok(());
        }
        self.lost += count.map_or(1, |count| u64::from(count.get()));
        self.out.lost(count)
    }

    fn marks_until(&mut self, time: Nanos) -> io::Result<()> {
        let is_kept = !self.keeps_end || self.span.is_some();
        while let Some(mark) = self.marks.next_if(|mark| mark.time <= time) {
            if !is_kept {
                continue;
            }
            let body = schedlab_trace::mark::body(
                self.mark_id,
                mark.pid,
                mark.pid,
                mark.id,
                mark.phase,
                mark.request,
            );
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

    fn finish(mut self, kernel_lost: Option<u64>, all: &mut Recorded) -> io::Result<()> {
        self.marks_until(Nanos::MAX)?;
        // What was lost last is only in the kernel's count: the ring tells a loss with the record
        // that follows it.
        let unseen = kernel_lost.unwrap_or(0).saturating_sub(self.lost);
        if unseen > 0 {
            self.lost(NonZeroU32::new(u32::try_from(unseen).unwrap_or(u32::MAX)))?;
        }
        self.out.finish()?;
        let mut counts: BTreeMap<String, u64> =
            self.kinds.iter().zip(&self.counts).map(|(k, n)| (k.name.clone(), *n)).collect();
        counts.retain(|_, count| *count > 0);
        if self.marked > 0 {
            counts.insert(schedlab_trace::mark::NAME.into(), self.marked);
        }
        all.per_cpu.insert(self.cpu, counts);
        if self.lost > 0 {
            all.lost.insert(self.cpu, self.lost);
        }
        if let Some(mine) = self.span {
            let span = all.span.get_or_insert(mine);
            *span = Span::new(span.start.min(mine.start), span.end.max(mine.end));
        }
        Ok(())
    }
}

/// What a first pass over the records finds.
struct Known {
    /// The last name under which each task came to or left a CPU.
    names: BTreeMap<Pid, Comm>,
    /// The addresses that stacks hold.
    addresses: BTreeSet<u64>,
    /// Moves of tasks between control groups, and new names of groups.
    moves: Moves,
    /// Counters of groups with a quota, read while events were written.
    counted: Vec<Seen>,
    /// What processes had mapped.
    spaces: Spaces,
}

impl Known {
    fn of(dir: &Path, head: &Head, layout: copy::Layout) -> Result<Self, RecordError> {
        let mut addresses = BTreeSet::new();
        let mut names = Names::new(&head.tracepoints);
        let moved = PathEvent::attach(head);
        let renamed = PathEvent::rename(head);
        let mut moves = Moves::default();
        let mut spaces = Spaces::default();
        spaces.read(&spool::maps(dir))?;
        spaces.read(&spool::maps_at_end(dir))?;
        for cpu in head.cpus.iter() {
            copy::read(&spool::records(dir, cpu), layout, &mut |found| {
                match found {
                    Found::Record(time, body) => {
                        names.see(time, body);
                        let moved = moved.iter();
                        let renamed = renamed.iter();
                        moves.attached.extend(moved.filter_map(|of| of.attached(time, body)));
                        moves.renamed.extend(renamed.filter_map(|of| of.renamed(time, body)));
                        addresses.extend(layout.stacks.iter().flat_map(|of| of.addresses(body)));
                    }
                    Found::Stack(sample) => addresses.extend(stacks::in_kernel(sample.chain)),
                    Found::Beside(kind, record, time) => spaces.see(kind, record, time),
                    Found::Lost(_) => {}
                }
                Ok(())
            })?;
        }
        Ok(Self { names: names.last(), addresses, moves, counted: Vec::new(), spaces })
    }
}

/// Records that name a group of the hierarchy that divides CPU time.
struct PathEvent {
    id: u16,
    hierarchy: u32,
    root: usize,
    path: usize,
    /// Where the pid of a task that comes to that group is.
    pid: Option<usize>,
}

impl PathEvent {
    fn attach(head: &Head) -> Option<Self> {
        Self::of(head, "cgroup_attach_task", ["dst_root", "dst_path"])
    }

    /// The path is the new one.
    fn rename(head: &Head) -> Option<Self> {
        Self::of(head, "cgroup_rename", ["root", "path"])
    }

    fn of(head: &Head, name: &str, [root, path]: [&str; 2]) -> Option<Self> {
        let point = head.tracepoints.iter().find(|point| point.name == name)?;
        let at = |field| point.field(field).map(|(offset, _)| offset);
        let root = at(root)?;
        let path = at(path)?;
        let pid = at("pid");
        Some(Self { id: point.id, hierarchy: head.hierarchy?, root, path, pid })
    }

    fn attached(&self, at: Nanos, body: &[u8]) -> Option<Attached> {
        let group = self.group(body)?;
        let pid = Pid(word(body, self.pid?)?.cast_signed());
        Some(Attached { at, pid, group })
    }

    fn renamed(&self, at: Nanos, body: &[u8]) -> Option<Renamed> {
        self.group(body).map(|group| Renamed { at, group })
    }

    fn group(&self, body: &[u8]) -> Option<String> {
        let id = u16::from_ne_bytes(*body.first_chunk()?);
        if id != self.id || word(body, self.root)? != self.hierarchy {
            return None;
        }
        let text = word(body, self.path)?;
        let from = text as usize & 0xffff;
        let length = (text >> 16) as usize;
        let bytes = body.get(from..from.checked_add(length)?)?;
        let bytes = bytes.split(|byte| *byte == 0).next()?;
        Some(std::str::from_utf8(bytes).ok()?.to_owned())
    }
}

fn word(body: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*body.get(at..)?.first_chunk()?))
}

/// Names of tasks in the records of switches.
struct Names {
    switch: Option<u16>,
    /// Of the task that leaves and of the one that comes: where its pid is, and offset and length of its name.
    sides: Vec<(usize, (usize, usize))>,
    seen: BTreeMap<Pid, (Nanos, Comm)>,
}

impl Names {
    fn new(tracepoints: &[Tracepoint]) -> Self {
        let switch = tracepoints.iter().find(|point| point.name == "sched_switch");
        let side = |pid: &str, comm: &str| Some((switch?.field(pid)?.0, switch?.field(comm)?));
        let sides = [side("prev_pid", "prev_comm"), side("next_pid", "next_comm")];
        let switch = switch.map(|point| point.id);
        Self { switch, sides: sides.into_iter().flatten().collect(), seen: BTreeMap::new() }
    }

    fn see(&mut self, time: Nanos, body: &[u8]) {
        let id = body.first_chunk().map(|id| u16::from_ne_bytes(*id));
        if id.is_none() || id != self.switch {
            return;
        }
        for (pid_at, (comm_at, comm_len)) in &self.sides {
            let pid = body.get(*pid_at..).and_then(|rest| rest.first_chunk());
            let comm = body.get(*comm_at..*comm_at + (*comm_len).min(16));
            let (Some(pid), Some(comm)) = (pid, comm) else { continue };
            let pid = Pid(i32::from_ne_bytes(*pid));
            let latest = self.seen.get(&pid).is_none_or(|(seen, _)| *seen <= time);
            // Idle tasks share a pid, not a name.
            if latest && !pid.is_idle() {
                self.seen.insert(pid, (time, schedlab_sys::process::comm_of(comm)));
            }
        }
    }

    fn last(self) -> BTreeMap<Pid, Comm> {
        self.seen.into_iter().map(|(pid, (_, comm))| (pid, comm)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::CpuSet;
    use schedlab_sys::perf::record;

    const ID: u16 = 372;
    const RAW: usize = 12;

    fn head() -> Head {
        let format = format!(
            "name: sched_switch\nID: {ID}\nformat:\n\
             \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
             \tfield:pid_t next_pid;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n"
        );
        let system = "sched".into();
        let name = "sched_switch".into();
        Head {
            schema: spool::SCHEMA,
            source: Source::Perf,
            overwrites: false,
            is_snapshot: false,
            no_compress: false,
            header_page: String::new(),
            header_event: String::new(),
            tracepoints: vec![Tracepoint { system, name, id: ID, format }],
            cpus: CpuSet::first(2),
            requests: Vec::new(),
            topology: None,
            uname: "Linux".into(),
            page_size: 4096,
            started: Nanos::ZERO,
            hierarchy: None,
            user_stacks: None,
            wakers: false,
            running: false,
            only: BTreeSet::new(),
        }
    }

    fn sample(time: u64) -> Vec<u8> {
        let mut raw = vec![0; RAW];
        raw[..2].copy_from_slice(&ID.to_ne_bytes());
        framed(time, &raw)
    }

    fn framed(time: u64, raw: &[u8]) -> Vec<u8> {
        let size = u16::try_from(record::HEADER + 12 + raw.len()).unwrap();
        let header = [&record::SAMPLE.to_ne_bytes()[..], &[0, 0], &size.to_ne_bytes()].concat();
        let length = u32::try_from(raw.len()).unwrap().to_ne_bytes();
        let body = [&time.to_ne_bytes()[..], &length, raw].concat();
        [header, body].concat()
    }

    #[test]
    fn a_spool_that_is_cut_anywhere_is_stitched_as_far_as_it_goes() {
        let dir = tempfile::tempdir().unwrap();
        spool::write(&spool::head(dir.path()), &head()).unwrap();
        let ring = [sample(10), sample(20), sample(30)].concat();
        let out = dir.path().join("x.dat");
        for cut in 0..=ring.len() {
            std::fs::write(spool::records(dir.path(), Cpu(0)), &ring[..cut]).unwrap();
            let summary = stitch(dir.path(), &out, &Marks::default()).unwrap();
            let whole = (cut / sample(0).len()) as u64;
            assert_eq!(summary.events().values().sum::<u64>(), whole, "cut at {cut}");
            assert_eq!(summary.warnings[0].code, "recording-cut");
            let cut_within = summary.warnings.iter().any(|w| w.code == "record-cut");
            assert_eq!(cut_within, cut % sample(0).len() != 0);
            assert!(schedlab_trace::open(&out).is_ok());
        }
    }

    #[test]
    fn a_file_of_a_spool_that_never_ends_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        spool::write(&spool::head(dir.path()), &head()).unwrap();
        let out = dir.path().join("x.dat");
        let d = dir.path();
        let of = |path: std::path::PathBuf| {
            std::fs::remove_file(&path).ok();
            std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
            let said = stitch(dir.path(), &out, &Marks::default()).unwrap_err().to_string();
            assert!(said.contains("not a regular file"), "{}: {said}", path.display());
            std::fs::remove_file(&path).unwrap();
        };
        [spool::tasks(d), spool::written_marks(d), spool::records(d, Cpu(1))]
            .into_iter()
            .for_each(of);
        // Without these two a recording is cut, or has no names of functions.
        for path in [spool::tail(d), spool::symbols(d)] {
            std::os::unix::fs::symlink("/dev/zero", path).unwrap();
        }
        stitch(dir.path(), &out, &Marks::default()).unwrap();
        of(spool::head(d));
    }

    #[test]
    fn the_name_of_a_task_is_the_last_one_in_time_whichever_cpu_saw_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut head = head();
        head.tracepoints[0].format.push_str(
            "\tfield:char next_comm[16];\toffset:12;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t prev_pid;\toffset:28;\tsize:4;\tsigned:1;\n\
             \tfield:char prev_comm[16];\toffset:32;\tsize:16;\tsigned:0;\n",
        );
        let named = |time, next: &[u8], prev: &[u8]| {
            let mut raw = vec![0; 48];
            raw[..2].copy_from_slice(&ID.to_ne_bytes());
            raw[8..12].copy_from_slice(&7u32.to_ne_bytes());
            raw[12..12 + next.len()].copy_from_slice(next);
            raw[28..32].copy_from_slice(&8u32.to_ne_bytes());
            raw[32..32 + prev.len()].copy_from_slice(prev);
            framed(time, &raw)
        };
        let write = |cpu, bytes: Vec<u8>| {
            std::fs::write(spool::records(dir.path(), Cpu(cpu)), bytes).unwrap();
        };
        write(0, named(20, b"after", b"b"));
        write(1, named(10, b"before", b"a"));
        let names = Known::of(dir.path(), &head, layout(&head)).unwrap().names;
        assert!(names[&Pid(7)].starts_with(b"after\0") && names[&Pid(8)].starts_with(b"b\0"));
    }

    #[test]
    fn marks_are_merged_by_time_and_a_loss_at_the_end_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        spool::write(&spool::head(dir.path()), &head()).unwrap();
        let lost = BTreeMap::from([(Cpu(0), 7)]);
        let tail = Tail { stopped: Nanos(99), lost, doubts: Vec::new(), ..Tail::default() };
        spool::write(&spool::tail(dir.path()), &tail).unwrap();
        let ring = [sample(10), sample(30)].concat();
        std::fs::write(spool::records(dir.path(), Cpu(0)), ring).unwrap();
        let mark = |time, cpu| Mark {
            time: Nanos(time),
            cpu: Cpu(cpu),
            pid: Pid(5),
            id: 0,
            phase: Phase::Point,
            request: 0,
        };
        let marks = Marks { names: vec!["m".into()], marks: vec![mark(40, 1), mark(20, 0)] };
        let out = dir.path().join("x.dat");
        let summary = stitch(dir.path(), &out, &marks).unwrap();
        assert_eq!((summary.lost_total(), summary.events()["mark"]), (7, 2));
        assert_eq!(summary.span, Some(Span::new(Nanos(10), Nanos(41))));
        let mut source = schedlab_trace::open(&out).unwrap();
        let mut batch = Vec::new();
        let mut times = Vec::new();
        while source.next(&mut batch).unwrap() {
            let marks =
                batch.iter().filter(|e| matches!(e.what, schedlab_model::What::Mark { .. }));
            times.extend(marks.map(|event| (event.time.0, event.cpu.0)));
        }
        assert_eq!(times, [(20, 0), (40, 1)]);
        assert_eq!(source.info().marks, ["m"]);
    }
}
