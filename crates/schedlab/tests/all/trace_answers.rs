//! `schedlab trace QUESTION` end to end, on a trace that is the same on every machine: the keys that scripts
//! hang on, cuts and choices, and figures that fit each other.

use schedlab_trace::dat::Header;
use schedlab_trace::synthetic::{Plan, Synthetic};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn trace(dir: &Path, seed: u64) -> String {
    let path = dir.join(format!("{seed}.dat"));
    let plan = Plan { cpus: 4, events: 20_000, seed, ..Plan::default() };
    Synthetic::new(plan).write(&path, Header::default()).expect("a temporary file can be written");
    path.to_str().expect("a temporary path is UTF-8").to_owned()
}

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.arg("trace").args(args).output().expect("the built command starts")
}

#[track_caller]
fn text(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    let output = run(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    assert!(value["schema"].is_string(), "every object has a schema");
    value
}

#[track_caller]
fn has(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(key).is_some(), "no key '{key}' in {value}");
    }
}

#[test]
fn the_keys_that_scripts_hang_on_are_there() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = trace(dir.path(), 1);
    let figures = [
        "count",
        "latency_ns_p50",
        "latency_ns_p90",
        "latency_ns_p99",
        "latency_ns_p999",
        "latency_ns_max",
        "latency_ns_sum",
    ];
    let latency = json(&["latency", "--json", &file]);
    assert!(latency["origin_ns"].is_string(), "a number would lose nanoseconds");
    for value in [&latency["tasks"][0], &latency["total"]] {
        has(&value["wakeup"], &figures);
        has(&value["run_delay"], &figures);
    }
    has(&latency["tasks"][0], &["pid", "comm"]);
    let conservation = json(&["conservation", "--json", &file]);
    has(&conservation, &["episodes", "count", "total_ns", "waited_ns", "by_cause"]);
    assert_eq!(conservation["lost"]["affinity_known"], false, "this trace tells no affinity");
    let keys = [
        "start_ns",
        "end_ns",
        "overloaded_cpu",
        "idle_cpus",
        "waiting_pid",
        "waker_pid",
        "cost_ns",
        "waited_ns",
        "tasks",
        "cause",
        "should_run_on_cpu",
        "ended",
        "seen",
        "inferred",
    ];
    has(&conservation["episodes"][0], &keys);
    has(&json(&["tasks", "--json", &file]), &["tasks"]);
    has(&json(&["cpus", "--json", &file]), &["cpus"]);
    has(&json(&["waiting", "--json", &file]), &["cpus", "bins", "total"]);
    has(&json(&["locality", "--json", &file]), &["matrix", "tasks", "total"]);
    has(&json(&["migrations", "--json", &file]), &["total", "by", "chains"]);
    let other = trace(dir.path(), 2);
    has(&json(&["compare", "--json", &file, &other]), &["a", "b", "figures", "verdict"]);
}

