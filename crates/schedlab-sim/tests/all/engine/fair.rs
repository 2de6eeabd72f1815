//! The fair schedulers: schedules computed by hand from the kernel's rules, and fairness.

use super::{bare, plan, script, text, us};
use proptest::prelude::*;
use schedlab_model::{Nanos, Topology};
use schedlab_sim::policy::{Cfs, CfsKnobs, Eevdf, EevdfKnobs, Placer, PlacerKnobs, Policy};
use schedlab_sim::{Config, Hardware, TaskId, World};
use schedlab_workload::Op;
use schedlab_workload::plan::{Placement, Plan, Policy as TaskPolicy, Task};

fn cfs(knobs: CfsKnobs) -> Box<dyn Policy> {
    Box::new(Cfs::new(1, knobs, Placer::new(1, PlacerKnobs::default())))
}

fn eevdf(knobs: EevdfKnobs) -> Box<dyn Policy> {
    Box::new(Eevdf::new(1, knobs, Placer::new(1, PlacerKnobs::default())))
}

fn one_cpu(mut plan: Plan, policy: Box<dyn Policy>, tick_us: u64) -> World {
    let config = Config { tick_ns: tick_us * 1_000, ..bare() };
    World::new(&mut plan, Hardware::new(Topology::flat(1)), policy, config)
}

fn rows(world: &mut World) -> String {
    let text = text(world);
    let rows = text.lines().filter(|line| line.contains('|'));
    rows.map(|line| line.trim().to_owned() + "\n").collect()
}

fn micro(knobs: CfsKnobs) -> CfsKnobs {
    CfsKnobs { latency: 6_000, min_granularity: 2_000, wakeup_granularity: 1_000, ..knobs }
}

/// The slice of two equal tasks is half the period, 3 µs, which the kernel's division rounds down to 2,999 ns. So the
/// tick after 3 µs displaces the task. With a slice of 3,000 ns, which min_granularity makes, it would
/// not have run for more than its slice, and goes on to the next tick.
#[test]
fn cfs_displaces_at_the_first_tick_after_the_slice() {
    let first = plan(vec![script("A", &[us(8)]), script("B", &[us(4)])]);
    let mut world = one_cpu(first, cfs(micro(CfsKnobs::of(1))), 1);
    assert_eq!(rows(&mut world), "0 | AAABBBAAABAA.\n| bbbaaabbba\n");
    let plan = plan(vec![script("A", &[us(5)]), script("B", &[us(4)])]);
    let knobs = CfsKnobs { min_granularity: 3_000, ..micro(CfsKnobs::of(1)) };
    let mut world = one_cpu(plan, cfs(knobs), 1);
    assert_eq!(rows(&mut world), "0 | AAAABBBBA.\n| bbbbaaaab\n");
}

/// A sleeper gets half a period of credit: 3 µs. B, 4 µs in, is 4 µs ahead of it. That is more than the wakeup
/// granularity, so that A preempts; with a granularity of 5 µs it waits for the tick.
#[test]
fn cfs_lets_a_sleeper_preempt_beyond_the_wakeup_granularity() {
    let tasks = || {
        let nap = Op::Sleep(Nanos(4_000));
        vec![script("A", &[us(1), nap, us(1)]), script("B", &[us(9)])]
    };
    let knobs = CfsKnobs { min_granularity: 20_000, ..micro(CfsKnobs::of(1)) };
    let mut world = one_cpu(plan(tasks()), cfs(knobs), 100);
    assert_eq!(rows(&mut world), "0 | ABBBBABBBBB.\n| b    b\n");
    let patient = CfsKnobs { wakeup_granularity: 5_000, ..knobs };
    let mut world = one_cpu(plan(tasks()), cfs(patient), 100);
    assert_eq!(rows(&mut world), "0 | ABBBBBBBBBA.\n| b    aaaaa\n");
}

