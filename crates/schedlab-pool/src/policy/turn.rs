//! What a worker does between two jobs.

use super::core::{Core, Late, LateJob};
use crate::job::{
    Criticality, Item, NEVER, Nanos, Returned, Stage, TaskRef, Work, contain, discard,
};
use crate::queues::{Lane, Queues};
use crate::sync::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

/// One job in so many is a plain one, and is taken from the injector if that has some.
const TURN: u32 = 61;
/// A worker takes at most so many jobs from the injector at once.
const BATCH: usize = 64;

/// A worker, as the policy knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerState {
    pub(crate) worker: usize,
    ticks: u32,
    searching: bool,
    /// It has followed edges, and looks into the injector before its own queue.
    injector_first: bool,
}

impl WorkerState {
    pub(crate) fn new(worker: usize) -> Self {
        Self { worker, ticks: 0, searching: false, injector_first: false }
    }
}

impl<'env, Q: Queues<Item<'env>>> Core<'env, Q> {
    /// The next job of a worker, which has begun; `None` if there is none, or the pool is closed. Without `local` the
    /// worker is inside a job that waits.
    pub(crate) fn next(
        &self,
        me: &mut WorkerState,
        local: Option<&Q::Local>,
    ) -> Option<Work<'env>> {
        while !self.is_closed() {
            match self.find(me, local)? {
                Item::Release(release) => {
                    self.release(*release, local, Some(me.worker));
                    // What lies behind it in the injector comes next, and then what the worker has itself: neither
                    // waits for more than two parts. Due jobs go before both.
                    me.injector_first = !me.injector_first;
                }
                Item::Job(task) => {
                    if self.begin(&task, me.worker) {
                        self.found(me);
                        return Some(Work::Task(task));
                    }
                    discard([task]);
                }
                Item::Bare(job) => {
                    self.found(me);
                    return Some(Work::Bare(job));
                }
            }
        }
        None
    }

    fn find(&self, me: &mut WorkerState, local: Option<&Q::Local>) -> Option<Item<'env>> {
        me.ticks += 1;
        let is_plain = me.ticks >= TURN;
        if is_plain {
            me.ticks = 0;
        }
        let is_due = self.is_due();
        if is_due && let Some(task) = self.take_timed(is_plain) {
            return Some(Item::Job(task));
        }
        let own = || match local {
            Some(local) => self.queues.pop(me.worker, local),
            None => self.queues.steal_one(me.worker),
        };
        let posted = || match local {
            Some(local) => self.queues.take_batch(local, BATCH),
            None => self.queues.take(Lane::Plain),
        };
        let injector_first = is_plain || me.injector_first;
        let mine = if injector_first { posted().or_else(own) } else { own().or_else(posted) };
        mine.or_else(|| self.steal(me.worker, local)).or_else(|| {
            let left = if is_due && is_plain { self.take_timed(false) } else { None };
            left.map(Item::Job)
        })
    }

    fn steal(&self, worker: usize, local: Option<&Q::Local>) -> Option<Item<'env>> {
        let others = (worker + 1..self.workers).chain(0..worker);
        others.into_iter().find_map(|from| match local {
            Some(local) => self.queues.steal(from, local),
            None => self.queues.steal_one(from),
        })
    }

    /// Whether a timed job is due, or has to be taken in.
    fn is_due(&self) -> bool {
        let hint = self.hint.0.load(SeqCst);
        hint == 0 || (hint != NEVER && hint <= self.now())
    }

    fn take_timed(&self, compulsory: bool) -> Option<TaskRef<'env>> {
        let mut ended = Vec::new();
        let mut timed = lock(&self.timed);
        let now = self.now();
        self.take_in(&mut timed, now);
        timed.advance(now);
        let task = timed.take(compulsory, &mut ended);
        self.set_hint(&timed);
        drop(timed);
        discard(ended);
        task
    }

    /// Begins a job, unless it was cancelled, its stream is off, or it is too late.
    fn begin(&self, task: &TaskRef<'env>, worker: usize) -> bool {
        let head = task.head();
        let at = Some(worker);
        let (stream, generation) = task.stream();
        if stream != 0 && !self.streams.is_on(stream, generation) {
            self.drop_queued(task, Stage::Cancelled, at);
            return false;
        }
        let late_after = task.late_after();
        let now = if late_after == NEVER { 0 } else { self.now() };
        let begins = if now > late_after {
            self.begin_late(task, now, now - late_after, at)
        } else if self.is_shed(task) {
            self.drop_queued(task, Stage::Shed, at);
            false
        } else {
            head.claim([Stage::Queued; 2], Stage::Running)
        };
        if begins && head.is_linked() {
            lock(&self.running[worker]).push(Arc::clone(task));
        }
        begins
    }

    /// Begins or drops a job that is too late; whether it begins. It is counted and told once, by the one that claims it.
    fn begin_late(
        &self,
        task: &TaskRef<'env>,
        now: Nanos,
        late_ns: Nanos,
        at: Option<usize>,
    ) -> bool {
        let head = task.head();
        let is_compulsory = head.criticality == Criticality::Compulsory;
        let runs = match self.late {
            Late::Run => true,
            Late::Drop => false,
            Late::Shed => is_compulsory,
        };
        let claimed = match runs {
            true => head.claim([Stage::Queued; 2], Stage::Running),
            false => self.drop_queued(task, Stage::TooLate, at),
        };
        if !claimed {
            return false;
        }
        if runs {
            head.was_late.store(true, Relaxed);
            if self.late == Late::Shed {
                self.shed_until.fetch_max(now, SeqCst);
            }
        }
        self.counters.starts_late(at);
        if let Some(tell) = &self.hooks.late {
            let (stream, _) = task.stream();
            let criticality = head.criticality;
            let late = Duration::from_nanos(late_ns);
            let late = LateJob { stream, criticality, late };
            contain(|| tell(late));
        }
        runs
    }

    /// Whether a job is shed, since a compulsory one was late.
    fn is_shed(&self, task: &TaskRef<'env>) -> bool {
        let is_optional = task.head().criticality == Criticality::Optional;
        is_optional && task.start() < self.shed_until.load(Relaxed)
    }

    fn drop_queued(&self, task: &TaskRef<'env>, end: Stage, at: Option<usize>) -> bool {
        let claimed = task.head().claim([Stage::Queued; 2], end);
        if claimed {
            task.discard();
            self.end(task, end, None, at);
        }
        claimed
    }

    /// Ends a job that a worker ran.
    pub(crate) fn returned(
        &self,
        task: &TaskRef<'env>,
        returned: Returned,
        me: &WorkerState,
        local: Option<&Q::Local>,
    ) {
        let head = task.head();
        if head.is_linked() {
            lock(&self.running[me.worker]).retain(|running| !Arc::ptr_eq(running, task));
        }
        let end = match returned {
            Returned::Done => Stage::Done,
            Returned::Failed => Stage::Failed,
            Returned::Panicked => Stage::Panicked,
            Returned::Deferred if self.defer(task) => return,
            Returned::Deferred if head.stage() == Stage::ToldDone => Stage::Done,
            Returned::Deferred => Stage::Failed,
        };
        self.end(task, end, local, Some(me.worker));
    }

    /// A worker that searched has found a job: if it was the last one, it wakes another for what is left.
    fn found(&self, me: &mut WorkerState) {
        me.injector_first = false;
        if !me.searching {
            return;
        }
        me.searching = false;
        if self.parking.0.found() && (self.has_more() || self.is_start_open()) {
            self.wake_one();
        }
    }

    fn has_more(&self) -> bool {
        self.parking.0.asleep() > 0
            && (!self.queues.is_empty(Lane::Plain)
                || self.is_due()
                || (0..self.workers).any(|worker| !self.queues.has_none(worker)))
    }

    /// Whether a sleeper is needed for the next start.
    fn is_start_open(&self) -> bool {
        let hint = self.hint.0.load(SeqCst);
        hint != NEVER && self.parking.0.is_open(hint)
    }

    /// A worker found no job.
    pub(crate) fn search(&self, me: &mut WorkerState) {
        if !me.searching {
            me.searching = true;
            self.parking.0.search();
        }
    }

    /// Puts a worker that searches to sleep: until when; `None` if there is something to do after all.
    pub(crate) fn park(&self, me: &mut WorkerState) -> Option<Nanos> {
        let (seen, starts) = {
            let mut timed = lock(&self.timed);
            let now = self.now();
            self.take_in(&mut timed, now);
            timed.advance(now);
            (self.set_hint(&timed), timed.starts(self.parking.0.asleep() + 1))
        };
        if seen == 0 {
            return None;
        }
        let until = self.parking.0.park(me.worker, &starts);
        me.searching = false;
        // One that posted before it saw this worker asleep left the job to be found here.
        let stays = !self.is_closed()
            && self.hint.0.load(SeqCst) == seen
            && self.queues.is_empty(Lane::Plain)
            && (0..self.workers).all(|worker| self.queues.has_none(worker));
        if stays {
            return Some(until);
        }
        self.unparked(me);
        None
    }

    /// A worker stops searching for another reason than a job.
    pub(crate) fn leave(&self, me: &mut WorkerState) {
        self.found(me);
    }

    /// A worker that slept is awake: when it was woken by another; 0: it was not.
    pub(crate) fn unparked(&self, me: &mut WorkerState) -> Nanos {
        me.searching = true;
        self.parking.0.unpark(me.worker)
    }
}
