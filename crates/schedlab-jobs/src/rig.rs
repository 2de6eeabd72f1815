//! The rig: questions put to an executor by running graphs on it.

mod breaking;
mod grain;
mod queueing;
mod replay;
mod stall_shadow;
mod waits;

pub use breaking::{BreakingPoint, Probe, Thresholds, breaking_point};
pub use grain::{GrainPoint, Jobs, grain_at, metg};
pub use queueing::waiting;
pub use replay::replay;
pub use stall_shadow::{Shadow, Stall};
pub use waits::{Cause, Ran, Slept, Wait, waits, waits_of};
