//! `load rt-app` as a user types it: our example files, each construct seen to be performed, errors.

use crate::patience::eventually;
use serde_json::Value;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn rt_app(file: &Path, more: &[&str]) -> Output {
    crate::machine_lock::share();
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

/// The folder of a task of this name.
fn task_named(comm: &str) -> Option<PathBuf> {
    let tasks = std::fs::read_dir("/proc").ok()?.flatten().filter_map(|process| {
        process.file_name().to_str()?.parse::<u32>().ok()?;
        std::fs::read_dir(process.path().join("task")).ok()
    });
    let named =
        |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|c| c.trim() == comm);
    tasks.flatten().flatten().map(|task| task.path()).find(named)
}

/// The lists of CPUs that a task of this name may use, as they are now.
fn allowed(comm: &str) -> Option<(String, String)> {
    let task = task_named(comm)?;
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
    let expected = format!("{}: tasks.t: unknown event 'frob': use run,", file.display());
    assert!(told.contains(&expected), "{told}");
    let output = rt_app(&file, &["another.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unexpected file 'another.json'"));
    let output = rt_app(Path::new("/no/such.json"), &[]);
    assert_ne!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such.json"));
}

/// A load under way, ended when this is dropped.
struct Under(Child);

impl Drop for Under {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Under {
    fn way(file: &Path) -> Self {
        crate::machine_lock::share();
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.args(["load", "rt-app"]).arg(file).args(["--duration", "300s"]);
        Self(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// What it said, if it has ended.
    fn said(&mut self) -> Option<String> {
        self.0.try_wait().unwrap()?;
        let mut text = String::new();
        self.0.stderr.take()?.read_to_string(&mut text).unwrap();
        Some(text)
    }

    /// Waits until `seen` finds it; what was said where the load ended instead, because something is refused here.
    fn until(&mut self, mut seen: impl FnMut() -> Result<(), String>) -> Option<String> {
        eventually(|| match self.said() {
            Some(said) => Ok(Some(said)),
            None => seen().map(|()| None),
        })
    }
}

fn absent(what: &str) {
    missing!("{what}");
}

/// The kernel's own word on a task's priority: below zero where it is a real-time one now, lent or its own.
fn priority(comm: &str) -> Option<i64> {
    let stat = std::fs::read_to_string(task_named(comm)?.join("stat")).ok()?;
    // Field 18, counted after the name.
    stat.rsplit_once(')')?.1.split_whitespace().nth(15)?.parse().ok()
}

#[test]
fn with_pi_enabled_who_holds_a_lock_has_the_priority_of_who_waits_for_it() {
    let tasks = |inherits: bool| {
        format!(
            r#"{{"global": {{"pi_enabled": {inherits}}}, "tasks": {{
                "pi-low-{inherits}": {{"lock": "m", "sleep": 40000, "unlock": "m", "yield": ""}},
                "pi-high-{inherits}": {{"policy": "SCHED_FIFO", "priority": 20, "sleep": 5000, "lock": "m", "unlock": "m"}}
            }}}}"#
        )
    };
    let (_folder, file) = written(&tasks(true));
    let mut run = Under::way(&file);
    // -1 less the real-time priority (proc(5), field 18).
    let refused = run.until(|| match priority("pi-low-true") {
        Some(-21) => Ok(()),
        other => Err(format!("the holder's priority: {other:?}")),
    });
    if let Some(said) = refused {
        assert!(said.contains("policy"), "{said}");
        return absent(&format!("the right for SCHED_FIFO ({said}); not checked: lent priority"));
    }
    drop(run);
    // Without it nothing is lent, however often both have been at the lock.
    let (_folder, file) = written(&tasks(false));
    let mut run = Under::way(&file);
    let mut looks = 0;
    let refused = run.until(|| {
        let now = priority("pi-low-false").filter(|_| priority("pi-high-false") == Some(-21));
        assert!(now.is_none_or(|now| now >= 0), "{now:?}");
        looks += u32::from(now.is_some());
        if looks > 50 { Ok(()) } else { Err(format!("{looks} looks")) }
    });
    assert_eq!(refused, None);
}

