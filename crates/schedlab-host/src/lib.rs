//! Real Linux as a machine: what it allows, what it is, its loads, slowing its CPUs.

mod concurrent_loads;
pub mod doctor;
pub mod facts;
pub mod knobs;
pub mod load;
mod load_environment;
mod load_process;
mod load_reports;
mod machine;
mod net;
mod per_cpu;
mod run_settings;
pub mod slow;
mod watch;

pub use load::load_child;
pub use machine::Host;
pub use schedlab_record::mark_file as marks;
