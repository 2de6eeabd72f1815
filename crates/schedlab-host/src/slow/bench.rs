//! The microbenchmarks by which methods are judged: six of the study, and one that it lacks.
//!
//! They are native loops in a child of their own, which is put into the slowed node like any command.
//! Rates are of work done over time on the clock.

use super::entry::{Entry, enter};
use super::{SlowError, entry::program};
use schedlab_model::{Cpu, CpuSet, Nanos};
use schedlab_sys::clock;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Tasks for each CPU in the benchmarks of several tasks, as the study's rates suggest.
const TASKS: usize = 5;
/// Phases of `sleep`: computing for about a millisecond at full speed, and sleeping as long.
pub(super) const PHASE: Nanos = Nanos::from_millis(1);
/// Bytes of each array of `memory`: three of them are larger than most caches.
const ARRAY: usize = 32 << 20;

/// A microbenchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Benchmark {
    /// A tight loop.
    Cpu,
    /// Datagrams of a byte over the loopback.
    Udp,
    /// STREAM's triad.
    Memory,
    /// A millisecond of computing, a millisecond of sleep.
    Sleep,
    /// Several processes that compute.
    Processes,
    /// Several threads of one process that compute.
    Threads,
    /// A thread on each CPU, all of which meet every 0.6 ms of computing.
    Barrier,
}

/// All of them.
pub const BENCHMARKS: &[Benchmark] = &[
    Benchmark::Cpu,
    Benchmark::Udp,
    Benchmark::Memory,
    Benchmark::Sleep,
    Benchmark::Processes,
    Benchmark::Threads,
    Benchmark::Barrier,
];

impl Benchmark {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Udp => "udp",
            Self::Memory => "memory",
            Self::Sleep => "sleep",
            Self::Processes => "processes",
            Self::Threads => "threads",
            Self::Barrier => "barrier",
        }
    }

    /// What its rate counts.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Udp => "packets/s",
            Self::Memory => "MB/s",
            _ => "loops/s",
        }
    }

    /// Whether it is for this number of CPUs.
    #[must_use]
    pub const fn fits(self, cpus: usize) -> bool {
        match self {
            Self::Processes | Self::Threads => true,
            Self::Barrier => cpus > 1,
            _ => cpus == 1,
        }
    }

    /// What a perfectly slowed CPU would do, as a part of the rate at full speed. Memory and devices
    /// would stay as fast as they are.
    #[must_use]
    pub fn ideal(self, speed: f64) -> f64 {
        match self {
            Self::Udp | Self::Memory => 1.0,
            // Phases c and s at full speed become c / speed and s.
            Self::Sleep => 2.0 / (1.0 / speed + 1.0),
            _ => speed,
        }
    }
}

/// What a child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) benchmark: Benchmark,
    pub(super) cpus: CpuSet,
    pub(super) time: Nanos,
    /// Rounds of [`spin`] in a millisecond at full speed.
    pub(super) rounds_in_ms: u64,
    /// Where the result goes.
    pub(super) result: PathBuf,
}

/// What a child measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Rate {
    /// Work a second.
    pub(super) rate: f64,
    /// CPU time used for each unit of work, in nanoseconds.
    pub(super) cpu_ns: f64,
}

impl Task {
    /// The command line of the child.
    pub(super) fn argv(&self) -> Result<Vec<String>, SlowError> {
        let json = serde_json::to_string(&Entry::Bench(self.clone())).expect("plain values");
        let program = program()?.to_string_lossy().into_owned();
        Ok(vec![program, super::ARGUMENT.to_owned(), json])
    }
}

/// How many rounds of the loop a millisecond at full speed has: the best of some, so that other load
/// is not taken for a slow machine.
pub(super) fn calibrate() -> u64 {
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
    let Some(rate) = measure(task) else { return 1 };
    let text = serde_json::to_string(&rate).expect("plain values");
    i32::from(std::fs::write(&task.result, text).is_err())
}

fn measure(task: &Task) -> Option<Rate> {
    let (start, cpu) = (clock::monotonic(), clock::process_cpu());
    let end = start + task.time;
    let before = |work: u64, children: Nanos| {
        let wall = (clock::monotonic() - start).as_secs_f64();
        let used = (clock::process_cpu() - cpu).0 + children.0;
        Rate { rate: work as f64 / wall, cpu_ns: used as f64 / work.max(1) as f64 }
    };
    let small = (task.rounds_in_ms / 20).max(1);
    Some(match task.benchmark {
        Benchmark::Cpu => before(work_until(end, || small, || spin(small)), Nanos::ZERO),
        Benchmark::Sleep => {
            let rounds = task.rounds_in_ms * PHASE.0 / 1_000_000;
            let cycle = || {
                spin(rounds);
                std::thread::sleep(PHASE.as_duration());
            };
            before(work_until(end, || rounds, cycle), Nanos::ZERO)
        }
        Benchmark::Udp => {
            let (to, from) = (udp()?, udp()?);
            from.connect(to.local_addr().ok()?).ok()?;
            let mut byte = [0];
            let packets = work_until(end, || 1, || drop((from.send(&[1]), to.recv(&mut byte))));
            before(packets, Nanos::ZERO)
        }
        Benchmark::Memory => {
            let mut arrays = Triad::new();
            let (start, cpu) = (clock::monotonic(), clock::process_cpu());
            let bytes = work_until(start + task.time, || 24 << 13, || arrays.step(1 << 13));
            let wall = (clock::monotonic() - start).as_secs_f64();
            let used = (clock::process_cpu() - cpu).0 as f64;
            Rate { rate: bytes as f64 / 1e6 / wall, cpu_ns: used / bytes.max(1) as f64 }
        }
        Benchmark::Threads => before(threads(task, end, small), Nanos::ZERO),
        Benchmark::Barrier => before(barrier(task, end), Nanos::ZERO),
        Benchmark::Processes => {
            let (work, used) = processes(task)?;
            before(work, used)
        }
    })
}

