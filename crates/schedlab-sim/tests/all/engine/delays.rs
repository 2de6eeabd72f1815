//! What lies between a decision and its effect: interrupts between CPUs, the way out of idle, calls that are not
//! interrupted.

use super::{bare, plan, rows_of, script, us};
use schedlab_model::{Nanos, Topology};
use schedlab_sim::policy::Fifo;
use schedlab_sim::{Config, Costs, Hardware, Start, World};
use schedlab_workload::plan::Plan;
use schedlab_workload::{Op, SemaphoreId, WordId};

fn shown(mut plan: Plan, cpus: u16, config: Config) -> String {
    let fifo = Box::new(Fifo::new(cpus.into(), Some(1)));
    let mut world = World::new(&mut plan, Hardware::new(Topology::flat(cpus)), fifo, config);
    rows_of(&mut world, Nanos(1_000))
}

/// A wakes B after 1 µs. The interrupt takes 2 µs, and CPU 1 needs 3 to leave idle.
#[test]
fn a_woken_task_waits_for_the_interrupt_and_the_way_out_of_idle() {
    let wake = Op::Wake { word: WordId(0), stamp: Nanos(0) };
    let tasks =
        vec![script("A", &[us(1), wake, us(9)]), script("B", &[Op::Wait(WordId(0)), us(2)])];
    let costs = Costs { ipi: 2_000, idle_exit: 3_000, ..Costs::NONE };
    let plan = Plan { words: 1, ..plan(tasks) };
    assert_eq!(
        shown(plan, 2, Config { costs, ..bare() }),
        "0 | AAAAAAAAAA.\n1 | ......BB...\n|  bbbbb\n"
    );
}

#[test]
fn a_timer_waits_for_the_way_out_of_idle() {
    let plan = plan(vec![script("A", &[Op::Sleep(Nanos(2_000)), us(1)])]);
    let costs = Costs { idle_exit: 3_000, ..Costs::NONE };
    assert_eq!(shown(plan, 1, Config { costs, ..bare() }), "0 | .....A.\n");
}

/// The tick after 4 µs displaces A, which is in a call of 10 µs. Where calls are not interrupted, A leaves after them. It
/// gets the CPU back at the tick after 12 µs, and ends at once.
#[test]
fn only_a_preemptible_kernel_interrupts_a_call() {
    let run = |preempt_kernel| {
        let post = Op::Post(SemaphoreId(0));
        let plan =
            Plan { semaphores: 1, ..plan(vec![script("A", &[post]), script("B", &[us(3)])]) };
        let costs = Costs { post: 10_000, ..Costs::NONE };
        shown(plan, 1, Config { costs, preempt_kernel, tick_ns: 4_000, ..bare() })
    };
    assert_eq!(run(false), "0 | AAAAAAAAAABBB.\n| bbbbbbbbbbaa\n");
    assert_eq!(run(true), "0 | AAAABBBAAAAAA.\n| bbbbaaa\n");
}

/// A works for 1 µs and ends: as a process in 5 µs, as a thread in 2.
#[test]
fn a_thread_ends_at_its_own_cost() {
    let costs = Costs { exit: 5_000, exit_thread: 2_000, ..Costs::NONE };
    let ended = |processes| {
        let plan = Plan { processes, ..plan(vec![script("A", &[us(1)])]) };
        shown(plan, 1, Config { costs, ..bare() })
    };
    assert_eq!(ended(true), "0 | AAAAAA.\n");
    assert_eq!(ended(false), "0 | AAA.\n");
}

/// The starter, which is not shown, takes 3 µs to fork a process or 1 for a thread. The new task prepares itself for 4 µs
/// or 2, and works for 1.
#[test]
fn a_thread_starts_at_its_own_cost() {
    let costs = Costs {
        fork: 3_000,
        prepare: 4_000,
        fork_thread: 1_000,
        prepare_thread: 2_000,
        ..Costs::NONE
    };
    let started = |processes| {
        let plan = Plan { processes, ..plan(vec![script("A", &[us(1)])]) };
        shown(plan, 1, Config { costs, start: Start::Forked, ..bare() })
    };
    assert_eq!(started(true).lines().next(), Some("0 | ...BBBBB."));
    assert_eq!(started(false).lines().next(), Some("0 | .BBB."));
}
