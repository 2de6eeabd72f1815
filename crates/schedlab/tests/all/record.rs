//! `schedlab record` end to end: the peer reads what it wrote and counts the same, the workload's exit
//! code passes through, and neither Ctrl-C nor `kill -9` loses what was recorded.

use crate::cpu_group::Group;
use crate::patience;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn schedlab() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.stdin(Stdio::null());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn record(dir: &Path, arguments: &[&str]) -> Output {
    crate::machine_lock::share();
    let command = schedlab().arg("record").args(arguments).current_dir(dir).output();
    command.expect("the built command starts")
}

/// Whether this machine lets us record. A right is not a package: without it there is nothing to
/// test, and that is said aloud.
fn may_record() -> bool {
    let output = schedlab().args(["doctor", "--json"]).output().expect("the built command starts");
    let doctor: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = doctor["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == "record").expect("a check of record");
    if check["verdict"] == "yes" {
        return true;
    }
    missing(&format!("{}: {}", check["found"], check["remedy"]));
    false
}

fn missing(what: &str) {
    missing!("{what}");
}

/// Whether a peer is installed; in CI it must be.
fn has(peer: &str, package: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {peer}")]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        missing(&format!("{peer} (Debian package {package})"));
        assert!(std::env::var_os("CI").is_none(), "{package} must be installed in CI");
    }
    found
}

type Counts = BTreeMap<(String, String), u64>;

/// Records by CPU and event name, as our reader counts them.
fn ours(dir: &Path, file: &str) -> Counts {
    let output = schedlab().args(["trace", "info", "--json", file]).current_dir(dir).output();
    let output = output.expect("the built command starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let per_cpu = info["per_cpu"].as_object().expect("per_cpu");
    let cpus = per_cpu.iter().flat_map(|(cpu, counts)| {
        let counts = counts.as_object().expect("counts").iter();
        counts.map(move |(name, count)| {
            ((cpu.clone(), name.clone()), count.as_u64().expect("a count"))
        })
    });
    cpus.filter(|(_, count)| *count > 0).collect()
}

/// The same, as trace-cmd prints them.
fn theirs(dir: &Path, file: &str) -> Counts {
    let output = Command::new("trace-cmd").args(["report", "-N", file]).current_dir(dir).output();
    let output = output.expect("trace-cmd starts");
    let mut counts = Counts::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        // `hackbench-77  [001]  3200.654642: sched_switch:  ...`; names may hold anything.
        let Some((cpu, rest)) = line.split_once(" [").and_then(|(_, rest)| rest.split_once("] "))
        else {
            continue;
        };
        let cpu = cpu.trim_start_matches('0');
        let cpu = if cpu.is_empty() { "0" } else { cpu };
        let event = rest.split(':').nth(1).expect("an event follows the time").trim();
        *counts.entry((cpu.to_owned(), event.to_owned())).or_default() += 1;
    }
    counts
}

#[test]
fn counts_per_event_and_cpu_are_those_of_trace_cmd() {
    if !may_record() || !has("hackbench", "rt-tests") || !has("trace-cmd", "trace-cmd") {
        return;
    }
    // Version 7 packs its pages, version 6 cannot.
    for (option, version) in [(None, "7"), (Some("--no-compress"), "6")] {
        counts_are_those_of_trace_cmd(option, version);
    }
}

