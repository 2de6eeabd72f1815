//! `schedlab record --request`: requests of programs that write no marks, found by probes. A small program in C is
//! compiled here and has a delay planted in one request; programs of Debian's packages are taken as they are.

use crate::machines::run as schedlab;
use crate::patience;
use crate::vm_fake::{stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const TRACEFS: &str = "/sys/kernel/tracing";

/// Whether probes can be set here.
fn may_probe() -> bool {
    let root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let there = root && Path::new(TRACEFS).join("uprobe_events").exists();
    if !there {
        missing!(
            "root and uprobe_events of a mounted tracefs: requests by probes were not checked"
        );
    }
    there
}

/// The small program, compiled into `dir`; `None` where something is missing.
fn app(dir: &Path) -> Option<PathBuf> {
    if may_probe() { compiled(dir, "record_request/app.c") } else { None }
}

/// A program in C, compiled into `dir` under its name; `None` without a compiler.
pub(crate) fn compiled(dir: &Path, source: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all").join(source);
    let program = dir.join(source.file_stem().expect("it has a name"));
    let mut cc = Command::new("cc");
    match cc.args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).output() {
        Ok(output) => assert!(output.status.success(), "{}", stderr(&output)),
        Err(_) => {
            missing!("cc: {} was not recorded", source.display());
            return None;
        }
    }
    Some(program)
}

/// `trace why --mark` of a trace, as JSON.
fn why(dir: &Path, mark: &str) -> serde_json::Value {
    let output = schedlab(dir, &["trace", "why", "x.dat", "--mark", mark, "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)))
}

/// Records the program with these requests.
fn record(dir: &Path, requests: &[&str], command: &[&str]) -> Output {
    let asked = requests.iter().flat_map(|request| ["--request", request]);
    let head = ["record", "-o", "x.dat"].into_iter().chain(asked);
    schedlab(dir, &head.chain(["--"]).chain(command.iter().copied()).collect::<Vec<_>>())
}

/// The parts of the mean of the slowest percent, checked to sum to its length.
fn slowest(why: &serde_json::Value) -> Vec<(String, f64)> {
    let mean = &why["slowest"];
    let parts = mean["parts"].as_array().expect("parts").iter();
    let of = |part: &serde_json::Value| {
        (part["part"].as_str().unwrap().to_owned(), part["time_ns"].as_f64().unwrap())
    };
    let parts: Vec<_> = parts.map(of).collect();
    let sum: f64 = parts.iter().map(|(_, time)| time).sum();
    let length = mean["length_ns"].as_f64().unwrap();
    assert!((sum - length).abs() <= 1.0, "{sum} of {length}");
    parts
}

/// Waits until this holds.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    patience::eventually(|| holds().then_some(()).ok_or_else(|| what.to_owned()));
}

fn left() -> String {
    std::fs::read_to_string(format!("{TRACEFS}/dynamic_events")).unwrap_or_default()
}

#[test]
fn the_planted_delay_is_the_largest_part_of_the_slowest_call() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = app(dir.path()) else { return };
    let ways: [(&str, &[&str]); 4] = [
        ("sleep", &["interrupt", "blocked"]),
        ("spin", &["ran"]),
        ("hog", &["runnable"]),
        ("lock", &["waker_ran", "waker_runnable"]),
    ];
    for (how, planted) in ways {
        // In front of what else runs here, so that the planted delay is the only one.
        let output = record(dir.path(), &["./app:work"], &["chrt", "-f", "10", "./app", how]);
        let said = stderr(&output);
        assert!(said.contains("request 'work': 40 begun, 40 ended; a hit costs "), "{how}: {said}");
        let why = why(dir.path(), "work");
        assert_eq!(why["requests"], 40, "{how}");
        let parts = slowest(&why);
        let of_delay = |(name, _): &&(String, f64)| planted.contains(&name.as_str());
        let (delay, rest): (Vec<_>, Vec<_>) = parts.iter().partition(of_delay);
        let delay: f64 = delay.iter().map(|(_, time)| time).sum();
        assert!(rest.iter().all(|(_, time)| *time < delay), "{how}: {parts:?}");
    }
}

