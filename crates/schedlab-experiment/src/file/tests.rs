//! Experiment files that are right, and those that are wrong.

use super::*;

fn parse(text: &str) -> Result<Experiment, FileError> {
    Experiment::parse(text, Path::new("x.toml"))
}

fn mistakes(text: &str) -> Vec<String> {
    match parse(text) {
        Err(FileError::Wrong { mistakes, .. }) => {
            mistakes.iter().map(ToString::to_string).collect()
        }
        other => panic!("expected mistakes, got {other:?}"),
    }
}

#[test]
fn a_small_file_means_one_point_and_one_run() {
    let experiment = parse("[workload]\nname = \"hackbench\"\n").unwrap();
    assert_eq!(experiment.name, "x");
    assert_eq!((experiment.repeats, experiment.order), (1, Order::Interleaved));
    assert_eq!(experiment.workloads[0].label, "hackbench");
}

#[test]
fn every_mistake_is_named_with_line_key_and_what_was_expected() {
    let text = "repaets = 5\norder = \"randomised\"\n[workload]\nname = \"hackbench\"\n\
        option.groups = 3\n[[axis]]\nknob = \"base_slice\"\nvalues = []\n";
    assert_eq!(
        mistakes(text),
        [
            "line 1, column 1: repaets: unknown key; did you mean 'repeats'?",
            "line 2, column 9: order: expected one of interleaved, shuffled, listed, found 'randomised'",
            "line 5, column 1: workload.option: unknown key; did you mean 'options'?",
            "line 8, column 10: axis.values: an axis needs at least one value",
        ]
    );
}

#[test]
fn a_metric_that_no_run_measures_is_a_mistake_unless_a_hook_measures() {
    let text =
        "measure = [\"time\", \"time_s\", \"noise/requests_per_s\"]\n[workload]\nname = \"cpu\"\n";
    let found = mistakes(text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("line 1, column 11: measure: unknown metric 'time'"), "{found:?}");
    let hooked = format!("{text}[hooks]\nmetric = [\"./measure\"]\n");
    assert!(Experiment::parse(&hooked, std::path::Path::new("x.toml")).is_ok());
}

#[test]
fn wrong_types_say_what_was_found() {
    let text = "repeats = \"five\"\nwarm_up = -1\ntime_limit = 3\n[workload]\nname = 7\n";
    let found = mistakes(text);
    assert_eq!(
        found[0],
        "line 1, column 11: repeats: expected a whole number from 1 to 100000, found the text \"five\""
    );
    assert_eq!(
        found[1],
        "line 2, column 11: warm_up: expected a whole number from 0 to 1000, found the number -1"
    );
    assert!(
        found[2].starts_with("line 3, column 14: time_limit: expected a duration"),
        "{found:?}"
    );
    assert!(found[3].contains("workload"), "{found:?}");
}

#[test]
fn text_that_is_no_toml_is_named_by_its_line() {
    let found = mistakes("name = \"x\"\nrepeats = = 3\n");
    assert!(found[0].starts_with("line 2, column 1"), "{found:?}");
}

#[test]
fn ranges_and_log_ranges_keep_their_units() {
    let text = "[workload]\nname = \"hackbench\"\n\
        [[axis]]\nknob = \"slice\"\nrange = { from = \"0.1ms\", to = \"100ms\", count = 4, log = true }\n\
        [[axis]]\noption = \"groups\"\nrange = { from = 1, to = 7, step = 2 }\n\
        [[axis]]\noption = \"share\"\nrange = { from = 0.1, to = 0.3, count = 3 }\n";
    let experiment = parse(text).unwrap();
    assert_eq!(experiment.axes[0].values, ["100us", "1ms", "10ms", "100ms"]);
    assert_eq!(experiment.axes[1].values, ["1", "3", "5", "7"]);
    assert_eq!(experiment.axes[2].values, ["0.1", "0.2", "0.3"]);
}

