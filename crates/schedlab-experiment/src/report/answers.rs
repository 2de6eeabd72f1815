//! What an experiment shows: maps, curves, tables with intervals, and a sentence on what they do and
//! do not show.

use super::{Section, Table, picture, readable};
use crate::analysis::{Cells, Choice, Curve, Map, MapError, Noise, Plane, Winner, curves, winner};
use crate::{Drawing, Experiment, Point, StoredRun, Varies};
use schedlab_draw::Theme;
use schedlab_draw::chart::{Axis, Chart as _, Heatmap, Line, Sample as Dot, Series, Shape, Values};
use schedlab_model::{Better, Metric, Unit};
use schedlab_stats::{Interval, Method, Sample, interval};
use std::collections::{BTreeMap, BTreeSet};

const WIDTH_PX: i32 = 1000;
/// More maps or curves than this on one page help nobody; all numbers are in the tables.
const PICTURES_MAX: usize = 6;

/// A section for each workload that has axes: its maps and curves, with sentences.
#[must_use]
pub fn answers(experiment: Option<&Experiment>, runs: &[StoredRun]) -> Vec<Section> {
    let cells = Cells::new(runs);
    let labels = cells.workloads();
    labels.into_iter().filter_map(|label| workload(experiment, &cells, label)).collect()
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

fn wants(experiment: Option<&Experiment>, drawing: Drawing) -> bool {
    experiment.is_none_or(|e| e.draw.is_empty() || e.draw.contains(&drawing))
}

fn workload(experiment: Option<&Experiment>, cells: &Cells<'_>, label: &str) -> Option<Section> {
    let axes = cells.axes(label);
    let metrics = chosen(experiment, &cells.metrics(label));
    let main = metrics.first().filter(|_| !axes.is_empty())?;
    let mut section = Section::new(format!("{label}: what the experiment shows"));
    if cells.left_out > 0 {
        let what = format!("{} runs were stopped or failed and are left out.", cells.left_out);
        section.paragraph(what);
    }
    if wants(experiment, Drawing::Map) {
        maps(&mut section, experiment, cells, label, main, &axes);
    }
    if wants(experiment, Drawing::Curves) {
        for (axis, _) in &axes {
            curve_picture(&mut section, cells, label, main, axis);
        }
    }
    if wants(experiment, Drawing::Switches) {
        let all = cells.metrics(label);
        for metric in all.iter().filter(|m| m.name.starts_with("switches_") && m.name != main.name)
        {
            for (axis, _) in &axes {
                curve_picture(&mut section, cells, label, metric, axis);
            }
        }
    }
    if let Some(sentence) = experiment.and_then(|e| take_home(e, cells, label, main)) {
        section.paragraph(sentence);
    }
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
            let parts: Vec<String> =
                winner.settings.iter().map(|s| format!("{}={}", s.knob, s.value)).collect();
            format!(
                "Over all loads the best of {} settings is {}; {} cannot be told from it. It lies beside this report as \
                 a sysctl.d file and a tuned profile (`schedlab knobs run --from FILE -- CMD` tries it).",
                winner.of,
                parts.join(" "),
                winner.rivals - 1
            )
        }
        Ok(None) => format!(
            "Over all loads the runs show no setting with another {} than the others: there is none to take home.",
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
    judging.sort_by_key(|m| m.name != "time_s");
    judging.truncate(4);
    judging
}

fn maps(
    section: &mut Section,
    experiment: Option<&Experiment>,
    cells: &Cells<'_>,
    label: &str,
    metric: &Metric,
    axes: &[(String, Vec<String>)],
) {
    let [x, y, rest @ ..] = axes else { return };
    // The axis with more values lies to the right.
    let (x, y) = if x.1.len() >= y.1.len() { (x, y) } else { (y, x) };
    let others: BTreeSet<&str> = rest.iter().map(|(name, _)| name.as_str()).collect();
    let mut planes: BTreeMap<Point, Plane> = BTreeMap::new();
    for cell in cells.of(label) {
        let (Some(vx), Some(vy)) = (cell.point.get(&x.0), cell.point.get(&y.0)) else { continue };
        let fixed: Point = cell
            .point
            .iter()
            .filter(|(n, _)| others.contains(n.as_str()))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect();
        let plane = planes.entry(fixed).or_insert_with(|| Plane {
            x: x.0.clone(),
            y: y.0.clone(),
            columns: x.1.clone(),
            rows: y.1.clone(),
            cells: vec![vec![BTreeMap::new(); x.1.len()]; y.1.len()],
        });
        let place = (y.1.iter().position(|v| v == vy), x.1.iter().position(|v| v == vx));
        if let (Some(row), Some(column)) = place {
            // A run that was cut off is none of a mean: without it the cell would look too good.
            if cell.censored.is_empty() {
                plane.cells[row][column] = cell.values(&metric.name);
            }
        }
    }
    let loads = loads(experiment, &x.0, &y.0);
    for (fixed, mut plane) in planes.into_iter().take(PICTURES_MAX) {
        let mut metric = metric.clone();
        if let Some(load) = &loads {
            relative(&mut plane, *load == x.0);
            metric.name = format!("{} relative to the mean at its {load}", metric.name);
            metric.unit = Unit::Count;
        }
        let label = if loads.is_some() { "ratio" } else { &metric.name };
        let metric = &metric;
        let choice = match &loads {
            Some(load) if *load == x.0 => Choice::InColumns,
            Some(_) => Choice::InRows,
            None => Choice::Cells,
        };
        let noise = experiment.and_then(|e| e.noise).map_or(Noise::Measured, Noise::Given);
        match Map::new(&plane, noise, metric.better != Better::Higher, choice) {
            Ok(map) => map_picture(section, (metric, label), &plane, &map, &fixed),
            Err(MapError::SingleRuns) => {
                let what = "No map is drawn: each cell holds a single run, and nothing tells differences \
                            from luck. Set repeats to 3 or more.";
                section.paragraph(what);
            }
            Err(error) => {
                section.paragraph(format!("No map is drawn: {error}."));
            }
        }
    }
}

/// The axis that says how much is asked, where the other is what may be tuned: nobody tunes the number of
/// groups, and less work is always done sooner.
fn loads(experiment: Option<&Experiment>, x: &str, y: &str) -> Option<String> {
    let axes = &experiment?.axes;
    let is_option = |name: &str| {
        // Those of what runs beside have its label before them.
        let name = name.rsplit('/').next().unwrap_or(name);
        axes.iter().any(|a| a.varies.name() == name && matches!(a.varies, Varies::Option(_)))
    };
    match (is_option(x), is_option(y)) {
        (true, false) => Some(x.to_owned()),
        (false, true) => Some(y.to_owned()),
        _ => None,
    }
}

/// Divides each row (or column) by its geometric mean: what the other axis does at each load.
fn relative(plane: &mut Plane, columns: bool) {
    let lines = if columns { plane.columns.len() } else { plane.rows.len() };
    for line in 0..lines {
        let inside = |row: usize, column: usize| (if columns { column } else { row }) == line;
        let mut cells: Vec<&mut BTreeMap<u32, f64>> = plane
            .cells
            .iter_mut()
            .enumerate()
            .flat_map(|(r, row)| row.iter_mut().enumerate().map(move |(c, cell)| (r, c, cell)))
            .filter(|(r, c, _)| inside(*r, *c))
            .map(|(_, _, cell)| cell)
            .collect();
        let logs: Vec<f64> = cells.iter().flat_map(|c| c.values().map(|v| v.ln())).collect();
        let mean = (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp();
        if mean.is_finite() && mean > 0.0 {
            cells.iter_mut().flat_map(|c| c.values_mut()).for_each(|value| *value /= mean);
        }
    }
}

fn map_picture(
    section: &mut Section,
    (metric, label): (&Metric, &str),
    plane: &Plane,
    map: &Map,
    fixed: &Point,
) {
    let (low, high) = map
        .means
        .iter()
        .flatten()
        .flatten()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(*v), high.max(*v)));
    // Contours at steps that the noise allows to tell apart, five at most.
    let levels = ((high / low).ln() / map.resolution.ln()).floor().clamp(0.0, 5.0) as i32;
    let contour = |i: i32| low * (high / low).powf(f64::from(i) / f64::from(levels + 1));
    // A ring around what is best by luck would be a claim.
    let nothing = map.shows_nothing();
    let marks = match nothing {
        true => "no cell can be told from another",
        false => "ringed: best; outlined: can't be told from it",
    };
    let heat = Heatmap {
        title: format!("{} over {} and {}{}", metric.name, plane.x, plane.y, place(fixed)),
        notes: vec![format!("a run varies by {:.1} %; {marks}", map.sigma * 100.0)],
        x_label: plane.x.clone(),
        y_label: plane.y.clone(),
        columns: plane.columns.clone(),
        rows: plane.rows.clone(),
        value_label: label.to_owned(),
        values: values(metric.unit),
        cells: scaled(&map.means, metric.unit),
        best: map.best.first().copied().filter(|_| !nothing && map.best.len() == 1),
        stable: map.flat.iter().copied().filter(|_| !nothing).collect(),
        contours: (1..=levels).map(|i| contour(i) * factor(metric.unit)).collect(),
    };
    section
        .picture(picture(&heat.scene(WIDTH_PX, &Theme::default())), map.sentences(plane).join(" "));
}

