//! `schedlab run`: an experiment file, planned, run, stored and reported.

use super::UsageError;
use super::experiment_options::ExperimentOptions;
use super::result_file::add_to_summary;
use super::verdicts::refuse_drift;
use crate::machines;
use crate::output::Width;
use anyhow::Context as _;
use schedlab_experiment::analysis::{Cells, Comparison, FailIf, Finding, judge, scales};
use schedlab_experiment::report::{answer, claims, readable, scale, text_map};
use schedlab_experiment::{
    Experiment, Machines, Place, Plan, Progress, Shard, StoredRun, StoredRuns, Tally, is_passing,
    machine_line, mixed_versions, run_experiment, run_plan, run_shard, runs_of, unknown_metric,
};
use schedlab_workload::WorkloadSpec;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// What was measured is stored, but the user stopped before the end.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// Options of `schedlab run`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    stored: Option<OfStored>,
    #[command(flatten)]
    asked: Option<ExperimentOptions>,
    /// Do part I of N of the runs; I starts at 1
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Print the plan and its duration, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Fail on a condition, such as 'time_s > +3%' (repeatable)
    #[arg(long = "fail-if", value_name = "CONDITION")]
    fail_if: Vec<FailIf>,
    /// Rank runs that failed behind all others, instead of giving no verdict beside them
    #[arg(long)]
    allow_failures: bool,
    /// Let --fail-if judge sides that did not run interleaved: a drift between them is then included
    #[arg(long)]
    allow_drift: bool,
    /// Add the question and the answer to the summary of a job on GitHub
    #[arg(long)]
    github: bool,
    #[command(flatten)]
    width: Width,
}

/// What is done with stored results.
#[derive(clap::Subcommand)]
enum OfStored {
    /// Write the report of stored results again
    Report(super::report::Args),
}

