//! A job: its function, its value, and what the pool knows of it.

use crate::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Mutex, lock};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::{Arc, Weak};

/// Nanoseconds on a pool's clock, which begins when the pool starts.
pub(crate) type Nanos = u64;

/// A deadline or start that never comes.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// How much a job matters when not all can be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Criticality {
    /// The first to be shed.
    Optional,
    /// Shed when it is late, if the pool sheds.
    #[default]
    Normal,
    /// Goes before all others once it is due, and is never shed.
    Compulsory,
}

impl std::str::FromStr for Criticality {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "optional" => Self::Optional,
            "normal" => Self::Normal,
            "compulsory" => Self::Compulsory,
            _ => {
                let what = "use optional, normal or compulsory";
                return Err(format!("unknown criticality '{text}': {what}"));
            }
        })
    }
}

/// Where a job is in its life. The last ones are its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Stage {
    /// For other jobs, or in a plan that was not posted.
    Waiting,
    /// In a queue.
    Queued,
    /// A worker runs it.
    Running,
    /// Its function returned; its completion has not been told.
    Deferred,
    /// Its completion was told, and its function has not returned.
    ToldDone,
    ToldFailed,
    Done,
    Failed,
    Panicked,
    Cancelled,
    /// A job that it depends on did not end well.
    Dependency,
    TooLate,
    Shed,
}

impl Stage {
    const ALL: [Self; 13] = [
        Self::Waiting,
        Self::Queued,
        Self::Running,
        Self::Deferred,
        Self::ToldDone,
        Self::ToldFailed,
        Self::Done,
        Self::Failed,
        Self::Panicked,
        Self::Cancelled,
        Self::Dependency,
        Self::TooLate,
        Self::Shed,
    ];

    fn of(bits: u8) -> Self {
        Self::ALL[usize::from(bits & !LINKED)]
    }

    pub(crate) fn is_end(self) -> bool {
        self >= Self::Done
    }
}

/// Set when somebody has looked for the job's [`Links`].
const LINKED: u8 = 0x80;

pub(crate) type TaskRef<'env> = Arc<dyn Task<'env> + 'env>;

/// What few jobs have: others that wait for them.
pub(crate) struct Links<'env> {
    pub(crate) dependents: Vec<TaskRef<'env>>,
    /// What the job waits for: an earlier deadline is passed on to them.
    pub(crate) before: Vec<Weak<dyn Task<'env> + 'env>>,
    pub(crate) waiters: Vec<std::thread::Thread>,
    /// The place by which its id finds it.
    pub(crate) place: Option<usize>,
    /// The deadline of a job that has a latest start too.
    deadline: Nanos,
    /// Of a job without [`Times`]: the effective deadline, and the serial number.
    effective: Nanos,
    serial: u64,
}

impl Default for Links<'_> {
    fn default() -> Self {
        Self {
            dependents: Vec::new(),
            before: Vec::new(),
            waiters: Vec::new(),
            place: None,
            deadline: NEVER,
            effective: NEVER,
            serial: 0,
        }
    }
}

/// What a job asks for, in times of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobRequests {
    pub(crate) start: Nanos,
    pub(crate) deadline: Nanos,
    pub(crate) latest_start: Option<Nanos>,
    pub(crate) expected_us: u32,
    pub(crate) criticality: Criticality,
    pub(crate) stream: u16,
    /// Whether a start was set.
    pub(crate) timed: bool,
    /// Whether the job is posted at once and waits for nothing.
    pub(crate) queued: bool,
    /// Whether a completion ends the job.
    pub(crate) deferred: bool,
}

impl JobRequests {
    /// Nothing is asked for.
    pub(crate) const NONE: Self = Self {
        start: 0,
        deadline: NEVER,
        latest_start: None,
        expected_us: 0,
        criticality: Criticality::Normal,
        stream: 0,
        timed: false,
        queued: false,
        deferred: false,
    };
}

/// What the pool knows of each job. A million of them may wait, so its size counts.
pub(crate) struct Head<'env> {
    stage: AtomicU8,
    pub(crate) criticality: Criticality,
    started: bool,
    has_latest: bool,
    has_times: bool,
    deferred: bool,
    /// Whether it was too late to start, and started.
    pub(crate) was_late: AtomicBool,
    /// Set when it is posted, or cancelled before that.
    posted: AtomicBool,
    /// Jobs that it waits for, and one while it is being posted.
    pub(crate) pending: AtomicU32,
    expected_us: u32,
    links: Mutex<Option<Box<Links<'env>>>>,
}

