//! The guard under `kill -9`: a victim changes things as fast as it can and is killed at a moment of
//! chance; soon everything is as it was. Needs no rights.
//!
//! This program is its own victim and its own guardian (it re-executes itself), so it has a `main` of
//! its own instead of the test harness's.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test program of its own")]

#[expect(dead_code, reason = "other test programs need the rest")]
#[path = "../../schedlab/tests/all/machine_lock.rs"]
mod machine_lock;

use schedlab_model::Pid;
use schedlab_sys::guard::{self, Guard, Undo};
use schedlab_sys::lock::{Lock, LockError};
use schedlab_sys::process;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const KILLS: u64 = 50;
const VICTIM: &str = "__victim";
const HOLDER: &str = "__holder";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    match words.as_slice() {
        [guard::ARGUMENT, journal] => guard::guardian(Path::new(journal)).unwrap(),
        [VICTIM, dir, pid] => victim(&Place::new(Path::new(dir)), Pid(pid.parse().unwrap())),
        [HOLDER, dir] => hold(&Place::new(Path::new(dir))),
        // The harness's own option, by which `cargo test` tools ask for names.
        ["--list", ..] => println!("guard: test"),
        _ => tests(),
    }
}

fn tests() {
    machine_lock::take();
    kill_at_any_moment_leaves_nothing_changed();
    println!("{KILLS} kills at moments of chance left nothing changed");
    what_even_the_guardian_could_not_undo_is_restored_later();
    println!("what a killed guardian left was restored");
    a_lock_is_held_until_all_is_undone();
    println!("a lock was free only once all was undone");
}

/// Changes a file under a lock, and waits.
fn hold(place: &Place) {
    let lock = Lock::take(&place.journals.join("knob.lock")).unwrap();
    let program = std::env::current_exe().unwrap();
    let mut guard = Guard::arm_keeping(&place.journals, &program, vec![lock]).unwrap();
    guard.write(&place.knob, "changed").unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

fn a_lock_is_held_until_all_is_undone() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::fresh(dir.path());
    let knob = || std::fs::read_to_string(&place.knob).unwrap();
    let path = place.journals.join("knob.lock");
    for _ in 0..5 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut holder = command.args([HOLDER, dir.path().to_str().unwrap()]).spawn().unwrap();
        until(|| knob() == "changed", || "the holder changed nothing".into());
        assert!(matches!(Lock::take(&path), Err(LockError::Held { .. })));
        holder.kill().unwrap();
        holder.wait().unwrap();
        until(|| Lock::take(&path).is_ok(), || "the lock was never free".into());
        assert_eq!(knob(), "original");
        until(
            || std::fs::read_dir(&place.journals).unwrap().count() == 0,
            || "a file is left".into(),
        );
    }
}

/// Where a victim works.
struct Place {
    journals: PathBuf,
    knob: PathBuf,
    made: PathBuf,
}

impl Place {
    fn new(dir: &Path) -> Self {
        Self { journals: dir.join("journals"), knob: dir.join("knob"), made: dir.join("made") }
    }

    fn fresh(dir: &Path) -> Self {
        let place = Self::new(dir);
        std::fs::create_dir(&place.journals).unwrap();
        std::fs::write(&place.knob, "original").unwrap();
        place
    }
}

/// Waits for what a machine that stalls does late, and fails with why if it never comes.
fn until(mut holds: impl FnMut() -> bool, why: impl Fn() -> String) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(120), "{}", why());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Changes a file, makes a directory, stops a process, starts another; again and again.
fn victim(place: &Place, target: Pid) {
    let program = std::env::current_exe().unwrap();
    let mut guard = Guard::arm_with(&place.journals, &program).unwrap();
    let started = process::start_ticks(target).unwrap();
    for round in 0u64.. {
        let knob = guard.write(&place.knob, &format!("changed {round}")).unwrap();
        let made = guard.before(Undo::RemoveDir { path: place.made.clone() }).unwrap();
        std::fs::create_dir(&place.made).unwrap();
        let stopped = guard.before(Undo::Continue { pid: target, started }).unwrap();
        process::kill(target, 19).unwrap();
        guard.undo(made).unwrap();
        guard.undo(knob).unwrap();
        guard.undo(stopped).unwrap();
    }
}

fn start_victim(dir: &Path, target: &Child) -> Child {
    let (dir, pid) = (dir.to_str().unwrap(), target.id().to_string());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([VICTIM, dir, &pid]).stdin(Stdio::null()).spawn().unwrap()
}

fn is_stopped(child: &Child) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('T')
}

/// What is not as it was.
fn changed(place: &Place, target: &Child) -> Vec<String> {
    let mut changed = Vec::new();
    let knob = std::fs::read_to_string(&place.knob).unwrap();
    if knob != "original" {
        changed.push(format!("the knob holds '{knob}'"));
    }
    if place.made.exists() {
        changed.push("the directory is still there".into());
    }
    if is_stopped(target) {
        changed.push("the process is still stopped".into());
    }
    if std::fs::read_dir(&place.journals).unwrap().count() > 0 {
        changed.push("a journal is left".into());
    }
    changed
}

fn kill_at_any_moment_leaves_nothing_changed() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::fresh(dir.path());
    let mut target = Command::new("sleep").arg("600").spawn().unwrap();
    let mut longest = Duration::ZERO;
    for kill in 0..KILLS {
        let mut victim = start_victim(dir.path(), &target);
        // A multiplicative step over 0 .. 40 ms: early kills meet the arming, late ones the work.
        std::thread::sleep(Duration::from_micros(kill.wrapping_mul(0x9E37_79B9) % 40_000));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let killed = Instant::now();
        until(
            || changed(&place, &target).is_empty(),
            || format!("kill {kill}: {:?}", changed(&place, &target)),
        );
        longest = longest.max(killed.elapsed());
    }
    // How long is told and not asserted: a machine may stall.
    println!("the slowest of {KILLS} was undone within {longest:?} (a second is promised)");
    target.kill().unwrap();
    target.wait().unwrap();
}

/// The guardian of a journal below `dir`: a child of nobody by now, so it is looked for by its words.
fn guardian_of(dir: &Path) -> Option<Pid> {
    let words = dir.to_str().unwrap();
    process::tasks().into_iter().find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains(guard::ARGUMENT) && line.contains(words)
    })
}

fn what_even_the_guardian_could_not_undo_is_restored_later() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::fresh(dir.path());
    let mut target = Command::new("sleep").arg("600").spawn().unwrap();
    let mut victim = start_victim(dir.path(), &target);
    let mut guardian = None;
    until(
        || {
            guardian = guardian_of(&place.journals);
            guardian.is_some()
        },
        || "the guardian never came".into(),
    );
    // It stands still at a moment when something is changed: that is what is restored.
    let pid = Pid(victim.id().cast_signed());
    let caught = || {
        process::kill(pid, 19).unwrap();
        until(|| is_stopped(&victim), || "the victim was never stopped".into());
        let caught = std::fs::read_to_string(&place.knob).unwrap() != "original";
        if !caught {
            process::kill(pid, 18).unwrap();
        }
        caught
    };
    until(caught, || "nothing was ever changed".into());
    // The guardian first, then its owner: nobody is left to undo.
    process::kill(guardian.unwrap(), 9).unwrap();
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(guard::leftovers(&place.journals), 1);
    let restored = guard::restore(&place.journals).unwrap();
    assert!(restored.iter().all(|one| one.failed.is_empty() && one.undone > 0), "{restored:?}");
    assert_eq!(changed(&place, &target), Vec::<String>::new());
    target.kill().unwrap();
    target.wait().unwrap();
}
