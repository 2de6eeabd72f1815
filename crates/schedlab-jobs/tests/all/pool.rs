//! Claims about the pool: what happens to jobs that panic, hang, are cancelled or come too late.

use schedlab_jobs::policy::{
    Criticality, Emergency, Fate, Notice, Plan, Policy, Posting, StreamId,
};
use schedlab_jobs::pool::{
    Closure, Closures, Completion, Context, Flow, Handle, Options, Pool, PostError, Runner,
};
use schedlab_jobs::run::Clock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// More than anything here takes, also under Miri, where a second of the pool's clock is a few thousand steps.
const LONG: Duration = Duration::from_secs(if cfg!(miri) { 3_600 } else { 60 });

/// How often something is done: as often under Miri would take an hour, and few times show the same accesses.
const fn times(usual: u64, under_miri: u64) -> u64 {
    if cfg!(miri) { under_miri } else { usual }
}

/// Waits for what another thread does, however long that takes.
fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn pool(workers: usize) -> Pool<Closures> {
    Pool::start(Closures, Options::new(workers), Clock::start()).expect("threads")
}

fn job(f: impl FnOnce() + Send + 'static) -> Posting<Closure> {
    Posting::new(Box::new(move |_| (f(), Flow::Done).1), 0)
}

#[test]
fn a_panic_is_contained_and_its_dependents_are_dropped() {
    let pool = pool(2);
    let ran = Arc::new(AtomicU32::new(0));
    let mut plan = Plan::default();
    let bad = plan.add(job(|| std::panic::resume_unwind(Box::new("on purpose"))));
    for _ in 0..3 {
        let ran = Arc::clone(&ran);
        let next = plan.add(job(move || {
            ran.fetch_add(1, Ordering::Relaxed);
        }));
        plan.link(bad, next);
    }
    let free = Arc::clone(&ran);
    plan.add(job(move || {
        free.fetch_add(100, Ordering::Relaxed);
    }));
    pool.handle().plan(plan).unwrap();
    assert!(pool.handle().wait(LONG));
    let counts = pool.stop(LONG).counts;
    assert_eq!((counts.done, counts.panicked, counts.abandoned), (1, 1, 3));
    assert_eq!(ran.load(Ordering::Relaxed), 100);
}

#[test]
fn a_planning_job_posts_more_that_depend_on_what_runs() {
    let pool = pool(2);
    let ran = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&ran);
    let planning: Closure = Box::new(move |context| {
        let mut plan = Plan::default();
        let mut last = None;
        for _ in 0..50 {
            let ran = Arc::clone(&counted);
            let next = plan.add(job(move || {
                ran.fetch_add(1, Ordering::Relaxed);
            }));
            if let Some(last) = last.replace(next) {
                plan.link(last, next);
            }
        }
        context.plan(plan).unwrap();
        Flow::Done
    });
    pool.handle().post(Posting::new(planning, 0)).unwrap();
    assert!(pool.handle().wait(LONG));
    assert_eq!(ran.load(Ordering::Relaxed), 50);
    assert_eq!(pool.stop(LONG).counts.done, 51);
}

