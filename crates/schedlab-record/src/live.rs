//! Events while they happen: the rings are read in turn and decoded, for answers window by window.
//!
//! Ftrace's pages are read, not spliced: a read gives what a page holds so far. A window can close once each CPU's ring,
//! a quiet one's too, was read empty after the window's end ([`Live::take`]). No CPU is waited for by its next event.
//!
//! What was read can be kept as it is, byte for byte: on disk as a spool ([`Start::keep`]), or the last moments in memory
//! ([`Live::save`]).

mod known_tasks;

use self::known_tasks::KnownTasks;
use super::counters::Grown;
use super::error::{RecordError, tracefs_right, tracefs_write_right};
use super::ftrace::{Instance, read_pages};
use super::queued::Queued;
use super::recorder::{begin, create, head};
use super::rings::{Rings, out_of_use};
use super::sample::{self, Sample, SampleLayout};
use super::shared::be_prompt;
use super::spool::{self, Head, Source, Tail};
use super::watch::records;
use super::{Filter, Options, Via};
use schedlab_model::{
    Context, Cpu, CpuSet, Event, Nanos, OtherFormat, Pid, TraceInfo, Trigger, Warning, What,
};
use schedlab_sys::perf::{Ring, record};
use schedlab_sys::{clock, process, topology, tracefs::Tracefs};
use schedlab_trace::live::{LiveArguments, LiveDecoder};
use schedlab_trace::symbols::Symbols;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

/// The event that ends a period of a group's CPU quota, and its function.
const PERIOD: (&str, &str) = ("hrtimer_expire_entry", "sched_cfs_period_timer");
/// Pages that are read at once.
const PAGES_AT_ONCE: usize = 64;
/// The rings are read no more often.
const BETWEEN_READS: Nanos = Nanos::from_millis(10);
/// Events up to this long before a look are all in their rings: one takes its time a little before it takes its place.
const SETTLED: Nanos = Nanos::from_millis(1);

/// How to begin.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Through which interface.
    pub via: Via,
    /// Bytes of each CPU's ring; 0 for the recorder's default.
    pub ring_bytes: u64,
    /// A new folder for all that is read, as [`super::stitch`] wants it.
    pub keep: Option<PathBuf>,
    /// How much of the last is kept in memory, for [`Live::save`].
    pub recent: Nanos,
}

/// Events of a window, in order of time.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Those before the window's end.
    pub events: Vec<Event>,
    /// Arguments of events beyond the scheduler's, by the place of the event.
    pub told: Vec<(usize, String)>,
    /// Events that came after their window had closed: they are in this one.
    pub late: u64,
    /// CPUs that came into use: whether they are read from now on.
    pub news: Vec<String>,
}

impl Taken {
    /// The arguments of the event at a place.
    #[must_use]
    pub fn arguments(&self, place: usize) -> Option<&str> {
        let at = self.told.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        Some(&self.told[at].1)
    }
}

/// A stream of events.
pub struct Live {
    // Dropped first: an instance whose pages are open cannot be removed.
    lanes: Vec<Lane>,
    rings: Interface,
    /// CPUs that came into use and cannot be read.
    refused: CpuSet,
    /// CPUs that are out of use.
    gone: CpuSet,
    /// CPUs that went out of use since the last look, and whose perf events ended with that.
    ended: CpuSet,
    /// CPUs of which events are missing, since they were out of use.
    missed: CpuSet,
    decoder: LiveDecoder,
    arguments: LiveArguments,
    /// The number of the event whose arguments are wanted.
    period: Option<u16>,
    known_tasks: KnownTasks,
    info: TraceInfo,
    head: Head,
    keep: Option<PathBuf>,
    recent: Nanos,
    /// Up to when windows have closed.
    closed: Nanos,
    bytes: u64,
    has_news: bool,
    /// Bytes that are read of a ring at once.
    limit: usize,
}

/// Where the bytes come from.
enum Interface {
    Ftrace { instance: Box<Instance>, page: usize },
    Perf(Box<Rings>),
}

