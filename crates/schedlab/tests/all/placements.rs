//! Bad placements on 128 CPUs that a program of others planted: each is one episode, and no other is found.
//!
//! The program prints a trace in which two tasks share a CPU for 37 steps while the CPU of one of them idles. It lies
//! beside the traces of others (`SCHEDLAB_DATA`). What it plants is read from its own text here: a task is moved to
//! the CPU of another one, and both alternate there until it is moved back. Each step has a cause, which the lines
//! before the move tell; a wrong one counts worse than "unexplained".

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn program() -> Option<PathBuf> {
    let data = std::env::var_os("SCHEDLAB_DATA")?;
    let program = Path::new(&data).join("../repro/placements_128.py");
    program.exists().then_some(program)
}

/// A planted step.
struct Planted {
    /// When the move was logged, in nanoseconds.
    at: u64,
    /// Where it led.
    cpu: u64,
    /// Its cause, by what stood on that CPU then.
    cause: &'static str,
}

/// A line of the trace: when, on which CPU, by whom, which event, and its arguments.
struct Line<'a> {
    at: u64,
    cpu: u64,
    by: u64,
    event: &'a str,
    arguments: &'a str,
}

impl<'a> Line<'a> {
    /// `comm-pid [cpu] secs.nanos: event: arguments`.
    fn of(line: &'a str) -> Option<Self> {
        let (task, rest) = line.split_once('[')?;
        let (cpu, rest) = rest.split_once(']')?;
        let (time, rest) = rest.trim_start().split_once(": ")?;
        let (event, arguments) = rest.split_once(": ")?;
        let (secs, nanos) = time.split_once('.')?;
        let at = secs.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?;
        let by = task.trim_end().rsplit_once('-')?.1.parse().ok()?;
        Some(Self { at, cpu: cpu.parse().ok()?, by, event, arguments })
    }

    fn number(&self, key: &str) -> Option<u64> {
        let value = self.arguments.split_whitespace().find_map(|word| word.strip_prefix(key))?;
        value.trim_start_matches('0').parse().ok().or(Some(0))
    }
}

/// What the text says of each CPU, line by line.
#[derive(Default)]
struct Machine {
    /// By CPU: who was switched in last; 0 is the idle task.
    current: BTreeMap<u64, u64>,
    /// By task: the CPU to which it was woken, until it is switched in.
    woken: BTreeMap<u64, u64>,
}

impl Machine {
    fn take(&mut self, line: &Line<'_>) {
        match line.event {
            "sched_switch" => {
                let next = line.number("next_pid=").unwrap_or(0);
                self.current.insert(line.cpu, next);
                self.woken.remove(&next);
            }
            "sched_wakeup" => {
                let (pid, cpu) = (line.number("pid="), line.number("target_cpu="));
                self.woken.extend(pid.zip(cpu));
            }
            _ => {}
        }
    }

    /// Why a task waits that `line` puts on `cpu`: by whom and on what it was put there.
    fn cause(&self, line: &Line<'_>, cpu: u64) -> &'static str {
        match self.current.get(&cpu).copied().unwrap_or(0) {
            0 if self.woken.values().any(|on| *on == cpu) => "behind_another",
            0 => "overtaken",
            running if running == line.by => "woken_on_wakers_cpu",
            // It is moved, so it ran elsewhere last.
            _ => "woken_elsewhere",
        }
    }
}

/// What the program planted. It moves a task away and back in turns.
fn planted(text: &str) -> Vec<Planted> {
    let (mut machine, mut found, mut moves) = (Machine::default(), Vec::new(), 0);
    for line in text.lines().filter_map(Line::of) {
        if line.event == "sched_migrate_task" {
            moves += 1;
            if moves % 2 == 1 {
                let cpu = line.number("dest_cpu=").expect("a move leads somewhere");
                let cause = machine.cause(&line, cpu);
                found.push(Planted { at: line.at, cpu, cause });
            }
        }
        machine.take(&line);
    }
    found
}

/// An episode that was found.
struct Found {
    start: u64,
    cpu: u64,
    cost: u64,
    cause: String,
}

/// What the command finds in the trace of `dir`, in order of time.
fn found(dir: &Path) -> Vec<Found> {
    let output = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["trace", "conservation", "--json", "ua128.txt"])
        .current_dir(dir)
        .output()
        .expect("the built command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let origin: u64 = answer["origin_ns"].as_str().expect("a text").parse().expect("a number");
    let mut episodes: Vec<Found> = answer["episodes"]
        .as_array()
        .expect("episodes")
        .iter()
        .map(|episode| {
            let number = |key: &str| episode[key].as_u64().expect("a number");
            let (cpu, cost) = (number("overloaded_cpu"), number("cost_ns"));
            let cause = episode["cause"].as_str().expect("a text").to_owned();
            Found { start: origin + number("start_ns"), cpu, cost, cause }
        })
        .collect();
    episodes.sort_by_key(|episode| (episode.start, episode.cpu));
    episodes
}

#[test]
fn each_planted_placement_is_one_episode_with_its_cause_and_none_is_invented() {
    let Some(program) = program() else {
        missing!("SCHEDLAB_DATA/../repro/placements_128.py: its placements are not looked for");
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let made = Command::new("python3").arg(program).current_dir(dir.path()).output();
    assert!(made.expect("python3 starts").status.success());
    let text = std::fs::read_to_string(dir.path().join("ua128.txt")).expect("it writes a trace");
    let planted = planted(&text);
    assert!(planted.len() >= 30, "the program plants 37: {}", planted.len());
    let mut episodes = found(dir.path());
    // What is shorter than a millisecond is a kernel thread's turn, not a step of two tasks on one CPU.
    episodes.retain(|episode| episode.cost >= 1_000_000);
    assert_eq!(episodes.len(), planted.len(), "one episode for each step");
    let mut explained = 0;
    for (found, planted) in episodes.iter().zip(&planted) {
        let Found { start, cpu, cost, cause } = found;
        assert_eq!(*cpu, planted.cpu, "on the CPU to which the task was moved");
        assert!(
            start.abs_diff(planted.at) < 500_000,
            "{start} beside {}: its own step",
            planted.at
        );
        // Each step lasts 16 ms, in which both tasks take turns.
        assert!((15_900_000..16_200_000).contains(cost), "{cost} ns");
        assert!(
            cause == planted.cause || cause == "unexplained",
            "{cause} for what is {} at {start}",
            planted.cause
        );
        explained += usize::from(cause == planted.cause);
    }
    assert!(explained * 2 >= planted.len(), "only {explained} of {} have a cause", planted.len());
}
