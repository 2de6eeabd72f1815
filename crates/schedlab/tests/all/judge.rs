//! Experiments whose right answer is known, as a user runs them: exit codes and the first sentence. The
//! crate of experiments has more of them, on a machine that is made up.

use crate::patience::eventually;
use std::path::Path;
use std::process::{Command, Output, Stdio};

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
    let words = ["compare", "-n", "9", "-w", "0", "--junit", "x.xml", "--", flaky, "true"];
    let (code, out, _) = run(folder.path(), &words);
    assert_eq!(code, 1, "{out}");
    let xml = std::fs::read_to_string(folder.path().join("x.xml")).unwrap();
    assert!(xml.contains("errors=\"1\"") && xml.contains("no verdict: 3 of 9"), "{xml}");
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
fn more_groups_are_a_curve_on_a_simulated_machine() {
    let folder = tempfile::tempdir().unwrap();
    let text = "repeats = 3\nmachine = \"sim:cpus=2\"\nmeasure = [\"time_s\"]\n[[workload]]\nname = \"hackbench\"\n\
        options = { loops = 50, pipe = true }\n[[axis]]\noption = \"groups\"\nvalues = [1, 2, 3, 4, 5, 6]\n";
    let (code, out, err) = experiment(folder.path(), text);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("groups is how much is asked and no contest"), "{out}");
    assert!(["settle", "better", "worse"].iter().all(|word| !out.contains(word)), "{out}");
}

#[test]
fn runs_that_the_limit_stops_are_a_bound_in_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let text = "repeats = 8\nwarm_up = 0\nretries = 0\ntime_limit = \"300ms\"\nmeasure = [\"time_s\"]\n[[workload]]\n\
        label = \"w\"\ncommand = [\"sleep\", \"{t}\"]\n[[axis]]\noption = \"t\"\nvalues = [\"0.1\", \"5\"]\n";
    let (code, out, err) = experiment(folder.path(), text);
    assert_eq!(code, 0, "{out}{err}");
    let first = out.lines().find(|line| line.contains("against 0.1")).unwrap_or_default();
    assert!(first.contains("worse in time_s: at least "), "{out}");
    assert!(!first.contains(".."), "a bound has one end: {first}");
    assert!(!first.contains("without a number"), "nothing is claimed by rank alone: {first}");
}

#[test]
fn where_each_run_fails_there_is_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let text = "repeats = 3\nwarm_up = 0\nretries = 0\n[[workload]]\ncommand = [\"sh\", \"-c\", \"exit {x}\"]\n\
        [[axis]]\noption = \"x\"\nvalues = [3, 4]\n";
    let (code, out, _) = experiment(folder.path(), text);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("no verdict. 3 of 3 attempts failed against 3 of 3"), "{out}");
    assert!(!out.contains("5 %"), "{out}");
}

#[test]
fn a_quarter_more_cpu_time_is_told_of_eight_runs() {
    const BURN: &str = "#include <stdlib.h>\n#include <time.h>\nint main(int c, char **v) {\n\
        struct timespec t; double s = atof(v[1]) * 1.25 / 1000;\n\
        do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); while (t.tv_sec + t.tv_nsec * 1e-9 < s);\n\
        return 0; }\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("burn.c"), BURN).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O2", "burn.c", "-o", "burn"]).current_dir(folder.path());
    if !cc.status().is_ok_and(|status| status.success()) {
        return missing!("a C compiler; the CPU time of a program that burns was not compared");
    }
    crate::machine_lock::take();
    let words = ["compare", "-n", "8", "--", "./burn 40", "./burn 50"];
    let (code, out, err) = run(folder.path(), &words);
    assert_eq!(code, 0, "{out}{err}");
    // The start of the program is in it, too.
    let parts = [24, 25, 26].map(|part| format!("uses {part} % more CPU time"));
    assert!(parts.iter().any(|part| out.contains(part)), "{out}");
}

#[test]
fn a_scheduler_that_is_not_installed_is_no_treatment() {
    let folder = tempfile::tempdir().unwrap();
    let line = "load pingpong --rounds 50 --repeat 4 --against run:scx_not_installed";
    let (code, out, err) = run(folder.path(), &line.split(' ').collect::<Vec<_>>());
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("no verdict") && out.contains("ended before the run did"), "{out}{err}");
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
    eventually(|| {
        let (code, out, err) = run(folder.path(), &words);
        assert_eq!(code, 0, "{out}{err}");
        assert!(out.starts_with("true: ") && out.contains("mean ± sd of 5 runs"), "{out}");
        // Where the machine stalls, the command is not a fast one.
        let is_whole = out.contains("median") && out.contains("The start of a process takes about");
        if is_whole { Ok(()) } else { Err(out) }
    });
}

#[test]
fn what_was_measured_is_written_for_other_programs_with_its_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let line = "compare -n 3 -w 0 -L code 0,1 -i --export-json x.json --export-csv x.csv --export-markdown x.md --";
    let words: Vec<&str> = line.split(' ').chain(["(exit {code})"]).collect();
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
    // On a machine that stalls some are long enough.
    let counted = out.contains("run-too-short in ") && out.contains(" of 6 runs at 2 points");
    assert!(counted, "{out}");
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
    // Of a side that failed nothing is tabled.
    let failing = "name = \"c\"\nrepeats = 2\nretries = 0\n[workload]\nlabel = \"w\"\ncommand = [\"false\"]\n";
    assert_eq!(experiment(folder, failing).0, 1);
    let words = ["compare", "results/a", "results/c", "--metric", "score", "--markdown"];
    let (code, out, _) = run(folder, &words);
    assert!(code == 1 && out.contains("no verdict. ") && !out.contains("|---|"), "{out}");
}