fn counts_are_those_of_trace_cmd(option: Option<&str>, version: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut arguments = vec!["-o", "x.dat", "-e", "irq"];
    arguments.extend(option);
    arguments.extend(["--", "hackbench", "-g", "4", "-l", "300"]);
    let output = record(dir.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let head = std::fs::read(dir.path().join("x.dat")).unwrap();
    assert_eq!(head[10..12], [version.as_bytes(), b"\0"].concat(), "the version of the file");
    let (ours, theirs) = (ours(dir.path(), "x.dat"), theirs(dir.path(), "x.dat"));
    assert!(theirs.values().sum::<u64>() > 10_000, "{theirs:?}");
    assert_eq!(ours, theirs);
    let said = stderr(&output);
    let lost_told = said.contains("no event was lost") || said.contains("lost: CPU");
    assert!(lost_told, "{said}");
    for name in ["sched_switch", "sched_process_fork", "sched_process_exit"] {
        let total: u64 = ours.iter().filter(|((_, n), _)| n == name).map(|(_, count)| count).sum();
        assert!(said.contains(&format!("{name} {total}")), "{name} {total} is not in: {said}");
    }
    assert!(!dir.path().join("x.dat.spool").exists());
}

#[test]
fn what_a_ring_could_not_hold_is_counted_as_trace_cmd_counts_it() {
    if !may_record() || !has("hackbench", "rt-tests") || !has("trace-cmd", "trace-cmd") {
        return;
    }
    let ways: &[&str] = if may_use_ftrace() { &["perf", "ftrace"] } else { &["perf"] };
    for via in ways {
        // A page of the kernel's ring that is full to its end has no room for the count: then trace-cmd tells of a loss
        // without a number, and another run is needed.
        patience::eventually(|| match overwhelmed(via) {
            (0, lost) => Err(format!("{via}: 0 of {lost}")),
            _ => Ok(()),
        });
    }
}

/// What trace-cmd counts as dropped, and what we count as lost, of a recording that cannot keep up.
fn overwhelmed(via: &str) -> (u64, u64) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    // The load stops its recorder for a while: nobody empties the rings. They are emptied before the second load.
    let load = "kill -STOP $PPID; hackbench -g 2 -l 200; kill -CONT $PPID; sleep 0.5; \
                hackbench -g 1 -l 50";
    let options = ["-o", "x.dat", "--via", via, "--ring", "64KiB", "--json"];
    let output = record(dir.path(), &[&options[..], &["--", "sh", "-c", load]].concat());
    // The workload's own output comes first.
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = said.lines().last().unwrap_or_default();
    let json: serde_json::Value = serde_json::from_str(last).expect("JSON");
    let lost = json["lost"].as_u64().expect("a count");
    assert!(lost > 0, "{via}: 64 KiB for each CPU are too small: {}", stderr(&output));
    let dropped = dropped(dir.path());
    // What was lost last has no record behind it to which trace-cmd could pin it.
    assert!(dropped <= lost, "{via}: {dropped} of {lost}");
    assert!(stderr(&output).contains("larger rings"), "{}", stderr(&output));
    (dropped, lost)
}

/// What trace-cmd says was dropped from x.dat.
fn dropped(dir: &Path) -> u64 {
    let report = Command::new("trace-cmd").args(["report", "x.dat"]).current_dir(dir).output();
    String::from_utf8_lossy(&report.expect("trace-cmd starts").stdout)
        .lines()
        .filter_map(|line| {
            line.split_once(" EVENTS DROPPED]")?.0.rsplit_once('[')?.1.parse::<u64>().ok()
        })
        .sum()
}

#[test]
fn the_trace_keeps_topology_and_where_tasks_may_run() {
    if !may_record() || !has("taskset", "util-linux") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let name = format!("bound-{}", std::process::id());
    std::os::unix::fs::symlink("/bin/sleep", dir.path().join(&name)).unwrap();
    let command = ["--", "taskset", "-c", "0", &format!("./{name}"), "0.3"];
    let output = record(dir.path(), &[["-o", "x.dat"].as_slice(), &command].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let source = schedlab_trace::open(&dir.path().join("x.dat")).expect("a trace");
    let info = source.info();
    let sleeper = info.comms.iter().find(|(_, comm)| comm.starts_with(name.as_bytes()));
    let (pid, _) = sleeper.expect("the command's name is kept");
    let topology = info.topology.as_ref().expect("topology");
    assert!(topology.cpus().contains(schedlab_model::Cpu(0)));
    let affinity = info.affinity.as_ref().expect("affinity");
    let last = affinity.iter().rfind(|entry| entry.pid == *pid).expect("the sleeper was seen");
    assert_eq!(last.allowed.to_string(), "0", "{affinity:?}");
    let init = affinity.iter().find(|entry| entry.pid.0 == 1).expect("tasks before the start");
    assert!(!init.allowed.is_empty());
}

#[test]
fn tasks_that_are_pinned_to_one_cpu_wait_there_without_violating_anything() {
    if !may_record() || !has("taskset", "util-linux") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let name = format!("pin{}", std::process::id());
    std::os::unix::fs::symlink("/usr/bin/yes", dir.path().join(&name)).unwrap();
    let one = format!("timeout 0.5 taskset -c 0 ./{name} > /dev/null");
    let both = format!("{one} & {one} & wait");
    let output = record(dir.path(), &["-o", "x.dat", "--", "sh", "-c", &both]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let ask = |question: &str| -> serde_json::Value {
        let args = ["trace", question, "--json", "--comm", &name, "x.dat"];
        let output = schedlab().args(args).current_dir(dir.path()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)))
    };
    let tasks = ask("tasks");
    let rows = tasks["tasks"].as_array().expect("rows");
    let waited: u64 = rows.iter().filter_map(|row| row["wait_ns"].as_u64()).sum();
    assert!(rows.len() == 2 && waited > 100_000_000, "they share a CPU: {tasks}");
    let found = ask("conservation");
    // Until taskset has pinned them they may run anywhere.
    let total = found["total_ns"].as_u64().expect("a sum");
    assert!(total < waited / 10, "{total} of {waited} ns: {found}");
}

