//! A pool of threads for jobs with start times, deadlines, dependencies and cancellation, where posting never stops work.
//!
//! ```text
//!  posters ──> injectors: plain │ timed │ compulsory          (lock-free; a poster does nothing else)
//!                 │ up to 64 at a time   │ up to 64 at a time
//!                 v                      v
//!   a deque and an inbox        one heap of starts ─> one heap of due jobs   (a short lock)
//!     for each worker                                │
//!                 └──────────> worker <──────────────┘   due jobs first; every 61st job is a plain one
//! ```
//!
//! A *plain* job asks for nothing. A *timed* job has a start, a deadline, a latest start or a [`Criticality`], or a job
//! with a deadline depends on it. Before each job a worker looks at one number, the next time at which a timed job has
//! to be looked at. It checks whether the job was cancelled, whether its stream is off and whether it is late at the
//! moment at which the job would start. Each job and each of 256 followed dependencies is a step, and no step is longer.
//!
//! # Values, panics, dependencies
//!
//! ```
//! use schedlab_pool::{JobError, JobState, Options, Pool, Request};
//!
//! let pool = Pool::start(Options::new(2))?;
//! let good = pool.spawn(|| 6 * 7)?;
//! let bad = pool.spawn(|| -> u32 { std::panic::resume_unwind(Box::new("a defect")) })?;
//! let after = pool.spawn_with(Request::new().after(&good).after(&bad), || 1)?;
//! assert_eq!(good.wait()?, 42);
//! assert!(matches!(bad.wait(), Err(JobError::Panicked(_))));
//! assert!(matches!(after.wait(), Err(JobError::NoValue(JobState::DependencyFailed))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Starts, deadlines, late jobs
//!
//! ```
//! use schedlab_pool::{Criticality, JobError, JobState, Late, Options, Pool, Request};
//! use std::time::{Duration, Instant};
//!
//! let pool = Pool::start(Options::new(1).late(Late::Shed).on_late(|late| assert!(!late.late.is_zero())))?;
//! let now = Instant::now();
//! let in_time = Request::new().start(now + Duration::from_millis(1)).deadline(now + Duration::from_secs(60));
//! assert_eq!(pool.spawn_with(in_time, || "shown")?.wait()?, "shown");
//! // Its latest start has passed: such a job is dropped, unless it is compulsory.
//! let late = || Request::new().latest_start(now);
//! assert!(matches!(pool.spawn_with(late(), || ())?.wait(), Err(JobError::NoValue(JobState::TooLate))));
//! pool.spawn_with(late().criticality(Criticality::Compulsory), || ())?.wait()?;
//! assert_eq!(pool.counts().late_starts, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Plans
//!
//! ```
//! use schedlab_pool::{Options, Pool, Refusal, Request};
//!
//! let pool = Pool::start(Options::new(2))?;
//! let mut plan = pool.plan();
//! let numbers: Vec<_> = (0..10u32).map(|number| plan.add(Request::new(), move || number)).collect();
//! (1..10).for_each(|number| plan.link(number - 1, number));
//! plan.post()?;
//! assert_eq!(numbers.into_iter().map(|job| job.wait().expect("a value")).sum::<u32>(), 45);
//! // A plan is taken whole or not at all.
//! let mut circle = pool.plan();
//! circle.add(Request::new(), || ());
//! circle.link(0, 0);
//! assert_eq!(circle.post().expect_err("it cannot begin").why, Refusal::Cycle(0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Jobs that borrow, and jobs that wait for jobs
//!
//! ```
//! use schedlab_pool::{Options, Pool, Spawner};
//!
//! fn sum<'env>(pool: &Spawner<'env>, numbers: &'env [u64]) -> u64 {
//!     if numbers.len() <= 2 {
//!         return numbers.iter().sum();
//!     }
//!     let (left, right) = numbers.split_at(numbers.len() / 2);
//!     let own = pool.clone();
//!     let left = pool.spawn(move || sum(&own, left)).expect("room");
//!     let right = sum(pool, right);
//!     // The worker runs other jobs while it waits.
//!     left.wait().expect("a value") + right
//! }
//! let numbers: Vec<u64> = (0..100).collect();
//! let all = Pool::scoped(Options::new(2), |pool| sum(pool, &numbers))?;
//! assert_eq!(all, 4950);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Cancelling, streams, back-pressure, stopping
//!
//! ```
//! use schedlab_pool::{Completion, Options, Pool, Refusal, Request};
//! use std::time::{Duration, Instant};
//!
//! let pool = Pool::start(Options::new(1).backlog_max(2))?;
//! let in_an_hour = Instant::now() + Duration::from_secs(3600);
//! let first = pool.spawn_with(Request::new().start(in_an_hour), || ())?;
//! let _second = pool.spawn_with(Request::new().start(in_an_hour).stream(7), || ())?;
//! let refused = pool.spawn(|| 5).expect_err("the backlog is full");
//! assert_eq!((refused.why, (refused.what)()), (Refusal::Full, 5));
//! assert!(first.cancel());
//! // This job ends when something else tells its completion; its worker is free meanwhile.
//! let read = pool.spawn_deferred(Request::new(), |completion: Completion<'static, u32>| {
//!     std::thread::spawn(move || completion.complete(9));
//! })?;
//! assert_eq!(read.wait()?, 9);
//! pool.switch_off(7);
//! let report = pool.stop(Duration::MAX);
//! assert_eq!((report.counts.cancelled, report.stuck.len()), (2, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Checks beyond the tests
//!
//! The unit tests run the policy in virtual time, and compare both bodies of the queues over 10,000 random sequences.
//! A release build runs 10,000 rounds of random plans, cancels, panics and stops, and a job with 3 million dependents:
//! `cargo test -p schedlab-pool --release --test all plans::`.
//! Loom tries all interleavings with two preemptions of two workers and a poster, and with one preemption for four jobs:
//! `RUSTFLAGS="--cfg loom" cargo test -p schedlab-pool --release --lib loom::`. Miri runs the policy over plain lists, on
//! random sequences too: `cargo xtask model` has both.
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
#[cfg(not(loom))]
mod request;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
mod spawner;
mod sync;
#[cfg(not(loom))]
mod worker;

