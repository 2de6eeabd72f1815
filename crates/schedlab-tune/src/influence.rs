//! Which axes matter, by a test that later steps of the search do not affect: it looks only at the points
//! that fill the space.

use crate::space::{Place, Space};
use crate::{Point, Trial};
use schedlab_stats::Random;

/// Shuffles of the test.
const SHUFFLES: usize = 999;
/// Points from which on a test can say anything.
const POINTS_MIN: usize = 6;

/// What the test says of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Influence {
    pub axis: usize,
    /// The chance of such a dependence if the axis does nothing; not corrected for the number of axes.
    pub p: f64,
}

/// Tests each axis by shuffling (Fisher, "The Design of Experiments", 1935): how much of the ranks of the
/// values a straight line, a parabola or the groups of words explain, against the same of shuffled ranks.
/// None for axes with fewer than six points, and for values that are all the same.
#[must_use]
pub fn influences(space: &Space, opening: &[Trial], seed: u64) -> Vec<Influence> {
    let known: Vec<(&Point, f64)> = opening
        .iter()
        .filter_map(|trial| Some((&trial.point, trial.outcome.as_ref()?.goals.first().copied()?)))
        .collect();
    let mut random = Random::new(seed);
    let mut out = Vec::new();
    for axis in 0..space.axes.len() {
        let mut places = Vec::new();
        let mut values = Vec::new();
        for (point, value) in &known {
            let place = space.places(point)[axis];
            if place != Place::Off {
                places.push(place);
                values.push(*value);
            }
        }
        let mut ranks = ranked(&values);
        let spread = ranks.iter().any(|rank| *rank != ranks[0]);
        if places.len() < POINTS_MIN || !spread {
            continue;
        }
        let seen = explained(&places, &ranks);
        let mut beyond = 1;
        for _ in 0..SHUFFLES {
            random.shuffle(&mut ranks);
            beyond += usize::from(explained(&places, &ranks) >= seen - 1e-12);
        }
        out.push(Influence { axis, p: beyond as f64 / (SHUFFLES + 1) as f64 });
    }
    out
}

/// Ranks, centred; values that are the same share one.
fn ranked(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count() as f64;
        let same = values.iter().filter(|other| *other == value).count() as f64;
        below + same / 2.0 - values.len() as f64 / 2.0
    };
    values.iter().map(rank).collect()
}

/// The share of the ranks' squares that the axis explains.
fn explained(places: &[Place], ranks: &[f64]) -> f64 {
    let total: f64 = ranks.iter().map(|rank| rank * rank).sum();
    if let [Place::Word(_), ..] = places {
        let mut groups: Vec<(usize, f64, f64)> = Vec::new();
        for (place, rank) in places.iter().zip(ranks) {
            let Place::Word(word) = *place else { continue };
            match groups.iter_mut().find(|(known, ..)| *known == word) {
                Some((_, sum, count)) => (*sum, *count) = (*sum + rank, *count + 1.0),
                None => groups.push((word, *rank, 1.0)),
            }
        }
        return groups.iter().map(|(_, sum, count)| sum * sum / count).sum::<f64>() / total;
    }
    let at = |place: &Place| if let Place::At(at) = place { *at } else { 0.5 };
    let line: Vec<f64> = places.iter().map(at).collect();
    let bent: Vec<f64> = line.iter().map(|x| (x - 0.5).powi(2)).collect();
    correlated(&line, ranks).max(correlated(&bent, ranks))
}

/// The squared correlation of two lists of values.
fn correlated(x: &[f64], y: &[f64]) -> f64 {
    let n = x.len() as f64;
    let mx = x.iter().sum::<f64>() / n;
    let my = y.iter().sum::<f64>() / n;
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| f(x - mx, y - my)).sum()
    };
    let xx = sum(&|x, _| x * x);
    let yy = sum(&|_, y| y * y);
    let xy = sum(&|x, y| x * y);
    if xx > 0.0 && yy > 0.0 { xy * xy / (xx * yy) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Outcome, design};

    #[test]
    fn of_400_dead_axes_few_are_called_alive_and_a_living_one_is() {
        let values: Vec<f64> = (0..24).map(f64::from).collect();
        let mut axes: Vec<Axis> =
            (0..4).map(|i| Axis::ordered(&format!("dead{i}"), &values, false)).collect();
        axes.push(Axis::ordered("alive", &values, false));
        let space = Space::new(axes);
        let mut dead = 0;
        let mut alive = 0;
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let trial = |point: Point| {
                let value = point[4] as f64 / 24.0 + 0.1 * random.normal();
                Trial { outcome: Some(Outcome::of(value)), point }
            };
            let opening: Vec<Trial> =
                design::latin(&space, 16, &mut Random::new(seed)).into_iter().map(trial).collect();
            for found in influences(&space, &opening, seed) {
                let called = usize::from(found.p <= 0.05);
                if found.axis == 4 { alive += called } else { dead += called }
            }
        }
        // 20 are expected, with a standard deviation of 4.4.
        assert!(dead <= 33, "{dead} of 400");
        assert!(alive >= 95, "{alive} of 100");
    }
}
