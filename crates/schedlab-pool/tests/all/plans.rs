//! Plans and dependencies.

use schedlab_pool::{JobError, JobState, Options, Pool, Refusal, Request};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn pool(workers: usize) -> Pool {
    Pool::start(Options::new(workers)).expect("threads")
}

/// A release build takes the long way: `cargo test -p schedlab-pool --release --test all plans::`.
const fn usual_or_long(usual: usize, long: usize) -> usize {
    if cfg!(debug_assertions) { usual } else { long }
}

/// Why a plan is not taken.
fn why(plan: schedlab_pool::Plan<'static>) -> Option<Refusal> {
    plan.post().err().map(|refused| refused.why)
}

#[test]
fn a_link_out_of_range_and_a_cycle_are_errors_before_anything_is_taken() {
    let pool = pool(2);
    let mut plan = pool.plan();
    let alone = plan.add(Request::new(), || ());
    plan.link(0, 17);
    assert_eq!(why(plan), Some(Refusal::NoSuchJob(17)));
    assert!(matches!(alone.wait(), Err(JobError::NoValue(JobState::Cancelled))));
    let mut plan = pool.plan();
    for _ in 0..3 {
        plan.add(Request::new(), || ());
    }
    plan.link(0, 1);
    plan.link(1, 2);
    plan.link(2, 1);
    assert_eq!(why(plan), Some(Refusal::Cycle(1)));
    let mut plan = pool.plan();
    plan.add(Request::new(), || ());
    plan.link(0, 0);
    assert_eq!(why(plan), Some(Refusal::Cycle(0)));
    pool.wait(Duration::ZERO).expect("nothing was taken");
    assert_eq!(pool.stop(Duration::MAX).counts.posted, 0);
}

#[test]
fn jobs_of_a_plan_run_in_the_order_of_its_links() {
    let pool = pool(2);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut plan = pool.plan();
    for number in 0..100 {
        let order = Arc::clone(&order);
        plan.add(Request::new(), move || order.lock().expect("no panic").push(number));
    }
    (1..100).for_each(|number| plan.link(number, number - 1));
    plan.post().expect("room");
    pool.wait(Duration::MAX).expect("drained");
    assert_eq!(*order.lock().expect("no panic"), (0..100).rev().collect::<Vec<_>>());
}

#[test]
fn a_request_comes_after_jobs_inside_and_outside_of_its_plan() {
    let pool = pool(2);
    let outside = pool.spawn(|| 1).expect("room");
    let mut plan = pool.plan();
    let inside = plan.add(Request::new(), || 2);
    let not_posted = pool.spawn_with(Request::new().after(&inside), || ());
    assert_eq!(not_posted.expect_err("it would wait for ever").why, Refusal::NotPosted);
    let request = Request::new().after(&outside).after(&inside);
    let last = plan.add(request, || 3);
    plan.post().expect("room");
    assert_eq!(last.wait().expect("a value"), 3);
    assert!(inside.state() == JobState::Done && outside.state() == JobState::Done);
}

#[test]
fn a_job_of_a_plan_that_was_cancelled_before_drops_its_dependents_and_counts_add_up() {
    let pool = pool(1);
    let mut plan = pool.plan();
    let first = plan.add(Request::new(), || ());
    let then = plan.add(Request::new(), || ());
    plan.link(0, 1);
    assert!(first.cancel());
    plan.post().expect("room");
    assert!(matches!(then.wait(), Err(JobError::NoValue(JobState::DependencyFailed))));
    pool.wait(Duration::MAX).expect("drained");
    let counts = pool.stop(Duration::MAX).counts;
    assert_eq!((counts.posted, counts.cancelled, counts.dependency_failed), (2, 1, 1));
}

