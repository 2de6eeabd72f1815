//! `kill -9` at moments of chance: methods by turns, and as victims schedlab, its guardian, the command, pairs of them
//! and all of them. `SCHEDLAB_KILLS` says how many; 60 of them run where it is not set, which is each pair of a method
//! and victims once. `cargo xtask evidence kills` does 200.

use super::unified::{alone, group};
use super::{PATIENCE, Stdio, guardian, has_rights, last_cpu, left, marked, signal, slow, until};
use std::collections::BTreeMap;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A method at a speed, and whether control groups of version 2 are all there is.
const METHODS: [(&str, u32, bool); 8] = [
    ("hogs", 90, false),
    ("stop", 50, false),
    ("weight", 50, false),
    ("quota", 50, false),
    ("stop-group", 50, false),
    ("hogs", 90, true),
    ("stop", 50, true),
    ("stop-group", 50, true),
];

/// Who is killed, in this order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Schedlab,
    Guardian,
    Command,
}

const VICTIMS: [&[Victim]; 7] = {
    use Victim::{Command, Guardian, Schedlab};
    [
        &[Schedlab],
        &[Command],
        &[Guardian],
        &[Schedlab, Command],
        &[Guardian, Command],
        &[Guardian, Schedlab],
        &[Guardian, Schedlab, Command],
    ]
};

/// Whether nobody is left who could undo anything.
fn leaves_nobody(victims: &[Victim]) -> bool {
    victims.contains(&Victim::Schedlab) && victims.contains(&Victim::Guardian)
}

/// Kills a victim if it is there by now.
fn kill(victim: Victim, session: &mut Child, mark: &str) {
    let pid = match victim {
        Victim::Schedlab => Some(session.id()),
        Victim::Guardian => guardian(session.id()),
        Victim::Command => marked(mark)
            .into_iter()
            .find(|(_, command)| command.starts_with("sh"))
            .map(|(pid, _)| pid.cast_unsigned()),
    };
    if let Some(pid) = pid {
        // It may end just now.
        let _ = schedlab_sys::process::kill(schedlab_model::Pid(pid.cast_signed()), 9);
    }
}

/// Starts a session whose command forks: its children must be gone as well.
fn start(method: &str, percent: u32, is_unified: bool, mark: &str) -> Child {
    let (cpu, script) = (format!("{}={percent}%", last_cpu()), "sleep 600 & while :; do :; done");
    let arguments = ["--method", method, "--no-measure", "--cpu", &cpu, "--", "sh", "-c", script];
    let mut command: Command = slow(&arguments);
    if is_unified {
        command = alone(&command);
    }
    let (key, value) = mark.split_once('=').unwrap();
    command.env(key, value).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills the victims. A session that lives is ended as a person would. Returns when all of that was done.
fn strike(victims: &[Victim], session: &mut Child, mark: &str) -> Instant {
    victims.iter().for_each(|&victim| kill(victim, session, mark));
    if !victims.contains(&Victim::Schedlab) {
        if session.try_wait().unwrap().is_none() {
            signal(session.id(), "TERM");
        }
        let began = Instant::now();
        while session.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "{mark}: it did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let killed = Instant::now();
    session.wait().unwrap();
    killed
}

#[test]
fn whoever_is_killed_at_any_moment_nothing_is_left() {
    if !has_rights() {
        return;
    }
    let unified = group().is_some();
    let methods: Vec<_> = METHODS.into_iter().filter(|(.., v2)| unified || !v2).collect();
    let kills = std::env::var("SCHEDLAB_KILLS").ok().and_then(|text| text.parse().ok());
    let mut random = 0x2545_F491_u64;
    let mut times: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for round in 0..kills.unwrap_or(60_usize) {
        let (method, percent, v2) = methods[round % methods.len()];
        let mut victims = VICTIMS[round % VICTIMS.len()];
        if v2 && leaves_nobody(victims) {
            // The next start of another test has other mounts, and would not find the groups.
            victims = &[Victim::Schedlab, Victim::Command];
        }
        let mark = format!("SCHEDLAB_SLOW_TEST=kill-{}-{round}", std::process::id());
        let mut session = start(method, percent, v2, &mark);
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((random >> 33) % 120_000));
        let killed = strike(victims, &mut session, &mark);
        let is_clean = || marked(&mark).is_empty() && left(session.id()).is_empty();
        if leaves_nobody(victims) {
            // Nobody is left to undo it: the next start does.
            until(|| {
                super::doctor_restores();
                is_clean()
            });
            continue;
        }
        until(is_clean);
        let place = if v2 { ", version 2" } else { "" };
        times.entry(format!("{method}{place}")).or_default().push(killed.elapsed());
    }
    // How long is told and not asserted: what may not be is that something stays.
    for (method, mut times) in times {
        times.sort_unstable();
        let (count, median, slowest) =
            (times.len(), times[times.len() / 2], times[times.len() - 1]);
        eprintln!(
            "{method}: {count} undone in {median:?} at the median, the slowest in {slowest:?}"
        );
    }
}
