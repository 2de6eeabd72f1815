//! Answers in sentences, from verdicts that are made up and from those on runs.

use super::*;
use crate::analysis::{Basis, Change, Row, Side};
use crate::fake::{has, jitter, runs};
use crate::report::Report;
use schedlab_model::{Better, Metric, Unit};

/// A verdict over all points, with an interval of 1 % around its estimate.
fn judged(verdict: Verdict, estimate: f64, more_runs: Option<usize>) -> Judgement {
    let change = Change { low: estimate - 0.01, estimate, high: estimate + 0.01, level: 0.95 };
    let whole = Row {
        workload: "hackbench".into(),
        point: None,
        metric: Metric::new("time_s", Unit::Seconds, Better::Lower),
        before: Side::default(),
        after: Side::default(),
        basis: Basis::Pairs,
        change,
        p: 0.01,
        p_ranks: None,
        tail: None,
        drift: false,
        exact: false,
        adjusted: Vec::new(),
        detectable: None,
        more_runs,
        margin: 0.05,
        verdict,
        note: String::new(),
    };
    Judgement { verdict, whole, points: Vec::new(), disagreement: 1.0 }
}

/// A value of the axis `slice` against 1 ms.
fn contrast(value: &str, judgement: Judgement) -> Contrast {
    let found = Comparison {
        workload: "hackbench".into(),
        primary: vec![judgement],
        look_at: Vec::new(),
        dropped: Vec::new(),
        no_verdict: String::new(),
        noise: String::new(),
        failures: Default::default(),
        boots: String::new(),
    };
    let (axis, base) = ("slice".to_owned(), "1ms".to_owned());
    Contrast { axis, base, value: value.to_owned(), found: vec![found] }
}

/// The sentence on an axis of one workload.
fn said(all: &[Contrast]) -> String {
    let sentences = of_axis(&all.iter().collect::<Vec<_>>());
    assert_eq!(sentences.len(), 1, "one workload");
    sentences[0].clone()
}

#[test]
fn more_than_three_values_are_counted() {
    assert_eq!(listed(&["1ms", "2ms", "4ms"], 9), "1ms, 2ms, 4ms");
    assert_eq!(listed(&["1ms", "2ms", "4ms", "8ms"], 9), "4 of 9 values");
}

#[test]
fn values_of_an_axis_are_told_together_with_the_largest_change_first() {
    let all = [
        contrast("2ms", judged(Verdict::Worse, 0.05, None)),
        contrast("4ms", judged(Verdict::Better, -0.2, None)),
        contrast("8ms", judged(Verdict::Equivalent, 0.0, None)),
        contrast("16ms", judged(Verdict::Undecided, 0.02, Some(30))),
        contrast("32ms", judged(Verdict::Undecided, 0.02, Some(7))),
    ];
    assert_eq!(
        said(&all),
        "slice against 1ms, hackbench, time_s: 4ms is better (-20.0 % [-21.0 % .. -19.0 %]); 2ms is worse \
         (+5.0 % [+4.0 % .. +6.0 %]); equivalent within ±5 %: 8ms; undecided: 16ms, 32ms. About 30 more pairs \
         settle them in 8 of 10 cases."
    );
    assert!(said(&all[..3]).ends_with("equivalent within ±5 %: 8ms."));
}

#[test]
fn of_many_changes_the_largest_are_told_and_the_rest_counted() {
    let worse = |value, change| contrast(value, judged(Verdict::Worse, change, None));
    let all = [worse("2ms", 0.1), worse("3ms", 0.3), worse("4ms", 0.2), worse("5ms", 0.4)];
    let text = said(&all);
    assert!(text.contains("5ms is worse") && text.contains("4ms is worse"), "{text}");
    assert!(!text.contains("2ms is") && text.ends_with("; 1 more differ."), "{text}");
    assert!(!said(&all[..3]).contains("more differ"));
}