/// Repeats `step` until `end`, once at least; returns the sum of `of`.
fn work_until(end: Nanos, of: impl Fn() -> u64, mut step: impl FnMut()) -> u64 {
    let mut work = 0;
    loop {
        step();
        work += of();
        if clock::monotonic() >= end {
            return work;
        }
    }
}

fn udp() -> Option<std::net::UdpSocket> {
    std::net::UdpSocket::bind("127.0.0.1:0").ok()
}

fn threads(task: &Task, end: Nanos, small: u64) -> u64 {
    let total = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..TASKS * task.cpus.len() {
            scope.spawn(|| {
                let work = work_until(end, || small, || spin(small));
                total.fetch_add(work, Ordering::Relaxed);
            });
        }
    });
    total.into_inner()
}

fn barrier(task: &Task, end: Nanos) -> u64 {
    let (barrier, stop) = (Barrier::new(task.cpus.len()), AtomicBool::new(false));
    let (total, rounds) = (AtomicU64::new(0), task.rounds_in_ms * 6 / 10);
    std::thread::scope(|scope| {
        for (index, cpu) in task.cpus.iter().enumerate() {
            let (barrier, stop, total) = (&barrier, &stop, &total);
            scope.spawn(move || {
                let _ = enter(&[], &CpuSet::from_iter([cpu]));
                loop {
                    spin(rounds);
                    total.fetch_add(rounds, Ordering::Relaxed);
                    if index == 0 && clock::monotonic() >= end {
                        stop.store(true, Ordering::Relaxed);
                    }
                    // Two meetings: all see the same answer to whether this was the last round.
                    barrier.wait();
                    let last = stop.load(Ordering::Relaxed);
                    barrier.wait();
                    if last {
                        break;
                    }
                }
            });
        }
    });
    total.into_inner()
}

/// Children that each run `cpu` and leave their result beside ours.
fn processes(task: &Task) -> Option<(u64, Nanos)> {
    let results: Vec<PathBuf> = (0..TASKS * task.cpus.len())
        .map(|index| task.result.with_extension(format!("child-{index}")))
        .collect();
    let mut children = Vec::new();
    for result in &results {
        let task = Task { benchmark: Benchmark::Cpu, result: result.clone(), ..task.clone() };
        let argv = task.argv().ok()?;
        let mut command = std::process::Command::new(&argv[0]);
        schedlab_sys::process::die_with_parent(command.args(&argv[1..]));
        children.push(command.spawn().ok()?);
    }
    for child in &mut children {
        child.wait().ok()?;
    }
    let (mut work, mut used) = (0.0, 0.0);
    for result in &results {
        let rate = read(result).ok()?;
        let done = rate.rate * task.time.as_secs_f64();
        (work, used) = (work + done, used + done * rate.cpu_ns);
    }
    Some((work as u64, Nanos(used as u64)))
}

/// Reads what a child left, and removes it.
pub(super) fn read(result: &Path) -> Result<Rate, SlowError> {
    let text = std::fs::read_to_string(result)
        .map_err(|e| SlowError::io(format!("reading a result, {}", result.display()), e))?;
    let _ = std::fs::remove_file(result);
    serde_json::from_str(&text)
        .map_err(|e| SlowError::Failed(format!("a result is no result: {e}")))
}

/// The arrays of STREAM's triad, a piece at a time.
struct Triad {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    at: usize,
}

impl Triad {
    fn new() -> Self {
        let array = |value| vec![value; ARRAY / size_of::<f64>()];
        Self { a: array(0.0), b: array(1.0), c: array(2.0), at: 0 }
    }

    fn step(&mut self, elements: usize) {
        if self.at + elements > self.a.len() {
            self.at = 0;
        }
        let part = self.at..self.at + elements;
        let (b, c) = (&self.b[part.clone()], &self.c[part.clone()]);
        for ((a, b), c) in self.a[part].iter_mut().zip(b).zip(c) {
            *a = b + 3.0 * c;
        }
        std::hint::black_box(&mut self.a);
        self.at += elements;
    }
}

/// The first CPUs of a set.
pub(super) fn some(cpus: &CpuSet, count: usize) -> CpuSet {
    // The last ones: CPU 0 has most of the interrupts.
    let all: Vec<Cpu> = cpus.iter().collect();
    all.into_iter().rev().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ideals_are_proportional_flat_or_by_phases() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(Benchmark::Cpu.ideal(0.25), 0.25));
        assert!(near(Benchmark::Memory.ideal(0.25), 1.0));
        // 1 ms of work takes 4, and 1 ms of sleep 1: 2 of 5.
        assert!(near(Benchmark::Sleep.ideal(0.25), 0.4));
    }

    #[test]
    fn every_benchmark_of_one_process_measures_something() {
        let dir = tempfile::tempdir().unwrap();
        let cpus = some(&schedlab_sys::sched::affinity(schedlab_model::Pid(0)).unwrap(), 2);
        for &benchmark in BENCHMARKS.iter().filter(|b| **b != Benchmark::Processes) {
            let task = Task {
                benchmark,
                cpus: cpus.clone(),
                time: Nanos::from_millis(5),
                rounds_in_ms: 50,
                result: dir.path().join("result"),
            };
            let rate = measure(&task).unwrap();
            assert!(rate.rate > 0.0 && rate.cpu_ns > 0.0, "{benchmark:?}: {rate:?}");
        }
    }
}
