//! Ftrace: the per-CPU pages of an instance of our own, copied as they are.
//!
//! An instance has buffers, events and a clock of its own, so nobody else's tracing is disturbed. It
//! is a directory of tracefs that stays when its maker dies: the guard removes it then.
//!
//! What it costs the recorded machine: an event is written straight into a page of the buffer, which
//! takes about half as long as a perf sample of the same tracepoint. A third of the rest would be the
//! kernel's own table of task names, filled at every switch: the switch records hold the names, so an
//! instance is made that does not ask for it (see [`unnamed`]).

use super::error::{RecordError, tracefs_write_right};
use super::hit_cost;
use super::lock_events::{self, CallCost};
use super::options::{Meaning as _, Options};
use super::request_probes::HitCost;
use super::shared::{Ended, Shared, be_prompt, spawn};
use super::spool::{self, Head};
use super::stacks;
use schedlab_model::{Cpu, CpuSet, Nanos, Warning};
use schedlab_sys::guard::{Guard, Undo};
use schedlab_sys::{kernel_file, process, tracefs, tracefs::Tracefs};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

#[derive(Debug)]
pub(crate) struct Instance {
    root: PathBuf,
    cpus: CpuSet,
    page: usize,
    guard: Option<Guard>,
    /// Keeps a mount of our own, which `root` may lie in.
    _tracefs: Option<Tracefs>,
}

/// The pages of a CPU, and where they go.
struct Pipe {
    pages: File,
    out: File,
}

/// The pipes are looked at least this often.
const LOOK: Nanos = Nanos::from_millis(250);
/// Pages that are written to the spool with one call.
const PAGES_AT_ONCE: usize = 64;

/// The name of a new instance in this folder. Other recordings of this process, and processes with the same number in
/// other namespaces, have theirs.
pub(crate) fn free_name(instances: &Path, end: &str) -> String {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    loop {
        let count = match NAMES.fetch_add(1, Ordering::Relaxed) {
            0 => String::new(),
            count => format!("-{count}"),
        };
        let name = format!("schedlab-{}{count}{end}", std::process::id());
        if !instances.join(&name).exists() {
            return name;
        }
    }
}

impl Instance {
    /// Makes an instance that is removed even if a process dies: by `guard`, if there is one already.
    pub(crate) fn guarded(
        tracefs: Tracefs,
        options: &Options,
        head: &Head,
        guard: Option<Guard>,
    ) -> Result<Self, RecordError> {
        tracefs.writable().map_err(|error| tracefs_write_right(&error))?;
        let instances = tracefs.root().join("instances");
        let name = free_name(&instances, "");
        let root = instances.join(&name);
        let armed = guard.map_or_else(Guard::arm, Ok);
        let mut guard = armed.map_err(RecordError::io("starting the guardian"))?;
        let undo = Undo::RemoveInstance { name };
        guard.before(undo).map_err(RecordError::io("writing the guard's journal"))?;
        unnamed(&tracefs, &mut guard, || std::fs::create_dir(&root))
            .map_err(|error| tracefs_write_right(&error))?;
        let page = tracefs::sub_buffer_bytes(&root).unwrap_or(head.page_size as usize);
        let cpus = head.cpus.clone();
        let guard = Some(guard);
        let instance = Self { root, cpus, page, guard, _tracefs: Some(tracefs) };
        instance.set_up(options, head)?;
        Ok(instance)
    }

    /// Chooses clock, size and events; nothing is written before [`Instance::enable`].
    fn set_up(&self, options: &Options, head: &Head) -> Result<(), RecordError> {
        let kib = (options.ring(head.cpus.len()) >> 10).max(1);
        self.write("tracing_on", "0")?;
        self.write("trace_clock", "mono")?;
        self.write("buffer_size_kb", &kib.to_string())?;
        // Also while the pages are copied: a buffer that stops when it is full does not say on its
        // pages where events are missing, one that writes over the oldest does.
        self.write("options/overwrite", "1")?;
        for point in head.tracepoints.iter().filter(|point| !point.is_stack()) {
            let dir = format!("events/{}/{}", point.system, point.name);
            if let Some(filter) = options.filter(point) {
                self.write(&format!("{dir}/filter"), &filter).map_err(|error| {
                    let fields = point.names().collect::<Vec<_>>().join(", ");
                    RecordError::Filter {
                        event: point.name.clone(),
                        expression: filter,
                        why: format!("{error}; its fields are {fields}"),
                    }
                })?;
            }
            self.write(&format!("{dir}/enable"), "1")?;
        }
        let triggers = [
            (options.stacks, stacks::TRIGGER),
            (options.wakers, stacks::WAKERS),
            (options.running, stacks::RUNNING),
        ];
        for (file, trigger) in triggers.into_iter().filter(|of| of.0).map(|of| of.1) {
            self.write(file, trigger).map_err(|error| RecordError::Unsupported {
                what: "--stacks".into(),
                why: format!("the kernel takes no trigger 'stacktrace': {error}"),
            })?;
        }
        Ok(())
    }