/// One CPU.
struct Lane {
    cpu: Cpu,
    from: From,
    opened: Nanos,
    /// Decoded, and of no closed window.
    pending: Vec<Event>,
    /// The arguments of pending events that have some, in order.
    told: VecDeque<String>,
    /// What was read last, and when.
    recent: VecDeque<(Nanos, Vec<u8>)>,
    keep: Option<File>,
}

enum From {
    Pages(File),
    Ring(Ring),
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("cpus", &self.lanes.len()).finish_non_exhaustive()
    }
}

impl Live {
    /// Starts the events of every online CPU.
    ///
    /// # Errors
    /// [`RecordError::Right`] says which right is missing; nothing is left behind then.
    pub fn start(start: &Start) -> Result<Self, RecordError> {
        if let Some(dir) = &start.keep {
            create(dir)?;
        }
        let result = match start.via {
            Via::Ftrace => Self::ftrace(start),
            Via::Perf => Self::perf(start),
            Via::Auto => Self::ftrace(start).or_else(|error| match error {
                RecordError::Right { .. } => Self::perf(start).map_err(|e| error.and(e)),
                _ => Err(error),
            }),
        };
        if let (Err(_), Some(dir)) = (&result, &start.keep) {
            let _ = std::fs::remove_dir_all(dir);
        }
        result
    }

    fn ftrace(start: &Start) -> Result<Self, RecordError> {
        let tracefs = Tracefs::open().map_err(|error| tracefs_right(&error))?;
        tracefs.writable().map_err(|error| tracefs_write_right(&error))?;
        let (options, head, timers) = described(start, &tracefs, Source::Ftrace)?;
        let instance = Instance::guarded(tracefs, &options, &head, None)?;
        let pages = instance.open_pages()?;
        let page = instance.page();
        let from = pages.into_iter().map(|(cpu, pages)| (cpu, From::Pages(pages))).collect();
        let rings = Interface::Ftrace { instance: Box::new(instance), page };
        let mut live = Self::with(start, rings, from, head, &timers)?;
        let queued = Queued::now();
        if let Interface::Ftrace { instance, .. } = &live.rings {
            instance.enable(true)?;
        }
        live.begins_with(&queued)?;
        Ok(live)
    }

    fn perf(start: &Start) -> Result<Self, RecordError> {
        let tracefs = Tracefs::open().map_err(|error| tracefs_right(&error))?;
        let (options, head, timers) = described(start, &tracefs, Source::Perf)?;
        process::raise_open_files();
        let (rings, drains, _) = Rings::open(&options, &head)?;
        let from = drains.into_iter().map(|(cpu, ring)| (cpu, From::Ring(ring))).collect();
        let rings = Interface::Perf(Box::new(rings));
        let mut live = Self::with(start, rings, from, head, &timers)?;
        let queued = Queued::now();
        if let Interface::Perf(rings) = &live.rings {
            rings.enable().map_err(RecordError::io("starting the events"))?;
        }
        live.begins_with(&queued)?;
        Ok(live)
    }

    /// Events are written now, and these tasks may have waited since before.
    fn begins_with(&mut self, queued: &Queued) -> Result<(), RecordError> {
        let at_start = queued.still();
        if let Some(dir) = &self.keep {
            let grown = Grown { at_start: at_start.clone(), ..Grown::default() };
            spool::write(&spool::counters(dir), &grown)?;
        }
        self.info.at_start = Some(at_start);
        Ok(())
    }

