//! The simulated machine through the command: loads, traces, experiments, refusals.

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
        (&["load", "command", "--on", "sim", "--", "true"][..], "cannot run a command"),
        (&["load", "jobs", "--executor", "rayon", "--on", "sim"], "cannot run jobs"),
        (&["load", "cpu", "--policy", "fifo:1", "--on", "sim:kernel=fifo"], "real-time"),
        (&["load", "cpu", "--cgroup", "a", "--on", "sim:kernel=fifo"], "control groups"),
        (&["load", "cpu", "--policy", "ext", "--on", "sim"], "sched_ext"),
        (&["load", "cpu", "--on", "sim:cpus=0"], "number of CPUs 0"),
        (&["load", "cpu", "--on", "sim:costs=missing.toml"], "missing.toml"),
    ] {
        let output = schedlab(arguments, folder.path());
        assert!(!output.status.success(), "{arguments:?}");
        assert!(text(&output).contains(part), "{arguments:?}: {}", text(&output));
    }
}

#[test]
fn a_machine_can_come_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let list = schedlab(&["sim", "machines"], folder.path());
    assert!(text(&list).contains("server-128"), "{}", text(&list));
    let printed = schedlab(&["sim", "machines", "server-64"], folder.path());
    assert!(printed.status.success(), "{}", text(&printed));
    let own = text(&printed).replace("cores = 16", "cores = 1");
    std::fs::write(folder.path().join("own.toml"), own + "hz = 100\n").unwrap();
    let experiment = "name = \"grid\"\nrepeats = 1\n\
        machine = [\"sim:machine=own.toml\", \"sim:machine=own.toml,smt=1\"]\n\
        [workload]\nname = \"cpu\"\noptions = { tasks = 4, duration = \"20ms\" }\n";
    std::fs::write(folder.path().join("grid.toml"), experiment).unwrap();
    let run = schedlab(&["run", "grid.toml", "--output", "."], folder.path());
    assert!(run.status.success(), "{}", text(&run));
    let manifests = std::fs::read_dir(folder.path().join("grid/runs")).unwrap();
    let manifests = manifests
        .map(|run| std::fs::read_to_string(run.unwrap().path().join("manifest.json")).unwrap());
    let mut machines: Vec<(bool, bool)> = manifests
        .map(|text| (text.contains("HZ=100") && text.contains("cores = 1"), text.contains("0-3")))
        .collect();
    machines.sort_unstable();
    assert_eq!(machines, [(true, false), (true, true)], "of 2 and of 4 CPUs");
    std::fs::write(folder.path().join("bad.toml"), "cpus = 2\nhz = 0\n").unwrap();
    for (machine, part) in [
        ("sim:machine=bad.toml", "bad.toml, line 2, hz: invalid hz=0: use 10 to 10000"),
        ("sim:machine=none.toml", "use a file, or one of big-little-8, chiplets-32"),
    ] {
        let refused = schedlab(&["load", "cpu", "--on", machine], folder.path());
        assert!(!refused.status.success() && text(&refused).contains(part), "{}", text(&refused));
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
    assert!(text(&run).contains("20 free parameters"), "{}", text(&run));
    let file = std::fs::read_to_string(folder.path().join("own.toml")).unwrap();
    assert!(file.contains(against) && file.contains("exit = "), "{file}");
    let load = ["load", "hackbench", "-g", "1", "-l", "5", "--on", "sim:costs=own.toml"];
    let run = schedlab(&load, folder.path());
    assert!(run.status.success(), "{}", text(&run));
    let many = schedlab(&["sim", "calibrate", "--against", "sim:cpus=2"], folder.path());
    assert!(!many.status.success() && text(&many).contains("Use cpus=1"), "{}", text(&many));
}

#[test]
fn the_first_decision_that_differs_is_shown_with_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let diff = |more: &[&str]| {
        let load = ["sim", "diff", "hackbench", "-O", "groups=2", "-O", "fds=4"];
        let more = [&load[..], &["-O", "loops=300", "-O", "pipe=true"], more].concat();
        schedlab(&more, folder.path())
    };
    let same = diff(&["--against", "sim:kernel=cfs-6.1"]);
    assert!(same.status.success(), "{}", text(&same));
    assert!(text(&same).contains("| displacement |"), "{}", text(&same));
    let planted = ["--set-model", "wakeup_granularity=0", "--picture", "first.svg"];
    let other = diff(&[&["--against", "sim:kernel=cfs-6.1"], &planted[..]].concat());
    assert_eq!(other.status.code(), Some(1), "{}", text(&other));
    for part in [
        "First difference: ",
        "recorded: ",
        "model: ",
        "vruntime ",
        "Timeline, ",
        "Wrote first.svg",
    ] {
        assert!(text(&other).contains(part), "{part}: {}", text(&other));
    }
    let picture = std::fs::read_to_string(folder.path().join("first.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("the decision"), "{picture}");
    assert!(picture.contains(">hackbench:"), "the legend names who ran around it: {picture}");
    let random = ["sim", "diff", "--against", "sim:kernel=eevdf-6.12"];
    let random = [&random[..], &["--on", "sim:kernel=eevdf-6.12", "--seeds", "5"]].concat();
    let random = schedlab(&random, folder.path());
    assert!(random.status.success(), "{}", text(&random));
    assert!(text(&random).contains("0 of 5 loads have a difference"), "{}", text(&random));
}

#[test]
fn placement_on_several_cpus_is_scored_beside_naive_rules() {
    let folder = tempfile::tempdir().unwrap();
    let on = "sim:cpus=4,kernel=cfs-6.1";
    let load = ["sim", "diff", "schbench", "-O", "message-threads=2", "-O", "threads=3"];
    let load = [&load[..], &["-O", "runtime=2", "--against", on, "--on", on]].concat();
    let all = text(&schedlab(&load, folder.path()));
    let value = all.lines().find_map(|line| line.strip_prefix("Score with all wakeups sync: "));
    assert!(value.unwrap().parse::<f64>().unwrap() > 0.0, "{all}");
    assert!(all.contains("| previous CPU |") && all.contains("Wakeups: "), "{all}");
}
