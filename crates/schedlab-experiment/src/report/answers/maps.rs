//! Maps of a metric over two axes.

use super::{PICTURES_MAX, Picture, factor, place, values};
use crate::analysis::{Cells, Choice, Map, MapError, Noise, ValueGrid, planes};
use crate::report::{Section, ThemedScene, labels};
use crate::{Experiment, Point};
use schedlab_draw::chart::{Chart as _, Heatmap};
use schedlab_model::{Better, Metric, Unit};
use std::collections::BTreeMap;

/// The maps of a workload's metric, `width_px` wide; why there is none goes to the section.
pub(super) fn pictures(
    section: &mut Section,
    experiment: Option<&Experiment>,
    cells: &Cells<'_>,
    workload: &str,
    metric: &Metric,
    axes: &[(String, Vec<String>)],
    width_px: i32,
) -> Vec<Picture> {
    let [x, y, ..] = axes else { return Vec::new() };
    if metric.better == Better::Neither {
        section.paragraph(format!("No map is drawn: {} has no direction.", metric.name));
        return Vec::new();
    }
    let planes = planes(cells, workload, &metric.name);
    let loads = loads(experiment, &x.0, &y.0);
    let mut out = Vec::new();
    for (fixed, mut plane) in planes.into_iter().take(PICTURES_MAX) {
        let mut metric = metric.clone();
        if let Some(load) = &loads {
            let is_column = *load == plane.x;
            relative(&mut plane, is_column);
            metric.unit = Unit::Count;
        }
        let name = format!("{workload}: {}", metric.name);
        let label = loads
            .as_ref()
            .map_or(metric.name.clone(), |load| format!("ratio to the mean at each {load}"));
        let choice = match &loads {
            Some(load) if *load == plane.x => Choice::InColumns,
            Some(_) => Choice::InRows,
            None => Choice::Cells,
        };
        let noise = experiment.and_then(|e| e.noise).map_or(Noise::Measured, Noise::Given);
        match Map::new(&plane, noise, metric.better != Better::Higher, choice) {
            Ok(map) => {
                let names = (name.as_str(), label.as_str(), metric.unit);
                out.push(map_picture(names, &plane, &map, &fixed, width_px));
            }
            Err(MapError::SingleRuns) => {
                let what = "No map is drawn: each cell holds a single run, so differences may be \
                    chance. Set repeats to 3 or more.";
                section.paragraph(what);
            }
            Err(error) => {
                section.paragraph(format!("No map is drawn: {error}."));
            }
        }
    }
    out
}

/// Whether an axis says how much work is asked for, which nobody tunes.
pub(super) fn is_load(experiment: Option<&Experiment>, name: &str) -> bool {
    // Those of what runs beside have its label before them.
    let name = name.rsplit('/').next().unwrap_or(name);
    experiment.is_some_and(|experiment| {
        let mut axes = experiment.axes.iter().filter(|axis| axis.varies.name() == name);
        axes.any(|axis| experiment.work(axis).is_some())
    })
}

/// The axis that says how much is asked, where the other is what may be tuned: nobody tunes the number of
/// groups, and less work is always done sooner.
pub(super) fn loads(experiment: Option<&Experiment>, x: &str, y: &str) -> Option<String> {
    match (is_load(experiment, x), is_load(experiment, y)) {
        (true, false) => Some(x.to_owned()),
        (false, true) => Some(y.to_owned()),
        _ => None,
    }
}

/// Divides each row (or column) by its geometric mean: what the other axis does at each load.
fn relative(plane: &mut ValueGrid, columns: bool) {
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
    (name, label, unit): (&str, &str, Unit),
    plane: &ValueGrid,
    map: &Map,
    fixed: &Point,
    width_px: i32,
) -> Picture {
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
        true => "no two cells differ",
        false => "ringed: best; outlined: not different from the best",
    };
    let heat = Heatmap {
        title: format!("{name} over {} and {}{}", plane.x, plane.y, place(fixed)),
        notes: vec![
            format!("{label}, geometric; a run varies by {}", map.varies()),
            format!("{marks}{}", if levels > 0 { "; dashed: between two levels" } else { "" }),
        ],
        x_label: plane.x.clone(),
        y_label: plane.y.clone(),
        columns: labels::short(&plane.columns),
        rows: labels::short(&plane.rows),
        value_label: if label.starts_with("ratio") { "ratio".into() } else { label.to_owned() },
        values: values(unit),
        cells: scaled(&map.means, unit),
        best: map.best.first().copied().filter(|_| !nothing && map.best.len() == 1),
        stable: map.flat.iter().copied().filter(|_| !nothing).collect(),
        contours: (1..=levels).map(|i| contour(i) * factor(unit)).collect(),
    };
    let scenes = ThemedScene::of(|theme| heat.scene(width_px, theme));
    Picture { scenes, caption: map.sentences(plane).join(" ") }
}

