//! Tokio: a task per job on the multi-threaded runtime. Start times and I/O are its own timers, of a millisecond.

use super::countdown::Countdown;
use super::pace::PRE_ROLL_NS;
use crate::executor::{Executor, ExecutorError, ExecutorFigures, Offers, refuse_times};
use crate::graph::Node;
use crate::pool::OnStart;
use crate::run::Run;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

thread_local! {
    static WORKER: Cell<usize> = const { Cell::new(0) };
}

/// A tokio runtime of its own.
pub struct TokioTasks {
    runtime: tokio::runtime::Runtime,
    workers: usize,
}

impl TokioTasks {
    /// Starts `workers` threads.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start(workers: usize) -> std::io::Result<Self> {
        Self::start_with(workers, &(Arc::new(|_| {}) as OnStart))
    }

    /// As [`Self::start`]; each thread calls `on_start` first.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start_with(workers: usize, on_start: &OnStart) -> std::io::Result<Self> {
        let count = AtomicUsize::new(0);
        let on_start = Arc::clone(on_start);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_time()
            .on_thread_start(move || {
                let number = count.fetch_add(1, Ordering::Relaxed) % workers;
                WORKER.set(number);
                on_start(number);
            })
            .build()?;
        Ok(Self { runtime, workers })
    }
}

/// How soon it is seen that the user ended the run.
const LOOK_NS: u64 = 50_000_000;

struct Work {
    run: Arc<Run>,
    countdown: Countdown,
    ended: Sender<()>,
}

fn spawn(work: Arc<Work>, node: Node) {
    tokio::spawn(async move {
        let run = &work.run;
        while run.schedule().is_timed() && !run.is_stopped() {
            let start = run.base() + run.schedule().start(node);
            let left = start.saturating_sub(run.clock().now());
            if left == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_nanos(left.min(LOOK_NS))).await;
        }
        if let Some(io) = run.perform_in_time(node, WORKER.get()) {
            tokio::time::sleep(Duration::from_nanos(io.ns)).await;
            run.end_io(node, io.fails, None);
        }
        let successors = work.run.graph().successors(node);
        for &next in successors {
            if work.countdown.last(next) {
                spawn(Arc::clone(&work), next);
            }
        }
        if successors.is_empty() {
            let _ = work.ended.send(());
        }
    });
}

impl Executor for TokioTasks {
    fn name(&self) -> String {
        "tokio".to_owned()
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn offers(&self) -> Offers {
        Offers { start_times: true, asynchronous: true, failures: true, ..Offers::LOOKED_AT }
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<ExecutorFigures, ExecutorError> {
        refuse_times(self, run)?;
        let graph = run.graph();
        let exits = (0..graph.len()).filter(|&node| graph.successors(node).is_empty()).count();
        let (ended, endings) = channel();
        let countdown = Countdown::new(graph);
        let work = Arc::new(Work { run: Arc::clone(run), countdown, ended });
        let pre_roll_ns = if run.schedule().is_timed() { PRE_ROLL_NS } else { 0 };
        run.set_base(run.clock().now() + pre_roll_ns);
        // From a worker, as programs do: from outside, every spawn would take the shared queue's lock.
        self.runtime.spawn(async move {
            for node in Countdown::roots(work.run.graph()) {
                spawn(Arc::clone(&work), node);
            }
        });
        let arrived = endings.iter().take(exits).count();
        if arrived == exits {
            return run.finish(ExecutorFigures::default());
        }
        let what = format!("only {arrived} of {exits} final jobs reported their end");
        Err(ExecutorError::Unfinished { executor: self.name(), what })
    }
}
