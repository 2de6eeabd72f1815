//! All figures for other tools: CSV, JSON, and a gnuplot script that draws from the CSV.

use crate::analysis::{Cells, Centre, ValueGrid, curves, planes};
use crate::{Manifest, Point, StoredRun};
use schedlab_model::table::{self, Column, Csv, column};
use schedlab_model::{Metric, Unit, Warning, columns};
use schedlab_workload::Figure;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// All figures of all runs as CSV, one figure a line, a column for each axis.
#[must_use]
pub fn csv(runs: &[StoredRun]) -> String {
    struct Line<'r> {
        run: &'r StoredRun,
        figure: &'r Figure,
    }
    let axes: BTreeSet<&str> =
        runs.iter().flat_map(|r| r.manifest.point.keys().map(String::as_str)).collect();
    let mut columns = columns! { row: Line<'_>;
        "run" = row.run.manifest.id.to_string(), "The id of the run.";
        "workload" = row.run.manifest.workload.clone(), "The label of its workload.";
        "block" = row.run.manifest.block, "The number of its repeat, from 0.";
    };
    columns.extend(axes.into_iter().map(|axis| {
        let name = axis.to_owned();
        column(
            axis.to_owned(),
            "The value of this axis; empty if the run has none.",
            move |row: &Line<'_>| row.run.manifest.point.get(&name).cloned(),
        )
    }));
    columns.extend(columns! { row: Line<'_>;
        "figure" = row.figure.metric.name.clone(), "The name of the metric.";
        "unit" = unit(row.figure.metric.unit), "The unit of the value.";
        "of" = row.figure.of.clone(), "What the value is of, such as a load that ran beside; empty for the run itself.";
        "value" = row.figure.value.is_finite().then(|| row.figure.value.to_string()), "The value in this unit; empty if it is not finite.";
        "whole" = row.run.is_whole(), "Whether the run came to its end.";
        "doubts" = codes(row.run), "The codes of its warnings.";
    });
    let csv = Csv::new(&columns, false);
    let mut text = csv.head();
    for run in runs {
        for figure in &run.figures {
            csv.line(&Line { run, figure }, &mut text);
        }
    }
    text
}

/// The codes of a run's warnings, with spaces between.
fn codes(run: &StoredRun) -> String {
    run.warnings.iter().map(|warning| &*warning.code).collect::<Vec<_>>().join(" ")
}

/// A metric of a run, as a row of a table whose columns are the same for all experiments.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The name of the run.
    pub(crate) run: String,
    /// The label of its workload.
    pub workload: String,
    /// The machine as the experiment names it.
    pub(crate) machine: String,
    /// The host, or the model of a simulated machine.
    pub(crate) host: String,
    /// The release of its kernel.
    pub(crate) kernel: String,
    /// The number of the repeat, from 1.
    pub(crate) block: u32,
    /// When the run began, in UTC (RFC 3339).
    pub(crate) started_at: String,
    /// The choice on every axis, as a JSON object with sorted keys.
    pub(crate) point: String,
    /// The name of the metric.
    pub metric: String,
    /// Its unit, as the registry of metrics spells it.
    pub(crate) unit: String,
    /// The label of what ran beside, or of the part that the value is of; empty for the run itself.
    pub(crate) of: String,
    /// The value; `None` where it is not finite.
    pub(crate) value: Option<f64>,
    /// Whether the run came to its end and its load succeeded.
    pub(crate) whole: bool,
    /// Whether its time limit ended it: its times are lower bounds.
    pub(crate) censored: bool,
    /// The codes of its warnings, with spaces between.
    pub(crate) warnings: String,
}

impl table::Row for Row {
    const ABOUT: &'static str = "A metric of a run.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "run" = row.run.clone(), "The name of the run.";
            "workload" = row.workload.clone(), "The label of its workload.";
            "machine" = row.machine.clone(), "The machine as the experiment names it.";
            "host" = row.host.clone(), "The host, or the model of a simulated machine.";
            "kernel" = row.kernel.clone(), "The release of its kernel.";
            "block" = i32::try_from(row.block).unwrap_or(i32::MAX), "The number of the repeat.";
            "started_at" = row.started_at.clone(), "When the run began, in UTC (RFC 3339).";
            "point" = row.point.clone(), "The choice on every axis, as a JSON object with sorted keys.";
            "metric" = row.metric.clone(), "The name of the metric.";
            "unit" = row.unit.clone(), "Its unit.";
            "of" = row.of.clone(), "What ran beside, or the part that the value is of; empty for the run itself.";
            "value" = row.value, "The value; null if it is not finite.";
            "whole" = row.whole, "Whether the run came to its end and its load succeeded.";
            "censored" = row.censored, "Whether its time limit ended it.";
            "warnings" = row.warnings.clone(), "The codes of its warnings, with spaces between.";
        }
    }
}

