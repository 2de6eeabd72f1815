//! A recording in progress, whichever way the kernel hands over its events.

use super::conditions::ConditionsReader;
use super::counters::Counters;
use super::error::tracefs_right;
use super::ftrace::Instance;
use super::groups::Groups;
use super::hit_cost;
use super::lock_events::{self, CallCost};
use super::options::Meaning as _;
use super::queued::Queued;
use super::request_probes::{self, Defined, HitCost};
use super::rings::{self, Rings};
use super::shared::{Ended, Shared, Spike, spawn};
use super::spaces;
use super::spool::{self, Head, Source, Tail};
use super::stacks;
use super::trace_marker;
use super::tracepoints;
use super::watch::Watcher;
use super::{Options, RecordError, Via};
use schedlab_model::{Cpu, Nanos, Trigger, Warning};
use schedlab_sys::guard::Guard;
use schedlab_sys::perf::Ring;
use schedlab_sys::{clock, process, topology, tracefs::Tracefs};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// A recording in progress. Dropping it without [`Recorder::stop`] leaves a spool to salvage.
#[derive(Debug)]
pub struct Recorder {
    dir: PathBuf,
    options: Options,
    backend: Backend,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// Removes what was defined for perf events; an instance has its own.
    guard: Option<Guard>,
    /// Requests that the recording goes on without.
    warnings: Vec<Warning>,
    costs: Costs,
    counters: Counters,
}

/// What was measured before a recording began.
#[derive(Debug)]
struct Costs {
    /// Of a probe's hit, if requests were asked for.
    hit: Option<HitCost>,
    /// Of a futex call, if locks were asked for.
    lock: Option<CallCost>,
}

#[derive(Debug)]
enum Backend {
    Perf(Arc<Rings>),
    Ftrace(Box<Instance>),
}

/// How often the watcher looks for new tasks.
const WATCH: Nanos = Nanos::from_millis(50);
/// How often it does where the kernel does not tell of them: that means reading all of `/proc`.
const WATCH_ALL: Nanos = Nanos::from_millis(500);

impl Recorder {
    /// Starts recording on every online CPU into the new directory `dir`.
    ///
    /// # Errors
    /// [`RecordError::Right`] says which right is missing; nothing is left behind then.
    pub fn start(options: impl Into<Options>, dir: &Path) -> Result<Self, RecordError> {
        Self::start_with(&options.into(), dir, None)
    }

