//! What is asked of a machine, and what it answers: workloads, the behaviours of their tasks, and the
//! traits of machine and output.
//!
//! A [`RunSpec`] names a workload and its options. [`Machine::run`] performs it and hands everything
//! it learns to an [`Output`]: samples, trace, facts, warnings. A workload is tasks; a task is a
//! [`Behaviour`], a small state machine that yields an [`Op`] and learns how it went, so that the
//! same workload runs on the host (operations are system calls) and in a simulator (events).
//! A file of [`nodes`] says which CPUs are how fast, for any machine.
//! [`metrics`] is the registry of all that a run may measure, [`knobs`] that of all that it may set.
//! [`workloads::plan`] makes a [`plan::Plan`] of a workload's name and its options.

mod behaviour;
pub mod calibrate;
mod check;
pub mod demand;
pub mod getopt;
mod job_graph;
pub mod jobs;
pub mod knobs;
pub mod link;
mod machine;
mod machine_name;
pub mod measure;
mod memory_output;
pub mod metrics;
mod nemesis;
pub mod nodes;
mod noise;
pub mod options;
pub mod placement;
pub mod plan;
mod record;
pub mod regulate;
mod requested;
pub mod requested_speed;
mod spec;
mod speed;
mod speed_settings;
pub mod upstream;
pub mod workloads;

pub use behaviour::{
    BarrierId, Behaviour, BlockId, ChannelId, CounterId, DialId, Done, ForkId, Instruments, LockId,
    Loop, Op, PlaceId, QueueId, SampleId, SemaphoreId, Sweep, WordId,
};
pub use check::{check_spec, plans_around, plans_of};
pub use job_graph::Jobs;
pub use link::Link;
pub use machine::{
    Figure, Interval, Machine, MachineError, Offers, Outcome, Output, Recording, Series, Stream,
    cut_by_limit,
};
pub use machine_name::{HOST, MachineName};
pub use memory_output::Observed;
pub use nemesis::{Cluster, Event, Happening, Pair};
pub use nodes::{Change, Node, Step};
pub use noise::Noise;
pub use record::{
    Filter, Full, RecordSpec, Recorded, RecordedLocks, RecordedRequest, RecordedStacks, Snapshot,
    UserStacks, Via, Watched,
};
pub use requested::{CALLS, Edge, Requested};
pub use spec::{Beside, MACHINE, RunSpec, WorkloadSpec};
pub use speed::{Assignment, PROFILES_GONE, Speed, Speeds, speeds};
pub use speed_settings::{SpeedChange, SpeedSettings};
