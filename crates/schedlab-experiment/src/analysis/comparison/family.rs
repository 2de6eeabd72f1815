//! Decisions, at one level for all that is tested together.
//!
//! Half of the level goes to all points together, half to the single points (Bonferroni); with one point
//! it gets all. Among several primary metrics the level is divided by Holm's steps. Each row then has one
//! level, and verdict, p value, interval and conditions all read that one.

use super::effects::{Bound, Estimate, Raw, SHIFT_SHARE};
use super::units::too_few;
use super::{Change, Judgement, LEVEL, LOOK_LEVEL, Row, Side, Tail, Verdict};
use schedlab_model::Better;
use schedlab_stats::{Effect, benjamini_hochberg, disagreement, pooled};

/// What a row says beside its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Which change it would find, and how many runs are missing.
    Power,
    /// The same for the first metric alone.
    PowerOfFirst,
    /// Nothing: calibration makes millions of rows, and power is most of their cost.
    Verdict,
}

/// Decides about the metrics of a workload: one entry for each metric, with a row for each point.
pub(super) fn judge(
    metrics: &[Vec<Raw>],
    level: f64,
    no_verdict: &str,
    detail: Detail,
) -> Vec<Judgement> {
    let wholes: Vec<Raw> = metrics.iter().map(|rows| whole(rows)).collect();
    let p: Vec<f64> = wholes.iter().map(Raw::p).collect();
    let share = |rows: &[Raw]| if rows.len() > 1 { level / 2.0 } else { level };
    let shares: Vec<f64> = metrics.iter().map(|rows| share(rows)).collect();
    let levels = holm_levels(&p, &shares);
    metrics
        .iter()
        .zip(&wholes)
        .zip(levels)
        .enumerate()
        .map(|(index, ((rows, whole), level_whole))| {
            let detail = match detail {
                Detail::PowerOfFirst if index == 0 => Detail::Power,
                Detail::PowerOfFirst => Detail::Verdict,
                other => other,
            };
            let level_point = level / 2.0 / (metrics.len() * rows.len()) as f64;
            judgement(rows, whole, level_whole, level_point, no_verdict, detail)
        })
        .collect()
}

fn judgement(
    rows: &[Raw],
    whole: &Raw,
    level: f64,
    level_point: f64,
    no_verdict: &str,
    detail: Detail,
) -> Judgement {
    let effects: Vec<Effect> = rows.iter().filter_map(Raw::effect).collect();
    let disagreement = disagreement(&effects);
    let mut all = row(whole, level, detail);
    let left_out = rows.len() - effects.len();
    if rows.len() > 1 && left_out > 0 {
        all.note = format!("{left_out} of {} points are left out: see their notes", rows.len());
    }
    let mut points: Vec<Row> = match rows {
        [_] => Vec::new(),
        several => several.iter().map(|raw| row(raw, level_point, detail)).collect(),
    };
    if !no_verdict.is_empty() {
        for row in std::iter::once(&mut all).chain(&mut points) {
            row.verdict = Verdict::Undecided;
            no_verdict.clone_into(&mut row.note);
        }
    }
    let verdict = overall(&all, &points, disagreement);
    Judgement { verdict, whole: all, points, disagreement }
}

/// One verdict of all: claims at points count beside that of all together.
fn overall(whole: &Row, points: &[Row], disagreement: f64) -> Verdict {
    let claims = || std::iter::once(whole).chain(points).filter(|row| row.verdict.is_claim());
    let up = claims().any(|row| row.change.estimate > 0.0);
    let down = claims().any(|row| row.change.estimate < 0.0);
    match (up, down) {
        _ if claims().any(|row| row.verdict == Verdict::Mixed) => Verdict::Mixed,
        (true, true) => Verdict::Mixed,
        (false, false) if whole.verdict == Verdict::Equivalent && disagreement <= LEVEL => {
            Verdict::Undecided
        }
        (false, false) => whole.verdict,
        _ => claims().next().map_or(Verdict::Undecided, |row| row.verdict),
    }
}

