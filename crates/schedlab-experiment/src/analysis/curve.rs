//! Curves: a figure along one axis, with intervals, and the regions in which it stays on one level.

use super::Cells;
use super::cells::position;
use crate::Point;
use schedlab_stats::{Interval, Level, Sample, change_points_among, interval};
use std::collections::{BTreeMap, BTreeSet};

/// A figure along an axis, all else fixed.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The axis.
    pub axis: String,
    /// The choices on the other axes.
    pub fixed: Point,
    /// The points, ascending.
    pub points: Vec<CurvePoint>,
    /// Stretches on one level (of the logarithm's mean), by index into `points`; a single one where
    /// the noise is not known or nothing changes. Of all curves of the workload and this figure together,
    /// one shows a change where there is none in fewer than 5 % of experiments.
    pub levels: Vec<Level>,
}

/// A point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvePoint {
    /// The choice, as written.
    pub value: String,
    /// Where it lies; its rank where the axis holds words.
    pub x: f64,
    /// Median of the runs.
    pub median: f64,
    /// The interval, where there are runs enough.
    pub interval: Option<Interval>,
    /// How many runs.
    pub runs: usize,
}

/// All curves of a workload's figure along an axis, one for each choice on the others.
#[must_use]
pub fn curves(cells: &Cells<'_>, workload: &str, metric: &str, axis: &str) -> Vec<Curve> {
    let mut groups: BTreeMap<Point, Vec<(String, Vec<f64>)>> = BTreeMap::new();
    for cell in cells.of(workload) {
        let mut fixed = cell.point.clone();
        let Some(value) = fixed.remove(axis) else { continue };
        let values: Vec<f64> = cell.values(metric).into_values().collect();
        if !values.is_empty() {
            groups.entry(fixed).or_default().push((value, values));
        }
    }
    let spread = spread(groups.values().flatten().map(|(_, values)| values.as_slice()));
    let noise = spread.map(|(sigma, degrees)| CurveNoise {
        sigma,
        degrees,
        curves: count(cells, workload),
    });
    let mut curves: Vec<Curve> =
        groups.into_iter().map(|(fixed, points)| curve(axis, fixed, points, noise)).collect();
    // By number: 10ms comes after 1ms, and before 100ms.
    let places = |curve: &Curve| curve.fixed.values().map(|v| position(v)).collect::<Vec<f64>>();
    curves.sort_by(|a, b| {
        let pairs = places(a).into_iter().zip(places(b));
        let order = pairs.map(|(a, b)| a.total_cmp(&b)).find(|order| order.is_ne());
        order.unwrap_or_else(|| a.fixed.cmp(&b.fixed))
    });
    curves
}

/// What is known of the noise on a workload's curves.
#[derive(Clone, Copy, Debug)]
struct CurveNoise {
    sigma: f64,
    degrees: f64,
    /// How many curves are looked at: the more, the more would show regions by luck.
    curves: usize,
}

/// The curves of a workload along all of its axes.
fn count(cells: &Cells<'_>, workload: &str) -> usize {
    let along = |axis: &str| {
        let fixed = cells.of(workload).filter(|cell| cell.point.contains_key(axis)).map(|cell| {
            let mut point = cell.point.clone();
            point.remove(axis);
            point
        });
        fixed.collect::<BTreeSet<Point>>().len()
    };
    cells.axes(workload).iter().map(|(axis, _)| along(axis)).sum()
}

fn curve(
    axis: &str,
    fixed: Point,
    mut points: Vec<(String, Vec<f64>)>,
    noise: Option<CurveNoise>,
) -> Curve {
    points.sort_by(|a, b| position(&a.0).total_cmp(&position(&b.0)).then_with(|| a.0.cmp(&b.0)));
    let words = points.iter().any(|(value, _)| position(value).is_infinite());
    let levels = levels(&points, noise);
    let points = points
        .into_iter()
        .enumerate()
        .filter_map(|(rank, (value, values))| {
            let runs = values.len();
            let sample = Sample::new(values).ok()?;
            let x = if words { rank as f64 } else { position(&value) };
            let interval =
                interval(&sample, 0.95, rank as u64 + 1).ok().map(Interval::not_negative);
            Some(CurvePoint { value, x, median: sample.median(), interval, runs })
        })
        .collect();
    Curve { axis: axis.to_owned(), fixed, points, levels }
}

fn levels(points: &[(String, Vec<f64>)], noise: Option<CurveNoise>) -> Vec<Level> {
    let positive = points.iter().all(|(_, values)| values.iter().all(|v| *v > 0.0));
    let Some(noise) = noise.filter(|_| positive) else { return Vec::new() };
    let mean = |values: &[f64]| values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64;
    let means: Vec<f64> = points.iter().map(|(_, values)| mean(values)).collect();
    let errors: Vec<f64> =
        points.iter().map(|(_, values)| noise.sigma / (values.len() as f64).sqrt()).collect();
    change_points_among(&means, &errors, noise.curves, noise.degrees)
}

/// The relative standard deviation within cells and its degrees of freedom; `None` without repeats.
fn spread<'v>(cells: impl Iterator<Item = &'v [f64]>) -> Option<(f64, f64)> {
    let (mut squares, mut degrees) = (0.0, 0);
    for values in cells.filter(|values| values.iter().all(|v| *v > 0.0)) {
        if let Some(deviation) = Sample::new(values.iter().map(|v| v.ln())).ok()?.deviation() {
            squares += deviation.powi(2) * (values.len() - 1) as f64;
            degrees += values.len() - 1;
        }
    }
    (degrees > 0).then(|| ((squares / degrees as f64).sqrt().max(1e-9), degrees as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::{Experiment, Plan, run_plan, runs_of};
    use std::path::Path;

    #[test]
    fn curves_are_in_the_order_of_their_numbers_and_noise_gives_no_regions() {
        let text = "repeats = 5\n[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\n\
                    values = [\"100us\", \"10ms\", \"1ms\", \"100ms\"]\n[[axis]]\noption = \"groups\"\nvalues = [1, 2, 10]\n";
        let results = tempfile::tempdir().unwrap();
        let plan = Plan::new(&Experiment::parse(text, Path::new("x.toml")).unwrap());
        let mut fake = Fake::new();
        // Neither axis matters.
        fake.time = |_, n| 1.0 + (n * 37 % 101) as f64 / 500.0;
        run_plan(&mut fake, &plan, results.path(), &|| false, &mut |_| ()).unwrap();
        let runs = runs_of(results.path()).unwrap().runs;
        let cells = Cells::new(&runs);
        let along = curves(&cells, "hackbench", "time_s", "groups");
        let slices: Vec<&str> = along.iter().map(|c| c.fixed["slice"].as_str()).collect();
        assert_eq!(slices, ["100us", "1ms", "10ms", "100ms"]);
        let groups: Vec<&str> = along[0].points.iter().map(|p| p.value.as_str()).collect();
        assert_eq!(groups, ["1", "2", "10"]);
        assert_eq!(count(&cells, "hackbench"), 4 + 3);
        assert!(along.iter().all(|curve| curve.levels.len() == 1), "{along:#?}");
    }
}
