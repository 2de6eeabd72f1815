//! What jobs do: calibrated work. Compute is a number of rounds, never a spin until a time, so that
//! it takes longer where the CPU is slower or shared.

use super::data::Data;
use super::{Length, Mix};
use crate::graph::{Graph, Node};
use crate::policy::Nanos;
use crate::run::Work;
use std::hint::black_box;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// What a job spends its time with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Jobs do arithmetic in registers.
    #[default]
    Cpu,
    /// Sums over memory of its own, 256 KiB: caches and bandwidth.
    Memory,
    /// Arithmetic while holding a lock that all jobs share.
    Lock,
    /// Half arithmetic, half a timed sleep.
    Sleep,
    /// Nothing but waiting for a timer, as for a device.
    Block,
}

impl Kind {
    /// The name of the kind on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Lock => "lock",
            Self::Sleep => "sleep",
            Self::Block => "block",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "lock" => Self::Lock,
            "sleep" => Self::Sleep,
            "block" => Self::Block,
            _ => {
                return Err(format!(
                    "unknown load '{text}': use cpu, memory, lock, sleep or block"
                ));
            }
        })
    }
}

/// Words of the memory load: 256 KiB.
const WORDS: usize = 32 << 10;
/// Additions of a round of the memory load.
const ADDITIONS: usize = 64;

/// What jobs spend their time with, and the rounds of work per microsecond, as calibrated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burner {
    mix: Mix<Kind>,
    cpu_rounds_per_us: f64,
    memory_rounds_per_us: f64,
}

impl Burner {
    /// Not calibrated, for a run whose times another computes: what is planned is known, and performing it takes no time.
    pub const fn planned(mix: Mix<Kind>) -> Self {
        Self { mix, cpu_rounds_per_us: 0.0, memory_rounds_per_us: 0.0 }
    }

    /// Calibrates alone: the best of several tries, so that a disturbance does not count as slowness.
    pub fn calibrate(mix: impl Into<Mix<Kind>>) -> Self {
        Self::of(mix.into(), |kind| rate(kind, Duration::from_millis(20)))
    }

    /// Calibrates with `threads` threads at once: what a job gets when all workers are busy. The
    /// result is the mean of the threads. Each kind of a mix is calibrated by itself, on all
    /// threads.
    pub fn calibrate_at(mix: impl Into<Mix<Kind>>, threads: usize) -> Self {
        Self::of(mix.into(), |kind| rate_at(kind, threads.max(1)))
    }

    /// Only what the mix needs is measured.
    fn of(mix: Mix<Kind>, rate: impl Fn(Kind) -> f64) -> Self {
        let kinds = mix.all();
        let memory = kinds.contains(&Kind::Memory);
        let cpu = kinds.iter().any(|kind| !matches!(kind, Kind::Memory | Kind::Block));
        Self {
            mix,
            cpu_rounds_per_us: if cpu { rate(Kind::Cpu) } else { 0.0 },
            memory_rounds_per_us: if memory { rate(Kind::Memory) } else { 0.0 },
        }
    }

    fn rounds(&self, kind: Kind, ns: Nanos) -> u64 {
        let rounds_per_us = match kind {
            Kind::Memory => self.memory_rounds_per_us,
            _ => self.cpu_rounds_per_us,
        };
        (ns as f64 / 1000.0 * rounds_per_us) as u64
    }
}

