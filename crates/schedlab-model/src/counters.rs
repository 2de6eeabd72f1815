//! What the kernel counts for tasks, beside the events.

use crate::{Nanos, Pid};
use serde::{Deserialize, Serialize};

/// What the kernel counted for a task between two readings (`/proc/PID/schedstat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Counted {
    /// The task (thread).
    pub pid: Pid,
    /// When it was read first; `None` for a task that was created later, whose counters began at zero.
    pub from: Option<Nanos>,
    /// When it was read last.
    pub to: Nanos,
    /// How long it ran.
    pub ran: Nanos,
    /// How long it waited for a CPU.
    pub waited: Nanos,
    /// How often it came to run.
    pub arrivals: u64,
}