/// A condition of `--fail-if` holds, or a claim of the file is not reproduced.
const EXIT_CONDITION: u8 = 3;
/// The runs do not tell whether a condition holds.
const EXIT_CANT_TELL: u8 = 125;

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { stored, asked, shard, dry_run, fail_if, .. } = args;
    let Args { allow_failures, allow_drift, github, width, .. } = args;
    if let Some(OfStored::Report(args)) = stored {
        return super::report::run(args);
    }
    let asked = asked.expect("clap requires a file without a subcommand");
    let mut machines = Machines::made_by(&machines::make);
    let (mut experiment, results) = asked.read(&mut machines)?;
    experiment.allow_failures |= allow_failures;
    check_conditions(&experiment, &fail_if)?;
    let plan = match shard {
        Some(shard) => Plan::listed(&experiment)?.shard(shard),
        None => Plan::new(&experiment),
    };
    if dry_run {
        print_plan(&plan)?;
    }
    check(&mut machines, &experiment, &plan)?;
    if dry_run {
        let told = estimate(&mut machines, &experiment, &plan, &results)?;
        crate::output::stdout().write_all(told.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if probe(&mut machines, &experiment, &plan, &results)? {
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    let told = estimate(&mut machines, &experiment, &plan, &results)?;
    crate::output::stderr().write_all(told.as_bytes())?;
    let tally = perform(&mut machines, &experiment, shard, &results)?;
    let is_open = tally.stopped || tally.boots_left > 0 || shard.is_some();
    let verdict = conclude(&experiment, &results, is_open, width.room())?;
    if tally.stopped || is_open {
        return Ok(exit_code(&tally));
    }
    if github {
        let stored = super::report::stored(&results)?;
        let answer = answer::lines(&experiment, &stored.runs, &stored.looks);
        let question = &experiment.question;
        add_to_summary(&format!(
            "### {}\n\n{question}\n\n- {}\n",
            experiment.title,
            answer.join("\n- ")
        ))?;
    }
    let has_failed = !tally.failed.is_empty() && !experiment.allow_failures;
    if has_failed || verdict.is_missing {
        return Ok(ExitCode::FAILURE);
    }
    let code = judge_conditions(&experiment, &results, &fail_if, allow_drift)?;
    Ok(code.unwrap_or(if verdict.has_failed_claim { EXIT_CONDITION } else { 0 }).into())
}

/// Refuses conditions on metrics that no run of the experiment measures, before the first run.
fn check_conditions(experiment: &Experiment, conditions: &[FailIf]) -> anyhow::Result<()> {
    if !experiment.hooks.metric.is_empty() {
        return Ok(());
    }
    conditions.iter().try_for_each(|condition| known_metric("--fail-if", &condition.metric))
}

/// Refuses the name of a metric that nothing measures, with one that is alike.
pub(crate) fn known_metric(option: &str, name: &str) -> anyhow::Result<()> {
    unknown_metric(name).map_or(Ok(()), |why| Err(UsageError(format!("{option}: {why}")).into()))
}

/// The exit code of conditions on what was found; `None` where none holds.
fn judge_conditions(
    experiment: &Experiment,
    results: &Path,
    conditions: &[FailIf],
    allow_drift: bool,
) -> anyhow::Result<Option<u8>> {
    if conditions.is_empty() {
        return Ok(None);
    }
    let stored = super::report::stored(results)?;
    let mut experiment = experiment.clone();
    experiment.measure = conditions.iter().map(|condition| condition.metric.clone()).collect();
    let contrasts = answer::contrasts(&experiment, &stored.runs, &stored.looks);
    let found = || contrasts.iter().flat_map(|contrast| &contrast.found);
    if !allow_drift {
        refuse_drift(found())?;
    }
    let rows = || found().flat_map(Comparison::rows);
    let mut stderr = crate::output::stderr();
    let mut code = None;
    for condition in conditions {
        let metric = &condition.metric;
        if rows().next().is_some() && rows().all(|row| row.metric.name != *metric) {
            return Err(UsageError(format!("--fail-if: no run measured '{metric}'")).into());
        }
        let mut is_open = contrasts.is_empty();
        for contrast in &contrasts {
            match condition.check(&contrast.found) {
                Some(true) => {
                    let axis = &contrast.axis;
                    let value = &contrast.value;
                    writeln!(stderr, "schedlab: {axis}={value}: {metric} is beyond the limit")?;
                    return Ok(Some(EXIT_CONDITION));
                }
                Some(false) => {}
                None => is_open = true,
            }
        }
        if is_open {
            let why = match contrasts.is_empty() {
                true => "nothing is compared, since no axis of the experiment is a setting",
                false => "undecided",
            };
            writeln!(stderr, "schedlab: {metric}: {why}")?;
            code = Some(EXIT_CANT_TELL);
        }
    }
    Ok(code)
}

/// What was concluded, for the exit code.
#[derive(Default)]
pub(crate) struct Concluded {
    /// Whether something was to be compared and could not be.
    is_missing: bool,
    /// Whether a claim of the file is not reproduced.
    has_failed_claim: bool,
}

/// Writes the report of the stored runs, and prints the answer, in tables of at most `room` columns. While runs are
/// `open`, there is none.
pub(crate) fn conclude(
    experiment: &Experiment,
    results: &Path,
    open: bool,
    room: usize,
) -> anyhow::Result<Concluded> {
    let stored = super::report::stored(results)?;
    let path = results.join("report.html");
    super::report::write(Some(experiment), &experiment.title, &stored, &path)?;
    tell_answer(experiment, &stored, open, room)?;
    let mut concluded = Concluded::default();
    let mut stdout = crate::output::stdout();
    if !open {
        let judged = judge(experiment, &stored.runs);
        if !judged.is_empty() {
            writeln!(stdout, "{}", claims::summary(&judged))?;
        }
        concluded.has_failed_claim = judged.iter().any(|one| one.finding == Finding::NotReproduced);
        let runs = &stored.runs;
        let looks = &stored.looks;
        concluded.is_missing = answer::has_no_verdict(experiment, runs, looks);
    }
    writeln!(stdout, "{}", path.display())?;
    Ok(concluded)
}

/// Lines and columns of a terminal.
const SCREEN: (usize, usize) = (24, 80);

/// The question, its answer, a map and the warnings, last on the terminal.
fn tell_answer(
    experiment: &Experiment,
    stored: &StoredRuns,
    open: bool,
    room: usize,
) -> anyhow::Result<()> {
    let runs = &stored.runs;
    let answer = match open {
        // A verdict now would be one more look at the data, and later verdicts less sure.
        true => vec![format!("No answer yet: {} runs are done, and more are planned.", runs.len())],
        false => answer::lines(experiment, runs, &stored.looks),
    };
    let mut map = if open { Vec::new() } else { text_map(experiment, runs) };
    if map.is_empty() && !open {
        let cells = Cells::new(runs);
        let tables = scales(experiment, &cells);
        map.extend(tables.iter().flat_map(|scale| lines_of(&scale::table(scale).fit(room))));
    }
    let mut last = vec![mixed_versions(runs)];
    let warnings = answer::by_kind(runs);
    if !warnings.is_empty() {
        last.push(format!("Warnings: {}.", warnings.join("; ")));
    }
    let mut stdout = crate::output::stdout();
    for line in screen(&experiment.question, &answer, map, last) {
        writeln!(stdout, "{line}")?;
    }
    Ok(())
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// What fits on a terminal below each other: the question, as much of the answer as there is room for,
/// the map, and the rest. One line is left for the path of the report.
fn screen(question: &str, answer: &[String], map: Vec<String>, rest: Vec<String>) -> Vec<String> {
    let lines = |text: &str| text.chars().count().div_ceil(SCREEN.1);
    let rest: Vec<String> = rest.into_iter().filter(|text| !text.is_empty()).collect();
    let taken = lines(question) + map.len() + rest.iter().map(|t| lines(t)).sum::<usize>();
    // An empty line before, the path and the prompt after, and the line about what is left out.
    let mut room = SCREEN.0.saturating_sub(taken + 4);
    let mut out = vec![String::new()];
    out.extend((!question.is_empty()).then(|| question.to_owned()));
    let mut told = 0;
    for sentence in answer {
        // The first one is the answer: it stands there, however long.
        if told > 0 && lines(sentence) > room {
            break;
        }
        room = room.saturating_sub(lines(sentence));
        out.push(sentence.clone());
        told += 1;
    }
    if told < answer.len() {
        out.push(format!("{} more sentences are in the report.", answer.len() - told));
    }
    out.extend(map);
    out.extend(rest);
    out
}

/// Does the runs of an experiment, or of a shard of it, with progress on stderr, and keeps the file.
pub(crate) fn perform(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    shard: Option<Shard>,
    results: &Path,
) -> anyhow::Result<Tally> {
    let signals = schedlab_sys::signal::catch().context("catching Ctrl-C")?;
    let stop = || signals.caught().is_some();
    let mut told = BTreeSet::new();
    let mut tell = |progress: &Progress<'_>| tell(progress, &mut told);
    let tally = match shard {
        Some(shard) => run_shard(machines, experiment, shard, results, &stop, &mut tell)?,
        None => run_experiment(machines, experiment, results, &stop, &mut tell)?,
    };
    tell_failures(&tally)?;
    let mut stderr = crate::output::stderr();
    if tally.boots_left > 0 && !tally.stopped {
        let left = tally.boots_left;
        writeln!(
            stderr,
            "schedlab: done for this boot: boot again and run the same command, {left} more times"
        )?;
    }
    if tally.stopped {
        writeln!(
            stderr,
            "schedlab: stopped; results are partial, and the same command goes on from here"
        )?;
    }
    Ok(tally)
}

/// Each run that failed, in a line.
pub(crate) fn tell_failures(tally: &Tally) -> std::io::Result<()> {
    let mut stderr = crate::output::stderr();
    tally.failed.iter().try_for_each(|why| writeln!(stderr, "schedlab: failed: {why}"))
}

/// Whether the machines offer what the plan asks for; what falls short goes to stderr.
pub(crate) fn check(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    plan: &Plan,
) -> anyhow::Result<()> {
    for warning in plan.check(machines, experiment)? {
        writeln!(crate::output::stderr(), "schedlab: {warning}")?;
    }
    Ok(())
}

/// A line for each run, between runs only: what is drawn during a measurement disturbs it.
pub(super) fn tell(progress: &Progress<'_>, told: &mut BTreeSet<String>) {
    let mut stderr = crate::output::stderr();
    let line = match progress {
        Progress::Begins { index, total, run, left } => {
            let left = left.map_or(String::new(), |left| {
                format!(", about {} left", schedlab_model::Nanos::from(round(left)))
            });
            format!("run {} of {total}: {}{}{left}", index + 1, run.workload, place(&run.point))
        }
        Progress::Failed { run, error } => {
            format!("{}{}: {error}", run.workload, place(&run.point))
        }
        Progress::Ended { stored, .. } => match (stored.failure(), new_doubts(stored, told)) {
            (Some(why), _) => format!("  failed: {why}"),
            (None, doubts) if doubts.is_empty() => return,
            (None, doubts) => format!("  warning: {doubts}"),
        },
        Progress::Again { doubtful, patience } => {
            let codes: Vec<&str> =
                doubtful.warnings.iter().filter(|w| is_passing(w)).map(|w| &*w.code).collect();
            let most = schedlab_model::Nanos::from(*patience);
            let wait = match patience.is_zero() {
                true => String::new(),
                false => format!(", after at most {most} of waiting for a quiet machine"),
            };
            let line = format!("  repeating this round ({}){wait}", codes.join(", "));
            match new_doubts(doubtful, told) {
                doubts if doubts.is_empty() => line,
                doubts => format!("{line}: {doubts}"),
            }
        }
        Progress::SetAside { run, error, folder } => format!(
            "{}{}: repeating a damaged run: {error}; its remains are in {}",
            run.workload,
            place(&run.point),
            folder.display()
        ),
        Progress::Skipped { .. } => return,
    };
    let _ = writeln!(stderr, "{line}");
    if crate::output::is_watched() {
        let _ = stderr.flush();
    }
}

/// Each kind of warning is told once, at its first run; the end counts them ([`answer::by_kind`]).
fn new_doubts(stored: &StoredRun, told: &mut BTreeSet<String>) -> String {
    let new = |warning: &&schedlab_model::Warning| told.insert(warning.code.clone());
    let doubts: Vec<String> = stored.warnings.iter().filter(new).map(ToString::to_string).collect();
    doubts.join("; ")
}

fn round(left: std::time::Duration) -> std::time::Duration {
    std::time::Duration::from_secs(left.as_secs() + 1)
}

pub(super) fn place(point: &schedlab_experiment::Point) -> String {
    let parts: Vec<String> = point.iter().map(|(axis, value)| format!(" {axis}={value}")).collect();
    parts.concat()
}

fn print_plan(plan: &Plan) -> anyhow::Result<()> {
    let mut out = crate::output::stdout();
    let machines: BTreeSet<String> = plan.runs.iter().map(|run| run.machine.to_string()).collect();
    let machines: Vec<String> = machines.into_iter().collect();
    writeln!(out, "{} runs on {}:", plan.runs.len(), machines.join(" and "))?;
    for run in &plan.runs {
        let what = match &run.spec.workload {
            WorkloadSpec::Builtin { name, options } => {
                let options: Vec<String> =
                    options.iter().map(|(k, v)| format!(" --{k} {v}")).collect();
                format!("{name}{}", options.concat())
            }
            WorkloadSpec::Command { argv } => argv.join(" "),
        };
        let settings = &run.spec.settings;
        let settings: Vec<String> =
            settings.iter().map(|s| format!(" {}={}", s.knob, s.value)).collect();
        let on = if machines.len() > 1 { format!(" on {}", run.machine) } else { String::new() };
        writeln!(out, "{}  block {}  {what}{}{on}", run.id, run.block + 1, settings.concat())?;
    }
    Ok(())
}

/// Plans of fewer runs than this are not estimated by a run.
const PROBED: usize = 4;

/// A virtual machine takes tens of seconds for a second of its own, and nothing tells before how much
/// a run needs. So the first run of a plan is done first, unless such a run is stored: it is one of the
/// plan's, so nothing is done twice. Returns whether the user stopped it.
fn probe(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    plan: &Plan,
    results: &Path,
) -> anyhow::Result<bool> {
    let Some(first) = plan.runs.first().filter(|_| plan.runs.len() >= PROBED) else {
        return Ok(false);
    };
    let is_known = runs_of(results).is_ok_and(|found| found.runs.iter().any(StoredRun::is_whole));
    // Runs whose looks or warm-up come first are none that may be taken out of their order.
    if first.machine.kind != machines::VM || is_known || experiment.warm_up > 0 {
        return Ok(false);
    }
    let mut stderr = crate::output::stderr();
    writeln!(stderr, "schedlab: the first run shows how long the others take")?;
    let signals = schedlab_sys::signal::catch().context("catching Ctrl-C")?;
    let stop = || signals.caught().is_some();
    let one = Plan { runs: vec![first.clone()] };
    let tally = run_plan(machines, &one, results, &stop, &mut |_| ())?;
    for run in runs_of(results)?.runs.iter().filter(|run| run.is_whole()) {
        let took = run.manifest.took_ns as f64 / 1e9;
        let pace = run.value("time_s").filter(|time| *time > 0.0).map(|time| took / time);
        let took = readable(took, schedlab_model::Unit::Seconds);
        let pace = pace.map_or(String::new(), |pace| {
            format!(": {pace:.0} s of this machine for each second that was measured in the guest")
        });
        writeln!(stderr, "schedlab: it took {took}{pace}")?;
    }
    if tally.stopped {
        writeln!(stderr, "schedlab: stopped; the same command goes on from here")?;
    }
    Ok(tally.stopped)
}

/// Each machine in a line, and how long the plan takes, from runs of the same workload that are stored; else
/// by its limit.
fn estimate(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    plan: &Plan,
    results: &Path,
) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    let mut places = Vec::new();
    for name in experiment.machines() {
        let facts = machines.get(&name)?.facts();
        lines.push(machine_line(&facts));
        places.push(Place::of(&facts));
    }
    let mut stored = runs_of(results).map(|found| found.runs).unwrap_or_default();
    stored.retain(|run| places.iter().any(|here| run.manifest.place.is_near(here)));
    let is_done = |id| {
        stored.iter().any(|run| {
            run.manifest.id == id && run.failure().is_none() && !run.manifest.interrupted
        })
    };
    let mut seconds = 0.0;
    let mut left = 0;
    let mut unknown = 0;
    for run in plan.runs.iter().filter(|run| !is_done(run.id.clone())) {
        left += 1;
        let took = |alike: &dyn Fn(&StoredRun) -> bool| {
            let times = stored.iter().filter(|s| s.manifest.workload == run.workload && alike(s));
            let sample =
                schedlab_stats::Sample::new(times.map(|s| s.manifest.took_ns as f64 / 1e9));
            sample.ok().map(|times| times.median())
        };
        let known = took(&|s| s.manifest.point == run.point).or_else(|| took(&|_| true));
        match known.or_else(|| run.spec.time_limit.map(|limit| limit.as_secs_f64())) {
            Some(time) => seconds += time,
            None => unknown += 1,
        }
        unknown += usize::from(known.is_none() && run.spec.time_limit.is_some());
    }
    let about = readable(seconds, schedlab_model::Unit::Seconds);
    lines.push(if unknown == 0 {
        format!("{left} runs to do, about {about}, judged by stored runs")
    } else if seconds > 0.0 {
        format!("{left} runs to do, at most {about} by their limits; nothing alike ran yet")
    } else {
        format!("{left} runs to do; how long they take is known once some are done")
    });
    lines.extend(more(experiment, plan.runs.len()));
    Ok(lines.join("\n") + "\n")
}

/// What may come on top of the plan, or cut it short.
fn more(experiment: &Experiment, runs: usize) -> Option<String> {
    let stop = &experiment.stop;
    let mut all = Vec::new();
    if experiment.warm_up > 0 {
        all.push(format!("{} runs of warm-up before them", experiment.warm_up));
    }
    if experiment.retries > 0 {
        all.push(format!("up to {} more attempts at each run with a warning", experiment.retries));
    }
    if let Some(most) = stop.looks.last() {
        let points = runs / experiment.repeats as usize;
        let further = points * (most - experiment.repeats) as usize;
        all.push(format!("up to {further} further runs while verdicts are undecided"));
    }
    if let Some(most) = stop.repeats_max.filter(|most| *most > experiment.repeats) {
        let points = runs / experiment.repeats as usize;
        let further = points * (most - experiment.repeats) as usize;
        all.push(format!("up to {further} further runs of points that stay wide"));
    }
    if let Some(budget) = stop.budget {
        all.push(format!("no round that begins after {budget}"));
    }
    if experiment.boots > 1 {
        all.push(format!("the same again in {} further boots", experiment.boots - 1));
    }
    (!all.is_empty()).then(|| format!("besides: {}", all.join("; ")))
}

/// Done, failed in part, or stopped.
pub(crate) fn exit_code(tally: &Tally) -> ExitCode {
    match tally {
        Tally { stopped: true, .. } => ExitCode::from(EXIT_INTERRUPTED),
        Tally { failed, .. } if !failed.is_empty() => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_answer_and_map_fit_on_the_last_24_lines() {
        let answer: Vec<String> = (0..20).map(|n| format!("{n} {}", "word ".repeat(30))).collect();
        let map: Vec<String> = (0..8).map(|n| format!("row {n}")).collect();
        let told = screen("Is it?", &answer, map, vec![String::new(), "Warnings: none.".into()]);
        let lines: usize = told.iter().map(|t| t.chars().count().div_ceil(80).max(1)).sum();
        assert!(lines + 2 <= 24, "{lines}: {told:#?}");
        assert!(told.contains(&"Is it?".to_owned()) && told.contains(&"row 7".to_owned()));
        assert!(told.iter().any(|line| line.ends_with("more sentences are in the report.")));
        let short = screen("Is it?", &answer[..1], Vec::new(), Vec::new());
        assert_eq!(short.len(), 3, "{short:#?}");
    }
}
