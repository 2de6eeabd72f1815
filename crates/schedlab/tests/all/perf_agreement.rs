//! Our figures beside perf's own, on a trace that perf itself recorded here. What differs by definition
//! is explained in `docs/answers.md`.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What cannot be checked here is said; a package that is missing fails in CI.
fn missing(what: &str, package: bool) {
    missing!("{what}");
    let ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!(package && ci), "CI must have {what}");
}

fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Keeps all CPUs busy with tasks that everybody displaces: some virtual machines log no switch away from idle.
struct NeverIdle(Vec<Child>);

impl NeverIdle {
    fn start() -> Self {
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let spin = ["-n", "19", "sh", "-c", "while :; do :; done"];
        let spinner = |_| Command::new("nice").args(spin).spawn().expect("coreutils are there");
        Self((0..count).map(spinner).collect())
    }
}

impl Drop for NeverIdle {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A short recording of a pipe benchmark that comes with perf; `None` where the right is missing.
fn recorded(dir: &Path, name: &str, events: &[&str]) -> Option<PathBuf> {
    let file = dir.join(name);
    let mut args = vec!["record", "-q", "-a", "-R", "-m", "1024", "-c", "1"];
    for event in events {
        args.extend(["-e", event]);
    }
    let path = file.to_str().expect("a temporary path is UTF-8").to_owned();
    args.extend(["-o", &path, "--", "perf", "bench", "sched", "messaging", "-g", "1", "-l", "30"]);
    output("perf", &args)?;
    Some(file)
}

fn ours(question: &str, file: &Path) -> BTreeMap<i64, Value> {
    let path = file.to_str().expect("a temporary path is UTF-8");
    let text = output(env!("CARGO_BIN_EXE_schedlab"), &["trace", question, "--json", path])
        .expect("schedlab reads what perf wrote");
    let value: Value = serde_json::from_str(&text).expect("--json prints JSON");
    let rows = value["tasks"].as_array().expect("tasks is an array");
    let pid = |row: &Value| row["pid"].as_i64().expect("pid is a number");
    rows.iter().map(|row| (pid(row), row.clone())).collect()
}

/// Prints who differs; a few may, where the recording begins, ends or misses an event.
#[track_caller]
fn mostly(what: &str, checked: usize, few: usize, differ: &[String]) {
    for line in differ {
        let _ = writeln!(std::io::stderr(), "{what}: {line}");
    }
    assert!(checked >= few, "{what}: only {checked} tasks were comparable");
    assert!(
        differ.len() * 10 <= checked,
        "{what}: {} of {checked} tasks differ:\n{}",
        differ.len(),
        differ.join("\n")
    );
}

/// `name:tid | 1.234 ms | 7 | avg: 0.123 ms | max: 2.345 ms | ...`; without `-p` `name:(3)` if there are three tasks.
struct LatencyRow<'l> {
    command: &'l str,
    tid: Option<i64>,
    count: f64,
    mean: f64,
    max: f64,
}

fn latency_row(line: &str) -> Option<LatencyRow<'_>> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let [name, _, count, mean, max, ..] = cells[..] else { return None };
    let ms = |cell: &str| cell.split_whitespace().nth_back(1)?.parse::<f64>().ok();
    let (command, tid) = name.rsplit_once(':')?;
    let count = count.parse().ok()?;
    Some(LatencyRow { command, tid: tid.parse().ok(), count, mean: ms(mean)?, max: ms(max)? })
}

/// Who left its CPU as `R+`, in a line of `perf script`.
fn displaced_in_kernel(line: &str) -> Option<i64> {
    let (front, _) = line.split_once(" prev_state=R+ ")?;
    front.rsplit_once("prev_pid=")?.1.split_whitespace().next()?.parse().ok()
}

