//! SIGSTOP and SIGCONT (CPU-Lim): a process of the node is stopped when its CPU time over its lifetime
//! has reached the speed, and continued when it is below.
//!
//! As studied, one decision for each process, on its whole life; the variant for a group decides once
//! for all of them, on the sum. Lifetime counts from when the process was first seen.
//!
//! How often the study looked is not known. Here the next look is when a decision can change: a stopped
//! process is below its speed again at a moment that is known, and a running one cannot reach it sooner
//! than by running all the time. [`Pace`] keeps looks far enough apart to cost little, so a pause is longer
//! than the decision asks for; a process is stopped late enough that its average is right in the middle
//! of the pause, and not only at its beginning.
//!
//! Where one group of version 2 holds all processes, the variant for a group freezes it instead of sending signals:
//! one write stops all threads, and no shell sees a stopped job.

use super::group::{Freezer, Group};
use super::{SlowError, Speed, journalled};
use schedlab_model::{Nanos, Pid};
use schedlab_sys::guard::{Guard, StepId, Undo};
use schedlab_sys::{clock, kernel_file, process};
use std::collections::BTreeMap;

/// It does not look more often than this ...
const LEAST: Nanos = Nanos::from_millis(10);
/// ... and, since processes may have been forked, no more seldom than this, unless looking is dear.
const MOST: Nanos = Nanos::from_millis(50);
/// A look that cost a microsecond is followed by this many without one: a third of a percent of a CPU.
const REST: u64 = 300;
/// The longest rest after a look. Looks that cost more than 3 ms take more than their part, since a process that
/// nobody looks at is not slowed.
const REST_MAX: Nanos = Nanos::from_secs(1);

const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// Whose CPU time is compared with the speed.
#[derive(Clone, Debug)]
pub(super) enum Limits {
    Each,
    /// That of all of them together, ended ones included: by the counter of their control group where there is
    /// one, else by what processes and their parents tell.
    Together(Option<Group>),
}

#[derive(Debug)]
struct StoppedTask {
    since: Nanos,
    before: Nanos,
    used: Nanos,
    stopped: bool,
    step: StepId,
}

/// A group's freezer, and whether it is on.
#[derive(Debug)]
struct Freezing {
    freezer: Freezer,
    frozen: bool,
}

impl Freezing {
    fn set(&mut self, frozen: bool) {
        let Freezer { file, on, off } = &self.freezer;
        // As with signals: a group that is gone has nobody to stop.
        let _ = kernel_file::write(file, if frozen { on } else { off });
        self.frozen = frozen;
    }
}

/// CPU time that one process or all together used, and the lifetime in which they used it.
#[derive(Clone, Copy)]
struct Use {
    used: Nanos,
    life: Nanos,
}

/// What stopping in time may borrow from the looks to come.
const DEBT: Nanos = Nanos::from_millis(200);

/// Keeps looks apart, so that they cost no more than one part in [`REST`], however many processes
/// there are and however dear a signal is (on a virtual machine some 30 us).
#[derive(Debug, Default)]
struct Pace {
    /// When looks so far will have cost no more than their part.
    paid: Nanos,
    /// What a look costs, on a running average.
    cost: Nanos,
}

impl Pace {
    /// Notes a look that began at `now` and took `cost` of CPU time. A look that meets a new process is not
    /// paid for, nor is a debt beyond [`DEBT`]: that is the cost of stopping in time.
    fn looked(&mut self, now: Nanos, cost: Nanos, first: bool) {
        let debt = self.paid.max(now - LEAST.min(now)).min(now + DEBT);
        let rest = if first { Nanos::ZERO } else { Nanos(cost.0 * REST).min(REST_MAX) };
        self.paid = debt + rest;
        let seen = self.cost;
        let fresh = self.cost == Nanos::ZERO;
        self.cost = if fresh { cost } else { Nanos((3 * seen.0 + cost.0) / 4) };
    }

    /// How long a process that is stopped now stays stopped at least, so that looks keep to their part of the time. A
    /// cycle of running and stopping pays for two looks, and the pause for the look that ends it.
    fn pause(&self, speed: Speed) -> Nanos {
        let still = (2.0 * (1.0 - speed.fraction())).max(1.0);
        Nanos((self.cost.0 as f64 * REST as f64 * still) as u64).min(DEBT)
    }

