//! `schedlab run report`: one HTML file from stored results.

mod table;

use super::result_file::save;
use crate::json;
use schedlab_experiment::analysis::{Judged, judge};
use schedlab_experiment::report::{self, Report, TracePictures};
use schedlab_experiment::{Drawing, Experiment, StoredRun, StoredRuns, export, runs_of};
use schedlab_host::knobs::{Tree, write_sysctl, write_tuned};
use schedlab_workload::Stream;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab run report`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folders of results: of an experiment, or of single runs
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Write the report to FILE [default: report.html in the first folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write all metrics of all runs as a Parquet table instead (docs/formats.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "title"])]
    parquet: Option<PathBuf>,
    /// Title of the report [default: the folder's name]
    #[arg(long)]
    title: Option<String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { folders, output, parquet, title } = args;
    let first = &folders[0];
    let mut all = runs_in(first)?;
    for folder in &folders[1..] {
        let found = runs_in(folder)?;
        all.experiment = all.experiment.or(found.experiment);
        all.runs.extend(found.runs);
    }
    if let Some(path) = parquet {
        return table::write(&all.runs, &path);
    }
    all.name_places();
    let name =
        first.canonicalize().ok().and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned()));
    // A file of another version of schedlab may not be understood; the runs still are.
    let experiment = all
        .experiment
        .as_ref()
        .and_then(|text| Experiment::parse(text, &first.join("experiment.toml")).ok());
    let title = title.or_else(|| experiment.as_ref().map(|e| e.title.clone())).or(name);
    let title = title.unwrap_or_else(|| "schedlab report".into());
    let output = output.unwrap_or_else(|| first.join("report.html"));
    write(experiment.as_ref(), &title, &all, &output)?;
    writeln!(crate::output::stdout(), "{}", output.display())?;
    Ok(ExitCode::SUCCESS)
}

/// The runs of a folder; damaged ones are named on stderr and left out. If they were done at several
/// places (kernels, hosts), their points name them.
///
/// # Errors
/// When there are none, or none is whole.
pub(crate) fn stored(folder: &Path) -> anyhow::Result<StoredRuns> {
    let mut found = runs_in(folder)?;
    found.name_places();
    Ok(found)
}

fn runs_in(folder: &Path) -> anyhow::Result<StoredRuns> {
    let mut found = runs_of(folder)?;
    if found.runs.is_empty() && !found.damaged.is_empty() {
        return Err(found.damaged.swap_remove(0).into());
    }
    for error in &found.damaged {
        let remedy = "`schedlab run` with the experiment's file sets it aside and repeats it";
        writeln!(
            crate::output::stderr(),
            "schedlab: a damaged run is left out: {error}; {remedy}"
        )?;
    }
    Ok(found)
}

/// Writes the report of an experiment, and its figures for other tools beside it.
pub(crate) fn write(
    experiment: Option<&Experiment>,
    title: &str,
    stored: &StoredRuns,
    output: &Path,
) -> anyhow::Result<()> {
    let runs = stored.runs.as_slice();
    let put = |path: &Path, text: String| save(path, text);
    let mut report = Report::new(title);
    let mut shown = report::answers(experiment, runs);
    if let Some(experiment) = experiment {
        report.lead(experiment.question.as_str());
        let first = std::mem::take(&mut shown.first);
        report.add(report::answer::section(experiment, runs, &stored.looks, first));
        let judged = judge(experiment, runs);
        if let Some(section) = report::claims::section(&judged) {
            report.add(section);
            let text = json::line(&Claims { claims: judged })? + "\n";
            put(&output.with_file_name("claims.json"), text)?;
        }
    } else if !shown.first.is_empty() {
        report.section("Pictures").pictures(shown.first);
    }
    for section in shown.sections {
        report.add(section);
    }
    let draw = experiment.map(|e| e.draw.as_slice()).unwrap_or_default();
    report.append(full_report(title, runs, draw)?);
    if let Some(experiment) = experiment {
        report.section("The experiment").folded("the file", experiment.text.as_str());
    }
    put(output, report.html())?;
    let measure = experiment.map(|e| e.measure.clone()).filter(|m| !m.is_empty());
    let measure = measure.unwrap_or_else(|| vec!["time_s".into()]);
    let beside = |name: &str| output.with_file_name(name);
    put(&beside("figures.csv"), export::csv(runs))?;
    put(&beside("figures.json"), json::line(&export::Results::of(runs))? + "\n")?;
    put(&beside("figures.gp"), export::gnuplot(runs, &measure))?;
    experiment.map_or(Ok(()), |experiment| put_winners(experiment, runs, output))
}

/// The verdicts on the claims of an experiment, as they lie beside its report.
#[derive(schemars::JsonSchema, serde::Serialize)]
pub(crate) struct Claims {
    /// The claims in the order of the experiment's file.
    claims: Vec<Judged>,
}

impl json::Document for Claims {
    const ID: &'static str = "schedlab/claims/1";
}

impl json::Document for export::Results<'_> {
    const ID: &'static str = "schedlab/report/1";
}

/// Writes the best setting of each workload, where the runs show one, in the formats of other tools.
fn put_winners(experiment: &Experiment, runs: &[StoredRun], output: &Path) -> anyhow::Result<()> {
    for winner in report::winners(experiment, runs) {
        let run = runs.iter().find(|run| run.manifest.workload == winner.workload);
        let Some(run) = run else { continue };
        // For the kernel that was measured, wherever the report is written.
        let tree = Tree::of_kernel(&run.manifest.facts.kernel.release);
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = winner.workload.chars().map(plain).collect();
        let head = format!(
            "# The best of {} settings measured for {}; {} do not differ from it.\n",
            winner.of,
            winner.workload.escape_default(),
            winner.rivals - 1
        );
        for (end, text) in [
            ("sysctl.conf", write_sysctl(&winner.settings, &tree)),
            ("tuned.conf", write_tuned(&winner.settings, &tree)),
        ] {
            let path = output.with_file_name(format!("winner-{name}.{end}"));
            save(&path, head.clone() + &text)?;
        }
    }
    Ok(())
}

/// The usual report of stored runs: first the pictures of the first trace of each workload.
pub(crate) fn full_report(
    title: &str,
    runs: &[StoredRun],
    draw: &[Drawing],
) -> anyhow::Result<Report> {
    let mut full = Report::new(title);
    let mut seen = BTreeSet::new();
    for run in runs {
        let label = &run.manifest.workload;
        let Some(path) = run.stream(Stream::Trace).filter(|_| seen.insert(label)) else { continue };
        let title = format!("{label}: what the scheduler did");
        match report::trace_section(&title, &path, TracePictures::of(draw)) {
            Ok(section) => {
                full.add(section);
            }
            // The figures of the run are elsewhere, and whole.
            Err(error) => {
                let path = path.display();
                writeln!(crate::output::stderr(), "schedlab: {path} is left out: {error:#}")?;
            }
        }
    }
    full.append(report::of_runs(title, runs));
    Ok(full)
}
