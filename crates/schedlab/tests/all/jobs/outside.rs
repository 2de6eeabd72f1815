//! Executors from outside, interrupted runs, and what sweeps say: more of `schedlab jobs`, as a user runs it.

use super::{example, has, jobs, json, said};
use crate::patience::eventually;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The Go example as an executor, built once; none where there is no Go.
pub(super) fn goroutines() -> Option<String> {
    static PROGRAM: OnceLock<Option<String>> = OnceLock::new();
    let build = || {
        // Go spells its version without dashes.
        if Command::new("go").arg("version").output().is_err() {
            let missing = "MISSING: go: the Go example was not built";
            let _ = writeln!(std::io::stderr(), "{missing}");
            return None;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = folder.join("goroutines");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).args([&program, &example("goroutines.go")]);
        let built = build.env("GOCACHE", folder.join("go-cache")).output().expect("go starts");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Some(format!("cmd:{}", program.display()))
    };
    PROGRAM.get_or_init(build).clone()
}

#[test]
fn a_go_program_that_speaks_json_lines_is_an_executor() {
    let Some(on) = goroutines() else { return };
    let graph = ["run", "--json", "--shape", "fork-join", "--nodes", "60", "--time", "20us"];
    let run = json(&[graph.as_slice(), &["--workers", "2", "--executor", &on]].concat());
    assert_eq!((&run["jobs"], &run["proved"]), (&60.into(), &true.into()));
    assert_eq!(run["values_recomputed"], 60);
    let timed = ["--arrivals", "gap:300us", "--workers", "2", "--jitter", "0ns"];
    let run = json(&[graph.as_slice(), &timed, &["--executor", &on]].concat());
    assert_eq!((&run["jobs"], &run["proved"]), (&60.into(), &true.into()));
    assert!(run["lateness_ns_p99"].is_u64(), "{run}");
}

#[test]
fn a_library_that_performs_a_job_that_is_not_there_fails_and_ends_nothing() {
    if !has("g++") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("stray.cpp");
    let library = folder.path().join("libstray.so");
    let text = "#include \"schedlab_executor.h\"\n\
                int schedlab_execute(uint32_t workers, uint32_t jobs, const uint32_t *, const uint32_t *,\n\
                                     const uint32_t *, schedlab_perform perform, void *run) {\n\
                  perform(run, jobs, 0); perform(run, 0, workers); return 0; }\n";
    std::fs::write(&source, text).unwrap();
    let built = Command::new("g++")
        .args(["-shared", "-fPIC", "-I"])
        .args([example("schedlab_executor.h").parent().unwrap(), source.as_path()])
        .arg("-o")
        .arg(&library)
        .status();
    assert!(built.unwrap().success());
    let on = format!("lib:{}", library.display());
    let out =
        jobs(&["run", "--shape", "chain", "--nodes", "4", "--workers", "2", "--executor", &on]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("it ran job 4 on worker 0"), "{}", said(&out));
}

