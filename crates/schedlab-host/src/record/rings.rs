//! The recorder: rings, the threads that empty them, and the end.

use super::error::{libc_errno, perf_right, tracefs_right};
use super::spool::{self, Head, Tail};
use super::tracepoints::{self, Tracepoint};
use super::watch::Watcher;
use super::{RING_BYTES, RecordError};
use schedlab_model::{Cpu, Nanos, Pid};
use schedlab_sys::perf::{Event, Ring, Source};
use schedlab_sys::{clock, process, sched, topology, tracefs::Tracefs};
use schedlab_workload::RecordSpec;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// A recording in progress. Dropping it without [`Recorder::stop`] leaves a spool to salvage.
#[derive(Debug)]
pub struct Recorder {
    dir: PathBuf,
    events: Vec<(Cpu, Event)>,
    stop: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    drains: Vec<JoinHandle<io::Result<()>>>,
    watcher: Option<JoinHandle<io::Result<()>>>,
}

/// CPUs whose rings one thread empties.
const CPUS_PER_THREAD: usize = 16;
/// A thread looks at its rings at least this often, so that little is lost by a `kill -9`.
const LOOK: Nanos = Nanos::from_millis(250);
/// How often the watcher looks for new tasks.
const WATCH: Nanos = Nanos::from_millis(50);
/// Bytes of the watcher's ring: 200 new tasks a CPU between two looks.
const WATCH_BYTES: usize = 16 << 10;

impl Recorder {
    /// Starts recording on every online CPU into the new directory `dir`.
    ///
    /// # Errors
    /// [`RecordError::Right`] says which right is missing; nothing is left behind then.
    pub fn start(spec: &RecordSpec, dir: &Path) -> Result<Self, RecordError> {
        let result = Self::open(spec, dir);
        if matches!(&result, Err(error) if !matches!(error, RecordError::Spool { .. })) {
            let _ = std::fs::remove_dir_all(dir);
        }
        result
    }