#[test]
fn requests_are_paired_by_an_argument_across_threads_and_by_static_probes() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = app(dir.path()) else { return };
    let asked = [
        "order=./app:order_begin($arg1)..order_end($arg1)",
        "./app:step__start..step__done",
        "step=./app:app:step-start($arg1)..step-done($arg1)",
        "dup=syscall:dup..close",
        "fd=syscall:dup%return($retval)..close($arg1)",
    ];
    for via in ["ftrace", "perf"] {
        let mut arguments = vec!["record", "-o", "x.dat", "--via", via];
        asked.iter().for_each(|request| arguments.extend(["--request", request]));
        arguments.extend(["--", "./app"]);
        let output = schedlab(dir.path(), &arguments);
        let order = why(dir.path(), "order");
        assert_eq!(order["requests"], 10, "{}", stderr(&output));
        let begun = &order["request"]["begun_by"]["pid"];
        assert!(begun.is_i64() && *begun != order["request"]["ended_by"]["pid"], "{order}");
        for name in ["step__start..step__done", "step"] {
            let steps = why(dir.path(), name);
            assert_eq!((&steps["requests"], &steps["unfinished"]), (&40.into(), &0.into()));
            // The one that naps for 60 ms, and none that lasts until the next one's end.
            let length = steps["length_ns_max"].as_u64().unwrap();
            assert!(length >= 60_000_000, "{name}: {length}");
        }
        for name in ["dup", "fd"] {
            assert!(why(dir.path(), name)["requests"].as_u64() >= Some(5), "{}", stderr(&output));
        }
        assert_eq!(via, if stderr(&output).contains("through perf") { "perf" } else { "ftrace" });
    }
    assert!(!left().contains(&dir.path().display().to_string()), "{}", left());
}

#[test]
fn a_snapshot_keeps_what_led_to_a_slow_call_and_not_to_a_task_that_ended_within_one() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = app(dir.path()) else { return };
    let run = |how: &str| {
        let head = ["record", "-o", "x.dat", "--snapshot", "50ms", "--keep", "1s"];
        let tail = ["--request", "./app:work", "--between", "work", "--", "sh", "-c"];
        // In front of what else runs here, so that no other call is slow.
        let line = format!("chrt -f 10 ./app {how}; sleep 0.3");
        schedlab(dir.path(), &[&head[..], &tail, &[&line]].concat())
    };
    let slow = run("sleep");
    // The snapshot is taken while the request goes on, or at its end.
    let told = why(dir.path(), "work");
    assert!(told["requests"].as_u64() > Some(20), "{}", stderr(&slow));
    let is_open = told["request"]["is_open"].as_bool().expect("it is told");
    let least = if is_open { 50_000_000 } else { 60_000_000 };
    assert!(told["length_ns_max"].as_u64() >= Some(least), "{told}\n{}", stderr(&slow));
    assert_eq!(told.get("length_ns_max_bound").is_some(), is_open, "{told}");
    let ended = run("exit");
    assert!(stderr(&ended).contains("request 'work': 21 begun, 20 ended"), "{}", stderr(&ended));
}

#[test]
fn no_probe_outlives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let Some(app) = app(dir.path()) else { return };
    let path = std::fs::canonicalize(app).unwrap().display().to_string();
    for via in ["ftrace", "perf"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        let output = format!("{via}.dat");
        command.args(["record", "--via", via, "-o", &output, "--request", "./app:work"]);
        let mut recorder = command.current_dir(dir.path()).stderr(Stdio::null()).spawn().unwrap();
        eventually("the probes are set", || left().matches(&path).count() == 2);
        let spool = dir.path().join(format!("{output}.spool/cpu0.ring"));
        eventually("it records", || spool.exists());
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        eventually("the probes are gone", || !left().contains(&path));
    }
}

