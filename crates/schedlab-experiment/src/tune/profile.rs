//! Which lines of a profile do it: first the whole profile against the default, then a screening of its lines, then
//! those that matter taken out and put in alone, in fresh runs.
//!
//! The screening is a two-level design by Plackett and Burman ("The design of optimum multifactorial experiments",
//! Biometrika 1946) with its foldover (Box and Wilson, JRSS B 1951), so that no interaction of two lines hides in the
//! effect of a third.

use super::{failed, throw_away};
use crate::analysis::{CompareOptions, Comparison, Verdict, compare};
use crate::run_loop::{LoopError, Progress, RetryOptions, Tally, keep_experiment, run_with};
use crate::store::{StoredRun, lock, runs_of};
use crate::{Experiment, Machines, Plan, Planned, Point, RunId};
use schedlab_model::Setting;
use schedlab_stats::{Effect, Random};
use schedlab_workload::metrics;
use serde::Serialize;
use std::path::Path;

/// Lines whose effect in the screening has at most this chance are tried by themselves.
const SCREENED: f64 = 0.1;
/// The most lines that are tried by themselves.
const LINES_MAX: usize = 4;
/// Orders of the designs: one more than a prime that is 3 modulo 4.
const ORDERS: [usize; 5] = [4, 8, 12, 20, 24];
/// Blocks of each part begin here, so that no run is one of another part.
const SCREEN: u32 = 1_000_000;
const LINES: u32 = 2_000_000;
const APART: u32 = 10_000;

/// What a profile does.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Profiled {
    /// The lines of the profile that this machine has.
    pub settings: Vec<Setting>,
    /// Number of pairs of runs in each comparison.
    pub pairs: usize,
    /// The whole profile against the default, workload by workload.
    pub whole: Vec<Comparison>,
    /// Runs of the screening; 0 where the whole profile shows nothing, and where few lines are all tried.
    pub screened: usize,
    /// The lines that were tried by themselves.
    pub lines: Vec<Line>,
    /// The lines that the screening does not show to matter.
    pub others: Vec<Setting>,
    /// Lines of the file that were not tried, each with the reason.
    pub left_out: Vec<String>,
}

/// A line that the screening found.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Line {
    /// The setting of the line.
    pub(crate) setting: Setting,
    /// The line alone against the default.
    pub(crate) alone: Vec<Comparison>,
    /// The profile without the line against the whole profile.
    pub(crate) without: Vec<Comparison>,
}

/// Whether a screening has to choose the lines that are tried: of few all are, since so small a design shows little.
const fn is_screened(lines: usize) -> bool {
    lines > LINES_MAX
}

/// How many runs of each workload a profile of so many lines needs at most.
///
/// # Errors
/// When there are more lines than the largest design has room for.
pub fn profile_runs(lines: usize, pairs: usize) -> Result<usize, String> {
    let screening = if is_screened(lines) { 2 * design(lines)?.len() } else { 0 };
    let tried = if lines > 1 { LINES_MAX.min(lines) } else { 0 };
    Ok(2 * pairs + screening + 4 * pairs * tried)
}