#[test]
fn ranges_that_mean_nothing_are_refused() {
    for (range, expected) in [
        ("{ from = 1, to = \"2ms\", count = 3 }", "all be durations"),
        ("{ from = 3, to = 1, count = 3 }", "from must be less"),
        ("{ from = 0, to = 1, count = 3, log = true }", "starts above 0"),
        ("{ from = 1, to = 2 }", "give step"),
        ("{ from = 1, to = 2, stepp = 1 }", "did you mean 'step'"),
        ("{ from = 0, to = 1e9, step = 1 }", "more than 10000"),
    ] {
        let text = format!("[workload]\nname = \"a\"\n[[axis]]\nknob = \"k\"\nrange = {range}\n");
        let found = mistakes(&text);
        assert!(found[0].contains(expected), "{range}: {found:?}");
    }
}

#[test]
fn a_commands_option_axis_needs_its_place_in_the_command() {
    let text = "[workload]\ncommand = [\"make\", \"-j{jobs}\"]\n[[axis]]\noption = \"jobs\"\nvalues = [1, 2]\n";
    assert!(parse(text).is_ok());
    let text = text.replace("{jobs}", "4");
    assert!(mistakes(&text)[0].contains("no {jobs} to put the value in"));
}

#[test]
fn two_workloads_need_two_labels() {
    let text = "[[workload]]\nname = \"schbench\"\n[[workload]]\nname = \"schbench\"\n";
    assert!(mistakes(text)[0].contains("give this one a label"));
}

#[test]
fn what_is_drawn_of_a_trace_needs_a_recording_and_a_hook_axis_its_place() {
    let text = "draw = [\"map\", \"cores\"]\n[workload]\nname = \"hackbench\"\n";
    assert_eq!(
        mistakes(text),
        ["line 1, column 8: draw: picture 'cores' needs a trace: add record = true"]
    );
    assert!(parse(&format!("record = true\n{text}")).is_ok());
    let text = "[workload]\nname = \"a\"\n[[axis]]\nhook = \"s\"\nvalues = [\"x\"]\n[hooks]\nready = [\"true\"]\n";
    let found = mistakes(text);
    assert!(found.iter().any(|m| m.contains("no hook has {s} to put the value in")), "{found:?}");
    assert!(found.iter().any(|m| {
        m.contains("hooks.ready: has no effect without 'during': add it, or leave this out")
    }));
}

#[test]
fn machines_are_an_axis_where_there_are_several() {
    let text = |machine: &str| format!("machine = {machine}\n[workload]\nname = \"cpu\"\n");
    let two = parse(&text("[\"sim:hz=100,cpus=2\", \"host\"]")).unwrap();
    let names: Vec<String> = two.machines().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["sim:cpus=2,hz=100", "host"]);
    let plan = crate::Plan::new(&two);
    let runs: Vec<(&str, String)> = plan
        .runs
        .iter()
        .map(|run| (run.point["machine"].as_str(), run.machine.to_string()))
        .collect();
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().all(|(point, machine)| point == machine), "{runs:?}");
    let ids: std::collections::BTreeSet<_> = plan.runs.iter().map(|run| &run.id).collect();
    assert_eq!(ids.len(), 2, "other machine, other run");
    let mut one = two;
    one.put_on("host".parse().unwrap());
    assert_eq!((one.machines().len(), one.axes.len()), (1, 0));
    let single = parse(&text("\"sim:cpus=2\"")).unwrap();
    assert_eq!((single.machines().len(), single.axes.len()), (1, 0));
    for (machine, why) in [
        ("[]", "line 1, column 11: machine: name at least one machine"),
        ("[\"host\", 3]", "expected a machine"),
        ("[\"sim:a=1,b=2\", \"sim:b=2,a=1\"]", "the value sim:a=1,b=2 is there twice"),
    ] {
        let found = mistakes(&text(machine));
        assert!(found.iter().any(|mistake| mistake.contains(why)), "{machine}: {found:?}");
    }
    let boots = mistakes(&format!("boots = 2\n{}", text("[\"host\", \"sim\"]")));
    assert!(boots[0].starts_with("line 1, column 9: boots: boots are counted on one"), "{boots:?}");
}
