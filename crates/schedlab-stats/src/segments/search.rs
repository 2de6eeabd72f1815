//! Which segments there are: the best of all splits by a criterion that counts places as parameters too.
//!
//! Each parameter of a segment costs the logarithm of its points, and each place twice that of all points: the modified
//! criterion of Zhang and Siegmund ("A modified Bayes information criterion with applications to the analysis of
//! comparative genomic hybridization data", Biometrics 2007), for segments with more than one parameter. All splits are
//! tried (Jackson et al., "An algorithm for optimal partitioning of data on an interval", 2005).

use super::likelihood::{Fitted, POPULATION_MIN, growing, one_line, two_lines};

/// A segment has so many points at least.
pub(super) const SEGMENT_MIN: usize = 8;
/// A place costs so much more, so that fewer than 5 % of sweeps without a change have one.
const SURE: f64 = 6.0;
/// At so many places a split is tried first; the places are then moved one by one.
const PLACES: usize = 48;

/// Points in order of x, and what is known of them all.
pub(super) struct Sweep<'p> {
    pub(super) points: &'p [(f64, f64)],
    /// A smaller spread is rounding.
    pub(super) floor: f64,
}

impl<'p> Sweep<'p> {
    pub(super) fn new(points: &'p [(f64, f64)]) -> Self {
        let largest = points.iter().fold(f64::MIN_POSITIVE, |most, p| most.max(p.1.abs()));
        Self { points, floor: 1e-9 * largest }
    }

    /// What a place costs.
    pub(super) fn place(&self) -> f64 {
        2.0 * (self.points.len() as f64).ln() + SURE
    }

    /// Whether a segment may begin there: points of one x belong to one segment.
    fn is_place(&self, at: usize) -> bool {
        at == 0 || at == self.points.len() || self.points[at - 1].0 < self.points[at].0
    }

    /// What fits the points of a range, with one line or two, and what that costs.
    pub(super) fn fit(&self, from: usize, to: usize, lines: usize) -> Option<(f64, Fitted)> {
        let points = &self.points[from..to];
        if points.first()?.0 == points.last()?.0 {
            return None;
        }
        let log = (points.len() as f64).ln();
        let one = one_line(points, self.floor);
        if lines == 1 {
            let grows = growing(points, &one, self.floor);
            let costs = [3.0 * log - 2.0 * one.likelihood, 4.0 * log - 2.0 * grows.likelihood];
            return Some(if costs[1] < costs[0] { (costs[1], grows) } else { (costs[0], one) });
        }
        let two = two_lines(points, &one, self.floor)?;
        Some((6.0 * log - 2.0 * two.likelihood, two))
    }

    /// Fits one population and two, and takes the better fit.
    fn best(&self, from: usize, to: usize) -> Option<(f64, usize)> {
        let one = self.fit(from, to, 1)?.0;
        let two = match to - from >= 2 * POPULATION_MIN {
            true => self.fit(from, to, 2).map_or(f64::INFINITY, |two| two.0),
            false => f64::INFINITY,
        };
        // A further population is claimed only where it is clear: it has to pay for its place as well.
        let two = two + self.place();
        Some(if two < one { (two, 2) } else { (one, 1) })
    }

    /// The segments: where each begins, and how many lines it has.
    pub(super) fn split(&self) -> Vec<(usize, usize)> {
        let n = self.points.len();
        let grid = n.div_ceil(PLACES).max(1);
        let mut places: Vec<usize> = (0..n).step_by(grid).filter(|&at| self.is_place(at)).collect();
        places.push(n);
        // By place, the least cost up to there, and where the last segment begins, with its lines.
        let mut costs = vec![f64::INFINITY; places.len()];
        let mut before = vec![(0, 1); places.len()];
        costs[0] = -self.place();
        for to in 1..places.len() {
            for from in 0..to {
                let long = places[to] - places[from] >= SEGMENT_MIN;
                if !long || !costs[from].is_finite() {
                    continue;
                }
                let Some((cost, lines)) = self.best(places[from], places[to]) else { continue };
                let cost = costs[from] + cost + self.place();
                if cost < costs[to] {
                    (costs[to], before[to]) = (cost, (from, lines));
                }
            }
        }
        let mut segments = Vec::new();
        let mut at = places.len() - 1;
        while at > 0 {
            let (from, lines) = before[at];
            segments.push((places[from], lines));
            at = from;
        }
        segments.reverse();
        self.settle(&mut segments, grid);
        segments
    }

    /// From where to where a segment may begin so that twice the logarithm of the likelihood is at most `sure` smaller
    /// than the largest, the other places being as they are.
    pub(super) fn likely_places(
        &self,
        segments: &[(usize, usize)],
        at: usize,
        sure: f64,
    ) -> (f64, f64) {
        let (from, before) = segments[at - 1];
        let (chosen, lines) = segments[at];
        let to = segments.get(at + 1).map_or(self.points.len(), |next| next.0);
        let likelihood = |place: usize| {
            let sides = self.fit(from, place, before).zip(self.fit(place, to, lines));
            sides.map_or(f64::NEG_INFINITY, |(a, b)| a.1.likelihood + b.1.likelihood)
        };
        let all = from + SEGMENT_MIN * before..=to.saturating_sub(SEGMENT_MIN * lines);
        let places = all.filter(|&place| self.is_place(place));
        let all: Vec<(usize, f64)> = places.map(|place| (place, likelihood(place))).collect();
        let most = all.iter().map(|one| one.1).fold(f64::NEG_INFINITY, f64::max);
        let likely = all.iter().filter(|one| 2.0 * (most - one.1) <= sure).map(|one| one.0);
        let (low, high) = likely.fold((chosen, chosen), |(low, high), p| (low.min(p), high.max(p)));
        (self.points[low - 1].0, self.points[high].0)
    }

    /// Moves each place to where the segments on both sides cost least, by at most `reach` points.
    pub(super) fn settle(&self, segments: &mut [(usize, usize)], reach: usize) {
        for at in 1..segments.len() {
            let (from, before) = segments[at - 1];
            let (place, lines) = segments[at];
            let to = segments.get(at + 1).map_or(self.points.len(), |next| next.0);
            let least = (from + SEGMENT_MIN * before).max(place.saturating_sub(reach));
            let most = to.saturating_sub(SEGMENT_MIN * lines).min(place + reach);
            let cost = |place: usize| {
                let sides = self.fit(from, place, before).zip(self.fit(place, to, lines));
                sides.map_or(f64::INFINITY, |(a, b)| a.0 + b.0)
            };
            let places = (least..=most).filter(|&place| self.is_place(place));
            let best = places.map(|place| (cost(place), place)).min_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((_, place)) = best.filter(|(cost, _)| cost.is_finite()) {
                segments[at].0 = place;
            }
        }
    }
}