/// A is 5 µs behind B when it yields, and is picked again. C preempts it, and ends when A is 1 µs behind B: within the
/// granularity of 2 µs. Linux 6.1 still remembers the yield, and picks B.
#[test]
fn a_yield_is_remembered_after_the_next_pick() {
    let nap = |us: u64| Op::Sleep(Nanos(us * 1_000));
    let a = script("A", &[us(1), nap(8), us(1), Op::Yield, us(8)]);
    let tasks = vec![a, script("C", &[nap(13), us(1)]), script("B", &[us(12)])];
    let knobs = CfsKnobs { min_granularity: 20_000, ..micro(CfsKnobs::of(1)) };
    let knobs = CfsKnobs { wakeup_granularity: 2_000, gentle_fair_sleepers: false, ..knobs };
    assert_eq!(
        rows(&mut one_cpu(plan(tasks), cfs(knobs), 100)),
        "0 | ABBBBBBBBAAAAACBBBBAAAA.\n| c        bbbbbb\n| b             aaaaa\n"
    );
}

#[test]
fn cfs_shares_a_cpu_by_weight() {
    // Nice 5 has weight 335 beside 1,024: a quarter of the CPU.
    let light = Placement { nice: Some(5), ..Placement::default() };
    let tasks =
        vec![script("A", &[us(300_000)]), Task { placement: light, ..script("B", &[us(300_000)]) }];
    let mut world = one_cpu(plan(tasks), cfs(CfsKnobs::of(1)), 1_000);
    world.run_until(200_000_000, &mut |_| ()).expect("no deadlock");
    let [heavy, light] = [0, 1].map(|task| world.usage(TaskId(task)).user_ns);
    let share = light * 1_000 / (heavy + light);
    assert!((230..265).contains(&share), "{share}");
}

/// Both ask for 3 µs. A task that was picked keeps the CPU until its slice is used up, which the tick sees. At 9 µs A
/// has done its work as the tick comes, which is first: A ends when it next runs.
#[test]
fn eevdf_runs_to_the_end_of_the_slice() {
    let knobs = EevdfKnobs { base_slice: 3_000, ..EevdfKnobs::of(1, 1_000) };
    let plan = plan(vec![script("A", &[us(6)]), script("B", &[us(6)])]);
    let mut world = one_cpu(plan, eevdf(knobs), 1);
    assert_eq!(rows(&mut world), "0 | AAABBBAAABBB.\n| bbbaaabbbaaa\n");
}

/// B wakes eligible at 1.1 ms, while C has run for 0.1 ms of its slice and is behind A, thus eligible and protected.
/// B waits for the end of C's slice, unless it asks for less.
#[test]
fn eevdf_lets_a_short_slice_preempt() {
    let wait = |slice, preempt_short| {
        let nap = Op::Sleep(Nanos(1_100_000));
        let placement = Placement { slice, ..Placement::default() };
        let sleeper = Task { placement, ..script("B", &[us(1), nap, us(1)]) };
        let hogs = ["A", "C"].map(|name| script(name, &[us(5_000)]));
        let base = EevdfKnobs { base_slice: 1_000_000, ..EevdfKnobs::of(1, 100_000) };
        let policy = eevdf(EevdfKnobs { preempt_short, ..base });
        let mut world = one_cpu(plan([sleeper].into_iter().chain(hogs).collect()), policy, 100);
        world.run_until(u64::MAX - 1, &mut |_| ()).expect("no deadlock");
        world.usage(TaskId(0)).run_delay_ns
    };
    let short = Some(Nanos(100_000));
    assert_eq!(wait(short, true), 0);
    assert!(wait(None, true) > 500_000, "{}", wait(None, true));
    assert!(wait(short, false) > 500_000, "{}", wait(short, false));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// While the same tasks are runnable, none of equal weight gets ahead of another by more than two slices (each
    /// rounded up to the tick) and what they began apart.
    #[test]
    fn equal_tasks_get_equal_time(
        tasks in 2_usize..12,
        is_eevdf in any::<bool>(),
        tick_us in prop_oneof![Just(1_000_u64), Just(4_000)],
    ) {
        let names = "ABCDEFGHIJKL";
        let all = (0..tasks).map(|at| script(&names[at..=at], &[us(2_000_000)])).collect();
        let policy = match is_eevdf {
            true => eevdf(EevdfKnobs::of(1, tick_us * 1_000)),
            false => cfs(CfsKnobs::of(1)),
        };
        let mut world = one_cpu(plan(all), policy, tick_us);
        world.run_until(1_000_000_000, &mut |_| ()).expect("no deadlock");
        let ran = |task| world.usage(TaskId(task as u32)).user_ns;
        let (least, most) = ((0..tasks).map(ran).min(), (0..tasks).map(ran).max());
        let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
        let slice = if is_eevdf { 700_000 } else { 6_000_000 / tasks as u64 }.max(750_000);
        let rounded = (slice / (tick_us * 1_000) + 2) * tick_us * 1_000;
        prop_assert!(most - least <= 2 * rounded, "{least} to {most}, bound {}", 2 * rounded);
    }
}

