//! `schedlab record --stacks user,kernel`: the functions of a program in C whose callers are known. It is compiled
//! without frame pointers.

use crate::machines::run as schedlab;
use crate::vm_fake::stderr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, compiled into `dir` under a name that no other test has: a recording holds the tasks of all. `None` where
/// something is missing.
pub(crate) fn app(dir: &Path, name: &str) -> Option<PathBuf> {
    compiled(dir, name, "app.c")
}

fn compiled(dir: &Path, name: &str, source: &str) -> Option<PathBuf> {
    let app = dir.join(name);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/user_stacks");
    let source = sources.join(source);
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-fomit-frame-pointer", "-fno-ipa-icf", "-Wl,--build-id", "-pthread", "-o"])
        .arg(&app)
        .arg(&source);
    match cc.output() {
        Ok(output) => assert!(output.status.success(), "{}", stderr(&output)),
        Err(_) => {
            missing!("cc: stacks of programs were not checked");
            return None;
        }
    }
    Some(app)
}

/// Records a command; the stacks of tasks that run the program, and what was said of them.
fn stacks(app: &Path, options: &[&str], command: &str) -> Option<(String, String)> {
    let dir = app.parent().expect("the temporary directory");
    let base = ["record", "-o", "x.dat", "--for", "scheduling"];
    let output = schedlab(dir, &[&base[..], options, &["--", "sh", "-c", command]].concat());
    let said = stderr(&output);
    if said.contains("CAP_PERFMON") {
        missing!(
            "the right to record perf events of all tasks: stacks of programs were not checked"
        );
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some((read(app), said))
}

/// The stacks of x.dat, a line each, outermost function first. Not those of `trace stacks`: where a virtual machine logs no
/// wakeup of an idle CPU, a sleep has no time there.
fn read(app: &Path) -> String {
    let dir = app.parent().expect("the temporary directory");
    let name = app.file_name().and_then(|name| name.to_str()).expect("a name");
    let events =
        ["trace", "events", "x.dat", "--event", "kernel_stack", "--limit", "100000", "--json"];
    let output = schedlab(dir, &events);
    let reply: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let events = reply["events"].as_array().expect("events").iter();
    let line = |event: &serde_json::Value| {
        let stack = event["arguments"].as_str()?.strip_prefix("stack=")?;
        let mut functions: Vec<&str> = stack.split("<-").chain([name]).collect();
        functions.reverse();
        Some(functions.join(";") + "\n")
    };
    events.filter(|event| event["comm"] == name).filter_map(line).collect()
}

#[track_caller]
fn has(folded: &str, functions: &str) {
    assert!(folded.lines().any(|line| line.contains(functions)), "no {functions} in\n{folded}");
}

const BOTH: [&str; 2] = ["--stacks", "user,kernel"];

#[test]
fn sleeps_have_the_callers_that_the_source_has() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(app) = app(dir.path(), "app-whole") else { return };
    let command = format!("{} makes-code & echo $! > pid; wait", app.display());
    let Some((folded, said)) = stacks(&app, &BOTH, &command) else { return };
    let pid = std::fs::read_to_string(dir.path().join("pid")).expect("the shell wrote it");
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", pid.trim()));
    let inner = "outer;middle;middle;middle;leaf;usleep;";
    has(&folded, &format!(";main;{inner}"));
    has(&folded, &format!(";worker;{inner}"));
    has(&folded, &format!(";main;child;{inner}"));
    // All the way from what the loader called to where the kernel waits.
    has(&folded, "app-whole;_start;");
    assert!(said.contains("stacks of programs: "), "{said}");
    assert!(said.contains("KiB an event"), "{said}");
    if cfg!(target_arch = "x86_64") {
        has(&folded, ";main;run;made while it ran;leaf;usleep;");
    }
    let cut: Vec<&str> = folded.lines().filter(|line| line.contains("[cut];")).collect();
    assert!(cut.is_empty(), "{cut:?}");
    if !said.contains("without names") {
        has(&folded, ";do_syscall_64;");
    }
    // `trace stacks` has those whose end was logged: the wait for the child is among them, since it ends by an event of
    // another task.
    assert!(is_named(dir.path(), "app-whole", &[]), "main has a name");
}

#[test]
fn what_frame_pointers_cannot_tell_is_cut_and_a_wrong_caller_is_not_made_up() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(app) = app(dir.path(), "app-cut") else { return };
    let options = [&BOTH[..], &["--stack-copy", "0"]].concat();
    let command = app.display().to_string();
    let Some((folded, said)) = stacks(&app, &options, &command) else { return };
    has(&folded, "app-cut;[cut];");
    assert!(!folded.contains("main;outer"), "{folded}");
    assert!(!said.contains(" 0.0 % of them cut"), "{said}");
    // A copy that ends within the stack.
    let options = [&BOTH[..], &["--stack-copy", "512"]].concat();
    let Some((folded, _)) = stacks(&app, &options, &command) else { return };
    has(&folded, "app-cut;[cut];");
    has(&folded, ";middle;leaf;usleep;");
    assert!(!folded.contains("main;outer"), "{folded}");
}

#[test]
fn a_program_that_is_gone_has_places_in_its_file_and_the_rest_its_names() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(app) = app(dir.path(), "app-gone") else { return };
    let command = app.display().to_string();
    let Some((folded, _)) = stacks(&app, &BOTH, &command) else { return };
    has(&folded, ";main;outer;");
    std::fs::remove_file(&app).expect("it was there");
    let folded = read(&app);
    assert!(!folded.contains("outer") && folded.contains(";app-gone+0x"), "{folded}");
    has(&folded, ";usleep;");
    let output = schedlab(dir.path(), &["trace", "stacks", "x.dat", "--comm", "app-gone"]);
    let said = stderr(&output);
    assert_eq!(said.matches("note: functions of ").count(), 1, "{said}");
    assert!(said.contains("app-gone"), "{said}");
    // Another file at its path names nothing.
    std::fs::copy("/bin/sh", &app).expect("there is a shell");
    assert_eq!(read(&app), folded);
}

