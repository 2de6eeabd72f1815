//! The record layer: bodies as the kernel wrote them, for whoever passes them on undecoded.

use crate::Options;
use crate::dat::{self, DatReader};
use crate::error::TraceError;
use crate::input::Input;
use crate::live::Piece;
use crate::perf::{self, PerfRecords};
use schedlab_model::{Cpu, Warning};
use std::io;
use std::path::Path;

/// Takes records one after the other: the buffer (0: the top one), the CPU, and the record or a loss.
pub type Sink<'a> = dyn FnMut(usize, Cpu, Piece<'_>) -> io::Result<()> + 'a;

/// A trace as records. Each CPU's come in order of time; CPUs may take turns.
pub trait RecordSource {
    /// All but the records: formats, names, options, instances.
    fn header(&self) -> &dat::Header;

    /// Hands every record to `sink`.
    ///
    /// # Errors
    /// I/O, or what the sink returns.
    fn each(&mut self, sink: &mut Sink<'_>) -> io::Result<()>;

    /// Whether the records come buffer by buffer and CPU by CPU.
    fn by_cpu(&self) -> bool;

    /// What was found wrong; complete when [`Self::each`] has returned.
    fn warnings(&self) -> &[Warning];
}

/// Opens a trace as records; `None` when its format has none (texts, Perfetto).
///
/// # Errors
/// As [`crate::open`].
pub fn open_records(path: &Path) -> Result<Option<Box<dyn RecordSource>>, TraceError> {
    let input = Input::open(path)?;
    let mut start = [0; 16];
    let count = input.read_at(0, &mut start).map_err(|error| TraceError::io(path, error))?;
    let start = &start[..count];
    if start.starts_with(dat::MAGIC) {
        return Ok(Some(Box::new(DatReader::open_as(input, &Options::default(), true)?)));
    }
    if start.starts_with(perf::MAGIC_LITTLE) || start.starts_with(perf::MAGIC_BIG) {
        return Ok(Some(Box::new(PerfRecords::open(input)?)));
    }
    Ok(None)
}
