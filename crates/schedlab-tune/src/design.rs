//! The points before anything is known: a Latin hypercube, a grid.

use crate::space::{Point, Space};
use schedlab_stats::Random;

/// Hypercubes of which the one whose points lie farthest apart is taken.
const TRIES: usize = 30;

/// Points that fill the space (McKay, Beckman and Conover, "A comparison of three methods for selecting
/// values of input variables", Technometrics 1979): each axis is cut into `count` parts, and each part
/// has one point. Of some hypercubes the one with the largest least distance is taken (Morris and
/// Mitchell, "Exploratory designs for computational experiments", J. Stat. Planning and Inference 1995).
pub(crate) fn latin(space: &Space, count: usize, random: &mut Random) -> Vec<Point> {
    let mut best: (f64, Vec<Point>) = (-1.0, Vec::new());
    for _ in 0..TRIES {
        let mut points = vec![Point::new(); count];
        for axis in &space.axes {
            let mut parts: Vec<usize> = (0..count).collect();
            random.shuffle(&mut parts);
            for (point, part) in points.iter_mut().zip(parts) {
                let place = (part as f64 + random.unit()) / count as f64;
                point.push(((place * axis.count() as f64) as usize).min(axis.count() - 1));
            }
        }
        let points: Vec<Point> = points.into_iter().map(|p| space.canonical(p)).collect();
        let least = least_distance(space, &points);
        if least > best.0 {
            best = (least, points);
        }
    }
    best.1
}

fn least_distance(space: &Space, points: &[Point]) -> f64 {
    let places: Vec<_> = points.iter().map(|point| space.places(point)).collect();
    let mut least = f64::INFINITY;
    for (index, a) in places.iter().enumerate() {
        for b in &places[..index] {
            least = least.min(a.iter().zip(b).map(|(a, b)| a.apart(*b)).sum());
        }
    }
    least
}

/// All combinations of evenly spaced levels, with the number of levels that gives at most `count`; the axes with the
/// fewest levels in the grid get the next one first.
pub(crate) fn grid(space: &Space, count: usize) -> Vec<Point> {
    let mut levels = vec![1_usize; space.axes.len()];
    loop {
        let mut order: Vec<usize> = (0..levels.len()).collect();
        order.sort_by_key(|axis| levels[*axis]);
        let size: usize = levels.iter().product();
        let grows = |axis: &usize| {
            levels[*axis] < space.axes[*axis].count()
                && size / levels[*axis] * (levels[*axis] + 1) <= count
        };
        let Some(axis) = order.into_iter().find(grows) else { break };
        levels[axis] += 1;
    }
    let size: usize = levels.iter().product();
    let mut points: Vec<Point> = Vec::with_capacity(size);
    for number in 0..size {
        let mut rest = number;
        let mut point = Point::new();
        for (axis, count) in space.axes.iter().zip(&levels) {
            let step = rest % count;
            let last = axis.count() - 1;
            rest /= count;
            // One level alone is the middle one.
            point.push(if *count == 1 { last / 2 } else { step * last / (count - 1) });
        }
        let point = space.canonical(point);
        if !points.contains(&point) {
            points.push(point);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Axis;

    #[test]
    fn each_part_of_each_axis_has_one_point() {
        let values: Vec<f64> = (0..24).map(f64::from).collect();
        let space = Space::new(vec![
            Axis::ordered("a", &values, false),
            Axis::ordered("b", &values, false),
        ]);
        let points = latin(&space, 12, &mut Random::new(1));
        for axis in 0..2 {
            let mut parts: Vec<usize> = points.iter().map(|point| point[axis] / 2).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..12).collect::<Vec<usize>>());
        }
    }

    #[test]
    fn a_grid_spreads_its_points_and_keeps_to_the_count() {
        let values: Vec<f64> = (0..24).map(f64::from).collect();
        let space = Space::new(vec![Axis::ordered("a", &values, false), Axis::words("b", 2)]);
        let points = grid(&space, 10);
        assert_eq!(points.len(), 10);
        assert!(points.contains(&vec![0, 0]) && points.contains(&vec![23, 1]), "{points:?}");
    }
}
