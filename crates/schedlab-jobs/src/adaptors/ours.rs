//! Our own pool under the rig.

use crate::executor::{Executor, ExecutorError, Offers, Told};
use crate::graph::Node;
use crate::policy::Nanos;
use crate::pool::{Context, Flow, Handle, Options, Pool, Report, Runner};
use crate::run::Run;
use crate::virtual_time::plan_of;
use std::sync::Arc;
use std::time::Duration;

/// Between the end of planning, as estimated, and the base of the run: workers go to sleep, so that
/// their waking is part of what is measured.
const PRE_ROLL_NS: Nanos = 3_000_000;
/// Planning a node, estimated from above.
const PLAN_NODE_NS: Nanos = 400;

/// How soon it is seen that the user ended the run.
const LOOK: Duration = Duration::from_millis(50);

struct GraphRunner(Arc<Run>);

impl Runner for GraphRunner {
    type Job = Node;

    fn run(&self, node: Node, context: &mut Context<'_, Self>) -> Flow {
        self.0.perform(node, context.worker());
        Flow::Done
    }
}

/// Our pool. Each run gets fresh workers; starting them is no part of the run.
#[derive(Debug)]
pub struct Ours {
    options: Options,
    patience: Duration,
    last: Option<Report>,
}

impl Ours {
    /// A pool with these options.
    pub fn new(options: Options) -> Self {
        Self { options, patience: Duration::from_secs(600), last: None }
    }

    /// The same, giving up a run after so long.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How the last run's pool ended: counts, the workers' sums and events. Once.
    pub fn take_report(&mut self) -> Option<Report> {
        self.last.take()
    }
}

/// Waits for the end of all jobs, or of the run: its jobs are then left where they are.
fn drain(pool: &Handle<GraphRunner>, run: &Run, patience: Duration) -> bool {
    let end = std::time::Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        if pool.wait(left.min(LOOK)) {
            return true;
        }
        if left.is_zero() || run.is_stopped() {
            return false;
        }
    }
}

impl Executor for Ours {
    fn name(&self) -> String {
        "schedlab".to_owned()
    }

    fn workers(&self) -> usize {
        self.options.policy.workers
    }

    fn offers(&self) -> Offers {
        Offers {
            start_times: true,
            deadlines: true,
            dependencies: true,
            cancellation: true,
            real: true,
        }
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<Told, ExecutorError> {
        let unfinished = |what| ExecutorError::Unfinished { executor: "schedlab".to_owned(), what };
        let pool = Pool::start(GraphRunner(Arc::clone(run)), self.options.clone(), run.clock())
            .map_err(|error| unfinished(format!("no threads: {error}")))?;
        let planned = run.clock().now();
        let nodes = Nanos::from(run.graph().len());
        let base = planned + PRE_ROLL_NS + nodes * PLAN_NODE_NS;
        run.set_base(base);
        let refused = pool.handle().plan(plan_of(run, base)).err();
        let planning_ns = run.clock().now() - planned;
        let drained = drain(pool.handle(), run, self.patience);
        let report = pool.stop(self.patience.min(Duration::from_secs(10)));
        let counts = report.counts;
        let sum = |of: fn(&crate::pool::WorkerReport) -> Nanos| {
            report.workers.iter().flatten().map(of).sum::<Nanos>()
        };
        let (management_ns, back_off_ns) = (sum(|w| w.management_ns), sum(|w| w.back_off_ns));
        self.last = Some(report);
        if let Some(error) = refused {
            return Err(unfinished(error.to_string()));
        }
        run.set_dropped(counts.into());
        if run.is_stopped() {
            return Err(ExecutorError::Interrupted);
        }
        if !drained || counts.ended() != counts.posted {
            let left = counts.posted - counts.ended();
            return Err(unfinished(format!("{left} of {} jobs have not ended", counts.posted)));
        }
        if counts.panicked > 0 {
            return Err(unfinished(format!("{} jobs panicked", counts.panicked)));
        }
        let (management_ns, back_off_ns) = (Some(management_ns), Some(back_off_ns));
        Ok(Told { planning_ns, management_ns, back_off_ns, ..Told::default() })
    }
}