#[test]
fn both_pass_a_lock_on_that_lends_priority_and_stop_in_time() {
    let (_folder, file) = written(
        r#"{"global": {"pi_enabled": true}, "tasks": {
            "a": {"loop": 300, "lock": "m", "run": 50, "unlock": "m"},
            "b": {"loop": 300, "lock": "m", "run": 50, "unlock": "m"}}}"#,
    );
    let value = json(&file, &[]);
    assert_eq!(samples(&value, "run_ns", "a") + samples(&value, "run_ns", "b"), 600, "{value}");
    // A second task waits for ever: it ends all the same when the time is over.
    let (_folder, file) = written(
        r#"{"global": {"pi_enabled": true}, "tasks": {
            "a": {"lock": "m", "sleep": 900000000}, "b": {"sleep": 1000, "lock": "m"}}}"#,
    );
    assert_eq!(json(&file, &["--duration", "300ms"])["tasks"], 2);
}

#[test]
fn memory_is_bound_to_the_nodes_of_nodes_membind() {
    let (_folder, file) =
        written(r#"{"tasks": {"rt-app-bound": {"nodes_membind": [0], "sleep": 30000}}}"#);
    if !Path::new("/proc/self/numa_maps").exists() {
        return absent("a kernel with NUMA; not checked: nodes_membind");
    }
    let refused = Under::way(&file).until(|| {
        let task = task_named("rt-app-bound").ok_or("no task yet")?;
        let maps = std::fs::read_to_string(task.join("numa_maps")).unwrap_or_default();
        let all = !maps.is_empty() && maps.lines().any(|line| line.contains(" bind:0 "));
        if all { Ok(()) } else { Err(maps) }
    });
    assert_eq!(refused, None);
}

#[test]
fn a_task_is_clamped_as_util_min_and_util_max_say_where_the_kernel_can() {
    let (_folder, file) = written(
        r#"{"tasks": {"rt-app-clamp": {"util_min": 100, "util_max": 600, "sleep": 30000}}}"#,
    );
    let refused = Under::way(&file).until(|| {
        let task = task_named("rt-app-clamp").ok_or("no task yet")?;
        let number = task.file_name().and_then(|name| name.to_str()?.parse().ok());
        let now = schedlab_sys::sched::get(schedlab_model::Pid(number.unwrap()));
        let clamp = now.map_err(|error| error.to_string())?.clamp;
        if clamp == Some((100, 600)) { Ok(()) } else { Err(format!("{clamp:?}")) }
    });
    match (schedlab_sys::sched::takes_clamps(), refused) {
        (Ok(()), refused) => assert_eq!(refused, None),
        (Err(why), said) => {
            // Told before anything runs, by name.
            assert!(said.is_some_and(|said| said.contains("util")), "{why}");
            absent(&format!("utilisation clamps ({why}); not checked: util_min and util_max"));
        }
    }
}

#[test]
fn a_task_is_in_its_taskgroup_which_goes_with_the_run() {
    let name = format!("schedlab-test-{}", std::process::id());
    let (_folder, file) = written(&format!(
        r#"{{"tasks": {{"rt-app-group": {{"taskgroup": "/{name}", "sleep": 30000}}}}}}"#
    ));
    let mut run = Under::way(&file);
    let refused = run.until(|| {
        let task = task_named("rt-app-group").ok_or("no task yet")?;
        let groups = std::fs::read_to_string(task.join("cgroup")).unwrap_or_default();
        let there = groups.lines().any(|line| line.ends_with(&format!("/{name}")));
        if there { Ok(()) } else { Err(groups) }
    });
    drop(run);
    if let Some(said) = refused {
        assert!(said.contains("group"), "{said}");
        return absent(&format!(
            "the right to make control groups ({said}); not checked: taskgroup"
        ));
    }
    let hierarchy = schedlab_sys::cgroup::here("cpu").unwrap();
    eventually(|| match hierarchy.mount.join(&name) {
        left if left.exists() => Err(format!("{} was left", left.display())),
        _ => Ok(()),
    });
}
