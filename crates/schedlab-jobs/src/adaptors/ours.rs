//! schedlab's pool under the rig.

use super::device::Device;
use super::pace::plan_by_posters;
use crate::bundle::{Bundle, BundleStep, Share};
use crate::executor::{Executor, ExecutorError, ExecutorFigures, Offers};
use crate::graph::Node;
use crate::planning::{Planner, Planning};
use crate::policy::{NEVER, Nanos};
use crate::run::{Dropped, Run, Slept};
use crate::stealing::Stealing;
use schedlab_pool::{
    Completion, Criticality, Handle, Late, Options, Plan, Pool, Refusal, Request, Spawner,
    current_worker,
};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between the end of planning, as estimated, and the base of the run: workers go to sleep, so that their waking is
/// part of what is measured.
const PRE_ROLL_NS: Nanos = 3_000_000;
/// Planning a job or an edge, estimated from above.
const PLAN_NS: Nanos = 500;
/// How soon it is seen that the user ended the run.
const LOOK: Duration = Duration::from_millis(20);

/// schedlab's pool as an executor. Each run gets fresh workers; starting them is no part of the run.
#[derive(Debug)]
pub struct PoolExecutor {
    workers: usize,
    options: Options,
    planning: Planning,
    stealing: Stealing,
    patience: Duration,
}

impl PoolExecutor {
    /// A pool of so many workers that drops late jobs, as the rig means it. Each worker's thread calls `on_start` first,
    /// with its number.
    pub fn new(workers: usize, on_start: impl Fn(usize) + Send + Sync + 'static) -> Self {
        let workers = workers.max(1);
        let options = Options::new(workers).late(Late::Shed).on_start(on_start);
        let planning = Planning::default();
        let patience = Duration::from_secs(600);
        Self { workers, options, planning, stealing: Stealing::Never, patience }
    }

    /// The executor with jobs that are planned in this way.
    #[must_use]
    pub fn planning(mut self, planning: Planning) -> Self {
        self.planning = planning;
        self
    }

    /// The executor with graphs run as one bundle, from which workers steal.
    #[must_use]
    pub fn stealing(mut self, stealing: Stealing) -> Self {
        self.stealing = stealing;
        self
    }
}

/// Keeps the sleeps of a pool's workers.
#[derive(Clone, Debug)]
pub struct SleepLog(Arc<Vec<Mutex<Vec<Slept>>>>);

impl SleepLog {
    /// Options with a hook that fills the log, and the log. `most`: sleeps of each worker that are kept. `anchor`: a
    /// moment, and the time of the log's clock then.
    pub fn keep(
        options: Options,
        workers: usize,
        most: usize,
        anchor: (Instant, Nanos),
    ) -> (Options, Self) {
        let log = Self(Arc::new((0..workers).map(|_| Mutex::default()).collect()));
        let own = log.clone();
        let on_clock = move |at: Instant| {
            let since = at.saturating_duration_since(anchor.0).as_nanos();
            anchor.1 + Nanos::try_from(since).unwrap_or(NEVER)
        };
        let options = options.on_sleep(move |worker, sleep| {
            let timer = sleep.until.filter(|&until| until < sleep.to);
            let woken = sleep.woken.into_iter().chain(timer).map(on_clock).min().unwrap_or(NEVER);
            let slept = Slept { from: on_clock(sleep.from), woken, to: on_clock(sleep.to) };
            let mut log = own.0[worker].lock().unwrap_or_else(PoisonError::into_inner);
            if log.len() < most {
                log.push(slept);
            }
        });
        (options, log)
    }

    /// The sleeps of each worker. Those that ended with the pool are in it once the pool has stopped.
    pub fn take(&self) -> Vec<Vec<Slept>> {
        let take = |own: &Mutex<Vec<Slept>>| {
            std::mem::take(&mut *own.lock().unwrap_or_else(PoisonError::into_inner))
        };
        self.0.iter().map(take).collect()
    }
}

#[derive(Default)]
struct Planned {
    /// By node: chunks are planned in their order, since jobs wait for those of earlier ones.
    jobs: Vec<Handle<'static, ()>>,
    refused: Option<Refusal>,
}

/// What the jobs of a run share.
struct Feed {
    run: Arc<Run>,
    planning: Planning,
    device: Option<Device>,
    bundle: Option<Bundle>,
    /// A moment, and the time of the run's clock then.
    anchor: (Instant, Nanos),
    planned: Mutex<Planned>,
    further: Condvar,
}

impl Feed {
    fn instant(&self, time: Nanos) -> Instant {
        self.anchor.0 + Duration::from_nanos(time.saturating_sub(self.anchor.1))
    }

    fn worker() -> usize {
        current_worker().unwrap_or(0)
    }

