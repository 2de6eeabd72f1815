//! Any real kernel as a machine: QEMU boots it, and workloads run in it as they run on the host.
//!
//! ```text
//! kernel + initramfs (this program as init)            RunSpec in fw_cfg
//!        |  boot once                                         |
//!        v                                                    v
//!   guest is ready: offers, facts -> saved state -> restored for each run -> frames -> Output
//! ```
//!
//! [`Vm`] boots a guest, saves its state at one instruction, and starts each run from that state. So
//! every run begins from the same bytes before it. The guest is this program too: as
//! [`guest::ARGUMENT`] it becomes init, performs the run on its own host machine, and sends what that
//! machine told as [`frame`]s after the run. Nothing reaches the guest while it measures.
//!
//! QEMU gets no file of ours: kernel, initramfs, saved state, console and frames lie in memory files
//! that vanish with this process.

mod apt;
pub mod build;
pub mod cache;
pub mod choices;
mod cpio;
mod decisions;
mod domains;
pub mod emulator;
mod error;
pub mod frame;
mod git;
pub mod guest;
mod initramfs;
pub mod kernel;
mod machine;
pub mod placebo;
pub mod program;
mod qemu;
mod qmp;
mod request;
mod scheduler;

pub use decisions::DECISIONS_ONLY;
pub use error::VmError;
pub use git::Checkout;
pub use kernel::Kernel;
pub use machine::Vm;
pub use request::{Clock, Request};
