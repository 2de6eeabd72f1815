//! The pool beside rayon and tokio, in interleaved rounds of the same run: ratios with their 95 % intervals.
//!
//! `cargo bench -p schedlab-pool --bench peers [-- ROUNDS [POSTERS WORKERS]]`

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints what it measured, and ends if it gets no thread"
)]

use schedlab_pool::{Options, Pool};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PEERS: [&str; 3] = ["schedlab-pool", "rayon", "tokio"];

/// Posts an empty job that counts itself; false if there is no room.
type Post = Box<dyn Fn(&Arc<AtomicU64>) -> bool + Send + Sync>;

fn executor(name: &str, workers: usize) -> Post {
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
fn storm(name: &str, posters: usize, workers: usize, length: Duration) -> [f64; 3] {
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

/// Nanoseconds a job, from the first spawn until all have ended.
fn burst(name: &str, workers: usize, jobs: u64) -> f64 {
    let post = executor(name, workers);
    let done = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    for _ in 0..jobs {
        while !post(&done) {
            std::thread::yield_now();
        }
    }
    while done.load(Relaxed) < jobs {
        std::hint::spin_loop();
    }
    begun.elapsed().as_nanos() as f64 / jobs as f64
}

/// The median of ratios, and the order statistics that hold it with 95 %.
fn ratios(of: &[f64], to: &[f64]) -> String {
    let mut ratios: Vec<f64> = of.iter().zip(to).map(|(a, b)| a / b).collect();
    ratios.sort_by(f64::total_cmp);
    let count = ratios.len() as f64;
    let off = (0.98 * count.sqrt()) as usize;
    let middle = ratios.len() / 2;
    let low = ratios[middle.saturating_sub(off)];
    let high = ratios[(middle + off).min(ratios.len() - 1)];
    format!("{:.2} ({low:.2} to {high:.2})", ratios[middle])
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn main() {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let rounds = given.first().copied().unwrap_or(30);
    let sizes = match given[..] {
        [_, posters, workers] => vec![(posters, workers)],
        _ => vec![(1, 1), (1, 2), (2, 1), (2, 2), (4, 4), (8, 8)],
    };
    println!(
        "Storms of posters, {rounds} rounds of 0.25 s: medians, and ratios of schedlab-pool to its peer."
    );
    for (posters, workers) in sizes {
        let mut all = [const { Vec::new() }; 3];
        for round in 0..rounds {
            for turn in 0..PEERS.len() {
                let peer = (turn + round) % PEERS.len();
                all[peer].push(storm(PEERS[peer], posters, workers, Duration::from_millis(250)));
            }
        }
        let column = |peer: usize, at: usize| all[peer].iter().map(|s| s[at]).collect::<Vec<_>>();
        println!("{posters} posters, {workers} workers:");
        for (peer, name) in PEERS.iter().enumerate() {
            let (done, posted) = (median(&column(peer, 0)), median(&column(peer, 1)));
            let refused = median(&column(peer, 2));
            println!("  {name:14} done {done:9.0}, posted {posted:9.0}, refused {refused:.0}");
        }
        for (peer, name) in PEERS.iter().enumerate().skip(1) {
            let done = ratios(&column(0, 0), &column(peer, 0));
            let posted = ratios(&column(0, 1), &column(peer, 1));
            println!("  to {name}: done {done}, posted {posted}");
        }
    }
    let mut costs = [const { Vec::new() }; 3];
    for round in 0..rounds {
        for turn in 0..PEERS.len() {
            let peer = (turn + round) % PEERS.len();
            costs[peer].push(burst(PEERS[peer], 2, 200_000));
        }
    }
    println!("Independent jobs without handles (tokio has one), 2 workers, 200,000 a round:");
    for (name, ns) in PEERS.iter().zip(&costs) {
        let ratio = ratios(&costs[0], ns);
        println!("  {name:14} {:6.0} ns a job; schedlab-pool to it {ratio}", median(ns));
    }
}
