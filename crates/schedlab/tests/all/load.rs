//! `schedlab load` as a user types it.

use crate::patience::eventually;
use std::process::{Command, Output};

fn load(line: &str) -> Output {
    crate::machine_lock::share_for(["load"].into_iter().chain(line.split_whitespace()));
    Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .arg("load")
        .args(line.split_whitespace())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn text_of(output: &Output) -> String {
    text(&output.stderr)
}

fn json(line: &str) -> serde_json::Value {
    let output = load(line);
    assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn hackbench_json_has_the_contract_keys() {
    let value = json("hackbench -g 1 -f 3 -l 20 --json");
    assert_eq!((value["tasks"].as_u64(), value["messages"].as_u64()), (Some(6), Some(180)));
    for key in ["time_s", "switches_voluntary", "switches_involuntary"] {
        assert_eq!(value[key].as_array().map(Vec::len), Some(1), "{key}: {value}");
    }
    assert_eq!(value["schema"], "schedlab/load/1");
    assert!(value["machine"]["kernel"]["release"].is_string());
    let series = value["series"].as_array().unwrap();
    assert_eq!(series[0]["histogram"]["count"], 180);
}

#[test]
fn intervals_are_disjoint_and_their_counts_and_samples_add_up() {
    // A machine that kept the conductor waiting makes one interval of two.
    let value = eventually(|| {
        let value = json("pingpong --duration 2500ms --interval 1s --json");
        let many = value["intervals"].as_array().unwrap().len() >= 3;
        if many { Ok(value) } else { Err(value["intervals"].to_string()) }
    });
    let intervals = value["intervals"].as_array().unwrap();
    let sum = |of: &dyn Fn(&serde_json::Value) -> Option<u64>| -> u64 {
        intervals.iter().map(|interval| of(interval).unwrap()).sum()
    };
    let trips = sum(&|i| i["counts"]["round_trips"].as_u64());
    assert!(trips > 0);
    assert_eq!(Some(trips), value["counts"]["round_trips"].as_u64());
    assert_eq!(Some(sum(&|i| i["covers_ns"].as_u64())), value["covers_ns"].as_u64());
    let samples = sum(&|i| i["series"][0]["histogram"]["count"].as_u64());
    assert_eq!(Some(samples), value["series"][0]["histogram"]["count"].as_u64());
}

#[test]
fn a_request_is_calibrated_and_checked_under_load() {
    // On a machine that stalls in each of the search's runs no work is short enough, and that is said.
    let value: serde_json::Value = eventually(|| {
        let output = load("schbench -t 1 -r 1 --calibrate-to 60ms --json");
        let said = text_of(&output);
        if output.status.success() {
            return Ok(serde_json::from_slice(&output.stdout).unwrap());
        }
        assert!(said.contains("even little work took longer"), "{said}");
        Err(said)
    });
    let [alone, loaded, drift] = ["request_latency_ns_p99", "under_load_ns_p99", "drift"]
        .map(|key| value[key].as_f64().unwrap());
    assert!(alone > 0.0 && alone <= 60e6, "{value}");
    assert!((drift - (loaded / alone - 1.0)).abs() < 1e-9, "{value}");
    assert!(value["operations"].as_u64() > Some(0), "{value}");
    assert!(value["cache_footprint_bytes"].as_u64() > Some(0), "{value}");
}

#[test]
fn a_calibration_on_a_busy_machine_says_so() {
    crate::machine_lock::share();
    // As many tasks as CPUs that never sleep, by others.
    let cpus = std::thread::available_parallelism().unwrap().to_string();
    let mut others = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["load", "cpu", "--duration", "600s", "--tasks", &cpus])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let line = "schbench -t 1 -r 1 --calibrate-to 400ms";
    eventually(|| {
        let output = load(&format!("{line} --json"));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let warnings = value["warnings"].as_array().cloned().unwrap_or_default();
        let busy = |during: &str| {
            warnings.iter().any(|w| w["code"] == "others-ran" && w["during"] == during)
        };
        let both = busy("calibrating") && busy("under load");
        if both { Ok(()) } else { Err(format!("{value} {}", text_of(&output))) }
    });
    let told = eventually(|| {
        let told = text(&load(line).stdout);
        let busy = told.contains("\n    warning: calibrating: other processes used ");
        if busy { Ok(told) } else { Err(told) }
    });
    others.kill().unwrap();
    others.wait().unwrap();
    assert!(told.starts_with("--operations "), "{told}");
}

#[test]
fn every_workload_measures_something() {
    for (line, figure) in [
        ("pingpong --duration 200ms", "round_trips"),
        ("pingpong --via futex --rounds 100", "round_trips"),
        ("pingpong --via eventfd --rounds 100 --processes", "round_trips"),
        ("pingpong --via socket --rounds 100", "round_trips"),
        ("barrier --tasks 3 --work 100us --rounds 20 --imbalance 50", "rounds"),
        ("cpu --duration 200ms", "loops"),
        ("threads --duration 200ms --tasks 3", "loops"),
        ("processes --duration 200ms --tasks 3", "loops"),
        ("mixed --duration 200ms --sleep 1ms --work 100us", "loops"),
        ("app --duration 300ms --work 10us", "items"),
        ("udp --duration 200ms", "datagrams"),
        ("stream --duration 300ms --array 1MiB", "bytes"),
        ("hackbench -g 1 -f 2 --duration 200ms", "messages"),
        ("schbench -t 1 -r 1 -n 0", "requests"),
    ] {
        // A task that got no CPU within the time has done nothing, and that is measured too.
        eventually(|| {
            let value = json(&format!("{line} --json"));
            let found = &value[figure];
            let number = found.as_f64().or_else(|| found[0].as_f64());
            let number = number.unwrap_or_else(|| panic!("{line}: {found}"));
            if number > 0.0 { Ok(()) } else { Err(format!("{line}: {found}")) }
        });
    }
}

/// The words are given one by one: a workload beside is one of them.
fn words(words: &[&str]) -> Output {
    crate::machine_lock::share_for(["load"].into_iter().chain(words.iter().copied()));
    Command::new(env!("CARGO_BIN_EXE_schedlab")).arg("load").args(words).output().unwrap()
}

#[test]
fn workloads_side_by_side_have_figures_of_their_own() {
    let value = eventually(|| {
        let output = words(&[
            "cpu",
            "--duration",
            "400ms",
            "--beside",
            "noise: hackbench -g 1 -f 2 --duration 600s",
            "--beside=mixed --tasks 2",
            "--json",
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let done =
            [&value["loops"][0], &value["beside"][0]["messages_per_s"][0]].map(|f| f.as_f64());
        // Both had the CPU for a while.
        let both =
            done.map(|figure| figure.unwrap_or_else(|| panic!("{value}"))).iter().all(|&f| f > 0.0);
        if both { Ok(value) } else { Err(format!("{done:?}")) }
    });
    assert_eq!((value["tasks"].as_u64(), value["workload"].as_str()), (Some(1), Some("cpu")));
    let beside = value["beside"].as_array().unwrap();
    let shown: Vec<_> = beside
        .iter()
        .map(|one| (one["label"].as_str().unwrap(), one["tasks"].as_u64().unwrap()))
        .collect();
    assert_eq!(shown, [("noise", 4), ("mixed", 2)]);
    // It would have gone on for ten minutes: the workload's end is the end of all.
    assert!(beside[0]["time_s"][0].as_f64().unwrap() < 300.0);
    assert!(beside[1]["by_role"].as_array().unwrap().iter().all(|f| f["of"] == "task"));
    assert_eq!(
        value["by_role"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|f| f["of"] != "task" && !f["of"].as_str().unwrap().starts_with("machine"))
            .count(),
        0
    );
    for (line, part) in [("frob", "frob"), ("cpu --tasks 0", "use 1 to"), ("a b: cpu", "'a'")] {
        let output = words(&["cpu", "--beside", line]);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(text_of(&output).contains(part), "{line}: {}", text_of(&output));
    }
    let twice = words(&["cpu", "--beside", "udp", "--beside", "udp"]);
    assert!(text_of(&twice).contains("two workloads have the label 'udp'"), "{}", text_of(&twice));
}

#[test]
fn repeats_tell_what_a_workload_beside_changes() {
    let output = words(&[
        "pingpong",
        "--rounds",
        "200",
        "--beside",
        "cpu",
        "--against",
        "alone",
        "--repeat",
        "4",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["beside"][0]["time_s"].as_array().map(Vec::len), Some(4), "{value}");
    assert!(value["against"]["spec"].get("beside").is_none());
    assert_eq!(value["against"]["figures"]["time_s"].as_array().map(Vec::len), Some(4));
}

#[test]
fn causes_are_one_table_with_locks_and_without() {
    let line = "schbench -m 1 -t 1 -r 1 -n 1 -F 64 --causes rps=50,1000000";
    let value = json(&format!("{line} --json"));
    let rows = value["rows"].as_array().unwrap();
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (row["value"].as_str().unwrap(), row["locks"].as_bool().unwrap()))
        .collect();
    assert_eq!(shown, [("50", true), ("50", false), ("1000000", true), ("1000000", false)]);
    for row in rows {
        for key in ["requests_per_s", "cpus_idle", "switches_involuntary_per_s", "queue_depth_p99"]
        {
            assert_eq!(row[key].as_array().map(Vec::len), Some(1), "{key}: {row}");
        }
    }
    // A million requests a second of one worker are more than it can do, and that is said.
    assert_eq!(rows[2]["overload"], true);
    let csv = text(&load(&format!("{line} --csv")).stdout);
    assert_eq!(csv.lines().count(), 5, "{csv}");
    assert!(csv.starts_with("rps,locks,run,overload,requests_per_s,"));
    assert!(text(&load(line).stdout).contains("overload: less was done than offered"));
    for (line, part) in [
        ("cpu --causes tasks=1", "only schbench"),
        ("schbench --causes threads", "OPTION=VALUE"),
        ("schbench --causes frob=1", "frob"),
    ] {
        let output = load(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(text_of(&output).contains(part), "{line}: {}", text_of(&output));
    }
}

/// How many marks a load puts into its recording; `None` where nothing may be recorded.
fn marks_of(line: &str, folder: &std::path::Path) -> Option<u64> {
    let file = folder.join("marks.dat");
    let value = json(&format!("{line} --trace {} --json", file.display()));
    if value["warnings"].as_array().unwrap().iter().any(|w| w["code"] == "not-recorded") {
        return None;
    }
    let info = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["trace", "info", "--json"])
        .arg(&file)
        .output()
        .unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    let marks = info["events"].as_object().unwrap().iter().find(|(name, _)| name.contains("mark"));
    Some(marks.and_then(|(_, count)| count.as_u64()).unwrap_or(0))
}

#[test]
fn what_each_workload_does_lies_on_the_recorded_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("two.json");
    let text = r#"{"tasks": {"t": {"loop": 5, "phases": {"a": {"run": 10}, "b": {"sleep": 10}}}}}"#;
    std::fs::write(&program, text).unwrap();
    // A begin and an end for each of the loops of both phases; a begin and an end for the computing of both
    // tasks in each round, and a point for the round; a point for each 1024 round trips.
    let exact = [
        (format!("rt-app {}", program.display()), 5 * 2 * 2),
        ("barrier --tasks 2 --rounds 7 --work 10us".to_owned(), 7 * 2 * 2 + 7),
        ("pingpong --rounds 2048".to_owned(), 2),
        // A begin and an end for each round of each sender, and none beside upstream's work.
        ("hackbench -g 1 -f 3 -l 5".to_owned(), 3 * 5 * 2),
        ("hackbench -g 1 -f 3 -l 5 --compat upstream".to_owned(), 0),
        ("jobs --shape fork-join --nodes 20 --time 10us".to_owned(), 20 * 2),
    ];
    for (line, expected) in exact {
        match marks_of(&line, folder.path()) {
            None => return missing!("the right to record; not checked: marks of loads"),
            found => assert_eq!(found, Some(expected), "{line}"),
        }
    }
    for line in [
        "app --duration 300ms --work 10us",
        "cpu --duration 200ms",
        "mixed --duration 200ms",
        "stream --duration 300ms --array 1MiB",
        "udp --duration 300ms",
        "schbench -t 1 -r 1 -n 1",
    ] {
        eventually(|| match marks_of(line, folder.path()) {
            Some(count) if count > 1 => Ok(()),
            few => Err(format!("{line}: {few:?} marks")),
        });
    }
}

#[test]
fn rounds_are_counted_exactly() {
    let value = json("pingpong --rounds 57 --json");
    assert_eq!(value["round_trips"][0], 57.0);
    let value = json("barrier --tasks 2 --work 10us --rounds 31 --json");
    assert_eq!(value["rounds"][0], 31.0);
}

#[test]
fn help_tells_every_option_and_the_list_every_workload() {
    let list = text(&load("").stdout);
    for workload in schedlab_workload::workloads::CATALOGUE {
        assert!(list.contains(workload.name));
        let help = text(&load(&format!("{} --help", workload.name)).stdout);
        for option in workload.options {
            assert!(
                help.contains(&format!("--{}", option.name)),
                "{} {}",
                workload.name,
                option.name
            );
        }
    }
}

#[test]
fn wrong_usage_is_told_at_once_with_exit_code_2() {
    for (line, part) in [
        ("frobnicate", "unknown workload 'frobnicate'"),
        ("hackbench --groups 0", "use 1 to"),
        ("hackbench --group 3 --frob", "unrecognized option"),
        ("hackbench extra", "unexpected operand"),
        ("hackbench --cpus 4000", "CPU 4000 is not available"),
        ("hackbench --policy fast", "unknown policy 'fast'"),
        ("hackbench --nice sender=50", "use -20 to 19"),
        ("hackbench --nice cook=5", "unknown role 'cook'"),
        ("hackbench --slice 1ns", "use 100us to 100ms"),
        ("hackbench --against groups=0", "use 1 to"),
    ] {
        let output = load(line);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(part), "{line}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn repeats_have_intervals_and_a_second_setting_has_a_verdict() {
    let line = "hackbench -g 1 -f 2 -l 20 --repeat 4 --against pipe --json";
    let value = json(line);
    assert_eq!(value["time_s"].as_array().map(Vec::len), Some(4));
    assert!(value["intervals95"]["time_s"]["ci"].is_array(), "{value}");
    // Counts of four runs of which some are zero have a Student's t that reaches below.
    for (name, of) in value["intervals95"].as_object().unwrap() {
        let low = of["ci"][0].as_f64();
        assert!(low.is_none_or(|low| low >= 0.0), "{name}: {of}");
    }
    assert_eq!(value["against"]["figures"]["time_s"].as_array().map(Vec::len), Some(4));
    let verdicts = value["comparisons"].as_array().unwrap();
    assert!(
        verdicts.iter().any(|c| c["primary"][0]["whole"]["metric"]["name"] == "time_s"),
        "{value}"
    );
    // Two runs bound nothing, and that is said rather than an interval.
    let few = json("hackbench -g 1 -f 2 -l 20 --repeat 2 --json");
    let told = few["intervals95"]["time_s"]["none"].as_str().unwrap_or_default();
    assert!(told.contains("too few"), "{few}");
}

/// How often all tasks of a load called futex, as `perf stat` counts it; `None` without the right or the tool.
fn futex_calls(line: &str) -> Option<u64> {
    crate::machine_lock::share();
    let counted = Command::new("perf")
        .args(["stat", "-x", ",", "-e", "syscalls:sys_enter_futex", "--"])
        .args([env!("CARGO_BIN_EXE_schedlab"), "load"])
        .args(line.split_whitespace())
        .output()
        .ok()?;
    let told = text(&counted.stderr);
    let count = told.lines().find(|line| line.contains("sys_enter_futex"))?.split(',').next()?;
    count.parse().ok()
}

#[test]
fn the_measured_path_takes_no_lock() {
    // Threads of one process that record all the time, more of them than CPUs, so that each is preempted
    // in the middle of it: had they a lock, others would soon wait for it, which is a futex call.
    let of =
        |line: &str| (futex_calls(&format!("{line} 100")), futex_calls(&format!("{line} 4000")));
    let line = "pingpong --via futex --rounds";
    let (Some(few), Some(many)) = of(line) else {
        missing!("perf and the right to count: no locks were looked for");
        return;
    };
    assert!(many > few + 2_000, "futex calls are not counted: {few} and {many}");
    for line in ["hackbench -T -p -g 2 -f 4 -l", "pingpong --via pipe --pairs 4 --rounds"] {
        let (Some(few), Some(many)) = of(line) else { panic!("{line}: it was counted before") };
        // The conductor waits for one once a second, and for each task at its end.
        assert!(many < few + 300, "{line}: {few} futex calls became {many}");
    }
}

#[test]
fn repeats_hold_the_samples_of_all_runs_in_one_histogram() {
    let value = json("hackbench -g 1 -f 2 -l 20 --repeat 3 --against pipe --json");
    for side in [&value, &value["against"]] {
        let series = &side["series"][0];
        assert_eq!(series["metric"], "message_latency_ns");
        // Each run passes 1 x 2 x 2 x 20 messages.
        assert_eq!(series["histogram"]["count"], 3 * 80, "{series}");
        let buckets = series["histogram"]["buckets"].as_array().unwrap();
        let held: u64 = buckets.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum();
        assert_eq!(held, 240);
        assert!(series["p99"].is_u64());
    }
}

#[test]
fn a_second_setting_may_be_a_knob_or_a_command_that_runs_meanwhile() {
    let value = json("pingpong --rounds 50 --repeat 4 --against knob:nice=5 --json");
    assert_eq!(value["against"]["spec"]["settings"][0]["knob"], "nice");
    assert_eq!(value["against"]["figures"]["time_s"].as_array().map(Vec::len), Some(4));
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = format!("run:echo $$ >> {}; exec sleep 1000", log.display());
    let output =
        words(&["pingpong", "--rounds", "50", "--repeat", "4", "--against", &command, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for figures in [&value, &value["against"]["figures"]] {
        assert_eq!(figures["time_s"].as_array().map(Vec::len), Some(4), "{value}");
    }
    let verdict = &value["comparisons"][0]["primary"][0]["whole"];
    assert_eq!(verdict["metric"]["name"], "round_trip_ns_p50", "{value}");
    // It ran for the second setting alone, and each time was ended: before its first words, where it was kept
    // from the CPU for as long as the run took.
    let processes = std::fs::read_to_string(&log).unwrap();
    assert!((1..=4).contains(&processes.lines().count()), "{processes}");
    for process in processes.lines() {
        assert!(!std::path::Path::new("/proc").join(process).exists(), "{process} was left");
    }
    let empty = words(&["pingpong", "--against", "run: "]);
    assert_eq!(empty.status.code(), Some(2), "{}", text_of(&empty));
}

#[test]
fn doubts_stand_beside_what_they_concern() {
    let line = "schbench -m 1 -t 1 -r 1 -n 1 -F 64 -R 100000";
    let told = text(&load(line).stdout);
    let lines: Vec<&str> = told.lines().collect();
    let at = lines.iter().position(|line| line.contains("were offered")).expect(&told);
    assert!(lines[at].starts_with("    warning: "), "{told}");
    // Between the rate and its doubt may be other doubts of the rate, but no other figure.
    let figure = lines[..at].iter().rev().find(|line| !line.contains("warning:")).unwrap();
    assert!(figure.trim_start().starts_with("requests a second"), "{told}");
    let value = json(&format!("{line} --json"));
    let warnings = value["warnings"].as_array().unwrap();
    let overload = warnings.iter().find(|w| w["code"] == "overload").unwrap();
    assert!(overload["concerns"].as_array().unwrap().contains(&"requests_per_s".into()));
    let short = text(&load("pingpong --rounds 10").stdout);
    let head: Vec<&str> = short.lines().take(2).collect();
    assert!(
        head[0].starts_with("pingpong: ") && short.contains("    warning: the run measured only "),
        "{short}"
    );
    assert!(head[1].starts_with("    warning: "), "{short}");
}

#[test]
fn the_machine_is_chosen_by_name_and_one_that_is_not_there_is_refused() {
    let here = load("cpu --tasks 1 --duration 50ms --on host --json");
    assert_eq!(here.status.code(), Some(0), "{}", text_of(&here));
    let moon = load("cpu --on moon:cpus=2");
    assert_eq!(moon.status.code(), Some(1));
    assert!(text_of(&moon).contains("cannot run on 'moon:cpus=2': use host"), "{}", text_of(&moon));
    let wrong = load("cpu --on moon:");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text_of(&wrong).contains("option on: invalid setting ''"), "{}", text_of(&wrong));
}