/// Charts write durations from nanoseconds.
fn factor(unit: Unit) -> f64 {
    if unit == Unit::Seconds { 1e9 } else { 1.0 }
}

fn scaled(means: &[Vec<Option<f64>>], unit: Unit) -> Vec<Vec<Option<f64>>> {
    let scale = |mean: &Option<f64>| mean.map(|m| m * factor(unit));
    means.iter().map(|row| row.iter().map(scale).collect()).collect()
}

fn values(unit: Unit) -> Values {
    match unit {
        Unit::Nanoseconds | Unit::Seconds => Values::Nanoseconds,
        Unit::Fraction => Values::Percent,
        _ => Values::Plain,
    }
}

fn place(point: &Point) -> String {
    let parts: Vec<String> =
        point.iter().map(|(axis, value)| format!(", {axis}={value}")).collect();
    parts.concat()
}

fn curve_picture(
    section: &mut Section,
    cells: &Cells<'_>,
    label: &str,
    metric: &Metric,
    axis: &str,
) {
    let curves = curves(cells, label, &metric.name, axis);
    let scale = factor(metric.unit);
    let dot = |curve: &Curve| -> Vec<Dot> {
        let point = |p: &crate::analysis::CurvePoint| Dot {
            x: p.x,
            y: p.interval.map_or(p.median, |i| i.estimate) * scale,
            interval: p.interval.map(|i| (i.low.max(0.0) * scale, i.high * scale)),
        };
        curve.points.iter().map(point).collect()
    };
    let name = |curve: &Curve| {
        let parts: Vec<String> = curve.fixed.iter().map(|(a, v)| format!("{a}={v}")).collect();
        parts.join(" ")
    };
    let series: Vec<Series> = curves
        .iter()
        .take(2 * PICTURES_MAX)
        .map(|curve| Series { shape: Shape::Line, ..Series::new(&name(curve), dot(curve)) })
        .collect();
    let points = || curves.iter().flat_map(|c| &c.points);
    let timed = points().all(|p| p.value.parse::<schedlab_model::Nanos>().is_ok());
    let mut x = if timed { Axis::nanoseconds(axis) } else { Axis::new(axis) };
    let (low, high) = points().fold((f64::INFINITY, 0.0_f64), |(l, h), p| (l.min(p.x), h.max(p.x)));
    // Values over more than one power of ten were chosen by ratio.
    if low > 0.0 && high / low > 10.0 {
        x = x.logarithmic();
    }
    let y = Axis { values: values(metric.unit), ..Axis::new(&metric.name) };
    let chart = Line {
        title: format!("{} along {axis}", metric.name),
        notes: vec![
            "points: centre of the runs; bands: 95 % intervals where there are runs enough".into(),
        ],
        x,
        y: y.from_zero(),
        series,
    };
    let sentences: Vec<String> = match curves.iter().all(|curve| curve.levels.len() < 2) {
        true if curves.len() > 1 => {
            vec![format!("Each curve stays on one level along {axis}, within the noise.")]
        }
        _ => curves.iter().map(|curve| levels(curve, metric)).collect(),
    };
    section.picture(picture(&chart.scene(WIDTH_PX, &Theme::default())), sentences.join(" "));
}

