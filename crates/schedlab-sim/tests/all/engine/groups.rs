//! Control groups: weights, limits, hierarchies.

use super::{bare, plan, rows_of, script};
use schedlab_model::{Event, Nanos, Pid, Setting, Topology, What};
use schedlab_sim::policy::{
    Cfs, CfsKnobs, Eevdf, EevdfKnobs, Group, Groups, Limit, Nested, Placer, PlacerKnobs,
};
use schedlab_sim::{Config, Hardware, Model, Simulated, TaskId, World};
use schedlab_workload::plan::{Placement, Policy as TaskPolicy, Task};
use schedlab_workload::{Machine as _, Observed, Op, RecordSpec, RunSpec, WorkloadSpec};

const MS: u64 = 1_000_000;

fn group(name: &str, parent: Option<usize>, shares: u64, limit: Option<Limit>) -> Group {
    Group { name: name.to_owned(), parent, shares, limit }
}

/// Busy tasks, each in a group; ticks of 1 ms.
fn world_of(kernel: &str, cpus: u16, groups: &[Group], of: &[(Option<usize>, u64)]) -> World {
    let names = "ABCDEFGH";
    let busy = |(at, (_, ms)): (usize, &(Option<usize>, u64))| {
        script(&names[at..=at], &[Op::Compute { iterations: ms * MS }])
    };
    let tasks = of.iter().enumerate().map(busy).collect();
    let of: Vec<Option<usize>> = of.iter().map(|one| one.0).collect();
    world_with(kernel, cpus, groups, tasks, &of)
}

fn world_with(
    kernel: &str,
    cpus: u16,
    groups: &[Group],
    tasks: Vec<Task>,
    of: &[Option<usize>],
) -> World {
    let hardware = Hardware::new(Topology::flat(cpus));
    let count: usize = cpus.into();
    let make = || -> Box<dyn Nested> {
        let none = Placer::new(1, PlacerKnobs::default());
        match kernel {
            "cfs" => Box::new(Cfs::new(count, CfsKnobs::of(count), none)),
            _ => Box::new(Eevdf::new(count, EevdfKnobs::of(count, MS), none)),
        }
    };
    let placer = Placer::new(count, PlacerKnobs::default());
    let policy = Groups::new(groups, &hardware, MS, 1, 5 * MS, placer, &make);
    let config = Config { tick_ns: MS, ..bare() };
    let mut world = World::new(&mut plan(tasks), hardware, Box::new(policy), config);
    world.set_groups(groups.len(), of, None);
    world
}

fn used(world: &World, tasks: usize) -> Vec<u64> {
    (0..tasks).map(|task| world.usage(TaskId(task as u32)).user_ns / MS).collect()
}

fn run(world: &mut World, ms: u64) {
    world.run_until(ms * MS, &mut |_| ()).expect("no deadlock");
}

#[test]
fn groups_share_by_weight_however_many_tasks_they_have() {
    for kernel in ["cfs", "eevdf"] {
        let groups = [group("a", None, 3_072, None), group("b", None, 1_024, None)];
        let of = [(Some(0), 9_000), (Some(1), 9_000), (Some(1), 9_000), (Some(1), 9_000)];
        let mut world = world_of(kernel, 1, &groups, &of);
        run(&mut world, 3_000);
        let used = used(&world, 4);
        // Three quarters for the one of `a`, a twelfth for each of `b`.
        assert!(used[0].abs_diff(2_250) < 60, "{kernel}: {used:?}");
        assert!(used[1..].iter().all(|ms| ms.abs_diff(250) < 40), "{kernel}: {used:?}");
    }
}

#[test]
fn groups_within_groups_share_what_their_parent_gets() {
    for kernel in ["cfs", "eevdf"] {
        let groups = [
            group("a", None, 1_024, None),
            group("a/x", Some(0), 1_024, None),
            group("a/y", Some(0), 2_048, None),
        ];
        // A task in the root, one in each of the inner groups: 1/2, 1/6, 1/3.
        let of = [(None, 9_000), (Some(1), 9_000), (Some(2), 9_000)];
        let mut world = world_of(kernel, 1, &groups, &of);
        run(&mut world, 3_000);
        let used = used(&world, 3);
        for (ms, expected) in used.iter().zip([1_500_u64, 500, 1_000]) {
            assert!(ms.abs_diff(expected) < 60, "{kernel}: {used:?}");
        }
    }
}

