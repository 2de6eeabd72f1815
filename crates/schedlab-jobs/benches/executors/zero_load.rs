//! Jobs of no length: the executor's own cost.

use super::mark::{Middle, mark};
use super::{executors, graph};
use schedlab_jobs::adaptors::Lumiera;
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::Shape;
use schedlab_jobs::pool::Options;
use schedlab_jobs::profile::Profile;
use schedlab_jobs::run::{Clock, Nothing, Run, Schedule};
use std::sync::Arc;

/// Events kept per worker where the trace is on.
const EVENTS: usize = 1 << 20;

/// Microseconds a job.
fn cost(executor: &mut dyn Executor, nodes: u32) -> f64 {
    let (work, clock) = (Box::new(Nothing), Clock::start());
    let run = Run::new(graph(Shape::Isolated, nodes), Schedule::default(), work, clock);
    let run = Arc::new(run);
    executor.run(&run).expect("the run ends");
    run.verify().expect("every job ran once");
    Profile::of(&run, executor.workers()).covered_ns as f64 / f64::from(nodes) / 1000.0
}

/// Each executor in turns.
pub(super) fn measure(repeats: usize) {
    for (workers, bound) in [(1, 0.25), (2, 0.5)] {
        println!("zero load, independent jobs, {workers} workers: us per job");
        let mut all = executors(workers, workers > 1);
        for nodes in [1_000, 100_000] {
            let mut costs = vec![Vec::new(); all.len()];
            for _ in 0..repeats {
                for ((_, executor), costs) in all.iter_mut().zip(&mut costs) {
                    costs.push(cost(executor.as_mut(), nodes));
                }
            }
            for ((name, _), costs) in all.iter().zip(costs) {
                println!("  {name:16} {nodes:>7} jobs {}", Middle::of(costs));
            }
        }
        let mut traced = Lumiera::new(Options { events: EVENTS, ..Options::new(workers) });
        let costs = (0..2 * repeats).map(|_| cost(&mut traced, 100_000)).collect();
        let what = format!("zero load, {workers} workers, trace on, us per job");
        mark(&what, Middle::of(costs), bound, true);
    }
    instrumentation(repeats);
}

/// The pool's own trace, on against off, in turns, each first as often as second.
fn instrumentation(repeats: usize) {
    let cost = |events| cost(&mut Lumiera::new(Options { events, ..Options::new(1) }), 100_000);
    let ratio = |pair: usize| {
        if pair.is_multiple_of(2) {
            let on = cost(EVENTS);
            on / cost(0)
        } else {
            let off = cost(0);
            cost(EVENTS) / off
        }
    };
    let pairs = 5 * repeats;
    let ratios = Middle::of((0..pairs).map(ratio).collect());
    println!("trace on against off, 1 worker, {pairs} pairs: {ratios}");
}
