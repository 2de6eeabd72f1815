//! Bad placements on 128 CPUs that a program of others planted: each is one episode, and no other is found.
//!
//! The program prints a trace in which two tasks share a CPU for 37 steps while the CPU of one of them idles. It lies
//! beside the traces of others (`SCHEDLAB_DATA`). What it plants is read from its own text here: a task is moved to
//! the CPU of another one, and both alternate there until it is moved back.

use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn program() -> Option<PathBuf> {
    let data = std::env::var_os("SCHEDLAB_DATA")?;
    let program = Path::new(&data).join("../repro/placements_128.py");
    program.exists().then_some(program)
}

/// When each planted move was logged, in nanoseconds, and where it led. The program moves a task away and back in turns.
fn planted(text: &str) -> Vec<(u64, u64)> {
    let moves = text.lines().filter_map(|line| {
        let (head, arguments) = line.split_once("sched_migrate_task:")?;
        let time = head.split(']').nth(1)?.trim().trim_end_matches(':');
        let (secs, nanos) = time.split_once('.')?;
        let ns = secs.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?;
        Some((ns, arguments.rsplit('=').next()?.trim().parse::<u64>().ok()?))
    });
    moves.step_by(2).collect()
}

#[test]
fn each_planted_placement_is_one_episode_and_none_is_invented() {
    let Some(program) = program() else {
        let _ = writeln!(
            std::io::stderr(),
            "MISSING: SCHEDLAB_DATA/../repro/placements_128.py: its placements are not looked for"
        );
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let made = Command::new("python3").arg(program).current_dir(dir.path()).output();
    assert!(made.expect("python3 starts").status.success());
    let text = std::fs::read_to_string(dir.path().join("ua128.txt")).expect("it writes a trace");
    let output = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["trace", "conservation", "--json", "ua128.txt"])
        .current_dir(dir.path())
        .output()
        .expect("the built command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let origin: u64 = answer["origin_ns"].as_str().expect("a text").parse().expect("a number");
    let mut episodes: Vec<(u64, u64, u64)> = answer["episodes"]
        .as_array()
        .expect("episodes")
        .iter()
        .map(|episode| {
            let number = |key: &str| episode[key].as_u64().expect("a number");
            (origin + number("start_ns"), number("overloaded_cpu"), number("cost_ns"))
        })
        .collect();
    episodes.sort_unstable();
    // What is shorter than a millisecond is a kernel thread's turn, not a step of two tasks on one CPU.
    let long: Vec<_> = episodes.iter().filter(|(_, _, cost)| *cost >= 1_000_000).collect();
    let planted = planted(&text);
    assert!(planted.len() >= 30, "the program plants 37: {}", planted.len());
    assert_eq!(long.len(), planted.len(), "one episode for each step");
    for ((start, cpu, _), (moved, to)) in long.iter().zip(&planted) {
        assert_eq!(cpu, to, "on the CPU to which the task was moved");
        assert!(start.abs_diff(*moved) < 500_000, "{start} beside {moved}: in its own step");
    }
    // Each step lasts 16 ms, in which both tasks take turns.
    for (_, _, cost) in long {
        assert!((15_900_000..16_200_000).contains(cost), "{cost} ns");
    }
}