#[test]
fn an_executor_that_did_nothing_or_less_than_it_says_is_not_proved() {
    if !has("python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("lies.py");
    let honest = std::fs::read_to_string(example("futures.py")).unwrap();
    let lie = |from: &str, to: &str| {
        assert!(honest.contains(from), "{from}");
        std::fs::write(&script, honest.replace(from, to)).unwrap();
        let command = format!("cmd:python3 {}", script.display());
        let graph = ["run", "--shape", "fork-join", "--nodes", "40", "--time", "2us"];
        let out = jobs(&[graph.as_slice(), &["--workers", "2", "--executor", &command]].concat());
        assert_eq!(out.status.code(), Some(1), "{from}");
        said(&out)
    };
    let idle = lie("for _ in range(rounds):", "for _ in range(0):");
    assert!(idle.contains("its work was not done"), "{idle}");
    let silent = lie(", \"value\": f\"{value:016x}\"", "");
    assert!(silent.contains("missing `value`"), "{silent}");
    let stray = lie("\"worker\": worker", "\"worker\": worker + 9");
    assert!(stray.contains("unknown worker 9: the run has 2 workers"), "{stray}");
    let wrong = lie("\"job\": job,", "\"job\": job + 40,");
    assert!(wrong.contains("unknown job 4"), "{wrong}");
    let early = lie("\"begin_ns\": begin", "\"begin_ns\": 1");
    assert!(early.contains("ran from 1 to"), "{early}");
}

#[test]
fn a_stray_line_of_events_makes_no_workers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let line = |job: u32, worker: u32| {
        let (begin, end) = (job * 100, job * 100 + 90);
        format!("{{\"job\":{job},\"worker\":{worker},\"begin_ns\":{begin},\"end_ns\":{end}}}\n")
    };
    let graph = ["run", "--shape", "isolated", "--nodes", "3", "--json", "--events"];
    let arguments = [graph.as_slice(), &[file.to_str().unwrap()]].concat();
    // Numbers of threads.
    std::fs::write(&file, [line(0, 4711), line(1, 9), line(2, 4711)].concat()).unwrap();
    assert_eq!(json(&arguments)["workers"], 2);
    std::fs::write(&file, [line(0, 0), line(1, 1), line(2, 0), line(3, 9)].concat()).unwrap();
    let out = jobs(&arguments);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("it ran job 3, but the graph has 3"), "{}", said(&out));
}

/// Sends Ctrl-C's signal once the command has caught it and worked for so many ticks of CPU time.
fn interrupt(child: &Child, ticks: u64) {
    let read = |file: &str| {
        std::fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap_or_default()
    };
    let caught = || {
        let status = read("status");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).is_some_and(|m| m & 2 > 0)
    };
    let worked = || {
        let stat = read("stat");
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        let ticks = after.split_whitespace().skip(11).take(2);
        ticks.filter_map(|t| t.parse::<u64>().ok()).sum::<u64>()
    };
    eventually(|| {
        let ready = caught() && worked() >= ticks;
        ready.then_some(()).ok_or_else(|| format!("it worked for {} ticks", worked()))
    });
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill is there").success());
}

#[test]
fn a_line_without_an_end_is_an_error_of_the_executor() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("endless.sh");
    let lines = "head -c 1048577 /dev/zero | tr '\\0' a\nexec sleep 1000\n";
    std::fs::write(&script, lines).unwrap();
    let on = format!("cmd:sh {}", script.display());
    let out = jobs(&["run", "--shape", "chain", "--nodes", "4", "--executor", &on]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("line 1: longer than 1 MiB"), "{}", said(&out));
}

#[test]
fn an_interrupted_sweep_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(["jobs", "peak", "--executor", "serial", "--jobs", "3..40", "--points", "500"]);
    command.args(["--time", "1ms", "--json", "--csv", file.to_str().unwrap()]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    interrupt(&child, 40);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let points = value["points"].as_array().unwrap().len();
    assert!((3..500).contains(&points), "{points}");
    assert_eq!(value["interrupted"], true);
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), points + 1);
}

#[test]
fn an_interrupted_run_tells_of_the_jobs_that_ran_and_ends_its_executor() {
    let interrupted = |on: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.args(["jobs", "run", "--shape", "isolated", "--nodes", "100000", "--time", "1ms"]);
        let mut child = command
            .args(["--workers", "2", "--json", "--executor", on])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        interrupt(&child, if on.starts_with("cmd:") { 1 } else { 40 });
        let mut text = String::new();
        std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{on}");
        serde_json::from_str::<Value>(&text).unwrap_or_else(|e| panic!("{on}: {e}: {text}"))
    };
    for on in ["schedlab", "rayon", "tokio", "channel"] {
        let value = interrupted(on);
        let ran = value["jobs"].as_u64().unwrap();
        assert!((1..100_000).contains(&ran), "{on}: {ran}");
        assert_eq!((&value["interrupted"], &value["proved"]), (&true.into(), &false.into()));
    }
    let mark = format!("47{}", std::process::id());
    let value = interrupted(&format!("cmd:sleep {mark}"));
    assert_eq!(value["jobs"], 0);
    let left = Command::new("pgrep").args(["-f", &format!("^sleep {mark}")]).output().unwrap();
    assert!(left.stdout.is_empty(), "its process goes on");
}

