//! Starts, deadlines, criticality.

use schedlab_pool::{Criticality, JobError, JobState, Late, Options, Pool, Request};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// A pool with one worker that is busy until the sender goes.
fn busy(options: Options) -> (Pool, mpsc::Sender<()>) {
    let pool = Pool::start(options).expect("threads");
    let (release, wait) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let blocker = move || {
        begun.send(()).expect("the caller waits");
        let _ = wait.recv();
    };
    pool.spawn(blocker).expect("room");
    begins.recv().expect("it runs");
    (pool, release)
}

#[test]
fn due_jobs_run_in_order_of_criticality_deadline_and_posting() {
    let (pool, release) = busy(Options::new(1));
    let order = Arc::new(Mutex::new(Vec::new()));
    let now = Instant::now();
    let post = |name: &'static str, deadline_s: u64, criticality| {
        let order = Arc::clone(&order);
        let deadline = now + Duration::from_secs(deadline_s);
        let request = Request::new().deadline(deadline).criticality(criticality);
        let job = move || order.lock().expect("no panic").push(name);
        drop(pool.spawn_with(request, job).expect("room"));
    };
    post("late", 900, Criticality::Normal);
    post("early", 100, Criticality::Optional);
    post("must, late", 800, Criticality::Compulsory);
    post("early too", 100, Criticality::Normal);
    post("must", 700, Criticality::Compulsory);
    drop(release);
    pool.wait(Duration::MAX).expect("drained");
    let order = order.lock().expect("no panic");
    assert_eq!(*order, ["must", "must, late", "early", "early too", "late"]);
}

#[test]
fn a_deadline_is_passed_on_to_what_the_job_waits_for() {
    let (pool, release) = busy(Options::new(1));
    let order = Arc::new(Mutex::new(Vec::new()));
    let job = |name: &'static str| {
        let order = Arc::clone(&order);
        move || order.lock().expect("no panic").push(name)
    };
    let now = Instant::now();
    let at = |seconds| now + Duration::from_secs(seconds);
    let other = Request::new().deadline(at(500));
    pool.spawn_with(other, job("other")).expect("room");
    let decode = pool.spawn(job("decode")).expect("room");
    let filter = pool.spawn_with(Request::new().after(&decode), job("filter")).expect("room");
    // Only now does anybody hear of a deadline.
    let encode = Request::new().after(&filter).deadline(at(400));
    pool.spawn_with(encode, job("encode")).expect("room");
    drop(release);
    pool.wait(Duration::MAX).expect("drained");
    assert_eq!(*order.lock().expect("no panic"), ["decode", "filter", "encode", "other"]);
}

#[test]
fn a_late_job_runs_is_dropped_or_shed_as_the_pool_says() {
    let past = Instant::now();
    let ends = |late| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&told);
        let hook = move |job: schedlab_pool::LateJob| {
            hears.lock().expect("no panic").push((job.criticality, job.late));
        };
        let (pool, release) = busy(Options::new(1).late(late).on_late(hook));
        std::thread::sleep(Duration::from_millis(1));
        let post = |criticality, request: Request<'static>| {
            pool.spawn_with(request.criticality(criticality), || ()).expect("room")
        };
        let late = || Request::new().latest_start(past);
        let handles = [
            post(Criticality::Compulsory, late()),
            post(Criticality::Normal, late()),
            post(Criticality::Optional, Request::new()),
        ];
        drop(release);
        pool.wait(Duration::MAX).expect("drained");
        let counts = pool.counts();
        assert_eq!(counts.late_starts, 2);
        assert_eq!(told.lock().expect("no panic").len(), 2);
        handles.map(|handle| match handle.wait() {
            Ok(()) => "ran",
            Err(JobError::NoValue(JobState::TooLate)) => "too late",
            Err(JobError::NoValue(JobState::Shed)) => "shed",
            Err(_) => "another error",
        })
    };
    assert_eq!(ends(Late::Run), ["ran", "ran", "ran"]);
    assert_eq!(ends(Late::Drop), ["too late", "too late", "ran"]);
    assert_eq!(ends(Late::Shed), ["ran", "too late", "shed"]);
}

#[test]
fn a_job_that_ends_after_its_deadline_is_counted_once() {
    let pool = Pool::start(Options::new(1)).expect("threads");
    let deadline = Instant::now() + Duration::from_millis(20);
    let long = move || {
        while Instant::now() <= deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    pool.spawn_with(Request::new().deadline(deadline), long).expect("room").wait().expect("it ran");
    pool.spawn_with(Request::new().deadline(deadline), || ()).expect("room");
    pool.wait(Duration::MAX).expect("drained");
    let counts = pool.counts();
    assert_eq!((counts.done, counts.late_starts, counts.ended_late), (2, 1, 1));
}

#[test]
fn no_job_starts_before_its_time_and_sleepers_wake_for_it() {
    let pool = Pool::start(Options::new(2)).expect("threads");
    let begun = Instant::now();
    let handles: Vec<_> = (0..100u64)
        .map(|number| {
            let start = begun + Duration::from_micros(1000 + (number * 7919) % 20_000);
            let request = Request::new().start(start);
            pool.spawn_with(request, move || Instant::now() >= start).expect("room")
        })
        .collect();
    assert!(handles.into_iter().all(|handle| handle.wait().expect("a value")));
}
