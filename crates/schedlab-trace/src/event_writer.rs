//! Events, spelt as records of a trace.dat.

use crate::dat::{
    ByteLanes, Companion, Compression, Header, Version, Writer, check_body, longest_body,
};
use crate::encode::{BYTES, Encoder, Entry};
use crate::new_file::NewFile;
use crate::order::Order;
use crate::selection::Part;
use schedlab_model::{Clock, Context, Cpu, Event, Nanos, TraceInfo, What};
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// Writes a trace.dat from events: of a simulator, or of a format without records.
///
/// Events come in ascending order of time. Equal times keep the order in which they come, also across
/// CPUs: where a reader would turn two of them around, the later one is written a nanosecond later.
pub struct EventWriter {
    path: PathBuf,
    /// Nobody looks for the file yet.
    hidden: bool,
    header: Header,
    encoder: Encoder,
    /// The entries of each CPU; texts follow theirs.
    lanes: ByteLanes,
    /// The time of each CPU's last record.
    last: Vec<Nanos>,
    /// Bytes of all records.
    bytes: u64,
    order: Order,
    /// Whether it is not known of some events if an interrupt logged them.
    no_contexts: bool,
    info: TraceInfo,
}

impl EventWriter {
    /// Begins a trace.dat at `path`, which appears there when it is finished, and then whole
    /// ([`crate::NewFile`]).
    ///
    /// # Errors
    /// When the folder of `path` cannot be written.
    pub fn create(path: &Path, info: &TraceInfo) -> io::Result<Self> {
        let writer = Self::create_as(path, info, Version::V6, Compression::None)?;
        Ok(Self { hidden: false, ..writer })
    }

    /// Writes a whole trace.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_all(path: &Path, info: &TraceInfo, events: &[Event]) -> io::Result<()> {
        let mut writer = Self::create(path, info)?;
        writer.events(events)?;
        writer.finish()
    }

    /// As [`Self::create`], in a chosen spelling and straight at `path`: for a file that nobody looks for before it is
    /// whole.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_as(
        path: &Path,
        info: &TraceInfo,
        version: Version,
        compression: Compression,
    ) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            hidden: true,
            header: head(info, version, compression),
            encoder: Encoder::new(info),
            lanes: ByteLanes::create(path)?,
            last: Vec::new(),
            bytes: 0,
            order: Order::default(),
            info: info.clone(),
            no_contexts: false,
        })
    }

    /// Writes an event. A task's first name goes into the head of the file.
    ///
    /// # Errors
    /// I/O.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.event_with(event, "").map(drop)
    }

    /// Writes events. `arguments` has an entry for each event of another tracepoint than the scheduler's, in the same
    /// order; where entries are missing at the end, these events have no arguments.
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
    #[inline]
    pub(crate) fn event_with(&mut self, event: &Event, arguments: &str) -> io::Result<bool> {
        if let What::Lost { count } = event.what {
            let lost = Entry::Lost(count.map_or(0, NonZeroU32::get));
            self.put(event.cpu, lost, &[])?;
            return Ok(false);
        }
        self.no_contexts |= event.context == Context::Unknown;
        let Some(packed) = self.encoder.pack(event, arguments) else { return Ok(false) };
        if !packed.is_short() {
            let room = longest_body(self.header.encoding, self.header.page_size as usize);
            check_body(packed.length(), room)?;
        }
        self.bytes += packed.length() as u64 + 4;
        let time = self.order.time(event);
        let delta = self.delta(event.cpu, time)?;
        let text = &arguments.as_bytes()[..packed.text()];
        self.put(event.cpu, Entry::Record(delta, packed), text)?;
        Ok(true)
    }

    /// The nanoseconds since the last record of a CPU.
    #[inline]
    fn delta(&mut self, cpu: Cpu, time: Nanos) -> io::Result<u32> {
        if cpu.index() >= self.last.len() {
            self.last.resize(cpu.index() + 1, Nanos(0));
        }
        let last = std::mem::replace(&mut self.last[cpu.index()], time);
        match u32::try_from(time.0.wrapping_sub(last.0)) {
            Ok(delta) => Ok(delta),
            Err(_) => self.put(cpu, Entry::Time(time), &[]).map(|()| 0),
        }
    }

    #[inline(always)]
    fn put(&mut self, cpu: Cpu, entry: Entry, text: &[u8]) -> io::Result<()> {
        self.lanes.append(cpu, |lane| {
            lane.extend_from_slice(&entry.to_bytes());
            if !text.is_empty() {
                lane.extend_from_slice(text);
            }
        })
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
        self.order.warning()
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
        let header = &mut self.header;
        header.formats = Encoder::new(info).formats().to_vec();
        header.cmdlines = self.encoder.comms().iter().map(|(pid, comm)| (*pid, *comm)).collect();
        let no_contexts = self.no_contexts;
        header.companion = Some(Companion { no_contexts, ..companion(info) });
        let known = info.cpus.iter().last().map_or(0, |cpu| u32::from(cpu.0) + 1);
        header.cpus = known.max(self.lanes.cpus() as u32);
        part.tell(header);
        self.write()
    }

    /// Writes what has come.
    fn write(self) -> io::Result<()> {
        if self.hidden {
            let path = self.path.clone();
            return self.write_to(&path);
        }
        let file = NewFile::create(&self.path)?;
        self.write_to(file.path())?;
        file.keep()
    }

    /// Writes it CPU by CPU.
    fn write_to(mut self, path: &Path) -> io::Result<()> {
        let mut writer = Writer::create(path, &self.header)?;
        if self.header.compression == Compression::None {
            // A page has 4,080 bytes, and room for up to one record is left over.
            writer.reserve(self.bytes + self.bytes / 64);
        }
        for cpu in self.lanes.with_bytes() {
            let mut out = writer.cpu(cpu)?;
            let mut time = Nanos(0);
            self.lanes.read(cpu, |mut run| {
                while let Some((entry, rest)) = run.split_first_chunk::<BYTES>() {
                    run = rest;
                    match Entry::from_bytes(entry) {
                        Entry::Record(delta, packed) => {
                            time = Nanos(time.0 + u64::from(delta));
                            let place = match packed.is_short() {
                                true => out.short(time, packed.length()),
                                false => None,
                            };
                            if let Some(body) = place {
                                self.encoder.write(packed, body);
                            } else {
                                let (text, rest) = run.split_at(packed.text());
                                run = rest;
                                out.record(time, self.encoder.body_of(packed, text))?;
                            }
                        }
                        Entry::Lost(count) => out.lost(NonZeroU32::new(count))?,
                        Entry::Time(whole) => time = whole,
                    }
                }
                Ok(())
            })?;
            out.finish()?;
        }
        writer.close()
    }
}

fn companion(info: &TraceInfo) -> Companion {
    Companion {
        topology: info.topology.clone(),
        affinity: info.affinity.clone(),
        groups: info.groups.clone(),
        conditions: info.conditions.clone(),
        processes: info.processes.clone(),
        counters: info.counters.clone(),
        only: info.only.clone(),
        marks: info.marks.clone(),
        span: info.span,
        at_start: info.at_start.clone(),
        trigger: info.trigger,
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
            // Times of the clock `uptime` became nanoseconds when they were read.
            Clock::Nanoseconds(name) if matches!(name.as_str(), "unknown" | "uptime") => {
                "local".into()
            }
            Clock::Nanoseconds(name) | Clock::Ticks(name) => name.clone(),
        },
        uname: info.kernel.clone(),
        companion: Some(companion(info)),
        ..Header::default()
    }
}
