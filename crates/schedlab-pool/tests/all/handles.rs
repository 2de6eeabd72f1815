//! Values, panics, cancellation, waiting inside jobs, borrowing jobs.

use schedlab_pool::{Completion, JobError, JobState, Options, Pool, Request, WaitError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

fn pool(workers: usize) -> Pool {
    Pool::start(Options::new(workers)).expect("threads")
}

fn in_an_hour() -> Request<'static> {
    Request::new().start(Instant::now() + Duration::from_secs(3600))
}

#[test]
fn a_handle_gives_the_value_or_the_panic() {
    let pool = pool(2);
    assert_eq!(pool.spawn(|| "text".to_owned()).expect("room").wait().expect("a value"), "text");
    let panicked = pool.spawn(|| std::panic::resume_unwind(Box::new(7u32))).expect("room");
    let after = pool.spawn_with(Request::new().after(&panicked), || ()).expect("room");
    match panicked.wait() {
        Err(JobError::Panicked(payload)) => assert_eq!(payload.downcast_ref(), Some(&7u32)),
        other => panic!("{other:?}"),
    }
    assert!(matches!(after.wait(), Err(JobError::NoValue(JobState::DependencyFailed))));
    let counts = pool.stop(Duration::MAX).counts;
    assert_eq!((counts.done, counts.panicked, counts.dependency_failed), (1, 1, 1));
}

#[test]
fn a_job_without_a_handle_runs_and_its_panic_is_counted() {
    let pool = pool(2);
    let ran = Arc::new(AtomicU64::new(0));
    for number in 0..100 {
        let (own, ran) = (pool.clone(), Arc::clone(&ran));
        let inside = move || {
            ran.fetch_add(1, Relaxed);
            assert!(number % 10 > 0, "on purpose");
        };
        // Half of them from inside a job.
        match number % 2 {
            0 => pool.post(inside).expect("room"),
            _ => pool.post(move || own.post(inside).expect("room")).expect("room"),
        }
    }
    pool.wait(Duration::MAX).expect("drained");
    let counts = pool.stop(Duration::MAX).counts;
    assert_eq!((ran.load(Relaxed), counts.panicked, counts.done), (100, 10, 140));
}

#[test]
fn a_cancelled_job_and_its_dependents_do_not_run() {
    let pool = pool(1);
    let first = pool.spawn_with(in_an_hour(), || ()).expect("room");
    let then = pool.spawn_with(Request::new().after(&first), || ()).expect("room");
    let id = first.id();
    assert_eq!(pool.state(id), JobState::Waiting);
    assert!(pool.cancel(id) && !pool.cancel(id), "the second time there is nothing to cancel");
    assert!(matches!(first.wait(), Err(JobError::NoValue(JobState::Cancelled))));
    assert!(matches!(then.wait(), Err(JobError::NoValue(JobState::DependencyFailed))));
    assert_eq!(pool.state(id), JobState::Ended);
    pool.wait(Duration::ZERO).expect("nothing is left");
}

#[test]
fn an_id_is_never_that_of_a_later_job_at_the_same_place() {
    let pool = pool(1);
    let old = pool.spawn_with(in_an_hour(), || ()).expect("room");
    let id = old.id();
    assert!(old.cancel());
    let new = pool.spawn_with(in_an_hour(), || ()).expect("room");
    assert_eq!(new.id().place, id.place, "the place is used again");
    assert_eq!((pool.state(id), pool.cancel(id)), (JobState::Ended, false));
    assert_eq!(pool.state(new.id()), JobState::Waiting);
}

#[test]
fn waiting_inside_a_job_runs_other_jobs() {
    let pool = pool(1);
    let own = pool.clone();
    let tree = pool.spawn(move || sum(&own, 0, 64)).expect("room");
    assert_eq!(tree.wait().expect("a value"), (0..64).sum());
}

fn sum(pool: &schedlab_pool::Spawner<'static>, from: u64, to: u64) -> u64 {
    if to - from == 1 {
        return from;
    }
    let middle = from.midpoint(to);
    let own = pool.clone();
    let left = pool.spawn(move || sum(&own, from, middle)).expect("room");
    let right = sum(pool, middle, to);
    left.wait().expect("a value") + right
}

#[test]
fn beyond_the_depth_limit_a_wait_blocks_its_own_worker_and_the_load_says_so() {
    let pool = Pool::start(Options::new(1).depth_max(1)).expect("threads");
    let (first, second) = (pool.clone(), pool.clone());
    // The outer job runs the inner one while it waits; the inner one may not run the innermost.
    let outer = pool.spawn(move || {
        let inner = move || second.spawn(|| ()).expect("room").wait().is_ok();
        first.spawn(inner).expect("room").wait().is_ok()
    });
    while pool.load().blocked == 0 {
        std::thread::yield_now();
    }
    assert_eq!(pool.load().blocked, 1);
    let report = pool.stop(Duration::MAX);
    assert!(report.stuck.is_empty(), "the innermost job was cancelled, so all went on");
    assert!(outer.expect("room").wait().expect("a value"), "the inner job ended well");
}