#[test]
fn values_that_do_not_differ_are_said_so() {
    let same = |value| contrast(value, judged(Verdict::Equivalent, 0.0, None));
    assert_eq!(
        said(&[same("2ms"), same("4ms")]),
        "slice against 1ms, hackbench, time_s: no value is certainly better or worse; equivalent within ±5 %: 2ms, \
         4ms."
    );
}

#[test]
fn what_would_settle_undecided_values_is_told() {
    let open = |value, more| contrast(value, judged(Verdict::Undecided, 0.02, more));
    let without_more = said(&[open("2ms", None), open("4ms", Some(3))]);
    assert!(without_more.ends_with("Ten times as many runs would not settle all of them."));
    let mut copies = judged(Verdict::Undecided, 0.02, Some(5));
    copies.whole.change.low = f64::NEG_INFINITY;
    let all = [contrast("2ms", copies.clone()), contrast("4ms", copies.clone())];
    assert!(said(&all).ends_with("These have too few runs, or runs without any spread."));
    let some = [contrast("2ms", copies), open("4ms", Some(4))];
    assert!(
        said(&some).ends_with("About 5 more pairs settle them in 8 of 10 cases."),
        "{}",
        said(&some)
    );
}

#[test]
fn a_single_value_is_told_as_its_comparison_is() {
    let one = said(&[contrast("2ms", judged(Verdict::Worse, 0.05, None))]);
    let expected = "slice=2ms against 1ms, hackbench: worse in time_s: +5.0 % [+4.0 % .. +6.0 %].";
    assert_eq!(one, expected);
}

fn experiment(axes: &str) -> Experiment {
    let text = format!("[workload]\nname = \"hackbench\"\n{axes}");
    Experiment::parse(&text, std::path::Path::new("x.toml")).unwrap()
}

const SLICE: &str = "[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\"]\n";
const GROUPS: &str = "[[axis]]\noption = \"groups\"\nvalues = [1, 8]\n";
const LOOPS: &str = "[[axis]]\noption = \"loops\"\nvalues = [10, 20]\n";

#[test]
fn what_can_be_chosen_is_compared_and_loads_are_no_contest() {
    let axes = |text: &str| -> Vec<String> {
        chosen(&experiment(text)).into_iter().map(|choice| choice.axis).collect()
    };
    assert_eq!(axes(&[GROUPS, SLICE].concat()), ["slice"]);
    assert!(axes(&[GROUPS, LOOPS].concat()).is_empty());
    let setting = GROUPS.replace("option", "kind = \"setting\"\noption");
    assert_eq!(axes(&setting), ["groups"], "the file says so");
    let pipe = "[[axis]]\noption = \"pipe\"\nvalues = [true, false]\n";
    assert_eq!(axes(pipe), ["pipe"]);
    let load = pipe.replace("option", "kind = \"load\"\noption");
    assert!(axes(&load).is_empty());
    let single = "[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\"]\n";
    assert!(axes(single).is_empty(), "one value is no choice");
    let choice = &chosen(&experiment(SLICE))[0];
    let point = Point::from([("slice".to_owned(), "2ms".to_owned())]);
    assert_eq!((choice.values.len(), &choice.values[1]), (2, &("2ms".to_owned(), point)));
    let order = |text: &str| {
        let text = format!("{text}[workload]\nname = \"hackbench\"\n{SLICE}");
        let experiment = Experiment::parse(&text, std::path::Path::new("x.toml")).unwrap();
        chosen(&experiment)[0].interleaved
    };
    assert!(order("") && !order("order = \"listed\"\n"));
}

const TWO_RUNS: &str = "repeats = 2\n[workload]\nname = \"hackbench\"\n";

