//! A sample: numbers that are finite and sorted, at least one.

/// Why numbers are no sample, or too small a one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// Fewer numbers than the method needs; with fewer it would claim what the data cannot show.
    #[error("too few values: {have} instead of {need}")]
    TooFew {
        /// How many there are.
        have: usize,
        /// How many are needed.
        need: usize,
    },
    /// A value is infinite or not a number.
    #[error("a value is infinite or NaN")]
    NotFinite,
    /// All values are the same where the method needs a spread.
    #[error("all values are the same")]
    NoSpread,
}

/// Finite numbers in ascending order, at least one. One number a run: the run is the unit, never
/// what it measured inside.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// A sample of these numbers, in any order.
    ///
    /// # Errors
    /// When there are none, or one is not finite.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Result<Self, SampleError> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        if sorted.is_empty() {
            return Err(SampleError::TooFew { have: 0, need: 1 });
        }
        if !sorted.iter().all(|v| v.is_finite()) {
            return Err(SampleError::NotFinite);
        }
        sorted.sort_by(f64::total_cmp);
        Ok(Self { sorted })
    }

    /// The numbers in ascending order.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    /// How many; never 0.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a sample is never empty")]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The least value of the sample.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    /// The greatest value of the sample.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }

    /// The arithmetic mean of the sample.
    #[must_use]
    pub fn mean(&self) -> f64 {
        mean(&self.sorted)
    }

    /// The median: the middle, or the mean of the two in the middle.
    #[must_use]
    pub fn median(&self) -> f64 {
        median_of_sorted(&self.sorted)
    }

    /// The standard deviation with n - 1; `None` of a single number.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        let mean = self.mean();
        let n = self.len();
        let squares: f64 = self.sorted.iter().map(|v| (v - mean).powi(2)).sum();
        (n > 1).then(|| (squares / (n - 1) as f64).sqrt())
    }

    /// The quantile `q` in 0 ..= 1 by linear interpolation (type 7 of Hyndman and Fan, "Sample
    /// quantiles in statistical packages", The American Statistician 1996; R's default).
    #[must_use]
    pub fn quantile(&self, q: f64) -> f64 {
        let at = q.clamp(0.0, 1.0) * (self.len() - 1) as f64;
        let low = at.floor() as usize;
        let part = at.fract();
        let high = (low + 1).min(self.len() - 1);
        self.sorted[low] + part * (self.sorted[high] - self.sorted[low])
    }

    /// Numbers farther than 1.5 interquartile ranges outside of the quartiles (Tukey, "Exploratory
    /// Data Analysis", 1977). Told, never removed.
    #[must_use]
    pub fn outliers(&self) -> Vec<f64> {
        let q1 = self.quantile(0.25);
        let q3 = self.quantile(0.75);
        let fence = 1.5 * (q3 - q1);
        self.sorted.iter().copied().filter(|v| *v < q1 - fence || *v > q3 + fence).collect()
    }
}

/// The median of numbers: the middle, or the mean of the two in the middle. `None` of no numbers, or if one is not
/// finite.
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Sample::new(values).ok().map(|sample| sample.median())
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of numbers in ascending order, at least one.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_agree_with_r() {
        // R 4: x <- c(2.1, 3.4, 1.9, 5.6, 4.4, 2.2); mean, median, sd, quantile(x, .9)
        let sample = Sample::new([2.1, 3.4, 1.9, 5.6, 4.4, 2.2]).unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(sample.mean(), 19.6 / 6.0);
        close(sample.median(), 2.8);
        assert_eq!((median([4.0, 1.0]), median([])), (Some(2.5), None));
        close(sample.deviation().unwrap(), 1.490_861_048_745_545);
        close(sample.quantile(0.9), 5.0);
    }

    #[test]
    fn nothing_and_infinity_are_no_sample() {
        assert_eq!(Sample::new([]), Err(SampleError::TooFew { have: 0, need: 1 }));
        assert_eq!(Sample::new([1.0, f64::NAN]), Err(SampleError::NotFinite));
    }
}
