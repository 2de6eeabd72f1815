//! The answer to the question of an experiment, in sentences: what each knob, hook or speed does, judged
//! over all other axes, with how sure that is and what would settle it.

use super::{Section, answers};
use crate::analysis::{Asked, Comparison, Looks, Verdict, compare};
use crate::{Experiment, Point, StoredRun, Varies, mixed_versions};
use schedlab_model::Warning;
use std::collections::BTreeMap;

/// Settings that are compared with the first one; of more, those with a claim are told.
const SETTINGS_MAX: usize = 4;

/// A value of an axis against its first value.
#[derive(Clone, Debug)]
pub struct Contrast {
    /// The axis.
    pub axis: String,
    /// Its first value.
    pub base: String,
    /// The other value.
    pub value: String,
    /// What was found, workload by workload.
    pub found: Vec<Comparison>,
}

/// Compares each value of each axis that can be chosen with the axis's first value, over all other axes;
/// and each place (kernel, host) with the one that ran first.
#[must_use]
pub fn contrasts(experiment: &Experiment, runs: &[StoredRun], looks: &Looks) -> Vec<Contrast> {
    let mut choices = chosen(experiment, !runs.iter().any(|run| has_place(experiment, run)));
    choices.extend(places(experiment, runs));
    let all: usize = choices.iter().map(|choice| choice.values.len() - 1).sum();
    let asked = Asked {
        metrics: experiment.measure.iter().take(1).cloned().collect(),
        tests: all,
        looks: looks.clone(),
        ..Asked::default()
    };
    let of = |(_, place): &(String, Point)| -> Vec<StoredRun> {
        let lies =
            |run: &&StoredRun| place.iter().all(|(k, v)| run.manifest.point.get(k) == Some(v));
        let mut kept: Vec<StoredRun> = runs.iter().filter(lies).cloned().collect();
        for run in &mut kept {
            run.manifest.point.retain(|axis, _| !place.contains_key(axis));
        }
        kept
    };
    let mut out = Vec::new();
    for choice in choices {
        let asked = Asked { interleaved: choice.interleaved, ..asked.clone() };
        let (first, others) = choice.values.split_first().expect("it has two values or more");
        let base = of(first);
        for value in others {
            let found = compare(&[(&base, &of(value))], &asked);
            let (axis, base, value) = (choice.axis.clone(), first.0.clone(), value.0.clone());
            out.push(Contrast { axis, base, value, found });
        }
    }
    out
}

/// What is compared: the values of an axis, or the places of the runs.
struct Choice {
    axis: String,
    /// Each value's name, and where its runs lie.
    values: Vec<(String, Point)>,
    interleaved: bool,
}

/// The axes of the experiment that can be chosen; where there are none and `or_options`, the first one.
fn chosen(experiment: &Experiment, or_options: bool) -> Vec<Choice> {
    let several = || experiment.axes.iter().filter(|axis| axis.values.len() > 1);
    let is_chosen = |axis: &&crate::Axis| !matches!(axis.varies, Varies::Option(_));
    let mut axes: Vec<&crate::Axis> = several().filter(is_chosen).collect();
    if axes.is_empty() && or_options {
        // Options alone: the only axis is the question.
        axes = several().take(1).collect();
    }
    let choice = |axis: &crate::Axis| {
        let name = axis.varies.name();
        let value = |v: &String| (v.clone(), Point::from([(name.to_owned(), v.clone())]));
        Choice {
            axis: name.to_owned(),
            values: axis.values.iter().map(value).collect(),
            interleaved: experiment.order == crate::Order::Interleaved,
        }
    };
    axes.into_iter().map(choice).collect()
}

/// Where a run was done, as far as its point says so; an axis of the experiment of the same name wins.
fn place(experiment: &Experiment, run: &StoredRun) -> Point {
    let mut place = run.place_axes();
    place.retain(|name, _| experiment.axes.iter().all(|axis| axis.varies.name() != name));
    place
}

fn has_place(experiment: &Experiment, run: &StoredRun) -> bool {
    !place(experiment, run).is_empty()
}

/// The places of the runs, the one that ran first before the others.
fn places(experiment: &Experiment, runs: &[StoredRun]) -> Option<Choice> {
    let mut began: BTreeMap<Point, &str> = BTreeMap::new();
    for run in runs {
        let at = run.manifest.started_at.as_str();
        let first = began.entry(place(experiment, run)).or_insert(at);
        *first = at.min(first);
    }
    let mut places: Vec<(&str, Point)> = began.into_iter().map(|(p, at)| (at, p)).collect();
    places.sort();
    let axes: Vec<String> = places.first()?.1.keys().cloned().collect();
    let name = |point: &Point| match &axes[..] {
        [_] => point.values().cloned().collect::<Vec<String>>().concat(),
        _ => point.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<String>>().join(" "),
    };
    let axis = if let [axis] = &axes[..] { axis.clone() } else { "place".to_owned() };
    let values = places.iter().map(|(_, point)| (name(point), point.clone())).collect();
    (places.len() > 1).then_some(Choice { axis, values, interleaved: false })
}

