//! A worker's rounds.

use super::deferred_work::Errands;
use super::events::{Events, What};
use super::{Completion, Flow, Handle, PostError, Runner};
use crate::policy::{
    Agenda, Asker, Finished, JobId, Ladder, Nanos, Notice, Outcome, Pause, Plan, Posting, Pull,
    Pulled, Verdict,
};
use crate::sync;
use crate::worker_stalls::{During, Held, Watch, lost_in_job};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

/// What a job can ask of the pool that runs it.
pub struct Context<'a, R: Runner> {
    handle: &'a Handle<R>,
    worker: usize,
    id: JobId,
    detached: bool,
}

impl<R: Runner> Context<'_, R> {
    /// The number of the worker, from 0.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The pool: a planning job posts more through it.
    pub fn pool(&self) -> &Handle<R> {
        self.handle
    }

    /// Posts a job; see [`Handle::post`].
    ///
    /// # Errors
    /// Back-pressure.
    pub fn post(&self, posting: Posting<R::Job>) -> Result<JobId, PostError<Posting<R::Job>>> {
        self.handle.post(posting)
    }

    /// Posts a plan; see [`Handle::plan`]. So a job can plan others:
    ///
    /// ```
    /// use schedlab_jobs::policy::{Plan, Posting};
    /// use schedlab_jobs::pool::{Closure, Closures, Flow, Options, Pool};
    /// use schedlab_jobs::run::Clock;
    /// use std::time::Duration;
    /// fn nothing() -> Closure { Box::new(|_| Flow::Done) }
    ///
    /// let pool = Pool::start(Closures, Options::new(2), Clock::start())?;
    /// let planning: Closure = Box::new(|context| {
    ///     let mut plan = Plan::default();
    ///     for _ in 0..10 {
    ///         plan.add(Posting::new(nothing(), 0));
    ///     }
    ///     context.plan(plan).expect("room");
    ///     Flow::Done
    /// });
    /// pool.handle().post(Posting::new(planning, 0)).expect("room");
    /// assert!(pool.handle().wait(Duration::from_secs(10)));
    /// assert_eq!(pool.stop(Duration::from_secs(1)).counts.done, 11);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Back-pressure.
    pub fn plan(&self, plan: Plan<R::Job>) -> Result<Vec<JobId>, PostError<Plan<R::Job>>> {
        self.handle.plan(plan)
    }

    /// What ends this job later, well or not. A job that asked for it ends when the completion is called, however the job returns; only
    /// a panic counts as one.
    ///
    /// ```
    /// use schedlab_jobs::policy::Posting;
    /// use schedlab_jobs::pool::{Closure, Closures, Flow, Options, Pool};
    /// use schedlab_jobs::run::Clock;
    /// use std::time::Duration;
    ///
    /// let pool = Pool::start(Closures, Options::new(1), Clock::start())?;
    /// let reading: Closure = Box::new(|context| {
    ///     let completion = context.completion();
    ///     // The worker is free for others while this thread, or a device, goes on.
    ///     std::thread::spawn(move || if 2 + 2 == 4 { completion.complete() } else { completion.fail() });
    ///     Flow::Pending
    /// });
    /// pool.handle().post(Posting::new(reading, 0)).expect("room");
    /// assert!(pool.handle().wait(Duration::from_secs(10)));
    /// assert_eq!(pool.stop(Duration::from_secs(1)).counts.done, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn completion(&mut self) -> Completion<R> {
        self.detached = true;
        Completion { handle: self.handle.clone(), id: self.id, told: false }
    }
}

/// What a worker did.
#[derive(Clone, Debug, Default)]
pub struct WorkerReport {
    /// The number of jobs that it ran.
    pub jobs: u64,
    /// The time in jobs, in nanoseconds.
    pub busy_ns: Nanos,
    /// Time with the token, or trying to get it.
    pub management_ns: Nanos,
    /// Time spent backing off from contention.
    pub back_off_ns: Nanos,
    /// The time asleep, in nanoseconds.
    pub asleep_ns: Nanos,
    /// Number of attempts at the token that failed.
    pub contentions: u64,
    /// Number of panics of [`Runner::notice`] and of
    /// [`Options::on_start`](super::Options::on_start).
    pub notice_panics: u64,
    /// Where it was held up, in order of time.
    pub held: Vec<Held>,
    /// The trace, when it was on.
    pub events: Events,
}