#[test]
fn without_rights_the_missing_one_is_named_and_nothing_is_left_behind() {
    let root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    if !root || !has("setpriv", "util-linux") {
        missing("root, to give its rights up");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).unwrap();
    // The build folder may be closed to others.
    let program = dir.path().join("schedlab");
    std::fs::copy(env!("CARGO_BIN_EXE_schedlab"), &program).unwrap();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    let run = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(nobody).arg(&program).args(arguments).current_dir(dir.path());
        command.stdin(Stdio::null()).output().expect("setpriv starts")
    };
    let output = run(&["record", "--", "true"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("cannot record scheduler events") && said.contains("run as root"),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only the program is there");
    let doctor = run(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(0));
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(text.contains("to get it: ") && text.contains("costs: "), "{text}");
}

/// Whether tracefs lets us make an instance.
fn may_use_ftrace() -> bool {
    let probe = Path::new("/sys/kernel/tracing/instances/schedlab-test");
    let made = std::fs::create_dir(probe).and_then(|()| std::fs::remove_dir(probe));
    if let Err(error) = &made {
        missing(&format!("an ftrace instance: {error}"));
    }
    made.is_ok()
}

#[test]
fn ftrace_pages_are_counted_as_trace_cmd_counts_them_and_leave_no_instance() {
    if !may_use_ftrace() || !has("trace-cmd", "trace-cmd") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let busy = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; exit 3";
    let arguments = ["-o", "x.dat", "--via", "ftrace", "--json", "--", "sh", "-c", busy];
    let output = record(dir.path(), &arguments);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let ours = ours(dir.path(), "x.dat");
    assert!(ours.keys().any(|(_, name)| name == "sched_process_exec"), "{ours:?}");
    assert_eq!(ours, theirs(dir.path(), "x.dat"));
    let mut child = schedlab()
        .args(["record", "-o", "y.dat", "--via", "ftrace", "--", "sleep", "15"])
        .current_dir(dir.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("the built command starts");
    let instance = format!("/sys/kernel/tracing/instances/schedlab-{}", child.id());
    let there = |wanted: bool| {
        let until = (0..200).find(|_| {
            std::thread::sleep(Duration::from_millis(25));
            Path::new(&instance).exists() == wanted
        });
        until.is_some()
    };
    let made = there(true);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(made, "no instance was made");
    assert!(there(false), "{instance} outlives its recorder");
}

#[test]
fn a_size_ends_a_recording_or_keeps_its_end() {
    if !may_record() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let busy = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done";
    let recorded = |arguments: &[&str]| {
        let all = [&["-o", "x.dat", "--json"], arguments, &["--", "sh", "-c", busy]].concat();
        let output = record(dir.path(), &all);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (json, stderr(&output))
    };
    let exits = |json: &serde_json::Value| {
        json["events"]["sched_process_exit"].as_u64().unwrap_or_default()
    };
    let (whole, _) = recorded(&[]);
    let (stopped, said) = recorded(&["--size", "16KiB", "--ring", "32KiB"]);
    assert!(said.contains("size limit"), "{said}");
    assert!(exits(&whole) >= 300 && exits(&stopped) < 300, "{whole} {stopped}");
    let (end, said) = recorded(&["--size", "64KiB", "--full", "overwrite"]);
    assert!(said.contains("only the last events"), "{said}");
    assert!(exits(&end) > 0 && exits(&end) < 300, "{end}");
    assert_eq!(end["lost"], 0);
}

#[test]
fn a_time_limit_ends_the_recording_and_the_command_goes_on() {
    if !may_record() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let name = format!("late-{}", std::process::id());
    std::os::unix::fs::symlink("/bin/true", dir.path().join(&name)).unwrap();
    let command = ["--", "sh", "-c", &format!("sleep 2; ./{name}; exit 9")];
    let output =
        record(dir.path(), &[["-o", "x.dat", "--time", "100ms"].as_slice(), &command].concat());
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
    assert!(trace_switches_to(dir.path(), "sleep"), "what ran at first is in the trace");
    assert!(!trace_switches_to(dir.path(), &name), "what ran after the limit is not");
}

/// Whether any task of this name ran, as trace-cmd or we would print it.
fn trace_switches_to(dir: &Path, name: &str) -> bool {
    let mut source = schedlab_trace::open(&dir.join("x.dat")).expect("a trace");
    let mut batch = Vec::new();
    let mut found = false;
    while source.next(&mut batch).expect("readable") {
        found = found
            || batch.iter().any(|event| match event.what {
                schedlab_model::What::Comm { comm, .. } => comm.starts_with(name.as_bytes()),
                _ => false,
            });
    }
    found
}

#[test]
fn events_are_filtered_by_task_and_by_the_kernels_expression_with_a_warning() {
    if !may_record() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let me = std::process::id().to_string();
    let arguments = ["-o", "x.dat", "--pid", &me, "--", "sleep", "0.1"];
    let output = record(dir.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("competing tasks"), "{}", stderr(&output));
    let never = ["--filter", "sched_switch: next_prio > 5000", "--", "sleep", "0.1"];
    let output = record(dir.path(), &[&["-o", "x.dat"], never.as_slice()].concat());
    let counts = ours(dir.path(), "x.dat");
    assert!(counts.keys().all(|(_, name)| name != "sched_switch"), "{counts:?}");
    assert!(counts.keys().any(|(_, name)| name == "sched_waking"), "{}", stderr(&output));
    let wrong = ["--filter", "sched_switch: nothing == 1", "--", "true"];
    let output = record(dir.path(), &wrong);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("next_prio"), "{}", stderr(&output));
}

#[test]
fn a_snapshot_keeps_what_led_to_a_long_wait() {
    if !may_record() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Three tasks that compute on one CPU: each waits a slice or two for its turn.
    let busy = "for i in 1 2 3; do timeout 0.5 sh -c 'while :; do :; done' & done; wait";
    let command = ["--", "taskset", "-c", "0", "sh", "-c", busy];
    let options = ["-o", "x.dat", "--snapshot", "1ms", "--keep", "20ms"];
    let output = record(dir.path(), &[options.as_slice(), &command].concat());
    assert!(stderr(&output).contains("without running"), "{}", stderr(&output));
    assert!(ours(dir.path(), "x.dat").values().sum::<u64>() > 0);
    // The answer is about the wait that ended the recording.
    let mut why = schedlab();
    let why = why.args(["why", "x.dat"]).current_dir(dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&why.stdout).replace('\n', " ");
    assert!(text.contains("which ended the recording"), "{text}");
    // Whoever is not watched ends nothing.
    let other = ["-o", "y.dat", "--snapshot", "1ms", "--watch", "comm=nobody"];
    let output = record(dir.path(), &[other.as_slice(), &command].concat());
    assert!(stderr(&output).contains("no task waited"), "{}", stderr(&output));
}

#[test]
fn a_snapshot_keeps_what_led_to_a_long_request() {
    if !may_record() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = ["-o", "x.dat", "--snapshot", "1ms", "--keep", "20ms", "--between", "request"];
    // Each request computes for longer than the limit.
    let load = ["load", "app", "--duration", "1s", "--work", "3ms"];
    let mut command = vec!["--", env!("CARGO_BIN_EXE_schedlab")];
    command.extend(load);
    let output = record(dir.path(), &[options.as_slice(), &command].concat());
    let said = stderr(&output);
    assert!(said.contains("a request took "), "{said}");
    let events = ours(dir.path(), "x.dat");
    assert!(events.keys().any(|(_, name)| name == "mark"), "{events:?}");
    let left = std::fs::read_dir(dir.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["x.dat"], "no file of marks is left");
}

/// The JSON answer of schedlab to `args` in `dir`.
fn answered(dir: &Path, args: &[&str]) -> serde_json::Value {
    let output = schedlab().args(args).current_dir(dir).output().expect("schedlab starts");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)))
}