#[test]
fn a_sound_trace_leaves_no_doubts_and_its_figures_fit_each_other() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = trace(dir.path(), 3);
    let cpus = json(&["cpus", "--json", &file]);
    assert_eq!(cpus["warnings"], Value::Array(Vec::new()));
    let sum = |value: &Value, key: &str| {
        let rows = value.as_array().expect("an array of rows");
        rows.iter().map(|row| row[key].as_u64().expect("a count")).sum::<u64>()
    };
    let tasks = json(&["tasks", "--json", &file]);
    assert_eq!(sum(&cpus["cpus"], "busy_ns"), sum(&tasks["tasks"], "run_ns"));
    let waiting = json(&["waiting", "--json", &file]);
    let of = |key: &str| {
        let times = waiting[key].as_array().expect("an array of times").iter().zip(0_u64..);
        times.map(|(time, n)| n * time.as_u64().expect("a time")).sum::<u64>()
    };
    assert_eq!(of("running_time_ns"), sum(&tasks["tasks"], "run_ns"));
    assert_eq!(of("waiting_time_ns"), sum(&tasks["tasks"], "wait_ns"));
    let conservation = json(&["conservation", "--json", "--keep", "1000000", &file]);
    let episodes = conservation["episodes"].as_array().expect("an array");
    let cost = |episode: &Value| episode["cost_ns"].as_u64();
    let total: u64 = episodes.iter().filter_map(cost).sum();
    assert!(total > 0, "a trace to judge by");
    assert_eq!(conservation["total_ns"].as_u64(), Some(total));
    assert_eq!(conservation["lost"]["cpu_ns"].as_u64(), Some(total), "costs add up exactly");
    let shares = conservation["by_cause"].as_object().expect("an object").values();
    assert_eq!(shares.filter_map(|cause| cause["total_ns"].as_u64()).sum::<u64>(), total);
    // But for rounding.
    let ranked = |two: &[Value]| cost(&two[0]).map(|cost| cost + 1) >= cost(&two[1]);
    assert!(episodes.windows(2).all(ranked), "ranked by harm");
    // CSV has the same.
    let csv = text(&["conservation", "--csv", "--keep", "1000000", &file]);
    let lines: Vec<&str> = csv.lines().collect();
    let cells: Vec<&str> = lines[1].split(',').collect();
    assert_eq!(
        (lines.len() - 1, cells[0]),
        (episodes.len(), &*episodes[0]["start_ns"].to_string())
    );
    assert_eq!(cells[3], episodes[0]["cost_ns"].to_string());
}

#[test]
fn time_can_be_cut_and_tasks_chosen() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = trace(dir.path(), 4);
    let whole = json(&["cpus", "--json", &file]);
    let cut = json(&["cpus", "--json", "--from", "2ms", "--to", "5ms", &file]);
    assert_eq!(
        (cut["start_ns"].as_u64(), cut["end_ns"].as_u64()),
        (Some(2_000_000), Some(5_000_000))
    );
    let spent = |value: &Value| {
        let row = &value["cpus"][0];
        let time = |key: &str| row[key].as_u64().expect("a time");
        time("busy_ns") + time("idle_ns") + time("unknown_ns")
    };
    assert_eq!(spent(&cut), 3_000_000);
    assert_eq!(Some(spent(&whole)), whole["end_ns"].as_u64());
    let all = json(&["latency", "--json", &file]);
    let rows = all["tasks"].as_array().expect("an array");
    let (pid, comm) = (&rows[0]["pid"], rows[0]["comm"].as_str().expect("a name"));
    let one = json(&["latency", "--json", "--pid", &pid.to_string(), &file]);
    assert_eq!(one["tasks"].as_array().map(Vec::len), Some(1));
    assert_eq!(one["total"]["run_delay"], one["tasks"][0]["run_delay"]);
    let named = json(&["latency", "--json", "--regex", &format!("^{comm}$"), &file]);
    assert!(named["tasks"].as_array().is_some_and(|rows| rows.iter().all(|r| r["comm"] == comm)));
    let output = run(&["latency", "--from", "3ms", "--to", "2ms", &file]);
    assert_eq!(output.status.code(), Some(2), "wrong usage");
}

/// The sum of a figure of all rows.
#[track_caller]
fn sum(rows: &Value, figure: impl Fn(&Value) -> Option<u64>) -> u64 {
    let rows = rows.as_array().expect("an array of rows");
    rows.iter().map(|row| figure(row).expect("a number")).sum()
}

