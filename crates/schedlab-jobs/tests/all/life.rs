//! The life of a pool in a model: post, feed, pull, sleep, wake, complete, fail, cancel, close, on a clock that the
//! model moves and with sleeps that only a call or that clock ends. What nobody wakes is a deadlock, which loom finds.

use loom::sync::Mutex;
use loom::thread;
use schedlab_jobs::policy::{Criticality, Fate, JobId, Notice, Plan, Policy, Posting, Step};
use schedlab_jobs::pool::{Completion, Context, Flow, Handle, Options, Pool, Report, Runner};
use schedlab_jobs::run::Clock;
use schedlab_jobs::sync;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

const NOW: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// What a job of a model does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Nothing,
    Panics,
    /// Until the model has let it go.
    Waits,
    /// Hands its completion to the model's first thread, then ends or panics.
    Hands {
        panics: bool,
    },
}

/// Who ran, and how the first thread hears of it.
struct Model {
    ran: [AtomicU32; 4],
    go: [AtomicBool; 4],
    waits: [Mutex<Option<sync::Thread>>; 4],
    handed: Mutex<Option<Completion<Jobs>>>,
    first: sync::Thread,
}

struct Jobs(Arc<Model>);

impl Runner for Jobs {
    type Job = (usize, Does);

    fn run(&self, (number, does): Self::Job, context: &mut Context<'_, Self>) -> Flow {
        let model = &*self.0;
        model.ran[number].fetch_add(1, SeqCst);
        if does == Does::Waits {
            *model.waits[number].lock().unwrap() = Some(sync::current());
        }
        if let Does::Hands { .. } = does {
            *model.handed.lock().unwrap() = Some(context.completion());
        }
        model.first.unpark();
        while does == Does::Waits && !model.go[number].load(SeqCst) {
            sync::wait();
        }
        match does {
            Does::Panics | Does::Hands { panics: true } => sync::panic_on_purpose(),
            Does::Hands { .. } => Flow::Pending,
            Does::Nothing | Does::Waits => Flow::Done,
        }
    }

    fn notice(&self, _: Notice, _: &Handle<Self>) {
        sync::panic_on_purpose();
    }
}

impl Model {
    fn has_run(&self, number: usize) -> bool {
        self.ran[number].load(SeqCst) > 0
    }

    /// On the first thread, without a timer: what nobody wakes for stays undone.
    fn until(&self, mut done: impl FnMut(&Self) -> bool) {
        while !done(self) {
            sync::wait();
        }
    }

    fn let_go(&self, number: usize) {
        self.go[number].store(true, SeqCst);
        if let Some(thread) = self.waits[number].lock().unwrap().take() {
            thread.unpark();
        }
    }

    fn take_handed(&self) -> Option<Completion<Jobs>> {
        self.handed.lock().unwrap().take()
    }
}

fn policy(workers: usize) -> Policy {
    Policy { linger_ns: 0, batch_ns: 0, step: Step::None, ..Policy::new(workers) }
}

fn post(pool: &Handle<Jobs>, number: usize, does: Does) -> JobId {
    pool.post(Posting::new((number, does), NOW)).expect("room")
}

/// All interleavings with so many preemptions; those with two hold every fault that the pool had.
fn check(
    preemptions: usize,
    policy: Policy,
    life: impl Fn(&Model, &Pool<Jobs>) + Send + Sync + 'static,
    end: impl Fn(&Model, Report) + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        sync::reset(NOW);
        let model = Arc::new(Model {
            ran: Default::default(),
            go: Default::default(),
            waits: std::array::from_fn(|_| Mutex::new(None)),
            handed: Mutex::new(None),
            first: sync::current(),
        });
        let workers = policy.workers;
        let options = Options { policy: policy.clone(), ..Options::new(workers) };
        let pool = Pool::start(Jobs(Arc::clone(&model)), options, Clock::start()).expect("threads");
        life(&model, &pool);
        (0..4).for_each(|number| model.let_go(number));
        let report = pool.stop(Duration::ZERO);
        end(&model, report);
    });
}

