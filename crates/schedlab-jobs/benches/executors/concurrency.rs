//! Mean concurrency of jobs of 200 us: all at once, and one every 200 us.

use super::graph;
use super::mark::{Middle, mark};
use schedlab_jobs::adaptors::Lumiera;
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::Shape;
use schedlab_jobs::load::{Arrivals, Burner, Kind, Length, Load};
use schedlab_jobs::pool::Options;
use schedlab_jobs::profile::Profile;
use schedlab_jobs::run::{Clock, Run, Schedule};
use std::sync::Arc;

const JOB_NS: u64 = 200_000;

/// A finished run of so many jobs on a pool.
pub(super) fn run(
    options: Options,
    burner: Burner,
    jobs: u32,
    arrivals: &Arrivals,
) -> (Arc<Run>, Lumiera) {
    let graph = graph(Shape::Isolated, jobs).with_weight(1);
    let load = Load::new(&graph, burner, JOB_NS, Length::Fixed, 0);
    let schedule =
        Schedule { starts: arrivals.starts(&graph, 0), life_ns: None, ..Schedule::default() };
    let run = Arc::new(Run::new(graph, schedule, Box::new(load), Clock::start()));
    let mut ours = Lumiera::new(options);
    ours.run(&run).expect("the run ends");
    run.verify().expect("every job ran once");
    (run, ours)
}

pub(super) fn measure(repeats: usize) {
    let workers = 2;
    let burner = Burner::calibrate_at(Kind::Cpu, workers);
    let profile = |arrivals: &Arrivals| {
        Profile::of(&run(Options::new(workers), burner, 1_000, arrivals).0, workers)
    };
    let share = |_| profile(&Arrivals::AtOnce).concurrency() / workers as f64;
    let shares = Middle::of((0..repeats).map(share).collect());
    mark("concurrency of 200 us jobs at once, of the workers", shares, 0.95, false);
    let gap: Arrivals = "gap:200us".parse().expect("an arrival");
    let mut offered = 0.0;
    let ratio = |_| {
        let profile = profile(&gap);
        offered = profile.offered.unwrap_or(f64::NAN);
        // What was offered is the work that came, at the length that it had.
        profile.concurrency() / offered / profile.inflation().unwrap_or(1.0)
    };
    let ratios = Middle::of((0..repeats).map(ratio).collect());
    println!(
        "concurrency of 200 us jobs every 200 us, over the offered load of {offered:.3}: {ratios}"
    );
    let away = Middle {
        median: (ratios.median - 1.0).abs(),
        ..Middle::of(vec![(ratios.median - 1.0).abs()])
    };
    mark("concurrency of 200 us jobs every 200 us, away from the offered load", away, 0.02, true);
}