/// All points together: the mean of their effects, weighted by their units. Points without an effect
/// (too few runs, or some cut off) are left out; the note of their own row says so.
fn whole(rows: &[Raw]) -> Raw {
    let first = &rows[0];
    if rows.len() == 1 {
        return first.clone();
    }
    let mut used: Vec<(&Raw, Effect)> =
        rows.iter().filter_map(|r| Some((r, r.effect().or_else(|| r.exact_effect())?))).collect();
    let ends = |bound: Bound| rows.iter().any(|raw| raw.bound == bound);
    if ends(Bound::Before) && ends(Bound::After) {
        // Bounds of both kinds bound nothing together.
        used.retain(|(raw, _)| raw.bound == Bound::None);
    }
    let weighted: Vec<(Effect, f64)> = used.iter().map(|(r, e)| (*e, r.units as f64)).collect();
    let weights: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    let exact = rows.iter().all(|raw| raw.exact);
    let mean = || weighted.iter().map(|(e, weight)| e.estimate * weight).sum::<f64>() / weights;
    let estimate = match pooled(&weighted) {
        Some(effect) => Estimate::Student(effect),
        None => Estimate::None(if exact { mean() } else { f64::NAN }),
    };
    let side = |of: fn(&Raw) -> &Side| {
        let centre = |(raw, _): &(&Raw, Effect)| {
            Some(raw.units as f64 / weights * raw.scale.of(of(raw).centre?))
        };
        let all: Option<Vec<f64>> = used.iter().map(centre).collect();
        let sum = all.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>());
        Side {
            values: rows.iter().flat_map(|raw| of(raw).values.clone()).collect(),
            censored: rows.iter().map(|raw| of(raw).censored).sum(),
            centre: sum.map(|sum| first.scale.value(sum)),
        }
    };
    Raw {
        point: None,
        before: side(|raw| &raw.before),
        after: side(|raw| &raw.after),
        estimate,
        bound: bound(&used),
        drift: rows.iter().any(|raw| raw.drift),
        exact,
        units: rows.iter().map(|raw| raw.units).min().unwrap_or(0),
        p_ranks: None,
        ..first.clone()
    }
}

fn bound(used: &[(&Raw, Effect)]) -> Bound {
    used.iter().map(|(raw, _)| raw.bound).find(|bound| *bound != Bound::None).unwrap_or(Bound::None)
}

/// The level of each test by Holm's steps ("A simple sequentially rejective multiple test procedure",
/// Scandinavian Journal of Statistics 1979), of tests that may spend `shares`: the smallest p against a
/// k-th, and so on; from the first that fails on, all stand against its step.
fn holm_levels(p: &[f64], shares: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| (p[*a] / shares[*a]).total_cmp(&(p[*b] / shares[*b])));
    let mut levels = vec![0.0; p.len()];
    let mut step = p.len();
    for index in order {
        levels[index] = shares[index] / step as f64;
        if p[index] <= levels[index] && step > 1 {
            step -= 1;
        }
    }
    levels
}

fn row(raw: &Raw, level: f64, detail: Detail) -> Row {
    let raw = &raw.at(level);
    let is_shift = matches!(raw.estimate, Estimate::Shift(..));
    let share = if is_shift { SHIFT_SHARE } else { 1.0 };
    let change = raw.change(1.0 - level * share);
    let p = (raw.p() * LEVEL / (level * share)).min(1.0);
    let tail = raw.beside(1.0 - level).filter(|_| raw.bound == Bound::None);
    let verdict = match raw.exact {
        true => exact(raw, &change),
        false => tested(raw, &change, tail.filter(|_| !raw.drift), level * (1.0 - share)),
    };
    let power = detail == Detail::Power && !raw.exact;
    let undecided = power && verdict == Verdict::Undecided;
    let needed = undecided.then(|| raw.units_to_decide(level * share)).flatten();
    // Copies tell that there is a change, and not within which bounds.
    let is_point = change.low == change.high && raw.bound == Bound::None;
    let copies = raw.exact || (is_point && !raw.is_numberless());
    let note = note(raw, verdict, copies);
    let change = match copies {
        true => Change { low: f64::NEG_INFINITY, high: f64::INFINITY, ..change },
        false if raw.is_numberless() => {
            Change { low: f64::NEG_INFINITY, estimate: f64::NAN, high: f64::INFINITY, ..change }
        }
        false => change,
    };
    Row {
        workload: raw.workload.clone(),
        point: raw.point.clone(),
        metric: raw.metric.clone(),
        before: raw.before.clone(),
        after: raw.after.clone(),
        basis: raw.basis,
        change,
        p,
        p_ranks: raw.p_ranks,
        tail,
        detectable: power.then(|| raw.detectable(level * share)).flatten(),
        more_runs: needed.map(|needed| needed.saturating_sub(raw.units)),
        drift: raw.drift,
        exact: raw.exact,
        adjusted: raw.adjusted.clone(),
        margin: raw.margin,
        verdict,
        note,
    }
}

