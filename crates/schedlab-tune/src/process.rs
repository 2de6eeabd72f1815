//! A Gaussian process over the points that were measured, with the noise of single runs.
//!
//! Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, chapters 2 and 5. The kernel
//! is Matérn's with 5/2 and a length for each axis. Repeats of a point are one site with its mean, and
//! their spread tells of the noise (Binois, Gramacy and Ludkovski, "Practical heteroscedastic Gaussian
//! process modeling for large simulation experiments", J. Comput. Graph. Stat. 2018, section 2).

use crate::space::Place;
use schedlab_stats::Random;

/// What was measured at a point.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) places: Vec<Place>,
    pub(crate) count: f64,
    pub(crate) mean: f64,
    /// Sum of squares about the mean.
    pub(crate) squares: f64,
}

/// Logarithms of the lengths, one for each axis, and of the noise of a run relative to the process.
pub(crate) type Shape = Vec<f64>;

/// A Gaussian process that was fitted to measurements.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    sites: Vec<Site>,
    pub(crate) shape: Shape,
    /// Cholesky's factor of the correlations, by rows.
    factor: Vec<f64>,
    /// The factor solved for the residuals, both ways, and for ones.
    weights: Vec<f64>,
    ones: Vec<f64>,
    mean: f64,
    variance: f64,
}

/// What a process says of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Posterior {
    pub(crate) mean: f64,
    /// Of the mean, not of a run.
    pub(crate) deviation: f64,
}

const LENGTH: (f64, f64) = (-3.0, 3.0);
const NOISE: (f64, f64) = (-13.0, 2.5);
/// Prior of a logarithmic length: around a half of the axis, times the root of the number of axes
/// (Hvarfner, Hellsten and Nardi, "Vanilla Bayesian optimization performs great in high dimensions",
/// ICML 2024, argue for that growth).
const LENGTH_PRIOR: (f64, f64) = (-0.7, 1.2);
/// Prior of the logarithm of noise over process.
const NOISE_PRIOR: (f64, f64) = (-3.0, 2.0);
/// Keeps the factor from breaking where sites are nearly the same.
const JITTER: f64 = 1e-8;

/// Processes that are drawn from the posterior, the steps of the walk between two of them, and the standard
/// deviation of a step on each coordinate.
const DRAWS: usize = 40;
const THINNED: usize = 10;
const STRIDE: f64 = 0.4;

/// The middle of the prior of a logarithmic length, for this many axes.
fn centre(axes: usize) -> f64 {
    LENGTH_PRIOR.0 + (axes.max(1) as f64).ln() / 2.0
}

impl Process {
    /// The process that fits best, searched from `start` (of an earlier fit) and from the prior.
    pub(crate) fn fit(sites: &[Site], start: Option<&Shape>) -> Self {
        let axes = sites[0].places.len();
        let centre = centre(axes);
        let mut prior = vec![centre; axes];
        prior.push(NOISE_PRIOR.0);
        let mut best = climbed(sites, prior, 1.0, centre);
        if let Some(start) = start {
            let other = climbed(sites, start.clone(), 0.5, centre);
            if other.0 > best.0 {
                best = other;
            }
        }
        Self::with(sites, best.1).expect("a shape that was climbed to has a factor").0
    }

    /// Processes whose shapes are drawn from the posterior by a random walk (Metropolis and others,
    /// "Equation of state calculations by fast computing machines", J. Chem. Phys. 1953). What all of them
    /// say together knows that the shape is uncertain; what the best one says alone is too sure.
    pub(crate) fn plausible(sites: &[Site], random: &mut Random) -> Vec<Self> {
        let mut shape = Self::fit(sites, None).shape;
        let last = shape.len() - 1;
        let centre = centre(last);
        let mut now = score(sites, &shape, centre);
        let mut out = Vec::with_capacity(DRAWS);
        for step in 0..DRAWS * THINNED {
            let mut other = shape.clone();
            for (index, value) in other.iter_mut().enumerate() {
                let (low, high) = if index == last { NOISE } else { LENGTH };
                *value = (*value + STRIDE * random.normal()).clamp(low, high);
            }
            let then = score(sites, &other, centre);
            if random.unit().ln() < then - now {
                now = then;
                shape = other;
            }
            if step % THINNED == THINNED - 1 {
                out.extend(Self::with(sites, shape.clone()).map(|(process, _)| process));
            }
        }
        out
    }

