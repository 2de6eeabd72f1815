//! A run on any machine, with its figures and events in memory.

use super::temporary_folder::Scratch;
use anyhow::Context as _;
use schedlab_model::{Event, TraceInfo, Warning, What};
use schedlab_workload::{Figure, Interval, Machine, Observed, Output, RunSpec, Stream};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Keeps what a run tells; a machine that writes a file puts it into the folder.
struct Keeper {
    folder: Scratch,
    observed: Observed,
    aloud: bool,
}

impl Output for Keeper {
    fn path(&mut self, stream: Stream) -> PathBuf {
        self.folder.path().join(match stream {
            Stream::Trace => "trace.dat",
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        })
    }

    fn figure(&mut self, figure: Figure) -> std::io::Result<()> {
        self.observed.figure(figure)
    }

    fn interval(&mut self, interval: &Interval) {
        self.observed.interval(interval);
    }

    fn trace(&mut self, info: &TraceInfo) -> std::io::Result<()> {
        self.observed.trace(info)
    }

    fn events(&mut self, events: &[Event]) -> std::io::Result<()> {
        self.observed.events(events)
    }

    fn events_with(&mut self, events: &[Event], arguments: &[String]) -> std::io::Result<()> {
        self.observed.events_with(events, arguments)
    }

    fn note(&mut self, sentence: &str) {
        if self.aloud {
            let _ = writeln!(crate::output::stderr(), "schedlab: {sentence}");
        }
    }

    fn warning(&mut self, warning: Warning) {
        if self.aloud {
            super::trace::form::print_notes(&[warning]);
        }
    }

    fn stopped(&self) -> bool {
        false
    }
}

/// Performs a spec and reads the trace back, if the machine wrote one. `aloud` prints notes and warnings to stderr.
pub(super) fn observe(
    machine: &mut dyn Machine,
    spec: &RunSpec,
    aloud: bool,
) -> anyhow::Result<Observed> {
    let folder = Scratch::new("observe").context("a place for the trace")?;
    let mut keeper = Keeper { folder, observed: Observed::default(), aloud };
    let outcome = machine.run(spec, &mut keeper)?;
    anyhow::ensure!(outcome.exit_code == 0, "the load ended with exit code {}", outcome.exit_code);
    let file = keeper.path(Stream::Trace);
    let mut observed = keeper.observed;
    if spec.record.is_some() && observed.info.is_none() && file.exists() {
        let (info, events, arguments) = whole_trace(&file)?;
        (observed.info, observed.events, observed.arguments) = (Some(info), events, arguments);
    }
    Ok(observed)
}

/// All events of a trace, what is known of it, and the arguments of tracepoints beyond the scheduler's, in their order.
pub(super) fn whole_trace(path: &Path) -> anyhow::Result<(TraceInfo, Vec<Event>, Vec<String>)> {
    let options = schedlab_trace::Options { arguments: true, ..schedlab_trace::Options::default() };
    let mut source = schedlab_trace::open_with(path, &options)?;
    let mut events = Vec::new();
    let mut batch = Vec::new();
    let mut arguments = Vec::new();
    while source.next(&mut batch)? {
        events.extend_from_slice(&batch);
        let others =
            batch.iter().enumerate().filter(|(_, of)| matches!(of.what, What::Other { .. }));
        let text = |index| source.arguments(index).map_or(String::new(), |text| text.into_owned());
        arguments.extend(others.map(|(index, _)| text(index)));
    }
    Ok((source.info().clone(), events, arguments))
}
