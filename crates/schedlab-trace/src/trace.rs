//! An opened trace of any format, as a type: code that knows it reads without a batch in between.

use crate::background_source;
use crate::dat::{self, DatReader};
use crate::detect::{Form, SNIFFED, form, seen};
use crate::error::{TraceError, TraceErrorKind};
use crate::input::Input;
use crate::perf::PerfReader;
use crate::{Options, perfetto, pipe_input, text};
use schedlab_model::{Event, EventSink, EventSource, TraceInfo, Warning};
use std::borrow::Cow;
use std::io;
use std::path::Path;

/// A trace that was opened. As a source of events it is what [`crate::open_with`] gives; [`EventSource::drain`]
/// decodes straight into its sink where the format allows.
pub struct Trace(Reader);

enum Reader {
    Dat(Box<DatReader>),
    Perf(Box<PerfReader>),
    Any(Box<dyn EventSource>),
}

impl Trace {
    /// Opens the trace at `path`; the content decides the format.
    ///
    /// # Errors
    /// As [`crate::open`].
    pub fn open(path: &Path, options: &Options) -> Result<Self, TraceError> {
        Self::of(pipe_input::input(path)?, options)
    }

    pub(crate) fn of(input: Input, options: &Options) -> Result<Self, TraceError> {
        let path = input.path().to_owned();
        let mut start = vec![0; SNIFFED];
        let count = input.read_at(0, &mut start).map_err(|error| TraceError::io(&path, &error))?;
        start.truncate(count);
        if start.is_empty() {
            return Err(TraceError::empty(&path));
        }
        match form(&path, &start)? {
            Form::Dat => Self::dat(input, options),
            Form::Perf => {
                let reader = PerfReader::open(input, options)?;
                Ok(Self(Reader::Perf(Box::new(reader))))
            }
            Form::Perfetto => {
                Ok(Self::any(perfetto::PerfettoReader::open(input, options.arguments)?))
            }
            Form::Text => {
                if let Some(what) =
                    refused(&input).map_err(|error| TraceError::io(&path, &error))?
                {
                    return Err(TraceError::no_events(&path, "text", &what));
                }
                match text::TextReader::open(input)? {
                    Some(reader) => Ok(Self::any(reader)),
                    None => Err(TraceError::unknown(&path, &seen(&start))),
                }
            }
        }
    }

    /// Opens a trace.dat, with as many threads as the options allow.
    fn dat(input: Input, options: &Options) -> Result<Self, TraceError> {
        let again = input.again().map_err(|error| TraceError::io(input.path(), &error))?;
        let (ahead, reader) = match DatReader::open(input, options) {
            // No pages, but perhaps the text of a latency tracer.
            Err(error) if error.kind() == TraceErrorKind::NoEvents => {
                let reader = match dat::text_of(&again) {
                    Some(offset) => text::TextReader::open_at(again, offset)?,
                    None => None,
                };
                return reader.map_or(Err(error), |reader| Ok(Self::any(reader)));
            }
            other => other?,
        };
        Ok(Self(match ahead {
            true => Reader::Any(background_source::ahead(reader)),
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

/// Bytes of a text that decide whether it is refused.
const JUDGED: usize = 1 << 16;

/// Why a text is not read, if it is not.
fn refused(input: &Input) -> io::Result<Option<String>> {
    let mut start = vec![0; JUDGED];
    let count = input.read_at(0, &mut start)?;
    // A line that is cut says nothing.
    let end = start[..count].iter().rposition(|byte| *byte == b'\n').map_or(count, |at| at + 1);
    Ok(text::refusal(&start[..end]))
}
