//! How much slower work gets, measured in short turns of full speed and slowed, side by side.
//!
//! The speed of a machine drifts, a shared one's by percents within seconds, so two runs of a second
//! each say little about each other. Here one process works all the time, and the speed under it is
//! changed by turns: full, slowed, slowed, full (so that a steady drift cancels out), each a quarter of
//! a second. The process notes at given moments how much it has done. A turn is compared with the
//! turn beside it, the first moments of each left out.

use super::child_entry::{ARGUMENT, Entry, Task, Work, enter, program};
use super::probe::{Probe, Reading};
use super::{Ground, Method, Node, Request, Session, SlowError, Speed, last};
use schedlab_model::{CpuSet, Nanos};
use schedlab_sys::clock;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};

/// A turn, and what of its beginning is left out: whole slots of the hogs' grid and whole budgets.
const TURN: Nanos = Nanos::from_millis(250);
const SETTLE: Nanos = Nanos::from_millis(30);
/// Turns begin this long after the process was started.
const LEAD: Nanos = Nanos::from_millis(1_500);
/// Computing and sleeping of [`Work::Mixed`], each.
const PHASE: Nanos = Nanos::from_millis(1);

/// What was measured of a method.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    /// Work in a slowed turn as a part of the work in the full turn beside it, pair by pair.
    pub ratios: Vec<f64>,
    /// CPU time in the slowed turns as a part of that in the full ones: what of an error is time that
    /// was not granted, and what is work that took longer.
    pub granted: f64,
    /// What the ratios should be: the speed that was asked for.
    pub ideal: f64,
    /// CPU time of the controller outside its burners, as a part of the time.
    pub controller: f64,
}

/// What the child notes at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Note {
    /// Rounds, or cycles of several.
    done: u64,
    /// CPU time that the child has used.
    cpu: Nanos,
}

/// Measures `pairs` pairs of turns under a method at a speed.
///
/// # Errors
/// When the method cannot be had here, or the process fails.
pub fn paired(
    work: Work,
    method: Method,
    speed: Speed,
    pairs: usize,
    ground: &Ground,
) -> Result<Paired, SlowError> {
    let count = if work == Work::Barrier { 2 } else { 1 };
    let cpus = last(&ground.allowed, count);
    if cpus.len() < count {
        return Err(SlowError::Missing(format!("{count} CPUs are needed")));
    }
    let first = Nanos((clock::monotonic() + LEAD).0.next_multiple_of(SETTLE.0));
    let turns: Vec<Nanos> = (0..pairs as u64 * 2).map(|i| Nanos(first.0 + i * TURN.0)).collect();
    let moments = turns.iter().flat_map(|&turn| [turn + SETTLE, turn + TURN]).collect();
    let folder = schedlab_sys::temporary::folder("schedlab-meter-");
    let folder = folder.map_err(|e| SlowError::io("making a folder for the result", e))?;
    let result = folder.path().join("notes.json");
    let (rounds_in_ms, nodes) = (calibrate(), cpus.clone());
    let task = Task { work, cpus, rounds_in_ms, moments, result: result.clone() };
    let entry = serde_json::to_string(&Entry::Meter(task)).expect("plain values");
    let argv = vec![program()?.to_string_lossy().into_owned(), ARGUMENT.to_owned(), entry];
    let node = Node {
        name: "meter".into(),
        // The slowed speed, so that the request is checked for it.
        speeds: nodes.iter().map(|cpu| (cpu, speed)).collect(),
        bind: true,
        commands: vec![argv],
        ..Node::default()
    };
    let mut session = start(method, node, ground)?;
    let (began, used) = (clock::monotonic(), clock::process_cpu());
    let took_turns = session.take_turns(&turns, &|index| match index % 4 {
        0 | 3 => Speed::FULL,
        _ => speed,
    });
    let controller = (clock::process_cpu() - used).0 as f64 / (clock::monotonic() - began).0 as f64;
    let undone = session.finish();
    took_turns?;
    if let Some(failed) = undone.first() {
        return Err(SlowError::Failed(format!("cannot undo: {failed}")));
    }
    let notes = read(&result)?;
    let (ratios, granted) = (ratios(&notes), granted_part(&notes));
    Ok(Paired { ratios, granted, ideal: ideal(work, speed, &notes), controller })
}

/// A session that slows one node by a method and leaves the measuring to its caller.
fn start(method: Method, node: Node, ground: &Ground) -> Result<Session, SlowError> {
    let nodes = vec![node];
    let request = Request {
        method: Some(method),
        nodes,
        measure: false,
        heavy: true,
        share: true,
        ..Request::default()
    };
    Session::start(request.plan(ground)?, ground, None)
}