/// Whether the stacks of x.dat name `main` of the program, which it does not export.
fn is_named(dir: &Path, name: &str, options: &[&str]) -> bool {
    let base = ["trace", "stacks", "x.dat", "--json", "--comm", name];
    let output = schedlab(dir, &[&base[..], options].concat());
    let reply: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut rows = reply["stacks"].as_array().expect("rows").iter();
    rows.any(|row| row["stack"].as_str().is_some_and(|it| it.contains("<-main<-")))
}

#[test]
fn a_stripped_program_has_names_by_a_folder_or_by_what_is_packed_in_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(app) = app(dir.path(), "app-bare") else { return };
    let command = app.display().to_string();
    if stacks(&app, &BOTH, &command).is_none() {
        return;
    }
    let shell = |line: &str| {
        let done = Command::new("sh").args(["-ec", line]).current_dir(dir.path()).output();
        done.expect("there is a shell").status.success()
    };
    if !shell("command -v objcopy strip xz") {
        return missing!("objcopy, strip and xz (apt-get install binutils xz-utils)");
    }
    assert!(is_named(dir.path(), "app-bare", &[]));
    let split =
        "mkdir kept; objcopy --only-keep-debug app-bare kept/app-bare.debug; strip app-bare";
    assert!(shell(split));
    assert!(!is_named(dir.path(), "app-bare", &[]), "nothing names them");
    assert!(is_named(dir.path(), "app-bare", &["--symbols", "kept"]));
    assert!(!is_named(dir.path(), "app-bare", &["--symbols", "."]), "the folder has none");
    let move_it = "id=$(readelf -n app-bare | sed -n 's/.*Build ID: //p'); rest=${id#??}; \
        mkdir -p by-id/.build-id/${id%$rest}; cp kept/app-bare.debug by-id/.build-id/${id%$rest}/$rest.debug";
    assert!(shell(move_it) && is_named(dir.path(), "app-bare", &["--symbols", "by-id"]));
    // As Fedora packs them.
    let pack = "objcopy -S --remove-section .comment --keep-symbol=leaf --keep-symbol=main kept/app-bare.debug mini; \
        xz mini; objcopy --add-section .gnu_debugdata=mini.xz app-bare";
    assert!(shell(pack));
    assert!(is_named(dir.path(), "app-bare", &[]), "the table is in the program");
}

#[test]
fn rings_that_are_overwritten_have_stacks_too_and_ftrace_has_none() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(app) = app(dir.path(), "app-ring") else { return };
    let command = format!("{}; sleep 0.2 & wait", app.display());
    let options = [&BOTH[..], &["--size", "64MiB", "--full", "overwrite"]].concat();
    let Some((folded, _)) = stacks(&app, &options, &command) else { return };
    has(&folded, ";main;outer;middle;middle;middle;leaf;usleep;");
    let output =
        schedlab(dir.path(), &["record", "--stacks", "user", "--via", "ftrace", "--time", "1s"]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("use --via perf"), "{}", stderr(&output));
    for size in ["64KiB", "18446744073709551615"] {
        let output = schedlab(dir.path(), &["record", "--stacks", "user", "--stack-copy", size]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("at most 60KiB"), "{}", stderr(&output));
    }
}

#[test]
fn run_time_is_divided_among_the_functions_that_ticks_meet() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(app) = compiled(dir.path(), "app-busy", "busy.c") else { return };
    let whose = ["--stacks", "user,kernel,running"];
    if stacks(&app, &whose, app.to_str().expect("a path of letters")).is_none() {
        return;
    }
    let ask = |words: &[&str]| -> serde_json::Value {
        let comm = ["x.dat", "--comm", "app-busy", "--json"];
        let output = schedlab(dir.path(), &[words, &comm].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let rows = ask(&["trace", "stacks", "--running"]);
    let rows = rows["stacks"].as_array().expect("rows").clone();
    let number = |row: &serde_json::Value, key: &str| row[key].as_f64().expect("a number");
    let ran: f64 = rows.iter().map(|row| number(row, "run_ns")).sum();
    let tasks = ask(&["trace", "tasks"]);
    assert_eq!(ran, number(&tasks["tasks"][0], "run_ns"), "all of the run time");
    let of = |callers: &str| {
        let has = |row: &&serde_json::Value| {
            row["stack"].as_str().is_some_and(|stack| stack.contains(callers))
        };
        let sum = |key| rows.iter().filter(has).map(|row| number(row, key)).sum::<f64>();
        (sum("run_ns"), sum("ticks"))
    };
    let ((once, ticks_once), (twice, ticks_twice)) = (of("work<-main"), of("work<-twice<-main"));
    let ticks = ticks_once + ticks_twice;
    assert!(ticks > 50.0 && once + twice > 0.8 * ran, "{ticks} ticks: {rows:?}");
    // Five standard errors of a share of two thirds.
    let error = 5.0 * (2.0 / 9.0 / ticks).sqrt();
    let share = twice / (once + twice);
    assert!((share - 2.0 / 3.0).abs() < error, "{share} of {ticks} ticks: {rows:?}");
    // The change from a trace to itself is none.
    let change = ask(&["trace", "stacks", "--running", "--minus", "x.dat"]);
    let rows = change["stacks"].as_array().expect("rows");
    assert!(rows.len() > 1 && rows.iter().all(|row| row["ratio"] == 1.0), "{rows:?}");
}