    fn with(
        start: &Start,
        rings: Interface,
        from: Vec<(Cpu, From)>,
        head: Head,
        timers: &[u8],
    ) -> Result<Self, RecordError> {
        be_prompt();
        let keep = start.keep.as_deref();
        if let Some(dir) = keep {
            begin(&Options::default(), dir, &head)?;
        }
        let formats = || head.tracepoints.iter().map(|t| (t.system.as_str(), t.format.as_str()));
        let decoder = LiveDecoder::new(formats());
        let arguments = LiveArguments::new(formats(), timers);
        let is_period = |other: &OtherFormat| other.name == PERIOD.0;
        let mut info = decoder.info();
        info.cpus = head.cpus.clone();
        info.topology.clone_from(&head.topology);
        info.kernel = Some(head.uname.clone());
        let lane = |(cpu, from)| Lane::new(cpu, from, keep);
        let mut live = Self {
            rings,
            refused: CpuSet::default(),
            gone: CpuSet::default(),
            ended: CpuSet::default(),
            missed: CpuSet::default(),
            period: info.others.iter().position(is_period).map(|place| place as u16),
            decoder,
            arguments,
            lanes: from.into_iter().map(lane).collect::<Result<_, RecordError>>()?,
            known_tasks: KnownTasks::start(keep)?,
            info,
            head,
            keep: start.keep.clone(),
            recent: start.recent,
            closed: Nanos::ZERO,
            bytes: 0,
            has_news: false,
            limit: 2 * start.ring_bytes.max(super::RING_BYTES) as usize,
        };
        live.known_tasks.describe(&mut live.info);
        Ok(live)
    }

    /// What is known beside the events. Groups, names and affinity are those of [`Self::take`]'s last window.
    #[must_use]
    pub const fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// Reads the rings while they fill, until `until`, or until one of `also` is readable: whether one is.
    ///
    /// # Errors
    /// When a ring cannot be read, or a kept page not be written.
    pub fn wait(&mut self, until: Nanos, also: &[BorrowedFd<'_>]) -> io::Result<bool> {
        loop {
            let now = clock::monotonic();
            if now >= until {
                return Ok(false);
            }
            let mut fds = also.to_vec();
            fds.extend(self.lanes.iter().map(|lane| match &lane.from {
                From::Pages(pages) => pages.as_fd(),
                From::Ring(ring) => ring.as_fd(),
            }));
            let ready = process::poll(&fds, Some(until - now))?;
            if ready[..also.len()].contains(&true) {
                return Ok(true);
            }
            if ready.iter().any(|ready| *ready) {
                self.read()?;
                // Old kernels say so of any page: not more often than this.
                if process::poll(also, Some(BETWEEN_READS.min(until - now)))?.contains(&true) {
                    return Ok(true);
                }
            }
        }
    }

    /// When a window that ends at `end` can be taken.
    #[must_use]
    pub fn settles(end: Nanos) -> Nanos {
        end + SETTLED
    }

    /// The events until `end`, which lies `SETTLED` in the past: each ring is read empty, so no more of them come.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn take(&mut self, end: Nanos) -> io::Result<Taken> {
        // What cannot be read tells nothing of CPUs.
        let online = topology::online(Path::new("/sys")).unwrap_or_else(|_| self.head.cpus.clone());
        let mut taken = Taken { news: self.meet_cpus(&online)?, ..Taken::default() };
        self.read()?;
        let closed = std::mem::replace(&mut self.closed, end);
        let mut told = Vec::new();
        for lane in &mut self.lanes {
            // A ring is in order of time but for what an interrupt pushed in between.
            if !lane.pending.is_sorted_by_key(|event| event.time) {
                lane.pending.sort_by_key(|event| event.time);
            }
            let ready = lane.pending.partition_point(|event| event.time < end);
            let events = &lane.pending[..ready];
            taken.late += events.partition_point(|event| event.time < closed) as u64;
            let with = |event: &&Event| is_other(event, self.period);
            let count = events.iter().filter(with).count();
            told.push((
                lane.cpu,
                lane.told.drain(..count.min(lane.told.len())).collect::<VecDeque<_>>(),
            ));
            taken.events.extend(lane.pending.drain(..ready));
        }
        // Equal times by CPU, as a file's reader has them.
        taken.events.sort_by_key(|event| event.time);
        self.miss_cpus(&online, &mut taken)?;
        if told.iter().any(|(_, texts)| !texts.is_empty()) {
            for (place, event) in taken.events.iter().enumerate() {
                if is_other(event, self.period)
                    && let Some((_, texts)) = told.iter_mut().find(|(cpu, _)| *cpu == event.cpu)
                    && let Some(text) = texts.pop_front()
                {
                    taken.told.push((place, text));
                }
            }
        }
        self.known_tasks.window(end, self.recent)?;
        self.has_news = self.known_tasks.describe(&mut self.info) | !taken.news.is_empty();
        Ok(taken)
    }