fn nothing_is_counted_twice(_: &Model, report: Report) {
    assert!(report.counts.ended() <= report.counts.posted, "{:?}", report.counts);
}

fn posts() {
    let life = |model: &Model, pool: &Pool<Jobs>| {
        for number in 0..2 {
            post(pool.handle(), number, Does::Nothing);
            model.until(|model| model.has_run(number));
        }
    };
    check(2, policy(1), life, nothing_is_counted_twice);
}

#[test]
fn a_post_is_run_whatever_its_worker_does_meanwhile() {
    posts();
}

#[test]
fn two_posters_and_two_workers_lose_nothing() {
    let life = |model: &Model, pool: &Pool<Jobs>| {
        let other = pool.handle().clone();
        let other = thread::spawn(move || post(&other, 1, Does::Nothing));
        post(pool.handle(), 0, Does::Nothing);
        model.until(|model| model.has_run(0) && model.has_run(1));
        let id = other.join().unwrap();
        assert_ne!(pool.handle().fate(id), Fate::Failed);
    };
    check(1, policy(2), life, nothing_is_counted_twice);
}

/// A job that is due in a millisecond runs then, though its tender was called away for one that goes on.
fn tends() {
    let life = |model: &Model, pool: &Pool<Jobs>| {
        post(pool.handle(), 0, Does::Waits);
        model.until(|model| model.has_run(0));
        let later = Posting::new((1, Does::Nothing), NOW + MS);
        pool.handle().post(later).expect("room");
        // The other worker runs this one, and tends job 1 behind it.
        post(pool.handle(), 3, Does::Nothing);
        model.until(|model| model.has_run(3));
        post(pool.handle(), 2, Does::Waits);
        model.until(|model| model.has_run(2));
        // Job 1 is now for the worker of job 0.
        model.let_go(0);
        // Loom does not see the clock, so it is told that the other worker may go first.
        thread::yield_now();
        sync::advance(NOW + MS);
        model.until(|model| model.has_run(1));
    };
    check(1, policy(2), life, nothing_is_counted_twice);
}

#[test]
fn a_start_is_kept_though_its_tender_was_called_away() {
    tends();
}

// Loom does not call it a deadlock where a thread has yielded before.
/// Plans a job that hands out its completion, and one that depends on it.
fn hand(pool: &Pool<Jobs>, panics: bool) {
    let mut plan = Plan::default();
    let first = plan.add(Posting::new((0, Does::Hands { panics }), NOW));
    let then = plan.add(Posting::new((1, Does::Nothing), NOW));
    plan.link(first, then);
    pool.handle().plan(plan).expect("room");
}

fn completes(panics: bool) {
    let life = move |model: &Model, pool: &Pool<Jobs>| {
        hand(pool, panics);
        let mut completion = None;
        model.until(|model| {
            completion = completion.take().or_else(|| model.take_handed());
            completion.is_some()
        });
        completion.expect("it was handed over").complete();
        if panics {
            // Behind this one, all that the first two did is done.
            post(pool.handle(), 2, Does::Nothing);
            model.until(|model| model.has_run(2));
        } else {
            model.until(|model| model.has_run(1));
        }
    };
    let end = move |model: &Model, report: Report| {
        assert_eq!(model.has_run(1), !panics, "{:?}", report.counts);
        nothing_is_counted_twice(model, report);
    };
    check(2, policy(1), life, end);
}

#[test]
fn what_is_completed_before_it_returned_ends_once_and_its_dependent_runs() {
    completes(false);
}

#[test]
fn what_is_completed_and_panics_has_failed() {
    completes(true);
}

