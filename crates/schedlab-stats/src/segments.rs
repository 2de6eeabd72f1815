//! Segmented regression: where the line through a sweep changes, its populations, and what each has for a line.

mod likelihood;
mod search;

use crate::fit::Line;
use crate::interval::Method;
use crate::{Interval, Random, SampleError};
use likelihood::Fitted;
use search::Sweep;

/// Samples of the bootstrap.
const SAMPLES: usize = 199;
/// A place whose log likelihood is smaller than the largest by more than half of this is not the place, with 95 %:
/// `-2 ln(1 - sqrt(0.95))` (Siegmund, "Confidence sets in change-point problems", Int. Stat. Review 1988).
const PLACE_SURE: f64 = 7.35;
/// Points up to whose x a place is moved in a sample of the bootstrap.
const REACH: usize = 12;
/// The criterion must prefer a change of the line itself by so much, beyond a change of spread at the same place: the
/// place was chosen for both.
const BEYOND: f64 = 12.0;

/// What is different behind a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The slope, while the line goes on from where it is.
    Kink,
    /// The level, while the slope stays.
    Step,
    /// Slope and level.
    Line,
    /// The spread around one and the same line.
    Spread,
    /// How many populations there are.
    Populations,
}

/// A place at which a sweep changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Where.
    pub x: Interval,
    /// What is different from there on.
    pub kind: Kind,
    /// By how much the line rises at the place; 0 for a kink or a change of spread.
    pub step: f64,
}

/// A line through the points of a population.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Population {
    /// The part of the segment's points.
    pub share: f64,
    /// The fitted line of this population.
    pub line: Line,
    /// The growth for each unit of x, with its interval.
    pub slope: Interval,
    /// The value at x = 0; `None`: the segment does not reach there.
    pub at_zero: Option<Interval>,
}

/// A part of a sweep with lines of its own.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Segment {
    /// The x of the first point.
    pub from: f64,
    /// The x of the last point.
    pub to: f64,
    /// How many points there are.
    pub points: usize,
    /// One, or two that lie side by side; the larger one first.
    pub populations: Vec<Population>,
    /// The scale of the noise around the lines at the first point and at the last one.
    pub spread: [f64; 2],
}

/// A sweep in segments.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Segments {
    /// In order of x.
    pub segments: Vec<Segment>,
    /// Between them.
    pub changes: Vec<Change>,
}

/// Splits a sweep into segments. A segment and a population have at least eight points. Intervals have 95 %. Those of
/// lines and kinks are of a bootstrap of the residuals (Efron 1979) which looks for the places again in each sample.
/// Those of other places reach as far as places are about as likely (Siegmund 1988): a bootstrap that keeps the points
/// where they are would take the place of a break for much too certain.
///
/// # Errors
/// Below eight points, where all x are the same, or where a value is not finite.
pub fn segments(points: &[(f64, f64)]) -> Result<Segments, SampleError> {
    let need = search::SEGMENT_MIN;
    if points.len() < need {
        return Err(SampleError::TooFew { have: points.len(), need });
    }
    if !points.iter().all(|(x, y)| x.is_finite() && y.is_finite()) {
        return Err(SampleError::NotFinite);
    }
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let sweep = Sweep::new(&sorted);
    if sorted[0].0.total_cmp(&sorted[sorted.len() - 1].0).is_eq() {
        return Err(SampleError::NoSpread);
    }
    let (split, model) = find(&sweep).ok_or(SampleError::NoSpread)?;
    Ok(model.told(&sweep, &split))
}

/// The segments without their intervals.
fn find(sweep: &Sweep<'_>) -> Option<(Vec<(usize, usize)>, Model)> {
    let split = join(sweep, sweep.split());
    let model = Model::of(sweep, &split)?;
    Some((split, model))
}

/// A segment's range and what fits it.
#[derive(Clone, Debug)]
struct Part {
    from: usize,
    to: usize,
    fitted: Fitted,
}

/// What was found in a sweep, or in a sample of its bootstrap.
struct Model {
    parts: Vec<Part>,
    /// Between the parts: x, kind, step.
    changes: Vec<(f64, Kind, f64)>,
}

fn ends(split: &[(usize, usize)], n: usize) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
    let to = split.iter().skip(1).map(|next| next.0).chain([n]);
    split.iter().zip(to).map(|(&(from, lines), to)| (from, to, lines))
}

/// Takes out places at which neither the line, nor the spread, nor the populations change by the criterion once the other
/// places are settled.
fn join(sweep: &Sweep<'_>, mut split: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    let n = sweep.points.len();
    let mut at = 1;
    while at < split.len() {
        let (from, before) = split[at - 1];
        let (mid, lines) = split[at];
        let to = split.get(at + 1).map_or(n, |next| next.0);
        let cost = |from, to, lines| sweep.fit(from, to, lines).map_or(f64::INFINITY, |fit| fit.0);
        let apart = cost(from, mid, before) + cost(mid, to, lines) + sweep.place();
        let more = before.max(lines);
        if cost(from, to, more) < apart {
            split[at - 1].1 = more;
            split.remove(at);
        } else {
            at += 1;
        }
    }
    split
}

