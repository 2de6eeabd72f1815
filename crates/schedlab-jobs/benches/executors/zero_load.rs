//! Jobs of no length: the executor's own cost.

use super::mark::Middle;
use super::{executors, graph};
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::Shape;
use schedlab_jobs::profile::Profile;
use schedlab_jobs::run::{Clock, NoWork, Run, Schedule};
use std::sync::Arc;

/// Microseconds a job.
fn cost(executor: &mut dyn Executor, nodes: u32) -> f64 {
    let (work, clock) = (Box::new(NoWork), Clock::start());
    let run = Run::new(graph(Shape::Isolated, nodes), Schedule::default(), work, clock);
    let run = Arc::new(run);
    executor.run(&run).expect("the run ends");
    run.verify().expect("every job ran once");
    Profile::of(&run, executor.workers()).covered_ns as f64 / f64::from(nodes) / 1000.0
}

/// Each executor in turns.
pub(super) fn measure(repeats: usize) {
    for workers in [1, 2] {
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
    }
}
