//! The samples of a perf.data as undecoded records.
//!
//! Each CPU's samples are sorted round by round; CPUs take turns in the file's order.

use super::cpu_backlog::Found;
use super::layout::Layout;
use super::pending::Waiting;
use super::reader::{call, found};
use super::records;
use super::round::Round;
use super::round_reader::{RoundReader, lost, named};
use crate::conversion_loss::cannot_hold;
use crate::dat::{Header, Piece, RecordSource, Sink};
use crate::error::TraceError;
use crate::input::Input;

use schedlab_model::{Clock, Comm, Cpu, Nanos, Pid, Warning, What};
use std::collections::BTreeMap;
use std::io;

/// A perf.data as records.
pub(crate) struct PerfRecords {
    reader: RoundReader,
    header: Header,
    warnings: Vec<Warning>,
    /// The last name that perf told of each task, and how often one changed.
    comms: BTreeMap<Pid, Comm>,
    renamed: u64,
}

impl PerfRecords {
    pub(crate) fn open(input: Input) -> Result<Self, TraceError> {
        let (mut reader, round) = RoundReader::open(input, false, None)?;
        // All is read again, but for the head.
        reader.head.warnings.extend(round.ended.into_iter().flat_map(|ended| ended.warnings));
        let head = round.head.expect("the first round tells the head");
        let info = head.info;
        let warnings = head.warnings;
        let budget = reader.input.budget();
        let mut comms = BTreeMap::new();
        for (pid, comm) in round.named {
            call(&mut comms, budget, pid, comm);
        }
        let threads = round.threads;
        let mut header = reader.tracing().cloned().unwrap_or_default();
        header.cpus = info.cpus.iter().last().map_or(0, |cpu| u32::from(cpu.0) + 1);
        header.clock = match &info.clock {
            Clock::Monotonic => "mono".into(),
            Clock::Nanoseconds(name) | Clock::Ticks(name) => name.clone(),
        };
        header.uname.clone_from(&info.kernel);
        header.cmdlines = cmdlines(&comms);
        // The pages are made here: their size may differ from the traced kernel's.
        header.page_size = 4096;
        header.header_page = String::new();
        let processes = (!threads.is_empty())
            .then(|| threads.into_iter().filter(|(thread, process)| thread != process).collect());
        header.companion =
            (info.topology.is_some() || info.span.is_some()).then(|| crate::dat::Companion {
                topology: info.topology.clone(),
                span: info.span,
                processes,
                ..crate::dat::Companion::default()
            });
        Ok(Self { reader, header, warnings, comms, renamed: 0 })
    }

    /// Reads the records of a round into `round`, bodies and all.
    fn hold(&mut self, round: &mut Round) -> io::Result<()> {
        let Self { reader, comms, renamed, .. } = self;
        let encoding = reader.head.encoding;
        let limit = reader.round_limit();
        while round.weight() < limit {
            let Some(kind) = reader.records.next(&reader.input)? else {
                round.ended = Some(Box::new(reader.ended()));
                return Ok(());
            };
            if kind == records::FINISHED_ROUND {
                if reader.ends(round) {
                    return Ok(());
                }
                continue;
            }
            let record = reader.records.get();
            match kind {
                records::HEADER_TRACING_DATA => {
                    let size = record.get(8..).and_then(|rest| rest.first_chunk());
                    let size = size.map_or(0, |bytes| encoding.u32(*bytes));
                    reader.records.payload(&reader.input, size)?;
                }
                records::SAMPLE => {
                    let Some(layout) = reader.layout() else {
                        reader.foreign += 1;
                        continue;
                    };
                    let sample = layout.sample(record, encoding);
                    let cpu = sample.and_then(|(when, _)| u16::try_from(when.cpu).ok());
                    match sample.zip(cpu) {
                        Some(((when, body), cpu)) => round.body(cpu, when.time, body),
                        None => reader.broken += 1,
                    }
                }
                records::LOST | records::LOST_SAMPLES => {
                    let Some((cpu, time)) = reader.placed() else { continue };
                    round.aside(cpu, time, What::Lost { count: lost(kind, record, encoding) });
                }
                records::COMM => {
                    let (pid, comm) = named(record, encoding);
                    let before = call(comms, reader.input.budget(), pid, comm);
                    *renamed += u64::from(before.is_some_and(|before| before != comm));
                }
                _ => {}
            }
        }
        reader.was_empty = false;
        Ok(())
    }

    /// When all was read: the names that came on the way, and what is not passed on.
    fn conclude(&mut self) {
        self.header.cmdlines = cmdlines(&self.comms);
        self.warnings.extend(self.reader.input.budget().warning(self.reader.path()));
        let renamed = self.renamed;
        if renamed > 0 {
            let what = format!(
                "{renamed} changes of name keep only the last name; records carry the names of \
                 their time"
            );
            self.warnings.push(cannot_hold(what, ""));
        }
        if self.reader.head.layouts.iter().any(Layout::has_chain) {
            let what = "call chains of samples are left out";
            self.warnings.push(cannot_hold(what, "`perf script` prints them from the source"));
        }
    }
}

fn cmdlines(comms: &BTreeMap<Pid, Comm>) -> Vec<(Pid, Comm)> {
    comms.iter().map(|(pid, comm)| (*pid, *comm)).collect()
}

impl RecordSource for PerfRecords {
    fn header(&self) -> &Header {
        &self.header
    }

    fn each(&mut self, sink: &mut Sink<'_>) -> io::Result<()> {
        let mut round = Round::default();
        let mut waiting = Waiting::default();
        self.reader.rewind();
        loop {
            self.hold(&mut round)?;
            let ended = round.ended.take();
            waiting.accept(&mut round, ended.is_some());
            let due = waiting.due;
            for (cpu, lane) in waiting.lanes.iter_mut().enumerate() {
                let cpu = Cpu(u16::try_from(cpu).expect("CPUs were checked"));
                while let Some((time, found)) = lane.get().filter(|(time, _)| *time <= due) {
                    sink(0, cpu, piece(time, found))?;
                    lane.pass();
                }
            }
            if let Some(ended) = ended {
                self.warnings.append(&mut found(self.reader.path(), *ended, 0));
                self.conclude();
                return Ok(());
            }
        }
    }

    fn by_cpu(&self) -> bool {
        false
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

fn piece(time: u64, found: Found<'_>) -> Piece<'_> {
    match found {
        Found::Body(body) => Piece::Record(Nanos(time), body),
        Found::Aside(What::Lost { count }) => Piece::Lost(count),
        Found::Aside(_) => Piece::Lost(None),
    }
}
