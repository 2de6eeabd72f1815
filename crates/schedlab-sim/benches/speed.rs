//! How many scheduler events a second the simulator emits on one core: hackbench on 8 CPUs, with events that are only
//! counted, with events that are handed out, and with events that are written to a trace.dat.
//!
//! Most calls of hackbench lead to no event, so calls count too. The events of the last two contain two marks for each
//! round of a sender. At the end it tells the most memory of a load and of the same load 8 times as long.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark prints and reads the clock"
)]

use schedlab_model::{Clock, CpuSet, Event, Topology, TraceInfo};
use schedlab_sim::policy::{Cfs, CfsKnobs, Placer, PlacerKnobs};
use schedlab_sim::{Config, Hardware, Step, World};
use schedlab_trace::EventWriter;
use schedlab_workload::placement::MachineProperties;
use schedlab_workload::workloads;
use std::path::Path;
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
    fn of(cpus: u16, load: &Load<'_>, sink: Sink) -> Self {
        let topology = Topology::flat(cpus);
        let allowed = CpuSet::first(cpus.into());
        let around = MachineProperties { topology, allowed, speed: 1_000, seed: 1 };
        let options = load.options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        let mut plan = workloads::plan(load.workload, &options, &around).unwrap();
        let count = cpus.into();
        let placer = Placer::new(count, PlacerKnobs::default());
        let hardware = Hardware::new(Topology::flat(cpus));
        let mut knobs = CfsKnobs::of(count);
        knobs.wakeup_granularity = load.wakeup_granularity.unwrap_or(knobs.wakeup_granularity);
        let policy = Cfs::new(count, knobs, placer);
        let policy = Box::new(policy.balanced(&hardware, 4_000_000, 1));
        let config = Config { record: sink != Sink::Counted, ..Config::default() };
        let mut world = World::new(&mut plan, hardware, policy, config);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("speed.dat");
        let mut info = TraceInfo::new("sim", Clock::Monotonic);
        info.cpus = CpuSet::first(cpus.into());
        info.comms = world.comms();
        let mut handed = 0;
        // Writing over an old file would take longer.
        let _ = std::fs::remove_file(&path);
        let began = Instant::now();
        // A load with a duration pauses before it is stopped.
        if sink == Sink::Trace {
            let mut trace = EventWriter::create(&path, &info).unwrap();
            let mut write = |events: &[Event]| trace.events(events).unwrap();
            while world.run_until(u64::MAX - 1, &mut write).unwrap() != Step::Ended {}
            trace.finish().unwrap();
        } else {
            let mut count = |events: &[Event]| handed += events.len();
            while world.run_until(u64::MAX - 1, &mut count).unwrap() != Step::Ended {}
        }
        let real_s = began.elapsed().as_secs_f64();
        let virtual_s = (world.ended_at().unwrap() - world.went_at().unwrap()) as f64 / 1e9;
        let messages = world.counters().iter().sum();
        Self { virtual_s, real_s, events: world.emitted(), messages }
    }

    /// The fastest of fifteen.
    fn best(cpus: u16, load: &Load<'_>, sink: Sink) -> Self {
        let runs = (0..15).map(|_| Self::of(cpus, load, sink));
        runs.min_by(|a, b| a.real_s.total_cmp(&b.real_s)).unwrap()
    }
}

/// What becomes of events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sink {
    Counted,
    Handed,
    Trace,
}

#[derive(Clone, Copy)]
struct Load<'l> {
    name: &'static str,
    workload: &'static str,
    options: &'l [(&'static str, &'l str)],
    wakeup_granularity: Option<u64>,
}

const LOADS: [Load<'static>; 3] = [
    Load {
        name: "sockets",
        workload: "hackbench",
        options: &[("groups", "8"), ("loops", "300")],
        wakeup_granularity: None,
    },
    Load {
        name: "pipes",
        workload: "hackbench",
        options: &[("groups", "8"), ("loops", "300"), ("pipe", "true")],
        wakeup_granularity: None,
    },
    Load {
        name: "pipes, each wakeup preempts",
        workload: "hackbench",
        options: &[("groups", "8"), ("fds", "2"), ("loops", "20000"), ("pipe", "true")],
        wakeup_granularity: Some(0),
    },
];

fn main() {
    println!(
        "hackbench, 8 CPUs, best of 15 | events | million events a second | reads and writes a second"
    );
    let named: Vec<_> = std::env::args().skip(1).filter(|named| !named.starts_with('-')).collect();
    let wanted =
        |name: &str| named.is_empty() || named.iter().any(|named| name.contains(named.as_str()));
    for load in LOADS.iter().filter(|load| wanted(load.name)) {
        for (what, sink) in
            [("counted", Sink::Counted), ("handed out", Sink::Handed), ("in a trace", Sink::Trace)]
        {
            let Ran { real_s, events, messages, .. } = Ran::best(8, load, sink);
            println!(
                "{}, events {what} | {events} | {:.2} | {:.2} million",
                load.name,
                events as f64 / real_s / 1e6,
                2.0 * messages as f64 / real_s / 1e6,
            );
        }
    }
    let ten = Load {
        name: "busy",
        workload: "cpu",
        options: &[("tasks", "128"), ("duration", "10s"), ("work", "10ms")],
        wakeup_granularity: None,
    };
    let Ran { virtual_s, real_s, events, .. } = Ran::best(128, &ten, Sink::Counted);
    println!("128 busy CPUs: {virtual_s:.1} virtual seconds in {real_s:.2} s ({events} events)");
    memory(&LOADS[2]);
}

/// The most memory of the process during a load, and during the same load 8 times as long.
fn memory(load: &Load<'_>) {
    println!("memory | rounds | events | most resident memory");
    for (what, sink) in [("handed out", Sink::Handed), ("in a trace", Sink::Trace)] {
        for loops in ["5000", "40000"] {
            let options = [("groups", "8"), ("fds", "2"), ("loops", loops), ("pipe", "true")];
            // From now on the kernel counts the most anew (proc(5)).
            std::fs::write("/proc/self/clear_refs", "5").unwrap();
            let Ran { events, .. } = Ran::of(8, &Load { options: &options, ..*load }, sink);
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
            println!("{}, events {what} | {loops} | {events} |{most}", load.name);
        }
    }
}
