//! What an experiment shows: maps, curves, tables with intervals, and a sentence on what they do and
//! do not show.

mod maps;
mod multiples;
mod text;

pub use text::text_map;

use super::{Section, Table, ThemedScene, readable};
use crate::analysis::{Cell, Cells, Centre, Winner, winner};
use crate::{Drawing, Experiment, Point, StoredRun, Varies};
use schedlab_draw::chart::Values;
use schedlab_model::{Better, Metric, Unit};
use schedlab_workload::metrics::primary;

const WIDTH_PX: i32 = 1000;
/// More maps than this on one page help nobody; all numbers are in the tables.
const PICTURES_MAX: usize = 6;

/// A picture with what it shows.
#[derive(Clone, Debug)]
pub struct Picture {
    /// What is drawn, on light and on dark ground.
    pub scenes: ThemedScene,
    /// What it shows, in sentences.
    pub(crate) caption: String,
}

/// What an experiment shows.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// One map and one set of curves, for the first screen.
    pub first: Vec<Picture>,
    /// A section for each workload that has axes, with all the rest.
    pub sections: Vec<Section>,
}

/// What the runs show: the pictures of the first screen, and a section for each workload that has axes.
#[must_use]
pub fn answers(experiment: Option<&Experiment>, runs: &[StoredRun]) -> Shown {
    let cells = Cells::new(runs);
    let mut shown = Shown::default();
    for label in cells.workloads() {
        let first = shown.sections.is_empty().then_some(&mut shown.first);
        if let Some(section) = workload(experiment, &cells, label, first) {
            shown.sections.push(section);
        }
    }
    shown
}

/// The best setting of each workload that the runs can tell from others.
#[must_use]
pub fn winners(experiment: &Experiment, runs: &[StoredRun]) -> Vec<Winner> {
    let cells = Cells::new(runs);
    let labels = cells.workloads();
    let of = |label: &str| {
        let metrics = chosen(Some(experiment), &cells.metrics(label));
        winner(experiment, &cells, label, metrics.first()?).ok().flatten()
    };
    labels.into_iter().filter_map(of).collect()
}

/// Each metric that matters at each point of an experiment that compares nothing, in a sentence.
#[must_use]
pub(crate) fn centres(experiment: &Experiment, runs: &[StoredRun]) -> Vec<String> {
    let cells = Cells::new(runs);
    let mut out = Vec::new();
    for cell in &cells.cells {
        for metric in chosen(Some(experiment), &cells.metrics(&cell.workload)) {
            let cut = cell.censored.len();
            let name = format!("{}{}: {}", cell.workload, place(&cell.point), metric.name);
            let Some(centre) = Centre::of(cell.values(&metric.name).into_values()) else {
                let [least, _] = unfinished(cell, &metric);
                out.extend(
                    (cut > 0).then(|| format!("{name} {least}: all {cut} runs were cut off.")),
                );
                continue;
            };
            let beside = match cut {
                0 => String::new(),
                _ => format!(" It leaves out {cut} runs that were cut off."),
            };
            let told = |value: f64| readable(value, metric.unit);
            let interval = centre
                .interval
                .map_or(String::new(), |(low, high)| format!(" [{} .. {}]", told(low), told(high)));
            let value = told(centre.value);
            let count = centre.runs;
            out.push(format!(
                "{name} {value}{interval}, {} of {count} runs.{beside}",
                centre.name()
            ));
        }
    }
    out
}

fn wants(experiment: Option<&Experiment>, drawing: Drawing) -> bool {
    experiment.is_none_or(|e| e.draw.is_empty() || e.draw.contains(&drawing))
}

/// Widths of the two pictures of the first screen, beside each other.
const FIRST_PX: (i32, i32) = (470, 640);

