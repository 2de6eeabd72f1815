//! One line, or two side by side, through the points of a segment, with one spread.
//!
//! The noise is taken for Student's t with four degrees of freedom (Lange, Little and Taylor, "Robust statistical modeling
//! using the t distribution", JASA 1989), so that heavy tails and rare outliers do not look like a change.

use crate::fit::{Line, weighted_line};

/// Degrees of freedom of the noise.
const NU: f64 = 4.0;
/// The logarithm of the density's factor: `gamma(2.5) / (gamma(2) sqrt(4 pi))`.
const LOG_FACTOR: f64 = -0.980_829_253_011_726_3;
/// Rounds of expectation and maximisation at most.
const ROUNDS: usize = 40;
/// A round that gains less than this ends them.
const GAIN: f64 = 1e-3;
/// Each population has so many points at least.
pub(super) const POPULATION_MIN: usize = 8;

/// What fits some points.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fitted {
    pub(super) lines: Vec<Line>,
    /// The share of the first line.
    pub(super) share: f64,
    /// The scale of the noise, in the middle of the points.
    pub(super) scale: f64,
    /// By how much its logarithm grows with x, and the middle.
    pub(super) growth: (f64, f64),
    /// The logarithm of the likelihood.
    pub(super) likelihood: f64,
}

impl Fitted {
    /// The scale of the noise at `x`.
    pub(super) fn scale_at(&self, x: f64) -> f64 {
        self.scale * wider(self.growth, x)
    }

    /// The line that a point belongs to by its chances, with a number from 0 to 1 drawn, and how far above it the point
    /// lies. Taking the nearest line would make the noise of two populations smaller than it is.
    pub(super) fn drawn(&self, point: (f64, f64), drawn: f64) -> (usize, f64) {
        let off = |line: &Line| line.residual(point);
        let chance = |line: &Line| tail(1.0 + (off(line) / self.scale).powi(2) / NU);
        match &self.lines[..] {
            [first, second] => {
                let chances = [self.share * chance(first), (1.0 - self.share) * chance(second)];
                let of = usize::from(drawn * (chances[0] + chances[1]) > chances[0]);
                (of, off(&self.lines[of]))
            }
            lines => (0, lines.first().map_or(0.0, off)),
        }
    }

    /// The line that a point most likely belongs to, and how far above it the point lies.
    pub(super) fn nearest(&self, point: (f64, f64)) -> (usize, f64) {
        let off = self.lines.iter().map(|line| line.residual(point)).enumerate();
        off.min_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).unwrap_or_default()
    }
}

/// How much larger the noise is at `x` than in the middle.
fn wider(growth: (f64, f64), x: f64) -> f64 {
    (growth.0 * (x - growth.1)).exp()
}

/// `u` to the power of minus (NU + 1) / 2.
fn tail(u: f64) -> f64 {
    1.0 / (u * u * u.sqrt())
}

/// The logarithm of the likelihood of points by their residuals on a scale.
fn likelihood(residuals: impl Iterator<Item = f64>, scale: f64) -> f64 {
    let of = |residual: f64| {
        LOG_FACTOR - scale.ln() - 2.5 * (1.0 + (residual / scale).powi(2) / NU).ln()
    };
    residuals.map(of).sum()
}

/// The likeliest line. `floor`: a smaller scale is rounding.
pub(super) fn one_line(points: &[(f64, f64)], floor: f64) -> Fitted {
    let line = weighted_line(points, &vec![1.0; points.len()]);
    climb(points, line, (0.0, 0.0), floor)
}

/// The likeliest line with noise that grows, or shrinks, with x by a constant part for each unit of x.
pub(super) fn growing(points: &[(f64, f64)], one: &Fitted, floor: f64) -> Fitted {
    let n = points.len() as f64;
    let middle = points.iter().map(|p| p.0).sum::<f64>() / n;
    let mut fitted = one.clone();
    for _ in 0..2 {
        let least = (0.05 * fitted.scale).max(floor);
        let line = fitted.lines[0];
        let sizes: Vec<(f64, f64)> =
            points.iter().map(|&p| (p.0, line.residual(p).abs().max(least).ln())).collect();
        let growth = weighted_line(&sizes, &vec![1.0; points.len()]).slope;
        fitted = climb(points, line, (growth, middle), floor);
    }
    fitted
}

