//! `trace cut` and `trace events` as a user runs them; trace-cmd judges what was cut.

use schedlab_trace::dat::Header;
use schedlab_trace::synthetic::{Plan, Synthetic};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

/// `whole.dat`: four CPUs.
fn whole(dir: &Path) {
    let plan = Plan { cpus: 4, events: 4_000, seed: 5, ..Plan::default() };
    let header = Header { uname: Some("Linux here".into()), ..Header::default() };
    Synthetic::new(plan).write(&dir.join("whole.dat"), header).expect("a temporary file");
}

fn schedlab(dir: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.current_dir(dir).args(line.split(' ')).output().expect("the built command starts")
}

#[track_caller]
fn done(dir: &Path, line: &str) -> String {
    let output = schedlab(dir, line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[track_caller]
fn json(dir: &Path, line: &str) -> Value {
    serde_json::from_str(&done(dir, line)).expect("--json prints JSON")
}

/// An event in a line of `trace-cmd report -t -N`.
struct Line {
    text: String,
    cpu: u32,
    ns: u64,
}

/// The events of a file, as trace-cmd prints them; `None` where it is not installed.
fn report(dir: &Path, file: &str) -> Option<Vec<Line>> {
    let output =
        Command::new("trace-cmd").args(["report", "-t", "-N", file]).current_dir(dir).output();
    let Ok(output) = output else {
        assert!(std::env::var_os("CI").is_none(), "trace-cmd is needed in CI");
        missing!("trace-cmd: it does not judge what was cut");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().filter_map(line).collect())
}

/// `  name-pid  [001]  12.345678901: event: ...`
fn line(text: &str) -> Option<Line> {
    let (before, after) = text.split_once("] ")?;
    let cpu = before.rsplit('[').next()?.parse().ok()?;
    let (secs, nanos) = after.trim_start().split(": ").next()?.split_once('.')?;
    let ns = secs.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?;
    Some(Line { text: text.to_owned(), cpu, ns })
}

fn sorted<'a>(lines: impl IntoIterator<Item = &'a Line>) -> Vec<&'a str> {
    let mut all: Vec<&str> = lines.into_iter().map(|line| line.text.as_str()).collect();
    all.sort_unstable();
    all
}

fn clock(ns: u64) -> String {
    format!("@{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

#[test]
fn what_is_cut_by_time_and_cpus_is_what_trace_cmd_prints_of_the_whole() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    whole(dir);
    let Some(all) = report(dir, "whole.dat") else { return };
    let (from, to) = (all[all.len() / 4].ns, all[all.len() / 2].ns);
    let inside = |line: &&Line| (from..to).contains(&line.ns);
    let window = format!("--from {} --to {}", clock(from), clock(to));
    for (options, cpus) in [("", 0..4), (" --cpus 1-2", 1..3), (" --cpus 1-2 --compress", 1..3)] {
        done(dir, &format!("trace cut whole.dat part.dat {window}{options}"));
        let wanted = all.iter().filter(inside).filter(|line| cpus.contains(&line.cpu));
        let part = report(dir, "part.dat").expect("it was there before");
        assert!(part.len() > 100, "a part to judge by");
        assert_eq!(sorted(&part), sorted(wanted), "{options}");
    }
    // The head came along, and what was not observed is not taken for idle.
    let info = json(dir, "trace info part.dat --json");
    assert_eq!(info["kernel"], "Linux here");
    let rows = json(dir, "trace cpus part.dat --json");
    let cpus: Vec<u64> = rows["cpus"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["cpu"].as_u64())
        .collect();
    assert_eq!(cpus, [1, 2]);
    assert_eq!(rows["origin_ns"], from.to_string(), "the time of the part is known");
    assert_eq!(rows["end_ns"], to - from);
}

#[test]
fn what_is_cut_by_tasks_names_them_or_fired_while_they_ran() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    whole(dir);
    let tasks = json(dir, "trace tasks whole.dat --json");
    let task = &tasks["tasks"][0];
    let pid = task["pid"].as_i64().expect("a pid");
    done(dir, &format!("trace cut whole.dat part.dat --pid {pid}"));
    let (of_part, warned) = {
        let answer = json(dir, "trace tasks part.dat --json");
        let rows = answer["tasks"].as_array().expect("rows").clone();
        let row = rows.into_iter().find(|row| row["pid"] == pid).expect("the task is there");
        (row, answer["warnings"].to_string())
    };
    assert_eq!(of_part["run_ns"], task["run_ns"], "its own figures stay");
    assert_eq!(of_part["slices"], task["slices"]);
    assert!(warned.contains("events-filtered"), "{warned}");
    let Some(all) = report(dir, "whole.dat") else { return };
    let named = |line: &&Line| {
        let words = line.text.split([' ', '=']);
        let names = words.clone().zip(words.skip(1));
        let mut pids = names.filter(|(key, _)| key.ends_with("pid"));
        let by = line.text.split('[').next().and_then(|head| head.trim().rsplit('-').next());
        by == Some(&pid.to_string()) || pids.any(|(_, value)| value == pid.to_string())
    };
    let part = report(dir, "part.dat").expect("it was there before");
    assert_eq!(sorted(&part), sorted(all.iter().filter(named)));
}