    /// As [`Self::start`], beside processes that put marks by the name `marks`
    /// ([`super::mark_file::of_process`]): their requests can end the recording.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        options: &Options,
        dir: &Path,
        marks: Option<&Path>,
    ) -> Result<Self, RecordError> {
        create(dir)?;
        let result = match options.via {
            Via::Perf => Self::perf(options, dir, marks),
            Via::Ftrace => Self::ftrace(options, dir),
            // Watching for a spike takes rings that can be read while they are written.
            Via::Auto if options.snapshot.is_some() => Self::perf(options, dir, marks),
            // A stack of a program is told with its switch, in one sample.
            Via::Auto if options.user_stacks.is_some() => Self::perf(options, dir, marks),
            Via::Auto => Self::ftrace(options, dir).or_else(|error| match error {
                RecordError::Right { .. } => {
                    Self::perf(options, dir, marks).map_err(|e| error.and(e))
                }
                _ => Err(error),
            }),
        };
        if result.is_err() {
            let _ = std::fs::remove_dir_all(dir);
        }
        result
    }

    fn perf(options: &Options, dir: &Path, marks: Option<&Path>) -> Result<Self, RecordError> {
        let tracefs = Tracefs::open().map_err(|error| tracefs_right(&error))?;
        let mut guard = None;
        let mut options = options.clone();
        let requested = requested(&tracefs, &mut guard, &mut options)?;
        let options = &options;
        let requests = requested.requests.clone();
        let head = Head { requests, ..head(options, &tracefs, Source::Perf)? };
        process::raise_open_files();
        let hit_cost = guard.as_mut().and_then(|guard| {
            hit_cost::measure(&tracefs, guard, rings::switch(&tracefs, &head)).ok()
        });
        let lock_cost = options
            .locks
            .then(|| lock_events::measure(rings::switch(&tracefs, &head)).unwrap_or_default());
        begin(options, dir, &head)?;
        let (rings, drains, watched) = Rings::open(options, &head)?;
        let rings = Arc::new(rings);
        let shared = Arc::<Shared>::default();
        let mut threads = vec![watcher(dir, watched, options, &shared)?];
        threads.extend(listener(options, dir, &head, &shared)?);
        threads.extend(Rings::threads(&rings, drains, dir, marks, &shared)?);
        let queued = options.keeps_begin().then(Queued::now);
        rings.enable().map_err(RecordError::io("starting the events"))?;
        if options.user_stacks.is_some() {
            // The kernel tells of what is mapped from now on.
            spaces::keep(&spool::maps(dir))?;
        }
        let backend = Backend::Perf(rings);
        let dir = dir.to_owned();
        let options = options.clone();
        let warnings = requested.warnings;
        let counters = Counters::at_begin(queued.as_ref());
        let costs = Costs { hit: hit_cost, lock: lock_cost };
        Ok(Self { dir, options, backend, shared, threads, guard, warnings, costs, counters })
    }

    fn ftrace(options: &Options, dir: &Path) -> Result<Self, RecordError> {
        if options.snapshot.is_some() {
            return Err(RecordError::Unsupported {
                what: "--snapshot".into(),
                why: "--snapshot needs the rings of perf events: use --via perf".into(),
            });
        }
        if options.user_stacks.is_some() {
            return Err(RecordError::Unsupported {
                what: "--stacks user".into(),
                why: "--stacks user needs the samples of perf events: use --via perf".into(),
            });
        }
        let tracefs = Tracefs::open().map_err(|error| tracefs_right(&error))?;
        let mut guard = None;
        let mut options = options.clone();
        let requested = requested(&tracefs, &mut guard, &mut options)?;
        let options = &options;
        let requests = requested.requests.clone();
        let head = Head { requests, ..head(options, &tracefs, Source::Ftrace)? };
        begin(options, dir, &head)?;
        let shared = Arc::<Shared>::default();
        let mut instance = Instance::guarded(tracefs, options, &head, guard)?;
        let hit_cost = (!requested.requests.is_empty()).then(|| instance.hit_cost().ok()).flatten();
        let lock_cost = options.locks.then(|| instance.lock_cost().unwrap_or_default());
        let mut threads = vec![watcher(dir, rings::watch(&head), options, &shared)?];
        threads.extend(listener(options, dir, &head, &shared)?);
        if !options.overwrites() {
            threads.push(instance.thread(options, dir, &shared)?);
        }
        let queued = options.keeps_begin().then(Queued::now);
        instance.enable(true)?;
        let backend = Backend::Ftrace(Box::new(instance));
        let dir = dir.to_owned();
        let options = options.clone();
        let warnings = requested.warnings;
        let counters = Counters::at_begin(queued.as_ref());
        let guard = None;
        let costs = Costs { hit: hit_cost, lock: lock_cost };
        Ok(Self { dir, options, backend, shared, threads, guard, warnings, costs, counters })
    }

    /// Through which interface [`Via::Auto`] would record, found out in a millisecond and without
    /// recording; never [`Via::Auto`].
    ///
    /// # Errors
    /// [`RecordError::Right`] when neither is available.
    pub fn available() -> Result<Via, RecordError> {
        let tracefs = Tracefs::open().map_err(|error| tracefs_right(&error))?;
        if tracefs.writable().is_ok() {
            return Ok(Via::Ftrace);
        }
        let switch = tracefs.event("sched", "sched_switch");
        let (id, _) = switch.map_err(|error| tracefs_right(&error))?;
        let cpus = topology::online(Path::new("/sys"));
        let first = cpus.ok().and_then(|cpus| cpus.iter().next()).unwrap_or(Cpu(0));
        rings::try_event(id, first).map(|()| Via::Perf)
    }

    /// Through which interface it records; never [`Via::Auto`].
    #[must_use]
    pub const fn via(&self) -> Via {
        match self.backend {
            Backend::Perf(_) => Via::Perf,
            Backend::Ftrace(_) => Via::Ftrace,
        }
    }

    /// Why the recording ended by itself; `None` while it goes on. Then call [`Recorder::stop`].
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.shared.ended.get().copied()
    }

    /// What the user should know about how it ended; `None` when it was simply stopped.
    #[must_use]
    pub fn ending(&self) -> Option<String> {
        let unseen = |asked: super::Snapshot| match &self.options.between {
            None => format!("the end of the recording is kept: no task waited for {}", asked.bound),
            Some(name) => {
                format!("the end of the recording is kept: no '{name}' took {}", asked.bound)
            }
        };
        let ended = self.ended().map(|ended| ended.to_string());
        ended.or_else(|| self.options.snapshot.map(unseen))
    }

    /// Stops the events; what was recorded waits for [`Recorder::stop`].
    pub fn pause(&self) {
        match &self.backend {
            Backend::Perf(rings) => rings.disable(),
            Backend::Ftrace(instance) => drop(instance.enable(false)),
        }
    }

    /// Stops and leaves a complete spool directory for [`super::stitch`].
    ///
    /// # Errors
    /// When a spool file could not be written (a full disk, as a rule).
    pub fn stop(mut self) -> Result<PathBuf, RecordError> {
        let counters = std::mem::take(&mut self.counters);
        spool::write(&spool::counters(&self.dir), &counters.growth())?;
        self.pause();
        if self.options.user_stacks.is_some() && !self.options.keeps_begin() {
            // What the kernel told of mappings was not kept.
            spaces::keep(&spool::maps_at_end(&self.dir))?;
        }
        let stopped = clock::monotonic();
        self.shared.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let result = thread.join().expect("recorder threads do not panic");
            result.map_err(RecordError::io(format!("writing into {}", self.dir.display())))?;
        }
        let trigger = match self.shared.ended.get() {
            Some(Ended::Spike(Spike { pid, since, waited, .. })) => {
                Some(Trigger { pid: *pid, since: *since, until: *since + *waited })
            }
            _ => None,
        };
        let mut doubts = self.options.doubts();
        doubts.extend(self.warnings);
        let lost = match self.backend {
            Backend::Perf(rings) => {
                if self.options.overwrites() {
                    rings.save(&self.dir)?;
                }
                let lost = rings.lost();
                doubts.extend(rings.out_of_use());
                // Probes cannot be removed while an event uses them.
                drop(rings);
                lost
            }
            Backend::Ftrace(instance) => {
                if self.options.overwrites() {
                    instance.save(&self.dir)?;
                }
                let lost = instance.lost(self.options.overwrites());
                doubts.extend(instance.finish());
                lost
            }
        };
        doubts.extend(self.guard.map(super::ftrace::undone).unwrap_or_default());
        let Costs { hit: hit_cost, lock: lock_cost } = self.costs;
        let tail = Tail { stopped, lost, doubts, trigger, hit_cost, lock_cost };
        spool::write(&spool::tail(&self.dir), &tail)?;
        Ok(self.dir)
    }
}