    fn write(&self, file: &str, text: &str) -> Result<(), RecordError> {
        let path = self.root.join(file);
        // Plain: an instance that was just made, in which the kernel puts the files.
        std::fs::write(&path, text).map_err(RecordError::file(&path))
    }

    /// Starts and stops the writing of events.
    pub(crate) fn enable(&self, on: bool) -> Result<(), RecordError> {
        self.write("tracing_on", if on { "1" } else { "0" })
    }

    pub(crate) fn open_pages(&self) -> Result<Vec<(Cpu, File)>, RecordError> {
        self.cpus.iter().map(|cpu| Ok((cpu, self.pages_of(cpu)?))).collect()
    }

    /// The pages of a CPU that came into use: the kernel writes its events into the instance all along.
    pub(crate) fn open_more(&mut self, cpu: Cpu) -> Result<File, RecordError> {
        let pages = self.pages_of(cpu)?;
        self.cpus.insert(cpu);
        Ok(pages)
    }

    fn pages_of(&self, cpu: Cpu) -> Result<File, RecordError> {
        let path = self.root.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        tracefs::open_pipe(&path).map_err(RecordError::file(&path))
    }

    /// Bytes of a page.
    pub(crate) const fn page(&self) -> usize {
        self.page
    }

    fn pipes(&self, dir: &Path) -> Result<Vec<Pipe>, RecordError> {
        let pages = self.open_pages()?.into_iter();
        let pipe = |(cpu, pages)| {
            let out = spool::create(&spool::records(dir, cpu))?;
            Ok(Pipe { pages, out })
        };
        pages.map(pipe).collect()
    }

    /// Starts the thread that copies pages while they fill.
    pub(crate) fn thread(
        &self,
        options: &Options,
        dir: &Path,
        shared: &Arc<Shared>,
    ) -> Result<JoinHandle<io::Result<()>>, RecordError> {
        let mut pipes = self.pipes(dir)?;
        let page = self.page;
        let on = self.root.join("tracing_on");
        let limit = options.limit_bytes.unwrap_or(u64::MAX);
        let shared = Arc::clone(shared);
        spawn("recorder", move || {
            be_prompt();
            loop {
                let last = shared.stop.load(Ordering::Acquire);
                let copied = copy_pages(&mut pipes, page)?;
                let before = shared.bytes.fetch_add(copied, Ordering::Relaxed);
                if before + copied >= limit && shared.ended.set(Ended::Full).is_ok() {
                    kernel_file::write(&on, "0")?;
                }
                if last {
                    return Ok(());
                }
                let fds: Vec<_> = pipes.iter().map(|pipe| pipe.pages.as_fd()).collect();
                process::poll(&fds, Some(LOOK))?;
            }
        })
    }

    /// Copies what an overwriting buffer holds at the end.
    pub(crate) fn save(&self, dir: &Path) -> Result<(), RecordError> {
        let mut pipes = self.pipes(dir)?;
        copy_pages(&mut pipes, self.page).map_err(RecordError::file(dir))?;
        Ok(())
    }

    /// What each CPU's buffer lost, by its own count; what it overwrote on purpose is no loss.
    pub(crate) fn lost(&self, overwrites: bool) -> BTreeMap<Cpu, u64> {
        let mut lost = BTreeMap::new();
        for cpu in self.cpus.iter() {
            let path = self.root.join(format!("per_cpu/cpu{cpu}/stats"));
            let Ok(stats) = std::fs::read_to_string(path) else { continue };
            let count = |name: &str| {
                let line = stats.lines().find_map(|line| line.strip_prefix(name));
                line.and_then(|rest| rest.trim_start_matches(':').trim().parse().ok()).unwrap_or(0)
            };
            let overrun: u64 = if overwrites { 0 } else { count("overrun") };
            lost.insert(cpu, overrun + count("commit overrun") + count("dropped events"));
        }
        lost
    }

