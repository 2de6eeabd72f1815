#![cfg(not(loom))]
#![expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
//! Programs against the pool's threads.

mod deadlines;
mod edges;
mod handles;
mod plans;
mod storms;
