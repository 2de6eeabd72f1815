//! One run of a program is at full speed and slowed by turns. Each slowed turn is compared with the two turns at full
//! speed beside it, so a host whose speed drifts over seconds disturbs little.
//!
//! What a hypervisor takes of a turn does not count. Burns and slices lose their part of it as the program does. A budget
//! does not: the kernel counts only time that the program had, so under budgets all of a slowed turn counts.

use super::programs::Programs;
use super::table::{interval, median};
use super::{Failure, Point, options, part};
use schedlab_model::{Cpu, CpuSet, Nanos};
use schedlab_sys::clock;
use std::process::Command;
use std::time::SystemTime;

/// The turns of a program. What counts of a turn is whole periods of all methods.
#[derive(Clone, Copy)]
struct Pitch {
    turn: Nanos,
    /// What does not count of a turn at its beginning: until the new speed is in force, with warm caches or cold ones.
    /// And at its end, since a part of the work that ends in the next turn is no measure of this one.
    settle: Nanos,
}

/// Short turns leave less noise in as much time. Rounds of a compiler are too long for them, and periods for work that
/// sleeps are found too slowly.
const SHORT: Pitch = Pitch { turn: Nanos::from_secs(1), settle: Nanos::from_millis(250) };
const LONG: Pitch = Pitch { turn: Nanos::from_secs(3), settle: Nanos::from_millis(500) };

fn pitch(program: &str) -> Pitch {
    if matches!(program, "gcc" | "barrier" | "phases" | "short") { LONG } else { SHORT }
}

/// A part of the work whose end is noted, in seconds at full speed. A compiler notes whole rounds.
const PART_S: f64 = 2e-3;
/// How long a run is, in seconds, for each of the rounds that are asked for. One more is for the start.
const ROUND_S: f64 = 12.0;
/// Before the first turn the period is found.
const WARM_UP: Nanos = Nanos::from_secs(3);

/// What counts of a turn: from when to when, in seconds, which part a hypervisor took, and whether it was slowed.
struct Turn {
    from: f64,
    to: f64,
    stolen: f64,
    slowed: bool,
}

/// The parts of the work that were done at a time, between its first and its last.
fn done(times: &[f64], at: f64) -> Option<f64> {
    let after = times.partition_point(|time| *time <= at);
    let (before, after) = (after.checked_sub(1)?, times.get(after)?);
    Some(before as f64 + (at - times[before]) / (after - times[before]))
}

/// Parts of the work in a second of each turn that lies within the run.
fn rates(times: &[f64], turns: &[Turn], budget: bool) -> Vec<(f64, bool)> {
    let rate = |turn: &Turn| {
        let work = done(times, turn.to)? - done(times, turn.from)?;
        let there = if budget && turn.slowed { 1.0 } else { 1.0 - turn.stolen };
        Some((work / (turn.to - turn.from) / there, turn.slowed))
    };
    turns.iter().filter_map(rate).collect()
}

/// What each slowed turn did as a part of the turn before it, and of the one after it, at full speed: two values for each
/// turn that has both neighbours, sorted. Not as a part of their mean: where a host has two speeds and one of them is
/// rare, the median of such parts is a point off, also where nothing is slowed.
fn ratios(rates: &[(f64, bool)]) -> Vec<f64> {
    let two = |three: &[(f64, bool)]| match three {
        [(before, false), (slowed, true), (after, false)] => {
            Some([slowed / before, slowed / after])
        }
        _ => None,
    };
    let mut ratios: Vec<f64> = rates.windows(3).filter_map(two).flatten().collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

/// Seconds that a hypervisor took from some CPUs so far, for each of them.
pub(super) fn stolen_s(cpus: &CpuSet) -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let of = |line: &str| {
        let cpu = line.strip_prefix("cpu")?.split_whitespace().next()?.parse().ok()?;
        // In hundredths of a second.
        let stolen: f64 = line.split_whitespace().nth(8)?.parse().ok()?;
        cpus.contains(Cpu(cpu)).then_some(stolen / 100.0)
    };
    text.lines().filter_map(of).sum::<f64>() / cpus.len() as f64
}

