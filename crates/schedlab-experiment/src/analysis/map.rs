//! The map of a two-knob plane: the best cell, all cells that may be as good, and the edges at which
//! the metric goes from one level to another.
//!
//! What is claimed holds for the whole map at once with the stated chance (95 %): with this many cells,
//! some pair always differs by luck. Where one axis is a load, which nobody chooses, cells are compared
//! within each load. Cells keep unequal noise. A map needs three repeats, or noise that is given.

use super::noise::{Cell, Unknown, cells};
use schedlab_stats::{change_points, normal_quantile, t_quantile};
use std::collections::{BTreeMap, BTreeSet};

/// Chance of any false claim on one map.
const RISK: f64 = 0.05;
/// The share of it for the best cells; edges in each direction have a quarter.
const RISK_BEST: f64 = RISK / 2.0;
const RISK_EDGES: f64 = RISK / 4.0;

/// Measured values on two axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueGrid {
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
    #[error("differences may be chance: the cells hold single runs, and the noise is not given")]
    SingleRuns,
    /// Fewer than three repeats in most cells, and no given noise.
    #[error(
        "too few repeats: most cells hold fewer than 3 runs; set repeats to 3 or more, or give the noise \
         (noise = 0.02 for 2 %)"
    )]
    TooFew,
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
    pub(crate) axis: String,
    pub(crate) before: String,
    /// The value behind it.
    pub(crate) after: String,
    /// On the other axis: from this value ..
    pub from: String,
    /// .. to this one it holds.
    pub to: String,
    /// Ratio of the level behind to the level before.
    pub(crate) ratio: f64,
}

/// Among which cells a best one is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// All cells: both axes can be chosen.
    Cells,
    /// The cells of each column: the axis to the right is a load.
    InColumns,
    /// The cells of each row: the axis upwards is a load.
    InRows,
}

/// What a plane shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// Geometric means, row by row.
    pub(crate) means: Vec<Vec<Option<f64>>>,
    /// Relative standard deviation of a run, the median over the cells.
    pub(crate) sigma: f64,
    /// Its least and largest value in a cell.
    pub(crate) sigma_range: (f64, f64),
    /// Degrees of freedom behind it; infinite where it was given.
    pub(crate) degrees: f64,
    /// The best cell of each group that was compared (one, or one for each load), row and column.
    pub(crate) best: Vec<(usize, usize)>,
    /// Cells that cannot be told from the best of their group, the best included.
    pub flat: BTreeSet<(usize, usize)>,
    /// Edges, the steepest first.
    pub(crate) edges: Vec<Edge>,
    /// The least ratio to the best that a cell with as many runs and as much noise could have shown.
    pub(crate) resolution: f64,
}

impl Map {
    /// Finds what the grid shows; `lower_is_better` decides what is best.
    ///
    /// # Errors
    /// When the plane cannot tell differences from luck at all.
    pub fn new(
        plane: &ValueGrid,
        noise: Noise,
        lower_is_better: bool,
        choice: Choice,
    ) -> Result<Self, MapError> {
        let values = || plane.cells.iter().flatten().flat_map(BTreeMap::values);
        if values().any(|v| *v <= 0.0) {
            return Err(MapError::NotPositive);
        }
        let columns = plane.columns.len();
        if plane.cells.iter().flatten().filter(|cell| !cell.is_empty()).count() < 2 {
            return Err(MapError::TooSmall);
        }
        let given = match noise {
            Noise::Given(sigma) => Some(sigma),
            Noise::Measured => None,
        };
        let flat: Vec<BTreeMap<u32, f64>> = plane.cells.iter().flatten().cloned().collect();
        let found = cells(&flat, given).map_err(|why| match why {
            Unknown::SingleRuns => MapError::SingleRuns,
            Unknown::TooFew => MapError::TooFew,
        })?;
        let means: Vec<Vec<Option<Cell>>> = found.chunks(columns).map(<[_]>::to_vec).collect();
        let groups = groups(&means, choice);
        let pairs: usize =
            groups.iter().map(|group| group.len() * group.len().saturating_sub(1) / 2).sum();
        let gap = |a: &Cell, b: &Cell| gap(a, b, RISK_BEST / pairs.max(1) as f64);
        let mut best = Vec::new();
        let mut flat = BTreeSet::new();
        for group in &groups {
            let sign = if lower_is_better { 1.0 } else { -1.0 };
            let least = group.iter().min_by(|a, b| (sign * a.1.log).total_cmp(&(sign * b.1.log)));
            let Some((at, winner)) = least else { continue };
            best.push(*at);
            let near = group.iter().filter(|(_, c)| (c.log - winner.log).abs() <= gap(c, winner));
            flat.extend(near.map(|(at, _)| *at));
        }
        let mut edges = edges(plane, &means, false);
        edges.extend(edges_upwards(plane, &means));
        edges.sort_by(|a, b| b.ratio.ln().abs().total_cmp(&a.ratio.ln().abs()));
        let (row, column) = best[0];
        let winner = means[row][column].expect("the best has a value");
        let mut sigmas: Vec<f64> =
            found.iter().flatten().map(|cell| cell.variance.value.sqrt()).collect();
        sigmas.sort_by(f64::total_cmp);
        Ok(Self {
            means: means
                .iter()
                .map(|row| row.iter().map(|c| c.map(|c| c.log.exp())).collect())
                .collect(),
            sigma: sigmas[sigmas.len() / 2],
            sigma_range: (sigmas[0], sigmas[sigmas.len() - 1]),
            degrees: winner.variance.degrees,
            best,
            flat,
            edges,
            resolution: gap(&winner, &winner).exp(),
        })
    }