impl WorkerReport {
    /// The sums of two threads that had the same number, one after the other.
    pub(super) fn joined(mut self, later: Self) -> Self {
        self.jobs += later.jobs;
        self.busy_ns += later.busy_ns;
        self.management_ns += later.management_ns;
        self.back_off_ns += later.back_off_ns;
        self.asleep_ns += later.asleep_ns;
        self.contentions += later.contentions;
        self.notice_panics += later.notice_panics;
        self.held.extend(later.held);
        self.events.append(later.events);
        self
    }
}

struct Worker<'a, R: Runner> {
    handle: &'a Handle<R>,
    number: usize,
    ladder: Ladder,
    finished: Vec<Finished>,
    batch: Vec<Pulled<R::Job>>,
    busy_ns: Nanos,
    worked: Nanos,
    slept: bool,
    /// The last pull did the tick.
    ticked: bool,
    watch: Watch,
    report: WorkerReport,
}

pub(super) fn work<R: Runner>(handle: &Handle<R>, number: usize) -> WorkerReport {
    let options = &handle.0.options;
    (handle.0.bind)(number);
    let start = || options.on_start.iter().for_each(|on_start| on_start(number));
    let notice_panics = u64::from(catch_unwind(AssertUnwindSafe(start)).is_err());
    let now = handle.0.now();
    let mut worker = Worker {
        handle,
        number,
        ladder: Ladder::new(number, options.policy.step),
        finished: Vec::with_capacity(options.policy.batch_max),
        batch: Vec::with_capacity(options.policy.batch_max),
        busy_ns: 0,
        worked: now,
        slept: true,
        ticked: false,
        watch: Watch::start(options.run_delay),
        report: WorkerReport {
            events: Events::with_capacity(options.events),
            notice_panics,
            ..Default::default()
        },
    };
    worker.report.events.add(now, What::Begin);
    let end = worker.rounds(now);
    worker.report.events.add(end, What::End);
    worker.report
}

