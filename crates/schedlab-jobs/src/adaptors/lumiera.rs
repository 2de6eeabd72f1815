//! A pool with the rules of Lumiera's scheduler under the rig: one token, a ladder of naps.

use super::device::Device;
use super::feed::{Feed, Order};
use crate::executor::{Executor, ExecutorError, ExecutorFigures, Offers};
use crate::planning::{Planner, Planning};
use crate::policy::Nanos;
use crate::pool::{Context, Flow, Handle, Options, Pool, Runner};
use crate::run::Run;
use std::sync::Arc;
use std::time::Duration;

/// Between the end of planning, as estimated, and the base of the run: workers go to sleep, so that
/// their waking is part of what is measured.
const PRE_ROLL_NS: Nanos = 3_000_000;
/// Planning a node, estimated from above.
const PLAN_NODE_NS: Nanos = 400;

/// How soon it is seen that the user ended the run.
const LOOK: Duration = Duration::from_millis(50);

/// What the jobs of a run share.
struct GraphRunner {
    run: Arc<Run>,
    feed: Feed,
    /// Where the I/O of jobs goes on.
    device: Option<Device>,
}

impl Runner for GraphRunner {
    type Job = Order;

    fn run(&self, order: Order, context: &mut Context<'_, Self>) -> Flow {
        match order {
            Order::Node(node) => {
                let io = self.run.perform_io(node, context.worker());
                let (Some(io), Some(device)) = (io, &self.device) else { return Flow::Done };
                let completion = context.completion();
                let end = move |well| completion.end(well);
                device.begin(node, io, self.run.clock().now() + io.ns, Box::new(end));
                Flow::Pending
            }
            Order::Chunk(chunk) => {
                let planned = self.feed.plan_and_post_next(chunk, context.pool());
                if planned { Flow::Done } else { Flow::Failed }
            }
        }
    }
}

/// The pool of [`crate::pool`] as an executor. Each run gets fresh workers; starting them is no part of the run.
#[derive(Debug)]
pub struct Lumiera {
    options: Options,
    planning: Planning,
    patience: Duration,
}

impl Lumiera {
    /// A pool with these options.
    pub fn new(options: Options) -> Self {
        let planning = Planning::default();
        let patience = Duration::from_secs(600);
        Self { options, planning, patience }
    }

    /// The executor with jobs that are planned in this way.
    #[must_use]
    pub fn planning(mut self, planning: Planning) -> Self {
        self.planning = planning;
        self
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

impl Executor for Lumiera {
    fn name(&self) -> String {
        "lumiera".to_owned()
    }

    fn workers(&self) -> usize {
        self.options.policy.workers
    }

    fn offers(&self) -> Offers {
        Offers::ALL
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<ExecutorFigures, ExecutorError> {
        let device = run.has_io().then(|| Device::start(Arc::clone(run))).transpose();
        let device = device.map_err(no_threads)?;
        let feed = Feed::new(Arc::clone(run), self.planning);
        let runner = GraphRunner { run: Arc::clone(run), feed: feed.clone(), device };
        let pool = Pool::start(runner, self.options.clone(), run.clock()).map_err(no_threads)?;
        let planned = run.clock().now();
        let ahead = self.planning.planner == Planner::Ahead;
        let nodes = if ahead { Nanos::from(run.graph().len()) } else { 0 };
        run.set_base(planned + PRE_ROLL_NS + nodes * PLAN_NODE_NS);
        let fed = feed.begin(pool.handle());
        let planning_ns = if ahead { run.clock().now() - planned } else { 0 };
        let drained = fed.is_ok() && drain(pool.handle(), run, self.patience);
        let report = pool.stop(self.patience.min(Duration::from_secs(10)));
        let counts = report.counts;
        run.set_dropped(counts.into());
        if run.is_stopped() {
            return Err(ExecutorError::Interrupted);
        }
        fed.and_then(|()| feed.all_planned()).map_err(unfinished)?;
        if !drained || counts.ended() != counts.posted {
            let left = counts.posted - counts.ended();
            return Err(unfinished(format!("{left} of {} jobs did not end", counts.posted)));
        }
        if counts.panicked > 0 {
            return Err(unfinished(format!("{} jobs panicked", counts.panicked)));
        }
        let management_ns = Some(report.spent.management_ns);
        let back_off_ns = Some(report.spent.back_off_ns);
        Ok(ExecutorFigures {
            planning_ns,
            management_ns,
            back_off_ns,
            ..ExecutorFigures::default()
        })
    }
}

fn unfinished(what: String) -> ExecutorError {
    ExecutorError::Unfinished { executor: "lumiera".to_owned(), what }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn no_threads(error: std::io::Error) -> ExecutorError {
    unfinished(format!("cannot start threads: {error}"))
}