/// What the pool knows of a job that asks for something.
pub(crate) struct Times {
    start: Nanos,
    /// The latest start, or else the deadline.
    late_after: Nanos,
    /// The earliest of its deadline and those that its dependents leave it.
    effective: AtomicU64,
    /// Its number among all jobs that needed one; 0: none yet.
    serial: AtomicU64,
    stream: u16,
    /// How often its stream had been switched off when it was posted.
    generation: AtomicU32,
}

/// Jobs that ask for nothing have none, and are half as large.
pub(crate) trait MaybeTimes: Send + Sync {
    fn of(asks: &JobRequests) -> Self;
    fn get(&self) -> Option<&Times>;
}

impl MaybeTimes for () {
    fn of(_: &JobRequests) {}

    fn get(&self) -> Option<&Times> {
        None
    }
}

impl MaybeTimes for Times {
    fn of(asks: &JobRequests) -> Self {
        Self {
            start: asks.start,
            late_after: asks.latest_start.unwrap_or(asks.deadline),
            effective: AtomicU64::new(asks.deadline),
            serial: AtomicU64::new(0),
            stream: asks.stream,
            generation: AtomicU32::new(0),
        }
    }

    fn get(&self) -> Option<&Times> {
        Some(self)
    }
}

impl<'env> Head<'env> {
    /// What is posted at once is queued from the start; else it waits for its posting.
    fn new(asks: &JobRequests, has_times: bool) -> Self {
        let mut stage = if asks.queued { Stage::Queued } else { Stage::Waiting } as u8;
        let mut links = None;
        if asks.latest_start.is_some() && asks.deadline != NEVER {
            stage |= LINKED;
            links = Some(Box::new(Links { deadline: asks.deadline, ..Links::default() }));
        }
        Self {
            stage: AtomicU8::new(stage),
            criticality: asks.criticality,
            started: asks.timed,
            has_latest: asks.latest_start.is_some(),
            has_times,
            deferred: asks.deferred,
            was_late: AtomicBool::new(false),
            posted: AtomicBool::new(asks.queued),
            pending: AtomicU32::new(1),
            expected_us: asks.expected_us,
            links: Mutex::new(links),
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        Stage::of(self.stage.load(Acquire))
    }

    /// Notes that the job is posted; false if that was noted before.
    pub(crate) fn set_posted(&self) -> bool {
        !self.posted.swap(true, SeqCst)
    }

    /// Whether the job belongs to a plan that was not posted.
    pub(crate) fn is_unposted(&self) -> bool {
        !self.posted.load(SeqCst) && self.stage() == Stage::Waiting
    }

    pub(crate) fn expected_ns(&self) -> Nanos {
        Nanos::from(self.expected_us) * 1000
    }

    /// Moves the job from one stage to another; false when it was in neither of `from`.
    pub(crate) fn claim(&self, from: [Stage; 2], to: Stage) -> bool {
        let mut seen = self.stage.load(SeqCst);
        while from.contains(&Stage::of(seen)) {
            let bits = to as u8 | (seen & LINKED);
            match self.stage.compare_exchange(seen, bits, SeqCst, SeqCst) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Ends a job that the caller has claimed; its links, if somebody looked for them.
    pub(crate) fn end(&self, end: Stage) -> Option<Box<Links<'env>>> {
        let bits = self.stage.swap(end as u8, AcqRel);
        // The one that looks for links later sees the end.
        if bits & LINKED == 0 { None } else { lock(&self.links).take() }
    }

    /// Works on the links; `None` when the job has ended.
    pub(crate) fn link<R>(&self, work: impl FnOnce(&mut Links<'env>) -> R) -> Option<R> {
        let mut links = lock(&self.links);
        if Stage::of(self.stage.fetch_or(LINKED, SeqCst)).is_end() {
            return None;
        }
        Some(work(links.get_or_insert_default()))
    }

    /// Whether anybody waits for this job, or knows it by its id.
    pub(crate) fn is_linked(&self) -> bool {
        self.stage.load(Relaxed) & LINKED != 0
    }

    /// What the job waits for.
    pub(crate) fn before(&self) -> Vec<Weak<dyn Task<'env> + 'env>> {
        lock(&self.links).as_ref().map_or_else(Vec::new, |links| links.before.clone())
    }

    /// Forgets what the job waited for.
    pub(crate) fn forget_before(&self) {
        if self.is_linked()
            && let Some(links) = &mut *lock(&self.links)
        {
            links.before = Vec::new();
        }
    }
}

/// How a job's function returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returned {
    Done,
    Failed,
    Panicked,
    /// A completion ends it.
    Deferred,
}

/// What the pool does with a job.
pub(crate) trait Task<'env>: Send + Sync {
    fn head(&self) -> &Head<'env>;
    /// Ask [`Task::times`], which looks first whether there are any.
    fn own_times(&self) -> Option<&Times>;
    /// Runs the function. A panic is contained.
    fn run(&self) -> Returned;
    /// Drops the function, or the value of one that nobody waits for.
    fn discard(&self);
}

impl<'env> dyn Task<'env> + 'env {
    fn times(&self) -> Option<&Times> {
        if self.head().has_times { self.own_times() } else { None }
    }

