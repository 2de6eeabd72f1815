//! What the threads of a pool share, and how they wait for each other.

use crate::job::{Item, NEVER, Nanos};
use crate::options::{Options, ns};
use crate::policy::{Core, Hooks};
use crate::queues::{Deques, Queues};
use crate::sync::Apart;
use std::io;
use std::ops::Deref;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

type Threads = Mutex<Vec<Option<Thread>>>;

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the threads of a pool share.
pub(crate) struct Shared<'env> {
    pub(crate) core: Core<'env, Deques<Item<'env>>>,
    pub(crate) options: Options,
    pub(crate) origin: Instant,
    /// By worker, once it runs.
    pub(crate) threads: Arc<Threads>,
    /// Threads that wait for the end of all jobs.
    waiting: AtomicUsize,
    drained: (Mutex<()>, Condvar),
    /// Workers that have not left.
    pub(crate) alive: (Mutex<Vec<usize>>, Condvar),
    /// Workers that wait inside jobs without running others.
    pub(crate) blocked: AtomicUsize,
    /// By worker, whether it runs a job.
    busy: Vec<Apart<AtomicBool>>,
}

impl<'env> Shared<'env> {
    pub(crate) fn new(
        options: Options,
    ) -> (Arc<Self>, Vec<<Deques<Item<'env>> as Queues<Item<'env>>>::Local>) {
        let origin = Instant::now();
        let workers = options.workers.max(1);
        let threads: Arc<Threads> = Arc::new(Mutex::new(vec![None; workers]));
        let known = Arc::clone(&threads);
        let wake = move |worker: usize| {
            if let Some(Some(thread)) = lock(&known).get(worker) {
                thread.unpark();
            }
        };
        let late = options.on_late.clone();
        let hooks = Hooks {
            clock: Box::new(move || ns(origin.elapsed())),
            wake: Box::new(wake),
            says_when: options.on_sleep.is_some(),
            late: late.map(|late| Box::new(move |job| late(job)) as Box<_>),
        };
        let (core, locals) = Core::new(workers, options.backlog_max, options.late, hooks);
        let shared = Self {
            core,
            options,
            origin,
            threads,
            waiting: AtomicUsize::new(0),
            drained: (Mutex::new(()), Condvar::new()),
            alive: (Mutex::new(Vec::new()), Condvar::new()),
            blocked: AtomicUsize::new(0),
            busy: (0..workers).map(|_| Apart::default()).collect(),
        };
        (Arc::new(shared), locals)
    }

    pub(crate) fn instant(&self, at: Nanos) -> Option<Instant> {
        (at != NEVER).then(|| self.origin.checked_add(Duration::from_nanos(at))).flatten()
    }

    /// Binds a worker's thread to its CPU, and sets its nice value.
    pub(crate) fn set_up(&self, worker: usize) -> io::Result<()> {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            let cpus = &self.options.cpus;
            if !cpus.is_empty() {
                let cpu = cpus[worker % cpus.len()];
                let mut set = rustix::thread::CpuSet::new();
                if cpu >= rustix::thread::CpuSet::MAX_CPU {
                    return Err(refused(
                        &format!("CPU {cpu}"),
                        &io::ErrorKind::InvalidInput.into(),
                    ));
                }
                set.set(cpu);
                rustix::thread::sched_setaffinity(None, &set)
                    .map_err(|error| refused(&format!("CPU {cpu}"), &error.into()))?;
            }
            if let Some(nice) = self.options.nice {
                rustix::process::setpriority_process(None, nice)
                    .map_err(|error| refused(&format!("the nice value {nice}"), &error.into()))?;
            }
        }
        let _ = worker;
        Ok(())
    }

    /// A worker's thread is about to end.
    pub(crate) fn left(&self, worker: usize) {
        self.tell_drained();
        lock(&self.alive.0).retain(|&alive| alive != worker);
        self.alive.1.notify_all();
    }

    /// Notes whether a worker runs a job.
    pub(crate) fn set_busy(&self, worker: usize, busy: bool) {
        self.busy[worker].0.store(busy, Release);
    }

    /// Blocks the current worker.
    pub(crate) fn block(&self, wait: impl FnOnce()) {
        self.blocked.fetch_add(1, SeqCst);
        wait();
        self.blocked.fetch_sub(1, SeqCst);
    }

    /// Calls those that wait for the end of all jobs, if it has come.
    pub(crate) fn tell_drained(&self) {
        fence(SeqCst);
        if self.waiting.load(SeqCst) > 0 && self.core.counters.live() == 0 {
            drop(lock(&self.drained.0));
            self.drained.1.notify_all();
        }
    }

    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let end = Instant::now().checked_add(patience);
        self.waiting.fetch_add(1, SeqCst);
        fence(SeqCst);
        let mut held = lock(&self.drained.0);
        let drained = loop {
            if self.core.counters.live() == 0 {
                break true;
            }
            let Some(end) = end else {
                held = self.drained.1.wait(held).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break false;
            }
            let waited = self.drained.1.wait_timeout(held, left);
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(held);
        self.waiting.fetch_sub(1, SeqCst);
        drained
    }

    /// Waits until all workers have left; those that have not, since they run a job. One that runs none is about to
    /// leave, however long it takes the system to let it.
    pub(crate) fn wait_for_workers(&self, patience: Duration) -> Vec<usize> {
        let end = Instant::now().checked_add(patience);
        let mut alive = lock(&self.alive.0);
        while !alive.is_empty() {
            let Some(end) = end else {
                alive = self.alive.1.wait(alive).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() && alive.iter().all(|&worker| self.busy[worker].0.load(Acquire)) {
                break;
            }
            let waited = self.alive.1.wait_timeout(alive, left.max(Duration::from_millis(1)));
            alive = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        alive.clone()
    }

    pub(crate) fn close(&self) {
        self.core.close();
        self.tell_drained();
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn refused(what: &str, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("a worker cannot have {what}: {why}"))
}

/// A share in a pool. Each handle has one: several counts of them keep posters from waiting for one cache line.
pub(crate) struct Lease<'env>(pub(crate) Arc<Shared<'env>>);

impl<'env> Deref for Lease<'env> {
    type Target = Arc<Shared<'env>>;

    fn deref(&self) -> &Arc<Shared<'env>> {
        &self.0
    }
}