#[test]
fn every_answer_is_about_the_chosen_tasks() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = trace(dir.path(), 6);
    let tasks = json(&["tasks", "--json", &file]);
    let rows = tasks["tasks"].as_array().expect("an array").clone();
    let latency = json(&["latency", "--json", &file]);
    let waited = latency["tasks"].as_array().expect("an array");
    // Those whose longest wait is the shortest: many waits of others are longer than any of theirs.
    let calm: Vec<&Value> = waited.iter().rev().take(2).collect();
    let pids: Vec<u64> = calm.iter().filter_map(|row| row["pid"].as_u64()).collect();
    let chosen = format!("--pid={},{}", pids[0], pids[1]);
    let ask = |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["--json", &chosen, &file]).collect();
        json(&args)
    };
    let of = |key: &str| {
        let of =
            rows.iter().filter(|row| row["pid"].as_u64().is_some_and(|pid| pids.contains(&pid)));
        of.map(|row| row[key].as_u64().expect("a count")).sum::<u64>()
    };
    let worst = ask(&["latency", "--worst", "3", "--by", "cpu"]);
    let list = worst["worst"].as_array().expect("an array");
    let theirs = |wait: &Value| wait["pid"].as_u64().is_some_and(|pid| pids.contains(&pid));
    assert!(list.len() == 3 && list.iter().all(theirs), "{list:?}");
    assert_eq!(
        sum(&worst["cpus"], |row| row["run_delay"]["latency_ns_sum"].as_u64()),
        worst["total"]["run_delay"]["latency_ns_sum"].as_u64().expect("a sum"),
    );
    let waiting = ask(&["waiting"]);
    let ran = |key: &str| {
        let times = waiting[key].as_array().expect("an array").iter().zip(0_u64..);
        times.map(|(time, n)| n * time.as_u64().expect("a time")).sum::<u64>()
    };
    assert_eq!((ran("running_time_ns"), ran("waiting_time_ns")), (of("run_ns"), of("wait_ns")));
    let moves = ask(&["migrations"]);
    assert_eq!(moves["total"].as_u64(), Some(of("migrations")));
    let locality = ask(&["locality"]);
    assert_eq!(locality["tasks"].as_array().map(Vec::len), Some(2));
    let conservation = ask(&["conservation", "--keep", "100000"]);
    let episodes = conservation["episodes"].as_array().expect("an array");
    let whose = |v: &Value| v["waiting_pid"].as_u64().is_some_and(|pid| pids.contains(&pid));
    assert!(!episodes.is_empty() && episodes.iter().all(whose));
    let total = sum(&conservation["episodes"], |episode| episode["cost_ns"].as_u64());
    assert_eq!(conservation["total_ns"].as_u64(), Some(total), "sums are of the same tasks");
    let compare = ask(&["compare", &file]);
    let tasks =
        compare["figures"].as_array().and_then(|list| list.iter().find(|f| f["name"] == "tasks"));
    assert_eq!(tasks.map(|figure| figure["b"][0].as_f64()), Some(Some(2.0)));
}

#[test]
fn migrations_are_told_by_distance_where_the_topology_is_known() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = trace(dir.path(), 9);
    // CPU, core, socket, node, and caches down to the last level: two sockets of two cores.
    let shape = "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,0,,0,0,0,0\n1,1,0,0,,1,1,1,0\n\
                 2,2,1,1,,2,2,2,1\n3,3,1,1,,3,3,3,1\n";
    let topology = dir.path().join("lscpu.txt");
    std::fs::write(&topology, shape).expect("a temporary file can be written");
    let topology = ["--topology", topology.to_str().expect("UTF-8")];
    let ask = |question: &str| json(&[&[question, "--json"], &topology[..], &[&file]].concat());
    let by = |row: &Value, key: &str| {
        row[key].as_object().expect("by distance").values().filter_map(Value::as_u64).sum::<u64>()
    };
    let (tasks, cpus, moves) = (ask("tasks"), ask("cpus"), ask("migrations"));
    let total = moves["total"].as_u64().expect("a count");
    assert!(total > 100, "{total} are too few");
    for (rows, all, key) in [
        (&tasks["tasks"], "migrations", "migrations_by_distance"),
        (&cpus["cpus"], "arrivals", "arrivals_by_distance"),
    ] {
        assert_eq!(sum(rows, |row| row[all].as_u64()), total, "{all}");
        assert_eq!(sum(rows, |row| Some(by(row, key))), total, "{key}");
        let far = sum(rows, |row| row[key]["other_socket"].as_u64());
        let near = sum(rows, |row| row[key]["same_LLC"].as_u64());
        assert!(far > 0 && near > 0 && far + near == total, "{far} and {near} of {total}");
    }
    for question in ["tasks", "cpus"] {
        let output = run(&[&[question, "--wide"], &topology[..], &[&file]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("  LLC") && text.contains("  beyond"), "{text}");
        let without = run(&[question, "--wide", &file]);
        assert!(!String::from_utf8_lossy(&without.stdout).contains("beyond"), "nothing is known");
    }
}

