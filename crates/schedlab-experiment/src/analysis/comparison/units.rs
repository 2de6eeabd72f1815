//! From runs to units that vary independently: pairs, runs, boots, or whole folders.

use super::basis::Basis;
use super::effects::{Bound, Estimate, RANKS_MIN, Raw, SHIFT_MIN, Scale, estimate, ranks_beside};
use super::{BOOTS_MIN, CPU_TIME, CompareOptions, Side, prior};
use crate::analysis::{Cell, Cells};
use crate::{Point, StoredRun, run_metrics};
use schedlab_model::{Better, Metric};
use schedlab_stats::Sample;
use schedlab_workload::metrics;
use std::collections::{BTreeMap, BTreeSet};

/// A run as a comparison sees it.
#[derive(Clone, Debug)]
struct One {
    /// On the scale; infinite where the run ranks behind all others.
    value: f64,
    /// Whether the run was cut off: it would have taken longer than the value says.
    is_cut: bool,
    block: u32,
    boot: String,
    started: String,
    /// What the comparison is adjusted by.
    priors: Vec<f64>,
}

/// The metric at all common points, one entry each; none where it has no values on a side, or is
/// nothing on both.
pub(super) fn rows(
    cells: &[(Cells<'_>, Cells<'_>)],
    label: &str,
    metric: &Metric,
    points: &[Point],
    asked: &CompareOptions,
) -> Vec<Raw> {
    let known = run_metrics::margin(&metric.name);
    let cell = |cells: &Cells<'_>, point: &Point| -> Option<usize> {
        cells.cells.iter().position(|c| c.workload == label && c.point == *point)
    };
    let values = |cells: &Cells<'_>, point: &Point| -> Vec<f64> {
        let Some(at) = cell(cells, point) else { return Vec::new() };
        let cell = &cells.cells[at];
        let runs = cell.runs.values().chain(cell.censored.values());
        runs.filter_map(|run| run.value(&metric.name)).collect()
    };
    let all = |side: fn(&(Cells<'_>, Cells<'_>)) -> usize| -> Vec<f64> {
        let both = |pair: &(Cells<'_>, Cells<'_>), point| match side(pair) {
            0 => values(&pair.0, point),
            _ => values(&pair.1, point),
        };
        points.iter().flat_map(|p| cells.iter().flat_map(move |pair| both(pair, p))).collect()
    };
    let Some(scale) = scale(&all(|_| 0), &all(|_| 1)) else { return Vec::new() };
    let gather = |cells: &Cells<'_>, point: &Point| -> Vec<One> {
        cell(cells, point)
            .map(|at| ones(&cells.cells[at], metric, scale, asked))
            .unwrap_or_default()
    };
    let row = |point: &Point| {
        let mut sets: Vec<(Vec<One>, Vec<One>)> =
            cells.iter().map(|(a, b)| (gather(a, point), gather(b, point))).collect();
        let bound = bound(metric, &mut sets);
        let (basis, before, after) = units(&sets, asked.interleaved);
        let is_repeatable = all_repeatable(cells, label, point);
        let planned = asked.looks.planned.first().or(asked.looks.taken.first());
        let planned = planned.map_or(before.len().min(after.len()), |planned| *planned as usize);
        let by_ranks = planned >= SHIFT_MIN && !is_repeatable;
        let mut raw = raw(metric, scale, basis, &before, &after, by_ranks)?;
        raw.bound = bound;
        raw.exact = is_repeatable && raw.has_copies() && bound == Bound::None;
        let is_apart = match basis {
            Basis::Runs => !asked.interleaved && !asked.shuffled,
            Basis::Boots | Basis::Folders => raw.units < BOOTS_MIN,
            Basis::Pairs | Basis::BootPairs => false,
        };
        raw.drift = is_apart && !is_repeatable;
        if basis == Basis::Pairs && !asked.adjust.is_empty() {
            raw.adjust(&prior_differences(&sets), &asked.adjust);
        }
        label.clone_into(&mut raw.workload);
        raw.point = Some(point.clone());
        raw.margin = asked.margin.unwrap_or(known);
        raw.before.values = run_values(&sets, scale, |set| &set.0);
        raw.after.values = run_values(&sets, scale, |set| &set.1);
        raw.before.cut(&sets, |set| &set.0);
        raw.after.cut(&sets, |set| &set.1);
        Some(raw)
    };
    points.iter().filter_map(row).collect()
}

/// Whether machines that repeat themselves did all runs at a point.
fn all_repeatable(cells: &[(Cells<'_>, Cells<'_>)], label: &str, point: &Point) -> bool {
    let here = |cell: &&Cell<'_>| cell.workload == label && cell.point == *point;
    let both = cells.iter().flat_map(|(a, b)| a.cells.iter().chain(&b.cells)).filter(here);
    both.flat_map(|cell| cell.all()).all(StoredRun::is_repeatable)
}

