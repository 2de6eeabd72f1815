//! The spool directory: all that a recording is made of, written as it comes.
//!
//! `head.json` before the first event; `cpuN.ring` with the ring's bytes as the kernel wrote them;
//! `tasks` with names and allowed CPUs; `tail.json` at a clean end. Without the last one the
//! recording was cut, and is salvaged as far as it goes.

use super::RecordError;
use super::sample::SampleLayout;
use super::tracepoints::Tracepoint;
use schedlab_model::{Cpu, CpuSet, Nanos, Pid, Topology, Trigger, Warning};
use schedlab_sys::regular_file;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What the ring files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    Perf,
    /// Pages of an ftrace buffer.
    Ftrace,
}

/// What is known before the first event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) schema: u32,
    pub(crate) source: Source,
    /// The oldest events gave way on purpose: what is missing at the beginning is no loss.
    pub(crate) overwrites: bool,
    /// Only what led to its end is kept.
    #[serde(default)]
    pub(crate) is_snapshot: bool,
    /// The trace is to be written without compression.
    #[serde(default)]
    pub(crate) no_compress: bool,
    pub(crate) header_page: String,
    pub(crate) header_event: String,
    pub(crate) tracepoints: Vec<Tracepoint>,
    /// The requests that tracepoints begin and end.
    #[serde(default)]
    pub(crate) requests: Vec<super::request_probes::Probed>,
    pub(crate) cpus: CpuSet,
    pub(crate) topology: Option<Topology>,
    pub(crate) uname: String,
    pub(crate) page_size: u32,
    pub(crate) started: Nanos,
    /// The number of the hierarchy of control groups that divides CPU time; `None` where events name other paths.
    #[serde(default)]
    pub(crate) hierarchy: Option<u32>,
    /// How the stacks of programs are recorded.
    #[serde(default)]
    pub(crate) user_stacks: Option<schedlab_workload::UserStacks>,
    /// Whether stacks of tasks that wake others are recorded.
    #[serde(default)]
    pub(crate) wakers: bool,
    /// Whether stacks of tasks that run are recorded.
    #[serde(default)]
    pub(crate) running: bool,
    /// The tasks whose events alone are recorded; empty if all are.
    #[serde(default)]
    pub(crate) only: BTreeSet<Pid>,
}

impl Head {
    /// How the samples of perf are laid out.
    pub(crate) fn samples(&self) -> SampleLayout {
        let has_chain = self.tracepoints.iter().any(Tracepoint::is_stack);
        SampleLayout { has_task: self.user_stacks.is_some(), has_chain }
    }
}

/// What is known after the last event.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tail {
    pub(crate) stopped: Nanos,
    /// Records that did not fit into the rings, by CPU, by the kernel's own count; a CPU is missing
    /// where the kernel cannot tell.
    pub(crate) lost: BTreeMap<Cpu, u64>,
    /// What the way of recording costs the answers.
    pub(crate) doubts: Vec<Warning>,
    /// The wait that ended it.
    #[serde(default)]
    pub(crate) trigger: Option<Trigger>,
    /// What each hit of a request's probe took from its program.
    #[serde(default)]
    pub(crate) hit_cost: Option<super::request_probes::HitCost>,
    /// What recorded calls took from their tasks, if locks were recorded; 0 where it could not be measured.
    #[serde(default)]
    pub(crate) lock_cost: Option<super::lock_events::CallCost>,
}

/// What the watcher saw of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Seen {
    Allowed {
        pid: Pid,
        at: Nanos,
        cpus: CpuSet,
    },
    Named {
        pid: Pid,
        comm: schedlab_model::Comm,
    },
    /// It is in this control group. What the first look finds held before it, unless an event tells of a move.
    Member {
        pid: Pid,
        at: Nanos,
        group: String,
        /// Spools of older versions do not say: a task's first line is of its first look there.
        #[serde(default)]
        is_first: Option<bool>,
    },
    /// People call this control group so.
    Titled {
        group: String,
        title: String,
    },
    /// It is a thread of this process, and not its first one.
    Thread {
        pid: Pid,
        process: Pid,
    },
    /// A control group's counters say this; `count.group` means nothing.
    Counted {
        group: String,
        count: schedlab_model::Count,
    },
    /// A control group is allowed this; `limit.group` means nothing.
    Limited {
        group: String,
        limit: schedlab_model::Limit,
    },
    /// The machine's steal time, summed over CPUs.
    Stolen {
        at: Nanos,
        steal: Nanos,
    },
    Machine {
        knobs: BTreeMap<String, String>,
        preempt: Option<String>,
    },
    /// How many ticks there were until a time.
    Tick {
        at: Nanos,
        jiffies: u64,
    },
    Scheduled(schedlab_model::Scheduled),
}

