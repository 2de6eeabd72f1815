//! Claims about whole files: what the readers and writers do with them, and what the peers make of
//! the same bytes. One program, so that it is linked once.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test says aloud what it lacks")]

mod any_to_any;
mod arguments;
#[path = "../../../../fuzz/bodies.rs"]
mod bodies;
mod chains;
mod clocks;
mod common;
mod convert;
mod corpus;
mod cuts;
mod dat;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(feature = "parquet")]
mod parquet;
mod partial;
mod parts;
mod perf;
mod perf_file;
mod perf_threads;
mod perfetto;
mod perfetto_cases;
mod smoke;
#[cfg(target_os = "linux")]
#[path = "../../../../fuzz/structure.rs"]
mod structure;
mod synthetic;
mod text;
mod thinning;
mod threads;
mod trace;
