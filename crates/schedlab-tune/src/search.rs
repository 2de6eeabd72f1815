//! The search: which point is measured next, and which one is the best so far.

use crate::design::{grid, latin};
use crate::process::{Posterior, Process, Shape, Site};
use crate::space::{Point, Space};
use schedlab_stats::{Random, normal_cdf};
use std::collections::BTreeSet;
use std::f64::consts::TAU;

/// How points are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Points that fill the space, then those that a Gaussian process expects most of.
    #[default]
    Model,
    /// All combinations of evenly spaced levels, as many as the budget holds.
    Grid,
    /// Points are chosen at random.
    Random,
}

/// How a search chooses points.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How points are chosen.
    pub method: Method,
    /// Number of measurements of the search, repeats included.
    pub budget: usize,
    /// Points that fill the space; `None`: a fifth of the budget, at least 6 and two for each axis.
    pub start: Option<usize>,
    pub seed: u64,
    /// The point that is in use now: the model measures it three times. `None`: there is none.
    pub default: Option<Point>,
}

impl Default for Options {
    fn default() -> Self {
        Self { method: Method::Model, budget: 58, start: None, seed: 1, default: None }
    }
}

/// What a measurement gave: lower is better in each goal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// One value, or one for each of several goals.
    pub goals: Vec<f64>,
    /// By how much each limit is missed: zero or below is fine.
    pub beyond: Vec<f64>,
}

impl Outcome {
    /// The outcome of a single goal without limits.
    #[must_use]
    pub fn of(value: f64) -> Self {
        Self { goals: vec![value], beyond: Vec::new() }
    }
}

/// One measurement of one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    pub point: Point,
    /// What it gave; `None`: it failed.
    pub outcome: Option<Outcome>,
}

/// The best point so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    pub point: Point,
    /// The expected value of each goal at this point.
    pub goals: Vec<f64>,
    /// Whether all limits are expected to hold there.
    pub keeps_limits: bool,
}

/// Copies of the default among the first points.
const DEFAULTS: usize = 3;
/// The last part of the budget goes to what is best so far: a tenth.
const LAST: usize = 10;
/// A space up to this size is looked at as a whole.
const WHOLE: usize = 4_096;
/// Candidates of a larger one, beside the neighbours of the best points.
const CANDIDATES: usize = 1_500;
const BEST: usize = 4;
/// Weight of the sum in the scalar of several goals.
const SUM: f64 = 0.05;

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    space: Space,
    options: Options,
    opening: Vec<Point>,
    /// Points that somebody proposed, to be measured after the opening.
    proposed: Vec<Point>,
    told: Vec<Trial>,
    /// Shapes of the last fits, one for each value that is modelled.
    shapes: Vec<Option<Shape>>,
}

impl Search {
    /// A search that knows nothing yet.
    #[must_use]
    pub fn new(space: Space, options: Options) -> Self {
        let mut random = Random::new(options.seed);
        let opening = match options.method {
            Method::Model => opening(&space, &options, &mut random),
            Method::Grid => {
                let mut points = grid(&space, options.budget);
                random.shuffle(&mut points);
                points
            }
            Method::Random => Vec::new(),
        };
        let proposed = Vec::new();
        let told = Vec::new();
        let shapes = Vec::new();
        Self { space, options, opening, proposed, told, shapes }
    }

    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// All measurements that the search has, in the order in which it got them.
    #[must_use]
    pub fn trials(&self) -> &[Trial] {
        &self.told
    }

    /// The measurements of the points that fill the space, without the default.
    #[must_use]
    pub fn opening(&self) -> Vec<Trial> {
        let first = self.told.iter().take(self.opening.len());
        let is_asked = |trial: &&Trial| {
            self.opening.contains(&trial.point)
                && Some(&trial.point) != self.options.default.as_ref()
        };
        first.filter(is_asked).cloned().collect()
    }

    /// The next point to measure; `None` when the budget is spent.
    pub fn ask(&mut self) -> Option<Point> {
        let done = self.told.len();
        if done >= self.options.budget {
            return None;
        }
        if let Some(point) = self.opening.iter().chain(&self.proposed).nth(done) {
            return Some(point.clone());
        }
        let mut random = Random::new(self.options.seed ^ (done as u64) << 32);
        match self.options.method {
            Method::Grid => None,
            Method::Random => Some(self.space.any(&mut random)),
            Method::Model => Some(self.promising(&mut random)),
        }
    }