impl Model {
    fn of(sweep: &Sweep<'_>, split: &[(usize, usize)]) -> Option<Self> {
        let part = |(from, to, lines)| {
            let (_, fitted) = sweep.fit(from, to, lines)?;
            Some(Part { from, to, fitted })
        };
        let parts: Vec<Part> = ends(split, sweep.points.len()).map(part).collect::<Option<_>>()?;
        let changes = parts.windows(2).map(|pair| change(sweep, &pair[0], &pair[1])).collect();
        Some(Self { parts, changes })
    }

    /// The model with its intervals.
    fn told(self, sweep: &Sweep<'_>, split: &[(usize, usize)]) -> Segments {
        let samples = samples(sweep, split, &self);
        let interval = |estimate: f64, of: &dyn Fn(&Model) -> Option<f64>| {
            let mut values: Vec<f64> = samples.iter().filter_map(of).collect();
            values.sort_by(f64::total_cmp);
            let at = |part: f64| values.get((part * values.len() as f64) as usize).copied();
            let low = at(0.025).unwrap_or(f64::NAN);
            let high = at(0.975).unwrap_or(f64::NAN);
            Interval { low, estimate, high, level: 0.95, method: Method::Bootstrap }
        };
        let segment = |(number, part): (usize, &Part)| {
            let points = &sweep.points[part.from..part.to];
            let from = points[0].0;
            let to = points[points.len() - 1].0;
            // A line says nothing of where no points are near.
            let reaches = number == 0 && from >= 0.0 && from <= (to - from) / 10.0;
            let population = |(of, &line): (usize, &Line)| {
                let share = if of == 0 { part.fitted.share } else { 1.0 - part.fitted.share };
                let line_of =
                    move |model: &Model| model.parts[number].fitted.lines.get(of).copied();
                let slope = interval(line.slope, &|model| Some(line_of(model)?.slope));
                let zero = || interval(line.intercept, &|model| Some(line_of(model)?.intercept));
                Population { share, line, slope, at_zero: reaches.then(zero) }
            };
            let mut populations: Vec<Population> =
                part.fitted.lines.iter().enumerate().map(population).collect();
            populations.sort_by(|a, b| b.share.total_cmp(&a.share));
            let spread = [part.fitted.scale_at(from), part.fitted.scale_at(to)];
            Segment { from, to, points: points.len(), populations, spread }
        };
        let change = |(number, &(x, kind, step)): (usize, &(f64, Kind, f64))| {
            let x = match kind {
                Kind::Kink => interval(x, &|model| Some(model.changes[number].0)),
                _ => {
                    let (low, high) = sweep.likely_places(split, number + 1, PLACE_SURE);
                    let method = Method::Likelihood;
                    Interval { low, estimate: x, high, level: 0.95, method }
                }
            };
            Change { x, kind, step }
        };
        Segments {
            segments: self.parts.iter().enumerate().map(segment).collect(),
            changes: self.changes.iter().enumerate().map(change).collect(),
        }
    }
}

/// What changes between two parts, and where.
fn change(sweep: &Sweep<'_>, a: &Part, b: &Part) -> (f64, Kind, f64) {
    let left = &sweep.points[a.from..a.to];
    let right = &sweep.points[b.from..b.to];
    let x = f64::midpoint(left[left.len() - 1].0, right[0].0);
    let mean = |fitted: &Fitted, x: f64| {
        let shares = [fitted.share, 1.0 - fitted.share];
        fitted.lines.iter().zip(shares).map(|(line, share)| share * line.at(x)).sum::<f64>()
    };
    let step = mean(&b.fitted, x) - mean(&a.fitted, x);
    if a.fitted.lines.len() != b.fitted.lines.len() {
        return (x, Kind::Populations, step);
    }
    if a.fitted.lines.len() > 1 {
        return (x, Kind::Line, step);
    }
    // Weighted by the spread of each part and by how far off a point is: what the fits of the parts ended with.
    let both = [(a, left), (b, right)];
    let weight = |part: &Part, p: (f64, f64)| {
        let scale = part.fitted.scale_at(p.0);
        let off = part.fitted.lines[0].residual(p) / scale;
        5.0 / (4.0 + off * off) / scale.powi(2)
    };
    let weighted: Vec<(f64, f64, f64)> = both
        .iter()
        .flat_map(|(part, points)| points.iter().map(|&p| (p.0, p.1, weight(part, p))))
        .collect();
    let log = (weighted.len() as f64).ln();
    let squares = |columns: &[&dyn Fn(f64) -> f64]| least(&weighted, columns);
    let behind = move |at: f64| f64::from(u8::from(at > x));
    let one = |_: f64| 1.0;
    let slope = |at: f64| at;
    let same = squares(&[&one, &slope]);
    let stepped = squares(&[&one, &slope, &behind]) + log;
    let apart = squares(&[&one, &slope, &behind, &|at| behind(at) * at]) + 2.0 * log;
    // Where the lines of both parts meet, and the points around.
    let near = REACH.min(left.len() / 2).min(right.len() / 2).max(1);
    let last = a.fitted.lines[0];
    let next = b.fitted.lines[0];
    let meet = (last.intercept - next.intercept) / (next.slope - last.slope);
    let around = [left[left.len() - near].0, right[near - 1].0];
    let meet = Some(meet).filter(|meet| (around[0]..=around[1]).contains(meet));
    let knots = left[left.len() - near..].iter().chain(&right[..near]).map(|p| p.0).chain(meet);
    let kinked = knots
        .map(|knot| (squares(&[&one, &slope, &|at: f64| (at - knot).max(0.0)]) + log, knot))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let (kinked, knot) = kinked.unwrap_or((f64::INFINITY, x));
    let least = stepped.min(apart).min(kinked);
    if same < least + BEYOND {
        (x, Kind::Spread, 0.0)
    } else if kinked <= stepped.min(apart) {
        (knot, Kind::Kink, 0.0)
    } else if stepped <= apart {
        (x, Kind::Step, step)
    } else {
        (x, Kind::Line, step)
    }
}