/// Runs at two places, of which the second kernel ran first.
fn at_places(axes: &[(&str, [&str; 2])]) -> (Experiment, Vec<StoredRun>) {
    let (experiment, mut runs) = runs(TWO_RUNS, |_, n| jitter(n));
    let mut all = Vec::new();
    for (index, began) in [(0, "2026-01-02T00:00:00Z"), (1, "2026-01-01T00:00:00Z")] {
        for run in &mut runs {
            run.manifest.started_at = began.to_owned();
            for (axis, values) in axes {
                run.manifest.point.insert((*axis).to_owned(), values[index].to_owned());
            }
        }
        all.extend(runs.iter().cloned());
    }
    (experiment, all)
}

#[test]
fn places_are_compared_with_the_one_that_ran_first() {
    let (experiment, runs) = at_places(&[("kernel", ["6.1", "6.12"])]);
    let choice = places(&experiment, &runs).unwrap();
    let names: Vec<&str> = choice.values.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((choice.axis.as_str(), names), ("kernel", vec!["6.12", "6.1"]));
    assert!(!choice.interleaved);
    let found = contrasts(&experiment, &runs, &Looks::default());
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].base.as_str(), found[0].value.as_str()), ("6.12", "6.1"));
    assert_eq!(found[0].found[0].primary[0].whole.before.values.len(), 2);
    assert!(places(&experiment, &runs[..2]).is_none(), "one place");
}

#[test]
fn places_that_differ_in_several_ways_are_named_by_all_of_them() {
    let (experiment, runs) = at_places(&[("kernel", ["6.1", "6.12"]), ("host", ["a", "b"])]);
    let choice = places(&experiment, &runs).unwrap();
    let names: Vec<&str> = choice.values.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(choice.axis, "place");
    assert_eq!(names, ["host=b kernel=6.12", "host=a kernel=6.1"]);
}

#[test]
fn an_axis_that_is_called_as_a_place_is_no_place() {
    let (_, runs) = at_places(&[("kernel", ["6.1", "6.12"])]);
    let own = experiment("[[axis]]\nknob = \"kernel\"\nvalues = [\"6.1\", \"6.12\"]\n");
    assert!(place(&own, &runs[0]).is_empty() && places(&own, &runs).is_none());
    assert!(!place(&experiment(""), &runs[0]).is_empty());
}

const THREE: &str = "question = \"Is 4 ms slower?\"\nrepeats = 6\n[workload]\nname = \"hackbench\"\n\
    [[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\", \"4ms\"]\n\
    [[axis]]\noption = \"groups\"\nvalues = [1, 8]\n";

#[test]
fn the_answer_says_what_a_knob_does_over_all_loads() {
    // 4 ms costs a fifth more; a run varies by some percent.
    let (experiment, runs) =
        runs(THREE, |spec, n| jitter(n) * if has(spec, "4ms") { 1.2 } else { 1.0 });
    let told = sentences(&experiment, &runs, &Looks::default());
    assert!(
        told[0].starts_with("slice against 1ms, hackbench, time_s: 4ms is worse (+"),
        "{told:#?}"
    );
    assert!(!told[0].contains("2ms is"), "{told:#?}");
    assert!(told[1].starts_with("hackbench: of 3 settings the best over all loads is slice="));
    assert!(told[1].ends_with("; 1 others cannot be told from it."), "{told:#?}");
    let sure = "All claims here together are false in at most 5 % of experiments.";
    // A curve along the load for each slice stands before it.
    assert_eq!((told.len(), told[5].as_str()), (6, sure));
    let looks = Looks { planned: vec![6, 12], taken: vec![6] };
    let last = sentences(&experiment, &runs, &looks).pop().unwrap();
    assert!(last.starts_with("This is look 1 of 2 planned ones"), "{last}");
    let details = details(&experiment, &runs, &Looks::default());
    assert!(details[0].starts_with("slice=4ms against 1ms, hackbench: worse"), "{details:#?}");
    assert!(details[1].starts_with("slice=2ms against 1ms"), "{details:#?}");
}

