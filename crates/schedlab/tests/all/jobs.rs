//! `schedlab jobs`, as a user runs it.

mod fit;
mod in_time;
mod outside;
mod page;

use crate::patience::eventually;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn jobs(arguments: &[&str]) -> Output {
    // The others take less than a tenth of a second, or are simulated.
    if arguments.first().is_some_and(|what| ["break", "peak", "storm"].contains(what))
        || ["--record", "--soak"].iter().any(|option| arguments.contains(option))
    {
        crate::machine_lock::share();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.arg("jobs").args(arguments).output().expect("the command was built")
}

fn json(arguments: &[&str]) -> Value {
    let out = jobs(arguments);
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON on stdout")
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/executors").join(name)
}

/// Whether a program that a check needs is there; says so aloud when not.
fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        let missing = "the example that needs it was not run";
        missing!("{program}: {missing}");
    }
    there
}

#[test]
fn generate_has_the_keys_of_the_contract() {
    let shape = ["--shape", "load-bursts", "--nodes", "64", "--hash", "compat", "--json"];
    let graph = json(&[&["generate"], shape.as_slice()].concat());
    assert_eq!(graph["nodes"], 64);
    assert_eq!(graph["levels"], 26);
    assert_eq!(graph["edges"], 84);
    assert_eq!(graph["hash"], "258C8DEF5E0791BF");
}

#[test]
fn a_graph_by_typed_rules_is_the_published_one() {
    let rules = ["--seeding", "0.8/2~55", "--reduction", "0.6/5/2", "--pruning", "0.42"];
    let common = ["generate", "--json", "--hash", "compat", "--nodes", "256", "--seed", "23"];
    let graph = json(&[common.as_slice(), rules.as_slice()].concat());
    assert_eq!((&graph["levels"], &graph["hash"]), (&20.into(), &"4D0575F8BD269FC3".into()));
}

#[test]
fn a_graph_written_as_stg_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("g.stg");
    let file = file.to_str().unwrap();
    let made = json(&["generate", "--shape", "stencil", "--nodes", "90", "--json", "-o", file]);
    let read = json(&["generate", "--stg", file, "--json"]);
    for key in ["nodes", "edges", "levels", "critical_path"] {
        assert_eq!(made[key], read[key], "{key}");
    }
}

#[test]
fn a_graph_written_as_json_reads_back_with_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("g.json");
    let file = file.to_str().unwrap();
    let made = json(&["generate", "--shape", "load-bursts", "--nodes", "80", "--json", "-o", file]);
    let read = json(&["generate", "--graph", file, "--json"]);
    for key in ["nodes", "edges", "levels", "critical_path", "hash"] {
        assert_eq!(made[key], read[key], "{key}");
    }
    let run = json(&["run", "--graph", file, "--time", "1us", "--json"]);
    assert_eq!((&run["proved"], &run["hash"]), (&true.into(), &made["hash"]));
    let out = jobs(&["generate", "--graph", file, "--hash", "compat"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("made with another --hash"), "{}", said(&out));
}

#[test]
fn a_graph_is_written_for_graphviz_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (dot, svg) = (of("g.dot"), of("g.svg"));
    let shape = ["generate", "--shape", "load-bursts", "--nodes", "64", "--hash", "compat"];
    json(&[shape.as_slice(), &["--json", "-o", &dot, "-o", &svg]].concat());
    // The language has no place for the seed.
    let seed = json(&[shape.as_slice(), &["--json"]].concat())["seed"].to_string();
    let back = ["generate", "--graph", &dot, "--hash", "compat", "--seed", &seed, "--json"];
    let read = json(&back);
    assert_eq!((&read["hash"], &read["levels"]), (&"258C8DEF5E0791BF".into(), &26.into()));
    let dot = std::fs::read_to_string(&dot).unwrap();
    assert!(dot.starts_with("digraph jobs {\n") && dot.ends_with("}\n"), "{dot}");
    assert_eq!((dot.matches(" -> ").count(), dot.matches("[label=").count()), (84, 64));
    assert_eq!(dot.matches("rank=").count(), 26, "one per level: {dot}");
    let svg = std::fs::read_to_string(&svg).unwrap();
    assert!(svg.contains("64 jobs, 26 levels, 84 edges, hash 258C8DEF5E0791BF"), "{svg}");
    assert!(svg.contains(">63<"), "jobs are named: {svg}");
    let out = jobs(&[shape.as_slice(), &["-o", &of("g.txt")]].concat());
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
}