#[test]
fn an_asynchronous_job_ends_when_it_is_told() {
    let pool = pool(1);
    let kept: Arc<Mutex<Option<Completion<Closures>>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let mut plan = Plan::default();
    let asking: Closure = Box::new(move |context| {
        *keep.lock().unwrap() = Some(context.completion());
        Flow::Pending
    });
    let first = plan.add(Posting::new(asking, 0));
    let then = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&then);
    let second = plan.add(job(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    plan.link(first, second);
    pool.handle().plan(plan).unwrap();
    until(|| kept.lock().unwrap().is_some());
    assert!(!pool.handle().wait(Duration::from_millis(30)));
    assert_eq!(then.load(Ordering::Relaxed), 0);
    kept.lock().unwrap().take().unwrap().complete();
    assert!(pool.handle().wait(LONG));
    assert_eq!(then.load(Ordering::Relaxed), 1);
    assert_eq!(pool.stop(LONG).counts.done, 2);
}

#[test]
fn a_stream_switched_off_loses_its_jobs_and_their_dependents() {
    let pool = pool(1);
    let far = pool.handle().now() + 3_600_000_000_000;
    let mut plan = Plan::default();
    let mut of =
        |stream, start| plan.add(Posting { stream: StreamId(stream), start, ..job(|| {}) });
    let (first, _) = (of(7, far), of(0, 0));
    let dependent = of(0, 0);
    plan.link(first, dependent);
    let ids = pool.handle().plan(plan).unwrap();
    assert_eq!(pool.handle().switch_off(StreamId(7)), 2);
    assert!(pool.handle().wait(LONG));
    assert!(!pool.handle().cancel(ids[0]), "it is gone already");
    let counts = pool.stop(LONG).counts;
    assert_eq!((counts.done, counts.cancelled, counts.abandoned), (1, 1, 1));
}

#[test]
fn a_full_backlog_gives_the_posting_back() {
    let policy = Policy { backlog_max: 2, ..Policy::new(1) };
    let options = Options { policy, ..Options::new(1) };
    let pool = Pool::start(Closures, options, Clock::start()).unwrap();
    let far = pool.handle().now() + 3_600_000_000_000;
    let later = || Posting { start: far, ..job(|| {}) };
    let mut plan = Plan::default();
    (0..3).for_each(|_| {
        plan.add(later());
    });
    assert!(matches!(pool.handle().plan(plan), Err(PostError::Full(plan)) if plan.len() == 3));
    pool.handle().post(later()).unwrap();
    pool.handle().post(later()).unwrap();
    assert!(matches!(pool.handle().post(later()), Err(PostError::Full(_))));
    let report = pool.stop(LONG);
    assert_eq!(
        (report.counts.posted, report.counts.ended()),
        (2, 0),
        "what was refused is not counted"
    );
}

/// Lets a job keep its worker until the test has seen that it began, and what else it waits for.
#[derive(Default)]
struct Gate {
    begun: AtomicU32,
    open: AtomicU32,
}

impl Gate {
    fn keep(&self) {
        self.begun.store(1, Ordering::Release);
        until(|| self.open.load(Ordering::Acquire) > 0);
    }

    /// Opens it once that time has come on the pool's clock.
    fn open_after<R: Runner>(&self, pool: &Pool<R>, time: u64) {
        until(|| pool.handle().now() > time);
        self.open.store(1, Ordering::Release);
    }
}

struct Told(Arc<Mutex<Vec<Notice>>>, Arc<Gate>);

impl Runner for Told {
    /// Whether it keeps the worker.
    type Job = bool;

    fn run(&self, keeps: bool, _: &mut Context<'_, Self>) -> Flow {
        if keeps {
            self.1.keep();
        }
        Flow::Done
    }

    fn notice(&self, notice: Notice, _: &Handle<Self>) {
        self.0.lock().expect("no panics").push(notice);
    }
}

fn overload(emergency: Emergency) -> (schedlab_jobs::policy::Counts, Vec<Notice>) {
    let policy = Policy { emergency, tick_ns: 2_000_000, ..Policy::new(1) };
    let (told, gate) = (Arc::default(), Arc::<Gate>::default());
    let options = Options { policy, ..Options::new(1) };
    let runner = Told(Arc::clone(&told), Arc::clone(&gate));
    let pool = Pool::start(runner, options, Clock::start()).expect("threads");
    // The first keeps the only worker until the compulsory one has missed its deadline.
    pool.handle().post(Posting::new(true, 0)).expect("room");
    until(|| gate.begun.load(Ordering::Acquire) > 0);
    let now = pool.handle().now();
    let mut plan = Plan::default();
    let compulsory = Posting::new(false, now + 1).deadline(now + 1_000_000);
    plan.add(Posting { criticality: Criticality::Compulsory, ..compulsory });
    plan.add(Posting { criticality: Criticality::Optional, ..Posting::new(false, now + 2) });
    plan.add(Posting::new(false, now + 3));
    pool.handle().plan(plan).expect("room");
    gate.open_after(&pool, now + 1_000_000);
    assert!(pool.handle().wait(LONG), "{emergency:?}: the head must not block");
    let counts = pool.stop(LONG).counts;
    assert_eq!(counts.ended(), 4);
    (counts, std::mem::take(&mut *told.lock().expect("no panics")))
}

#[test]
fn a_missed_compulsory_job_is_an_emergency_that_does_not_block() {
    for (emergency, done, shed, missed) in
        [(Emergency::Shed, 3, 1, 0), (Emergency::RunLate, 4, 0, 0), (Emergency::Drop, 3, 0, 1)]
    {
        let (counts, notices) = overload(emergency);
        assert_eq!(
            (counts.done, counts.shed, counts.missed),
            (done, shed, missed),
            "{emergency:?}"
        );
        assert!(matches!(notices[0], Notice::Emergency { late_ns: 1.., .. }), "{notices:?}");
    }
}

/// Answers an emergency by switching off the stream that is told apart by its number.
struct Reacts(AtomicU32, Arc<Gate>);

impl Runner for Reacts {
    /// Whether it keeps the worker.
    type Job = bool;

    fn run(&self, keeps: bool, _: &mut Context<'_, Self>) -> Flow {
        if keeps {
            self.1.keep();
        }
        Flow::Done
    }

    fn notice(&self, notice: Notice, pool: &Handle<Self>) {
        if let Notice::Emergency { stream, .. } = notice {
            assert_eq!(stream, StreamId(1), "the notice names the stream of the late job");
            self.0.fetch_add(pool.switch_off(StreamId(5)) as u32, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_callback_can_answer_an_emergency_by_pausing_a_stream() {
    let gate = Arc::<Gate>::default();
    let runner = Reacts(AtomicU32::new(0), Arc::clone(&gate));
    let pool = Pool::start(runner, Options::new(1), Clock::start()).unwrap();
    // The first keeps the only worker until the compulsory one is late; the others of stream 5 are far away.
    pool.handle().post(Posting::new(true, 0)).unwrap();
    until(|| gate.begun.load(Ordering::Acquire) > 0);
    let now = pool.handle().now();
    let mut plan = Plan::default();
    let late =
        Posting { stream: StreamId(1), ..Posting::new(false, now + 1).deadline(now + 1_000_000) };
    plan.add(Posting { criticality: Criticality::Compulsory, ..late });
    for _ in 0..7 {
        plan.add(Posting { stream: StreamId(5), ..Posting::new(false, now + 3_600_000_000_000) });
    }
    pool.handle().plan(plan).unwrap();
    gate.open_after(&pool, now + 1_000_000);
    assert!(pool.handle().wait(LONG), "seven jobs in an hour are no longer waited for");
    // It can be switched on again: later jobs of it run.
    pool.handle().switch_on(StreamId(5));
    pool.handle().post(Posting { stream: StreamId(5), ..Posting::new(false, 0) }).unwrap();
    assert!(pool.handle().wait(LONG));
    let counts = pool.stop(LONG).counts;
    assert_eq!((counts.done, counts.emergencies, counts.cancelled), (3, 1, 7));
}

#[test]
fn a_stuck_job_ends_in_a_report() {
    let pool = pool(2);
    let (release, stuck) = std::sync::mpsc::channel::<()>();
    let begun = Arc::new(AtomicU32::new(u32::MAX));
    let begins = Arc::clone(&begun);
    let stay: Closure = Box::new(move |context| {
        begins.store(context.worker() as u32, Ordering::Relaxed);
        let _ = stuck.recv();
        Flow::Done
    });
    pool.handle().post(Posting::new(stay, 0)).unwrap();
    until(|| begun.load(Ordering::Relaxed) < u32::MAX);
    pool.handle().post(job(|| {})).unwrap();
    until(|| pool.handle().counts().done == 1);
    assert!(!pool.handle().wait(Duration::from_millis(50)));
    // The other worker only sleeps, and comes back unless the machine stalls for as long as that.
    let report = pool.stop(Duration::from_secs(times(2, 3)));
    let stuck: Vec<usize> = report.stuck.iter().map(|(worker, _)| *worker).collect();
    assert_eq!(report.counts.done, 1);
    assert!(stuck.contains(&(begun.load(Ordering::Relaxed) as usize)), "{stuck:?}");
    let away = (0..2).filter(|&worker| report.workers[worker].is_none());
    assert_eq!(away.collect::<Vec<_>>(), stuck, "who has no report is who is stuck");
    // Miri wants every thread to have ended.
    let ended = Arc::downgrade(&begun);
    drop((release, begun));
    until(|| ended.strong_count() == 0);
}

/// Counts how many of it there are.
struct Present(Arc<()>);

impl Runner for Present {
    type Job = ();

    fn run(&self, (): (), _: &mut Context<'_, Self>) -> Flow {
        assert!(Arc::strong_count(&self.0) > 0);
        Flow::Done
    }
}

#[test]
fn a_pool_that_is_dropped_ends_its_workers() {
    let present = Arc::new(());
    let gone = Arc::downgrade(&present);
    let pool = Pool::start(Present(present), Options::new(3), Clock::start()).unwrap();
    pool.handle().post(Posting::new((), 0)).unwrap();
    assert!(pool.handle().wait(LONG));
    let kept = pool.handle().clone();
    drop(pool);
    assert!(matches!(kept.post(Posting::new((), 0)), Err(PostError::Closed(_))));
    drop(kept);
    until(|| gone.strong_count() == 0);
}

#[test]
fn memory_is_flat_when_jobs_come_and_go() {
    let pool = pool(2);
    let mut blocks = Vec::new();
    // Under Miri each posting takes long on the clock, and time that passes takes epochs.
    let (rounds, jobs) = (times(40, 4), times(500, 10));
    for _ in 0..rounds {
        for _ in 0..jobs {
            let deadline = pool.handle().now() + times(1, 3_600) * 1_000_000_000;
            pool.handle().post(Posting { deadline, ..job(|| {}) }).unwrap();
        }
        assert!(pool.handle().wait(LONG));
        blocks.push(pool.handle().memory().0);
    }
    assert!(blocks.iter().all(|&blocks| blocks <= 8), "{blocks:?}");
    assert_eq!(pool.stop(LONG).counts.done, rounds * jobs);
}

#[test]
fn a_job_that_fails_ends_once_and_its_dependents_are_dropped() {
    let returns: fn(&mut Context<'_, Closures>) -> Flow = |_| Flow::Failed;
    let told: fn(&mut Context<'_, Closures>) -> Flow = |context| {
        context.completion().fail();
        Flow::Pending
    };
    let dropped: fn(&mut Context<'_, Closures>) -> Flow = |context| {
        drop(context.completion());
        Flow::Pending
    };
    let nobody: fn(&mut Context<'_, Closures>) -> Flow = |_| Flow::Pending;
    let panics: fn(&mut Context<'_, Closures>) -> Flow = |context| {
        let _completion = context.completion();
        std::panic::resume_unwind(Box::new("input failed"))
    };
    for (fails, failed, panicked) in
        [(returns, 1, 0), (told, 1, 0), (dropped, 1, 0), (nobody, 1, 0), (panics, 0, 1)]
    {
        let pool = pool(2);
        let mut plan = Plan::default();
        let first = plan.add(Posting::new(Box::new(fails) as Closure, 0));
        let then = plan.add(job(|| panic!("its predecessor failed")));
        plan.link(first, then);
        let ids = pool.handle().plan(plan).unwrap();
        assert!(pool.handle().wait(LONG));
        assert!(ids.iter().all(|&id| pool.handle().fate(id) == Fate::Failed));
        let counts = pool.stop(LONG).counts;
        assert_eq!((counts.failed, counts.panicked, counts.abandoned), (failed, panicked, 1));
        assert_eq!((counts.done, counts.ended()), (0, 2));
    }
}

#[test]
fn a_posted_job_can_be_depended_on_and_cancelled_by_its_id() {
    let pool = pool(1);
    let handle = pool.handle();
    let far = handle.now() + 3_600_000_000_000;
    let waits = handle.post(Posting { start: far, ..job(|| {}) }).unwrap();
    let mut plan = Plan::default();
    let then = plan.add(job(|| {}));
    plan.after(waits, then);
    handle.plan(plan).unwrap();
    assert_eq!(handle.fate(waits), Fate::Live);
    assert!(handle.cancel(waits) && !handle.cancel(waits));
    assert!(handle.wait(LONG));
    let done = handle.post(job(|| {})).unwrap();
    assert!(handle.wait(LONG));
    assert_eq!((handle.fate(waits), handle.fate(done)), (Fate::Failed, Fate::Done));
    // What is planned after a job that has ended goes by how that one ended.
    let ran = Arc::new(AtomicU32::new(0));
    for from in [waits, done] {
        let ran = Arc::clone(&ran);
        let mut plan = Plan::default();
        let then = plan.add(job(move || {
            ran.fetch_add(1, Ordering::Relaxed);
        }));
        plan.after(from, then);
        handle.plan(plan).unwrap();
    }
    assert!(handle.wait(LONG));
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    let counts = pool.stop(LONG).counts;
    assert_eq!((counts.done, counts.cancelled, counts.abandoned), (2, 1, 2));
}

/// Its notice panics.
struct Careless;

impl Runner for Careless {
    type Job = ();

    fn run(&self, (): (), _: &mut Context<'_, Self>) -> Flow {
        Flow::Done
    }

    fn notice(&self, _: Notice, _: &Handle<Self>) {
        std::panic::resume_unwind(Box::new("on purpose"));
    }
}

#[test]
fn a_pool_of_one_outlives_a_notice_and_a_start_that_panic() {
    let on_start: schedlab_jobs::pool::OnStart =
        Arc::new(|_| std::panic::resume_unwind(Box::new("on purpose")));
    let options = Options { on_start: Some(on_start), ..Options::new(1) };
    let pool = Pool::start(Careless, options, Clock::start()).unwrap();
    until(|| pool.handle().now() > 1_000);
    let late = Posting::new((), 0).deadline(pool.handle().now() - 1);
    pool.handle().post(Posting { criticality: Criticality::Compulsory, ..late }).unwrap();
    assert!(pool.handle().wait(LONG));
    pool.handle().post(Posting::new((), 0)).unwrap();
    assert!(pool.handle().wait(LONG));
    let report = pool.stop(LONG);
    assert_eq!(report.counts.done, 2);
    // The start, the emergency, and perhaps the calm after it.
    assert!(report.workers[0].as_ref().expect("it came back").notice_panics >= 2);
}

/// A job that posts another one when it is dropped.
struct Posts(Option<Handle<Closures>>);

impl Drop for Posts {
    fn drop(&mut self) {
        let handle = self.0.take().expect("once");
        handle.post(job(|| {})).expect("the pool takes it");
    }
}

#[test]
fn a_job_that_is_dropped_may_post_others_and_panic() {
    let pool = pool(1);
    let far = pool.handle().now() + 3_600_000_000_000;
    let posts = Posts(Some(pool.handle().clone()));
    let kept: Closure = Box::new(move |_| {
        let _posts = &posts;
        Flow::Done
    });
    let id = pool.handle().post(Posting::new(kept, far)).unwrap();
    assert!(pool.handle().cancel(id));
    assert!(pool.handle().wait(LONG));
    let counts = pool.stop(LONG).counts;
    assert_eq!((counts.cancelled, counts.done), (1, 1));
}
