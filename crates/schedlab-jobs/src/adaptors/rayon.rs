//! Rayon: a scope in which a job spawns the successors whose last predecessor it was.

use super::countdown::Countdown;
use super::pace::{PRE_ROLL_NS, pace};
use crate::executor::{Executor, ExecutorError, ExecutorFigures, Offers, refuse_times};
use crate::graph::Node;
use crate::pool::OnStart;
use crate::run::Run;
use rayon::Scope;
use std::sync::Arc;

pub struct RayonScope(rayon::ThreadPool);

impl RayonScope {
    /// Starts `workers` threads.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start(workers: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        rayon::ThreadPoolBuilder::new().num_threads(workers).build().map(Self)
    }

    /// As [`Self::start`]; each thread calls `on_start` first.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start_with(
        workers: usize,
        on_start: &OnStart,
    ) -> Result<Self, rayon::ThreadPoolBuildError> {
        let on_start = Arc::clone(on_start);
        let builder = rayon::ThreadPoolBuilder::new().num_threads(workers);
        builder.start_handler(move |number| on_start(number)).build().map(Self)
    }
}

fn spawn<'s>(scope: &Scope<'s>, run: &'s Run, countdown: &'s Countdown, node: Node) {
    scope.spawn(move |scope| {
        run.perform_in_time(node, rayon::current_thread_index().unwrap_or(0));
        for &next in run.graph().successors(node) {
            if countdown.last(next) {
                spawn(scope, run, countdown, next);
            }
        }
    });
}

impl Executor for RayonScope {
    fn name(&self) -> String {
        "rayon".to_owned()
    }

    fn workers(&self) -> usize {
        self.0.current_num_threads()
    }

    fn offers(&self) -> Offers {
        Offers::PACED
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<ExecutorFigures, ExecutorError> {
        refuse_times(self, run)?;
        let countdown = Countdown::of(run);
        if run.schedule().is_timed() {
            run.set_base(run.clock().now() + PRE_ROLL_NS);
            // The pacer is no worker: it spawns from outside.
            self.0.in_place_scope(|scope| {
                pace(run, |node| {
                    if countdown.last(node) {
                        spawn(scope, run, &countdown, node);
                    }
                });
            });
            return run.finish(ExecutorFigures::default());
        }
        run.set_base(run.clock().now());
        self.0.scope(|scope| {
            for node in Countdown::roots(run.graph()) {
                spawn(scope, run, &countdown, node);
            }
        });
        run.finish(ExecutorFigures::default())
    }
}
