//! How far around a setting others are about as good, by the model.

use crate::process::Process;
use crate::search::{Method, Outcome, Search};
use crate::space::{Levels, Place, Point};
use schedlab_stats::{Random, t_cdf};

/// Neighbouring levels of an axis whose settings are about as good as one point; the other axes stay as
/// that point has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub axis: usize,
    /// The lowest of the levels, by its index on the axis.
    pub first: usize,
    /// The highest of the levels, by its index on the axis.
    pub last: usize,
}

impl Search {
    /// On each axis with an order, the levels around `point` at which the goal is at most `tolerance` above
    /// the value at `point`, each with the probability `sure` (0 to 1) by the Gaussian process. A region
    /// ends at the first level that is not so sure, and at a setting that always failed.
    ///
    /// `None` without a model of a single goal: after a grid or random search, with several goals, and with
    /// limits, which the model judges apart.
    #[must_use]
    pub fn regions(&self, point: &[usize], tolerance: f64, sure: f64) -> Option<Vec<Region>> {
        let processes = self.processes_of_one_goal()?;
        let here = self.space().places(point);
        let is_good = |other: &Point| {
            chance(&processes, &self.space().places(other), &here, tolerance) >= sure
                && !self.always_failed(other)
        };
        let of_axis = |axis: usize| {
            let count = self.space().axes[axis].count();
            let ordered = matches!(self.space().axes[axis].levels, Levels::Ordered(_));
            if !ordered || count < 2 || !self.space().exists(axis, point) {
                return None;
            }
            let good = |level: &usize| {
                let mut other = point.to_vec();
                other[axis] = *level;
                is_good(&self.space().canonical(other))
            };
            let first = (0..point[axis]).rev().take_while(good).last().unwrap_or(point[axis]);
            let last = (point[axis] + 1..count).take_while(good).last().unwrap_or(point[axis]);
            Some(Region { axis, first, last })
        };
        Some((0..self.space().axes.len()).filter_map(of_axis).collect())
    }

    fn processes_of_one_goal(&self) -> Option<Vec<Process>> {
        let outcome = self.trials().iter().find_map(|trial| trial.outcome.as_ref())?;
        let fits =
            self.method() == Method::Model && outcome.goals.len() == 1 && outcome.beyond.is_empty();
        let sites = || self.sites(&|outcome: &Outcome| outcome.goals[0]).0;
        fits.then(|| Process::plausible(&sites(), &mut Random::new(self.seed())))
    }
}

/// The probability that the value at one place is at most `tolerance` above that at another: the mean of
/// what the processes say, each by Student's distribution, since its variance is estimated.
fn chance(processes: &[Process], place: &[Place], here: &[Place], tolerance: f64) -> f64 {
    let one = |process: &Process| {
        let apart = process.difference(place, here);
        let degrees = (process.runs() - 1.0).max(1.0);
        let deviation = apart.deviation * ((degrees + 1.0) / degrees).sqrt();
        let spare = tolerance - apart.mean;
        match deviation > 0.0 {
            true => t_cdf(spare / deviation, degrees),
            false => f64::from(u8::from(spare >= 0.0)),
        }
    };
    processes.iter().map(one).sum::<f64>() / processes.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{drawn, inverse_squares};
    use crate::{Axis, Options, Space};
    use schedlab_stats::Random;

    const SIDE: usize = 12;
    const SURE: f64 = 0.95;

    fn space() -> Space {
        let values: Vec<f64> = (0..SIDE).map(|i| i as f64).collect();
        Space::new(["a", "b"].map(|name| Axis::ordered(name, &values, false)).to_vec())
    }

    /// Searches a function; returns what was searched and the advised point.
    fn searched(value: &dyn Fn(&[usize]) -> f64, noise: f64, seed: u64) -> (Search, Point) {
        let mut search = Search::new(space(), Options { budget: 24, seed, ..Options::default() });
        let mut random = Random::new(seed ^ 0xfeed);
        while let Some(point) = search.ask() {
            let measured = value(&point) + noise * random.normal();
            search.tell(point, Outcome::of(measured));
        }
        let point = search.advice().expect("nothing fails").point;
        (search, point)
    }

    #[test]
    fn a_region_spans_a_dead_axis_and_only_the_valley_of_the_other() {
        let value = |point: &[usize]| 0.01 * (point[0] as f64 - 6.0).powi(2);
        let (search, point) = searched(&value, 0.0005, 1);
        assert_eq!(point[0], 6);
        let found = search.regions(&point, 0.05, SURE).unwrap();
        // Two steps cost 0.04, so near to the tolerance that the noise decides; three cost 0.09.
        assert!((4..=5).contains(&found[0].first), "{found:?}");
        assert!((7..=8).contains(&found[0].last), "{found:?}");
        assert_eq!((found[1].first, found[1].last), (0, SIDE - 1), "{found:?}");
    }

    #[test]
    fn nothing_is_claimed_without_a_model_of_one_goal() {
        let method = Method::Random;
        let mut random = Search::new(space(), Options { method, ..Options::default() });
        random.tell(vec![1, 1], Outcome::of(1.0));
        assert_eq!(random.regions(&[1, 1], 0.1, SURE), None);
        let mut limited = Search::new(space(), Options::default());
        limited.tell(vec![1, 1], Outcome { goals: vec![1.0], beyond: vec![-1.0] });
        assert_eq!(limited.regions(&[1, 1], 0.1, SURE), None);
    }

    /// How often the truth lies below the bound that the model gives with 95 %: over functions that are
    /// drawn from processes of other lengths each, at all levels beside the advised point.
    #[test]
    fn the_bounds_behind_a_region_hold_as_often_as_stated() {
        let places: Vec<_> =
            (0..SIDE * SIDE).map(|n| space().places(&[n % SIDE, n / SIDE])).collect();
        let mut held = 0_u32;
        let mut all = 0_u32;
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let shape: Vec<f64> =
                (0..2).map(|_| -0.7 + 0.6 * random.normal()).chain([0.0]).collect();
            let truth = drawn(&places, &inverse_squares(&shape), &mut random);
            let value = |point: &[usize]| 0.1 * truth[point[0] + SIDE * point[1]];
            let (search, best) = searched(&value, 0.02, seed);
            let processes = search.processes_of_one_goal().unwrap();
            for (n, place) in places.iter().enumerate() {
                let point = [n % SIDE, n / SIDE];
                if (point[0] == best[0]) == (point[1] == best[1]) {
                    continue;
                }
                let truth = value(&point) - value(&best);
                let below = chance(&processes, place, &space().places(&best), truth);
                held += u32::from(below <= SURE);
                all += 1;
            }
        }
        let coverage = f64::from(held) / f64::from(all);
        assert!((0.90..=0.98).contains(&coverage), "{coverage} of {all} levels");
    }
}