    /// When to look next: at `stops`, when a running process may have to stop, since the one that runs on too
    /// long is too fast; at `continues` only once looks are paid for.
    fn next(&self, now: Nanos, stops: Nanos, continues: Nanos) -> Nanos {
        // Where looks are dear, one for what was forked must not use up what stopping in time needs.
        let most = MOST.max(Nanos(self.cost.0 * REST * 2).min(REST_MAX));
        stops.min(continues.max(self.paid)).min(self.paid.max(now + most)).max(now + LEAST)
    }
}

/// The limiter of one node. The guard continues what it stopped.
#[derive(Debug)]
pub(super) struct Limiter {
    speed: Speed,
    limits: Limits,
    cpus: u64,
    freezer: Option<Freezing>,
    since: Nanos,
    /// What all had used together at `since`, and since then.
    before: Nanos,
    used: Nanos,
    victims: BTreeMap<Pid, StoppedTask>,
    listed: Vec<Pid>,
    list_due: Nanos,
    pace: Pace,
    due: Nanos,
}

/// Whether a process that used `used` in `life` has reached its part.
fn reached(used: Nanos, life: Nanos, speed: Speed) -> bool {
    u128::from(used.0) * 1_000_000 >= u128::from(life.0) * u128::from(speed.millionths())
}

/// How long a decision holds: until a stopped process is below its part again, or until a running one
/// can have reached it.
fn holds(used: Nanos, life: Nanos, speed: Speed, stopped: bool, cpus: u64) -> Nanos {
    let used = u128::from(used.0) * 1_000_000;
    let life = u128::from(life.0);
    let part = u128::from(speed.millionths());
    let time = if stopped {
        (used / part + 1).saturating_sub(life)
    } else {
        // Every nanosecond brings at most `cpus` of use and `part` millionths of room.
        (life * part).saturating_sub(used) / (u128::from(cpus) * 1_000_000 - part).max(1)
    };
    Nanos(u64::try_from(time).unwrap_or(u64::MAX / 2))
}

/// Whether a process is to be stopped, and how long that decision holds. `pause` is how long a stop lasts at least.
fn judge(
    Use { used, life }: Use,
    pause: Nanos,
    stopped: bool,
    speed: Speed,
    cpus: u64,
) -> (bool, Nanos) {
    let middle = life + Nanos(pause.0 / 2);
    let stop = match stopped {
        true => reached(used, life, speed),
        // Another look in a moment would cost more than it is worth.
        false => holds(used, middle, speed, false, cpus).0 <= pause.0 / 8,
    } && used > Nanos::ZERO;
    (stop, holds(used, if stop { life } else { middle }, speed, stop, cpus))
}

impl Limiter {
    pub(super) fn new(speed: Speed, limits: Limits, cpus: usize) -> Self {
        let mut new = Self {
            speed,
            limits,
            cpus: u64::try_from(cpus.max(1)).expect("few CPUs"),
            since: clock::monotonic(),
            before: Nanos::ZERO,
            used: Nanos::ZERO,
            victims: BTreeMap::new(),
            listed: Vec::new(),
            list_due: Nanos::ZERO,
            pace: Pace::default(),
            due: Nanos::ZERO,
            freezer: None,
        };
        new.restart();
        new
    }

    /// Freezes a group instead of stopping its processes.
    pub(super) fn freezing(
        mut self,
        freezer: Freezer,
        guard: &mut Guard,
    ) -> Result<Self, SlowError> {
        let content = freezer.off.to_owned();
        journalled(guard, Undo::Write { path: freezer.file.clone(), content })?;
        self.freezer = Some(Freezing { freezer, frozen: false });
        Ok(self)
    }

    /// Somebody else has let the group go on.
    pub(super) fn thawed(&mut self) {
        self.freezer.iter_mut().for_each(|freezer| freezer.frozen = false);
        self.look_now();
    }

    /// The lifetime of the node begins now: what was used and slept until now is no debt and no credit.
    pub(super) fn restart(&mut self) {
        self.since = clock::monotonic();
        (self.before, self.used) = (Nanos::ZERO, Nanos::ZERO);
        if let Limits::Together(Some(group)) = &self.limits {
            self.before = group.usage().unwrap_or(Nanos::ZERO);
        }
    }