/// Studies a profile; `None` where the user stopped it. Runs that are stored count.
///
/// # Errors
/// As [`crate::run_plan`]; also where a run of the screening failed.
pub fn profile(
    machines: &mut Machines<'_>,
    experiment: &Experiment,
    settings: &[Setting],
    pairs: usize,
    results: &Path,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Option<Profiled>, LoopError> {
    let _lock = lock(results)?;
    keep_experiment(results, &experiment.text)?;
    let mut study = Study { machines, experiment, results, stop, progress, pairs };
    if experiment.warm_up > 0 && !results.join("runs").is_dir() {
        let first = study.runs(&[], 0);
        throw_away(study.machines, experiment.warm_up, &first, results, stop)?;
    }
    let mut found = Profiled {
        settings: settings.to_vec(),
        pairs,
        whole: Vec::new(),
        screened: 0,
        lines: Vec::new(),
        others: Vec::new(),
        left_out: Vec::new(),
    };
    let Some(whole) = study.measured([&[], settings], 0)? else { return Ok(None) };
    found.whole = study.judged(&whole, 1);
    if !found.is_shown() || settings.len() < 2 {
        return Ok(Some(found));
    }
    let (chosen, screened) = match is_screened(settings.len()) {
        true => match study.screen(settings)? {
            Some(screened) => screened,
            None => return Ok(None),
        },
        false => ((0..settings.len()).collect(), 0),
    };
    found.screened = screened;
    let mut sides = Vec::new();
    for (nth, index) in chosen.iter().enumerate() {
        let setting = settings[*index].clone();
        let rest: Vec<Setting> = settings.iter().filter(|s| **s != setting).cloned().collect();
        let first = LINES + 2 * APART * u32::try_from(nth).unwrap_or(0);
        let alone = study.measured([&[], std::slice::from_ref(&setting)], first)?;
        let without = study.measured([settings, &rest], first + APART)?;
        let (Some(alone), Some(without)) = (alone, without) else { return Ok(None) };
        sides.extend([alone, without]);
    }
    let mut judged = study.by_steps(&sides).into_iter();
    for index in &chosen {
        let (Some(alone), Some(without)) = (judged.next(), judged.next()) else { break };
        found.lines.push(Line { setting: settings[*index].clone(), alone, without });
    }
    let is_other = |index: &usize| !chosen.contains(index);
    found.others = (0..settings.len()).filter(is_other).map(|i| settings[i].clone()).collect();
    Ok(Some(found))
}

/// The runs of two sides.
type Pairs = [Vec<StoredRun>; 2];

struct Study<'s, 'm> {
    machines: &'s mut Machines<'m>,
    experiment: &'s Experiment,
    results: &'s Path,
    stop: &'s dyn Fn() -> bool,
    progress: &'s mut dyn FnMut(&Progress<'_>),
    pairs: usize,
}

impl Study<'_, '_> {
    /// The runs of all workloads under some settings.
    fn runs(&self, settings: &[Setting], block: u32) -> Vec<Planned> {
        let mut experiment = self.experiment.clone();
        let is_set = |own: &Setting| settings.iter().any(|other| other.knob == own.knob);
        experiment.settings.retain(|own| !is_set(own));
        experiment.settings.extend(settings.iter().cloned());
        Plan::at(&experiment, &[], block).runs
    }

    /// The stored runs of a plan, after it was done; `None` where the user stopped it.
    fn perform(&mut self, runs: Vec<Planned>) -> Result<Option<Vec<StoredRun>>, LoopError> {
        let ids: Vec<RunId> = runs.iter().map(|run| run.id.clone()).collect();
        let care = RetryOptions::of(self.experiment);
        let plan = Plan { runs };
        let done = run_with(self.machines, &plan, self.results, self.stop, self.progress, care)?;
        let Tally { stopped, .. } = done;
        if stopped {
            return Ok(None);
        }
        let mut stored = runs_of(self.results)?.runs;
        stored.retain(|run| ids.contains(&run.manifest.id));
        Ok(Some(stored))
    }

    /// The runs of two sides in pairs of random order.
    fn measured(&mut self, sides: [&[Setting]; 2], first: u32) -> Result<Option<Pairs>, LoopError> {
        let blocks = || (first..).take(self.pairs);
        let all = |side: &[Setting]| -> Vec<Planned> {
            blocks().flat_map(|block| self.runs(side, block)).collect()
        };
        let planned = sides.map(all);
        let mut plan = Vec::new();
        for block in blocks() {
            let of = |run: &&Planned| run.block == block;
            let mut pair: Vec<Planned> = planned.iter().flatten().filter(of).cloned().collect();
            Random::new(self.experiment.seed ^ (u64::from(block) << 24)).shuffle(&mut pair);
            plan.extend(pair);
        }
        let Some(mut runs) = self.perform(plan)? else { return Ok(None) };
        runs.iter_mut().for_each(|run| run.manifest.point = Point::new());
        Ok(Some(planned.map(|side| -> Vec<StoredRun> {
            let mine = |run: &&StoredRun| side.iter().any(|planned| planned.id == run.manifest.id);
            runs.iter().filter(mine).cloned().collect()
        })))
    }

    /// The verdict on two sides, one of so many comparisons that share the level.
    fn judged(&self, [before, after]: &Pairs, tests: usize) -> Vec<Comparison> {
        let metrics = self.experiment.measure.iter().take(1).cloned().collect();
        let asked = CompareOptions {
            metrics,
            tests,
            interleaved: true,
            allow_failures: self.experiment.allow_failures,
            adjust: self.experiment.adjust.clone(),
            ..CompareOptions::default()
        };
        compare(&[(before, after)], &asked)
    }

