//! From any format to any other. Between formats that hold records (trace.dat, perf.data) the records
//! pass untouched; towards the rest they are decoded, and what the target cannot hold is said.

mod csv;
mod dat;
#[cfg(feature = "parquet")]
mod events;
mod list;
mod report;
mod row;
mod tick_rate;
mod ticks;

use crate::conversion_loss::cannot_hold;
use crate::error::TraceError;
use crate::event_sink::EventSink;
use crate::function_names::Names;
use crate::new_file::replace;
use crate::perfetto::PerfettoWriter;
use crate::selection::Part;
use crate::task_names::TaskNames;
use crate::{Options, dat as trace_dat, open_records, open_with};
pub use list::{Line, List, list};
pub use row::EventRow;
use schedlab_model::{Clock, EventSource, Nanos, TraceInfo, Warning, What};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroU64;
use std::path::Path;
pub use tick_rate::tick_hz;

/// The format of a converted trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A trace.dat of trace-cmd, in this version of the format and with its pages compressed so.
    Dat(trace_dat::Version, trace_dat::Compression),
    /// The protobuf of Perfetto (ui.perfetto.dev).
    Perfetto,
    /// Comma-separated values, a line for each event.
    /// An apostrophe goes before names that a spreadsheet takes for formulas.
    Csv,
    /// The same with names as they are, for programs.
    RawCsv,
    /// The events as a Parquet table; only with the feature `parquet`.
    Parquet,
    /// The text of `trace-cmd report`.
    Report,
}

impl Target {
    /// The target that a file's name asks for: `.dat`, `.pftrace` or `.perfetto-trace`, `.csv`,
    /// `.parquet`, `.txt`. `None` for any other ending.
    #[must_use]
    pub fn by_name(path: &Path) -> Option<Self> {
        Some(match path.extension()?.to_str()? {
            "dat" => Self::Dat(trace_dat::Version::V6, trace_dat::Compression::None),
            "pftrace" | "perfetto-trace" | "perfetto" | "pb" => Self::Perfetto,
            "csv" => Self::Csv,
            "parquet" => Self::Parquet,
            "txt" | "report" => Self::Report,
            _ => return None,
        })
    }
}

/// What a conversion did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Number of events or records that were written.
    pub events: u64,
    /// Whether the converter copied the records without decoding them, which keeps unknown tracepoints.
    pub untouched: bool,
    /// What the source lacked and what the target cannot hold.
    pub warnings: Vec<Warning>,
}

/// What a conversion may know that the trace does not say.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// How many ticks the trace's clock counts in a second. A trace.dat keeps its records; its head gets the length of
    /// a tick, where trace-cmd writes it too.
    pub tick_hz: Option<NonZeroU64>,
    /// Who knows the functions in stacks. A trace.dat keeps places and addresses.
    pub names: Option<Names>,
}

/// Writes the trace `from` as `to`. The file appears under its name only when it is whole. `-` is the standard
/// input and the standard output.
///
/// # Errors
/// The source is no trace, or the target cannot be written.
pub fn convert(from: &Path, to: &Path, target: Target) -> Result<Converted, TraceError> {
    convert_with(from, to, target, &ConvertOptions::default())
}

/// Writes the trace `from` as `to`, as [`convert`] does, with options.
///
/// # Errors
/// As [`convert`]; or the trace's clock counts nanoseconds, and `tick_hz` is given.
pub fn convert_with(
    from: &Path,
    to: &Path,
    target: Target,
    options: &ConvertOptions,
) -> Result<Converted, TraceError> {
    replace(to, |part| write(from, part, target, options).map_err(|error| error.of(part, to)))
}

/// Writes the trace `from`, whose clock counts `hz` ticks a second, as `to` in nanoseconds. A trace.dat keeps its records;
/// its head gets the length of a tick, where trace-cmd writes it too.
///
/// # Errors
/// As [`convert`]; or the trace's clock counts nanoseconds.
pub fn convert_ticks(
    from: &Path,
    to: &Path,
    target: Target,
    hz: NonZeroU64,
) -> Result<Converted, TraceError> {
    convert_with(from, to, target, &ConvertOptions { tick_hz: Some(hz), names: None })
}

/// Writes a part of the trace `from` as the trace.dat `to`, as [`convert`] does. Records keep their bytes, and the head
/// its formats, names and options.
///
/// # Errors
/// As [`convert`]; or no event belongs to the part.
pub fn cut(
    from: &Path,
    to: &Path,
    version: trace_dat::Version,
    compression: trace_dat::Compression,
    part: &Part,
) -> Result<Converted, TraceError> {
    replace(to, |file| {
        let written = to_dat(from, file, version, compression, part, None)
            .map_err(|error| error.of(file, to))?;
        if written.events == 0 {
            let what = "the selected part holds no event: select another time, CPU or task";
            return Err(TraceError::no_events(from, "trace", what));
        }
        Ok(written)
    })
}

fn to_dat(
    from: &Path,
    file: &Path,
    version: trace_dat::Version,
    compression: trace_dat::Compression,
    part: &Part,
    hz: Option<NonZeroU64>,
) -> Result<Converted, TraceError> {
    let failed = |error| TraceError::io(file, &error);
    if hz.is_some() {
        opened(from, &Options::default(), hz)?;
    }
    if let Some(mut records) = open_records(from)? {
        return dat::pass(records.as_mut(), file, version, compression, part, hz).map_err(failed);
    }
    let mut source = opened(from, &Options::default(), hz)?;
    dat::encode(source.as_mut(), file, version, compression, part).map_err(failed)
}

