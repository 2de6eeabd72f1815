//! The scheduler of a kernel's source tree, compiled as it is and simulated.
//!
//! ```text
//! tree -> farm of links + overlay -> the kernel's build -> image (no libc, fixed address) in the cache
//!                                                             |
//! RunSpec -> a child process for each run: maps the image, simulates, tells frames -> Output
//! ```
//!
//! The image is made of the kernel's code, so it is under the kernel's licence. It stays in the cache of who built it.

pub mod build;
mod child;
mod linking;
mod machine;
mod overlay;
mod pool;
mod request;
mod scheduler;
mod symbols;

pub use child::child;
pub use machine::OfTree;
pub use pool::PoolOfTree;
pub use request::ARGUMENT;