/// The regions of a curve, in a sentence.
fn levels(curve: &Curve, metric: &Metric) -> String {
    let fixed: Vec<String> = curve.fixed.iter().map(|(a, v)| format!("{a}={v}")).collect();
    let head =
        if fixed.is_empty() { String::new() } else { format!("With {}: ", fixed.join(", ")) };
    if curve.levels.len() < 2 {
        return format!("{head}one level along {} within the noise.", curve.axis);
    }
    let parts: Vec<String> = curve
        .levels
        .iter()
        .map(|level| {
            let (first, last) =
                (&curve.points[level.start].value, &curve.points[level.end - 1].value);
            let range = if first == last { first.clone() } else { format!("{first} to {last}") };
            format!("{} for {range}", readable(level.mean.exp(), metric.unit))
        })
        .collect();
    format!("{head}{}.", parts.join(", "))
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
        let mut row = vec![point.join(" "), cell.runs.len().to_string()];
        for metric in metrics {
            let Ok(sample) = Sample::new(cell.values(&metric.name).into_values()) else {
                row.extend(["-".to_owned(), "-".to_owned()]);
                continue;
            };
            // What runs measure are times, rates, counts and shares.
            match interval(&sample, 0.95, 1).map(Interval::not_negative) {
                Ok(found) => {
                    let mean = if found.method == Method::StudentT { " (mean)" } else { "" };
                    row.push(format!("{}{mean}", readable(found.estimate, metric.unit)));
                    let end = |v: f64| readable(v, metric.unit);
                    row.push(format!("{} .. {}", end(found.low), end(found.high)));
                }
                Err(_) => {
                    row.push(readable(sample.median(), metric.unit));
                    row.push("too few runs".into());
                }
            }
        }
        table.row(row);
    }
    table
}
