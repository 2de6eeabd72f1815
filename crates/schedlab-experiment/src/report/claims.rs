//! The verdicts on the claims of an experiment, for a report and for a terminal.

use super::{Section, Table, readable, significant};
use crate::analysis::{Finding, Judged};
use schedlab_model::Unit;
use std::collections::BTreeSet;

/// The section with all verdicts, the reasons for the bounds, and what is known of a model's error; `None`
/// without claims.
#[must_use]
pub fn section(judged: &[Judged]) -> Option<Section> {
    if judged.is_empty() {
        return None;
    }
    let mut section = Section::new("Claims");
    section.paragraph(summary(judged));
    section.paragraph(
        "A claim is reproduced if the whole interval lies within its bounds, and not reproduced if the whole \
         interval lies outside. All intervals of this table hold together with 95 %.",
    );
    let mut table = Table::new(["claim", "verdict", "measured", "interval", "bounds"]);
    for one in judged {
        table.row([
            one.says.clone(),
            one.verdict.clone(),
            measured(one),
            interval(one),
            bounds(one),
        ]);
    }
    section.table(table);
    let reasons: Vec<String> = judged.iter().map(reason).collect();
    section.folded("Why these bounds, and what limits the verdicts", reasons.join("\n"));
    let model: BTreeSet<&str> =
        judged.iter().flat_map(|one| one.model.iter().map(String::as_str)).collect();
    for sentence in model {
        section.paragraph(format!("Model: {sentence}."));
    }
    Some(section)
}

/// The verdicts counted, in a sentence.
#[must_use]
pub fn summary(judged: &[Judged]) -> String {
    let verdicts: BTreeSet<(Finding, &str)> =
        judged.iter().map(|one| (one.finding, one.verdict.as_str())).collect();
    let count = |verdict: &str| judged.iter().filter(|one| one.verdict == verdict).count();
    let parts: Vec<String> =
        verdicts.into_iter().map(|(_, verdict)| format!("{} {verdict}", count(verdict))).collect();
    format!("Of {} claims: {}.", judged.len(), parts.join(", "))
}

/// The verdicts as lines for a terminal: each with its claim, number and bounds.
#[must_use]
pub fn lines(judged: &[Judged]) -> Vec<String> {
    let mut lines = Vec::new();
    for one in judged {
        lines.push(format!("{}: {}", one.verdict, one.says));
        let interval = match one.interval {
            Some(_) => format!(" ({})", interval(one)),
            None => String::new(),
        };
        let note = if one.note.is_empty() { String::new() } else { format!(" {}", one.note) };
        let measured = measured(one);
        lines.push(format!(
            "  {} {measured}{interval}; agrees if {}.{note}",
            subject(one),
            bounds(one)
        ));
    }
    lines
}

/// What is judged, in a few words.
fn subject(one: &Judged) -> String {
    let named = |point: &crate::Point| {
        let parts: Vec<String> = point.iter().map(|(k, v)| format!("{k}={v}")).collect();
        parts.join(" ")
    };
    let at = if one.at.is_empty() { String::new() } else { format!(" at {}", named(&one.at)) };
    let against = one.against.as_ref().map(|point| format!(", ratio to {}", named(point)));
    let along = one.along.as_ref().map(|axis| format!(", slope along {axis}"));
    let end = against.or(along).unwrap_or_default();
    format!("{}{at}{end}:", one.metric)
}

fn number(one: &Judged, value: f64) -> String {
    match one.unit {
        // A slope has the metric's unit for each unit of its axis.
        Some(unit) if one.along.is_some() && unit == Unit::Count => significant(value),
        Some(unit) => readable(value, unit),
        None => significant(value),
    }
}

fn measured(one: &Judged) -> String {
    one.value.map_or_else(|| "-".to_owned(), |value| number(one, value))
}

fn interval(one: &Judged) -> String {
    match one.interval {
        Some((low, high)) => format!("{} .. {}", number(one, low), number(one, high)),
        None if one.exact => "exact per seed".to_owned(),
        None => "none".to_owned(),
    }
}

fn bounds(one: &Judged) -> String {
    match (one.at_least, one.at_most) {
        (Some(low), Some(high)) => format!("{} .. {}", number(one, low), number(one, high)),
        (Some(low), None) => format!("at least {}", number(one, low)),
        (None, Some(high)) => format!("at most {}", number(one, high)),
        (None, None) => "any".to_owned(),
    }
}