#[test]
fn delays_are_those_of_perf_sched_latency() {
    if output("perf", &["--version"]).is_none() {
        return missing("perf (apt-get install linux-perf)", true);
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let events = ["switch", "wakeup", "wakeup_new", "migrate_task"];
    let events = events.map(|name| format!("sched:sched_{name}"));
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let Some(file) = recorded(dir.path(), "latency.data", &events) else {
        return missing("the right to record with perf: agreement was not checked", false);
    };
    let path = file.to_str().expect("a temporary path is UTF-8");
    let Some(text) = output("perf", &["sched", "latency", "-p", "-i", path]) else {
        return missing("a perf that reads its own recording", false);
    };
    let Some(script) = output("perf", &["script", "-i", path]) else {
        return missing("a perf that reads its own recording", false);
    };
    // perf takes a task that left as `R+` to sleep, so it does not count those waits.
    let displaced: Vec<i64> = script.lines().filter_map(displaced_in_kernel).collect();
    let tasks = ours("latency", &file);
    let (mut checked, mut differ) = (0, Vec::new());
    for LatencyRow { tid, count, mean, max, .. } in text.lines().filter_map(latency_row) {
        let Some(tid) = tid.filter(|tid| !displaced.contains(tid)) else { continue };
        let figure = |name: &str| {
            let ns = tasks.get(&tid).map(|row| row["run_delay"][name].as_f64().unwrap_or(0.0));
            ns.unwrap_or(0.0) / 1e6
        };
        let (sum, longest) = (figure("latency_ns_sum"), figure("latency_ns_max"));
        checked += 1;
        // perf prints microseconds, and its mean is of that many waits.
        let same =
            (longest - max).abs() <= 0.0011 && (sum - mean * count).abs() <= 0.001 * (count + 1.0);
        if !same {
            differ.push(format!(
                "{tid}: longest {longest:.3} beside {max:.3} ms, sum {sum:.3} beside {:.3} ms",
                mean * count
            ));
        }
    }
    mostly("perf sched latency", checked, 20, &differ);
}

/// `4628.263256 [0000]  perf[30027]   0.000   0.000   0.000`: a wait, the delay after it, and a run.
struct TimehistRow<'l> {
    command: &'l str,
    tid: i64,
    delay: f64,
    run: f64,
}

fn timehist_row(line: &str) -> Option<TimehistRow<'_>> {
    let (front, cells) = line.rsplit_once(']')?;
    let (front, task) = front.rsplit_once('[')?;
    let tid = task.split('/').next()?.parse().ok()?;
    let command = front.split_once(']').map_or("", |(_, name)| name).trim();
    let mut cells = cells.split_whitespace().map(str::parse::<f64>);
    let [_, delay, run] = [cells.next()?.ok()?, cells.next()?.ok()?, cells.next()?.ok()?];
    Some(TimehistRow { command, tid, delay, run })
}

