//! `schedlab why`: the fault is in the first lines, on traces whose fault is known.

use std::fmt::Write as _;
use std::process::Command;

/// Two CPUs. `victim` is woken at 1 ms and never runs; `other` has many waits of 2 ms behind `hog`.
pub(crate) const STARVED: &str = "\
# tracer: nop
#
             hog-31      [000] d..2. 100.000000: sched_switch: prev_comm=other prev_pid=32 prev_prio=120 prev_state=S ==> next_comm=hog next_pid=31 next_prio=120
          waker-33      [001] d..2. 100.001000: sched_waking: comm=victim pid=34 prio=120 target_cpu=000
          waker-33      [001] d..3. 100.001001: sched_wakeup: comm=victim pid=34 prio=120 target_cpu=000
             hog-31      [000] d..2. 100.101000: sched_waking: comm=other pid=32 prio=120 target_cpu=000
             hog-31      [000] d..3. 100.101001: sched_wakeup: comm=other pid=32 prio=120 target_cpu=000
             hog-31      [000] d..2. 100.103000: sched_switch: prev_comm=hog prev_pid=31 prev_prio=120 prev_state=R ==> next_comm=other next_pid=32 next_prio=120
           other-32      [000] d..2. 100.104000: sched_switch: prev_comm=other prev_pid=32 prev_prio=120 prev_state=S ==> next_comm=hog next_pid=31 next_prio=120
";

fn schedlab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_schedlab"))
}

/// The answer's text in one line, and its notes.
fn asked(trace: &str, options: &[&str]) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.txt"), trace).unwrap();
    let mut command = schedlab();
    let output = command.args(["why", "x.txt"]).args(options).current_dir(dir.path()).output();
    let output = output.expect("the built command starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let longest = text(&output.stdout).lines().take(8).map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{}", text(&output.stdout));
    let words: Vec<String> = text(&output.stdout).split_whitespace().map(str::to_owned).collect();
    (words.join(" "), text(&output.stderr))
}

#[test]
fn a_task_that_starves_comes_first_though_its_wait_never_ended() {
    let (text, _) = asked(STARVED, &[]);
    let first = "victim (34) still waits after at least 103 ms, 100 % of it behind hog (31).";
    assert!(text.starts_with(first), "{text}");
}

#[test]
fn a_task_beside_an_idle_cpu_is_held_back_and_nobody_is_blamed() {
    let mut trace = String::from("# tracer: nop\n#\n");
    let switch = |at: u64, from: &str, to: &str| {
        let name =
            |of: &str| of.rsplit_once('-').map(|(name, pid)| (name.to_owned(), pid.to_owned()));
        let [(prev, prev_pid), (next, next_pid)] = [from, to].map(|of| name(of).expect("a pid"));
        let time = format!("{}.{:06}", 100 + at / 1_000_000, at % 1_000_000);
        format!(
            "  {from}  [000] d..2. {time}: sched_switch: prev_comm={prev} prev_pid={prev_pid} prev_prio=120 \
             prev_state=R ==> next_comm={next} next_pid={next_pid} next_prio=120\n"
        )
    };
    for period in 0..5 {
        let at = period * 100_000;
        let _ = write!(trace, "{}", switch(at, "swapper/0-0", "t-11"));
        let _ = write!(trace, "{}", switch(at + 20_000, "t-11", "swapper/0-0"));
    }
    let (text, notes) = asked(&trace, &[]);
    assert!(
        text.starts_with("t (11) waited 320 ms for a CPU, 100 % of it beside an idle CPU"),
        "{text}"
    );
    assert!(!text.contains("On its CPU meanwhile"), "{text}");
    assert!(notes.contains("control groups"), "{notes}");
}

#[test]
fn a_name_and_a_group_that_nobody_has_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.txt"), STARVED).unwrap();
    for options in [["--comm", "nobody"], ["--cgroup", "/x"]] {
        let mut command = schedlab();
        let output = command.args(["why", "x.txt"]).args(options).current_dir(dir.path()).output();
        let output = output.expect("the built command starts");
        assert!(!output.status.success(), "{options:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(options[1]), "{options:?}");
    }
}

