//! The first map of an experiment in text, for a terminal.
//!
//! A cell tells how far it lies from the best one (of its load, if one axis is a load), with a shade.
//! Long axes are cut into bands, so that the map keeps to a few lines.

use super::chosen;
use super::maps::loads;
use crate::analysis::{Cells, ValueGrid, planes};
use crate::report::labels;
use crate::{Experiment, StoredRun};
use schedlab_model::Better;
use std::fmt::Write as _;
use std::ops::Range;

/// Rows and columns at most.
const ROWS_MAX: usize = 6;
const COLUMNS_MAX: usize = 8;
/// Shades of 0 to 2 %, to 5 %, to 15 %, to 50 %, and beyond.
const SHADES: [(f64, char); 4] = [(0.02, ' '), (0.05, '.'), (0.15, ':'), (0.5, 'x')];
const DARKEST: char = '#';
/// Columns of the terminal, and of them what a cell and the label of a row take at least.
const WIDTH: usize = 80;
const CELL: usize = 8;
const LABEL: usize = 10;

/// The map of the first metric of the first workload that has two axes, at most nine lines; none where
/// there is no such workload.
#[must_use]
pub fn text_map(experiment: &Experiment, runs: &[StoredRun]) -> Vec<String> {
    let cells = Cells::new(runs);
    for label in cells.workloads() {
        let metrics = chosen(Some(experiment), &cells.metrics(label));
        let Some(metric) = metrics.first() else { continue };
        if metric.better == Better::Neither {
            continue;
        }
        let Some((_, plane)) = planes(&cells, label, &metric.name).into_iter().next() else {
            continue;
        };
        let sign = if metric.better == Better::Higher { -1.0 } else { 1.0 };
        let load = loads(Some(experiment), &plane.x, &plane.y);
        let each = load.as_ref().map_or(String::new(), |load| format!(" at the same {load}"));
        let title = format!("{label}, {}: % worse than the best{each}", metric.name);
        return drawn(&plane, load.as_deref(), sign, title);
    }
    Vec::new()
}

fn drawn(plane: &ValueGrid, load: Option<&str>, sign: f64, title: String) -> Vec<String> {
    let rows = bands(plane.rows.len(), ROWS_MAX);
    let columns = bands(plane.columns.len(), COLUMNS_MAX);
    let grid: Vec<Vec<Option<f64>>> = rows
        .iter()
        .map(|row| columns.iter().map(|column| centre(plane, row, column)).collect())
        .collect();
    let best = |row: usize, column: usize| {
        let cells = grid
            .iter()
            .enumerate()
            .flat_map(|(r, cells)| cells.iter().enumerate().map(move |(c, cell)| (r, c, *cell)));
        let alike = cells.filter(|(r, c, _)| match load {
            Some(load) if *load == plane.y => *r == row,
            Some(_) => *c == column,
            None => true,
        });
        alike.filter_map(|(.., cell)| cell.map(|log| sign * log)).fold(f64::INFINITY, f64::min)
    };
    let row_labels = labels::short(&plane.rows);
    let column_labels = labels::short(&plane.columns);
    let longest = |labels: &[String]| labels.iter().map(|one| one.chars().count()).max();
    // Labels get what room the cells leave.
    let room = WIDTH.saturating_sub(columns.len() * CELL + plane.x.chars().count() + 2);
    let label = longest(&row_labels)
        .unwrap_or(0)
        .max(plane.y.chars().count())
        .clamp(LABEL, room.max(LABEL));
    let room = WIDTH.saturating_sub(label + plane.x.chars().count() + 2) / columns.len().max(1);
    let cell = (longest(&column_labels).unwrap_or(0) + 2).clamp(CELL, room.max(CELL));
    let mut out = vec![title];
    // Values ascend upwards, as in the picture.
    for (at, row) in rows.iter().enumerate().rev() {
        let mut line = format!("{:>label$} ", cut(&row_labels[row.start], label));
        for (column, value) in grid[at].iter().enumerate() {
            let text = value.map_or("-".to_owned(), |log| {
                let worse = (sign * log - best(at, column)).exp_m1();
                format!("{:.0} {}", worse * 100.0, shade(worse))
            });
            let _ = write!(line, "{text:>cell$}");
        }
        out.push(line);
    }
    let mut line = format!("{:>label$} ", cut(&plane.y, label));
    for column in &columns {
        let value = cut(&column_labels[column.start], cell - 2);
        let _ = write!(line, "{value:>width$}  ", width = cell - 2);
    }
    out.push(format!("{} {}", line.trim_end(), plane.x));
    out
}

/// The mean of the logarithms of all runs in some rows and columns.
fn centre(plane: &ValueGrid, rows: &Range<usize>, columns: &Range<usize>) -> Option<f64> {
    let cells = plane.cells[rows.clone()].iter().flat_map(|row| &row[columns.clone()]);
    let logs: Vec<f64> = cells.flat_map(|cell| cell.values().map(|value| value.ln())).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    mean.is_finite().then_some(mean)
}

