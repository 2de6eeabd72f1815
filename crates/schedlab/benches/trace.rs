//! What a user waits for: the command's own time from its start to its last line, beside the peers' commands on the
//! same file in the same run.
//!
//! `cargo bench -p schedlab --bench trace [-- FILE...]`. Without files it takes the recording of hackbench that
//! `cargo bench -p schedlab-trace --bench read` leaves in the temporary folder, and makes a trace.dat of it. Ours are
//! the best of five, the peers' one run each, since they take many seconds. Wall time decides; time on a CPU, which the
//! kernel counts in ticks of 10 ms, stands beside it, with threads above the wall time.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks and may fail")]

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RUNS: usize = 5;

/// Each question as a user types it; first the table on one core, beside which the peers' times are set, since they use
/// no more.
const QUESTIONS: [&[&str]; 11] = [
    &["latency", "--threads", "1"],
    &["latency"],
    &["latency", "--json"],
    &["latency", "--by", "cpu", "--worst", "10"],
    &["tasks"],
    &["cpus"],
    &["waiting"],
    &["conservation", "--threads", "1"],
    &["conservation"],
    &["locality"],
    &["migrations"],
];

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let named: Vec<PathBuf> =
        std::env::args().skip(1).map(PathBuf::from).filter(|path| path.exists()).collect();
    for file in if named.is_empty() { kept(dir.path()) } else { named } {
        measure(&file);
    }
}

/// What the benchmark of reading left, and the same as a trace.dat.
fn kept(dir: &Path) -> Vec<PathBuf> {
    let recorded =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-read-usual-5000000.perf.data");
    if !recorded.exists() {
        println!(
            "MISSING: {}: run `cargo bench -p schedlab-trace --bench read` first",
            recorded.display()
        );
        return Vec::new();
    }
    let dat = dir.join("usual.dat");
    let mut convert = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    convert.args(["trace", "convert", "--to", "dat-v6"]).arg(&recorded).arg(&dat);
    assert!(convert.stderr(Stdio::null()).status().unwrap().success());
    vec![recorded, dat]
}

fn measure(file: &Path) {
    let events = events(file);
    let kind = if is_perf(file) { "perf.data" } else { "trace.dat" };
    println!("\n{kind}, {events} events: ns an event, wall and on a CPU");
    let row = |name: &str, (wall, on_cpu): (Duration, Duration), ours: Option<Duration>| {
        let each = |time: Duration| time.as_secs_f64() * 1e9 / events as f64;
        let ratio = ours.map_or_else(String::new, |ours| {
            format!("{:8.1} x ours", wall.as_secs_f64() / ours.as_secs_f64())
        });
        println!("{name:44} {:8.1} {:8.1}{ratio}", each(wall), each(on_cpu));
    };
    let program = env!("CARGO_BIN_EXE_schedlab");
    let mut table = None;
    for question in QUESTIONS {
        let mut words = vec!["trace"];
        words.extend(question);
        let best = (0..RUNS).filter_map(|_| run(program, &words, file)).min().unwrap();
        row(&format!("schedlab trace {}", question.join(" ")), best, None);
        table = table.or(Some(best.0));
    }
    let peers: &[&[&str]] = if is_perf(file) {
        &[&["perf", "sched", "latency", "-i"], &["perf", "script", "-i"]]
    } else {
        &[&["trace-cmd", "report", "-i"]]
    };
    for peer in peers {
        match run(peer[0], &peer[1..], file) {
            Some(time) => row(&peer[..peer.len() - 1].join(" "), time, table),
            None => println!("MISSING: {}: no ratio to it", peer.join(" ")),
        }
    }
}

fn is_perf(file: &Path) -> bool {
    let mut magic = [0; 8];
    std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && &magic == b"PERFILE2"
}

/// Wall time and time on a CPU; `None` where the program is absent or refuses the file.
fn run(program: &str, words: &[&str], file: &Path) -> Option<(Duration, Duration)> {
    let (start, before) = (Instant::now(), children_on_cpu());
    let mut command = Command::new(program);
    command.args(words).arg(file).stdout(Stdio::null()).stderr(Stdio::null());
    let success = command.status().ok()?.success();
    success.then(|| (start.elapsed(), children_on_cpu().saturating_sub(before)))
}

/// Time that children which have ended were on a CPU, to the kernel's tick of 10 ms.
fn children_on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    // Fields are counted from 1, and the second, a name in brackets, may hold spaces.
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u64>().unwrap();
    Duration::from_millis((ticks(13) + ticks(14)) * 10)
}

fn events(file: &Path) -> u64 {
    let args = ["trace", "info", "--json"];
    let output =
        Command::new(env!("CARGO_BIN_EXE_schedlab")).args(args).arg(file).output().unwrap();
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    info["events"].as_object().unwrap().values().filter_map(serde_json::Value::as_u64).sum()
}
