//! The noise of the cells of a map or of a curve: blocks taken out, unequal spread kept unequal.

use schedlab_stats::{Sample, Variance, moderated};
use std::collections::{BTreeMap, BTreeSet};

/// Repeats from which a cell shows its noise: the median cell must have as many.
pub(crate) const REPEATS_MIN: usize = 3;

/// A cell on the log scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    /// Mean of the logarithms, what its blocks have in common taken out.
    pub(super) log: f64,
    /// The number of runs behind the cell.
    pub(super) runs: f64,
    /// Variance of one run.
    pub(super) variance: Variance,
}

impl Cell {
    /// Standard error of the mean.
    pub(super) fn error(&self) -> f64 {
        (self.variance.value / self.runs).sqrt()
    }
}

/// Why the noise is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// Every cell holds a single run.
    SingleRuns,
    /// Too few cells have repeats enough.
    TooFew,
}

/// The cells with their noise: that of `given` (a relative standard deviation), or from the repeats.
///
/// A block's shift is the median over cells of how far its runs lie from their cells' means (the mean below six
/// cells), as in the two-way layout (Fisher, "The Design of Experiments", 1935), but not drawn by noisy
/// cells (Tukey, "Exploratory Data Analysis", 1977, chapter 11). The variances within cells are then
/// moderated by each other, so that cells of unlike noise keep their own.
pub(super) fn cells(
    values: &[BTreeMap<u32, f64>],
    given: Option<f64>,
) -> Result<Vec<Option<Cell>>, Unknown> {
    let logs: Vec<BTreeMap<u32, f64>> =
        values.iter().map(|cell| cell.iter().map(|(b, v)| (*b, v.ln())).collect()).collect();
    let filled: Vec<&BTreeMap<u32, f64>> = logs.iter().filter(|cell| !cell.is_empty()).collect();
    if given.is_none() {
        let mut repeats: Vec<usize> = filled.iter().map(|cell| cell.len()).collect();
        repeats.sort_unstable();
        match repeats.get(repeats.len().saturating_sub(1) / 2) {
            _ if repeats.last().is_none_or(|most| *most < 2) => return Err(Unknown::SingleRuns),
            Some(median) if *median >= REPEATS_MIN => {}
            _ => return Err(Unknown::TooFew),
        }
    }
    let shifts = shifts(&filled);
    let variances: Vec<Variance> =
        logs.iter().map(|cell| variance(cell, &shifts, filled.len())).collect();
    let variances = match given {
        Some(sigma) => vec![Variance { value: sigma * sigma, degrees: f64::INFINITY }; logs.len()],
        None => moderated(&variances),
    };
    let cell = |(cell, variance): (&BTreeMap<u32, f64>, Variance)| {
        let runs = cell.len() as f64;
        let sum: f64 = cell.iter().map(|(block, log)| log - shifts[block]).sum();
        let variance = Variance { value: variance.value.max(1e-18), ..variance };
        (!cell.is_empty()).then(|| Cell { log: sum / runs, runs, variance })
    };
    Ok(logs.iter().zip(variances).map(cell).collect())
}

fn mean(cell: &BTreeMap<u32, f64>) -> f64 {
    cell.values().sum::<f64>() / cell.len() as f64
}

fn shifts(cells: &[&BTreeMap<u32, f64>]) -> BTreeMap<u32, f64> {
    let blocks: BTreeSet<u32> = cells.iter().flat_map(|cell| cell.keys().copied()).collect();
    let shift = |block: u32| {
        // A single run is its cell's mean: it tells nothing of its block.
        let repeated = cells.iter().filter(|cell| cell.len() > 1);
        let off = repeated.filter_map(|cell| Some(cell.get(&block)? - mean(cell)));
        let sample = Sample::new(off).ok();
        sample.map_or(0.0, |s| if s.len() < 6 { s.mean() } else { s.median() })
    };
    blocks.into_iter().map(|block| (block, shift(block))).collect()
}

fn variance(cell: &BTreeMap<u32, f64>, shifts: &BTreeMap<u32, f64>, cells: usize) -> Variance {
    if cell.len() < 2 {
        return Variance { value: 0.0, degrees: 0.0 };
    }
    let left: Vec<f64> = cell.iter().map(|(block, log)| log - shifts[block]).collect();
    let centre = left.iter().sum::<f64>() / left.len() as f64;
    let squares: f64 = left.iter().map(|v| (v - centre).powi(2)).sum();
    // The shifts took a part of the degrees: one cell's share of the blocks.
    let degrees = (cell.len() - 1) as f64 * (1.0 - 1.0 / cells.max(2) as f64);
    Variance { value: squares / degrees, degrees }
}
