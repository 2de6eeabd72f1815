//! The samples of a perf.data as records, undecoded.
//!
//! Each CPU's samples are sorted round by round; CPUs take turns as the file has them.

use super::reader::PerfReader;
use crate::convert::cannot_hold;
use crate::dat::Header;
use crate::error::TraceError;
use crate::input::Input;
use crate::live::Piece;
use crate::record::{RecordSource, Sink};
use schedlab_model::{Clock, Comm, Cpu, Nanos, Pid, TraceInfo, Warning};
use std::io;
use std::num::NonZeroU32;

/// A perf.data as records.
pub(crate) struct PerfRecords {
    reader: PerfReader,
    header: Header,
    warnings: Vec<Warning>,
}

/// What one CPU logged since the last round but one: time, and the body's place or a loss.
#[derive(Default)]
pub(super) struct Held {
    pub(super) bytes: Vec<u8>,
    pub(super) pieces: Vec<(u64, HeldPiece)>,
}

#[derive(Clone, Copy)]
pub(super) enum HeldPiece {
    Body { start: usize, length: usize },
    Lost(u32),
}

impl PerfRecords {
    pub(crate) fn open(input: Input) -> Result<Self, TraceError> {
        let reader = PerfReader::open(input)?;
        let info = reader.info_now();
        let mut header = reader.tracing().cloned().unwrap_or_default();
        header.cpus = info.cpus.iter().last().map_or(0, |cpu| u32::from(cpu.0) + 1);
        header.clock = match &info.clock {
            Clock::Monotonic => "mono".into(),
            Clock::Nanoseconds(name) | Clock::Ticks(name) => name.clone(),
        };
        header.uname.clone_from(&info.kernel);
        header.cmdlines = cmdlines(info);
        // Pages are ours to make, whatever the traced kernel's were.
        header.page_size = 4096;
        header.header_page = String::new();
        header.companion = info.topology.clone().map(|topology| crate::dat::Companion {
            topology: Some(topology),
            ..crate::dat::Companion::default()
        });
        let warnings = reader.warnings_now().to_vec();
        Ok(Self { reader, header, warnings })
    }
}

impl PerfRecords {
    /// When all was read: the names that came on the way, and what is not passed on.
    fn conclude(&mut self) {
        self.header.cmdlines = cmdlines(self.reader.info_now());
        self.warnings = self.reader.warnings_now().to_vec();
        let renamed = self.reader.renamed();
        if renamed > 0 {
            let what = format!(
                "{renamed} changes of name are kept as the last names only; records carry the names \
                 of their time"
            );
            self.warnings.push(cannot_hold(what, ""));
        }
        if self.reader.has_chains() {
            let what = "call chains of samples are left out";
            self.warnings.push(cannot_hold(what, "`perf script` prints them from the source"));
        }
    }
}

fn cmdlines(info: &TraceInfo) -> Vec<(Pid, Comm)> {
    info.comms.iter().map(|(pid, comm)| (*pid, *comm)).collect()
}

impl RecordSource for PerfRecords {
    fn header(&self) -> &Header {
        &self.header
    }

    fn each(&mut self, sink: &mut Sink<'_>) -> io::Result<()> {
        let mut held: Vec<Held> = Vec::new();
        let mut limits = (0, 0);
        self.reader.rewind();
        loop {
            let more = self.reader.hold_round(&mut held, &mut limits.1)?;
            let due = if more { limits.0 } else { u64::MAX };
            limits.0 = limits.1;
            for (cpu, held) in held.iter_mut().enumerate() {
                let cpu = Cpu(u16::try_from(cpu).expect("CPUs were checked"));
                held.release(due, |time, piece| sink(0, cpu, told(time, piece)))?;
            }
            if !more {
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

fn told(time: u64, piece: Result<&[u8], u32>) -> Piece<'_> {
    match piece {
        Ok(body) => Piece::Record(Nanos(time), body),
        Err(count) => Piece::Lost(NonZeroU32::new(count)),
    }
}

impl Held {
    /// Hands out all up to `due`, in order of time.
    fn release(
        &mut self,
        due: u64,
        mut sink: impl FnMut(u64, Result<&[u8], u32>) -> io::Result<()>,
    ) -> io::Result<()> {
        if !self.pieces.is_sorted_by_key(|piece| piece.0) {
            self.pieces.sort_by_key(|piece| piece.0);
        }
        let count = self.pieces.partition_point(|piece| piece.0 <= due);
        for (time, piece) in &self.pieces[..count] {
            match *piece {
                HeldPiece::Body { start, length } => {
                    sink(*time, Ok(&self.bytes[start..start + length]))?;
                }
                HeldPiece::Lost(count) => sink(*time, Err(count))?,
            }
        }
        self.pieces.drain(..count);
        let mut kept = Vec::new();
        for (_, piece) in &mut self.pieces {
            if let HeldPiece::Body { start, length } = piece {
                let at = kept.len();
                kept.extend_from_slice(&self.bytes[*start..*start + *length]);
                *start = at;
            }
        }
        self.bytes = kept;
        Ok(())
    }
}