pub use counts::Counts;
#[cfg(not(loom))]
pub use handle::{Completion, Handle, JobError, JobId, JobState};
pub use job::Criticality;
#[cfg(all(not(loom), any(test, feature = "model")))]
pub use model::{End, Model, ModelJob, ModelRequest, Step};
#[cfg(not(loom))]
pub use options::Options;
#[cfg(all(not(loom), any(test, feature = "model")))]
pub use options::Sleep;
#[cfg(not(loom))]
pub use plan::Plan;
pub use policy::{Late, LateJob};
#[cfg(not(loom))]
pub use pool::{Pool, Report};
#[cfg(not(loom))]
pub use request::Request;
#[cfg(not(loom))]
pub use spawner::{Load, Refusal, Refused, Spawner, WaitError};
#[cfg(not(loom))]
pub use worker::current_worker;

/// Types that are formatted by their name alone.
#[cfg(not(loom))]
macro_rules! opaque {
    ($([$($generic:tt)*] $type:ty, $name:literal;)*) => { $(
        impl<$($generic)*> std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct($name).finish_non_exhaustive()
            }
        }
    )* };
}

#[cfg(not(loom))]
opaque! {
    [T] Completion<'_, T>, "Completion";
    [T] Handle<'_, T>, "Handle";
    [] Options, "Options";
    [] Plan<'_>, "Plan";
    [] Pool, "Pool";
    [] Request<'_>, "Request";
    [] Spawner<'_>, "Spawner";
}

/// The example of README.md is tested with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
