//! A pool with the rules of Lumiera's scheduler under the rig: one token, a ladder of naps.

use super::device::Device;
use super::feed::{Feed, Order};
use crate::bundle::{Asked, Bundle, Share};
use crate::executor::{Executor, ExecutorError, Offers, Told};
use crate::planning::{Planner, Planning};
use crate::policy::{Nanos, Plan, Posting};
use crate::pool::{Context, Flow, Handle, Options, Pool, Report, Runner};
use crate::run::Run;
use crate::stealing::Stealing;
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
    /// All jobs, where workers steal them from each other.
    bundle: Option<Bundle>,
}

impl GraphRunner {
    fn share(&self, bundle: &Bundle, context: &Context<'_, Self>) -> Flow {
        let post = || {
            let share = Posting::new(Order::Share, context.pool().now());
            // Of a pool that is closed, nothing is wanted any more.
            let _ = context.post(share);
        };
        let worker = context.worker();
        let ask = |asked| match asked {
            Asked::Run(node) => self.run.perform(node, worker),
            Asked::Help => post(),
        };
        if bundle.work(worker, || self.run.clock().now(), ask) == Share::Again {
            post();
        }
        Flow::Done
    }
}

impl Runner for GraphRunner {
    type Job = Order;

    fn run(&self, order: Order, context: &mut Context<'_, Self>) -> Flow {
        match order {
            Order::Node(node) => {
                let io = self.run.perform_io(node, context.worker());
                let (Some(io), Some(device)) = (io, &self.device) else { return Flow::Done };
                let completion = context.completion();
                let end = move |well| if well { completion.complete() } else { completion.fail() };
                device.begin(node, io, self.run.clock().now() + io.ns, Box::new(end));
                Flow::Pending
            }
            Order::Share => match &self.bundle {
                Some(bundle) => self.share(bundle, context),
                None => Flow::Failed,
            },
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
    stealing: Stealing,
    patience: Duration,
    last: Option<Report>,
}

impl Lumiera {
    /// A pool with these options.
    pub fn new(options: Options) -> Self {
        let (planning, patience) = (Planning::default(), Duration::from_secs(600));
        Self { options, planning, stealing: Stealing::Never, patience, last: None }
    }

    /// The executor with jobs that are planned in this way.
    #[must_use]
    pub fn planning(mut self, planning: Planning) -> Self {
        self.planning = planning;
        self
    }

    /// The executor with workers that steal jobs from each other.
    #[must_use]
    pub fn stealing(mut self, stealing: Stealing) -> Self {
        self.stealing = stealing;
        self
    }

    /// The executor, giving up a run that takes longer than `patience`.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How the last run's pool ended: counts, the workers' sums and events. `None` if there was no
    /// run since the last call.
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

impl Lumiera {
    fn post_shares(&self, start: Nanos, pool: &Handle<GraphRunner>) -> Result<(), String> {
        let mut plan = Plan::default();
        for _ in 0..self.workers() {
            plan.add(Posting::new(Order::Share, start));
        }
        pool.plan(plan).map(drop).map_err(|error| error.to_string())
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

    fn run(&mut self, run: &Arc<Run>) -> Result<Told, ExecutorError> {
        let steals = self.stealing.decide(run, &self.options.policy, &self.planning)?;
        let device = run.has_io().then(|| Device::start(Arc::clone(run))).transpose();
        let device = device.map_err(no_threads)?;
        let feed = Feed::new(Arc::clone(run), self.planning);
        let begun = run.clock().now();
        let bundle = steals.then(|| Bundle::new(run.shared_graph(), self.workers()));
        let bundling_ns = run.clock().now() - begun;
        let runner = GraphRunner { run: Arc::clone(run), feed: feed.clone(), device, bundle };
        let pool = Pool::start(runner, self.options.clone(), run.clock()).map_err(no_threads)?;
        let planned = run.clock().now();
        let ahead = self.planning.planner == Planner::Ahead && !steals;
        let nodes = if ahead { Nanos::from(run.graph().len()) } else { 0 };
        run.set_base(planned + PRE_ROLL_NS + nodes * PLAN_NODE_NS);
        let fed = if steals {
            self.post_shares(run.base(), pool.handle())
        } else {
            feed.begin(pool.handle())
        };
        let planning_ns = if ahead { run.clock().now() - planned } else { bundling_ns };
        let drained = fed.is_ok() && drain(pool.handle(), run, self.patience);
        let report = pool.stop(self.patience.min(Duration::from_secs(10)));
        let counts = report.counts;
        let (management_ns, back_off_ns) = managed(run, &report, steals);
        self.last = Some(report);
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
        let (management_ns, back_off_ns) = (Some(management_ns), Some(back_off_ns));
        Ok(Told { planning_ns, management_ns, back_off_ns, ..Told::default() })
    }
}

fn unfinished(what: String) -> ExecutorError {
    ExecutorError::Unfinished { executor: "lumiera".to_owned(), what }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn no_threads(error: std::io::Error) -> ExecutorError {
    unfinished(format!("cannot start threads: {error}"))
}

/// Time of the workers in management, and backing off.
fn managed(run: &Run, report: &Report, steals: bool) -> (Nanos, Nanos) {
    let sum = |of: fn(&crate::pool::WorkerReport) -> Nanos| {
        report.workers.iter().flatten().map(of).sum::<Nanos>()
    };
    let mut management_ns = sum(|w| w.management_ns);
    if steals {
        // What of its shares a worker did not spend in jobs.
        let in_jobs: Nanos = run.spans().iter().map(|s| s.end.saturating_sub(s.begin)).sum();
        management_ns += sum(|w| w.busy_ns).saturating_sub(in_jobs);
    }
    (management_ns, sum(|w| w.back_off_ns))
}