/// Whether the runs decide every comparison of the experiment; where it compares nothing, they do.
pub(crate) fn is_decided(experiment: &Experiment, runs: &[StoredRun], looks: &Looks) -> bool {
    let contrasts = contrasts(experiment, runs, looks);
    let verdicts = contrasts.iter().flat_map(|contrast| &contrast.found).flat_map(|c| &c.primary);
    let verdicts: Vec<Verdict> = verdicts.map(|judgement| judgement.verdict).collect();
    !verdicts.contains(&Verdict::Undecided)
}

/// The answer in sentences, the clearest first.
#[must_use]
pub fn sentences(experiment: &Experiment, runs: &[StoredRun], looks: &Looks) -> Vec<String> {
    let contrasts = contrasts(experiment, runs, looks);
    let mut told: Vec<(bool, String)> = Vec::new();
    for contrast in &contrasts {
        let after = format!("{}={} against {}", contrast.axis, contrast.value, contrast.base);
        for found in &contrast.found {
            let claims = found.primary.iter().any(|j| j.verdict.is_claim());
            told.push((claims, found.answer(&after)));
        }
    }
    let claims = told.iter().filter(|(claims, _)| *claims).count();
    told.sort_by_key(|(claims, _)| !claims);
    let rest = told.len().saturating_sub(SETTINGS_MAX.max(claims.min(2 * SETTINGS_MAX)));
    let shown = told.len() - rest;
    let mut out: Vec<String> = told.into_iter().take(shown).map(|(_, text)| text).collect();
    if rest > 0 {
        out.push(format!("{rest} more comparisons stand in the tables below."));
    }
    out.extend(Some(looks.sentence()).filter(|text| !text.is_empty()));
    for winner in answers::winners(experiment, runs) {
        let named: Vec<String> =
            winner.settings.iter().map(|s| format!("{}={}", s.knob, s.value)).collect();
        out.push(format!(
            "{}: of {} settings the best over all loads is {}; {} others cannot be told from it.",
            winner.workload,
            winner.of,
            named.join(" "),
            winner.rivals - 1
        ));
    }
    out
}

/// The first section of a report: the answer, how far it holds, and the warnings by kind.
#[must_use]
pub fn section(experiment: &Experiment, runs: &[StoredRun], looks: &Looks) -> Section {
    let mut section = Section::new("Answer");
    let told = sentences(experiment, runs, looks);
    if told.is_empty() {
        section.paragraph("The experiment varies nothing, so there is nothing to compare.");
    }
    for sentence in told {
        section.paragraph(sentence);
    }
    let versions = mixed_versions(runs);
    if !versions.is_empty() {
        section.paragraph(versions);
    }
    let warnings = by_kind(runs);
    if !warnings.is_empty() {
        section.paragraph(format!("Warnings: {}.", warnings.join("; ")));
    }
    section
}

/// Each kind of warning with the runs and points that it touches.
#[must_use]
pub fn by_kind(runs: &[StoredRun]) -> Vec<String> {
    let mut kinds: BTreeMap<&str, (usize, Vec<String>, &Warning)> = BTreeMap::new();
    for run in runs {
        let manifest = &run.manifest;
        let place = format!("{} {:?}", manifest.workload, manifest.point);
        for warning in &run.warnings {
            let kind = kinds.entry(&warning.code).or_insert_with(|| (0, Vec::new(), warning));
            kind.0 += 1;
            if !kind.1.contains(&place) {
                kind.1.push(place.clone());
            }
        }
    }
    let told = |(code, (count, places, first)): (&str, (usize, Vec<String>, &Warning))| {
        format!(
            "{code} in {count} of {} runs at {} points ({})",
            runs.len(),
            places.len(),
            first.remedy
        )
    };
    kinds.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::{Plan, run_plan, runs_of};
    use std::path::Path;

    #[test]
    fn the_answer_says_what_a_knob_does_over_all_loads() {
        let text = "question = \"Is 4 ms slower?\"\nrepeats = 6\n[workload]\nname = \"hackbench\"\n\
                    [[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\", \"4ms\"]\n\
                    [[axis]]\noption = \"groups\"\nvalues = [1, 8]\n";
        let experiment = Experiment::parse(text, Path::new("x.toml")).unwrap();
        let results = tempfile::tempdir().unwrap();
        let mut fake = Fake::new();
        // 4 ms costs a fifth more; a run varies by some percent.
        fake.time = |spec, n| {
            let slow = spec.settings.iter().any(|s| s.value == "4ms");
            (1.0 + (n * 7 % 11) as f64 / 300.0) * if slow { 1.2 } else { 1.0 }
        };
        let plan = Plan::new(&experiment);
        run_plan(&mut fake, &plan, results.path(), &|| false, &mut |_| ()).unwrap();
        let told =
            sentences(&experiment, &runs_of(results.path()).unwrap().runs, &Looks::default());
        assert!(
            told[0].starts_with("slice=4ms against 1ms, hackbench: worse in time_s: +"),
            "{told:#?}"
        );
        assert!(told[1].starts_with("slice=2ms against 1ms"), "{told:#?}");
        assert!(!told[1].contains("worse") && !told[1].contains("better"), "{told:#?}");
    }
}
