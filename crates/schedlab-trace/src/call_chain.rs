//! Call chains as perf tells them: addresses, and marks between those of different kinds.

/// Words from here on are marks: the last 4,095 numbers (`PERF_CONTEXT_MAX`).
pub const CONTEXTS: u64 = u64::MAX - 4_095;
/// The mark before addresses of the kernel (`PERF_CONTEXT_KERNEL`).
pub(crate) const IN_KERNEL: u64 = -128_i64 as u64;
/// The mark before addresses of the program (`PERF_CONTEXT_USER`).
pub const IN_USER: u64 = -512_i64 as u64;
/// The bits of a switch's `prev_state` with which a task sleeps; one that stays runnable has none.
pub const SLEEPS: u64 = 255;
