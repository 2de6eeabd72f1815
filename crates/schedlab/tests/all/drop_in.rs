//! The drop-ins as scripts call them: through a link of another tool's name, read by the rules of the
//! parsers that people run.

use crate::links::Links;
use crate::patience::eventually;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(links: &Links, line: &str) -> Output {
    crate::machine_lock::share();
    let mut words = line.split_whitespace();
    let program = links.path(words.next().unwrap());
    Command::new(program).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Waits until threads or processes of ours have left a CPU more often than on the way to their start.
fn loads_at_work(links: &Links) {
    let switches = |task: std::fs::DirEntry| -> u64 {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
        lines.filter_map(|line| line.rsplit('\t').next()?.parse::<u64>().ok()).sum()
    };
    eventually(|| {
        let tasks = |at: std::path::PathBuf| std::fs::read_dir(at.join("task"));
        let ours = links.processes().into_iter().flat_map(tasks).flatten().flatten();
        let most = ours.map(switches).max().unwrap_or(0);
        if most > 500 { Ok(()) } else { Err(format!("{most} switches of any task")) }
    });
}

/// Digits become `#`, so that two texts can be compared but for their figures.
fn masked(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            c => out.push(c),
        }
    }
    out
}

#[test]
fn hackbench_prints_what_its_parsers_read() {
    let links = Links::new();
    for (line, mode, tasks) in [
        ("hackbench -g 2 -f 3 -l 5", "process", 12),
        ("hackbench -T -g 1 -f 2 -l 5 -s 20", "threaded", 4),
        ("hackbench -p -g1 -f2 -l5", "process", 4),
        ("hackbench -i --groups=1 --fds 2 --loop 5", "process", 4),
        ("hackbench -pipe 1 thread 5", "threaded", 40),
    ] {
        let output = run(&links, line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
        let stdout = text(&output.stdout);
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!(lines.len(), 3, "{line}: {stdout}");
        assert!(lines[0].starts_with(&format!("Running in {mode} mode with ")), "{stdout}");
        assert!(lines[0].ends_with(&format!("(== {tasks} tasks)")), "{stdout}");
        assert!(lines[1].starts_with("Each sender will pass 5 messages of "), "{stdout}");
        // KernelCI and Workload Automation: `Time: (\d+.*)`, `(\d+) groups`.
        let time = lines[2].strip_prefix("Time: ").expect("Time:");
        assert!(time.parse::<f64>().is_ok() && time.split('.').nth(1).unwrap().len() == 3);
        assert!(output.stderr.is_empty(), "{line}: {}", text(&output.stderr));
    }
}

#[test]
fn hackbench_tells_wrong_usage_as_the_original_does() {
    let links = Links::new();
    for line in [
        "hackbench -g 0",
        "hackbench -g abc",
        "hackbench -l -5",
        "hackbench -p -i",
        "hackbench --frob",
        "hackbench 2 fibre",
    ] {
        let output = run(&links, line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(!output.stderr.is_empty(), "{line}");
        assert!(text(&output.stdout).contains("usage"), "{line}");
    }
    let zero = run(&links, "hackbench -g 0");
    assert!(text(&zero.stderr).ends_with("hackbench: --groups|-g requires an integer > 0\n"));
    assert_eq!(run(&links, "hackbench -h").status.code(), Some(0));
    assert_eq!(links.processes(), [] as [PathBuf; 0]);
}

#[test]
fn perf_text_has_the_total_time_where_mmtests_looks_for_it() {
    let output = run(&Links::new(), "hackbench --format perf -g 1 -l 5");
    let stdout = text(&output.stdout);
    assert!(stdout.starts_with("# Running 'sched/messaging' benchmark:\n"), "{stdout}");
    // mmtests: the third field of the line with "Total time:".
    let line = stdout.lines().find(|line| line.contains("Total time:")).unwrap();
    assert!(line.split_whitespace().nth(2).unwrap().parse::<f64>().is_ok(), "{line}");
}

/// A report of the original, digits masked.
const REPORT: &str = "\
Wakeup Latencies percentiles (usec) runtime # (s) (# total samples)
\t  #.#th: #          (# samples)
\t  #.#th: #          (# samples)
\t* #.#th: #          (# samples)
\t  #.#th: #          (# samples)
\t  min=#, max=#
Request Latencies percentiles (usec) runtime # (s) (# total samples)
\t  #.#th: #          (# samples)
\t  #.#th: #          (# samples)
\t* #.#th: #          (# samples)
\t  #.#th: #          (# samples)
\t  min=#, max=#
RPS percentiles (requests) runtime # (s) (# total samples)
\t  #.#th: #          (# samples)
\t* #.#th: #          (# samples)
\t  #.#th: #          (# samples)
\t  min=#, max=#
";

/// Runs of blanks become one, since the width of a value's column hangs on its digits.
fn squeezed(text: &str) -> String {
    let mut out = String::new();
    text.chars()
        .filter(|&c| c != ' ' || !std::mem::replace(&mut out, c.to_string()).ends_with(' '))
        .collect()
}

#[test]
fn schbench_prints_reports_of_the_original_s_shape_on_stderr() {
    let links = Links::new();
    let delay = "sched delay: message # (usec) worker # (usec)\n";
    let during = format!("{REPORT}{delay}current rps: #.#\n");
    // One of each second, the last as well: mmtests reads them alone. A machine that stalls for the moment
    // of a report leaves it out; then another run tells.
    let stderr = eventually(|| {
        let output = run(&links, "schbench -m 1 -t 2 -r 2 -i 1 -n 1 -F 16 -s 10");
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stdout.is_empty());
        let stderr = text(&output.stderr);
        let reports = stderr.matches("current rps: ").count();
        let expected = format!("{}{REPORT}average rps: #.#\n{delay}", during.repeat(reports));
        assert_eq!(squeezed(&masked(&stderr)), squeezed(&expected), "{stderr}");
        if reports == 2 { Ok(stderr) } else { Err(stderr) }
    });
    parsers_read(&stderr);
}

/// The rules of the parsers that people run, as data would have them.
fn parsers_read(stderr: &str) {
    // DCPerf: percentile lines end with "samples)"; avocado and Asterinas count stars.
    let percentiles: Vec<&str> = stderr.lines().filter(|l| l.contains("th: ")).collect();
    assert!(percentiles.iter().all(|line| line.ends_with("samples)")));
    assert_eq!(stderr.matches('*').count() % 3, 0);
    for line in &percentiles {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // lkp-tests: the value is the second field, but the third after a star of its own.
        let (name, value) = if fields[0] == "*" { (1, 2) } else { (0, 1) };
        assert!(fields[name].ends_with("th:") && fields[value].parse::<u64>().is_ok(), "{line}");
        // mmtests: two blanks or a star before the percentile.
        assert!(line.starts_with("\t  ") || line.starts_with("\t* "), "{line}");
    }
    // mmtests: field 6 of a header is the runtime.
    for head in stderr.lines().filter(|line| line.contains(" percentiles (")) {
        let words: Vec<&str> = head.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "runtime").unwrap();
        assert!(words[at + 1].parse::<u64>().is_ok(), "{head}");
    }
    assert!(stderr.lines().any(|line| line.starts_with("average rps: ")));
}

