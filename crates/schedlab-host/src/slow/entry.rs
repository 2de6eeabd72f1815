//! What the program does when it re-executes itself for us, by its hidden first argument.

use super::{SlowError, Speed, burner, hogs, latency, meter, noise, probe, sentinel};
use schedlab_model::{Cpu, CpuSet, Nanos, Pid};
use schedlab_sys::process;
use schedlab_sys::signal::Signals;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;

/// The hidden first argument; the second says what to do.
pub const ARGUMENT: &str = "__slow";

/// What a child of ours does.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// Enter control groups and a network, bind to CPUs, and become the command that follows.
    Exec {
        /// The groups' directories.
        groups: Vec<PathBuf>,
        /// Where it may run; empty for anywhere.
        cpus: CpuSet,
        /// The network namespace's file.
        network: Option<PathBuf>,
        /// Files that it sees in place of others.
        shown: Vec<(PathBuf, PathBuf)>,
    },
    /// Burn real-time on the grid.
    Hogs {
        /// The grid's period.
        period: Nanos,
        /// The CPUs and their speeds.
        speeds: Vec<(Cpu, Speed)>,
        /// How.
        burning: hogs::Burning,
    },
    /// Burn always, as a fair task.
    Burn {
        /// The groups' directories.
        groups: Vec<PathBuf>,
        /// Where.
        cpu: Cpu,
    },
    /// Burn whenever nobody else wants to run.
    Fill {
        /// The groups' directories.
        groups: Vec<PathBuf>,
        /// Where.
        cpu: Cpu,
    },
    /// Work, and note how much at given moments.
    Meter(meter::Task),
    /// Burn in random bursts.
    Noise(super::Noise),
    /// Sleep again and again, and tell how late it woke.
    Sleeper {
        /// The groups' directories.
        groups: Vec<PathBuf>,
        /// Where.
        cpu: Cpu,
    },
    /// Tell in each second how much work a second of CPU time does.
    Sentinel {
        /// Where.
        cpus: CpuSet,
        /// Once it knows full speed, it must not lift the clock.
        clamped: bool,
    },
    /// Measure how fast a CPU is.
    Probe {
        /// The groups' directories.
        groups: Vec<PathBuf>,
        /// Where.
        cpu: Cpu,
        /// For how long.
        time: Nanos,
        /// Beginning at a multiple of this.
        align: Nanos,
        /// Above all fair tasks and below the hogs, so that other load is not measured.
        realtime: bool,
    },
}

impl Entry {
    /// A command that re-executes this program for the entry.
    pub(super) fn command(&self) -> Result<Command, SlowError> {
        let json = serde_json::to_string(self).expect("plain values");
        let mut command = Command::new(program()?);
        command.arg(ARGUMENT).arg(json);
        Ok(command)
    }

    /// The same for a child that works for us: no signal of the terminal reaches it, and it dies with us.
    pub(super) fn helper(&self) -> Result<Command, SlowError> {
        let mut command = self.command()?;
        process::own_session(&mut command);
        process::die_with_parent(&mut command);
        Ok(command)
    }
}

/// What a helper prints, once it has ended. A signal ends it, and the waiting, at once.
pub(super) fn printed(mut child: Child, signals: Option<Signals>) -> Result<Vec<u8>, SlowError> {
    let io = |e| SlowError::io("measuring", e);
    let mut stdout = child.stdout.take().expect("a helper's output is a pipe");
    let signal: Vec<BorrowedFd<'_>> = signals.iter().map(|signals| signals.fd()).collect();
    loop {
        let fds: Vec<BorrowedFd<'_>> = [&[stdout.as_fd()], &signal[..]].concat();
        let ready = process::poll(&fds, None).map_err(io)?;
        if ready[1..].contains(&true) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(SlowError::Interrupted);
        }
        if ready[0] {
            let mut all = Vec::new();
            stdout.read_to_end(&mut all).map_err(io)?;
            child.wait().map_err(io)?;
            return Ok(all);
        }
    }
}

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Names the program that answers to [`ARGUMENT`] (and to the guard's), once; by default it is this
/// one. A benchmark, which is a program of its own, names the built command.
pub fn set_program(path: PathBuf) {
    let _ = PROGRAM.set(path);
}

/// The program that is re-executed.
pub(super) fn program() -> Result<PathBuf, SlowError> {
    match PROGRAM.get() {
        Some(path) => Ok(path.clone()),
        None => schedlab_sys::process::this_program()
            .map_err(|e| SlowError::io("finding this program", e)),
    }
}

/// Performs a hidden entry: call it when the first argument is [`ARGUMENT`]. Returns the exit code.
#[must_use]
pub fn hidden(arguments: &[OsString]) -> u8 {
    let entry = arguments.get(2).and_then(|json| serde_json::from_str(json.to_str()?).ok());
    let code = match entry {
        Some(Entry::Exec { groups, cpus, network, shown }) => {
            let argv = arguments.get(3..).unwrap_or(&[]);
            exec(&groups, &cpus, network.as_deref(), &shown, argv)
        }
        Some(Entry::Hogs { period, speeds, burning }) => hogs::child(period, &speeds, &burning),
        Some(Entry::Burn { groups, cpu }) => burner::child(&groups, cpu),
        Some(Entry::Fill { groups, cpu }) => burner::filler(&groups, cpu),
        Some(Entry::Meter(task)) => meter::child(&task),
        Some(Entry::Sleeper { groups, cpu }) => latency::child(&groups, cpu),
        Some(Entry::Noise(noise)) => noise::child(&noise),
        Some(Entry::Sentinel { cpus, clamped }) => sentinel::child(&cpus, clamped),
        Some(Entry::Probe { groups, cpu, time, align, realtime }) => {
            probe::child(&groups, cpu, time, align, realtime)
        }
        None => 2,
    };
    u8::try_from(code).unwrap_or(1)
}

/// Puts this process into control groups and onto CPUs.
pub(super) fn enter(groups: &[PathBuf], cpus: &CpuSet) -> Result<(), SlowError> {
    for group in groups {
        let file = group.join("cgroup.procs");
        std::fs::write(&file, "0")
            .map_err(|e| SlowError::io(format!("entering {}", group.display()), e))?;
    }
    if !cpus.is_empty() {
        schedlab_sys::sched::set_affinity(Pid(0), cpus)
            .map_err(|e| SlowError::io(format!("binding to CPUs {cpus}"), e))?;
    }
    Ok(())
}

/// Exit codes as a shell has them: 127 when there is no such command, 126 when it can't be run.
fn exec(
    groups: &[PathBuf],
    cpus: &CpuSet,
    network: Option<&Path>,
    shown: &[(PathBuf, PathBuf)],
    argv: &[OsString],
) -> i32 {
    use std::io::Write;
    let mut stderr = std::io::stderr();
    let Some((program, arguments)) = argv.split_first() else { return 2 };
    let entered = enter(groups, cpus).and_then(|()| {
        let within = network.map_or(Ok(()), schedlab_sys::netns::enter);
        within.map_err(|e| SlowError::io("entering the network namespace", e))?;
        let shown = if shown.is_empty() { Ok(()) } else { schedlab_sys::mount::show(shown) };
        shown.map_err(|e| SlowError::io("showing the node in /proc/cpuinfo", e))
    });
    if let Err(error) = entered {
        let _ = writeln!(stderr, "schedlab: {error}");
        return 126;
    }
    let error = Command::new(program).args(arguments).exec();
    let _ = writeln!(stderr, "schedlab: can't run '{}': {error}", program.display());
    if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
}
