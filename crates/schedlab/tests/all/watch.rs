//! `schedlab watch`: its windows are what a trace of the same events says, and its conditions decide the exit code.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn schedlab() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this machine lets us read the scheduler's events.
fn may_watch() -> bool {
    let output = schedlab().args(["doctor", "--json"]).output().expect("the built command starts");
    let doctor: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = doctor["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == "record").expect("a check of record");
    if check["verdict"] != "yes" {
        missing!("watch: {}", check["found"]);
    }
    check["verdict"] == "yes"
}

/// Watches while processes come and go, sleep, and want more CPUs than there are.
fn watch(dir: &Path, options: &[&str]) -> Output {
    let script = "for i in 1 2 3 4; do (while :; do sleep 0.004; /bin/true; done) & done; \
                  for i in 1 2; do (while :; do :; done) & done; \
                  \"$@\"; code=$?; kill $(jobs -p) 2>/dev/null; wait 2>/dev/null; exit $code";
    let mut command = Command::new("bash");
    command.args(["-c", script, "watch", env!("CARGO_BIN_EXE_schedlab"), "watch"]).args(options);
    command.current_dir(dir).stdin(Stdio::null()).output().expect("bash starts")
}

fn lines(output: &Output) -> Vec<Value> {
    let all = text(&output.stdout);
    all.lines().map(|line| plain(serde_json::from_str(line).expect("an object a line"))).collect()
}

/// What the trace says of a window.
fn of_file(dir: &Path, words: &[&str], window: &Value) -> Value {
    let origin: u64 = window["origin_ns"].as_str().expect("a text").parse().expect("a number");
    let at = |key: &str| {
        let time = origin + window[key].as_u64().expect("a time");
        format!("@{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
    };
    let (from, to) = (at("start_ns"), at("end_ns"));
    let mut command = schedlab();
    command.args(words).args(["x.dat", "--json", "--from", &from, "--to", &to]).current_dir(dir);
    let output = command.output().expect("the built command starts");
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    plain(serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// Without what says how exact a figure is: a window says that of itself, and a part of a file of the whole file.
fn plain(value: Value) -> Value {
    match value {
        Value::Array(all) => all.into_iter().map(plain).collect(),
        Value::Object(all) => {
            let figures = all.into_iter().filter(|(key, _)| !key.ends_with("_bound"));
            figures.map(|(key, value)| (key, plain(value))).collect()
        }
        other => other,
    }
}

/// Rows by pid.
fn by_pid<'a>(rows: &'a Value, keys: &[&str]) -> Vec<(i64, Vec<&'a Value>)> {
    let rows = rows.as_array().expect("rows").iter();
    let told = |row: &'a Value| {
        let figures: Vec<&Value> =
            keys.iter().map(|key| row.pointer(key).expect("a figure")).collect();
        (row["pid"].as_i64().expect("a pid"), figures)
    };
    let mut all: Vec<_> = rows.map(told).collect();
    all.sort_by_key(|(pid, figures)| {
        (*pid, figures.iter().map(ToString::to_string).collect::<Vec<_>>())
    });
    all
}

/// To the nanosecond and the bucket. Reading the kernel's formats anew, another merge and one pass over a file.
fn agree(via: &str) {
    let dir = tempfile::tempdir().unwrap();
    let options = [
        "--time",
        "2s",
        "--interval",
        "400ms",
        "--json",
        "--histogram",
        "--top",
        "0",
        "--by",
        "task",
    ];
    let output = watch(dir.path(), &[&options[..], &["--keep", "x.dat", "--via", via]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("no event was lost"), "{}", text(&output.stderr));
    let windows = lines(&output);
    assert_eq!(windows.len(), 5, "{}", text(&output.stdout));
    for window in &windows {
        assert_eq!(window["late"], 0);
        let latency =
            of_file(dir.path(), &["trace", "latency", "--histogram", "--top", "0"], window);
        for kind in ["wakeup", "run_delay"] {
            assert_eq!(window["waits"][kind], latency["total"][kind], "{kind}");
            assert!(window["waits"][kind]["count"].as_u64().expect("a count") > 50, "{kind}");
        }
        let waits = ["/wakeup/histogram", "/run_delay/histogram", "/unfinished"];
        let waited = |rows| {
            let all = by_pid(rows, &waits).into_iter();
            all.filter(|(_, f)| f[1]["count"] != 0 || *f[2] != 0).collect::<Vec<_>>()
        };
        assert_eq!(waited(&window["rows"]), waited(&latency["tasks"]));
        let tasks = of_file(dir.path(), &["trace", "tasks", "--top", "0"], window);
        let ran = |rows| {
            let all = by_pid(rows, &["/run_ns", "/wakeups"]).into_iter();
            all.filter(|(_, f)| *f[0] != 0 || *f[1] != 0).collect::<Vec<_>>()
        };
        assert_eq!(ran(&window["rows"]), ran(&tasks["tasks"]));
        let cpus = of_file(dir.path(), &["trace", "cpus"], window);
        let cpu = |rows: &Value| -> Vec<Vec<Value>> {
            let keys = ["cpu", "busy_ns", "idle_ns", "unknown_ns", "switches"];
            let rows = rows.as_array().expect("rows").iter();
            rows.map(|row| keys.iter().map(|key| row[*key].clone()).collect()).collect()
        };
        assert_eq!(cpu(&window["cpus"]), cpu(&cpus["cpus"]));
        let why = of_file(dir.path(), &["why"], window);
        assert_eq!(window["waited_ns"], why["waited_ns"]);
        assert_eq!(window["by_cause"], why["by_cause"]);
        let causes = |rows| {
            let all = by_pid(rows, &["/waited_ns", "/longest_ns"]).into_iter();
            all.filter(|(_, f)| *f[0] != 0).collect::<Vec<_>>()
        };
        assert_eq!(causes(&window["rows"]), causes(&why["tasks"]));
    }
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["x.dat"], "nothing else is left");
}

#[test]
fn each_window_is_what_the_kept_trace_says_of_that_time() {
    if may_watch() {
        agree("auto");
        agree("perf");
    }
}

#[test]
fn a_condition_that_held_is_exit_code_3_and_names_the_window() {
    if !may_watch() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let with = |conditions: &[&str]| {
        let mut options = vec!["--time", "400ms", "--interval", "200ms"];
        conditions.iter().for_each(|condition| options.extend(["--fail-if", condition]));
        watch(dir.path(), &options)
    };
    let held = with(&["run_delay_p99 > 100h", "switches > 3"]);
    assert_eq!(held.status.code(), Some(3), "{}", text(&held.stderr));
    assert_eq!(
        text(&held.stderr).matches(" held in 2 of 2 windows").count(),
        1,
        "{}",
        text(&held.stderr)
    );
    assert_eq!(with(&["comm=nobody-has-this and switches > 0"]).status.code(), Some(0));
    assert_eq!(with(&["comm=sleep and wakeups > 1"]).status.code(), Some(3));
    let text = text(&with(&[]).stdout);
    assert!(text.lines().all(|line| !line.trim().is_empty()), "{text}");
    assert!(
        text.contains("CPUs ") && text.contains("waited ") && text.contains("worst "),
        "{text}"
    );
}

#[test]
fn what_cannot_be_meant_is_wrong_usage_and_says_what_to_write() {
    for (options, said) in [
        (&["--fail-if", "nothing_p99 > 5ms"][..], "there are "),
        (&["--fail-if", "comm=x"], "METRIC > VALUE"),
        (&["--fail-if", "run_delay_p99 > much"], "'much'"),
        (&["--interval", "1ms"], "at least 10"),
        (&["--time", "100ms"], "--time is shorter"),
    ] {
        let output = schedlab().arg("watch").args(options).output();
        let output = output.expect("the built command starts");
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(text(&output.stderr).contains(said), "{options:?}: {}", text(&output.stderr));
    }
}
