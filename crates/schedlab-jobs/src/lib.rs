//! Jobs: graphs of them, load for them, executors that run them, and proof that they ran. The pool to use is
//! `schedlab-pool`; the one here has Lumiera's rules, for comparison.
//!
//! The parts, from the ground up:
//! - [`graph`]: graphs by rules, shapes with a name, STG and DOT, a hash that proves a run;
//! - [`policy`]: the scheduler as a state machine that is fed with time;
//! - `token`: the one lock that all management goes through, and the entrance beside it;
//! - [`rounds`]: a worker as a function of time, without its thread;
//! - [`pool`]: threads that drive the policy; [`virtual_time`]: the same policy without threads;
//! - [`planning`]: how the jobs of a run get into the pool;
//! - [`bundle`]: many short jobs as one, with work stealing;
//! - `elsewhere`: a run that another process performs (with the feature `serde`);
//! - [`run`], [`profile`]: a graph under load, its log, its proof and its figures;
//! - [`executor`], [`adaptors`]: one border for our pool and those of others;
//! - [`load`]: calibrated work, lengths, arrivals; [`rig`]: breaking point and grain.
//!
//! ```
//! use schedlab_jobs::policy::{Plan, Posting};
//! use schedlab_jobs::pool::{Closure, Closures, Flow, Options, Pool};
//! use schedlab_jobs::run::Clock;
//! use std::time::Duration;
//!
//! let pool = Pool::start(Closures, Options::new(2), Clock::start())?;
//! let job = |text: &'static str| -> Closure { Box::new(move |_| { assert!(!text.is_empty()); Flow::Done }) };
//! let in_a_millisecond = pool.handle().now() + 1_000_000;
//! let mut plan = Plan::default();
//! let first = plan.add(Posting::new(job("first"), in_a_millisecond));
//! let then = plan.add(Posting::new(job("then"), 0));
//! plan.link(first, then);
//! pool.handle().plan(plan).expect("it is open");
//! assert!(pool.handle().wait(Duration::from_secs(10)));
//! assert_eq!(pool.stop(Duration::from_secs(1)).counts.done, 2);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Checks beyond the tests
//! The token under all interleavings of a poster and a worker, and those with three preemptions of two posters
//! (`loom::`): `RUSTFLAGS="--cfg loom" cargo test -p schedlab-jobs --release --test all -- loom::`. The unit tests under Miri:
//! `cargo +nightly miri test -p schedlab-jobs --lib`; the threads of the pool, in Miri's own time:
//! `cargo +nightly miri test -p schedlab-jobs --test all pool::`. All are `cargo xtask model`.

#[cfg(not(loom))]
pub mod adaptors;
pub mod bundle;
mod deque;
#[cfg(all(feature = "serde", not(loom)))]
pub mod elsewhere;
pub mod executor;
pub mod graph;
#[cfg(not(loom))]
pub mod load;
#[cfg(not(loom))]
pub mod modelled;
pub mod planning;
pub mod policy;
#[cfg(not(loom))]
pub mod pool;
pub mod profile;
pub mod proof;
#[cfg(not(loom))]
pub mod rig;
pub mod rounds;
pub mod run;
pub mod stealing;
mod sync;
mod token;
pub mod virtual_time;
#[cfg(not(loom))]
mod waits;

/// The examples of README.md are tested with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
