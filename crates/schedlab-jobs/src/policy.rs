//! The scheduling policy as a state machine that is fed with time. It starts no thread and reads no
//! clock: the pool's threads are one driver, [`crate::virtual_time`] is another, and both run the same
//! [`Agenda`].
//!
//! ```text
//!  post, plan ──> entrance (driver) ──> Agenda: [ gates ] ─> [ future: by start ] ─> [ ready: by rule ]   (twice:
//!                                          ^                                              │ pull
//!                                          └────────────── finish <── worker <────────────┘     compulsory first)
//! ```
//!
//! All management is done by the one that holds the one token, a worker that asks for its next job:
//! taking in what was posted, opening the gates of successors, the tick, and the pull. The token
//! is the driver's affair; the agenda is plain data behind it.
//!
//! The constants are those of Lumiera's scheduler where a name says so; each rule can be replaced
//! for an ablation.

mod agenda;
mod backoff;
mod cpus;
mod load;
mod ordered_queue;
mod pull;
mod ready_queue;
mod record;

pub use agenda::{Agenda, Counts, Finished, Outcome, Plan, Posting};
pub(crate) use backoff::Ladder;
pub use backoff::Pause;
pub use cpus::Cpus;
pub use load::Distance;
pub use pull::{Asker, Pull, Pulled, Verdict};
pub use record::{Criticality, JobId, StreamId};

/// Time since the executor's origin, in nanoseconds.
pub type Nanos = u64;

/// A deadline or start that never comes.
pub const NEVER: Nanos = Nanos::MAX;

const MICRO: Nanos = 1_000;
const MILLI: Nanos = 1_000_000;

/// Which of the jobs that are due goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Order {
    /// The one that should have started first (the original's rule).
    #[default]
    Start,
    /// The one with the earliest deadline.
    Deadline,
    /// The one with the least time to spare: deadline less expected length.
    Laxity,
    /// The one with the longest path of work behind it, within its plan: the critical path first
    /// (Hu, "Parallel sequencing and assembly line problems", 1961).
    Path,
}

/// How the contention ladder steps down after a success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Step {
    /// Half the level (the original since April 2024).
    #[default]
    Halving,
    /// One level (the original before).
    Linear,
    /// No ladder at all: try again at once.
    None,
}

/// What happens when a compulsory job missed its deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Emergency {
    /// It runs late; every optional job that is due is shed.
    #[default]
    Shed,
    /// It runs late; nothing else changes.
    RunLate,
    /// It is dropped, with all that depends on it.
    Drop,
}

/// Every constant and rule of the policy.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Policy {
    /// How many workers there are at most, at least 1.
    pub workers: usize,
    /// Where the workers run.
    pub cpus: Cpus,
    /// Which due job goes first.
    pub order: Order,
    /// How contention is forgotten.
    pub step: Step,
    /// What a missed compulsory job brings about.
    pub emergency: Emergency,
    /// Whether a worker that leaves due work, or a head that nobody tends, wakes a sleeper. Off: sleepers
    /// wake by their timers only (the original's rule).
    pub notify: bool,
    /// A head farther away than this leaves workers idle. Lumiera: 20 ms.
    pub sleep_horizon_ns: Nanos,
    /// A head farther away than this is no concern of an incoming worker. Lumiera: 5 ms.
    pub work_horizon_ns: Nanos,
    /// A head nearer than this is spun for, not slept for. Lumiera: 50 µs.
    pub near_horizon_ns: Nanos,
    /// Time between ticks. Lumiera: 50 ms.
    pub tick_ns: Nanos,
    /// Nanoseconds for which a worker without work asks again and again before it sleeps.
    pub linger_ns: Nanos,
    /// A pull takes several jobs when they are so short that together they take about this long; 0
    /// takes one job a pull, as the original does.
    pub batch_ns: Nanos,
    /// The largest number of jobs that a pull takes.
    pub batch_max: usize,
}

impl Policy {
    /// The usual policy for `workers` workers.
    pub fn new(workers: usize) -> Self {
        Self {
            workers: workers.max(1),
            cpus: Cpus::default(),
            order: Order::default(),
            step: Step::default(),
            emergency: Emergency::default(),
            notify: true,
            sleep_horizon_ns: 20 * MILLI,
            work_horizon_ns: 5 * MILLI,
            near_horizon_ns: 50 * MICRO,
            tick_ns: 50 * MILLI,
            linger_ns: 20 * MICRO,
            batch_ns: 20 * MICRO,
            batch_max: 64,
        }
    }
}