/// Its class counts, not that of its group, which is no idle one (`check_preempt_wakeup`).
#[test]
fn an_idle_or_batch_task_of_a_group_displaces_nobody_when_it_wakes() {
    for (kernel, policy) in
        [("cfs", TaskPolicy::Idle), ("eevdf", TaskPolicy::Idle), ("eevdf", TaskPolicy::Batch)]
    {
        let nap = [Op::Sleep(Nanos(50_000)), Op::Compute { iterations: 20_000 }].repeat(100);
        let placement = Placement { policy: Some(policy), ..Placement::default() };
        let sleeper = Task { placement, ..script("B", &nap) };
        let tasks = vec![script("A", &[Op::Compute { iterations: 20 * MS }]), sleeper];
        let groups = [group("b", None, 1_024, None)];
        let mut world = world_with(kernel, 1, &groups, tasks, &[None, Some(0)]);
        let mut displaced = 0;
        let is_displaced = |event: &&Event| match event.what {
            What::Switch { prev, left, .. } => prev == Pid(1) && left.is_runnable(),
            _ => false,
        };
        let mut count = |events: &[Event]| displaced += events.iter().filter(is_displaced).count();
        world.run_until(1_000 * MS, &mut count).expect("no deadlock");
        // A tick each millisecond may displace it.
        assert!(displaced <= 20, "{kernel}, {policy:?}: displaced {displaced} times");
    }
}

/// 20 ms of each 100, which the CPU takes in four slices of 5 ms. Columns of 10 ms.
#[test]
fn a_limited_group_stands_still_until_its_next_period() {
    for kernel in ["cfs", "eevdf"] {
        let limit = Limit { quota: 20 * MS, period: 100 * MS, burst: 0, phase: 0 };
        let groups = [group("a", None, 1_024, Some(limit))];
        let mut world = world_of(kernel, 1, &groups, &[(Some(0), 50)]);
        let expected = "0 | AA........AA........A.\n|   aaaaaaaa  aaaaaaaa\n";
        assert_eq!(rows_of(&mut world, Nanos(10 * MS)), expected, "{kernel}");
        // What a group does not get, others do: 80 ms of each 100.
        let mut world = world_of(kernel, 1, &groups, &[(Some(0), 9_000), (None, 1_600)]);
        run(&mut world, 3_000);
        let ended = world.task_ended_at(TaskId(1)).expect("it is done") / MS;
        assert!(ended.abs_diff(2_000) <= 10, "{kernel}: {ended}");
    }
}

/// The quota is that of all CPUs together.
#[test]
fn cpus_take_turns_at_the_quota() {
    let limit = Limit { quota: 50 * MS, period: 100 * MS, burst: 0, phase: 0 };
    let groups = [group("a", None, 1_024, Some(limit))];
    let mut world = world_of("cfs", 2, &groups, &[(Some(0), 9_000), (Some(0), 9_000)]);
    run(&mut world, 2_000);
    let used = used(&world, 2);
    assert!((used[0] + used[1]).abs_diff(1_000) <= 20, "{used:?}");
}

#[test]
fn all_tasks_of_limited_groups_end() {
    for kernel in ["cfs", "eevdf"] {
        let limit = Limit { quota: 5 * MS, period: 20 * MS, burst: 5 * MS, phase: 0 };
        let groups = [
            group("a", None, 512, Some(limit)),
            group("a/x", Some(0), 1_024, Some(limit)),
            group("b", None, 2_048, None),
        ];
        let of = [(Some(0), 30), (Some(1), 20), (Some(1), 10), (Some(2), 40), (None, 15)];
        for cpus in [1, 2, 3] {
            let mut world = world_of(kernel, cpus, &groups, &of);
            run(&mut world, 60_000);
            assert_eq!(used(&world, 5), [30, 20, 10, 40, 15], "{kernel} on {cpus}");
            assert!((0..5).all(|task| world.task_ended_at(TaskId(task)).is_some()));
        }
    }
}

