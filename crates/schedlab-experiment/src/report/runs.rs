//! The usual report, from stored runs.

use super::{Report, Section, Table, readable};
use crate::StoredRun;
use crate::analysis::metrics;
use schedlab_model::Metric;
use schedlab_stats::Sample;
use std::collections::BTreeMap;

/// A report of stored runs: for each workload its metrics with all repeats, warnings beside them,
/// the machine, and the raw numbers behind a click. What is known from traces is added by the
/// caller.
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

/// The figures of one workload: the telling ones open, all of them behind a click.
fn figures(label: &str, runs: &[&StoredRun]) -> Section {
    const OPEN_MAX: usize = 14;
    let mut section = Section::new(label);
    let all = metrics(runs);
    if all.is_empty() {
        section.paragraph("The runs have no metrics.");
    } else if runs.iter().any(|run| run.manifest.point != runs[0].manifest.point) {
        // Least and most over unlike points: of use to find a slip, not to read.
        section
            .folded_table(format!("all {} metrics, over all points", all.len()), table(&all, runs));
    } else if all.len() <= OPEN_MAX {
        section.table(table(&all, runs));
    } else {
        let telling: Vec<Metric> = all.iter().filter(|m| is_telling(&m.name)).cloned().collect();
        section.table(table(&telling, runs));
        section.folded_table(format!("all {} metrics", all.len()), table(&all, runs));
    }
    section.folded_warnings(runs);
    section
}

/// Figures that most readers look for: time, rates, latencies at the usual quantiles, switches.
fn is_telling(name: &str) -> bool {
    let quantile = ["_p50", "_p90", "_p99", "_p999"].iter().any(|end| name.ends_with(end));
    let rate = name.ends_with("_per_s") && !name.contains("offered") && !name.contains("dropped");
    let own =
        ["time_s", "run_delay_s", "migrations"].contains(&name) || name.starts_with("switches_");
    // What the trace says has a section of its own, with tables.
    (quantile || rate || own) && !name.starts_with("trace_")
}

/// A row for each figure; a column for each run where they are few.
fn table(metrics: &[Metric], runs: &[&StoredRun]) -> Table {
    const COLUMNS_MAX: usize = 8;
    if runs.len() <= COLUMNS_MAX {
        let names = runs.iter().map(|run| run_name(run, runs.len()));
        let mut table = Table::new(std::iter::once("metric".to_owned()).chain(names));
        for metric in metrics {
            let cell = |run: &&StoredRun| {
                run.value(&metric.name).map_or_else(|| "-".into(), |v| readable(v, metric.unit))
            };
            table.row(std::iter::once(metric.name.clone()).chain(runs.iter().map(cell)));
        }
        return table;
    }
    let mut table = Table::new(["metric", "runs", "least", "median", "most"]);
    for metric in metrics {
        let values = runs.iter().filter_map(|run| run.value(&metric.name));
        let Ok(sample) = Sample::new(values) else { continue };
        let numbers = [sample.min(), sample.median(), sample.max()];
        let cells = numbers.map(|v| readable(v, metric.unit));
        table.row([metric.name.clone(), sample.len().to_string()].into_iter().chain(cells));
    }
    table
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

/// The list of the runs behind a click. Every number of theirs lies beside the report; here they would make
/// it a hundred times as long.
fn raw(runs: &[StoredRun]) -> Section {
    let mut section = Section::new("Raw numbers");
    section.paragraph(format!(
        "{} runs. figures.csv and figures.json beside this report have all numbers. Each run \
         also has a folder, named by the hash of its spec and machine, with its manifest, \
         metrics and trace.",
        runs.len()
    ));
    let mut table = Table::new(["run", "began", "took", "exit code", "warnings", "folder"]);
    for run in runs {
        let manifest = &run.manifest;
        let codes: Vec<&str> = run.warnings.iter().map(|w| w.code.as_str()).collect();
        let folder = run.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        table.row([
            format!("{} {}", manifest.workload, run_name(run, 0)),
            manifest.started_at.clone(),
            readable(manifest.took_ns as f64, schedlab_model::Unit::Nanoseconds),
            manifest.exit_code.to_string(),
            codes.join(" "),
            folder,
        ]);
    }
    section.folded_table("the runs", table);
    section
}