/// What `trace tasks` says of a `sleep` that was recorded with stacks into x.dat, and that a shell ran `before`;
/// nothing where the kernel's functions have no names here. A busy machine may lose the wakeup, and with it how long
/// the task was blocked: such a recording is made again, up to five times in all.
fn blocked_sleep(dir: &Path, via: &str, before: &str) -> Option<serde_json::Value> {
    let mut found = serde_json::Value::Null;
    for _ in 0..5 {
        // On CPU 0, since a CPU that is idle in a virtual machine may log no wakeup.
        let line = format!("{before} exec taskset -c 0 sleep 0.2");
        let command = ["--", "sh", "-c", &line];
        let options = ["-o", "x.dat", "--via", via, "--stacks"];
        let output = record(dir, &[&options[..], &command].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        if stderr(&output).contains("without names") {
            missing("the kernel's symbols (kernel.kptr_restrict): no names of functions");
            return None;
        }
        let tasks = answered(dir, &["trace", "tasks", "--json", "x.dat"]);
        let all = tasks["tasks"].as_array().expect("tasks");
        found = all.iter().find(|task| task["comm"] == "sleep").expect("the command").clone();
        if found["sleep_ns"].as_u64() >= Some(150_000_000) {
            break;
        }
    }
    Some(found)
}

#[test]
fn stacks_tell_the_kernel_function_in_which_a_task_blocked() {
    if !may_record() || !has("trace-cmd", "trace-cmd") || !has("taskset", "util-linux") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for via in if may_use_ftrace() { &["perf", "ftrace"][..] } else { &["perf", "auto"] } {
        let Some(sleep) = blocked_sleep(dir.path(), via, "") else { return };
        let first = &sleep["blocked_in"][0];
        let stack = first["stack"].as_str().unwrap_or_default();
        assert!(stack.contains("nanosleep"), "{via}: {sleep:#}");
        assert!(!stack.starts_with("schedule"), "{stack}");
        assert!(first["off_cpu_ns"].as_u64() >= Some(150_000_000), "{via}: {first}");
        let pid = sleep["pid"].as_i64().expect("a pid").to_string();
        let why = answered(dir.path(), &["trace", "why", "--pid", &pid, "--json", "x.dat"]);
        // On a busy machine it waited longer for a CPU.
        let sums = why["sums"].as_array().expect("sums");
        let asleep = sums.iter().find(|sum| !sum["blocked_in"].is_null()).expect("it slept");
        assert_eq!(asleep["blocked_in"], first["stack"], "{via}: {why:#}");
        assert!(asleep["said"].as_str().is_some_and(|said| said.contains(stack)), "{asleep}");
        // The peer prints the same functions, one on each line.
        let report = ["report", "-N", "x.dat"];
        let report = Command::new("trace-cmd").args(report).current_dir(dir.path()).output();
        let report = String::from_utf8_lossy(&report.unwrap().stdout).into_owned();
        let function = stack.split("<-").next().unwrap_or_default();
        assert!(report.contains(&format!("=> {function}")), "{via}: no {function}: {report}");
    }
}

#[test]
fn stacks_of_wakeups_are_not_taken_for_what_a_task_blocked_in() {
    if !may_use_ftrace() || !has("taskset", "util-linux") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Ftrace then logs a stack behind each event, as for `trace-cmd record -T`.
    let option = "echo 1 > /sys/kernel/tracing/instances/schedlab-$PPID/options/stacktrace;";
    let Some(sleep) = blocked_sleep(dir.path(), "ftrace", option) else { return };
    let events = answered(dir.path(), &["trace", "info", "--json", "x.dat"])["events"].clone();
    let count = |name: &str| events[name].as_u64().unwrap_or(0);
    assert!(count("kernel_stack") > count("sched_switch"), "{events}");
    let blocked = sleep["blocked_in"].as_array().expect("stacks");
    let of = |blocked: &serde_json::Value| blocked["stack"].as_str().unwrap_or("").to_owned();
    assert!(of(&blocked[0]).contains("nanosleep"), "{sleep:#}");
    let tasks = answered(dir.path(), &["trace", "tasks", "--json", "x.dat"]);
    let all = tasks["tasks"].as_array().expect("tasks").iter();
    let stacks = all.flat_map(|task| task["blocked_in"].as_array().cloned().unwrap_or_default());
    let wakeups: Vec<String> =
        stacks.map(|stack| of(&stack)).filter(|s| s.contains("try_to_wake_up")).collect();
    assert!(wakeups.is_empty(), "{wakeups:?}");
}

/// A `timeout` that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // `timeout` passes this on to its command; a SIGKILL it could not.
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn snapshots_repeat_until_sigterm_and_the_newest_are_kept() {
    if !may_record() {
        return;
    }
    crate::machine_lock::share();
    let dir = tempfile::tempdir().unwrap();
    let busy = || {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "timeout", "60", "sh", "-c", "while :; do :; done"]);
        Killed(command.stdin(Stdio::null()).spawn().expect("taskset starts"))
    };
    let _busy = [busy(), busy(), busy()];
    let mut watcher = schedlab();
    watcher.args(["record", "-o", "late.dat", "--snapshot", "1ms", "--keep", "5ms", "--max", "2"]);
    let watcher = watcher.args(["--json"]).current_dir(dir.path());
    let watcher = watcher.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = watcher.spawn().expect("the built command starts");
    let third = dir.path().join("late-000003.dat");
    for _ in 0..600 {
        if third.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let term = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(term.expect("kill starts").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.lines().count() >= 3, "a line of JSON for each: {said}");
    let names = std::fs::read_dir(dir.path()).unwrap().flatten();
    let mut names: Vec<String> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    assert_eq!(names.len(), 2, "the newest two, and nothing else: {names:?}");
    for name in &names {
        assert!(name.starts_with("late-0000"), "{names:?}");
        assert!(ours(dir.path(), name).values().sum::<u64>() > 0);
    }
}