#[test]
fn the_grain_of_executors_is_found_and_compared_with_the_first() {
    let graph = ["grain", "--json", "--shape", "isolated", "--nodes", "200", "--workers", "2"];
    let of = |on: &str| json(&[graph.as_slice(), &["--repeat", "1", "--executor", on]].concat());
    let found = of("ideal,virtual");
    assert_eq!(found["results"].as_array().unwrap().len(), 4, "two efficiencies each");
    let metg = |i: usize| found["results"][i]["metg_ns"][0].as_f64().unwrap();
    // In virtual time everything repeats exactly: half, then nine tenths.
    assert!(metg(0) < metg(1) && metg(1) < metg(3), "{found}");
    assert_eq!(found["results"][0]["ratio_to_first"][0], 1.0);
    assert_eq!(found["results"][1]["ratio_to_first"][0], metg(1) / metg(0));
    assert_eq!(jobs(&["grain", "--executor", "nobody"]).status.code(), Some(2));
    // Without a shape it is a stencil, on which two workers reach nine tenths.
    let stencil = ["grain", "--json", "--nodes", "320", "--executor", "ideal", "--repeat", "1"];
    let found = json(&[stencil.as_slice(), &["--worker-counts", "1,2"]].concat());
    let of = |name: &str| -> Vec<Value> {
        found["results"].as_array().unwrap().iter().map(|r| r[name].clone()).collect()
    };
    assert_eq!(
        (&found["shape"], of("workers")),
        (&"stencil".into(), [1, 1, 2, 2].map(Value::from).to_vec())
    );
    assert!(of("metg_ns").iter().all(|grains| grains[0].is_number()), "{found}");
    let out = jobs(&["grain", "--efficiency", "1.5"]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
}

#[test]
fn jobs_hand_data_to_their_successors_in_every_pattern() {
    for shape in ["fft", "nearest", "spread", "random", "all-to-all", "divide"] {
        let run = json(&[
            "run",
            "--json",
            "--shape",
            shape,
            "--nodes",
            "60",
            "--fan",
            "8",
            "--time",
            "10us",
            "--data",
            "1KiB",
            "--workers",
            "2",
        ]);
        assert_eq!(run["proved"], true, "{shape}");
    }
    let out = jobs(&["run", "--nodes", "1000", "--data", "1GiB"]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(
        said(&out).contains("1000 jobs would need 1000GiB; 4GiB are possible"),
        "{}",
        said(&out)
    );
}

#[test]
fn a_peak_takes_typed_rules_and_repeats_with_intervals() {
    let sweep = ["peak", "--json", "--executor", "ideal", "--workers", "4", "--points", "4"];
    let of = |rules: &[&str]| {
        json(
            &[&sweep, ["--jobs", "16..64", "--time", "1ms", "--repeat", "3"].as_slice(), rules]
                .concat(),
        )
    };
    let time = |peak: &Value| peak["repeated"].as_array().unwrap().last().unwrap().clone();
    // 64 independent jobs on 4 workers; a chain knows no concurrency.
    let independent = time(&of(&[]));
    assert_eq!(independent["run_ns"], serde_json::json!([16e6, 16e6, 16e6]));
    assert_eq!(independent["run_ns_ci95"], Value::Null, "copies have no interval");
    assert_eq!(time(&of(&["--shape", "chain"]))["run_ns_mean"], 64e6);
    // A weight of 2 everywhere, by rule, on a chain: twice as long.
    assert_eq!(time(&of(&["--weight", "=2"]))["run_ns_mean"], 128e6);
    let out = jobs(&["peak", "--shape", "stencil", "--weight", "=2"]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
}

#[test]
fn the_concurrency_of_a_run_is_written_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (csv, svg) = (of("c.csv"), of("c.svg"));
    let common = ["run", "--json", "--executor", "ideal", "--workers", "2", "--shape", "isolated"];
    let load = ["--nodes", "3", "--time", "1ms", "--concurrency"];
    json(&[common.as_slice(), &load, &[csv.as_str()]].concat());
    // Three jobs of 1 ms on two workers.
    assert_eq!(std::fs::read_to_string(&csv).unwrap(), "time_ns,jobs\n0,2\n1000000,1\n2000000,0\n");
    json(&[common.as_slice(), &load, &[svg.as_str()]].concat());
    let svg = std::fs::read_to_string(&svg).unwrap();
    // Only whole jobs run.
    assert!(svg.contains("jobs at once") && !svg.contains(">1.5<"), "{svg}");
}

#[test]
fn a_run_is_proved_on_every_executor() {
    let real = ["schedlab", "lumiera", "rayon", "tokio", "channel", "serial"];
    for executor in real.into_iter().chain(["virtual", "ideal"]) {
        let graph = ["--shape", "fork-join", "--nodes", "120", "--time", "2us"];
        let common = ["run", "--json", "--workers", "2", "--executor", executor];
        let run = json(&[common.as_slice(), graph.as_slice()].concat());
        assert_eq!((&run["jobs"], &run["proved"]), (&120.into(), &true.into()), "{executor}");
    }
}

#[test]
fn what_an_executor_does_not_offer_is_shown_not_faked() {
    let load = ["--shape", "isolated", "--nodes", "20", "--time", "10us", "--arrivals", "gap:50us"];
    let compared = json(&[&["compare", "--json", "--repeat", "1"], load.as_slice()].concat());
    let results = compared["results"].as_array().unwrap();
    let found = |name: &str| results.iter().find(|result| result["executor"] == name).unwrap();
    assert_eq!(found("serial")["not_offered"], "start times");
    assert_eq!(found("serial")["run_ns"].as_array().unwrap().len(), 0);
    // Those that have no timers are paced, and that is said.
    for name in ["rayon", "channel", "tokio"] {
        assert!(found(name)["not_offered"].is_null());
        assert!(found(name)["runs"][0]["lateness_ns_p99"].is_u64());
        let offers = found(name)["offers"].as_array().unwrap();
        let own = if name == "tokio" { "start times" } else { "start times (paced by the rig)" };
        assert!(offers.contains(&own.into()), "{name}: {offers:?}");
    }
    // Deadlines that an executor does not know are looked at by the rig; what matters more, nobody else can tell it.
    let life = [load.as_slice(), &["--life", "1s"]].concat();
    let rayon = ["compare", "--json", "--repeat", "1", "--executor", "rayon"];
    let compared = json(&[rayon.as_slice(), &life].concat());
    assert!(compared["results"][0]["not_offered"].is_null(), "{compared}");
    let offers = compared["results"][0]["offers"].as_array().unwrap();
    assert!(offers.contains(&"deadlines (looked at by the rig)".into()), "{offers:?}");
    let matter = ["--criticality", "optional=50%"];
    let compared = json(&[rayon.as_slice(), &life, &matter].concat());
    assert_eq!(compared["results"][0]["not_offered"], "criticality");
}

#[test]
fn events_of_others_go_through_the_same_proof() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let lines: String = (0..3)
        .map(|job| {
            let (begin, end) = (job * 100, job * 100 + 90);
            format!("{{\"job\":{job},\"worker\":0,\"begin_ns\":{begin},\"end_ns\":{end}}}\n")
        })
        .collect();
    std::fs::write(&file, &lines).unwrap();
    let file = file.to_str().unwrap();
    let chain = ["run", "--shape", "chain", "--nodes", "3", "--json", "--events", file];
    let run = json(&chain);
    // That the work was done is their word.
    assert_eq!((&run["proved"], &run["consistent"]), (&false.into(), &true.into()));
    assert_eq!((&run["run_ns"], &run["workers"]), (&290.into(), &1.into()));
    let trace = folder.path().join("trace.json");
    json(&[chain.as_slice(), &["--trace", trace.to_str().unwrap()]].concat());
    let trace: Value = serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
    let last = trace["traceEvents"].as_array().unwrap().iter().find(|e| e["name"] == "job 2");
    assert_eq!(last.unwrap()["ts"].as_f64(), Some(0.2));
    // The second job begins before the first has ended.
    std::fs::write(file, lines.replace("\"begin_ns\":100", "\"begin_ns\":80")).unwrap();
    let out = jobs(&chain);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("job 1 began 10 ns before its predecessor 0"), "{}", said(&out));
}

