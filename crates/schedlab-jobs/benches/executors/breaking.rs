//! The raw breaking stress of the 64-node burst graph, over the stress up to which two workers could end in time. The raw
//! one allows some lateness, so that is no bound for it.

use super::mark::{Middle, mark};
use schedlab_jobs::adaptors::Lumiera;
use schedlab_jobs::graph::{Hashing, Rules, Shape};
use schedlab_jobs::load::{Burner, Kind};
use schedlab_jobs::policy::{Cpus, Order, Policy};
use schedlab_jobs::pool::Options;
use schedlab_jobs::rig::{Thresholds, breaking_point};

pub(super) fn measure(repeats: usize) {
    let workers = 2;
    let rules = Rules { nodes: 64, hashing: Hashing::Compat, ..Rules::default() };
    let graph = Shape::LoadBursts.build(&rules);
    let burner = Burner::calibrate_at(Kind::Cpu, workers);
    let thresholds = Thresholds::default();
    let variants = [
        ("start order, bound", Order::Start, Cpus::Own),
        ("path order, bound", Order::Path, Cpus::Own),
        ("start order, free", Order::Start, Cpus::Any),
    ];
    for (name, order, cpus) in variants {
        let policy = Policy { order, cpus: cpus.clone(), ..Policy::new(workers) };
        let mut ours = Lumiera::new(Options { policy, ..Options::new(workers) });
        let reached = |_| {
            let found =
                breaking_point(&mut ours, &graph, burner, 500_000, &thresholds, || false, |_| {})
                    .expect("the runs end");
            found.raw.expect("500 us break") / found.bound
        };
        let reached = Middle::of((0..repeats).map(reached).collect());
        let what = format!("raw breaking stress over the one that could be kept in time, {name}");
        if cpus == Cpus::Own {
            mark(&what, reached, 0.82, false);
        } else {
            println!("{what}: {reached}");
        }
    }
}
