//! METG at 50 % and the cost of an empty job, in pairs of ours and another executor: planning counts on both sides.
//!
//! METG counts our planning in full, and rayon's spawns only from its first job on. So the ratio flatters rayon.
//! Each pair measures both executors right after each other, and takes turns in which one goes first. The verdict goes by
//! the upper end of the interval of the median of the ratios.

use super::mark::{Middle, mark_upper};
use super::{graph, ours};
use schedlab_jobs::adaptors::{Lumiera, RayonScope};
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::Shape;
use schedlab_jobs::load::{Burner, Kind, Length};
use schedlab_jobs::policy::Cpus;
use schedlab_jobs::pool::{Options, binding};
use schedlab_jobs::profile::Profile;
use schedlab_jobs::rig::{Jobs, metg};
use schedlab_jobs::run::{Clock, NoWork, Run, Schedule};
use std::sync::Arc;

/// Fewer give no narrow interval.
const PAIRS_MIN: usize = 30;
/// Jobs of a run whose jobs are empty.
const EMPTY_JOBS: u32 = 100_000;

pub(super) fn measure(repeats: usize) {
    grains(repeats.max(PAIRS_MIN));
    measure_empty(repeats);
}

pub(super) fn measure_empty(repeats: usize) {
    for workers in [1, 2] {
        empty_jobs(workers, repeats.max(PAIRS_MIN));
    }
}

/// Rayon as its users have it, rayon bound to CPUs as our workers are, and our pool without stealing; whether the mark
/// is against it.
fn others(workers: usize) -> [(&'static str, Box<dyn Executor>, bool); 3] {
    let rayon = |cpus: Cpus| -> Box<dyn Executor> {
        Box::new(RayonScope::start_with(workers, &binding(&cpus, workers)).expect("threads"))
    };
    [
        ("rayon", rayon(Cpus::Any), true),
        ("rayon, bound", rayon(Cpus::Own), true),
        ("one token", Box::new(Lumiera::new(Options::new(workers))), false),
    ]
}

/// The same figure of both, in turns.
fn in_pairs(
    pairs: usize,
    theirs: &mut dyn Executor,
    figure: impl Fn(&mut dyn Executor) -> f64,
    workers: usize,
) -> Vec<(f64, f64)> {
    let mut ours = ours(workers);
    let pair = |number: usize| {
        if number.is_multiple_of(2) {
            let our = figure(&mut ours);
            (our, figure(theirs))
        } else {
            let their = figure(theirs);
            (figure(&mut ours), their)
        }
    };
    (0..pairs).map(pair).collect()
}

fn middle(of: impl Iterator<Item = f64>) -> Middle {
    Middle::of(of.collect())
}

fn grains(pairs: usize) {
    let workers = 2;
    let burner = Burner::calibrate_at(Kind::Cpu, workers);
    for shape in [Shape::Stencil, Shape::Tree, Shape::Isolated] {
        let graph = graph(shape, 4_000);
        let (length, stop) = (Length::Fixed, (|| false) as fn() -> bool);
        let jobs = Jobs { graph: &graph, burner, length, data_bytes: 0, stop };
        let grain = |executor: &mut dyn Executor| {
            metg(executor, &jobs, 0.5).expect("the runs end").unwrap_or(f64::INFINITY)
        };
        for (name, mut other, marked) in others(workers) {
            let found = in_pairs(pairs, other.as_mut(), grain, workers);
            println!(
                "METG at 50 %, {shape}, {workers} workers, {pairs} pairs: ours {} ns, {name} {} ns",
                middle(found.iter().map(|pair| pair.0)),
                middle(found.iter().map(|pair| pair.1)),
            );
            let ratio = middle(found.iter().map(|(ours, theirs)| ours / theirs));
            let bound = (marked && shape != Shape::Isolated).then_some(0.87);
            mark_upper(&format!("METG at 50 %, {shape}, over that of {name}"), ratio, bound);
        }
    }
}

/// Nanoseconds a job, from the graph to the last end: what rayon spawns, our pool plans.
fn cost_ns(executor: &mut dyn Executor) -> f64 {
    let (work, clock) = (Box::new(NoWork), Clock::start());
    let graph = graph(Shape::Isolated, EMPTY_JOBS);
    let run = Arc::new(Run::new(graph, Schedule::default(), work, clock));
    let told = executor.run(&run).expect("the run ends");
    run.verify().expect("every job ran once");
    // From the base on: rayon spawns some of its jobs before the first one begins.
    let makespan_ns = Profile::of(&run, executor.workers()).makespan_ns;
    (told.planning_ns + makespan_ns) as f64 / f64::from(EMPTY_JOBS)
}

fn empty_jobs(workers: usize, pairs: usize) {
    for (name, mut other, _) in others(workers) {
        let found = in_pairs(pairs, other.as_mut(), cost_ns, workers);
        println!(
            "empty independent jobs, {workers} workers, {pairs} pairs: {name} {} ns a job",
            middle(found.iter().map(|pair| pair.1)),
        );
        // The quickest run says what it costs where nobody else has the CPU, on a machine with other work as well.
        let least = found.iter().map(|pair| pair.0).fold(f64::INFINITY, f64::min);
        println!("the same, ours: at least {least:.1} ns a job");
        let ours = middle(found.iter().map(|pair| pair.0));
        let what = format!("empty independent jobs with planning, {workers} workers, ns a job");
        mark_upper(&what, ours, Some(60.0));
        let ratio = middle(found.iter().map(|(ours, theirs)| ours / theirs));
        mark_upper(&format!("the same, over that of {name}"), ratio, None);
    }
}