/// What the CPU switches to first from a time on, of a load that rt-app describes, where interrupts and the kernel's code
/// take no time: times in nanoseconds, tasks by their pids.
fn switches_from(
    kernel: &str,
    tasks: &str,
    settings: &[(&str, &str)],
    from: u64,
) -> Vec<(u64, i32)> {
    let costs = "code_1000 = 0\nrcu = 0\ntick = 0\ntimer = 0\nwake = 0\n";
    let name = format!("sim:kernel={kernel},cpus=1").parse().unwrap();
    let program = format!("{{\"global\": {{\"duration\": 1}}, \"tasks\": {{{tasks}}}}}");
    let workload = WorkloadSpec::Builtin {
        name: "rt-app".to_owned(),
        options: [("program".to_owned(), program)].into(),
    };
    let setting =
        |&(knob, value): &(&str, &str)| Setting { knob: knob.to_owned(), value: value.to_owned() };
    let settings = settings.iter().map(setting).collect();
    let load = RunSpec { record: Some(RecordSpec::default()), settings, ..RunSpec::of(workload) };
    let mut told = Observed::default();
    Simulated::new(Model::of(&name, Some(costs)).unwrap()).run(&load, &mut told).unwrap();
    let began = told.events[0].time.0;
    let switch = |event: &Event| match event.what {
        What::Switch { next, .. } => Some((event.time.0 - began, next.0)),
        _ => None,
    };
    told.events.iter().filter_map(switch).filter(|one| one.0 >= from).take(3).collect()
}

/// Expected are the switches of Linux 6.1.192 itself: kernel/sched as it is, in the same world.
#[test]
fn an_empty_group_has_the_weight_that_its_load_average_leaves() {
    // The tasks got their weight before they first ran, so they begin without load. What their group was credited for
    // the use that they are taken to make is left when they sleep.
    let tasks = "\"t\": {\"priority\": 10, \"taskgroup\": \"/a/b\", \"instance\": 2, \"loop\": -1, \
        \"run\": 300, \"sleep\": 30}";
    let found = switches_from("cfs-6.1", tasks, &[], 4_386_600);
    assert_eq!(found, [(4_386_600, 1_001), (4_688_900, 1_002), (4_991_200, 1_001)]);
    // Averages of many periods.
    let tasks = "\"a\": {\"priority\": 10, \"taskgroup\": \"/a/b\", \"instance\": 1, \"loop\": -1, \
        \"run\": 300, \"sleep\": 5000}, \"r\": {\"policy\": \"SCHED_RR\", \"priority\": 5, \"instance\": 1, \
        \"loop\": -1, \"run\": 300, \"sleep\": 30}, \"g\": {\"taskgroup\": \"/a\", \"instance\": 1, \"loop\": -1, \
        \"run\": 15000, \"sleep\": 400}, \"b\": {\"instance\": 1, \"loop\": -1, \"run\": 15000, \"sleep\": 30}";
    let found = switches_from("cfs-6.1", tasks, &[], 139_801_100);
    assert_eq!(found, [(139_801_100, 1_001), (139_831_100, 1_002), (140_133_400, 1_004)]);
    // A task that becomes real-time leaves its group's queue before its load does: the group keeps its weight.
    let tasks = "\"f\": {\"policy\": \"SCHED_FIFO\", \"priority\": 20, \"taskgroup\": \"/a\", \"instance\": 1, \
        \"loop\": -1, \"run\": 2000, \"sleep\": 5000}, \"i\": {\"policy\": \"SCHED_IDLE\", \
        \"taskgroup\": \"/a/b\", \"instance\": 1, \"loop\": -1, \"run\": 50, \"sleep\": 30}, \
        \"n\": {\"taskgroup\": \"/a/b\", \"instance\": 1, \"loop\": -1, \"run\": 2000, \"sleep\": 400}";
    let found = switches_from("cfs-6.1", tasks, &[], 214_500);
    assert_eq!(found, [(214_500, 1_003), (246_000, 1_002), (277_500, 1_000)]);
}

