//! From cells to planes over two axes.

use super::{Cells, ValueGrid};
use crate::Point;
use std::collections::{BTreeMap, BTreeSet};

/// The planes of a metric over the first two axes of a workload, one for each choice on the others; the axis with
/// more values lies to the right. None with fewer than two axes.
#[must_use]
pub(crate) fn planes(cells: &Cells<'_>, label: &str, metric: &str) -> BTreeMap<Point, ValueGrid> {
    let mut planes: BTreeMap<Point, ValueGrid> = BTreeMap::new();
    let axes = cells.axes(label);
    let [x, y, rest @ ..] = &axes[..] else { return planes };
    let (x, y) = if x.1.len() >= y.1.len() { (x, y) } else { (y, x) };
    let others: BTreeSet<&str> = rest.iter().map(|(name, _)| name.as_str()).collect();
    for cell in cells.of(label) {
        let (Some(vx), Some(vy)) = (cell.point.get(&x.0), cell.point.get(&y.0)) else { continue };
        let is_other = |(name, _): &(&String, &String)| others.contains(name.as_str());
        let fixed: Point =
            cell.point.iter().filter(is_other).map(|(n, v)| (n.clone(), v.clone())).collect();
        let plane = planes.entry(fixed).or_insert_with(|| ValueGrid {
            x: x.0.clone(),
            y: y.0.clone(),
            columns: x.1.clone(),
            rows: y.1.clone(),
            cells: vec![vec![BTreeMap::new(); x.1.len()]; y.1.len()],
        });
        let place = (y.1.iter().position(|v| v == vy), x.1.iter().position(|v| v == vx));
        if let (Some(row), Some(column)) = place {
            // A run that was cut off or failed is none of a mean: without it the cell would look too good.
            if cell.censored.is_empty() && cell.failed.is_empty() {
                plane.cells[row][column] = cell.values(metric);
            }
        }
    }
    planes
}