#[test]
fn delays_and_run_times_are_those_of_perf_sched_timehist() {
    if output("perf", &["--version"]).is_none() {
        return missing("perf (apt-get install linux-perf)", true);
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let events = ["switch", "waking", "wakeup_new", "migrate_task", "process_fork"];
    let events = events.map(|name| format!("sched:sched_{name}"));
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    crate::machine_lock::share();
    let busy = NeverIdle::start();
    let file = recorded(dir.path(), "timehist.data", &events);
    drop(busy);
    let Some(file) = file else {
        return missing("the right to record with perf: agreement was not checked", false);
    };
    check_timehist(&file, 20);
}

#[test]
fn a_file_of_another_machine_agrees_with_timehist_too() {
    if output("perf", &["--version"]).is_none() {
        return missing("perf (apt-get install linux-perf)", true);
    }
    let Some(data) = std::env::var_os("SCHEDLAB_DATA") else {
        return missing("SCHEDLAB_DATA: the traces of others were not compared", false);
    };
    let file = Path::new(&data).join("traces/local_2cpu_zstd.perf.data");
    check_timehist(&file, 10);
    // perf named itself 847 ms before its first sample: the trace begins with the sample.
    let path = file.to_str().expect("a path of the data is UTF-8");
    let lines = output("perf", &["script", "--ns", "-F", "time", "-i", path]);
    let first = lines.as_deref().and_then(|lines| lines.lines().next());
    let first = first.expect("a time").trim().trim_end_matches(':').replace('.', "");
    let cpus = output(env!("CARGO_BIN_EXE_schedlab"), &["trace", "cpus", "--json", path]);
    let cpus: Value = serde_json::from_str(&cpus.expect("it is read")).expect("JSON");
    assert_eq!(cpus["origin_ns"].as_str(), Some(first.as_str()));
    let unknown = cpus["cpus"][0]["unknown_ns"].as_u64().expect("a time");
    assert_eq!(unknown, 0, "CPU 0 logged the first event");
}

/// Compares with what `perf sched timehist` prints, summed per task; at least `few` must be comparable.
#[track_caller]
fn check_timehist(file: &Path, few: usize) {
    let path = file.to_str().expect("a temporary path is UTF-8");
    let Some(text) = output("perf", &["sched", "timehist", "-i", path]) else {
        return missing("a perf that reads its own recording", false);
    };
    let mut theirs = BTreeMap::<i64, (f64, f64, f64)>::new();
    for TimehistRow { tid, delay, run, .. } in text.lines().filter_map(timehist_row) {
        let sums = theirs.entry(tid).or_default();
        *sums = (sums.0 + 1.0, sums.1 + delay, sums.2 + run);
    }
    let (latency, tasks) = (ours("latency", file), ours("tasks", file));
    let (mut checked, mut differ) = (0, Vec::new());
    for (tid, (rows, delay, run)) in theirs {
        let Some(task) = tasks.get(&tid) else { continue };
        // A slice that has not ended has no row there; a first one that was not seen to begin has.
        if task["slices"].as_f64() != Some(rows) {
            continue;
        }
        // Nor has a wait that has not ended.
        if latency.get(&tid).is_some_and(|row| row["unfinished"].as_u64() > Some(0)) {
            continue;
        }
        let ran = task["run_ns"].as_f64().unwrap_or(0.0) / 1e6;
        let waited = latency.get(&tid).and_then(|row| row["wakeup"]["latency_ns_sum"].as_f64());
        let waited = waited.unwrap_or(0.0) / 1e6;
        checked += 1;
        // Each of its rows is cut to microseconds.
        let close =
            |ours: f64, theirs: f64| (-0.001..=0.001 * (rows + 1.0)).contains(&(ours - theirs));
        if !close(waited, delay) || !close(ran, run) {
            differ.push(format!(
                "{tid}: delay {waited:.3} beside {delay:.3} ms, run {ran:.3} beside {run:.3} ms"
            ));
        }
    }
    mostly("perf sched timehist", checked, few, &differ);
}

/// Short programs of every Debian, many at once, so that tasks begin, wait and end.
const SHORT: &str = "cd /; for i in 1 2 3 4 5 6; do for c in 'ls -R usr/include' 'sort etc/passwd' date env id df \
                     'du usr/include' 'wc etc/passwd' 'od bin/sh' 'cksum bin/sh' 'sha1sum bin/sh' 'md5sum bin/sh' \
                     'tar cf - etc' 'gzip -c bin/sh' 'sed p etc/passwd' 'awk 1 etc/passwd' 'grep -r root etc' \
                     'uniq etc/passwd' 'nl etc/passwd' 'head etc/passwd' 'tail etc/passwd' 'cut -c1 etc/passwd'; \
                     do $c & done; wait; done >/dev/null 2>&1; true";

/// How many of the tasks and commands of a recording have which worst wakeup latency.
struct Agreement {
    tasks: usize,
    /// Tasks whose latency is that of `perf sched timehist`.
    equal: usize,
    /// Commands that `perf sched latency` prints, and for how many of these it prints a lower one.
    commands: usize,
    lower_commands: usize,
}

impl Agreement {
    fn lines(&self) -> String {
        let Self { tasks, equal, commands, lower_commands } = self;
        format!(
            "tasks {tasks}\nequal to timehist {equal}\ncommands {commands}\n\
             lower in latency {lower_commands}\n"
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let number = |start: &str| {
            text.lines().find_map(|line| line.strip_prefix(start)?.strip_prefix(' ')?.parse().ok())
        };
        Some(Self {
            tasks: number("tasks")?,
            equal: number("equal to timehist")?,
            commands: number("commands")?,
            lower_commands: number("lower in latency")?,
        })
    }
}

/// Both are in milliseconds, and perf cuts to microseconds.
fn differs(one: f64, other: f64) -> bool {
    (one - other).abs() > 0.0021
}

/// `cargo xtask evidence perf` keeps what this test counts, for README.md.
#[test]
fn the_worst_wakeup_latency_of_a_task_is_that_of_perf_sched_timehist() {
    if output("perf", &["--version"]).is_none() {
        return missing("perf (apt-get install linux-perf)", true);
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("short.data");
    let path = file.to_str().expect("a temporary path is UTF-8");
    if output("perf", &["sched", "record", "-o", path, "--", "sh", "-c", SHORT]).is_none() {
        return missing("the right to record with perf: agreement was not checked", false);
    }
    let by_row = output("perf", &["sched", "timehist", "-i", path]);
    let by_command = output("perf", &["sched", "latency", "-i", path]);
    let (Some(timehist), Some(by_command)) = (by_row, by_command) else {
        return missing("a perf that reads its own recording", false);
    };
    let mut worst = BTreeMap::<i64, f64>::new();
    let mut worst_of_command = BTreeMap::<&str, f64>::new();
    for TimehistRow { command, tid, delay, .. } in timehist.lines().filter_map(timehist_row) {
        let longest = worst.entry(tid).or_default();
        *longest = longest.max(delay);
        let longest = worst_of_command.entry(command).or_default();
        *longest = longest.max(delay);
    }
    let tasks = ours("latency", &file);
    worst.retain(|tid, _| tasks.contains_key(tid));
    let mut differ = Vec::new();
    for (tid, theirs) in &worst {
        let longest = tasks[tid]["wakeup"]["latency_ns_max"].as_f64().unwrap_or(0.0) / 1e6;
        if differs(longest, *theirs) {
            differ.push(format!("{tid}: longest {longest:.3} beside {theirs:.3} ms"));
        }
    }
    mostly("perf sched timehist", worst.len(), 20, &differ);
    let is_lower = |max: f64, longest: f64| max < longest && differs(max, longest);
    let rows = by_command.lines().filter_map(latency_row);
    let commands: Vec<(f64, f64)> =
        rows.filter_map(|row| Some((row.max, *worst_of_command.get(row.command)?))).collect();
    let agreement = Agreement {
        tasks: worst.len(),
        equal: worst.len() - differ.len(),
        commands: commands.len(),
        lower_commands: commands.iter().filter(|(max, longest)| is_lower(*max, *longest)).count(),
    };
    let lines = agreement.lines();
    let _ = write!(std::io::stderr(), "{lines}");
    if let Some(kept) = std::env::var_os("SCHEDLAB_AGREEMENT") {
        std::fs::write(kept, lines).expect("the counts are written");
    }
}

#[test]
fn the_readme_states_the_counts_that_are_kept() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).expect("it is there");
    let kept = Agreement::parse(&read("examples/evidence/perf/counts.txt")).expect("four counts");
    let readme = read("README.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let Agreement { tasks, equal, commands, lower_commands } = kept;
    for stated in
        [format!("{equal} of {tasks} tasks"), format!("{lower_commands} of {commands} commands")]
    {
        assert!(readme.contains(&stated), "README.md lacks '{stated}'");
    }
}