#[test]
fn schbench_writes_its_json_to_stdout_and_to_a_file() {
    let links = Links::new();
    let json: serde_json::Value = eventually(|| {
        let output = run(&links, "schbench -t 1 -r 1 -n 0 -J we\"ird -j -");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(!output.stdout.ends_with(b"\n"));
        // Of a second without the CPU there is no rate.
        let measured = json["int"]["rps_pct50.0"].is_u64();
        if measured { Ok(json) } else { Err(json.to_string()) }
    });
    assert_eq!(json["normal"]["jobname"], "we\"ird");
    for key in ["wakeup_latency_pct99.0", "request_latency_min", "rps_pct50.0", "runtime", "time"] {
        assert!(json["int"][key].is_u64(), "{key}: {json}");
    }
    let file = links.path("figures.json");
    let output = run(&links, &format!("schbench -p 64 -t 1 -r 1 -j {}", file.display()));
    assert_eq!(output.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert!(json["int"]["wakeup_latency_max"].is_u64() && json["int"]["rps_min"].is_null());
    assert!(text(&output.stderr).contains("avg worker transfer: "));
}

#[test]
fn schbench_tells_what_is_wrong_before_it_starts_anything() {
    let links = Links::new();
    for (line, part) in [
        ("schbench -m 0", "use 1 to"),
        ("schbench -t -4", "use a whole number"),
        ("schbench -r abc", "duration"),
        ("schbench -M ,", "failed to parse cpuset information"),
        ("schbench --split 101", "use 0 to 100"),
        ("schbench -R 1 -m 2", "cannot divide"),
        ("schbench extra", "Error Extra arguments 'extra'"),
        ("schbench --nope", "unrecognized option '--nope'"),
        ("schbench -r 1 -j /nowhere/figures", "/nowhere/figures"),
    ] {
        let output = run(&links, line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(text(&output.stderr).contains(part), "{line}: {}", text(&output.stderr));
    }
    assert_eq!(links.processes(), [] as [PathBuf; 0]);
}

#[test]
fn an_interrupted_run_prints_what_it_measured_and_no_bogus_time() {
    crate::machine_lock::share();
    let links = Links::new();
    for (line, stdout_part, stderr_part) in [
        ("schbench -t 1 -r 60 -n 0", "", "average rps: "),
        ("hackbench -g 1 -l 100000000", "Running in", "interrupted after"),
        ("hackbench -T -g 1 -l 100000000", "Running in", "interrupted after"),
    ] {
        let mut words = line.split_whitespace();
        let child = Command::new(links.path(words.next().unwrap()))
            .args(words)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        loads_at_work(&links);
        let pid = schedlab_model::Pid(child.id().cast_signed());
        schedlab_sys::process::kill(pid, 2).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{line}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains(stdout_part), "{line}");
        assert!(!text(&output.stdout).contains("Time:"), "{line}");
        assert!(text(&output.stderr).contains(stderr_part), "{line}: {}", text(&output.stderr));
    }
    assert_eq!(links.processes(), [] as [PathBuf; 0]);
}

/// A peer that is installed; else its absence is said.
fn peer(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&folders).map(|f| f.join(name)).find(|path| path.is_file());
    if found.is_none() {
        missing!("{name}; what it prints was not compared");
    }
    found
}

