//! Each rule of lumiera's pool taken out on its own, as a table in Markdown. With 4, 8 and 64 workers in
//! virtual time, which gives the same figures everywhere; `-- real` adds two workers of this machine, in turns.
//! `cargo bench -p schedlab-jobs --bench ablation [-- real]`.
#![expect(clippy::print_stdout, reason = "a benchmark's figures are its result")]

use schedlab_jobs::adaptors::Lumiera;
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::{Graph, Rules, Shape};
use schedlab_jobs::load::{Burner, Kind, Length, Load};
use schedlab_jobs::planning::Planning;
use schedlab_jobs::policy::{Nanos, Order, Policy, Step};
use schedlab_jobs::pool::Options;
use schedlab_jobs::profile::Profile;
use schedlab_jobs::run::{Clock, Run, Schedule};
use schedlab_jobs::virtual_time::{Costs, VirtualPool, VirtualTime};
use std::fmt::Write;
use std::sync::Arc;

/// A rule taken out, or turned around.
struct Variant {
    name: &'static str,
    change: fn(Policy) -> Policy,
}

const VARIANTS: [Variant; 6] = [
    Variant { name: "as it is", change: |policy| policy },
    Variant { name: "one job a pull", change: |p| Policy { batch_ns: 0, ..p } },
    Variant { name: "ladder: linear", change: |p| Policy { step: Step::Linear, ..p } },
    Variant { name: "ladder: none", change: |p| Policy { step: Step::None, ..p } },
    Variant { name: "no notifications", change: |p| Policy { notify: false, ..p } },
    Variant { name: "longest path first", change: |p| Policy { order: Order::Path, ..p } },
];

/// What is run: jobs a worker, their length, and the share of the workers' time that arrives (`None`: all at once).
struct Job {
    name: &'static str,
    shape: Shape,
    jobs: u32,
    ns: Nanos,
    share: Option<f64>,
}

const JOBS: [Job; 4] = [
    Job { name: "2 us at once", shape: Shape::Isolated, jobs: 1_000, ns: 2_000, share: None },
    Job { name: "200 us at once", shape: Shape::Isolated, jobs: 100, ns: 200_000, share: None },
    Job { name: "20 us stencil", shape: Shape::Stencil, jobs: 250, ns: 20_000, share: None },
    Job {
        name: "200 us at 70 %",
        shape: Shape::Isolated,
        jobs: 250,
        ns: 200_000,
        share: Some(0.7),
    },
];

impl Job {
    fn graph(&self, workers: usize) -> Graph {
        let nodes = self.jobs * workers as u32;
        let fan = 2 * workers as u32;
        self.shape.build(&Rules { nodes, fan, ..Rules::default() }).with_weight(1)
    }

    /// What a policy makes of it: run time over that of an ideal list schedule, or the 99th percentile of
    /// lateness in us where jobs come by and by.
    fn figure(&self, executor: &mut dyn Executor, burner: Burner) -> f64 {
        let workers = executor.workers();
        let make = || {
            let graph = self.graph(workers);
            let gap = self.share.map_or(0.0, |share| self.ns as f64 / share / workers as f64);
            let starts = (0..graph.len()).map(|i| (f64::from(i) * gap) as Nanos).collect();
            let load = Load::new(&graph, burner, self.ns, Length::Fixed, 0);
            let schedule = Schedule { starts, life_ns: None, ..Schedule::default() };
            Arc::new(Run::new(graph, schedule, Box::new(load), Clock::start()))
        };
        let run = make();
        executor.run(&run).expect("the run ends");
        run.verify().expect("every job ran once");
        let profile = Profile::of(&run, workers);
        if self.share.is_some() {
            return profile.lateness(0.99).unwrap_or(0) as f64 / 1e3;
        }
        let ideal = make();
        VirtualTime::ideal(workers).run(&ideal).expect("the ideal runs anything");
        profile.makespan_ns as f64 / Profile::of(&ideal, workers).makespan_ns as f64
    }
}

fn main() {
    let real = std::env::args().any(|argument| argument == "real");
    let burner = Burner::calibrate_at(Kind::Cpu, 2);
    for job in &JOBS {
        let what = if job.share.is_some() { "lateness p99, us" } else { "run time over the ideal" };
        println!("\n{}: {what}\n", job.name);
        println!("| rule | 4 workers | 8 | 64 |{}", if real { " 2, real |" } else { "" });
        println!("|---|---|---|---|{}", if real { "---|" } else { "" });
        let measured = if real { in_turns(job, burner) } else { Vec::new() };
        for (number, variant) in VARIANTS.iter().enumerate() {
            let mut row = format!("| {} |", variant.name);
            for workers in [4, 8, 64] {
                let policy = (variant.change)(Policy::new(workers));
                let mut executor = VirtualTime::new(policy, Costs::USUAL);
                let _ = write!(row, " {:.3} |", job.figure(&mut executor, burner));
            }
            if let Some(value) = measured.get(number) {
                let _ = write!(row, " {value:.3} |");
            }
            println!("{row}");
        }
        let mut row = "| schedlab's pool |".to_owned();
        for workers in [4, 8, 64] {
            let mut executor = VirtualPool::new(workers, Costs::USUAL, Planning::default());
            let _ = write!(row, " {:.3} |", job.figure(&mut executor, burner));
        }
        println!("{row}{}", if real { " |" } else { "" });
    }
}

/// The median of nine runs of each variant, in turns.
fn in_turns(job: &Job, burner: Burner) -> Vec<f64> {
    let mut found = vec![Vec::new(); VARIANTS.len()];
    for _ in 0..9 {
        for (variant, found) in VARIANTS.iter().zip(&mut found) {
            let policy = (variant.change)(Policy::new(2));
            let mut ours = Lumiera::new(Options { policy, ..Options::new(2) });
            found.push(job.figure(&mut ours, burner));
        }
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    found.into_iter().map(median).collect()
}