type Set = (Vec<One>, Vec<One>);

fn run_values(sets: &[Set], scale: Scale, side: fn(&Set) -> &Vec<One>) -> Vec<f64> {
    let whole = sets.iter().flat_map(side).filter(|one| !one.is_cut && one.value.is_finite());
    whole.map(|one| scale.value(one.value)).collect()
}

impl Side {
    /// Counts its runs that were cut off or failed. With half of them there is no centre.
    fn cut(&mut self, sets: &[Set], side: fn(&Set) -> &Vec<One>) {
        let cut = |one: &&One| one.is_cut || one.value.is_infinite();
        self.censored = sets.iter().flat_map(side).filter(cut).count();
        if 2 * self.censored >= self.values.len() + self.censored && self.censored > 0 {
            self.centre = None;
        }
    }
}

/// Which end of the change cut-off runs leave open. If one side has such runs, the moment at which a run was stopped
/// is a bound of its time, and the CPU time until then is one of its CPU time. If both sides have them, and in other
/// metrics, only ranks are left.
fn bound(metric: &Metric, sets: &mut [Set]) -> Bound {
    let cut = |side: fn(&Set) -> &Vec<One>| sets.iter().flat_map(side).any(|one| one.is_cut);
    let is_time =
        ["time_s", CPU_TIME].contains(&metric.name.rsplit('/').next().unwrap_or_default());
    match (cut(|set| &set.0), cut(|set| &set.1)) {
        (false, false) => return Bound::None,
        (true, false) if is_time => return Bound::Before,
        (false, true) if is_time => return Bound::After,
        _ => {}
    }
    let worst = if metric.better == Better::Higher { f64::NEG_INFINITY } else { f64::INFINITY };
    let all = sets.iter_mut().flat_map(|(a, b)| a.iter_mut().chain(b));
    all.filter(|one| one.is_cut).for_each(|one| one.value = worst);
    Bound::None
}

/// Logarithms where all values are above zero; else differences over the mean before, or over that of
/// all values where there is nothing before. `None`: there is nothing on both sides.
fn scale(before: &[f64], after: &[f64]) -> Option<Scale> {
    let level =
        |values: &[f64]| values.iter().map(|v| v.abs()).sum::<f64>() / values.len().max(1) as f64;
    if before.is_empty() || after.is_empty() {
        return None;
    }
    if before.iter().chain(after).all(|v| *v > 0.0) {
        return Some(Scale::Log);
    }
    let first = level(before);
    let all = level(&[before, after].concat());
    let level = if first > 0.0 { first } else { all };
    let is_negative = before.iter().chain(after).any(|v| *v < 0.0);
    let least = if is_negative { f64::NEG_INFINITY } else { -1.0 };
    (level > 0.0).then_some(Scale::Linear { level, least })
}

fn ones(cell: &Cell<'_>, metric: &Metric, scale: Scale, asked: &CompareOptions) -> Vec<One> {
    // A run that was cut off ranks behind all others: it would have taken longer, or done less.
    let worst = match metric.better {
        Better::Lower => Some(f64::INFINITY),
        Better::Higher => Some(f64::NEG_INFINITY),
        Better::Neither => None,
    };
    let one = |(block, run): (&u32, &&StoredRun), value: f64| One {
        value,
        is_cut: run.is_censored(),
        block: *block,
        boot: run.manifest.facts.boot.known().cloned().unwrap_or_default(),
        started: run.manifest.started_at.clone(),
        priors: prior::of(run, &asked.adjust),
    };
    let whole = cell
        .runs
        .iter()
        .filter_map(|(block, run)| Some(one((block, run), scale.of(run.value(&metric.name)?))));
    let censored = cell.censored.iter().filter_map(|(block, run)| {
        let value = run.value(&metric.name)?;
        worst.map(|_| one((block, run), scale.of(value)))
    });
    let failed = cell.failed.iter().filter(|_| asked.allow_failures);
    let failed = failed.filter_map(|(block, run)| Some(one((block, run), worst?)));
    whole.chain(censored).chain(failed).collect()
}

