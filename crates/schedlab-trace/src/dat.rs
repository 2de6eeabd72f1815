//! `trace.dat`, versions 6 and 7: what trace-cmd writes and KernelShark opens.
//!
//! A head (formats of the pages and of each event, saved command lines, options) and, for each CPU,
//! the pages of its ring buffer as the kernel filled them. Version 6 is read straight through;
//! version 7 is a chain of option sections that say where everything else lies, and may be compressed.
//!
//! Source of truth: the manual pages `trace-cmd.dat.v6.5` and `trace-cmd.dat.v7.5`, the format texts
//! inside the files, and what `trace-cmd` does with the files that the tests make.

mod byte_lanes;
mod clock;
mod decode_threads;
mod divide;
mod lane;
mod options;
mod page_run;
mod page_writer;
mod pages;
mod parallel_reader;
mod portion;
mod private_option;
mod read_ahead;
mod read_head;
mod reader;
mod records;
mod recover;
mod runs;
mod shared;
mod spool;
mod walk;
mod writer;
mod written_head;

pub(crate) use byte_lanes::ByteLanes;
pub(crate) use page_run::PageRun;
pub(crate) use page_writer::{SHORT, check_body, longest_body};
pub use private_option::Companion;
pub(crate) use read_head::{MAGIC, read_embedded};
pub(crate) use reader::DatReader;
pub(crate) use records::Sink;
pub use records::{Piece, RecordSource};
pub(crate) use spool::Spool;
pub(crate) use walk::{Layout, Visit, walk};
pub use writer::{CpuWriter, Writer};
pub use written_head::{Compression, Header, Instance, Version};

/// Where the text of a latency tracer begins in a file that holds one.
pub(crate) fn text_of(input: &crate::input::Input) -> Option<u64> {
    read_head::read(input).ok()?.text
}
