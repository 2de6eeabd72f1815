//! What the threads of a recording share: when to stop, how much there is, and why it ended.

use super::RecordError;
use schedlab_model::{Cpu, Nanos, Pid};
use schedlab_sys::{process, sched};
use std::fmt;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::JoinHandle;

/// A wait beyond the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spike {
    /// The task that waited.
    pub(crate) pid: Pid,
    /// The time at which the wait began.
    pub(crate) since: Nanos,
    /// The length of the wait so far; the wait can be longer if `cpu` is `None`.
    pub(crate) waited: Nanos,
    /// The CPU on which it ran at last; `None` when the wait had not ended.
    pub(crate) cpu: Option<Cpu>,
}

/// A request beyond the bound: from the begin of a mark to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// The task that put the end; while there is no end, the task that put the begin.
    pub(crate) pid: Pid,
    /// The time at which the request began.
    pub(crate) since: Nanos,
    /// The length of the request, up to its end or up to now.
    pub(crate) took: Nanos,
    /// Whether the request had ended when it was found.
    pub(crate) is_over: bool,
}

/// Why a recording ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its size was reached.
    Full,
    /// A task waited longer than the bound of the snapshot.
    Spike(Spike),
    /// A request took longer than the bound of the snapshot.
    Overrun(Overrun),
}

/// The sentence that says why.
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spike = match self {
            Self::Full => return f.write_str("the recording ended at its size limit"),
            Self::Overrun(Overrun { pid, took, is_over, .. }) => {
                let end = if *is_over { "ended by" } else { "not ended yet, begun by" };
                return write!(f, "a request took {took}, {end} task {pid}");
            }
            Self::Spike(spike) => spike,
        };
        write!(f, "task {}", spike.pid)?;
        if let Some(comm) = process::comm(spike.pid) {
            let text: Vec<u8> = comm.into_iter().take_while(|byte| *byte != 0).collect();
            write!(f, " ({})", String::from_utf8_lossy(&text))?;
        }
        let end = if spike.cpu.is_some() { "" } else { ", and it still waits" };
        write!(f, " was runnable for {} without running{end}", spike.waited)
    }
}

/// What the recorder's threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    /// Bytes of records spooled so far.
    pub(crate) bytes: AtomicU64,
    /// Until when (monotonic) all marks of programs have been put; [`u64::MAX`] where nobody listens to them.
    pub(crate) heard_until: AtomicU64,
    /// Set once, when it ended by itself.
    pub(crate) ended: OnceLock<Ended>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            stop: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            heard_until: AtomicU64::new(u64::MAX),
            ended: OnceLock::new(),
        }
    }
}

/// The name of a thread that empties rings, as events carry it.
pub(crate) const RECORDER: &str = "sl-recorder";

/// Starts a thread of the recorder.
pub(crate) fn spawn(
    name: &str,
    body: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<JoinHandle<io::Result<()>>, RecordError> {
    let thread = std::thread::Builder::new().name(format!("sl-{name}"));
    thread.spawn(body).map_err(RecordError::io("starting a recorder thread"))
}

/// Gives the calling thread weight: among a thousand runnable tasks a thread of none would come too
/// late. Where the right is missing, the ring has to be large enough.
pub(crate) fn be_prompt() {
    let _ = sched::set(Pid(0), &sched::Policy::Normal { nice: -20 }.into());
}