    /// Reads CPUs that came into use from now on; what to say of them.
    fn meet_cpus(&mut self, online: &CpuSet) -> io::Result<Vec<String>> {
        let mut news = Vec::new();
        for cpu in online.iter() {
            if self.refused.contains(cpu) {
                continue;
            }
            let place = self.lanes.iter().position(|lane| lane.cpu == cpu);
            let is_back = self.gone.contains(cpu);
            let has_ended = self.ended.contains(cpu);
            self.gone.remove(cpu);
            self.ended.remove(cpu);
            let is_perf = matches!(self.rings, Interface::Perf(_));
            match place {
                Some(_) if !is_back && !has_ended => continue,
                // The instance has its events all along.
                Some(_) if !is_perf => {
                    news.push(format!("CPU {cpu} came back into use"));
                    continue;
                }
                // What is left in the ring from before.
                Some(_) => self.read()?,
                None => {}
            }
            let opened = self.open_more(cpu);
            if let Some(place) = place {
                // A task that was woken there meanwhile may have run.
                self.lose(place, clock::monotonic())?;
            }
            match opened {
                Ok(()) => news.push(format!("CPU {cpu} came into use and is read too")),
                Err(error) => {
                    self.refused.insert(cpu);
                    news.push(format!("CPU {cpu} came into use and is not read: {error}"));
                }
            }
        }
        if let (Some(dir), false) = (&self.keep, news.is_empty()) {
            spool::replace(&spool::head(dir), &self.head).map_err(io::Error::other)?;
        }
        Ok(news)
    }

    /// Notes CPUs that went out of use, and says so.
    fn miss_cpus(&mut self, online: &CpuSet, taken: &mut Taken) -> io::Result<()> {
        let is_perf = matches!(self.rings, Interface::Perf(_));
        let mut ended = CpuSet::default();
        for event in taken.events.iter().filter(|_| is_perf) {
            let What::Online { cpu, online: false } = event.what else { continue };
            if self.lanes.iter().any(|lane| lane.cpu == cpu && lane.opened < event.time) {
                ended.insert(cpu);
            }
        }
        for place in 0..self.lanes.len() {
            let cpu = self.lanes[place].cpu;
            if online.contains(cpu) || self.gone.contains(cpu) {
                continue;
            }
            ended.remove(cpu);
            self.gone.insert(cpu);
            taken.news.push(format!("CPU {cpu} went out of use"));
            if is_perf {
                let last = self.lanes[place].pending.last();
                self.lose(place, last.map_or(self.closed, |event| event.time))?;
            }
        }
        // It may have come back between two looks, or still be on its way out.
        ended.iter().filter(|cpu| !self.gone.contains(*cpu)).for_each(|cpu| self.ended.insert(cpu));
        Ok(())
    }

    /// Events of a CPU are missing up to `time`: its perf events end before it has done its last.
    fn lose(&mut self, place: usize, time: Nanos) -> io::Result<()> {
        let bytes = sample::lost();
        let lane = &mut self.lanes[place];
        let now = clock::monotonic();
        self.missed.insert(lane.cpu);
        lane.pending.push(lost(time, lane.cpu, None));
        lane.keep.iter_mut().try_for_each(|keep| keep.write_all(&bytes))?;
        if self.recent > Nanos::ZERO {
            lane.recent.push_back((now, bytes));
        }
        Ok(())
    }

