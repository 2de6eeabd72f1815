//! What made-up runs show: which pictures, which metrics, which numbers.

use super::*;
use crate::fake::{has, jitter, runs};
use crate::report::Report;
use std::path::Path;

const HEAD: &str = "repeats = 3\n[workload]\nname = \"hackbench\"\n";
const SLICE: &str = "[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\", \"4ms\"]\n";
const GROUPS: &str = "[[axis]]\noption = \"groups\"\nvalues = [1, 8]\n";

fn text(before: &str, axes: &[&str]) -> String {
    format!("{before}{HEAD}{}", axes.concat())
}

/// Runs in which 4 ms costs a fifth more.
fn slow_at_4ms(text: &str) -> (Experiment, Vec<StoredRun>) {
    runs(text, |spec, n| jitter(n) * if has(spec, "4ms") { 1.2 } else { 1.0 })
}

fn html(shown: Shown) -> String {
    let mut report = Report::new("t");
    let mut first = Section::new("first");
    first.pictures(shown.first);
    report.add(first);
    shown.sections.into_iter().for_each(|section| {
        report.add(section);
    });
    report.html()
}

#[test]
fn a_knob_and_a_load_have_a_map_and_curves_along_both() {
    let (experiment, runs) = slow_at_4ms(&text("", &[SLICE, GROUPS]));
    let shown = answers(Some(&experiment), &runs);
    let captions: Vec<&str> = shown.first.iter().map(|picture| picture.caption.as_str()).collect();
    assert_eq!(captions.len(), 2, "a map, and curves along the knob");
    assert!(captions[1].contains("B 1.23 s for 4ms"), "{captions:?}");
    let text = html(shown);
    assert_eq!(text.matches("<figure").count(), 3, "and curves along the load");
    assert!(text.contains(">hackbench along slice; a panel for each value of groups<"));
    assert!(text.contains(">hackbench along groups; a panel for each value of slice<"));
    assert!(text.contains("<h2>hackbench: what the experiment shows</h2>"), "{text}");
}

#[test]
fn only_what_the_experiment_draws_is_drawn() {
    let figures = |draw: &str| {
        let draw = format!("draw = [{draw}]\n");
        let (experiment, runs) = slow_at_4ms(&text(&draw, &[SLICE, GROUPS]));
        let shown = answers(Some(&experiment), &runs);
        (shown.first.len(), html(shown).matches("<figure").count())
    };
    assert_eq!(figures("\"map\""), (1, 1));
    assert_eq!(figures("\"curves\""), (1, 2));
    assert_eq!(figures("\"switches\""), (1, 2));
}

#[test]
fn runs_without_an_axis_or_a_metric_show_nothing() {
    let (experiment, runs) = slow_at_4ms(&text("", &[]));
    let shown = answers(Some(&experiment), &runs);
    assert!(shown.first.is_empty() && shown.sections.is_empty());
    let (experiment, runs) =
        slow_at_4ms(&text("measure = [\"wakeup_latency_ns_p99\"]\n", &[SLICE]));
    assert!(answers(Some(&experiment), &runs).sections.is_empty());
}

#[test]
fn runs_that_were_left_out_are_counted() {
    let (experiment, mut runs) = slow_at_4ms(&text("", &[SLICE]));
    let (left_out, failed) =
        ("runs were stopped and are left out.", "runs failed: they are no results.");
    let text = html(answers(Some(&experiment), &runs));
    assert!(!text.contains(left_out) && !text.contains(failed), "{text}");
    runs[0].manifest.exit_code = 1;
    runs[1].manifest.interrupted = true;
    let text = html(answers(Some(&experiment), &runs));
    for what in [left_out, failed] {
        assert!(text.contains(&format!("<p>1 {what}</p>")), "{text}");
    }
}