    /// The verdicts on comparisons that share one level: each that is shown leaves its share to the others (Holm).
    fn by_steps(&self, all: &[Pairs]) -> Vec<Vec<Comparison>> {
        let mut found: Vec<Vec<Comparison>> = vec![Vec::new(); all.len()];
        let is_shown = |one: &[Comparison]| one.iter().any(|found| found.verdict().is_claim());
        loop {
            let open: Vec<usize> = (0..all.len()).filter(|at| !is_shown(&found[*at])).collect();
            open.iter().for_each(|at| found[*at] = self.judged(&all[*at], open.len()));
            if open.iter().all(|at| !is_shown(&found[*at])) {
                return found;
            }
        }
    }

    /// The lines that matter, the clearest first, and the number of runs that show it.
    fn screen(&mut self, settings: &[Setting]) -> Result<Option<(Vec<usize>, usize)>, LoopError> {
        let half = design(settings.len()).map_err(LoopError::Question)?;
        let rows: Vec<Vec<bool>> = half
            .iter()
            .cloned()
            .chain(half.iter().map(|row| row.iter().map(|on| !on).collect()))
            .collect();
        let planned: Vec<Vec<Planned>> = rows
            .iter()
            .zip(SCREEN..)
            .map(|(row, block)| {
                let on: Vec<Setting> = settings
                    .iter()
                    .zip(row)
                    .filter(|(_, on)| **on)
                    .map(|(s, _)| s.clone())
                    .collect();
                self.runs(&on, block)
            })
            .collect();
        let mut order = planned.clone();
        Random::new(self.experiment.seed).shuffle(&mut order);
        let Some(runs) = self.perform(order.into_iter().flatten().collect())? else {
            return Ok(None);
        };
        let metric = self.metric();
        let value = |row: &Vec<Planned>| -> Option<f64> {
            let logs: Option<Vec<f64>> = row
                .iter()
                .map(|planned| {
                    let run = runs.iter().find(|run| run.manifest.id == planned.id)?;
                    run.value(&metric).filter(|_| run.is_whole()).filter(|v| *v > 0.0).map(f64::ln)
                })
                .collect();
            logs.map(|logs| logs.iter().sum::<f64>() / logs.len() as f64)
        };
        let values: Option<Vec<f64>> = planned.iter().map(value).collect();
        let values =
            values.ok_or_else(|| failed("a run of the screening failed: see the report"))?;
        let mut effects: Vec<(usize, f64)> =
            effects(&rows, &values).iter().map(Effect::p).enumerate().collect();
        effects.sort_by(|a, b| a.1.total_cmp(&b.1));
        let chosen = effects.iter().filter(|(_, p)| *p <= SCREENED).take(LINES_MAX);
        Ok(Some((chosen.map(|(index, _)| *index).collect(), values.len())))
    }

    fn metric(&self) -> String {
        let primary = metrics::primary(&self.experiment.workloads[0].spec);
        let first = self.experiment.measure.first().cloned();
        first.unwrap_or_else(|| primary.first().map_or("time_s".into(), |name| (*name).to_owned()))
    }
}

/// The rows of a design for so many factors: each column has as many on as off, and no two are alike.
fn design(factors: usize) -> Result<Vec<Vec<bool>>, String> {
    let order = ORDERS.into_iter().find(|order| *order > factors).ok_or_else(|| {
        let most = ORDERS[ORDERS.len() - 1] - 1;
        format!(
            "the profile has {factors} lines for this machine: a screening takes at most {most}"
        )
    })?;
    let prime = order - 1;
    let is_square = |n: usize| n == 0 || (1..prime).any(|root| root * root % prime == n);
    let row =
        |shift: usize| (0..factors).map(|column| is_square((column + shift) % prime)).collect();
    Ok((0..prime).map(row).chain([vec![false; factors]]).collect())
}

/// The effect of each factor: the mean with it less the mean without it, with the error that all factors together leave.
fn effects(rows: &[Vec<bool>], values: &[f64]) -> Vec<Effect> {
    let runs = rows.len() as f64;
    let factors = rows[0].len();
    let sign = |row: &[bool], factor: usize| if row[factor] { 1.0 } else { -1.0 };
    let all = || rows.iter().zip(values);
    let mean = values.iter().sum::<f64>() / runs;
    let half = |factor: usize| all().map(|(row, v)| sign(row, factor) * v).sum::<f64>() / runs;
    let halves: Vec<f64> = (0..factors).map(half).collect();
    let left = |(row, value): (&Vec<bool>, &f64)| {
        let expected = halves.iter().enumerate().map(|(factor, half)| sign(row, factor) * half);
        value - mean - expected.sum::<f64>()
    };
    let degrees = runs - 1.0 - factors as f64;
    let variance = all().map(left).map(|rest| rest * rest).sum::<f64>() / degrees;
    let error = 2.0 * (variance / runs).sqrt().max(1e-12);
    halves.into_iter().map(|half| Effect { estimate: 2.0 * half, error, degrees }).collect()
}

