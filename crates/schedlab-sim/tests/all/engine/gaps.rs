//! Interrupts, the hypervisor, ticks at different times, and memory that CPUs share.

use super::{bare, events, plan, policy, rows_of, script, us, world};
use schedlab_model::{Nanos, Topology, What};
use schedlab_sim::policy::Fifo;
use schedlab_sim::{Config, Costs, Gap, Hardware, TaskId, World};
use schedlab_workload::{BlockId, Op};

/// The lanes of CPUs, in columns of a microsecond.
fn lanes(world: &mut World) -> String {
    let rows = rows_of(world, Nanos(1_000));
    let lanes = rows.lines().filter(|row| row.starts_with(|c: char| c.is_ascii_digit()));
    lanes.map(|lane| lane.to_owned() + "\n").collect()
}

const fn gap(first: u64, length: u64, period: u64) -> Gap {
    Gap { cpu: 0, period, length, first, is_steal: false }
}

/// 4 µs of work, and 2 µs that went to an interrupt.
#[test]
fn an_interrupt_delays_its_task_and_does_not_charge_it() {
    let mut world = world(plan(vec![script("A", &[us(4)])]), 1, bare());
    world.set_gaps(&[gap(1_000, 2_000, 100_000)]);
    assert_eq!(lanes(&mut world), "0 | AAAAAA.\n");
    assert_eq!((world.usage(TaskId(0)).user_ns, world.gone_ns(0)), (4_000, 2_000));
}

/// The second gap begins in the first, which becomes longer: 1 to 4 µs.
#[test]
fn gaps_that_meet_follow_each_other() {
    let mut world = world(plan(vec![script("A", &[us(4)])]), 1, bare());
    world.set_gaps(&[gap(1_000, 2_000, 100_000), gap(2_000, 1_000, 100_000)]);
    assert_eq!(lanes(&mut world), "0 | AAAAAAA.\n");
    assert_eq!(world.gone_ns(0), 3_000);
}

/// B's timer fires after 3 µs, in a gap from 2 to 5.
#[test]
fn a_timer_waits_for_the_end_of_a_gap() {
    let sleeper = script("B", &[Op::Sleep(Nanos(3_000)), us(1)]);
    let mut world = world(plan(vec![sleeper, script("A", &[us(10)])]), 1, bare());
    world.set_gaps(&[gap(2_000, 3_000, 100_000)]);
    let woken = |event: &schedlab_model::Event| matches!(event.what, What::Wakeup { pid, .. } if pid.0 == 1);
    let wakeups = events(&mut world).into_iter().filter(woken).map(|event| event.time.0);
    assert_eq!(wakeups.collect::<Vec<u64>>(), [0, 5_000]);
}

/// Gaps always hit the first of two tasks: by the wall clock the second would get twice as much.
#[test]
fn fair_tasks_share_what_gaps_leave() {
    for name in ["cfs", "eevdf"] {
        let mut plan = plan(vec![script("A", &[us(400_000)]), script("B", &[us(400_000)])]);
        let config = Config { record: false, ..bare() };
        let hardware = Hardware::new(Topology::flat(1));
        let mut world = World::new(&mut plan, hardware, policy(name, 1), config);
        world.set_gaps(&[gap(1_000_000, 2_000_000, 8_000_000)]);
        world.run_until(400_000_000, &mut |_| ()).unwrap();
        let used = [0, 1].map(|task| world.usage(TaskId(task)).user_ns / 1_000_000);
        assert!(used[0].abs_diff(used[1]) <= 12, "{name}: {used:?} ms");
        assert_eq!(world.gone_ns(0), 100_000_000, "{name}");
    }
}

/// Ticks every 4 µs. With two CPUs that of CPU 1 comes a quarter of a tick later.
#[test]
fn skewed_ticks_come_one_after_another() {
    let run = |skew_tick| {
        let tasks = ["A", "B", "C", "D"].map(|name| script(name, &[us(6)])).into();
        let config = Config { tick_ns: 4_000, skew_tick, ..bare() };
        let (hardware, fifo) = (Hardware::new(Topology::flat(2)), Fifo::new(2, Some(1)));
        lanes(&mut World::new(&mut plan(tasks), hardware, Box::new(fifo), config))
    };
    assert_eq!(run(false), "0 | AAAACCCCAACC.\n1 | BBBBDDDDBBDD.\n");
    assert_eq!(run(true), "0 | AAAACCCCAACC.\n1 | BDDDDBBBBDDB.\n");
}

/// A KiB takes a microsecond, and the limit is what one CPU needs: both go at half speed until B is done after 4 µs.
/// C, which computes, is not slowed.
#[test]
fn cpus_that_use_memory_together_share_its_bandwidth() {
    let walk = |bytes| Op::Walk { block: BlockId(0), bytes, writes: false };
    let tasks = vec![
        script("A", &[walk(4_096)]),
        script("B", &[walk(2_048), us(1)]),
        script("C", &[us(3)]),
    ];
    let config = Config { costs: Costs { memory_kib: 1_000, ..Costs::NONE }, ..bare() };
    let mut world = world(plan(tasks), 3, config);
    world.share_bandwidth(1_024_000_000, vec![0; 3]);
    assert_eq!(lanes(&mut world), "0 | AAAAAA.\n1 | BBBBB..\n2 | CCC....\n");
}

/// On CPUs of their own domains, or below the limit, nobody is slowed.
#[test]
fn memory_below_its_limit_costs_what_it_costs_alone() {
    let walk = Op::Walk { block: BlockId(0), bytes: 4_096, writes: true };
    let run = |limit, domain| {
        let tasks = ["A", "B"].map(|name| script(name, &[walk])).into();
        let config = Config { costs: Costs { memory_kib: 1_000, ..Costs::NONE }, ..bare() };
        let mut world = world(plan(tasks), 2, config);
        world.share_bandwidth(limit, domain);
        lanes(&mut world)
    };
    assert_eq!(run(1_024_000_000, vec![0, 1]), "0 | AAAA.\n1 | BBBB.\n");
    assert_eq!(run(2_048_000_000, vec![0, 0]), "0 | AAAA.\n1 | BBBB.\n");
}

/// Computing is not changed. What costs is within the limit, is another number each time, and repeats with its seed.
#[test]
fn costs_vary_by_chance_within_their_limit() {
    let run = |most, seed| {
        let config = Config { costs: Costs { syscall: 1_000_000, ..Costs::NONE }, ..bare() };
        let ops = [Op::Yield; 100];
        let mut world = world(plan(vec![script("A", &[&[us(1)], &ops[..]].concat())]), 1, config);
        world.set_noise(most, seed);
        events(&mut world);
        (world.usage(TaskId(0)).user_ns, world.usage(TaskId(0)).system_ns)
    };
    assert_eq!(run(0, 1), (1_000, 100_000_000));
    let (computed, cost) = run(50_000, 1);
    assert!(computed == 1_000 && cost != 100_000_000);
    assert!((95_000_000..=105_000_000).contains(&cost), "{cost}");
    assert_eq!(run(50_000, 1), (computed, cost));
    assert_ne!(run(50_000, 2).1, cost);
}
