//! Repeats, interleaved with a second setting, by the one run loop; intervals and a verdict.
//!
//! The run is the unit: what varies between runs is what an interval is about, however many samples
//! lie in each.

use super::document::{self, Against, BesideRepeats, Estimate, Repeats, Samples};
use super::once::{EXIT_INTERRUPTED, run_error};
use super::outliers::outliers;
use super::show;
use super::{Wanted, room, usage};
use crate::commands::temporary_folder::Folder;
use crate::commands::verdicts::print_text;
use crate::json;
use crate::output::folded;
use anyhow::Context as _;
use schedlab_experiment::analysis::{CompareOptions, Comparison, compare};
use schedlab_experiment::{
    Hooks, Machines, Plan, Planned, Progress, RunId, StoredRun, Tally, run_plan, runs_of,
};
use schedlab_model::Setting;
use schedlab_stats::{Interval, Random, Sample, SampleError, interval};
use schedlab_workload::{Figure, Machine, RunSpec, Series, WorkloadSpec};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Confidence of the intervals.
const LEVEL: f64 = 0.95;

/// Before the command that runs beside the second setting.
const COMMAND: &str = "run:";

/// One of two settings.
struct Side {
    spec: RunSpec,
    /// With the command that runs meanwhile, if any.
    hooks: Hooks,
}

pub(super) fn run(wanted: &Wanted, machine: &mut dyn Machine) -> anyhow::Result<ExitCode> {
    let mut sides = vec![Side { spec: wanted.spec.clone(), hooks: Hooks::default() }];
    if let Some(other) = against(wanted)? {
        machine.check(&other.spec).map_err(run_error)?;
        sides.push(other);
    }
    measure(wanted, &sides, machine, folder_of(wanted)?.path())
}

/// The second setting: the first with what `--against` says.
fn against(wanted: &Wanted) -> anyhow::Result<Option<Side>> {
    let text = wanted.own.text("against");
    if text.is_empty() {
        return Ok(None);
    }
    if let Some(command) = text.trim_start().strip_prefix(COMMAND) {
        if command.trim().is_empty() {
            return Err(usage("option against: missing command after run:"));
        }
        let during = ["sh", "-c", command].map(str::to_owned).to_vec();
        let hooks = Hooks { during, ..Hooks::default() };
        return Ok(Some(Side { spec: wanted.spec.clone(), hooks }));
    }
    let mut spec = wanted.spec.clone();
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, "true"));
        if word == "alone" && !spec.beside.is_empty() {
            spec.beside.clear();
            continue;
        }
        let labelled = name.split_once(':').filter(|(label, _)| *label != "knob");
        if let Some((label, name)) = labelled {
            let beside = spec.beside.iter_mut().find(|beside| beside.label == label);
            match beside.map(|beside| &mut beside.workload) {
                Some(WorkloadSpec::Builtin { options, .. }) => {
                    options.insert(name.to_owned(), value.to_owned());
                }
                _ => {
                    let why =
                        format!("option against: no workload of --beside has the label '{label}'");
                    return Err(usage(why));
                }
            }
            continue;
        }
        match (name.strip_prefix("knob:"), &mut spec.workload) {
            (Some(knob), _) => {
                spec.settings.push(Setting { knob: knob.to_owned(), value: value.to_owned() });
            }
            (None, WorkloadSpec::Builtin { options, .. }) => {
                options.insert(name.trim_start_matches('-').to_owned(), value.to_owned());
            }
            (None, WorkloadSpec::Command { .. }) => unreachable!("loads are workloads of ours"),
        }
    }
    if spec == wanted.spec {
        return Err(usage("option against: it is the same setting"));
    }
    Ok(Some(Side { spec, hooks: Hooks::default() }))
}

/// Where runs are stored.
pub(super) fn folder_of(wanted: &Wanted) -> anyhow::Result<Folder> {
    let output = Some(wanted.own.text("output")).filter(|text| !text.is_empty());
    Folder::of(output.map(Path::new), "repeat")
}

