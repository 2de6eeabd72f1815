//! Threads that post single jobs as fast as an executor takes them.

use schedlab_pool::{Options, Pool};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The pool first.
pub(crate) const PEERS: [&str; 3] = ["schedlab-pool", "rayon", "tokio"];

/// Posts an empty job that counts itself; false if there is no room.
pub(crate) type Post = Box<dyn Fn(&Arc<AtomicU64>) -> bool + Send + Sync>;

/// An executor by its name.
pub(crate) fn executor(name: &str, workers: usize) -> Post {
    match name {
        "rayon" => {
            let pool =
                rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("threads");
            Box::new(move |done| {
                let done = Arc::clone(done);
                pool.spawn(move || {
                    done.fetch_add(1, Relaxed);
                });
                true
            })
        }
        "tokio" => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(workers)
                .build()
                .expect("threads");
            Box::new(move |done| {
                let done = Arc::clone(done);
                runtime.spawn(async move { done.fetch_add(1, Relaxed) });
                true
            })
        }
        _ => {
            let pool = Pool::start(Options::new(workers)).expect("threads");
            Box::new(move |done| {
                let done = Arc::clone(done);
                let job = move || {
                    done.fetch_add(1, Relaxed);
                };
                pool.post(job).is_ok()
            })
        }
    }
}

/// Jobs done and jobs posted while posters post for `length`, and how often there was no room.
#[expect(clippy::disallowed_methods, reason = "a benchmark ends if it gets no thread")]
pub(crate) fn storm(name: &str, posters: usize, workers: usize, length: Duration) -> [f64; 3] {
    let post = executor(name, workers);
    let done = Arc::new(AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    let counted = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..posters)
            .map(|_| {
                scope.spawn(|| {
                    let (mut posted, mut refused) = (0u64, 0u64);
                    while !stop.load(Relaxed) {
                        if post(&done) {
                            posted += 1;
                        } else {
                            refused += 1;
                            std::thread::yield_now();
                        }
                    }
                    (posted, refused)
                })
            })
            .collect();
        std::thread::sleep(length);
        let while_posting = done.load(Relaxed);
        stop.store(true, Relaxed);
        let mut sums = [while_posting as f64, 0.0, 0.0];
        for thread in threads {
            let (posted, refused) = thread.join().expect("no panic");
            sums[1] += posted as f64;
            sums[2] += refused as f64;
        }
        sums
    });
    while done.load(Relaxed) < counted[1] as u64 {
        std::thread::sleep(Duration::from_micros(200));
    }
    counted
}