/// An axis cut into at most `most` bands of nearly the same length.
fn bands(count: usize, most: usize) -> Vec<Range<usize>> {
    let bands = count.min(most);
    (0..bands).map(|band| band * count / bands..(band + 1) * count / bands).collect()
}

fn shade(worse: f64) -> char {
    SHADES.iter().find(|(limit, _)| worse < *limit).map_or(DARKEST, |(_, shade)| *shade)
}

fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn plane(columns: usize, rows: usize, value: fn(usize, usize) -> f64) -> ValueGrid {
        let cell = |row, column| BTreeMap::from([(0, value(row, column))]);
        ValueGrid {
            x: "slice".into(),
            y: "groups".into(),
            columns: (0..columns).map(|c| format!("{c}ms")).collect(),
            rows: (0..rows).map(|r| r.to_string()).collect(),
            cells: (0..rows).map(|r| (0..columns).map(|c| cell(r, c)).collect()).collect(),
        }
    }

    #[test]
    fn long_axes_are_cut_into_bands_of_nearly_the_same_length() {
        assert_eq!(bands(3, 6), [0..1, 1..2, 2..3]);
        assert_eq!(bands(7, 3), [0..2, 2..4, 4..7]);
        assert_eq!(bands(0, 3), []);
    }

    #[test]
    fn the_centre_of_a_band_is_the_mean_of_the_logarithms() {
        let plane = plane(2, 2, |row, column| if row == column { 1.0 } else { 4.0 });
        let mean = centre(&plane, &(0..2), &(0..2)).unwrap();
        assert!((mean - 2.0_f64.ln()).abs() < 1e-9, "{mean}");
        assert!((centre(&plane, &(0..1), &(1..2)).unwrap() - 4.0_f64.ln()).abs() < 1e-9);
        assert_eq!(centre(&plane, &(0..1), &(1..1)), None);
    }

    #[test]
    fn a_label_is_cut_at_its_end() {
        assert_eq!(cut("eevdf-6.12", 5), "eevdf");
        assert_eq!(cut("slice", 10), "slice");
    }

    #[test]
    fn each_load_has_a_best_setting_of_its_own() {
        // Twice the load takes twice the time; the middle slice is 10 % slower.
        let plane =
            plane(3, 2, |row, column| (row + 1) as f64 * if column == 1 { 1.1 } else { 1.0 });
        let lines = drawn(&plane, Some("groups"), 1.0, "t".into());
        assert_eq!(lines[1], "         1      0      10 :     0  ", "{lines:#?}");
        assert_eq!(lines[2].replace("         0 ", "         1 "), lines[1]);
        assert_eq!(lines[3], "    groups    0ms     1ms     2ms slice");
        let all = drawn(&plane, None, 1.0, "t".into());
        assert!(all[1].contains("100 #"), "{all:#?}");
    }

    #[test]
    fn machines_are_told_apart_in_rows_and_in_columns() {
        let machines = ["sim:cpus=1,kernel=cfs-6.1", "sim:cpus=1,kernel=eevdf-6.12"];
        let machines = machines.map(str::to_owned).to_vec();
        let of = |one: ValueGrid| drawn(&one, None, 1.0, "t".into());
        let rows = of(ValueGrid { rows: machines.clone(), ..plane(3, 2, |_, _| 1.0) });
        assert!(
            rows[1].starts_with("eevdf-6.12 ") && rows[2].starts_with("   cfs-6.1 "),
            "{rows:#?}"
        );
        let columns = of(ValueGrid { columns: machines, ..plane(2, 3, |_, _| 1.0) });
        assert_eq!(columns[4], "    groups    cfs-6.1  eevdf-6.12 slice");
        let long = ["sim:cpus=1,hz=100,kernel=cfs-6.1", "sim:cpus=2,hz=1000,kernel=eevdf-6.12"];
        let rows =
            of(ValueGrid { rows: long.map(str::to_owned).to_vec(), ..plane(8, 2, |_, _| 1.0) });
        assert!(rows.iter().all(|line| line.chars().count() <= WIDTH), "{rows:#?}");
        assert_ne!(rows[1].split(' ').next(), rows[2].split(' ').next(), "{rows:#?}");
    }

    #[test]
    fn a_large_map_keeps_to_the_terminal() {
        let lines = drawn(&plane(24, 24, |_, column| 1.0 + column as f64), None, -1.0, "t".into());
        assert_eq!(lines.len(), ROWS_MAX + 2);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        // Higher is better: the last band is the best.
        assert!(lines[1].trim_end().ends_with(" 0"), "{lines:#?}");
    }
}
