//! Jobs: graphs of them, a deadline scheduler that runs them, load for them, and proof that they ran.

pub mod graph;
pub mod policy;
pub mod token;
