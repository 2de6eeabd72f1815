//! A scheduler of BPF programs (sched_ext) in the guest: on from its boot to the end of a run.
//!
//! It is a static program of its own, packed beside init. A scheduler that misbehaves is thrown out, and the
//! kernel goes on with its own one without a word; so a run counts only if the scheduler was on at its end.

use crate::cpio::Archive;
use crate::{Kernel, VmError, cache};
use schedlab_model::{Cpu, CpuSet, Pid};
use schedlab_sys::{process, regular_file, sched};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The folder with schedulers beside a kernel that was built with them.
pub(crate) const FOLDER: &str = "ext";
/// The program in the guest.
const PROGRAM: &str = "/scheduler";
/// What it prints in the guest.
const SAID: &str = "/run/scheduler";
/// What the kernel tells of sched_ext (Documentation/scheduler/sched-ext.rst).
const STATE: &str = "/sys/kernel/sched_ext/state";
const OPS: &str = "/sys/kernel/sched_ext/root/ops";
/// What the kernel tells of init as a task.
const INIT: &str = "/proc/1/sched";
/// How often, and how many times, the guest looks for a change of state.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS: u32 = 20_000;
/// Threads of the kernel that switch a scheduler on, by how their names begin: of 6.12, and of later versions.
const HELPERS: [&str; 2] = ["scx_ops_enable_", "scx_enable_"];
/// How many of the lines that a scheduler printed are shown. A program that the kernel refuses is explained 8 lines
/// before the end.
const SHOWN: usize = 8;

/// The program of a scheduler that is named for a kernel: one that was built with it, or a path.
pub(crate) fn find(kernel: &Kernel, name: &str) -> Result<Vec<u8>, VmError> {
    let folder = kernel.image.with_file_name(FOLDER);
    let built = folder.join(name);
    let path = if name.contains('/') { PathBuf::from(name) } else { built };
    regular_file::read(&path, regular_file::PROGRAM_MAX).map_err(|_| {
        let names = cache::files(&folder, |_| true);
        let names = names.iter().filter_map(|path| path.file_name()?.to_str());
        let names: Vec<&str> = names.collect();
        let why = match names.is_empty() {
            true => "no scheduler was built with this kernel: use `schedlab vm build --ext`, or give the \
                     path of a static program"
                .to_owned(),
            false => format!("use {}, or the path of a static program", names.join(", ")),
        };
        VmError::Setting { key: "ext".to_owned(), value: name.to_owned(), why }
    })
}

/// An archive with the program, which goes behind that of init.
pub(crate) fn pack(program: &[u8]) -> Vec<u8> {
    let mut archive = Archive::default();
    archive.file(PROGRAM, program);
    archive.finish()
}

/// The scheduler that is on in this guest.
pub(crate) struct Scheduler {
    child: Child,
    ops: String,
    switches: u64,
}

impl Scheduler {
    /// Switches the guest's scheduler on, if one was packed.
    pub(crate) fn start() -> io::Result<Option<Self>> {
        if !Path::new(PROGRAM).is_file() {
            return Ok(None);
        }
        let mut child = Self::spawn()?;
        let mut is_on = comes_on(&mut child);
        // scx_central must begin on its CPU, but since 6.12.y a thread of the kernel begins it, anywhere. That
        // thread is there after the first attempt, and then it can be bound.
        if !is_on && child.try_wait()?.is_some() && bind_helper() {
            child = Self::spawn()?;
            is_on = comes_on(&mut child);
        }
        if !is_on {
            return Err(failed("the scheduler did not come on"));
        }
        let ops = text(OPS);
        let switches = switches()?;
        Ok(Some(Self { child, ops, switches }))
    }

    fn spawn() -> io::Result<Child> {
        // Plain: in the guest, which schedlab has for itself.
        let said = File::create(SAID)?;
        let mut command = Command::new(PROGRAM);
        command.stdin(Stdio::null()).stderr(said.try_clone()?).stdout(said);
        let not_static =
            |error| io::Error::other(format!("the scheduler must be a static program: {error}"));
        command.spawn().map_err(not_static)
    }

