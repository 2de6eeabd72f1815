//! A soak: jobs come and go for as long as asked, perhaps with faults. Memory must stay flat, nothing may be lost, and
//! it ends with a report.

use schedlab_jobs::graph::Graph;
use schedlab_model::Nanos;
use schedlab_pool::{Counts, Options, Pool, Request};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What goes wrong on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faulty {
    /// One in this many jobs panics; `None`: no job does.
    pub panic_every: Option<u64>,
    /// One job never returns.
    pub stuck: bool,
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
    pub(crate) stalled: bool,
    /// Workers whose job never returned.
    pub stuck: Vec<usize>,
    /// Ten readings of the resident memory of the process, at equal distances over the run; `None` where the kernel does
    /// not tell.
    pub resident_kib: Vec<Option<u64>>,
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
    let pool = Pool::start(options)?;
    let jobs = Arc::new(Soaked { faulty, ran: AtomicU64::new(0), stuck: faulty.stuck.into() });
    let end = Instant::now() + Duration::from_nanos(time.0);
    let mut rounds = 0u64;
    let mut refused = 0u64;
    let mut stalled = false;
    let mut resident = Vec::new();
    let mut sample = Instant::now();
    // One round at least, also where the machine stalled for as long as it was asked for.
    while (rounds + refused == 0 || Instant::now() < end) && !stalled && !interrupted() {
        let mut plan = pool.plan();
        for node in 0..graph.len() {
            let jobs = Arc::clone(&jobs);
            drop(plan.add(Request::new(), move || jobs.run()));
            graph.predecessors(node).iter().for_each(|&p| plan.link(p as usize, node as usize));
        }
        match plan.post() {
            Ok(()) => rounds += 1,
            Err(_) => refused += 1,
        }
        // A job that never returns must not hold up the others: so no waiting for the last one.
        stalled = !faulty.stuck && !ends(&pool, interrupted);
        if faulty.stuck {
            std::thread::sleep(Duration::from_millis(5));
        }
        if Instant::now() >= sample {
            resident.push(resident_kib());
            sample += Duration::from_nanos(time.0 / 10);
        }
    }
    let patience = if interrupted() || faulty.stuck { 1 } else { 10 };
    let drained = pool.wait(Duration::from_secs(patience)).is_ok();
    let report = pool.stop(Duration::from_secs(2));
    let counts = report.counts;
    let stuck = report.stuck;
    Ok(Soak { rounds, refused, counts, drained, stalled, stuck, resident_kib: resident })
}

struct Soaked {
    faulty: Faulty,
    ran: AtomicU64,
    stuck: AtomicBool,
}

impl Soaked {
    fn run(&self) {
        let ran = self.ran.fetch_add(1, Relaxed) + 1;
        if self.stuck.swap(false, Relaxed) {
            loop {
                std::thread::park();
            }
        }
        if self.faulty.panic_every.is_some_and(|every| ran.is_multiple_of(every.max(1))) {
            // Without the panic hook: a message per fault would be the load.
            std::panic::resume_unwind(Box::new("a fault"));
        }
    }
}

/// Waits for a round: a minute at most, and no longer than the user lets it.
fn ends(pool: &Pool, interrupted: &dyn Fn() -> bool) -> bool {
    (0..600).any(|_| interrupted() || pool.wait(Duration::from_millis(100)).is_ok())
}

fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}
