#![cfg(not(loom))]
//! Programs against the pool's threads.

mod deadlines;
mod edges;
mod handles;
mod plans;
mod storms;
