//! Memory does not grow with virtual time, by the kernel's own count: `docs/simulation.md` says so.
//!
//! The test runs itself again in a process of its own, since the memory of other tests would count.

use schedlab_model::{CpuSet, Topology};
use schedlab_sim::policy::{Cfs, CfsKnobs, Placer, PlacerKnobs};
use schedlab_sim::{Config, Hardware, World};
use schedlab_workload::placement::MachineProperties;
use schedlab_workload::workloads;
use std::collections::BTreeMap;
use std::process::Command;

const CPUS: u16 = 4;
const MIB: u64 = 1 << 20;

/// Anonymous memory of this process now, in bytes (`RssAnon` of `/proc/self/status`, proc(5)).
fn private() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// How many events a load of this length has, and the memory that it takes beside what it begins with.
fn takes(loops: u32) -> (u64, u64) {
    let (topology, allowed) = (Topology::flat(CPUS), CpuSet::first(CPUS.into()));
    let around = MachineProperties { topology: topology.clone(), allowed, speed: 1_000, seed: 1 };
    let loops = loops.to_string();
    let options = [("groups", "2"), ("fds", "2"), ("pipe", "true"), ("loops", loops.as_str())];
    let options: BTreeMap<String, String> =
        options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let mut plan = workloads::plan("hackbench", &options, &around).unwrap();
    let knobs = CfsKnobs { wakeup_granularity: 0, ..CfsKnobs::of(CPUS.into()) };
    let policy = Cfs::new(CPUS.into(), knobs, Placer::new(CPUS.into(), PlacerKnobs::default()));
    let hardware = Hardware::new(topology);
    let mut world = World::new(&mut plan, hardware, Box::new(policy), Config::default());
    let (before, mut most) = (private(), 0);
    let mut look = |_: &[_]| most = most.max(private().saturating_sub(before));
    world.run_until(u64::MAX - 1, &mut look).unwrap();
    (world.emitted(), most)
}

/// Set in the process that measures.
const MEASURES: &str = "SCHEDLAB_TEST_MEASURES_MEMORY";

#[test]
fn memory_does_not_grow_with_virtual_time() {
    if std::env::var_os(MEASURES).is_none() {
        let name = "memory::memory_does_not_grow_with_virtual_time";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let output = alone.args([name, "--exact"]).env(MEASURES, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let (_, short) = takes(10_000);
    let (events, long) = takes(80_000);
    // Kept, each event would take 40 bytes.
    assert!(events * 40 > 6 * MIB, "{events} events prove nothing");
    // The histograms of tasks fill up, to 30 KiB each.
    assert!(long < short + 2 * MIB, "{short} bytes, and {long} for 8 times as long");
}
