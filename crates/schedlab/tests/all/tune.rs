//! Tuning through the command: the shipped example on the simulated machine, and the search and the
//! machine apart.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tune-schbench.toml");

fn schedlab(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(arguments).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_example_finds_a_gain_and_writes_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let done = schedlab(&["tune", EXAMPLE], folder.path());
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{err}");
    assert!(out.contains("beats the default"), "{out}\n{err}");
    assert!(out.contains("The limit wakeup_latency_ns_p99 < 30ms holds"), "{out}");
    assert!(err.contains("search 1 of 30: base_slice=3ms"), "{err}");
    let results = folder.path().join("results/tune-schbench");
    let script = std::fs::read_to_string(results.join("profile.sh")).unwrap();
    assert!(script.contains("/sys/kernel/debug/sched/base_slice_ns "), "{script}");
    // All runs are stored: the same answer, and nothing is done again.
    let runs = std::fs::read_dir(results.join("runs")).unwrap().count();
    let again = schedlab(&["tune", EXAMPLE, "--json"], folder.path());
    assert_eq!(std::fs::read_dir(results.join("runs")).unwrap().count(), runs);
    let told: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&told["schema"], &told["verdict"]), (&"schedlab/tune/1".into(), &"gain".into()));
    assert_eq!(told["trials"], 30);
}

#[test]
fn search_and_machine_work_apart() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for round in 0..3 {
        let asked = schedlab(&["tune", EXAMPLE, "--ask", "2"], here);
        assert!(asked.status.success(), "{}", text(&asked.stderr));
        assert_eq!(text(&asked.stdout).lines().count(), 2);
        std::fs::write(here.join("points"), &asked.stdout).unwrap();
        let measured = schedlab(&["tune", EXAMPLE, "--measure", "points"], here);
        assert!(measured.status.success(), "{}", text(&measured.stderr));
        let first: Value =
            serde_json::from_str(text(&measured.stdout).lines().next().unwrap()).unwrap();
        assert!(first["values"]["requests_per_s"].as_f64().unwrap() > 0.0, "{first}");
        std::fs::write(here.join("values"), &measured.stdout).unwrap();
        let told = schedlab(&["tune", EXAMPLE, "--tell", "values"], here);
        let told: Value = serde_json::from_slice(&told.stdout).unwrap();
        assert_eq!(told["told"], 2 * (round + 1));
    }
    let failed =
        r#"{"point": {"base_slice": "1ms", "feature:RUN_TO_PARITY": "off"}, "values": null}"#;
    std::fs::write(here.join("failed"), failed).unwrap();
    let told = schedlab(&["tune", EXAMPLE, "--tell", "failed"], here);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!((&told["told"], &told["left"]), (&7.into(), &23.into()));
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x"), "{\"point\": {\"base_slice\": 5}}\n").unwrap();
    for (arguments, code, part) in [
        (&["tune", EXAMPLE, "--tell", "x"][..], 2, "x, line 1: unknown value '5' of base_slice"),
        (&["tune", EXAMPLE, "--on", "sim:kernel=cfs-6.1"], 1, "unknown knob base_slice on"),
    ] {
        let output = schedlab(arguments, folder.path());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
    }
}

#[test]
fn the_lines_of_a_profile_are_looked_into_after_the_whole_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let loads = "machine = \"sim:cpus=2,kernel=cfs-6.1\"\nmeasure = [\"time_s\"]\n[workload]\nname = \"hackbench\"\n\
        options = { pipe = true, groups = 1, fds = 4, loops = 50 }\n";
    std::fs::write(here.join("loads.toml"), loads).unwrap();
    let profile = "kernel.sched_wakeup_granularity_ns = 100000\nkernel.sched_migration_cost_ns = 500000\n\
        kernel.sched_latency_ns = 24000000\nvm.swappiness = 10\n";
    std::fs::write(here.join("profile.conf"), profile).unwrap();
    let words = ["tune", "loads.toml", "--profile", "profile.conf", "--pairs", "6"];
    let planned = schedlab(&[&words[..], &["--dry-run"]].concat(), here);
    // The plan is the answer of a dry run.
    let (out, err) = (text(&planned.stdout), text(&planned.stderr));
    assert!(planned.status.success() && out.contains("at most "), "{out}{err}");
    assert!(out.contains("2 lines: wakeup_granularity=100000, latency=24000000"), "{out}");
    assert!(err.contains("migration_cost is left out: this machine does not have"), "{err}");
    let done = schedlab(&words, here);
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{out}{err}");
    assert!(out.starts_with("the whole profile ("), "{out}");
    // EEVDF has other knobs.
    let other = loads.replace("cfs-6.1", "eevdf-6.12");
    std::fs::write(here.join("loads.toml"), other).unwrap();
    let err = text(&schedlab(&[&words[..], &["--dry-run"]].concat(), here).stderr);
    assert!(err.contains("wakeup_granularity is left out"), "{err}");
    assert!(err.contains("base_slice decides instead"), "{err}");
    // A knob that is there and locked leaves the other lines.
    let host = loads.replace("machine = \"sim:cpus=2,kernel=cfs-6.1\"\n", "");
    std::fs::write(here.join("loads.toml"), host).unwrap();
    let err = text(&schedlab(&[&words[..], &["--dry-run"]].concat(), here).stderr);
    assert!(!err.contains("cannot set knob"), "{err}");
}

/// A profile as KeenTune writes it, on a model of a kernel that has both granularities.
#[test]
fn the_lines_of_a_profile_are_tried_on_a_simulated_machine() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let loads = "warm_up = 0\nretries = 0\nmachine = \"sim:cpus=1,kernel=cfs-6.1,costs=icount-6.1\"\n\
        measure = [\"time_s\"]\n[knobs]\nlatency = \"24ms\"\nwakeup_granularity = \"1ms\"\n\
        [workload]\nname = \"hackbench\"\noptions = { groups = 2, fds = 10, loops = 20 }\n";
    std::fs::write(here.join("loads.toml"), loads).unwrap();
    let profile = "[sysctl]\nkernel.sched_min_granularity_ns: 10000000\nvm.swappiness: 10\n\
        kernel.sched_wakeup_granularity_ns: 15000000\n";
    std::fs::write(here.join("profile.conf"), profile).unwrap();
    let words = ["tune", "loads.toml", "--profile", "profile.conf", "--pairs", "10"];
    let dry = schedlab(&[&words[..], &["--dry-run"]].concat(), here);
    let out = text(&dry.stdout);
    assert!(
        out.contains("2 lines: min_granularity=10000000, wakeup_granularity=15000000"),
        "{out}"
    );
    assert!(out.contains("at most 100 runs, whose hours are known once"), "{out}");
    let done = schedlab(&words, here);
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{out}{err}");
    assert!(out.starts_with("the whole profile (2 settings) against the default"), "{out}");
    let last = out.lines().last().unwrap();
    assert_eq!(last, "Not tried, so they may matter, too: not about the scheduler: vm.swappiness.");
    // The model of the default for one CPU preempts at each wakeup: that line does it, and the other one is in its way.
    let lines: Vec<&str> = out.lines().skip(1).take(2).collect();
    let does = "wakeup_granularity=15000000 does it by itself, and nothing else stands in for it.";
    let against = "min_granularity=10000000 works against it: the profile without it does more.";
    assert_eq!(lines, [against, does], "{out}");
}
