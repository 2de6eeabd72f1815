//! `schedlab vm bisect`: git bisect over kernels that are built, booted and measured.

use super::kernels::Kernels;
use super::study::{How, Study};
use super::{EXIT_INTERRUPTED, usage_error};
use crate::commands::UsageError;
use crate::commands::result_file::save;
use anyhow::Context as _;
use schedlab_experiment::LoopError;
use schedlab_model::percentage;
use schedlab_stats::median;
use schedlab_vm::{Checkout, VmError, placebo};
use schedlab_workload::metrics;
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Exit codes of a step, as `git bisect run` reads them.
const GOOD: u8 = 0;
const BAD: u8 = 1;
const SKIP: u8 = 125;
/// git ends the search, and its state stays.
const STOP: u8 = 128;

/// Options of `schedlab vm bisect`.
#[derive(clap::Args)]
pub(super) struct Bisect {
    /// A revision that is not worse
    good: String,
    /// A later revision that is worse
    bad: String,
    /// Search for the commit that makes the metric worse by this much, in percent of the good revision
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    worse: f64,
    #[command(flatten)]
    how: How,
}

/// Options of a step, which `git bisect run` starts.
#[derive(clap::Args)]
pub(super) struct Step {
    /// The state of the search
    state: PathBuf,
}

fn percent(text: &str) -> Result<f64, String> {
    let wrong = || "use a percentage above 0, as in 3%".to_owned();
    percentage(text).filter(|number| *number > 0.0).ok_or_else(wrong)
}

/// What a search keeps, so that each step and the same command later go on from there.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct State {
    good: String,
    bad: String,
    worse: f64,
    how: How,
    /// Where the runs are.
    folder: PathBuf,
    /// The median of the good revision.
    reference: f64,
}

pub(super) fn run(options: Bisect) -> anyhow::Result<ExitCode> {
    match search(options) {
        Err(error) if matches!(error.downcast_ref(), Some(VmError::Interrupted)) => {
            writeln!(crate::output::stderr(), "schedlab: stopped; the same command goes on")?;
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
        done => done,
    }
}

fn search(options: Bisect) -> anyhow::Result<ExitCode> {
    let Bisect { good, bad, worse, mut how } = options;
    let Some(tree) = how.sources.tree.clone().filter(|tree| tree.join(".git").exists()) else {
        return Err(UsageError("option tree: give the folder of a git repository".into()).into());
    };
    let sources = how.sources.clone();
    let kernels = Kernels::of(&sources)?;
    let checkout = kernels.checkout.as_ref().context("a repository has a checkout")?;
    // Runs are kept, so that a search that was stopped goes on.
    how.output = Some(how.output.unwrap_or_else(|| checkout.folder().join("runs")));
    let study = Study::new(&how)?;
    let [good, bad] = [good, bad].map(|text| {
        checkout.commit(&tree, &text).map_err(usage_error).map(|commit| (text, commit))
    });
    let (good_text, good) = good?;
    let (bad_text, bad) = bad?;
    let reference = reference(&study, &how, &kernels, &good, worse)?;
    let better = metrics::metric(&how.metric).better;
    let of_bad = kernels.kernel(&bad, 0)?;
    let value = median(study.values(&of_bad)?).unwrap_or_default();
    let by = placebo::worse_by(reference, value, better).unwrap_or_default() * 100.0;
    if by <= worse {
        let metric = &how.metric;
        let good = good_text;
        let bad = bad_text;
        anyhow::bail!(
            "{bad} is not worse than {good} by {worse} %: {metric} is worse by {by:.1} %"
        );
    }
    let folder = std::fs::canonicalize(study.folder()).context("finding the runs")?;
    let state = State { good, bad, worse, how, folder, reference };
    let found = bisect(checkout, &state)?;
    let subject =
        checkout.git(&["show", "--no-patch", "--format=%h %s", &found]).map_err(usage_error)?;
    let mut out = crate::output::stdout();
    writeln!(out, "{found} is the first commit that is worse by more than {worse} %:")?;
    writeln!(out, "  {}", subject.trim())?;
    let metric = &state.how.metric;
    writeln!(out, "  {metric}: {bad_text} is worse than {good_text} by {by:.1} %")?;
    Ok(ExitCode::SUCCESS)
}

/// The median of the good revision. A limit that neutral code reaches is refused.
fn reference(
    study: &Study,
    how: &How,
    kernels: &Kernels<'_>,
    good: &str,
    worse: f64,
) -> anyhow::Result<f64> {
    let kernel = kernels.kernel(good, 0)?;
    let placebos = kernels.placebos(good)?;
    let values = study.values(&kernel)?;
    let reference = median(values.iter().copied()).context("no start was measured")?;
    anyhow::ensure!(reference != 0.0, "{} is 0 at the good revision", how.metric);
    let measured = placebos
        .iter()
        .map(|kernel| study.values(kernel))
        .collect::<anyhow::Result<Vec<Vec<f64>>>>()?;
    let mut stderr = crate::output::stderr();
    match placebo::band(&values, &measured, |of| median(of.iter().copied()))
        .map(|band| band * 100.0)
    {
        None => writeln!(
            stderr,
            "schedlab: without placebos nothing tells whether {worse} % is more than neutral code does"
        )?,
        Some(band) if worse <= band => {
            let why = format!(
                "option worse: {worse} % is within what neutral code does: up to {band:.1} % between \
                 {} kernels; use more than {band:.1} %",
                measured.len() + 1
            );
            return Err(UsageError(why).into());
        }
        Some(band) => writeln!(
            stderr,
            "schedlab: neutral code changes {} by up to {band:.1} %; {worse} % is more",
            how.metric
        )?,
    }
    Ok(reference)
}

/// Lets git search; the first commit that is worse.
fn bisect(checkout: &Checkout, state: &State) -> anyhow::Result<String> {
    let path = checkout.folder().join("bisect.json");
    let is_begun = checkout.path().join(".git/BISECT_START").is_file();
    let before = std::fs::read(&path).ok();
    let before = before.and_then(|text| serde_json::from_slice::<State>(&text).ok());
    if is_begun && before.as_ref() == Some(state) {
        writeln!(crate::output::stderr(), "schedlab: going on with the search that was stopped")?;
    } else {
        if is_begun {
            checkout.git(&["bisect", "reset", "HEAD"]).map_err(usage_error)?;
        }
        save(&path, serde_json::to_vec(state)?)?;
        checkout.check_out(&state.good).map_err(usage_error)?;
        checkout.git(&["bisect", "start", &state.bad, &state.good]).map_err(usage_error)?;
    }
    let program = schedlab_sys::process::this_program().context("finding this program")?;
    let mut command = Command::new("git");
    command.arg("-C").arg(checkout.path()).args(["bisect", "run"]).arg(program);
    command.args(["vm", "bisect-step"]).arg(&path);
    let _ = std::fs::remove_file(why_stopped(&path));
    schedlab_sys::process::die_with_parent(&mut command);
    let ends = schedlab_sys::guard::Ends::arm().context("the guard")?;
    ends.mark(&mut command);
    let signals = schedlab_sys::signal::catch().context("catching Ctrl-C")?;
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("starting git")?;
    let mut found = None;
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let line = line.context("reading from git")?;
        if let Some(commit) = line.strip_suffix(" is the first bad commit") {
            found = Some(commit.to_owned());
        }
        writeln!(crate::output::stderr(), "git: {line}")?;
    }
    let status = child.wait().context("awaiting git")?;
    if signals.caught().is_some() {
        return Err(VmError::Interrupted.into());
    }
    if let Ok(why) = std::fs::read_to_string(why_stopped(&path)) {
        anyhow::bail!("the search stops: {why}; then the same command goes on");
    }
    let found = found.with_context(|| {
        format!("git bisect found no commit ({status}): all that are left could not be built or measured")
    })?;
    checkout.git(&["bisect", "reset", "HEAD"]).map_err(usage_error)?;
    let _ = std::fs::remove_file(&path);
    Ok(found)
}

