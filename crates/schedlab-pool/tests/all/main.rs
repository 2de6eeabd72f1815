#![cfg(not(loom))]
#![expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
//! Programs against the pool's threads.

mod deadlines;
mod edges;
mod handles;
#[expect(dead_code, reason = "other test programs need the rest")]
#[path = "../../../schedlab/tests/all/machine_lock.rs"]
mod machine_lock;
mod plans;
mod storms;