#[test]
fn a_process_that_speaks_json_lines_is_an_executor() {
    if !has("python3") {
        return;
    }
    let command = format!("cmd:python3 {}", example("futures.py").display());
    let run = json(&[
        "run",
        "--json",
        "--executor",
        &command,
        "--shape",
        "fork-join",
        "--nodes",
        "40",
        "--time",
        "5us",
    ]);
    assert_eq!((&run["jobs"], &run["proved"]), (&40.into(), &true.into()));
    assert_eq!(run["values_recomputed"], 40);
}

#[test]
fn a_process_that_hangs_is_ended_with_all_that_it_started_and_told() {
    let mark = format!("61{}", std::process::id());
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("hangs.sh");
    let runs = |mark: &str| {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let line = |e: std::fs::DirEntry| std::fs::read(e.path().join("cmdline")).ok();
        all.filter_map(line).any(|line| String::from_utf8_lossy(&line).contains(mark))
    };
    // It takes nothing, it takes the graph and answers nothing, or it answers and does not end.
    let answers = format!("python3 '{}'", example("futures.py").display());
    for (hangs, nodes, part) in [
        (format!("sleep {mark}"), "20000", "no answer within"),
        (format!("cat >/dev/null; sleep {mark}"), "1", "no answer within"),
        (
            format!("{answers}; exec >/dev/null; sleep {mark}"),
            "1",
            "it did not end after its answer",
        ),
    ] {
        std::fs::write(&script, format!("{hangs}\n")).unwrap();
        let on = format!("cmd:sh {}", script.display());
        let load = ["--shape", "isolated", "--nodes", nodes, "--time", "1us", "--workers", "1"];
        let run = ["run", "--patience", "300ms", "--executor", &on];
        let out = jobs(&[run.as_slice(), &load].concat());
        assert_eq!(out.status.code(), Some(1), "{hangs}: {}", said(&out));
        let told = said(&out).contains(part) && said(&out).contains("--patience): it was ended");
        // Where the machine stalls for longer than that, the answer is what is missing.
        let late = said(&out).contains("no answer within");
        assert!(told || late, "{hangs}: {}", said(&out));
        eventually(|| if runs(&mark) { Err(format!("{hangs} left its sleep")) } else { Ok(()) });
    }
    // A wrong answer is not waited for.
    let wrong = r#"printf '{"job":0,"worker":0,"begin_ns":1,"end_ns":2}\n{"done":true}\n'"#;
    std::fs::write(&script, format!("{wrong}; exec >/dev/null; sleep {mark}\n")).unwrap();
    let on = format!("cmd:sh {}", script.display());
    let out = jobs(&["run", "--executor", &on, "--shape", "isolated", "--nodes", "1"]);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains("line 1: missing `value`"), "{}", said(&out));
    eventually(|| if runs(&mark) { Err("it left its sleep".to_owned()) } else { Ok(()) });
}

