//! `schedlab report`: one HTML file from stored results.

use anyhow::Context as _;
use schedlab_experiment::report::{self, Report};
use schedlab_experiment::{Experiment, StoredRun, export, runs_of};
use schedlab_workload::Stream;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab report`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folders of results: of an experiment, or of single runs
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Where the report goes [default: report.html in the first folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Title of the report [default: the folder's name]
    #[arg(long)]
    title: Option<String>,
}

/// Runs it.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { folders, output, title } = args;
    let mut runs = Vec::new();
    let mut experiment = None;
    for folder in &folders {
        let found = runs_of(folder)?;
        experiment = experiment.or(found.experiment);
        runs.extend(found.runs);
    }
    let first = &folders[0];
    let name =
        first.canonicalize().ok().and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned()));
    // A file of another version of schedlab may not be understood; the runs still are.
    let experiment =
        experiment.and_then(|text| Experiment::parse(&text, &first.join("experiment.toml")).ok());
    let title = title.or_else(|| experiment.as_ref().map(|e| e.title.clone())).or(name);
    let title = title.unwrap_or_else(|| "schedlab report".into());
    let output = output.unwrap_or_else(|| first.join("report.html"));
    write(experiment.as_ref(), &title, &runs, &output)?;
    writeln!(std::io::stdout(), "{}", output.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the report of an experiment, and its figures for other tools beside it.
pub(crate) fn write(
    experiment: Option<&Experiment>,
    title: &str,
    runs: &[StoredRun],
    output: &Path,
) -> anyhow::Result<()> {
    let mut report = Report::new(title);
    if let Some(experiment) = experiment {
        report.lead(experiment.question.as_str());
    }
    for section in report::answers(experiment, runs) {
        report.add(section);
    }
    report.append(full_report(title, runs)?);
    if let Some(experiment) = experiment {
        report.section("The experiment").folded("the file", experiment.text.as_str());
    }
    let put = |path: &Path, text: String| {
        std::fs::write(path, text).with_context(|| path.display().to_string())
    };
    put(output, report.html())?;
    let measure = experiment.map(|e| e.measure.clone()).filter(|m| !m.is_empty());
    let measure = measure.unwrap_or_else(|| vec!["time_s".into()]);
    let beside = |name: &str| output.with_file_name(name);
    put(&beside("figures.csv"), export::csv(runs))?;
    put(&beside("figures.json"), export::json(runs))?;
    put(&beside("figures.gp"), export::gnuplot(runs, &measure))
}

/// The usual report of stored runs: first the pictures of the first trace of each workload.
pub(crate) fn full_report(title: &str, runs: &[StoredRun]) -> anyhow::Result<Report> {
    let mut full = Report::new(title);
    let mut seen = BTreeSet::new();
    for run in runs {
        let label = &run.manifest.workload;
        let Some(path) = run.stream(Stream::Trace).filter(|_| seen.insert(label)) else { continue };
        let title = format!("{label}: what the scheduler did");
        full.add(report::trace_section(&title, &path)?);
    }
    full.append(report::of_runs(title, runs));
    Ok(full)
}