/// The section of a workload. Its first map and curves go to `first`, where that is given.
fn workload(
    experiment: Option<&Experiment>,
    cells: &Cells<'_>,
    label: &str,
    first: Option<&mut Vec<Picture>>,
) -> Option<Section> {
    let axes = cells.axes(label);
    let metrics = chosen(experiment, &cells.metrics(label));
    let main = metrics.first().filter(|_| !axes.is_empty())?;
    let mut section = Section::new(format!("{label}: what the experiment shows"));
    if cells.left_out > 0 {
        section.paragraph(format!("{} runs were stopped and are left out.", cells.left_out));
    }
    let failed: usize = cells.of(label).map(|cell| cell.failed.len()).sum();
    if failed > 0 {
        section.paragraph(format!("{failed} runs failed: they are no results."));
    }
    let (map_px, curves_px) = if first.is_some() { FIRST_PX } else { (WIDTH_PX, WIDTH_PX) };
    let mut maps = match wants(experiment, Drawing::Map) {
        true => maps::pictures(&mut section, experiment, cells, label, main, &axes, map_px),
        false => Vec::new(),
    };
    let mut rows: Vec<Metric> = Vec::new();
    rows.extend(Some(main.clone()).filter(|_| wants(experiment, Drawing::Curves)));
    if wants(experiment, Drawing::Switches) {
        let is_switch = |m: &&Metric| m.name.starts_with("switches_") && m.name != main.name;
        rows.extend(cells.metrics(label).iter().filter(is_switch).cloned());
    }
    let mut along: Vec<&str> = axes.iter().map(|(axis, _)| axis.as_str()).collect();
    // What can be chosen comes first, then the axis with more values.
    along.sort_by_key(|name| {
        let count =
            axes.iter().find(|(axis, _)| axis == name).map_or(0, |(_, values)| values.len());
        (maps::is_load(experiment, name), std::cmp::Reverse(count))
    });
    let curves = |axis: &str, px: i32| {
        let claims = experiment.map_or(&[][..], |experiment| &experiment.claims);
        let is_load = maps::is_load(experiment, axis);
        multiples::picture(cells, claims, label, &rows, axis, is_load, px)
    };
    let mut along = along.into_iter();
    if let Some(first) = first {
        first.extend((!maps.is_empty()).then(|| maps.remove(0)));
        let px = if first.is_empty() { WIDTH_PX } else { curves_px };
        let axis = along.next().filter(|_| !rows.is_empty());
        first.extend(axis.and_then(|axis| curves(axis, px)));
    }
    if !rows.is_empty() {
        maps.extend(along.filter_map(|axis| curves(axis, WIDTH_PX)));
    }
    for picture in maps {
        section.picture(picture.scenes.svg(), picture.caption);
    }
    if let Some(sentence) = experiment.and_then(|e| take_home(e, cells, label, main)) {
        section.paragraph(sentence);
    }
    section.paragraph(
        "Each value is the geometric mean of the runs (the mean where a run is 0), with its 95 % interval.",
    );
    section.table(table(cells, label, &metrics));
    Some(section)
}

/// Whether there is a setting to take home, in a sentence; none where no knob was varied.
fn take_home(
    experiment: &Experiment,
    cells: &Cells<'_>,
    label: &str,
    metric: &Metric,
) -> Option<String> {
    if !experiment.axes.iter().any(|a| matches!(a.varies, Varies::Knob(_)) && a.values.len() > 1) {
        return None;
    }
    Some(match winner(experiment, cells, label, metric) {
        Ok(Some(winner)) => {
            let parts: Vec<String> = winner.settings.iter().map(ToString::to_string).collect();
            format!(
                "Over all loads the best of {} settings is {}; {} cannot be told from it. It lies beside this report as \
                 a sysctl.d file and a tuned profile (`schedlab knobs run --from FILE -- CMD` tries it).",
                winner.of,
                parts.join(" "),
                winner.rivals - 1
            )
        }
        Ok(None) if cells.of(label).any(Cell::is_short) => {
            "Runs failed or were cut off, so no setting is named the best over all loads."
                .to_owned()
        }
        Ok(None) => format!(
            "Over all loads the runs show no difference in {} between settings, so none is best.",
            metric.name
        ),
        Err(_) => return None,
    })
}

