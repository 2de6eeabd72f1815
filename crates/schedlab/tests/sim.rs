//! The simulated machine through the command: loads, traces, experiments, refusals.
#![expect(clippy::unwrap_used, reason = "tests; clippy sees the functions beside them as none")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

fn schedlab(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn a_load_has_figures_and_a_trace_that_can_be_asked() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "load",
        "hackbench",
        "-g",
        "2",
        "-f",
        "4",
        "-l",
        "50",
        "--on",
        "sim:cpus=4,kernel=cfs-6.1",
        "--trace",
        "sim.dat",
    ];
    let run = schedlab(&arguments, folder.path());
    assert!(run.status.success(), "{}", text(&run));
    assert!(text(&run).contains("messages a second"), "{}", text(&run));
    let asked = schedlab(&["trace", "latency", "sim.dat"], folder.path());
    assert!(asked.status.success(), "{}", text(&asked));
    assert!(text(&asked).contains("hackbench"), "{}", text(&asked));
}

#[test]
fn what_has_no_model_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, part) in [
        (&["load", "command", "--on", "sim", "--", "true"][..], "can't run a command"),
        (&["load", "jobs", "--on", "sim"], "can't run jobs"),
        (&["load", "cpu", "--policy", "fifo:1", "--on", "sim"], "real-time"),
        (&["load", "cpu", "--on", "sim:cpus=0"], "0 CPUs"),
        (&["load", "cpu", "--on", "sim:costs=missing.toml"], "missing.toml"),
    ] {
        let output = schedlab(arguments, folder.path());
        assert!(!output.status.success(), "{arguments:?}");
        assert!(text(&output).contains(part), "{arguments:?}: {}", text(&output));
    }
}

/// Both granularities of CFS, three values each.
const GRID: &str = r#"
name = "grid"
title = "Granularities"
question = "What do they do?"
machine = "sim:cpus=1,kernel=cfs-6.1"
repeats = 1
order = "listed"

[record]

[[workload]]
label = "pipes"
name = "hackbench"
options = { groups = 1, fds = 4, loops = 50, pipe = true }

[[axis]]
knob = "min_granularity"
values = ["1ms", "4ms", "15ms"]

[[axis]]
knob = "wakeup_granularity"
values = ["0", "2ms", "8ms"]
"#;

/// The figures of each run of an experiment.
fn figures(folder: &Path) -> BTreeMap<String, String> {
    let runs = std::fs::read_dir(folder.join("grid/runs")).unwrap().map(Result::unwrap);
    let read = |run: std::fs::DirEntry| {
        let text = std::fs::read_to_string(run.path().join("figures.jsonl")).unwrap();
        (run.file_name().into_string().unwrap(), text)
    };
    runs.map(read).collect()
}

#[test]
fn an_experiment_of_nine_runs_has_a_report_and_gives_the_same_again() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for folder in &folders {
        std::fs::write(folder.path().join("grid.toml"), GRID).unwrap();
        let run = schedlab(&["run", "grid.toml", "--output", "."], folder.path());
        assert!(run.status.success(), "{}", text(&run));
    }
    let [one, two] = folders.each_ref().map(|folder| figures(folder.path()));
    assert_eq!(one.len(), 9);
    assert_eq!(one, two);
    let different: std::collections::BTreeSet<&String> = one.values().collect();
    assert!(different.len() > 1, "the knobs change nothing");
    let report = std::fs::read_to_string(folders[0].path().join("grid/report.html")).unwrap();
    assert!(report.contains("Granularities") && report.contains("sim:cpus=1"));
    assert!(report.contains("simulated"), "the report says that it is a simulation");
}

#[test]
fn costs_of_a_machine_are_measured_and_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let against = "sim:costs=icount-6.12,kernel=eevdf-6.12";
    let on = "sim:kernel=eevdf-6.12";
    let arguments =
        ["sim", "calibrate", "--against", against, "--on", on, "--repeat", "1", "-o", "own.toml"];
    let run = schedlab(&arguments, folder.path());
    assert!(run.status.success(), "{}", text(&run));
    assert!(text(&run).contains("12 free parameters"), "{}", text(&run));
    let file = std::fs::read_to_string(folder.path().join("own.toml")).unwrap();
    assert!(file.contains(against) && file.contains("exit = "), "{file}");
    let load = ["load", "hackbench", "-g", "1", "-l", "5", "--on", "sim:costs=own.toml"];
    let run = schedlab(&load, folder.path());
    assert!(run.status.success(), "{}", text(&run));
    let many = schedlab(&["sim", "calibrate", "--against", "sim:cpus=2"], folder.path());
    assert!(!many.status.success() && text(&many).contains("Use cpus=1"), "{}", text(&many));
}
