//! Posters that do not pause.

use schedlab_pool::{Options, Pool, Refusal, current_worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Lets posters post until `enough` jobs are done while they post; what was done then, what was posted in all.
fn storm(posters: usize, workers: usize, backlog: usize, enough: u64) -> (u64, u64) {
    crate::machine_lock::share();
    let pool = Pool::start(Options::new(workers).backlog_max(backlog)).expect("threads");
    let done = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let mut while_posting = 0;
    let posted = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..posters)
            .map(|_| {
                scope.spawn(|| {
                    let mut posted = 0;
                    while !stop.load(Relaxed) {
                        let done = Arc::clone(&done);
                        let job = move || {
                            done.fetch_add(1, Relaxed);
                        };
                        // With and without a handle in turn.
                        let why = match posted % 2 {
                            0 => pool.spawn(job).err().map(|refused| refused.why),
                            _ => pool.post(job).err().map(|refused| refused.why),
                        };
                        match why {
                            None => posted += 1,
                            Some(why) => {
                                assert_eq!(why, Refusal::Full);
                                std::thread::yield_now();
                            }
                        }
                    }
                    posted
                })
            })
            .collect();
        let begun = Instant::now();
        // If posting stops work, this does not end before its patience.
        while while_posting < enough && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
            while_posting = done.load(Relaxed);
        }
        stop.store(true, Relaxed);
        threads.into_iter().map(|t| t.join().expect("no panic")).sum::<u64>()
    });
    pool.wait(Duration::MAX).expect("drained");
    assert_eq!(done.load(Relaxed), posted, "each job runs once");
    let report = pool.stop(Duration::MAX);
    assert_eq!((report.counts.posted, report.counts.done), (posted, posted));
    (while_posting, posted)
}

#[test]
fn jobs_are_done_while_posters_post_without_a_pause() {
    for (posters, workers) in [(1, 1), (1, 2), (2, 2), (8, 4)] {
        let (done, posted) = storm(posters, workers, 1 << 20, 20_000);
        assert!(done >= 20_000, "{posters} posters, {workers} workers: {done} of {posted}");
    }
}

#[test]
fn a_full_backlog_slows_posters_and_not_workers() {
    let (done, posted) = storm(2, 2, 100, 5_000);
    assert!(done >= 5_000, "{done} of {posted}");
}

#[test]
fn a_job_beside_jobs_that_post_themselves_for_ever_runs() {
    fn again(pool: &schedlab_pool::Spawner<'static>, stop: &Arc<AtomicBool>) {
        if !stop.load(Relaxed) {
            let (own, stop) = (pool.clone(), Arc::clone(stop));
            pool.spawn(move || again(&own, &stop)).expect("room");
        }
    }
    let pool = Pool::start(Options::new(1)).expect("threads");
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..2 {
        again(&pool, &stop);
    }
    for number in 0..100 {
        let value = pool.spawn(move || number).expect("room").wait();
        assert_eq!(value.expect("a value"), number);
    }
    stop.store(true, Relaxed);
    pool.wait(Duration::MAX).expect("drained");
}

#[test]
fn many_small_jobs_wake_sleeping_workers_each_time() {
    let pool = Pool::start(Options::new(2)).expect("threads");
    for round in 0..2000 {
        assert!(pool.spawn(current_worker).expect("room").wait().expect("a value").is_some());
        if round % 4 == 0 {
            // Long enough for the workers to go to sleep.
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}
