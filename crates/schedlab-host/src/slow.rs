//! CPUs at any speed.
//!
//! A *speed* is the fraction of full speed at which a CPU is made to work. No method but a change of
//! the clock makes instructions slower: all others take the CPU away for a part of the time, and differ
//! in who loses it and when. In the words of the literature:
//!
//! - **hogs** (CPU-Hogs): on every slowed CPU a real-time thread burns the rest of each short slot of
//!   time. All CPUs, and all processes that do the same, share one grid of slots on `CLOCK_MONOTONIC`,
//!   and burn at the same pseudo-random place of the slot (`grid`). Everything that runs on the CPU is slowed:
//!   threads that meet at barriers stay in step, and sleeping does not save up credit.
//! - **stop** (CPU-Lim): a process whose CPU time over its lifetime is above the speed is stopped, and
//!   let go on when it is below. A limit on each process, not a speed of a CPU.
//! - **weight** (Fracas): the tasks' control group against burners of the rest of the weight.
//! - **quota**: the budget of CPU time that a control group has in each period. Work that sleeps, or one
//!   thread among several CPUs, is not slowed by it.
//! - **freq** (CPU-Freq) and **gov** (CPU-Gov): the clock itself, at one of its levels or alternating
//!   between two neighbours. Memory and devices stay fast, as they would on a slower CPU.
//!
//! - **deadline**: burners of `SCHED_DEADLINE`, kept to their part of each period by the kernel itself.
//! - **uclamp**: a hint to the governor `schedutil` of how much capacity a group needs.
//!
//! A request is checked as a whole before anything is changed; every change is journalled in the guard
//! first, so that it is undone when the controller dies. What was applied is measured, never believed.

mod apply;
mod bandwidth;
mod budget_change;
mod burner;
mod capabilities;
mod child_entry;
mod child_main;
mod clamp;
mod clock_speed;
mod control;
mod cpu_claims;
mod deadline;
mod follow;
pub(crate) mod frequency;
mod grid;
mod group;
mod helper_process;
pub(crate) mod hogs;
mod idle;
mod journal;
mod latency;
mod links;
mod measure;
mod method;
mod node_groups;
mod node_view;
mod noise;
mod probe;
pub(crate) mod quota;
mod request;
mod session;
mod settings;
mod slices;
mod stop;
mod switching;
mod target;
mod unslowed_tasks;
mod weight;

pub(crate) use capabilities::CAP_SYS_NICE;
pub use capabilities::{Support, last};
pub use child_entry::ARGUMENT;
pub use child_main::hidden;
pub use clock_speed::{assignment, speed_of};
pub use control::{NodeStatus, Order, Status, ask, sessions};
pub use cpu_claims::{OthersSession, free, sessions_of_others};
pub use follow::Period;
pub(crate) use grid::Grid;
pub use latency::{Lateness, Wakeups};
pub use measure::Measured;
pub(crate) use method::choose;
pub use method::{METHODS, Method};
pub(crate) use probe::takes_realtime;
pub use request::{Plan, Request};
pub(crate) use session::BackgroundSession;
pub use session::{Ended, Session};
pub use settings::offered;
pub(crate) use settings::{Slowed, check, hold};
pub use target::{Found, Target};

use schedlab_model::Pid;
use schedlab_sys::guard::{Guard, StepId, Undo};
pub use schedlab_workload::{Assignment, Change, Node, Noise, Speed, Speeds, Step, speeds};

/// Why CPUs are not slowed.
#[derive(Debug, thiserror::Error)]
pub enum SlowError {
    /// The request makes no sense here; nothing was changed.
    #[error("{0}")]
    Usage(String),
    /// A right or a facility is missing; nothing was changed.
    #[error("{0}")]
    Missing(String),
    /// A signal came while it was measured how fast CPUs are; what was changed was put back.
    #[error("interrupted before anything ran")]
    Interrupted,
    /// A helper process failed; what was changed was put back.
    #[error("{0}")]
    Failed(String),
    /// The system refused; what was changed was put back.
    #[error("{doing}: {error}")]
    Io {
        doing: String,
        #[source]
        error: std::io::Error,
    },
}

impl SlowError {
    fn io(doing: impl Into<String>, error: std::io::Error) -> Self {
        Self::Io { doing: doing.into(), error }
    }
}

/// Journals how a change is undone that is about to be made.
fn journalled(guard: &mut Guard, undo: Undo) -> Result<StepId, SlowError> {
    guard.before(undo).map_err(|e| SlowError::io("writing the journal", e))
}

/// Journals the end of a child. Until this is written the child's own death signal covers it.
fn journal_kill(guard: &mut Guard, child: &std::process::Child) -> Result<(), SlowError> {
    let pid = Pid(child.id().cast_signed());
    let Some(started) = schedlab_sys::process::start_ticks(pid) else { return Ok(()) };
    journalled(guard, Undo::Kill { pid, started }).map(drop)
}

/// Waits for what a machine that stalls does late, and fails if it never comes.
#[cfg(test)]
fn until(mut holds: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < std::time::Duration::from_secs(120), "it never came");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