/// As above. A task that gets a weight of its own before it first wakes takes its parent's load from its queue, where
/// that never was.
#[test]
fn a_forked_task_with_another_weight_takes_load_from_its_queue() {
    let tasks = "\"b\": {\"taskgroup\": \"/a/b\", \"instance\": 1, \"loop\": -1, \"run\": 300, \"sleep\": 5000}, \
        \"a\": {\"priority\": -5, \"taskgroup\": \"/a\", \"instance\": 2, \"loop\": -1, \"run\": 15000, \
        \"sleep\": 30}";
    let found = switches_from("cfs-6.1", tasks, &[], 480_900);
    assert_eq!(found, [(480_900, 1_001), (793_200, 1_002), (4_000_000, 1_000)]);
}

/// The fair server of Linux 6.12.117 picks beside a real-time task: groups that go on get a new slice.
#[test]
fn the_fair_server_picks_the_groups_anew() {
    let tasks = "\"n\": {\"taskgroup\": \"/a\", \"instance\": 1, \"loop\": -1, \"run\": 2000, \"sleep\": 5000}, \
        \"i\": {\"policy\": \"SCHED_IDLE\", \"taskgroup\": \"/a/b\", \"instance\": 6, \"loop\": -1, \"run\": 300, \
        \"sleep\": 5000}, \"s\": {\"priority\": -5, \"instance\": 1, \"loop\": -1, \"run\": 50, \"sleep\": 30}, \
        \"f\": {\"policy\": \"SCHED_FIFO\", \"priority\": 20, \"taskgroup\": \"/a/b\", \"instance\": 1, \
        \"loop\": -1, \"run\": 2000, \"sleep\": 30}";
    let found = switches_from("eevdf-6.12", tasks, &[], 981_672_900);
    assert_eq!(found, [(981_672_900, 1_001), (981_752_900, 1_008), (981_805_200, 1_005)]);
}

/// Expected are the switches of Linux 6.1.192 and 6.12.117 themselves: kernel/sched as it is, in the same world. The group
/// pays for its time only when it is updated, and 6.12 ends its periods 20.5 ms later.
#[test]
fn a_limited_group_stops_and_goes_on_when_that_of_the_kernel_does() {
    let tasks = "\"t0\": {\"taskgroup\": \"@a\", \"loop\": -1, \"run\": 15000, \"sleep\": 400}, \
        \"t1\": {\"loop\": -1, \"run\": 300, \"sleep\": 5000}, \
        \"t2\": {\"taskgroup\": \"/b\", \"loop\": -1, \"run\": 2000, \"sleep\": 5000}";
    let expected = [
        ("cfs-6.1", [(32_000_000, 0), (32_221_200, 1_003), (34_223_500, 0)]),
        ("cfs-6.1", [(100_002_000, 1_002), (100_304_300, 1_001), (104_000_000, 1_003)]),
        ("eevdf-6.12", [(56_000_000, 0), (56_755_800, 1_003), (58_758_100, 0)]),
        ("eevdf-6.12", [(122_246_800, 1_002), (122_549_100, 1_001), (127_296_800, 1_003)]),
    ];
    for (kernel, switches) in expected {
        let limit = [("cgroup_max", "20ms")];
        assert_eq!(switches_from(kernel, tasks, &limit, switches[0].0), switches, "{kernel}");
    }
}

/// Expected are the switches of Linux 6.12.117 itself. The server stops when all fair tasks are held up, and begins again
/// when their period ends.
#[test]
fn the_fair_server_begins_again_with_a_limited_group() {
    let tasks = "\"t0\": {\"policy\": \"SCHED_RR\", \"priority\": 5, \"instance\": 3, \"loop\": -1, \
        \"run\": 15000, \"sleep\": 30}, \
        \"t1\": {\"taskgroup\": \"@a\", \"loop\": -1, \"run\": 2000, \"sleep\": 30}, \
        \"t2\": {\"loop\": -1, \"run\": 15000, \"sleep\": 30}";
    let expected = [(1_020_469_532, 1_004), (1_020_815_532, 1_000), (1_020_818_632, 1_004)];
    let limit = [("cgroup_max", "20ms")];
    assert_eq!(switches_from("eevdf-6.12", tasks, &limit, 1_020_000_000), expected);
}
