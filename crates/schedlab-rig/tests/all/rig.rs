//! The rig as a library: executors of others, a soak and a recording, without the command.

use schedlab_jobs::adaptors::Lumiera;
use schedlab_jobs::executor::{Executor, ExecutorError, ExecutorFigures};
use schedlab_jobs::graph::{Graph, Rules, Shape};
use schedlab_jobs::pool::{OnStart, Options};
use schedlab_jobs::run::{Clock, Run, Schedule, Work};
use schedlab_model::Nanos;
use schedlab_record::RecordError;
use schedlab_rig::{
    Account, Cause, Faulty, Jitter, Library, Lines, MachineStalls, Recording, RigError, Threads,
    read_events, soak, steal,
};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const JOBS: u32 = 40;
const WORKERS: usize = 2;

/// Jobs that compute for some microseconds.
struct Computes;

impl Work for Computes {
    fn perform(&self, _: u32) {
        let mut value = 1u64;
        for _ in 0..2_000 {
            value = std::hint::black_box(value.wrapping_mul(3).wrapping_add(1));
        }
    }

    fn expected_ns(&self, _: u32) -> u64 {
        2_000
    }

    fn kind(&self, _: u32) -> &'static str {
        "cpu"
    }
}

fn graph() -> Graph {
    Shape::ForkJoin.build(&Rules { nodes: JOBS, fan: 8, ..Rules::default() })
}

fn run() -> Arc<Run> {
    Arc::new(Run::new(graph(), Schedule::default(), Box::new(Computes), Clock::start()))
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/executors").join(name)
}

/// Whether a program is there; says so aloud when not.
fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        let missing = format!("MISSING: {program}: no executor of others was driven with it");
        let _ = writeln!(std::io::stderr(), "{missing}");
    }
    there
}

fn lines(program: &str, threads: &Threads) -> Lines {
    Lines::new(program, WORKERS, Nanos::from_secs(60), threads.clone())
}

#[test]
fn a_process_that_speaks_lines_runs_a_graph_and_its_work_is_proved() {
    if !has("python3") {
        return;
    }
    let (run, threads) = (run(), Threads::default());
    let program = format!("python3 {}", example("futures.py").display());
    let told: ExecutorFigures = lines(&program, &threads).run(&run).unwrap();
    assert_eq!(told.recomputed, Some(JOBS));
    assert_eq!(run.verify(), Ok(()));
    let mut ran = [false; WORKERS];
    run.spans().iter().for_each(|span| ran[span.worker as usize] = true);
    let tids = threads.of(&ran).unwrap();
    assert!(ran.iter().zip(&tids).all(|(&ran, &tid)| ran == (tid > 0)), "{tids:?}");
}

#[test]
fn a_process_that_is_none_says_why_with_its_cause() {
    let error = lines("/nowhere/executor", &Threads::default()).run(&run()).unwrap_err();
    let ExecutorError::Unfinished { executor, what } = error else { panic!("{error}") };
    assert_eq!(executor, "cmd:/nowhere/executor");
    assert!(what.starts_with("cannot start '/nowhere/executor': No such file"), "{what}");
}

#[test]
fn a_shared_library_runs_a_graph() {
    if !has("g++") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("libasync.so");
    let built = Command::new("g++")
        .args(["-O1", "-std=c++17", "-shared", "-fPIC", "-pthread", "-o"])
        .args([&file, &example("async.cpp")])
        .status();
    assert!(built.unwrap().success());
    let (run, threads) = (run(), Threads::default());
    let mut library = Library::open(&file, WORKERS, threads).unwrap();
    library.run(&run).unwrap();
    assert_eq!(run.verify(), Ok(()));
    let none = Library::open(&folder.path().join("none.so"), WORKERS, Threads::default());
    assert!(none.unwrap_err().sentence().contains("cannot load executor"));
}

#[test]
fn events_of_an_executor_are_read_and_a_job_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events");
    let graph = Shape::Chain.build(&Rules { nodes: 2, ..Rules::default() });
    let run = Run::new(graph, Schedule::default(), Box::new(Computes), Clock::start());
    let line = |job: u32, begin: u64| {
        format!("{{\"job\":{job},\"worker\":7,\"begin_ns\":{begin},\"end_ns\":{}}}\n", begin + 5)
    };
    std::fs::write(&file, line(0, 10) + &line(1, 20) + "{\"done\":true}\n").unwrap();
    assert_eq!(read_events(&file, &run).unwrap(), 1);
    assert_eq!(run.spans().len(), 2);
    std::fs::write(&file, line(2, 10)).unwrap();
    let error = read_events(&file, &run).unwrap_err().sentence();
    assert!(error.contains("it ran job 2, but the graph has 2"), "{error}");
}