impl<R: Runner> Worker<'_, R> {
    /// Until the pool stops; the time of the end. Each phase ends with the one look at the clock with
    /// which the next begins.
    fn rounds(&mut self, mut now: Nanos) -> Nanos {
        loop {
            if self.is_closed() && self.finished.is_empty() {
                return now;
            }
            now = match self.manage(now) {
                None => self.back_off(now),
                Some(Verdict::Run) => self.run_batch(now),
                Some(Verdict::Spin) => {
                    sync::yield_now();
                    let end = self.passed(now, |report| &mut report.management_ns);
                    self.stayed_awake(now, end);
                    end
                }
                // Its one call may have come while it ran jobs.
                Some(Verdict::Sleep { .. }) if self.is_closed() => now,
                Some(Verdict::Sleep { until }) => self.sleep(now, until),
                Some(Verdict::Retire) => return now,
            };
        }
    }

    fn is_closed(&self) -> bool {
        self.handle.0.stop.load(Ordering::Relaxed)
    }

    /// One attempt at the token: gives back, takes, and wakes whom it must.
    fn manage(&mut self, now: Nanos) -> Option<Verdict> {
        let shared = &*self.handle.0;
        let asker = Asker {
            worker: self.number,
            idle_ns: now.saturating_sub(self.worked),
            from_work: !self.slept,
        };
        let (finished, batch, busy_ns) = (&mut self.finished, &mut self.batch, self.busy_ns);
        let (mut errands, mut late) = (Errands::default(), Errands::default());
        let work = |agenda: &mut Agenda<R::Job>| {
            let had = !finished.is_empty();
            agenda.finish(finished, busy_ns);
            let pull = agenda.pull(now, asker, batch);
            errands.wakes.extend(pull.wake);
            errands.collect(shared, agenda);
            // Under the token, so that sizes are reported in the order in which they came about.
            let sized = pull.size.map(|workers| (shared.now(), What::Size { workers }));
            (pull, had && agenda.backlog() == 0, agenda.notices(), sized)
        };
        let held = shared.token.attempt(work, |agenda| late.decide(shared, agenda));
        let (pull, drained, notices, sized) = held?;
        self.busy_ns = 0;
        self.ticked = pull.ticked;
        self.ladder.ease();
        if drained {
            shared.tell_drained();
        }
        errands.run(self.handle);
        late.run(self.handle);
        self.tell(now, &pull, &notices);
        if let Some((at, size)) = sized {
            self.report.events.add(at, size);
        }
        Some(pull.verdict)
    }

    fn tell(&mut self, now: Nanos, pull: &Pull, notices: &[Notice]) {
        let events = &mut self.report.events;
        if pull.ticked {
            events.add(now, What::Tick);
        }
        if pull.verdict != Verdict::Spin {
            let head_in_ns = pull.head.map(|head| head as i64 - now as i64);
            events.add(now, What::Pull { got: self.batch.len() as u32, head_in_ns });
        }
        if let Some(sleeper) = pull.wake {
            events.add(now, What::Notify { worker: sleeper as u32 });
        }
        for &notice in notices {
            let tell = || self.handle.0.runner.notice(notice, self.handle);
            if catch_unwind(AssertUnwindSafe(tell)).is_err() {
                self.report.notice_panics += 1;
            }
        }
    }

    /// Runs what was pulled, management having begun at `since`; the time afterwards.
    fn run_batch(&mut self, since: Nanos) -> Nanos {
        let shared = &*self.handle.0;
        let begin = shared.now();
        self.report.management_ns += begin.saturating_sub(since);
        self.stayed_awake(since, begin);
        let expected_ns: Nanos = self.batch.iter().map(|pulled| pulled.expected_ns).sum();
        shared.busy_since[self.number].store(begin, Ordering::Relaxed);
        let count = self.batch.len();
        for Pulled { id, job, .. } in self.batch.drain(..) {
            let mut context =
                Context { handle: self.handle, worker: self.number, id, detached: false };
            let flow = catch_unwind(AssertUnwindSafe(|| shared.runner.run(job, &mut context)));
            let outcome = match flow {
                Ok(_) if context.detached => Outcome::Pending,
                Ok(Flow::Done) => Outcome::Done,
                Ok(Flow::Failed | Flow::Pending) => Outcome::Failed,
                Err(_) => Outcome::Panicked,
            };
            if outcome == Outcome::Panicked {
                self.report.events.add(begin, What::Panic);
            }
            self.finished.push(Finished { id, outcome });
        }
        let end = shared.now();
        shared.busy_since[self.number].store(0, Ordering::Relaxed);
        let took_ns = end.saturating_sub(begin);
        let lost_ns = lost_in_job(took_ns, expected_ns);
        self.watch.note(&mut self.report.held, During::Job, begin, lost_ns);
        self.report.events.add(end, What::Jobs { count: count as u32, took_ns });
        self.report.jobs += count as u64;
        self.report.busy_ns += took_ns;
        self.busy_ns += took_ns;
        self.worked = end;
        self.slept = false;
        end
    }

    fn back_off(&mut self, now: Nanos) -> Nanos {
        let pause = self.ladder.climb();
        self.report.contentions += 1;
        match pause {
            Pause::Spin { turns, rounds } => {
                for _ in 0..rounds {
                    (0..turns).for_each(|_| std::hint::spin_loop());
                    sync::yield_now();
                }
            }
            // A poster that has released the token calls a worker that naps, since nobody else is awake. A call that
            // comes before the nap is missed; the nap then ends by itself.
            Pause::Sleep(ns) => {
                let (naps, own) = (&self.handle.0.naps, self.number + 1);
                naps.store(own, Ordering::Release);
                sync::nap(ns);
                let _ = naps.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
        let end = self.passed(now, |report| &mut report.back_off_ns);
        let (level, took_ns) = (self.ladder.level(), end.saturating_sub(now));
        self.report.events.add(end, What::Contention { level, took_ns });
        end
    }

    fn sleep(&mut self, now: Nanos, until: Nanos) -> Nanos {
        let asked_ns = until.saturating_sub(now);
        self.watch.look();
        // What was posted since we let go of the token has woken nobody: we were not asleep yet. The
        // token of the thread itself (unpark before park) closes the gap.
        sync::park(self.handle.0.now(), until);
        self.slept = true;
        let end = self.passed(now, |report| &mut report.asleep_ns);
        let got_ns = end.saturating_sub(now);
        let late_ns = got_ns.saturating_sub(asked_ns);
        self.watch.note(&mut self.report.held, During::Timer, until, late_ns);
        self.report.events.add(end, What::Sleep { asked_ns, got_ns });
        end
    }

    /// Nothing was done between these but one pull, at most.
    fn stayed_awake(&mut self, since: Nanos, end: Nanos) {
        if !self.ticked {
            let lost_ns = end.saturating_sub(since);
            self.watch.note(&mut self.report.held, During::Awake, since, lost_ns);
        }
    }

    fn passed(&mut self, since: Nanos, sum: fn(&mut WorkerReport) -> &mut Nanos) -> Nanos {
        let now = self.handle.0.now();
        *sum(&mut self.report) += now.saturating_sub(since);
        now
    }
}
