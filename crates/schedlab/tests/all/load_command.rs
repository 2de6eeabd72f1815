//! A command among the workloads of a run, on either side: placed, with figures of its own, and gone
//! afterwards.

use crate::patience::eventually;
use serde_json::Value;
use std::process::{Command, Output};

fn load(words: &[&str]) -> Output {
    crate::machine_lock::share_for(["load"].into_iter().chain(words.iter().copied()));
    Command::new(env!("CARGO_BIN_EXE_schedlab")).arg("load").args(words).output().unwrap()
}

fn json(words: &[&str]) -> Value {
    let output = load(&[&words[..1], &["--json"], &words[1..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Waits until no process has this in its command line.
fn gone(mark: &str) {
    eventually(|| {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut lines = processes.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
        match lines.any(|line| String::from_utf8_lossy(&line).contains(mark)) {
            true => Err(format!("'{mark}' still runs")),
            false => Ok(()),
        }
    });
}

#[test]
fn a_command_beside_a_workload_is_placed_has_its_figures_and_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    // It writes down where it is; what it leaves in the background would outlive it.
    let script = format!(
        "sleep 61.25 & cat /proc/self/status /proc/self/stat > {}; while :; do :; done",
        seen.display()
    );
    let beside = format!("noise: command --cpus 0 --nice 7 --line '{script}'");
    // Words of a line are split at spaces, so the script is given by a file.
    let file = folder.path().join("noise.sh");
    std::fs::write(&file, script).unwrap();
    let beside = beside
        .replace(&beside[beside.find("--line").unwrap()..], &format!("-- sh {}", file.display()));
    // Whoever got no CPU within the time did nothing; then another run tells.
    let told = eventually(|| {
        let _ = std::fs::remove_file(&seen);
        let value = json(&["cpu", "--duration", "700ms", "--beside", &beside]);
        let noise = &value["beside"][0];
        assert!(noise["run_delay_s"][0].is_number(), "{noise}");
        gone("61.25");
        let told = std::fs::read_to_string(&seen).unwrap_or_default();
        let used = noise["cpu_user_s"][0].as_f64().unwrap() > 0.0;
        let whole = told.lines().last().is_some_and(|stat| stat.contains(')'));
        let done = used && whole && value["loops"][0].as_f64().unwrap() > 1.0;
        if done { Ok(told) } else { Err(format!("{told} {value}")) }
    });
    assert!(told.contains("Cpus_allowed_list:\t0\n"), "{told}");
    let stat = told.lines().last().unwrap().rsplit_once(')').unwrap().1;
    assert_eq!(stat.split_whitespace().nth(16), Some("7"), "{stat}");
}

#[test]
fn a_command_may_be_the_workload_and_a_load_stand_beside_it() {
    let words = ["command", "--nice", "3", "--beside", "hog: cpu --nice 10", "--", "sh", "-c"];
    let value = json(&[&words[..], &["i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]].concat());
    assert_eq!(value["exit_code"][0], 0.0);
    assert!(value["time_s"][0].as_f64() > Some(0.0));
    assert!(value["beside"][0]["loops"][0].as_f64().is_some(), "{value}");
}

#[test]
fn a_command_that_fails_or_ends_too_early_is_told() {
    let output = load(&["command", "--", "sh", "-c", "echo broken >&2; exit 3"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("exit code 3"), "{said}");
    // Where it was kept from the CPU all the time, it did not end by itself.
    eventually(|| {
        let output = load(&["cpu", "--duration", "400ms", "--beside", "command -- true"]);
        assert!(output.status.success());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let told =
            said.contains("the command ended after") && said.contains("let the command last");
        if told { Ok(()) } else { Err(said) }
    });
    let output = load(&["command"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("missing command"), "{said}");
}

#[test]
fn a_run_that_its_time_limit_cuts_is_told_as_censored_and_one_that_ends_by_itself_is_not() {
    let codes = |json: &Value| -> Vec<String> {
        let warnings = json["warnings"].as_array().unwrap().iter();
        warnings.map(|warning| warning["code"].as_str().unwrap().to_owned()).collect()
    };
    for (line, censored) in [
        ("hackbench -g 1 -f 2 -l 100000000 --time-limit 300ms", true),
        ("cpu --tasks 1 --duration 60s --time-limit 300ms", true),
        ("command --time-limit 300ms -- sleep 60", true),
        ("hackbench -g 1 -f 2 -l 5 --time-limit 60s", false),
        ("cpu --tasks 1 --duration 200ms --time-limit 60s", false),
        // Without a limit it would never end: the limit is its duration.
        ("cpu --tasks 1 --duration 0 --time-limit 300ms", false),
        ("schbench -m 1 -t 1 -r 0 --time-limit 1s", false),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let json = json(&words);
        assert_eq!(json["censored"], censored, "{line}");
        assert_eq!(codes(&json).contains(&"censored".to_owned()), censored, "{line}: {json}");
        assert_eq!(json["interrupted"], false, "{line}");
    }
    let line = "hackbench -g 1 -f 2 -l 100000000 --time-limit 200ms --repeat 4";
    let words: Vec<&str> = line.split(' ').collect();
    let text = String::from_utf8(load(&words).stdout).unwrap();
    assert!(text.contains("(the time limit ended 4 of 4 runs)"), "{text}");
    let json = json(&words);
    assert_eq!(json["censored"], serde_json::json!([true, true, true, true]));
    assert_eq!(json["intervals95"]["time_s"]["none"], "the time limit ended runs");
}
