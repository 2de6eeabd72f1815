//! The job pool for C and C++: the functions of `include/schedlab_jobs.h`.
//!
//! A C interface needs raw pointers, so this crate may contain unsafe code, as `schedlab-sys` does. It only translates: each
//! function checks what can be checked, and calls `schedlab-pool`. Nothing of schedlab depends on it.
#![expect(
    unsafe_code,
    reason = "functions for C take and give raw pointers; this crate holds nothing else"
)]

pub mod handle;
pub mod job;
pub mod pool;
mod priority;
mod sized;
#[cfg(test)]
mod tests;

use std::time::Duration;

/// `SCHEDLAB_JOBS_ABI` of the header that this library was built with.
pub const ABI: u32 = 2;

/// What functions return, as in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// The call did what was asked.
    Ok = 0,
    /// The backlog is full.
    Full = 1,
    /// The pool is stopping.
    Closed = 2,
    /// A null pointer, or a value that means nothing.
    Invalid = 3,
    /// It took too long.
    Timeout = 4,
    /// A link names a job that the batch does not have.
    NoSuchJob = 5,
    /// Jobs of a batch wait for each other in a circle.
    Cycle = 6,
    /// A job waits for its own pool.
    InsideJob = 7,
}

/// A patience of C; the largest number means for ever.
pub(crate) fn patience(ns: u64) -> Duration {
    if ns == u64::MAX { Duration::MAX } else { Duration::from_nanos(ns) }
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn schedlab_jobs_abi() -> u32 {
    ABI
}
