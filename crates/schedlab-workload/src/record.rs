//! What to record beside a run, and when to end it.

use crate::requested::Requested;
use schedlab_model::{Cpu, Nanos, Pid, Span, Warning};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Through which interface of the kernel.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Ftrace, which costs the machine least; perf events where tracefs cannot be written.
    #[default]
    Auto,
    /// Perf events: one ring for each CPU.
    Perf,
    /// The pages of an ftrace instance of our own.
    Ftrace,
}

impl Via {
    /// As it is written: `auto`, `perf`, `ftrace`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Perf => "perf",
            Self::Ftrace => "ftrace",
        }
    }
}

/// What happens when a size is reached.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Full {
    /// The recording ends if the buffer is full.
    #[default]
    Stop,
    /// The oldest events give way: the end of the recording is kept, in memory until it stops.
    Overwrite,
}

/// Keep only what led to a long wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// A task that was runnable for at least this long without running ends the recording.
    pub bound: Nanos,
    /// How much of the time before is kept.
    pub keep: Nanos,
}

/// A filter of the kernel's for one event.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// The name of the event.
    pub event: String,
    /// The kernel's expression on its fields: `next_prio < 100 && next_pid != 7`.
    pub expression: String,
}

/// Reads the form `EVENT: EXPRESSION`.
impl FromStr for Filter {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once(':').map(|(event, expression)| (event.trim(), expression.trim()));
        match parts {
            Some((event, expression)) if !event.is_empty() && !expression.is_empty() => {
                Ok(Self { event: event.into(), expression: expression.into() })
            }
            _ => Err(format!(
                "invalid filter '{text}': use EVENT: EXPRESSION, as in 'sched_switch: next_prio \
                 < 100'"
            )),
        }
    }
}

/// Tasks that a snapshot watches.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Watched {
    /// The task (thread) with this number.
    Pid(Pid),
    /// Tasks with exactly this name.
    Comm(String),
    /// Tasks in this control group and the groups below it.
    Cgroup(String),
}

/// Reads the form `pid=N`, `comm=NAME` or `cgroup=PATH`.
impl FromStr for Watched {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("invalid '{text}': use pid=N, comm=NAME or cgroup=PATH");
        match text.split_once('=') {
            Some(("pid", pid)) => {
                let pid = pid.parse().ok().filter(|pid| *pid > 0);
                Ok(Self::Pid(Pid(pid.ok_or_else(wrong)?)))
            }
            Some(("comm", name)) if !name.is_empty() => Ok(Self::Comm(name.to_owned())),
            Some(("cgroup", path)) if path.starts_with('/') => Ok(Self::Cgroup(path.to_owned())),
            _ => Err(wrong()),
        }
    }
}

/// What to record, through what, and when to end.
#[derive(Clone, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordSpec {
    /// Tracepoints beyond the scheduler's, as `system` or `system:name`.
    pub events: Vec<String>,
    /// Bytes of each CPU's ring; 0 for the recorder's default.
    pub ring_bytes: u64,
    /// The interface of the kernel to record through.
    #[serde(default, skip_serializing_if = "is_default")]
    pub via: Via,
    /// Only events that concern these tasks; empty for all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pids: Vec<Pid>,
    /// Filters for single events.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filters: Vec<Filter>,
    /// Bytes of records, over all CPUs, to keep at most.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit_bytes: Option<u64>,
    /// What happens at that limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub full: Full,
    /// Keep only what led to a long wait.
    #[serde(default, skip_serializing_if = "is_default")]
    pub snapshot: Option<Snapshot>,
    /// The tasks whose waits [`Snapshot::bound`] limits; empty for all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub watch: Vec<Watched>,
    /// The name of the marks whose requests [`Snapshot::bound`] limits, in place of waits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub between: Option<String>,
    /// Record only for this long; the load goes on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub time: Option<Nanos>,
    /// Whether to keep knobs, tick and preemption at the start, and how each task is scheduled.
    #[serde(default, skip_serializing_if = "is_default")]
    pub conditions: bool,
    /// Whether to keep the kernel's call stacks of tasks that leave their CPUs to sleep.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stacks: bool,
    /// Whether to keep the program's call stacks of these tasks, and how.
    #[serde(default, skip_serializing_if = "is_default")]
    pub user_stacks: Option<UserStacks>,
    /// Whether to keep the same stacks of tasks that wake others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wakers: bool,
    /// Whether to keep the same stacks of tasks that run, at each tick.
    #[serde(default, skip_serializing_if = "is_default")]
    pub running: bool,
    /// Whether to keep who waits for locks: futex calls, and contention for the kernel's own locks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub locks: bool,
    /// Whether to keep, as marks, what programs write into `trace_marker`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trace_marker: bool,
    /// Whether the trace is written without compression, in version 6, which also trace-cmd before 3.0 reads.
    #[serde(default, skip_serializing_if = "is_default")]
    pub no_compress: bool,
    /// Requests of programs that write no marks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requests: Vec<Requested>,
    /// Whether the run is worth nothing without its trace: then it is not begun without the right.
    #[serde(default, skip_serializing_if = "is_default")]
    pub required: bool,
}

