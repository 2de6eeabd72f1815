//! METG at 50 %, the executors in turns within each round; ratios within a round, so that a slow moment hits all.

use super::mark::{Middle, mark};
use super::{executors, graph};
use schedlab_jobs::graph::Shape;
use schedlab_jobs::load::{Burner, Kind, Length};
use schedlab_jobs::rig::{Jobs, metg};

pub(super) fn measure(repeats: usize) {
    let workers = 2;
    let burner = Burner::calibrate_at(Kind::Cpu, workers);
    for shape in [Shape::Isolated, Shape::Stencil, Shape::Tree] {
        let graph = graph(shape, 4_000);
        let (length, stop) = (Length::Fixed, (|| false) as fn() -> bool);
        let jobs = Jobs { graph: &graph, burner, length, data_bytes: 0, stop };
        let mut all = executors(workers, true);
        let mut found: Vec<Vec<f64>> = vec![Vec::new(); all.len()];
        for _ in 0..repeats {
            for ((_, executor), found) in all.iter_mut().zip(&mut found) {
                let grain = metg(executor.as_mut(), &jobs, 0.5).expect("the runs end");
                found.push(grain.unwrap_or(f64::INFINITY));
            }
        }
        println!("METG at 50 %, {shape}, {workers} workers: ns; ours over theirs");
        for ((name, _), theirs) in all.iter().zip(&found) {
            let ratios = Middle::of(found[0].iter().zip(theirs).map(|(o, t)| o / t).collect());
            println!("  {name:16} {:8.0} {ratios}", Middle::of(theirs.clone()).median);
            let what = format!("METG at 50 %, {shape}, over that of {name}");
            match name.split(',').next() {
                Some("rayon") if shape == Shape::Isolated => mark(&what, ratios, 2.0, true),
                Some("rayon") => mark(&what, ratios, 1.1, true),
                Some("tokio") => mark(&what, ratios, 1.0, true),
                _ => {}
            }
        }
    }
}