/// Where a step keeps why it stopped the search.
fn why_stopped(state: &Path) -> PathBuf {
    state.with_extension("stopped")
}

/// Whether an error is no fault of the commit: it would let git skip all others too.
fn is_of_the_machine(error: &anyhow::Error) -> bool {
    let of_machine = error.downcast_ref::<VmError>().is_some_and(|error| !error.is_of_the_kernel());
    let of_runs = error.downcast_ref::<LoopError>();
    of_machine || of_runs.is_some_and(|error| !matches!(error, LoopError::Machine(_)))
}

/// A step: builds and measures what git checked out in the current folder.
pub(super) fn step(options: &Step) -> anyhow::Result<ExitCode> {
    let text = schedlab_sys::regular_file::text(&options.state);
    let text = text.context("reading what the search keeps")?;
    let state: State = serde_json::from_str(&text).context("reading what the search keeps")?;
    let how = How { output: Some(state.folder.clone()), ..state.how.clone() };
    let study = Study::new(&how)?;
    let mut stderr = crate::output::stderr();
    match measure(&study, &how) {
        Ok(value) => {
            let better = metrics::metric(&how.metric).better;
            let by = placebo::worse_by(state.reference, value, better).unwrap_or_default() * 100.0;
            let is_bad = by > state.worse;
            let word = if is_bad { "worse" } else { "not worse" };
            writeln!(stderr, "schedlab: {} {word}: {by:+.1} %", how.metric)?;
            Ok(ExitCode::from(if is_bad { BAD } else { GOOD }))
        }
        Err(error) if matches!(error.downcast_ref(), Some(VmError::Interrupted)) => {
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
        Err(error) if is_of_the_machine(&error) => {
            save(&why_stopped(&options.state), format!("{error:#}"))?;
            Ok(ExitCode::from(STOP))
        }
        Err(error) => {
            writeln!(stderr, "schedlab: this commit is skipped: {error:#}")?;
            Ok(ExitCode::from(SKIP))
        }
    }
}

fn measure(study: &Study, how: &How) -> anyhow::Result<f64> {
    let here = std::env::current_dir().context("finding the checkout")?;
    let commit = head(&here)?;
    let name = how.sources.name_of(&commit, 0);
    if !schedlab_vm::Kernel::is_built(&name) {
        how.sources.build(&here.display().to_string(), 0, Some(name.clone()))?;
    }
    median(study.values(&name)?).context("no start was measured")
}

fn head(folder: &Path) -> anyhow::Result<String> {
    let out = Command::new("git").arg("-C").arg(folder).args(["rev-parse", "HEAD"]).output();
    let out = out.context("asking git")?;
    anyhow::ensure!(out.status.success(), "{} is not a git checkout", folder.display());
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_limit_is_a_positive_percentage() {
        assert_eq!(percent("3%"), Ok(3.0));
        assert_eq!(percent("0.5 %"), Ok(0.5));
        for wrong in ["3", "3%%%", "0%", "-1%", "x%", "", "inf%"] {
            let why = percent(wrong).unwrap_err();
            assert_eq!(why, "use a percentage above 0, as in 3%", "{wrong}");
        }
    }
}
