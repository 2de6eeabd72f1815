//! What if: a recorded trace becomes a demand, any machine performs it again, and the runs are laid side by side.
//!
//! [`Infer`] is a question to a trace ([`schedlab_timeline::ask`]). Its answer holds a
//! [`schedlab_workload::demand::Demand`] and what that rests on. The workload `replay` performs a demand. [`Side`] is
//! what one run of it did, [`parting`] the first moment at which two runs differ. `docs/replay.md` has the rules.
//!
//! Invariant: pure; no clock, no files, no hash order. Memory grows with the trace, since a demand holds every burst.

mod basis;
pub mod calibration;
mod call_tracking;
mod calls;
mod export;
mod hrtimers;
mod infer;
mod memory_source;
mod object_events;
mod objects;
mod performable;
mod polls;
mod recorded_manner;
mod resolve;
mod side;
mod speed;
mod stream;
mod task_change;
mod task_draft;
mod timers;

pub use basis::{Account, Inferred, Totals};
pub use export::rt_app;
pub use infer::{Infer, Options};
pub use memory_source::MemorySource;
pub use side::{Divergence, Side, TaskSide, parting};
pub use task_change::TaskChange;
pub use timers::Timer;