#[test]
fn a_job_that_waits_for_what_does_not_come_counts_as_blocked() {
    let pool = pool(1);
    let own = pool.clone();
    let waits = move || own.spawn_with(in_an_hour(), || ()).expect("room").wait().is_err();
    let waits = pool.spawn(waits).expect("room");
    while pool.load().blocked == 0 {
        std::thread::yield_now();
    }
    assert!(pool.stop(Duration::MAX).stuck.is_empty());
    assert!(waits.wait().expect("the stop cancelled what it waits for"));
}

/// Panics when it goes, without a message.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("a drop"));
    }
}

#[test]
fn a_value_that_panics_when_it_goes_and_a_hook_that_panics_end_no_worker() {
    fn panics<T>(_: T) {
        std::panic::resume_unwind(Box::new("a hook"));
    }
    let options = Options::new(1).on_start(panics).on_late(panics);
    let pool = Pool::start(options).expect("threads");
    for _ in 0..2 {
        // Nobody holds the handle when the value is there, so it goes on the worker.
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let after = move || {
            let _ = held.recv();
            Bomb
        };
        drop(pool.spawn(after).expect("room"));
        drop(hold);
        let late = Request::new().deadline(Instant::now());
        assert_eq!(pool.spawn_with(late, || 7).expect("room").wait().expect("a value"), 7);
    }
    pool.wait(Duration::MAX).expect("all end");
    let report = pool.stop(Duration::MAX);
    assert_eq!((report.counts.done, report.counts.late_starts, report.stuck.len()), (4, 2, 0));
}

#[test]
fn waiting_for_the_pool_inside_a_job_is_an_error() {
    let pool = pool(2);
    let own = pool.clone();
    let inside = pool.spawn(move || own.wait(Duration::MAX)).expect("room");
    assert_eq!(inside.wait().expect("a value"), Err(WaitError::InsideJob));
}

#[test]
fn jobs_of_a_scoped_pool_borrow() {
    let numbers: Vec<u64> = (0..1000).collect();
    let sum = AtomicU64::new(0);
    let (numbers, total) = (&numbers, &sum);
    let last = Pool::scoped(Options::new(2), |pool| {
        for chunk in numbers.chunks(10) {
            let add = move || total.fetch_add(chunk.iter().sum(), Relaxed);
            pool.spawn(add).expect("room");
        }
        pool.spawn(|| numbers.last().copied()).expect("room").wait().expect("a value")
    });
    assert_eq!(last.expect("threads"), Some(999));
    assert_eq!(sum.load(Relaxed), (0..1000).sum(), "all jobs ended before the call returned");
}

#[test]
fn a_deferred_job_ends_with_its_completion() {
    let pool = pool(1);
    let (send, receive) = std::sync::mpsc::channel::<Completion<'static, u32>>();
    let mut handles = Vec::new();
    for _ in 0..3 {
        let send = send.clone();
        let pass_on = move |completion| drop(send.send(completion));
        handles.push(pool.spawn_deferred(Request::new(), pass_on).expect("room"));
    }
    let after = pool.spawn_with(Request::new().after(&handles[0]), || ()).expect("room");
    let completions: Vec<_> = (0..3).map(|_| receive.recv().expect("all jobs run")).collect();
    assert!(handles.iter().all(|handle| handle.state() == JobState::Running));
    let mut completions = completions.into_iter();
    completions.next().expect("three").complete(5);
    drop(completions.next());
    drop(completions);
    let mut results = handles.into_iter().map(schedlab_pool::Handle::wait);
    assert_eq!(results.next().expect("three").expect("a value"), 5);
    assert!(matches!(results.next(), Some(Err(JobError::NoValue(JobState::Failed)))));
    assert!(
        matches!(results.next(), Some(Err(JobError::NoValue(JobState::Failed)))),
        "dropped without a word"
    );
    after.wait().expect("its predecessor ended well");
}

#[test]
fn a_stop_ends_jobs_whose_completion_is_never_told() {
    let pool = pool(1);
    let kept = Arc::new(std::sync::Mutex::new(None));
    let keep = Arc::clone(&kept);
    let job = pool
        .spawn_deferred(Request::new(), move |completion: Completion<'static, ()>| {
            *keep.lock().expect("no panic") = Some(completion);
        })
        .expect("room");
    let after = pool.spawn_with(Request::new().after(&job), || ()).expect("room");
    while kept.lock().expect("no panic").is_none() {
        std::thread::yield_now();
    }
    let counts = pool.stop(Duration::MAX).counts;
    assert_eq!(counts.posted, counts.ended());
    assert!(matches!(job.wait(), Err(JobError::NoValue(JobState::Cancelled))));
    assert!(after.wait().is_err());
}
