//! `schedlab tune`: search for a setting that beats the default, and prove the gain with fresh runs.

mod dialogue;

use super::UsageError;
use super::experiment_options::ExperimentOptions;
use super::result_file::save;
use crate::{json, machines};
use anyhow::Context as _;
use schedlab_experiment::tune::{
    Axes, Profiled, Step, Tuned, Verdict, profile, profile_runs, screened, tune,
};
use schedlab_experiment::{
    Experiment, Machines, Plan, Progress, Tuning, Varies, knob_of, machine_line, runs_of,
};
use schedlab_host::knobs::{
    RENAMED, Tree, read_profile, write_script, write_sysctl, write_tmpfiles, write_tuned,
};
use schedlab_model::{Knob, Setting, Warning};
use schedlab_stats::Sample;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab tune`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: ExperimentOptions,
    /// Find the lines of a profile (tuned, sysctl.d, KeenTune) that change the loads of the file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ask", "tell", "measure"])]
    profile: Option<PathBuf>,
    /// Compare in N pairs of runs, with --profile
    #[arg(long, value_name = "N", default_value_t = 20, requires = "profile")]
    pairs: usize,
    /// Check the file and the machine, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["ask", "tell", "measure"])]
    json: bool,
    /// Print the next N points as JSON lines, and run nothing
    #[arg(long, value_name = "N", conflicts_with_all = ["tell", "measure"])]
    ask: Option<usize>,
    /// Give measurements to the search: JSON lines from FILE; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "measure")]
    tell: Option<PathBuf>,
    /// Measure points that another program chose: JSON lines from FILE; - is stdin
    #[arg(long, value_name = "FILE")]
    measure: Option<PathBuf>,
}

pub(super) fn documents() -> Vec<json::Schema> {
    [vec![json::of::<Tuned>(), json::of::<Profiled>()], dialogue::documents()].concat()
}

impl json::Document for Tuned {
    const ID: &'static str = "schedlab/tune/1";
}

impl json::Document for Profiled {
    const ID: &'static str = "schedlab/tune-profile/1";
}

/// Options with `--profile`.
#[derive(Clone, Copy)]
struct StudyOptions {
    pairs: usize,
    dry_run: bool,
    json: bool,
}

/// Which lines of a profile do it.
fn study(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    file: &Path,
    results: &Path,
    how: StudyOptions,
) -> anyhow::Result<ExitCode> {
    if !experiment.axes.is_empty() {
        let what = "--profile: the file has axes; it gives the loads alone";
        return Err(UsageError(what.into()).into());
    }
    let facts = machines.get(&experiment.machine)?.facts();
    let kernel = facts.kernel.release.trim_start_matches(|c: char| !c.is_ascii_digit());
    let text =
        schedlab_sys::regular_file::text(file).with_context(|| file.display().to_string())?;
    let found = read_profile(&text, &Tree::of_kernel(kernel));
    let (renamed, lost): (Vec<Warning>, Vec<Warning>) =
        found.warnings.into_iter().partition(|one| one.code == RENAMED);
    let mut left_out: Vec<String> = lost.into_iter().map(|one| one.what).collect();
    let offers = machines.get(&experiment.machine)?.offers();
    let mut settings = found.settings;
    settings.retain(|setting| {
        let why = refused(setting, &offers.knobs);
        let is_taken = why.is_none();
        left_out.extend(why);
        is_taken
    });
    if !found.others.is_empty() {
        left_out.push(format!("not about the scheduler: {}", found.others.join(", ")));
    }
    let mut stderr = crate::output::stderr();
    let notes = renamed.iter().map(|one| &one.what).chain(&left_out);
    notes.into_iter().try_for_each(|note| writeln!(stderr, "schedlab: {note}"))?;
    if settings.is_empty() {
        let what = format!("{}: no line of it sets what this kernel has", file.display());
        return Err(UsageError(what).into());
    }
    let runs = profile_runs(settings.len(), how.pairs).map_err(UsageError)?;
    let runs = runs * experiment.workloads.len();
    let hours = hours(experiment, results, runs);
    let named: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let told =
        format!("{} lines: {}\nat most {runs} runs, {hours}\n", named.len(), named.join(", "));
    let mut all = experiment.clone();
    all.settings.extend(settings.iter().cloned());
    let checked = super::run::check(machines, &all, &Plan::at(&all, &[], 0));
    checked.with_context(|| file.display().to_string())?;
    if how.dry_run {
        crate::output::stdout().write_all(told.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    stderr.write_all(told.as_bytes())?;
    let signals = schedlab_sys::signal::catch().context("catching Ctrl-C")?;
    let stop = || signals.caught().is_some();
    let mut told = std::collections::BTreeSet::new();
    let mut tell = |progress: &Progress<'_>| super::run::tell(progress, &mut told);
    let found = profile(machines, experiment, &settings, how.pairs, results, &stop, &mut tell)?;
    let Some(found) = found else { return Ok(ExitCode::from(super::run::EXIT_INTERRUPTED)) };
    let found = Profiled { left_out, ..found };
    if how.json {
        crate::json::print(&found)?;
    } else {
        for line in found.sentences() {
            writeln!(crate::output::stdout(), "{line}")?;
        }
    }
    Ok(if found.has_no_verdict() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Why a line of a profile cannot be tried on a machine with these knobs; `None` where it can.
fn refused(setting: &Setting, knobs: &[Knob]) -> Option<String> {
    let name = knob_of(&setting.knob);
    let why = match knobs.iter().find(|knob| knob.name == name) {
        Some(knob) if knob.writable => return None,
        Some(knob) => &*knob.why_not,
        None => "this machine does not have the knob",
    };
    Some(format!("{} is left out: {why}", setting.knob))
}

/// How long so many runs take: judged by those that are stored, else by their limit.
fn hours(experiment: &Experiment, results: &Path, runs: usize) -> String {
    let stored = runs_of(results).map(|found| found.runs).unwrap_or_default();
    let took = Sample::new(stored.iter().map(|run| run.manifest.took_ns as f64 / 1e9)).ok();
    let told = |seconds: f64| format!("{:.1} hours", seconds * runs as f64 / 3600.0);
    match (took, experiment.time_limit) {
        (Some(took), _) => {
            format!("about {}, judged by {} stored runs", told(took.median()), took.len())
        }
        (None, Some(limit)) => format!("at most {} by their limit", told(limit.as_secs_f64())),
        (None, None) => {
            "whose hours are known once a run is stored, or with a time_limit".to_owned()
        }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut machines = Machines::made_by(&machines::make);
    let (experiment, results) = args.asked.read(&mut machines)?;
    if let Some(file) = &args.profile {
        let Args { pairs, dry_run, json, .. } = args;
        let how = StudyOptions { pairs, dry_run, json };
        return study(&mut machines, &experiment, file, &results, how);
    }
    let Some(tuning) = experiment.tune.clone() else {
        let file = experiment.path.display();
        let what = format!("{file}: missing table [tune]: see docs/tune.md");
        return Err(UsageError(what).into());
    };
    if experiment.axes.iter().any(|axis| axis.varies == Varies::Machine) {
        let what = "missing machine: name one with --on or in the file";
        return Err(UsageError(what.into()).into());
    }
    if let Some(count) = args.ask {
        return dialogue::ask(&experiment, &tuning, &results, count);
    }
    if let Some(file) = &args.tell {
        return dialogue::tell(&experiment, &tuning, &results, file);
    }
    check(&mut machines, &experiment, &tuning)?;
    if let Some(file) = &args.measure {
        return dialogue::measure(&mut machines, &experiment, &tuning, &results, file);
    }
    let facts = machines.get(&experiment.machine)?.facts();
    let mut stderr = crate::output::stderr();
    writeln!(stderr, "{}", machine_line(&facts))?;
    writeln!(stderr, "{}", plan(&experiment, &tuning))?;
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let signals = schedlab_sys::signal::catch().context("catching Ctrl-C")?;
    let stop = || signals.caught().is_some();
    let tuned = tune(&mut machines, &experiment, &tuning, &results, &stop, &mut tell);
    // The line of a measurement may be open.
    let tuned = tuned.inspect_err(|_| drop(writeln!(stderr)))?;
    let profiles = match tuned.verdict {
        Verdict::Gain => profiles(&experiment, &tuned, &facts.kernel.release, &results)?,
        Verdict::NoGain | Verdict::Stopped => Vec::new(),
    };
    if args.json {
        json::print(&tuned)?;
    } else {
        let mut out = crate::output::stdout();
        if !experiment.question.is_empty() {
            writeln!(out, "{}", experiment.question)?;
        }
        for line in tuned.sentences() {
            writeln!(out, "{line}")?;
        }
        for path in profiles {
            writeln!(out, "{}", path.display())?;
        }
    }
    Ok(match tuned.verdict {
        Verdict::Stopped => ExitCode::from(super::run::EXIT_INTERRUPTED),
        Verdict::Gain | Verdict::NoGain => ExitCode::SUCCESS,
    })
}

/// Whether the machine takes the default, and each value of each axis beside it.
fn check(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    tuning: &Tuning,
) -> anyhow::Result<()> {
    let points = Axes::new(experiment).beside_default(tuning);
    let runs = points.iter().flat_map(|point| Plan::at(experiment, point, 0).runs).collect();
    super::run::check(machines, experiment, &Plan { runs })?;
    let Some(screen) = &tuning.screen else { return Ok(()) };
    let cheap = screened(experiment, screen);
    let runs = points.iter().flat_map(|point| Plan::at(&cheap, point, 0).runs).collect();
    super::run::check(machines, &cheap, &Plan { runs })
}

/// What will be done, in a sentence.
fn plan(experiment: &Experiment, tuning: &Tuning) -> String {
    let settings: usize = experiment.axes.iter().map(|axis| axis.values.len()).product();
    let each = match experiment.workloads.len() {
        1 => String::new(),
        several => format!(" of {several} runs"),
    };
    format!(
        "{} measurements{each} search {settings} settings; up to {} pairs of fresh runs confirm the result",
        tuning.budget, tuning.confirm
    )
}

/// A line for each measurement, between runs only.
fn tell(step: &Step<'_>) {
    let mut stderr = crate::output::stderr();
    let _ = match step {
        Step::Asks { index, budget, point } => {
            write!(stderr, "search {} of {budget}:{}", index + 1, super::run::place(point))
        }
        Step::Measured { values: [] } => writeln!(stderr, ": failed"),
        Step::Measured { values } => {
            let parts: Vec<String> = values.iter().map(|(n, v)| format!("{n} {v:.5}")).collect();
            writeln!(stderr, ": {}", parts.join(", "))
        }
        Step::Screens { budget, is_pilot: true } => {
            writeln!(stderr, "pilot: do cheaper runs rank {budget} settings alike?")
        }
        Step::Screens { budget, is_pilot: false } => {
            writeln!(stderr, "they do: {budget} cheaper measurements look for good settings")
        }
        Step::Confirms { point, pairs } => {
            writeln!(stderr, "{pairs} fresh pairs of the default and{}", super::run::place(point))
        }
        Step::Run(Progress::Failed { error, .. }) => write!(stderr, ": {error}"),
        Step::Run(_) => Ok(()),
    };
    if crate::output::is_watched() {
        let _ = stderr.flush();
    }
}

/// The knobs of the winner as files of other tools, for the kernel that was measured.
fn profiles(
    experiment: &Experiment,
    tuned: &Tuned,
    kernel: &str,
    results: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let Some(best) = &tuned.best else { return Ok(Vec::new()) };
    let knobs = experiment.axes.iter().filter(|axis| matches!(axis.varies, Varies::Knob(_)));
    let setting = |axis: &schedlab_experiment::Axis| {
        let knob = axis.varies.name().to_owned();
        best.point.get(&axis.name()).map(|value| Setting { knob, value: value.clone() })
    };
    let mut settings = experiment.settings.clone();
    settings.extend(knobs.filter_map(setting));
    if settings.is_empty() {
        return Ok(Vec::new());
    }
    // A model is named after the kernel that it follows: eevdf-6.12.
    let tree = Tree::of_kernel(kernel.trim_start_matches(|c: char| !c.is_ascii_digit()));
    let mut written = Vec::new();
    for (name, text) in [
        ("profile.sysctl.conf", write_sysctl(&settings, &tree)),
        ("profile.tmpfiles.conf", write_tmpfiles(&settings, &tree)),
        ("profile.tuned.conf", write_tuned(&settings, &tree)),
        ("profile.sh", write_script(&settings, &tree)),
    ] {
        let path = results.join(name);
        save(&path, text)?;
        written.push(path);
    }
    Ok(written)
}