impl Profiled {
    /// Whether the whole profile does something to some workload.
    #[must_use]
    pub(crate) fn is_shown(&self) -> bool {
        self.whole.iter().any(|found| found.no_verdict.is_empty() && found.verdict().is_claim())
    }

    /// Whether there is no verdict, since runs failed.
    #[must_use]
    pub fn has_no_verdict(&self) -> bool {
        let lines = self.lines.iter().flat_map(|line| line.alone.iter().chain(&line.without));
        self.whole.iter().chain(lines).any(|found| !found.no_verdict.is_empty())
    }

    /// What was found, the whole profile first.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let name =
            format!("the whole profile ({} settings) against the default", self.settings.len());
        let mut out: Vec<String> = self.whole.iter().map(|found| found.answer(&name)).collect();
        if !self.is_shown() {
            out.push("So no line of it was looked at.".to_owned());
            out.extend(self.untried());
            return out;
        }
        let share = |line: &Line| format!("{} {}.", line.setting, self.share(line));
        out.extend(self.lines.iter().map(share));
        for line in &self.lines {
            let setting = &line.setting;
            out.extend(line.alone.iter().map(|found| found.answer(&format!("{setting} alone"))));
            let without = format!("the profile without {setting}");
            out.extend(line.without.iter().map(|found| found.answer(&without)));
        }
        if !self.others.is_empty() {
            let named: Vec<String> = self.others.iter().map(ToString::to_string).collect();
            out.push(format!(
                "Not shown to matter in a screening of {} runs: {}.",
                self.screened,
                named.join(", ")
            ));
        }
        out.extend(self.untried());
        out
    }

    /// What a line has to do with what the whole profile does.
    fn share(&self, line: &Line) -> &'static str {
        // Of each workload on which the whole profile does something: the line alone, and the profile without it.
        let of = |all: &[Comparison], label: &str| {
            direction(all.iter().find(|found| found.workload == label)?)
        };
        let mut both = line.alone.iter().chain(&line.without);
        if both.any(|found| !found.no_verdict.is_empty()) {
            return "has no verdict, since runs failed";
        }
        let mut does = false;
        let mut is_missed = false;
        let mut opposes = false;
        for whole in &self.whole {
            let Some(verdict) = direction(whole) else { continue };
            let alone = of(&line.alone, &whole.workload);
            let without = of(&line.without, &whole.workload);
            let differs = |other: Option<Verdict>| other.is_some_and(|other| other != verdict);
            does |= alone == Some(verdict);
            is_missed |= differs(without);
            opposes |= differs(alone) || without == Some(verdict);
        }
        match (does, is_missed, opposes) {
            (true, true, _) => "does it by itself, and nothing else stands in for it",
            (true, false, _) => "does it by itself, and other lines stand in for it",
            (false, true, _) => "does it only together with other lines",
            (false, false, true) => "works against it: the profile without it does more",
            (false, false, false) => "is not shown to do it in fresh runs",
        }
    }

    /// The lines of the file that nothing here says anything of.
    fn untried(&self) -> Option<String> {
        let all = self.left_out.join("; ");
        (!all.is_empty()).then(|| format!("Not tried, so they may matter, too: {all}."))
    }
}

