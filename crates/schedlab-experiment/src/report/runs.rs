//! The usual report, from stored runs.

use super::{Report, Section, Table, readable};
use crate::StoredRun;
use schedlab_model::{Metric, Warning};
use std::collections::BTreeMap;

/// A report of stored runs: for each workload its figures with all repeats, doubts beside them, the
/// machine, and the raw numbers behind a click. What is known from traces is added by the caller.
#[must_use]
pub fn of_runs(title: &str, runs: &[StoredRun]) -> Report {
    let mut report = Report::new(title);
    for (label, runs) in by_workload(runs) {
        report.add(figures(&label, &runs));
    }
    if let Some(run) = runs.last() {
        report.machine(&run.manifest.facts);
    }
    report.add(raw(runs));
    report
}

/// Runs by the label of their workload, in the order of the labels.
pub(crate) fn by_workload(runs: &[StoredRun]) -> BTreeMap<String, Vec<&StoredRun>> {
    let mut groups: BTreeMap<String, Vec<&StoredRun>> = BTreeMap::new();
    for run in runs {
        groups.entry(run.manifest.workload.clone()).or_default().push(run);
    }
    groups
}

/// The figures of one workload: a row for each, a column for each run where they are few.
fn figures(label: &str, runs: &[&StoredRun]) -> Section {
    const COLUMNS_MAX: usize = 8;
    let mut section = Section::new(label);
    let metrics = metrics(runs);
    if metrics.is_empty() {
        section.paragraph("The runs gave no figures.");
    } else if runs.len() <= COLUMNS_MAX {
        let names = runs.iter().map(|run| run_name(run, runs.len()));
        let mut table = Table::new(std::iter::once("figure".to_owned()).chain(names));
        for metric in &metrics {
            let cells = runs.iter().map(|run| {
                run.value(&metric.name).map_or_else(|| "-".into(), |v| readable(v, metric.unit))
            });
            table.row(std::iter::once(metric.name.clone()).chain(cells));
        }
        section.table(table);
    } else {
        let mut table = Table::new(["figure", "runs", "least", "median", "most"]);
        for metric in &metrics {
            let mut values: Vec<f64> =
                runs.iter().filter_map(|run| run.value(&metric.name)).collect();
            values.sort_by(f64::total_cmp);
            let cell =
                |value: Option<&f64>| value.map_or("-".into(), |v| readable(*v, metric.unit));
            let median = values.get(values.len() / 2);
            let cells = [cell(values.first()), cell(median), cell(values.last())];
            table.row([metric.name.clone(), values.len().to_string()].into_iter().chain(cells));
        }
        section.table(table);
    }
    let mut warnings: Vec<Warning> = runs.iter().flat_map(|run| run.warnings.clone()).collect();
    warnings.sort();
    warnings.dedup();
    section.warnings(&warnings);
    section
}

fn run_name(run: &StoredRun, of: usize) -> String {
    let point: Vec<String> =
        run.manifest.point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    let partial = if run.manifest.interrupted { " (partial)" } else { "" };
    match (of, point.is_empty()) {
        (1, true) => format!("value{partial}"),
        (_, true) => format!("run {}{partial}", run.manifest.block + 1),
        _ => format!("{} #{}{partial}", point.join(" "), run.manifest.block + 1),
    }
}

/// The metrics of whole runs, in the order in which they were first told.
pub(crate) fn metrics(runs: &[&StoredRun]) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for figure in runs.iter().flat_map(|run| &run.figures).filter(|f| f.of.is_empty()) {
        if !metrics.contains(&figure.metric) {
            metrics.push(figure.metric.clone());
        }
    }
    metrics
}

fn raw(runs: &[StoredRun]) -> Section {
    let mut section = Section::new("Raw numbers");
    section.paragraph(format!(
        "{} runs. Each is also a folder of its own, named by the hash of what was run, with its manifest, \
         figures and trace.",
        runs.len()
    ));
    for run in runs {
        let id = &run.manifest.id;
        let mut table = Table::new(["figure", "of", "value"]);
        for figure in &run.figures {
            table.row([figure.metric.name.clone(), figure.of.clone(), figure.value.to_string()]);
        }
        let began = &run.manifest.started_at;
        let name = format!("{} {} ({began})", run.manifest.workload, run_name(run, 0));
        section.folded_table(format!("{name}, run {id}"), table);
        let spec = serde_json::to_string_pretty(&run.manifest.spec).unwrap_or_default();
        section.folded(format!("what was asked in run {id}"), spec);
    }
    section
}
