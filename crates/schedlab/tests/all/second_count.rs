//! Every figure beside a second implementation of its definition (`second_count/count.py`, from the text of `perf
//! script`), on a recording of this machine and on one of another: whoever changes a definition changes both.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// What cannot be checked here is said; a package that is missing fails in CI.
fn missing(what: &str, package: bool) {
    missing!("{what}");
    let ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!(package && ci), "CI must have {what}");
}

fn output(program: &str, args: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new(program).args(args).stderr(Stdio::null()).output().ok()?;
    output.status.success().then_some(output.stdout)
}

fn ours(file: &str, question: &[&str]) -> Value {
    let args: Vec<&str> =
        ["trace"].iter().chain(question).copied().chain(["--json", file]).collect();
    let text =
        output(env!("CARGO_BIN_EXE_schedlab"), &args).expect("schedlab reads what perf wrote");
    serde_json::from_slice(&text).expect("--json prints JSON")
}

/// Counts what is equal, gathers what is not.
#[derive(Default)]
struct Checked {
    equal: usize,
    differ: Vec<String>,
    /// Whether the trace says that it is partial.
    partial: bool,
}

impl Checked {
    /// A missing figure is a zero to the second count, and `null` to us.
    fn same(&mut self, what: &str, ours: &Value, theirs: &Value) {
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let (a, b) = (number(ours), number(theirs));
        // What a partial trace does not tell is no figure that could differ; enough must be equal.
        if ours.is_null() && self.partial {
            return;
        }
        // Percentiles come from buckets; all else is exact.
        let off = if what.contains("_ns_p") { 0.004 * a.max(b) } else { 0.0 };
        if (a - b).abs() <= off {
            self.equal += 1;
        } else {
            self.differ.push(format!("{what}: {a} beside {b}"));
        }
    }

    /// All figures that the second count has of each row.
    fn rows(&mut self, what: &str, ours: &Value, key: &str, theirs: &Value) {
        let rows = ours.as_array().expect("an array of rows");
        for (name, figures) in theirs.as_object().expect("rows by name") {
            let row = rows
                .iter()
                .find(|row| row[key].as_u64() == name.parse().ok())
                .unwrap_or(&Value::Null);
            for (figure, value) in figures.as_object().expect("figures by name") {
                self.same(&format!("{what} {name} {figure}"), &row[figure], value);
            }
        }
    }
}

impl Checked {
    /// Each of ours is one of theirs, with the same cost but for rounding.
    fn episodes(&mut self, ours: &Value, theirs: &Value) {
        let number = |value: &Value| value.as_u64().expect("a number");
        let keys = ["start_ns", "end_ns", "overloaded_cpu", "waited_ns"];
        let cost = |value: &Value| value.as_f64().expect("a number");
        let row = |of: &Value| -> ([u64; 4], f64) {
            (std::array::from_fn(|at| number(&of[at])), cost(&of[4]))
        };
        let mut left: Vec<([u64; 4], f64)> =
            theirs.as_array().expect("an array").iter().map(row).collect();
        for episode in ours["episodes"].as_array().expect("an array") {
            let (row, cost) = (keys.map(|key| number(&episode[key])), cost(&episode["cost_ns"]));
            let same = |other: &([u64; 4], f64)| other.0 == row && (other.1 - cost).abs() < 1.001;
            match left.iter().position(same) {
                Some(place) => {
                    left.swap_remove(place);
                    self.equal += 1;
                }
                None => self.differ.push(format!("episode {row:?}, cost {cost}, is only ours")),
            }
        }
        for other in left {
            self.differ.push(format!("episode {other:?} is only theirs"));
        }
    }
}

/// Compares everything; at least `few` figures must be equal, and none may differ.
#[track_caller]
fn check(dir: &Path, file: &str, few: usize) {
    let fields = "comm,tid,cpu,time,event,trace";
    let script = ["script", "--ns", "--show-task-events", "-F", fields, "-i", file];
    let Some(text) = output("perf", &script) else {
        return missing("a perf that reads its own recording", false);
    };
    let path = dir.join("script.txt");
    std::fs::write(&path, text).expect("a temporary file can be written");
    check_text(&path, file, few);
}

