//! Which way `schedlab record` takes when it may choose: ftrace where tracefs can be written, perf
//! events where it cannot, and an error that names both rights where neither is there. Each right is
//! taken away for real, in a mount namespace or by giving capabilities up.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const TRACEFS: &str = "/sys/kernel/tracing";
/// Root without a single capability: files of root's are still its own, perf events are not.
const NO_CAPABILITY: &str = "setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all";

fn missing(what: &str) {
    missing!("{what}: the ways to record were not checked");
}

/// Runs a line of shell in a mount namespace of its own with a tracefs that can be written; `None`
/// where that cannot be had.
fn shell(dir: &Path, line: &str) -> Option<Output> {
    let set_up = format!(
        "mkdir {TRACEFS}/instances/schedlab-try-$$ 2>/dev/null || mount -t tracefs tracefs {TRACEFS} || \
         exit 77; rmdir {TRACEFS}/instances/schedlab-try-$$ 2>/dev/null; {line}"
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &set_up]).current_dir(dir).stdin(Stdio::null());
    let output = command.env("SCHEDLAB", env!("CARGO_BIN_EXE_schedlab")).output().ok()?;
    (output.status.code() != Some(77) && rights()).then_some(output)
}

/// Whether there are rights to take away: root, and perf events that take a capability.
fn rights() -> bool {
    let root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid: i32 = paranoid.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(-1);
    let tools = Command::new("setpriv").arg("--version").output().is_ok();
    root && tools && paranoid > 0
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Through what `schedlab record` said that it recorded, and that the trace can be read.
fn via(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(json["events"]["sched_switch"].as_u64() > Some(0), "{json}");
    json["via"].as_str().expect("a text").to_owned()
}

const RECORD: &str = "$SCHEDLAB record -o x.dat --json";

#[test]
fn ftrace_is_taken_where_tracefs_can_be_written_even_if_perf_events_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = |line: &str| shell(dir.path(), line);
    let Some(all) = run(&format!("{RECORD} -- true")) else { return missing("root") };
    assert_eq!(via(&all), "ftrace");
    let denied = run(&format!("{NO_CAPABILITY} {RECORD} -- true")).unwrap();
    assert_eq!(via(&denied), "ftrace");
    let perf = run(&format!("{NO_CAPABILITY} {RECORD} --via perf -- true")).unwrap();
    assert_eq!(perf.status.code(), Some(1), "perf events were not refused");
    assert!(stderr(&perf).contains("CAP_PERFMON"), "{}", stderr(&perf));
}

#[test]
fn perf_events_are_taken_where_tracefs_is_read_only_and_both_rights_are_named_where_none_is_there()
{
    let dir = tempfile::tempdir().unwrap();
    let read_only = format!("mount -o remount,bind,ro {TRACEFS}");
    let run = |line: &str| shell(dir.path(), &format!("{read_only}; {line}"));
    let Some(all) = run(&format!("{RECORD} -- true")) else { return missing("root") };
    assert_eq!(via(&all), "perf");
    let ftrace = run(&format!("{RECORD} --via ftrace -- true")).unwrap();
    assert_eq!(ftrace.status.code(), Some(1));
    assert!(stderr(&ftrace).contains("cannot write to tracefs"), "{}", stderr(&ftrace));
    let neither = run(&format!("{NO_CAPABILITY} {RECORD} -- true")).unwrap();
    let said = stderr(&neither);
    assert_eq!(neither.status.code(), Some(1));
    assert!(said.contains("cannot write to tracefs") && said.contains("CAP_PERFMON"), "{said}");
    assert!(!dir.path().join("x.dat.spool").exists());
}

