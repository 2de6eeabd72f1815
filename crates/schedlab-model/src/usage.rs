//! What a kernel counts for a task.

use crate::Nanos;

/// What the kernel counted for a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in user mode.
    pub user: Nanos,
    /// Time in the kernel.
    pub system: Nanos,
    /// Number of context switches after which the task slept.
    pub voluntary: u64,
    /// Number of context switches after which the task stayed runnable: another one took its CPU.
    pub involuntary: u64,
    /// Time that it was runnable and did not run; zero where the kernel does not count it.
    pub run_delay: Nanos,
    /// How often it was put on a CPU.
    pub timeslices: u64,
    /// How often it changed CPU; `None` without `CONFIG_SCHED_DEBUG`.
    pub migrations: Option<u64>,
}
