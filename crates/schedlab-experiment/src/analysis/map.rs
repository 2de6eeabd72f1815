//! The map of a two-knob plane: the best cell, all cells that may be as good, and the edges at which
//! the figure goes from one level to another.
//!
//! What is claimed holds for the whole map at once with the stated chance (95 %): with so many cells,
//! some pair always differs by luck. A map is never made from single runs unless the noise is given.

use schedlab_stats::{change_points, normal_quantile, t_quantile};
use std::collections::{BTreeMap, BTreeSet};

/// Chance of any false claim on one map.
const RISK: f64 = 0.05;

/// Measured values on two axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plane {
    /// Name of the axis to the right.
    pub x: String,
    /// Name of the axis upwards.
    pub y: String,
    /// Values of the first, ascending.
    pub columns: Vec<String>,
    /// Values of the second, ascending.
    pub rows: Vec<String>,
    /// Row by row, for each column the values by block; above zero.
    pub cells: Vec<Vec<BTreeMap<u32, f64>>>,
}

/// What is known of the noise between runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// To be found from the repeats.
    Measured,
    /// Known from elsewhere: the relative standard deviation of a run, 0.02 for 2 %.
    Given(f64),
}

/// Why there is no map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// One run in each cell, and no given noise.
    #[error(
        "the cells hold single runs and no noise is given: nothing tells differences from luck"
    )]
    SingleRuns,
    /// Fewer than two cells.
    #[error("there are fewer than two cells with values")]
    TooSmall,
    /// A value is zero or below: ratios mean nothing.
    #[error("a value is not above zero")]
    NotPositive,
}

/// A line between two neighbouring columns (or rows) at which the figure changes level.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The axis along which it changes.
    pub axis: String,
    /// The value before it.
    pub before: String,
    /// The value behind it.
    pub after: String,
    /// On the other axis: from this value ..
    pub from: String,
    /// .. to this one it holds.
    pub to: String,
    /// Ratio of the level behind to the level before.
    pub ratio: f64,
}

/// What a plane shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// Geometric means, row by row.
    pub means: Vec<Vec<Option<f64>>>,
    /// Relative standard deviation of a run.
    pub sigma: f64,
    /// Degrees of freedom behind it; infinite where it was given.
    pub degrees: f64,
    /// The best cell, row and column.
    pub best: (usize, usize),
    /// Cells that can't be told from the best, the best included.
    pub flat: BTreeSet<(usize, usize)>,
    /// Edges, the steepest first.
    pub edges: Vec<Edge>,
    /// The least ratio to the best that a cell with as many runs as the best could have shown.
    pub resolution: f64,
}

/// A cell on the log scale.
#[derive(Clone, Copy, Debug)]
struct Mean {
    log: f64,
    runs: f64,
}

impl Map {
    /// Finds what a plane shows; `lower_is_better` decides what is best.
    ///
    /// # Errors
    /// When the plane can't tell differences from luck at all.
    pub fn new(plane: &Plane, noise: Noise, lower_is_better: bool) -> Result<Self, MapError> {
        let values = || plane.cells.iter().flatten().flat_map(BTreeMap::values);
        if values().any(|v| *v <= 0.0) {
            return Err(MapError::NotPositive);
        }
        let means: Vec<Vec<Option<Mean>>> =
            plane.cells.iter().map(|row| row.iter().map(mean).collect()).collect();
        let filled = means.iter().flatten().flatten().count();
        if filled < 2 {
            return Err(MapError::TooSmall);
        }
        let (sigma, degrees) = match noise {
            Noise::Given(sigma) => (sigma, f64::INFINITY),
            Noise::Measured => measured(plane).ok_or(MapError::SingleRuns)?,
        };
        let best = best(&means, lower_is_better);
        let best_mean = means[best.0][best.1].expect("the best has a value");
        // Any two of the cells may be the extreme ones: correct for all pairs (Bonferroni).
        let pairs = (filled * (filled - 1) / 2) as f64;
        let critical = quantile(1.0 - RISK / 2.0 / pairs, degrees);
        let gap = |mean: &Mean| critical * sigma * (1.0 / mean.runs + 1.0 / best_mean.runs).sqrt();
        let flat = indexed(&means)
            .filter(|(_, mean)| (mean.log - best_mean.log).abs() <= gap(mean))
            .map(|(at, _)| at)
            .collect();
        let mut edges = edges(plane, &means, sigma, degrees, false);
        edges.extend(edges_upwards(plane, &means, sigma, degrees));
        edges.sort_by(|a, b| b.ratio.ln().abs().total_cmp(&a.ratio.ln().abs()));
        let out = |mean: &Option<Mean>| mean.map(|m| m.log.exp());
        Ok(Self {
            means: means.iter().map(|row| row.iter().map(out).collect()).collect(),
            sigma,
            degrees,
            best,
            flat,
            edges,
            resolution: gap(&best_mean).exp(),
        })
    }