#[test]
fn what_chooses_nothing_is_an_error_and_not_an_empty_table() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = trace(dir.path(), 7);
    for question in ["latency", "tasks", "waiting", "conservation", "locality", "migrations"] {
        let output = run(&[question, "--pid", "999999", "--comm", "nobody", &file]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{question}: {told}");
        assert!(told.contains("--pid 999999, --comm nobody") && told.contains(&file), "{told}");
        assert!(told.contains("schedlab trace tasks"), "what to do: {told}");
    }
    for question in ["latency", "cpus"] {
        let output = run(&[question, "--from", "3600s", &file]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{question}: {told}");
        assert!(told.contains("ends before --from 3600s") && told.contains(&file), "{told}");
    }
    let output = run(&["compare", &file, "/nonexistent"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(told.matches("/nonexistent").count(), 1, "said once: {told}");
}

/// Two tasks share CPU 0, then one goes to CPU 1, which was idle, and one that slept runs there after it; nothing but
/// switches was recorded. Each is a time in microseconds, a CPU, who left and how, and who came.
const SWITCHES: [(u32, u8, &str, &str, &str); 6] = [
    (0, 1, "swapper", "R", "c"),
    (10, 1, "c", "S", "swapper"),
    (1000, 0, "a", "R", "b"),
    (2000, 0, "b", "R+", "a"),
    (3000, 1, "swapper", "R", "b"),
    (4000, 1, "b", "S", "c"),
];

/// The same as tracefs prints it.
fn switches(count: usize) -> String {
    let pid = |name: &str| match name {
        "swapper" => 0,
        name => 10 + u32::from(name.as_bytes()[0] - b'a'),
    };
    let line = |(us, cpu, prev, state, next): &(u32, u8, &str, &str, &str)| {
        let (from, to) = (pid(prev), pid(next));
        format!(
            "  {prev}-{from} [00{cpu}] d..2 100.{us:06}: sched_switch: prev_comm={prev} prev_pid={from} \
             prev_prio=120 prev_state={state} ==> next_comm={next} next_pid={to} next_prio=120\n"
        )
    };
    let lines: String = SWITCHES.iter().take(count).map(line).collect();
    format!("# tracer: nop\n{lines}")
}

const QUESTIONS: [&str; 7] =
    ["latency", "tasks", "cpus", "waiting", "conservation", "locality", "migrations"];

#[test]
fn where_events_are_missing_every_answer_says_that_it_is_a_lower_bound() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let only_switches = dir.path().join("switches.txt");
    std::fs::write(&only_switches, switches(SWITCHES.len()))
        .expect("a temporary file can be written");
    let switches = only_switches.to_str().expect("UTF-8");
    let lost = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/lost.dat");
    let whole = trace(dir.path(), 8);
    for question in QUESTIONS {
        for (file, code) in [(switches, "no-wakeups"), (lost, "events-lost")] {
            let value = json(&[question, "--json", file]);
            assert_eq!(value["lower_bound"], true, "{question} of {file}");
            let codes = value["warnings"].as_array().expect("an array");
            assert!(codes.iter().any(|w| w["code"] == code), "{question} of {file}: {codes:?}");
            let output = run(&[question, file]);
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(told.contains("lower bounds"), "{question} of {file}: {told}");
        }
        assert_eq!(json(&[question, "--json", &whole])["lower_bound"], false, "{question}");
    }
    // Who waits is known for the displaced; that `b` was moved is seen only from where it ran.
    let latency = json(&["latency", "--json", switches]);
    assert_eq!(latency["total"]["run_delay"]["latency_ns_sum"].as_u64(), Some(2_000_000));
    let moves = run(&["migrations", switches]);
    let told = String::from_utf8_lossy(&moves.stderr).into_owned();
    assert!(told.contains("the cause of 1 moves is unknown"), "{told}");
    let tasks = json(&["tasks", "--json", "--comm", "b", switches]);
    assert_eq!(tasks["tasks"][0]["migrations"].as_u64(), Some(1));
    let said = |file: &str| {
        String::from_utf8_lossy(&run(&["conservation", file]).stdout)
            .lines()
            .next()
            .map(str::to_owned)
    };
    let first = said(switches).expect("a line");
    // `b` was moved and no event says so: who waited on which CPU is unknown.
    assert_eq!(first, "no figures: the trace does not tell them");
}

#[test]
fn a_trace_of_hardly_anything_has_answers_too() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("one.txt");
    // The header and the first switch: one task, one CPU, no time at all.
    std::fs::write(&file, switches(1)).expect("a temporary file can be written");
    let file = file.to_str().expect("UTF-8");
    for question in QUESTIONS {
        let output = run(&[question, file]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("0 of 1 CPU"), "{question}: {text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{question}: {text}");
        let value = json(&[question, "--json", file]);
        assert_eq!((value["start_ns"].as_u64(), value["end_ns"].as_u64()), (Some(0), Some(0)));
    }
    json(&["compare", "--json", file, file]);
}

#[test]
fn a_table_has_a_hundred_columns_unless_it_is_asked_to_be_wide() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = trace(dir.path(), 5);
    for question in ["latency", "tasks", "cpus", "waiting", "locality", "power"] {
        let narrow = text(&[question, &file]);
        let longest = |text: &str| text.lines().map(|line| line.chars().count()).max();
        assert!(longest(&narrow) <= Some(100), "{question}: {narrow}");
        let wide = text(&[question, "--wide", &file]);
        assert!(!wide.contains("--wide shows all"), "{question}: {wide}");
        assert!(longest(&wide) > longest(&narrow), "{question}: {wide}");
    }
    let tasks = text(&["tasks", &file]);
    assert!(tasks.lines().any(|line| line.ends_with("do not fit (--wide shows all)")), "{tasks}");
    let (csv, wide) = (text(&["tasks", "--csv", &file]), text(&["tasks", "--wide", &file]));
    assert!(csv.contains("uninterruptible_ns") && wide.contains("p99"), "{wide}");
    assert!(!run(&["tasks", "--wide", "--csv", &file]).status.success(), "CSV has all columns");
}

