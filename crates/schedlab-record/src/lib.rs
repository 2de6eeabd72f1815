//! Recording: scheduler events of every CPU into a `trace.dat`.
//!
//! A [`Recorder`] has the kernel write into one ring for each CPU, and its threads copy what is there
//! into one spool file for each CPU: nothing is decoded while the workload runs. [`stitch`] turns a
//! spool directory into a trace.dat; since all that it needs lies in that directory, a recording whose
//! process was killed can be salvaged in the same way.
//!
//! The rings are those of perf events, or the pages of an ftrace instance. Beside the events, a
//! watcher keeps what they do not say: names and allowed CPUs of tasks.

mod conditions;
mod containers;
mod copy;
mod counters;
mod error;
mod ftrace;
mod function_names;
mod groups;
mod hit_cost;
mod hits;
mod jit_names;
pub mod live;
mod lock_events;
pub mod mark_file;
mod options;
mod programs;
mod queued;
mod recorder;
mod request_probes;
mod requests;
mod rings;
mod sample;
mod shared;
mod snapshot;
mod spaces;
mod spool;
mod stacks;
mod stitch;
mod symbols;
mod trace_marker;
mod tracepoints;
mod unwind;
mod user_stacks;
mod watch;

pub use error::RecordError;
pub use function_names::{names_here, names_here_and_in};
pub use options::{Filter, Full, Options, Snapshot, UserStacks, Via, Watched};
pub use recorder::Recorder;
pub use request_probes::list as requestable;
pub use shared::{Ended, Overrun, Spike};
pub use stitch::stitch;

/// The directory in which the recording for `target` grows: the trace's name and `.spool`, beside it; in the working
/// directory where the target is a pipe or a device.
#[must_use]
pub fn spool_of(target: &std::path::Path) -> std::path::PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".spool");
    let is_stream = std::fs::metadata(target).is_ok_and(|it| !it.is_file() && !it.is_dir());
    if is_stream { name.into() } else { target.with_file_name(name) }
}

use schedlab_model::{Cpu, Nanos, Phase, Pid};

/// A user's mark, taken by the workload on the clock of the trace (`CLOCK_MONOTONIC`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub time: Nanos,
    /// On which CPU the task ran then.
    pub cpu: Cpu,
    /// The task that put the mark.
    pub pid: Pid,
    /// The name of the mark, as an index into [`Marks::names`].
    pub id: u32,
    /// Begin, end or point.
    pub phase: Phase,
    /// The number of the request that it begins or ends, among those of this name; 0 is none.
    pub request: u32,
}

/// User marks to merge into a trace.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Names, by the id that marks carry.
    pub names: Vec<String>,
    /// The marks, in any order.
    pub marks: Vec<Mark>,
}

/// Bytes of each CPU's ring when nothing else is asked: about 60,000 events, or a fifth of a second
/// of a CPU that does nothing but switch.
pub(crate) const RING_BYTES: u64 = 4 << 20;
