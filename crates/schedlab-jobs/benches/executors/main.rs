//! The marks of the pool, each beside peers or a bound in the same run: time per job without load, the smallest job at
//! which half of the time is work (METG), concurrency, breaking point, lateness. One line `mark` each, with its verdict;
//! under three minutes on an idle machine: `cargo bench -p schedlab-jobs --bench executors --features rayon,tokio --
//! 10`. The number is that of repeats; names (zero-load, grain, concurrency, break, lateness, feasible, pairs, empty)
//! choose some of them. `pairs` takes a minute, `empty` is a part of it; these and `feasible` are measured only if they
//! are named.
#![expect(clippy::print_stdout, reason = "a benchmark's figures are its result")]

mod breaking;
mod concurrency;
mod feasible;
mod grain;
mod lateness;
mod mark;
mod pairs;
mod zero_load;

use schedlab_jobs::adaptors::{ChannelThreads, PoolExecutor, RayonScope, TokioTasks};
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::{Graph, Rules, Shape};
use schedlab_jobs::policy::Cpus;
use schedlab_jobs::pool::binding;
use schedlab_jobs::stealing::Stealing;

/// A part by its name, and what measures it with so many repeats.
type Section = (&'static str, fn(usize));

/// Parts that are measured only if they are named.
const NAMED: [&str; 3] = ["pairs", "empty", "feasible"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let repeats = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(10).max(5);
    let sections: [Section; 8] = [
        ("zero-load", zero_load::measure),
        ("grain", |repeats| grain::measure(repeats.min(7))),
        ("concurrency", concurrency::measure),
        ("break", |_| breaking::measure(3)),
        ("lateness", |_| lateness::measure(3)),
        ("feasible", feasible::measure),
        ("pairs", pairs::measure),
        ("empty", pairs::measure_empty),
    ];
    let chosen = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = !sections.iter().any(|(name, _)| chosen(name));
    for (name, measure) in sections {
        if (all && !NAMED.contains(&name)) || chosen(name) {
            measure(repeats);
        }
    }
}

/// schedlab first, bound as it is by default; the others as their users have them, and bound in the same way.
fn executors(workers: usize, bound_too: bool) -> Vec<(String, Box<dyn Executor>)> {
    let mut all: Vec<(String, Box<dyn Executor>)> =
        vec![("schedlab".to_owned(), Box::new(ours(workers)))];
    for (cpus, note) in [(Cpus::Any, ""), (Cpus::Own, ", bound")] {
        if cpus == Cpus::Own && !bound_too {
            break;
        }
        let bind = binding(&cpus, workers);
        let others: [Box<dyn Executor>; 3] = [
            Box::new(RayonScope::start_with(workers, &bind).expect("threads")),
            Box::new(TokioTasks::start_with(workers, &bind).expect("threads")),
            Box::new(ChannelThreads::start_with(workers, &bind).expect("threads")),
        ];
        all.extend(others.map(|other| (other.name() + note, other)));
    }
    all
}

/// As `schedlab jobs` has it.
fn ours(workers: usize) -> PoolExecutor {
    let bind = binding(&Cpus::Own, workers);
    PoolExecutor::new(workers, move |worker| bind(worker)).stealing(Stealing::WherePossible)
}

fn graph(shape: Shape, nodes: u32) -> Graph {
    shape.build(&Rules { nodes, fan: 16, ..Rules::default() })
}
