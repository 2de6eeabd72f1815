//! The samples of a perf.data as records, undecoded.
//!
//! Each CPU's samples are sorted round by round; CPUs take turns as the file has them.

use super::held::Found;
use super::reader::PerfReader;
use super::rounds::Rounds;
use crate::convert::cannot_hold;
use crate::dat::Header;
use crate::error::TraceError;
use crate::input::Input;
use crate::live::Piece;
use crate::record::{RecordSource, Sink};
use schedlab_model::{Clock, Comm, Cpu, Nanos, Pid, TraceInfo, Warning, What};
use std::io;

/// A perf.data as records.
pub(crate) struct PerfRecords {
    reader: PerfReader,
    header: Header,
    warnings: Vec<Warning>,
}

impl PerfRecords {
    pub(crate) fn open(input: Input) -> Result<Self, TraceError> {
        let reader = PerfReader::open(input, false)?;
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
        let mut rounds = Rounds::default();
        self.reader.rewind();
        loop {
            let more = self.reader.hold_round(&mut rounds)?;
            rounds.close(!more);
            let due = rounds.due;
            for (cpu, lane) in rounds.lanes.iter_mut().enumerate() {
                let cpu = Cpu(u16::try_from(cpu).expect("CPUs were checked"));
                while let Some((time, found)) = lane.get().filter(|(time, _)| *time <= due) {
                    sink(0, cpu, told(time, found))?;
                    lane.pass();
                }
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

fn told(time: u64, found: Found<'_>) -> Piece<'_> {
    match found {
        Found::Body(body) => Piece::Record(Nanos(time), body),
        Found::Aside(What::Lost { count }) => Piece::Lost(count),
        Found::Aside(_) => Piece::Lost(None),
    }
}
