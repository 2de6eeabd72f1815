//! From the cells of a claim to one number for each block.

use crate::analysis::{Cells, position};
use crate::{Claim, Measure, Point, StoredRun};
use schedlab_stats::least_squares;
use schedlab_workload::MachineName;
use std::collections::BTreeMap;

/// One number for each block.
#[derive(Debug)]
pub(super) struct Numbers {
    /// The numbers, on their scale. Never empty.
    pub(super) of_blocks: Vec<f64>,
    pub(super) scale: Scale,
}

/// The scale on which blocks are averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// The values as they are stored.
    Plain,
    /// Ratios, and values above zero.
    Logarithms,
}

/// By block, then by the point on the free axes.
type ByBlock = BTreeMap<u32, BTreeMap<Point, f64>>;

/// The number of each block.
///
/// # Errors
/// With why there is none, in a sentence.
pub(super) fn gather(claim: &Claim, cells: &Cells<'_>) -> Result<Numbers, String> {
    match &claim.measure {
        Measure::Value => values(claim, cells),
        Measure::Ratio(against) => ratios(claim, cells, against),
        Measure::Slope(axis) => slopes(claim, cells, axis),
    }
}

/// A point with some of its values replaced.
pub(super) fn overlaid(point: &Point, over: &Point) -> Point {
    let mut all = point.clone();
    all.extend(over.iter().map(|(axis, value)| (axis.clone(), value.clone())));
    all
}

/// Whether a point has these values.
pub(super) fn lies(point: &Point, values: &Point) -> bool {
    values.iter().all(|(axis, value)| point.get(axis) == Some(value))
}

pub(super) fn is_on(run: &StoredRun, machine: Option<&MachineName>) -> bool {
    machine.is_none_or(|machine| run.manifest.machine == machine.to_string())
}

/// The values of the metric where a point has these values.
fn found(claim: &Claim, cells: &Cells<'_>, at: &Point) -> Result<ByBlock, String> {
    let mut blocks = ByBlock::new();
    let mut censored = 0;
    for cell in cells.of(&claim.workload).filter(|cell| lies(&cell.point, at)) {
        let free: Point = cell
            .point
            .iter()
            .filter(|(axis, _)| !at.contains_key(*axis))
            .map(|(axis, value)| (axis.clone(), value.clone()))
            .collect();
        let here = |run: &StoredRun| is_on(run, claim.machine.as_ref());
        censored += cell.censored.values().filter(|run| here(run)).count();
        for (block, run) in cell.runs.iter().filter(|(_, run)| here(run)) {
            if let Some(value) = run.value(&claim.metric) {
                blocks.entry(*block).or_default().insert(free.clone(), value);
            }
        }
    }
    if censored > 0 {
        return Err(format!("The time limit ended {censored} runs: raise it."));
    }
    // A block that lacks a point has another mix of points.
    let most = blocks.values().map(BTreeMap::len).max().unwrap_or(0);
    blocks.retain(|_, points| points.len() == most);
    if blocks.is_empty() {
        let metric = &claim.metric;
        return Err(format!("No whole run there has a value of {metric}."));
    }
    Ok(blocks)
}

fn values(claim: &Claim, cells: &Cells<'_>) -> Result<Numbers, String> {
    let blocks = found(claim, cells, &claim.at)?;
    let above = blocks.values().flat_map(BTreeMap::values).all(|value| *value > 0.0);
    let scale = if above { Scale::Logarithms } else { Scale::Plain };
    let on_scale = |value: &f64| if above { value.ln() } else { *value };
    let mean_of = |points: &BTreeMap<Point, f64>| mean(points.values().map(on_scale));
    Ok(Numbers { of_blocks: blocks.values().map(mean_of).collect(), scale })
}

fn ratios(claim: &Claim, cells: &Cells<'_>, against: &Point) -> Result<Numbers, String> {
    let at = found(claim, cells, &claim.at)?;
    let against = found(claim, cells, &overlaid(&claim.at, against))?;
    let mut of_blocks = Vec::new();
    for (block, points) in &at {
        let Some(others) = against.get(block) else { continue };
        let pairs: Vec<(f64, f64)> =
            points.iter().filter_map(|(free, value)| Some((*value, *others.get(free)?))).collect();
        if pairs.len() < points.len() {
            return Err("The two points of the ratio do not have the same free points.".into());
        }
        if pairs.iter().any(|(value, other)| *value <= 0.0 || *other <= 0.0) {
            return Err(format!("A ratio needs values above 0: {} is 0 in a run.", claim.metric));
        }
        of_blocks.push(mean(pairs.iter().map(|(value, other)| (value / other).ln())));
    }
    if of_blocks.is_empty() {
        return Err("No block has runs at both points of the ratio.".into());
    }
    Ok(Numbers { of_blocks, scale: Scale::Logarithms })
}

fn slopes(claim: &Claim, cells: &Cells<'_>, axis: &str) -> Result<Numbers, String> {
    let blocks = found(claim, cells, &claim.at)?;
    let mut of_blocks = Vec::new();
    for points in blocks.values() {
        let mut lines: BTreeMap<Point, Vec<(f64, f64)>> = BTreeMap::new();
        for (free, value) in points {
            let mut rest = free.clone();
            let x = rest.remove(axis).map(|value| position(&value));
            lines.entry(rest).or_default().extend(x.map(|x| (x, *value)));
        }
        let slope = |points: &Vec<(f64, f64)>| {
            let fit =
                least_squares(points).map_err(|why| format!("No line along {axis}: {why}."))?;
            Ok(fit.line.slope)
        };
        let slopes = lines.values().map(slope).collect::<Result<Vec<f64>, String>>()?;
        of_blocks.push(mean(slopes.into_iter()));
    }
    Ok(Numbers { of_blocks, scale: Scale::Plain })
}

fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let numbers: Vec<f64> = numbers.collect();
    numbers.iter().sum::<f64>() / numbers.len() as f64
}
