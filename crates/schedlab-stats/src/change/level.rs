//! Changes of level in a sweep: points in order of x with one gradient, which a step moves up or down.
//!
//! Each round asks whether one more step is there. A robust fit of the line with the steps found so far leaves residuals;
//! their *normal scores* by rank stand for them, so that heavy tails and rare outliers weigh no more than normal noise
//! does. For each place the scores are held against a step there, as far as the line and the other steps cannot take it
//! up (an aligned rank test: Puri and Sen, "Nonparametric Methods in General Linear Models", 1985). How large the
//! best of all places gets by luck is found by shuffling the scores, so no table of the noise is needed.

use crate::{Random, normal_quantile};

/// A curve without a step gets one in this many cases at most.
const RISK: f64 = 0.025;
/// Shuffles that a step must stand out from.
const SHUFFLES: usize = 999;
/// A level holds this many points at least: one point alone is an outlier.
const POINTS_MIN: usize = 2;
/// Huber's bend, in standard deviations of normal noise.
const BEND: f64 = 1.345;
/// Differences below this part of the largest value are rounding.
const ROUNDING: f64 = 1e-9;

/// Where points in ascending order of x go from one level to another while one gradient holds throughout: the index
/// of the first point of each further level, ascending. Of sweeps without a step, fewer than 5 % have one, whether the
/// noise is normal, has heavy tails or has rare outliers.
#[must_use]
pub fn level_changes(sorted: &[(f64, f64)]) -> Vec<usize> {
    let mut starts: Vec<usize> = Vec::new();
    while starts.len() < sorted.len() / 8 {
        let scores = scores(sorted, &starts);
        let Some(place) = stands_out(&Design::new(sorted, &starts), &scores) else { break };
        starts.push(place);
        starts.sort_unstable();
    }
    settle(sorted, &mut starts);
    starts
}

/// Looks for the place of each step again, now that the others are known.
fn settle(sorted: &[(f64, f64)], starts: &mut [usize]) {
    if starts.len() < 2 {
        return;
    }
    for step in 0..starts.len() {
        let others: Vec<usize> =
            (0..starts.len()).filter(|&other| other != step).map(|other| starts[other]).collect();
        let design = Design::new(sorted, &others);
        let (place, _) = design.best(&scores(sorted, &others));
        let from = step.checked_sub(1).map_or(0, |before| starts[before]);
        let to = starts.get(step + 1).copied().unwrap_or(sorted.len());
        if (from + POINTS_MIN..=to.saturating_sub(POINTS_MIN)).contains(&place) {
            starts[step] = place;
        }
    }
}

/// The best place of one more step, if luck hardly ever makes one as good.
fn stands_out(design: &Design, scores: &[f64]) -> Option<usize> {
    let (place, found) = design.best(scores);
    if place == 0 {
        return None;
    }
    let allowed = (RISK * (SHUFFLES + 1) as f64) as usize;
    let mut random = Random::new(design.length() as u64);
    let mut shuffled = scores.to_vec();
    let mut as_good = 1;
    for _ in 0..SHUFFLES {
        random.shuffle(&mut shuffled);
        as_good += usize::from(design.best(&shuffled).1 >= found);
        if as_good > allowed {
            return None;
        }
    }
    Some(place)
}

/// What a fit without a further step can take up: constant, x and the steps so far, as columns at right angles.
struct Design {
    columns: Vec<Vec<f64>>,
    /// For each place, what is left of a step there, squared; 0 where no step may be.
    left: Vec<f64>,
    /// Sums of each column from each place on.
    behind: Vec<Vec<f64>>,
}

impl Design {
    fn new(sorted: &[(f64, f64)], starts: &[usize]) -> Self {
        let n = sorted.len();
        let step = |start: usize| (0..n).map(|i| f64::from(u8::from(i >= start))).collect();
        let mut raw = vec![vec![1.0; n], sorted.iter().map(|p| p.0).collect()];
        raw.extend(starts.iter().map(|&start| step(start)));
        let mut columns: Vec<Vec<f64>> = Vec::new();
        for mut column in raw {
            let before = length(&column);
            // Twice, against rounding.
            for _ in 0..2 {
                for other in &columns {
                    let along = dot(&column, other);
                    column.iter_mut().zip(other).for_each(|(c, o)| *c -= along * o);
                }
            }
            let rest = length(&column);
            if rest > 1e-9 * before {
                column.iter_mut().for_each(|c| *c /= rest);
                columns.push(column);
            }
        }
        let behind: Vec<Vec<f64>> = columns.iter().map(|column| sums_behind(column)).collect();
        let near = |place: usize| {
            place < POINTS_MIN
                || place + POINTS_MIN > n
                || starts.iter().any(|&start| start.abs_diff(place) < POINTS_MIN)
        };
        let left = (0..n)
            .map(|place| {
                if near(place) {
                    return 0.0;
                }
                let taken: f64 = behind.iter().map(|sums| sums[place] * sums[place]).sum();
                let left = (n - place) as f64 - taken;
                if left > 1e-9 * n as f64 { left } else { 0.0 }
            })
            .collect();
        Self { columns, left, behind }
    }