    /// Switches it off. Returns what shows that it was on until now, in a sentence.
    pub(crate) fn stop(mut self) -> io::Result<String> {
        let state = text(STATE);
        let ops = text(OPS);
        if state != "enabled" || ops != self.ops {
            return Err(failed(&format!("the scheduler {} was thrown out ({state})", self.ops)));
        }
        let switches = switches()?.saturating_sub(self.switches);
        process::kill(Pid(self.child.id().cast_signed()), 2)?;
        self.child.wait()?;
        if !await_state("disabled", || true) {
            return Err(failed("the scheduler did not go off"));
        }
        Ok(format!(
            "sched_ext: the scheduler {ops} was on until the end of the run, and switched to init {switches} \
             times"
        ))
    }
}

/// Whether a scheduler comes on before its program ends.
fn comes_on(child: &mut Child) -> bool {
    await_state("enabled", || child.try_wait().is_ok_and(|ended| ended.is_none()))
}

/// Binds the kernel's thread that switches schedulers on to the first CPU; whether there is one.
fn bind_helper() -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let name = |folder: &Path| text(&folder.join("comm").to_string_lossy());
    let mut helpers = entries.map(|entry| entry.path()).filter(|path| is_helper(&name(path)));
    let pid = helpers.find_map(|folder| folder.file_name()?.to_str()?.parse().ok());
    let first = CpuSet::from_iter([Cpu(0)]);
    pid.is_some_and(|pid| sched::set_affinity(Pid(pid), &first).is_ok())
}

/// Whether a task of this name switches schedulers on.
fn is_helper(name: &str) -> bool {
    HELPERS.iter().any(|start| name.starts_with(start))
}

/// Waits for a state of sched_ext, as long as `goes_on` says so; whether it came.
fn await_state(wanted: &str, mut goes_on: impl FnMut() -> bool) -> bool {
    (0..LOOKS).any(|look| {
        if look > 0 {
            std::thread::sleep(LOOK);
        }
        text(STATE) == wanted || !goes_on()
    }) && text(STATE) == wanted
}

/// How often init was switched to, if sched_ext schedules it.
fn switches() -> io::Result<u64> {
    let told = text(INIT);
    match (value(&told, "ext.enabled"), value(&told, "nr_switches")) {
        (Some(1), Some(switches)) => Ok(switches),
        _ => Err(failed("the kernel does not tell that sched_ext schedules init")),
    }
}

/// A number of `/proc/PID/sched`: `name : 1`.
fn value(told: &str, name: &str) -> Option<u64> {
    let mut lines = told.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name)?.1.trim().parse().ok()
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// An error with the last that the scheduler printed.
fn failed(what: &str) -> io::Error {
    let said = text(SAID);
    let lines: Vec<&str> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(SHOWN)..].join(" / ");
    let last = if last.is_empty() { "nothing".to_owned() } else { last };
    io::Error::other(format!("{what}; it printed: {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_that_can_be_used_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("vmlinux");
        let kernel = Kernel { image, release: "6.12".to_owned(), config: None };
        let told = |name: &str| find(&kernel, name).unwrap_err().to_string();
        assert!(told("scx_simple").contains("vm:ext=scx_simple: no scheduler was built"));
        fs::create_dir(folder.path().join(FOLDER)).unwrap();
        fs::write(folder.path().join("ext/scx_qmap"), "program").unwrap();
        assert!(told("scx_simple").contains("use scx_qmap, or the path"), "{}", told("scx_simple"));
        assert_eq!(find(&kernel, "scx_qmap").unwrap(), b"program");
        assert_eq!(pack(b"program"), pack(b"program"));
        assert_eq!(pack(b"program").len() % 4, 0);
    }

    #[test]
    fn the_thread_that_switches_schedulers_on_is_found_by_its_name() {
        // 15 characters of a name were kept before Linux 5.17.
        assert!(is_helper("scx_ops_enable_helper") && is_helper("scx_ops_enable_"));
        assert!(!is_helper("sched_ext_ops_helper") && !is_helper("scheduler"));
    }

    #[test]
    fn what_the_kernel_tells_of_a_task_is_read_by_name() {
        let told = "init (1, #threads: 1)\n---\nnr_switches   :   42\next.enabled    :      1\n";
        assert_eq!((value(told, "nr_switches"), value(told, "ext.enabled")), (Some(42), Some(1)));
        assert_eq!(value(told, "switches"), None);
    }
}