#[test]
fn the_rows_of_blame_add_up_to_the_run_delay() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.txt"), STARVED).unwrap();
    let mut command = schedlab();
    let output =
        command.args(["why", "x.txt", "--blame", "--json"]).current_dir(dir.path()).output();
    let told: serde_json::Value = serde_json::from_slice(&output.unwrap().stdout).expect("JSON");
    let rows: Vec<(&str, &str, u64)> = told["blame"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            let word = |key: &str| row[key].as_str().expect("a name");
            (word("waited"), word("by"), row["time_ns"].as_u64().expect("a time"))
        })
        .collect();
    // The wakeup of each takes a microsecond to choose the CPU.
    let expected = [
        ("victim", "hog", 101_999_000),
        ("victim", "other", 1_000_000),
        ("victim", "(handing over)", 1_000),
        ("other", "hog", 1_999_000),
        ("other", "(handing over)", 1_000),
        ("hog", "other", 1_000_000),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn blame_is_told_by_task_and_processes_need_a_recording_that_knows_them() {
    let (text, _) = asked(STARVED, &["--blame", "task"]);
    assert!(text.contains("victim (34) hog (31) 102 ms"), "{text}");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.txt"), STARVED).unwrap();
    let mut command = schedlab();
    command.args(["why", "x.txt", "--blame", "process"]).current_dir(dir.path());
    let output = command.output().expect("the built command starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("which threads form a process"));
}

#[test]
fn a_wait_that_has_not_ended_is_the_first_row_of_latencies() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.txt"), STARVED).unwrap();
    let run = |options: &[&str]| {
        let mut command = schedlab();
        command.args(["trace", "latency", "x.txt"]).args(options).current_dir(dir.path());
        String::from_utf8(command.output().expect("the built command starts").stdout).unwrap()
    };
    let told: serde_json::Value = serde_json::from_str(&run(&["--json", "--worst", "1"])).unwrap();
    let (first, worst) = (&told["tasks"][0], &told["worst"][0]);
    assert_eq!((&first["comm"], &worst["comm"]), (&"victim".into(), &"victim".into()));
    assert_eq!(first["run_delay"]["latency_ns_max"], 103_000_000);
    assert_eq!(first["run_delay"]["latency_ns_max_bound"], "at_least");
    assert_eq!(first["run_delay"]["count"], 0);
    assert_eq!((&worst["is_open"], &told["total"]["unfinished"]), (&true.into(), &1.into()));
    let text = run(&["--worst", "1", "--wide"]);
    assert!(text.contains("≥ 103 ms") && text.contains("and still waits"), "{text}");
    let said = "1 wait was not seen to end; the longest: victim (34) waits for at least 103 ms";
    assert!(text.contains(said), "{text}");
}

#[test]
fn a_calm_trace_is_called_calm_and_one_without_switches_unknown() {
    let calm = "\
# tracer: nop
#
               a-31      [000] d..2. 100.000000: sched_switch: prev_comm=b prev_pid=32 prev_prio=120 prev_state=S ==> next_comm=a next_pid=31 next_prio=120
               a-31      [000] d..2. 100.500000: sched_waking: comm=b pid=32 prio=120 target_cpu=000
               a-31      [000] d..3. 100.500001: sched_wakeup: comm=b pid=32 prio=120 target_cpu=000
               a-31      [000] d..2. 100.500100: sched_switch: prev_comm=a prev_pid=31 prev_prio=120 prev_state=S ==> next_comm=b next_pid=32 next_prio=120
               b-32      [000] d..2. 101.000000: sched_switch: prev_comm=b prev_pid=32 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
";
    let (text, _) = asked(calm, &[]);
    assert!(
        text.starts_with("Tasks hardly waited: 100 µs in sum, at most 100 µs at once"),
        "{text}"
    );
    let wakeups: Vec<&str> = calm.lines().filter(|line| !line.contains("sched_switch")).collect();
    let (text, _) = asked(&(wakeups.join("\n") + "\n"), &[]);
    assert!(text.starts_with("no figures"), "{text}");
}

/// A trace with a known cause, of `tests/waits`; two more are in `schedlab-trace` (`tests/partial`).
fn known(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/waits").join(name);
    std::fs::read_to_string(path).expect("the trace is there")
}

/// The JSON of another answer about a trace with a known cause.
fn told(name: &str, question: &[&str]) -> serde_json::Value {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.txt"), known(name)).unwrap();
    let mut command = schedlab();
    command.arg("trace").args(question).args(["x.txt", "--json"]).current_dir(dir.path());
    let output = command.output().expect("the built command starts");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn each_trace_of_a_known_wait_has_its_cause_in_the_first_lines() {
    for (name, first) in [
        // 5 ms behind its waker while CPU 1 is free.
        (
            "A.txt",
            "t11 (11) waited 5.00 ms for a CPU, 100 % of it while another CPU was free, behind t10 (10).",
        ),
        // 2 ms behind t63, which displaced it.
        ("I.txt", "t62 (62) waited 2.00 ms for a CPU, 100 % of it behind t63 (63)."),
        // Both waited while three CPUs were free: t12, 7 ms.
        (
            "J.txt",
            "t12 (12) waited 7.00 ms for a CPU, 100 % of it while another CPU was free, behind others, mostly t10 (10, 5.00 ms).",
        ),
        // Open at the end, and longer than each of the 98 ms of t12.
        ("N.txt", "t11 (11) still waits after at least"),
        // A quota that the text does not tell: 80 ms of each 100.
        ("W.txt", "t11 (11) waited 400 ms for a CPU, 100 % of it beside an idle CPU"),
        (
            "R1.txt",
            "t11 (11) waited 3.00 ms for a CPU, 100 % of it while another CPU was free, behind t10 (10).",
        ),
        ("R2.txt", "t11 (11) waited 4.00 ms for a CPU, 75 % of it while another CPU was free"),
        (
            "R3.txt",
            "t11 (11) waited 6.00 ms for a CPU, 67 % of it while another CPU was free, behind t10 (10).",
        ),
    ] {
        let (text, _) = asked(&known(name), &[]);
        assert!(text.starts_with(first), "{name}: {text}");
    }
}

#[test]
fn a_cpu_that_went_offline_is_named_and_the_command_of_a_remedy_works() {
    let (text, _) = asked(&known("S.txt"), &[]);
    let place = text.find("CPU 1 went offline").unwrap_or_else(|| panic!("not named: {text}"));
    assert!(place < text.find("pid comm").unwrap(), "{text}");
    let (text, _) = asked(&known("N.txt"), &[]);
    let command = text.split('`').find_map(|part| part.strip_prefix("schedlab replay x.txt "));
    let command = command.unwrap_or_else(|| panic!("no replay: {text}"));
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.txt"), known("N.txt")).unwrap();
    let mut replay = schedlab();
    replay.arg("replay").arg("x.txt").args(command.split(' ')).current_dir(dir.path());
    let output = replay.output().expect("the built command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn lost_time_and_its_first_decision_are_those_of_the_known_waits() {
    let one = |name: &str| {
        let all = self::told(name, &["conservation"]);
        let worst = &all["episodes"][0];
        let word = |key: &str| worst[key].as_str().unwrap_or_default().to_owned();
        (all["lost"]["cpu_ns"].as_u64().unwrap(), word("cause"), word("ended"))
    };
    let told = |ns, cause: &str, ended: &str| (ns, cause.to_owned(), ended.to_owned());
    assert_eq!(one("A.txt"), told(5_000_000, "woken_on_wakers_cpu", "ran"));
    // Two waiters for 5 ms, then one for 2 ms.
    assert_eq!(one("J.txt").0, 12_000_000, "a CPU for each waiter, not three");
    assert_eq!(one("R1.txt"), told(3_000_000, "forked", "ran"));
    assert_eq!(one("R2.txt"), told(3_000_000, "balanced", "ran"));
    assert_eq!(one("R3.txt"), told(4_000_000, "not_pulled", "ran"));
}

#[test]
fn a_pid_that_is_used_again_is_a_second_task() {
    let tasks = told("V.txt", &["tasks", "--pid", "40"]);
    let mut rows: Vec<(String, u64)> = tasks["tasks"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| (row["comm"].as_str().unwrap().to_owned(), row["run_ns"].as_u64().unwrap()))
        .collect();
    rows.sort();
    assert_eq!(rows, [("new".to_owned(), 3_000_000), ("t40".to_owned(), 1_000_000)]);
}
