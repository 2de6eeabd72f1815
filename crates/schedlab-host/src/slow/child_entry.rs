//! What a child of ours is asked to do, when the program re-executes itself for us with a hidden first argument.

use super::{Noise, SlowError, Speed};
use schedlab_model::{Cpu, CpuSet, Nanos, Pid};
use schedlab_sys::process;
use schedlab_sys::signal::Signals;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The hidden first argument; the second says what to do.
pub const ARGUMENT: &str = "__slow";

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// Enter control groups and a network, bind to CPUs, and become the command that follows.
    Exec {
        groups: Vec<PathBuf>,
        cpus: CpuSet,
        network: Option<PathBuf>,
        /// Files that it sees in place of others.
        shown: Vec<(PathBuf, PathBuf)>,
    },
    Hogs {
        period: Nanos,
        speeds: Vec<(Cpu, Speed)>,
        burning: Burning,
    },
    /// Burn always, as a fair task.
    Burn {
        groups: Vec<PathBuf>,
        cpu: Cpu,
    },
    /// Burn whenever nobody else wants to run.
    Fill {
        groups: Vec<PathBuf>,
        cpu: Cpu,
    },
    Noise(Noise),
    /// Sleep again and again, and tell how late it woke.
    Sleeper {
        groups: Vec<PathBuf>,
        cpu: Cpu,
    },
    Probe {
        cpu: Cpu,
        probe: Probe,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Burning {
    Grid,
    /// As deadline tasks, which the kernel keeps to their part.
    Deadline {
        group: Option<PathBuf>,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Probe {
    pub(super) groups: Vec<PathBuf>,
    pub(super) time: Nanos,
    /// It begins at a multiple of this: with whole slots of a grid nothing is cut off.
    pub(super) align: Nanos,
    /// As a real-time thread below the hogs, so that other load on the CPU is not measured.
    pub(super) realtime: bool,
}

impl Entry {
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

/// What children print as JSON, which work at the same time; `None` for one that failed.
pub(super) fn answers<T: DeserializeOwned>(
    entries: impl Iterator<Item = Entry>,
    signals: Option<Signals>,
) -> Result<Vec<Option<T>>, SlowError> {
    let start = |entry: Entry| {
        let mut command = entry.helper()?;
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.spawn().map_err(|e| SlowError::io("starting a child that measures", e))
    };
    let children: Vec<Child> = entries.map(start).collect::<Result<_, SlowError>>()?;
    let answer = |child| Ok(serde_json::from_slice(&printed(child, signals)?).ok());
    children.into_iter().map(answer).collect()
}

/// Prints what was measured, as JSON; the exit code.
pub(super) fn answer(measured: &impl Serialize) -> i32 {
    let text = serde_json::to_string(measured).expect("plain values");
    i32::from(writeln!(std::io::stdout(), "{text}").is_err())
}

/// What a helper prints, once it has ended. A signal ends it, and the waiting, at once.
fn printed(mut child: Child, signals: Option<Signals>) -> Result<Vec<u8>, SlowError> {
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

pub(super) fn program() -> Result<PathBuf, SlowError> {
    process::this_program().map_err(|e| SlowError::io("finding this program", e))
}

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
