//! SIGSTOP and SIGCONT (CPU-Lim): every [`POLL`] each process of the node is stopped when its CPU time
//! over its lifetime has reached the speed, and continued when it is below.
//!
//! As studied, one decision for each process, on its whole life; the variant for a group decides once
//! for all of them, on the sum. Lifetime counts from when the process was first seen.

use super::{SlowError, Speed};
use schedlab_model::{Nanos, Pid};
use schedlab_sys::guard::{Guard, StepId, Undo};
use schedlab_sys::{clock, process};
use std::collections::BTreeMap;

/// How often it looks.
pub(super) const POLL: Nanos = Nanos::from_millis(10);

const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

struct Victim {
    since: Nanos,
    before: Nanos,
    used: Nanos,
    stopped: bool,
    step: StepId,
}

/// The limiter of one node. The guard continues what it stopped.
pub(super) struct Limiter {
    pub(super) speed: Speed,
    group: bool,
    since: Nanos,
    victims: BTreeMap<Pid, Victim>,
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limiter").field("speed", &self.speed).field("group", &self.group).finish()
    }
}

/// Whether a process that used `used` in `life` has reached its part.
fn reached(used: Nanos, life: Nanos, speed: Speed) -> bool {
    u128::from(used.0) * 1_000_000 >= u128::from(life.0) * u128::from(speed.millionths())
}

impl Limiter {
    pub(super) fn new(speed: Speed, group: bool) -> Self {
        Self { speed, group, since: clock::monotonic(), victims: BTreeMap::new() }
    }

    /// Looks at the node's processes and decides.
    pub(super) fn look(&mut self, processes: &[Pid], guard: &mut Guard) -> Result<(), SlowError> {
        let now = clock::monotonic();
        self.victims.retain(|pid, victim| {
            let lives = processes.contains(pid);
            if !lives {
                // It is gone: nothing to continue, but the step must leave the list.
                let _ = guard.undo(victim.step);
            }
            lives
        });
        for &pid in processes {
            let Some(used) = clock::cpu_of(pid) else { continue };
            if let Some(victim) = self.victims.get_mut(&pid) {
                victim.used = used - victim.before.min(used);
                continue;
            }
            let Some(started) = process::start_ticks(pid) else { continue };
            let step = guard
                .before(Undo::Continue { pid, started })
                .map_err(|e| SlowError::io("writing the journal", e))?;
            let victim =
                Victim { since: now, before: used, used: Nanos::ZERO, stopped: false, step };
            self.victims.insert(pid, victim);
        }
        let total: u64 = self.victims.values().map(|victim| victim.used.0).sum();
        let all = reached(Nanos(total), now - self.since, self.speed) && total > 0;
        for (&pid, victim) in &mut self.victims {
            let stop = match self.group {
                true => all,
                false => {
                    victim.used > Nanos::ZERO
                        && reached(victim.used, now - victim.since, self.speed)
                }
            };
            if stop != victim.stopped {
                victim.stopped = stop;
                // One that ended meanwhile is gone from the list at the next look.
                let _ = process::kill(pid, if stop { SIGSTOP } else { SIGCONT });
            }
        }
        Ok(())
    }
}

/// All descendants of a process that live, itself included, where no control group lists them.
pub(super) fn descendants(root: Pid) -> Vec<Pid> {
    let parent = |pid: Pid| -> Option<Pid> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().map(Pid)
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid));
    let parents: Vec<(Pid, Pid)> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut family = vec![root];
    let mut at = 0;
    while let Some(&pid) = family.get(at) {
        family.extend(parents.iter().filter(|(_, parent)| *parent == pid).map(|(pid, _)| *pid));
        at += 1;
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_reached_its_part_when_its_use_over_its_life_has() {
        let half = Speed::percent(50).unwrap();
        let ms = Nanos::from_millis;
        assert!(reached(ms(50), ms(100), half));
        assert!(!reached(ms(49), ms(100), half));
    }

    #[test]
    fn a_busy_process_is_stopped_and_the_guard_lets_it_go() {
        let dir = tempfile::tempdir().unwrap();
        let mut guard = Guard::arm_with(dir.path(), std::path::Path::new("/bin/true")).unwrap();
        let mut child =
            std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let pid = Pid(child.id().cast_signed());
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            stat.rsplit_once(')').unwrap().1.trim_start().chars().next().unwrap()
        };
        let mut limiter = Limiter::new("1%".parse().unwrap(), false);
        for _ in 0..200 {
            limiter.look(&[pid], &mut guard).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
            if state() == 'T' {
                break;
            }
        }
        assert_eq!(state(), 'T');
        assert!(guard.finish().is_empty());
        assert_ne!(state(), 'T');
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn descendants_are_found_without_control_groups() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "sleep 30 & wait"]).spawn().unwrap();
        let pid = Pid(child.id().cast_signed());
        let mut family = Vec::new();
        for _ in 0..200 {
            family = descendants(pid);
            if family.len() == 2 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(family.len(), 2, "the shell and its sleep");
        for pid in family {
            process::kill(pid, 9).unwrap();
        }
        child.wait().unwrap();
    }
}
