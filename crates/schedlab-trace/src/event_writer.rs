//! Events, spelt as records of a trace.dat.

use crate::dat::{Companion, Compression, Header, Spool, Version};
use crate::encode::Encoder;
use crate::order::Order;
use crate::selection::Part;
use schedlab_model::{Clock, Event, TraceInfo, What};
use std::io;
use std::path::Path;

/// Writes a trace.dat from events: of a simulator, or of a format without records.
///
/// Events come in ascending order of time. Equal times keep the order in which they come, also across
/// CPUs: where a reader would turn two of them around, the later one is written a nanosecond later.
pub struct EventWriter {
    encoder: Encoder,
    spool: Spool,
    order: Order,
    info: TraceInfo,
}

impl EventWriter {
    /// Begins a trace.dat at `path`, which appears there when it is finished.
    ///
    /// # Errors
    /// When the folder of `path` cannot be written.
    pub fn create(path: &Path, info: &TraceInfo) -> io::Result<Self> {
        Self::create_as(path, info, Version::V6, Compression::None)
    }

    /// As [`Self::create`], in a chosen spelling.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_as(
        path: &Path,
        info: &TraceInfo,
        version: Version,
        compression: Compression,
    ) -> io::Result<Self> {
        let spool = Spool::create(path, head(info, version, compression))?;
        let (encoder, order) = (Encoder::new(info), Order::default());
        Ok(Self { encoder, spool, order, info: info.clone() })
    }

    /// Writes an event. A task's first name goes into the head of the file.
    ///
    /// # Errors
    /// I/O.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.event_with(event, "").map(drop)
    }

    /// Writes events with the arguments of the tracepoints beyond the scheduler's among them, in their order; those
    /// beyond the last arguments have none.
    ///
    /// # Errors
    /// I/O.
    pub fn events_with(&mut self, events: &[Event], arguments: &[String]) -> io::Result<()> {
        let mut arguments = arguments.iter();
        events.iter().try_for_each(|event| {
            let own = match event.what {
                What::Other { .. } => arguments.next().map_or("", String::as_str),
                _ => "",
            };
            self.event_with(event, own).map(drop)
        })
    }

    /// Writes an event with the arguments of a tracepoint beyond the scheduler's, at most 3,000 bytes.
    /// Returns whether it became a record.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn event_with(&mut self, event: &Event, arguments: &str) -> io::Result<bool> {
        if let What::Lost { count } = event.what {
            self.spool.lost(event.cpu, count)?;
            return Ok(false);
        }
        let Some(body) = self.encoder.body_with(event, arguments) else { return Ok(false) };
        self.spool.record(event.cpu, self.order.time(event), body)?;
        Ok(true)
    }

    /// Writes events, as [`Self::event`] does.
    ///
    /// # Errors
    /// I/O.
    pub fn events(&mut self, events: &[Event]) -> io::Result<()> {
        events.iter().try_for_each(|event| self.event(event))
    }

    /// Learns what an event tells that is not written: the name that its task has from now on.
    pub(crate) fn pass_over(&mut self, what: &What) {
        if let What::Comm { pid, comm } = *what {
            self.encoder.call(pid, comm);
        }
    }

    /// Learns tracepoints that the source met on the way.
    pub(crate) fn learn(&mut self, info: &TraceInfo) {
        self.encoder.learn(&info.others);
    }

    /// Whether events were moved to keep their order, as a sentence.
    pub(crate) fn moved(&self) -> Option<String> {
        self.order.told()
    }

    /// Writes the rest of the file and closes it.
    ///
    /// # Errors
    /// I/O.
    pub fn finish(self) -> io::Result<()> {
        let info = self.info.clone();
        self.finish_as(&info, &Part::default())
    }

    /// Writes the file with what is known by now: streams learn CPUs and the names of marks on the way. It holds
    /// `part` of its source.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn finish_as(mut self, info: &TraceInfo, part: &Part) -> io::Result<()> {
        let header = self.spool.header();
        header.formats = Encoder::new(info).formats().to_vec();
        header.cmdlines = self.encoder.comms().iter().map(|(pid, comm)| (*pid, *comm)).collect();
        header.companion = Some(companion(info));
        header.cpus = info.cpus.iter().last().map_or(0, |cpu| u32::from(cpu.0) + 1);
        part.tell(header);
        self.spool.finish()
    }
}

fn companion(info: &TraceInfo) -> Companion {
    Companion {
        topology: info.topology.clone(),
        affinity: info.affinity.clone(),
        groups: info.groups.clone(),
        conditions: info.conditions.clone(),
        processes: info.processes.clone(),
        marks: info.marks.clone(),
        span: info.span,
        ..Companion::default()
    }
}

fn head(info: &TraceInfo, version: Version, compression: Compression) -> Header {
    Header {
        version,
        compression,
        clock: match &info.clock {
            Clock::Monotonic => "mono".into(),
            // trace-cmd knows which clocks count nanoseconds by their names.
            Clock::Nanoseconds(name) if name == "unknown" => "local".into(),
            Clock::Nanoseconds(name) | Clock::Ticks(name) => name.clone(),
        },
        uname: info.kernel.clone(),
        companion: Some(companion(info)),
        ..Header::default()
    }
}
