//! A job: its function, its value, and what the pool knows of it.

use crate::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Mutex, lock};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::{Arc, Weak};

/// Nanoseconds on a pool's clock, which begins when the pool starts.
pub type Nanos = u64;

/// A deadline or start that never comes.
pub const NEVER: Nanos = Nanos::MAX;

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

/// A job of any type.
pub(crate) type TaskRef<'env> = Arc<dyn Task<'env> + 'env>;

/// What few jobs have: others that wait for them.
#[derive(Default)]
pub(crate) struct Links<'env> {
    pub(crate) dependents: Vec<TaskRef<'env>>,
    /// What the job waits for: an earlier deadline is passed on to them.
    pub(crate) before: Vec<Weak<dyn Task<'env> + 'env>>,
    pub(crate) waiters: Vec<std::thread::Thread>,
    /// The place by which its id finds it.
    pub(crate) place: Option<usize>,
}

/// What a job asks for, in times of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asks {
    pub(crate) start: Nanos,
    pub(crate) deadline: Nanos,
    pub(crate) latest_start: Nanos,
    pub(crate) expected_us: u32,
    pub(crate) criticality: Criticality,
    pub(crate) stream: u16,
    /// Whether a start was set.
    pub(crate) timed: bool,
}

impl Default for Asks {
    fn default() -> Self {
        Self {
            start: 0,
            deadline: NEVER,
            latest_start: NEVER,
            expected_us: 0,
            criticality: Criticality::Normal,
            stream: 0,
            timed: false,
        }
    }
}

/// What the pool knows of a job. A million of them may wait, so its size counts.
pub(crate) struct Head<'env> {
    stage: AtomicU8,
    pub(crate) criticality: Criticality,
    started: bool,
    /// Whether it was too late to start, and started.
    pub(crate) was_late: AtomicBool,
    /// Set when it is posted, or cancelled before that.
    posted: AtomicBool,
    pub(crate) stream: u16,
    /// How often its stream had been switched off when it was posted.
    pub(crate) generation: AtomicU32,
    /// Jobs that it waits for, and one while it is being posted.
    pub(crate) pending: AtomicU32,
    pub(crate) expected_us: u32,
    pub(crate) start: Nanos,
    pub(crate) deadline: Nanos,
    pub(crate) latest_start: Nanos,
    /// The earliest of its deadline and those that its dependents leave it.
    effective: AtomicU64,
    /// Its number among all posted jobs that needed one; 0: none yet.
    pub(crate) serial: AtomicU64,
    links: Mutex<Option<Box<Links<'env>>>>,
}

impl<'env> Head<'env> {
    pub(crate) fn new(asks: &Asks) -> Self {
        Self {
            stage: AtomicU8::new(Stage::Waiting as u8),
            criticality: asks.criticality,
            started: asks.timed,
            was_late: AtomicBool::new(false),
            posted: AtomicBool::new(false),
            stream: asks.stream,
            generation: AtomicU32::new(0),
            pending: AtomicU32::new(1),
            expected_us: asks.expected_us,
            start: asks.start,
            deadline: asks.deadline,
            latest_start: asks.latest_start,
            effective: AtomicU64::new(asks.deadline),
            serial: AtomicU64::new(0),
            links: Mutex::new(None),
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

    pub(crate) fn effective(&self) -> Nanos {
        self.effective.load(SeqCst)
    }

    /// Moves the effective deadline forward; false when it was as early already.
    pub(crate) fn lower(&self, deadline: Nanos) -> bool {
        self.effective.fetch_min(deadline, SeqCst) > deadline
    }

    /// Whether the job waits among the timed jobs.
    pub(crate) fn is_timed(&self) -> bool {
        self.started || self.criticality != Criticality::Normal || self.effective() != NEVER
    }

    /// From when on it is too late to start.
    pub(crate) fn late_after(&self) -> Nanos {
        if self.latest_start == NEVER { self.deadline } else { self.latest_start }
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
    Panicked,
    /// A completion ends it.
    Deferred,
}

/// What the pool does with a job.
pub(crate) trait Task<'env>: Send + Sync {
    fn head(&self) -> &Head<'env>;
    /// Runs the function. A panic is contained.
    fn run(&self) -> Returned;
    /// Drops the function, or the value of one that nobody waits for.
    fn discard(&self);
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
pub(crate) struct Job<'env, F, T> {
    head: Head<'env>,
    body: Mutex<Body<F, T>>,
}

impl<F, T> Job<'_, F, T> {
    pub(crate) fn new(asks: &Asks, function: F) -> Self {
        Self { head: Head::new(asks), body: Mutex::new(Body::Function(function)) }
    }
}

impl<'env, F, T> Task<'env> for Job<'env, F, T>
where
    F: FnOnce() -> Option<T> + Send + 'env,
    T: Send + 'env,
{
    fn head(&self) -> &Head<'env> {
        &self.head
    }

    fn run(&self) -> Returned {
        let body = std::mem::replace(&mut *lock(&self.body), Body::Empty);
        let Body::Function(function) = body else { return Returned::Panicked };
        match catch_unwind(AssertUnwindSafe(function)) {
            Ok(Some(value)) => {
                *lock(&self.body) = Body::Value(value);
                Returned::Done
            }
            Ok(None) => Returned::Deferred,
            Err(panic) => {
                *lock(&self.body) = Body::Panic(panic);
                Returned::Panicked
            }
        }
    }

    fn discard(&self) {
        let body = std::mem::replace(&mut *lock(&self.body), Body::Empty);
        // What is dropped here is the user's, and may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(body)));
    }
}

impl<'env, F, T> Valued<'env, T> for Job<'env, F, T>
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

/// What lies in a queue.
pub(crate) enum Item<'env> {
    Job(TaskRef<'env>),
    /// Jobs whose turn has come because a plan was posted or a job ended; worked off in parts.
    Release(Box<Release<'env>>),
}

/// Edges that were not followed yet.
#[derive(Default)]
pub(crate) struct Release<'env> {
    /// Dependents of jobs, and whether the job ended well.
    pub(crate) parts: Vec<(std::vec::IntoIter<TaskRef<'env>>, bool)>,
}
