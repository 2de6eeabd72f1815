//! What a trace or a path says reaches no terminal, picture or page as a control character; and a stream that is no trace
//! is refused by its first bytes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A task that is called so colours a terminal red, and breaks its line.
const NAME: &str = "x\u{1b}[31mr\u{9b}1m\u{202e}";

/// Two tasks on one CPU, a mark and a tracepoint of another system, all with that name.
fn trace() -> String {
    format!(
        " a-1 [000] 1.000000: sched_waking: comm={NAME} pid=2 prio=120 target_cpu=000
 a-1 [000] 1.000001: sched_wakeup: comm={NAME} pid=2 prio=120 target_cpu=000
 a-1 [000] 1.000002: begin: a={NAME}
 a-1 [000] 1.000500: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R ==> next_comm={NAME} \
next_pid=2 next_prio=120
 <idle>-0 [001] 1.000600: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=c \
next_pid=3 next_prio=120
 c-3 [001] 1.000700: sched_switch: prev_comm=c prev_pid=3 prev_prio=120 prev_state=S ==> next_comm=swapper/1 \
next_pid=0 next_prio=120
 {NAME}-2 [000] 1.000900: sched_switch: prev_comm={NAME} prev_pid=2 prev_prio=120 prev_state=S ==> next_comm=a \
next_pid=1 next_prio=120
"
    )
}

fn schedlab(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(arguments).current_dir(dir).stdin(Stdio::null());
    command.output().expect("the built command starts")
}

#[track_caller]
fn is_plain(what: &str, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    let acts = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
    assert!(!text.contains(acts), "{what}: {text:?}");
}

#[test]
fn names_paths_and_errors_are_shown_without_control_characters() {
    let dir = tempfile::tempdir().unwrap();
    let file = format!("{NAME}.txt");
    std::fs::write(dir.path().join(&file), trace()).unwrap();
    let file = file.as_str();
    let questions =
        ["info", "latency", "tasks", "cpus", "waiting", "conservation", "migrations", "locality"];
    let mut seen = 0;
    for question in questions {
        for json in [&[][..], &["--json"]] {
            let output = schedlab(dir.path(), &[&["trace", question], json, &[file]].concat());
            assert!(output.status.success(), "{question}: {output:?}");
            is_plain(question, &output.stdout);
            is_plain(question, &output.stderr);
            seen += usize::from(String::from_utf8_lossy(&output.stdout).contains("\\u001b[31m"));
            if !json.is_empty() {
                serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON");
            }
        }
    }
    assert!(seen >= 5, "the name is shown, escaped: {seen} times");
    for to in ["report", "csv"] {
        let output = schedlab(dir.path(), &["trace", "convert", file, "-", "--to", to]);
        assert!(output.status.success(), "{to}: {output:?}");
        is_plain(to, &output.stdout);
        is_plain(to, &output.stderr);
    }
    for picture in ["cores", "waiting", "latency"] {
        let output = schedlab(dir.path(), &["draw", picture, file, "-o", "x.svg"]);
        assert!(output.status.success(), "{picture}: {output:?}");
        is_plain(picture, &std::fs::read(dir.path().join("x.svg")).unwrap());
        is_plain(picture, &[output.stdout, output.stderr].concat());
    }
    let output = schedlab(dir.path(), &["view", file, "-o", "x.html"]);
    assert!(output.status.success(), "{output:?}");
    is_plain("view", &std::fs::read(dir.path().join("x.html")).unwrap());
    let absent = format!("no{NAME}");
    for wrong in [
        &["trace", "info", &absent][..],
        &["draw", &absent],
        &["trace", "latency", "--comm", &absent, file],
    ] {
        let output = schedlab(dir.path(), wrong);
        assert!(!output.status.success());
        is_plain("error", &output.stderr);
        assert!(String::from_utf8_lossy(&output.stderr).contains("\\u009b1m"), "{output:?}");
    }
}

