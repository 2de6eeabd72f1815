//! What a child of ours is asked to do, when the program re-executes itself for us with a hidden first argument.

use super::{Noise, SlowError, Speed};
use schedlab_model::{Cpu, CpuSet, Nanos, Pid};
use schedlab_sys::process;
use schedlab_sys::signal::Signals;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::{Child, Command};

/// The hidden first argument; the second says what to do.
pub const ARGUMENT: &str = "__slow";

/// What a child of ours does.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// Enter control groups and a network, bind to CPUs, and become the command that follows.
    Exec {
        /// The directories of the groups to enter.
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
        /// The period of the grid, in nanoseconds.
        period: Nanos,
        /// The CPUs and their speeds.
        speeds: Vec<(Cpu, Speed)>,
        /// How the hogs burn.
        burning: Burning,
    },
    /// Burn always, as a fair task.
    Burn {
        /// The directories of the groups to enter.
        groups: Vec<PathBuf>,
        /// The CPU to run on.
        cpu: Cpu,
    },
    /// Burn whenever nobody else wants to run.
    Fill {
        /// The directories of the groups to enter.
        groups: Vec<PathBuf>,
        /// The CPU to run on.
        cpu: Cpu,
    },
    /// Burn in random bursts.
    Noise(Noise),
    /// Sleep again and again, and tell how late it woke.
    Sleeper {
        /// The directories of the groups to enter.
        groups: Vec<PathBuf>,
        /// The CPU to run on.
        cpu: Cpu,
    },
    /// Measure how fast a CPU is.
    Probe {
        /// The directories of the groups to enter.
        groups: Vec<PathBuf>,
        /// The CPU to run on.
        cpu: Cpu,
        /// The time for which it runs.
        time: Nanos,
        /// Beginning at a multiple of this.
        align: Nanos,
        /// Above all fair tasks and below the hogs, so that other load is not measured.
        realtime: bool,
    },
}

/// The way in which hogs burn their part of a slot.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Burning {
    /// On the grid, as real-time threads.
    Grid,
    /// As deadline tasks, which the kernel keeps to their part.
    Deadline {
        /// The control group that they enter first.
        group: Option<PathBuf>,
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

/// The program that is re-executed.
pub(super) fn program() -> Result<PathBuf, SlowError> {
    process::this_program().map_err(|e| SlowError::io("finding this program", e))
}

/// Puts this process into control groups and onto CPUs.
pub(super) fn enter(groups: &[PathBuf], cpus: &CpuSet) -> Result<(), SlowError> {
    for group in groups {
        let file = group.join("cgroup.procs");
        schedlab_sys::kernel_file::write(&file, "0")
            .map_err(|e| SlowError::io(format!("entering {}", group.display()), e))?;
    }
    if !cpus.is_empty() {
        schedlab_sys::sched::set_affinity(Pid(0), cpus)
            .map_err(|e| SlowError::io(format!("binding to CPUs {cpus}"), e))?;
    }
    Ok(())
}