#[test]
fn cpus_that_are_not_there_are_named_with_those_that_are() {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    for on in ["schedlab", "rayon", "channel"] {
        let out = jobs(&["run", "--nodes", "4", "--executor", on, "--cpus", "0,777"]);
        assert_eq!(out.status.code(), Some(2), "{on}: {}", said(&out));
        let part = format!("CPU 777 does not exist or is offline: use {}", online.trim());
        assert!(said(&out).contains(&part), "{on}: {}", said(&out));
    }
    assert_eq!(jobs(&["run", "--nodes", "4", "--cpus", ""]).status.code(), Some(2));
}

#[test]
fn a_shared_library_with_the_c_function_is_an_executor() {
    if !has("g++") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libasync.so");
    let built = Command::new("g++")
        .args(["-O1", "-std=c++17", "-shared", "-fPIC", "-pthread", "-o"])
        .args([&library, &example("async.cpp")])
        .status();
    assert!(built.unwrap().success());
    let executor = format!("lib:{}", library.display());
    let run = json(&[
        "run",
        "--json",
        "--executor",
        &executor,
        "--shape",
        "fork-join",
        "--nodes",
        "40",
        "--time",
        "5us",
    ]);
    assert_eq!((&run["jobs"], &run["proved"]), (&40.into(), &true.into()));
}

