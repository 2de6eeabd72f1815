//! Text in a pipe has lines of at most 100 characters; `--wide` prints all columns.

use crate::machines::run as schedlab;
use crate::why_live::is_root;
use std::path::Path;
use std::process::Output;

/// The standard output of a command that succeeds.
#[track_caller]
fn text(dir: &Path, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Output { status, stdout, stderr } = schedlab(dir, &words);
    assert!(status.success(), "{line}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("text is UTF-8")
}

fn longest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[track_caller]
fn fits(dir: &Path, line: &str) -> String {
    let text = text(dir, line);
    assert!(!text.is_empty() && longest(&text) <= 100, "{line}: {text}");
    text
}

/// Loads whose traces are long enough for each question, and have requests.
const LOADS: [&str; 2] = [
    "load schbench -t 6 -r 1 --on sim:cpus=4 --trace schbench.dat",
    "load hackbench -g 1 -l 20 --on sim:cpus=2 --trace hackbench.dat",
];

#[test]
fn answers_about_a_trace_fit_the_line() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    LOADS.iter().for_each(|load| drop(text(dir, load)));
    for file in ["schbench.dat", "hackbench.dat"] {
        for question in [
            "info",
            "latency --worst 5 --histogram",
            "latency --by cpu",
            "tasks",
            "cpus",
            "waiting",
            "locality",
            "power",
            "locks",
            "migrations",
            "conservation",
            "conservation --definition schedviz",
            "stacks",
            "events",
            "why",
            "why --blame",
            "why --blame=task",
        ] {
            // A value could be taken for the option's.
            let end = if question.ends_with("--blame") { "--top 9" } else { "" };
            fits(dir, &format!("trace {question} {end} {file}"));
        }
        fits(dir, &format!("trace compare {file} {file}"));
        let tasks = text(dir, &format!("trace tasks --csv {file}"));
        let pid = tasks.lines().nth(1).and_then(|row| row.split(',').next()).expect("a task");
        fits(dir, &format!("trace why --pid {pid} {file}"));
    }
    for (mark, file) in [("request", "schbench.dat"), ("round", "hackbench.dat")] {
        fits(dir, &format!("trace why --mark {mark} {file}"));
    }
    let wide = text(dir, "trace events --wide schbench.dat");
    assert!(longest(&wide) > 100, "an event is one line: {wide}");
    let events = wide.lines().filter(|line| line.starts_with("1.")).count();
    assert_eq!(events, 50, "{wide}");
    assert!(longest(&text(dir, "trace conservation --wide schbench.dat")) > 100);
}

#[test]
fn answers_of_a_recording_of_this_machine_fit_the_line() {
    if !is_root() {
        missing!("root: no recording has stacks, counters and control groups");
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let output = schedlab(dir, &["record", "-o", "x.dat", "--stacks", "--", "sleep", "0.3"]);
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        missing!("a recording with stacks: {said}");
        return;
    }
    for question in ["check", "stacks", "tasks --by cgroup", "events", "info", "why"] {
        fits(dir, &format!("trace {question} x.dat"));
    }
}

#[test]
fn what_replays_repeats_and_comparisons_print_fits_the_line() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    LOADS.iter().for_each(|load| drop(fits(dir, load)));
    fits(dir, "replay schbench.dat");
    fits(dir, "replay schbench.dat --on sim:cpus=2");
    fits(dir, "replay hackbench.dat --warm-up 5ms");
    fits(dir, "replay schbench.dat --search latency=1ms,3ms");
    fits(dir, "load schbench -r 1 --on sim:cpus=2 --repeat 3");
    fits(dir, "load schbench -r 1 --on sim:cpus=2 --repeat 2 --against rps=300");
    fits(dir, "load schbench -r 1 --on sim:cpus=2 --causes threads=2,4");
    let sides = "--side sim:cpus=2 --side sim:cpus=2,kernel=eevdf-6.12,knob:base_slice=12ms";
    let long = fits(dir, &format!("compare {sides} -n 3 -- hackbench -g 1 -l 20"));
    assert!(long.starts_with("before: sim:cpus=2\nafter: sim:cpus=2,kernel="), "{long}");
    let sides = "--side sim:cpus=2,kernel=cfs-6.1 --side sim:cpus=4,kernel=cfs-6.1";
    let narrow = fits(dir, &format!("compare {sides} -n 3 -- schbench -r 1"));
    assert!(narrow.contains("1 column does not fit (--wide shows all)\n"), "{narrow}");
    let wide = text(dir, &format!("compare {sides} -n 3 --wide -- schbench -r 1"));
    assert!(wide.contains("  runs  ") && !wide.contains("not fit"), "{wide}");
}

#[test]
fn lists_fit_the_line() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for line in ["slow status", "slow --method help", "sim machines", "sim costs"] {
        fits(dir.path(), line);
    }
}
