//! The rig in time, and other executors under the microscope: more of `schedlab jobs`, as a user runs it.

use super::{example, has, jobs, json, said};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::Command;

#[test]
fn streams_have_figures_of_their_own_and_orders_differ() {
    let load = ["run", "--json", "--executor", "virtual", "--workers", "2", "--shape", "isolated"];
    let arrivals = ["--nodes", "400", "--time", "500us", "--arrivals", "poisson:260us"];
    let life = ["--life", "5ms", "--life-spread", "exponential", "--length", "exponential"];
    let preview = "preview:share=40%,time=100us,life=500us,criticality=optional";
    let of = |order| {
        let rules = ["run", "--json", "--executor", "lumiera", "--on", "sim:cpus=2"];
        let order = ["--shape", "isolated", "--stream", preview, "--order", order];
        json(&[rules.as_slice(), &arrivals, &life, &order].concat())
    };
    let [start, deadline, laxity] = ["start", "deadline", "laxity"].map(of);
    assert!(start["dropped"] != deadline["dropped"] || start["dropped"] != laxity["dropped"]);
    let stream = ["--stream", &format!("{preview},io=1ms:10%")];
    let deadline = json(&[load.as_slice(), &arrivals, &life, &stream].concat());
    let [rest, preview] = &deadline["streams"].as_array().unwrap()[..] else {
        panic!("two streams")
    };
    assert_eq!((&rest["stream"], &preview["stream"]), (&"rest".into(), &"preview".into()));
    let count = |stream: &Value, name: &str| stream[name].as_u64().unwrap();
    assert_eq!(count(rest, "jobs") + count(preview, "jobs"), 400);
    assert!(count(preview, "failed") > 0 && count(rest, "failed") == 0, "{deadline}");
    let dropped = &deadline["dropped"];
    assert_eq!(count(dropped, "failed"), count(preview, "failed"));
    assert_eq!(deadline["proved"], true);
}

#[test]
fn planning_that_falls_behind_is_told_apart_from_a_late_executor() {
    let load = ["run", "--json", "--executor", "virtual", "--workers", "2", "--shape", "isolated"];
    let arrivals = ["--nodes", "320", "--time", "50us", "--arrivals", "gap:100us"];
    let plan =
        ["--plan", "jobs", "--plan-chunk", "32", "--plan-lead", "2ms", "--plan-cost", "200us"];
    let run = json(&[load.as_slice(), &arrivals, &plan].concat());
    assert!(run["posted_late"].as_u64().unwrap() > 100, "{run}");
    let ns = |name: &str| run[name].as_u64().unwrap();
    assert!(ns("post_to_start_ns_p99") < ns("lateness_ns_p99"), "{run}");
    let refused = jobs(&["run", "--executor", "rayon", "--plan", "posters:2"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("rayon does not offer --plan"), "{}", said(&refused));
    // The pool's own threads.
    for plan in ["jobs", "posters:2"] {
        let graph = ["run", "--json", "--shape", "stencil", "--nodes", "200", "--time", "20us"];
        let run = json(&[graph.as_slice(), &["--plan", plan, "--plan-chunk", "16"]].concat());
        assert_eq!((&run["jobs"], &run["proved"]), (&200.into(), &true.into()), "{plan}");
    }
}

/// Builds the example for `lib:`.
fn library(folder: &Path) -> String {
    let library = folder.join("libasync.so");
    let built = Command::new("g++")
        .args(["-O1", "-std=c++17", "-shared", "-fPIC", "-pthread", "-o"])
        .args([&library, &example("async.cpp")])
        .status();
    assert!(built.expect("g++ is there").success());
    format!("lib:{}", library.display())
}

#[test]
fn executors_from_outside_keep_start_times_or_say_that_they_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let load = ["run", "--json", "--shape", "stencil", "--nodes", "24", "--fan", "4", "--time"];
    let arrivals = ["2us", "--arrivals", "gap:300us", "--workers", "2", "--jitter", "0ns"];
    let run = |on: &str| jobs(&[load.as_slice(), &arrivals, &["--executor", on]].concat());
    let mut outside = Vec::new();
    if has("g++") {
        outside.push(library(folder.path()));
    }
    if has("python3") {
        outside.push(format!("cmd:python3 {}", example("futures.py").display()));
    }
    for on in &outside {
        let out = run(on);
        assert!(out.status.success(), "{on}: {}", said(&out));
        let value: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!((&value["jobs"], &value["proved"]), (&24.into(), &true.into()), "{on}");
        assert!(
            value["lateness_ns_p99"].is_u64() && value["makespan_ns"].as_u64() >= Some(6_900_000)
        );
    }
    if !has("python3") {
        return;
    }
    let script = folder.path().join("other.py");
    let command = format!("cmd:python3 {}", script.display());
    std::fs::write(&script, "print('{\"not_offered\":\"start times\"}')\n").unwrap();
    let out = run(&command);
    assert!(said(&out).contains("does not offer start times"), "{}", said(&out));
    // One that began before the base of all start times, by its own word.
    let honest = std::fs::read_to_string(example("futures.py")).unwrap();
    let from = "\"begin_ns\": begin";
    assert!(honest.contains(from));
    std::fs::write(&script, honest.replace(from, "\"begin_ns\": base - 1")).unwrap();
    let out = run(&command);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("before its start time"), "{}", said(&out));
}