fn drops() {
    let life = |model: &Model, pool: &Pool<Jobs>| {
        hand(pool, false);
        let mut completion = None;
        model.until(|model| {
            completion = completion.take().or_else(|| model.take_handed());
            completion.is_some()
        });
        drop(completion);
        post(pool.handle(), 2, Does::Nothing);
        model.until(|model| model.has_run(2));
    };
    let end = |model: &Model, report: Report| {
        assert!(!model.has_run(1), "what it waited for was lost: {:?}", report.counts);
        assert_eq!((report.counts.failed, report.counts.abandoned), (1, 1));
    };
    check(2, policy(1), life, end);
}

#[test]
fn a_completion_that_is_lost_fails_its_job() {
    drops();
}

/// The runner's notice panics on a compulsory job that is late; what is posted afterwards still runs.
fn notices() {
    let life = |model: &Model, pool: &Pool<Jobs>| {
        let late = Posting::new((0, Does::Nothing), 0).deadline(NOW - 1);
        let late = Posting { criticality: Criticality::Compulsory, ..late };
        pool.handle().post(late).expect("room");
        model.until(|model| model.has_run(0));
        post(pool.handle(), 1, Does::Nothing);
        model.until(|model| model.has_run(1));
    };
    check(2, policy(1), life, nothing_is_counted_twice);
}

#[test]
fn a_notice_that_panics_ends_nothing() {
    notices();
}

/// A dependent is planned while, before or after its predecessor panics.
fn plans_after() {
    let life = |model: &Model, pool: &Pool<Jobs>| {
        let id = post(pool.handle(), 0, Does::Panics);
        let mut plan = Plan::default();
        let then = plan.add(Posting::new((1, Does::Nothing), NOW));
        plan.after(id, then);
        pool.handle().plan(plan).expect("room");
        post(pool.handle(), 2, Does::Nothing);
        model.until(|model| model.has_run(0) && model.has_run(2));
    };
    let end = |model: &Model, report: Report| {
        assert!(!model.has_run(1), "{:?}", report.counts);
        nothing_is_counted_twice(model, report);
    };
    check(2, policy(1), life, end);
}

#[test]
fn what_is_planned_after_a_job_that_panics_never_runs() {
    plans_after();
}

#[test]
fn a_cancelled_job_never_runs_and_one_that_was_not_does() {
    let life = |model: &Model, pool: &Pool<Jobs>| {
        let id = post(pool.handle(), 0, Does::Nothing);
        let cancelled = pool.handle().cancel(id);
        if cancelled {
            post(pool.handle(), 1, Does::Nothing);
            model.until(|model| model.has_run(1));
            assert_eq!(pool.handle().fate(id), Fate::Failed);
        } else {
            model.until(|model| model.has_run(0));
        }
        assert_ne!(model.has_run(0), cancelled);
    };
    check(2, policy(1), life, nothing_is_counted_twice);
}

/// A worker that was just started is called by a second poster, while the first one is still in the middle of starting it.
fn grows() {
    let life = |model: &Model, pool: &Pool<Jobs>| {
        post(pool.handle(), 0, Does::Waits);
        model.until(|model| model.has_run(0));
        let other = pool.handle().clone();
        let other = thread::spawn(move || post(&other, 2, Does::Nothing));
        // Late by a second, and nobody sleeps: one more worker is started.
        pool.handle().post(Posting::new((1, Does::Nothing), 0)).expect("room");
        model.until(|model| model.has_run(1) && model.has_run(2));
        other.join().unwrap();
    };
    let growing = Policy { workers_min: 1, ..policy(2) };
    check(2, growing, life, nothing_is_counted_twice);
}

#[test]
fn a_worker_can_be_called_as_soon_as_it_can_sleep() {
    grows();
}

fn closes() {
    let life = |model: &Model, pool: &Pool<Jobs>| {
        let other = pool.handle().clone();
        let job = (0, Does::Waits);
        drop(thread::spawn(move || drop(other.post(Posting::new(job, NOW)))));
        model.until(|model| model.has_run(0));
    };
    check(1, policy(2), life, nothing_is_counted_twice);
}

#[test]
fn a_pool_that_is_closed_ends_its_workers_whoever_posts() {
    closes();
}
