//! Perf events: one ring for each CPU, and the threads that empty them.

use super::error::{libc_errno, perf_right, tracefs_right};
use super::hits::Hits;
use super::options::Meaning as _;
use super::requests::Requests;
use super::sample;
use super::shared::{Ended, Shared, be_prompt, spawn};
use super::snapshot;
use super::spool::{self, Head};
use super::stacks::FIRES;
use super::tracepoints::Tracepoint;
use super::{Options, RecordError};
use schedlab_model::{Cpu, CpuSet, Nanos, Warning};
use schedlab_sys::perf::{Event, OverwriteRing, Ring, Source, UserStack, record};
use schedlab_sys::tracefs::Tracefs;
use schedlab_sys::{clock, process};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// All events of all CPUs.
#[derive(Debug)]
pub(crate) struct Rings {
    options: Options,
    head: Head,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    events: Vec<(Cpu, Event)>,
    /// Rings that nobody empties: the kernel writes over the oldest records.
    overwritten: Vec<(Cpu, OverwriteRing)>,
    is_on: bool,
    /// CPUs of which events are missing, since they were out of use.
    missed: CpuSet,
}

/// The rings to be emptied, and those of the watcher.
type Opened = (Rings, Vec<(Cpu, Ring)>, Vec<(Cpu, Ring)>);

/// CPUs whose rings one thread empties.
const CPUS_PER_THREAD: usize = 16;
/// A thread looks at its rings at least this often, so that little is lost by a `kill -9`.
const LOOK: Nanos = Nanos::from_millis(250);
/// The warning of CPUs that were out of use.
pub(crate) const OUT_OF_USE: &str = "cpu-out-of-use";
/// Bytes of the watcher's ring: 200 new tasks a CPU between two looks.
const WATCH_BYTES: usize = 16 << 10;

