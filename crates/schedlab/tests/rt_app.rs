//! `load rt-app` as a user types it: our example files, each construct seen to be performed, errors.
#![expect(clippy::unwrap_used, reason = "tests; clippy sees the functions beside them as none")]

mod patience;

use patience::eventually;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn rt_app(file: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(["load", "rt-app"]).arg(file).args(more).output().unwrap()
}

fn json(file: &Path, more: &[&str]) -> Value {
    let output = rt_app(file, &[more, &["--json"]].concat());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {told}", file.display());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rt-app").join(name)
}

/// How often a series of a task was sampled.
fn samples(value: &Value, name: &str, of: &str) -> u64 {
    let all = value["series"].as_array().unwrap();
    let found = all.iter().find(|s| s["of"] == of && s["metric"] == name);
    found.and_then(|series| series["histogram"]["count"].as_u64()).unwrap_or(0)
}

fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.json");
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

#[test]
fn periodic_tasks_have_activations_periods_and_slack() {
    let series = [
        ("wakeup_latency_ns", "pair"),
        ("period_ns", "display"),
        ("slack_ns", "decode"),
        ("run_ns", "batch"),
    ];
    eventually(|| {
        let value = json(&example("periodic.json"), &["--duration", "700ms"]);
        assert_eq!(value["tasks"], 5);
        let activations = value["activations"][0].as_f64().unwrap();
        let few = series.iter().find(|(name, of)| samples(&value, name, of) < 2);
        let enough = activations > 10.0 && few.is_none();
        if enough { Ok(()) } else { Err(format!("{activations} activations, {few:?}")) }
    });
}

#[test]
fn a_pipeline_hands_on_every_item_and_forks_a_task_for_each_request() {
    let value = json(&example("pipeline.json"), &[]);
    // It ends by itself only when each wait met its post: 200 items, 10 blocks.
    assert_eq!(samples(&value, "run_ns", "filter"), 200);
    assert_eq!(samples(&value, "run_ns", "request"), 10);
    assert_eq!(value["tasks"], 4 + 10);
    assert_eq!(value["forks_refused"][0], 0.0);
}

#[test]
fn those_that_wait_are_woken_by_those_that_signal_and_resume() {
    eventually(|| {
        let value = json(&example("waits.json"), &["--duration", "600ms"]);
        let all = ["waiter", "left", "sleeper"].iter().all(|of| samples(&value, "run_ns", of) > 1);
        if all { Ok(()) } else { Err(value.to_string()) }
    });
}

#[test]
fn an_iorun_writes_to_the_device_and_no_more_than_it_says() {
    let (folder, file) = written("");
    let device = folder.path().join("device");
    let text = format!(
        r#"{{"tasks": {{"t": {{"loop": 3, "iorun": 5000}}}}, "global": {{"io_device": "{}", "mem_buffer_size": 4096}}}}"#,
        device.display()
    );
    std::fs::write(&file, text).unwrap();
    json(&file, &[]);
    assert_eq!(std::fs::metadata(&device).unwrap().len(), 15_000);
    let text = r#"{"tasks": {"t": {"iorun": 5}}, "global": {"io_device": "/no/such/folder/x"}}"#;
    std::fs::write(&file, text).unwrap();
    let output = rt_app(&file, &[]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("io_device /no/such/folder/x"), "{told}");
}

/// The lists of CPUs that a task of this name may use, as they are now.
fn allowed(comm: &str) -> Option<(String, String)> {
    let tasks = std::fs::read_dir("/proc").ok()?.flatten().filter_map(|process| {
        process.file_name().to_str()?.parse::<u32>().ok()?;
        std::fs::read_dir(process.path().join("task")).ok()
    });
    let named =
        |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|c| c.trim() == comm);
    let task = tasks.flatten().flatten().map(|task| task.path()).find(named)?;
    let status = std::fs::read_to_string(task.join("status")).ok()?;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let stat = std::fs::read_to_string(task.join("stat")).ok()?;
    // Field 19, counted after the name.
    let nice = stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.to_owned();
    Some((cpus.trim().to_owned(), nice))
}

#[test]
fn a_task_that_moves_by_phase_is_where_its_phase_says() {
    let (_folder, file) = written(
        r#"{"tasks": {"rt-app-mover": {"phases": {
            "free": {"sleep": 30000}, "bound": {"cpus": [0], "priority": 7, "sleep": 30000}}}}}"#,
    );
    let mut run = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["load", "rt-app"])
        .arg(&file)
        .args(["--duration", "300s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let until = Instant::now() + Duration::from_secs(120);
    let several = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    while seen.len() < 1 + usize::from(several) && Instant::now() < until {
        seen.extend(allowed("rt-app-mover").filter(|(_, nice)| nice == "7"));
        std::thread::sleep(Duration::from_millis(3));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(seen.contains(&("0".to_owned(), "7".to_owned())), "{seen:?}");
    assert_eq!(
        seen.len(),
        1 + usize::from(several),
        "the nice value stays, the CPUs come back: {seen:?}"
    );
}

#[test]
fn memory_is_worked_on_and_the_load_ends_when_it_is_stopped_within() {
    let value = json(&example("places.json"), &[]);
    assert_eq!(samples(&value, "run_ns", "mover"), 6);
    let (_folder, file) = written(
        r#"{"tasks": {"t": {"memrun": {"type": "chase", "size": 33554432, "count": 4000000000}}}}"#,
    );
    let value = json(&file, &["--duration", "200ms"]);
    assert_eq!(value["tasks"], 1);
}

#[test]
fn what_is_wrong_with_a_file_is_told_of_the_file() {
    let (_folder, file) = written(r#"{"tasks": {"t": {"frob": 5}}}"#);
    let output = rt_app(&file, &[]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!("{}: tasks.t: there is no event 'frob': run,", file.display());
    assert!(told.contains(&expected), "{told}");
    let output = rt_app(&file, &["another.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("takes one file: 'another.json'"));
    let output = rt_app(Path::new("/no/such.json"), &[]);
    assert_ne!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such.json"));
}