/// All metrics of all runs, in the order of the runs.
pub fn rows(runs: &[StoredRun]) -> impl Iterator<Item = Row> + '_ {
    runs.iter().flat_map(|run| {
        let manifest = &run.manifest;
        let point = serde_json::to_string(&manifest.point).expect("points are texts");
        let warnings = codes(run);
        run.figures.iter().map(move |figure| Row {
            run: manifest.id.to_string(),
            workload: manifest.workload.clone(),
            machine: manifest.machine.clone(),
            host: manifest.facts.host.clone(),
            kernel: manifest.facts.kernel.release.clone(),
            block: manifest.block,
            started_at: manifest.started_at.clone(),
            point: point.clone(),
            metric: figure.metric.name.clone(),
            unit: unit(figure.metric.unit),
            of: figure.of.clone(),
            value: figure.value.is_finite().then_some(figure.value),
            whole: run.is_whole(),
            censored: manifest.censored,
            warnings: warnings.clone(),
        })
    })
}

/// A unit as it is written in JSON.
fn unit(unit: Unit) -> String {
    let text = serde_json::to_value(unit).unwrap_or_default();
    text.as_str().unwrap_or_default().to_owned()
}

/// All runs for other programs.
#[derive(Serialize, JsonSchema)]
pub struct Results<'r> {
    /// The metrics of each run.
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

/// A gnuplot script with the numbers inside: for each workload and metric a map over its first two axes, and
/// the curves along each axis, one line for each choice on the others. Centres and 95 % intervals are those of
/// the report. `gnuplot figures.gp` writes an SVG for each.
#[must_use]
pub fn gnuplot(runs: &[StoredRun], figures: &[String]) -> String {
    let cells = Cells::new(runs);
    let mut out = String::from(
        "# gnuplot figures.gp\nset terminal svg size 900,500\nset grid\nset key outside right\n",
    );
    for workload in cells.workloads() {
        let axes = cells.axes(workload);
        for metric in cells.metrics(workload).iter().filter(|m| figures.contains(&m.name)) {
            for (axis, _) in &axes {
                plot_curves(&mut out, &cells, workload, metric, axis);
            }
            for (index, (fixed, plane)) in planes(&cells, workload, &metric.name).iter().enumerate()
            {
                plot_map(&mut out, workload, metric, index, fixed, plane);
            }
        }
    }
    out
}

/// A text within double quotes of gnuplot: no quotes, no escapes, no control characters.
fn plain(text: &str) -> String {
    text.replace(|c: char| c == '"' || c == '\\' || c == '`' || c.is_control(), "-")
}

/// A part of a file's name.
fn file(text: &str) -> String {
    text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-")
}

/// The name of a metric with its unit.
fn title(metric: &Metric) -> String {
    let unit = match metric.unit {
        Unit::Nanoseconds => " [ns]",
        Unit::Seconds => " [s]",
        Unit::PerSecond => " [1/s]",
        Unit::Bytes => " [B]",
        Unit::BytesPerSecond => " [B/s]",
        Unit::Fraction | Unit::Count => "",
    };
    plain(&metric.name) + unit
}

fn place(point: &Point) -> String {
    let parts: Vec<String> = point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    plain(&parts.join(" "))
}