#[test]
fn a_soak_loses_nothing_with_and_without_faults() {
    let soaked = |faulty| {
        let options = schedlab_pool::Options::new(WORKERS);
        soak(&graph(), options, Nanos::from_millis(1), faulty, &|| false).unwrap()
    };
    let plain = soaked(Faulty::default());
    assert!(plain.rounds > 0 && plain.drained && plain.is_clean(), "{plain:?}");
    assert_eq!(plain.counts.done, plain.rounds * u64::from(JOBS));
    assert!(!plain.resident_kib.is_empty());
    let faulty = soaked(Faulty { panic_every: Some(5), ..Faulty::default() });
    assert!(faulty.counts.panicked > 0 && faulty.is_clean(), "{faulty:?}");
    assert_eq!((faulty.left(), faulty.counts.posted), (0, faulty.counts.ended()));
}

#[test]
fn whoever_drives_a_soak_ends_it() {
    let looked = AtomicUsize::new(0);
    let second = || looked.fetch_add(1, Ordering::Relaxed) > 0;
    let endless = Nanos::from_secs(1_000_000);
    let options = schedlab_pool::Options::new(WORKERS);
    let ended = soak(&graph(), options, endless, Faulty::default(), &second).unwrap();
    assert_eq!(ended.rounds, 1);
}

/// A recording, unless the right to record is missing: that is said aloud.
fn recording(output: &Path) -> Option<Recording> {
    crate::machine_lock::share();
    match Recording::start(output) {
        Ok(recording) => Some(recording),
        Err(RigError::While { source, .. })
            if matches!(source.downcast_ref(), Some(RecordError::Right { .. })) =>
        {
            let _ = writeln!(std::io::stderr(), "MISSING: {source}: no recording was made");
            None
        }
        Err(error) => panic!("{}", error.sentence()),
    }
}

#[test]
fn a_recording_puts_each_moment_of_each_worker_down_to_one_cause() {
    // For how long workers were in jobs and on a CPU; `None`: nothing may be recorded.
    let in_jobs = || {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("run.dat");
        let threads = Threads::default();
        let options = Options { on_start: Some(threads.on_start(None)), ..Options::new(WORKERS) };
        let recording = recording(&output)?;
        let (run, before) = (run(), steal());
        let mut ours = Lumiera::new(options);
        ours.run(&run).unwrap();
        let pids = threads.of(&[true; WORKERS]).unwrap();
        let recorded = recording.finish(&run, &pids).unwrap();
        let stalls = &recorded.stalls;
        let all: u64 = Cause::ALL.into_iter().map(|cause| stalls.sum(cause).0).sum();
        assert_eq!(all, WORKERS as u64 * stalls.window.duration().0);
        assert!(Account::of(stalls, run.base()).sums.contains_key("in_jobs_ns"));
        let files = std::fs::read_dir(folder.path()).unwrap().flatten();
        assert!(files.map(|file| file.path()).eq([output.clone()]), "the spool is gone");
        let mut source = schedlab_trace::open(&output).unwrap();
        let slices = schedlab_timeline::Slices::new(1 << 16);
        assert!(schedlab_timeline::ask(source.as_mut(), slices).is_ok());
        let figures = MachineStalls::of(&run, WORKERS, before).figures();
        assert!((0.0..=1.0).contains(&figures.share_aside));
        Some(stalls.sum(Cause::Job))
    };
    // Now and then a virtual CPU leaves idleness without a recorded switch, and a worker there seems to wait in its jobs.
    let mut tries = (0..5).map_while(|_| in_jobs()).peekable();
    if tries.peek().is_some() {
        assert!(tries.any(|time| time > Nanos::ZERO), "no recording shows a worker in a job");
    }
}

#[test]
fn a_probe_of_the_machine_measures_as_many_timers_as_it_was_asked_for() {
    let placed = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&placed);
    let place: OnStart = Arc::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let figures = Jitter::probe(WORKERS, Nanos::from_millis(4), &place).unwrap().figures();
    assert_eq!(placed.load(Ordering::Relaxed), WORKERS);
    assert!(figures.timer_late_ns_p50 <= figures.timer_late_ns_max);
    assert!(figures.timer_late_ns_max.is_some() && (0.0..=1.0).contains(&figures.taken));
}