/// Keeps what is known before the first event.
pub(crate) fn begin(options: &Options, dir: &Path, head: &Head) -> Result<(), RecordError> {
    if options.stacks {
        stacks::keep_symbols(dir)?;
    } else if head.tracepoints.iter().any(|point| point.name == "hrtimer_expire_entry") {
        stacks::keep_timers(dir)?;
    }
    spool::write(&spool::head(dir), head)
}

/// Adds the events of locks and requests that are asked for, and sets the probes of requests.
fn requested(
    tracefs: &Tracefs,
    guard: &mut Option<Guard>,
    options: &mut Options,
) -> Result<Defined, RecordError> {
    let told = match options.locks {
        true => lock_events::ask(tracefs, &mut options.events),
        false => Vec::new(),
    };
    let mut defined = probes(tracefs, guard, options)?;
    defined.warnings.extend(told);
    Ok(defined)
}

fn probes(
    tracefs: &Tracefs,
    guard: &mut Option<Guard>,
    options: &mut Options,
) -> Result<Defined, RecordError> {
    if options.requests.is_empty() {
        return Ok(Defined::default());
    }
    if let Err(error) = tracefs.writable() {
        return request_probes::without(&options.requests, &error);
    }
    let mut armed = match guard.take() {
        Some(armed) => armed,
        None => Guard::arm().map_err(RecordError::io("starting the guardian"))?,
    };
    let defined = request_probes::define(tracefs, &mut armed, &options.requests)?;
    options.events.extend(defined.events());
    *guard = Some(armed);
    Ok(defined)
}

