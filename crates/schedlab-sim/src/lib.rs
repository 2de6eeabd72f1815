//! The simulated machine: workloads in virtual time, under schedulers written as policies.
//!
//! A [`World`] takes a [`schedlab_workload::plan::Plan`] and performs the operations of its behaviours. Time is an
//! integer number of nanoseconds, and only events move it. What an operation costs comes from [`Costs`].
//! Who runs where, and for how long, is up to a [`policy::Policy`]. The world gives scheduler events to the caller as
//! [`schedlab_model::Event`]; it does no I/O, and the same plan, seed, costs and policy give the same events.

mod board;
pub mod calibrate;
mod costs;
mod event_queue;
mod machine;
pub mod policy;
mod policy_view;
mod world;

pub use board::{BOARD_WORDS, Board, Image};
use board::{ControlGroup, Preparation};
pub use costs::{CostError, Costs};
pub use machine::{
    CPUS_MAX, Kernel, Likeness, MachineFile, MakePolicy, Model, OfCode, Simulated, SimulatedPool,
};
pub use policy_view::{Class, CpuView, Hardware, Reservation, Scene, TaskId, TaskView};
pub use world::{Config, Deadlock, Gap, Halt, Start, Step, TaskUsage, World};
