//! Graphs of jobs on any machine: workers as tasks ([`Workers`]), and what a run tells.
//!
//! The host hands a plan's graph to an executor instead. schedlab's pool there is the fast path of the same life: its
//! threads follow the same policy, and none of its steps is asked of a behaviour.

mod figures;
mod workers;

pub use figures::{figures, samples};
pub use workers::{Rules, Workers, worker};