#[test]
fn the_setting_to_take_home_is_named_or_it_is_said_that_there_is_none() {
    let told = |(experiment, runs): (Experiment, Vec<StoredRun>)| {
        let cells = Cells::new(&runs);
        let metric = Metric::new("time_s", Unit::Seconds, Better::Lower);
        take_home(&experiment, &cells, "hackbench", &metric)
    };
    let clear = text("", &[SLICE, GROUPS]).replace("repeats = 3", "repeats = 6");
    let sentence = told(slow_at_4ms(&clear)).unwrap();
    assert!(sentence.starts_with("Over all loads the best of 3 settings is slice="), "{sentence}");
    assert!(sentence.contains("; 1 cannot be told from it. It lies beside this report"));
    let same = told(runs(&clear, |_, n| jitter(n))).unwrap();
    assert_eq!(
        same,
        "Over all loads the runs show no difference in time_s between settings, so none is best."
    );
    let (experiment, mut short) = slow_at_4ms(&text("", &[SLICE]));
    short[0].manifest.failure = Some("it crashed".into());
    let said = told((experiment, short)).unwrap();
    assert!(said.starts_with("Runs failed or were cut off, so no setting"), "{said}");
    assert_eq!(told(slow_at_4ms(&text("", &[GROUPS]))), None, "no knob was varied");
    let single = text("", &["[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\"]\n", GROUPS]);
    assert_eq!(told(slow_at_4ms(&single)), None, "one value is no choice");
    let once = clear.replace("repeats = 6", "repeats = 1");
    assert_eq!(told(slow_at_4ms(&once)), None, "single runs tell nothing");
}

#[test]
fn winners_are_named_for_each_workload() {
    let clear = text("", &[SLICE, GROUPS]).replace("repeats = 3", "repeats = 6");
    let (experiment, all) = slow_at_4ms(&clear);
    let found = winners(&experiment, &all);
    assert_eq!((found.len(), found[0].of, found[0].rivals), (1, 3, 2));
    let (experiment, all) = runs(&clear, |_, n| jitter(n));
    assert!(winners(&experiment, &all).is_empty());
}

fn metric(name: &str, better: Better) -> Metric {
    Metric::new(name, Unit::Count, better)
}

#[test]
fn metrics_are_those_that_were_asked_for_else_those_that_judge_with_the_time_first() {
    let judging = ["a", "b", "c", "time_s", "d"].map(|name| metric(name, Better::Lower));
    let all = [&[metric("plain", Better::Neither)][..], &judging].concat();
    let names = |experiment: Option<&Experiment>| -> Vec<String> {
        chosen(experiment, &all).into_iter().map(|metric| metric.name).collect()
    };
    assert_eq!(names(None), ["time_s", "a", "b", "c"]);
    let parse = |text: &str| Experiment::parse(text, Path::new("x.toml")).unwrap();
    assert_eq!(names(Some(&parse(HEAD))), ["time_s", "a", "b", "c"]);
    let hook = "[hooks]\nmetric = [\"./measure\"]\n";
    let asked = parse(&format!("measure = [\"plain\", \"none\", \"b\"]\n{HEAD}{hook}"));
    assert_eq!(names(Some(&asked)), ["plain", "b"]);
}

#[test]
fn the_table_has_a_row_for_each_point_with_its_interval() {
    let (_, mut all) = runs(&text("", &[SLICE]), |spec, n| match has(spec, "4ms") {
        true => 2.0,
        false => jitter(n),
    });
    // One run of 2 ms is whole, and of none there is another metric.
    let mut at_2ms = all.iter_mut().filter(|run| run.manifest.point["slice"] == "2ms");
    at_2ms.next();
    at_2ms.for_each(|run| run.manifest.exit_code = 1);
    let cells = Cells::new(&all);
    let time = Metric::new("time_s", Unit::Seconds, Better::Lower);
    let table = table(&cells, "hackbench", &[time, metric("none", Better::Lower)]).text();
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect())
        .collect();
    assert_eq!(lines[0], ["point", "runs", "time_s", "95 %", "none", "95 %"]);
    assert_eq!(lines[1][..2], ["slice=1ms", "3"]);
    assert!(lines[1][3].contains(" s .. ") || lines[1][3].contains(" ms .. "), "{table}");
    assert_eq!((lines[2][1], lines[2][3]), ("1, 2 failed", "one run"), "{table}");
    assert_eq!(lines[3][2..], ["2.00 s", "identical in 3 runs", "-", "-"], "{table}");
}

#[test]
fn points_units_and_scales_are_told() {
    let point = [("groups", "1"), ("slice", "2ms")];
    let point = point.map(|(axis, value)| (axis.to_owned(), value.to_owned()));
    assert_eq!(place(&Point::from(point)), ", groups=1, slice=2ms");
    assert_eq!([factor(Unit::Seconds), factor(Unit::Nanoseconds)], [1e9, 1.0]);
    assert_eq!(values(Unit::Nanoseconds), Values::Nanoseconds);
    assert_eq!(values(Unit::Seconds), Values::Nanoseconds);
    assert_eq!(values(Unit::Fraction), Values::Percent);
    assert_eq!(values(Unit::Count), Values::Plain);
}
