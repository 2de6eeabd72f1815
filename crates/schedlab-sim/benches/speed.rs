//! How many scheduler events a second the simulator emits on one core: hackbench on 8 CPUs, with events that are only
//! counted, and with events that are handed out.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark prints and reads the clock"
)]

use schedlab_model::{CpuSet, Topology};
use schedlab_sim::policy::{Cfs, CfsKnobs, Placer, PlacerKnobs};
use schedlab_sim::{Config, Hardware, World};
use schedlab_workload::placement::Surroundings;
use schedlab_workload::workloads;
use std::time::Instant;

/// What a run did.
struct Ran {
    virtual_s: f64,
    real_s: f64,
    /// Scheduler events.
    events: u64,
    /// Messages that were written and read.
    messages: u64,
}

impl Ran {
    fn of(cpus: u16, name: &str, options: &[(&str, &str)], record: bool) -> Self {
        let topology = Topology::flat(cpus);
        let allowed = CpuSet::first(cpus.into());
        let around = Surroundings { topology, allowed, speed: 1_000, seed: 1 };
        let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        let mut plan = workloads::plan(name, &options, &around).unwrap();
        let count = cpus.into();
        let placer = Placer::new(count, PlacerKnobs::default());
        let hardware = Hardware::new(Topology::flat(cpus));
        let mut knobs = CfsKnobs::of(count);
        if let Ok(g) = std::env::var("WG") { knobs.wakeup_granularity = g.parse().unwrap(); }
        let policy = Cfs::new(count, knobs, placer);
        let policy = Box::new(policy.balanced(&hardware, 4_000_000, 1));
        let config = Config { record, ..Config::default() };
        let mut world = World::new(&mut plan, hardware, policy, config);
        let mut handed = 0;
        let began = Instant::now();
        world.run_until(u64::MAX - 1, &mut |events| handed += events.len()).unwrap();
        let virtual_s = (world.ended_at().unwrap() - world.went_at().unwrap()) as f64 / 1e9;
        let messages = world.counters().iter().sum();
        let real_s = began.elapsed().as_secs_f64();
        Self { virtual_s, real_s, events: world.emitted(), messages }
    }
}

fn main() {
    let loads: [&[(&str, &str)]; 4] = [
        &[("groups", "8"), ("loops", "300")],
        &[("groups", "8"), ("loops", "300"), ("pipe", "true")],
        &[("groups", "4"), ("fds", "1"), ("loops", "100000"), ("pipe", "true")],
        &[("groups", "8"), ("fds", "2"), ("loops", "20000"), ("pipe", "true")],
    ];
    for options in loads {
        for (what, record) in [("counted", false), ("handed out", true)] {
            let ran = Ran::of(8, "hackbench", options, record);
            println!(
                "hackbench, 8 CPUs, {options:?}, events {what}: {:.2} M events/s, {:.2} M calls/s ({} events, {:.2} s in {:.2} s)",
                ran.events as f64 / ran.real_s / 1e6,
                2.0 * ran.messages as f64 / ran.real_s / 1e6,
                ran.events,
                ran.virtual_s,
                ran.real_s
            );
        }
    }
    let ten = [("tasks", "128"), ("duration", "10s"), ("work", "10ms")];
    let ran = Ran::of(128, "cpu", &ten, false);
    println!(
        "128 busy CPUs: {:.1} virtual seconds in {:.2} s ({} events)",
        ran.virtual_s, ran.real_s, ran.events
    );
}
