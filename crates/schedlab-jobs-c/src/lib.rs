//! The job pool for C and C++: the functions of `include/schedlab_jobs.h`.
//!
//! A C interface needs raw pointers, so this crate may contain unsafe code, as `schedlab-sys` does. It only translates: each
//! function checks what can be checked, and calls `schedlab-jobs`. Nothing of schedlab depends on it.
#![expect(
    unsafe_code,
    reason = "functions for C take and give raw pointers; this crate holds nothing else"
)]

pub mod job;
pub mod pool;

/// `SCHEDLAB_JOBS_ABI` of the header that this library was built with.
pub const ABI: u32 = 1;

/// What functions return, as in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// The call did what was asked.
    Ok = 0,
    /// The backlog is full.
    Full = 1,
    /// The pool is shutting down.
    Closed = 2,
    /// A null pointer, or a value that means nothing.
    Invalid = 3,
    /// It took too long.
    Timeout = 4,
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn schedlab_jobs_abi() -> u32 {
    ABI
}
