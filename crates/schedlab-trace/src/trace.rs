//! An opened trace of any format, as a type: whoever knows it reads without a batch in between.

use crate::ahead;
use crate::dat::{self, DatReader};
use crate::input::Input;
use crate::perf::{self, PerfReader};
use crate::{Options, TraceError, perfetto, text};
use schedlab_model::{Event, EventSink, EventSource, TraceInfo, Warning};
use std::borrow::Cow;
use std::io;
use std::path::Path;

/// A trace that was opened. As a source of events it is what [`crate::open_with`] gives; [`EventSource::drain`]
/// decodes straight into its sink where the format allows.
pub struct Trace(Reader);

/// Bytes that are looked at to tell formats apart.
pub(crate) const SNIFFED: usize = 4096;

enum Reader {
    Dat(Box<DatReader>),
    Perf(Box<PerfReader>),
    Any(Box<dyn EventSource>),
}

impl Trace {
    /// Opens the trace at `path`, whatever its format.
    ///
    /// # Errors
    /// As [`crate::open`].
    pub fn open(path: &Path, options: &Options) -> Result<Self, TraceError> {
        Self::of(Input::open(path)?, options)
    }

    pub(crate) fn of(input: Input, options: &Options) -> Result<Self, TraceError> {
        let path = input.path().to_owned();
        let mut start = vec![0; SNIFFED];
        let count = input.read_at(0, &mut start).map_err(|error| TraceError::io(&path, error))?;
        start.truncate(count);
        if start.is_empty() {
            return Err(TraceError::Empty { path });
        }
        match form(&path, &start)? {
            Form::Dat => Self::dat(input, options),
            Form::Perf => {
                let reader = PerfReader::open(input, options.arguments, options.threads)?;
                Ok(Self(Reader::Perf(Box::new(reader))))
            }
            Form::Perfetto => {
                Ok(Self::any(perfetto::PerfettoReader::open(input, options.arguments)?))
            }
            Form::Text => match text::TextReader::open(input)? {
                Some(reader) => Ok(Self::any(reader)),
                None => Err(TraceError::Unknown { path, seen: seen(&start) }),
            },
        }
    }

    /// Opens a trace.dat.
    fn dat(input: Input, options: &Options) -> Result<Self, TraceError> {
        let again = input.again().map_err(|error| TraceError::io(input.path(), error))?;
        let (ahead, reader) = match DatReader::open(input, options) {
            // No pages, but perhaps the text of a latency tracer.
            Err(error @ TraceError::NoEvents { .. }) => {
                let reader = match dat::text_of(&again) {
                    Some(offset) => text::TextReader::open_at(again, offset)?,
                    None => None,
                };
                return reader.map_or(Err(error), |reader| Ok(Self::any(reader)));
            }
            other => other?,
        };
        Ok(Self(match ahead {
            true => Reader::Any(ahead::ahead(reader)),
            false => Reader::Dat(Box::new(reader)),
        }))
    }

    fn any(source: impl EventSource + 'static) -> Self {
        Self(Reader::Any(Box::new(source)))
    }

    /// The same without its type.
    pub(crate) fn boxed(self) -> Box<dyn EventSource> {
        match self.0 {
            Reader::Dat(reader) => reader,
            Reader::Perf(reader) => reader.boxed(),
            Reader::Any(reader) => reader,
        }
    }

    fn source(&self) -> &dyn EventSource {
        match &self.0 {
            Reader::Dat(reader) => &**reader,
            Reader::Perf(reader) => &**reader,
            Reader::Any(reader) => &**reader,
        }
    }
}

impl EventSource for Trace {
    fn info(&self) -> &TraceInfo {
        self.source().info()
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        match &mut self.0 {
            Reader::Dat(reader) => reader.next(batch),
            Reader::Perf(reader) => reader.next(batch),
            Reader::Any(reader) => reader.next(batch),
        }
    }

    fn drain<S: EventSink>(&mut self, sink: &mut S) -> io::Result<()> {
        match &mut self.0 {
            Reader::Dat(reader) => reader.drain(sink),
            Reader::Perf(reader) => reader.drain(sink),
            Reader::Any(reader) => {
                let mut batch = Vec::new();
                while reader.next(&mut batch)? {
                    batch.iter().for_each(|event| sink.take(event));
                }
                Ok(())
            }
        }
    }

    fn warnings(&self) -> &[Warning] {
        self.source().warnings()
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        self.source().arguments(index)
    }
}

/// What a trace is by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Dat,
    Perf,
    Perfetto,
    /// A text, which may be a trace.
    Text,
}

/// The form of what begins so. Of a text, more than [`SNIFFED`] bytes must hold an event.
pub(crate) fn form(path: &Path, start: &[u8]) -> Result<Form, TraceError> {
    if start.starts_with(dat::MAGIC) {
        return Ok(Form::Dat);
    }
    if start.starts_with(perf::MAGIC_LITTLE) || start.starts_with(perf::MAGIC_BIG) {
        return Ok(Form::Perf);
    }
    let first = &start[..start.len().min(SNIFFED)];
    if perfetto::looks_like(first) {
        return Ok(Form::Perfetto);
    }
    if !first.contains(&0) && (start.len() <= SNIFFED || text::has_event(start)) {
        return Ok(Form::Text);
    }
    Err(TraceError::Unknown { path: path.to_owned(), seen: seen(first) })
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
