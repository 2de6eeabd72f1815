//! The state of a pool without its threads: what posters, workers and those that cancel do to it.

use super::parking::Parking;
use super::streams::Streams;
use super::timed::Timed;
use crate::counts::Counters;
use crate::job::{
    Bare, Criticality, Item, NEVER, Nanos, Release, Stage, TaskRef, contain, discard,
};
use crate::queues::{Lane, Queues};
use crate::sync::{Apart, AtomicBool, AtomicU64, AtomicUsize, Mutex, lock};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A worker takes in at most this many timed jobs of each lane at once.
pub(super) const TAKE_IN: usize = 64;

/// What happens to a job that is too late when it would start: its latest start has passed, or else its deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// It runs all the same, late.
    #[default]
    Run,
    /// It is dropped, and its dependents with it.
    Drop,
    /// A compulsory job runs, and all optional jobs that are due by then are shed; others are dropped.
    Shed,
}

/// A job that was too late when it would have started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LateJob {
    /// The stream of the job; 0 if it has none.
    pub stream: u16,
    /// Decides whether [`Late::Shed`] runs or drops the job.
    pub criticality: Criticality,
    /// By how much it was too late.
    pub late: Duration,
}

/// What the state asks of its surroundings.
pub(crate) struct Hooks<'env> {
    pub(crate) clock: Box<dyn Fn() -> Nanos + Send + Sync + 'env>,
    /// Wakes a worker that sleeps.
    pub(crate) wake: Box<dyn Fn(usize) + Send + Sync + 'env>,
    /// Whether workers hear when they were woken: that takes a look at the clock.
    pub(crate) says_when: bool,
    pub(crate) late: Option<Box<dyn Fn(LateJob) + Send + Sync + 'env>>,
}

/// Where an id finds its job.
pub(crate) struct Slot<'env> {
    serial: u64,
    task: Weak<dyn crate::job::Task<'env> + 'env>,
}

#[derive(Default)]
struct Places<'env> {
    slots: Vec<Option<Slot<'env>>>,
    free: Vec<usize>,
}

/// All of a pool but its threads.
pub(crate) struct Core<'env, Q> {
    pub(super) queues: Q,
    pub(super) timed: Mutex<Timed<'env>>,
    /// When a worker has to look at the timed jobs: the one number that it reads before each job.
    pub(super) hint: Apart<AtomicU64>,
    /// Timed jobs that were not taken in.
    pub(super) arriving: AtomicUsize,
    /// Cancelled jobs that still lie among the timed ones.
    stale: AtomicUsize,
    /// Optional jobs that were due by then are shed.
    pub(super) shed_until: AtomicU64,
    pub(super) parking: Apart<Parking>,
    pub(super) streams: Streams,
    pub(super) late: Late,
    pub(crate) counters: Counters,
    pub(super) workers: usize,
    serials: AtomicU64,
    closed: AtomicBool,
    places: Mutex<Places<'env>>,
    /// Jobs whose function returned, and whose completion was not told.
    deferred: Mutex<BTreeMap<u64, TaskRef<'env>>>,
    /// By worker, the jobs that it runs, each inside the one before, if others depend on them.
    pub(super) running: Vec<Mutex<Vec<TaskRef<'env>>>>,
    /// Jobs on which others came to depend while they ran.
    linked: Mutex<Vec<Weak<dyn crate::job::Task<'env> + 'env>>>,
    pub(crate) hooks: Hooks<'env>,
}

