//! Lines through points: by least squares, and robust.

use crate::distribution::t_quantile;
use crate::interval::Method;
use crate::sample::median_of_sorted;
use crate::{Interval, SampleError};

/// A straight line, by its value at 0 and its slope.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The value of the line at x = 0, in the unit of y.
    pub intercept: f64,
    /// The rise of the line for each unit of x, in units of y.
    pub slope: f64,
}

impl Line {
    #[must_use]
    pub(crate) fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }

    /// How far a point lies above the line.
    #[must_use]
    pub(crate) fn residual(&self, (x, y): (f64, f64)) -> f64 {
        y - self.at(x)
    }
}

/// A line with how well it fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The line that fits the points.
    pub line: Line,
    /// Pearson's correlation of x and y (1895), -1 ..= 1.
    pub r: f64,
    /// Standard deviation of the residuals, with n - 2.
    pub sigma: f64,
    /// The largest distance of a point from the line.
    pub residual_max: f64,
    /// Standard error of the slope, in units of y for each unit of x.
    pub(crate) slope_error: f64,
    /// Standard error of the intercept, in the unit of y.
    pub(crate) intercept_error: f64,
    /// The number of points.
    pub count: usize,
}

impl Fit {
    /// The interval of the slope by Student's t; takes residuals for normal and independent.
    #[must_use]
    pub fn slope(&self, level: f64) -> Interval {
        self.about(self.line.slope, self.slope_error, level)
    }

    /// Where the line meets x = 0, with its interval by Student's t.
    #[must_use]
    pub fn intercept(&self, level: f64) -> Interval {
        self.about(self.line.intercept, self.intercept_error, level)
    }

    fn about(&self, estimate: f64, error: f64, level: f64) -> Interval {
        let half = error * t_quantile(0.5 + level / 2.0, (self.count - 2) as f64);
        let method = Method::StudentT;
        Interval { low: estimate - half, estimate, high: estimate + half, level, method }
    }
}

fn check(points: &[(f64, f64)], need: usize) -> Result<(), SampleError> {
    if points.len() < need {
        return Err(SampleError::TooFew { have: points.len(), need });
    }
    if !points.iter().all(|(x, y)| x.is_finite() && y.is_finite()) {
        return Err(SampleError::NotFinite);
    }
    if points.iter().all(|(x, _)| *x == points[0].0) {
        return Err(SampleError::NoSpread);
    }
    Ok(())
}

/// The line of least squares (Legendre 1805; Gauss 1809), all points alike.
///
/// # Errors
/// Below three points, or where all x are the same.
pub fn least_squares(points: &[(f64, f64)]) -> Result<Fit, SampleError> {
    check(points, 3)?;
    let line = weighted_line(points, &vec![1.0; points.len()]);
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let mx = mean(|p| p.0);
    let my = mean(|p| p.1);
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let sxx = sum(&|p| (p.0 - mx).powi(2));
    let syy = sum(&|p| (p.1 - my).powi(2));
    let sxy = sum(&|p| (p.0 - mx) * (p.1 - my));
    let squares = sum(&|p| line.residual(*p).powi(2));
    let sigma = (squares / (n - 2.0)).sqrt();
    let slope_error = sigma / sxx.sqrt();
    Ok(Fit {
        line,
        // Points on a level line have no correlation to speak of.
        r: if syy == 0.0 { 0.0 } else { sxy / (sxx * syy).sqrt() },
        sigma,
        residual_max: points.iter().map(|p| line.residual(*p).abs()).fold(0.0, f64::max),
        slope_error,
        intercept_error: slope_error * (sxx / n + mx * mx).sqrt(),
        count: points.len(),
    })
}

/// The line of weighted least squares; weights are not negative and not all zero.
pub(crate) fn weighted_line(points: &[(f64, f64)], weights: &[f64]) -> Line {
    let total: f64 = weights.iter().sum();
    let mean = |of: fn(&(f64, f64)) -> f64| {
        points.iter().zip(weights).map(|(p, w)| w * of(p)).sum::<f64>() / total
    };
    let mx = mean(|p| p.0);
    let my = mean(|p| p.1);
    let mut sxx = 0.0;
    let mut sxy = 0.0;
    for ((x, y), w) in points.iter().zip(weights) {
        sxx += w * (x - mx).powi(2);
        sxy += w * (x - mx) * (y - my);
    }
    let slope = if sxx == 0.0 { 0.0 } else { sxy / sxx };
    Line { intercept: my - slope * mx, slope }
}

/// The line of Theil and Sen (Sen, "Estimates of the regression coefficient based on Kendall's tau",
/// JASA 1968): the median of the slopes of all pairs, then the median of what remains. Up to 29 % of
/// the points may be anything.
///
/// # Errors
/// Below two points, or where all x are the same.
pub fn theil_sen(points: &[(f64, f64)]) -> Result<Line, SampleError> {
    check(points, 2)?;
    let mut slopes: Vec<f64> = Vec::new();
    for (i, a) in points.iter().enumerate() {
        slopes.extend(
            points[i + 1..].iter().filter(|b| b.0 != a.0).map(|b| (b.1 - a.1) / (b.0 - a.0)),
        );
    }
    slopes.sort_by(f64::total_cmp);
    let slope = median_of_sorted(&slopes);
    let mut rests: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    rests.sort_by(f64::total_cmp);
    Ok(Line { intercept: median_of_sorted(&rests), slope })
}

/// A robust line with Huber's weights ("Robust estimation of a location parameter", Annals of
/// Mathematical Statistics 1964; k = 1.345), by reweighting from the line of Theil and Sen, the scale by
/// the median absolute residual. Nearly as sharp as least squares on good data; bad points pull little.
///
/// # Errors
/// As [`theil_sen`].
pub fn huber(points: &[(f64, f64)]) -> Result<Line, SampleError> {
    const K: f64 = 1.345;
    let mut line = theil_sen(points)?;
    for _ in 0..100 {
        let mut off: Vec<f64> = points.iter().map(|p| line.residual(*p).abs()).collect();
        off.sort_by(f64::total_cmp);
        let scale = 1.482_602_218_505_602 * median_of_sorted(&off);
        if scale == 0.0 {
            break;
        }
        let weights: Vec<f64> =
            points.iter().map(|p| (K * scale / line.residual(*p).abs()).min(1.0)).collect();
        let next = weighted_line(points, &weights);
        let moved = (next.slope - line.slope).abs() + (next.intercept - line.intercept).abs();
        line = next;
        if moved <= 1e-12 * (1.0 + line.slope.abs() + line.intercept.abs()) {
            break;
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests;
