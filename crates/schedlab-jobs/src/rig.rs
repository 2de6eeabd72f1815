//! The rig: questions put to an executor by running graphs on it.

mod breaking;
mod grain;
mod late;
mod queueing;
mod replay;
mod stall_shadow;

pub use crate::waits::{Cause, Ran, Wait, waits};
pub use breaking::{BreakingPoint, Probe, Thresholds, breaking_point};
pub use grain::{Jobs, metg};
pub use late::waits_of;
pub use queueing::waiting;
pub use replay::replay;
pub use stall_shadow::{Stall, UnstalledLateness};