    /// Whether anything at all can be told apart.
    #[must_use]
    pub fn shows_nothing(&self) -> bool {
        let filled = self.means.iter().flatten().flatten().count();
        self.flat.len() == filled && self.edges.is_empty()
    }

    /// What the map does and does not show, in sentences.
    #[must_use]
    pub fn sentences(&self, plane: &Plane) -> Vec<String> {
        let filled = self.means.iter().flatten().flatten().count();
        let noise = format!(
            "A run varies by {:.1} % ({}); a cell must differ from the best by {:.1} % before anything is claimed.",
            self.sigma * 100.0,
            if self.degrees.is_finite() { "from the repeats" } else { "given" },
            (self.resolution - 1.0) * 100.0
        );
        let mut out = vec![noise];
        let name = |(row, column): (usize, usize)| {
            format!("{}={}, {}={}", plane.x, plane.columns[column], plane.y, plane.rows[row])
        };
        if self.shows_nothing() {
            out.push("The data show no difference between any two cells.".into());
            return out;
        }
        if self.flat.len() == filled {
            out.push(
                "No single cell can be told from the best; there is no optimum to name.".into(),
            );
        } else {
            out.push(format!(
                "The best cell measured is {}; {} of {filled} cells can't be told from it. They are all candidates: \
                 the data name no single optimum.",
                name(self.best),
                self.flat.len()
            ));
        }
        for edge in &self.edges {
            out.push(format!(
                "Between {}={} and {} the figure {} by {:.0} %, for {} to {}.",
                edge.axis,
                edge.before,
                edge.after,
                if edge.ratio > 1.0 { "rises" } else { "falls" },
                (edge.ratio - 1.0).abs() * 100.0,
                edge.from,
                edge.to
            ));
        }
        out
    }
}

fn indexed(means: &[Vec<Option<Mean>>]) -> impl Iterator<Item = ((usize, usize), Mean)> + '_ {
    means.iter().enumerate().flat_map(|(row, cells)| {
        cells.iter().enumerate().filter_map(move |(column, mean)| Some(((row, column), (*mean)?)))
    })
}

fn mean(values: &BTreeMap<u32, f64>) -> Option<Mean> {
    let runs = values.len() as f64;
    let log = values.values().map(|v| v.ln()).sum::<f64>() / runs;
    (!values.is_empty()).then_some(Mean { log, runs })
}

fn best(means: &[Vec<Option<Mean>>], lower_is_better: bool) -> (usize, usize) {
    let sign = if lower_is_better { 1.0 } else { -1.0 };
    indexed(means)
        .min_by(|(_, a), (_, b)| (sign * a.log).total_cmp(&(sign * b.log)))
        .map(|(at, _)| at)
        .expect("there are at least two cells")
}

fn quantile(p: f64, degrees: f64) -> f64 {
    if degrees.is_finite() { t_quantile(p, degrees) } else { normal_quantile(p) }
}

/// The relative standard deviation of a run and its degrees of freedom, pooled over the cells. What
/// blocks have in common is taken out where every cell has a run in every block (the two-way layout
/// without interaction: Fisher, "The Design of Experiments", 1935).
fn measured(plane: &Plane) -> Option<(f64, f64)> {
    let cells: Vec<&BTreeMap<u32, f64>> =
        plane.cells.iter().flatten().filter(|cell| !cell.is_empty()).collect();
    let runs: usize = cells.iter().map(|cell| cell.len()).sum();
    let blocks: BTreeSet<u32> = cells.iter().flat_map(|cell| cell.keys().copied()).collect();
    let complete = cells.iter().all(|cell| cell.len() == blocks.len()) && blocks.len() > 1;
    let log_mean = |cell: &BTreeMap<u32, f64>| mean(cell).map_or(0.0, |m| m.log);
    let grand = cells.iter().map(|cell| log_mean(cell)).sum::<f64>() / cells.len() as f64;
    let shift = |block: u32| {
        let logs = cells.iter().filter_map(|cell| cell.get(&block)).map(|v| v.ln());
        if complete { logs.sum::<f64>() / cells.len() as f64 - grand } else { 0.0 }
    };
    let shifts: BTreeMap<u32, f64> = blocks.iter().map(|block| (*block, shift(*block))).collect();
    let squares: f64 = cells
        .iter()
        .flat_map(|cell| {
            let mean = log_mean(cell);
            let shifts = &shifts;
            cell.iter().map(move |(block, value)| (value.ln() - mean - shifts[block]).powi(2))
        })
        .sum();
    let used = cells.len() + if complete { blocks.len() - 1 } else { 0 };
    let degrees = runs.checked_sub(used).filter(|degrees| *degrees > 0)? as f64;
    Some(((squares / degrees).sqrt().max(1e-9), degrees))
}

