//! All figures for other tools: CSV, JSON, and a gnuplot script that draws from the CSV.

use crate::analysis::Cells;
use crate::{Manifest, StoredRun};
use schedlab_model::Warning;
use schedlab_workload::Figure;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// All figures of all runs as CSV, one figure a line, a column for each axis.
#[must_use]
pub fn csv(runs: &[StoredRun]) -> String {
    let axes: BTreeSet<&str> =
        runs.iter().flat_map(|r| r.manifest.point.keys().map(String::as_str)).collect();
    let mut head: Vec<String> = ["run", "workload", "block"].map(Into::into).to_vec();
    head.extend(axes.iter().map(|axis| quoted(axis)));
    head.extend(["figure", "unit", "of", "value", "whole", "doubts"].map(Into::into));
    let mut out = line(&head);
    for run in runs {
        let manifest = &run.manifest;
        let doubts: Vec<&str> = run.warnings.iter().map(|w| w.code.as_str()).collect();
        for figure in &run.figures {
            let mut row = vec![
                manifest.id.to_string(),
                quoted(&manifest.workload),
                manifest.block.to_string(),
            ];
            row.extend(axes.iter().map(|a| quoted(manifest.point.get(*a).map_or("", |v| v))));
            let unit = serde_json::to_value(figure.metric.unit).unwrap_or_default();
            row.extend([
                quoted(&figure.metric.name),
                unit.as_str().unwrap_or_default().to_owned(),
                quoted(&figure.of),
                if figure.value.is_finite() { figure.value.to_string() } else { String::new() },
                run.is_whole().to_string(),
                quoted(&doubts.join(" ")),
            ]);
            out += &line(&row);
        }
    }
    out
}

fn line(cells: &[String]) -> String {
    cells.join(",") + "\n"
}

/// A cell of CSV (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// All runs for other programs.
#[derive(Serialize, JsonSchema)]
pub struct Results<'r> {
    /// Each run.
    runs: Vec<RunFigures<'r>>,
}

/// A run with its figures and warnings.
#[derive(Serialize, JsonSchema)]
struct RunFigures<'r> {
    manifest: &'r Manifest,
    figures: &'r [Figure],
    warnings: &'r [Warning],
}

impl<'r> Results<'r> {
    /// Of these runs.
    #[must_use]
    pub fn of(runs: &'r [StoredRun]) -> Self {
        let run = |run: &'r StoredRun| RunFigures {
            manifest: &run.manifest,
            figures: &run.figures,
            warnings: &run.warnings,
        };
        Self { runs: runs.iter().map(run).collect() }
    }
}

/// A gnuplot script with the numbers inside: each workload's figures along its first axis, medians with
/// the whole range of the runs. `gnuplot figures.gp` writes an SVG for each.
#[must_use]
pub fn gnuplot(runs: &[StoredRun], figures: &[String]) -> String {
    let cells = Cells::new(runs);
    let mut out = String::from(
        "# gnuplot figures.gp\nset terminal svg size 900,500\nset grid\nset key outside\n",
    );
    for workload in cells.workloads() {
        let axes = cells.axes(workload);
        let Some((axis, values)) = axes.first() else { continue };
        for metric in cells.metrics(workload) {
            if figures.contains(&metric.name) {
                plot(&mut out, &cells, workload, &metric.name, (axis, values))
                    .expect("a String takes all that is written to it");
            }
        }
    }
    out
}

fn plot(
    out: &mut String,
    cells: &Cells<'_>,
    workload: &str,
    metric: &str,
    (axis, values): (&str, &[String]),
) -> std::fmt::Result {
    // Names go into quotes and file names: what is no plain word is spelled with dashes.
    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-");
    let (name, metric_name, axis_name) = (plain(workload), plain(metric), plain(axis));
    writeln!(out, "\n$data << EOD\n# rank \"{axis_name}\" median least most")?;
    for (rank, value) in values.iter().enumerate() {
        for cell in cells.of(workload).filter(|c| c.point.get(axis) == Some(value)) {
            if let Ok(s) = schedlab_stats::Sample::new(cell.values(metric).into_values()) {
                let value = value.replace(['"', '\\', '\n'], "-");
                writeln!(out, "{rank} \"{value}\" {} {} {}", s.median(), s.min(), s.max())?;
            }
        }
    }
    writeln!(
        out,
        "EOD\nset output '{name}-{metric_name}.svg'\nset xlabel '{axis_name}'\nset ylabel '{metric_name}'\n\
         plot $data using 1:3:4:5:xtic(2) with yerrorbars title '{name}'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(quoted("plain"), "plain");
    }
}
