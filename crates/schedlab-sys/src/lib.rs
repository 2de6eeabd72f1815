//! Linux's contract: what the rest of schedlab asks of the kernel, as safe functions.
//!
//! The only crate with unsafe code beside `schedlab-jobs-c`. Each module is one subject: [`perf`] (events and their rings),
//! [`sched`] (policies and affinity), [`mod@slice`] (of fair tasks), [`futex`], [`clock`], [`topology`],
//! [`cgroup`], [`tracefs`], [`image`]s, [`capability`], [`process`], [`taskstats`], [`lock`] and [`signal`]; [`temporary`] folders; [`regular_file`]s; [`netns`]; [`port`] and
//! [`mount`] for guests; for loads [`channel`], [`shared`] memory, [`task`] and [`thread`]; and the [`guard`] that
//! undoes what was changed, even if a process dies.
//! Nothing here knows what a trace or a workload is. Functions that read `/sys` or `/proc` take the
//! root as a parameter, so that tests can give them a tree of their own.
#![expect(
    unsafe_code,
    reason = "system calls and shared memory; every other crate stands on this one"
)]

pub mod allocation;
pub mod capability;
pub mod cgroup;
pub mod channel;
pub mod clock;
pub mod disk;
pub mod futex;
pub mod guard;
pub mod image;
pub mod kernel_file;
pub mod library;
pub mod lock;
pub mod memory;
pub mod mount;
pub mod netns;
pub mod perf;
pub mod port;
pub mod process;
pub mod regular_file;
pub mod sched;
pub mod shared;
pub mod signal;
pub mod slice;
pub mod task;
pub mod taskstats;
pub mod temporary;
pub mod thread;
pub mod topology;
pub mod tracefs;