    /// Whether anything at all can be told apart.
    #[must_use]
    pub fn shows_nothing(&self) -> bool {
        let filled = self.means.iter().flatten().flatten().count();
        self.flat.len() == filled && self.edges.is_empty()
    }

    /// By how much a run varies: a percentage, or two where cells differ in it.
    #[must_use]
    pub(crate) fn varies(&self) -> String {
        let least = self.sigma_range.0 * 100.0;
        let most = self.sigma_range.1 * 100.0;
        match most > 1.5 * least {
            true => format!("{least:.1} to {most:.1} %"),
            false => format!("{:.1} %", self.sigma * 100.0),
        }
    }

    /// What the map does and does not show, in sentences.
    #[must_use]
    pub(crate) fn sentences(&self, plane: &ValueGrid) -> Vec<String> {
        let filled = self.means.iter().flatten().flatten().count();
        let noise = format!(
            "A run varies by {} ({}). A cell must differ from the best by {:.1} % before a claim is made.",
            self.varies(),
            if self.degrees.is_finite() { "from the repeats" } else { "given" },
            (self.resolution - 1.0) * 100.0
        );
        let mut out = vec![noise];
        let name = |(row, column): (usize, usize)| {
            format!("{}={}, {}={}", plane.x, plane.columns[column], plane.y, plane.rows[row])
        };
        if self.shows_nothing() {
            out.push("The runs show no difference between any two cells.".into());
            return out;
        }
        if self.flat.len() == filled {
            out.push(
                "No cell differs from the best of its group, so the runs show no optimum.".into(),
            );
        } else if let [best] = self.best[..] {
            out.push(format!(
                "The best cell measured is {}. {} of {filled} cells do not differ from it; all \
                 of them are candidates.",
                name(best),
                self.flat.len()
            ));
        } else {
            let names: Vec<String> = self.best.iter().map(|best| name(*best)).collect();
            out.push(format!(
                "At each load alone, the best cells measured are {}. {} of {filled} cells do not \
                 differ from the best at their load.",
                names.join("; "),
                self.flat.len()
            ));
        }
        for edge in &self.edges {
            out.push(format!(
                "Between {}={} and {} the metric {} by {:.0} %, for {} to {}.",
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

/// A cell with its place.
type Placed = ((usize, usize), Cell);

fn indexed(means: &[Vec<Option<Cell>>]) -> impl Iterator<Item = Placed> + '_ {
    means.iter().enumerate().flat_map(|(row, cells)| {
        cells.iter().enumerate().filter_map(move |(column, cell)| Some(((row, column), (*cell)?)))
    })
}

/// The cells that are compared with each other.
fn groups(means: &[Vec<Option<Cell>>], choice: Choice) -> Vec<Vec<Placed>> {
    let mut groups: BTreeMap<usize, Vec<Placed>> = BTreeMap::new();
    for (at, cell) in indexed(means) {
        let group = match choice {
            Choice::Cells => 0,
            Choice::InColumns => at.1,
            Choice::InRows => at.0,
        };
        groups.entry(group).or_default().push((at, cell));
    }
    groups.into_values().collect()
}

/// What two cells must differ by, two-sided at `level`: Welch's test with moderated variances. Infinite
/// where a cell's noise is not known.
fn gap(a: &Cell, b: &Cell, level: f64) -> f64 {
    let va = a.error().powi(2);
    let vb = b.error().powi(2);
    let da = a.variance.degrees;
    let db = b.variance.degrees;
    if da <= 0.0 || db <= 0.0 {
        return f64::INFINITY;
    }
    let degrees = (va + vb).powi(2) / (va * va / da + vb * vb / db);
    reach(1.0 - level / 2.0, degrees) * (va + vb).sqrt()
}

/// The quantile of Student's t; of the normal where the noise is known.
pub(super) fn reach(p: f64, degrees: f64) -> f64 {
    if degrees.is_finite() { t_quantile(p, degrees) } else { normal_quantile(p) }
}

/// Edges along the rows: change points of each row, kept where neighbouring rows agree and their
/// common step stands out against the noise, corrected for all places where one could be.
fn edges(plane: &ValueGrid, means: &[Vec<Option<Cell>>], upwards: bool) -> Vec<Edge> {
    let rows = means.len();
    let columns = means.first().map_or(0, Vec::len);
    if columns < 2 {
        return Vec::new();
    }
    let steps: Vec<Vec<Step>> = means.iter().map(|row| row_steps(row)).collect();
    let places = ((columns - 1) * rows * (rows + 1) / 2) as f64;
    let critical = |degrees: f64| reach(1.0 - RISK_EDGES / 2.0 / places, degrees);
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
            let squares: f64 = agreeing.iter().map(|s| s.error.powi(2)).sum();
            let error = squares.sqrt() / count;
            let each = agreeing.iter().map(|s| s.error.powi(4) / s.degrees);
            let degrees = squares * squares / each.sum::<f64>();
            // A step in one row alone is one cell's luck, unless there is only one row.
            let enough = agreeing.len() >= rows.min(2);
            if enough && rise.abs() > critical(degrees) * error {
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

fn edges_upwards(plane: &ValueGrid, means: &[Vec<Option<Cell>>]) -> Vec<Edge> {
    let columns = means.first().map_or(0, Vec::len);
    let turned: Vec<Vec<Option<Cell>>> =
        (0..columns).map(|column| means.iter().map(|row| row[column]).collect()).collect();
    edges(plane, &turned, true)
}

/// A change of level within a row.
#[derive(Clone, Copy, Debug)]
struct Step {
    boundary: usize,
    rise: f64,
    error: f64,
    degrees: f64,
}

fn row_steps(row: &[Option<Cell>]) -> Vec<Step> {
    let filled: Vec<(usize, Cell)> = row
        .iter()
        .enumerate()
        .filter_map(|(column, cell)| Some((column, (*cell)?)))
        .filter(|(_, cell)| cell.variance.degrees > 0.0)
        .collect();
    let values: Vec<f64> = filled.iter().map(|(_, cell)| cell.log).collect();
    let errors: Vec<f64> = filled.iter().map(|(_, cell)| cell.error()).collect();
    let levels = change_points(&values, &errors);
    let error = |start: usize, end: usize| {
        1.0 / errors[start..end].iter().map(|e| 1.0 / (e * e)).sum::<f64>().sqrt()
    };
    // Weights by estimated errors: as few degrees as the least known of the cells.
    let degrees = |start: usize, end: usize| {
        filled[start..end].iter().map(|(_, c)| c.variance.degrees).fold(f64::INFINITY, f64::min)
    };
    levels
        .windows(2)
        .map(|pair| Step {
            boundary: filled[pair[1].start].0,
            rise: pair[1].mean - pair[0].mean,
            error: error(pair[0].start, pair[0].end).hypot(error(pair[1].start, pair[1].end)),
            degrees: degrees(pair[0].start, pair[1].end),
        })
        .collect()
}

#[cfg(test)]
mod tests;
