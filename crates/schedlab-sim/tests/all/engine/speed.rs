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

/// A's CPU sets the timer of the tick after 12 µs, which ends its slice. B has half of the 12 µs. Then A has half of the
/// 6 that are left, and B as much, of which it needs 2. A does the rest alone. By shares A would end first, after 12 µs.
#[test]
fn cpus_that_take_turns_have_slices_up_to_the_next_timer() {
    let mut plan = plan(vec![script("A", &[us(6)]), script("B", &[us(8)])]);
    let config = Config { turns: true, tick_ns: 12_000, ..bare() };
    let hardware = Hardware::new(Topology::flat(2));
    let mut world = World::new(&mut plan, hardware, Box::new(Fifo::new(2, None)), config);
    let rows = rows_of(&mut world, Nanos(1_000));
    assert_eq!(rows, "0 | AAAAAAAAAAAAAA.\n1 | BBBBBBBBBBB....\n");
}

/// A wakes B after 2 µs and goes on for 3: its slice is half of a tick. An idle CPU gives its turn up a nanosecond later,
/// so all lies behind the whole microseconds.
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
    assert_eq!(rows, "0 | AAAAAA.\n1 | ......B\n|    bbb\n");
}
