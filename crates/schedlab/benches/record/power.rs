//! What events of power cost beside the scheduler's: `cargo bench -p schedlab --bench record -- ROUNDS power`.
//!
//! A round records hackbench (over sockets and over pipes) once with the scheduler's events alone and once with each group of
//! events beside them, in an order that turns. Printed for each group: the CPU time of hackbench's tasks by that without the
//! group, with its 95 % interval, and how many more events the trace has. A group may be recorded by default where it
//! costs under 1 % of CPU time and under 10 % more events.

use crate::cpu_time;
use crate::rounds::resampled;
use std::path::Path;
use std::process::Command;

/// The scheduler's events alone, and those of each group beside them.
const ARMS: [(&str, &[&str]); 5] = [
    ("scheduler alone", &[]),
    ("frequency", &["power:cpu_frequency?"]),
    ("idle", &["power:cpu_idle?"]),
    (
        "IPIs",
        &[
            "ipi:ipi_entry?",
            "ipi:ipi_exit?",
            "irq_vectors:reschedule_entry?",
            "irq_vectors:reschedule_exit?",
            "irq_vectors:call_function_single_entry?",
            "irq_vectors:call_function_single_exit?",
        ],
    ),
    ("hrtimers", &["timer:hrtimer_expire_entry?", "timer:hrtimer_expire_exit?"]),
];

const LOADS: [&str; 2] = ["hackbench -g 4 -l 400; times", "hackbench -p -g 4 -l 400; times"];

/// What a recorded run took.
#[derive(Clone, Copy)]
struct Taken {
    cpu_s: f64,
    events: f64,
    /// Those that are not the scheduler's.
    others: f64,
}

pub(crate) fn tell(rounds: usize, dir: &Path) {
    for load in LOADS {
        let mut taken: [Vec<Taken>; ARMS.len()] = Default::default();
        for round in 0..rounds {
            for turn in 0..ARMS.len() {
                let arm = (round + turn) % ARMS.len();
                taken[arm].push(run(load, ARMS[arm].1, dir));
            }
        }
        println!("{}; {rounds} rounds", load.trim_end_matches("; times"));
        let sum = |arm: usize, of: fn(&Taken) -> f64, rounds: &[usize]| {
            rounds.iter().map(|round| of(&taken[arm][*round])).sum::<f64>()
        };
        let all: Vec<usize> = (0..rounds).collect();
        for (arm, (name, _)) in ARMS.iter().enumerate() {
            let cost = |rounds: &[usize]| {
                let of = |taken: &Taken| taken.cpu_s;
                100.0 * (sum(arm, of, rounds) / sum(0, of, rounds) - 1.0)
            };
            let (low, high) = resampled(rounds, &cost);
            let more = sum(arm, |taken| taken.others, &all) - sum(0, |taken| taken.others, &all);
            let more = 100.0 * more / sum(arm, |taken| taken.events - taken.others, &all);
            println!(
                "  {name:16} CPU time {:+6.2} %  [{low:+.2}, {high:+.2}]   events {more:+6.2} %",
                cost(&all)
            );
        }
        println!();
    }
}

fn run(load: &str, events: &[&str], dir: &Path) -> Taken {
    let schedlab = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.current_dir(dir);
        command
    };
    let mut command = schedlab();
    command.args(["record", "--for", "scheduling", "-o", "power.dat"]);
    command.args(events.iter().flat_map(|event| ["-e", event]));
    let output = command.args(["--", "sh", "-c", load]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let cpu_s = cpu_time(&said).unwrap_or_else(|| {
        panic!("{events:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    });
    let info = schedlab().args(["trace", "info", "--json", "power.dat"]).output().unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    let counts = || {
        let counts = info["events"].as_object().unwrap().iter();
        counts.filter_map(|(name, count)| Some((name.as_str(), count.as_f64()?)))
    };
    let is_other = |name: &str| !name.starts_with("sched_");
    let others = counts().filter(|(name, _)| is_other(name)).map(|(_, count)| count).sum();
    Taken { cpu_s, events: counts().map(|(_, count)| count).sum(), others }
}
