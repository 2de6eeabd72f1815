//! The tour as a new user runs it: two loads, two traces, one report without outside references.

use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn the_tour_measures_and_writes_a_report_that_stands_alone() {
    crate::machine_lock::share();
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["tour", "--output", "results"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("the built command starts");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");

    // A warning that both loads get is told at the first one alone.
    let warned = stderr.lines().filter_map(|line| line.trim_start().strip_prefix("warning: "));
    let parts = warned.flat_map(|line| line.split("; "));
    let mut doubts: Vec<&str> = parts.filter(|part| part.contains(": ")).collect();
    let all = doubts.len();
    doubts.sort_unstable();
    doubts.dedup();
    assert_eq!(doubts.len(), all, "a warning comes once: {stderr}");

    let report = std::fs::read_to_string(folder.path().join("results/report.html"))
        .unwrap_or_else(|error| panic!("no report: {error}\n{stdout}\n{stderr}"));
    for foreign in ["src=\"", "href=\"http", "@import", "url(http"] {
        assert!(!report.contains(foreign), "the report refers to something outside: {foreign}");
    }
    for wanted in ["hackbench", "schbench", "kernel", "CPUs"] {
        assert!(report.contains(wanted), "the report does not tell {wanted}");
    }
    assert!(!stdout.contains("--wide"), "an option that the tour has not: {stdout}");
    let recorded = traces(&folder.path().join("results/runs"));
    if stdout.lines().any(|line| line.starts_with("no ") && line.contains("record scheduler")) {
        missing!("the right to record: the tour was checked without traces");
        assert!(recorded.is_empty());
        return;
    }
    assert_eq!(recorded.len(), 2, "{stdout}\n{stderr}");
    for wanted in ["<svg", "p99.9", "involuntary", "migrations"] {
        assert!(report.contains(wanted), "the report does not show {wanted}");
    }
    for trace in recorded {
        let told = Command::new(env!("CARGO_BIN_EXE_schedlab"))
            .args(["trace", "info", "--json"])
            .arg(&trace)
            .output()
            .expect("the built command starts");
        let info: serde_json::Value = serde_json::from_slice(&told.stdout).expect("JSON");
        for kind in ["sched_switch", "sched_wakeup", "sched_waking"] {
            assert!(info["events"][kind].as_u64().is_some_and(|count| count > 100), "{info:#}");
        }
    }
}

fn traces(runs: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(runs).map(|entries| entries.flatten().collect::<Vec<_>>());
    let paths = entries.unwrap_or_default().into_iter().map(|e| e.path().join("trace.dat"));
    paths.filter(|path| path.is_file()).collect()
}
