//! CPUs that differ in what they can do: tasks that outgrow a small one go to a large one.

use super::{bare, events, plan, rows_of, script, us, world};
use proptest::prelude::*;
use schedlab_model::{Event, Nanos, Topology, What};
use schedlab_sim::policy::{Cfs, CfsKnobs, Eevdf, EevdfKnobs, Fifo, Placer, PlacerKnobs, Policy};
use schedlab_sim::{Config, Hardware, World};
use schedlab_workload::Op;
use schedlab_workload::plan::Task;

const MS: u64 = 1_000_000;

/// Four small CPUs and four large ones that share an LLC.
fn hardware(small: u64) -> Hardware {
    let mut hardware = Hardware::new(Topology::flat(8));
    hardware.set_capacities(&[small, small, small, small, 1_024, 1_024, 1_024, 1_024]);
    hardware
}

fn policy(name: &str, hardware: &Hardware, tick: u64) -> Box<dyn Policy> {
    let placer = || Placer::new(8, PlacerKnobs::default());
    match name {
        "cfs" => Box::new(Cfs::new(8, CfsKnobs::of(8), placer()).balanced(hardware, tick, 1)),
        "eevdf" => {
            let knobs = EevdfKnobs::of(8, tick);
            Box::new(Eevdf::new(8, knobs, placer()).balanced(hardware, tick, 1))
        }
        _ => Box::new(Cfs::new(8, CfsKnobs::of(8), placer())),
    }
}

fn run(name: &str, small: u64, tick_ns: u64, tasks: Vec<Task>) -> Vec<Event> {
    let hardware = hardware(small);
    let policy = policy(name, &hardware, tick_ns);
    events(&mut World::new(&mut plan(tasks), hardware, policy, Config { tick_ns, ..bare() }))
}

/// Moves: when, and to which CPU.
fn moves(events: &[Event]) -> Vec<(u64, usize)> {
    let moved = |event: &Event| match event.what {
        What::Migrate { to, .. } => Some((event.time.0, to.index())),
        _ => None,
    };
    events.iter().filter_map(moved).collect()
}

#[test]
fn a_cpu_of_half_the_capacity_takes_twice_as_long() {
    let mut hardware = Hardware::new(Topology::flat(2));
    hardware.set_capacities(&[512, 1_024]);
    let mut plan = plan(vec![script("A", &[us(3)]), script("B", &[us(3)])]);
    let mut world = World::new(&mut plan, hardware, Box::new(Fifo::new(2, None)), bare());
    assert_eq!(rows_of(&mut world, Nanos(1_000)), "0 | AAAAAA.\n1 | BBB....\n");
}

#[test]
fn equal_capacities_change_nothing() {
    let tasks = || vec![script("A", &[us(3)]), script("B", &[us(5)])];
    let mut even = Hardware::new(Topology::flat(2));
    even.set_capacities(&[1_024, 1_024]);
    assert!(!even.is_asymmetric());
    let mut other = World::new(&mut plan(tasks()), even, Box::new(Fifo::new(2, None)), bare());
    assert_eq!(events(&mut world(plan(tasks()), 2, bare())), events(&mut other));
}

/// A new task counts as half of its CPU, and needs four fifths at most. Its use approaches 1,024 with a half-life of 32
/// periods of 1,024 x 1,024 ns, in a time that goes slower by the capacity.
fn outgrows_after(small: u64) -> f64 {
    let (small, half_life) = (small as f64, 32.0 * 1_024.0 * 1_024.0);
    let growth = (1_024.0 - small / 2.0) / (1_024.0 - 0.8 * small);
    half_life * growth.log2() * 1_024.0 / small
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Not before it has outgrown its CPU, give or take the period in which averages are computed. Then the tick finds
    /// out, and the next balance of an idle large CPU, which comes every 8 to 16 ms, takes it. It stays there.
    #[test]
    fn a_task_that_outgrows_a_small_cpu_goes_to_a_large_one_in_time(
        small in 100_u64..900,
        hz in prop::sample::select(vec![100_u64, 250, 1_000]),
        name in prop::sample::select(vec!["cfs", "eevdf"]),
    ) {
        let tick = 1_000 * MS / hz;
        let events = run(name, small, tick, vec![script("A", &[us(600_000)])]);
        let moves = moves(&events);
        prop_assert_eq!(moves.len(), 1, "{:?}", moves);
        let (at, to) = moves[0];
        prop_assert!(to >= 4);
        let (grown, at) = (outgrows_after(small), at as f64);
        let period = 1.1 * MS as f64 * 1_024.0 / small as f64;
        prop_assert!(at >= grown - period, "{} before {}", at, grown);
        let latest = grown + period + (16 * MS + 3 * tick) as f64;
        prop_assert!(at <= latest, "{} after {}", at, latest);
    }
}

/// 5 ms of work take 11.5 ms on CPU 0. The idle time that a large CPU would have had counts as such.
#[test]
fn a_short_burst_is_no_reason_to_wake_on_a_large_cpu() {
    let ops = [us(5_000), Op::Sleep(Nanos(MS)), us(1_000)];
    assert_eq!(moves(&run("unbalanced", 446, 4 * MS, vec![script("A", &ops)])), []);
}

/// 1 ms of each 10 is little also for a small CPU.
#[test]
fn a_task_that_fits_a_small_cpu_stays_there() {
    let ops: Vec<Op> = (0..50).flat_map(|_| [us(1_000), Op::Sleep(Nanos(9 * MS))]).collect();
    for name in ["cfs", "eevdf"] {
        assert_eq!(moves(&run(name, 446, 4 * MS, vec![script("A", &ops)])), [], "{name}");
    }
}

/// Without balancing it stays on CPU 0, where 500 ms of work take 1,148. It has been busy so long that it would have
/// been on a large CPU too. After its sleep no small CPU has room: CPU 4 is the first that has.
#[test]
fn a_large_task_wakes_on_a_large_cpu() {
    let ops = [us(500_000), Op::Sleep(Nanos(MS)), us(1_000)];
    let events = run("unbalanced", 446, 4 * MS, vec![script("A", &ops)]);
    let moves = moves(&events);
    assert_eq!(moves.len(), 1, "{moves:?}");
    assert_eq!(moves[0].1, 4);
    assert!((1_148 * MS..1_150 * MS).contains(&moves[0].0), "{moves:?}");
}

/// Four of five tasks that always compute end up on the large CPUs, one on a small one.
#[test]
fn large_cpus_are_all_used_before_small_ones() {
    for name in ["cfs", "eevdf"] {
        let tasks = ["A", "B", "C", "D", "E"].map(|name| script(name, &[us(300_000)])).into();
        let events = run(name, 446, 4 * MS, tasks);
        let mut runs = [false; 8];
        for event in events.iter().take_while(|event| event.time.0 < 200 * MS) {
            if let What::Switch { next, .. } = event.what {
                runs[event.cpu.index()] = !next.is_idle();
            }
        }
        assert_eq!(runs[4..], [true; 4], "{name}");
        assert_eq!(runs[..4].iter().filter(|runs| **runs).count(), 1, "{name}");
    }
}