#[test]
fn without_a_mounted_tracefs_one_of_our_own_is_used_and_no_instance_outlives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let line = format!(
        "umount -l {TRACEFS}; test ! -e {TRACEFS}/instances || exit 78; {RECORD} -- true; \
         $SCHEDLAB record -o y.dat -- sleep 60 & \
         for i in $(seq 300); do test -e y.dat.spool/cpu0.ring && break; sleep 0.1; done; \
         kill -9 $!; echo $! >pid; wait"
    );
    let Some(output) = shell(dir.path(), &line) else { return missing("root") };
    assert_ne!(output.status.code(), Some(78), "tracefs is mounted twice");
    assert_eq!(via(&Output { status: Default::default(), ..output }), "ftrace");
    assert!(dir.path().join("y.dat.spool/cpu0.ring").exists(), "it did record");
    let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
    let gone = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(25));
        let instance = format!("{TRACEFS}/instances/schedlab-{}", pid.trim());
        let look = format!("test ! -e {instance}");
        shell(dir.path(), &look).is_some_and(|output| output.status.success())
    });
    assert!(gone, "the instance outlives its recorder");
    let names = shell(dir.path(), &format!("cat {TRACEFS}/options/record-cmd")).unwrap();
    assert_eq!(String::from_utf8_lossy(&names.stdout).trim(), "1", "the option was put back");
}

/// The function of a shell that writes into `trace_marker` as a program does that knows nothing of schedlab.
/// It stands in double quotes on a line of shell.
const MARK: &str = "m() { echo \\\"\\$1\\\" > /sys/kernel/tracing/trace_marker; }";

/// Runs a line where `trace_marker` can be copied; `None` where this kernel does not.
fn marking(dir: &Path, line: &str) -> Option<Output> {
    let there = format!("test -e {TRACEFS}/options/copy_trace_marker || exit 77; {line}");
    let output = shell(dir, &there);
    if output.is_none() {
        missing("root, and an ftrace that copies trace_marker (Linux 6.16)");
    }
    output
}

#[test]
fn a_snapshot_keeps_what_led_to_a_long_request_of_a_program_that_writes_into_trace_marker() {
    let dir = tempfile::tempdir().unwrap();
    // The second frame takes longer than the limit; another name does not count.
    let load = "m 'B|1|load'; m 'B|1|frame'; m 'E|1'; m 'B|1|frame'; sleep 1.2; m 'E|1'; m 'E|1'; sleep 0.3";
    let run = |limit: &str| {
        let record =
            "$SCHEDLAB record -o x.dat --trace-marker --keep 5s --between frame --snapshot";
        marking(dir.path(), &format!("{record} {limit} -- sh -c \"{MARK}; {load}\""))
    };
    let Some(late) = run("1s") else { return };
    assert!(stderr(&late).contains("a request took 1"), "{}", stderr(&late));
    assert!(stderr(&late).contains("mark "), "{}", stderr(&late));
    let in_time = run("30s").unwrap();
    assert!(stderr(&in_time).contains("no 'frame' took 30"), "{}", stderr(&in_time));
}

#[test]
fn what_programs_write_into_trace_marker_are_marks_of_the_trace() {
    let dir = tempfile::tempdir().unwrap();
    // A request that another task ends, and a text without a meaning.
    let load = "m 'begin order 7'; sleep 0.05; (m 'end order 7'); m 'all is well'";
    for via in ["perf", "ftrace"] {
        let line = format!(
            "$SCHEDLAB record -o x.dat --via {via} --trace-marker -- sh -c \"{MARK}; {load}\" & \
             pid=$!; wait $pid && $SCHEDLAB trace why --mark order --json x.dat && \
             $SCHEDLAB trace events x.dat --event mark >events; \
             ls {TRACEFS}/instances | grep schedlab-$pid- >left"
        );
        let Some(output) = marking(dir.path(), &line) else { return };
        let why: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{via}: {error}: {}", stderr(&output)));
        let time = |key: &str| why["request"][key].as_u64().expect("a time");
        assert!(time("end_ns") - time("start_ns") >= 50_000_000, "{via}: {why:#}");
        let read = |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap();
        assert!(read("events").contains("all is well"), "{via}: {}", read("events"));
        assert_eq!(read("left"), "", "{via}: the instance outlives its recorder");
    }
}
