//! Experiments whose right answer is known, as a user runs them: exit codes, the first sentence, and nothing left behind
//! by `kill -9`. The crate of experiments has more of them, on a machine that is made up.

use crate::patience::eventually;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn schedlab(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(words).current_dir(folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = schedlab(folder, words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn experiment(folder: &Path, text: &str) -> (i32, String, String) {
    std::fs::write(folder.join("x.toml"), text).unwrap();
    run(folder, &["run", "x.toml"])
}

#[test]
fn a_command_that_fails_every_third_time_has_no_verdict_and_says_how_often() {
    let folder = tempfile::tempdir().unwrap();
    let flaky = "n=$(cat cnt 2>/dev/null || echo 0); echo $((n+1)) > cnt; [ $((n % 3)) != 2 ]";
    let (code, out, _) =
        run(folder.path(), &["compare", "-n", "9", "-w", "0", "--", flaky, "true"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("no verdict. 3 of 9 attempts failed against 0 of 9"), "{out}");
    // Failures may be asked for.
    std::fs::remove_file(folder.path().join("cnt")).unwrap();
    let words = ["compare", "-n", "9", "-w", "0", "-i", "--", flaky, "true"];
    let (code, out, err) = run(folder.path(), &words);
    assert_eq!(code, 0, "{out}{err}");
    assert!(!out.contains("no verdict"), "{out}");
}

#[test]
fn runs_that_fail_are_repeated_when_the_cause_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let text = "repeats = 3\nretries = 0\n[workload]\nlabel = \"w\"\ncommand = [\"sh\", \"-c\", \"test -f flag\"]\n\
        [hooks]\nmetric = [\"echo\", \"score 1\"]\n";
    let (code, out, _) = experiment(folder.path(), text);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("No answer: 3 of 3 runs failed"), "{out}");
    std::fs::write(folder.path().join("flag"), "").unwrap();
    let (code, out, err) = experiment(folder.path(), text);
    assert_eq!(code, 0, "{out}{err}");
    assert!(!out.contains("failed") && out.contains("w: time_s"), "{out}");
}

#[test]
fn a_load_along_an_axis_is_a_curve_on_a_simulated_machine() {
    let folder = tempfile::tempdir().unwrap();
    let text = "repeats = 3\nmachine = \"sim:cpus=4\"\nmeasure = [\"requests_per_s\"]\n[workload]\nname = \"schbench\"\n\
        options = { runtime = \"500ms\" }\n[[axis]]\noption = \"threads\"\nvalues = [1, 2, 4, 8]\n";
    let (code, out, err) = experiment(folder.path(), text);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("threads is how much is asked and no contest"), "{out}");
    assert!(out.contains("the most requests_per_s are at 4"), "{out}");
    assert!(!out.contains("settle"), "{out}");
}

#[test]
fn what_was_typed_wrong_is_found_before_the_first_run() {
    let folder = tempfile::tempdir().unwrap();
    for (words, says) in [
        (
            &["compare", "--metric", "tiem_s", "--", "sleep 9", "sleep 8"][..],
            "unknown metric 'tiem_s'",
        ),
        (
            &["compare", "--fail-if", "scrod > +3%", "--", "sleep 9", "sleep 8"],
            "unknown metric 'scrod'",
        ),
        (
            &["compare", "--junit", "no/such/x.xml", "--", "sleep 9", "sleep 8"],
            "no/such is not a folder",
        ),
        (
            &["compare", "--", "sleep 9", "no-such-program-here 1"],
            "no program 'no-such-program-here'",
        ),
    ] {
        let (code, _, err) = run(folder.path(), words);
        assert_eq!(code, 2, "{words:?}: {err}");
        assert!(err.contains(says), "{words:?}: {err}");
    }
    std::fs::write(
        folder.path().join("x.toml"),
        "[workload]\ncommand = [\"no-such-program-here\"]\n",
    )
    .unwrap();
    let (code, _, err) = run(folder.path(), &["run", "--dry-run", "x.toml"]);
    assert!(code != 0 && err.contains("no program 'no-such-program-here'"), "{code}: {err}");
}

#[test]
fn one_command_alone_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let words =
        ["compare", "-n", "5", "--setup", "echo > set", "--prepare", "test -f set", "--", "true"];
    let (code, out, err) = run(folder.path(), &words);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.starts_with("true: ") && out.contains("mean ± sd of 5 runs"), "{out}");
    assert!(out.contains("median") && out.contains("The start of a process takes about"), "{out}");
}

