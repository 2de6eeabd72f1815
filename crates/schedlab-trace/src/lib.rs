//! Scheduler traces on disk: records, formats, readers and writers.
//!
//! A trace has two layers. **Records** are bytes: a time, a CPU and the body that the kernel wrote,
//! with the format text that says what lies where. Recording copies them, conversion passes them on,
//! and nothing is lost that nobody here understands. **Events** ([`schedlab_model::Event`]) are
//! decoded from records by plans that are compiled once from the format texts; all that stands above
//! this crate sees events only, and can't tell which file they came from.
//!
//! [`open`] tells formats apart by content. A reader never trusts a length and never panics: what is
//! wrong inside a file is a warning or a loss, and what can be read is read. Files are read by
//! windows (`pread`), so memory does not grow with them and a file that shrinks is no signal.

mod ahead;
mod census;
mod convert;
pub mod dat;
mod decode;
mod encode;
mod encoding;
mod error;
pub mod format;
mod input;
pub mod live;
pub mod mark;
mod merge;
mod names;
mod near;
mod perf;
mod perfetto;
mod plan;
mod record;
mod runs;
mod spelling;
mod states;
pub mod synthetic;
#[cfg(feature = "parquet")]
pub mod table;
mod text;

pub use census::Census;
pub use convert::{Converted, Target, convert, replace};
pub use encode::Encoder;
pub use encoding::Encoding;
pub use error::TraceError;
pub use record::{RecordSource, Sink, open_records};

use ahead::Ahead;
use input::Input;
use schedlab_model::EventSource;
use std::path::Path;

/// Opens the trace at `path`, whatever its format; the content decides, not the name.
///
/// # Errors
/// The file can't be read, is empty, or is no trace. A file that is cut or damaged further in is not
/// an error: what can be read is read, and [`EventSource::warnings`] says what is missing.
pub fn open(path: &Path) -> Result<Box<dyn EventSource>, TraceError> {
    open_with(path, &Options::default())
}

/// How to read a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Threads to decode with, the caller's among them. Merging and all that follows stay serial, so
    /// more than a few gain nothing. Formats other than trace.dat are decoded by the caller alone.
    pub threads: usize,
    /// Whether [`EventSource::arguments`] tells those of tracepoints beyond the scheduler's from records
    /// too, not from texts only. Decoding then stays on the caller's thread.
    pub arguments: bool,
}

impl Default for Options {
    /// The caller's thread alone, scheduler events without the arguments of others.
    fn default() -> Self {
        Self { threads: 1, arguments: false }
    }
}

/// Opens a trace as [`open`] does.
///
/// # Errors
/// As [`open`].
pub fn open_with(path: &Path, options: &Options) -> Result<Box<dyn EventSource>, TraceError> {
    open_input(Input::open(path)?, options)
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
    open_input(Input::memory(name, bytes), options)
}

/// Bytes that are looked at to tell formats apart.
const SNIFFED: usize = 4096;

fn open_input(input: Input, options: &Options) -> Result<Box<dyn EventSource>, TraceError> {
    let path = input.path().to_owned();
    let mut start = vec![0; SNIFFED];
    let count = input.read_at(0, &mut start).map_err(|error| TraceError::io(&path, error))?;
    start.truncate(count);
    if start.is_empty() {
        return Err(TraceError::Empty { path });
    }
    if start.starts_with(dat::MAGIC) {
        return open_dat(input, options);
    }
    if start.starts_with(perf::MAGIC_LITTLE) || start.starts_with(perf::MAGIC_BIG) {
        let reader = perf::PerfReader::open(input, options.arguments)?;
        // What a pipe says of itself comes on the way.
        let ahead = options.threads > 1 && !options.arguments && !reader.is_pipe();
        return Ok(if ahead { Box::new(Ahead::new(reader)) } else { Box::new(reader) });
    }
    if perfetto::looks_like(&start) {
        return Ok(Box::new(perfetto::PerfettoReader::open(input)?));
    }
    if !start.contains(&0)
        && let Some(reader) = text::TextReader::open(input)?
    {
        return Ok(Box::new(reader));
    }
    Err(TraceError::Unknown { path, seen: seen(&start) })
}

/// Opens a trace.dat; of threads beside the caller's, unpacking has the first.
fn open_dat(input: Input, options: &Options) -> Result<Box<dyn EventSource>, TraceError> {
    let helpers = options.threads.saturating_sub(1);
    let again = input.again().map_err(|error| TraceError::io(input.path(), error))?;
    let (packed, reader) = match dat::DatReader::open(input, options) {
        // No pages, but perhaps the text of a latency tracer.
        Err(error @ TraceError::NoEvents { .. }) => {
            let reader = match dat::text_of(&again) {
                Some(offset) => text::TextReader::open_at(again, offset)?,
                None => None,
            };
            return reader.map_or(Err(error), |reader| Ok(Box::new(reader) as Box<_>));
        }
        other => other?,
    };
    let ahead = !options.arguments && helpers > usize::from(packed);
    Ok(if ahead { Box::new(Ahead::new(reader)) } else { Box::new(reader) })
}

/// What a file begins with, in words.
fn seen(start: &[u8]) -> String {
    let known: [(&[u8], &str); 7] = [
        (b"\x7fELF", "an ELF program"),
        (b"\x1f\x8b", "gzip data: unpack it first"),
        (b"\x28\xb5\x2f\xfd", "zstd data: unpack it first"),
        (b"\xfd7zXZ", "xz data: unpack it first"),
        (b"PK\x03\x04", "a zip archive"),
        (b"PAR1", "a Parquet file"),
        (b"\x89PNG", "a picture"),
    ];
    if let Some((_, name)) = known.iter().find(|(magic, _)| start.starts_with(magic)) {
        return (*name).to_owned();
    }
    let text: String = start.iter().take(16).map(|byte| format!("{byte:02x} ")).collect();
    format!("it begins with {}", text.trim_end())
}