    fn length(&self) -> usize {
        self.left.len()
    }

    /// The place at which a step explains most of the scores, and which share of them; 0 where there is none.
    fn best(&self, scores: &[f64]) -> (usize, f64) {
        let along: Vec<f64> = self.columns.iter().map(|column| dot(column, scores)).collect();
        let all = dot(scores, scores) - along.iter().map(|a| a * a).sum::<f64>();
        let mut best = (0, 0.0);
        let mut sum = 0.0;
        for place in (0..scores.len()).rev() {
            sum += scores[place];
            if self.left[place] > 0.0 {
                let taken: f64 =
                    self.behind.iter().zip(&along).map(|(sums, a)| sums[place] * a).sum();
                let explained = (sum - taken).powi(2) / self.left[place];
                if explained > best.1 {
                    best = (place, explained);
                }
            }
        }
        (best.0, if all > 0.0 { best.1 / all } else { 0.0 })
    }
}

/// Normal scores of the ranks of what a robust fit leaves; equal ones share theirs.
fn scores(sorted: &[(f64, f64)], starts: &[usize]) -> Vec<f64> {
    let left = residuals(sorted, starts);
    let n = left.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| left[a].total_cmp(&left[b]));
    let mut scores = vec![0.0; n];
    for same in order.chunk_by(|&a, &b| left[a].total_cmp(&left[b]).is_eq()) {
        let before = left.iter().filter(|&&other| other < left[same[0]]).count();
        let rank = before as f64 + (same.len() as f64 + 1.0) / 2.0;
        let score = normal_quantile(rank / (n as f64 + 1.0));
        same.iter().for_each(|&at| scores[at] = score);
    }
    scores
}

/// What Huber's fit of a line with steps leaves ("Robust estimation of a location parameter", 1964), rounded to what is
/// more than rounding.
fn residuals(sorted: &[(f64, f64)], starts: &[usize]) -> Vec<f64> {
    let columns = Design::new(sorted, starts).columns;
    let y: Vec<f64> = sorted.iter().map(|p| p.1).collect();
    let grain = ROUNDING * y.iter().fold(f64::MIN_POSITIVE, |most, y| most.max(y.abs()));
    let mut weights = vec![1.0; y.len()];
    let mut left = y.clone();
    for _ in 0..30 {
        let factors = weighted(&columns, &weights, &y);
        let fitted = |i: usize| columns.iter().zip(&factors).map(|(c, f)| c[i] * f).sum::<f64>();
        let next: Vec<f64> = (0..y.len()).map(|i| y[i] - fitted(i)).collect();
        let moved = next.iter().zip(&left).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        left = next;
        let mut off: Vec<f64> = left.iter().map(|r| r.abs()).collect();
        off.sort_by(f64::total_cmp);
        let scale = 1.482_602_218_505_602 * off[off.len() / 2];
        if moved <= grain || scale <= grain {
            break;
        }
        weights = left.iter().map(|r| (BEND * scale / r.abs()).min(1.0)).collect();
    }
    left.iter().map(|r| (r / grain).round() * grain).collect()
}

/// The factors of the columns by weighted least squares.
fn weighted(columns: &[Vec<f64>], weights: &[f64], y: &[f64]) -> Vec<f64> {
    let count = columns.len();
    let product = |a: &[f64], b: &[f64]| {
        a.iter().zip(b).zip(weights).map(|((a, b), w)| a * b * w).sum::<f64>()
    };
    let mut rows: Vec<Vec<f64>> = columns
        .iter()
        .map(|row| columns.iter().map(|c| product(row, c)).chain([product(row, y)]).collect())
        .collect();
    // Without exchanging rows: the matrix is symmetric and positive.
    for at in 0..count {
        let pivot = rows[at].clone();
        for (number, row) in rows.iter_mut().enumerate() {
            if number != at && pivot[at] > 0.0 {
                let factor = row[at] / pivot[at];
                row.iter_mut().zip(&pivot).for_each(|(r, p)| *r -= factor * p);
            }
        }
    }
    (0..count)
        .map(|at| if rows[at][at] > 0.0 { rows[at][count] / rows[at][at] } else { 0.0 })
        .collect()
}

