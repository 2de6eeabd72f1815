//! The pool without its threads: told the time, asked for each worker's next step. For a simulator, and for tests of
//! what the policy decides.

#[cfg(test)]
mod tests;

use crate::counts::Counts;
use crate::job::{Criticality, Item, Job, JobRequests, NEVER, Returned, TaskRef, Times, Work};
use crate::policy::{Core, Hooks, Late, LateJob, WorkerState};
use crate::queues::{Lists, Queues};
use crate::sync::{Mutex, lock};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// What a job of a model asks for, in nanoseconds of the model's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelRequest {
    /// The earliest start.
    pub start: u64,
    /// By when the job has to be complete.
    pub deadline: u64,
    /// The time after which it is too late to start; `None`: the deadline.
    pub latest_start: Option<u64>,
    /// How long the job is expected to run.
    pub expected: u64,
    /// How much the job matters.
    pub criticality: Criticality,
    /// The stream of the job.
    pub stream: u16,
}

impl Default for ModelRequest {
    fn default() -> Self {
        Self {
            start: 0,
            deadline: NEVER,
            latest_start: None,
            expected: 0,
            criticality: Criticality::Normal,
            stream: 0,
        }
    }
}

/// A job as the model runs it: in virtual time, without a function.
#[derive(Clone)]
pub struct ModelJob {
    task: TaskRef<'static>,
    tag: u64,
}

impl ModelJob {
    /// The number that the job was posted with.
    pub fn tag(&self) -> u64 {
        self.tag
    }
}

impl fmt::Debug for ModelJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ModelJob").field(&self.tag).finish()
    }
}

/// What a worker does next.
#[derive(Debug)]
pub enum Step {
    /// It runs this job, which has begun, and then calls [`Model::end`].
    Run(ModelJob),
    /// It found a job between looking and sleeping: it looks again.
    Again,
    /// It sleeps until then, or until [`Model::woken`] names it.
    Sleep(u64),
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Well.
    Done,
    /// In a panic.
    Panicked,
    /// It goes on elsewhere, and ends with [`Model::tell`].
    Deferred,
}

/// A pool as a state machine.
pub struct Model(Machine<Lists<Item<'static>>>);

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// The same over either body of the queues.
struct Machine<Q: Queues<Item<'static>>> {
    core: Core<'static, Q>,
    locals: Vec<Q::Local>,
    workers: Vec<WorkerState>,
    asleep: Vec<bool>,
    now: Arc<AtomicU64>,
    woken: Arc<Mutex<Vec<usize>>>,
    late: Arc<Mutex<Vec<LateJob>>>,
    /// The tag of the job that runs.
    tag: Arc<AtomicU64>,
}

