//! `--ask`, `--measure` and `--tell`: the search and the machine apart, in JSON lines, so that another
//! program can take the place of either.
//!
//! The measurements that the search got are kept in `told.jsonl` in the folder of results.

use crate::commands::UsageError;
use crate::json;
use anyhow::Context as _;
use schedlab_experiment::tune::{self, Axes, Goals};
use schedlab_experiment::{Experiment, Machines, Point, Tuning};
use schedlab_tune::Search;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A point to measure (`--ask`).
#[derive(Serialize, JsonSchema)]
struct Proposal {
    /// The value on each axis.
    point: Point,
    /// The metrics that the search needs of it.
    metrics: Vec<String>,
}

/// A point that was measured (`--measure`); `--tell` takes the same.
#[derive(Serialize, JsonSchema)]
struct Measured<'m> {
    /// The value on each axis.
    point: &'m Point,
    /// The metrics with their values; null: the measurement failed.
    values: Option<BTreeMap<&'m str, f64>>,
}

/// Where the search stands (`--tell`).
#[derive(Serialize, JsonSchema)]
struct SearchState {
    /// Measurements that it knows.
    told: usize,
    /// Measurements that are left of its budget.
    left: usize,
    /// The best point so far; null: nothing succeeded.
    best: Option<Point>,
    /// Whether the limits are expected to hold there.
    keeps_limits: bool,
}

impl json::Document for Proposal {
    const ID: &'static str = "schedlab/tune-ask/1";
}

impl json::Document for Measured<'_> {
    const ID: &'static str = "schedlab/tune-measure/1";
}

impl json::Document for SearchState {
    const ID: &'static str = "schedlab/tune-tell/1";
}

pub(super) fn documents() -> Vec<json::Schema> {
    vec![json::of::<Proposal>(), json::of::<Measured<'_>>(), json::of::<SearchState>()]
}

/// A line as other programs write it: numbers may stand as numbers.
#[derive(Deserialize)]
struct Line {
    point: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    values: Option<BTreeMap<String, f64>>,
}

impl Line {
    fn point(&self) -> Point {
        let text = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.point.iter().map(|(name, value)| (name.clone(), text(value))).collect()
    }
}

/// The lines of a file, or of stdin, with their numbers.
fn lines(file: &Path) -> anyhow::Result<Vec<(usize, String, Line)>> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("stdin")?;
    } else {
        text =
            schedlab_sys::regular_file::text(file).with_context(|| file.display().to_string())?;
    }
    let mut out = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let read = serde_json::from_str(line)
            .map_err(|error| wrong(file, index + 1, &error.to_string()))?;
        out.push((index + 1, line.to_owned(), read));
    }
    Ok(out)
}

fn wrong(file: &Path, line: usize, what: &str) -> UsageError {
    UsageError(format!("{}, line {line}: {what}", file.display()))
}

fn search_file(results: &Path) -> PathBuf {
    results.join("told.jsonl")
}

/// The search with all measurements that it got; lines of `file` on top, if there is one.
fn search(
    experiment: &Experiment,
    tuning: &Tuning,
    results: &Path,
    file: Option<&Path>,
) -> anyhow::Result<(Search, Vec<String>)> {
    let axes = Axes::new(experiment);
    let goals = Goals::new(experiment, tuning);
    let mut search = axes.search(tuning, experiment.seed);
    let path = search_file(results);
    let mut new = Vec::new();
    let sources = [Some(path.as_path()).filter(|path| path.is_file()), file];
    for (index, source) in sources.into_iter().enumerate() {
        let Some(source) = source else { continue };
        for (number, text, line) in lines(source)? {
            let point = axes.point(&line.point()).map_err(|what| wrong(source, number, &what))?;
            let outcome =
                line.values.map(|values| goals.of_values(&|name| values.get(name).copied()));
            let outcome = outcome.transpose().map_err(|what| wrong(source, number, &what))?;
            search.tell(point, outcome);
            if index == 1 {
                new.push(text);
            }
        }
    }
    Ok((search, new))
}

/// Prints the next points.
pub(super) fn ask(
    experiment: &Experiment,
    tuning: &Tuning,
    results: &Path,
    count: usize,
) -> anyhow::Result<ExitCode> {
    let (search, _) = search(experiment, tuning, results, None)?;
    let axes = Axes::new(experiment);
    let metrics = Goals::new(experiment, tuning).needed();
    for point in search.ask_several(count) {
        json::print(&Proposal { point: axes.named(&point), metrics: metrics.clone() })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes what was measured, and prints where the search stands.
pub(super) fn tell(
    experiment: &Experiment,
    tuning: &Tuning,
    results: &Path,
    file: &Path,
) -> anyhow::Result<ExitCode> {
    let (search, new) = search(experiment, tuning, results, Some(file))?;
    std::fs::create_dir_all(results).with_context(|| results.display().to_string())?;
    let path = search_file(results);
    let mut log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| path.display().to_string())?;
    let text: String = new.into_iter().map(|line| line + "\n").collect();
    log.write_all(text.as_bytes()).with_context(|| path.display().to_string())?;
    let axes = Axes::new(experiment);
    let told = search.trials().len();
    let advice = search.advice();
    json::print(&SearchState {
        told,
        left: (tuning.budget as usize).saturating_sub(told),
        keeps_limits: advice.as_ref().is_some_and(|advice| advice.keeps_limits),
        best: advice.map(|advice| axes.named(&advice.point)),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Measures the points of a file, and prints each with its values.
pub(super) fn measure(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    tuning: &Tuning,
    results: &Path,
    file: &Path,
) -> anyhow::Result<ExitCode> {
    let axes = Axes::new(experiment);
    let mut points = Vec::new();
    for (number, _, line) in lines(file)? {
        points.push(axes.point(&line.point()).map_err(|what| wrong(file, number, &what))?);
    }
    let signals = schedlab_sys::signal::catch().context("catching Ctrl-C")?;
    let stop = || signals.caught().is_some();
    let mut printed = Ok(());
    let mut told = |point: &Point, values: &[(String, f64)]| {
        let values: BTreeMap<&str, f64> = values.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        let values = Some(values).filter(|values| !values.is_empty());
        if printed.is_ok() {
            printed = json::print(&Measured { point, values });
        }
    };
    tune::measure(machines, experiment, tuning, results, &points, &stop, &mut told)?;
    printed?;
    let stopped = signals.caught().is_some();
    Ok(if stopped {
        ExitCode::from(crate::commands::run::EXIT_INTERRUPTED)
    } else {
        ExitCode::SUCCESS
    })
}
