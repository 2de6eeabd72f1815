//! Does the rule of Linux 5.11 that a task goes back to its idle previous CPU keep a barrier workload fast beside
//! sparse kernel threads? One task per CPU, four sockets, 128 CPUs, all in virtual time.
//!
//!     cargo run --release -p schedlab-sim --example conservation -- [SEEDS] [SECONDS]
//!
//! Each task begins on a CPU of its own, as in a program that has settled. The two sides differ by the rule only
//! (commit d8fcb81f1acf). Each CPU has a kernel thread. Two kinds were fixed before the first run: every 4 ms, which is
//! the period that the facts about the slow runs of NAS UA name, and every second, the period of `vmstat_update`
//! (`sysctl_stat_interval`, Linux 6.1, mm/vmstat.c). How long such a thread runs has no source: 20 µs are assumed. The
//! grain is the barrier's own default, 1 ms. A round is slow if it takes more than one and a half times the median
//! round of the same seed without kernel threads. Standard output is a table with a row for each run, then what
//! follows from it (`examples/evidence/conservation/rows.csv` keeps it).
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "an example prints and reads its arguments"
)]

use schedlab_model::{Cpu, CpuSet, Nanos, Place, Topology};
use schedlab_sim::policy::{Cfs, CfsKnobs, Placer, PlacerKnobs};
use schedlab_sim::{Config, Costs, Hardware, Start, World};
use schedlab_stats::{Random, paired};
use schedlab_workload::placement::Surroundings;
use schedlab_workload::plan::{Placement, Task};
use schedlab_workload::{Behaviour, Done, Instruments, Op, workloads};

const SOCKETS: u32 = 4;
const CORES: u32 = 32;
const RUNS_FOR: u64 = 20_000;
const PERIODS: [(&str, u64); 2] = [("every 4 ms", 4_000_000), ("every second", 1_000_000_000)];
const TICK: u64 = 4_000_000;

/// A kernel thread that works a little at fixed times.
struct Sparse {
    next: u64,
    period: u64,
    works: bool,
}

impl Behaviour for Sparse {
    fn next(&mut self, _: Nanos, last: Done, _: &mut dyn Instruments) -> Op {
        if last == Done::Stopped {
            return Op::Exit;
        }
        self.works = !self.works;
        if self.works {
            self.next += self.period;
            return Op::SleepUntil(Nanos(self.next));
        }
        Op::Compute { iterations: RUNS_FOR }
    }
}

fn machine() -> Topology {
    let place = |cpu: u32| {
        let socket = cpu / CORES;
        let id = Cpu(u16::try_from(cpu).unwrap());
        Place { cpu: id, core: cpu, llc: socket, node: socket, socket }
    };
    Topology::new((0..SOCKETS * CORES).map(place).collect())
}

/// Rounds in all and those longer than `limit` nanoseconds, and the median round.
fn run(seed: u64, seconds: u64, rule: bool, period: Option<u64>, limit: u64) -> Rounds {
    let topology = machine();
    let cpus = topology.places().len();
    let allowed = CpuSet::first(cpus);
    let around = Surroundings { topology: topology.clone(), allowed, speed: 1_000, seed };
    let options = [("work", "1ms".to_owned()), ("duration", format!("{seconds}s"))];
    let options = options.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    let mut plan = workloads::plan("barrier", &options, &around).unwrap();
    let mut phases = Random::new(seed);
    for cpu in 0..cpus as u16 {
        let Some(period) = period else { break };
        let next = Config::default().begin_ns + phases.below(period as usize) as u64;
        let behaviour = Box::new(Sparse { next, period, works: false });
        let placement =
            Placement { cpus: Some([Cpu(cpu)].into_iter().collect()), ..Placement::default() };
        let thread = Task::new(format!("kworker/{cpu}"), 0, behaviour);
        plan.tasks.push(Task { placement, ..thread });
    }
    let hardware = Hardware::new(topology);
    let knobs = PlacerKnobs { idle_prev_first: rule, ..PlacerKnobs::default() };
    let policy = Cfs::new(cpus, CfsKnobs::of(cpus), Placer::new(cpus, knobs));
    let policy = Box::new(policy.balanced(&hardware, TICK, seed));
    // The kernel's RCU thread is a kernel thread too.
    let costs = Costs { rcu: 0, ..Costs::USUAL };
    let start = Start::AtOnce;
    let config = Config { seed, record: false, costs, start, ..Config::default() };
    let mut world = World::new(&mut plan, hardware, policy, config);
    world.run_until(u64::MAX - 1, &mut |_| ()).unwrap();
    let rounds = &world.histograms()[0];
    let median = rounds.quantile(0.5).unwrap_or(0);
    (rounds.count(), rounds.count() - rounds.count_up_to(limit), median)
}

/// Rounds of a run, those that are slow, and the median in nanoseconds.
type Rounds = (u64, u64, u64);

fn share((rounds, slow, _): Rounds) -> f64 {
    slow as f64 / rounds.max(1) as f64 * 100.0
}

/// Both sides of a seed; `limit` makes a round slow.
fn sides(
    seed: u64,
    seconds: u64,
    (threads, period): (&'static str, u64),
    limit: u64,
) -> [Rounds; 2] {
    [true, false].map(|rule| {
        let period = Some(period).filter(|period| *period > 0);
        let (rounds, slow, median_ns) = run(seed, seconds, rule, period, limit);
        println!("{threads},{rule},{seed},{rounds},{slow},{median_ns}");
        (rounds, slow, median_ns)
    })
}

/// The sides of one kind of kernel threads beside each other, in words.
fn verdict(pairs: &[[Rounds; 2]]) -> String {
    let mean = |side: usize| pairs.iter().map(|pair| share(pair[side])).sum::<f64>();
    let (with, without) = (mean(0) / pairs.len() as f64, mean(1) / pairs.len() as f64);
    let less: Vec<f64> =
        pairs.iter().map(|&[with, without]| share(without) - share(with)).collect();
    let interval = paired(&less).map(|effect| effect.interval(0.95));
    let interval = interval.map_or("no interval".to_owned(), |(low, high)| {
        format!("difference {low:.4} to {high:.4} percentage points (95 %)")
    });
    let (same, all) = (pairs.iter().filter(|[a, b]| a == b).count(), pairs.len());
    format!(
        "slow rounds {with:.4} % with the rule, {without:.4} % without; {interval}; the same rounds for \
         {same} of {all} seeds"
    )
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |usual: u64| words.next().map_or(usual, |word| word.parse().unwrap());
    let (seeds, seconds) = (number(100), number(1));
    println!("# {} CPUs on {SOCKETS} sockets, {seeds} seeds, {seconds} s each", SOCKETS * CORES);
    println!("threads,rule,seed,rounds,slow,median_ns");
    let median = |seed: u64| run(seed, seconds, true, None, u64::MAX).2;
    let limits: Vec<u64> = (1..=seeds).map(|seed| median(seed) * 3 / 2).collect();
    let mut verdicts = Vec::new();
    for kind in [("none", 0), PERIODS[0], PERIODS[1]] {
        let pair = |(seed, &limit): (u64, &u64)| sides(seed, seconds, kind, limit);
        let pairs: Vec<[Rounds; 2]> = (1..=seeds).zip(&limits).map(pair).collect();
        verdicts.push(format!("# kernel threads {}: {}", kind.0, verdict(&pairs)));
    }
    println!("{}", verdicts.join("\n"));
}
