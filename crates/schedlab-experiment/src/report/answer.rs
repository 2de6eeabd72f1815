//! The answer to the question of an experiment, in sentences: what each knob, hook or speed does, judged
//! over all other axes, with how sure that is and what would settle it.

use super::{Picture, Section, answers};
use crate::analysis::{Asked, Comparison, Judgement, LEVEL, Looks, Verdict, compare, percent};
use crate::{Experiment, Point, StoredRun, Varies, mixed_versions};
use schedlab_model::Warning;
use std::collections::{BTreeMap, BTreeSet};

/// Values of an axis that are reported with their change; of more, their number.
const VALUES_MAX: usize = 3;

/// Sentences of the answer that are open on the first screen.
const SENTENCES_OPEN: usize = 6;

/// A value of an axis against its first value.
#[derive(Clone, Debug)]
pub struct Contrast {
    /// The name of the axis.
    pub axis: String,
    /// The first value of the axis.
    pub base: String,
    /// The value that is compared with the first.
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

/// The answer in sentences, one for each axis and workload, with the best setting and what the looks spent.
#[must_use]
pub fn sentences(experiment: &Experiment, runs: &[StoredRun], looks: &Looks) -> Vec<String> {
    let contrasts = contrasts(experiment, runs, looks);
    let mut groups: Vec<(&str, Vec<&Contrast>)> = Vec::new();
    for contrast in &contrasts {
        match groups.iter_mut().find(|(axis, _)| *axis == contrast.axis) {
            Some((_, group)) => group.push(contrast),
            None => groups.push((&contrast.axis, vec![contrast])),
        }
    }
    let mut out: Vec<String> = groups.iter().flat_map(|(_, group)| of_axis(group)).collect();
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
    if !contrasts.is_empty() {
        let sure = format!(
            "All claims here together are false in at most {:.0} % of experiments.",
            LEVEL * 100.0
        );
        out.push(Some(looks.sentence()).filter(|text| !text.is_empty()).unwrap_or(sure));
    }
    out
}

/// Each comparison in a sentence, those with a claim first.
#[must_use]
pub fn details(experiment: &Experiment, runs: &[StoredRun], looks: &Looks) -> Vec<String> {
    let mut told: Vec<(bool, String)> = Vec::new();
    for contrast in contrasts(experiment, runs, looks) {
        for found in &contrast.found {
            let claims = found.primary.iter().any(|j| j.verdict.is_claim());
            told.push((claims, found.answer(&contrast.after())));
        }
    }
    told.sort_by_key(|(claims, _)| !claims);
    told.into_iter().map(|(_, text)| text).collect()
}

impl Contrast {
    /// What the comparison is called.
    fn after(&self) -> String {
        format!("{}={} against {}", self.axis, self.value, self.base)
    }
}

/// A sentence for each workload: what the values of an axis do against its first one.
fn of_axis(group: &[&Contrast]) -> Vec<String> {
    let labels: BTreeSet<&str> =
        group.iter().flat_map(|c| &c.found).map(|found| found.workload.as_str()).collect();
    let of = |label: &str| -> Vec<(&Contrast, &Comparison)> {
        let all = group.iter().flat_map(|c| c.found.iter().map(move |found| (*c, found)));
        all.filter(|(_, found)| found.workload == label).collect()
    };
    let sentence = |label: &str| match &of(label)[..] {
        [(contrast, found)] => found.answer(&contrast.after()),
        several => together(label, several),
    };
    labels.into_iter().map(sentence).collect()
}

/// Values by their names; of more, their number.
fn listed(values: &[&str], all: usize) -> String {
    match values.len() {
        count if count > VALUES_MAX => format!("{count} of {all} values"),
        _ => values.join(", "),
    }
}

/// Several values of an axis in one sentence: those that differ with their change, the others by verdict.
fn together(label: &str, all: &[(&Contrast, &Comparison)]) -> String {
    let judged: Vec<(&str, &Judgement)> = all
        .iter()
        .filter_map(|(contrast, found)| Some((contrast.value.as_str(), found.primary.first()?)))
        .collect();
    let [(contrast, _), ..] = all else { return String::new() };
    let Some((_, first)) = judged.first() else { return String::new() };
    let mut claims: Vec<&(&str, &Judgement)> =
        judged.iter().filter(|(_, j)| j.verdict.is_claim()).collect();
    let size = |j: &Judgement| j.whole.change.estimate.abs();
    claims.sort_by(|a, b| size(b.1).total_cmp(&size(a.1)));
    let mut parts: Vec<String> = claims
        .iter()
        .take(VALUES_MAX)
        .map(|(value, j)| {
            let change = &j.whole.change;
            let (low, high) = (percent(change.low), percent(change.high));
            format!("{value} is {} ({} [{low} .. {high}])", j.verdict, percent(change.estimate))
        })
        .collect();
    if claims.len() > VALUES_MAX {
        parts.push(format!("{} more differ", claims.len() - VALUES_MAX));
    } else if claims.is_empty() {
        parts.push("no value is certainly better or worse".into());
    }
    let values = |verdict: Verdict| -> Vec<&str> {
        judged.iter().filter(|(_, j)| j.verdict == verdict).map(|(value, _)| *value).collect()
    };
    let equivalent = values(Verdict::Equivalent);
    if !equivalent.is_empty() {
        let margin = first.whole.margin * 100.0;
        parts.push(format!(
            "equivalent within ±{margin:.0} %: {}",
            listed(&equivalent, judged.len())
        ));
    }
    let undecided = values(Verdict::Undecided);
    let head = format!("{} against {}, {label}", contrast.axis, contrast.base);
    let claimed = format!("{head}, {}: {}", first.whole.metric.name, parts.join("; "));
    if undecided.is_empty() {
        return claimed + ".";
    }
    let open = || judged.iter().filter(|(_, j)| j.verdict == Verdict::Undecided);
    let more = open().filter_map(|(_, j)| j.whole.more_runs).max().filter(|more| *more > 0);
    let copies = open().all(|(_, j)| !j.whole.change.low.is_finite());
    let settle = match (copies, more) {
        (true, _) => "These have too few runs, or runs without any spread.".to_owned(),
        (false, Some(more)) => {
            format!("About {more} more {} would settle them.", first.whole.basis)
        }
        (false, None) => "More runs would settle them.".to_owned(),
    };
    format!("{claimed}; undecided: {}. {settle}", listed(&undecided, judged.len()))
}

/// The first section of a report: the answer, how far it holds, and the warnings by kind.
#[must_use]
pub fn section(
    experiment: &Experiment,
    runs: &[StoredRun],
    looks: &Looks,
    pictures: Vec<Picture>,
) -> Section {
    let mut section = Section::first("Answer");
    let told = sentences(experiment, runs, looks);
    if told.is_empty() {
        section.paragraph("The experiment varies nothing, so there is nothing to compare.");
    }
    let open = told.len().min(SENTENCES_OPEN);
    for sentence in &told[..open] {
        section.paragraph(sentence);
    }
    section.pictures(pictures);
    for sentence in &told[open..] {
        section.paragraph(sentence);
    }
    let details = details(experiment, runs, looks);
    if details.len() > 1 {
        section.folded(format!("All {} comparisons", details.len()), details.join("\n"));
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
mod tests;