    /// Whether the points that fill the space are measured, and nothing else is yet.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.told.len() == self.opening.len() && self.proposed.is_empty()
    }

    /// Makes these points the next ones to measure, after the opening and before those of the model.
    pub fn propose(&mut self, points: impl IntoIterator<Item = Point>) {
        let points = points.into_iter().map(|point| self.space.canonical(point));
        self.proposed = points.collect();
    }

    /// Several points to measure at the same time: after each the search believes what it expects there
    /// (Ginsbourger, Le Riche and Carraro, "Kriging is well-suited to parallelize optimization", 2010).
    #[must_use]
    pub fn ask_several(&self, count: usize) -> Vec<Point> {
        let mut imagined = self.clone();
        let mut out = Vec::new();
        while out.len() < count
            && let Some(point) = imagined.ask()
        {
            let outcome = imagined.expected(&point);
            imagined.tell(point.clone(), outcome);
            out.push(point);
        }
        out
    }

    /// Tells what was measured at a point; `None`: it failed.
    pub fn tell(&mut self, point: Point, outcome: impl Into<Option<Outcome>>) {
        let point = self.space.canonical(point);
        self.told.push(Trial { point, outcome: outcome.into() });
    }

    /// The best point so far, among those that were measured; `None` while nothing succeeded. With several
    /// goals, the one that is best in all of them alike.
    #[must_use]
    pub fn advice(&self) -> Option<Advice> {
        self.ranking().into_iter().next()
    }

    /// The points that were measured, the best first, in the order of [`Self::advice`].
    #[must_use]
    pub fn ranking(&self) -> Vec<Advice> {
        let beliefs = self.believed().unwrap_or_default();
        let goals = self.goals();
        let scalars = scalars(&beliefs, &vec![1.0; goals]);
        let order = |a: &usize, b: &usize| {
            let miss = |i: usize| beliefs[i].keeps_limits;
            miss(*b).cmp(&miss(*a)).then(scalars[*a].total_cmp(&scalars[*b]))
        };
        let mut all: Vec<usize> = (0..beliefs.len()).collect();
        all.sort_by(order);
        all.into_iter().map(|index| beliefs[index].clone()).collect()
    }

    /// The points of which no other one is better in all goals (Pareto's front), as far as can be expected
    /// of those that were measured and keep the limits; by the first goal.
    #[must_use]
    pub fn front(&self) -> Vec<Advice> {
        let mut all = self.believed().unwrap_or_default();
        all.retain(|advice| advice.keeps_limits);
        let beaten = |one: &Advice| {
            all.iter().any(|other| {
                let pairs = || other.goals.iter().zip(&one.goals);
                pairs().all(|(a, b)| a <= b) && pairs().any(|(a, b)| a < b)
            })
        };
        let mut front: Vec<Advice> = all.iter().filter(|one| !beaten(one)).cloned().collect();
        front.sort_by(|a, b| a.goals[0].total_cmp(&b.goals[0]));
        front
    }

    fn goals(&self) -> usize {
        self.outcomes().next().map_or(1, |outcome| outcome.goals.len())
    }

    fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.told.iter().filter_map(|trial| trial.outcome.as_ref())
    }

    /// What is expected of each point that was measured and did not fail always.
    fn believed(&self) -> Option<Vec<Advice>> {
        let first = self.outcomes().next()?;
        let goals = first.goals.len();
        let limits = first.beyond.len();
        let means = |value: &dyn Fn(&Outcome) -> f64| -> (Vec<Site>, Vec<Point>, Vec<f64>) {
            let (sites, points) = self.sites(value);
            let means = match self.options.method {
                Method::Model => {
                    let process = Process::fit(&sites, None);
                    sites.iter().map(|site| process.at(&site.places).mean).collect()
                }
                Method::Grid | Method::Random => sites.iter().map(|site| site.mean).collect(),
            };
            (sites, points, means)
        };
        let of_goal: Vec<_> = (0..goals).map(|g| means(&move |o: &Outcome| o.goals[g])).collect();
        let of_limit: Vec<_> =
            (0..limits).map(|l| means(&move |o: &Outcome| o.beyond[l])).collect();
        let points = &of_goal[0].1;
        let succeeded = |point: &Point| {
            self.told.iter().any(|trial| trial.point == *point && trial.outcome.is_some())
        };
        let advice = |index: usize| Advice {
            point: points[index].clone(),
            goals: of_goal.iter().map(|(.., means)| means[index]).collect(),
            keeps_limits: of_limit.iter().all(|(.., means)| means[index] <= 0.0),
        };
        Some((0..points.len()).filter(|i| succeeded(&points[*i])).map(advice).collect())
    }

    /// The measurements of a value by their points. A failure counts as the worst value that was seen.
    pub(crate) fn sites(&self, value: &dyn Fn(&Outcome) -> f64) -> (Vec<Site>, Vec<Point>) {
        let worst = self.outcomes().map(value).fold(f64::NEG_INFINITY, f64::max);
        let mut points: Vec<Point> = Vec::new();
        let mut values: Vec<Vec<f64>> = Vec::new();
        for trial in &self.told {
            let value = trial.outcome.as_ref().map_or(worst, value);
            match points.iter().position(|point| *point == trial.point) {
                Some(at) => values[at].push(value),
                None => {
                    points.push(trial.point.clone());
                    values.push(vec![value]);
                }
            }
        }
        let site = |(point, values): (&Point, &Vec<f64>)| {
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            let squares = values.iter().map(|v| (v - mean).powi(2)).sum();
            Site { places: self.space.places(point), count, mean, squares }
        };
        (points.iter().zip(&values).map(site).collect(), points)
    }

    /// The candidate of which most is expected; near the end of the budget, the best one so far.
    fn promising(&mut self, random: &mut Random) -> Point {
        let Some(first) = self.outcomes().next() else { return self.space.any(random) };
        let goals = first.goals.len();
        let limits = first.beyond.len();
        let process = self.process(goals, random);
        let fences: Vec<Process> = (0..limits).map(|l| self.fence(1 + l, l)).collect();
        let (sites, points) = self.sites(&|_: &Outcome| 0.0);
        let holds = |belief: Posterior| normal_cdf(-belief.mean / belief.deviation.max(1e-12));
        let kept = |places: &[_]| -> f64 { fences.iter().map(|f| holds(f.at(places))).product() };
        // What would be taken now: the best of the points that probably keep the limits.
        let now: Vec<(f64, &Point)> = sites
            .iter()
            .zip(&points)
            .filter(|(site, _)| kept(&site.places) >= 0.5)
            .map(|(site, point)| (process.at(&site.places).mean, point))
            .collect();
        let best = now.iter().map(|(mean, _)| *mean).fold(f64::INFINITY, f64::min);
        let candidates = self.candidates(&now, random);
        let noise = process.noise();
        let last = self.told.len() + (self.options.budget / LAST).max(1) >= self.options.budget;
        let worth = |point: &Point| -> f64 {
            let places = self.space.places(point);
            let belief = process.at(&places);
            let chance = kept(&places);
            match (last, best.is_finite()) {
                (true, true) if chance < 0.5 => f64::NEG_INFINITY,
                (true, true) => -belief.mean,
                // Nothing keeps the limits yet: find what does.
                (_, false) => chance,
                (false, true) => improvement(belief, best, noise) * chance,
            }
        };
        let worths: Vec<f64> = candidates.iter().map(worth).collect();
        let order = |a: &usize, b: &usize| worths[*a].total_cmp(&worths[*b]);
        let chosen = (0..candidates.len()).max_by(order);
        chosen.map_or_else(|| self.space.any(random), |index| candidates[index].clone())
    }

    /// The process of the goal; of several, of a scalar whose weights are chosen anew each time (Knowles,
    /// "ParEGO", IEEE Transactions on Evolutionary Computation 2006).
    fn process(&mut self, goals: usize, random: &mut Random) -> Process {
        let weights: Vec<f64> = match goals {
            1 => vec![1.0],
            _ => (0..goals).map(|_| -(1.0 - random.unit()).ln()).collect(),
        };
        let range = |goal: usize| {
            let values = self.outcomes().map(|o| o.goals[goal]);
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)))
        };
        let ranges: Vec<(f64, f64)> = (0..goals).map(range).collect();
        let scalar = |outcome: &Outcome| match &outcome.goals[..] {
            [only] => *only,
            several => scalar(several, &ranges, &weights),
        };
        let (sites, _) = self.sites(&scalar);
        let process = Process::fit(&sites, self.shape(0).as_ref());
        self.keep_shape(0, process.shape.clone());
        process
    }

    fn fence(&mut self, slot: usize, limit: usize) -> Process {
        let (sites, _) = self.sites(&move |outcome: &Outcome| outcome.beyond[limit]);
        let process = Process::fit(&sites, self.shape(slot).as_ref());
        self.keep_shape(slot, process.shape.clone());
        process
    }

    fn shape(&self, slot: usize) -> Option<Shape> {
        self.shapes.get(slot).cloned().flatten()
    }

    fn keep_shape(&mut self, slot: usize, shape: Shape) {
        self.shapes.resize(self.shapes.len().max(slot + 1), None);
        self.shapes[slot] = Some(shape);
    }

    /// All points of a small space; of a large one some of them, and the neighbours of the best.
    fn candidates(&self, now: &[(f64, &Point)], random: &mut Random) -> Vec<Point> {
        let size = self.space.size();
        let mut out: BTreeSet<Point> = BTreeSet::new();
        if size <= WHOLE {
            out.extend((0..size).map(|number| self.space.numbered(number)));
        } else {
            out.extend((0..CANDIDATES).map(|_| self.space.any(random)));
            let mut best = now.to_vec();
            best.sort_by(|a, b| a.0.total_cmp(&b.0));
            for (_, point) in best.iter().take(BEST) {
                out.extend(self.space.beside(point));
            }
        }
        // Points that always failed are not tried again.
        out.into_iter().filter(|point| !self.always_failed(point)).collect()
    }

    /// Whether a point was measured and never gave a value.
    pub(crate) fn always_failed(&self, point: &Point) -> bool {
        let mut here = self.told.iter().filter(|trial| trial.point == *point).peekable();
        here.peek().is_some() && here.all(|trial| trial.outcome.is_none())
    }

    pub(crate) fn seed(&self) -> u64 {
        self.options.seed
    }

    /// How points are chosen.
    pub(crate) fn method(&self) -> Method {
        self.options.method
    }

    /// What the search expects of a point, as an outcome.
    fn expected(&self, point: &Point) -> Option<Outcome> {
        let first = self.outcomes().next()?;
        let places = self.space.places(point);
        let mean = |value: &dyn Fn(&Outcome) -> f64| {
            Process::fit(&self.sites(value).0, None).at(&places).mean
        };
        Some(Outcome {
            goals: (0..first.goals.len()).map(|g| mean(&move |o: &Outcome| o.goals[g])).collect(),
            beyond: (0..first.beyond.len())
                .map(|l| mean(&move |o: &Outcome| o.beyond[l]))
                .collect(),
        })
    }
}