#[test]
fn a_fan_out_and_a_fan_in_of_many_edges_end() {
    const JOBS: usize = usual_or_long(100_000, 3_000_000);
    let pool = pool(2);
    let ran = Arc::new(AtomicUsize::new(0));
    let mut plan = pool.plan();
    plan.add(Request::new(), || ());
    for job in 1..=JOBS {
        let ran = Arc::clone(&ran);
        plan.add(Request::new(), move || ran.fetch_add(1, Relaxed));
        plan.link(0, job);
        plan.link(job, JOBS + 1);
    }
    let seen = Arc::clone(&ran);
    let last = plan.add(Request::new(), move || seen.load(Relaxed));
    plan.post().expect("room");
    assert_eq!(last.wait().expect("a value"), JOBS);
}

#[test]
fn cancelling_the_head_of_a_long_chain_drops_all_of_it() {
    const JOBS: usize = 200_000;
    let pool = pool(1);
    let mut plan = pool.plan();
    let request = Request::new().start(Instant::now() + Duration::from_secs(3600));
    let first = plan.add(request, || ());
    for job in 1..JOBS {
        plan.add(Request::new(), || ());
        plan.link(job - 1, job);
    }
    plan.post().expect("room");
    while !first.cancel() {
        // It is posted, so this ends as soon as it is cancelled.
    }
    pool.wait(Duration::MAX).expect("drained");
    let counts = pool.stop(Duration::MAX).counts;
    assert_eq!(counts.dependency_failed, JOBS as u64 - 1);
}

#[test]
fn random_plans_cancels_panics_posters_and_stops_lose_no_job() {
    for round in 0..usual_or_long(60, 10_000) as u64 {
        let pool = pool(1 + (round % 4) as usize);
        let ran = Arc::new(AtomicU64::new(0));
        std::thread::scope(|scope| {
            for poster in 0..3u64 {
                let (pool, ran) = (pool.clone(), Arc::clone(&ran));
                scope.spawn(move || post_at_random(&pool, &ran, round * 97 + poster + 1));
            }
            if round % 3 == 0 {
                pool.close();
            }
        });
        if round % 3 == 1 {
            pool.wait(Duration::from_secs(60)).expect("all jobs end");
        }
        let report = pool.stop(Duration::from_secs(60));
        assert_eq!(report.stuck, Vec::<usize>::new(), "round {round}");
        let counts = report.counts;
        assert_eq!(counts.posted, counts.ended(), "round {round}: {counts:?}");
    }
}

fn post_at_random(pool: &schedlab_pool::Spawner<'static>, ran: &Arc<AtomicU64>, seed: u64) {
    let mut state = seed;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut last: Option<schedlab_pool::Handle<'static, u64>> = None;
    for _ in 0..60 {
        let count = Arc::clone(ran);
        let job = move || count.fetch_add(1, Relaxed);
        let soon = Instant::now() + Duration::from_nanos(random() % 200_000);
        let after = || last.iter().fold(Request::new(), |request, job| request.after(job));
        match random() % 6 {
            0 => last = pool.spawn_with(Request::new().start(soon), job).ok().or(last),
            1 => {
                let mut plan = pool.plan();
                let jobs = 1 + random() % 20;
                let mut handles = vec![plan.add(after().deadline(soon), job.clone())];
                for number in 1..jobs {
                    handles.push(plan.add(Request::new(), job.clone()));
                    plan.link((random() % number) as usize, number as usize);
                }
                if plan.post().is_ok() && random() % 3 == 0 {
                    handles[(random() % jobs) as usize].cancel();
                }
                last = handles.pop();
            }
            2 => drop(pool.spawn(|| std::panic::resume_unwind(Box::new(())))),
            3 => {
                let how = random() % 3;
                let deferred = move |completion: schedlab_pool::Completion<'static, u64>| {
                    std::thread::spawn(move || match how {
                        0 => completion.complete(1),
                        _ => drop(completion),
                    });
                };
                last = pool.spawn_deferred(after(), deferred).ok().or(last);
            }
            4 => {
                let own = pool.clone();
                let posts = move || (0..3).filter(|_| own.spawn(|| ()).is_ok()).count() as u64;
                last = pool.spawn(posts).ok().or(last);
            }
            _ => drop(last.as_ref().map(|last| pool.state(last.id()))),
        }
    }
}