fn reason(one: &Judged) -> String {
    let note = if one.note.is_empty() { String::new() } else { format!(" {}", one.note) };
    let machines = one.machines.join(", ");
    let on = if machines.is_empty() { String::new() } else { format!(" [{machines}]") };
    format!("{} {} blocks{on}: {}{note}", subject(one), one.blocks, one.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(finding: Finding, verdict: &str) -> Judged {
        Judged {
            says: "a short slice costs time".into(),
            workload: "hackbench".into(),
            metric: "time_s".into(),
            at: [("slice".to_owned(), "1ms".to_owned())].into(),
            against: Some([("slice".to_owned(), "4ms".to_owned())].into()),
            along: None,
            unit: None,
            at_least: Some(1.1),
            at_most: None,
            why: "the figure shows a tenth.".into(),
            machines: vec!["sim:cpus=1".into()],
            value: Some(1.25),
            interval: Some((1.2, 1.3)),
            level: 0.95,
            blocks: 6,
            exact: false,
            finding,
            verdict: verdict.into(),
            note: String::new(),
            model: vec!["errors of the model: 4 %".into()],
        }
    }

    #[test]
    fn a_verdict_is_told_with_its_number_interval_and_bounds() {
        let one = judged(Finding::Reproduced, "reproduced in the model");
        let said = lines(std::slice::from_ref(&one));
        assert_eq!(said[0], "reproduced in the model: a short slice costs time");
        let numbers = "  time_s at slice=1ms, ratio to slice=4ms: 1.25 (1.20 .. 1.30); agrees if at least 1.10.";
        assert_eq!(said[1], numbers);
        let html = {
            let mut report = super::super::Report::new("t");
            report.add(section(&[one]).unwrap());
            report.html()
        };
        assert!(html.contains("Model: errors of the model: 4 %."), "{html}");
    }

    #[test]
    fn verdicts_are_counted_by_kind() {
        let all = [
            judged(Finding::CannotBeJudged, "cannot be judged"),
            judged(Finding::Reproduced, "reproduced"),
            judged(Finding::CannotBeJudged, "cannot be judged"),
            judged(Finding::NotReproduced, "not reproduced"),
        ];
        let said = summary(&all);
        assert_eq!(said, "Of 4 claims: 1 reproduced, 1 not reproduced, 2 cannot be judged.");
        assert!(section(&[]).is_none());
    }

    #[test]
    fn bounds_and_intervals_are_told_as_far_as_there_are_any() {
        let one = judged(Finding::Reproduced, "reproduced");
        let bounds_of = |at_least, at_most| bounds(&Judged { at_least, at_most, ..one.clone() });
        assert_eq!(bounds_of(Some(1.1), Some(2.0)), "1.10 .. 2.00");
        assert_eq!(bounds_of(Some(1.1), None), "at least 1.10");
        assert_eq!(bounds_of(None, Some(2.0)), "at most 2.00");
        assert_eq!(bounds_of(None, None), "any");
        let told = |ends, exact| interval(&Judged { interval: ends, exact, ..one.clone() });
        assert_eq!(told(Some((1.2, 1.3)), true), "1.20 .. 1.30");
        assert_eq!([told(None, true), told(None, false)], ["exact per seed", "none"]);
        assert_eq!(measured(&Judged { value: None, ..one }), "-");
    }

    #[test]
    fn a_number_has_the_unit_of_what_is_judged() {
        let one = judged(Finding::Reproduced, "reproduced");
        let along = Some("slice".to_owned());
        let told = |unit, along| number(&Judged { unit, along, ..one.clone() }, 0.002);
        assert_eq!(told(None, None), "0.00200");
        assert_eq!(told(Some(Unit::Seconds), None), readable(0.002, Unit::Seconds));
        assert_eq!(told(Some(Unit::Seconds), along.clone()), readable(0.002, Unit::Seconds));
        // A slope of counts is no count.
        assert_eq!(told(Some(Unit::Count), along), significant(0.002));
        assert_eq!(told(Some(Unit::Count), None), readable(0.002, Unit::Count));
    }

    #[test]
    fn what_is_judged_is_a_value_a_ratio_or_a_slope() {
        let one = judged(Finding::Reproduced, "reproduced");
        let none = Judged { against: None, at: crate::Point::new(), ..one.clone() };
        assert_eq!(subject(&none), "time_s:");
        let slope = Judged { along: Some("groups".into()), ..none };
        assert_eq!(subject(&slope), "time_s, slope along groups:");
        assert_eq!(subject(&one), "time_s at slice=1ms, ratio to slice=4ms:");
    }

    #[test]
    fn a_reason_names_blocks_machines_and_what_limits_the_verdict() {
        let one = judged(Finding::Reproduced, "reproduced");
        let head = "time_s at slice=1ms, ratio to slice=4ms: 6 blocks";
        assert_eq!(reason(&one), format!("{head} [sim:cpus=1]: the figure shows a tenth."));
        let bare = Judged { machines: Vec::new(), note: "Few runs.".into(), ..one };
        assert_eq!(reason(&bare), format!("{head}: the figure shows a tenth. Few runs."));
        let said = lines(&[Judged { interval: None, ..bare }]);
        assert!(said[1].ends_with(": 1.25; agrees if at least 1.10. Few runs."), "{said:?}");
    }
}