/// How the call stacks of programs are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserStacks {
    /// Bytes of each stack that are copied, to be unwound when the recording ends. With 0 the kernel follows frame
    /// pointers.
    pub copy_bytes: u32,
}

/// What a recording holds, as its machine counted it.
#[derive(Clone, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Recorded {
    /// How the events were recorded: `perf`, `ftrace`, `exact`.
    pub via: String,
    /// Records by CPU and event name.
    pub per_cpu: BTreeMap<Cpu, BTreeMap<String, u64>>,
    /// Records that could not be kept, by CPU; CPUs that lost none are not in it.
    pub lost: BTreeMap<Cpu, u64>,
    /// Time of the first and after the last record.
    pub span: Option<Span>,
    /// The requests that were asked for, as they were seen.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requests: Vec<RecordedRequest>,
    /// The call stacks of programs, if they were asked for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub user_stacks: Option<RecordedStacks>,
    /// What was recorded of locks, if that was asked for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub locks: Option<RecordedLocks>,
    /// What is wrong with the recording.
    pub warnings: Vec<Warning>,
}

/// What a recording saw of the call stacks of programs ([`UserStacks`]).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize,
)]
pub struct RecordedStacks {
    /// Sleeps whose stack is known up to the outermost function of the program.
    pub whole: u64,
    /// Sleeps whose stack ends early.
    pub cut: u64,
    /// What all events took in the rings.
    pub ring_bytes: u64,
}

/// What a recording holds of locks, and what that took.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize,
)]
pub struct RecordedLocks {
    /// Futex calls.
    pub calls: u64,
    /// How often a task met a lock of the kernel that another held.
    pub contentions: u64,
    /// What the records of both took in the rings.
    pub bytes: u64,
    /// What a recorded futex call cost its task more than one that is not, as measured at the start; `None` if it was not.
    pub call_ns: Option<Nanos>,
    /// The same of any other system call: with such tracepoints on, each takes a slower way.
    pub other_call_ns: Option<Nanos>,
}

/// What a recording saw of one kind of request ([`Requested`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// The name of its marks.
    pub name: String,
    /// How often its begin was met.
    pub begun: u64,
    /// How often its end was met.
    pub ended: u64,
    /// What all of these took from the programs, by what one was measured to cost; `None` if that is not known.
    pub hits_ns: Option<Nanos>,
}

impl Recorded {
    /// Records by event name over all CPUs.
    #[must_use]
    pub fn events(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (name, count) in self.per_cpu.values().flatten() {
            *all.entry(name.clone()).or_default() += count;
        }
        all
    }

    /// Records lost over all CPUs.
    #[must_use]
    pub fn lost_total(&self) -> u64 {
        self.lost.values().sum()
    }
}

impl From<&Self> for RecordSpec {
    fn from(spec: &Self) -> Self {
        spec.clone()
    }
}

/// What was not asked for is not part of a run's identity.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
