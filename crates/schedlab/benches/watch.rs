//! What watching costs the machine, beside `perf sched record` and a bpftrace script of run-queue latencies.
//!
//! `cargo bench -p schedlab --bench watch [-- ROUNDS]` (20 unless told). A round runs each load alone and beside each
//! watcher, in an order that turns from round to round. The loads: hackbench, a fixed amount of work, by its own time;
//! and schbench for four seconds, by its requests.
//!
//! Printed for each: medians; then ratios to alone, of sums over all rounds, with 95 % intervals that resample whole
//! rounds. *Added* is the CPU time that the whole machine takes beside a watcher and does not take alone, kernel and
//! watcher together, as a part of all CPUs' time; only where the work is fixed. *Own* is what the watcher's process took
//! of it. Standard error gets every round's figures.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a benchmark speaks and may fail"
)]

#[path = "record/rounds.rs"]
mod rounds;

use rounds::resampled;
use schedlab_stats::Sample;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_schedlab");
/// Linux counts CPU time in this many ticks a second for programs.
const TICKS: f64 = 100.0;
/// What the scripts by this name do.
const RUNQLAT: &str = "tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new { @at[args->pid] = nsecs; } \
                       tracepoint:sched:sched_switch { if (args->prev_state == 0) { @at[args->prev_pid] = nsecs; } \
                       $ns = @at[args->next_pid]; if ($ns) { @usecs = hist((nsecs - $ns) / 1000); } \
                       delete(@at[args->next_pid]); }";

struct Arm {
    name: &'static str,
    command: &'static [&'static str],
}

const ARMS: [Arm; 4] = [
    Arm { name: "alone", command: &[] },
    Arm { name: "watch", command: &[PROGRAM, "watch", "--json"] },
    Arm { name: "perf", command: &["perf", "sched", "record", "-o", "perf.data"] },
    Arm { name: "runqlat", command: &["bpftrace", "-e", RUNQLAT] },
];

struct Load {
    name: &'static str,
    line: &'static [&'static str],
    /// Whether its work is fixed, and not its time.
    is_fixed: bool,
}

const LOADS: [Load; 2] = [
    Load { name: "hackbench", line: &["hackbench", "-g", "4", "-l", "2000"], is_fixed: true },
    Load {
        name: "schbench",
        line: &[PROGRAM, "load", "schbench", "--runtime", "4s", "--json"],
        is_fixed: false,
    },
];

/// What one run gave.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    /// Seconds, or requests.
    load: f64,
    seconds: f64,
    /// CPU time of the machine, and of the watcher's process.
    busy: f64,
    own: f64,
    events: f64,
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|text| text.parse().ok()).unwrap_or(20);
    let is_there = |name: &str| Command::new(name).arg("--help").output().is_ok();
    let has_peer = |arm: &&Arm| {
        let missing = arm.command.first().filter(|program| !is_there(program));
        missing.iter().for_each(|program| println!("MISSING: {program}"));
        missing.is_none()
    };
    let arms: Vec<&Arm> = ARMS.iter().filter(has_peer).collect();
    let dir = tempfile::tempdir().unwrap();
    for load in LOADS {
        if !is_there(load.line[0]) {
            println!("MISSING: {}", load.line[0]);
            continue;
        }
        let mut all = vec![Vec::new(); arms.len()];
        for round in 0..rounds {
            for turn in 0..arms.len() {
                let at = (round + turn) % arms.len();
                let figures = run(arms[at], &load, dir.path());
                eprintln!("{} {round} {} {figures:?}", load.name, arms[at].name);
                all[at].push(figures);
            }
        }
        tell(&load, &arms, &all);
    }
}

