//! Fresh runs of default and winner, in pairs, and what they decide.

use super::Goals;
use super::outcome::{LimitCheck, Tuned, Verdict};
use crate::analysis::{CompareOptions, Verdict as Compared, compare};
use crate::store::StoredRun;
use crate::{Planned, Tuning};
use schedlab_stats::{Aim, Effect, Random, paired, runs_needed};
use std::collections::BTreeMap;

/// Pairs from which on a verdict is possible without spread, too.
const PAIRS_MIN: usize = 6;
/// The part of the gain in the search that is expected to last: the best of many looks better than it is.
const LASTING: f64 = 0.5;

/// How many pairs of fresh runs find the gain, by the spread of the repeats of default and winner in the
/// search. It is fixed before the first of them runs.
pub(super) fn pairs(default: &[f64], winner: &[f64], tuning: &Tuning) -> usize {
    let most = tuning.confirm as usize;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let squares = |values: &[f64]| {
        let centre = mean(values);
        values.iter().map(|v| (v - centre).powi(2)).sum::<f64>()
    };
    let degrees = (default.len() + winner.len()).saturating_sub(2) as f64;
    let variance = (squares(default) + squares(winner)) / degrees;
    let gain = LASTING * (mean(default) - mean(winner)).abs();
    if degrees < 1.0 || !variance.is_finite() {
        return most;
    }
    let units = default.len().max(1);
    let error = (2.0 * variance / units as f64).sqrt();
    let effect = Effect { estimate: 0.0, error: error.max(1e-9), degrees };
    let needed = runs_needed(gain.max(1e-9), &effect, units, Aim::default());
    needed.unwrap_or(most).clamp(PAIRS_MIN.min(most), most)
}

/// Pairs in an order of chance: in each, the runs of both sides of a block.
pub(super) fn interleaved(
    pairs: usize,
    first: u32,
    seed: u64,
    of: &dyn Fn(u32) -> [Vec<Planned>; 2],
) -> Vec<Planned> {
    let mut out = Vec::new();
    for block in (first..).take(pairs) {
        let mut sides = of(block);
        Random::new(seed ^ u64::from(block) << 24).shuffle(&mut sides);
        out.extend(sides.into_iter().flatten());
    }
    out
}

/// The verdict of fresh runs.
pub(super) fn judge(
    tuned: &mut Tuned,
    mut before: Vec<StoredRun>,
    mut after: Vec<StoredRun>,
    goals: &Goals,
    pairs: usize,
) {
    for run in before.iter_mut().chain(&mut after) {
        // What was tuned is the difference; without it both sides lie at one point.
        run.manifest.point = BTreeMap::new();
    }
    let asked =
        CompareOptions { metrics: goals.names(), interleaved: true, ..CompareOptions::default() };
    tuned.pairs = pairs;
    tuned.comparisons = compare(&[(&before, &after)], &asked);
    tuned.limits = goals.limits().iter().map(|limit| check_limit(&after, limit)).collect();
    let verdicts = || tuned.comparisons.iter().flat_map(|c| &c.primary).map(|j| j.verdict);
    let gains = verdicts().any(|v| v == Compared::Better)
        && verdicts().all(|v| !matches!(v, Compared::Worse | Compared::Mixed));
    let keeps = tuned.limits.iter().all(|limit| limit.holds);
    tuned.verdict = if gains && keeps { Verdict::Gain } else { Verdict::NoGain };
}

/// Whether fresh runs keep a limit: the mean does, with 95 %.
fn check_limit(runs: &[StoredRun], limit: &crate::Limit) -> LimitCheck {
    let sign = if limit.is_upper { 1.0 } else { -1.0 };
    let values = runs.iter().filter_map(|run| run.value(&limit.metric));
    let logs: Vec<f64> = values.map(|value| sign * value.max(1e-9).ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    // Copies have no spread: the bound is their value.
    let end = paired(&logs).map_or(mean, |effect| effect.interval(0.9).1);
    let holds = end.is_finite() && end <= sign * limit.bound.ln();
    LimitCheck {
        limit: limit.text.clone(),
        value: (sign * mean).exp(),
        bound: (sign * end).exp(),
        holds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Point;
    use crate::analysis::{Basis, Detail, LEVEL, compare_metrics};
    use schedlab_model::{Better, Metric, Unit};
    use schedlab_stats::binomial_cdf;
    use schedlab_tune::{Axis, Method, Options, Outcome, Search, Space};

    const NOISE: f64 = 0.02;

    fn tuning() -> Tuning {
        Tuning {
            budget: 16,
            start: None,
            method: Method::Model,
            goals: Vec::new(),
            limits: Vec::new(),
            default: Point::new(),
            confirm: 20,
            screen: None,
        }
    }

    /// A tuning of knobs that do nothing; whether it claims a gain.
    fn claims(seed: u64) -> bool {
        let values: Vec<f64> = (0..24).map(f64::from).collect();
        let space = Space::new(["a", "b"].map(|n| Axis::ordered(n, &values, false)).to_vec());
        let default = vec![5, 5];
        let options =
            Options { budget: 16, seed, default: Some(default.clone()), ..Options::default() };
        let mut search = Search::new(space, options);
        let mut random = Random::new(seed);
        while let Some(point) = search.ask() {
            search.tell(point, Outcome::of(NOISE * random.normal()));
        }
        let winner = search.advice().unwrap().point;
        if winner == default {
            return false;
        }
        let of = |point: &[usize]| super::super::samples(&search, point);
        let pairs = pairs(&of(&default), &of(&winner), &tuning());
        let mut fresh = || (0..pairs).map(|_| (NOISE * random.normal()).exp()).collect();
        let metric = Metric::new("time_s", Unit::Seconds, Better::Lower);
        let sides = vec![(metric, fresh(), fresh())];
        let rows = compare_metrics(&sides, Basis::Pairs, LEVEL, Detail::Verdict);
        rows[0].verdict == Compared::Better
    }

    /// `cargo xtask evidence tune` does 2,000.
    #[test]
    fn tunings_of_dead_knobs_claim_a_gain_as_seldom_as_stated() {
        let all = std::env::var_os("SCHEDLAB_EVIDENCE").is_some_and(|word| word == "write");
        let trials: u64 = if all { 2_000 } else { 40 };
        let claimed = (0..trials).filter(|seed| claims(*seed)).count() as u64;
        let sure = if all { 0.99 } else { 0.9999 };
        let most = (0..trials).find(|k| binomial_cdf(*k, trials, LEVEL) >= sure).unwrap();
        println!("{claimed} of {trials} tunings of dead knobs claim a gain, at most {most} may");
        assert!(claimed <= most, "{claimed} of {trials}");
    }

    #[test]
    fn noisier_repeats_need_more_pairs() {
        let quiet = pairs(&[0.0, 0.01, -0.01], &[-0.2, -0.21], &tuning());
        let noisy = pairs(&[0.0, 0.1, -0.1], &[-0.2, -0.1], &tuning());
        assert_eq!((quiet, noisy), (6, 20));
        // Nothing is known of the spread.
        assert_eq!(pairs(&[0.0], &[-1.0], &tuning()), 20);
    }
}