/// A group with a tenth of a CPU.
fn limited() -> Option<Group> {
    let group = Group::new("test")?;
    group.write([("cpu.cfs_quota_us", "10000"), ("cpu.max", "10000 100000")]);
    // Beside another load the quota is what it waits for, not its turn.
    group.write([("cpu.shares", "262144"), ("cpu.weight", "10000")]);
    Some(group)
}

#[test]
fn control_groups_are_kept_with_what_their_tasks_got_and_how_they_were_throttled() {
    if !may_record() {
        return;
    }
    crate::machine_lock::take();
    let dir = tempfile::tempdir().unwrap();
    let Some(group) = limited() else {
        return missing("the right to make a control group with a quota (root)");
    };
    let name = format!("/{}", group.0.file_name().unwrap().to_string_lossy());
    let join = format!("echo $$ > {}/cgroup.procs", group.0.display());
    // CPU 0: some kernels log nothing of another one that idles, and budgets are then not known.
    let busy = format!("{join}; exec timeout 1 taskset -c 0 sh -c 'while :; do :; done'");
    let output = record(dir.path(), &["-o", "x.dat", "--", "sh", "-c", &busy]);
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    let mut table = schedlab();
    table.args(["trace", "tasks", "--by", "cgroup", "--json", "x.dat"]).current_dir(dir.path());
    let table = table.output().expect("the built command starts");
    assert!(table.status.success(), "{}", stderr(&table));
    let table: serde_json::Value = serde_json::from_slice(&table.stdout).expect("JSON");
    let rows = table["groups"].as_array().expect("rows");
    let ours = rows.iter().find(|row| row["group"].as_str().is_some_and(|g| g.ends_with(&name)));
    let ours = ours.unwrap_or_else(|| panic!("no {name} in {rows:?}"));
    let number = |key: &str| ours[key].as_u64().unwrap_or(0);
    assert!(number("run_ns") > 0 && number("tasks") > 0, "{ours}");
    assert!(number("throttled_ns") > 0 && number("throttled_periods") > 0, "{ours}");
    assert!(table["steal_ns"].is_u64(), "steal time is sampled");
    assert!(rows.len() > 1, "others run in other groups: {rows:?}");
    // The first line names the quota, and the model of the budget has what the kernel counted.
    let mut why = schedlab();
    let why = why.args(["why", "--cgroup", &name, "x.dat"]).current_dir(dir.path()).output();
    let first = String::from_utf8_lossy(&why.unwrap().stdout).replace('\n', " ");
    assert!(first.contains(&format!("because the CPU quota of {name} (")), "{first}");
    let mut why = schedlab();
    let why = why.args(["why", "--json", "x.dat"]).current_dir(dir.path()).output().unwrap();
    let why: serde_json::Value = serde_json::from_slice(&why.stdout).expect("JSON");
    let sums = why["groups"].as_array().expect("groups");
    let sum = sums.iter().find(|sum| sum["group"] == name.as_str()).expect("our group");
    let [model, kernel] =
        ["throttled_ns", "kernel_throttled_ns"].map(|key| sum[key].as_f64().expect("a time"));
    // The model knows the budget from the first refill on: of a period at the begin it may know nothing.
    let period = 100e6;
    assert!(
        model < 1.1 * kernel && kernel < 1.1 * model + period,
        "model {model}, kernel {kernel}"
    );
    // A trace that does not tell is refused, not answered by zeros.
    std::fs::write(dir.path().join("y.txt"), crate::why::STARVED).unwrap();
    let mut table = schedlab();
    table.args(["trace", "latency", "--by", "cgroup", "y.txt"]).current_dir(dir.path());
    let table = table.output().expect("the built command starts");
    assert!(!table.status.success() && stderr(&table).contains("record"), "{}", stderr(&table));
}

