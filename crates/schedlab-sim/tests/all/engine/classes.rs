//! Real-time and deadline tasks above fair ones: schedules computed by hand, and who gets which CPU.

use super::{bare, plan, policy, rows_of, script, us};
use schedlab_model::{Nanos, Topology};
use schedlab_sim::policy::{ClassKnobs, Classes};
use schedlab_sim::{Config, Hardware, TaskId, World};
use schedlab_workload::plan::{Placement, Policy, Task};
use schedlab_workload::{Op, PlaceId};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn with(policy: Policy, name: &str, ops: &[Op]) -> Task {
    let placement = Placement { policy: Some(policy), ..Placement::default() };
    Task { placement, ..script(name, ops) }
}

fn deadline(runtime: u64, deadline: u64, period: u64) -> Policy {
    let [runtime, deadline, period] = [runtime, deadline, period].map(|us| Nanos(us * US));
    Policy::Deadline { runtime, deadline, period }
}

fn knobs() -> ClassKnobs {
    ClassKnobs::of(true, US)
}

/// Classes above a fair policy, with a tick of so many nanoseconds.
fn world_of(tasks: Vec<Task>, (cpus, fair): (u16, &str), knobs: ClassKnobs, tick: u64) -> World {
    let classes = Classes::new(cpus.into(), knobs, policy(fair, cpus));
    let config = Config { tick_ns: tick, ..bare() };
    let hardware = Hardware::new(Topology::flat(cpus));
    World::new(&mut plan(tasks), hardware, Box::new(classes), config)
}

fn rows(tasks: Vec<Task>, cpus: u16, knobs: ClassKnobs) -> String {
    rows_of(&mut world_of(tasks, (cpus, "cfs"), knobs, US), Nanos(US))
}

fn nap(us: u64) -> Op {
    Op::Sleep(Nanos(us * US))
}

#[test]
fn a_real_time_task_runs_before_fair_ones_and_by_priority() {
    let tasks = || {
        vec![
            script("N", &[us(4)]),
            with(Policy::Fifo(10), "R", &[nap(1), us(3)]),
            with(Policy::Fifo(20), "S", &[nap(2), us(1)]),
        ]
    };
    assert_eq!(rows(tasks(), 1, knobs()), "0 | NRSRRNNN.\n|  nnnn\n|   r\n");
    // Of one priority, the first to come runs until it sleeps.
    let equal = vec![
        with(Policy::Fifo(5), "A", &[us(3)]),
        with(Policy::Fifo(5), "B", &[us(2)]),
        with(Policy::Fifo(5), "C", &[us(1)]),
    ];
    assert_eq!(rows(equal, 1, knobs()), "0 | AAABBC.\n| bbb\n| ccccc\n");
}

/// A turn is three ticks here. A task whose turn is over goes behind those of its priority.
#[test]
fn round_robin_tasks_take_turns() {
    let tasks = ["A", "B"].map(|name| with(Policy::RoundRobin(5), name, &[us(8)])).into();
    let knobs = ClassKnobs { turn: 3, ..knobs() };
    assert_eq!(rows(tasks, 1, knobs), "0 | AAABBBAAABBBAABB.\n| bbbaaabbbaaabb\n");
}

/// 3 of each 10 µs, whose timer goes off a nanosecond later. The tick sees at 4 µs that more than 3 were used; the excess
/// is missing in the next period. The CPU idles rather than run a throttled task.
#[test]
fn real_time_tasks_are_throttled_for_the_rest_of_a_period() {
    let tasks = vec![with(Policy::Fifo(1), "R", &[us(9)]), script("N", &[us(8)])];
    let knobs = ClassKnobs { rt_runtime: 3 * US, rt_period: 10 * US, ..knobs() };
    let expected = "0 | RRRRNNNNNNNRRNN......RR\n| nnnnrrrrrrrnnrrrrrrrr\n";
    assert_eq!(rows(tasks, 1, knobs), expected);
}

/// B wakes while it waits for its next period, and has the CPU look who should run (`wakeup_preempt_dl`). 6.1 charges A
/// before it picks, and finds its budget used up. 6.12 picks A again, and finds that at the tick.
#[test]
fn a_task_that_is_picked_again_is_charged_at_the_tick_in_6_12() {
    for (throttled, expected) in [(true, "0 | BBBAAAAN"), (false, "0 | BBBAAAAAAAN")] {
        let tasks = vec![
            with(deadline(3, 20, 20), "A", &[us(9)]),
            with(deadline(2, 15, 15), "B", &[us(3), nap(4), us(1)]),
            script("N", &[us(9)]),
        ];
        let knobs = ClassKnobs::of(throttled, 10 * US);
        let rows = rows_of(&mut world_of(tasks, (1, "cfs"), knobs, 10 * US), Nanos(US));
        assert!(rows.starts_with(expected), "{throttled}: {rows}");
    }
}

