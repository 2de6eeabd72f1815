//! Curves: a figure along one axis, with intervals, and the regions in which it stays on one level.

use super::cells::{by_value, position};
use super::noise::{Cell, cells as cells_with_noise};
use super::{Cells, Centre};
use crate::Point;
use schedlab_stats::{Level, change_points_among};
use std::collections::{BTreeMap, BTreeSet};

/// A figure along an axis, all else fixed.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The name of the axis.
    pub(crate) axis: String,
    /// The choices on the other axes.
    pub(crate) fixed: Point,
    /// Whether the axis holds words, which have no order.
    pub(crate) words: bool,
    /// The points in ascending order.
    pub points: Vec<CurvePoint>,
    /// Stretches on one level (of the logarithm's mean), by index into `points`; a single one where
    /// the noise is not known or nothing changes. Of all curves of the workload and this figure together,
    /// one shows a change where there is none in fewer than 5 % of experiments.
    pub levels: Vec<Level>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CurvePoint {
    /// The choice, as written.
    pub(crate) value: String,
    /// Where it lies; its rank where the axis holds words.
    pub(crate) x: f64,
    /// The centre of the runs with its interval.
    pub(crate) centre: Centre,
}

/// All curves of a workload's figure along an axis, one for each choice on the others.
#[must_use]
pub(crate) fn curves(cells: &Cells<'_>, workload: &str, metric: &str, axis: &str) -> Vec<Curve> {
    let mut groups: BTreeMap<Point, Vec<Choice>> = BTreeMap::new();
    for cell in cells.of(workload) {
        let mut fixed = cell.point.clone();
        let Some(value) = fixed.remove(axis) else { continue };
        let values = cell.values(metric);
        if !values.is_empty() {
            groups.entry(fixed).or_default().push((value, values));
        }
    }
    let noise = noise(groups.values().flatten().map(|(_, values)| values), count(cells, workload));
    let mut curves: Vec<Curve> =
        groups.into_iter().map(|(fixed, points)| curve(axis, fixed, points, &noise)).collect();
    curves.sort_by(|a, b| by_value(&a.fixed, &b.fixed));
    curves
}

/// A choice on the axis, with the values of its runs by block.
type Choice = (String, BTreeMap<u32, f64>);

/// What is known of the noise on a workload's curves: the same as on its map.
#[derive(Clone, Debug, Default)]
struct CurveNoise {
    /// By the values of a cell, which no other one shares.
    cells: Vec<(BTreeMap<u32, f64>, Cell)>,
    /// How many curves are looked at: the more, the more would show regions by luck.
    curves: usize,
}

fn noise<'v>(values: impl Iterator<Item = &'v BTreeMap<u32, f64>>, curves: usize) -> CurveNoise {
    let all: Vec<BTreeMap<u32, f64>> = values.cloned().collect();
    if all.iter().flat_map(|cell| cell.values()).any(|v| *v <= 0.0) {
        return CurveNoise::default();
    }
    let found = cells_with_noise(&all, None).unwrap_or_default();
    let known = all.into_iter().zip(found).filter_map(|(values, cell)| Some((values, cell?)));
    CurveNoise { cells: known.collect(), curves }
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

fn curve(axis: &str, fixed: Point, mut points: Vec<Choice>, noise: &CurveNoise) -> Curve {
    points.sort_by(|a, b| position(&a.0).total_cmp(&position(&b.0)).then_with(|| a.0.cmp(&b.0)));
    let words = points.iter().any(|(value, _)| position(value).is_infinite());
    let levels = levels(&points, noise);
    let points = points
        .into_iter()
        .enumerate()
        .filter_map(|(rank, (value, values))| {
            let centre = Centre::of(values.into_values())?;
            let x = if words { rank as f64 } else { position(&value) };
            Some(CurvePoint { value, x, centre })
        })
        .collect();
    Curve { axis: axis.to_owned(), fixed, words, points, levels }
}

fn levels(points: &[Choice], noise: &CurveNoise) -> Vec<Level> {
    let cell = |(_, values): &Choice| {
        noise.cells.iter().find(|(known, _)| known == values).map(|(_, cell)| *cell)
    };
    let Some(cells) = points.iter().map(cell).collect::<Option<Vec<Cell>>>() else {
        return Vec::new();
    };
    let means: Vec<f64> = cells.iter().map(|cell| cell.log).collect();
    let errors: Vec<f64> = cells.iter().map(Cell::error).collect();
    let degrees = cells.iter().map(|c| c.variance.degrees).fold(f64::INFINITY, f64::min);
    if degrees <= 0.0 {
        return Vec::new();
    }
    change_points_among(&means, &errors, noise.curves, degrees)
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
        run_plan(
            &mut crate::Machines::one(&mut fake),
            &plan,
            results.path(),
            &|| false,
            &mut |_| (),
        )
        .unwrap();
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