/// Sets the speed of the session by turns until the run has ended.
fn take_turns(
    speed: &str,
    Pitch { turn, settle }: Pitch,
    cpus: &CpuSet,
    has_ended: &dyn Fn() -> bool,
) -> Vec<Turn> {
    let mut turns = Vec::new();
    let mut begins = Nanos((clock::monotonic() + WARM_UP).0 / turn.0 * turn.0);
    let mut slowed = false;
    loop {
        clock::sleep_until(begins);
        if has_ended() {
            return turns;
        }
        let asked = if slowed { speed } else { "100%" };
        let set = Command::new(super::programs::SCHEDLAB)
            .args(["slow", "set", &format!("all={asked}")])
            .output();
        let from = begins + settle;
        begins += turn;
        let to = begins - settle;
        if !set.is_ok_and(|set| set.status.success()) {
            continue;
        }
        clock::sleep_until(from);
        let before = stolen_s(cpus);
        clock::sleep_until(to);
        let (from, to) = (from.0 as f64 / 1e9, to.0 as f64 / 1e9);
        let stolen = (stolen_s(cpus) - before) / (to - from);
        turns.push(Turn { from, to, stolen, slowed });
        slowed = !slowed;
    }
}

/// What is added to a time of the day to get one of `CLOCK_MONOTONIC`, in seconds.
fn offset() -> Result<f64, Failure> {
    let day = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(clock::monotonic().0 as f64 / 1e9 - day.as_secs_f64())
}

/// The ratios of a point, and the part of the time that a hypervisor took.
fn measure(
    programs: &Programs,
    Point { program, method, speed }: &Point,
    rounds: usize,
) -> Result<(Vec<f64>, f64), Failure> {
    // Half of the time it is slowed.
    let work_s = (rounds + 1) as f64 * ROUND_S * (1.0 + part(speed)?) / 2.0;
    let parts = (work_s / PART_S) as usize;
    std::thread::scope(|scope| {
        let run = || {
            programs
                .parts(program, speed, options(method), (work_s, parts))
                .map_err(|e| e.to_string())
        };
        let run = std::thread::Builder::new().spawn_scoped(scope, run)?;
        let cpus = programs.cpus(program).parse()?;
        let turns = take_turns(speed, pitch(program), &cpus, &|| run.is_finished());
        let (began, times, _) = run.join().map_err(|_| "a run failed")??;
        let began = if *program == "gcc" { began + offset()? } else { began };
        let times: Vec<f64> = times.iter().map(|time| began + time).collect();
        let stolen = turns.iter().map(|turn| turn.stolen).sum::<f64>() / turns.len() as f64;
        Ok((ratios(&rates(&times, &turns, method.starts_with("quota"))), stolen))
    })
}

/// Measures and prints a table. `rounds` says how long.
pub(super) fn print(programs: &Programs, points: &[Point], rounds: usize) -> Result<(), Failure> {
    println!(
        "| program | method | asked | ideal | work | 95 % interval | off | promised | turns | taken by a hypervisor |\n\
         |---|---|---|---|---|---|---|---|---|---|"
    );
    // `stop` compares with the whole life of a process, which has had two speeds.
    let takes_turns = |point: &&Point| !point.method.starts_with("stop") && point.method != "quota";
    for point in points.iter().filter(takes_turns) {
        let Point { program, method, speed } = point;
        let ideal = programs.full(program)?.ideal(program, part(speed)?) * 100.0;
        let (mut work, stolen) = measure(programs, point, rounds)?;
        work.iter_mut().for_each(|ratio| *ratio *= 100.0);
        let middle = median(&mut work);
        let interval = interval(&work, 2);
        let (off, promise, unit) = super::table::judged(program, method, middle, ideal);
        let promise = super::table::verdict(off, promise, unit);
        println!(
            "| {program} | {method} | {speed} | {ideal:.1} | {middle:.1} | {interval} | {off:+.1}{unit} | \
             {promise} | {} | {:.1} % |",
            work.len() / 2,
            stolen * 100.0
        );
    }
    Ok(())
}