pub(crate) fn head(
    options: &Options,
    tracefs: &Tracefs,
    source: Source,
) -> Result<Head, RecordError> {
    let text = |file: &str| tracefs.read(file).map_err(|error| tracefs_right(&error));
    let sys = Path::new("/sys");
    let of_running = options.running.then(|| stacks::FIRES.join(":"));
    let events: Vec<String> = options.events.iter().cloned().chain(of_running).collect();
    let mut tracepoints = tracepoints::choose(tracefs, &events)?;
    if options.keeps_stacks() {
        tracepoints.push(stacks::tracepoint(tracefs)?);
    }
    for filter in &options.filters {
        if !tracepoints.iter().any(|point| point.name == filter.event) {
            let why = "the event is not recorded: name it with -e".into();
            return Err(RecordError::NoEvent { name: filter.event.clone(), why });
        }
    }
    Ok(Head {
        schema: spool::SCHEMA,
        source,
        overwrites: options.overwrites(),
        is_snapshot: options.snapshot.is_some(),
        no_compress: options.no_compress,
        header_page: text("events/header_page")?,
        header_event: text("events/header_event")?,
        tracepoints,
        requests: Vec::new(),
        user_stacks: options.user_stacks,
        wakers: options.wakers,
        running: options.running,
        cpus: topology::online(sys).map_err(RecordError::io("reading the online CPUs"))?,
        topology: topology::read(sys).ok(),
        uname: uname(),
        page_size: u32::try_from(process::page_size()).unwrap_or(4096),
        started: clock::monotonic(),
        hierarchy: schedlab_sys::cgroup::of_cpu().and_then(|hierarchy| hierarchy.number()),
        only: options.pids.iter().copied().collect(),
    })
}

/// Makes the spool directory; one that is there is somebody's recording.
pub(crate) fn create(dir: &Path) -> Result<(), RecordError> {
    // It can hold what was on the stacks of other users' programs.
    std::fs::DirBuilder::new().mode(0o700).create(dir).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => RecordError::Spool {
            path: dir.to_owned(),
            what: "holds an unfinished recording: use `schedlab record --salvage`, or remove it"
                .into(),
        },
        _ => RecordError::Io { doing: format!("creating {}", dir.display()), error },
    })
}

fn watcher(
    dir: &Path,
    watched: Vec<(Cpu, Ring)>,
    options: &Options,
    shared: &Arc<Shared>,
) -> Result<JoinHandle<io::Result<()>>, RecordError> {
    let path = spool::tasks(dir);
    let out = spool::create(&path)?;
    // Where the kernel tells of new tasks, that is all to be looked at.
    let pause = if watched.is_empty() { WATCH_ALL } else { WATCH };
    let conditions_reader = options.conditions.then(ConditionsReader::default);
    let mut watcher =
        Watcher::start(out, watched, rings::watch_cpu, Groups::here(), conditions_reader)
            .map_err(RecordError::file(&path))?;
    let shared = Arc::clone(shared);
    spawn("watcher", move || {
        while !shared.stop.load(Ordering::Acquire) {
            std::thread::park_timeout(pause.as_duration());
            watcher.look_at_new()?;
        }
        watcher.finish()
    })
}

/// Who listens to `trace_marker`, if that is asked for.
fn listener(
    options: &Options,
    dir: &Path,
    head: &Head,
    shared: &Arc<Shared>,
) -> Result<Option<JoinHandle<io::Result<()>>>, RecordError> {
    options.trace_marker.then(|| trace_marker::listen(&head.cpus, dir, shared)).transpose()
}

/// `uname -a` without the host's name.
fn uname() -> String {
    let part = |name| {
        let text = std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name));
        text.map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    format!("{} {}", ["ostype", "osrelease", "version"].map(part).join(" "), std::env::consts::ARCH)
}