#[test]
fn a_text_is_cut_as_well_and_nonsense_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    whole(dir);
    done(dir, "trace convert whole.dat whole.txt");
    let whole_events =
        json(dir, "trace events whole.dat --from 1ms --to 2ms --limit 100000 --json");
    done(dir, "trace cut whole.txt part.dat --from 1ms --to 2ms");
    let part = json(dir, "trace events part.dat --limit 100000 --json");
    let times = |list: &Value| -> Vec<String> {
        let rows = list["events"].as_array().expect("rows").iter();
        rows.map(|row| format!("{} {} {}", row["time"], row["cpu"], row["event"])).collect()
    };
    assert!(times(&part).len() > 10);
    assert_eq!(times(&part), times(&whole_events));
    for (line, said) in [
        ("trace cut whole.dat x.dat", "which part?"),
        ("trace cut whole.dat x.dat --cpus 9", "has no CPU 9"),
        ("trace cut whole.dat x.dat --from @1 --to @0.5", "the trace holds nothing between"),
        ("trace cut whole.dat x.dat --pid 1", "matches --pid 1"),
        ("trace events whole.dat --event no_such", "no event 'no_such'"),
        ("trace events whole.dat --skip 1000000", "fewer events"),
    ] {
        let output = schedlab(dir, line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(said), "{line}: {stderr}");
    }
    assert!(!dir.join("x.dat").exists(), "nothing is left of what failed");
}

#[test]
fn pages_of_events_make_the_whole_and_filters_take_from_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    whole(dir);
    let all = json(dir, "trace events whole.dat --limit 100000 --json");
    let all = all["events"].as_array().expect("rows").clone();
    let mut pages = Vec::new();
    let mut skip = Some(0);
    while let Some(before) = skip {
        let page = json(dir, &format!("trace events whole.dat --skip {before} --limit 999 --json"));
        pages.extend(page["events"].as_array().expect("rows").clone());
        skip = page["next_skip"].as_u64();
    }
    assert!(pages == all, "pages join to the whole list");
    let waking =
        json(dir, "trace events whole.dat --event sched_waking --cpus 2 --limit 100000 --json");
    let wanted: Vec<Value> =
        all.iter().filter(|e| e["event"] == "sched_waking" && e["cpu"] == 2).cloned().collect();
    assert!(!wanted.is_empty());
    assert_eq!(waking["events"].as_array().expect("rows"), &wanted);
    let names: BTreeSet<&str> = all.iter().filter_map(|event| event["event"].as_str()).collect();
    assert!(names.contains("sched_switch"), "{names:?}");
    let text = done(dir, "trace events whole.dat --limit 2");
    assert!(text.contains("events 1 to 2; --skip 2 shows the next"), "{text}");
    // The time on the clock is what leads back.
    let first = all[500]["time"].as_str().expect("a time");
    let from = json(dir, &format!("trace events whole.dat --from @{first} --limit 1 --json"));
    assert_eq!(from["events"][0], all[all.iter().position(|e| e["time"] == first).expect("it")]);
}