    /// What a hit of a probe costs when its record goes into this instance.
    pub(crate) fn hit_cost(&mut self) -> Result<HitCost, RecordError> {
        let mut guard = self.guard.take();
        let measured = match (&self._tracefs, &mut guard) {
            (Some(tracefs), Some(guard)) => {
                hit_cost::measure(tracefs, guard, |system, name, on| self.switch(system, name, on))
            }
            _ => Ok(HitCost::default()),
        };
        self.guard = guard;
        measured
    }

    /// What a futex call costs when its records go into this instance.
    pub(crate) fn lock_cost(&self) -> Result<CallCost, RecordError> {
        // Each that is on slows all calls, so without the others there is nothing to compare with.
        let files =
            lock_events::calls().map(|(system, name)| format!("events/{system}/{name}/enable"));
        let files: Vec<_> = files.filter(|file| self.root.join(file).exists()).collect();
        let all = |on: &str| files.iter().try_for_each(|file| self.write(file, on));
        all("0")?;
        let measured = lock_events::measure(|system, name, on| self.switch(system, name, on));
        all("1")?;
        measured
    }

    /// Turns an event on and off for a measurement.
    fn switch(&self, system: &str, name: &str, on: bool) -> Result<(), RecordError> {
        let on = if on { "1" } else { "0" };
        self.write("tracing_on", on)?;
        self.write(&format!("events/{system}/{name}/enable"), on)?;
        // Opened to truncate, it empties the buffer.
        self.write("trace", "")
    }

    /// Removes the instance; what could not be undone is a warning.
    pub(crate) fn finish(mut self) -> Vec<Warning> {
        self.guard.take().map(undone).unwrap_or_default()
    }
}

/// Undoes what a recording changed; what could not be undone is a warning.
pub(crate) fn undone(guard: Guard) -> Vec<Warning> {
    let doubt = |(undo, error)| {
        let what = format!("cannot remove an ftrace instance or a probe ({undo:?}): {error}");
        Warning::new("instance-left", what, "schedlab doctor --restore")
    };
    guard.finish().into_iter().map(doubt).collect()
}

/// Makes an instance while the kernel does not ask for its table of task names: an instance takes
/// that option, which cannot be set on itself, from the top. Put back at once, even if a process dies; others
/// who trace miss names of some microseconds at most.
fn unnamed(
    tracefs: &Tracefs,
    guard: &mut Guard,
    make: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let file = "options/record-cmd";
    let on = "1";
    if tracefs.read(file).is_ok_and(|text| text.trim() == on) {
        let undo = Undo::WriteTracefs { file: file.into(), content: on.into() };
        let step = guard.before(undo)?;
        kernel_file::write(tracefs.root().join(file), "0")?;
        let made = make();
        guard.undo(step)?;
        return made;
    }
    make()
}

/// Copies whole pages until every pipe is empty for now; returns how many bytes.
fn copy_pages(pipes: &mut [Pipe], page: usize) -> io::Result<u64> {
    let mut buffer = vec![0; page * PAGES_AT_ONCE];
    let mut copied = 0;
    for pipe in pipes {
        loop {
            let pages = read_pages(&mut pipe.pages, &mut buffer, page)?;
            pipe.out.write_all(&buffer[..pages * page])?;
            copied += (pages * page) as u64;
            if pages < PAGES_AT_ONCE {
                break;
            }
        }
    }
    Ok(copied)
}