#[test]
fn a_storm_of_posters_does_not_stop_the_pool() {
    let storm = ["storm", "--json", "--posters", "1", "--workers", "2", "--time", "300ms"];
    let found = json(&[&storm, ["--executor", "schedlab,channel"].as_slice()].concat());
    for row in found["results"].as_array().unwrap() {
        let count = |key: &str| row[key].as_u64().unwrap();
        assert!(count("done") > 0 && count("done") <= count("posted"), "{row}");
        assert!(row["drained_ns"].is_u64() && row["start_ns_p99"].is_u64(), "{row}");
        assert!(
            row["later_ns"].is_u64(),
            "the second worker runs what the first job waits for: {row}"
        );
    }
    let paced = [&storm, ["--gap", "1ms", "--executor", "schedlab"].as_slice()].concat();
    assert!(json(&paced)["results"][0]["posted"].as_u64().unwrap() < 400);
    let closed = [&storm, ["--closed", "--executor", "schedlab,lumiera,channel"].as_slice()];
    for row in json(&closed.concat())["results"].as_array().unwrap() {
        let (posted, done) = (row["posted"].as_u64().unwrap(), row["done"].as_u64().unwrap());
        assert!(done > 0 && posted - done <= 1, "one job at a time: {row}");
    }
    let out = jobs(&["storm", "--executor", "serial"]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(said(&out).contains("'serial' takes no single jobs"), "{}", said(&out));
}

#[test]
fn a_trace_of_a_run_has_each_job_on_its_worker() {
    let folder = tempfile::tempdir().unwrap();
    let load = ["run", "--json", "--shape", "isolated", "--nodes", "200", "--time", "10us"];
    for name in ["schedlab", "lumiera"] {
        let (perfetto, lines) = (folder.path().join("trace.json"), folder.path().join("trace.txt"));
        let run = [load.as_slice(), &["--workers", "3", "--executor", name]].concat();
        let proved = json(&[run.as_slice(), &["--trace", perfetto.to_str().unwrap()]].concat());
        assert_eq!(proved["proved"], true);
        let trace: Value = serde_json::from_slice(&std::fs::read(&perfetto).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let named = |kind: &str| events.iter().filter(|event| event["ph"] == kind).count();
        assert_eq!((named("X"), named("M")), (200, 4), "jobs; workers and their process");
        assert!(events.iter().filter(|e| e["ph"] == "X").all(|e| e["tid"].as_u64() < Some(3)));
        json(&[run.as_slice(), &["--trace", lines.to_str().unwrap()]].concat());
        let text = std::fs::read_to_string(&lines).unwrap();
        assert_eq!(text.lines().filter(|line| line.contains(" took ")).count(), 200, "{text}");
    }
}

#[test]
fn rules_of_lumiera_are_refused_for_others_and_pools_do_not_grow() {
    let out = jobs(&["run", "--nodes", "4", "--order", "path"]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    let refusal = "schedlab does not offer --order: use --executor lumiera";
    assert!(said(&out).contains(refusal), "{}", said(&out));
    let out = jobs(&["run", "--executor", "lumiera", "--workers", "2..4"]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(
        said(&out).contains("is now `--workers N`: no pool grows and shrinks any more"),
        "{}",
        said(&out)
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
fn a_recorded_run_puts_all_time_of_all_workers_down_to_causes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.dat");
    // Twice as many threads that only burn as there are CPUs: workers cannot but wait for them.
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let cpus = std::thread::available_parallelism().unwrap().get();
    let antagonists: Vec<_> = (0..2 * cpus)
        .map(|_| {
            let over = over.clone();
            std::thread::spawn(move || while !over.load(std::sync::atomic::Ordering::Relaxed) {})
        })
        .collect();
    // Jobs that take several slices of the scheduler: none escapes the other threads.
    let load = ["--shape", "load-bursts", "--nodes", "16", "--time", "12ms", "--workers", "2"];
    let record = ["run", "--json", "--record", file.to_str().unwrap()];
    let out = jobs(&[record.as_slice(), &load].concat());
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    antagonists.into_iter().for_each(|antagonist| antagonist.join().unwrap());
    if said(&out).contains("cannot record the kernel's events") {
        missing!("the right to record: no stall was put down");
        return;
    }
    assert!(out.status.success(), "{}", said(&out));
    let run: Value = serde_json::from_slice(&out.stdout).unwrap();
    let sums = run["stalls"]["sums"].as_object().unwrap();
    let all: u64 = sums.values().map(|ns| ns.as_u64().unwrap()).sum();
    assert_eq!(all, 2 * run["stalls"]["window_ns"].as_u64().unwrap());
    assert_eq!(run["stalls"]["window_ns"], run["run_ns"]);
    let in_jobs =
        sums["in_jobs_ns"].as_u64().unwrap() + sums["in_jobs_run_delay_ns"].as_u64().unwrap();
    assert_eq!(in_jobs, (run["job_wall_ns"].as_f64().unwrap() * 16.0).round() as u64);
    assert!(sums["in_jobs_run_delay_ns"].as_u64().unwrap() > 0, "{sums:?}");
    // The jobs are marks in the same file.
    let info = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["trace", "info", "--json", file.to_str().unwrap()])
        .output()
        .unwrap();
    let info: Value = serde_json::from_slice(&info.stdout).unwrap();
    let marks: u64 = info["events"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| name.contains("mark"))
        .map(|(_, count)| count.as_u64().unwrap())
        .sum();
    assert_eq!(marks, 2 * 16, "{}", info["events"]);
}

#[test]
fn each_cause_of_a_stall_is_provoked_and_seen() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.dat");
    let isolated = ["--shape", "isolated", "--jitter", "0ns"];
    let all: [(&str, &[&str]); 4] = [
        // One job every 3 ms for two workers.
        (
            "no_work",
            &["--nodes", "10", "--time", "20us", "--arrivals", "gap:3ms", "--workers", "2"],
        ),
        // Two workers, and one job after the other.
        ("dependency", &["--shape", "chain", "--nodes", "20", "--time", "100us", "--workers", "2"]),
        // Who wakes by timers only, sleeps while jobs wait.
        (
            "asleep",
            &[
                "--shape",
                "fork-join",
                "--nodes",
                "200",
                "--time",
                "200us",
                "--workers",
                "2",
                "--no-notify",
            ],
        ),
        // Eight workers that do little but ask for the next job.
        ("awake", &["--nodes", "20000", "--time", "100ns", "--workers", "8", "--no-batch"]),
    ];
    for (cause, load) in all {
        // On a busy machine a worker may be displaced all the time that it would have slept: a few tries.
        let seen = (0..10).any(|_| {
            let own = if load[0] == "--shape" { &isolated[2..] } else { &isolated[..] };
            let record =
                ["run", "--json", "--executor", "lumiera", "--record", file.to_str().unwrap()];
            let out = jobs(&[record.as_slice(), own, load].concat());
            if said(&out).contains("cannot record the kernel's events") {
                missing!("the right to record: no stall was put down");
                return true;
            }
            assert!(out.status.success(), "{}", said(&out));
            let run: Value = serde_json::from_slice(&out.stdout).unwrap();
            run["stalls"]["sums"][format!("{cause}_ns")].as_u64().unwrap() > 0
        });
        assert!(seen, "{cause} was provoked ten times and never seen");
    }
}

#[test]
fn a_run_with_start_times_shows_the_jitter_of_the_machine_and_lateness_without_a_scheduler() {
    let load =
        ["--shape", "isolated", "--nodes", "40", "--time", "20us", "--arrivals", "gap:100us"];
    let run = json(&[&["run", "--json", "--jitter", "10ms"], load.as_slice()].concat());
    assert!(run["jitter"]["timer_late_ns_p99"].is_u64(), "{}", run["jitter"]);
    let (late, replayed) = (&run["lateness_ns_p99"], &run["lateness_ns_p99_replayed"]);
    assert!(replayed.is_u64() && late.is_u64(), "{late} {replayed}");
    let none = json(&[&["run", "--json", "--jitter", "0ns"], load.as_slice()].concat());
    assert!(none["jitter"].is_null());
    // What the machine's stalls made late is counted apart, and nothing is lost by that.
    let machine = &run["machine"];
    let (aside, share) = (machine["jobs_aside"].as_f64(), machine["share_aside"].as_f64());
    assert!((aside.unwrap() / 40.0 - share.unwrap()).abs() < 1e-9, "{machine}");
    let stalls = machine["stalls"].as_u64().unwrap();
    assert_eq!(stalls == 0, machine["jobs_aside"] == 0 && machine["stall_ns_max"].is_null());
    if stalls == 0 {
        assert_eq!(machine["lateness_ns_p99_outside"], run["lateness_ns_p99"], "{machine}");
    }
    let untimed = json(&["run", "--json", "--nodes", "20", "--time", "20us"]);
    assert!(untimed["machine"].is_null(), "nothing is due at a time");
}

#[test]
fn a_mix_of_loads_has_figures_for_each_kind() {
    let load = ["run", "--shape", "load-bursts", "--nodes", "400", "--time", "100us"];
    let mix = ["--load", "lock@join,memory=20%,block=30%", "--workers", "2"];
    let run = json(&[load.as_slice(), &mix, &["--json"]].concat());
    let kinds = run["kinds"].as_array().unwrap();
    let names: Vec<_> = kinds.iter().map(|kind| kind["kind"].as_str().unwrap()).collect();
    assert_eq!(names, ["block", "cpu", "lock", "memory"]);
    let count = |i: usize| kinds[i]["jobs"].as_u64().unwrap();
    assert_eq!((0..4).map(count).sum::<u64>(), 400);
    let graph = json(&[&["generate", "--json"], &load[1..5]].concat());
    assert_eq!(graph["categories"]["join"]["count"], count(2), "each join holds the lock");
    // Who waits for a timer uses no CPU to speak of; who computes does, unless the machine stalls meanwhile.
    eventually(|| {
        let run = json(&[load.as_slice(), &mix, &["--json"]].concat());
        let share = |i: usize| {
            let of = |key: &str| run["kinds"][i][key].as_f64().unwrap();
            of("job_cpu_ns") / of("job_wall_ns")
        };
        let all = run["kinds"].as_array().unwrap();
        let long = all.iter().all(|kind| kind["inflation"].as_f64().unwrap() > 0.3);
        if share(0) < share(1) && long { Ok(()) } else { Err(format!("{all:?}")) }
    });
    let out = jobs(&[load.as_slice(), &mix].concat());
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("inflation") && text.contains("\nblock "), "{text}");
    // A process over lines is told a time, not a kind: that is said, and it is not run otherwise.
    let out = jobs(&["run", "--executor", "cmd:true", "--load", "memory", "--nodes", "2"]);
    assert!(said(&out).contains("does not offer loads other than cpu"), "{}", said(&out));
}

#[test]
fn jobs_that_miss_their_deadline_are_dropped_counted_and_the_rest_is_proved() {
    // One worker, half the time that the jobs need: compulsory jobs alone nearly fill it.
    let load = ["run", "--json", "--workers", "1", "--shape", "isolated"];
    let simulated = ["--executor", "lumiera", "--on", "sim:cpus=1"];
    let times = ["--nodes", "200", "--time", "1ms", "--arrivals", "gap:500us", "--life", "5ms"];
    let of = |criticality: &str, emergency: &str| {
        let matter = ["--criticality", criticality, "--emergency", emergency];
        json(&[load.as_slice(), &simulated, &times, &matter].concat())
    };
    // As few as fit are not an emergency: they go first.
    let few = of("compulsory=20%,optional=40%", "shed");
    assert_eq!(few["dropped"]["emergencies"], 0, "{few}");
    let run = |emergency: &str| of("compulsory=45%,optional=30%", emergency);
    let shed = run("shed");
    assert_eq!(shed["proved"], true);
    let (done, dropped) = (shed["jobs"].as_u64().unwrap(), &shed["dropped"]);
    let count = |dropped: &Value, key: &str| dropped[key].as_u64().unwrap();
    let gone = count(dropped, "missed") + count(dropped, "shed") + count(dropped, "abandoned");
    assert_eq!(done + gone, 200);
    assert!(count(dropped, "missed") > 0 && count(dropped, "shed") > 0, "{dropped}");
    assert!(count(dropped, "emergencies") > 0, "{dropped}");
    let ran = |dropped: &Value, of: &str| {
        let all = dropped["by_criticality"].as_array().unwrap();
        let one = all.iter().find(|one| one["criticality"] == of).unwrap();
        (one["ran"].as_u64().unwrap(), one["jobs"].as_u64().unwrap())
    };
    let (compulsory, all) = ran(dropped, "compulsory");
    assert_eq!(compulsory, all, "compulsory jobs run, late if they must: {dropped}");
    // Without shedding, nothing is shed; to drop the compulsory is a policy as well.
    assert_eq!(count(&run("run-late")["dropped"], "shed"), 0);
    let (compulsory, all) = ran(&run("drop")["dropped"], "compulsory");
    assert!(compulsory < all);
    // schedlab's pool: in virtual time, as tasks of a simulated machine, and on threads.
    let matter = ["--criticality", "compulsory=45%,optional=30%"];
    for on in [&["--executor", "virtual"][..], &["--on", "sim:cpus=1"], &[]] {
        let pool = json(&[load.as_slice(), &times, &matter, on].concat());
        assert_eq!(pool["proved"], true, "{on:?}");
        let (compulsory, all) = ran(&pool["dropped"], "compulsory");
        assert_eq!(compulsory, all, "{on:?}");
        let dropped = &pool["dropped"];
        assert!(count(dropped, "missed") + count(dropped, "shed") > 0, "{on:?}: {dropped}");
    }
    let out = jobs(&["run", "--criticality", "optional"]);
    assert_eq!(out.status.code(), Some(2), "without --life nothing can be late: {}", said(&out));
}

#[test]
fn peak_writes_the_columns_of_the_original() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, script) = (folder.path().join("p.csv"), folder.path().join("p.gp"));
    let peak = json(&[
        "peak",
        "--json",
        "--jobs",
        "5..30",
        "--time",
        "20us",
        "--points",
        "8",
        "--csv",
        csv.to_str().unwrap(),
        "--gnuplot",
        script.to_str().unwrap(),
    ]);
    assert_eq!(peak["points"].as_array().unwrap().len(), 8);
    assert!(peak["model"]["gradient_ms_per_job"].is_number());
    assert!(peak["serial_ns"].as_u64().unwrap() > 0);
    let text = std::fs::read_to_string(&csv).unwrap();
    assert!(text.starts_with("\"load size\",\"result time\",\"concurrency\""), "{text}");
    if has("gnuplot") {
        let png = folder.path().join("p.png");
        let terminal = format!("set term pngcairo size 600,600; set output '{}'", png.display());
        let out = Command::new("gnuplot").args(["-e", &terminal]).arg(&script).output().unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{}", said(&out));
        assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    }
    let again = json(&["fit", "--json", csv.to_str().unwrap()]);
    let difference = again["gradient_ms_per_job"].as_f64().unwrap()
        - peak["model"]["gradient_ms_per_job"].as_f64().unwrap();
    assert!(difference.abs() < 1e-9);
}

