//! The centre of the runs of a point, the same in maps, curves, tables and exports: the mean of the
//! logarithms where all runs are above zero (the geometric mean), else the mean.

use schedlab_stats::{Effect, paired};

/// The centre of some runs with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Centre {
    /// The centre of the runs, in the metric's unit.
    pub(crate) value: f64,
    /// The 95 % interval unless another one was asked for, by Student's t on the same scale; `None` for one run, or where all are the same.
    pub(crate) interval: Option<(f64, f64)>,
    /// Whether it is a geometric mean.
    pub(crate) is_geometric: bool,
    /// The number of runs behind the centre.
    pub(crate) runs: usize,
}

impl Centre {
    /// The centre of these runs; `None` without runs.
    #[must_use]
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        Self::at(values, 0.95)
    }

    /// The same with an interval of another confidence.
    #[must_use]
    pub(crate) fn at(values: impl IntoIterator<Item = f64>, level: f64) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let runs = values.len();
        let is_geometric = values.iter().all(|v| *v > 0.0);
        let scaled: Vec<f64> = match is_geometric {
            true => values.iter().map(|v| v.ln()).collect(),
            false => values,
        };
        let back = |v: f64| if is_geometric { v.exp() } else { v };
        let mean = scaled.iter().sum::<f64>() / runs as f64;
        let interval = paired(&scaled).map(|effect: Effect| effect.interval(level));
        // What runs measure are times, rates, counts and shares: none is below zero.
        let interval = interval.map(|(low, high)| match is_geometric {
            true => (back(low), back(high)),
            false => (low.max(0.0), high),
        });
        (runs > 0).then(|| Self { value: back(mean), interval, is_geometric, runs })
    }

    /// What it is called.
    #[must_use]
    pub(crate) const fn name(&self) -> &'static str {
        if self.is_geometric { "geometric mean" } else { "mean" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_centre_of_ratios_is_geometric_and_copies_have_no_interval() {
        let centre = Centre::of([1.0, 4.0]).unwrap();
        assert!((centre.value - 2.0).abs() < 1e-12 && centre.name() == "geometric mean");
        let (low, high) = centre.interval.unwrap();
        assert!((low * high - 4.0).abs() < 1e-9, "alike on the log scale: {low} .. {high}");
        let counts = Centre::of([0.0, 4.0]).unwrap();
        assert_eq!((counts.value, counts.name()), (2.0, "mean"));
        assert_eq!(counts.interval.unwrap().0, 0.0);
        assert_eq!(Centre::of([3.0, 3.0, 3.0]).unwrap().interval, None);
        assert_eq!(Centre::of([]), None);
    }
}