/// The first points of the model: those that fill the space, with the default before, among and after them.
fn opening(space: &Space, options: &Options, random: &mut Random) -> Vec<Point> {
    let least = (2 * space.axes.len()).max(6);
    let start = options.start.unwrap_or_else(|| (options.budget / 5).max(least));
    let mut points = latin(space, start.min(options.budget), random);
    if let Some(default) = &options.default {
        let default = space.canonical(default.clone());
        for copy in 0..DEFAULTS {
            points.insert(
                (copy * points.len()).div_ceil(DEFAULTS - 1).min(points.len()),
                default.clone(),
            );
        }
    }
    points.truncate(options.budget);
    points
}

/// The expected improvement over `best`, less what the noise of one more run takes of it (Huang, Allen,
/// Notz and Zeng, "Global optimization of stochastic black-box systems via sequential kriging
/// meta-models", J. Global Optimization 2006).
fn improvement(belief: Posterior, best: f64, noise: f64) -> f64 {
    let Posterior { mean, deviation } = belief;
    if deviation <= 0.0 {
        return (best - mean).max(0.0);
    }
    let z = (best - mean) / deviation;
    let density = (-0.5 * z * z).exp() / TAU.sqrt();
    let expected = (best - mean) * normal_cdf(z) + deviation * density;
    expected * (1.0 - noise / deviation.hypot(noise))
}

/// Chebyshev's scalar of goals that are brought to their ranges, with a little of their sum.
fn scalar(goals: &[f64], ranges: &[(f64, f64)], weights: &[f64]) -> f64 {
    let parts = goals.iter().zip(ranges).zip(weights).map(|((value, (low, high)), weight)| {
        weight * (value - low) / if high > low { high - low } else { 1.0 }
    });
    let parts: Vec<f64> = parts.collect();
    parts.iter().copied().fold(f64::NEG_INFINITY, f64::max) + SUM * parts.iter().sum::<f64>()
}

fn scalars(beliefs: &[Advice], weights: &[f64]) -> Vec<f64> {
    let goal = |g: usize| beliefs.iter().map(move |belief| belief.goals[g]);
    let range = |g: usize| {
        goal(g).fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)))
    };
    let ranges: Vec<(f64, f64)> = (0..weights.len()).map(range).collect();
    beliefs.iter().map(|belief| scalar(&belief.goals, &ranges, weights)).collect()
}

#[cfg(test)]
mod tests;