#[test]
fn break_reports_raw_adjusted_and_bound() {
    let found = json(&[
        "break",
        "--json",
        "--executor",
        "ideal",
        "--workers",
        "4",
        "--repeat",
        "2",
        "--runs",
        "1",
        "--shape",
        "load-bursts",
        "--nodes",
        "64",
        "--hash",
        "compat",
        "--time",
        "500us",
    ]);
    assert!((found["bound"].as_f64().unwrap() - 1.0387).abs() < 0.001);
    assert_eq!(found["critical_path_ns"], 15_500_000);
    let raw = found["raw"].as_array().unwrap();
    assert!(raw.len() == 2 && raw[0] == raw[1], "the ideal repeats exactly: {raw:?}");
    assert!(raw[0].as_f64().unwrap() > 0.85, "{raw:?}");
}

#[test]
fn a_soak_with_faults_ends_in_a_report() {
    let soak = json(&[
        "run",
        "--json",
        "--shape",
        "load-bursts",
        "--nodes",
        "200",
        "--soak",
        "300ms",
        "--panic-every",
        "99",
    ]);
    assert_eq!(soak["left"], 0);
    assert!(soak["panicked"].as_u64().unwrap() > 0);
    let stuck = ["run", "--json", "--nodes", "50", "--soak", "100ms", "--stuck", "--workers", "2"];
    // A machine that stalls while the pool stops may keep the other from coming back within its patience.
    eventually(|| {
        let report = json(&stuck);
        let count = report["stuck_workers"].as_array().unwrap().len();
        assert!(count > 0, "{report}");
        if count == 1 { Ok(()) } else { Err(report.to_string()) }
    });
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [
        ["generate", "--shape", "circle"].as_slice(),
        &["generate", "-o", "x.gif"],
        &["run", "--executor", "nobody"],
        &["peak", "--jobs", "9..3"],
        &["run", "--arrivals", "sometimes"],
        &["run", "--load", "memory=70%,lock=40%"],
        &["run", "--trace", "t.xyz"],
        &["run", "--concurrency", "c.gif"],
    ] {
        let out = jobs(arguments);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {}", said(&out));
    }
}