#[test]
fn an_experiment_is_decided_when_no_comparison_is_open() {
    let decided = |time| {
        let (experiment, runs) = runs(THREE, time);
        is_decided(&experiment, &runs, &Looks::default())
    };
    assert!(decided(|spec, n| 1.0 + (n % 3) as f64 / 1e4 + f64::from(has(spec, "4ms"))));
    assert!(!decided(|spec, n| {
        let noise = (n * 7 % 11) as f64 / 10.0;
        1.0 + noise + f64::from(has(spec, "4ms"))
    }));
    let (nothing, runs) = runs(TWO_RUNS, |_, n| jitter(n));
    assert!(is_decided(&nothing, &runs, &Looks::default()), "it compares nothing");
    assert!(sentences(&nothing, &runs, &Looks::default()).is_empty());
}

fn html(section: Section) -> String {
    let mut report = Report::new("t");
    report.add(section);
    report.html()
}

#[test]
fn the_first_section_holds_pictures_behind_the_first_sentences() {
    let labels = ["a", "b", "c", "d", "e", "f", "g"];
    let mut loops = 0;
    let workloads = labels.map(|label| {
        loops += 1;
        let options = format!("label = \"{label}\"\noptions = {{ loops = {loops} }}");
        format!("[[workload]]\nname = \"hackbench\"\n{options}\n")
    });
    let (experiment, mut all) =
        runs(&format!("repeats = 2\n{}{SLICE}", workloads.concat()), |_, n| jitter(n));
    all[0].warnings.push(Warning::new("busy", "it was", "wait"));
    let draw = |theme: &schedlab_draw::Theme| schedlab_draw::Scene::new(64, 64, "t", theme.panel);
    let picture = Picture { scenes: crate::report::ThemedScene::of(draw), caption: "shown".into() };
    let text = html(section(&experiment, &all, &Looks::default(), vec![picture]));
    let parts: Vec<&str> = text.split("<div class=\"row\">").collect();
    let count = |text: &str| text.matches("<p>slice=2ms against 1ms, ").count();
    assert_eq!(parts.len(), 2);
    assert_eq!((count(parts[0]), count(parts[1])), (SENTENCES_OPEN, 1), "{text}");
    assert!(parts[1].contains("<summary>All 7 comparisons</summary>"), "{text}");
    assert!(parts[1].contains("Warnings: busy in 1 of 28 runs at 1 points (wait)."), "{text}");
}

#[test]
fn the_first_section_of_a_single_comparison_is_its_sentence() {
    let text = format!("{TWO_RUNS}{SLICE}");
    let (experiment, all) = runs(&text, |_, n| jitter(n));
    let text = html(section(&experiment, &all, &Looks::default(), Vec::new()));
    assert!(!text.contains("<details>") && !text.contains("Warnings:"), "{text}");
    let (nothing, all) = runs(TWO_RUNS, |_, n| jitter(n));
    let text = html(section(&nothing, &all, &Looks::default(), Vec::new()));
    assert!(text.contains("The experiment varies nothing, so there is nothing to compare."));
    assert!(!text.contains("All claims here"), "{text}");
}

#[test]
fn warnings_are_counted_by_kind_run_and_point() {
    let (_, mut all) = runs(&format!("{TWO_RUNS}{SLICE}"), |_, n| jitter(n));
    all.sort_by(|a, b| a.manifest.point.cmp(&b.manifest.point));
    let warning = |code, what| Warning::new(code, what, format!("remedy of {code}"));
    all[0].warnings = vec![warning("busy", "first"), warning("hot", "first")];
    all[1].warnings = vec![warning("busy", "second")];
    all[2].warnings = vec![warning("busy", "third")];
    assert_eq!(
        by_kind(&all),
        [
            "busy in 3 of 4 runs at 2 points (remedy of busy)",
            "hot in 1 of 4 runs at 1 points (remedy of hot)",
        ]
    );
    assert!(by_kind(&all[3..]).is_empty());
}