fn write(
    from: &Path,
    part: &Path,
    target: Target,
    options: &ConvertOptions,
) -> Result<Converted, TraceError> {
    let failed = |error| TraceError::io(part, &error);
    if let Target::Dat(version, compression) = target {
        return to_dat(from, part, version, compression, &Part::default(), options.tick_hz);
    }
    let mut source = open_whole(from, options)?;
    if target == Target::Parquet {
        return parquet(source.as_mut(), part);
    }
    // Plain: the caller hides the file until it is whole.
    let out = BufWriter::with_capacity(1 << 16, File::create(part).map_err(failed)?);
    let written = match target {
        Target::Csv | Target::RawCsv => {
            drive(source.as_mut(), &mut csv::Csv::new(out, target == Target::RawCsv))
        }
        Target::Report => drive(source.as_mut(), &mut report::Report::new(out)),
        Target::Perfetto | Target::Dat(..) | Target::Parquet => {
            let clock = source.info().clock.clone();
            drive(source.as_mut(), &mut PerfettoWriter::new(out, clock))
        }
    };
    written.map_err(failed)
}

#[cfg(feature = "parquet")]
fn parquet(source: &mut dyn EventSource, part: &Path) -> Result<Converted, TraceError> {
    let failed = |error| TraceError::io(part, &error);
    let mut events = events::Events::create(part).map_err(failed)?;
    drive(source, &mut events).map_err(failed)
}

#[cfg(not(feature = "parquet"))]
fn parquet(_source: &mut dyn EventSource, part: &Path) -> Result<Converted, TraceError> {
    let what = "cannot write Parquet: this build lacks the feature `parquet`";
    Err(TraceError::target(part, what))
}

/// Events with the arguments of other tracepoints.
fn open_whole(from: &Path, options: &ConvertOptions) -> Result<Box<dyn EventSource>, TraceError> {
    let names = options.names.clone();
    let reading = Options { arguments: true, names, ..Options::default() };
    opened(from, &reading, options.tick_hz)
}

/// A trace whose clock counts `hz` ticks a second, if that is given.
fn opened(
    from: &Path,
    options: &Options,
    hz: Option<NonZeroU64>,
) -> Result<Box<dyn EventSource>, TraceError> {
    let source = open_with(from, options)?;
    let Some(hz) = hz else { return Ok(source) };
    let what = "its clock counts nanoseconds, not ticks: convert it without the rate of a counter";
    let timed = ticks::Timed::new(source, hz);
    timed
        .map(|timed| Box::new(timed) as Box<dyn EventSource>)
        .ok_or_else(|| TraceError::target(from, what))
}

fn drive(source: &mut dyn EventSource, sink: &mut dyn EventSink) -> io::Result<Converted> {
    let mut names = TaskNames::new(&source.info().comms);
    let mut converted = Converted::default();
    let mut batch = Vec::new();
    let mut first = None;
    let mut last = None;
    sink.begin(source.info())?;
    while source.next(&mut batch)? {
        for (index, event) in batch.iter().enumerate() {
            if let Some(text) = source.arguments(index) {
                sink.arguments(&text);
            }
            match event.what {
                What::Comm { pid, comm } => names.put(pid, comm),
                // The event that says so comes too.
                What::Online { .. } => continue,
                _ => converted.events += 1,
            }
            if !matches!(event.what, What::Lost { .. }) {
                first.get_or_insert(event.time);
                last = Some(event.time);
            }
            sink.event(event, &names, source.info())?;
        }
    }
    sink.end(&names, source.info())?;
    converted.warnings = source.warnings().to_vec();
    converted.warnings.extend(sink.dropped());
    converted.warnings.extend(besides(source.info(), first.zip(last)));
    Ok(converted)
}

/// What a source knows beside its events, and targets without room for it leave out.
fn besides(info: &TraceInfo, events: Option<(Nanos, Nanos)>) -> impl Iterator<Item = Warning> {
    let clock = match &info.clock {
        Clock::Monotonic => Some("mono"),
        Clock::Nanoseconds(name) | Clock::Ticks(name) => Some(name.as_str()),
    };
    let named = [
        info.topology.is_some().then(|| "how the CPUs share hardware".to_owned()),
        info.affinity.is_some().then(|| "on which CPUs tasks were allowed".to_owned()),
        clock.filter(|name| *name != "unknown").map(|name| format!("the clock's name ({name})")),
        info.kernel.as_ref().map(|kernel| format!("the kernel ({kernel})")),
        info.at_start.is_some().then(|| "who ran and waited at the start".to_owned()),
        info.span
            .zip(events)
            .filter(|(span, (first, last))| span.start < *first || *last < span.end)
            .map(|(span, (first, last))| {
                let before = first - span.start;
                let after = span.end - last;
                format!("that nothing happened in the {before} before and the {after} after")
            }),
    ];
    let said = |what| cannot_hold(format!("{what} is left out"), "convert to trace.dat to keep it");
    named.into_iter().flatten().map(said)
}

/// Flushes a writer's buffer at the end.
pub(crate) fn flush(out: &mut impl Write) -> io::Result<()> {
    out.flush()
}