    /// What a job without times stores with its links; `none` until it has links.
    fn of_links(&self, of: impl Fn(&Links<'env>) -> u64, none: u64) -> u64 {
        let head = self.head();
        if head.is_linked() { lock(&head.links).as_deref().map_or(none, of) } else { none }
    }

    pub(crate) fn start(&self) -> Nanos {
        self.times().map_or(0, |times| times.start)
    }

    /// From when on it is too late to start.
    pub(crate) fn late_after(&self) -> Nanos {
        self.times().map_or(NEVER, |times| times.late_after)
    }

    pub(crate) fn deadline(&self) -> Nanos {
        match self.times() {
            Some(_) if self.head().has_latest => self.of_links(|links| links.deadline, NEVER),
            Some(times) => times.late_after,
            None => NEVER,
        }
    }

    pub(crate) fn effective(&self) -> Nanos {
        match self.times() {
            Some(times) => times.effective.load(SeqCst),
            None => self.of_links(|links| links.effective, NEVER),
        }
    }

    /// Moves the effective deadline forward; false when it was as early already, or the job has ended.
    pub(crate) fn lower(&self, deadline: Nanos) -> bool {
        let Some(times) = self.times() else {
            let lower = |links: &mut Links<'env>| {
                let is_lower = deadline < links.effective;
                links.effective = links.effective.min(deadline);
                is_lower
            };
            return self.head().link(lower).unwrap_or(false);
        };
        times.effective.fetch_min(deadline, SeqCst) > deadline
    }

    /// Whether the job waits among the timed jobs.
    pub(crate) fn is_timed(&self) -> bool {
        let head = self.head();
        head.started || head.criticality != Criticality::Normal || self.effective() != NEVER
    }

    /// The serial number, 0 if it has none.
    pub(crate) fn serial(&self) -> u64 {
        match self.times() {
            Some(times) => times.serial.load(SeqCst),
            None => self.of_links(|links| links.serial, 0),
        }
    }

    /// Sets the serial number, if it has none.
    pub(crate) fn set_serial(&self, serial: u64) {
        if let Some(times) = self.times() {
            let _ = times.serial.compare_exchange(0, serial, SeqCst, SeqCst);
        } else {
            self.head().link(|links| {
                if links.serial == 0 {
                    links.serial = serial;
                }
            });
        }
    }

    /// The stream of the job, and how often that had been switched off when the job was posted.
    pub(crate) fn stream(&self) -> (u16, u32) {
        self.times().map_or((0, 0), |times| (times.stream, times.generation.load(Relaxed)))
    }

    pub(crate) fn set_generation(&self, generation: impl Fn(u16) -> u32) {
        if let Some(times) = self.times().filter(|times| times.stream != 0) {
            times.generation.store(generation(times.stream), Relaxed);
        }
    }
}

/// What the owner of a handle does with a job whose value has the type `T`.
pub(crate) trait Valued<'env, T>: Task<'env> {
    /// The value or the panic, once.
    fn take(&self) -> Option<Result<T, Box<dyn Any + Send>>>;
    fn put(&self, value: T);
}