    fn open_more(&mut self, cpu: Cpu) -> Result<(), RecordError> {
        let from = match &mut self.rings {
            Interface::Ftrace { instance, .. } => From::Pages(instance.open_more(cpu)?),
            Interface::Perf(rings) => From::Ring(rings.open_more(cpu)?),
        };
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.cpu == cpu) {
            (lane.from, lane.opened) = (from, clock::monotonic());
            return Ok(());
        }
        let lane = Lane::new(cpu, from, self.keep.as_deref())?;
        let place = self.lanes.partition_point(|lane| lane.cpu < cpu);
        self.lanes.insert(place, lane);
        self.head.cpus.insert(cpu);
        self.info.cpus.insert(cpu);
        Ok(())
    }

    /// Whether [`Self::info`] changed with the last [`Self::take`].
    #[must_use]
    pub const fn has_news(&self) -> bool {
        self.has_news
    }

    /// Reads all rings until they are empty.
    fn read(&mut self) -> io::Result<()> {
        let now = clock::monotonic();
        for index in 0..self.lanes.len() {
            let before = self.lanes[index].pending.len();
            let bytes = match &self.rings {
                Interface::Ftrace { page, .. } => self.read_pages(index, *page)?,
                Interface::Perf(_) => self.read_ring(index)?,
            };
            let lane = &mut self.lanes[index];
            self.known_tasks.see(&lane.pending[before..])?;
            if bytes.is_empty() {
                continue;
            }
            self.bytes += bytes.len() as u64;
            if let Some(keep) = &mut lane.keep {
                keep.write_all(&bytes)?;
            }
            if self.recent > Nanos::ZERO {
                lane.recent.push_back((now, bytes));
                let is_old = |(at, _): &mut (Nanos, Vec<u8>)| *at + self.recent < now;
                while lane.recent.pop_front_if(is_old).is_some() {}
            }
        }
        Ok(())
    }

    fn read_pages(&mut self, index: usize, page: usize) -> io::Result<Vec<u8>> {
        let lane = &mut self.lanes[index];
        let From::Pages(from) = &mut lane.from else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        // A ring that fills as fast as it is read is left for the next time.
        let limit = self.limit;
        loop {
            let at = all.len();
            all.resize(at + page * PAGES_AT_ONCE, 0);
            let pages = read_pages(from, &mut all[at..], page)?;
            all.truncate(at + pages * page);
            if pages < PAGES_AT_ONCE || all.len() > limit {
                break;
            }
        }
        let Lane { cpu, pending, told, .. } = lane;
        let arguments = &self.arguments;
        let period = self.period;
        for one in all.chunks_exact(page) {
            let mut other = |format, body: &[u8]| {
                if Some(format) == period {
                    told.push_back(arguments.text(body));
                }
            };
            if self.decoder.page(one, *cpu, pending, &mut other).is_err() {
                let time = pending.last().map_or(self.closed, |event| event.time);
                pending.push(lost(time, *cpu, None));
            }
        }
        Ok(all)
    }

    fn read_ring(&mut self, index: usize) -> io::Result<Vec<u8>> {
        let lane = &mut self.lanes[index];
        let From::Ring(ring) = &mut lane.from else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        ring.drain(&mut |piece| {
            all.extend_from_slice(piece);
            Ok(())
        })?;
        for (kind, body) in records(&all) {
            match kind {
                record::SAMPLE => {
                    let Some(sample) = Sample::parse(body, SampleLayout::default()) else {
                        continue;
                    };
                    let before = lane.pending.len();
                    self.decoder.decode(sample.time, lane.cpu, sample.raw, &mut lane.pending);
                    let mut new = lane.pending[before..].iter();
                    if new.any(|event| is_other(event, self.period)) {
                        lane.told.push_back(self.arguments.text(sample.raw));
                    }
                }
                record::LOST => {
                    let count = body.get(8..).and_then(|rest| rest.first_chunk());
                    let count = count.map_or(0, |count| u64::from_ne_bytes(*count));
                    let time = lane.pending.last().map_or(self.closed, |event| event.time);
                    let count = NonZeroU32::new(u32::try_from(count).unwrap_or(u32::MAX));
                    lane.pending.push(lost(time, lane.cpu, count));
                }
                _ => {}
            }
        }
        Ok(all)
    }

    /// Writes what is in memory of the last moments as a spool into the new folder `dir`, for [`super::stitch`].
    ///
    /// # Errors
    /// When the folder is there already, or cannot be written: nothing of it is left then.
    pub fn save(&self, dir: &Path, trigger: Option<Trigger>) -> Result<(), RecordError> {
        create(dir)?;
        let saved = self.save_into(dir, trigger);
        if saved.is_err() {
            let _ = std::fs::remove_dir_all(dir);
        }
        saved
    }

    fn save_into(&self, dir: &Path, trigger: Option<Trigger>) -> Result<(), RecordError> {
        let head = Head { is_snapshot: true, ..self.head.clone() };
        begin(&Options::default(), dir, &head)?;
        for lane in &self.lanes {
            let path = spool::records(dir, lane.cpu);
            let mut file = spool::create(&path)?;
            let mut write = |(_, bytes): &(Nanos, Vec<u8>)| file.write_all(bytes);
            lane.recent.iter().try_for_each(&mut write).map_err(RecordError::file(&path))?;
        }
        self.known_tasks.save(&spool::tasks(dir))?;
        let doubts = vec![Warning::new(
            "only-the-end",
            "CPUs begin at different times: only the last events of each CPU were kept",
            "",
        )];
        let tail = Tail { stopped: clock::monotonic(), doubts, trigger, ..Tail::default() };
        spool::write(&spool::tail(dir), &tail)
    }

    /// Stops the events. The folder of [`Start::keep`] is complete then.
    ///
    /// # Errors
    /// When a file of it cannot be written.
    pub fn stop(mut self) -> Result<Vec<Warning>, RecordError> {
        match &self.rings {
            Interface::Ftrace { instance, .. } => instance.enable(false)?,
            Interface::Perf(rings) => rings.disable(),
        }
        let stopped = clock::monotonic();
        self.read().map_err(RecordError::io("reading the rings"))?;
        self.known_tasks.finish()?;
        // An instance whose pages are open cannot be removed.
        self.lanes.clear();
        let (lost, warnings) = match self.rings {
            Interface::Ftrace { instance, .. } => (instance.lost(false), instance.finish()),
            Interface::Perf(rings) => (rings.lost(), Vec::new()),
        };
        if let Some(dir) = &self.keep {
            let doubts = out_of_use(&self.missed).into_iter().collect();
            let tail = Tail { stopped, lost, doubts, ..Tail::default() };
            spool::write(&spool::tail(dir), &tail)?;
        }
        Ok(warnings)
    }
}

