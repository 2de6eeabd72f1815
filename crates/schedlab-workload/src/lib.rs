//! What is asked of a machine, and what it answers: workloads, the behaviours of their tasks, and the
//! traits of machine and output.
//!
//! A [`RunSpec`] names a workload and its options. [`Machine::run`] performs it and hands everything
//! it learns to an [`Output`]: samples, trace, facts, warnings. A workload is tasks; a task is a
//! [`Behaviour`], a small state machine that yields an [`Op`] and is told how it went, so that the
//! same workload runs on the host (operations are system calls) and in a simulator (events).

mod behaviour;
mod machine;
mod spec;

pub use behaviour::{BarrierId, Behaviour, ChannelId, Done, LockId, Op, QueueId, WordId};
pub use machine::{Figure, Machine, MachineError, Offers, Outcome, Output, Recording, Stream};
pub use spec::{RecordSpec, RunSpec, WorkloadSpec};