#[test]
fn what_cannot_be_probed_is_told_in_a_sentence_and_the_rest_is_recorded_where_that_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = app(dir.path()) else { return };
    let strip = Command::new("strip").args(["-o", "bare", "app"]).current_dir(dir.path()).status();
    if !strip.is_ok_and(|status| status.success()) {
        missing!("strip: a stripped program was not checked");
        return;
    }
    std::fs::write(dir.path().join("script"), "#!/bin/sh\n").unwrap();
    for (request, why) in [
        ("./bare:hidden", "the names of its other functions were stripped"),
        ("./app:no_such", "has no function 'no_such'"),
        ("./app:step__start", "is a static probe, which has no return"),
        ("./app:step__start($arg2)..step__done($arg1)", "has 1 arguments"),
        ("./script:work", "not an ELF program or library"),
        ("./nothing:work", "No such file"),
        ("no-such-program:work", "no process runs a program"),
        ("syscall:no_such..close", "no system call 'no_such'"),
        ("libc.so.6:memcpy", "only chooses one of several functions"),
        ("./app:a b", "has no function 'a b'"),
    ] {
        let output = record(dir.path(), &[request], &["true"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{request}: {said}");
        assert!(said.contains(why) && said.lines().count() < 4, "{request}: {said}");
        assert!(!dir.path().join("x.dat.spool").exists() && !dir.path().join("x.dat").exists());
    }
    let output = record(dir.path(), &["./bare:hidden?", "./app:work"], &["./app"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("warning: no requests of './bare:hidden?'"), "{said}");
    assert!(said.contains("request 'work': 40 begun, 40 ended"), "{said}");
    assert_eq!(why(dir.path(), "work")["requests"], 40);
    // A program that never comes by.
    let output = record(dir.path(), &["./app:work"], &["true"]);
    assert!(stderr(&output).contains("warning: no request 'work' was seen"), "{}", stderr(&output));
}

#[test]
fn without_a_tracefs_that_can_be_written_the_right_is_named_and_a_request_may_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = app(dir.path()) else { return };
    let run = |request: &str| {
        let line = format!(
            "mount -o remount,bind,ro {TRACEFS} || exit 77; \
             $SCHEDLAB record -o x.dat --request '{request}' -- ./app"
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &line]).current_dir(dir.path()).stdin(Stdio::null());
        let output = command.env("SCHEDLAB", env!("CARGO_BIN_EXE_schedlab")).output();
        output.ok().filter(|output| output.status.code() != Some(77))
    };
    let Some(refused) = run("./app:work") else {
        missing!("a mount namespace: a read-only tracefs was not checked");
        return;
    };
    let said = stderr(&refused);
    assert!(said.contains("'./app:work': probes need a tracefs that can be written"), "{said}");
    let left_out = run("./app:work?").unwrap();
    let said = stderr(&left_out);
    assert!(said.contains("warning: no requests of './app:work?'"), "{said}");
    assert!(said.contains("through perf") && said.contains("sched_switch"), "{said}");
}

