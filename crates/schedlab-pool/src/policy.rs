//! The policy: the order of jobs, when one is late, what a worker does next and whom to wake. It is told the time.

mod core;
mod parking;
mod release;
mod streams;
mod timed;
mod turn;

pub(crate) use self::core::{Core, Hooks};
pub use self::core::{Late, LateJob};
pub(crate) use turn::WorkerState;