/// The part of each second that a task was granted on a CPU at a speed, for some seconds.
///
/// # Errors
/// When the method cannot be had here.
pub fn granted(
    method: Method,
    speed: Speed,
    seconds: usize,
    ground: &Ground,
) -> Result<Vec<f64>, SlowError> {
    let cpus = last(&ground.allowed, 1);
    let node = Node {
        name: "meter".into(),
        speeds: cpus.iter().map(|cpu| (cpu, speed)).collect(),
        bind: true,
        admits: true,
        ..Node::default()
    };
    let session = start(method, node, ground)?;
    let (time, align, groups) = (Nanos::from_secs(1), Nanos::ZERO, session.groups());
    let probe = Probe { groups, time, align, realtime: false };
    let readings = (0..seconds).map(|_| probe.read(&cpus, None)).collect::<Result<Vec<_>, _>>();
    match session.finish().first() {
        Some(failed) => Err(SlowError::Failed(format!("cannot undo: {failed}"))),
        None => Ok(readings?.iter().flatten().map(Reading::share).collect()),
    }
}

fn read(result: &std::path::Path) -> Result<Vec<Note>, SlowError> {
    let text = std::fs::read_to_string(result)
        .map_err(|e| SlowError::io(format!("reading {}", result.display()), e))?;
    serde_json::from_str(&text).map_err(|e| SlowError::Failed(format!("no result: {e}")))
}

/// What was done in each turn: notes come in twos.
fn turns(notes: &[Note]) -> Vec<Note> {
    let difference =
        |pair: &[Note]| Note { done: pair[1].done - pair[0].done, cpu: pair[1].cpu - pair[0].cpu };
    notes.chunks_exact(2).map(difference).collect()
}

/// Turns come full, slowed, slowed, full.
fn ratios(notes: &[Note]) -> Vec<f64> {
    let turns = turns(notes);
    let ratio = |slow: Note, full: Note| slow.done as f64 / full.done.max(1) as f64;
    let four = turns.chunks_exact(4);
    four.flat_map(|t| [ratio(t[1], t[0]), ratio(t[2], t[3])]).collect()
}

/// CPU time in all slowed turns as a part of that in all full ones.
fn granted_part(notes: &[Note]) -> f64 {
    let turns = turns(notes);
    let of = |these: [usize; 2]| -> u64 {
        turns.chunks_exact(4).flat_map(|four| these.map(|i| four[i].cpu.0)).sum()
    };
    of([1, 2]) as f64 / of([0, 3]).max(1) as f64
}

/// A cycle of the mixed work is computing, which slows, and a sleep, which does not: how long each is
/// at full speed is measured, since a sleep takes longer than it was asked to.
fn ideal(work: Work, speed: Speed, notes: &[Note]) -> f64 {
    let speed = speed.fraction();
    if work != Work::Mixed {
        return speed;
    }
    let all = turns(notes);
    let full = || all.chunks_exact(4).flat_map(|t| [t[0], t[3]]);
    let cycles: u64 = full().map(|turn| turn.done).sum();
    let computing: u64 = full().map(|turn| turn.cpu.0).sum();
    let time = (TURN - SETTLE).0 * full().count() as u64;
    let (cycle, computing) =
        (time as f64 / cycles.max(1) as f64, computing as f64 / cycles.max(1) as f64);
    cycle / (computing / speed + cycle - computing)
}

/// How many rounds of the loop a millisecond at full speed has: the best of some, so that other load
/// is not taken for a slow machine.
fn calibrate() -> u64 {
    let rounds = 200;
    let took = (0..40).map(|_| {
        let start = clock::monotonic();
        spin(rounds);
        (clock::monotonic() - start).0
    });
    rounds * 1_000_000 / took.min().unwrap_or(1).max(1)
}

fn spin(rounds: u64) {
    for _ in 0..rounds {
        let mut value = 0u64;
        for _ in 0..500 {
            value = std::hint::black_box(value.wrapping_mul(3).wrapping_add(1));
        }
    }
}

/// The life of the child.
pub(super) fn child(task: &Task) -> i32 {
    if enter(&[], &task.cpus).is_err() {
        return 1;
    }
    let Ok(notes) = measure(task) else { return 1 };
    let text = serde_json::to_string(&notes).expect("plain values");
    i32::from(std::fs::write(&task.result, text).is_err())
}