    /// The process of a shape with its logarithmic likelihood; the mean and the variance are those that
    /// fit best. `None` where the correlations have no factor.
    fn with(sites: &[Site], shape: Shape) -> Option<(Self, f64)> {
        let n = sites.len();
        let noise = shape[shape.len() - 1].exp();
        let lengths = inverse_squares(&shape);
        let mut factor = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..i {
                factor[i * n + j] = correlation(&sites[i].places, &sites[j].places, &lengths);
            }
            factor[i * n + i] = 1.0 + noise / sites[i].count + JITTER;
        }
        decompose(&mut factor, n)?;
        let ones = forward(&factor, &vec![1.0; n]);
        let values = forward(&factor, &sites.iter().map(|site| site.mean).collect::<Vec<f64>>());
        let all = dot(&ones, &ones);
        let mean = dot(&ones, &values) / all;
        let residuals: Vec<f64> = values.iter().zip(&ones).map(|(v, o)| v - mean * o).collect();
        let runs: f64 = sites.iter().map(|site| site.count).sum();
        let within: f64 = sites.iter().map(|site| site.squares).sum();
        // Values that are all the same leave no variance; the floor keeps the logarithm finite.
        let variance = ((dot(&residuals, &residuals) + within / noise) / runs).max(1e-18);
        let determinant: f64 = (0..n).map(|i| factor[i * n + i].ln()).sum();
        let likelihood = -0.5 * runs * variance.ln()
            - determinant
            - 0.5 * (runs - n as f64) * shape[shape.len() - 1];
        let weights = backward(&factor, &residuals);
        let process = Self { sites: sites.to_vec(), shape, factor, weights, ones, mean, variance };
        Some((process, likelihood))
    }

    /// What it says of a point.
    pub(crate) fn at(&self, places: &[Place]) -> Posterior {
        let lengths = inverse_squares(&self.shape);
        let near: Vec<f64> =
            self.sites.iter().map(|site| correlation(&site.places, places, &lengths)).collect();
        let solved = forward(&self.factor, &near);
        let unknown_mean = 1.0 - dot(&self.ones, &solved);
        let left = 1.0 - dot(&solved, &solved) + unknown_mean.powi(2) / dot(&self.ones, &self.ones);
        Posterior {
            mean: self.mean + dot(&near, &self.weights),
            deviation: (self.variance * left.max(0.0)).sqrt(),
        }
    }

    /// What it says of the value at one point less that at another.
    pub(crate) fn difference(&self, places: &[Place], others: &[Place]) -> Posterior {
        let lengths = inverse_squares(&self.shape);
        let near = |places: &[Place]| -> Vec<f64> {
            self.sites.iter().map(|site| correlation(&site.places, places, &lengths)).collect()
        };
        let one = near(places);
        let other = near(others);
        let apart: Vec<f64> = one.iter().zip(&other).map(|(a, b)| a - b).collect();
        let solved = forward(&self.factor, &apart);
        let unknown_mean = dot(&self.ones, &solved);
        let left = 2.0 - 2.0 * correlation(places, others, &lengths) - dot(&solved, &solved)
            + unknown_mean.powi(2) / dot(&self.ones, &self.ones);
        Posterior {
            mean: dot(&apart, &self.weights),
            deviation: (self.variance * left.max(0.0)).sqrt(),
        }
    }

    /// Runs that it was fitted to.
    pub(crate) fn runs(&self) -> f64 {
        self.sites.iter().map(|site| site.count).sum()
    }

    /// The standard deviation of a single run.
    pub(crate) fn noise(&self) -> f64 {
        (self.variance * self.shape[self.shape.len() - 1].exp()).sqrt()
    }
}

/// The logarithm of the posterior of a shape, up to a constant.
fn score(sites: &[Site], shape: &Shape, centre: f64) -> f64 {
    let normal = |v: f64, (mean, deviation): (f64, f64)| -0.5 * ((v - mean) / deviation).powi(2);
    let last = shape.len() - 1;
    let lengths: f64 = shape[..last].iter().map(|l| normal(*l, (centre, LENGTH_PRIOR.1))).sum();
    let fit = Process::with(sites, shape.clone()).map_or(f64::NEG_INFINITY, |(_, fit)| fit);
    fit + lengths + normal(shape[last], NOISE_PRIOR)
}

/// Climbs the posterior of the shape, coordinate by coordinate with shrinking steps (Hooke and Jeeves,
/// "Direct search solution of numerical and statistical problems", J. ACM 1961).
fn climbed(sites: &[Site], mut shape: Shape, mut step: f64, centre: f64) -> (f64, Shape) {
    let last = shape.len() - 1;
    let score = |shape: &Shape| score(sites, shape, centre);
    let mut best = score(&shape);
    while step > 0.1 {
        let mut moved = false;
        for index in 0..shape.len() {
            let (low, high) = if index == last { NOISE } else { LENGTH };
            // Noise ranges farther than lengths do.
            let reach = if index == last { 2.0 * step } else { step };
            for towards in [reach, -reach] {
                let mut other = shape.clone();
                other[index] = (other[index] + towards).clamp(low, high);
                let found = score(&other);
                if found > best {
                    best = found;
                    shape = other;
                    moved = true;
                    break;
                }
            }
        }
        if !moved {
            step /= 2.0;
        }
    }
    (best, shape)
}

pub(crate) fn inverse_squares(shape: &Shape) -> Vec<f64> {
    shape[..shape.len() - 1].iter().map(|length| (-2.0 * length).exp()).collect()
}

