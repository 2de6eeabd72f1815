//! The answer to the question of an experiment, in sentences: what each knob, hook or speed does, judged
//! over all other axes, with how sure that is and what would settle it.

use super::{Picture, Section, answers, scale};
use crate::analysis::{
    Cells, CompareOptions, Comparison, Judgement, LEVEL, Looks, Verdict, compare, scales,
};
use crate::{Experiment, Point, StoredRun, mixed_versions};
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
    pub(crate) base: String,
    /// The value that is compared with the first.
    pub value: String,
    /// What was found, workload by workload.
    pub found: Vec<Comparison>,
}

/// Compares each value of each axis that can be chosen with the axis's first value, over all other axes;
/// and each place (kernel, host) with the one that ran first.
#[must_use]
pub fn contrasts(experiment: &Experiment, runs: &[StoredRun], looks: &Looks) -> Vec<Contrast> {
    let mut choices = chosen(experiment);
    choices.extend(places(experiment, runs));
    let all: usize = choices.iter().map(|choice| choice.values.len() - 1).sum();
    let asked = CompareOptions {
        metrics: experiment.measure.clone(),
        tests: all,
        looks: looks.clone(),
        allow_failures: experiment.allow_failures,
        adjust: experiment.adjust.clone(),
        ..CompareOptions::default()
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
        let Choice { interleaved, shuffled, .. } = choice;
        let asked = CompareOptions { interleaved, shuffled, ..asked.clone() };
        let (first, others) = choice.values.split_first().expect("it has two values or more");
        let base = of(first);
        for value in others {
            let found = compare(&[(&base, &of(value))], &asked);
            let axis = choice.axis.clone();
            let base = first.0.clone();
            let value = value.0.clone();
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
    shuffled: bool,
}

/// The axes of the experiment that are settings: their values compete. How much work is asked for is no contest.
fn chosen(experiment: &Experiment) -> Vec<Choice> {
    let is_chosen = |axis: &&crate::Axis| axis.values.len() > 1 && experiment.work(axis).is_none();
    let choice = |axis: &crate::Axis| {
        let name = axis.varies.name();
        let value = |v: &String| (v.clone(), Point::from([(name.to_owned(), v.clone())]));
        Choice {
            axis: name.to_owned(),
            values: axis.values.iter().map(value).collect(),
            interleaved: experiment.order == crate::Order::Interleaved,
            shuffled: experiment.order == crate::Order::Shuffled,
        }
    };
    experiment.axes.iter().filter(is_chosen).map(choice).collect()
}

/// Where a run was done, as far as its point says so; an axis of the experiment of the same name wins.
fn place(experiment: &Experiment, run: &StoredRun) -> Point {
    let mut place = run.place_axes();
    place.retain(|name, _| experiment.axes.iter().all(|axis| axis.varies.name() != name));
    place
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
    (places.len() > 1).then_some(Choice { axis, values, interleaved: false, shuffled: false })
}

/// Whether the runs decide every comparison of the experiment; where it compares nothing, they do.
pub(crate) fn is_decided(experiment: &Experiment, runs: &[StoredRun], looks: &Looks) -> bool {
    let contrasts = contrasts(experiment, runs, looks);
    let found = contrasts.iter().flat_map(|contrast| &contrast.found);
    let verdicts: Vec<Verdict> = found.map(Comparison::verdict).collect();
    !verdicts.contains(&Verdict::Undecided)
}

/// The answer in sentences, one for each axis and workload, with the best setting and what the looks spent.
#[must_use]
pub(crate) fn sentences(experiment: &Experiment, runs: &[StoredRun], looks: &Looks) -> Vec<String> {
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
        let named: Vec<String> = winner.settings.iter().map(ToString::to_string).collect();
        out.push(format!(
            "{}: of {} settings the best over all loads is {}; {} others cannot be told from it.",
            winner.workload,
            winner.of,
            named.join(" "),
            winner.rivals - 1
        ));
    }
    out.extend(scales(experiment, &Cells::new(runs)).iter().map(scale::sentence));
    let judged = || contrasts.iter().flat_map(|contrast| &contrast.found);
    if contrasts.is_empty() {
        out.splice(0..0, failed(runs));
    }
    // A drift is no chance, and copies have none.
    let by_chance = |judged: &Judgement| !judged.whole.drift && !judged.whole.exact;
    let mut judged = judged().filter(|found| found.no_verdict.is_empty());
    if judged.any(|found| found.primary.iter().any(by_chance)) {
        let sure = format!(
            "All claims here together are false in at most {:.0} % of experiments.",
            LEVEL * 100.0
        );
        out.push(Some(looks.sentence()).filter(|text| !text.is_empty()).unwrap_or(sure));
    }
    out
}

/// How many runs failed, where nothing is compared; `None` without failures.
fn failed(runs: &[StoredRun]) -> Option<String> {
    let whys: Vec<String> = runs.iter().filter_map(StoredRun::failure).collect();
    let first = whys.first()?;
    Some(format!("No answer: {} of {} runs failed ({first}).", whys.len(), runs.len()))
}

/// Whether something was to be compared and could not be, since runs failed.
#[must_use]
pub fn has_no_verdict(experiment: &Experiment, runs: &[StoredRun], looks: &Looks) -> bool {
    let contrasts = contrasts(experiment, runs, looks);
    contrasts.iter().flat_map(|contrast| &contrast.found).any(|found| !found.no_verdict.is_empty())
}

/// The answer. Of an experiment that compares nothing: each metric that matters at each point, in a sentence.
#[must_use]
pub fn lines(experiment: &Experiment, runs: &[StoredRun], looks: &Looks) -> Vec<String> {
    match sentences(experiment, runs, looks) {
        none if none.is_empty() => answers::centres(experiment, runs),
        told => told,
    }
}

/// Each comparison in a sentence, those with a claim first.
#[must_use]
pub(crate) fn details(experiment: &Experiment, runs: &[StoredRun], looks: &Looks) -> Vec<String> {
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
        several => several_values(label, several),
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
fn several_values(label: &str, all: &[(&Contrast, &Comparison)]) -> String {
    let judged: Vec<Value<'_>> =
        all.iter().filter_map(|(contrast, found)| Value::of(contrast, found)).collect();
    let [(contrast, _), ..] = all else { return String::new() };
    let barred: Vec<&Comparison> =
        all.iter().map(|(_, found)| *found).filter(|found| !found.no_verdict.is_empty()).collect();
    if let [first, ..] = barred[..] {
        let head = format!("{} against {}, {label}: no verdict", contrast.axis, contrast.base);
        let of = if barred.len() < all.len() { " on some values" } else { "" };
        return format!("{head}{of}. {}", first.no_verdict);
    }
    let Some(first) = judged.first() else { return String::new() };
    let mut claims: Vec<&Value<'_>> = judged.iter().filter(|v| v.verdict.is_claim()).collect();
    let size = |value: &Value<'_>| value.judged.whole.change.estimate.abs();
    claims.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let mut parts: Vec<String> = claims.iter().take(VALUES_MAX).map(|v| v.claim()).collect();
    if claims.len() > VALUES_MAX {
        parts.push(format!("{} more differ", claims.len() - VALUES_MAX));
    } else if claims.is_empty() {
        parts.push("no value is certainly better or worse".into());
    }
    let values = |verdict: Verdict| -> Vec<&str> {
        judged.iter().filter(|v| v.verdict == verdict).map(|v| v.value).collect()
    };
    let equivalent = values(Verdict::Equivalent);
    if !equivalent.is_empty() {
        let margin = first.judged.whole.margin * 100.0;
        parts.push(format!(
            "equivalent within ±{margin:.0} %: {}",
            listed(&equivalent, judged.len())
        ));
    }
    let undecided = values(Verdict::Undecided);
    let question = all[0].1.question().map_or(String::new(), |question| question + " ");
    let head = format!("{question}{} against {}, {label}", contrast.axis, contrast.base);
    let rows = || judged.iter().map(|value| &value.judged.whole);
    let beside = match (rows().any(|row| row.drift), rows().all(|row| row.exact)) {
        (true, _) => "; drift is included, since the sides did not run interleaved",
        (false, true) => "; exact for this seed",
        (false, false) => "",
    };
    let name = &first.judged.whole.metric.name;
    let used = |(contrast, found): &(&Contrast, &Comparison)| {
        let judged = found.primary.iter().skip(1).find(|j| j.whole.metric.name == "cpu_s")?;
        Some(format!("; {} {}", contrast.value, judged.cpu_time()?))
    };
    let used: Vec<String> = all.iter().filter_map(used).take(VALUES_MAX).collect();
    let claimed = format!("{head}, {name}: {}{beside}{}", parts.join("; "), used.concat());
    let others = others(all);
    if undecided.is_empty() {
        return claimed + "." + &others;
    }
    let open = || rows().filter(|row| row.verdict == Verdict::Undecided);
    let settle = if open().all(|row| row.exact) {
        "Vary the seed: this machine repeats itself.".to_owned()
    } else if open().all(|row| !row.change.low.is_finite()) {
        "These have too few runs, or runs without any spread.".to_owned()
    } else if let Some(more) = open().map(|row| row.more_runs).collect::<Option<Vec<_>>>() {
        let more = more.into_iter().max().unwrap_or(1).max(1);
        format!("About {more} more {} settle them in 8 of 10 cases.", first.judged.whole.basis)
    } else {
        "Ten times as many runs would not settle all of them.".to_owned()
    };
    format!("{claimed}; undecided: {}. {settle}{others}", listed(&undecided, judged.len()))
}

/// A sentence for each further metric that was asked for: the values that it claims something of.
fn others(all: &[(&Contrast, &Comparison)]) -> String {
    let [(_, first), ..] = all else { return String::new() };
    let further = first.primary.iter().skip(1).map(|judged| judged.whole.metric.name.as_str());
    let of = |name: &str| {
        let claim = |(contrast, found): &(&Contrast, &Comparison)| {
            let judged = found.primary.iter().find(|j| j.whole.metric.name == name)?;
            let claim =
                format!("{} is {} ({})", contrast.value, judged.words(), judged.whole.change);
            judged.verdict.is_claim().then_some(claim)
        };
        let claims: Vec<String> = all.iter().filter_map(claim).collect();
        match claims.len() {
            0 => format!(" {name}: no change is shown."),
            many if many > VALUES_MAX => {
                let named = claims[..VALUES_MAX].join("; ");
                format!(" {name}: {named}; {} more differ.", many - VALUES_MAX)
            }
            _ => format!(" {name}: {}.", claims.join("; ")),
        }
    };
    further.filter(|name| *name != "cpu_s").map(of).collect()
}

/// A value of an axis with what was found of it: the verdict on all primary metrics, and the metric that leads.
struct Value<'c> {
    value: &'c str,
    found: &'c Comparison,
    judged: &'c Judgement,
    verdict: Verdict,
}

impl<'c> Value<'c> {
    fn of(contrast: &'c Contrast, found: &'c Comparison) -> Option<Self> {
        let verdict = found.verdict();
        let judged = found.primary.first()?;
        Some(Self { value: &contrast.value, found, judged, verdict })
    }

    fn claim(&self) -> String {
        let Self { value, found, judged, verdict } = self;
        if *verdict == Verdict::Mixed && judged.verdict != Verdict::Mixed {
            let each = |j: &Judgement| {
                format!("{} in {} ({})", j.words(), j.whole.metric.name, j.whole.change)
            };
            let each: Vec<String> = found.primary.iter().map(each).collect();
            return format!("{value} is mixed: {}", each.join(" and "));
        }
        format!("{value} is {} ({})", judged.words(), judged.whole.change)
    }
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
