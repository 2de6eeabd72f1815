//! The pool beside rayon and tokio, in interleaved rounds of the same run: ratios with their 95 % intervals.
//!
//! `cargo bench -p schedlab-pool --bench peers [-- ROUNDS [POSTERS WORKERS]]`

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod common;
#[path = "common/storm.rs"]
mod storm;

use common::{median, ratios};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use storm::{PEERS, executor, storm};

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
