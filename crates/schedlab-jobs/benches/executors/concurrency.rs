//! Mean concurrency of jobs of 200 us: all at once, and one every 200 us.

use super::graph;
use super::mark::{Middle, mark};
use schedlab_jobs::adaptors::PoolExecutor;
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::Shape;
use schedlab_jobs::load::{Arrivals, Burner, Kind, Length, Load};
use schedlab_jobs::profile::Profile;
use schedlab_jobs::run::{Clock, Machine, Run, Schedule};
use std::sync::Arc;

const JOB_NS: u64 = 200_000;

/// What the kernel tells of the workers' threads; stolen time is in ticks, too coarse for this.
const MACHINE: Machine = Machine {
    own_delay: || schedlab_sys::task::own_run_delay().map(|delay| delay.0),
    stolen: || None,
};

/// A finished run of so many jobs on a pool.
pub(super) fn run(workers: usize, burner: Burner, jobs: u32, arrivals: &Arrivals) -> Arc<Run> {
    let graph = graph(Shape::Isolated, jobs).with_weight(1);
    let load = Load::new(&graph, burner, JOB_NS, Length::Fixed, 0);
    let schedule =
        Schedule { starts: arrivals.starts(&graph, 0), life_ns: None, ..Schedule::default() };
    let run = Run::new(graph, schedule, Box::new(load), Clock::start());
    let run = Arc::new(run.with_machine(MACHINE, JOB_NS / 2));
    PoolExecutor::new(workers, |_| {}).run(&run).expect("the run ends");
    run.verify().expect("every job ran once");
    run
}

pub(super) fn measure(repeats: usize) {
    let workers = 2;
    let burner = Burner::calibrate_at(Kind::Cpu, workers);
    let profile =
        |arrivals: &Arrivals| Profile::of(&run(workers, burner, 1_000, arrivals), workers);
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