/// The weighted sum of squares that columns of x leave.
fn least(points: &[(f64, f64, f64)], columns: &[&dyn Fn(f64) -> f64]) -> f64 {
    let count = columns.len();
    let mut rows = vec![vec![0.0; count + 1]; count];
    let mut all = 0.0;
    for &(x, y, weight) in points {
        let values: Vec<f64> = columns.iter().map(|column| column(x)).collect();
        for (row, a) in rows.iter_mut().zip(&values) {
            row.iter_mut().zip(values.iter().chain([&y])).for_each(|(r, b)| *r += weight * a * b);
        }
        all += weight * y * y;
    }
    let products: Vec<f64> = rows.iter().map(|row| row[count]).collect();
    for at in 0..count {
        let pivot = rows[at].clone();
        if pivot[at].abs() < 1e-12 * all.max(f64::MIN_POSITIVE) && pivot[at] <= 0.0 {
            continue;
        }
        for (number, row) in rows.iter_mut().enumerate() {
            if number != at {
                let factor = row[at] / pivot[at];
                row.iter_mut().zip(&pivot).for_each(|(r, p)| *r -= factor * p);
            }
        }
    }
    let explained: f64 = (0..count).map(|at| rows[at][count] / rows[at][at] * products[at]).sum();
    (all - explained).max(0.0)
}

/// The same found in samples of the bootstrap: of each point the line stays, and the noise is drawn anew from its segment.
fn samples(sweep: &Sweep<'_>, split: &[(usize, usize)], model: &Model) -> Vec<Model> {
    let mut random = Random::new(sweep.points.len() as u64);
    let kinds: Vec<Kind> = model.changes.iter().map(|change| change.1).collect();
    let mut found = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let mut sample = sweep.points.to_vec();
        for part in &model.parts {
            let points = &sweep.points[part.from..part.to];
            let drawn = |&p: &(f64, f64)| part.fitted.drawn(p, random.unit());
            let near: Vec<(usize, f64)> = points.iter().map(drawn).collect();
            let parameters = 2.0 * part.fitted.lines.len() as f64;
            let n = points.len() as f64;
            let wider = (n / (n - parameters).max(1.0)).sqrt();
            for (at, &(line, _)) in near.iter().enumerate() {
                let x = points[at].0;
                let from = random.below(near.len());
                let growth = part.fitted.scale_at(x) / part.fitted.scale_at(points[from].0);
                let noise = wider * growth * near[from].1;
                sample[part.from + at].1 = part.fitted.lines[line].at(x) + noise;
            }
        }
        let again = Sweep::new(&sample);
        let mut split = split.to_vec();
        again.settle(&mut split, REACH);
        let Some(mut model_of) = Model::of(&again, &split) else { continue };
        // The place of a kink is that of its knot in each sample.
        for (change, &kind) in model_of.changes.iter_mut().zip(&kinds) {
            change.1 = kind;
        }
        align(sweep, &mut model_of, model);
        found.push(model_of);
    }
    found
}

/// Gives the two lines of a part the order that they have in the sweep.
fn align(sweep: &Sweep<'_>, sample: &mut Model, model: &Model) {
    for (part, of) in sample.parts.iter_mut().zip(&model.parts) {
        let ends = [sweep.points[of.from].0, sweep.points[of.to - 1].0];
        if let ([a, b], [first, second]) = (&part.fitted.lines[..], &of.fitted.lines[..]) {
            // Lines that lie side by side may have one slope: what tells them apart is where they lie.
            let far =
                |a: &Line, b: &Line| ends.iter().map(|&x| (a.at(x) - b.at(x)).abs()).sum::<f64>();
            if far(a, first) + far(b, second) > far(b, first) + far(a, second) {
                part.fitted.lines.swap(0, 1);
                part.fitted.share = 1.0 - part.fitted.share;
            }
        }
    }
}

#[cfg(test)]
mod tests;