/// In 6.12 real-time tasks are not throttled. Fair tasks that starve get 50 ms when 950 ms are over, and from then on
/// 50 ms of each second.
#[test]
fn the_server_gives_starving_fair_tasks_50_ms_of_a_second() {
    let work = Op::Compute { iterations: 2_000 * MS };
    let tasks = vec![with(Policy::Fifo(1), "R", &[work]), script("N", &[work])];
    let mut world = world_of(tasks, (1, "eevdf"), ClassKnobs::of(false, MS), MS);
    world.run_until(3_000 * MS, &mut |_| ()).expect("no deadlock");
    let used = |task| world.usage(TaskId(task)).user_ns / MS;
    // R is done at 2,100 ms: it ran for 950, 950 and 100 ms.
    assert_eq!(used(0), 2_000);
    let tasks = vec![with(Policy::Fifo(1), "R", &[work]), script("N", &[us(150_000)])];
    let mut world = world_of(tasks, (1, "eevdf"), ClassKnobs::of(false, MS), MS);
    let columns: String = [("R", 19), ("N", 1), ("R", 19), ("N", 1), ("R", 2), ("N", 1)]
        .map(|(who, count)| who.repeat(count))
        .concat();
    let text = rows_of(&mut world, Nanos(50 * MS));
    assert_eq!(text.lines().next(), Some(&*format!("0 | {columns}.")), "{text}");
}

/// 2 µs of each 5. The budget is checked at ticks.
#[test]
fn a_deadline_task_gets_its_budget_of_each_period() {
    let tasks = vec![with(deadline(2, 5, 5), "D", &[us(5)]), script("N", &[us(8)])];
    let expected = "0 | DDNNNDDNNNDNN.\n| nndddnndddn\n";
    assert_eq!(rows(tasks, 1, knobs()), expected);
}

#[test]
fn the_earliest_deadline_goes_first_and_above_real_time() {
    let tasks = vec![
        with(deadline(3, 10, 10), "A", &[us(2)]),
        with(deadline(2, 4, 10), "B", &[nap(1), us(1)]),
        with(Policy::Fifo(99), "R", &[us(1)]),
    ];
    assert_eq!(rows(tasks, 1, knobs()), "0 | ABAR.\n| rrr\n|  a\n");
}

/// A deadline task that yields gives back what is left of its budget.
#[test]
fn a_deadline_task_that_yields_waits_for_its_next_period() {
    let tasks =
        vec![with(deadline(3, 5, 5), "D", &[us(1), Op::Yield, us(1)]), script("N", &[us(5)])];
    assert_eq!(rows(tasks, 1, knobs()), "0 | DNNNNDN.\n| nddddn\n");
}

/// C displaces A, which is pushed to the CPU of B, whose priority is lower. When C ends, its CPU takes B.
#[test]
fn the_most_urgent_tasks_run_on_all_cpus() {
    let tasks = vec![
        with(Policy::Fifo(5), "A", &[us(3)]),
        with(Policy::Fifo(1), "B", &[us(3)]),
        with(Policy::Fifo(9), "C", &[us(3)]),
    ];
    assert_eq!(rows(tasks, 2, knobs()), "0 | CCCBBB.\n1 | AAA....\n| bbb\n");
}

#[test]
fn a_task_may_become_a_real_time_task_and_fair_again() {
    let place = |policy| Placement { policy: Some(policy), ..Placement::default() };
    let rises = Op::Place(PlaceId(0));
    let falls = Op::Place(PlaceId(1));
    let mut plan = plan(vec![
        script("A", &[us(2), rises, us(20_000), falls, us(30_000)]),
        script("B", &[us(20_000)]),
    ]);
    plan.places = vec![place(Policy::Fifo(1)), place(Policy::Normal)];
    let classes = Classes::new(1, knobs(), policy("cfs", 1));
    let hardware = Hardware::new(Topology::flat(1));
    let mut world = World::new(&mut plan, hardware, Box::new(classes), bare());
    world.run_until(20 * MS, &mut |_| ()).expect("no deadlock");
    // From 2 µs on A has the CPU for itself.
    assert_eq!(world.usage(TaskId(1)).user_ns, 0);
    world.run_until(u64::MAX - 1, &mut |_| ()).expect("no deadlock");
    // They share then: B, which has less to do, ends first.
    let ended = |task| world.task_ended_at(TaskId(task));
    assert!(ended(1) < ended(0), "{:?} {:?}", ended(0), ended(1));
}

/// Two CPUs have room for 1.9: 95 % of each.
#[test]
fn a_reservation_that_does_not_fit_fails() {
    let asked = |share: u64| {
        let mut plan = plan(vec![
            with(deadline(950, 1_000, 1_000), "A", &[us(10)]),
            script("B", &[Op::Place(PlaceId(0)), us(1)]),
        ]);
        let policy_ = Some(deadline(share, 1_000, 1_000));
        plan.places = vec![Placement { policy: policy_, ..Placement::default() }];
        let classes = Classes::new(2, knobs(), policy("cfs", 2));
        let hardware = Hardware::new(Topology::flat(2));
        let mut world = World::new(&mut plan, hardware, Box::new(classes), bare());
        world.run_until(u64::MAX - 1, &mut |_| ()).expect("no deadlock");
        world.task_error(TaskId(1))
    };
    assert_eq!((asked(940), asked(960)), (None, Some(16)));
}
