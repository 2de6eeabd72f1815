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
fn a_simulated_cpu_that_nobody_uses_idles_from_the_begin_of_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let load = "load cpu --tasks 1 --cpus 0 --duration 20ms --on sim:cpus=3 --trace sim.dat";
    let run = schedlab(&load.split(' ').collect::<Vec<_>>(), folder.path());
    assert!(run.status.success(), "{}", text(&run));
    let asked = schedlab(&["trace", "cpus", "sim.dat", "--json"], folder.path());
    let told: serde_json::Value = serde_json::from_slice(&asked.stdout).expect("JSON");
    let cpus = told["cpus"].as_array().expect("rows");
    assert_eq!(cpus.len(), 3, "{told:#}");
    for cpu in cpus {
        assert_eq!(cpu["unknown_ns"], 0, "{cpu:#}");
    }
    assert!(cpus.iter().any(|cpu| cpu["busy_ns"] == 0), "one that nobody used: {told:#}");
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
fn costs_that_a_recording_shows_are_taken_from_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("known.toml"), "idle_exit = 7_300\nfork = 41_000\n").unwrap();
    let on = "sim:kernel=cfs-6.1,cpus=4,costs=known.toml";
    let load = ["load", "hackbench", "-g", "2", "-l", "20", "--on", on, "--trace", "x.dat"];
    let run = schedlab(&load, folder.path());
    assert!(run.status.success(), "{}", text(&run));
    let run = schedlab(&["sim", "calibrate", "--from", "x.dat", "-o", "own.toml"], folder.path());
    assert!(run.status.success(), "{}", text(&run));
    let file = std::fs::read_to_string(folder.path().join("own.toml")).unwrap();
    let value = |name: &str| {
        let line = file.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        line.expect(name).parse::<i64>().expect(name)
    };
    assert!((value("idle_exit") - 7_300).abs() <= 100 && value("fork") == 41_000, "{file}");
    assert!(file.contains("wake = 1000 # not measured"), "{file}");
    // On one CPU nobody wakes an idle CPU, and a load of one task forks once.
    let load = ["load", "cpu", "--duration", "20ms", "--on", "sim:cpus=1", "--trace", "few.dat"];
    assert!(schedlab(&load, folder.path()).status.success());
    let few = schedlab(&["sim", "calibrate", "--from", "few.dat"], folder.path());
    assert!(!few.status.success() && text(&few).contains("shows no cost"), "{}", text(&few));
    let both = ["sim", "calibrate", "--from", "x.dat", "--against", "host"];
    assert_eq!(schedlab(&both, folder.path()).status.code(), Some(2));
}

#[test]
fn a_knob_of_a_simulated_machine_is_set_for_one_load() {
    let folder = tempfile::tempdir().unwrap();
    let load = |more: &[&str]| {
        let base = ["load", "mixed", "--tasks", "4", "--duration", "300ms", "--csv"];
        let all = [&base[..], &["--on", "sim:kernel=cfs-6.1"], more].concat();
        schedlab(&all, folder.path())
    };
    let usual = load(&[]);
    let eager = load(&["--knob", "latency=20ms", "--knob=wakeup_granularity=0"]);
    assert!(usual.status.success() && eager.status.success(), "{}", text(&eager));
    assert_ne!(usual.stdout, eager.stdout, "a wakeup that always preempts changes nothing");
    for (knob, why) in [("latency", "use NAME=VALUE"), ("base_slice=3ms", "unknown knob")] {
        let refused = load(&["--knob", knob]);
        assert!(!refused.status.success() && text(&refused).contains(why), "{}", text(&refused));
    }
}

#[test]
fn a_trace_ends_at_the_size_that_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let load = ["load", "hackbench", "-g", "2", "-l", "200", "--on", "sim:cpus=2"];
    let limit = ["--trace", "x.dat", "--trace-size", "240KiB"];
    let run = schedlab(&[&load[..], &limit].concat(), folder.path());
    assert!(run.status.success(), "{}", text(&run));
    assert!(text(&run).contains("the trace ends at its limit"), "{}", text(&run));
    let events =
        schedlab(&["trace", "events", "x.dat", "--limit", "20000", "--csv"], folder.path());
    let count = String::from_utf8_lossy(&events.stdout).lines().count() - 1;
    assert!((9_000..=10_240).contains(&count), "{count} events of 24 bytes");
}

#[test]
fn a_result_prints_one_line_of_errors_or_where_the_kernels_balancing_is() {
    let folder = tempfile::tempdir().unwrap();
    let notes = |machine: &str, more: &[&str]| {
        let load = ["load", "hackbench", "-g", "1", "-l", "5", "--on", machine];
        text(&schedlab(&[&load[..], more].concat(), folder.path()))
    };
    let one = notes("sim:kernel=cfs-6.1,costs=icount-6.1", &["-p"]);
    let row = "cfs-6.1 was off by 3.5 % in the median and 22 % at the 90th percentile, for \
               hackbench over pipes on 1 CPU (2026-11-30)\n";
    assert!(one.contains(row), "{one}");
    let several = notes("sim:cpus=4", &[]);
    assert!(several.contains("does not balance as the kernel does"), "{several}");
    assert!(several.contains("sim:kernel=linux-source-6.1"), "{several}");
    assert!(!several.contains("was off by"), "{several}");
    let gone = notes("sim:kernel=cfs-5.10", &[]);
    assert!(gone.contains("it was removed: `schedlab sim build TREE`"), "{gone}");
}