/// Performs a plan by the one run loop, telling on stderr where it is; the runs that nobody stopped.
pub(crate) fn perform(
    machines: &mut Machines<'_>,
    plan: &Plan,
    folder: &Path,
) -> anyhow::Result<(Vec<StoredRun>, Tally)> {
    let signals = schedlab_sys::signal::catch().context("catching Ctrl-C")?;
    let mut tell = |progress: &Progress<'_>| {
        let line = match progress {
            Progress::Begins { index, total, .. } => format!("run {} of {total}", index + 1),
            Progress::Failed { error, .. } => format!("failed: {error}"),
            _ => return,
        };
        let _ = writeln!(crate::output::stderr(), "{line}");
    };
    let stop = || signals.caught().is_some();
    let tally = run_plan(machines, plan, folder, &stop, &mut tell)?;
    let mut runs = runs_of(folder)?.runs;
    runs.retain(|run| !run.manifest.interrupted || run.is_censored());
    Ok((runs, tally))
}

fn measure(
    wanted: &Wanted,
    sides: &[Side],
    machine: &mut dyn Machine,
    folder: &Path,
) -> anyhow::Result<ExitCode> {
    let repeats = u32::try_from(wanted.own.number("repeat")).expect("in range");
    // With a second setting one run of each would say nothing.
    let repeats = if sides.len() > 1 && !wanted.own.is_given("repeat") { 10 } else { repeats };
    let plan = plan(wanted, sides, repeats);
    let (runs, tally) = perform(&mut Machines::one(machine), &plan, folder)?;
    let of_hooks = |id: &RunId, hooked: bool| {
        let planned = |run: &&Planned| run.id == *id && run.hooks != Hooks::default();
        plan.runs.iter().any(|run| planned(&run)) == hooked
    };
    let of_side = |side: &Side| -> Vec<StoredRun> {
        let spec = &side.spec;
        let hooked = side.hooks != Hooks::default();
        let same = |run: &&StoredRun| {
            run.manifest.spec.workload == spec.workload
                && run.manifest.spec.beside == spec.beside
                && run.manifest.spec.settings == spec.settings
                && of_hooks(&run.manifest.id, hooked)
        };
        runs.iter().filter(same).cloned().collect()
    };
    let mut stored: Vec<Vec<StoredRun>> = sides.iter().map(of_side).collect();
    let comparisons = match &stored[..] {
        [before, after] => {
            // Both settings run in each round, in an order of chance.
            let asked = CompareOptions { interleaved: true, ..CompareOptions::default() };
            compare(&[(before, after)], &asked)
        }
        _ => Vec::new(),
    };
    let failed: Vec<String> = stored.iter().flatten().filter_map(StoredRun::failure).collect();
    if let Some(why) = failed.first() {
        let count = failed.len();
        let all = plan.runs.len();
        writeln!(crate::output::stderr(), "schedlab: {count} of {all} runs failed: {why}")?;
        stored.iter_mut().for_each(|runs| runs.retain(|run| run.failure().is_none()));
    }
    if wanted.own.flag("json") {
        json::print(&Repeats::of(wanted, sides, &stored, comparisons, tally.stopped)?)?;
    } else {
        show::print(&folded(&text(wanted, &stored[0]), 4, room(wanted)))?;
        if !comparisons.is_empty() {
            show::print(&format!("\nagainst {}:\n", wanted.own.text("against")))?;
            print_text(&comparisons, "before", wanted.own.text("against"), room(wanted))?;
        }
    }
    Ok(match (tally.stopped, tally.failed.is_empty()) {
        (true, _) => ExitCode::from(EXIT_INTERRUPTED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}

/// All runs. Each block has every setting once, in random order.
fn plan(wanted: &Wanted, sides: &[Side], repeats: u32) -> Plan {
    let mut random = Random::new(wanted.spec.seed);
    let mut runs = Vec::new();
    for block in 0..repeats {
        let one = |side: &Side| {
            let spec = RunSpec { repeat: block, ..side.spec.clone() };
            let workload = wanted.workload.name.to_owned();
            let point = BTreeMap::new();
            let machine = wanted.on.clone();
            let id = RunId::with_hooks(&machine, &spec, &side.hooks);
            Planned { id, workload, point, block, spec, hooks: side.hooks.clone(), machine }
        };
        let mut round: Vec<Planned> = sides.iter().map(one).collect();
        random.shuffle(&mut round);
        runs.extend(round);
    }
    Plan { runs }
}

/// The values of a figure of all tasks together, by its name, over the runs; with the metric's unit.
/// `of` is whose they are: empty for the workload itself, or the label of one beside it.
fn figures(runs: &[StoredRun], of: &str) -> Vec<(schedlab_model::Metric, Vec<f64>)> {
    let mut all: Vec<(schedlab_model::Metric, Vec<f64>)> = Vec::new();
    for figure in runs.iter().flat_map(|run| &run.figures).filter(|f| f.of == of) {
        match all.iter_mut().find(|(metric, _)| *metric == figure.metric) {
            Some((_, values)) => values.push(figure.value),
            None => all.push((figure.metric.clone(), vec![figure.value])),
        }
    }
    all
}

fn text(wanted: &Wanted, runs: &[StoredRun]) -> String {
    let mut text = format!("{}: {} runs\n\n", wanted.workload.name, runs.len());
    text.push_str(&lines(wanted, runs, ""));
    for beside in &wanted.spec.beside {
        let _ = writeln!(text, "\nbeside it, {}:\n", beside.label);
        text.push_str(&lines(wanted, runs, &beside.label));
    }
    text.push_str(&doubts(runs));
    text
}

fn lines(wanted: &Wanted, runs: &[StoredRun], of: &str) -> String {
    let mut text = String::new();
    for (metric, values) in figures(runs, of) {
        let name = metric.name.trim_end_matches("_ns").replace('_', " ");
        let shown = |value: f64| show::human(value, metric.unit);
        let Ok(sample) = Sample::new(values) else { continue };
        let cut = runs.iter().filter(|run| run.manifest.censored).count();
        if cut > 0 && metric.name == "time_s" {
            // An interval of what a limit cut off would be narrow and wrong.
            let least = shown(sample.median());
            let _ = writeln!(
                text,
                "  {name:32} at least {least} (the time limit ended {cut} of {} runs)",
                runs.len()
            );
            continue;
        }
        // Times, rates, counts and shares: nothing that a load measures can be negative.
        let found = interval(&sample, LEVEL, wanted.spec.seed).map(Interval::not_negative);
        let line = match found {
            Ok(i) => format!(
                "{:<14} {} to {} ({:.0} %)",
                shown(i.estimate),
                shown(i.low),
                shown(i.high),
                i.level * 100.0
            ),
            Err(SampleError::NoSpread) => {
                format!("{:<14} identical in {} runs", shown(sample.median()), sample.len())
            }
            Err(why) => format!("{:<14} no interval: {why}", shown(sample.median())),
        };
        let _ = writeln!(text, "  {name:32} {line}");
        if let Some(doubt) = outliers(&metric, &sample) {
            let _ = writeln!(text, "    warning: {}; {}", doubt.what, doubt.remedy);
        }
    }
    text
}

fn doubts(runs: &[StoredRun]) -> String {
    let mut text = String::new();
    let mut doubts: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for warning in runs.iter().flat_map(|run| &run.warnings) {
        let told = format!("{}\n  {}", warning.what, warning.remedy);
        doubts.entry(&warning.code).or_insert((0, told)).0 += 1;
    }
    for (count, told) in doubts.values() {
        let _ = write!(text, "\nwarning in {count} of {} runs: {told}\n", runs.len());
    }
    text
}

impl Repeats {
    fn of(
        wanted: &Wanted,
        sides: &[Side],
        stored: &[Vec<StoredRun>],
        comparisons: Vec<Comparison>,
        stopped: bool,
    ) -> anyhow::Result<Self> {
        let percents = show::quantiles(wanted.own.text("percentiles")).map_err(usage)?;
        let samples =
            |runs: &[StoredRun], of: &str| anyhow::Ok(Samples::of(&merged(runs, of)?, &percents));
        let own = &stored[0];
        let beside = |beside: &schedlab_workload::Beside| {
            let all: Vec<Vec<Figure>> =
                own.iter().map(|run| show::of_beside(beside, &run.figures)).collect();
            Ok(BesideRepeats {
                figures: document::figures(all.iter().map(Vec::as_slice)),
                label: beside.label.clone(),
                workload: show::name(&beside.workload),
                intervals95: intervals(wanted, own, &beside.label),
                series: samples(own, &beside.label)?,
            })
        };
        let beside = sides[0].spec.beside.iter().map(beside).collect::<anyhow::Result<_>>()?;
        let against = match stored {
            [_, after] => Some(Against {
                spec: sides[1].spec.clone(),
                figures: figures_of(after),
                series: samples(after, "")?,
                command: sides[1].hooks.during.last().cloned(),
            }),
            _ => None,
        };
        Ok(Self {
            figures: figures_of(own),
            workload: wanted.workload.name.to_owned(),
            spec: sides[0].spec.clone(),
            interrupted: stopped,
            censored: own.iter().map(|run| run.manifest.censored).collect(),
            intervals95: intervals(wanted, own, ""),
            series: samples(own, "")?,
            beside,
            comparisons: against.is_some().then_some(comparisons),
            against,
        })
    }
}

/// The figures of all runs, by metric.
fn figures_of(runs: &[StoredRun]) -> document::Figures {
    document::figures(runs.iter().map(|run| run.figures.as_slice()))
}

/// The samples of all runs in one histogram for each series. Runs, not samples, are what intervals are
/// about; but a tail is seen best in all samples together.
fn merged(runs: &[StoredRun], of: &str) -> anyhow::Result<Vec<Series>> {
    let mut all: Vec<Series> = Vec::new();
    for run in runs {
        let told = run.intervals(of)?;
        for series in told.into_iter().filter(|interval| interval.last).flat_map(|i| i.total) {
            match all.iter_mut().find(|s| s.metric == series.metric && s.of == series.of) {
                Some(known) => known.histogram.merge(&series.histogram),
                None => all.push(series),
            }
        }
    }
    Ok(all)
}

/// Intervals of the figures of `of` (see [`figures`]), by name.
fn intervals(wanted: &Wanted, runs: &[StoredRun], of: &str) -> BTreeMap<String, Estimate> {
    let none = |why: String| Estimate { none: Some(why), ..Estimate::default() };
    figures(runs, of)
        .into_iter()
        .map(|(metric, values)| {
            let cut = runs.iter().any(|run| run.manifest.censored) && metric.name == "time_s";
            if cut {
                return (metric.name, none("the time limit ended runs".into()));
            }
            let sample = Sample::new(values);
            let runs = runs.len();
            let same = sample.as_ref().ok().map(Sample::median);
            let doubt = sample.as_ref().ok().and_then(|sample| outliers(&metric, sample));
            let made = sample.and_then(|s| interval(&s, LEVEL, wanted.spec.seed));
            let estimate = match made.map(Interval::not_negative) {
                Ok(i) => Estimate {
                    estimate: Some(i.estimate),
                    ci: Some([i.low, i.high]),
                    level: Some(i.level),
                    ..Estimate::default()
                },
                Err(SampleError::NoSpread) => {
                    Estimate { estimate: same, ..none(format!("identical in {runs} runs")) }
                }
                Err(why) => none(why.to_string()),
            };
            (metric.name, Estimate { warnings: doubt.into_iter().collect(), ..estimate })
        })
        .collect()
}
