//! The engine: schedules computed by hand, properties of any run, the same bytes for the same input.

mod asymmetric;
mod balance;
mod classes;
mod delays;
mod fair;
mod gaps;
mod groups;
mod hand;
mod jobs;
mod property;
mod speed;
mod timers;
mod workloads;

use schedlab_model::{Clock, CpuSet, Event, KindSet, Nanos, Topology, TraceInfo};
use schedlab_sim::policy::{
    Cfs, CfsKnobs, ClassKnobs, Classes, Eevdf, EevdfKnobs, Fifo, Placer, PlacerKnobs, Policy,
    SharedFifo,
};
use schedlab_sim::{Config, Costs, Hardware, Start, Step, World};
use schedlab_timeline::notation::{self, Trace};
use schedlab_workload::plan::{Plan, Task};
use schedlab_workload::{Behaviour, Done, Instruments, Op};

/// A task that performs a list of operations and ends.
struct Script(Vec<Op>);

impl Behaviour for Script {
    fn next(&mut self, _: Nanos, last: Done, _: &mut dyn Instruments) -> Op {
        if last == Done::Stopped || self.0.is_empty() { Op::Exit } else { self.0.remove(0) }
    }
}

fn script(name: &str, ops: &[Op]) -> Task {
    Task::new(name, 0, Box::new(Script(ops.to_vec())))
}

/// A plan of one role.
fn plan(tasks: Vec<Task>) -> Plan {
    let mut plan = Plan::new("script");
    plan.role("task");
    plan.tasks = tasks;
    plan
}

/// Computing for so many microseconds.
fn us(time: u64) -> Op {
    Op::Compute { iterations: time * 1_000 }
}

/// Nothing costs anything, all tasks wake at time 0, pids begin at 1.
fn bare() -> Config {
    Config {
        costs: Costs::NONE,
        start: Start::AtOnce,
        first_pid: 1,
        begin_ns: 0,
        ..Config::default()
    }
}

fn fifo(cpus: u16) -> (Hardware, Box<dyn Policy>) {
    (Hardware::new(Topology::flat(cpus)), Box::new(Fifo::new(cpus.into(), None)))
}

fn world(mut plan: Plan, cpus: u16, config: Config) -> World {
    let (hardware, policy) = fifo(cpus);
    World::new(&mut plan, hardware, policy, config)
}

/// The names of all policies.
const POLICIES: [&str; 6] = ["fifo", "cfs", "eevdf", "global", "classes cfs", "classes eevdf"];

/// A policy by name, with the defaults for so many CPUs.
fn policy(name: &str, cpus: u16) -> Box<dyn Policy> {
    let cpus = cpus.into();
    let placer = Placer::new(cpus, PlacerKnobs::default());
    let hardware = Hardware::new(Topology::flat(cpus as u16));
    let tick = 4_000_000;
    match name {
        "cfs" => Box::new(Cfs::new(cpus, CfsKnobs::of(cpus), placer).balanced(&hardware, tick, 1)),
        "eevdf" => {
            let eevdf = Eevdf::new(cpus, EevdfKnobs::of(cpus, tick), placer);
            Box::new(eevdf.balanced(&hardware, tick, 1))
        }
        "classes cfs" | "classes eevdf" => {
            let (fair, throttled) = (name.trim_start_matches("classes "), name == "classes cfs");
            let knobs = ClassKnobs::of(throttled, tick);
            Box::new(Classes::new(cpus, knobs, policy(fair, cpus as u16)))
        }
        "global" => Box::new(SharedFifo::of_machine(cpus, 4_000_000)),
        _ => Box::new(Fifo::new(cpus, None)),
    }
}

/// Runs to the end; all events.
fn events(world: &mut World) -> Vec<Event> {
    let mut events = Vec::new();
    let mut keep = |batch: &[Event]| events.extend_from_slice(batch);
    while world.run_until(u64::MAX - 1, &mut keep).expect("no deadlock") != Step::Ended {}
    events
}

/// The events as text, in columns of a microsecond.
fn text(world: &mut World) -> String {
    text_of(world, Nanos(1_000))
}

/// The rows of the events as text, in columns of `tick`.
fn rows_of(world: &mut World, tick: Nanos) -> String {
    let text = text_of(world, tick);
    let rows = text.lines().filter(|line| line.contains('|'));
    rows.map(|line| line.trim().to_owned() + "\n").collect()
}

fn text_of(world: &mut World, tick: Nanos) -> String {
    let events = events(world);
    let mut info = TraceInfo::new("sim", Clock::Monotonic);
    info.cpus = CpuSet::first(world.hardware().cpus());
    info.kinds = KindSet::ALL;
    info.comms = world.comms();
    let end = events.last().map_or(Nanos(0), |event| event.time);
    info.span = Some(schedlab_model::Span::new(Nanos(0), end + Nanos(1)));
    let trace = Trace { info, events, tick };
    notation::print(&mut trace.source(), tick).expect("it lies in memory")
}
