//! `schedlab report`: one HTML file from stored results.

use anyhow::Context as _;
use schedlab_experiment::report::{self, Report};
use schedlab_experiment::{StoredRun, runs_of};
use schedlab_workload::Stream;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
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
    let mut runs = Vec::new();
    for folder in &args.folders {
        runs.extend(runs_of(folder)?.runs);
    }
    let first = &args.folders[0];
    let name =
        first.canonicalize().ok().and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned()));
    let title = args.title.or(name).unwrap_or_else(|| "schedlab report".into());
    let report = full_report(&title, &runs)?;
    let output = args.output.unwrap_or_else(|| first.join("report.html"));
    std::fs::write(&output, report.html()).with_context(|| output.display().to_string())?;
    writeln!(std::io::stdout(), "{}", output.display())?;
    Ok(ExitCode::SUCCESS)
}

/// The usual report of stored runs, with a section for the first trace of each workload.
pub(crate) fn full_report(title: &str, runs: &[StoredRun]) -> anyhow::Result<Report> {
    let mut report = report::of_runs(title, runs);
    let mut seen = BTreeSet::new();
    for run in runs {
        let label = &run.manifest.workload;
        let Some(path) = run.stream(Stream::Trace).filter(|_| seen.insert(label)) else { continue };
        let title = format!("{label}: what the scheduler did");
        let section = report::trace_section(&title, &path)?;
        report.add(section);
    }
    Ok(report)
}