fn run(arm: &Arm, load: &Load, dir: &Path) -> Figures {
    let told = dir.join("told");
    let watcher = arm.command.split_first().map(|(program, words)| {
        let mut command = Command::new(program);
        command.args(words).current_dir(dir).stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(File::create(&told).unwrap()).spawn().unwrap()
    });
    // It starts meanwhile, and closes a window.
    std::thread::sleep(Duration::from_millis(1_500));
    let (before, began) = ((busy(), watcher.as_ref().map_or(0.0, own)), Instant::now());
    let mut command = Command::new(load.line[0]);
    let output = command.args(&load.line[1..]).current_dir(dir).output();
    let seconds = began.elapsed().as_secs_f64();
    let after = (busy(), watcher.as_ref().map_or(0.0, own));
    if let Some(mut watcher) = watcher {
        Command::new("kill").args(["-INT", &watcher.id().to_string()]).status().unwrap();
        watcher.wait().unwrap();
    }
    // Only now: a load that failed must not leave the watcher behind.
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    Figures {
        load: if load.is_fixed { seconds } else { requests(&said) },
        seconds,
        busy: after.0 - before.0,
        own: after.1 - before.1,
        events: if arm.name == "watch" { events_a_second(&told) } else { 0.0 },
    }
}

/// CPU time of all CPUs that was neither idle nor stolen.
fn busy() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks = stat.lines().next().unwrap().split_whitespace().skip(1);
    let ticks: Vec<f64> = ticks.map(|tick| tick.parse().unwrap()).collect();
    [0, 1, 2, 5, 6].iter().map(|at| ticks[*at]).sum::<f64>() / TICKS
}

/// CPU time of a process.
fn own(child: &Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks = rest.split_whitespace().skip(11).take(2);
    ticks.filter_map(|tick| tick.parse::<f64>().ok()).sum::<f64>() / TICKS
}

fn requests(said: &str) -> f64 {
    let answer: serde_json::Value = serde_json::from_str(said).unwrap();
    answer["requests"][0].as_f64().unwrap_or_else(|| panic!("{said}"))
}

/// The most events that a window had, each of which is a second.
fn events_a_second(told: &Path) -> f64 {
    let text = std::fs::read_to_string(told).unwrap();
    let windows =
        text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    windows.filter_map(|window| window["events"].as_f64()).fold(0.0, f64::max)
}

fn tell(load: &Load, arms: &[&Arm], all: &[Vec<Figures>]) {
    let rounds = all[0].len();
    println!("{}; {rounds} rounds", load.name);
    for (arm, figures) in arms.iter().zip(all) {
        let median = |of: fn(&Figures) -> f64| {
            Sample::new(figures.iter().map(of).collect::<Vec<f64>>()).unwrap().median()
        };
        println!(
            "  {:10} {:10.3} {}  CPUs {:6.2} s  own {:6.3} s  {:9.0} events/s",
            arm.name,
            median(|one| one.load),
            if load.is_fixed { "s" } else { "requests" },
            median(|one| one.busy),
            median(|one| one.own),
            median(|one| one.events)
        );
    }
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    for (arm, figures) in arms.iter().zip(all).skip(1) {
        let sum = |of: fn(&Figures) -> f64, all: &[Figures], rounds: &[usize]| -> f64 {
            rounds.iter().map(|round| of(&all[*round])).sum()
        };
        let line = |name: &str, ratio: &dyn Fn(&[usize]) -> f64| {
            let (low, high) = resampled(rounds, ratio);
            let every: Vec<usize> = (0..rounds).collect();
            println!("  {:10} {name:22} {:8.4}  [{low:.4}, {high:.4}]", arm.name, ratio(&every));
        };
        line("to alone", &|r| sum(|one| one.load, figures, r) / sum(|one| one.load, &all[0], r));
        if load.is_fixed {
            line("added, of all CPUs", &|r| {
                let added = sum(|one| one.busy, figures, r) - sum(|one| one.busy, &all[0], r);
                added / (cpus * sum(|one| one.seconds, figures, r))
            });
        }
        line("own, of all CPUs", &|r| {
            sum(|one| one.own, figures, r) / (cpus * sum(|one| one.seconds, figures, r))
        });
    }
    println!();
}