    /// All stood still for this long, and were continued by somebody else: the time is no credit.
    pub(super) fn slept(&mut self, time: Nanos) {
        self.since += time;
        for victim in self.victims.values_mut() {
            victim.since += time;
            victim.stopped = false;
        }
        self.look_now();
    }

    pub(super) fn set(&mut self, speed: Speed) {
        self.speed = speed;
        self.look_now();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.victims.is_empty()
    }

    pub(super) fn look_now(&mut self) {
        (self.due, self.list_due) = (Nanos::ZERO, Nanos::ZERO);
    }

    /// When to look next. A look before is paid for like any other and makes the next one later.
    pub(super) const fn due(&self) -> Nanos {
        self.due
    }

    /// Looks at the node's processes and decides; returns when to look next. `list` finds the processes. Without
    /// control groups that reads a file for each process of the machine, so it is not done at each look.
    pub(super) fn look(
        &mut self,
        list: &mut dyn FnMut() -> Vec<Pid>,
        guard: &mut Guard,
    ) -> Result<Nanos, SlowError> {
        let now = clock::monotonic();
        let began = clock::thread_cpu();
        if now >= self.list_due {
            self.listed = list();
            let rest = Nanos((clock::thread_cpu() - began).0 * REST);
            self.list_due = now + rest.min(REST_MAX);
        }
        // Listing has a pace of its own, so it is not a part of what a look costs.
        let began = clock::thread_cpu();
        let first = self.meet(now, guard)?;
        let (stops, continues) = self.decide(now);
        let cost = clock::thread_cpu() - began;
        self.pace.looked(now, cost, first);
        self.due = self.pace.next(now, stops, continues);
        Ok(self.due)
    }

    /// Reads how much each process has used, and journals those that are new. Returns whether any was.
    fn meet(&mut self, now: Nanos, guard: &mut Guard) -> Result<bool, SlowError> {
        let mut first = false;
        let used: BTreeMap<Pid, Nanos> =
            self.listed.iter().filter_map(|&pid| Some((pid, clock::cpu_of(pid)?))).collect();
        self.listed.retain(|pid| used.contains_key(pid));
        self.victims.retain(|pid, victim| {
            let lives = used.contains_key(pid);
            if !lives {
                // It is gone: nothing to continue, but the step must leave the list.
                let _ = guard.undo(victim.step);
            }
            lives
        });
        for (&pid, &used) in &used {
            if let Some(victim) = self.victims.get_mut(&pid) {
                victim.used = used - victim.before.min(used);
                continue;
            }
            let Some(started) = process::start_ticks(pid) else { continue };
            first = true;
            let step = journalled(guard, Undo::Continue { pid, started })?;
            let victim =
                StoppedTask { since: now, before: used, used: Nanos::ZERO, stopped: false, step };
            self.victims.insert(pid, victim);
        }
        self.count();
        Ok(first)
    }

    /// Reads what all have used together.
    fn count(&mut self) {
        let all = match &self.limits {
            Limits::Each => return,
            Limits::Together(Some(group)) => group.usage(),
            Limits::Together(None) => {
                // Children that ended and were awaited are in their parent's account.
                let of = |pid: &Pid| {
                    Some(clock::cpu_of(*pid)? + process::ended_children_cpu_time(*pid)?)
                };
                Some(Nanos(self.listed.iter().filter_map(of).map(|used| used.0).sum()))
            }
        };
        // An account that went with its process is not given back.
        let used = all.map_or(Nanos::ZERO, |all| all - self.before.min(all));
        self.used = self.used.max(used);
    }