/// The metrics that matter, the first most of all.
fn chosen(experiment: Option<&Experiment>, all: &[Metric]) -> Vec<Metric> {
    let wanted = experiment.map(|e| e.measure.as_slice()).unwrap_or_default();
    if !wanted.is_empty() {
        let find = |name: &String| all.iter().find(|m| m.name == *name).cloned();
        return wanted.iter().filter_map(find).collect();
    }
    let mut judging: Vec<Metric> =
        all.iter().filter(|m| m.better != Better::Neither).cloned().collect();
    let primary: Vec<&str> = experiment
        .iter()
        .flat_map(|e| &e.workloads)
        .flat_map(|w| primary(&w.spec))
        .copied()
        .collect();
    let rank = |m: &Metric| primary.iter().position(|name| *name == m.name);
    // Where a duration was given the time says nothing.
    judging.retain(|m| m.name != "time_s" || primary.is_empty() || rank(m).is_some());
    judging.sort_by_key(|m| (rank(m).unwrap_or(primary.len()), m.name != "time_s"));
    judging.truncate(4);
    judging
}

fn place(point: &Point) -> String {
    let parts: Vec<String> =
        point.iter().map(|(axis, value)| format!(", {axis}={value}")).collect();
    parts.concat()
}

/// Charts write durations from nanoseconds.
fn factor(unit: Unit) -> f64 {
    if unit == Unit::Seconds { 1e9 } else { 1.0 }
}

fn values(unit: Unit) -> Values {
    match unit {
        Unit::Nanoseconds | Unit::Seconds => Values::Nanoseconds,
        Unit::Fraction => Values::Percent,
        _ => Values::Plain,
    }
}

/// A row for each point: centre and interval of each metric.
fn table(cells: &Cells<'_>, label: &str, metrics: &[Metric]) -> Table {
    let mut head = vec!["point".to_owned(), "runs".to_owned()];
    for metric in metrics {
        head.push(metric.name.clone());
        head.push("95 %".to_owned());
    }
    let mut table = Table::new(head);
    for cell in cells.of(label) {
        let point: Vec<String> = cell.point.iter().map(|(a, v)| format!("{a}={v}")).collect();
        let beside = [(cell.censored.len(), "cut off"), (cell.failed.len(), "failed")];
        let beside = beside.iter().filter(|(count, _)| *count > 0);
        let beside: Vec<String> = beside.map(|(count, what)| format!(", {count} {what}")).collect();
        let mut row = vec![point.join(" "), format!("{}{}", cell.runs.len(), beside.concat())];
        for metric in metrics {
            let Some(centre) = Centre::of(cell.values(&metric.name).into_values()) else {
                row.extend(unfinished(cell, metric));
                continue;
            };
            row.push(readable(centre.value, metric.unit));
            row.push(match centre.interval {
                Some((low, high)) => {
                    format!("{} .. {}", readable(low, metric.unit), readable(high, metric.unit))
                }
                None if centre.runs > 1 => format!("identical in {} runs", centre.runs),
                None => "one run".into(),
            });
        }
        table.row(row);
    }
    table
}

/// The cells of a metric without a finished run: how long runs took at least that were cut off.
fn unfinished(cell: &Cell<'_>, metric: &Metric) -> [String; 2] {
    let cut = cell.censored.values().filter_map(|run| run.value(&metric.name));
    let least = cut.fold(f64::INFINITY, f64::min);
    let is_time = metric.name.rsplit('/').next() == Some("time_s");
    match is_time && least.is_finite() {
        true => [format!("≥ {}", readable(least, metric.unit)), "-".to_owned()],
        false => ["-".to_owned(), "-".to_owned()],
    }
}

#[cfg(test)]
mod tests;