/// Matérn's kernel with 5/2.
fn correlation(a: &[Place], b: &[Place], lengths: &[f64]) -> f64 {
    let squared: f64 = a.iter().zip(b).zip(lengths).map(|((a, b), l)| a.apart(*b) * l).sum();
    let scaled = (5.0 * squared).sqrt();
    (1.0 + scaled + scaled * scaled / 3.0) * (-scaled).exp()
}

/// Cholesky's factor in place, in the lower half.
fn decompose(matrix: &mut [f64], n: usize) -> Option<()> {
    for i in 0..n {
        for j in 0..=i {
            let row = &matrix[i * n..i * n + j];
            let other = &matrix[j * n..j * n + j];
            let left = matrix[i * n + j] - dot(row, other);
            matrix[i * n + j] = if i == j {
                if left <= 0.0 {
                    return None;
                }
                left.sqrt()
            } else {
                left / matrix[j * n + j]
            };
        }
    }
    Some(())
}

fn forward(factor: &[f64], values: &[f64]) -> Vec<f64> {
    let n = values.len();
    let mut out = Vec::with_capacity(n);
    for i in 0..n {
        let known = dot(&factor[i * n..i * n + i], &out);
        out.push((values[i] - known) / factor[i * n + i]);
    }
    out
}

fn backward(factor: &[f64], values: &[f64]) -> Vec<f64> {
    let n = values.len();
    let mut out = values.to_vec();
    for i in (0..n).rev() {
        out[i] /= factor[i * n + i];
        for j in 0..i {
            out[j] -= factor[i * n + j] * out[i];
        }
    }
    out
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A function drawn from a process of variance 1 without noise, by its values at these places.
#[cfg(test)]
pub(crate) fn drawn(places: &[Vec<Place>], lengths: &[f64], random: &mut Random) -> Vec<f64> {
    let n = places.len();
    let mut factor = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..i {
            factor[i * n + j] = correlation(&places[i], &places[j], lengths);
        }
        factor[i * n + i] = 1.0 + JITTER;
    }
    decompose(&mut factor, n).expect("the places differ");
    let normals: Vec<f64> = (0..n).map(|_| random.normal()).collect();
    (0..n).map(|i| dot(&factor[i * n..=i * n + i], &normals[..=i])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(at: f64, values: &[f64]) -> Site {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|v| (v - mean).powi(2)).sum();
        Site { places: vec![Place::At(at)], count, mean, squares }
    }

    #[test]
    fn without_noise_it_goes_through_the_values_and_is_sure_there() {
        let sites: Vec<Site> =
            (0..8).map(|i| f64::from(i) / 7.0).map(|x| site(x, &[(3.0 * x).sin()])).collect();
        let process = Process::fit(&sites, None);
        let at = process.at(&[Place::At(3.0 / 7.0)]);
        assert!((at.mean - (9.0_f64 / 7.0).sin()).abs() < 0.01, "{at:?}");
        let between = process.at(&[Place::At(0.5)]);
        assert!((between.mean - 1.5_f64.sin()).abs() < 0.02, "{between:?}");
    }

    #[test]
    fn the_noise_of_repeats_is_found() {
        let mut random = Random::new(3);
        let mut draw =
            |x: f64| -> Vec<f64> { (0..4).map(|_| x * x + 0.05 * random.normal()).collect() };
        let sites: Vec<Site> =
            (0..10).map(|i| f64::from(i) / 9.0).map(|x| site(x, &draw(x))).collect();
        let noise = Process::fit(&sites, None).noise();
        assert!((0.035..0.07).contains(&noise), "{noise}");
    }

    #[test]
    fn a_difference_is_surer_than_its_two_values_apart() {
        let sites: Vec<Site> =
            (0..6).map(|i| f64::from(i) / 5.0).map(|x| site(x, &[x, x + 0.1])).collect();
        let process = Process::fit(&sites, None);
        let [one, other] = [0.42, 0.46].map(|x| [Place::At(x)]);
        let apart = process.difference(&one, &other);
        let first = process.at(&one);
        let second = process.at(&other);
        assert!((apart.mean - (first.mean - second.mean)).abs() < 1e-9);
        assert!(apart.deviation < first.deviation, "{apart:?}");
        assert!(process.difference(&one, &one).deviation < 1e-9);
    }

    #[test]
    fn the_belief_of_two_sites_is_that_of_the_formula() {
        // By hand: unit variance cancels; with no noise, halfway between two alike sites the mean is
        // theirs.
        let sites = [site(0.0, &[1.0]), site(1.0, &[1.0])];
        let (process, _) = Process::with(&sites, vec![0.0, -13.0]).unwrap();
        assert!((process.at(&[Place::At(0.5)]).mean - 1.0).abs() < 1e-9);
        // Matérn 5/2 at distance 1 and length 1.
        let expected = (1.0 + 5.0_f64.sqrt() + 5.0 / 3.0) * (-(5.0_f64.sqrt())).exp();
        let found = correlation(&[Place::At(0.0)], &[Place::At(1.0)], &[1.0]);
        assert!((found - expected).abs() < 1e-12);
    }
}