/// What varies independently, and its values.
fn units(sets: &[Set], interleaved: bool) -> (Basis, Vec<f64>, Vec<f64>) {
    let mean = |ones: &[One]| ones.iter().map(|one| one.value).sum::<f64>() / ones.len() as f64;
    let [(before, after)] = sets else {
        let whole = sets.iter().filter(|(a, b)| !a.is_empty() && !b.is_empty());
        let (a, b) = whole.map(|(a, b)| (mean(a), mean(b))).unzip();
        return (Basis::Folders, a, b);
    };
    let by_boot = |ones: &[One]| -> BTreeMap<String, f64> {
        let mut boots: BTreeMap<String, Vec<One>> = BTreeMap::new();
        for one in ones.iter().filter(|one| !one.boot.is_empty()) {
            boots.entry(one.boot.clone()).or_default().push(one.clone());
        }
        boots.into_iter().map(|(boot, ones)| (boot, mean(&ones))).collect()
    };
    let first = by_boot(before);
    let second = by_boot(after);
    let common: Vec<&String> = first.keys().filter(|boot| second.contains_key(*boot)).collect();
    if common.len() >= BOOTS_MIN {
        let (a, b) = common.iter().map(|boot| (first[*boot], second[*boot])).unzip();
        return (Basis::BootPairs, a, b);
    }
    if common.is_empty() && first.len().min(second.len()) > 1 {
        return (Basis::Boots, first.into_values().collect(), second.into_values().collect());
    }
    let pairs = pairs(before, after);
    // Runs of different boots are no pairs, such as those of two machines.
    let interleaved = interleaved && !pairs.is_empty();
    if interleaved || is_interleaved(&pairs, before.len().max(after.len())) {
        let (a, b) = pairs.iter().map(|(a, b)| (a.value, b.value)).unzip();
        return (Basis::Pairs, a, b);
    }
    let values = |ones: &[One]| ones.iter().map(|one| one.value).collect();
    (Basis::Runs, values(before), values(after))
}

fn pairs<'o>(before: &'o [One], after: &'o [One]) -> Vec<(&'o One, &'o One)> {
    let other = |one: &One| after.iter().find(|o| o.block == one.block && o.boot == one.boot);
    before.iter().filter_map(|one| Some((one, other(one)?))).collect()
}

/// By how much what was known beforehand differs within each pair.
fn prior_differences(sets: &[Set]) -> Vec<Vec<f64>> {
    let [(before, after)] = sets else { return Vec::new() };
    let of = |(a, b): (&One, &One)| a.priors.iter().zip(&b.priors).map(|(a, b)| b - a).collect();
    pairs(before, after).into_iter().map(of).collect()
}

/// Whether the runs of each pair were done before those of the next one: then both share what drifts.
fn is_interleaved(pairs: &[(&One, &One)], runs: usize) -> bool {
    let starts = pairs.iter().map(|(a, b)| (a.started.as_str(), b.started.as_str()));
    let (before, after): (Vec<&str>, Vec<&str>) = starts.unzip();
    let windows = before.iter().zip(&after).map(|(a, b)| (a.min(b), a.max(b)));
    let mut windows: Vec<(&&str, &&str)> = windows.collect();
    windows.sort_unstable();
    // Times are of whole seconds: they tell nothing where one side may have run as a whole before the other.
    let told = before.iter().max() > after.iter().min() && after.iter().max() > before.iter().min();
    told && 4 * pairs.len() >= 3 * runs && windows.windows(2).all(|two| two[0].1 <= two[1].0)
}

fn raw(
    metric: &Metric,
    scale: Scale,
    basis: Basis,
    before: &[f64],
    after: &[f64],
    by_ranks: bool,
) -> Option<Raw> {
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let side = |units: &[f64]| Side { centre: centre(units, scale), ..Side::default() };
    let estimate = estimate(before, after, basis.is_paired(), by_ranks);
    let differences: Vec<f64> = before.iter().zip(after).map(|(a, b)| b - a).collect();
    let is_finite = differences.iter().all(|difference| difference.is_finite());
    let differences = (basis == Basis::Pairs && is_finite).then_some(differences);
    let p_ranks = match &estimate {
        Estimate::Student(_) => ranks_beside(before, after, basis.is_paired()),
        Estimate::Shift(..) | Estimate::Ranks(_) | Estimate::None(_) => None,
    };
    Some(Raw {
        workload: String::new(),
        point: None,
        metric: metric.clone(),
        before: side(before),
        after: side(after),
        basis,
        scale,
        estimate,
        units: before.len().min(after.len()),
        p_ranks,
        margin: metrics::MARGIN,
        bound: Bound::None,
        drift: false,
        exact: false,
        differences,
        adjusted: Vec::new(),
    })
}

/// The mean on the scale; with units that were cut off the median, while fewer than half were.
fn centre(units: &[f64], scale: Scale) -> Option<f64> {
    let cut = units.iter().filter(|v| v.is_infinite()).count();
    if cut == 0 {
        return Some(scale.value(units.iter().sum::<f64>() / units.len() as f64));
    }
    let sample = Sample::new(units.iter().map(|v| v.clamp(-1e300, 1e300))).ok()?;
    (2 * cut < units.len()).then(|| scale.value(sample.median()))
}

