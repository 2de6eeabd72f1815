//! Speeds that change, and threads that share a core.

use super::{bare, plan, rows_of, script, us};
use schedlab_model::{Cpu, Nanos, Place, Topology};
use schedlab_sim::policy::Fifo;
use schedlab_sim::{Config, Hardware, World};
use schedlab_workload::{Op, SemaphoreId};

/// 2 µs at full speed, 2 at half, the rest at a quarter: 2 + 1 + 1.
#[test]
fn work_goes_on_at_the_speed_that_a_cpu_gets() {
    let hardware = Hardware::new(Topology::flat(1));
    let mut plan = plan(vec![script("A", &[us(4)])]);
    let mut world = World::new(&mut plan, hardware, Box::new(Fifo::new(1, None)), bare());
    world.set_speeds_over_time(&[(2_000, 0, 500_000), (4_000, 0, 250_000)]);
    assert_eq!(rows_of(&mut world, Nanos(1_000)), "0 | AAAAAAAA.\n");
}

/// Both work at half speed until B is done after 4 µs; the 2 µs that A has left it does alone.
#[test]
fn threads_of_a_core_slow_each_other() {
    let place = |cpu| Place { cpu: Cpu(cpu), core: 0, llc: 0, node: 0, socket: 0 };
    let threads = Topology::new(vec![place(0), place(1)]);
    let run = |smt_speed| {
        let mut plan = plan(vec![script("A", &[us(4)]), script("B", &[us(2)])]);
        let hardware = Hardware::new(threads.clone());
        let config = Config { smt_speed, ..bare() };
        let mut world = World::new(&mut plan, hardware, Box::new(Fifo::new(2, None)), config);
        rows_of(&mut world, Nanos(1_000))
    };
    assert_eq!(run(500_000), "0 | AAAAAA.\n1 | BBBB...\n");
    assert_eq!(run(1_000_000), "0 | AAAA.\n1 | BB...\n");
}

/// Up to the tick after 12 µs each of three CPUs may have a third: A, B, then A again for a third of what is left, and so
/// on. C needs CPU 1, whose turn has come.
#[test]
fn cpus_that_take_turns_have_slices_up_to_the_next_timer() {
    let mut plan = plan(vec![script("A", &[us(6)]), script("B", &[us(2)])]);
    let config = Config { turns: true, tick_ns: 12_000, ..bare() };
    let hardware = Hardware::new(Topology::flat(3));
    let mut world = World::new(&mut plan, hardware, Box::new(Fifo::new(3, None)), config);
    let rows = rows_of(&mut world, Nanos(1_000));
    assert_eq!(rows, "");
}

/// What wakes a task on another CPU goes on up to the end of its own slice, or until it sleeps.
#[test]
fn a_woken_task_waits_for_the_turn_of_its_cpu() {
    let post = Op::Post(SemaphoreId(0));
    let wait = Op::AwaitPost(SemaphoreId(0));
    let mut plan = plan(vec![script("A", &[us(2), post, us(3)]), script("B", &[wait, us(1)])]);
    plan.semaphores = 1;
    let config = Config { turns: true, ..bare() };
    let hardware = Hardware::new(Topology::flat(2));
    let mut world = World::new(&mut plan, hardware, Box::new(Fifo::new(2, None)), config);
    let rows = rows_of(&mut world, Nanos(1_000));
    assert_eq!(rows, "");
}
