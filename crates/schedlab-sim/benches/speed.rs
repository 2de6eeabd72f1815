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

/// Virtual and real seconds, and events, of one run.
fn run(cpus: u16, name: &str, options: &[(&str, &str)], record: bool) -> (f64, f64, u64) {
    let topology = Topology::flat(cpus);
    let allowed = CpuSet::first(cpus.into());
    let around = Surroundings { topology, allowed, speed: 1_000, seed: 1 };
    let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let mut plan = workloads::plan(name, &options, &around).unwrap();
    let count = cpus.into();
    let placer = Placer::new(count, PlacerKnobs::default());
    let hardware = Hardware::new(Topology::flat(cpus));
    let policy = Cfs::new(count, CfsKnobs::of(count), placer);
    let policy = Box::new(policy.balanced(&hardware, 4_000_000, 1));
    let config = Config { record, ..Config::default() };
    let mut world = World::new(&mut plan, hardware, policy, config);
    let mut handed = 0;
    let began = Instant::now();
    world.run_until(u64::MAX - 1, &mut |events| handed += events.len()).unwrap();
    let virtual_s = (world.ended_at().unwrap() - world.went_at().unwrap()) as f64 / 1e9;
    (virtual_s, began.elapsed().as_secs_f64(), world.emitted())
}

fn main() {
    let loops = [("groups", "8"), ("loops", "300")];
    for (what, record) in [("counted", false), ("handed out", true)] {
        let (virtual_s, real, events) = run(8, "hackbench", &loops, record);
        println!(
            "hackbench, 8 CPUs, events {what}: {:.2} M events/s ({events} events, {virtual_s:.2} s in {real:.2} s)",
            events as f64 / real / 1e6
        );
    }
    let ten = [("tasks", "128"), ("duration", "10s"), ("work", "10ms")];
    let (virtual_s, real, events) = run(128, "cpu", &ten, false);
    println!("128 busy CPUs: {virtual_s:.1} virtual seconds in {real:.2} s ({events} events)");
}
