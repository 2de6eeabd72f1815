//! The executors beside each other, in one run: time per job without load, and the smallest job at which
//! half of the time is work (METG), as ratios with intervals. `cargo bench -p schedlab-jobs --bench executors
//! --features rayon,tokio [-- REPEATS]`.
#![expect(clippy::print_stdout, reason = "a benchmark's figures are its result")]

use schedlab_jobs::adaptors::{ChannelThreads, Ours, RayonScope, TokioTasks};
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::{Graph, Rules, Shape};
use schedlab_jobs::load::{Burner, Kind};
use schedlab_jobs::pool::Options;
use schedlab_jobs::profile::Profile;
use schedlab_jobs::rig::metg;
use schedlab_jobs::run::{Clock, Nothing, Run, Schedule};
use std::sync::Arc;

fn main() {
    let repeats = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(15);
    for workers in [1, 2] {
        zero_load(workers, repeats);
    }
    instrumentation(repeats);
    for shape in [Shape::Isolated, Shape::Stencil] {
        grains(shape, repeats.min(7));
    }
}

fn executors(workers: usize) -> Vec<Box<dyn Executor>> {
    vec![
        Box::new(Ours::new(Options::new(workers))),
        Box::new(RayonScope::start(workers).expect("threads")),
        Box::new(TokioTasks::start(workers).expect("threads")),
        Box::new(ChannelThreads::start(workers)),
    ]
}

fn graph(shape: Shape, nodes: u32) -> Graph {
    shape.build(&Rules { nodes, fan: 16, ..Rules::default() })
}

fn zero_load(workers: usize, repeats: usize) {
    println!("zero load, independent jobs, {workers} workers: us per job (best, median)");
    for mut executor in executors(workers) {
        for nodes in [1_000, 100_000] {
            let mut costs: Vec<f64> = (0..repeats)
                .map(|_| {
                    let graph = graph(Shape::Isolated, nodes);
                    let (work, clock) = (Box::new(Nothing), Clock::start());
                    let run = Arc::new(Run::new(graph, Schedule::default(), work, clock));
                    executor.run(&run).expect("the run ends");
                    run.verify().expect("every job ran once");
                    Profile::of(&run, workers).covered_ns as f64 / f64::from(nodes) / 1000.0
                })
                .collect();
            costs.sort_by(f64::total_cmp);
            let name = executor.name();
            println!("  {name:10} {nodes:>7} jobs {:8.3} {:8.3}", costs[0], costs[repeats / 2]);
        }
    }
}

/// The pool's own trace, on against off, in turns, each first as often as second; the median of many pairs, with
/// its 95 % interval by order statistics.
fn instrumentation(repeats: usize) {
    let cost = |events| {
        let mut ours = Ours::new(Options { events, ..Options::new(1) });
        let graph = graph(Shape::Isolated, 100_000);
        let (work, clock) = (Box::new(Nothing), Clock::start());
        let run = Arc::new(Run::new(graph, Schedule::default(), work, clock));
        ours.run(&run).expect("the run ends");
        Profile::of(&run, 1).covered_ns as f64
    };
    let pairs = 9 * repeats;
    let mut ratios: Vec<f64> = (0..pairs)
        .map(|pair| {
            let (first, second) = if pair % 2 == 0 { (1 << 20, 0) } else { (0, 1 << 20) };
            let (first, second) = (cost(first), cost(second));
            if pair % 2 == 0 { first / second } else { second / first }
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    // The ranks between which the median of so many lies: binomial, by its normal approximation.
    let away = (0.98 * (pairs as f64).sqrt()).ceil() as usize;
    let middle = pairs / 2;
    let (low, high) = (middle.saturating_sub(away), (middle + away).min(pairs - 1));
    println!(
        "trace on against off, 1 worker, {pairs} pairs: {:.3} [{:.3}, {:.3}]",
        ratios[middle], ratios[low], ratios[high]
    );
}

/// METG of each executor, interleaved; ratios to ours per round, so that a slow moment hits all alike.
fn grains(shape: Shape, repeats: usize) {
    let workers = 2;
    let burner = Burner::calibrate_at(Kind::Cpu, workers);
    let graph = graph(shape, 4_000);
    let mut all = executors(workers);
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); all.len()];
    for _ in 0..repeats {
        for (executor, found) in all.iter_mut().zip(&mut found) {
            let grain = metg(executor.as_mut(), &graph, burner, 0.5).expect("the runs end");
            found.push(grain.unwrap_or(f64::INFINITY));
        }
    }
    println!(
        "METG at 50 %, {shape}, {workers} workers: ns (median), ratio of ours (median, range)"
    );
    for (executor, theirs) in all.iter().zip(&found) {
        let mut ratios: Vec<f64> = found[0].iter().zip(theirs).map(|(o, t)| o / t).collect();
        let mut theirs = theirs.clone();
        ratios.sort_by(f64::total_cmp);
        theirs.sort_by(f64::total_cmp);
        let middle = repeats / 2;
        println!(
            "  {:10} {:8.0} {:6.2} [{:.2}, {:.2}]",
            executor.name(),
            theirs[middle],
            ratios[middle],
            ratios[0],
            ratios[repeats - 1]
        );
    }
}