    /// What a job asks for. A run without start times asks for none, so that its jobs are plain ones.
    fn request(&self, node: Node) -> Request<'static> {
        let run = &self.run;
        let schedule = self.run.schedule();
        let mut request = Request::new()
            .expected(Duration::from_nanos(run.expected_ns(node)))
            .stream(run.stream(node).0)
            .criticality(run.criticality(node));
        if schedule.is_timed() {
            request = request.start(self.instant(run.base() + schedule.start(node)));
        }
        let latest = schedule.deadline(node);
        if latest != NEVER {
            // The rig's deadlines are latest starts.
            let latest = run.base().saturating_add(latest);
            let end = latest.saturating_add(run.expected_ns(node));
            request = request.latest_start(self.instant(latest)).deadline(self.instant(end));
        }
        request
    }

    fn add(
        self: &Arc<Self>,
        plan: &mut Plan<'static>,
        node: Node,
        request: Request<'static>,
    ) -> Handle<'static, ()> {
        let feed = Arc::clone(self);
        if self.run.io(node).is_none() {
            return plan.add(request, move || {
                let _ = feed.run.perform_io(node, Self::worker());
            });
        }
        plan.add_deferred(request, move |completion: Completion<'static, ()>| {
            let io = feed.run.perform_io(node, Self::worker());
            let (Some(io), Some(device)) = (io, &feed.device) else {
                return completion.complete(());
            };
            let until = feed.run.clock().now() + io.ns;
            // A completion that is dropped fails its job.
            let end = move |well| {
                if well {
                    completion.complete(());
                }
            };
            device.begin(node, io, until, Box::new(end));
        })
    }

    /// Posts the jobs of a range, behind those that were planned. `gate`: a job before all of them.
    fn post(
        self: &Arc<Self>,
        pool: &Spawner<'static>,
        range: Range<Node>,
        planned: &mut Planned,
        gated: bool,
    ) -> Result<(), Refusal> {
        let mut plan = pool.plan();
        let gate = usize::from(gated);
        if gated {
            plan.add(Request::new().start(self.instant(self.run.base())), || ());
        }
        let graph = self.run.graph();
        let first = range.start;
        let mut new = Vec::with_capacity(range.len());
        for node in range {
            let to = (node - first) as usize + gate;
            let before = graph.predecessors(node);
            let mut request = self.request(node);
            for &from in before {
                match from.checked_sub(first) {
                    Some(own) => plan.link(own as usize + gate, to),
                    None => request = request.after(&planned.jobs[from as usize]),
                }
            }
            new.push(self.add(&mut plan, node, request));
            if gated && before.is_empty() {
                plan.link(0, to);
            }
        }
        plan.post().map_err(|refused| refused.why)?;
        planned.jobs.extend(new);
        Ok(())
    }

    fn begin(self: &Arc<Self>, pool: &Spawner<'static>) -> Result<(), String> {
        match self.planning.planner {
            Planner::Ahead => {
                let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
                let gated = !self.run.schedule().is_timed();
                let all = 0..self.run.graph().len();
                let posted = self.post(pool, all, &mut planned, gated);
                planned.jobs = Vec::new();
                posted.map_err(|error| error.to_string())
            }
            Planner::Jobs => self.post_planner(pool, 0),
            Planner::Posters(threads) => {
                let plan = |chunk| self.plan(chunk, pool);
                plan_by_posters(&self.run, &self.planning, threads, plan)
            }
        }
    }

    /// Posts the job that plans a chunk and posts the next one.
    fn post_planner(self: &Arc<Self>, pool: &Spawner<'static>, chunk: u32) -> Result<(), String> {
        let due = self.planning.due(&self.run, self.run.base(), chunk);
        let request = Request::new().start(self.instant(due)).criticality(Criticality::Compulsory);
        let feed = Arc::clone(self);
        let own = pool.clone();
        let job = move || {
            let further = !feed.run.is_stopped() && feed.plan(chunk, &own);
            if further && chunk + 1 < feed.planning.chunks(&feed.run) {
                // A pool that is closed wants nothing any more.
                let _ = feed.post_planner(&own, chunk + 1);
            }
        };
        pool.spawn_with(request, job).map(drop).map_err(|refused| refused.why.to_string())
    }

    /// Plans a chunk when those before it are planned; false when the run has ended or the pool refuses it.
    fn plan(self: &Arc<Self>, chunk: u32, pool: &Spawner<'static>) -> bool {
        let run = &self.run;
        run.compute(self.planning.cost_ns(run, chunk));
        let range = self.planning.range(run, chunk);
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        while planned.jobs.len() < range.start as usize {
            if run.is_stopped() || planned.refused.is_some() {
                return false;
            }
            let waited = self.further.wait_timeout(planned, LOOK);
            planned = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let now = run.clock().now().max(1);
        range.clone().for_each(|node| run.set_posted(node, now));
        if let Err(error) = self.post(pool, range, &mut planned, false) {
            // The user's end of the run closes the pool.
            planned.refused = Some(error).filter(|&error| error != Refusal::Closed);
            self.further.notify_all();
            return false;
        }
        self.further.notify_all();
        true
    }

    fn post_shares(self: &Arc<Self>, pool: &Spawner<'static>, shares: usize) -> Result<(), String> {
        let mut plan = pool.plan();
        for _ in 0..shares {
            let feed = Arc::clone(self);
            let own = pool.clone();
            let start = Request::new().start(self.instant(self.run.base()));
            plan.add(start, move || feed.share(&own));
        }
        plan.post().map_err(|refused| refused.to_string())
    }

    /// Runs jobs of the bundle.
    fn share(self: &Arc<Self>, pool: &Spawner<'static>) {
        let Some(bundle) = &self.bundle else { return };
        let post = || {
            let feed = Arc::clone(self);
            let own = pool.clone();
            // Of a pool that is closed, nothing is wanted any more.
            let _ = pool.post(move || feed.share(&own));
        };
        let worker = Self::worker();
        let ask = |asked| match asked {
            BundleStep::Run(node) => self.run.perform(node, worker),
            BundleStep::Help => post(),
        };
        if bundle.work(worker, || self.run.clock().now(), ask) == Share::Again {
            post();
        }
    }

    /// Why not all jobs were planned, if so.
    fn all_planned(&self) -> Result<(), String> {
        let planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = planned.jobs.len();
        match planned.refused {
            Some(why) => Err(format!("planning stopped after {jobs} jobs: {why}")),
            None => Ok(()),
        }
    }
}