/// Better or worse, if that is shown and more than the margin.
fn direction(found: &Comparison) -> Option<Verdict> {
    let whole = &found.primary.first()?.whole;
    let is_large = whole.change.low < -whole.margin || whole.change.high > whole.margin;
    let verdict = found.verdict();
    (found.no_verdict.is_empty() && is_large && verdict.is_claim()).then_some(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, has, jitter};
    use schedlab_workload::RunSpec;

    #[test]
    fn columns_of_a_design_are_balanced_and_orthogonal() {
        for factors in [3, 7, 11, 13, 19, 23] {
            let rows = design(factors).unwrap();
            let sign = |on: bool| if on { 1 } else { -1 };
            for a in 0..factors {
                assert_eq!(rows.iter().map(|row| sign(row[a])).sum::<i32>(), 0, "{factors}: {a}");
                for b in 0..a {
                    let product: i32 = rows.iter().map(|row| sign(row[a]) * sign(row[b])).sum();
                    assert_eq!(product, 0, "{factors}: {a} and {b}");
                }
            }
        }
        assert!(design(24).is_err());
    }

    fn lines() -> Vec<Setting> {
        let line = |n: u32| Setting { knob: format!("k{n}"), value: format!("v{n}") };
        (0..7).map(line).collect()
    }

    fn studied(time: fn(&RunSpec, usize) -> f64) -> (Profiled, usize) {
        let text = "warm_up = 0\nretries = 0\n[workload]\nname = \"hackbench\"\n";
        let experiment = Experiment::parse(text, Path::new("x.toml")).unwrap();
        let results = tempfile::tempdir().unwrap();
        let mut fake = Fake::new();
        fake.time = time;
        let mut machines = Machines::one(&mut fake);
        let stop = || false;
        let found =
            profile(&mut machines, &experiment, &lines(), 10, results.path(), &stop, &mut |_| ());
        (found.unwrap().unwrap(), fake.ran.len())
    }

    #[test]
    fn the_line_that_does_it_is_named_alone_and_taken_out() {
        let (found, ran) = studied(|spec, n| jitter(n) * if has(spec, "v3") { 0.7 } else { 1.0 });
        assert!(ran <= profile_runs(7, 10).unwrap(), "{ran}");
        let told = found.sentences();
        assert!(told[0].contains("the whole profile (7 settings)"), "{told:#?}");
        assert!(told[0].contains("better in time_s"), "{told:#?}");
        assert_eq!(found.lines[0].setting.knob, "k3", "{told:#?}");
        let does = "k3=v3 does it by itself, and nothing else stands in for it.";
        assert!(told.iter().any(|text| text == does), "{told:#?}");
    }

    #[test]
    fn a_line_that_is_shown_leaves_its_share_of_the_level_to_the_others() {
        // One of the two lines does it in the screening alone, as chance may have it.
        let (found, _) = studied(|spec, n| {
            let line = |value, factor: f64| if has(spec, value) { factor } else { 1.0 };
            jitter(n) * line("v3", 0.7) * if n < 36 { line("v5", 0.9) } else { 1.0 }
        });
        let named: Vec<&str> = found.lines.iter().map(|line| &*line.setting.knob).collect();
        assert!(named.contains(&"k3") && named.contains(&"k5"), "{named:?}");
        let levels: Vec<f64> = found
            .lines
            .iter()
            .flat_map(|line| line.alone.iter().chain(&line.without))
            .map(|found| found.primary[0].whole.change.level)
            .collect();
        let sure = levels.iter().copied().fold(0.0, f64::max);
        let last = levels.iter().copied().fold(1.0, f64::min);
        assert!(last < sure, "what is shown leaves its share to the others: {levels:?}");
    }

    #[test]
    fn a_line_that_works_against_the_profile_is_not_said_to_do_it() {
        let (found, _) = studied(|spec, n| {
            let line = |value, factor: f64| if has(spec, value) { factor } else { 1.0 };
            jitter(n) * line("v3", 0.5) * line("v5", 1.25)
        });
        let told = found.sentences();
        assert!(told[0].contains("better in time_s"), "{told:#?}");
        let against = "k5=v5 works against it: the profile without it does more.";
        assert!(told[1..3].iter().any(|text| text == against), "{told:#?}");
        assert!(told[1..3].iter().any(|text| text.starts_with("k3=v3 does it")), "{told:#?}");
    }

    #[test]
    fn lines_that_were_not_tried_stand_in_the_answer() {
        let (mut found, _) = studied(|_, n| jitter(n));
        found.left_out = vec!["[cpu] governor".into()];
        let last = found.sentences().pop().unwrap();
        assert_eq!(last, "Not tried, so they may matter, too: [cpu] governor.");
    }

    #[test]
    fn a_profile_that_does_nothing_is_not_looked_into() {
        let (found, ran) = studied(|_, n| jitter(n));
        assert_eq!((ran, found.lines.len()), (20, 0), "{:#?}", found.sentences());
        assert!(found.sentences().last().unwrap().starts_with("So no line"));
    }
}
