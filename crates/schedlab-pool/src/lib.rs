//! A pool of threads for jobs with deadlines, dependencies and cancellation.
#![warn(missing_docs)]

mod counts;
#[cfg(not(loom))]
mod handle;
mod job;
#[cfg(all(test, loom))]
mod loom;
#[cfg(all(not(loom), any(test, feature = "model")))]
mod model;
#[cfg(not(loom))]
mod options;
#[cfg(not(loom))]
mod plan;
mod policy;
#[cfg(not(loom))]
mod pool;
mod queues;
mod sync;
#[cfg(not(loom))]
mod worker;

pub use counts::Counts;
#[cfg(not(loom))]
pub use handle::{Completion, Handle, JobError, JobId, JobState};
pub use job::{Criticality, NEVER, Nanos};
#[cfg(all(not(loom), any(test, feature = "model")))]
pub use model::{End, Model, ModelJob, ModelRequest, Step};
#[cfg(not(loom))]
pub use options::{Options, Request, Watch};
#[cfg(not(loom))]
pub use plan::{Plan, PlanError};
pub use policy::{Late, LateJob};
#[cfg(not(loom))]
pub use pool::{Load, Pool, Refusal, Refused, Report, Spawner, WaitError, current_worker};