/// The CPUs that each thread of a running command may use, without its first one, as the kernel writes them.
fn cpus_of_threads(command: &[&str]) -> Vec<String> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .arg("jobs")
        .args(command)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the command was built");
    let tasks = format!("/proc/{}/task", child.id());
    let mut most: Vec<String> = Vec::new();
    // Threads that calibrate come before, and are free: the workers are the last to be there.
    while child.try_wait().expect("a child of ours").is_none() {
        let numbers = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
        let status = |entry: std::fs::DirEntry| {
            let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            Some((entry.file_name(), line.trim().to_owned()))
        };
        let mut found: Vec<_> = numbers.filter_map(status).collect();
        found.sort();
        if found.len() == 3 {
            most = found.into_iter().skip(1).map(|(_, cpus)| cpus).collect();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    most.sort();
    most
}

#[test]
fn workers_of_every_executor_have_a_cpu_of_their_own_and_any_leaves_them_free() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    if cpus < 2 {
        missing!("a second CPU: no worker can be bound");
        return;
    }
    let long = ["run", "--workers", "2", "--nodes", "12", "--time", "30ms", "--load", "sleep"];
    let shape = ["--shape", "isolated"];
    for on in ["schedlab", "rayon", "tokio", "channel"] {
        let on = ["--executor", on];
        // Who looks may be kept from the CPU all the while, and a thread be seen before it has bound itself.
        eventually(|| {
            let own = cpus_of_threads(&[long.as_slice(), &shape, &on].concat());
            let alone = own.iter().all(|cpus| cpus.parse::<u16>().is_ok());
            let bound = own.len() == 2 && own[0] != own[1] && alone;
            if bound { Ok(()) } else { Err(format!("{on:?}: {own:?}")) }
        });
        eventually(|| {
            let any = cpus_of_threads(&[long.as_slice(), &shape, &on, &["--cpus", "any"]].concat());
            let free = any.len() == 2 && any[0] == any[1] && any[0].parse::<u16>().is_err();
            if free { Ok(()) } else { Err(format!("{on:?}: {any:?}")) }
        });
    }
    let out = jobs(&[long.as_slice(), &["--cpus", "all"]].concat());
    assert_eq!(out.status.code(), Some(2));
    assert!(said(&out).contains("or own, or any"), "{}", said(&out));
}

