//! Scheduler traces on disk: records, formats, readers and writers.
//!
//! A trace has two layers. **Records** are bytes: a time, a CPU and the body that the kernel wrote,
//! with the format text that says what lies where. Recording copies them, conversion passes them on,
//! and nothing is lost that nobody here understands. **Events** ([`schedlab_model::Event`]) are
//! decoded from records by plans that are compiled once from the format texts; all that stands above
//! this crate sees events only, and cannot tell which file they came from.
//!
//! [`open`] tells formats apart by content. A reader never trusts a length and never panics: what is
//! wrong inside a file is a warning or a loss, and what can be read is read. Files are read by
//! windows (`pread`), so memory does not grow with them and a file that shrinks is no signal.
#![warn(missing_docs)]

mod address_spaces;
mod argument_text;
mod background_source;
mod budget;
mod buffers;
pub mod call_chain;
mod census;
mod chain_names;
mod code;
mod conversion_loss;
mod convert;
pub mod dat;
mod decode;
mod decoded_runs;
mod decoded_segment;
mod detect;
mod encode;
mod encoding;
mod entry;
mod error;
mod event_sink;
mod event_writer;
mod fast_decode;
mod fast_layout;
pub mod format;
mod function_names;
mod input;
pub mod live;
pub mod mark;
mod merge;
mod name_numbers;
mod names;
mod new_file;
mod order;
mod packed;
#[cfg(feature = "parquet")]
pub mod parquet_table;
mod perf;
mod perfetto;
mod pipe_input;
mod plan;
pub mod protobuf;
mod record;
mod reduced_record;
mod selection;
mod states;
pub mod symbols;
pub mod synthetic;
mod task_names;
mod text;
mod trace;

pub use address_spaces::{AddressSpaces, SourceFile};
pub use census::Census;
pub use code::{Code, Word};
pub use convert::{
    ConvertOptions, Converted, EventRow, Line, List, Target, convert, convert_ticks, convert_with,
    cut, list, tick_hz,
};
pub use dat::RecordSource;
pub use encoding::Encoding;
pub use error::{TraceError, TraceErrorKind};
pub use event_writer::EventWriter;
pub use function_names::{Function, FunctionNames, KernelId, MappedFile, Names};
pub use new_file::{NewFile, remove_unfinished, replace, write_file};
pub use perf::SpaceChange;
pub use record::open_records;
pub use selection::Part;
pub use task_names::TaskNames;
pub use trace::Trace;

use input::Input;
use schedlab_model::EventSource;
use std::path::Path;

/// Opens the trace at `path`. The content decides the format, not the name. `-` is the standard
/// input; it and pipes are kept in a file without a name while they are read.
///
/// # Errors
/// The file cannot be read, is empty, or is no trace. A file that is cut or damaged further in is not
/// an error: what can be read is read, and [`EventSource::warnings`] says what is missing.
pub fn open(path: &Path) -> Result<Box<dyn EventSource>, TraceError> {
    open_with(path, &Options::default())
}

/// How to read a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Threads to read with, the caller's among them; the events are the same with any number. What is asked of them
    /// stays serial. All decode a trace.dat that is not compressed, and hold memory of their own; all unpack one that is,
    /// and one of four or more decodes. A perf.data has work for two, or three where events are taken by batches; texts and
    /// Perfetto are decoded by the caller alone.
    pub threads: usize,
    /// Bytes of pages of a trace.dat that a thread decodes at once, about, where there are several; by default
    /// 1 MiB, or twelve pages of each CPU where that is more.
    pub portion: Option<usize>,
    /// Whether [`EventSource::arguments`] gives those of tracepoints beyond the scheduler's from
    /// records too, not from texts only. One thread then decodes: with several it is not the caller's.
    pub arguments: bool,
    /// Gives functions in call chains their names. Without it, call chains hold addresses.
    pub names: Option<Names>,
}

/// Beyond this many threads, the one that asks something of the events is slower than they come.
const THREADS_MAX: usize = 4;

impl Options {
    /// With a thread for each CPU that this process may use, as far as they help; else as by default.
    #[must_use]
    pub fn all_cpus() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads: cpus.min(THREADS_MAX), ..Self::default() }
    }
}

impl Default for Options {
    /// The caller's thread alone, scheduler events without the arguments of others.
    fn default() -> Self {
        Self { threads: 1, portion: None, arguments: false, names: None }
    }
}

/// Opens a trace as [`open`] does.
///
/// # Errors
/// As [`open`].
pub fn open_with(path: &Path, options: &Options) -> Result<Box<dyn EventSource>, TraceError> {
    Ok(Trace::open(path, options)?.boxed())
}

/// Opens a trace that lies in memory; `name` stands for the file's in messages.
///
/// # Errors
/// As [`open`].
pub fn open_bytes(name: &Path, bytes: Vec<u8>) -> Result<Box<dyn EventSource>, TraceError> {
    open_bytes_with(name, bytes, &Options::default())
}

/// Opens a trace that lies in memory as [`open_with`] does a file.
///
/// # Errors
/// As [`open`].
pub fn open_bytes_with(
    name: &Path,
    bytes: Vec<u8>,
    options: &Options,
) -> Result<Box<dyn EventSource>, TraceError> {
    Ok(Trace::of(Input::memory(name, bytes), options)?.boxed())
}

/// The examples of README.md are tested with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