impl<'env, Q: Queues<Item<'env>>> Core<'env, Q> {
    /// The state of a pool, and the workers' ends of their queues.
    pub(crate) fn new(
        workers: usize,
        backlog_max: usize,
        late: Late,
        hooks: Hooks<'env>,
    ) -> (Self, Vec<Q::Local>) {
        let (queues, locals) = Q::new(workers);
        let core = Self {
            queues,
            timed: Mutex::new(Timed::default()),
            hint: Apart(AtomicU64::new(NEVER)),
            arriving: AtomicUsize::new(0),
            stale: AtomicUsize::new(0),
            shed_until: AtomicU64::new(0),
            parking: Apart(Parking::new(workers)),
            streams: Streams::new(),
            late,
            counters: Counters::new(workers, backlog_max),
            workers,
            serials: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            places: Mutex::new(Places::default()),
            deferred: Mutex::new(BTreeMap::new()),
            running: (0..workers).map(|_| Mutex::new(Vec::new())).collect(),
            linked: Mutex::new(Vec::new()),
            hooks,
        };
        (core, locals)
    }

    pub(crate) fn now(&self) -> Nanos {
        (self.hooks.clock)()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    pub(super) fn announce(&self) {
        if let Some(worker) = self.parking.0.announce(|| self.when()) {
            (self.hooks.wake)(worker);
        }
    }

    /// When a worker is woken, if that is asked for.
    fn when(&self) -> Nanos {
        if self.hooks.says_when { self.now().max(1) } else { 1 }
    }

    /// Wakes a worker, if one sleeps.
    pub(super) fn wake_one(&self) -> bool {
        let woken = self.parking.0.wake_one(|| self.when());
        woken.inspect(|&worker| (self.hooks.wake)(worker)).is_some()
    }

    /// Takes a job for which there is a place in the backlog. `at`: the worker inside whose job this happens.
    pub(crate) fn post(&self, task: TaskRef<'env>, after: Vec<TaskRef<'env>>, at: Option<usize>) {
        if after.is_empty() {
            self.keep_generation(&task);
            self.queue(task, None, at);
            return self.close_again();
        }
        self.prepare(&task);
        self.depend(&task, &after);
        drop(after);
        self.pass_on(&task);
        // The one that it waited for while it was posted.
        if task.head().pending.fetch_sub(1, SeqCst) == 1 {
            self.enqueue(task, None, at);
        }
        self.close_again();
    }

    /// Takes a job that nobody asks for.
    pub(crate) fn post_bare(&self, job: Bare<'env>, at: Option<usize>) {
        match at {
            Some(worker) => self.queues.post_to(worker, Item::Bare(job)),
            None => self.queues.post(Lane::Plain, Item::Bare(job)),
        }
        self.announce();
        self.close_again();
    }

    /// Takes the jobs of a plan, whose edges were set: those of `first` may start but for jobs outside the plan.
    pub(crate) fn post_plan(&self, first: Vec<TaskRef<'env>>) {
        if first.is_empty() {
            return;
        }
        let parts = vec![(first.into_iter(), true)];
        self.queues.post(Lane::Plain, Item::Release(Box::new(Release { parts })));
        self.announce();
        self.close_again();
    }

    /// Notes that a job is posted.
    pub(crate) fn prepare(&self, task: &TaskRef<'env>) {
        let head = task.head();
        if !head.set_posted() {
            // It was cancelled before, when it had no place in the backlog.
            self.counters.end(Stage::Cancelled, None);
        }
        self.keep_generation(task);
    }

    fn keep_generation(&self, task: &TaskRef<'env>) {
        task.set_generation(|stream| self.streams.generation(stream));
    }

    /// A pool that was closed meanwhile does not keep what came too late.
    fn close_again(&self) {
        if self.is_closed() {
            self.cancel_all();
        }
    }

    /// The job starts after others have ended well.
    pub(crate) fn depend(&self, task: &TaskRef<'env>, after: &[TaskRef<'env>]) {
        let head = task.head();
        let earlier = after.iter().map(Arc::downgrade);
        head.link(|links| links.before.extend(earlier));
        for before in after {
            head.pending.fetch_add(1, SeqCst);
            let linked = before.head().link(|links| links.dependents.push(Arc::clone(task)));
            match linked {
                Some(()) if before.head().stage() == Stage::Running => self.remember(before),
                Some(()) => {}
                None if before.head().stage() == Stage::Done => {
                    head.pending.fetch_sub(1, SeqCst);
                }
                None => self.drop_waiting(task, Stage::Dependency, None),
            }
        }
    }

    /// Keeps a running job that has dependents, so that a stop finds them if it never ends.
    fn remember(&self, task: &TaskRef<'env>) {
        let mut linked = lock(&self.linked);
        if linked.len() == linked.capacity() {
            linked.retain(|task| task.upgrade().is_some_and(|task| !task.head().stage().is_end()));
        }
        linked.push(Arc::downgrade(task));
    }

    /// Passes the effective deadline of a job of a plan on to its direct predecessors.
    pub(crate) fn pass_on_once(&self, task: &TaskRef<'env>) {
        let effective = task.effective();
        if effective != NEVER {
            let deadline = effective.saturating_sub(task.head().expected_ns());
            for before in task.head().before().iter().filter_map(Weak::upgrade) {
                before.lower(deadline);
            }
        }
    }

    /// Passes the effective deadline of a job on to those that it waits for.
    pub(crate) fn pass_on(&self, task: &TaskRef<'env>) {
        let mut open = vec![Arc::clone(task)];
        while let Some(task) = open.pop() {
            let head = task.head();
            let effective = task.effective();
            if effective == NEVER {
                continue;
            }
            let deadline = effective.saturating_sub(head.expected_ns());
            for before in head.before().iter().filter_map(Weak::upgrade) {
                if before.lower(deadline) {
                    // Its entry has another place now; the first one that is found counts.
                    if before.head().stage() == Stage::Queued {
                        self.enqueue_timed(Arc::clone(&before));
                    }
                    open.push(before);
                }
            }
        }
    }

    /// Puts a job that waits for nothing into a queue.
    pub(super) fn enqueue(
        &self,
        task: TaskRef<'env>,
        local: Option<&Q::Local>,
        at: Option<usize>,
    ) -> bool {
        let head = task.head();
        if !head.claim([Stage::Waiting; 2], Stage::Queued) {
            return false;
        }
        head.forget_before();
        self.queue(task, local, at);
        true
    }

    fn queue(&self, task: TaskRef<'env>, local: Option<&Q::Local>, at: Option<usize>) {
        if task.is_timed() {
            return self.enqueue_timed(task);
        }
        let item = Item::Job(task);
        match (local, at) {
            (Some(local), _) => self.queues.push(local, item),
            (None, Some(worker)) => self.queues.post_to(worker, item),
            (None, None) => self.queues.post(Lane::Plain, item),
        }
        if local.is_none() {
            self.announce();
        }
    }

    fn enqueue_timed(&self, task: TaskRef<'env>) {
        self.number(&task);
        let head = task.head();
        let start = task.start();
        let compulsory = head.criticality == Criticality::Compulsory;
        let lane = if compulsory { Lane::Compulsory } else { Lane::Timed };
        let arriving = self.arriving.fetch_add(1, SeqCst) + 1;
        self.queues.post(lane, Item::Job(task));
        let before = self.hint.0.fetch_min(start, SeqCst);
        if before > start {
            self.announce();
        } else if arriving.is_multiple_of(TAKE_IN) {
            // Starts far away are taken in as well, or an early one could lie behind them for long.
            self.hint.0.store(0, SeqCst);
            self.announce();
        }
    }

    /// Gives a job its serial number.
    fn number(&self, task: &TaskRef<'env>) -> u64 {
        if task.serial() == 0 {
            task.set_serial(self.serials.fetch_add(1, SeqCst) + 1);
        }
        task.serial()
    }

    /// Takes in what posters left, at most [`TAKE_IN`] of each lane.
    pub(super) fn take_in(&self, timed: &mut Timed<'env>, now: Nanos) {
        for lane in [Lane::Compulsory, Lane::Timed] {
            for _ in 0..TAKE_IN {
                let Some(Item::Job(task)) = self.queues.take(lane) else { break };
                self.arriving.fetch_sub(1, SeqCst);
                timed.add(task, now);
            }
        }
    }

    /// With the timed jobs locked: says when to look at them next. What it said is returned: the hint itself may be
    /// lower already.
    pub(super) fn set_hint(&self, timed: &Timed<'env>) -> Nanos {
        let next = timed.next();
        self.hint.0.store(next, SeqCst);
        // A poster adds first and then lowers the hint: what it lowered before is seen here.
        if !self.queues.is_empty(Lane::Compulsory) || !self.queues.is_empty(Lane::Timed) {
            self.hint.0.store(0, SeqCst);
            return 0;
        }
        next
    }

    /// Ends a job that the caller has claimed: its dependents, if it had some.
    pub(super) fn finish(
        &self,
        task: &TaskRef<'env>,
        end: Stage,
        at: Option<usize>,
    ) -> Vec<TaskRef<'env>> {
        let head = task.head();
        // One that was too late at its start was counted then.
        let counts = end == Stage::Done && !head.was_late.load(Relaxed);
        if counts && task.deadline() != NEVER && self.now() > task.deadline() {
            self.counters.ends_late(at);
        }
        let links = head.end(end);
        self.counters.end(end, at);
        let Some(mut links) = links else { return Vec::new() };
        if let Some(place) = links.place {
            let mut places = lock(&self.places);
            places.slots[place] = None;
            places.free.push(place);
        }
        links.waiters.drain(..).for_each(|waiter| waiter.unpark());
        links.dependents
    }

    /// Drops a job that waits or is queued, with all that depend on it; false when it runs or has ended.
    pub(crate) fn cancel(&self, task: &TaskRef<'env>, at: Option<usize>) -> bool {
        let cancelled = self.cancel_one(task, at);
        self.close_again();
        cancelled
    }

    fn cancel_one(&self, task: &TaskRef<'env>, at: Option<usize>) -> bool {
        let head = task.head();
        if head.is_unposted() {
            return self.cancel_unposted(task);
        }
        if !head.claim([Stage::Waiting, Stage::Queued], Stage::Cancelled) {
            return false;
        }
        task.discard();
        let dependents = self.finish(task, Stage::Cancelled, at);
        self.release_all(dependents, false, None, at);
        if task.is_timed() {
            self.sweep();
        }
        true
    }

    /// Drops a job of a plan that was not posted.
    pub(crate) fn cancel_unposted(&self, task: &TaskRef<'env>) -> bool {
        let head = task.head();
        let claimed = head.claim([Stage::Waiting; 2], Stage::Cancelled);
        if claimed {
            task.discard();
            let links = head.end(Stage::Cancelled);
            links.into_iter().flat_map(|l| l.waiters).for_each(|waiter| waiter.unpark());
            if !head.set_posted() {
                self.counters.end(Stage::Cancelled, None);
            }
        }
        claimed
    }

    /// A job of a plan does not wait for the posting any more.
    pub(crate) fn give_up_place(&self, task: &TaskRef<'env>) {
        task.head().pending.fetch_sub(1, SeqCst);
    }

    /// Links a job of a plan that is being posted to one that waits for it.
    pub(crate) fn link(&self, from: &TaskRef<'env>, to: &TaskRef<'env>) {
        to.head().pending.fetch_add(1, SeqCst);
        to.head().link(|links| links.before.push(Arc::downgrade(from)));
        if from.head().link(|links| links.dependents.push(Arc::clone(to))).is_none() {
            self.drop_waiting(to, Stage::Dependency, None);
        }
    }

    pub(crate) fn asleep(&self) -> usize {
        self.parking.0.asleep()
    }

    /// Drops a job that is still waiting.
    pub(super) fn drop_waiting(&self, task: &TaskRef<'env>, end: Stage, at: Option<usize>) {
        if task.head().claim([Stage::Waiting; 2], end) {
            task.discard();
            let dependents = self.finish(task, end, at);
            self.release_all(dependents, false, None, at);
        }
    }

    /// Forgets cancelled jobs when they are half of the timed ones.
    fn sweep(&self) {
        let stale = self.stale.fetch_add(1, SeqCst) + 1;
        if stale < TAKE_IN {
            return;
        }
        let mut timed = lock(&self.timed);
        if stale * 2 > timed.len() {
            let ended = timed.take_ended();
            self.stale.store(0, SeqCst);
            drop(timed);
            discard(ended);
        }
    }

    pub(crate) fn set_stream(&self, stream: u16, is_off: bool) {
        self.streams.set(stream, is_off);
    }

    /// Ends a job whose function left that to a completion.
    pub(crate) fn tell(&self, task: &TaskRef<'env>, well: bool, at: Option<usize>) {
        let head = task.head();
        let told = if well { Stage::ToldDone } else { Stage::ToldFailed };
        if head.claim([Stage::Running; 2], told) {
            return;
        }
        if head.claim([Stage::Deferred; 2], told) {
            lock(&self.deferred).remove(&task.serial());
            self.end(task, if well { Stage::Done } else { Stage::Failed }, None, at);
            // Its dependents may have come into queues that nobody looks at any more.
            self.close_again();
        }
    }

    /// Ends a job that its worker ran, or that was told; releases its dependents.
    pub(super) fn end(
        &self,
        task: &TaskRef<'env>,
        end: Stage,
        local: Option<&Q::Local>,
        at: Option<usize>,
    ) {
        let dependents = self.finish(task, end, at);
        self.release_all(dependents, end == Stage::Done, local, at);
    }

    /// Keeps a job until its completion is told; false when that has happened.
    pub(super) fn defer(&self, task: &TaskRef<'env>) -> bool {
        let serial = self.number(task);
        lock(&self.deferred).insert(serial, Arc::clone(task));
        let deferred = task.head().claim([Stage::Running; 2], Stage::Deferred);
        if !deferred {
            lock(&self.deferred).remove(&serial);
        } else if self.is_closed() {
            self.cancel_all();
        }
        deferred
    }

    /// Posting is over. What has not started is cancelled.
    pub(crate) fn close(&self) {
        self.closed.store(true, SeqCst);
        while self.wake_one() {}
        self.cancel_all();
    }

    /// Cancels all that lies in queues or waits for a completion, and what depends on it.
    pub(crate) fn cancel_all(&self) {
        loop {
            let mut any = false;
            for lane in [Lane::Plain, Lane::Timed, Lane::Compulsory] {
                while let Some(item) = self.queues.take(lane) {
                    any = true;
                    self.cancel_item(item);
                }
            }
            for worker in 0..self.workers {
                while let Some(item) = self.queues.steal_one(worker) {
                    any = true;
                    self.cancel_item(item);
                }
            }
            let timed = lock(&self.timed).drain();
            let deferred = std::mem::take(&mut *lock(&self.deferred));
            any |= !timed.is_empty() || !deferred.is_empty();
            for task in &timed {
                self.cancel_one(task, None);
            }
            discard(timed);
            for task in deferred.values() {
                if task.head().claim([Stage::Deferred; 2], Stage::ToldFailed) {
                    self.end(task, Stage::Cancelled, None, None);
                }
            }
            if !any {
                return;
            }
        }
    }

    fn cancel_item(&self, item: Item<'env>) {
        match item {
            Item::Job(task) => {
                self.cancel_one(&task, None);
            }
            Item::Bare(job) => {
                contain(|| drop(job));
                self.counters.end(Stage::Cancelled, None);
            }
            Item::Release(release) => {
                for task in release.parts.into_iter().flat_map(|(list, _)| list) {
                    self.cancel_one(&task, None);
                }
            }
        }
    }

    /// Cancels what depends on jobs that still run, though nobody waits for them any more.
    pub(crate) fn cancel_dependents(&self) {
        let mut running: Vec<_> =
            lock(&self.linked).drain(..).filter_map(|t| t.upgrade()).collect();
        running.extend(self.running.iter().flat_map(|running| lock(running).clone()));
        for task in running {
            let dependents = task.head().link(|links| std::mem::take(&mut links.dependents));
            for dependent in dependents.into_iter().flatten() {
                self.cancel_one(&dependent, None);
            }
        }
        self.cancel_all();
    }

    /// The place and serial number of a job that has not ended; `None` if it has.
    pub(crate) fn place(&self, task: &TaskRef<'env>) -> Option<(usize, u64)> {
        let serial = self.number(task);
        task.head().link(|links| {
            let place = *links.place.get_or_insert_with(|| {
                let mut places = lock(&self.places);
                let slot = Some(Slot { serial, task: Arc::downgrade(task) });
                if let Some(free) = places.free.pop() {
                    places.slots[free] = slot;
                    free
                } else {
                    places.slots.push(slot);
                    places.slots.len() - 1
                }
            });
            (place, serial)
        })
    }

    /// The serial number of a job.
    pub(crate) fn serial(&self, task: &TaskRef<'env>) -> u64 {
        self.number(task)
    }

    /// The job of an id, while it has not ended.
    pub(crate) fn at_place(&self, place: usize, serial: u64) -> Option<TaskRef<'env>> {
        let places = lock(&self.places);
        let slot = places.slots.get(place)?.as_ref().filter(|slot| slot.serial == serial)?;
        slot.task.upgrade()
    }
}
