//! `schedlab doctor`: what it says in each form, and that it puts back what dead runs left changed.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn doctor(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.arg("doctor").args(arguments).stdin(Stdio::null());
    let output = command.output().expect("the built command starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_check_says_what_was_found_and_a_failed_one_what_it_costs() {
    let json: serde_json::Value = serde_json::from_slice(&doctor(&["--json"]).stdout).unwrap();
    assert_eq!(json["schema"], "schedlab/doctor/1");
    let checks = json["checks"].as_array().unwrap();
    let names: Vec<_> = checks.iter().map(|check| check["name"].as_str().unwrap()).collect();
    for name in ["record", "ftrace", "realtime", "slice", "cgroup", "frequency", "guard"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    for check in checks {
        assert!(!check["found"].as_str().unwrap().is_empty(), "{check}");
        let works = check["verdict"] == "yes";
        assert_eq!(check["cost"].as_str().unwrap().is_empty(), works, "{check}");
    }
    let machine = &json["machine"];
    assert!(machine["kernel"]["release"].is_string() && machine["online"].is_string());
    assert!(machine["topology"].as_array().is_some_and(|places| !places.is_empty()));
}

#[test]
fn the_short_form_is_a_line_for_each_check() {
    let long = text(&doctor(&[]));
    let short = text(&doctor(&["--short"]));
    assert!(long.starts_with("machine  ") && long.contains("\nkernel   "), "{long}");
    for line in short.lines() {
        let known = ["yes ", "partly ", "no "].iter().any(|word| line.starts_with(word));
        assert!(known, "{line}");
    }
    assert!(short.lines().count() < long.lines().count());
}

#[test]
fn root_without_capabilities_is_not_told_to_become_root() {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
    command.args([env!("CARGO_BIN_EXE_schedlab"), "doctor"]).stdin(Stdio::null());
    let Some(done) = command.output().ok().filter(|done| done.status.success()) else {
        return missing!("root and setpriv; remedies for root of a container were not tested");
    };
    let said = text(&done);
    assert!(said.contains("start the container with `--cap-add SYS_NICE`"), "{said}");
    assert!(!said.contains("run as root"), "{said}");
}

/// Where the command keeps its journals.
fn journals() -> PathBuf {
    schedlab_sys::guard::directory().unwrap()
}

#[test]
fn what_a_dead_run_left_changed_is_put_back_and_a_living_one_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let knob = dir.path().join("knob");
    std::fs::write(&knob, "changed").unwrap();
    let journal = |pid: u32, started: u64, path: &std::path::Path| {
        let undo = serde_json::json!({ "write": { "path": path, "content": "original" } });
        let owner = serde_json::json!({ "owner": { "pid": pid, "started": started } });
        let step = serde_json::json!({ "step": { "id": 0, "undo": undo } });
        let file = journals().join(format!("test-{}-{started}.journal", std::process::id()));
        std::fs::write(&file, format!("{owner}\n{step}\n")).unwrap();
        file
    };
    // No process 1 started at the end of time; we did start when we say.
    let dead = journal(1, u64::MAX, &knob);
    let me = std::process::id();
    let started = schedlab_sys::process::start_ticks(schedlab_model::Pid(me.cast_signed()));
    let living = journal(me, started.unwrap(), &dir.path().join("untouched"));
    let said = text(&doctor(&["--restore"]));
    assert!(said.contains("1 change put back"), "{said}");
    assert_eq!(std::fs::read_to_string(&knob).unwrap(), "original");
    assert!(!dead.exists() && living.exists());
    assert!(!dir.path().join("untouched").exists());
    std::fs::remove_file(living).unwrap();
    assert!(!text(&doctor(&["--restore"])).contains(dead.to_str().unwrap()));
}

#[test]
fn doctor_gives_the_reason_of_the_list_of_knobs() {
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_schedlab"));
        let done = command.args(words).output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&done.stdout).unwrap()
    };
    let knobs = run(&["knobs", "list", "--json"]);
    let place = |knob: &&serde_json::Value| {
        knob["where"].as_str().is_some_and(|place| place.starts_with("/sys/kernel/debug/"))
    };
    let Some(knob) = knobs["knobs"].as_array().unwrap().iter().find(place) else { return };
    let doctor = run(&["doctor", "--json"]);
    let checks = doctor["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "knobs").unwrap();
    let (found, remedy) = (check["found"].as_str().unwrap(), check["remedy"].as_str().unwrap());
    match knob["why_not"].as_str().unwrap() {
        "" => assert_eq!(found, "debugfs can be written"),
        why => assert_eq!(why, [found, remedy].join(": ").trim_end_matches(": ")),
    }
}
