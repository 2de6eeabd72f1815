//! Cases in which pools go wrong.

use schedlab_pool::{JobError, JobState, Options, Pool, Refusal, Request};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

fn pool(workers: usize) -> Pool {
    Pool::start(Options::new(workers)).expect("threads")
}

fn in_an_hour() -> Request<'static> {
    Request::new().start(Instant::now() + Duration::from_secs(3600))
}

#[test]
fn the_longest_duration_waits() {
    let pool = pool(1);
    pool.spawn(|| ()).expect("room");
    pool.wait(Duration::MAX).expect("drained");
    assert_eq!(pool.stop(Duration::MAX).counts.done, 1);
}

#[test]
fn no_worker_means_one_for_each_cpu() {
    assert!(pool(0).load().workers >= 1);
}

/// Binding is Linux's, and Miri has none.
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn a_cpu_that_is_not_there_is_an_error_of_the_start() {
    for cpu in [1_000, 1_000_000] {
        let why = Pool::start(Options::new(2).cpus(vec![cpu])).map(drop).expect_err("no such CPU");
        assert!(why.to_string().contains(&format!("CPU {cpu}")), "{why}");
        let scoped = Pool::scoped(Options::new(2).cpus(vec![cpu]), |_| ());
        assert!(scoped.is_err());
    }
}

#[test]
fn full_means_the_backlog_and_the_function_comes_back() {
    let pool = Pool::start(Options::new(1).backlog_max(1)).expect("threads");
    let first = pool.spawn_with(in_an_hour(), || 1).expect("the first has room");
    let refused = pool.spawn(|| 2).expect_err("the second has none");
    assert_eq!((refused.why, (refused.what)()), (Refusal::Full, 2));
    assert!(first.cancel());
    assert_eq!(pool.spawn(|| 3).expect("room again").wait().expect("a value"), 3);
}

/// Says when it is dropped.
struct Noted(Arc<AtomicBool>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_stop_drops_a_job_that_holds_its_pool_and_its_own_handle_and_wakes_its_waiter() {
    let pool = pool(1);
    let dropped = Arc::new(AtomicBool::new(false));
    let (noted, own) = (Noted(Arc::clone(&dropped)), pool.clone());
    let itself = Arc::new(std::sync::Mutex::new(None));
    let held = Arc::clone(&itself);
    let job = move || drop((noted, own, held));
    let handle = pool.spawn_with(in_an_hour(), job).expect("room");
    let then = pool.spawn_with(Request::new().after(&handle), || ()).expect("room");
    *itself.lock().expect("no panic") = Some(handle);
    drop(itself);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| then.wait());
        let counts = pool.stop(Duration::MAX).counts;
        assert_eq!((counts.posted, counts.ended(), counts.cancelled), (2, 2, 1));
        assert!(waiter.join().expect("no panic").is_err());
    });
    assert!(dropped.load(SeqCst), "the job's own state is dropped");
}

#[test]
fn a_job_that_waits_for_a_later_one_of_its_burst_is_served() {
    let pool = pool(4);
    (0..20_000).for_each(|_| drop(pool.spawn(|| ()).expect("room")));
    pool.wait(Duration::MAX).expect("drained");
    let (send, receive) = mpsc::channel();
    let mut plan = pool.plan();
    let waits = plan.add(Request::new(), move || receive.recv_timeout(Duration::from_secs(60)));
    (0..4).for_each(|_| drop(plan.add(Request::new(), || ())));
    plan.add(Request::new(), move || send.send(()).expect("it waits"));
    (0..400).for_each(|_| drop(plan.add(Request::new(), || ())));
    plan.post().expect("room");
    waits.wait().expect("no panic").expect("another worker took the job that sends");
}

#[test]
fn a_stuck_worker_is_reported_and_what_depends_on_its_job_is_cancelled() {
    let pool = pool(2);
    let (release, wait) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let stuck = pool.spawn(move || {
        begun.send(()).expect("the test waits");
        let _ = wait.recv();
    });
    let stuck = stuck.expect("room");
    begins.recv().expect("it runs");
    let then = pool.spawn_with(Request::new().after(&stuck), || ()).expect("room");
    let report = pool.stop(Duration::from_millis(20));
    assert_eq!(report.stuck.len(), 1);
    assert!(matches!(then.wait(), Err(JobError::NoValue(JobState::Cancelled))));
    drop(release);
    stuck.wait().expect("it ended after all");
}

#[test]
fn many_pools_stop_at_once() {
    let ran = Arc::new(AtomicUsize::new(0));
    let pools: Vec<_> = (0..100).map(|_| pool(2)).collect();
    for pool in &pools {
        for _ in 0..10 {
            let ran = Arc::clone(&ran);
            pool.spawn(move || ran.fetch_add(1, SeqCst)).expect("room");
        }
    }
    pools.iter().for_each(|pool| pool.wait(Duration::MAX).expect("drained"));
    assert_eq!(ran.load(SeqCst), 1000);
    pools.iter().for_each(|pool| pool.close());
    for pool in pools {
        let report = pool.stop(Duration::MAX);
        assert!(report.stuck.is_empty());
        assert_eq!(report.counts.done, 10);
    }
}

#[test]
fn posting_during_a_stop_is_refused_or_cancelled_and_never_lost() {
    for _ in 0..20 {
        let pool = pool(2);
        let own = pool.clone();
        let posted = std::thread::scope(|scope| {
            let poster = scope.spawn(move || {
                let mut posted = 0;
                while let Ok(_job) = own.spawn(|| ()) {
                    posted += 1;
                }
                (posted, own)
            });
            std::thread::sleep(Duration::from_millis(1));
            pool.close();
            poster.join().expect("no panic")
        });
        posted.1.wait(Duration::from_secs(60)).expect("nothing is left");
        let counts = posted.1.counts();
        assert_eq!((counts.posted, counts.ended()), (posted.0, posted.0));
    }
}

#[test]
fn a_job_of_a_stream_that_was_switched_off_does_not_run_even_if_the_stream_is_on_again() {
    let pool = pool(1);
    let soon = Instant::now() + Duration::from_millis(20);
    let old = pool.spawn_with(Request::new().stream(2).start(soon), || ()).expect("room");
    let other = pool.spawn_with(Request::new().stream(1).start(soon), || ()).expect("room");
    pool.switch_off(2);
    let off = pool.spawn_with(Request::new().stream(2), || ()).expect("room");
    assert!(matches!(off.wait(), Err(JobError::NoValue(JobState::Cancelled))));
    pool.switch_on(2);
    let new = pool.spawn_with(Request::new().stream(2), || ()).expect("room");
    new.wait().expect("the stream is on");
    assert!(matches!(old.wait(), Err(JobError::NoValue(JobState::Cancelled))));
    other.wait().expect("its stream was on");
}
