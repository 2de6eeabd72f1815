//! What many programs do: threads that share the receiving end of a channel.

use super::countdown::Countdown;
use super::pace::{PRE_ROLL_NS, pace};
use crate::executor::{Executor, ExecutorError, ExecutorFigures, Offers, refuse_times};
use crate::graph::Node;
use crate::pool::OnStart;
use crate::run::Run;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

enum Order {
    Job(Arc<Work>, Node),
    Leave,
}

struct Work {
    run: Arc<Run>,
    countdown: Countdown,
    sender: Sender<Order>,
    /// Learns of each exit, and of the end of a job without successors.
    ended: Sender<()>,
}

pub struct ChannelThreads {
    sender: Sender<Order>,
    threads: Vec<JoinHandle<()>>,
}

impl ChannelThreads {
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
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        // Dropping it ends those that were started before one was refused.
        let mut all = Self { sender, threads: Vec::new() };
        for worker in 0..workers.max(1) {
            let receiver = Arc::clone(&receiver);
            let on_start = Arc::clone(on_start);
            let life = move || {
                on_start(worker);
                serve(&receiver, worker);
            };
            let thread = std::thread::Builder::new().name(format!("worker {worker}"));
            all.threads.push(thread.spawn(life)?);
        }
        Ok(all)
    }
}

fn serve(receiver: &Mutex<Receiver<Order>>, worker: usize) {
    loop {
        let order = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Order::Job(work, node)) = order else { return };
        work.run.perform_in_time(node, worker);
        let successors = work.run.graph().successors(node);
        for &next in successors {
            if work.countdown.last(next) {
                let _ = work.sender.send(Order::Job(Arc::clone(&work), next));
            }
        }
        if successors.is_empty() {
            let _ = work.ended.send(());
        }
    }
}

impl Executor for ChannelThreads {
    fn name(&self) -> String {
        "channel".to_owned()
    }

    fn workers(&self) -> usize {
        self.threads.len()
    }

    fn offers(&self) -> Offers {
        Offers::PACED
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<ExecutorFigures, ExecutorError> {
        refuse_times(self, run)?;
        let graph = run.graph();
        let exits = (0..graph.len()).filter(|&node| graph.successors(node).is_empty()).count();
        let (ended, endings) = channel();
        let sender = self.sender.clone();
        let work =
            Arc::new(Work { run: Arc::clone(run), countdown: Countdown::of(run), sender, ended });
        let send = |node| self.sender.send(Order::Job(Arc::clone(&work), node));
        if run.schedule().is_timed() {
            run.set_base(run.clock().now() + PRE_ROLL_NS);
            pace(run, |node| {
                if work.countdown.last(node) {
                    let _ = send(node);
                }
            });
        } else {
            run.set_base(run.clock().now());
            for node in Countdown::roots(graph) {
                let _ = send(node);
            }
        }
        drop(work);
        let arrived = endings.iter().take(exits).count();
        if arrived == exits {
            return run.finish(ExecutorFigures::default());
        }
        let what = format!("only {arrived} of {exits} final jobs reported their end");
        Err(ExecutorError::Unfinished { executor: self.name(), what })
    }
}

impl Drop for ChannelThreads {
    fn drop(&mut self) {
        for _ in &self.threads {
            let _ = self.sender.send(Order::Leave);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
