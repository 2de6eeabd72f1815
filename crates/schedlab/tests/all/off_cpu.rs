//! Time off the CPU by stack, on a trace that perf records here with call chains.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn ours(args: &[&str], file: &Path) -> String {
    let path = file.to_str().expect("a temporary path is UTF-8");
    let args = [&["trace"], args, &[path]].concat();
    output(env!("CARGO_BIN_EXE_schedlab"), &args).expect("schedlab reads what perf wrote")
}

fn json(args: &[&str], file: &Path) -> Value {
    serde_json::from_str(&ours(args, file)).expect("--json prints JSON")
}

fn recorded(dir: &Path) -> Option<PathBuf> {
    let file = dir.join("perf.data");
    let path = file.to_str().expect("a temporary path is UTF-8");
    let load = "for i in 1 2 3 4 5 6 7 8; do sleep 0.05; done";
    let events = ["sched:sched_switch", "sched:sched_waking", "sched:sched_wakeup"];
    let mut args = vec!["record", "-q", "-a", "-g", "-m", "1024", "-c", "1", "-o", path];
    events.iter().for_each(|event| args.extend(["-e", event]));
    args.extend(["--", "sh", "-c", load]);
    output("perf", &args)?;
    Some(file)
}

/// By thread and time, the functions of each stack that perf prints; `None` where it knows no name. Two CPUs may switch at
/// one time.
fn of_perf(file: &Path) -> BTreeMap<(String, String), Vec<Option<String>>> {
    let path = file.to_str().expect("a temporary path is UTF-8");
    let args = ["script", "--ns", "-F", "tid,time,event,ip,sym", "-i", path];
    let text = output("perf", &args).expect("perf reads what it wrote");
    let mut stacks = BTreeMap::new();
    for block in text.split("\n\n").filter(|block| block.contains("sched_switch:")) {
        let mut lines = block.lines();
        let head = lines.next().unwrap_or_default();
        let mut words = head.split_whitespace();
        let (Some(thread), Some(time)) = (words.next(), words.next()) else { continue };
        let name = |line: &str| {
            let name = line.split_whitespace().nth(1)?.split('@').next()?;
            (name != "[unknown]").then(|| name.to_owned())
        };
        let key = (thread.to_owned(), time.trim_end_matches(':').to_owned());
        stacks.insert(key, lines.map(name).collect());
    }
    stacks
}

#[test]
fn stacks_are_those_of_perf_script_and_sum_up_to_the_time_off_the_cpu() {
    if output("perf", &["--version"]).is_none() {
        return missing!("perf (apt-get install linux-perf)");
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(file) = recorded(dir.path()) else {
        return missing!("the right to record call chains of all CPUs with perf");
    };

    let sum = |document: &Value, rows: &str, columns: &[&str]| -> u64 {
        let rows = document[rows].as_array().expect("rows are an array");
        let of = |row: &Value| columns.iter().filter_map(|name| row[*name].as_u64()).sum::<u64>();
        rows.iter().map(of).sum()
    };
    let stacks = json(&["stacks", "--json"], &file);
    let tasks = json(&["tasks", "--json"], &file);
    let asleep = ["sleep_ns", "uninterruptible_ns", "stopped_ns"];
    let (by_stack, by_task) =
        (sum(&stacks, "stacks", &["off_cpu_ns"]), sum(&tasks, "tasks", &asleep));
    assert!(by_task > 300_000_000, "a shell waits for eight sleeps: {by_task} ns");
    assert!(by_stack.abs_diff(by_task) * 100 <= by_task, "{by_stack} and {by_task} ns");
    let folded = ours(&["stacks", "--folded"], &file);
    let micros = |line: &str| line.rsplit_once(' ')?.1.parse::<u64>().ok();
    let in_text: u64 = folded.lines().filter_map(micros).sum();
    let whole = sum(&stacks, "stacks", &["off_cpu_ns", "run_delay_ns"]) / 1_000;
    assert!(in_text.abs_diff(whole) * 100 <= whole, "{in_text} and {whole} µs");

    let pprof = dir.path().join("off.pb.gz");
    ours(&["stacks", "--pprof", pprof.to_str().expect("a temporary path is UTF-8")], &file);
    match output("go", &["tool", "pprof", "-raw", pprof.to_str().expect("the same")]) {
        None => missing!("go tool pprof: what --pprof writes was not read by its tool"),
        Some(raw) => {
            // A sample is its value, a colon, and the numbers of its functions.
            let samples = raw.lines().skip_while(|line| *line != "Samples:");
            let value = |line: &str| line.split_once(':')?.0.trim().parse::<u64>().ok();
            let theirs = samples.filter_map(value).sum::<u64>() / 1_000;
            assert!(theirs.abs_diff(whole) * 1_000 <= whole, "{theirs} and {whole} µs: {raw}");
            assert!(raw.contains("off_cpu/nanoseconds"), "{raw}");
        }
    }

    let theirs = of_perf(&file);
    let events = json(&["events", "--event", "kernel_stack", "--limit", "100000", "--json"], &file);
    let (mut compared, mut differ) = (0, Vec::new());
    for event in events["events"].as_array().expect("events are an array") {
        let time = event["time"].as_str().expect("a time is a text");
        let thread = event["pid"].to_string();
        let Some(theirs) = theirs.get(&(thread, time.to_owned())) else { continue };
        let stack = event["arguments"].as_str().expect("arguments are a text");
        let stack: Vec<&str> = stack.trim_start_matches("stack=").split("<-").collect();
        assert_eq!(stack.len(), theirs.len(), "{time}: {stack:?} {theirs:?}");
        for (ours, theirs) in stack.into_iter().zip(theirs) {
            let is_named = !ours.starts_with("0x") && !ours.contains("+0x");
            let Some(theirs) = theirs.as_ref().filter(|_| is_named) else { continue };
            compared += 1;
            // Several names may stand for one place.
            if ours != theirs && !ours.contains("::") {
                differ.push(format!("{ours} {theirs}"));
            }
        }
    }
    if compared == 0 {
        return missing!("names of the kernel's functions (kernel.kptr_restrict)");
    }
    assert!(differ.len() * 20 <= compared, "{} of {compared}: {differ:?}", differ.len());
}