/// stdout and exit code of a command.
fn told(program: &Path, line: &str) -> (String, Option<i32>) {
    let output = Command::new(program).args(line.split_whitespace()).output().unwrap();
    (text(&output.stdout), output.status.code())
}

#[test]
fn perf_s_texts_are_those_of_perf() {
    let ours = Path::new(env!("CARGO_BIN_EXE_schedlab"));
    let perf = peer("perf");
    for (line, of_perf) in [
        ("load pingpong --rounds 500 --format perf", "bench sched pipe -T -l 500"),
        ("load pingpong --rounds 500 --processes --format perf", "bench sched pipe -l 500"),
        ("load pingpong --rounds 500 --format perf-simple", "bench -f simple sched pipe -T -l 500"),
        ("load hackbench -g 1 -l 5 --format perf", "bench sched messaging -g 1 -l 5"),
        ("load hackbench -T -g 2 -l 5 --format perf", "bench sched messaging -t -g 2 -l 5"),
        (
            "load hackbench -g 1 -l 5 --format perf-simple",
            "bench -f simple sched messaging -g 1 -l 5",
        ),
    ] {
        let (printed, code) = told(ours, line);
        assert_eq!(code, Some(0), "{line}: {printed}");
        assert!(printed.chars().any(|c| c.is_ascii_digit()), "{line}");
        if let Some(perf) = &perf {
            let (expected, _) = told(perf, of_perf);
            assert_eq!(squeezed(&masked(&printed)), squeezed(&masked(&expected)), "{line}");
            // Columns end where perf's do.
            let ends = |text: &str| -> Vec<Option<usize>> {
                text.lines().map(|l| l.find("usecs/op").or_else(|| l.find("ops/sec"))).collect()
            };
            assert_eq!(ends(&printed), ends(&expected), "{printed}{expected}");
        }
    }
    for line in ["load cpu --format perf", "load pingpong --via futex --format perf"] {
        let output = Command::new(ours).args(line.split_whitespace()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
    }
}

#[test]
fn pinning_is_told_as_the_original_does() {
    let links = Links::new();
    let original = std::env::var_os("SCHBENCH").map(PathBuf::from).filter(|path| path.is_file());
    if original.is_none() {
        missing!("schbench; set SCHBENCH to its path to compare what it prints");
    }
    // The original's threads say it themselves, in whatever order they start.
    let pinning = |stderr: &str| {
        let lines = stderr.lines().filter(|line| line.to_lowercase().contains("pinning"));
        let mut lines: Vec<String> = lines.map(ToOwned::to_owned).collect();
        lines.sort();
        lines
    };
    let thread = |index: u32| format!("Pinning to message thread index {index} cpu 0");
    for (line, expected) in [
        ("-M 0 -m 2 -t 1 -r 1 -n 0", vec![thread(0), thread(1)]),
        ("-W 0 -m 1 -t 1 -r 1 -n 0", vec![]),
        (
            "-M auto -m 1 -t 1 -r 1 -n 0",
            vec![thread(0), "auto pinning message and worker threads".to_owned()],
        ),
    ] {
        let told = pinning(&text(&run(&links, &format!("schbench {line}")).stderr));
        assert_eq!(told, expected, "{line}");
        if let Some(original) = &original {
            let theirs = Command::new(original).args(line.split(' ')).output().unwrap();
            assert_eq!(pinning(&text(&theirs.stderr)), expected, "{line}");
        }
    }
}

#[test]
fn the_names_of_other_tools_stand_for_their_behaviour_unless_told_otherwise() {
    let links = Links::new();
    // Upstream tells the last delay after its threads are gone, and a rate of the moment before the first second.
    let told = |line: &str| text(&run(&links, line).stderr);
    let line = "schbench -m 1 -t 1 -r 1 -i 1 -n 0";
    let by_default = told(line);
    assert!(by_default.ends_with("sched delay: message 0 (usec) worker 0 (usec)\n"));
    let samples = |told: &str| told.matches("(2 total samples)").count();
    assert_eq!(samples(&by_default), 2, "{by_default}");
    let ours = told(&format!("{line} --compat none"));
    assert_eq!(samples(&ours), 0, "{ours}");
    for name in ["schbench", "hackbench"] {
        let usage = run(&links, &format!("{name} --help"));
        let usage = text(&[usage.stdout, usage.stderr].concat());
        let compat = usage.split("--compat WORD").nth(1).unwrap();
        let compat = compat.split("\n\n").next().unwrap().trim_end();
        assert!(compat.ends_with("[default: upstream]"), "{compat}");
    }
}

#[test]
fn usage_errors_begin_with_the_line_of_the_original() {
    let links = Links::new();
    let schbench = std::env::var_os("SCHBENCH").map(PathBuf::from).filter(|path| path.is_file());
    if schbench.is_none() {
        missing!("schbench; set SCHBENCH to its path to compare what it prints");
    }
    // The line as the originals print it, behind their name.
    for (line, expected) in [
        ("hackbench --frob", ": unrecognized option '--frob'"),
        ("hackbench -x", ": invalid option -- 'x'"),
        ("hackbench -g", ": option requires an argument -- 'g'"),
        ("hackbench --g", ": option '--groups' requires an argument"),
        ("hackbench --f 3", ": option '--f' is ambiguous; possibilities: '--fds' '--fifo'"),
        ("hackbench --p", ": option '--p' is ambiguous; possibilities: '--pipe' '--processes'"),
        ("hackbench --pipe=1", ": option '--pipe' doesn't allow an argument"),
        ("hackbench -p -i", ": --pipe|-p and --inet|-i cannot be used together"),
        ("hackbench -l 0", ": --loops|-l requires an integer > 0"),
        ("hackbench --datasize abc", ": --datasize|-s requires an integer > 0"),
        ("schbench --r 1", ": option '--r' is ambiguous; possibilities: '--runtime' '--rps'"),
        (
            "schbench --c",
            ": option '--c' is ambiguous; possibilities: '--cache_footprint' '--calibrate'",
        ),
        ("schbench -m", ": option requires an argument -- 'm'"),
        ("schbench --no-locking=1", ": option '--no-locking' doesn't allow an argument"),
        ("schbench -r 1 x", "Error Extra arguments 'x'"),
    ] {
        let output = run(&links, line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        let stderr = text(&output.stderr);
        let first = stderr.lines().next().unwrap_or_default();
        assert!(first.ends_with(expected), "{line}: {first}");
        let (name, words) = line.split_once(' ').unwrap();
        let original = if name == "hackbench" { peer(name) } else { schbench.clone() };
        if let Some(original) = original {
            let theirs = Command::new(original).args(words.split(' ')).output().unwrap();
            assert_eq!(theirs.status.code(), Some(1), "{line}");
            let theirs = text(&theirs.stderr);
            assert!(theirs.lines().next().unwrap_or_default().ends_with(expected), "{theirs}");
        }
    }
    // What was meant stands below, and the last of two that exclude each other counts.
    let slip = text(&run(&links, "hackbench --gruops 3").stderr);
    assert!(slip.ends_with(": unrecognized option '--gruops'\ndid you mean --groups?\n"), "{slip}");
    for (line, mode) in [("-T -P", "process"), ("-PT", "threaded"), ("-TpP", "process")] {
        let stdout = text(&run(&links, &format!("hackbench {line} -g 1 -f 2 -l 1")).stdout);
        assert!(stdout.starts_with(&format!("Running in {mode} mode")), "{line}: {stdout}");
    }
    // What begins like one of the original's options alone is that one.
    let stdout = text(&run(&links, "hackbench --g 1 --fd 2 --l 3 --d 50 --th").stdout);
    assert!(stdout.starts_with("Running in threaded mode with 1 groups using 4 file"), "{stdout}");
    assert!(stdout.contains("will pass 3 messages of 50 bytes\n"), "{stdout}");
}

/// Calls of write and bytes written by a command and all its children, as the kernel counts them.
fn written(program: &Path, line: &str) -> [u64; 2] {
    // A shell of its own, whose count takes in that of the children it has waited for.
    let script = format!("{} {line} >/dev/null; cat /proc/$$/io", program.display());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    let io = text(&output.stdout);
    let field = |name: &str| {
        let found = io.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap().parse().unwrap()
    };
    [field("syscw"), field("wchar")]
}

#[test]
fn hackbench_does_the_same_system_calls_as_the_original() {
    let links = Links::new();
    let original = peer("hackbench");
    for mode in ["", "-p", "-T", "-T -p"] {
        // What both do once cancels out of the difference between two runs.
        let messages = 2 * 3 * 3 * 400;
        let of = |program: &Path, more: &str| {
            let run = |loops| written(program, &format!("-g 2 -f 3 -l {loops} {mode} {more}"));
            let (less, more) = (run(100), run(500));
            std::array::from_fn::<u64, 2, _>(|i| more[i] - less[i])
        };
        let close = |[calls, bytes]: [u64; 2]| {
            // Up to what a run tells of itself: some lines, whose digits differ.
            calls.abs_diff(messages) < 20 && bytes.abs_diff(messages * 100) < 2_000
        };
        // What a run tells grows with the seconds that it takes, so one that a stall made long is not counted.
        let counted = |whose: &str, program: &Path, more: &str| {
            eventually(|| match of(program, more) {
                found if close(found) => Ok(()),
                found => Err(format!("{mode}: {whose}: {found:?} for {messages} messages")),
            });
        };
        counted("ours", &links.path("hackbench"), "");
        if let Some(original) = &original {
            counted("the original", original, "");
        }
    }
}