/// Edges along the rows: change points of each row, kept where neighbouring rows agree and their
/// common step stands out against the noise, corrected for all places where one could be.
fn edges(
    plane: &Plane,
    means: &[Vec<Option<Mean>>],
    sigma: f64,
    degrees: f64,
    upwards: bool,
) -> Vec<Edge> {
    let (rows, columns) = (means.len(), means.first().map_or(0, Vec::len));
    if columns < 2 {
        return Vec::new();
    }
    let steps: Vec<Vec<Step>> = means.iter().map(|row| row_steps(row, sigma)).collect();
    let places = ((columns - 1) * rows * (rows + 1) / 2) as f64;
    let critical = quantile(1.0 - RISK / 2.0 / places, degrees);
    let mut out = Vec::new();
    for boundary in 1..columns {
        let mut row = 0;
        while row < rows {
            let found = |row: usize| steps[row].iter().find(|s| s.boundary == boundary).copied();
            let Some(first) = found(row) else {
                row += 1;
                continue;
            };
            let agreeing: Vec<Step> = (row..rows)
                .map_while(found)
                .take_while(|step| (step.rise > 0.0) == (first.rise > 0.0))
                .collect();
            let count = agreeing.len() as f64;
            let rise = agreeing.iter().map(|s| s.rise).sum::<f64>() / count;
            let error = agreeing.iter().map(|s| s.error.powi(2)).sum::<f64>().sqrt() / count;
            // A step in one row alone is one cell's luck, unless there is only one row.
            let enough = agreeing.len() >= rows.min(2);
            if enough && rise.abs() > critical * error {
                let (along, across) = if upwards {
                    (&plane.rows, &plane.columns)
                } else {
                    (&plane.columns, &plane.rows)
                };
                out.push(Edge {
                    axis: if upwards { plane.y.clone() } else { plane.x.clone() },
                    before: along[boundary - 1].clone(),
                    after: along[boundary].clone(),
                    from: across[row].clone(),
                    to: across[row + agreeing.len() - 1].clone(),
                    ratio: rise.exp(),
                });
            }
            row += agreeing.len();
        }
    }
    out
}

fn edges_upwards(
    plane: &Plane,
    means: &[Vec<Option<Mean>>],
    sigma: f64,
    degrees: f64,
) -> Vec<Edge> {
    let columns = means.first().map_or(0, Vec::len);
    let turned: Vec<Vec<Option<Mean>>> =
        (0..columns).map(|column| means.iter().map(|row| row[column]).collect()).collect();
    edges(plane, &turned, sigma, degrees, true)
}

/// A change of level within a row.
#[derive(Clone, Copy, Debug)]
struct Step {
    boundary: usize,
    rise: f64,
    error: f64,
}

fn row_steps(row: &[Option<Mean>], sigma: f64) -> Vec<Step> {
    let filled: Vec<(usize, Mean)> =
        row.iter().enumerate().filter_map(|(column, mean)| Some((column, (*mean)?))).collect();
    let values: Vec<f64> = filled.iter().map(|(_, mean)| mean.log).collect();
    let errors: Vec<f64> = filled.iter().map(|(_, mean)| sigma / mean.runs.sqrt()).collect();
    let levels = change_points(&values, &errors);
    let error = |start: usize, end: usize| {
        1.0 / errors[start..end].iter().map(|e| 1.0 / (e * e)).sum::<f64>().sqrt()
    };
    levels
        .windows(2)
        .map(|pair| Step {
            boundary: filled[pair[1].start].0,
            rise: pair[1].mean - pair[0].mean,
            error: error(pair[0].start, pair[0].end).hypot(error(pair[1].start, pair[1].end)),
        })
        .collect()
}

#[cfg(test)]
mod tests;