/// Two tasks of a second each on one CPU, whose switch is missing: an event of the second one tells of it 1 ms after the
/// last event of the first. `short` adds a task of 20 µs.
fn missing_switch(short: bool) -> String {
    let begin = "<idle> 0 [000] 1.000000000: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
         prev_state=R ==> next_comm=first next_pid=10 next_prio=120\n\
         first 10 [000] 2.000000000: sched:sched_waking: comm=x pid=12 prio=120 target_cpu=000\n\
         second 11 [000] 2.001000000: sched:sched_wakeup: comm=x pid=12 prio=120 target_cpu=000\n\
         second 11 [000] 3.000000000: sched:sched_switch: prev_comm=second prev_pid=11 prev_prio=120 \
         prev_state=S ==> next_comm=x next_pid=12 next_prio=120\n";
    let end = if short { "3.000020000" } else { "4.000000000" };
    let rest = format!(
        "x 12 [000] {end}: sched:sched_switch: prev_comm=x prev_pid=12 prev_prio=120 prev_state=S ==> \
         next_comm=swapper/0 next_pid=0 next_prio=120\n\
         <idle> 0 [000] 5.000000000: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
         prev_state=R ==> next_comm=first next_pid=10 next_prio=120\n"
    );
    [begin, &rest].concat()
}

