//! `schedlab compare`: two sets of stored results, with a verdict for people and for scripts.

mod junit;
mod markdown;
mod text;

use super::UsageError;
use schedlab_experiment::analysis::{Asked, Comparison, FailIf, Row, compare};
use schedlab_experiment::{Experiment, StoredRun, StoredRuns, incomparable};
use serde::Serialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) use text::print_text;

/// `git bisect run` skips a commit that ends with this code.
const EXIT_CANT_TELL: u8 = 125;

const CODES: &str = "\
The primary metrics decide: those that --metric names, else those of the registry (docs/metrics.md).
Large changes of other metrics are listed, and nothing is claimed of them.

Exit codes with --fail-if: 0 the change is not there, 1 it is, 125 the runs do not tell (git bisect run
skips such a commit). The condition reads the interval of the table: all of it must lie on one side.";

/// Options of `schedlab compare`.
#[derive(clap::Args)]
#[command(after_help = CODES)]
pub(crate) struct Args {
    /// Folders of results, before and after; with --blocks more pairs may follow
    #[arg(required = true, num_args = 2.., value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Take each pair of folders as a block (a boot, a day), and compare blocks instead of runs
    #[arg(long)]
    blocks: bool,
    /// Fail on a condition, such as 'time_s > +3%'; may be given more than once
    #[arg(long = "fail-if", value_name = "CONDITION")]
    fail_if: Vec<FailIf>,
    /// Decide by this metric; may be given more than once [default: the primary metrics of the registry]
    #[arg(long = "metric", visible_alias = "figure", value_name = "NAME")]
    metrics: Vec<String>,
    /// Count sides as equivalent within ±PERCENT [default: 5, for tails 10]
    #[arg(long, value_name = "PERCENT")]
    margin: Option<f64>,
    /// Write at most 10 lines of Markdown, for a pull request or a mailing list
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Write JUnit XML to FILE: one test for each metric at each point
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write JSON for machines
    #[arg(long)]
    json: bool,
}

/// The JSON of a comparison.
#[derive(Serialize)]
struct Json<'c> {
    schema: &'static str,
    before: String,
    after: String,
    answer: String,
    comparisons: &'c [Comparison],
}

/// Runs it.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { folders, blocks, fail_if, metrics, margin, markdown, junit, json } = args;
    if folders.len() % 2 == 1 || (folders.len() > 2 && !blocks) {
        let what = "give two folders, before and after; or pairs of them with --blocks";
        return Err(UsageError(what.into()).into());
    }
    let stored: Vec<StoredRuns> =
        folders.iter().map(|f| super::report::stored(f)).collect::<Result<_, _>>()?;
    if let Some(why) = incomparable(stored.iter().flat_map(|set| &set.runs)) {
        anyhow::bail!("these results cannot be compared: {why}");
    }
    let asked = asked(&stored, metrics, &fail_if, margin)?;
    let sets: Vec<Vec<StoredRun>> = stored.into_iter().map(|found| found.runs).collect();
    let pairs: Vec<(&[StoredRun], &[StoredRun])> =
        sets.chunks(2).map(|pair| (&*pair[0], &*pair[1])).collect();
    let comparisons = compare(&pairs, &asked);
    if comparisons.is_empty() {
        anyhow::bail!("the two sets have no metric at a common point; is it the same experiment?");
    }
    let (before, after) = names(&folders);
    let mut out = crate::output::stdout();
    if json {
        let answer = answer(&comparisons, &after);
        let schema = "schedlab/compare/1";
        let object = Json { schema, before, after, answer, comparisons: &comparisons };
        writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
    } else if markdown {
        out.write_all(markdown::markdown(&comparisons, &before, &after).as_bytes())?;
    } else {
        drop(out);
        print_text(&comparisons, &before, &after)?;
    }
    if let Some(path) = junit {
        std::fs::write(&path, junit::junit(&comparisons, &fail_if))
            .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    }
    judge(&comparisons, &fail_if)
}

/// The answers of all workloads.
fn answer(comparisons: &[Comparison], after: &str) -> String {
    let all: Vec<String> = comparisons.iter().map(|c| c.answer(after)).collect();
    all.join(" ")
}

fn asked(
    stored: &[StoredRuns],
    mut metrics: Vec<String>,
    fail_if: &[FailIf],
    margin: Option<f64>,
) -> anyhow::Result<Asked> {
    if margin.is_some_and(|margin| !(margin > 0.0 && margin < 100.0)) {
        return Err(UsageError("--margin: give a percentage between 0 and 100".into()).into());
    }
    let conditions: Vec<String> = fail_if.iter().map(|c| c.metric.clone()).collect();
    for name in metrics.iter().chain(&conditions) {
        let has = |set: &StoredRuns| set.runs.iter().any(|r| r.value(name).is_some());
        if !stored.iter().all(has) {
            return Err(UsageError(format!("no metric '{name}' in both sets")).into());
        }
    }
    if metrics.is_empty() {
        metrics.extend(measured(&stored[0]));
    }
    let margin = margin.map(|percent| percent / 100.0);
    Ok(Asked { metrics, conditions, margin, ..Asked::default() })
}

/// The metric that the experiment itself names first, if any.
fn measured(stored: &StoredRuns) -> Option<String> {
    let text = stored.experiment.as_deref().unwrap_or_default();
    let experiment = Experiment::parse(text, &stored.folder.join("experiment.toml")).ok()?;
    experiment.measure.into_iter().next()
}

/// What the two sets are called: their folders' names, or their paths where the names are the same.
fn names(folders: &[PathBuf]) -> (String, String) {
    let name = |path: &Path| {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    let (a, b) = (name(&folders[0]), name(&folders[1]));
    if a == b {
        return (folders[0].display().to_string(), folders[1].display().to_string());
    }
    (a, b)
}

fn judge(comparisons: &[Comparison], conditions: &[FailIf]) -> anyhow::Result<ExitCode> {
    let mut stderr = crate::output::stderr();
    let mut code = ExitCode::SUCCESS;
    for condition in conditions {
        match condition.check(comparisons) {
            Some(false) => {}
            Some(true) => {
                writeln!(stderr, "schedlab: {} is beyond the limit", condition.metric)?;
                return Ok(ExitCode::FAILURE);
            }
            None => {
                let rows = comparisons.iter().flat_map(Comparison::rows);
                let more: Option<usize> = rows
                    .filter(|row| row.metric.name == condition.metric)
                    .filter_map(|row: &Row| row.more_runs.filter(|more| *more > 0))
                    .max();
                let hint = more.map_or(String::new(), |n| format!("; about {n} more a side would"));
                writeln!(stderr, "schedlab: {}: the runs do not tell{hint}", condition.metric)?;
                code = ExitCode::from(EXIT_CANT_TELL);
            }
        }
    }
    Ok(code)
}
