//! The runs that are laid side by side.

use crate::commands::UsageError;
use crate::commands::observe::observe;
use crate::machines;
use anyhow::Context as _;
use schedlab_model::{Nanos, Setting, Span};
use schedlab_replay::{Inferred, MemorySource, Side, TaskChange};
use schedlab_timeline::Cut;
use schedlab_workload::demand::Demand;
use schedlab_workload::{HOST, MachineName, Observed, RecordSpec, RunSpec, WorkloadSpec};
use std::path::PathBuf;

/// What is replayed, and on which machines.
pub(super) struct ReplayPlan {
    pub(super) file: PathBuf,
    /// The machine that stands for the recorded one.
    pub(super) base: MachineName,
    /// What knobs were in the recording, beside what the trace holds.
    pub(super) recorded: Vec<Setting>,
    /// Another machine, or the same with other settings; `None`: only fidelity is asked for.
    pub(super) change: Option<(MachineName, Vec<Setting>)>,
    pub(super) warm_up: Nanos,
}

impl ReplayPlan {
    /// The settings of a changed run: the recorded knobs that the machine has, then what was asked for.
    pub(super) fn with_recorded(
        &self,
        machine: &MachineName,
        settings: &[Setting],
    ) -> anyhow::Result<Vec<Setting>> {
        if self.recorded.is_empty() || machine.kind != machines::SIM {
            return Ok(settings.to_vec());
        }
        let knobs = machines::make(machine)?.offers().knobs.clone();
        let has = |one: &&Setting| knobs.iter().any(|knob| knob.name == one.knob);
        Ok(self.recorded.iter().filter(has).chain(settings).cloned().collect())
    }
}

pub(super) struct Run {
    pub(super) machine: MachineName,
    pub(super) side: Side,
    /// Its events.
    pub(super) source: MemorySource,
}

/// The recording, its replay, and the replay on a changed machine, if one was asked for.
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
    pub(super) fn perform(inferred: &Inferred, plan: &ReplayPlan) -> anyhow::Result<Self> {
        let cut = Cut { from: Some(plan.warm_up), to: Some(inferred.demand.length) };
        // A host gives tasks pids of its own, so that tasks are matched by name.
        let by_name = plan.change.as_ref().is_some_and(|(on, _)| on.kind == HOST);
        let mut recording =
            schedlab_trace::open_with(&plan.file, &schedlab_trace::Options::all_cpus())?;
        let recorded = Side::of(&mut *recording, cut, by_name)?;
        let run = |machine: &MachineName, settings: &[Setting]| -> anyhow::Result<Run> {
            let mut source = perform(inferred, machine, settings, 0)?;
            let side = Side::of(&mut source, cut, by_name)?;
            Ok(Run { machine: machine.clone(), side, source })
        };
        let replayed = run(&plan.base, &plan.recorded)?;
        let change = plan.change.as_ref();
        let changed = change
            .map(|(machine, settings)| run(machine, &plan.with_recorded(machine, settings)?))
            .transpose()?;
        let settings = change.map(|(_, settings)| settings.clone()).unwrap_or_default();
        let assumed = machines::assumptions(&plan.base)?;
        Ok(Self { recorded, replayed, changed, settings, cut, assumed })
    }
}

/// Performs the demand on a machine and keeps its events.
pub(super) fn perform(
    inferred: &Inferred,
    on: &MachineName,
    settings: &[Setting],
    repeat: u32,
) -> anyhow::Result<MemorySource> {
    let (demand, settings) = changed(&inferred.demand, settings)?;
    // A simulated kernel performs the recorded groups; this machine keeps its own.
    let mut machine = machines::make(on)?;
    let has_groups = || machine.offers().knobs.iter().any(|knob| knob.name == "cgroup_weight");
    let (real_time, groups) = match on.kind == machines::SIM {
        true if has_groups() => ("fair", "keep"),
        true => ("fair", "none"),
        false => ("keep", "none"),
    };
    let program = demand.to_string();
    let calls = if on.kind == machines::SIM { "recorded" } else { "own" };
    let options = [
        ("program", program),
        ("real-time", real_time.into()),
        ("groups", groups.into()),
        ("calls", calls.into()),
    ];
    let options = options.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    let workload = WorkloadSpec::Builtin { name: "replay".to_owned(), options };
    let spec = RunSpec {
        settings,
        record: Some(RecordSpec { required: true, ..RecordSpec::default() }),
        repeat,
        ..RunSpec::of(workload)
    };
    machine.check(&spec)?;
    let observed = observe(machine.as_mut(), &spec, true).with_context(|| {
        match inferred.demand.objects.is_empty() {
            true => "the replay",
            false => "the replay (its tasks share objects: --no-objects replays without them)",
        }
    })?;
    source_of(observed, demand.length)
}

/// The demand with what settings change in single tasks, and the settings of the machine.
fn changed(demand: &Demand, settings: &[Setting]) -> anyhow::Result<(Demand, Vec<Setting>)> {
    let mut demand = demand.clone();
    let mut rest = Vec::new();
    for setting in settings {
        match TaskChange::of(setting) {
            None => rest.push(setting.clone()),
            Some(change) => change
                .and_then(|change| change.apply(&mut demand))
                .map_err(|why| anyhow::Error::new(UsageError(why)))?,
        }
    }
    Ok((demand, rest))
}

/// The events of a run, cut where the demand ends.
fn source_of(observed: Observed, length: Nanos) -> anyhow::Result<MemorySource> {
    let Observed { info, mut events, .. } = observed;
    let mut info = info.context("the machine recorded no scheduler events")?;
    let first = events.first().map_or(Nanos::ZERO, |event| event.time);
    // Time zero of a replay is when its recording began, not when its first task ran.
    let start = info.span.map_or(first, |span| span.start);
    info.span = Some(Span::new(start, start + length));
    let end = events.partition_point(|event| event.time <= start + length);
    events.truncate(end);
    Ok(MemorySource::new(info, events))
}