#[test]
fn a_note_leaves_the_text_where_it_touches_no_figure_by_more_than_a_hundredth() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str, short| {
        let path = dir.path().join(name);
        std::fs::write(&path, missing_switch(short)).expect("written");
        path.display().to_string()
    };
    let notes = |arguments: &[&str]| {
        let output = run(arguments);
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // 1 ms of one second.
    let long = file("long.txt", false);
    assert_eq!(notes(&["cpus", &long]), "");
    assert_eq!(notes(&["tasks", &long]), "");
    let kept = json(&["tasks", "--json", &long])["warnings"].to_string();
    assert!(kept.contains("events-contradict"), "JSON keeps it: {kept}");
    assert!(notes(&["tasks", "--csv", &long]).contains("run times are uncertain"));
    // 1 ms of 20 µs.
    let short = file("short.txt", true);
    let wide = text(&["tasks", "--wide", &long]);
    assert!(wide.contains("25.0 % ± 0.0250 %"), "a share is off by a share: {wide}");
    let said = notes(&["tasks", &short]);
    assert!(said.contains("run times are uncertain for 1.00 ms of CPU time (0.0250 %)"), "{said}");
    assert_eq!(notes(&["tasks", "--top", "2", &short]), "", "the short task is not shown");
}

#[test]
fn tables_are_text_and_doubts_go_to_stderr() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = trace(dir.path(), 5);
    for args in [
        &["latency", "--worst", "3", "--histogram"][..],
        &["latency", "--by", "comm"],
        &["latency", "--by", "cpu"],
        &["tasks", "--top", "3"],
        &["cpus"],
        &["waiting"],
        &["conservation", "--min", "1us", "--definition", "schedviz"],
        &["locality"],
        &["migrations"],
    ] {
        let args: Vec<&str> = args.iter().copied().chain([file.as_str()]).collect();
        let output = run(&args);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.lines().count() > 2, "{args:?}:\n{text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "{args:?}: trailing blanks");
    }
}

/// Prints the sum of the running intervals.
#[cfg(feature = "parquet")]
const SUM: &str = r"
import sys, pyarrow.parquet as pq
rows = pq.read_table(sys.argv[1]).to_pylist()
print(sum(row['end_ns'] - row['start_ns'] for row in rows if row['state'] == 'running'))
";