fn rate_at(kind: Kind, threads: usize) -> f64 {
    let measure = || rate(kind, Duration::from_millis(20));
    // Held until all are there, so that they begin together.
    let gate = RwLock::new(());
    let rates: Vec<f64> = std::thread::scope(|scope| {
        let held = gate.write();
        // Where the system gives no more threads, fewer measure.
        let started: Vec<_> = (0..threads)
            .map_while(|_| {
                let life = || {
                    drop(gate.read());
                    measure()
                };
                std::thread::Builder::new().spawn_scoped(scope, life).ok()
            })
            .collect();
        drop(held);
        started.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    if rates.is_empty() { measure() } else { rates.iter().sum::<f64>() / rates.len() as f64 }
}

/// Runs that are long enough to count before a calibration may end: one alone may have met a stall.
const COUNTED: u32 = 5;

/// Rounds per microsecond: the fastest of runs within the time, and of as many as that takes where the machine
/// stalls for all of it.
fn rate(kind: Kind, time: Duration) -> f64 {
    let begin = Instant::now();
    rate_by(
        |rounds| {
            let before = Instant::now();
            burn(kind, rounds);
            before.elapsed().as_nanos() as f64 / 1000.0
        },
        || begin.elapsed() >= time,
    )
}

/// By the microseconds that this many rounds take, until it is over.
fn rate_by(mut took_us: impl FnMut(u64) -> f64, over: impl Fn() -> bool) -> f64 {
    let mut rounds = 64u64;
    let mut best = 0.0f64;
    let mut counted = 0;
    while counted < COUNTED || !over() {
        let us = took_us(rounds);
        best = best.max(rounds as f64 / us.max(0.001));
        counted += 1;
        if us < 500.0 {
            rounds *= 2;
            // Short runs measure the clock.
            (best, counted) = if us < 50.0 { (0.0, 0) } else { (best, counted) };
        }
    }
    best.max(0.001)
}

fn burn(kind: Kind, rounds: u64) {
    if kind == Kind::Memory {
        let mut words = vec![1u64; WORDS];
        let mut at = 0;
        for round in 0..rounds {
            for _ in 0..ADDITIONS {
                let next = (at + 17) % WORDS;
                words[at] = words[at].wrapping_add(words[next]).wrapping_add(round);
                at = next;
            }
        }
        black_box(&words);
        return;
    }
    let mut hash = black_box(0x9e37_79b9_7f4a_7c15u64);
    for round in 0..rounds {
        hash = (hash ^ round).wrapping_mul(0xc6a4_a793_5bd1_e995);
        hash ^= hash >> 47;
    }
    black_box(hash);
}

/// Calibrated work for the nodes of a graph: base time, times weight, times a factor drawn per node.
#[derive(Debug)]
pub struct Load {
    burner: Burner,
    planned_ns: Vec<Nanos>,
    kinds: Vec<Kind>,
    shared: Mutex<()>,
    data: Option<Data>,
}

impl Load {
    /// Work for a graph.
    pub fn new(graph: &Graph, burner: Burner, base_ns: Nanos, length: Length, seed: u64) -> Self {
        let planned = |node: Node| {
            let weighted = base_ns as f64 * f64::from(graph.weight(node));
            (weighted * length.factor(seed, node)) as Nanos
        };
        let planned_ns = (0..graph.len()).map(planned).collect();
        let kinds = (0..graph.len()).map(|node| burner.mix.of(graph, seed, node)).collect();
        Self { burner, planned_ns, kinds, shared: Mutex::new(()), data: None }
    }

    /// The burner with other planned lengths, in order of nodes.
    #[must_use]
    pub fn with_lengths(self, planned_ns: Vec<Nanos>) -> Self {
        Self { planned_ns, ..self }
    }

    /// The burner whose jobs first read the results of their predecessors, and at last write one of
    /// `bytes` bytes. That takes time beyond what is planned.
    #[must_use]
    pub fn with_data(self, graph: &Graph, bytes: usize) -> Self {
        Self { data: (bytes > 0).then(|| Data::new(graph, bytes)), ..self }
    }
}

impl Work for Load {
    fn perform(&self, node: Node) {
        let read = self.data.as_ref().map(|data| data.read(node));
        let ns = self.planned_ns[node as usize];
        let kind = self.kinds[node as usize];
        let burn_for = |ns| burn(kind, self.burner.rounds(kind, ns));
        match kind {
            Kind::Cpu | Kind::Memory => burn_for(ns),
            Kind::Lock => {
                let _held = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
                burn_for(ns);
            }
            Kind::Sleep => {
                burn_for(ns / 2);
                std::thread::sleep(Duration::from_nanos(ns / 2));
            }
            Kind::Block => std::thread::sleep(Duration::from_nanos(ns)),
        }
        if let (Some(data), Some(read)) = (&self.data, read) {
            data.write(node, read.wrapping_add(u64::from(node)));
        }
    }

    fn expected_ns(&self, node: Node) -> Nanos {
        self.planned_ns[node as usize]
    }

    fn data_bytes(&self) -> usize {
        self.data.as_ref().map_or(0, Data::bytes)
    }

    fn kind(&self, node: Node) -> &'static str {
        self.kinds[node as usize].name()
    }

    /// Arithmetic, as calibrated for a mix with such jobs.
    fn compute(&self, ns: Nanos) {
        burn(Kind::Cpu, self.burner.rounds(Kind::Cpu, ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Rules, Shape};

    #[test]
    fn planned_times_follow_weight_and_factor() {
        let graph = Shape::Isolated.build(&Rules { nodes: 3, ..Rules::default() }).with_weight(2);
        let burner = Burner::of(Kind::Cpu.into(), |_| 1.0);
        let load = Load::new(&graph, burner, 500, Length::Fixed, 0);
        assert_eq!((0..3).map(|n| load.expected_ns(n)).collect::<Vec<_>>(), [1000; 3]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "measures the speed of the machine; Miri's is a thousandth of it")]
    fn calibration_finds_a_rate_for_every_kind() {
        let both: Mix<Kind> = "memory=50%".parse().unwrap();
        for burner in [Burner::calibrate(both), Burner::calibrate_at(both, 2)] {
            assert!(burner.cpu_rounds_per_us > 0.1 && burner.memory_rounds_per_us > 0.1);
        }
    }

    #[test]
    fn a_calibration_that_meets_a_stall_at_its_start_does_not_take_the_cpu_for_slow() {
        // A thousand rounds a microsecond, and a second at a standstill in the first run, which is longer than
        // the time for all of them.
        let runs = std::cell::Cell::new(0);
        let took_us = |rounds: u64| {
            runs.set(runs.get() + 1);
            rounds as f64 / 1_000.0 + if runs.get() == 1 { 1e6 } else { 0.0 }
        };
        let rate = rate_by(took_us, || true);
        assert!((rate - 1_000.0).abs() < 1e-6, "{rate}");
    }

    #[test]
    fn only_what_a_mix_needs_is_calibrated() {
        let asked = |mix: &str| {
            let asked = std::cell::RefCell::new(Vec::new());
            Burner::of(mix.parse().unwrap(), |kind| {
                asked.borrow_mut().push(kind);
                1.0
            });
            asked.into_inner()
        };
        assert_eq!(asked("block"), []);
        assert_eq!(asked("memory,block@seed"), [Kind::Memory]);
        assert_eq!(asked("sleep=10%,memory=90%"), [Kind::Cpu, Kind::Memory]);
    }
}
