//! `perf.data` with tracepoint samples: what `perf sched record` and `perf record -e sched:*` write.
//!
//! The raw part of a tracepoint's sample is the body of an ftrace record, and the file carries the
//! format texts (in a miniature trace.dat), so samples are decoded by the same plans. Files, pipes
//! (`perf record -o -`), folders (`--threads`), compressed records (`-z`) and either byte order are read.
//!
//! Source of truth: `tools/perf/Documentation/perf.data-file-format.txt` of the kernel, the manual
//! page `perf_event_open(2)`, and what perf does with the same files.

mod chains;
mod cpu_backlog;
mod directory;
mod feature;
mod head;
mod layout;
mod mappings;
mod pending;
mod raw_records;
mod reader;
mod records;
mod round;
mod round_reader;
mod round_source;

pub(crate) use directory::joined;
pub use mappings::SpaceChange;
pub(crate) use raw_records::PerfRecords;
pub(crate) use reader::PerfReader;

/// How a perf.data begins, by byte order.
pub(crate) const MAGIC_LITTLE: &[u8] = b"PERFILE2";
pub(crate) const MAGIC_BIG: &[u8] = b"2ELIFREP";