#[cfg(feature = "parquet")]
#[test]
fn the_running_intervals_of_the_table_are_the_busy_time_of_the_cpus() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let source = trace(dir.path(), 5);
    let target = dir.path().join("x.parquet");
    let output = run(&["convert", &source, target.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(target.exists(), "the events");
    let table = dir.path().join("x.intervals.parquet");
    assert!(table.exists(), "the intervals beside them");
    let sum = Command::new("python3").args(["-c", SUM]).arg(&table).output();
    let Some(sum) = sum.ok().filter(|output| output.status.success()) else {
        missing!("pyarrow: the table of intervals is not read back");
        return;
    };
    let sum: u64 = String::from_utf8_lossy(&sum.stdout).trim().parse().expect("a number");
    let cpus = json(&["cpus", "--json", &source]);
    let cpus = cpus["cpus"].as_array().expect("a row for each CPU");
    assert_eq!(sum, cpus.iter().filter_map(|cpu| cpu["busy_ns"].as_u64()).sum::<u64>());
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_says_how_to_get_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let target = dir.path().join("x.parquet");
    let source = trace(dir.path(), 5);
    let output = run(&["convert", &source, target.to_str().expect("UTF-8")]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("--features parquet") && told.contains(".csv"), "{told}");
    assert!(!target.exists());
}

#[test]
fn info_shows_the_arguments_of_other_tracepoints() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/lost.dat");
    let output = run(&["info", file]);
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().find(|line| line.contains("irq_handler_entry")).expect("it is there");
    assert!(line.contains("irq_handler_entry   irq=7 name=xxx"), "{line}");
    let output = run(&["info", "--json", file]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    let example = value["examples"]["irq_handler_entry"].as_str().expect("a text");
    assert!(example.starts_with("irq=7 name=xxx"), "{example}");
}

/// A runs for 900 µs, 50 of which an interrupt takes.
const INTERRUPTED: &str = "cpus=1
<idle>-0 [000] d..2 100.000000: sched_switch: prev_comm=idle prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=A next_pid=11 next_prio=120
A-11 [000] d.h1. 100.000100: irq_handler_entry: irq=7 name=nic
A-11 [000] d.h1. 100.000150: irq_handler_exit: irq=7 ret=handled
A-11 [000] d..2 100.000900: sched_switch: prev_comm=A prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=idle next_pid=0 next_prio=120
<idle>-0 [000] d.h1. 100.001000: irq_handler_entry: irq=7 name=nic
<idle>-0 [000] d.h1. 100.001020: irq_handler_exit: irq=7 ret=handled
";

#[test]
fn interrupt_time_is_a_column_of_its_own_and_run_time_keeps_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("irq.txt");
    std::fs::write(&file, INTERRUPTED).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let tasks = json(&["tasks", "--json", file]);
    let row = &tasks["tasks"][0];
    assert_eq!((&row["run_ns"], &row["interrupts_ns"]), (&900_000.into(), &50_000.into()));
    let text = text(&["tasks", file]);
    assert!(text.contains("in interrupts") && text.contains(" 50.0 µs "), "{text}");
    let without = trace(dir.path(), 5);
    let tasks = json(&["tasks", "--json", &without]);
    assert!(tasks["tasks"][0]["interrupts_ns"].is_null(), "not recorded is not zero");
}

#[test]
fn ticks_are_compared_with_ticks_and_not_with_nanoseconds() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let nanos = trace(dir.path(), 1);
    let ticks = dir.path().join("ticks.dat");
    let plan = Plan { cpus: 4, events: 2_000, ..Plan::default() };
    let header = Header { clock: "x86-tsc".into(), ..Header::default() };
    Synthetic::new(plan).write(&ticks, header).expect("a temporary file can be written");
    let ticks = ticks.to_str().expect("UTF-8");
    for pair in [[ticks, &nanos], [&nanos, ticks]] {
        let output = run(&["compare", pair[0], pair[1]]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
        assert!(said.contains("ticks.dat: the clock x86-tsc counts ticks"), "{said}");
    }
    text(&["compare", ticks, ticks]);
}

#[test]
fn requests_of_a_load_that_cross_tasks_are_walked_back_and_compared() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("app.dat");
    let file = file.to_str().expect("UTF-8");
    let mut load = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    load.args(["load", "app", "--on", "sim:cpus=2", "--duration", "200ms", "--trace", file]);
    let output = load.output().expect("the built command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let why = json(&["why", "--json", "--mark", "request", file]);
    assert!(why["requests"].as_u64() >= Some(20), "{}", why["requests"]);
    for group in ["slowest", "middle"] {
        let parts = why[group]["parts"].as_array().expect("parts").iter();
        let sum: f64 = parts.filter_map(|part| part["time_ns"].as_f64()).sum();
        let length = why[group]["length_ns"].as_f64().expect("a length");
        assert!((sum - length).abs() < 1e-3 * length, "{group}: {sum} of {length}");
    }
    let one = &why["request"];
    assert_eq!(one["begun_by"]["comm"], "app-producer");
    assert_eq!(one["ended_by"]["comm"], "app-consumer");
    let spent = one["entries"].as_array().expect("entries");
    assert_eq!(spent[0]["start_ns"], one["start_ns"]);
    assert_eq!(spent[spent.len() - 1]["end_ns"], one["end_ns"]);
    let text = text(&["why", "--mark", "request", file]);
    assert!(text.contains("slowest 1 %") && text.contains("middle 10 %"), "{text}");
    let few = text_of_few(file);
    assert!(few.contains("needs at least 20 requests"), "{few}");
    let of = |comm: &str| json(&["why", "--json", "--mark", "request", "--comm", comm, file]);
    assert_eq!(of("app-consumer")["requests"], why["requests"], "it ends each of them");
    let other = run(&["why", "--mark", "request", "--regex", "^swapper|^schedlab$", file]);
    assert!(!other.status.success(), "nobody else begins or ends a request");
    let first = String::from_utf8_lossy(&run(&["why", file]).stdout).into_owned();
    assert!(first.starts_with("The slowest of") && first.contains("'request' took"), "{first}");
    let absent = run(&["why", "--mark", "nothing", file]);
    let said = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert!(said.contains("no mark is called 'nothing'") && said.contains("request"), "{said}");
}

