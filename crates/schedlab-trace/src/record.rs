//! Opens a trace as records: bodies as the kernel wrote them, which are passed on undecoded.

use crate::Options;
use crate::dat::{self, DatReader, RecordSource};
use crate::error::TraceError;
use crate::perf::{self, PerfRecords};
use crate::pipe_input;
use std::path::Path;

/// Opens a trace as records; `None` when its format has none (texts, Perfetto).
///
/// # Errors
/// As [`crate::open`].
pub fn open_records(path: &Path) -> Result<Option<Box<dyn RecordSource>>, TraceError> {
    let input = pipe_input::input(path)?;
    let mut start = [0; 16];
    let count = input.read_at(0, &mut start).map_err(|error| TraceError::io(path, &error))?;
    let start = &start[..count];
    if start.starts_with(dat::MAGIC) {
        return Ok(Some(Box::new(DatReader::open_as(input, &Options::default(), true)?)));
    }
    if start.starts_with(perf::MAGIC_LITTLE) || start.starts_with(perf::MAGIC_BIG) {
        return Ok(Some(Box::new(PerfRecords::open(input)?)));
    }
    Ok(None)
}