fn plot_curves(out: &mut String, cells: &Cells<'_>, workload: &str, metric: &Metric, axis: &str) {
    let all = curves(cells, workload, &metric.name, axis);
    let mut ticks: Vec<(f64, &str)> =
        all.iter().flat_map(|c| &c.points).map(|p| (p.x, p.value.as_str())).collect();
    ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
    ticks.dedup();
    let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else { return };
    // As in the report: values over more than a power of ten were chosen by their ratio.
    let log = first.0 > 0.0 && last.0 / first.0 > 10.0;
    let _ =
        writeln!(out, "\n# {} of {} along {}", plain(&metric.name), plain(workload), plain(axis));
    for (index, curve) in all.iter().enumerate() {
        let _ = writeln!(out, "$curve{index} << EOD\n# x centre low high runs value");
        for point in &curve.points {
            let centre = &point.centre;
            let (low, high) = centre.interval.unwrap_or((centre.value, centre.value));
            let x = point.x;
            let value = centre.value;
            let label = plain(&point.value);
            let _ = writeln!(out, "{x} {value} {low} {high} {} \"{label}\"", centre.runs);
        }
        out.push_str("EOD\n");
    }
    let tics: Vec<String> =
        ticks.iter().map(|(x, value)| format!("\"{}\" {x}", plain(value))).collect();
    let lines: Vec<String> = all
        .iter()
        .enumerate()
        .map(|(index, curve)| {
            let name = if curve.fixed.is_empty() { plain(workload) } else { place(&curve.fixed) };
            format!("$curve{index} using 1:2:3:4 with yerrorlines title \"{name}\" noenhanced")
        })
        .collect();
    let scale = if log { "set logscale x" } else { "unset logscale x" };
    // Free space at both ends: gnuplot leaves out a tick on the border.
    let (low, high) = match log {
        true => (first.0 / (last.0 / first.0).powf(0.04), last.0 * (last.0 / first.0).powf(0.04)),
        false => (first.0 - 0.04 * (last.0 - first.0), last.0 + 0.04 * (last.0 - first.0)),
    };
    let _ = write!(
        out,
        "set output '{}-{}-{}.svg'\nset title \"{}\" noenhanced\nset xlabel \"{}\" noenhanced\n\
         set ylabel \"{}\" noenhanced\n{scale}\nset xtics ({}) rotate by -30\nset autoscale\nset xrange [{low}:{high}]\nset yrange [0:*]\n\
         plot {}\nunset xtics\nset xtics autofreq\nunset logscale x\n",
        file(workload),
        file(&metric.name),
        file(axis),
        plain(workload),
        plain(axis),
        title(metric),
        tics.join(", "),
        lines.join(", \\\n     ")
    );
}

fn plot_map(
    out: &mut String,
    workload: &str,
    metric: &Metric,
    index: usize,
    fixed: &Point,
    plane: &ValueGrid,
) {
    let _ = writeln!(
        out,
        "\n# {} of {} over two axes\n$map << EOD",
        plain(&metric.name),
        plain(workload)
    );
    for row in &plane.cells {
        let value = |cell: &std::collections::BTreeMap<u32, f64>| {
            let centre = Centre::of(cell.values().copied());
            centre.map_or("NaN".to_owned(), |centre| centre.value.to_string())
        };
        let _ = writeln!(out, "{}", row.iter().map(value).collect::<Vec<String>>().join(" "));
    }
    let tics = |values: &[String]| -> String {
        let all = values.iter().enumerate();
        all.map(|(at, v)| format!("\"{}\" {at}", plain(v))).collect::<Vec<String>>().join(", ")
    };
    let number = if index == 0 { String::new() } else { format!("-{}", index + 1) };
    let _ = write!(
        out,
        "EOD\nset output '{}-{}-map{number}.svg'\nset title \"{} {}\" noenhanced\nset xlabel \"{}\" noenhanced\n\
         set ylabel \"{}\" noenhanced\nset cblabel \"{}\" noenhanced\nset xtics ({})\nset ytics ({})\n\
         set autoscale\nset xrange [-0.5:{}]\nset yrange [-0.5:{}]\nunset key\nplot $map matrix with image pixels\n\
         unset xtics\nset xtics autofreq\nunset ytics\nset ytics autofreq\nset autoscale\nset key outside right\n",
        file(workload),
        file(&metric.name),
        plain(workload),
        place(fixed),
        plain(&plane.x),
        plain(&plane.y),
        title(metric),
        tics(&plane.columns),
        tics(&plane.rows),
        plane.columns.len() as f64 - 0.5,
        plane.rows.len() as f64 - 0.5
    );
}