#[test]
fn a_program_that_ends_within_a_request_or_whose_file_was_deleted_is_recorded_whole() {
    let dir = tempfile::tempdir().unwrap();
    let Some(app) = app(dir.path()) else { return };
    let output = record(dir.path(), &["./app:work"], &["./app", "exit"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let ended = why(dir.path(), "work");
    assert_eq!((&ended["requests"], &ended["unfinished"]), (&20.into(), &1.into()));
    // Found by the process that runs it, though the file is gone.
    let name = format!("deleted-{}", std::process::id());
    std::fs::rename(&app, dir.path().join(&name)).unwrap();
    let mut program = Command::new(dir.path().join(&name));
    let mut child = program.arg("long").spawn().unwrap();
    std::fs::remove_file(dir.path().join(&name)).unwrap();
    let request = format!("{name}:work");
    let output = record(dir.path(), &[&request], &["sleep", "0.05"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("request 'work': "), "{}", stderr(&output));
}

#[test]
fn what_can_be_named_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = app(dir.path()) else { return };
    let list = |arguments: &[&str]| {
        let all: Vec<&str> =
            ["record", "--request-list"].iter().chain(arguments).copied().collect();
        stdout(&schedlab(dir.path(), &all))
    };
    assert_eq!(list(&["./app", "step"]), "probe    step__done $arg1\nprobe    step__start $arg1\n");
    assert_eq!(list(&["./app", "order"]), "function order_begin\nfunction order_end\n");
    assert!(list(&["libc.so.6", "malloc"]).contains("function malloc\n"));
    assert!(list(&["syscall", "accept"]).contains("call     accept4\n"));
}

/// Whether a program is where Debian's package puts it.
fn has(program: &str, package: &str) -> bool {
    let there = Path::new(program).exists();
    if !there {
        missing!("{program} (Debian package {package}): its requests were not checked");
    }
    there
}

#[test]
fn requests_of_debians_sqlite_and_python_are_found_and_their_parts_sum_to_their_length() {
    let dir = tempfile::tempdir().unwrap();
    if !may_probe() {
        return;
    }
    if has("/usr/bin/sqlite3", "sqlite3") {
        let insert = "insert into t values(1);".repeat(30);
        let statements = format!("create table t(x); {insert}");
        let command = ["/usr/bin/sqlite3", ":memory:", &statements];
        let output = record(dir.path(), &["libsqlite3.so.0:sqlite3_step"], &command);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let steps = why(dir.path(), "sqlite3_step");
        assert!(steps["requests"].as_u64() >= Some(31), "{}", stderr(&output));
        slowest(&steps);
    }
    if has("/usr/bin/python3", "python3") {
        let script = "import gc\nfor _ in range(30): gc.collect()";
        let request = "gc=/usr/bin/python3:gc__start..gc__done";
        let output = record(dir.path(), &[request], &["/usr/bin/python3", "-c", script]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let collections = why(dir.path(), "gc");
        assert!(collections["requests"].as_u64() >= Some(30), "{}", stderr(&output));
        assert_eq!(collections["unfinished"], 0);
        slowest(&collections);
    }
}

#[test]
fn requests_of_debians_nginx_are_paired_by_the_argument_that_its_functions_share() {
    let dir = tempfile::tempdir().unwrap();
    let installed = has("/usr/sbin/nginx", "nginx-light") && has("/usr/bin/curl", "curl");
    if !may_probe() || !installed {
        return;
    }
    let at = dir.path().display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders: String =
        temporary.iter().map(|of| format!("{of}_temp_path {at}/{of}; ")).collect();
    let conf = format!(
        "worker_processes 2; pid {at}/pid; error_log {at}/error; events {{ worker_connections 64; }}\n\
         http {{ access_log off; {folders} server {{ listen unix:{at}/socket; return 204; }} }}\n"
    );
    std::fs::write(dir.path().join("conf"), conf).unwrap();
    let nginx = |more: &str| format!("/usr/sbin/nginx -c {at}/conf {more} 2>/dev/null");
    // The probes are set on the file before it runs.
    let line = format!(
        "{}; for i in $(seq 30); do curl -s --unix-socket {at}/socket http://x/; done; {}",
        nginx(""),
        nginx("-s quit")
    );
    let request = "/usr/sbin/nginx:ngx_http_process_request($arg1)..ngx_http_free_request($arg1)";
    let output = record(dir.path(), &[&format!("http={request}")], &["sh", "-c", &line]);
    let http = why(dir.path(), "http");
    assert_eq!(
        (&http["requests"], &http["unfinished"]),
        (&30.into(), &0.into()),
        "{}",
        stderr(&output)
    );
    slowest(&http);
}