impl Lane {
    fn new(cpu: Cpu, from: From, keep: Option<&Path>) -> Result<Self, RecordError> {
        let keep = keep.map(|dir| spool::create(&spool::records(dir, cpu))).transpose()?;
        let pending = Vec::new();
        let told = VecDeque::new();
        let recent = VecDeque::new();
        let opened = clock::monotonic();
        Ok(Self { cpu, from, opened, pending, told, recent, keep })
    }
}

fn is_other(event: &Event, wanted: Option<u16>) -> bool {
    matches!(event.what, What::Other { format } if Some(format) == wanted)
}

fn lost(time: Nanos, cpu: Cpu, count: Option<NonZeroU32>) -> Event {
    let by = Pid::IDLE;
    let context = Context::Task;
    Event { time, by, cpu, context, what: What::Lost { count } }
}

/// What is recorded: the scheduler's events, and the ends of periods of CPU quotas; and the kernel's symbol of these. No
/// filter by task: waits would look endless.
fn described(
    start: &Start,
    tracefs: &Tracefs,
    source: Source,
) -> Result<(Options, Head, Vec<u8>), RecordError> {
    let mut options = Options {
        events: vec![format!("timer:{}?", PERIOD.0)],
        ring_bytes: start.ring_bytes,
        ..Options::default()
    };
    let head = head(&options, tracefs, source)?;
    let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let line = kallsyms.lines().find(|line| line.split_ascii_whitespace().nth(2) == Some(PERIOD.1));
    let line = line.unwrap_or_default().as_bytes().to_vec();
    let address = Symbols::parse(&line).address(PERIOD.1).filter(|at| *at != 0);
    if let (Some(address), true) = (address, head.tracepoints.iter().any(|p| p.name == PERIOD.0)) {
        let event = PERIOD.0.to_owned();
        let expression = format!("function == {address:#x}");
        options.filters.push(Filter { event, expression });
    }
    Ok((options, head, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Closes windows until one has events of this CPU.
    fn until_seen(live: &mut Live, cpu: Cpu) -> Taken {
        for _ in 0..600 {
            let end = clock::monotonic() + Nanos::from_millis(20);
            live.wait(Live::settles(end), &[]).unwrap();
            let taken = live.take(end).unwrap();
            if taken.events.iter().any(|event| event.cpu == cpu) {
                return taken;
            }
        }
        panic!("no event of CPU {cpu} in 12 s");
    }

    #[test]
    fn a_cpu_that_was_out_of_use_is_read_again_and_what_perf_events_miss_is_a_loss() {
        for via in [Via::Ftrace, Via::Perf] {
            let mut live = match Live::start(&Start { via, ..Start::default() }) {
                Ok(live) if live.lanes.len() > 1 => live,
                Ok(_) => return drop(writeln!(io::stderr(), "MISSING: a second CPU")),
                Err(error) => return drop(writeln!(io::stderr(), "MISSING: {error}")),
            };
            let cpu = live.lanes[1].cpu;
            let lost = |taken: &Taken| {
                let is_lost = |event: &&Event| matches!(event.what, What::Lost { .. });
                taken.events.iter().filter(|event| event.cpu == cpu).filter(is_lost).count()
            };
            let is_perf = usize::from(via == Via::Perf);
            let mut others = live.head.cpus.clone();
            others.remove(cpu);
            let mut taken = Taken::default();
            live.miss_cpus(&others, &mut taken).unwrap();
            live.miss_cpus(&others, &mut taken).unwrap();
            assert_eq!(taken.news, [format!("CPU {cpu} went out of use")]);
            let back = live.take(clock::monotonic()).unwrap();
            assert_eq!((back.news.len(), lost(&back)), (1, is_perf), "{:?}", back.news);
            // A loss at the return, too.
            assert_eq!(lost(&until_seen(&mut live, cpu)), is_perf);
            // Out of use and back between two looks: the events tell.
            let what = What::Online { cpu, online: false };
            let (time, by, context) = (clock::monotonic(), Pid::IDLE, Context::Task);
            let event = Event { time, by, cpu: live.lanes[0].cpu, context, what };
            let mut taken = Taken { events: vec![event], ..Taken::default() };
            live.miss_cpus(&live.head.cpus.clone(), &mut taken).unwrap();
            let back = live.take(clock::monotonic()).unwrap();
            assert_eq!(back.news.len(), is_perf, "{:?}", back.news);
            let again = until_seen(&mut live, cpu);
            assert_eq!((again.news.len(), lost(&again)), (0, is_perf), "{:?}", again.news);
            live.stop().unwrap();
        }
    }

    #[test]
    fn a_cpu_that_comes_into_use_is_read_and_kept_from_then_on() {
        for via in [Via::Ftrace, Via::Perf] {
            let dir = tempfile::tempdir().unwrap();
            let keep = dir.path().join("x.spool");
            let start = Start { via, keep: Some(keep.clone()), ..Start::default() };
            let mut live = match Live::start(&start) {
                Ok(live) if live.lanes.len() > 1 => live,
                Ok(_) => return drop(writeln!(io::stderr(), "MISSING: a second CPU")),
                Err(error) => return drop(writeln!(io::stderr(), "MISSING: {error}")),
            };
            // As if the last CPU had been out of use.
            let cpu = live.lanes.pop().unwrap().cpu;
            live.head.cpus.remove(cpu);
            live.info.cpus.remove(cpu);
            std::fs::remove_file(spool::records(&keep, cpu)).unwrap();
            spool::write(&spool::head(&keep), &live.head).unwrap();
            let end = clock::monotonic();
            let taken = live.take(end).unwrap();
            assert_eq!(taken.news.len(), 1, "{:?}", taken.news);
            assert!(taken.news[0].contains("is read too"), "{:?}", taken.news);
            assert!(live.has_news() && live.info().cpus.contains(cpu));
            let again = until_seen(&mut live, cpu);
            assert!(again.news.is_empty() && again.events.is_sorted_by_key(|event| event.time));
            live.stop().unwrap();
            let head: Head = spool::read(&spool::head(&keep)).unwrap();
            assert!(head.cpus.contains(cpu));
            assert!(std::fs::metadata(spool::records(&keep, cpu)).unwrap().len() > 0);
        }
    }
}