#[test]
fn the_parts_of_a_socket_add_up_and_an_ideal_schedule_has_no_rest() {
    let load =
        ["peak", "--executor", "ideal", "--workers", "4", "--jobs", "10..100", "--time", "2ms"];
    let model = &json(&[load.as_slice(), &["--json"]].concat())["model"];
    let part = |name: &str| model["socket_parts_ms"][name].as_f64().unwrap();
    assert!(part("rest").abs() < 1e-6 && part("work").abs() < 1e-6, "{model}");
    let sum = ["work", "ramp_up", "shutdown", "rest"].iter().map(|name| part(name)).sum::<f64>();
    assert!((sum - model["socket_ms"].as_f64().unwrap()).abs() < 1e-6, "{model}");
    assert_eq!(model["segments"].as_array().unwrap().len(), 1, "{model}");
}

#[test]
fn a_schedule_that_nothing_breaks_is_told_and_not_searched_for_ever() {
    for (shape, nodes, time) in [("load-bursts", "64", "20us"), ("chain", "4", "100us")] {
        let graph =
            ["break", "--executor", "ideal", "--shape", shape, "--nodes", nodes, "--time", time];
        let found = json(&[graph.as_slice(), &["--json", "--repeat", "1", "--runs", "2"]].concat());
        assert_eq!((&found["raw"][0], &found["adjusted"][0]), (&Value::Null, &Value::Null));
        let out = jobs(&[graph.as_slice(), &["--repeat", "1", "--runs", "2"]].concat());
        assert!(String::from_utf8_lossy(&out.stdout).contains("no stress breaks this schedule"));
    }
}

#[test]
fn what_a_simulated_machine_cannot_run_is_said_beforehand() {
    for (arguments, part) in [
        (
            &["run", "--executor", "cmd:true"][..],
            "cannot run the executor 'cmd:true': the simulator runs only",
        ),
        (
            &["run", "--executor", "lib:x.so"],
            "cannot run the executor 'lib:x.so': the simulator runs only",
        ),
        (
            &["run", "--executor", "tokio"],
            "its code is not simulated: use schedlab, lumiera, virtual, ideal",
        ),
        (&["run", "--data", "4KiB"], "leave --data out"),
        (
            &["run", "--plan", "jobs"],
            "sim:cpus=2 cannot plan jobs during a run: its pool gets all jobs before a run begins: leave --plan out",
        ),
        (&["compare", "--plan", "posters:2"], "leave --plan out"),
        (
            &["run", "--queues", "stealing"],
            "sim:cpus=2 cannot let workers steal jobs: its pool runs each job by itself: leave --queues stealing out",
        ),
        (&["peak", "--queues", "stealing"], "leave --queues stealing out"),
        (&["break", "--queues", "stealing"], "leave --queues stealing out"),
        (
            &["grain", "--executor", "schedlab", "--queues", "stealing"],
            "leave --queues stealing out",
        ),
        (&["run", "--fifo", "5"], "leave --fifo and --slice out"),
        (&["run", "--cpus", "0,7"], "its CPUs are 0 to 1"),
        (&["run", "--soak", "1s"], "it measures threads of this process"),
        (&["posts"], "it measures threads of this process"),
    ] {
        let out = jobs(&[arguments, &["--on", "sim:cpus=2"]].concat());
        assert!(
            !out.status.success() && said(&out).contains(part),
            "{arguments:?}: {}",
            said(&out)
        );
    }
}
