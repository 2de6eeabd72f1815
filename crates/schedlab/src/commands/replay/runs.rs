//! The runs that are laid side by side.

use crate::commands::observe::observe;
use crate::machines;
use anyhow::Context as _;
use schedlab_model::{Nanos, Setting, Span};
use schedlab_replay::{Inferred, Kept, Side};
use schedlab_timeline::Cut;
use schedlab_workload::{HOST, MachineName, Observed, RecordSpec, RunSpec, WorkloadSpec};
use std::path::{Path, PathBuf};

/// What was asked for.
pub(super) struct Asked {
    pub(super) file: PathBuf,
    /// The machine that is most like the recorded one.
    pub(super) base: MachineName,
    /// Another machine, or the same with other settings; `None`: only fidelity is asked for.
    pub(super) change: Option<(MachineName, Vec<Setting>)>,
    pub(super) warm_up: Nanos,
}

impl Asked {
    pub(super) fn of(
        file: &Path,
        on: Option<&MachineName>,
        settings: Vec<Setting>,
        warm_up: Nanos,
    ) -> anyhow::Result<Self> {
        let mut base = super::like(file);
        // What things cost is no change: it is a better likeness.
        if let Some(costs) = on.and_then(|on| on.settings.get("costs")) {
            base.settings.insert("costs".to_owned(), costs.clone());
        }
        let on = on.unwrap_or(&base).clone();
        let change = (on != base || !settings.is_empty()).then_some((on, settings));
        Ok(Self { file: file.to_owned(), base, change, warm_up })
    }
}

/// One run, and what it did.
pub(super) struct Run {
    pub(super) machine: MachineName,
    pub(super) side: Side,
    pub(super) kept: Kept,
}

/// The runs.
pub(super) struct Runs {
    pub(super) recorded: Side,
    pub(super) replayed: Run,
    pub(super) changed: Option<Run>,
    pub(super) settings: Vec<Setting>,
    /// The judged part, since the recording began.
    pub(super) cut: Cut,
    /// What was assumed of the machine.
    pub(super) assumed: Vec<String>,
}

impl Runs {
    pub(super) fn perform(inferred: &Inferred, asked: &Asked) -> anyhow::Result<Self> {
        let cut = Cut { from: Some(asked.warm_up), to: Some(inferred.demand.length) };
        // Pids of a host are its own: its tasks are known by their names.
        let by_name = asked.change.as_ref().is_some_and(|(on, _)| on.kind == HOST);
        let mut source =
            schedlab_trace::open_with(&asked.file, &schedlab_trace::Options::all_cpus())?;
        let recorded = Side::of(&mut *source, cut, by_name)?;
        let run = |machine: &MachineName, settings: &[Setting]| -> anyhow::Result<Run> {
            let mut kept = perform(inferred, machine, settings, 0)?;
            let side = Side::of(&mut kept, cut, by_name)?;
            Ok(Run { machine: machine.clone(), side, kept })
        };
        let replayed = run(&asked.base, &[])?;
        let change = asked.change.as_ref();
        let changed = change.map(|(machine, settings)| run(machine, settings)).transpose()?;
        let settings = change.map(|(_, settings)| settings.clone()).unwrap_or_default();
        let assumed = machines::assumptions(&asked.base)?;
        Ok(Self { recorded, replayed, changed, settings, cut, assumed })
    }
}

/// Performs the demand on a machine and keeps its events.
pub(super) fn perform(
    inferred: &Inferred,
    on: &MachineName,
    settings: &[Setting],
    repeat: u32,
) -> anyhow::Result<Kept> {
    let demand = &inferred.demand;
    let fair = if on.kind == machines::SIM { "fair" } else { "keep" };
    let options = [("program", demand.to_string()), ("real-time", fair.to_owned())];
    let options = options.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    let workload = WorkloadSpec::Builtin { name: "replay".to_owned(), options };
    let spec = RunSpec {
        settings: settings.to_vec(),
        record: Some(RecordSpec { required: true, ..RecordSpec::default() }),
        repeat,
        ..RunSpec::of(workload)
    };
    let mut machine = machines::make(on)?;
    machine.check(&spec)?;
    let observed = observe(machine.as_mut(), &spec, true)?;
    kept(observed, demand.length)
}

/// The events of a run, cut where the demand ends.
fn kept(observed: Observed, length: Nanos) -> anyhow::Result<Kept> {
    let Observed { info, mut events, .. } = observed;
    let mut info = info.context("the machine recorded no scheduler events")?;
    let first = events.first().map_or(Nanos::ZERO, |event| event.time);
    // Time zero of a replay is when its recording began, not when its first task ran.
    let start = info.span.map_or(first, |span| span.start);
    info.span = Some(Span::new(start, start + length));
    let end = events.partition_point(|event| event.time <= start + length);
    events.truncate(end);
    Ok(Kept::new(info, events))
}
