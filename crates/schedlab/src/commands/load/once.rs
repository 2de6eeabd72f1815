//! One run, printed when it ends; intervals are noted on stderr while it runs.

use super::document::Document;
use super::perf;
use super::show::{self, Measured};
use super::{Wanted, trace_file, usage};
use crate::commands::temporary_folder::Scratch;
use crate::json;
use schedlab_model::{Event, TraceInfo, Warning};
use schedlab_trace::EventWriter;
use schedlab_workload::{
    Figure, Interval, Machine, MachineError, Outcome, Output, RunSpec, Stream,
};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code of what a signal ended.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// Called for each interval and note as it comes.
pub(crate) type Listener<'l> = &'l mut dyn FnMut(Progress<'_>);

/// What a run reports before it ends.
pub(crate) enum Progress<'h> {
    /// A sentence about the options.
    Note(&'h str),
    /// Figures so far.
    Interval(&'h Interval),
}

/// Keeps what a run tells, in memory; its streams go to a folder that vanishes with it. A machine that
/// hands over streams after the run has no folder before: a kill then leaves none.
struct Keeper<'l> {
    folder: Option<std::io::Result<Scratch>>,
    trace: Option<PathBuf>,
    /// The trace of a machine that gives events.
    events: Option<EventWriter>,
    measured: Measured,
    listener: Listener<'l>,
}

impl Keeper<'_> {
    /// A file of the folder. Nothing can be written to it if the folder could not be made.
    fn file(&mut self, name: &str) -> PathBuf {
        match self.folder.get_or_insert_with(|| Scratch::new("load")) {
            Ok(folder) => folder.path().join(name),
            Err(_) => PathBuf::from("/dev/null").join(name),
        }
    }

    fn finish_trace(&mut self) -> std::io::Result<()> {
        self.events.take().map_or(Ok(()), EventWriter::finish)
    }
}

impl Output for Keeper<'_> {
    fn path(&mut self, stream: Stream) -> PathBuf {
        match (stream, &self.trace) {
            (Stream::Trace, Some(path)) => path.clone(),
            (Stream::Trace, None) => self.file("trace.dat"),
            (Stream::Stdout, _) => self.file("stdout"),
            (Stream::Stderr, _) => self.file("stderr"),
        }
    }

    fn trace(&mut self, info: &TraceInfo) -> std::io::Result<()> {
        let path = self.path(Stream::Trace);
        self.events = Some(EventWriter::create(&path, info)?);
        Ok(())
    }

    fn events(&mut self, events: &[Event]) -> std::io::Result<()> {
        self.events.as_mut().map_or(Ok(()), |trace| trace.events(events))
    }

    fn events_with(&mut self, events: &[Event], arguments: &[String]) -> std::io::Result<()> {
        let trace = self.events.as_mut();
        trace.map_or(Ok(()), |trace| trace.events_with(events, arguments))
    }

    fn figure(&mut self, figure: Figure) -> std::io::Result<()> {
        self.measured.figures.push(figure);
        Ok(())
    }

    fn interval(&mut self, interval: &Interval) {
        (self.listener)(Progress::Interval(interval));
        self.measured.intervals.push(interval.clone());
    }

    fn interval_beside(&mut self, label: &str, interval: &Interval) {
        self.measured.beside.entry(label.to_owned()).or_default().push(interval.clone());
    }

    fn note(&mut self, sentence: &str) {
        (self.listener)(Progress::Note(sentence));
    }

    fn warning(&mut self, warning: Warning) {
        self.measured.warnings.push(warning);
    }

    fn stopped(&self) -> bool {
        false
    }
}

/// Performs a spec on a machine and keeps all that it tells.
pub(crate) fn perform(
    machine: &mut dyn Machine,
    spec: &RunSpec,
    trace: Option<PathBuf>,
    listener: Listener<'_>,
) -> Result<(Measured, Outcome), MachineError> {
    let mut measured = Measured::of(spec);
    measured.facts_before(machine.facts());
    let mut keeper = Keeper { folder: None, trace, events: None, measured, listener };
    let ran = machine.run(spec, &mut keeper);
    if let Some(Err(error)) = keeper.folder.take_if(|folder| folder.is_err()) {
        return Err(MachineError::io("a place for streams", error));
    }
    let outcome = ran?;
    keeper.finish_trace().map_err(|e| MachineError::io("storing the trace", e))?;
    keeper.measured.facts_after(machine.facts().load);
    keeper.measured.interrupted = outcome.interrupted;
    keeper.measured.censored = outcome.censored;
    Ok((keeper.measured, outcome))
}

/// An error of a run as an error of the command: a wrong option is wrong usage.
pub(crate) fn run_error(error: MachineError) -> anyhow::Error {
    match error {
        MachineError::Option { .. } => usage(error),
        other => other.into(),
    }
}

pub(super) fn run(wanted: &Wanted, machine: &mut dyn Machine) -> anyhow::Result<ExitCode> {
    let mut note = |progress: Progress<'_>| {
        if let Progress::Note(sentence) = progress {
            let _ = writeln!(crate::output::stderr(), "{sentence}");
        }
    };
    let format = wanted.own.text("format");
    let bench = if format == "text" { None } else { Some(perf::Bench::of(wanted)?) };
    let (measured, outcome) =
        perform(machine, &wanted.spec, trace_file(wanted), &mut note).map_err(run_error)?;
    let quantiles = show::quantiles(wanted.own.text("percentiles")).map_err(usage)?;
    let text = match (wanted.own.flag("json"), wanted.own.flag("csv")) {
        (true, _) => json::line(&Document::of(&measured, &quantiles))? + "\n",
        (false, true) => show::csv(&measured, &quantiles),
        (false, false) => match bench {
            Some(bench) => bench.text(&measured, format == "perf-simple"),
            None => show::text(&measured, &quantiles, super::room(wanted)),
        },
    };
    show::print(&text)?;
    if outcome.censored && wanted.own.flag("csv") {
        let _ = writeln!(
            crate::output::stderr(),
            "schedlab: ended by the time limit: times are at least"
        );
    }
    Ok(match (outcome.interrupted, outcome.exit_code) {
        (true, _) => ExitCode::from(EXIT_INTERRUPTED),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::FAILURE,
    })
}
