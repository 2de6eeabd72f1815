//! A run on any machine, with its figures and events in memory.

use crate::commands::scratch::Scratch;
use anyhow::Context as _;
use schedlab_model::{Event, TraceInfo, Warning};
use schedlab_sim::calibrate::Observed;
use schedlab_workload::{Figure, Machine, Output, RunSpec, Stream};
use std::path::PathBuf;

/// What a run told, with what is known of its trace.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) observed: Observed,
    pub(super) info: Option<TraceInfo>,
}

/// Keeps what a run tells; a machine that writes a file puts it into the folder.
struct Keeper {
    folder: Scratch,
    observed: Observed,
    info: Option<TraceInfo>,
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

    fn trace(&mut self, info: &TraceInfo) -> std::io::Result<()> {
        self.info = Some(info.clone());
        self.observed.trace(info)
    }

    fn events(&mut self, events: &[Event]) -> std::io::Result<()> {
        self.observed.events(events)
    }

    fn warning(&mut self, _: Warning) {}

    fn stopped(&self) -> bool {
        false
    }
}

/// Performs a spec and reads the trace back, if the machine wrote one.
pub(super) fn observe(machine: &mut dyn Machine, spec: &RunSpec) -> anyhow::Result<Seen> {
    let folder = Scratch::new("sim").context("a place for the trace")?;
    let mut keeper = Keeper { folder, observed: Observed::default(), info: None };
    let outcome = machine.run(spec, &mut keeper)?;
    anyhow::ensure!(outcome.exit_code == 0, "the load ended with exit code {}", outcome.exit_code);
    let file = keeper.path(Stream::Trace);
    if spec.record.is_some() && keeper.info.is_none() && file.exists() {
        let mut source = schedlab_trace::open(&file)?;
        let mut batch = Vec::new();
        while source.next(&mut batch)? {
            keeper.observed.events.extend_from_slice(&batch);
        }
        keeper.observed.comms.clone_from(&source.info().comms);
        keeper.info = Some(source.info().clone());
    }
    Ok(Seen { observed: keeper.observed, info: keeper.info })
}
