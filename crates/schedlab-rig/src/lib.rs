//! The rig around job executors: it runs executors of others, soaks ours, and says where the time of their workers went.
//!
//! - [`Lines`] and [`Library`] are executors of others (a process that speaks JSON lines, a shared library with a C
//!   function) behind the trait of [`schedlab_jobs::executor`];
//! - [`soak()`] runs a graph again and again, perhaps with faults, and watches memory and counts;
//! - [`storm()`] lets threads post jobs without a pause, at a rate or one after another, and watches whether jobs are
//!   done meanwhile;
//! - [`Jitter`] is what a machine does to threads that do nothing;
//! - [`Recording`] records the kernel's events while an executor runs, and [`Stalls`] puts each moment of each worker
//!   down to one cause;
//! - [`MachineStalls`] is what the machine did to a run of our pool, as its workers saw it.
//!
//! Nothing here prints or waits for a user: the program that drives the rig says when it must stop.

mod error;
pub mod external;
pub mod jitter;
pub mod machine_stalls;
pub mod recording;
pub mod soak;
mod stalls;
pub mod storm;
mod threads;

pub use error::RigError;
pub use external::{Library, Lines, read_events};
pub use jitter::Jitter;
pub use machine_stalls::{MachineStalls, machine, steal};
pub use recording::{Account, Recorded, Recording};
pub use soak::{Faulty, Soak, soak};
pub use stalls::{Cause, Stalls};
pub use storm::{PostTiming, Storm, storm, waits_for_later};
pub use threads::Threads;
