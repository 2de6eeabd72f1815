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

pub mod dat;
mod encoding;
mod error;
pub mod mark;

pub use encoding::Encoding;
pub use error::TraceError;

use schedlab_model::EventSource;
use std::path::Path;

/// Opens the trace at `path`, whatever its format; the content decides, not the name.
///
/// # Errors
/// The file can't be read, is empty, or is no trace. A file that is cut or damaged further in is not
/// an error: what can be read is read, and [`EventSource::warnings`] says what is missing.
pub fn open(path: &Path) -> Result<Box<dyn EventSource>, TraceError> {
    Err(TraceError::Unknown { path: path.to_owned(), seen: "no reader yet".into() })
}