enum Body<F, T> {
    Function(F),
    Value(T),
    Panic(Box<dyn Any + Send>),
    Empty,
}

/// A job with its function and its value in one allocation.
pub(crate) struct Job<'env, F, T, X> {
    head: Head<'env>,
    times: X,
    body: Mutex<Body<F, T>>,
}

impl<F, T, X: MaybeTimes> Job<'_, F, T, X> {
    pub(crate) fn new(asks: &JobRequests, function: F) -> Self {
        let body = Mutex::new(Body::Function(function));
        let times = X::of(asks);
        Self { head: Head::new(asks, times.get().is_some()), times, body }
    }
}

impl<'env, F, T, X: MaybeTimes> Task<'env> for Job<'env, F, T, X>
where
    F: FnOnce() -> Option<T> + Send + 'env,
    T: Send + 'env,
{
    fn head(&self) -> &Head<'env> {
        &self.head
    }

    fn own_times(&self) -> Option<&Times> {
        self.times.get()
    }

    fn run(&self) -> Returned {
        // Held while the job runs, since each lock costs as much as a small job. Only a completion comes in between.
        let mut held = lock(&self.body);
        let body = std::mem::replace(&mut *held, Body::Empty);
        let Body::Function(function) = body else { return Returned::Panicked };
        if self.head.deferred {
            drop(held);
            let returned = catch_unwind(AssertUnwindSafe(function));
            let Err(panic) = returned else { return Returned::Deferred };
            *lock(&self.body) = Body::Panic(panic);
            return Returned::Panicked;
        }
        let (body, returned) = match catch_unwind(AssertUnwindSafe(function)) {
            Ok(Some(value)) => (Body::Value(value), Returned::Done),
            Ok(None) => (Body::Empty, Returned::Failed),
            Err(panic) => (Body::Panic(panic), Returned::Panicked),
        };
        *held = body;
        returned
    }

    fn discard(&self) {
        let body = std::mem::replace(&mut *lock(&self.body), Body::Empty);
        contain(|| drop(body));
    }
}

impl<'env, F, T, X: MaybeTimes> Valued<'env, T> for Job<'env, F, T, X>
where
    F: FnOnce() -> Option<T> + Send + 'env,
    T: Send + 'env,
{
    fn take(&self) -> Option<Result<T, Box<dyn Any + Send>>> {
        match std::mem::replace(&mut *lock(&self.body), Body::Empty) {
            Body::Value(value) => Some(Ok(value)),
            Body::Panic(panic) => Some(Err(panic)),
            Body::Function(_) | Body::Empty => None,
        }
    }

    fn put(&self, value: T) {
        *lock(&self.body) = Body::Value(value);
    }
}

/// The function of a job that nobody knows.
pub(crate) type Bare<'env> = Box<dyn FnOnce() + Send + 'env>;

/// What a worker runs.
pub(crate) enum Work<'env> {
    Task(TaskRef<'env>),
    Bare(Bare<'env>),
}

/// Runs, or drops, what is the user's; whether it panicked.
pub(crate) fn contain(run: impl FnOnce()) -> bool {
    let panicked = catch_unwind(AssertUnwindSafe(run));
    // What a panic carries may panic too.
    panicked.is_err_and(|panic| {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
        true
    })
}

/// Lets jobs go. With the last share in a job its value goes, whose drop may panic.
pub(crate) fn discard<'env>(jobs: impl IntoIterator<Item = TaskRef<'env>>) {
    for job in jobs {
        contain(|| drop(job));
    }
}

/// What lies in a queue.
pub(crate) enum Item<'env> {
    Job(TaskRef<'env>),
    /// A job without a handle that asks for nothing: nobody can ask for it either.
    Bare(Bare<'env>),
    /// Jobs whose turn has come because a plan was posted or a job ended; worked off in parts.
    Release(Box<Release<'env>>),
}

/// Edges that were not followed yet.
#[derive(Default)]
pub(crate) struct Release<'env> {
    /// Dependents of jobs, and whether the job ended well.
    pub(crate) parts: Vec<(std::vec::IntoIter<TaskRef<'env>>, bool)>,
}