impl Rings {
    pub(crate) fn open(options: &Options, head: &Head) -> Result<Opened, RecordError> {
        let mut state = State::default();
        let mut drained = Vec::new();
        let mut watched = Vec::new();
        let bytes = options.ring(head.cpus.len());
        for cpu in head.cpus.iter() {
            let points = &head.tracepoints;
            let opened = if options.overwrites() {
                state.open_cpu(cpu, points, options, bytes, OverwriteRing::map).map(
                    |(ring, watch)| {
                        state.overwritten.push((cpu, ring));
                        watch
                    },
                )
            } else {
                state.open_cpu(cpu, points, options, bytes, Ring::map).map(|(ring, watch)| {
                    drained.push((cpu, ring));
                    watch
                })
            };
            match opened {
                Ok(watch) => watched.push((cpu, watch)),
                // A CPU that went offline since the list was read is not observed.
                Err(RecordError::Io { error, .. })
                    if error.raw_os_error() == Some(libc_errno::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        let options = options.clone();
        let head = head.clone();
        Ok((Self { options, head, state: Mutex::new(state) }, drained, watched))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens and starts the events of a CPU that came into use. Those from before its absence are dead.
    pub(crate) fn open_more(&self, cpu: Cpu) -> Result<Ring, RecordError> {
        self.state().open_more(cpu, &self.options, &self.head)
    }

    /// The ring of a CPU whose events have ended, once it is back in use; `None` also after [`Self::disable`].
    pub(crate) fn open_again(&self, cpu: Cpu) -> Option<Ring> {
        let mut state = self.state();
        if !state.is_on {
            return None;
        }
        state.missed.insert(cpu);
        state.open_more(cpu, &self.options, &self.head).ok()
    }

    /// What the trace says of CPUs that were out of use.
    pub(crate) fn out_of_use(&self) -> Option<Warning> {
        out_of_use(&self.state().missed)
    }

    /// Starts the threads that empty the rings; none for overwritten ones.
    pub(crate) fn threads(
        rings: &Arc<Self>,
        drained: Vec<(Cpu, Ring)>,
        dir: &Path,
        marks: Option<&Path>,
        shared: &Arc<Shared>,
    ) -> Result<Vec<JoinHandle<io::Result<()>>>, RecordError> {
        if drained.is_empty() {
            return Ok(Vec::new());
        }
        let Self { options, head, .. } = &**rings;
        if let Some(snapshot) = options.snapshot {
            let all = Arc::clone(rings);
            let shared = Arc::clone(shared);
            let name = options.between.as_deref();
            let requests = name.map(|name| Requests::new(marks, dir, name, snapshot.bound));
            let watched = options.watch.clone();
            let points = &head.tracepoints;
            // Only those of the request that is timed: their numbers are all alike then.
            let timed = head.requests.iter().filter(|it| Some(it.name.as_str()) == name);
            let timed: Vec<_> = timed.cloned().collect();
            let nests = timed.iter().any(|it| it.nests);
            let requests = requests.map(|requests| requests.nesting(nests));
            let hits = Hits::new(&timed, points);
            let watch = snapshot::Watch::new(
                snapshot,
                points,
                head.samples(),
                drained,
                dir,
                requests,
                hits,
                watched,
            )?;
            let body = move || watch.run(&shared, || all.disable(), |cpu| all.open_again(cpu));
            return Ok(vec![spawn("snapshot", body)?]);
        }
        let mut threads = Vec::new();
        let mut drained = drained.into_iter().peekable();
        while drained.peek().is_some() {
            let mut mine = Vec::new();
            for (cpu, ring) in drained.by_ref().take(CPUS_PER_THREAD) {
                mine.push(Lane { cpu, ring, file: spool::create(&spool::records(dir, cpu))? });
            }
            let all = Arc::clone(rings);
            let shared = Arc::clone(shared);
            let limit = options.limit_bytes.unwrap_or(u64::MAX);
            threads.push(spawn("recorder", move || drain(mine, &all, &shared, limit))?);
        }
        Ok(threads)
    }

    pub(crate) fn enable(&self) -> io::Result<()> {
        let mut state = self.state();
        state.is_on = true;
        state.events.iter().try_for_each(|(_, event)| event.enable())
    }

    pub(crate) fn disable(&self) {
        let mut state = self.state();
        let State { overwritten, missed, is_on, .. } = &mut *state;
        // Nobody empties these, so nobody opened them again. A first look only remembers the time.
        for (cpu, ring) in overwritten.iter_mut().filter(|_| *is_on) {
            if ring.has_ended() || ring.has_ended() {
                missed.insert(*cpu);
            }
        }
        state.is_on = false;
        for (_, event) in &state.events {
            // One whose CPU went offline is disabled already.
            let _ = event.disable();
        }
    }

    /// Records that did not fit into the rings, by CPU; a CPU is missing where nobody knows.
    pub(crate) fn lost(&self) -> BTreeMap<Cpu, u64> {
        let mut lost = BTreeMap::new();
        for (cpu, event) in &self.state().events {
            if let Some(count) = event.lost() {
                *lost.entry(*cpu).or_default() += count;
            }
        }
        lost
    }

    /// Spools the overwritten rings, oldest record first.
    pub(crate) fn save(&self, dir: &Path) -> Result<(), RecordError> {
        for (cpu, ring) in &self.state().overwritten {
            let bytes = ring.snapshot();
            let path = spool::records(dir, *cpu);
            let mut file = io::BufWriter::new(spool::create(&path)?);
            for record in newest_first(&bytes).into_iter().rev() {
                file.write_all(record).map_err(RecordError::file(&path))?;
            }
            file.flush().map_err(RecordError::file(&path))?;
        }
        Ok(())
    }
}

impl State {
    fn forget(&mut self, cpu: Cpu) {
        self.events.retain(|(other, _)| *other != cpu);
    }

    fn open_more(&mut self, cpu: Cpu, options: &Options, head: &Head) -> Result<Ring, RecordError> {
        self.forget(cpu);
        let first = self.events.len();
        let bytes = options.ring(head.cpus.len());
        let opened = self.open_cpu(cpu, &head.tracepoints, options, bytes, Ring::map);
        let opened = opened.and_then(|(mut ring, _)| {
            let mut events = self.events[first..].iter();
            let started = events.try_for_each(|(_, event)| event.enable());
            started.map_err(RecordError::io("starting the events"))?;
            ring.start();
            Ok(ring)
        });
        if opened.is_err() {
            self.events.truncate(first);
        }
        opened
    }

    /// Opens all events of a CPU into one ring that `map` maps, and the watcher's ring.
    fn open_cpu<R>(
        &mut self,
        cpu: Cpu,
        tracepoints: &[Tracepoint],
        options: &Options,
        bytes: usize,
        map: fn(&mut Event, usize) -> io::Result<R>,
    ) -> Result<(R, Ring), RecordError> {
        // A quarter: early enough that the rest lasts until a thread runs.
        let wakeup = u32::try_from(bytes / 4).unwrap_or(u32::MAX);
        let overwrite = options.overwrites();
        let mut ring = None;
        let first = self.events.len();
        for point in tracepoints.iter().filter(|point| !point.is_stack()) {
            let source = source(point, options);
            let mut event = open_event(source, cpu, wakeup, overwrite)?;
            if let Some(filter) = options.filter(point) {
                set_filter(&event, point, &filter)?;
            }
            match self.events.get(first) {
                // Only a ring that is mapped can be shared.
                None => {
                    let mapped = map(&mut event, bytes);
                    ring = Some(mapped.map_err(|error| map_error(error, bytes))?);
                }
                Some((_, leader)) => {
                    event.redirect(leader).map_err(RecordError::io("sharing a CPU's ring"))?;
                }
            }
            self.events.push((cpu, event));
        }
        let ring = ring.expect("sched_switch is always among the tracepoints");
        Ok((ring, watch_cpu(cpu)?))
    }
}

/// The warning of CPUs that were out of use; `None` without any.
pub(crate) fn out_of_use(missed: &CpuSet) -> Option<Warning> {
    (!missed.is_empty()).then(|| {
        let what = format!("CPU {missed} was out of use: events of it are missing");
        Warning::new(OUT_OF_USE, what, "")
    })
}

/// A tracepoint, in samples that are laid out alike for all tracepoints of a recording.
fn source(point: &Tracepoint, options: &Options) -> Source {
    let id = point.id.into();
    let has_stack = point.name == "sched_switch"
        || options.wakers && point.name == "sched_waking"
        || options.running && point.name == FIRES[1];
    match (options.user_stacks, options.stacks) {
        (Some(user), kernel) if has_stack => {
            Source::WithUserStack(id, UserStack { kernel, copy: user.copy_bytes })
        }
        (Some(_), _) => Source::BesideUserStack(id),
        (None, true) if has_stack => Source::WithStack(id),
        (None, true) => Source::WithoutStack(id),
        (None, false) => Source::Tracepoint(id),
    }
}

/// A small ring with the kernel's records of created, ended and renamed tasks of a CPU.
pub(crate) fn watch_cpu(cpu: Cpu) -> Result<Ring, RecordError> {
    let mut tasks = open_event(Source::Tasks, cpu, u32::MAX >> 1, false)?;
    let watch = Ring::map(&mut tasks, WATCH_BYTES);
    let mut watch = watch.map_err(|error| map_error(error, WATCH_BYTES))?;
    tasks.enable().map_err(RecordError::io("watching for new tasks"))?;
    watch.start();
    Ok(watch)
}

/// The watcher's rings alone; none where perf events are refused.
pub(crate) fn watch(head: &Head) -> Vec<(Cpu, Ring)> {
    let watched = |cpu| Ok::<_, RecordError>((cpu, watch_cpu(cpu)?));
    head.cpus.iter().map(watched).collect::<Result<_, _>>().unwrap_or_default()
}

/// Whether the tracepoint `id` can be observed, by opening it on one CPU.
pub(crate) fn try_event(id: u64, cpu: Cpu) -> Result<(), RecordError> {
    open_event(Source::Tracepoint(id), cpu, u32::MAX >> 1, false).map(drop)
}

/// Turns an event of tracefs on and off on every CPU, as a recording would.
pub(crate) fn switch<'a>(
    tracefs: &'a Tracefs,
    head: &'a Head,
) -> impl FnMut(&str, &str, bool) -> Result<(), RecordError> + 'a {
    let mut open: Vec<(Event, OverwriteRing)> = Vec::new();
    move |system, name, on| {
        if !on {
            open.clear();
            return Ok(());
        }
        let (id, _) = tracefs.event(system, name).map_err(|error| tracefs_right(&error))?;
        for cpu in head.cpus.iter() {
            let mut event = open_event(Source::Tracepoint(id), cpu, u32::MAX >> 1, true)?;
            let ring = OverwriteRing::map(&mut event, WATCH_BYTES);
            let ring = ring.map_err(|error| map_error(error, WATCH_BYTES))?;
            event.enable().map_err(RecordError::io("measuring a probe"))?;
            open.push((event, ring));
        }
        Ok(())
    }
}

/// The whole records of a ring that is written backwards. The oldest one is half overwritten, and
/// what lies in unused space is zero: both end the walk.
fn newest_first(bytes: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    let mut rest = bytes;
    while let Some(header) = rest.first_chunk::<{ record::HEADER }>() {
        let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        if size < record::HEADER || size > rest.len() {
            break;
        }
        let (one, older) = rest.split_at(size);
        records.push(one);
        rest = older;
    }
    records
}

fn open_event(source: Source, cpu: Cpu, wakeup: u32, back: bool) -> Result<Event, RecordError> {
    Event::open(source, cpu, wakeup, back).map_err(|error| match error.raw_os_error() {
        Some(libc_errno::EPERM | libc_errno::EACCES | libc_errno::ENOSYS) => perf_right(&error),
        Some(libc_errno::EMFILE) => RecordError::Right {
            missing: "too few open files are allowed for an event of each kind on each CPU".into(),
            remedy: "raise the limit: `ulimit -n 65536`".into(),
        },
        _ => RecordError::Io { doing: format!("opening an event on CPU {cpu}"), error },
    })
}

fn set_filter(event: &Event, point: &Tracepoint, filter: &str) -> Result<(), RecordError> {
    let wrong = |why: String| RecordError::Filter {
        event: point.name.clone(),
        expression: filter.into(),
        why,
    };
    let text = CString::new(filter).map_err(|error| wrong(error.to_string()))?;
    event.filter(&text).map_err(|error| {
        let fields = point.names().collect::<Vec<_>>().join(", ");
        wrong(format!("{error}; its fields are {fields}"))
    })
}

fn map_error(error: io::Error, bytes: usize) -> RecordError {
    match error.raw_os_error() {
        Some(libc_errno::EPERM) => RecordError::Right {
            missing: format!("a ring of {bytes} bytes for each CPU exceeds the locked memory"),
            remedy: "raise kernel.perf_event_mlock_kb or `ulimit -l`, or ask for smaller rings"
                .into(),
        },
        _ => RecordError::Io { doing: format!("mapping a ring of {bytes} bytes"), error },
    }
}

/// A ring that is emptied into a file.
struct Lane {
    cpu: Cpu,
    ring: Ring,
    file: File,
}

impl Lane {
    fn drain(&mut self) -> io::Result<u64> {
        let Self { ring, file, .. } = self;
        Ok(ring.drain(&mut |piece| file.write_all(piece))? as u64)
    }
}

/// Empties rings into their files until told to stop, then once more; ends the recording at `limit`
/// bytes.
fn drain(mut lanes: Vec<Lane>, all: &Rings, shared: &Shared, limit: u64) -> io::Result<()> {
    be_prompt();
    let mut asked = clock::monotonic();
    loop {
        let last = shared.stop.load(Ordering::Acquire);
        let now = clock::monotonic();
        let asks = now >= asked + sample::BETWEEN_ASKING;
        if asks {
            asked = now;
        }
        for lane in &mut lanes {
            // Nothing is written into a ring once its event has ended.
            let has_ended = asks && lane.ring.has_ended();
            let drained = lane.drain()?;
            let before = shared.bytes.fetch_add(drained, Ordering::Relaxed);
            if before + drained >= limit && shared.ended.set(Ended::Full).is_ok() {
                all.disable();
            }
            if has_ended && let Some(ring) = all.open_again(lane.cpu) {
                lane.file.write_all(&sample::lost())?;
                lane.ring = ring;
            }
        }
        if last {
            return Ok(());
        }
        let fds: Vec<_> = lanes.iter().map(|lane| lane.ring.as_fd()).collect();
        process::poll(&fds, Some(LOOK))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backward_ring_gives_whole_records_only() {
        let one = |fill: u8, size: u16| {
            let mut bytes = vec![9, 0, 0, 0, 0, 0];
            bytes.extend(size.to_ne_bytes());
            bytes.resize(usize::from(size), fill);
            bytes
        };
        let cut = &one(3, 24)[..16];
        let bytes = [one(1, 16), one(2, 24), cut.to_vec()].concat();
        let found = newest_first(&bytes);
        assert_eq!(found, [one(1, 16).as_slice(), one(2, 24).as_slice()]);
        assert!(newest_first(&[0; 64]).is_empty());
    }
}
