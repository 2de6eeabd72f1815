//! What recording costs the workload, beside what `perf sched record` costs it.
//!
//! `cargo bench -p schedlab --bench record [-- ROUNDS]` (20 unless told). A round runs each load
//! alone, under `schedlab record` and under `perf sched record`, in an order that turns from round to
//! round. The loads: hackbench over sockets and over pipes, by its own time and by the CPU time that its
//! tasks took, and over pipes on one CPU, where its time varies least; and two tasks that hand a byte to
//! and fro on one CPU, where nothing but the cost of an event changes the time.
//!
//! Printed for each: the median with nobody recording and under each recorder; the time under
//! schedlab by that under perf; and *added*, what schedlab adds to the unrecorded time by what perf
//! adds to it. Ratios are of sums over all rounds, their 95 % intervals resample whole rounds.
//! At the end, the bytes that an event takes on disk. Standard error gets every round's figures.
//!
//! With the word `power` behind the rounds: what events of frequencies, idle states, IPIs and hrtimers cost. With `probes`:
//! what a probe and a stack cost, beside perf and bpftrace.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a benchmark speaks and may fail"
)]

#[path = "record/power.rs"]
mod power;
#[path = "record/probes.rs"]
mod probes;
#[path = "record/rounds.rs"]
mod rounds;

use rounds::resampled;
use schedlab_stats::Sample;
use std::path::Path;
use std::process::{Command, Stdio};

/// Who records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    Nobody,
    Schedlab,
    Perf,
}

const ARMS: [Arm; 3] = [Arm::Nobody, Arm::Schedlab, Arm::Perf];

/// What is recorded, as a line of shell, and the figures that it prints.
struct Load {
    line: &'static str,
    figures: &'static [(&'static str, Reader)],
}

/// Finds a figure in what a load printed.
type Reader = fn(&str) -> Option<f64>;

const HACKBENCH: &[(&str, Reader)] = &[("time, s", hackbench_time), ("CPU time, s", cpu_time)];

const LOADS: [Load; 4] = [
    Load { line: "hackbench -g 4 -l 400; times", figures: HACKBENCH },
    Load { line: "hackbench -p -g 4 -l 400; times", figures: HACKBENCH },
    Load {
        line: "taskset -c 0 hackbench -p -g 1 -f 2 -l 100000 -s 1000; times",
        figures: HACKBENCH,
    },
    Load {
        line: "taskset -c 0 perf bench sched pipe -l 30000",
        figures: &[("time of a hand-over and back, us", pipe_time)],
    },
];

fn hackbench_time(said: &str) -> Option<f64> {
    said.lines().find_map(|line| line.strip_prefix("Time: "))?.trim().parse().ok()
}

/// User and system time of the shell's children: the last line that `times` prints, `0m1.5s 0m2.5s`.
fn cpu_time(said: &str) -> Option<f64> {
    let part = |text: &str| -> Option<f64> {
        let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    said.lines().last()?.split(' ').map(part).sum()
}

fn pipe_time(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.ends_with(" usecs/op"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|text| text.parse().ok()).unwrap_or(20);
    let dir = tempfile::tempdir().unwrap();
    if std::env::args().any(|word| word == "probes") {
        return probes::tell(rounds, dir.path());
    }
    for peer in ["hackbench", "perf"] {
        if Command::new(peer).arg("--help").output().is_err() {
            println!("MISSING: {peer}");
            return;
        }
    }
    if std::env::args().any(|word| word == "power") {
        return power::tell(rounds, dir.path());
    }
    for load in LOADS {
        let times = measure(&load, rounds, dir.path());
        for (figure, (name, _)) in load.figures.iter().enumerate() {
            println!("{}: {name}; {rounds} rounds", load.line.trim_end_matches("; times"));
            tell(&times.each_ref().map(|arm| arm[figure].as_slice()));
        }
        for file in ["schedlab.dat", "perf.data"] {
            bytes_an_event(&dir.path().join(file));
        }
        println!();
    }
}

/// Each figure of each arm, by round.
fn measure(load: &Load, rounds: usize, dir: &Path) -> [Vec<Vec<f64>>; 3] {
    let mut times = [const { Vec::new() }; 3].map(|none: Vec<Vec<f64>>| none);
    times.iter_mut().for_each(|arm| arm.resize(load.figures.len(), Vec::new()));
    for round in 0..rounds {
        for turn in 0..ARMS.len() {
            let arm = (round + turn) % ARMS.len();
            let figures = run(ARMS[arm], load, dir);
            eprintln!("{round} {:?} {figures:?}", ARMS[arm]);
            for (all, one) in times[arm].iter_mut().zip(figures) {
                all.push(one);
            }
        }
    }
    times
}

fn run(arm: Arm, load: &Load, dir: &Path) -> Vec<f64> {
    let recorder: &[&str] = match arm {
        Arm::Nobody => &[],
        // What perf records, too: no IPIs and timers.
        Arm::Schedlab => &[
            env!("CARGO_BIN_EXE_schedlab"),
            "record",
            "--for",
            "scheduling",
            "-o",
            "schedlab.dat",
            "--",
        ],
        Arm::Perf => &["perf", "sched", "record", "-o", "perf.data", "--"],
    };
    let argv = [recorder, &["sh", "-c", load.line]].concat();
    let mut command = Command::new(argv[0]);
    let output = command.args(&argv[1..]).current_dir(dir).stderr(Stdio::piped()).output().unwrap();
    // What a recorder says besides stands on lines of its own.
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let figures: Option<Vec<f64>> = load.figures.iter().map(|(_, read)| read(&said)).collect();
    figures.unwrap_or_else(|| {
        panic!("{arm:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    })
}

fn tell(times: &[&[f64]; 3]) {
    for (arm, times) in ARMS.iter().zip(times) {
        let name = format!("recorded by {arm:?}").to_lowercase();
        println!("  {name:24} {:8.3}", Sample::new(times.to_vec()).unwrap().median());
    }
    let sum = |arm: usize, rounds: &[usize]| rounds.iter().map(|r| times[arm][*r]).sum::<f64>();
    let line = |name: &str, ratio: &dyn Fn(&[usize]) -> f64| {
        let (low, high) = resampled(times[0].len(), ratio);
        let all: Vec<usize> = (0..times[0].len()).collect();
        println!("  {name:24} {:8.3}  [{low:.3}, {high:.3}]", ratio(&all));
    };
    line("schedlab to nobody", &|r| sum(1, r) / sum(0, r));
    line("perf to nobody", &|r| sum(2, r) / sum(0, r));
    line("schedlab to perf", &|r| sum(1, r) / sum(2, r));
    line("schedlab to perf, added", &|r| (sum(1, r) - sum(0, r)) / (sum(2, r) - sum(0, r)));
}

fn bytes_an_event(file: &Path) {
    let bytes = std::fs::metadata(file).unwrap().len();
    let info = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["trace", "info", "--json"])
        .arg(file)
        .output()
        .unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    let counts = info["events"].as_object().unwrap().values();
    let events: u64 = counts.filter_map(serde_json::Value::as_u64).sum();
    let name = file.file_name().unwrap_or_default().display();
    let each = bytes as f64 / events as f64;
    println!("  {name:24} {each:8.1} bytes an event ({events} events, lost {})", info["lost"]);
}