impl<Q: Queues<Item<'static>>> Machine<Q> {
    fn new(workers: usize, backlog_max: usize, late: Late) -> Self {
        let now = Arc::new(AtomicU64::new(0));
        let woken = Arc::new(Mutex::new(Vec::new()));
        let late_jobs = Arc::new(Mutex::new(Vec::new()));
        let clock = Arc::clone(&now);
        let wakes = Arc::clone(&woken);
        let tells = Arc::clone(&late_jobs);
        let hooks = Hooks {
            clock: Box::new(move || clock.load(SeqCst)),
            wake: Box::new(move |worker| lock(&wakes).push(worker)),
            says_when: false,
            late: Some(Box::new(move |job| lock(&tells).push(job))),
        };
        let (core, locals) = Core::new(workers, backlog_max, late, hooks);
        Self {
            core,
            locals,
            workers: (0..workers).map(WorkerState::new).collect(),
            asleep: vec![false; workers],
            now,
            woken,
            late: late_jobs,
            tag: Arc::new(AtomicU64::new(0)),
        }
    }

    fn job(&self, tag: u64, asks: &JobRequests) -> TaskRef<'static> {
        let place = Arc::clone(&self.tag);
        let function = move || {
            place.store(tag, SeqCst);
            Some(())
        };
        Arc::new(Job::<_, _, Times>::new(asks, function))
    }

    fn asks(request: &ModelRequest, queued: bool) -> JobRequests {
        JobRequests {
            start: request.start,
            deadline: request.deadline,
            latest_start: request.latest_start,
            expected_us: u32::try_from(request.expected.div_ceil(1000)).unwrap_or(u32::MAX),
            criticality: request.criticality,
            stream: request.stream,
            timed: request.start > 0 || request.latest_start.is_some(),
            queued,
            deferred: false,
        }
    }

    fn spawn(
        &self,
        tag: u64,
        request: &ModelRequest,
        after: &[ModelJob],
        inside: Option<usize>,
    ) -> Option<ModelJob> {
        if !self.core.counters.reserve(1, inside.or(Some(0))) {
            return None;
        }
        let task = self.job(tag, &Self::asks(request, after.is_empty()));
        let after: Vec<_> = after.iter().map(|job| Arc::clone(&job.task)).collect();
        self.core.post(Arc::clone(&task), after, inside);
        Some(ModelJob { task, tag })
    }

    fn plan(
        &self,
        jobs: &[(u64, ModelRequest)],
        links: &[(usize, usize)],
    ) -> Option<Vec<ModelJob>> {
        if !self.core.counters.reserve(jobs.len() as u64, Some(0)) {
            return None;
        }
        let tasks: Vec<_> =
            jobs.iter().map(|(tag, request)| self.job(*tag, &Self::asks(request, false))).collect();
        let mut has_before = vec![false; tasks.len()];
        tasks.iter().for_each(|task| self.core.prepare(task));
        for &(from, to) in links {
            has_before[to] = true;
            self.core.link(&tasks[from], &tasks[to]);
        }
        tasks.iter().for_each(|task| self.core.pass_on(task));
        let tagged = tasks.iter().zip(jobs);
        let all =
            tagged.map(|(task, &(tag, _))| ModelJob { task: Arc::clone(task), tag }).collect();
        let mut first = Vec::new();
        for (task, has_before) in tasks.into_iter().zip(has_before) {
            if has_before {
                self.core.give_up_place(&task);
            } else {
                first.push(task);
            }
        }
        self.core.post_plan(first);
        Some(all)
    }

    fn step(&mut self, worker: usize) -> Step {
        let me = &mut self.workers[worker];
        if std::mem::take(&mut self.asleep[worker]) {
            self.core.unparked(me);
        }
        if let Some(Work::Task(task)) = self.core.next(me, Some(&self.locals[worker])) {
            // The function of the job says which one it is; its work is the caller's.
            task.run();
            return Step::Run(ModelJob { task, tag: self.tag.load(SeqCst) });
        }
        self.core.search(me);
        match self.core.park(me) {
            Some(until) => {
                self.asleep[worker] = true;
                Step::Sleep(until)
            }
            None => Step::Again,
        }
    }

    fn end(&mut self, worker: usize, job: &ModelJob, end: End) {
        let returned = match end {
            End::Done => Returned::Done,
            End::Panicked => Returned::Panicked,
            End::Deferred => Returned::Deferred,
        };
        let local = Some(&self.locals[worker]);
        self.core.returned(&job.task, returned, &self.workers[worker], local);
    }
}

impl Model {
    /// A pool of `workers` workers, all of which look for jobs.
    pub fn new(workers: usize, backlog_max: usize, late: Late) -> Self {
        Self(Machine::new(workers.max(1), backlog_max, late))
    }

    /// Sets the time.
    pub fn set_now(&self, now: u64) {
        self.0.now.store(now, SeqCst);
    }

    /// Posts a job, from inside the job of a worker or from elsewhere; `None` if the backlog is full.
    pub fn spawn(
        &self,
        tag: u64,
        request: &ModelRequest,
        after: &[ModelJob],
        inside: Option<usize>,
    ) -> Option<ModelJob> {
        self.0.spawn(tag, request, after, inside)
    }

    /// Posts jobs with links between them, which must not form a circle; `None` if the backlog is full.
    pub fn plan(
        &self,
        jobs: &[(u64, ModelRequest)],
        links: &[(usize, usize)],
    ) -> Option<Vec<ModelJob>> {
        self.0.plan(jobs, links)
    }

    /// A worker's next step.
    pub fn step(&mut self, worker: usize) -> Step {
        self.0.step(worker)
    }

    /// A worker has run its job.
    pub fn end(&mut self, worker: usize, job: &ModelJob, end: End) {
        self.0.end(worker, job, end);
    }

    /// Ends a job that goes on elsewhere.
    pub fn tell(&mut self, job: &ModelJob, well: bool) {
        self.0.core.tell(&job.task, well, Some(0));
    }

    /// Drops a job that has not started; false if it has.
    pub fn cancel(&mut self, job: &ModelJob) -> bool {
        self.0.core.cancel(&job.task, Some(0))
    }

    /// The workers that were woken since the last call.
    pub fn woken(&mut self) -> Vec<usize> {
        std::mem::take(&mut *lock(&self.0.woken))
    }

    /// The jobs that were too late at their start since the last call.
    pub fn late(&mut self) -> Vec<LateJob> {
        std::mem::take(&mut *lock(&self.0.late))
    }

    /// What became of the jobs so far.
    pub fn counts(&self) -> Counts {
        self.0.core.counters.counts()
    }
}