/// A chain that takes twice as long as its jobs may wait.
const TOO_LONG: [&str; 9] =
    ["run", "--json", "--shape", "chain", "--nodes", "40", "--time", "1ms", "--jitter=0ns"];

#[test]
fn executors_from_outside_drop_what_is_too_late_and_what_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = |on: &str, life: &str| {
        jobs(&[TOO_LONG.as_slice(), &["--workers", "2", "--executor", on, "--life", life]].concat())
    };
    let mut outside = Vec::new();
    if has("g++") {
        outside.push(library(folder.path()));
    }
    if has("python3") {
        outside.push(format!("cmd:python3 {}", example("futures.py").display()));
    }
    outside.extend(super::outside::goroutines());
    // Compiled executors do the work of a job faster than an unoptimised build of ours, which sets its rounds.
    let long = TOO_LONG.map(|word| if word == "40" { "400" } else { word });
    for on in outside.iter().map(String::as_str).chain(["tokio", "rayon", "channel", "serial"]) {
        let words = ["--workers", "2", "--executor", on, "--life", "20ms"];
        let out = jobs(&[long.as_slice(), &words].concat());
        assert!(out.status.success(), "{on}: {}", said(&out));
        let value: Value = serde_json::from_slice(&out.stdout).unwrap();
        let count = |key: &str| value["dropped"][key].as_u64().unwrap();
        let ran = value["jobs"].as_u64().unwrap();
        assert_eq!((count("missed"), ran + 1 + count("abandoned")), (1, 400), "{on}: {value}");
        assert_eq!(value["proved"], true, "{on}");
    }
    if !has("python3") {
        return;
    }
    // Neither an executor that runs late jobs is believed, nor one that drops what has time.
    let script = folder.path().join("careless.py");
    let honest = std::fs::read_to_string(example("futures.py")).unwrap();
    let lie = |to: &str, life: &str| {
        assert!(honest.contains("if begin > deadline:"));
        std::fs::write(&script, honest.replace("if begin > deadline:", to)).unwrap();
        let out = run(&format!("cmd:python3 {}", script.display()), life);
        assert_eq!(out.status.code(), Some(1), "{to}");
        said(&out)
    };
    let late = lie("if False:", "20ms");
    assert!(late.contains("after its deadline"), "{late}");
    let early = lie("if True:", "60s");
    assert!(early.contains("job 0 was dropped as missed, but not after its deadline"), "{early}");
}