    fn open(spec: &RecordSpec, dir: &Path) -> Result<Self, RecordError> {
        let head = head(spec)?;
        create(dir)?;
        spool::write(&spool::head(dir), &head)?;
        process::raise_open_files();
        let ring_bytes = if spec.ring_bytes == 0 { RING_BYTES } else { spec.ring_bytes };
        let ring_bytes = usize::try_from(ring_bytes).unwrap_or(usize::MAX >> 1);
        let mut recorder = Self {
            dir: dir.to_owned(),
            events: Vec::new(),
            stop: Arc::default(),
            bytes: Arc::default(),
            drains: Vec::new(),
            watcher: None,
        };
        let (mut rings, mut watched) = (Vec::new(), Vec::new());
        for cpu in head.cpus.iter() {
            // A CPU that went offline since the list was read is not observed.
            match recorder.open_cpu(cpu, &head.tracepoints, ring_bytes) {
                Ok((ring, watch)) => {
                    rings.push((cpu, ring));
                    watched.push(watch);
                }
                Err(RecordError::Io { error, .. })
                    if error.raw_os_error() == Some(libc_errno::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        recorder.start_threads(rings, watched)?;
        for (_, event) in &recorder.events {
            event.enable().map_err(RecordError::io("starting an event"))?;
        }
        Ok(recorder)
    }

    /// Opens all events of a CPU into one ring, and the watcher's ring.
    fn open_cpu(
        &mut self,
        cpu: Cpu,
        tracepoints: &[Tracepoint],
        ring_bytes: usize,
    ) -> Result<(Ring, Ring), RecordError> {
        // A quarter: early enough that the rest lasts until a thread runs.
        let wakeup = u32::try_from(ring_bytes / 4).unwrap_or(u32::MAX);
        let mut ring = None;
        let first = self.events.len();
        for point in tracepoints {
            let event = open_event(Source::Tracepoint(point.id.into()), cpu, wakeup)?;
            match self.events.get(first) {
                // Only a ring that is mapped can be shared.
                None => {
                    ring =
                        Some(Ring::map(&event, ring_bytes).map_err(|e| map_error(e, ring_bytes))?);
                }
                Some((_, leader)) => {
                    event.redirect(leader).map_err(RecordError::io("sharing a CPU's ring"))?;
                }
            }
            self.events.push((cpu, event));
        }
        let ring = ring.expect("sched_switch is always among the tracepoints");
        let tasks = open_event(Source::Tasks, cpu, u32::MAX >> 1)?;
        let watch =
            Ring::map(&tasks, WATCH_BYTES).map_err(|error| map_error(error, WATCH_BYTES))?;
        tasks.enable().map_err(RecordError::io("watching for new tasks"))?;
        Ok((ring, watch))
    }

    fn start_threads(
        &mut self,
        rings: Vec<(Cpu, Ring)>,
        watched: Vec<Ring>,
    ) -> Result<(), RecordError> {
        let path = spool::tasks(&self.dir);
        let out = File::create(&path).map_err(RecordError::file(&path))?;
        let watcher = Watcher::start(out, watched).map_err(RecordError::file(&path))?;
        let stop = Arc::clone(&self.stop);
        self.watcher = Some(spawn("watcher", move || watch(watcher, &stop))?);

        let mut rings = rings.into_iter().peekable();
        while rings.peek().is_some() {
            let mut mine = Vec::new();
            for (cpu, ring) in rings.by_ref().take(CPUS_PER_THREAD) {
                let path = spool::records(&self.dir, cpu);
                let file = File::create(&path).map_err(RecordError::file(&path))?;
                mine.push((ring, file));
            }
            let (stop, bytes) = (Arc::clone(&self.stop), Arc::clone(&self.bytes));
            self.drains.push(spawn("recorder", move || drain(mine, &stop, &bytes))?);
        }
        Ok(())
    }

    /// Bytes of records spooled so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Stops and leaves a complete spool directory for [`super::stitch`].
    ///
    /// # Errors
    /// When a spool file could not be written (a full disk, as a rule).
    pub fn stop(mut self) -> Result<PathBuf, RecordError> {
        for (_, event) in &self.events {
            let _ = event.disable();
        }
        let stopped = clock::monotonic();
        self.stop.store(true, Ordering::Release);
        for thread in self.drains.drain(..).chain(self.watcher.take()) {
            thread.thread().unpark();
            let result = thread.join().expect("recorder threads do not panic");
            result.map_err(RecordError::io(format!("writing into {}", self.dir.display())))?;
        }
        let mut tail = Tail { stopped, ..Tail::default() };
        for (cpu, event) in &self.events {
            if let Some(lost) = event.lost() {
                *tail.lost.entry(*cpu).or_default() += lost;
            }
        }
        spool::write(&spool::tail(&self.dir), &tail)?;
        Ok(self.dir)
    }
}

fn head(spec: &RecordSpec) -> Result<Head, RecordError> {
    let tracefs = Tracefs::open().map_err(|error| tracefs_right(&error))?;
    let text = |file: &str| tracefs.read(file).map_err(|error| tracefs_right(&error));
    let sys = Path::new("/sys");
    Ok(Head {
        schema: spool::SCHEMA,
        header_page: text("events/header_page")?,
        header_event: text("events/header_event")?,
        tracepoints: tracepoints::choose(&tracefs, &spec.events)?,
        cpus: topology::online(sys).map_err(RecordError::io("reading the online CPUs"))?,
        topology: topology::read(sys).ok(),
        uname: crate::facts::uname(),
        page_size: u32::try_from(process::page_size()).unwrap_or(4096),
        started: clock::monotonic(),
    })
}

/// Makes the spool directory; one that is there is somebody's recording.
fn create(dir: &Path) -> Result<(), RecordError> {
    std::fs::create_dir(dir).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => RecordError::Spool {
            path: dir.to_owned(),
            what: "holds a recording that was cut: `schedlab record --salvage` it, or remove it"
                .into(),
        },
        _ => RecordError::Io { doing: format!("creating {}", dir.display()), error },
    })
}

fn open_event(source: Source, cpu: Cpu, wakeup: u32) -> Result<Event, RecordError> {
    Event::open(source, cpu, wakeup, false).map_err(|error| match error.raw_os_error() {
        Some(libc_errno::EPERM | libc_errno::EACCES | libc_errno::ENOSYS) => perf_right(&error),
        Some(libc_errno::EMFILE) => RecordError::Right {
            missing: "too few open files are allowed for an event of each kind on each CPU".into(),
            remedy: "raise the limit: `ulimit -n 65536`".into(),
        },
        _ => RecordError::Io { doing: format!("opening an event on CPU {cpu}"), error },
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

fn spawn(
    name: &str,
    body: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<JoinHandle<io::Result<()>>, RecordError> {
    let thread = std::thread::Builder::new().name(format!("sl-{name}"));
    thread.spawn(body).map_err(RecordError::io("starting a recorder thread"))
}

/// Empties rings into their files until told to stop, then once more.
fn drain(mut rings: Vec<(Ring, File)>, stop: &AtomicBool, bytes: &AtomicU64) -> io::Result<()> {
    // Among a thousand runnable tasks a thread of no weight would come too late. Where the right is
    // missing, the ring has to be large enough.
    let urgent = sched::Attributes::from(sched::Policy::Normal { nice: -20 });
    let _ = sched::set(Pid(0), &urgent);
    loop {
        let last = stop.load(Ordering::Acquire);
        for (ring, file) in &mut rings {
            let drained = ring.drain(&mut |piece| file.write_all(piece))?;
            bytes.fetch_add(drained as u64, Ordering::Relaxed);
        }
        if last {
            return Ok(());
        }
        let fds: Vec<_> = rings.iter().map(|(ring, _)| ring.as_fd()).collect();
        process::poll(&fds, Some(LOOK))?;
    }
}

fn watch(mut watcher: Watcher, stop: &AtomicBool) -> io::Result<()> {
    while !stop.load(Ordering::Acquire) {
        std::thread::park_timeout(WATCH.as_duration());
        watcher.look_at_new()?;
    }
    watcher.finish()
}