/// As above, but A is of `SCHED_BATCH` and displaces nobody when it wakes.
#[test]
fn a_batch_task_does_not_preempt_when_it_wakes() {
    let batch = Placement { policy: Some(TaskPolicy::Batch), ..Placement::default() };
    let nap = Op::Sleep(Nanos(4_000));
    let sleeper = Task { placement: batch, ..script("A", &[us(1), nap, us(1)]) };
    let knobs = CfsKnobs { min_granularity: 20_000, ..micro(CfsKnobs::of(1)) };
    let mut world = one_cpu(plan(vec![sleeper, script("B", &[us(9)])]), cfs(knobs), 100);
    assert_eq!(rows(&mut world), "0 | ABBBBBBBBBA.\n| b    aaaaa\n");
}

/// A task of `SCHED_IDLE` gets the CPU at the tick after 6 µs, since A's slice is 5,982 ns. Its own share of the period
/// is 17 ns. Linux 6.1 rounds it up to `idle_min_granularity`, which is over at the next tick.
#[test]
fn idle_tasks_have_slices_of_their_own() {
    let idle = Placement { policy: Some(TaskPolicy::Idle), ..Placement::default() };
    let tasks = vec![script("A", &[us(9)]), Task { placement: idle, ..script("B", &[us(3)]) }];
    let knobs = CfsKnobs { idle_min_granularity: 500, ..micro(CfsKnobs::of(1)) };
    let mut world = one_cpu(plan(tasks), cfs(knobs), 1);
    assert_eq!(rows(&mut world), "0 | AAAAAABAAABB.\n| bbbbbbabbb\n");
}

/// Others preempt an idle task within its slice (`cancel_protect_slice`): each waits for the other one alone, and ends
/// soon after its 100 rounds of 700 µs.
#[test]
fn eevdf_gives_an_idle_task_no_slice_beside_others() {
    let nap = [Op::Sleep(Nanos(400_000)), Op::Compute { iterations: 300_000 }].repeat(100);
    let of = |name, policy, ops: &[Op]| {
        let placement = Placement { policy: Some(policy), ..Placement::default() };
        Task { placement, ..script(name, ops) }
    };
    let idle = of("A", TaskPolicy::Idle, &[Op::Compute { iterations: 200_000_000 }]);
    let tasks = vec![idle, of("B", TaskPolicy::Batch, &nap), of("C", TaskPolicy::Batch, &nap)];
    let mut world = one_cpu(plan(tasks), eevdf(EevdfKnobs::of(1, 4_000_000)), 4_000);
    world.run_until(400_000_000, &mut |_| ()).expect("no deadlock");
    for task in [1, 2] {
        let end = world.task_ended_at(TaskId(task)).expect("it ended");
        assert!(end < 75_000_000, "{task}: {end}");
    }
}

/// Setting the period or the least slice changes how many tasks share a period: 24 ms hold two slices of 14 ms.
#[test]
fn cfs_counts_the_slices_of_a_period_anew() {
    let mut knobs =
        CfsKnobs { latency: 24_000_000, min_granularity: 14_000_000, ..CfsKnobs::of(1) };
    assert_eq!(knobs.nr_latency, 8);
    knobs.fit_period();
    assert_eq!(knobs.nr_latency, 2);
}
