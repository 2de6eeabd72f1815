//! The jobs of a run in schedlab's pool without its threads: the pool's own policy, told the time.
//!
//! Two drivers ask it what each worker does next: [`crate::virtual_time::VirtualPool`], in which a worker is an event,
//! and the workload `jobs` of schedlab, in which it is a task that a simulated kernel schedules.

use crate::graph::Node;
use crate::planning::{Planner, Planning};
use crate::policy::{NEVER, Nanos};
use crate::run::{Dropped, Run};
use schedlab_pool::{
    Counts, Criticality, End, Late, Model, ModelJob, ModelRequest, Step as PoolStep,
};
use std::ops::Range;

/// Jobs that may wait at once.
const BACKLOG: usize = 1 << 30;
/// From this number on, a tag means a job that plans a chunk.
const CHUNKS: u64 = 1 << 32;

/// What a job of the pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A job of the graph.
    Node(Node),
    /// It plans the chunk of this number.
    Chunk(u32),
}

/// What a worker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It runs this job, and then calls [`PoolJobs::end`].
    Run(Task),
    /// It looks again.
    Again,
    /// It sleeps until then, or until [`PoolJobs::woken`] names it.
    Sleep(Nanos),
}

/// The jobs of a run in a pool. Times are those of the run's clock.
#[derive(Debug)]
pub struct PoolJobs {
    model: Model,
    planning: Planning,
    /// By node, as far as they were planned.
    jobs: Vec<ModelJob>,
    /// By worker, what it runs.
    running: Vec<Option<ModelJob>>,
    total: usize,
}

impl PoolJobs {
    /// A pool of `workers` workers into which nothing was posted. Late jobs are treated as the rig's pool treats them.
    pub fn new(workers: usize, planning: Planning) -> Self {
        let model = Model::new(workers, BACKLOG, Late::Shed);
        let running = (0..workers).map(|_| None).collect();
        Self { model, planning, jobs: Vec::new(), running, total: usize::MAX }
    }

    /// Posts the run, or the job that plans its first chunk. Chunks of [`Planner::Posters`] are the driver's.
    pub fn begin(&mut self, run: &Run) {
        self.total = run.graph().len() as usize;
        match self.planning.planner {
            Planner::Ahead => {
                let all = 0..run.graph().len();
                let jobs: Vec<_> = all.clone().map(|node| (node.into(), asks(run, node))).collect();
                let before = |node: Node| run.graph().predecessors(node).iter().copied();
                let pair = |node: Node| before(node).map(move |p| (p as usize, node as usize));
                let links: Vec<_> = all.flat_map(pair).collect();
                self.jobs = self.model.plan(&jobs, &links).unwrap_or_default();
            }
            Planner::Jobs => self.post_planner(run, 0),
            Planner::Posters(_) => {}
        }
    }

    fn post_planner(&self, run: &Run, chunk: u32) {
        let start = self.planning.due(run, run.base(), chunk);
        let criticality = Criticality::Compulsory;
        let request = ModelRequest { start, criticality, ..ModelRequest::default() };
        let _ = self.model.spawn(CHUNKS | u64::from(chunk), &request, &[], None);
    }

    /// Posts the jobs of a chunk, and the job that plans the next one; false if chunks before it are missing.
    pub(crate) fn plan(&mut self, run: &Run, chunk: u32, now: Nanos) -> bool {
        let range = self.planning.range(run, chunk);
        if range.start as usize > self.jobs.len() {
            return false;
        }
        for node in range {
            run.set_posted(node, now.max(1));
            let before = run.graph().predecessors(node).iter();
            let after: Vec<_> = before.map(|&p| self.jobs[p as usize].clone()).collect();
            self.jobs.extend(self.model.spawn(node.into(), &asks(run, node), &after, None));
        }
        let next = chunk + 1;
        if self.planning.planner == Planner::Jobs && next < self.planning.chunks(run) {
            self.post_planner(run, next);
        }
        true
    }

    pub(crate) fn chunk(&self, run: &Run, chunk: u32) -> Range<Node> {
        self.planning.range(run, chunk)
    }

    /// Sets the time.
    pub fn set_now(&self, now: Nanos) {
        self.model.set_now(now);
    }

    /// A worker's next step.
    pub fn step(&mut self, worker: usize) -> Step {
        match self.model.step(worker) {
            PoolStep::Run(job) => {
                let tag = job.tag();
                let task = match u32::try_from(tag) {
                    Ok(node) => Task::Node(node),
                    Err(_) => Task::Chunk((tag - CHUNKS) as u32),
                };
                self.running[worker] = Some(job);
                Step::Run(task)
            }
            PoolStep::Again => Step::Again,
            PoolStep::Sleep(until) => Step::Sleep(until),
        }
    }

    /// A worker's job, if it runs one, has returned; `goes_on`: its I/O ends later.
    pub fn end(&mut self, worker: usize, goes_on: bool) {
        if let Some(job) = self.running[worker].take() {
            self.model.end(worker, &job, if goes_on { End::Deferred } else { End::Done });
        }
    }

    /// The I/O of a job has ended.
    pub(crate) fn end_io(&mut self, node: Node, well: bool) {
        let job = self.jobs[node as usize].clone();
        self.model.tell(&job, well);
    }

    /// The workers that were woken since the last call.
    pub fn woken(&mut self) -> Vec<usize> {
        self.model.woken()
    }

    /// How many jobs of the graph have not ended.
    pub fn left(&self) -> u64 {
        let counts = self.model.counts();
        counts.posted - counts.ended() + (self.total - self.jobs.len()) as u64
    }

    /// What became of jobs that did not run.
    pub fn dropped(&mut self) -> Dropped {
        let compulsory =
            |late: &schedlab_pool::LateJob| late.criticality == Criticality::Compulsory;
        let emergencies = self.model.late().iter().filter(|late| compulsory(late)).count();
        Dropped::of_pool(&self.model.counts(), emergencies as u64)
    }
}

/// What a job asks for; in a run without start times, for none.
fn asks(run: &Run, node: Node) -> ModelRequest {
    let base = run.base();
    let schedule = run.schedule();
    let expected = run.expected_ns(node);
    // The rig's deadlines are latest starts.
    let latest = Some(run.deadline(node)).filter(|&latest| latest != NEVER);
    ModelRequest {
        start: if schedule.is_timed() { base + schedule.start(node) } else { 0 },
        deadline: latest.map_or(NEVER, |latest| latest.saturating_add(expected)),
        latest_start: latest,
        expected,
        criticality: run.criticality(node),
        stream: run.stream(node).0,
    }
}

impl Dropped {
    pub(crate) fn of_pool(counts: &Counts, emergencies: u64) -> Self {
        Self {
            missed: counts.too_late,
            shed: counts.shed,
            abandoned: counts.dependency_failed,
            failed: counts.failed,
            emergencies,
        }
    }
}
