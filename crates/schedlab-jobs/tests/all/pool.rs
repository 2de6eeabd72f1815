//! Claims about the pool of lumiera: what happens to jobs that panic, hang or come too late.

use schedlab_jobs::policy::{Counts, Criticality, Emergency, Plan, Policy, Posting};
use schedlab_jobs::pool::{
    Closure, Closures, Completion, Context, Flow, Options, Pool, PostError, Runner,
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
        context.pool().plan(plan).unwrap();
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
    kept.lock().unwrap().take().unwrap().end(true);
    assert!(pool.handle().wait(LONG));
    assert_eq!(then.load(Ordering::Relaxed), 1);
    assert_eq!(pool.stop(LONG).counts.done, 2);
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

struct Keeps(Arc<Gate>);

impl Runner for Keeps {
    /// Whether it keeps the worker.
    type Job = bool;

    fn run(&self, keeps: bool, _: &mut Context<'_, Self>) -> Flow {
        if keeps {
            self.0.keep();
        }
        Flow::Done
    }
}

fn overload(emergency: Emergency) -> Counts {
    let policy = Policy { emergency, tick_ns: 2_000_000, ..Policy::new(1) };
    let gate = Arc::<Gate>::default();
    let options = Options { policy, ..Options::new(1) };
    let runner = Keeps(Arc::clone(&gate));
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
    counts
}

#[test]
fn a_missed_compulsory_job_is_an_emergency_that_does_not_block() {
    for (emergency, done, shed, missed) in
        [(Emergency::Shed, 3, 1, 0), (Emergency::RunLate, 4, 0, 0), (Emergency::Drop, 3, 0, 1)]
    {
        let Counts { done: did, shed: were_shed, missed: late, emergencies, .. } =
            overload(emergency);
        assert_eq!((did, were_shed, late, emergencies), (done, shed, missed, 1), "{emergency:?}");
    }
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
    let other = Arc::new(());
    let its = Arc::clone(&other);
    pool.handle().post(job(move || drop(its))).unwrap();
    until(|| Arc::strong_count(&other) == 1);
    assert!(!pool.handle().wait(Duration::from_millis(50)));
    // The other worker only sleeps, and comes back unless the machine stalls for as long as that.
    let report = pool.stop(Duration::from_secs(times(2, 3)));
    assert_eq!((report.counts.done, report.counts.ended()), (1, 1));
    assert!((1..=2).contains(&report.stuck), "{report:?}");
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
    assert!(matches!(kept.post(Posting::new((), 0)), Err(PostError::Closed)));
    drop(kept);
    until(|| gone.strong_count() == 0);
}

#[test]
fn a_job_that_fails_ends_once_and_its_dependents_are_dropped() {
    let returns: fn(&mut Context<'_, Closures>) -> Flow = |_| Flow::Failed;
    let told: fn(&mut Context<'_, Closures>) -> Flow = |context| {
        context.completion().end(false);
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
        // What is planned after a job that has ended badly is dropped as well.
        let mut later = Plan::default();
        let after = later.add(job(|| panic!("its predecessor failed")));
        later.after(ids[0], after);
        pool.handle().plan(later).unwrap();
        assert!(pool.handle().wait(LONG));
        let counts = pool.stop(LONG).counts;
        assert_eq!((counts.failed, counts.panicked, counts.abandoned), (failed, panicked, 2));
        assert_eq!((counts.done, counts.ended()), (0, 3));
    }
}

#[test]
fn what_is_planned_after_a_job_that_has_ended_well_runs() {
    let pool = pool(1);
    let handle = pool.handle();
    let mut plan = Plan::default();
    plan.add(job(|| {}));
    let ids = handle.plan(plan).unwrap();
    assert!(handle.wait(LONG));
    // Its place is used again meanwhile.
    handle.post(job(|| {})).unwrap();
    assert!(handle.wait(LONG));
    let mut plan = Plan::default();
    let then = plan.add(job(|| {}));
    plan.after(ids[0], then);
    handle.plan(plan).unwrap();
    assert!(handle.wait(LONG));
    assert_eq!(pool.stop(LONG).counts.done, 3);
}

#[test]
fn a_pool_of_one_outlives_a_start_that_panics() {
    let on_start: schedlab_jobs::pool::OnStart =
        Arc::new(|_| std::panic::resume_unwind(Box::new("on purpose")));
    let options = Options { on_start: Some(on_start), ..Options::new(1) };
    let pool = Pool::start(Closures, options, Clock::start()).unwrap();
    pool.handle().post(job(|| {})).unwrap();
    assert!(pool.handle().wait(LONG));
    let report = pool.stop(LONG);
    assert_eq!((report.counts.done, report.stuck), (1, 0));
}
