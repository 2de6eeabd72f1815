//! A worker's thread.

use crate::job::{Item, Nanos, Stage, Work, contain, discard};
use crate::options::Sleep;
use crate::policy::WorkerState;
use crate::queues::{Deques, Queues};
use crate::shared::Shared;
use crate::sync::lock;
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// For so long a worker without a job looks again before it sleeps.
const SPIN: Duration = Duration::from_micros(20);

type Local<'env> = <Deques<Item<'env>> as Queues<Item<'env>>>::Local;

/// The pool whose job the current thread runs.
#[derive(Clone, Copy)]
struct Current {
    pool: usize,
    worker: usize,
    /// Jobs that wait for handles on this thread, each inside the one before.
    depth: usize,
}

thread_local! {
    static CURRENT: Cell<Option<Current>> = const { Cell::new(None) };
}

fn address(shared: &Shared<'_>) -> usize {
    std::ptr::from_ref(shared).addr()
}

/// The worker of this pool that the current thread is.
pub(crate) fn worker_of(shared: &Shared<'_>) -> Option<usize> {
    let current = CURRENT.get()?;
    (current.pool == address(shared)).then_some(current.worker)
}

/// The number of the worker that runs the calling job, from 0; `None` outside of jobs.
pub fn current_worker() -> Option<usize> {
    CURRENT.get().map(|current| current.worker)
}

/// A worker's life. The thread is known to those that wake it before the first job. `told` hears whether it has what
/// the options ask for.
pub(crate) fn work<'env>(
    shared: &Arc<Shared<'env>>,
    worker: usize,
    local: &Local<'env>,
    told: Sender<io::Result<()>>,
) {
    CURRENT.set(Some(Current { pool: address(shared), worker, depth: 0 }));
    lock(&shared.threads)[worker] = Some(std::thread::current());
    // The one that starts the pool closes it if this is an error.
    let _ = told.send(shared.set_up(worker));
    drop(told);
    // A hook that does not return is stuck like a job.
    shared.set_busy(worker, true);
    if let Some(hook) = &shared.options.on_start {
        contain(|| hook(worker));
    }
    shared.set_busy(worker, false);
    let core = &shared.core;
    let mut me = WorkerState::new(worker);
    let mut since = None;
    while !core.is_closed() {
        if let Some(work) = core.next(&mut me, Some(local)) {
            since = None;
            shared.set_busy(worker, true);
            run(shared, work, &me, Some(local));
            shared.set_busy(worker, false);
            continue;
        }
        core.search(&mut me);
        shared.tell_drained();
        let begun: Instant = *since.get_or_insert_with(Instant::now);
        if begun.elapsed() < SPIN {
            std::hint::spin_loop();
        } else if let Some(until) = core.park(&mut me) {
            sleep(shared, &mut me, until, || true);
            since = None;
        }
    }
    // What it took from the injector when the pool closed lies in its own queue.
    core.cancel_all();
    CURRENT.set(None);
    shared.left(worker);
}

fn run<'env>(
    shared: &Shared<'env>,
    work: Work<'env>,
    me: &WorkerState,
    local: Option<&Local<'env>>,
) {
    match work {
        Work::Task(task) => {
            let returned = task.run();
            shared.core.returned(&task, returned, me, local);
            discard([task]);
        }
        Work::Bare(job) => {
            let end = if contain(job) { Stage::Panicked } else { Stage::Done };
            shared.core.counters.end(end, Some(me.worker));
        }
    }
}

/// Sleeps, if that is still wanted, as one that others can wake.
fn sleep(shared: &Shared<'_>, me: &mut WorkerState, until: Nanos, wants: impl Fn() -> bool) {
    let hook = shared.options.on_sleep.as_ref();
    let from = hook.map(|_| Instant::now());
    let end = shared.instant(until);
    if wants() {
        match end {
            Some(end) => {
                std::thread::park_timeout(end.saturating_duration_since(Instant::now()));
            }
            None => std::thread::park(),
        }
    }
    let woken = shared.core.unparked(me);
    if let Some((hook, from)) = hook.zip(from) {
        let woken = if woken == 0 { None } else { shared.instant(woken) };
        hook(me.worker, Sleep { from, until: end, woken, to: Instant::now() });
    }
}

/// Waits inside a job: runs other jobs until `is_over`, which an unpark of this thread announces. Beyond the depth
/// limit, or once the pool is closed, it only waits.
pub(crate) fn wait_inside(shared: &Shared<'_>, is_over: impl Fn() -> bool) {
    let Some(current) = CURRENT.get() else { return };
    let helps = current.depth < shared.options.depth_max;
    CURRENT.set(Some(Current { depth: current.depth + 1, ..current }));
    let core = &shared.core;
    let mut me = WorkerState::new(current.worker);
    while helps && !is_over() && !core.is_closed() {
        if let Some(work) = core.next(&mut me, None) {
            run(shared, work, &me, None);
            continue;
        }
        core.search(&mut me);
        if let Some(until) = core.park(&mut me) {
            shared.block(|| sleep(shared, &mut me, until, || !is_over()));
        }
    }
    core.leave(&mut me);
    shared.block(|| {
        while !is_over() {
            std::thread::park();
        }
    });
    CURRENT.set(Some(current));
}