/// The verdict on copies of a machine that repeats itself: the change is exact for its seed. One below the margin may be
/// the seed's.
fn exact(raw: &Raw, change: &Change) -> Verdict {
    match change.estimate {
        0.0 => Verdict::Equivalent,
        estimate if estimate.abs() > raw.margin => directed(raw, estimate),
        _ => Verdict::Undecided,
    }
}

fn directed(raw: &Raw, estimate: f64) -> Verdict {
    match (raw.drift, raw.metric.better, estimate < 0.0) {
        (true, _, true) => Verdict::Lower,
        (true, _, false) => Verdict::Higher,
        (_, Better::Neither, _) => Verdict::Different,
        (_, Better::Lower, true) | (_, Better::Higher, false) => Verdict::Better,
        (_, Better::Lower, false) | (_, Better::Higher, true) => Verdict::Worse,
    }
}

/// The verdict of the tests. A tail that says the contrary, at a level of its own, makes it mixed; and so does a mean that
/// goes the other way by more than the margin, since what is lost there is paid for.
fn tested(raw: &Raw, change: &Change, tail: Option<Tail>, level: f64) -> Verdict {
    let verdict = match change.low > 0.0 || change.high < 0.0 {
        true => directed(raw, change.estimate),
        false if raw.is_equivalent() => Verdict::Equivalent,
        false => Verdict::Undecided,
    };
    let Some(Tail { mean, before, of_before, after, of_after, p }) = tail else { return verdict };
    let is_opposite =
        (change.low > 0.0 && mean.high < 0.0) || (change.high < 0.0 && mean.low > 0.0);
    let is_outweighed = verdict.is_claim()
        && mean.estimate * change.estimate < 0.0
        && mean.estimate.abs() > raw.margin;
    let is_slower = after * of_before > before * of_after;
    let says = if is_slower { Verdict::Worse } else { Verdict::Better };
    let has_tail = p <= level && raw.metric.better != Better::Neither && verdict != says;
    if is_opposite || is_outweighed || has_tail { Verdict::Mixed } else { verdict }
}

/// What limits a verdict.
fn note(raw: &Raw, verdict: Verdict, copies: bool) -> String {
    let censored = raw.before.censored + raw.after.censored;
    if raw.exact && verdict == Verdict::Undecided {
        return "vary the seed: this machine repeats itself, and one seed shows no change beyond the margin"
            .to_owned();
    }
    if raw.exact {
        return "exact for this seed: this machine repeats itself, so the change has no interval"
            .to_owned();
    }
    if let Some(few) = too_few(raw) {
        return few;
    }
    if copies {
        let basis = raw.basis;
        return format!(
            "copies: all {basis} of a side are the same, so the change has no interval"
        );
    }
    if censored > 0 {
        return match raw.bound {
            Bound::None => format!("{censored} runs were cut off or failed: only ranks tell"),
            _ => format!("{censored} runs were cut off at their limit, so the change is a bound"),
        };
    }
    if raw.drift {
        return "drift is included: the sides did not run interleaved".to_owned();
    }
    if verdict.is_claim() && raw.p_ranks.is_some_and(|p| p > LEVEL) {
        return "ranks do not confirm it: a few runs lie far from the others".to_owned();
    }
    String::new()
}

/// Secondary metrics whose change stands out, the clearest first; with 95 % intervals of their own.
pub(super) fn look_at(metrics: impl Iterator<Item = Vec<Raw>>) -> Vec<Row> {
    let wholes: Vec<Raw> = metrics.map(|rows| whole(&rows)).collect();
    let p = benjamini_hochberg(&wholes.iter().map(Raw::p).collect::<Vec<_>>());
    let mut found: Vec<(f64, Row)> = wholes
        .iter()
        .zip(p)
        .filter(|(_, p)| *p <= LOOK_LEVEL)
        .map(|(raw, p)| {
            let mut row = row(raw, LEVEL, Detail::Power);
            row.verdict = Verdict::Undecided;
            row.p = p;
            (p, row)
        })
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holms_levels_agree_with_holms_p_values() {
        for p in [[0.01, 0.04], [0.03, 0.02], [0.3, 0.04], [0.024, 0.06]] {
            let levels = holm_levels(&p, &[LEVEL; 2]);
            let corrected = schedlab_stats::holm(&p);
            for ((p, level), corrected) in p.iter().zip(levels).zip(corrected) {
                assert_eq!(
                    *p <= level,
                    corrected <= LEVEL,
                    "{p} at {level}, corrected {corrected}"
                );
            }
        }
    }
}