#[test]
fn power_events_that_the_kernel_has_are_recorded_unless_only_scheduling_is_wanted() {
    if !may_record() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let has_timers =
        |file: &str| ours(dir.path(), file).keys().any(|(_, name)| name == "hrtimer_expire_entry");
    let only = ["-o", "only.dat", "--for", "scheduling", "--", "sleep", "0.3"];
    let output = record(dir.path(), &only);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!has_timers("only.dat"));
    let output = record(dir.path(), &["-o", "x.dat", "--", "sleep", "0.3"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(has_timers("x.dat"));
    let mut table = schedlab();
    table.args(["trace", "power", "--json", "x.dat"]).current_dir(dir.path());
    let table = table.output().expect("the built command starts");
    assert!(table.status.success(), "{}", stderr(&table));
    let table: serde_json::Value = serde_json::from_slice(&table.stdout).expect("JSON");
    let cpus = table["cpus"].as_array().expect("rows").iter();
    let timers: u64 = cpus.filter_map(|row| row["hrtimers"].as_u64()).sum();
    assert!(timers > 0, "the timer that ended the sleep: {table}");
}

#[test]
fn the_exit_code_of_the_command_passes_through() {
    if !may_record() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let output = record(dir.path(), &["--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let output = record(dir.path(), &["--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(output.status.code(), Some(137), "{}", stderr(&output));
    let output = record(dir.path(), &["--", "/no/such/command"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/no/such/command"), "{}", stderr(&output));
}

/// Starts a recording of a `sleep` and waits until its spool holds something.
fn start(dir: &Path) -> Child {
    let mut command = schedlab();
    command.args(["record", "-o", "x.dat", "--", "sleep", "15"]).current_dir(dir);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the built command starts");
    let grown = || {
        let files = std::fs::read_dir(dir.join("x.dat.spool")).into_iter().flatten().flatten();
        let records = files.filter(|f| f.path().extension().is_some_and(|e| e == "ring"));
        records.filter_map(|file| file.metadata().ok()).any(|data| data.len() > 1_000)
    };
    for _ in 0..400 {
        if grown() {
            return child;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("nothing was spooled in ten seconds");
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let status = Command::new("kill").args([name, &pid]).status();
    assert!(status.expect("kill starts").success());
}

#[test]
fn ctrl_c_keeps_what_was_recorded_and_says_so() {
    if !may_record() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let child = start(dir.path());
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
    assert!(ours(dir.path(), "x.dat").values().sum::<u64>() > 0);
}

#[test]
fn sigterm_ends_the_command_and_the_exit_code_shows_it() {
    if !may_record() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let child = start(dir.path());
    signal(&child, "-TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", stderr(&output));
    let ours = ours(dir.path(), "x.dat");
    let exits = ours.iter().filter(|((_, name), _)| name == "sched_process_exit");
    assert!(exits.map(|(_, count)| count).sum::<u64>() > 0, "the command has ended: {ours:?}");
}

#[test]
fn a_device_a_pipe_and_a_link_are_written_to_and_not_replaced() {
    if !may_record() {
        return;
    }
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let done = record(dir.path(), &["-o", "/dev/null", "--", "true"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    symlink("x.dat", at("link.dat")).unwrap();
    // Once with nothing at its end, once with the trace of the first time.
    for _ in 0..2 {
        let done = record(dir.path(), &["-o", "link.dat", "--", "true"]);
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
        assert!(std::fs::symlink_metadata(at("link.dat")).unwrap().is_symlink());
        assert!(ours(dir.path(), "x.dat").values().sum::<u64>() > 0);
    }
    let made = Command::new("mkfifo").arg(at("fifo")).status();
    assert!(made.expect("mkfifo starts").success());
    // Into a file: a pipe that nobody reads meanwhile is full after some kilobytes.
    let read = std::fs::File::create(at("read.dat")).unwrap();
    let mut reader = Command::new("cat").arg(at("fifo")).stdout(read).spawn().unwrap();
    let done = record(dir.path(), &["-o", "fifo", "--", "true"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(reader.wait().unwrap().success());
    assert!(std::fs::symlink_metadata(at("fifo")).unwrap().file_type().is_fifo());
    assert!(ours(dir.path(), "read.dat").values().sum::<u64>() > 0);
    let mut left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
    left.sort_by_key(std::fs::DirEntry::file_name);
    let left: Vec<_> = left.iter().map(std::fs::DirEntry::file_name).collect();
    assert_eq!(left, ["fifo", "link.dat", "read.dat", "x.dat"]);
}

#[test]
fn a_killed_recording_is_salvaged_and_marked_as_cut() {
    if !may_record() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = start(dir.path());
    signal(&child, "-KILL");
    child.wait().unwrap();
    assert!(!dir.path().join("x.dat").exists());
    let again = record(dir.path(), &["-o", "x.dat", "--", "true"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("--salvage"), "{}", stderr(&again));
    let output = record(dir.path(), &["--salvage", "x.dat.spool", "-o", "x.dat"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("did not end cleanly"), "{}", stderr(&output));
    assert!(ours(dir.path(), "x.dat").values().sum::<u64>() > 0);
}

#[test]
fn what_is_no_spool_and_what_is_no_event_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let output = record(dir.path(), &["--salvage", "empty", "-o", "x.dat"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("empty/head.json"), "{}", stderr(&output));
    if may_record() {
        let output = record(dir.path(), &["-e", "sched:no_such_event", "--", "true"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("sched_switch"), "{}", stderr(&output));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn a_target_that_is_no_file_and_a_task_that_is_none_are_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, code, part) in [
        (&["-o", "."][..], 2, "name a file"),
        (&["-o", "-", "--json"], 2, "name a file"),
        (&["--time", "0"], 2, "use more than 0"),
        (&["--keep", "1s"], 2, "--snapshot"),
        (&["--pid", "999999999"], 1, "the task does not exist"),
    ] {
        let output = record(dir.path(), &[arguments, &["--", "touch", "ran"]].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{arguments:?}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing ran, nothing is left");
}

#[test]
fn a_tracepoint_is_found_by_its_name_alone() {
    if !may_record() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let output = record(dir.path(), &["-o", "x.dat", "-e", "timer_start", "--", "sleep", "0.2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(ours(dir.path(), "x.dat").keys().any(|(_, name)| name == "timer_start"));
}

#[test]
fn a_full_disk_leaves_what_was_recorded_until_then_readable() {
    if !may_record() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("small");
    std::fs::create_dir(&small).unwrap();
    // A mount of its own, which goes with the shell's namespace.
    let script = "mount -t tmpfs -o size=400k none small && \
                  \"$0\" record -o small/x.dat -- sh -c 'i=0; while [ $i -lt 1500 ]; do sleep 0; i=$((i+1)); done'; \
                  echo \"code $?\"; \"$0\" record --salvage small/x.dat.spool -o x.dat; echo \"code $?\"";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_schedlab")])
        .current_dir(dir.path())
        .output();
    let Ok(output) = output.map_err(|_| missing("unshare, for a disk that is soon full")) else {
        return;
    };
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    if !told.starts_with("code") {
        missing("the right to mount a small disk");
        return;
    }
    let said = stderr(&output);
    assert_eq!(told, "code 1\ncode 0\n", "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(said.contains("`schedlab record --salvage small/x.dat.spool -o FILE`"), "{said}");
    assert!(ours(dir.path(), "x.dat").values().sum::<u64>() > 100);
}