#[test]
fn what_was_measured_is_written_for_other_programs_with_its_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let words = [
        "compare",
        "-n",
        "3",
        "-w",
        "0",
        "-L",
        "code",
        "0,1",
        "-i",
        "--export-json",
        "x.json",
        "--export-csv",
        "x.csv",
        "--export-markdown",
        "x.md",
        "--",
        "(exit {code})",
    ];
    let (code, out, err) = run(folder.path(), &words);
    assert_eq!(code, 0, "{out}{err}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&read("x.json")).unwrap();
    let second = &json["results"][1];
    assert_eq!(
        (&second["command"], &second["parameters"]["code"]),
        (&"(exit 1)".into(), &"1".into())
    );
    assert_eq!(second["times"].as_array().unwrap().len(), 3, "{second}");
    let mean = second["mean"].as_f64().unwrap();
    assert!(second["min"].as_f64().unwrap() <= mean && mean <= second["max"].as_f64().unwrap());
    let csv = read("x.csv");
    assert!(
        csv.starts_with("command,mean,stddev,median,user,system,min,max,parameter_code\n"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert_eq!(read("x.md").lines().count(), 4);
    // A place that cannot be written is found before the first run.
    let words = ["compare", "--export-csv", "no/such/x.csv", "--", "sleep 9"];
    let (code, _, err) = run(folder.path(), &words);
    assert!(code == 2 && err.contains("no/such is not a folder"), "{code}: {err}");
}

#[test]
fn a_warning_is_told_once_and_counted_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let text = "repeats = 3\nretries = 0\n[workload]\nname = \"hackbench\"\noptions = { groups = 1, loops = 20 }\n\
        [[axis]]\noption = \"pipe\"\nvalues = [false, true]\n";
    let (code, out, err) = experiment(folder.path(), text);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("run-too-short in 6 of 6 runs at 2 points"), "{out}");
    assert_eq!(err.matches("the run measured only").count(), 1, "{err}");
}

#[test]
fn two_folders_are_higher_or_lower_until_their_runs_are_done_again_in_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, score) in [("a", 100), ("b", 200)] {
        let script = format!("echo score $(({score}000 + $(od -An -N1 -tu1 /dev/urandom)))");
        let text = format!(
            "name = \"{name}\"\nrepeats = 6\nretries = 0\n[workload]\nlabel = \"w\"\ncommand = [\"true\"]\n[hooks]\n\
             metric = {{ command = [\"sh\", \"-c\", \"{script}\"], name = \"score\", better = \"higher\" }}\n\
             before = [\"test\", \"-n\", \"{name}\"]\n"
        );
        let (code, out, err) = experiment(folder, &text);
        assert_eq!(code, 0, "{out}{err}");
    }
    let compare = |more: &[&str]| {
        run(folder, &[&["compare", "results/a", "results/b", "--metric", "score"], more].concat())
    };
    let (code, out, _) = compare(&[]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("score is higher") && out.contains("drift is included"), "{out}");
    let (code, _, err) = compare(&["--fail-if", "score < -3%"]);
    assert!(code == 2 && err.contains("--allow-drift"), "{code}: {err}");
    let (code, ..) = compare(&["--fail-if", "score < -3%", "--allow-drift"]);
    assert_eq!(code, 0);
    let (code, out, err) = compare(&["--interleave", "--fail-if", "score < -3%"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("better in score"), "{out}");
}

/// Whether a process with this in its command line is there, apart from this one.
fn runs(mark: &str) -> bool {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|entry| entry.file_name().to_str() != Some(own.as_str())).any(|entry| {
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
    })
}

/// Starts a command, kills it as soon as what it measures runs, and waits until nothing of it does.
fn killed(folder: &Path, words: &[&str], mark: &str) {
    let mut child =
        schedlab(folder, words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let what = format!("schedlab {}", words.join(" "));
    eventually(|| if runs(mark) { Ok(()) } else { Err(format!("{what}: it does not begin")) });
    // Grandchildren begin after the shell that starts them.
    std::thread::sleep(Duration::from_millis(50));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually(|| if runs(mark) { Err(format!("{what}: '{mark}' still runs")) } else { Ok(()) });
}

/// $SCHEDLAB_KILLS says how many there are of each kind, for the evidence: one of each in a test.
#[test]
fn a_kill_leaves_nothing_running_and_no_folder() {
    let count = std::env::var("SCHEDLAB_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for nth in 0..count {
        let folder = tempfile::tempdir().unwrap();
        let temporary = folder.path().join("tmp");
        std::fs::create_dir(&temporary).unwrap();
        // A shell that waits for a child of its own; the time names the call.
        let mark = |kind: u32| format!("{}.25", 1_000_000 + 1_000 * kind + nth);
        let script = |mark: &str| format!("sleep {mark}; true");
        let load = mark(1);
        killed(folder.path(), &["load", "command", "--line", &script(&load)], &load);
        let beside = mark(2);
        let words = [
            "load",
            "cpu",
            "--duration",
            "100s",
            "--beside",
            &format!("command --line 'sleep {beside}; true'"),
        ];
        killed(folder.path(), &words, &beside);
        let under = mark(3);
        let text = format!(
            "[workload]\ncommand = [\"sh\", \"-c\", \"{}\"]\n[knobs]\nnice = 5\n",
            script(&under)
        );
        std::fs::write(folder.path().join("k.toml"), text).unwrap();
        killed(folder.path(), &["run", "k.toml"], &under);
        let knobs = mark(4);
        killed(
            folder.path(),
            &["knobs", "run", "nice=5", "--", "sh", "-c", &script(&knobs)],
            &knobs,
        );
        let compared = mark(5);
        let temp = temporary.display().to_string();
        let mut command = schedlab(
            folder.path(),
            &["compare", "-n", "3", "-w", "0", "--", &script(&compared), "true"],
        );
        command.env("TMPDIR", &temp).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        eventually(|| if runs(&compared) { Ok(()) } else { Err("it does not begin".to_owned()) });
        child.kill().unwrap();
        child.wait().unwrap();
        eventually(|| {
            let left = std::fs::read_dir(&temporary).unwrap().count();
            match (runs(&compared), left) {
                (false, 0) => Ok(()),
                (still, left) => Err(format!("compare: runs: {still}; {left} folders are left")),
            }
        });
    }
}
