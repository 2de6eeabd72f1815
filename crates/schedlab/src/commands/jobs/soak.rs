//! A soak: jobs come and go for as long as asked, perhaps with faults; memory must stay flat, nothing may
//! be lost, and it ends with a report.

use super::table;
use crate::json;
use schedlab_jobs::graph::{Graph, Node};
use schedlab_jobs::policy::{Counts, Plan, Posting};
use schedlab_jobs::pool::{Context, Faults, Flow, Options, Pool, Runner};
use schedlab_jobs::run::Clock;
use schedlab_model::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What goes wrong on purpose.
#[derive(Clone, Copy)]
pub(super) struct Faulty {
    pub(super) panic_every: Option<u64>,
    pub(super) lose_notification: u32,
    pub(super) clock_jump_ms: Option<i64>,
    pub(super) stuck: bool,
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

/// `schedlab jobs run --soak --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    /// How often the graph was taken.
    rounds: u64,
    interrupted: bool,
    /// How often the pool did not take the graph.
    refused: u64,
    posted: u64,
    done: u64,
    panicked: u64,
    failed: u64,
    /// Jobs whose predecessor did not end well.
    abandoned: u64,
    /// Jobs that missed their deadline.
    missed: u64,
    /// Jobs that never ended.
    left: u64,
    /// Whether all jobs ended before the pool stopped.
    drained: bool,
    stuck_workers: Vec<usize>,
    /// The pool's blocks, ten times over the run.
    blocks: Vec<usize>,
    /// The pool's room for edges.
    edges: Vec<usize>,
    resident_kib: Vec<Option<u64>>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/jobs-soak/1";
}

/// Runs it.
pub(super) fn run(
    graph: &Graph,
    options: Options,
    time: Nanos,
    faulty: Faulty,
    json_wanted: bool,
) -> anyhow::Result<ExitCode> {
    let pool = start(options, faulty)?;
    let end = Instant::now() + Duration::from_nanos(time.0);
    let (mut rounds, mut refused, mut memory) = (0u64, 0u64, Vec::new());
    let mut sample = Instant::now();
    let mut stopped = false;
    // One round at least, also where the machine stalled for as long as it was asked for.
    while (rounds + refused == 0 || Instant::now() < end) && !stopped && !super::interrupted() {
        if pool.handle().plan(round(graph, pool.handle().now())).is_ok() {
            rounds += 1;
        } else {
            refused += 1;
        }
        // A job that never returns must not hold up the others: so no waiting for the last one.
        stopped = !faulty.stuck && !ends(&pool);
        if faulty.stuck {
            std::thread::sleep(Duration::from_millis(5));
        }
        if Instant::now() >= sample {
            memory.push((pool.handle().memory(), resident_kib()));
            sample += Duration::from_nanos(time.0 / 10);
        }
    }
    let patience = if super::interrupted() { 1 } else { 10 };
    let drained = pool.handle().wait(Duration::from_secs(patience));
    let report = pool.stop(Duration::from_secs(2));
    let counts = report.counts;
    let lost = counts.posted - counts.ended();
    let stuck: Vec<usize> = report.stuck.iter().map(|(worker, _)| *worker).collect();
    if json_wanted {
        json::print(&Document {
            rounds,
            interrupted: super::interrupted(),
            refused,
            posted: counts.posted,
            done: counts.done,
            panicked: counts.panicked,
            failed: counts.failed,
            abandoned: counts.abandoned,
            missed: counts.missed,
            left: lost,
            drained,
            stuck_workers: stuck.clone(),
            blocks: memory.iter().map(|(memory, _)| memory.0).collect(),
            edges: memory.iter().map(|(memory, _)| memory.1).collect(),
            resident_kib: memory.iter().map(|(_, kib)| *kib).collect(),
        })?;
    } else {
        let Counts { posted, done, panicked, abandoned, missed, .. } = counts;
        table::say(&format!(
            "{rounds} rounds, {refused} refused; {posted} jobs posted: {done} done, {panicked} panicked, {abandoned} \
             waited for one that did, {missed} missed their deadline, {lost} left\n"
        ))?;
        if !stuck.is_empty() {
            let names: Vec<String> =
                stuck.iter().map(|worker| format!("worker {worker}")).collect();
            table::say(&format!("stuck in a job: {}\n", names.join(", ")))?;
        }
        table::say("the pool's memory, ten times over the run:\n")?;
        for ((blocks, edges), kib) in &memory {
            let resident = kib.map_or_else(|| "-".to_owned(), |kib| format!("{kib} KiB"));
            table::say(&format!("  {blocks} blocks, {edges} edges, resident {resident}\n"))?;
        }
    }
    // What a stuck job holds back is no loss: it is in the report.
    let clean = lost == 0 || !stuck.is_empty();
    let code = if clean && !stopped { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(super::code(code))
}

/// The pool with its faults.
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
fn ends(pool: &Pool<Soaked>) -> bool {
    (0..600).any(|_| super::interrupted() || pool.handle().wait(Duration::from_millis(100)))
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
