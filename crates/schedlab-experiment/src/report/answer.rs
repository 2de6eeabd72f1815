//! The answer to the question of an experiment, in sentences: what each knob, hook or speed does, judged
//! over all other axes, with how sure that is and what would settle it.

use super::{Section, answers};
use crate::analysis::{Asked, Comparison, compare};
use crate::{Experiment, StoredRun, Varies};
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

/// Compares each value of each axis that can be chosen with the axis's first value, over all other axes.
#[must_use]
pub fn contrasts(experiment: &Experiment, runs: &[StoredRun]) -> Vec<Contrast> {
    let chosen =
        |axis: &&crate::Axis| axis.values.len() > 1 && !matches!(axis.varies, Varies::Option(_));
    let mut axes: Vec<&crate::Axis> = experiment.axes.iter().filter(chosen).collect();
    if axes.is_empty() {
        // Options alone: the only axis is the question.
        axes = experiment.axes.iter().filter(|axis| axis.values.len() > 1).collect();
        axes.truncate(1);
    }
    let all: usize = axes.iter().map(|axis| axis.values.len() - 1).sum();
    let asked = Asked {
        metrics: experiment.measure.iter().take(1).cloned().collect(),
        interleaved: experiment.order == crate::Order::Interleaved,
        tests: all,
        ..Asked::default()
    };
    let of = |axis: &crate::Axis, value: &str| -> Vec<StoredRun> {
        let name = axis.varies.name();
        let mut kept: Vec<StoredRun> = runs
            .iter()
            .filter(|run| run.manifest.point.get(name).is_some_and(|v| v == value))
            .cloned()
            .collect();
        kept.iter_mut().for_each(|run| {
            run.manifest.point.remove(name);
        });
        kept
    };
    let mut out = Vec::new();
    for axis in axes {
        let base = of(axis, &axis.values[0]);
        for value in &axis.values[1..] {
            let found = compare(&[(&base, &of(axis, value))], &asked);
            let (axis_name, first) = (axis.varies.name().to_owned(), axis.values[0].clone());
            out.push(Contrast { axis: axis_name, base: first, value: value.clone(), found });
        }
    }
    out
}

/// The answer in sentences, the clearest first.
#[must_use]
pub fn sentences(experiment: &Experiment, runs: &[StoredRun]) -> Vec<String> {
    let contrasts = contrasts(experiment, runs);
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
pub fn section(experiment: &Experiment, runs: &[StoredRun]) -> Section {
    let mut section = Section::new("Answer");
    let told = sentences(experiment, runs);
    if told.is_empty() {
        section.paragraph("The experiment varies nothing, so there is nothing to compare.");
    }
    for sentence in told {
        section.paragraph(sentence);
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
        let told = sentences(&experiment, &runs_of(results.path()).unwrap().runs);
        assert!(
            told[0].starts_with("slice=4ms against 1ms, hackbench: worse in time_s: +"),
            "{told:#?}"
        );
        assert!(told[1].starts_with("slice=2ms against 1ms"), "{told:#?}");
        assert!(!told[1].contains("worse") && !told[1].contains("better"), "{told:#?}");
    }
}