/// Reads pages, one at a time as the kernel gives them, until the buffer is full or the pipe empty.
pub(crate) fn read_pages(from: &mut File, buffer: &mut [u8], page: usize) -> io::Result<usize> {
    let mut pages = 0;
    for place in buffer.chunks_exact_mut(page) {
        let count = loop {
            match from.read(place) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break 0,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if count == 0 {
            break;
        }
        // A page that is not full comes short; pages stand at multiples of their size.
        place[count..].fill(0);
        pages += 1;
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::super::Full;
    use super::super::spool::Source;
    use super::super::tracepoints::Tracepoint;
    use super::*;
    use schedlab_model::Pid;
    use std::collections::BTreeSet;

    fn head() -> Head {
        Head {
            user_stacks: None,
            wakers: false,
            running: false,
            schema: spool::SCHEMA,
            source: Source::Ftrace,
            overwrites: false,
            is_snapshot: false,
            no_compress: false,
            header_page: String::new(),
            header_event: String::new(),
            tracepoints: vec![Tracepoint {
                system: "sched".into(),
                name: "sched_switch".into(),
                id: 1,
                format: "\tfield:pid_t next_pid;\toffset:8;\tsize:4;\tsigned:1;\n".into(),
            }],
            cpus: CpuSet::first(2),
            requests: Vec::new(),
            topology: None,
            uname: String::new(),
            page_size: 4096,
            started: Nanos::ZERO,
            hierarchy: None,
            only: BTreeSet::new(),
        }
    }

    /// What the kernel would make with the instance's directory.
    fn fake(root: &Path) -> Instance {
        for dir in ["options", "events/sched/sched_switch", "per_cpu/cpu0", "per_cpu/cpu1"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        Instance {
            root: root.into(),
            cpus: CpuSet::first(2),
            page: 4096,
            guard: None,
            _tracefs: None,
        }
    }

    #[test]
    fn each_recording_has_an_instance_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let first = free_name(dir.path(), "");
        let second = free_name(dir.path(), "");
        assert_ne!(first, second, "two of one process");
        // Those that a process with our number makes next, in another namespace.
        let count = second.rsplit_once('-').unwrap().1.parse::<u32>().unwrap_or_default();
        for next in count + 1..count + 50 {
            let name = format!("schedlab-{}-{next}", std::process::id());
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let third = free_name(dir.path(), "");
        assert!(!dir.path().join(&third).exists(), "{third}");
    }

    #[test]
    fn an_instance_is_set_up_by_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let instance = fake(dir.path());
        let options = Options {
            limit_bytes: Some(8 << 20),
            full: Full::Overwrite,
            pids: vec![Pid(7)],
            ..Options::default()
        };
        instance.set_up(&options, &head()).unwrap();
        for (file, content) in [
            ("tracing_on", "0"),
            ("trace_clock", "mono"),
            ("buffer_size_kb", "4096"),
            ("options/overwrite", "1"),
            ("events/sched/sched_switch/filter", "(next_pid == 7)"),
            ("events/sched/sched_switch/enable", "1"),
        ] {
            assert_eq!(std::fs::read_to_string(dir.path().join(file)).unwrap(), content, "{file}");
        }
        instance.enable(true).unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("tracing_on")).unwrap(), "1");
    }

    #[test]
    fn a_tree_that_is_no_instance_is_refused_with_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let instance = Instance { root: dir.path().join("nothing"), ..fake(dir.path()) };
        let error = instance.set_up(&Options::default(), &head()).unwrap_err().to_string();
        assert!(error.contains("nothing/tracing_on"), "{error}");
    }

    #[test]
    fn pages_are_copied_whole_and_losses_are_the_buffers_own_count() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("instance");
        let spool_dir = dir.path().join("spool");
        std::fs::create_dir(&spool_dir).unwrap();
        let instance = fake(&root);
        for cpu in 0..2 {
            let at = |name: &str| root.join(format!("per_cpu/cpu{cpu}/{name}"));
            std::fs::write(at("trace_pipe_raw"), vec![cpu + 1; 4096 + 100]).unwrap();
            let stats = "entries: 5\noverrun: 3\ncommit overrun: 1\ndropped events: 2\n";
            std::fs::write(at("stats"), stats).unwrap();
        }
        instance.save(&spool_dir).unwrap();
        let copied = std::fs::read(spool::records(&spool_dir, Cpu(1))).unwrap();
        assert_eq!((copied.len(), copied[4195], copied[4196]), (8192, 2, 0));
        assert_eq!(instance.lost(false)[&Cpu(0)], 6);
        assert_eq!(instance.lost(true)[&Cpu(0)], 3);
        assert!(instance.finish().is_empty());
    }
}