#[test]
fn jobs_that_wait_accuse_no_machine() {
    let load =
        ["run", "--shape", "isolated", "--nodes", "40", "--time", "200us", "--jitter", "0ns"];
    let timed = ["--arrivals", "gap:100us", "--workers", "2", "--load", "lock"];
    for on in ["schedlab", "rayon"] {
        let run = json(&[load.as_slice(), &timed, &["--json", "--executor", on]].concat());
        assert!(run["machine"].is_object() && run["machine"]["in_jobs_ns"].is_null(), "{run}");
        let out = jobs(&[load.as_slice(), &timed, &["--executor", on]].concat());
        let text = String::from_utf8_lossy(&out.stdout);
        let lacks =
            |line: &str| line.starts_with("the machine stopped") && line.ends_with("not offered");
        assert!(text.lines().any(lacks), "{text}");
    }
}

#[test]
fn a_library_of_a_newer_version_is_refused() {
    if !has("g++") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("new.cpp"), folder.path().join("libnew.so"));
    let text = "#include <cstdint>\n\
                extern \"C\" uint32_t schedlab_executor_abi(void) { return 3; }\n\
                extern \"C\" int schedlab_execute(void) { return 0; }\n";
    std::fs::write(&source, text).unwrap();
    let built =
        Command::new("g++").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(built.unwrap().success());
    let on = format!("lib:{}", library.display());
    let out = jobs(&["run", "--nodes", "4", "--executor", &on]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("unknown version 3 of the C interface"), "{}", said(&out));
}

#[test]
fn the_time_of_every_executor_is_put_down_to_causes() {
    let folder = tempfile::tempdir().unwrap();
    let (file, picture) = (folder.path().join("run.dat"), folder.path().join("run.svg"));
    let load = ["--shape", "fork-join", "--nodes", "40", "--time", "300us", "--workers", "2"];
    let record = ["run", "--json", "--record", file.to_str().unwrap()];
    let draw = ["-o", picture.to_str().unwrap()];
    let run = |on: &str| jobs(&[record.as_slice(), &load, &draw, &["--executor", on]].concat());
    let python = format!("cmd:python3 {}", example("futures.py").display());
    let mut all = vec!["lumiera", "rayon", "tokio", "channel", "serial"];
    if has("python3") {
        all.push(&python);
    }
    let openmp = super::page::openmp(folder.path());
    all.extend(openmp.as_deref());
    for on in all {
        let out = run(on);
        if said(&out).contains("cannot record the kernel's events") {
            let missing = "MISSING: the right to record: no time of others was put down";
            let _ = writeln!(std::io::stderr(), "{missing}");
            return;
        }
        assert!(out.status.success(), "{on}: {}", said(&out));
        let value: Value = serde_json::from_slice(&out.stdout).unwrap();
        let stalls = &value["stalls"];
        let sums = stalls["sums"].as_object().unwrap();
        let all: u64 = sums.values().map(|ns| ns.as_u64().unwrap()).sum();
        let workers = value["workers"].as_u64().unwrap();
        assert_eq!(all, workers * stalls["window_ns"].as_u64().unwrap(), "{on}");
        assert!(sums["in_jobs_ns"].as_u64().unwrap() > 0 && sums.len() == 7, "{on}: {sums:?}");
        let svg = std::fs::read_to_string(&picture).unwrap();
        assert!(svg.contains(">in jobs<") && svg.contains(">worker 0<"), "{on}");
    }
    let computed = run("virtual");
    assert_eq!(computed.status.code(), Some(2));
    assert!(said(&computed).contains("virtual does not offer --record"), "{}", said(&computed));
    if has("g++") {
        // A thread for each job.
        let out = run(&library(folder.path()));
        assert!(said(&out).contains("ran on several threads"), "{}", said(&out));
    }
    if has("python3") {
        let script = folder.path().join("no-tid.py");
        let honest = std::fs::read_to_string(example("futures.py")).unwrap();
        assert!(honest.contains("\"tid\": tid, "));
        std::fs::write(&script, honest.replace("\"tid\": tid, ", "")).unwrap();
        let out = run(&format!("cmd:python3 {}", script.display()));
        assert_eq!(out.status.code(), Some(2));
        assert!(said(&out).contains("does not report its thread id (`tid`)"), "{}", said(&out));
    }
}