fn scaled(means: &[Vec<Option<f64>>], unit: Unit) -> Vec<Vec<Option<f64>>> {
    let scale = |mean: &Option<f64>| mean.map(|m| m * factor(unit));
    means.iter().map(|row| row.iter().map(scale).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn plane() -> ValueGrid {
        // Twice the load takes twice the time, and the second slice 21 % longer.
        let cell = |value: f64| BTreeMap::from([(1, value), (2, value)]);
        ValueGrid {
            x: "slice".into(),
            y: "groups".into(),
            columns: vec!["1ms".into(), "2ms".into()],
            rows: vec!["1".into(), "2".into()],
            cells: vec![vec![cell(1.0), cell(1.21)], vec![cell(2.0), cell(2.42)]],
        }
    }

    fn assert_near(found: &[Vec<BTreeMap<u32, f64>>], expected: [[f64; 2]; 2]) {
        let all = found.iter().flatten().zip(expected.into_iter().flatten());
        for (cell, expected) in all {
            assert!(cell.values().all(|v| (v - expected).abs() < 1e-9), "{found:?}");
        }
    }

    #[test]
    fn each_load_is_divided_by_its_own_geometric_mean() {
        let mut rows = plane();
        relative(&mut rows, false);
        assert_near(&rows.cells, [[1.0 / 1.1, 1.1], [1.0 / 1.1, 1.1]]);
        let mut columns = plane();
        relative(&mut columns, true);
        let root = 2.0_f64.sqrt();
        assert_near(&columns.cells, [[1.0 / root, 1.0 / root], [root, root]]);
    }

    #[test]
    fn the_load_is_the_axis_of_an_option_if_the_other_axis_is_none() {
        let text = "[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\"]\n\
                    [[axis]]\noption = \"groups\"\nvalues = [1, 2]\n[[axis]]\noption = \"loops\"\nvalues = [1, 2]\n";
        let experiment = Experiment::parse(text, Path::new("x.toml")).unwrap();
        let of = |x: &str, y: &str| loads(Some(&experiment), x, y);
        assert_eq!(of("slice", "groups").as_deref(), Some("groups"));
        assert_eq!(of("hackbench/groups", "slice").as_deref(), Some("hackbench/groups"));
        assert_eq!(of("loops", "groups"), None);
        assert_eq!(loads(None, "slice", "groups"), None);
    }

    #[test]
    fn cells_are_drawn_in_the_unit_of_the_map() {
        let means = [vec![Some(0.002), None]];
        let scale = factor(Unit::Seconds);
        assert_eq!(scaled(&means, Unit::Seconds), [vec![Some(0.002 * scale), None]]);
    }

    #[test]
    fn a_map_with_a_clear_best_cell_rings_it_and_has_contours_in_its_unit() {
        // Each run of a cell differs by 1 %: far less than the cells.
        let mut plane = plane();
        for (n, cell) in plane.cells.iter_mut().flatten().enumerate() {
            let value = (n + 1) as f64;
            *cell =
                (0..6).map(|block| (block, value * (1.0 + f64::from(block % 2) / 100.0))).collect();
        }
        let map = Map::new(&plane, Noise::Measured, true, Choice::Cells).unwrap();
        assert_eq!(map.best, [(0, 0)]);
        let names = ("hackbench: time_s", "time_s", Unit::Seconds);
        let picture = map_picture(names, &plane, &map, &Point::new(), 800);
        let svg = schedlab_draw::svg(&picture.scenes.light);
        assert!(
            svg.contains("ringed: best; outlined: not different from the best; dashed"),
            "{svg}"
        );
        assert!(svg.contains("hackbench: time_s over slice and groups"), "{svg}");
        assert!(!picture.caption.is_empty());
        let names = ("hackbench: time_s", "ratio to the mean at each groups", Unit::Count);
        let picture = map_picture(names, &plane, &map, &Point::new(), 800);
        let svg = schedlab_draw::svg(&picture.scenes.light);
        assert!(svg.contains(">ratio<"), "{svg}");
    }
}