/// Works until the last moment, and notes at each what was done until then.
fn measure(task: &Task) -> io::Result<Vec<Note>> {
    Ok(match task.work {
        // A small piece: what is done at a moment is known to a piece.
        Work::Compute => notes(&task.moments, || {
            spin(task.rounds_in_ms / 50 + 1);
            1
        }),
        Work::Mixed => notes(&task.moments, || {
            spin(task.rounds_in_ms * PHASE.0 / 1_000_000);
            std::thread::sleep(PHASE.as_duration());
            1
        }),
        Work::Barrier => meetings(task)?,
    })
}

fn notes(moments: &[Nanos], mut step: impl FnMut() -> u64) -> Vec<Note> {
    let (mut notes, mut before, mut done) = (Vec::new(), Note::default(), 0);
    while notes.len() < moments.len() {
        done += step();
        let (now, cpu) = (clock::monotonic(), clock::process_cpu());
        // What was begun before the moment and ended after it belongs to the time after.
        while moments.get(notes.len()).is_some_and(|moment| now >= *moment) {
            notes.push(before);
        }
        before = Note { done, cpu };
    }
    notes
}

fn meetings(task: &Task) -> io::Result<Vec<Note>> {
    // Known once all threads are there; none is ever if one is refused, for which the others would wait.
    let (barrier, stop) = (OnceLock::<Option<Barrier>>::new(), AtomicBool::new(false));
    let (done, rounds) = (AtomicU64::new(0), task.rounds_in_ms * 6 / 10);
    let mut all = Vec::new();
    // Two meetings: all see the same answer to whether this was the last round.
    let meet = || {
        spin(rounds);
        let Some(barrier) = barrier.wait() else { return true };
        barrier.wait();
        let last = stop.load(Ordering::Relaxed);
        barrier.wait();
        last
    };
    std::thread::scope(|scope| -> io::Result<()> {
        for (index, cpu) in task.cpus.iter().enumerate() {
            let bind = move || drop(enter(&[], &CpuSet::from_iter([cpu])));
            if index > 0 {
                let meet = &meet;
                let life = move || {
                    bind();
                    while !meet() {}
                };
                if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, life) {
                    let _ = barrier.set(None);
                    return Err(error);
                }
            } else {
                bind();
            }
        }
        let _ = barrier.set(Some(Barrier::new(task.cpus.len())));
        all = notes(&task.moments, || {
            meet();
            done.fetch_add(1, Ordering::Relaxed);
            1
        });
        stop.store(true, Ordering::Relaxed);
        meet();
        Ok(())
    })?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn note(done: u64, cpu_ms: u64) -> Note {
        Note { done, cpu: Nanos::from_millis(cpu_ms) }
    }

    #[test]
    fn each_slowed_turn_is_compared_with_the_full_turn_beside_it() {
        // Full 100, slowed 50, slowed 30, full 60: the machine grew slower by two fifths meanwhile.
        let ends = [0, 100, 100, 150, 150, 180, 180, 240];
        let notes: Vec<Note> = ends.iter().map(|&done| note(done, done)).collect();
        assert_eq!(ratios(&notes), [0.5, 0.5]);
        assert!((granted_part(&notes) - 0.5).abs() < 1e-9);
        assert!((ideal(Work::Compute, Speed::percent(50).unwrap(), &notes) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_ideal_of_mixed_work_takes_computing_and_sleeping_as_measured() {
        // 220 ms: 100 cycles of 2.2 ms, 1 ms of which is computing: at a half 3.2 ms.
        let ends = [
            (0, 0),
            (100, 100),
            (100, 100),
            (160, 160),
            (160, 160),
            (220, 220),
            (220, 220),
            (320, 320),
        ];
        let notes: Vec<Note> = ends.iter().map(|&(done, cpu)| note(done, cpu)).collect();
        let half = ideal(Work::Mixed, Speed::percent(50).unwrap(), &notes);
        assert!((half - 2.2 / 3.2).abs() < 1e-9, "{half}");
    }

    #[test]
    fn every_work_notes_every_moment() {
        let cpus = last(&schedlab_sys::sched::affinity(schedlab_model::Pid(0)).unwrap(), 2);
        for work in [Work::Compute, Work::Mixed, Work::Barrier] {
            let now = clock::monotonic();
            let moments = (1..=4).map(|i| now + Nanos::from_millis(5 * i)).collect();
            let (cpus, result) = (cpus.clone(), PathBuf::new());
            let task = Task { work, cpus, rounds_in_ms: 50, moments, result };
            let notes = measure(&task).unwrap();
            assert_eq!(notes.len(), 4, "{work:?}");
            assert!(notes.windows(2).all(|w| w[0].done <= w[1].done));
        }
    }
}
