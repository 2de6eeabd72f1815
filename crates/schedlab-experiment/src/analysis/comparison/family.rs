//! Decisions, at one level for all that is tested together.
//!
//! Half of the level goes to all points together, half to the single points (Bonferroni); with one point
//! it gets all. Among several primary metrics the level is divided by Holm's steps. Each row then has one
//! level, and verdict, p value, interval and conditions all read that one.

use super::effects::{Estimate, Raw};
use super::units::too_few;
use super::{Change, Judgement, LEVEL, LOOK_LEVEL, Row, Side, Verdict};
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
    other_work: &str,
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
            judgement(rows, whole, (level_whole, level_point), other_work, detail)
        })
        .collect()
}

fn judgement(
    rows: &[Raw],
    whole: &Raw,
    (level, level_point): (f64, f64),
    other_work: &str,
    detail: Detail,
) -> Judgement {
    let effects: Vec<Effect> = rows.iter().filter_map(student).collect();
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
    if !other_work.is_empty() {
        for row in std::iter::once(&mut all).chain(&mut points) {
            row.verdict = Verdict::Undecided;
            other_work.clone_into(&mut row.note);
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
        (true, true) => Verdict::Mixed,
        (false, false) if whole.verdict == Verdict::Equivalent && disagreement <= LEVEL => {
            Verdict::Undecided
        }
        (false, false) => whole.verdict,
        _ => claims().next().map_or(Verdict::Undecided, |row| row.verdict),
    }
}

fn student(raw: &Raw) -> Option<Effect> {
    match &raw.estimate {
        Estimate::Student(effect) => Some(*effect),
        Estimate::Ranks(_) | Estimate::None(_) => None,
    }
}

/// All points together: the mean of their effects, weighted by their units. Points without an effect
/// (too few runs, or some cut off) are left out; the note of their own row says so.
fn whole(rows: &[Raw]) -> Raw {
    let first = &rows[0];
    if rows.len() == 1 {
        return first.clone();
    }
    let used: Vec<(&Raw, Effect)> = rows.iter().filter_map(|r| Some((r, student(r)?))).collect();
    let weighted: Vec<(Effect, f64)> = used.iter().map(|(r, e)| (*e, r.units as f64)).collect();
    let estimate = pooled(&weighted).map_or(Estimate::None(f64::NAN), Estimate::Student);
    let weights: f64 = weighted.iter().map(|(_, weight)| weight).sum();
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
        units: rows.iter().map(|raw| raw.units).min().unwrap_or(0),
        p_ranks: None,
        ..first.clone()
    }
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

/// A row at a level of its own.
fn row(raw: &Raw, level: f64, detail: Detail) -> Row {
    let change = raw.change(1.0 - level);
    let p = (raw.p() * LEVEL / level).min(1.0);
    let differs = change.low > 0.0 || change.high < 0.0;
    let verdict = match (differs, raw.metric.better, change.estimate < 0.0) {
        (false, ..) if raw.is_equivalent() => Verdict::Equivalent,
        (false, ..) => Verdict::Undecided,
        (_, Better::Neither, _) => Verdict::Different,
        (_, Better::Lower, true) | (_, Better::Higher, false) => Verdict::Better,
        (_, Better::Lower, false) | (_, Better::Higher, true) => Verdict::Worse,
    };
    let power = detail == Detail::Power;
    let needed = power.then(|| raw.units_needed(raw.margin, level)).flatten();
    let mut note = too_few(raw).unwrap_or_default();
    let censored = raw.before.censored + raw.after.censored;
    // Copies tell that there is a change, and not within which bounds.
    let copies = change.low == change.high;
    let change = match copies {
        true => Change { low: f64::NEG_INFINITY, high: f64::INFINITY, ..change },
        false => change,
    };
    if note.is_empty() && copies {
        note = format!(
            "copies: all {} of a side are the same, so the change has no interval",
            raw.basis
        );
    } else if note.is_empty() && censored > 0 {
        note = format!("{censored} runs were cut off at their limit and rank behind all others");
    } else if verdict.is_claim() && raw.p_ranks.is_some_and(|p| p > LEVEL) {
        note = "ranks do not confirm it: a few runs lie far from the others".into();
    }
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
        detectable: power.then(|| raw.detectable(level)).flatten(),
        more_runs: needed.map(|needed| needed.saturating_sub(raw.units)),
        margin: raw.margin,
        verdict,
        note,
    }
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