impl Seen {
    /// The path of the control group that it is about.
    pub(crate) fn group(&self) -> Option<&str> {
        match self {
            Self::Member { group, .. }
            | Self::Titled { group, .. }
            | Self::Counted { group, .. }
            | Self::Limited { group, .. } => Some(group),
            _ => None,
        }
    }
}

pub(crate) const SCHEMA: u32 = 1;

pub(crate) fn head(dir: &Path) -> PathBuf {
    dir.join("head.json")
}

pub(crate) fn tail(dir: &Path) -> PathBuf {
    dir.join("tail.json")
}

pub(crate) fn tasks(dir: &Path) -> PathBuf {
    dir.join("tasks.jsonl")
}

/// Marks that programs wrote into `trace_marker`, as `mark_file` keeps them.
pub(crate) fn written_marks(dir: &Path) -> PathBuf {
    dir.join("heard")
}

/// What the kernel counted for tasks.
pub(crate) fn counters(dir: &Path) -> PathBuf {
    dir.join("counters.json")
}

/// A copy of `/proc/kallsyms`, where stacks are recorded.
pub(crate) fn symbols(dir: &Path) -> PathBuf {
    dir.join("kallsyms")
}

/// What processes had mapped when the recording began.
pub(crate) fn maps(dir: &Path) -> PathBuf {
    dir.join("maps.jsonl")
}

/// What they have mapped at its end, where the begin is not kept.
pub(crate) fn maps_at_end(dir: &Path) -> PathBuf {
    dir.join("maps-end.jsonl")
}

/// The program's part of the stacks of a CPU's samples.
pub(crate) fn chains(dir: &Path, cpu: Cpu) -> PathBuf {
    dir.join(format!("cpu{cpu}.chains"))
}

pub(crate) fn records(dir: &Path, cpu: Cpu) -> PathBuf {
    dir.join(format!("cpu{cpu}.ring"))
}

pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), RecordError> {
    let text = serde_json::to_vec(value).expect("plain values can be written as JSON");
    write_bytes(path, &text)
}

/// Writes a file of the spool anew. After a kill there is the old one or the new one.
pub(crate) fn replace<T: Serialize>(path: &Path, value: &T) -> Result<(), RecordError> {
    let new = path.with_added_extension("new");
    write(&new, value)?;
    std::fs::rename(&new, path).map_err(RecordError::file(path))
}

/// Puts a file into the spool.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    create(path)?.write_all(bytes).map_err(RecordError::file(path))
}

/// Begins a file of the spool.
pub(crate) fn create(path: &Path) -> Result<File, RecordError> {
    // Plain: the folder is private, and what is cut is salvaged.
    File::create(path).map_err(RecordError::file(path))
}

pub(crate) fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, RecordError> {
    let bytes =
        regular_file::read(path, regular_file::TEXT_MAX).map_err(RecordError::file(path))?;
    serde_json::from_slice(&bytes).map_err(|error| RecordError::Spool {
        path: path.to_owned(),
        what: format!("not a spool file of schedlab: {error}"),
    })
}

/// Names and allowed CPUs; a line that was cut ends them.
pub(crate) fn read_tasks(dir: &Path) -> Result<Vec<Seen>, RecordError> {
    let text = read_if_there(&tasks(dir))?;
    let lines = text.split(|&byte| byte == b'\n');
    Ok(lines.map_while(|line| serde_json::from_slice(line).ok()).collect())
}

/// The bytes of a file of the spool. One that is not there was not begun.
pub(crate) fn read_if_there(path: &Path) -> Result<Vec<u8>, RecordError> {
    match regular_file::read(path, regular_file::TEXT_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(RecordError::file(path)),
    }
}