#[test]
fn on_takes_a_machine_and_names_the_option_of_executors() {
    for (on, part) in [
        ("sim:cpus=x", "invalid cpus=x"),
        ("vm", "vm cannot run executors of jobs: executors are threads of this process"),
        ("rayon", "invalid machine 'rayon' for --on: it is an executor, use --executor rayon"),
        ("cmd:python3 x.py", "use --executor cmd:python3 x.py"),
        ("schedlab,tokio", "use --executor schedlab,tokio"),
        ("moon", "use host (this machine)"),
        ("host:cpus=2", "takes no settings"),
    ] {
        let out = jobs(&["run", "--nodes", "2", "--on", on]);
        assert!(!out.status.success() && said(&out).contains(part), "{on}: {}", said(&out));
    }
    let out = jobs(&["run", "--nodes", "4", "--on", "host", "--executor", "ideal"]);
    assert!(out.status.success(), "{}", said(&out));
}

#[test]
fn a_simulated_machine_runs_the_pool_and_its_trace_shows_the_workers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.dat");
    let shape = ["run", "--shape", "stencil", "--nodes", "60", "--time", "200us", "--json"];
    let on = ["--on", "sim:cpus=4,kernel=eevdf-6.12", "--length", "exponential"];
    let record = ["--record", file.to_str().unwrap()];
    let run = json(&[&shape[..], &on, &record].concat());
    assert_eq!(
        (&run["executor"], &run["proved"]),
        (&format!("schedlab on {}", on[1]).into(), &true.into())
    );
    assert_eq!(run, json(&[&shape[..], &on].concat()), "the same each time, recorded or not");
    let mut trace = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    let tasks = trace.args(["trace", "tasks", file.to_str().unwrap()]).output().unwrap();
    let told = String::from_utf8_lossy(&tasks.stdout).into_owned() + &said(&tasks);
    assert!(tasks.status.success() && told.matches("jobs-worker").count() >= 4, "{told}");

    // All that the rig does with executors, it does there.
    let few = ["--nodes", "32", "--time", "100us", "--on", "sim:cpus=2", "--json"];
    let compared = json(&[&["compare", "--repeat", "1"], &few[..]].concat());
    let names: Vec<_> =
        compared["results"].as_array().unwrap().iter().map(|r| &r["executor"]).collect();
    let on = ["schedlab on sim:cpus=2", "lumiera on sim:cpus=2", "virtual", "ideal"];
    assert_eq!(names, on);
    let broken = json(
        &[&["break", "--runs", "2", "--repeat", "1", "--shape", "load-bursts"], &few[..]].concat(),
    );
    assert_eq!(broken["workers"], 2, "as many as the machine has CPUs");
}