/// The same of a part that holds few requests: as long as the shortest is.
fn text_of_few(file: &str) -> String {
    let count = json(&["why", "--json", "--mark", "request", file])["requests"].to_string();
    let whole = json(&["why", "--json", "--mark", "request", "--nth", &count, file]);
    let end = whole["request"]["end_ns"].as_u64().expect("a time") + 1;
    let start = whole["request"]["start_ns"].as_u64().expect("a time");
    text(&[
        "why",
        "--mark",
        "request",
        "--from",
        &format!("{start}ns"),
        "--to",
        &format!("{end}ns"),
        file,
    ])
}

#[test]
fn why_divides_an_interval_without_rest_and_names_a_pid_that_is_not_there() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = trace(dir.path(), 5);
    let tasks = json(&["tasks", "--json", &file]);
    let pid = tasks["tasks"][3]["pid"].to_string();
    let why = json(&["why", "--json", "--pid", &pid, "--from", "2ms", "--to", "9ms", &file]);
    has(&why["entries"][0], &["start_ns", "end_ns", "state", "cpu", "pid", "comm", "depth"]);
    let rows = |key: &str| why[key].as_array().expect("an array").clone();
    let mut told = 2_000_000;
    for entry in rows("entries") {
        assert_eq!(entry["start_ns"].as_u64(), Some(told), "no gap and no overlap");
        told = entry["end_ns"].as_u64().expect("a time");
    }
    assert_eq!(told, 9_000_000);
    let time: u64 = rows("sums").iter().filter_map(|sum| sum["time_ns"].as_u64()).sum();
    let share: f64 = rows("sums").iter().filter_map(|sum| sum["share"].as_f64()).sum();
    assert!(time == 7_000_000 && (share - 1.0).abs() < 1e-9, "{time} ns, {share}");
    for sum in rows("sums") {
        let waited = sum["state"] == "runnable" && !sum["cpu"].is_null();
        assert_eq!(sum["ran_instead"].is_array(), waited, "{sum}");
        let instead = sum["ran_instead"].as_array().into_iter().flatten();
        let times = instead.map(|one| &one["run_ns"]).chain([&sum["idle_ns"], &sum["unknown_ns"]]);
        let all: u64 = times.filter_map(Value::as_u64).sum();
        assert_eq!(all, if waited { sum["time_ns"].as_u64().unwrap_or(0) } else { 0 }, "{sum}");
    }
    let ran: u64 = rows("entries")
        .iter()
        .filter(|entry| entry["depth"] == 0 && entry["state"] == "runs")
        .filter_map(|entry| Some(entry["end_ns"].as_u64()? - entry["start_ns"].as_u64()?))
        .sum();
    let of = json(&["tasks", "--json", "--pid", &pid, "--from", "2ms", "--to", "9ms", &file]);
    assert_eq!(of["tasks"][0]["run_ns"].as_u64(), Some(ran), "its own running");
    let text = text(&["why", "--pid", &pid, "--from", "2ms", "--to", "9ms", &file]);
    assert!(text.contains("a waker is evidence, not proof"), "{text}");
    let nobody = run(&["why", "--pid", "4000000", &file]);
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(!nobody.status.success() && said.contains("no task has --pid 4000000"), "{said}");
}
