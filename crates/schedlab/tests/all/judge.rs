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
}

/// The command lines of processes with this mark, apart from this one; words end with a NUL.
pub(crate) fn marked(mark: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let others = processes.filter(|entry| entry.file_name().to_str() != Some(own.as_str()));
    let line = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).ok();
    let lines = others.filter_map(line).map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.filter(|line| line.contains(mark)).collect()
}

/// A program that waits for a child of its own; the time names the call.
fn waits(mark: &str) -> String {
    format!("sleep {mark}; true")
}

/// The commands that start programs of the user's: the words, and what marks the program. `knob` is a setting of this
/// machine.
fn starters(folder: &Path, knob: &str, round: usize) -> Vec<(Vec<String>, String)> {
    let mark = |kind: usize| format!("{}.25", 1_000_000 + 10 * round + kind);
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let file = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).unwrap();
    };
    let workload =
        |mark: &str| format!("[workload]\ncommand = [\"sh\", \"-c\", \"{}\"]\n", waits(mark));
    let marks: Vec<String> = (0..7).map(mark).collect();
    let (name, value) = knob.split_once('=').unwrap();
    file("knobs.toml", format!("{}[knobs]\n{name} = {value}\n", workload(&marks[2])));
    let during = format!("during = [\"sh\", \"-c\", \"{}\"]\n", waits(&marks[3]));
    let beside = "[workload]\nname = \"cpu\"\noptions = { duration = \"100s\" }\n[hooks]\n";
    file("during.toml", beside.to_owned() + &during);
    let axis = "[[axis]]\noption = \"a\"\nvalues = [1, 2]\n[tune]\nbudget = 4\nconfirm = 6\n";
    file("tune.toml", workload(&format!("{{a}}{}", marks[4])) + axis);
    // A line beside a load has no quotes.
    file(&format!("{}.sh", marks[1]), waits(&marks[1]));
    let beside = format!("command -- sh {}.sh", marks[1]);
    let calls = [
        own(&["load", "command", "--line", &waits(&marks[0])]),
        own(&["load", "cpu", "--duration", "100s", "--beside", &beside]),
        own(&["run", "knobs.toml"]),
        own(&["run", "during.toml"]),
        own(&["tune", "tune.toml"]),
        own(&["knobs", "run", knob, "--", "sh", "-c", &waits(&marks[5])]),
        own(&["compare", "-n", "3", "-w", "0", "--", &waits(&marks[6]), "true"]),
    ];
    calls.into_iter().zip(marks).collect()
}

/// `SCHEDLAB_KILLS` says how many there are at least, for the evidence; in a test one of each command.
#[test]
fn a_kill_leaves_nothing_running_and_nothing_behind() {
    const KNOB: &str = "/proc/sys/kernel/sched_autogroup_enabled";
    let now = || std::fs::read_to_string(KNOB).unwrap_or_default().trim().to_owned();
    crate::machine_lock::take();
    let before = now();
    let is_writable = std::fs::OpenOptions::new().write(true).open(KNOB).is_ok();
    let knob = match (is_writable, before.as_str()) {
        (true, "0") => "autogroup=1",
        (true, _) => "autogroup=0",
        (false, _) => "nice=5",
    };
    if !is_writable {
        missing!("the right to set {KNOB}; that knobs of the machine are put back was not tested");
    }
    let wanted = std::env::var("SCHEDLAB_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let (mut kills, mut kinds, mut round) = (0_usize, 0, 0);
    while kills < wanted {
        let folder = tempfile::tempdir().unwrap();
        let temporary = folder.path().join("tmp");
        std::fs::create_dir(&temporary).unwrap();
        let starters = starters(folder.path(), knob, round);
        kinds = starters.len();
        for (words, mark) in starters {
            let what = format!("schedlab {}", words.join(" "));
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let mut command = schedlab(folder.path(), &words);
            command.env("TMPDIR", &temporary).env("XDG_RUNTIME_DIR", folder.path());
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            eventually(|| match marked(&mark).iter().any(|line| line.starts_with("sleep\0")) {
                true => Ok(()),
                false => Err(format!("{what}: its program does not begin")),
            });
            std::thread::sleep(Duration::from_millis(10 * (kills as u64 % 11)));
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
            eventually(|| {
                let mut left = crate::slow::left(child.id());
                left.extend(std::fs::read_dir(&temporary).unwrap().flatten().map(|e| e.path()));
                let (still, is_back) = (marked(&mark), now() == before);
                if still.is_empty() && left.is_empty() && is_back {
                    return Ok(());
                }
                Err(format!("{what}: runs: {still:?}; {KNOB} is back: {is_back}; left: {left:?}"))
            });
        }
        round += 1;
    }
    eprintln!("{kills} kills of {kinds} commands: nothing ran on, and nothing was left");
}