/// Plain numbers as a point.
pub(super) fn of_values(
    metric: &Metric,
    before: &[f64],
    after: &[f64],
    basis: Basis,
) -> Option<Raw> {
    let scale = scale(before, after)?;
    let on = |values: &[f64]| -> Vec<f64> { values.iter().map(|v| scale.of(*v)).collect() };
    let by_ranks = before.len().min(after.len()) >= SHIFT_MIN;
    let mut raw = raw(metric, scale, basis, &on(before), &on(after), by_ranks)?;
    before.clone_into(&mut raw.before.values);
    after.clone_into(&mut raw.after.values);
    Some(raw)
}

/// How the work that the sides were asked for differs at their common points, in a sentence.
pub(super) fn other_work(a: &Cells<'_>, b: &Cells<'_>, label: &str, points: &[Point]) -> String {
    let asked = |cells: &Cells<'_>, point: &Point| {
        let cell = cells.of(label).find(|cell| cell.point == *point);
        cell.and_then(Cell::any).map(|run| metrics::asked_work(&run.manifest.spec.workload))
    };
    let differs = |point: &Point| -> Option<String> {
        let a = asked(a, point)?;
        let b = asked(b, point)?;
        let (name, value) = a.iter().find(|(name, value)| b.get(*name) != Some(value))?;
        let other = b.get(name).cloned().unwrap_or_default();
        Some(format!("The two sides ask for different work: {name}={value} against {other}."))
    };
    points.iter().find_map(differs).unwrap_or_default()
}

/// Which boots are compared, in a sentence; empty where all runs are of the same boots.
pub(super) fn boots_note(cells: &[(Cells<'_>, Cells<'_>)], label: &str) -> String {
    let [(a, b)] = cells else { return String::new() };
    let boots = |cells: &Cells<'_>| -> BTreeSet<String> {
        let runs = cells.of(label).flat_map(|cell| cell.runs.values());
        runs.filter_map(|run| run.manifest.facts.boot.known().cloned()).collect()
    };
    let first = boots(a);
    let second = boots(b);
    if first.is_empty() || second.is_empty() || first.intersection(&second).next().is_some() {
        return String::new();
    }
    let fewest = first.len().min(second.len());
    let of = match (first.len(), second.len()) {
        (1, 1) => "on these two boots".to_owned(),
        (a, b) => format!("on these {a} and {b} boots"),
    };
    match BOOTS_MIN.saturating_sub(fewest) {
        0 => String::new(),
        more => format!("{of}; a verdict on the kernels needs {more} more boots a side"),
    }
}

/// So few units that nothing can be told.
pub(super) fn too_few(raw: &Raw) -> Option<String> {
    match &raw.estimate {
        Estimate::Student(_) | Estimate::Shift(..) => None,
        Estimate::Ranks(ranks) if ranks.units() >= RANKS_MIN => None,
        Estimate::Ranks(_) => Some(format!(
            "runs were cut off: ranks decide from {RANKS_MIN} {} a side on",
            raw.basis
        )),
        Estimate::None(_) if raw.units < 2 => {
            Some(format!("too few: 2 {} a side are the fewest", raw.basis))
        }
        Estimate::None(_) => {
            Some(format!("copies: all {} are the same, and fewer than {RANKS_MIN}", raw.basis))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_second_are_no_pairs_where_one_side_may_have_run_first() {
        let is_interleaved = |before: &[u32], after: &[u32]| {
            let ones = |seconds: &[u32]| -> Vec<One> {
                let one = |second: &u32| One {
                    value: 1.0,
                    is_cut: false,
                    block: 0,
                    boot: String::new(),
                    started: format!("2026-01-01T00:00:{second:02}Z"),
                    priors: Vec::new(),
                };
                seconds.iter().map(one).collect()
            };
            let (before, after) = (ones(before), ones(after));
            let pairs: Vec<(&One, &One)> = before.iter().zip(&after).collect();
            is_interleaved(&pairs, pairs.len())
        };
        assert!(is_interleaved(&[10, 13, 14, 17], &[11, 12, 15, 16]));
        assert!(is_interleaved(&[10, 11, 11, 13], &[10, 11, 12, 12]));
        assert!(!is_interleaved(&[10, 11, 12, 13], &[14, 15, 16, 17]));
        // The last of the first side began in the second in which all of the other did.
        assert!(!is_interleaved(&[9, 10, 10, 10], &[10, 10, 10, 10]));
        assert!(!is_interleaved(&[10, 10, 10, 10], &[10, 10, 10, 11]));
    }
}