fn sums_behind(column: &[f64]) -> Vec<f64> {
    let mut sums = column.to_vec();
    for at in (1..sums.len()).rev() {
        sums[at - 1] += sums[at];
    }
    sums
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn length(column: &[f64]) -> f64 {
    dot(column, column).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Noise {
        Normal,
        /// Student's with three degrees of freedom.
        Heavy,
        /// Normal, and one point in fifty is 20 standard deviations late.
        Stalls,
    }

    impl Noise {
        fn draw(self, random: &mut Random) -> f64 {
            let normal = random.normal();
            match self {
                Self::Normal => normal,
                Self::Heavy => {
                    let squares: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
                    normal / (squares / 3.0).sqrt()
                }
                Self::Stalls => normal + if random.below(50) == 0 { 20.0 } else { 0.0 },
            }
        }
    }

    fn sweep(points: usize, noise: Noise, step: f64, random: &mut Random) -> Vec<(f64, f64)> {
        (0..points)
            .map(|i| {
                let level = if i < points / 2 { 0.0 } else { step };
                (i as f64, 3.0 + 0.5 * i as f64 + level + noise.draw(random))
            })
            .collect()
    }

    /// How many of this many sweeps have a change at all, and how many one within two points of the middle.
    fn found(curves: usize, points: usize, noise: Noise, step: f64) -> (usize, usize) {
        let mut random = Random::new(points as u64 * 31 + step as u64);
        let mut any = 0;
        let mut right = 0;
        for _ in 0..curves {
            let changes = level_changes(&sweep(points, noise, step, &mut random));
            any += usize::from(!changes.is_empty());
            right += usize::from(changes.iter().any(|at| at.abs_diff(points / 2) <= 2));
        }
        (any, right)
    }

    /// 2,000 curves each, as `docs/jobs.md` has them; the usual tests look at a tenth.
    fn curves() -> usize {
        if cfg!(debug_assertions) { 200 } else { 2_000 }
    }

    #[test]
    fn a_curve_without_a_step_hardly_ever_gets_one_whatever_its_noise() {
        for noise in [Noise::Normal, Noise::Heavy, Noise::Stalls] {
            let (any, _) = found(curves(), 60, noise, 0.0);
            println!("{noise:?}: {any} of {}", curves());
            // 5 %; of the few, a deviation and a half more.
            let most = if curves() < 2_000 { 15 } else { 100 };
            assert!(any <= most, "{noise:?}: {any} of {}", curves());
        }
    }

    #[test]
    fn a_step_of_three_standard_deviations_is_found_in_nine_of_ten_curves() {
        for points in [60, 80] {
            let (_, right) = found(curves() / 2, points, Noise::Normal, 3.0);
            println!("{points} points: {right} of {}", curves() / 2);
            assert!(right * 10 >= curves() / 2 * 9, "{points} points: {right} of {}", curves() / 2);
        }
    }

    #[test]
    fn two_steps_are_told_apart_and_an_exact_line_has_none() {
        let exact: Vec<(f64, f64)> =
            (0..40).map(|i| (f64::from(i), 0.1 * f64::from(i) + 0.7)).collect();
        assert!(level_changes(&exact).is_empty());
        let mut steps = exact;
        steps.iter_mut().skip(13).for_each(|p| p.1 += 1.0);
        assert_eq!(level_changes(&steps), [13]);
        let mut random = Random::new(8);
        let two: Vec<(f64, f64)> = (0..90)
            .map(|i| {
                let level = 8.0 * f64::from(u8::from(i >= 30)) - 6.0 * f64::from(u8::from(i >= 60));
                (f64::from(i), 0.2 * f64::from(i) + level + random.normal())
            })
            .collect();
        assert_eq!(level_changes(&two), [30, 60]);
    }

    #[test]
    fn few_points_and_one_x_have_no_change() {
        assert!(level_changes(&[]).is_empty());
        assert!(level_changes(&[(1.0, 2.0); 7]).is_empty());
        let one_x: Vec<(f64, f64)> = (0..20).map(|i| (1.0, f64::from(i % 3))).collect();
        assert!(level_changes(&one_x).is_empty());
    }
}
