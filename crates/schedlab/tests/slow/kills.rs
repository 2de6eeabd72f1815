//! `kill -9` at moments of chance: methods by turns, and as victims schedlab, its guardian, the command, pairs of them
//! and all of them. `SCHEDLAB_KILLS` says how many; 60 of them run where it is not set.

use super::{PATIENCE, Stdio, guardian, has_rights, last_cpu, left, marked, signal, slow, until};
use std::process::Child;
use std::time::{Duration, Instant};

const METHODS: [(&str, u32); 5] =
    [("hogs", 90), ("stop", 50), ("weight", 50), ("quota", 50), ("stop-group", 50)];

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

#[test]
fn whoever_is_killed_at_any_moment_nothing_is_left() {
    if !has_rights() {
        return;
    }
    let kills = std::env::var("SCHEDLAB_KILLS").ok().and_then(|text| text.parse().ok());
    let (mut random, mut longest) = (0x2545_F491_u64, Duration::ZERO);
    for round in 0..kills.unwrap_or(60_usize) {
        let (method, percent) = METHODS[round % METHODS.len()];
        let victims = VICTIMS[round % VICTIMS.len()];
        let cpu = format!("{}={percent}%", last_cpu());
        let mark = format!("SCHEDLAB_SLOW_TEST=kill-{}-{round}", std::process::id());
        let (key, value) = mark.split_once('=').unwrap();
        // The command forks: its children must be gone as well.
        let script = "sleep 600 & while :; do :; done";
        let arguments =
            ["--method", method, "--no-measure", "--cpu", &cpu, "--", "sh", "-c", script];
        let mut session = slow(&arguments).env(key, value).stderr(Stdio::null()).spawn().unwrap();
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((random >> 33) % 120_000));
        victims.iter().for_each(|&victim| kill(victim, &mut session, &mark));
        // A session that lives is ended as a person would.
        if !victims.contains(&Victim::Schedlab) {
            if session.try_wait().unwrap().is_none() {
                signal(session.id(), "TERM");
            }
            let began = Instant::now();
            while session.try_wait().unwrap().is_none() {
                assert!(began.elapsed() < PATIENCE, "round {round}: it did not end");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let killed = Instant::now();
        session.wait().unwrap();
        let is_clean = || marked(&mark).is_empty() && left(session.id()).is_empty();
        if victims.contains(&Victim::Schedlab) && victims.contains(&Victim::Guardian) {
            // Nobody is left to undo it: the next start does.
            until(|| {
                super::doctor_restores();
                is_clean()
            });
            continue;
        }
        until(is_clean);
        longest = longest.max(killed.elapsed());
    }
    // How long is told and not asserted: what may not be is that something stays.
    eprintln!("the slowest was undone within {longest:?} (a second is promised)");
}
