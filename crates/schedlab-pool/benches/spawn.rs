//! What a job costs by `spawn`, as users call it, beside other executors in turns: independent jobs, and the dependencies
//! of a stencil and of a tree. Two workers. From the first call until all jobs have ended, and graphs are built meanwhile.
//!
//! `cargo bench -p schedlab-pool --bench spawn [-- ROUNDS]`. Taskflow and oneTBB need `g++`. Taskflow is a folder of
//! headers, which `TASKFLOW=FOLDER` names. A peer that does not compile is named as absent.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod common;

use common::{median, ratios};
use schedlab_pool::{Options, Pool, Request};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const WORKERS: usize = 2;
/// Independent jobs of a round.
const INDEPENDENT: usize = 200_000;
/// Jobs of a graph.
const GRAPH: usize = 20_000;
/// Jobs in a row of the stencil.
const WIDTH: usize = 16;

/// What each job of a shape waits for, as in `spawn.cpp`.
fn before(shape: &str, job: usize) -> Vec<usize> {
    match shape {
        "tree" => (job > 0).then(|| (job - 1) / 2).into_iter().collect(),
        _ if job < WIDTH => Vec::new(),
        _ => {
            let (column, above) = (job % WIDTH, job - WIDTH);
            let left = (column > 0).then(|| above - 1);
            let right = (column + 1 < WIDTH).then_some(above + 1);
            left.into_iter().chain([above]).chain(right).collect()
        }
    }
}

/// Nanoseconds a job of a case; `None`: the executor does not have it.
type Measure = Box<dyn FnMut(&str, usize) -> Option<f64>>;

/// Spawns independent jobs, and waits until all have run.
fn burst(jobs: usize, mut spawn: impl FnMut(usize, Arc<AtomicU64>)) -> f64 {
    let done = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    (0..jobs).for_each(|job| spawn(job, Arc::clone(&done)));
    while done.load(Relaxed) < jobs as u64 {
        std::thread::yield_now();
    }
    begun.elapsed().as_nanos() as f64 / jobs as f64
}

fn count(done: &AtomicU64) {
    done.fetch_add(1, Relaxed);
}

fn rayon() -> Measure {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(WORKERS).build().expect("threads");
    Box::new(move |case, jobs| {
        let spawn = |_, done: Arc<AtomicU64>| pool.spawn(move || count(&done));
        (case == "independent").then(|| burst(jobs, spawn))
    })
}

fn tokio() -> Measure {
    let builder = || tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).build();
    let runtime = builder().expect("threads");
    Box::new(move |case, jobs| {
        let spawn = |_, done: Arc<AtomicU64>| drop(runtime.spawn(async move { count(&done) }));
        (case == "independent").then(|| burst(jobs, spawn))
    })
}

/// `how`: plain handles, with a deadline in an hour, or with deadlines one second apart.
fn ours(how: &'static str) -> Measure {
    let pool = Pool::start(Options::new(WORKERS)).expect("threads");
    Box::new(move |case, jobs| {
        let far = Instant::now() + Duration::from_secs(3600);
        let request = |job: usize| match how {
            "a deadline in an hour" => Request::new().deadline(far),
            "deadlines a second apart" => {
                Request::new().deadline(far + Duration::from_secs(job as u64))
            }
            _ => Request::new(),
        };
        if case == "independent" {
            return Some(burst(jobs, |job, done| {
                drop(pool.spawn_with(request(job), move || count(&done)).expect("room"));
            }));
        }
        let done = Arc::new(AtomicU64::new(0));
        let begun = Instant::now();
        let run = || {
            let done = Arc::clone(&done);
            move || count(&done)
        };
        if how == "plan" {
            let mut plan = pool.plan();
            for job in 0..jobs {
                drop(plan.add(Request::new(), run()));
                before(case, job).into_iter().for_each(|from| plan.link(from, job));
            }
            plan.post().expect("room");
        } else {
            let mut handles = Vec::with_capacity(jobs);
            for job in 0..jobs {
                let after = |request: Request<'static>, from: usize| request.after(&handles[from]);
                let request = before(case, job).into_iter().fold(request(job), after);
                handles.push(pool.spawn_with(request, run()).expect("room"));
            }
        }
        pool.wait(Duration::MAX).expect("drained");
        Some(begun.elapsed().as_nanos() as f64 / jobs as f64)
    })
}

/// A program that measures itself: it reads cases, and writes nanoseconds a job.
struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles `spawn.cpp` for a peer; `None` where it is not installed.
fn program(name: &str, flags: &[&str]) -> Option<Measure> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/spawn.cpp");
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("spawn-{name}"));
    let mut compiler = Command::new("g++");
    compiler.args(["-O2", "-std=c++20", "-pthread"]).arg(source).arg("-o").arg(&target);
    let built = compiler.args(flags).stderr(Stdio::null()).status();
    if !built.is_ok_and(|status| status.success()) {
        println!("{name} is absent: it does not compile here");
        return None;
    }
    let (input, output) = (Stdio::piped(), Stdio::piped());
    let mut child = Command::new(target).stdin(input).stdout(output).spawn().expect("it was built");
    let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let mut program = Program { child, input, output: BufReader::new(output) };
    Some(Box::new(move |case, jobs| {
        writeln!(program.input, "{case} {jobs}").expect("it reads");
        let mut line = String::new();
        program.output.read_line(&mut line).expect("it writes");
        Some(line.trim().parse().expect("a number"))
    }))
}

fn main() {
    let given = std::env::args().skip(1).find_map(|arg| arg.parse().ok());
    let rounds: usize = given.unwrap_or(30);
    let mut peers: Vec<(&str, Measure)> = vec![("spawn", ours("spawn")), ("plan", ours("plan"))];
    for how in ["a deadline in an hour", "deadlines a second apart"] {
        peers.push((how, ours(how)));
    }
    peers.extend([("rayon", rayon()), ("tokio", tokio())]);
    let folder = std::env::var("TASKFLOW").unwrap_or_else(|_| "/usr/include".to_owned());
    let taskflow = program("Taskflow", &["-DTASKFLOW", "-isystem", &folder]);
    peers.extend(taskflow.map(|peer| ("Taskflow", peer)));
    peers.extend(program("oneTBB", &["-DONETBB", "-ltbb"]).map(|peer| ("oneTBB", peer)));
    for (case, jobs) in [("independent", INDEPENDENT), ("stencil", GRAPH), ("tree", GRAPH)] {
        let mut all = vec![Vec::new(); peers.len()];
        for round in 0..=rounds {
            for turn in 0..peers.len() {
                let at = (turn + round) % peers.len();
                // Plans are for graphs. The first round warms up.
                let is_left_out = case == "independent" && peers[at].0 == "plan";
                let found = if is_left_out { None } else { peers[at].1(case, jobs) };
                all[at].extend(found.filter(|_| round > 0));
            }
        }
        println!("{case}, {WORKERS} workers, {jobs} jobs a round, {rounds} rounds in turns:");
        for ((name, _), ns) in peers.iter().zip(&all).filter(|(_, ns)| !ns.is_empty()) {
            let spawn = ratios(&all[0], ns);
            let plan = match all[1].as_slice() {
                [] => String::new(),
                plan => format!("; plan to it {}", ratios(plan, ns)),
            };
            println!("  {name:24} {:5.0} ns a job; spawn to it {spawn}{plan}", median(ns));
        }
    }
}
