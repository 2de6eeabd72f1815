//! A worker's thread.

use super::{Completion, Flow, Handle, Runner, Spent};
use crate::policy::{Agenda, JobId, Nanos, Outcome, Pause, Verdict};
use crate::rounds::Rounds;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A longer sleep has no timer.
const ENDLESS_NS: Nanos = u64::MAX / 4;

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

    /// What ends this job later, well or not. A job that asked for it ends when the completion is called, however the
    /// job returns; only a panic counts as one.
    pub fn completion(&mut self) -> Completion<R> {
        self.detached = true;
        Completion { handle: self.handle.clone(), id: self.id, told: false }
    }
}

struct Worker<'a, R: Runner> {
    handle: &'a Handle<R>,
    number: usize,
    rounds: Rounds<R::Job>,
    spent: Spent,
}

pub(super) fn work<R: Runner>(handle: &Handle<R>, number: usize) -> Spent {
    let options = &handle.0.options;
    let start = || options.on_start.iter().for_each(|on_start| on_start(number));
    // A worker that could not be placed still works.
    let _ = catch_unwind(AssertUnwindSafe(start));
    let rounds = Rounds::new(number, options.policy.step);
    let mut worker = Worker { handle, number, rounds, spent: Spent::default() };
    worker.go();
    worker.spent
}

impl<R: Runner> Worker<'_, R> {
    /// Until the pool stops. Each phase ends with the one look at the clock with which the next begins.
    fn go(&mut self) {
        let shared = &*self.handle.0;
        let is_closed = || shared.stop.load(Ordering::Relaxed);
        let mut now = shared.now();
        self.rounds.begin(now);
        while !is_closed() || !self.rounds.has_given_back() {
            now = match self.manage(now) {
                None => self.back_off(now),
                Some(Verdict::Run) => self.run_batch(now),
                Some(Verdict::Spin) => {
                    std::thread::yield_now();
                    let end = shared.now();
                    self.spent.management_ns += end.saturating_sub(now);
                    end
                }
                // Its one call may have come while it ran jobs.
                Some(Verdict::Sleep { .. }) if is_closed() => now,
                Some(Verdict::Sleep { until }) => {
                    self.rounds.slept();
                    sleep(until.saturating_sub(shared.now()));
                    shared.now()
                }
            };
        }
    }

    /// One attempt at the token: gives back, takes, and wakes whom it must.
    fn manage(&mut self, now: Nanos) -> Option<Verdict> {
        let shared = &*self.handle.0;
        let rounds = &mut self.rounds;
        let held = shared.waking(|wake| {
            let work = |agenda: &mut Agenda<R::Job>| {
                let had = !rounds.has_given_back();
                let (pull, _) = rounds.manage(now, agenda);
                wake(pull.wake);
                (pull.verdict, had && agenda.backlog() == 0)
            };
            shared.token.attempt(work, |agenda| wake(shared.whom_to_wake(agenda)))
        });
        let (verdict, is_drained) = held?;
        if is_drained {
            shared.tell_drained();
        }
        Some(verdict)
    }

    /// Runs what was pulled, management having begun at `since`; the time afterwards.
    fn run_batch(&mut self, since: Nanos) -> Nanos {
        let shared = &*self.handle.0;
        let begin = shared.now();
        self.spent.management_ns += begin.saturating_sub(since);
        while let Some(pulled) = self.rounds.next_job() {
            let handle = self.handle;
            let worker = self.number;
            let mut context = Context { handle, worker, id: pulled.id, detached: false };
            let run = || shared.runner.run(pulled.job, &mut context);
            let outcome = match catch_unwind(AssertUnwindSafe(run)) {
                Ok(_) if context.detached => Outcome::Pending,
                Ok(Flow::Done) => Outcome::Done,
                Ok(Flow::Failed | Flow::Pending) => Outcome::Failed,
                Err(_) => Outcome::Panicked,
            };
            self.rounds.ran(pulled.id, outcome);
        }
        let end = shared.now();
        self.rounds.worked(begin, end);
        end
    }

    fn back_off(&mut self, now: Nanos) -> Nanos {
        let shared = &*self.handle.0;
        match self.rounds.back_off() {
            Pause::Spin { turns, rounds } => {
                for _ in 0..rounds {
                    (0..turns).for_each(|_| std::hint::spin_loop());
                    std::thread::yield_now();
                }
            }
            // A poster that has released the token calls a worker that naps, since nobody else is awake. A call that
            // comes before the nap is missed; the nap then ends by itself.
            Pause::Sleep(ns) => {
                let own = self.number + 1;
                shared.naps.store(own, Ordering::Release);
                sleep(ns);
                let _ = shared.naps.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
        let end = shared.now();
        self.spent.back_off_ns += end.saturating_sub(now);
        end
    }
}

/// Sleeps this long at most, or until the thread is called. What was posted since it let go of the token has woken nobody:
/// it was not asleep yet. The call that came before (unpark before park) closes the gap.
fn sleep(ns: Nanos) {
    if ns > ENDLESS_NS {
        std::thread::park();
    } else {
        std::thread::park_timeout(Duration::from_nanos(ns));
    }
}