#[test]
fn a_task_named_like_a_formula_is_a_text_in_csv() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.txt");
    std::fs::write(&path, trace().replace(NAME, "=cmd|'/C calc'!A0")).unwrap();
    let lines = |arguments: &[&str]| {
        let output = schedlab(dir.path(), arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for arguments in [
        &["trace", "convert", "x.txt", "-", "--to", "csv"][..],
        &["trace", "tasks", "--csv", "x.txt"],
    ] {
        let text = lines(arguments);
        assert!(text.contains(",'=cmd|"), "{text}");
        assert!(!text.contains(",=cmd|") && !text.contains("\n=cmd|"), "{text}");
        let raw = lines(&[arguments, &["--raw"]].concat());
        assert!(raw.contains(",=cmd|") && !raw.contains("'=cmd|"), "{raw}");
    }
    for wrong in [&["convert", "x.txt", "y.dat", "--raw"][..], &["tasks", "x.txt", "--raw"]] {
        let wrong = schedlab(dir.path(), &[&["trace"], wrong].concat());
        assert_eq!(wrong.status.code(), Some(2));
    }
    // A label may be a formula too, by the letters that it may have.
    let load = ["load", "cpu", "--duration", "1ms", "--csv"];
    let text = lines(&[&load[..], &["--beside=-A1: cpu --duration 1ms"]].concat());
    assert!(text.contains(",'-A1,") && !text.contains(",-A1"), "{text}");
}

#[test]
fn a_report_runs_nothing_of_the_results_that_it_reads() {
    let dir = tempfile::tempdir().unwrap();
    let text = "name = 'x'\nmachine = 'host'\nrepeats = 2\nretries = 0\n[workload]\n\
                command = ['touch', 'ran']\n";
    std::fs::write(dir.path().join("x.toml"), text).unwrap();
    let ran = schedlab(dir.path(), &["run", "x.toml"]);
    assert!(ran.status.success(), "{ran:?}");
    let touched = |at: &Path| -> Vec<_> {
        let find = Command::new("find").arg(at).args(["-name", "ran"]).output().unwrap();
        String::from_utf8(find.stdout).unwrap().lines().map(str::to_owned).collect()
    };
    let before = touched(dir.path());
    assert!(!before.is_empty(), "the command ran");
    before.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    for arguments in [&["run", "report", "results/x"][..], &["compare", "results/x", "results/x"]] {
        let read = schedlab(dir.path(), arguments);
        assert!(read.status.success(), "{read:?}");
    }
    assert_eq!(touched(dir.path()), [""; 0]);
}

#[test]
fn a_stream_that_is_no_trace_is_refused_by_its_first_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let output = schedlab(dir.path(), &["trace", "info", "/dev/zero"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown trace format"), "{output:?}");
    // A text without end and without an event.
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(["trace", "info", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the built command starts");
    let mut stdin = child.stdin.take().expect("it was piped");
    let line = b"a line that is no event\n".repeat(4_000);
    let mut written = 0;
    while written < 200 << 20 && stdin.write_all(&line).is_ok() {
        written += line.len();
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(written < 20 << 20, "{written} bytes were taken");
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown trace format"), "{output:?}");
}

/// Runs the command where a reader that takes all memory, or waits for ever, fails by itself.
fn guarded(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 8000000; exec timeout 60 \"$0\" \"$@\""]);
    command.arg(env!("CARGO_BIN_EXE_schedlab")).args(arguments);
    command.current_dir(dir).stdin(Stdio::null()).output().expect("a shell starts")
}

#[test]
fn files_that_never_begin_or_never_end_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = "results/runs/a";
    std::fs::create_dir_all(dir.path().join(run)).unwrap();
    std::fs::create_dir(dir.path().join("spool")).unwrap();
    for fifo in ["fifo", "results/runs/a/manifest.json", "spool/head.json"] {
        let made = Command::new("mkfifo").arg(dir.path().join(fifo)).status();
        assert!(made.unwrap().success());
    }
    let zero = "/dev/zero";
    for arguments in [
        &["load", "pingpong", "--on", "sim:machine=/dev/zero"][..],
        &["load", "pingpong", "--on", "sim:costs=/dev/zero"],
        &["load", "pingpong", "--on", "sim:costs=fifo"],
        &["run", "fifo"],
        &["run", zero],
        &["run", "report", "results"],
        &["jobs", "run", "--graph", "fifo"],
        &["jobs", "run", "--nodes", "2", "--events", "fifo"],
        &["jobs", "fit", "fifo"],
        &["knobs", "apply", zero],
        &["record", "--salvage", "spool", "-o", "x.dat"],
        &["jobs", "run", "--stg", zero],
        &["load", "pingpong", "--on", "sim:machine=fifo"],
    ] {
        let output = guarded(dir.path(), arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains("not a regular file"), "{arguments:?}: {} {told}", output.status);
        assert!(!output.status.success());
    }
    let larger = dir.path().join("large.toml");
    std::fs::File::create(&larger).unwrap().set_len(300 << 20).unwrap();
    let told = guarded(dir.path(), &["run", "large.toml"]).stderr;
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("larger than 256 MiB"), "{told}");
}