/// Climbs from a line to the likeliest one near it.
fn climb(points: &[(f64, f64)], mut line: Line, growth: (f64, f64), floor: f64) -> Fitted {
    let n = points.len() as f64;
    let wide: Vec<f64> = match growth.0 == 0.0 {
        true => vec![1.0; points.len()],
        false => points.iter().map(|p| wider(growth, p.0)).collect(),
    };
    let off = |line: Line| -> Vec<f64> {
        points.iter().zip(&wide).map(|(&p, wide)| line.residual(p) / wide).collect()
    };
    let log_wide: f64 = wide.iter().map(|wide| wide.ln()).sum();
    let mut residuals = off(line);
    let mut sizes: Vec<f64> = residuals.iter().map(|r| r.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let mut scale = (1.35 * sizes[sizes.len() / 2]).max(floor);
    let mut before = f64::NEG_INFINITY;
    for _ in 0..ROUNDS {
        let weight = |r: &f64| (NU + 1.0) / (NU + (r / scale).powi(2));
        let weights: Vec<f64> = residuals.iter().map(weight).collect();
        let of_line: Vec<f64> =
            weights.iter().zip(&wide).map(|(weight, wide)| weight / (wide * wide)).collect();
        line = weighted_line(points, &of_line);
        residuals = off(line);
        let squares: f64 = residuals.iter().zip(&weights).map(|(r, w)| w * r * r).sum();
        scale = (squares / n).sqrt().max(floor);
        let now = likelihood(residuals.iter().copied(), scale);
        if now - before < GAIN {
            break;
        }
        before = now;
    }
    let likelihood = likelihood(residuals.iter().copied(), scale) - log_wide;
    Fitted { lines: vec![line], share: 1.0, scale, growth, likelihood }
}

/// The likeliest two lines, each with points enough; `None` if there are none. Begins above and below one line.
pub(super) fn two_lines(points: &[(f64, f64)], one: &Fitted, floor: f64) -> Option<Fitted> {
    let n = points.len() as f64;
    let middle = one.lines[0];
    let mut first: Vec<f64> =
        points.iter().map(|&p| if middle.residual(p) < 0.0 { 0.95 } else { 0.05 }).collect();
    let mut weights = vec![[1.0; 2]; points.len()];
    let mut scale = one.scale;
    let mut before = f64::NEG_INFINITY;
    let mut lines = [middle; 2];
    let mut share = 0.5;
    for _ in 0..ROUNDS {
        let part = |of: usize| -> Vec<f64> {
            let belongs = |p: f64| if of == 0 { p } else { 1.0 - p };
            first.iter().zip(&weights).map(|(&p, w)| belongs(p) * w[of]).collect()
        };
        let parts = [part(0), part(1)];
        lines = [weighted_line(points, &parts[0]), weighted_line(points, &parts[1])];
        share = (first.iter().sum::<f64>() / n).clamp(0.01, 0.99);
        let squares: f64 = (0..2)
            .flat_map(|of| points.iter().zip(&parts[of]).map(move |(&p, w)| (of, p, w)))
            .map(|(of, p, w)| w * lines[of].residual(p).powi(2))
            .sum();
        scale = (squares / n).sqrt().max(floor);
        let mut now = n * (LOG_FACTOR - scale.ln());
        for ((&p, belongs), weight) in points.iter().zip(&mut first).zip(&mut weights) {
            let u = lines.map(|line| 1.0 + (line.residual(p) / scale).powi(2) / NU);
            let density = [share * tail(u[0]), (1.0 - share) * tail(u[1])];
            let sum = (density[0] + density[1]).max(f64::MIN_POSITIVE);
            *belongs = density[0] / sum;
            *weight = u.map(|u| (NU + 1.0) / (NU * u));
            now += sum.ln();
        }
        if now - before < GAIN {
            before = before.max(now);
            break;
        }
        before = now;
    }
    let growth = (0.0, 0.0);
    let fitted = Fitted { lines: lines.to_vec(), share, scale, growth, likelihood: before };
    let of_first = points.iter().filter(|&&p| fitted.nearest(p).0 == 0).count();
    let enough = of_first.min(points.len() - of_first) >= POPULATION_MIN;
    enough.then_some(fitted)
}