/// Compares what is counted in a text with what we say of `file`, which holds the same.
#[track_caller]
fn check_text(path: &Path, file: &str, few: usize) {
    let count = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/second_count/count.py");
    let Some(theirs) = output("python3", &[count, path.to_str().expect("UTF-8")]) else {
        return missing("python3 (apt-get install python3)", true);
    };
    let theirs: Value = serde_json::from_slice(&theirs).expect("it prints JSON");
    let mut checked = Checked::default();
    let (latency, tasks, cpus) =
        (ours(file, &["latency"]), ours(file, &["tasks"]), ours(file, &["cpus"]));
    let (waiting, moves) = (ours(file, &["waiting"]), ours(file, &["migrations"]));
    let conservation = ours(file, &["conservation", "--keep", "1000000"]);
    checked.partial = tasks["lower_bound"] == true;
    assert_eq!(tasks["origin_ns"], theirs["origin_ns"]);
    checked.same("end", &tasks["end_ns"], &theirs["end_ns"]);
    checked.rows("task", &tasks["tasks"], "pid", &theirs["tasks"]);
    checked.rows("cpu", &cpus["cpus"], "cpu", &theirs["cpus"]);
    for kind in ["wakeup", "run_delay"] {
        let part = |rows: &Value| {
            rows.as_object()
                .expect("by pid")
                .iter()
                .map(|(pid, row)| (pid.clone(), row[kind].clone()))
                .collect()
        };
        let ours = latency["tasks"].as_array().expect("an array").iter();
        let ours = ours.map(|row| {
            let mut figures = row[kind].clone();
            figures["pid"] = row["pid"].clone();
            figures
        });
        checked.rows(kind, &ours.collect(), "pid", &Value::Object(part(&theirs["latency"])));
    }
    checked.same("unfinished", &latency["total"]["unfinished"], &theirs["unfinished"]);
    for curve in ["running_time_ns", "waiting_time_ns"] {
        // For how long so many waited is told only of a trace that holds all wakeups.
        let told = !waiting[curve].is_null() || waiting["lower_bound"] == true;
        assert!(told, "{curve}");
        if !waiting[curve].is_null() {
            assert_eq!(waiting[curve], theirs[curve], "{curve}");
        }
    }
    let migrations = |row: (&String, &Value)| row.1["migrations"].as_u64().unwrap_or(0);
    let moved: u64 = theirs["tasks"].as_object().expect("by pid").iter().map(migrations).sum();
    checked.same("migrations", &moves["total"], &moved.into());
    for (name, value) in theirs["definitions"].as_object().expect("by name") {
        checked.same(name, &conservation["definitions"][name], value);
    }
    if conservation["total_ns"].is_null() {
        // The trace does not tell on which CPU each task waited.
        assert_eq!(conservation["lower_bound"], true);
    } else {
        checked.episodes(&conservation, &theirs["episodes"]);
        checked.same("lost", &conservation["lost"]["cpu_ns"], &theirs["lost_ns"]);
        checked.same("total", &conservation["total_ns"], &theirs["lost_ns"]);
        checked.same("bound", &conservation["bound_threads_ns"], &theirs["bound_ns"]);
    }
    let Checked { equal, differ, .. } = checked;
    assert!(
        differ.is_empty(),
        "{} of {} differ:\n{}",
        differ.len(),
        differ.len() + equal,
        differ.join("\n")
    );
    assert!(equal >= few, "only {equal} figures were comparable");
}

#[test]
fn figures_of_a_recording_are_those_of_a_second_count() {
    if output("perf", &["--version"]).is_none() {
        return missing("perf (apt-get install linux-perf)", true);
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("all.data");
    let file = file.to_str().expect("a temporary path is UTF-8");
    let mut args = vec!["record", "-q", "-a", "-R", "-m", "2048", "-c", "1", "-o", file];
    let kinds = ["switch", "waking", "wakeup", "wakeup_new", "migrate_task"];
    let kinds = kinds.map(|kind| format!("sched:sched_{kind}"));
    kinds.iter().for_each(|kind| args.extend(["-e", kind]));
    // With fewer tasks than CPUs at times, so that CPU time is lost.
    args.extend(["--", "perf", "bench", "sched", "messaging", "-g", "1", "-l", "40"]);
    if output("perf", &args).is_none() {
        return missing(
            "the right to record with perf: a fresh recording was not counted twice",
            false,
        );
    }
    check(dir.path(), file, 500);
}

#[test]
fn figures_of_another_machine_are_those_of_a_second_count() {
    if output("perf", &["--version"]).is_none() {
        return missing("perf (apt-get install linux-perf)", true);
    }
    let Some(data) = std::env::var_os("SCHEDLAB_DATA") else {
        return missing("SCHEDLAB_DATA: the traces of others were not counted twice", false);
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = Path::new(&data).join("traces/local_2cpu_zstd.perf.data");
    // It holds no sched_wakeup, so who waited on which CPU is unknown.
    check(dir.path(), file.to_str().expect("a path of the data is UTF-8"), 90);
}

#[test]
fn figures_of_a_recording_that_lacks_switches_are_those_of_a_second_count() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/contradictions.txt");
    let told = ours(file, &["latency"]);
    let told = told["warnings"].as_array().expect("an array");
    let contradictions = told.iter().any(|warning| warning["code"] == "events-contradict");
    assert!(contradictions, "it is kept because switches are missing: {told:?}");
    check_text(Path::new(file), file, 150);
}