impl Executor for PoolExecutor {
    fn name(&self) -> String {
        "schedlab".to_owned()
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn offers(&self) -> Offers {
        Offers::ALL
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<ExecutorFigures, ExecutorError> {
        let steals = self.stealing.decide(run, &self.planning)?;
        let device = run.has_io().then(|| Device::start(Arc::clone(run))).transpose();
        let device = device.map_err(no_threads)?;
        let begun = run.clock().now();
        let bundle = steals.then(|| Bundle::new(run.shared_graph(), self.workers()));
        let bundling_ns = run.clock().now() - begun;
        let emergencies = Arc::new(AtomicU64::new(0));
        let hears = Arc::clone(&emergencies);
        let options = self.options.clone().on_late(move |job| {
            hears.fetch_add(u64::from(job.criticality == Criticality::Compulsory), Relaxed);
        });
        // In this order: no job starts before its time on the run's clock.
        let now = run.clock().now();
        let anchor = (Instant::now(), now);
        let ahead = self.planning.planner == Planner::Ahead && !steals;
        let tells = ahead && run.is_watched() && !run.has_io();
        let (options, sleeps) = if tells {
            let (options, log) = SleepLog::keep(options, self.workers, usize::MAX, anchor);
            (options, Some(log))
        } else {
            (options, None)
        };
        let pool = Pool::start(options).map_err(no_threads)?;
        let planned = run.clock().now();
        let parts = u64::from(run.graph().len()) + run.graph().edges() as u64;
        run.set_base(planned + PRE_ROLL_NS + if ahead { parts * PLAN_NS } else { 0 });
        let feed = Arc::new(Feed {
            run: Arc::clone(run),
            planning: self.planning,
            device,
            bundle,
            anchor,
            planned: Mutex::default(),
            further: Condvar::new(),
        });
        let fed = if steals { feed.post_shares(&pool, self.workers()) } else { feed.begin(&pool) };
        let planning_ns = if ahead { run.clock().now() - planned } else { bundling_ns };
        let drained = fed.is_ok() && drain(&pool, run, self.patience);
        let counts = pool.stop(self.patience.min(Duration::from_secs(10))).counts;
        sleeps.iter().for_each(|sleeps| run.set_sleeps(sleeps.take()));
        run.set_dropped(Dropped::of_pool(&counts, emergencies.load(Relaxed)));
        if run.is_stopped() {
            return Err(ExecutorError::Interrupted);
        }
        fed.and_then(|()| feed.all_planned()).map_err(unfinished)?;
        if !drained {
            let left = counts.posted - counts.ended() + counts.cancelled;
            return Err(unfinished(format!("{left} of {} jobs did not end", counts.posted)));
        }
        if counts.panicked > 0 {
            return Err(unfinished(format!("{} jobs panicked", counts.panicked)));
        }
        Ok(ExecutorFigures { planning_ns, ..ExecutorFigures::default() })
    }
}

/// Waits for the end of all jobs, or of the run: its jobs are then left where they are.
fn drain(pool: &Pool, run: &Run, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if pool.wait(left.min(LOOK)).is_ok() {
            return true;
        }
        if left.is_zero() || run.is_stopped() {
            return false;
        }
    }
}

fn unfinished(what: String) -> ExecutorError {
    ExecutorError::Unfinished { executor: "schedlab".to_owned(), what }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn no_threads(error: std::io::Error) -> ExecutorError {
    unfinished(format!("cannot start threads: {error}"))
}
