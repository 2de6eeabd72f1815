//! A soak: jobs come and go for as long as asked, perhaps with faults. Memory must stay flat, nothing may be lost, and
//! it ends with a report.

use schedlab_jobs::graph::{Graph, Node};
use schedlab_jobs::policy::{Counts, Plan, Posting};
use schedlab_jobs::pool::{Context, Faults, Flow, Options, Pool, Runner};
use schedlab_jobs::run::Clock;
use schedlab_model::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What goes wrong on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faulty {
    /// One in this many jobs panics; `None`: no job does.
    pub panic_every: Option<u64>,
    /// One in this many notifications is lost; 0 loses none.
    pub lose_notification: u32,
    /// The clock jumps by this many milliseconds after a second.
    pub clock_jump_ms: Option<i64>,
    /// One job never returns.
    pub stuck: bool,
}

/// What the pool and the process hold at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The number of blocks that the pool holds.
    pub blocks: usize,
    /// The pool's room for edges.
    pub edges: usize,
    /// Memory of the process that is resident; `None` where the kernel does not tell.
    pub resident_kib: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Soak {
    /// How often the graph was taken.
    pub rounds: u64,
    /// How often the pool did not take the graph.
    pub refused: u64,
    /// What became of the jobs.
    pub counts: Counts,
    /// Whether all jobs ended before the pool stopped.
    pub drained: bool,
    /// Whether a round did not end within a minute.
    pub stalled: bool,
    /// Workers whose job never returned.
    pub stuck: Vec<usize>,
    /// Ten readings of the memory in use, at equal distances over the run.
    pub memory: Vec<Memory>,
}

impl Soak {
    /// Jobs that never ended.
    pub fn left(&self) -> u64 {
        self.counts.posted - self.counts.ended()
    }

    /// Whether nothing was lost. What a stuck job holds back is no loss: it is in the report.
    pub fn is_clean(&self) -> bool {
        (self.left() == 0 || !self.stuck.is_empty()) && !self.stalled
    }
}

/// Runs a graph on a pool again and again for `time`, or until `interrupted`: once at least.
///
/// # Errors
/// When the pool cannot start.
pub fn soak(
    graph: &Graph,
    options: Options,
    time: Nanos,
    faulty: Faulty,
    interrupted: &dyn Fn() -> bool,
) -> std::io::Result<Soak> {
    let pool = start(options, faulty)?;
    let end = Instant::now() + Duration::from_nanos(time.0);
    let mut rounds = 0u64;
    let mut refused = 0u64;
    let mut memory = Vec::new();
    let mut sample = Instant::now();
    let mut stalled = false;
    // One round at least, also where the machine stalled for as long as it was asked for.
    while (rounds + refused == 0 || Instant::now() < end) && !stalled && !interrupted() {
        if pool.handle().plan(round(graph, pool.handle().now())).is_ok() {
            rounds += 1;
        } else {
            refused += 1;
        }
        // A job that never returns must not hold up the others: so no waiting for the last one.
        stalled = !faulty.stuck && !ends(&pool, interrupted);
        if faulty.stuck {
            std::thread::sleep(Duration::from_millis(5));
        }
        if Instant::now() >= sample {
            let (blocks, edges) = pool.handle().memory();
            memory.push(Memory { blocks, edges, resident_kib: resident_kib() });
            sample += Duration::from_nanos(time.0 / 10);
        }
    }
    let patience = if interrupted() { 1 } else { 10 };
    let drained = pool.handle().wait(Duration::from_secs(patience));
    let report = pool.stop(Duration::from_secs(2));
    let stuck = report.stuck.iter().map(|(worker, _)| *worker).collect();
    Ok(Soak { rounds, refused, counts: report.counts, drained, stalled, stuck, memory })
}

struct Soaked {
    panic_every: u64,
    stuck: AtomicBool,
    ran: AtomicU64,
}

impl Runner for Soaked {
    type Job = Node;

    fn run(&self, _: Node, _: &mut Context<'_, Self>) -> Flow {
        let ran = self.ran.fetch_add(1, Ordering::Relaxed) + 1;
        if self.stuck.swap(false, Ordering::Relaxed) {
            loop {
                std::thread::park();
            }
        }
        if self.panic_every > 0 && ran.is_multiple_of(self.panic_every) {
            // Without the panic hook: a message per fault would be the load.
            std::panic::resume_unwind(Box::new("a fault"));
        }
        Flow::Done
    }
}

fn start(options: Options, faulty: Faulty) -> std::io::Result<Pool<Soaked>> {
    let faults = Faults {
        lose_notification: faulty.lose_notification,
        clock_jump: faulty.clock_jump_ms.map(|ms| (1_000_000_000, ms * 1_000_000)),
    };
    let runner = Soaked {
        panic_every: faulty.panic_every.unwrap_or(0),
        stuck: AtomicBool::new(faulty.stuck),
        ran: AtomicU64::new(0),
    };
    Pool::start(runner, Options { faults, ..options }, Clock::start())
}

/// Waits for a round: a minute at most, and no longer than the user lets it.
fn ends(pool: &Pool<Soaked>, interrupted: &dyn Fn() -> bool) -> bool {
    (0..600).any(|_| interrupted() || pool.handle().wait(Duration::from_millis(100)))
}

fn round(graph: &Graph, now: u64) -> Plan<Node> {
    let mut plan = Plan::default();
    for node in 0..graph.len() {
        plan.add(Posting::new(node, now));
        for &p in graph.predecessors(node) {
            plan.link(p, node);
        }
    }
    plan
}

fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}
