//! Tokio: a task per job on the multi-threaded runtime.

use super::countdown::Countdown;
use crate::executor::{Executor, ExecutorError, Offers, Told, refuse_times};
use crate::graph::Node;
use crate::pool::OnStart;
use crate::run::Run;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

thread_local! {
    static WORKER: Cell<usize> = const { Cell::new(0) };
}

/// A tokio runtime of its own.
pub struct TokioTasks {
    runtime: tokio::runtime::Runtime,
    workers: usize,
}

impl TokioTasks {
    /// Starts so many threads.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start(workers: usize) -> std::io::Result<Self> {
        Self::start_with(workers, &(Arc::new(|_| {}) as OnStart))
    }

    /// The same, each thread calling `on_start` first.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start_with(workers: usize, on_start: &OnStart) -> std::io::Result<Self> {
        let (count, on_start) = (AtomicUsize::new(0), Arc::clone(on_start));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .on_thread_start(move || {
                let number = count.fetch_add(1, Ordering::Relaxed) % workers;
                WORKER.set(number);
                on_start(number);
            })
            .build()?;
        Ok(Self { runtime, workers })
    }
}

struct Work {
    run: Arc<Run>,
    countdown: Countdown,
    ended: Sender<()>,
}

fn spawn(work: Arc<Work>, node: Node) {
    tokio::spawn(async move {
        work.run.perform(node, WORKER.get());
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
        Offers::PLAIN
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<Told, ExecutorError> {
        refuse_times(self, run)?;
        let graph = run.graph();
        let exits = (0..graph.len()).filter(|&node| graph.successors(node).is_empty()).count();
        let (ended, endings) = channel();
        let countdown = Countdown::new(graph);
        let work = Arc::new(Work { run: Arc::clone(run), countdown, ended });
        work.run.set_base(work.run.clock().now());
        // From a worker, as programs do: from outside, every spawn would take the shared queue's lock.
        self.runtime.spawn(async move {
            for node in Countdown::roots(work.run.graph()) {
                spawn(Arc::clone(&work), node);
            }
        });
        let arrived = endings.iter().take(exits).count();
        if arrived == exits {
            return run.told(Told::default());
        }
        let what = format!("{arrived} of {exits} exits arrived");
        Err(ExecutorError::Unfinished { executor: self.name(), what })
    }
}