    /// Stops and, when looks are paid for, continues; returns when the next may have to stop, and when
    /// the next may continue.
    fn decide(&mut self, now: Nanos) -> (Nanos, Nanos) {
        let together = matches!(self.limits, Limits::Together(_));
        let total = self.used;
        let speed = self.speed;
        let cpus = self.cpus;
        let mut stops = Nanos::MAX;
        let mut continues = Nanos::MAX;
        let paid = self.pace.paid <= now;
        let pause = self.pace.pause(speed);
        let mut freezer = self.freezer.as_mut();
        let mut freeze = None;
        for (&pid, victim) in &mut self.victims {
            if let Some(freezer) = &freezer {
                victim.stopped = freezer.frozen;
            }
            let use_of = if together {
                Use { used: total, life: now - self.since }
            } else {
                Use { used: victim.used, life: now - victim.since }
            };
            let (stop, time) = judge(use_of, pause, victim.stopped, speed, cpus);
            if stop != victim.stopped && (stop || paid) {
                victim.stopped = stop;
                freeze = Some(stop);
                if freezer.is_none() {
                    // One that ended meanwhile is gone from the list at the next look.
                    let _ = process::kill(pid, if stop { SIGSTOP } else { SIGCONT });
                }
            }
            let due = now + time;
            if victim.stopped {
                // One that only waits until its look is paid for is due already.
                continues = continues.min(if stop { due } else { now });
            } else {
                stops = stops.min(due);
            }
        }
        if let Some((freezer, frozen)) = freezer.as_mut().zip(freeze) {
            freezer.set(frozen);
        }
        (stops, continues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow::until;

    #[test]
    fn a_process_has_reached_its_part_when_its_use_over_its_life_has() {
        let half = Speed::percent(50).unwrap();
        let ms = Nanos::from_millis;
        assert!(reached(ms(50), ms(100), half));
        assert!(!reached(ms(49), ms(100), half));
    }

    #[test]
    fn the_next_look_is_when_a_decision_can_change() {
        let quarter = Speed::percent(25).unwrap();
        let ms = Nanos::from_millis;
        // 10 of 10 ms at a quarter: below it again after 40 ms of life.
        let still = holds(ms(10), ms(10), quarter, true, 1);
        assert!(still >= ms(30) && still < ms(31), "{still}");
        assert!(!reached(ms(10), ms(10) + still, quarter), "a moment sooner it was not");
        // 10 of 100 ms: after 20 ms of running without a break it has 30 of 120.
        assert_eq!(holds(ms(10), ms(100), quarter, false, 1), ms(20));
        assert!(holds(ms(10), ms(100), quarter, false, 2) < ms(10), "two threads are there sooner");
        assert_eq!(holds(ms(50), ms(100), quarter, false, 1), Nanos::ZERO);
    }

    #[test]
    fn looks_are_paid_for_by_time_without_them() {
        let ms = Nanos::from_millis;
        let us = Nanos::from_micros;
        let mut pace = Pace::default();
        let mut now = ms(1_000);
        let mut used = Nanos::ZERO;
        let mut looks = 0;
        pace.looked(now, us(200), true);
        while now < ms(11_000) {
            now = pace.next(now, Nanos::MAX, now);
            used += us(200);
            pace.looked(now, us(200), false);
            looks += 1;
        }
        assert!(used.0 <= ms(10_150).0 / REST, "{used} for {looks} looks in 10 s");
        assert!(looks > 150, "and no seldomer than that asks for: {looks}");
        for _ in 0..100 {
            now += ms(1);
            pace.looked(now, us(200), false);
        }
        let most = now + DEBT + us(200 * REST);
        assert!(pace.next(now, Nanos::MAX, now) <= most, "more is owed than one may borrow");
        assert_eq!(pace.next(now, now, now), now + LEAST, "who must stop is stopped in time");
        let cheap = Pace::default();
        assert_eq!(cheap.next(now, Nanos::MAX, now), now + LEAST);
        assert_eq!(cheap.next(now, Nanos::MAX, Nanos::MAX), now + MOST, "for what was forked");
        let mut dear = Pace::default();
        (0..50).for_each(|_| dear.looked(now, ms(50), false));
        assert!(dear.next(now, Nanos::MAX, now) <= now + DEBT + REST_MAX, "no look is that dear");
    }

    #[test]
    fn only_the_look_itself_is_its_cost() {
        let dir = tempfile::tempdir().unwrap();
        let mut guard = Guard::arm_with(dir.path(), std::path::Path::new("/bin/true")).unwrap();
        let mut limiter = Limiter::new("50%".parse().unwrap(), Limits::Each, 1);
        for _ in 0..5 {
            // What the thread does between two looks is a hundred times as dear as a look.
            let until = clock::thread_cpu() + Nanos::from_millis(30);
            while clock::thread_cpu() < until {}
            limiter.look(&mut Vec::new, &mut guard).unwrap();
        }
        assert!(limiter.pace.cost < Nanos::from_millis(5), "{}", limiter.pace.cost);
    }

    /// Plays a process that always wants to run, of which each look costs 200 us: how many
    /// milliseconds it is ahead of its part on average, with pauses looked ahead or not.
    fn played(speed: Speed, ahead: bool) -> f64 {
        let ms = Nanos::from_millis;
        let mut pace = Pace::default();
        let cost = Nanos::from_micros(200);
        let start = ms(1_000);
        let mut used = Nanos::ZERO;
        let mut stopped = false;
        let mut now = start;
        let mut sum = 0.0;
        let mut count = 0u32;
        pace.looked(now, cost, true);
        let mut due = now + LEAST;
        while now < start + ms(10_000) {
            now += ms(1);
            used = if stopped { used } else { used + ms(1) };
            sum += used.0 as f64 - (now - start).0 as f64 * speed.fraction();
            count += 1;
            if now < due {
                continue;
            }
            let pause = if ahead { pace.pause(speed) } else { Nanos::ZERO };
            let (stop, time) = judge(Use { used, life: now - start }, pause, stopped, speed, 1);
            let paid = pace.paid <= now;
            stopped = if stop || paid { stop } else { stopped };
            let at = now + time;
            pace.looked(now, cost, false);
            due = if stopped {
                pace.next(now, Nanos::MAX, if stop { at } else { now })
            } else {
                pace.next(now, at, Nanos::MAX)
            };
        }
        sum / f64::from(count) / 1e6
    }

    #[test]
    fn pauses_that_must_be_paid_for_lie_around_the_speed_and_not_below_it() {
        for percent in [25, 50, 75] {
            let speed = Speed::percent(percent).unwrap();
            let centred = played(speed, true);
            let not = played(speed, false);
            assert!(centred.abs() < 5.0, "{percent}%: {centred} ms off on average");
            assert!(not < -10.0, "{percent}%: without it {not} ms");
        }
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
        let mut limiter = Limiter::new("1%".parse().unwrap(), Limits::Each, 1);
        until(|| {
            limiter.look(&mut || vec![pid], &mut guard).unwrap();
            state() == 'T'
        });
        assert!(guard.finish().is_empty());
        assert_ne!(state(), 'T');
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_group_is_frozen_as_a_whole_and_no_process_is_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let mut guard = Guard::arm_with(dir.path(), std::path::Path::new("/bin/true")).unwrap();
        let file = dir.path().join("cgroup.freeze");
        std::fs::write(&file, "0").unwrap();
        let written = || std::fs::read_to_string(&file).unwrap();
        let mut child =
            std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let pid = Pid(child.id().cast_signed());
        let limiter = Limiter::new("1%".parse().unwrap(), Limits::Together(None), 1);
        let freezer = Freezer { file: file.clone(), on: "1", off: "0" };
        let mut limiter = limiter.freezing(freezer, &mut guard).unwrap();
        until(|| {
            limiter.look(&mut || vec![pid], &mut guard).unwrap();
            written() == "1"
        });
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert!(!stat.rsplit_once(')').unwrap().1.starts_with(" T"), "{stat}");
        // Who joins now is in a group that stands still already; one that was let go on is frozen again.
        limiter.thawed();
        std::fs::write(&file, "0").unwrap();
        until(|| {
            limiter.look(&mut || vec![pid], &mut guard).unwrap();
            written() == "1"
        });
        assert!(guard.finish().is_empty());
        assert_eq!(written(), "0", "the guard lets it go");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn descendants_are_found_without_control_groups() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn().unwrap();
        let pid = Pid(child.id().cast_signed());
        let mut family = Vec::new();
        // The shell and its sleep.
        until(|| {
            family = process::family(pid);
            family.len() == 2
        });
        for pid in family {
            process::kill(pid, 9).unwrap();
        }
        child.wait().unwrap();
    }
}
