//! Schedules that were computed by hand, as pictures.

use super::{bare, plan, script, text, us, world};
use schedlab_model::Nanos;
use schedlab_workload::plan::{Plan, Task, Transport};
use schedlab_workload::{BarrierId, LockId, Op, SemaphoreId, WordId};

/// The lines of a picture, without what stands below it.
fn rows(text: &str) -> String {
    let rows = text.lines().filter(|line| line.contains('|'));
    rows.map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn shows(plan: Plan, cpus: u16, expected: &str) {
    let got = rows(&text(&mut world(plan, cpus, bare())));
    let expected: String = expected
        .lines()
        .map(|line| line.trim().to_owned() + "\n")
        .filter(|l| l.len() > 1)
        .collect();
    let got: String = got.lines().map(|line| line.trim().to_owned() + "\n").collect();
    assert_eq!(got, expected, "\n{got}");
}

#[test]
fn tasks_of_one_cpu_run_in_order_of_arrival() {
    let tasks = vec![script("A", &[us(4)]), script("B", &[us(2)]), script("C", &[us(1)])];
    shows(
        plan(tasks),
        1,
        "0 | AAAABBC.
           | bbbb
           | cccccc",
    );
}

#[test]
fn a_sleeper_queues_behind_those_that_wait() {
    let nap = Op::Sleep(Nanos(2_000));
    let tasks =
        vec![script("A", &[us(2), nap, us(1)]), script("B", &[us(3)]), script("C", &[us(2)])];
    shows(
        plan(tasks),
        1,
        "0 | AABBBCCA.
           | bb  aaa
           | ccccc",
    );
}

#[test]
fn a_token_goes_round_between_two_cpus() {
    let wake = |word| Op::Wake { word: WordId(word), stamp: Nanos(0) };
    let wait = |word| Op::Wait(WordId(word));
    let mut plan = plan(vec![
        script("A", &[us(2), wake(1), wait(0), us(1), wake(1)]),
        script("B", &[wait(1), us(3), wake(0), wait(1), us(2)]),
    ]);
    plan.words = 2;
    shows(
        plan,
        2,
        "0 | AA...A...
         1 | ..BBB.BB.",
    );
}

#[test]
fn the_last_to_come_lets_all_pass_a_barrier() {
    let meet = Op::Meet(BarrierId(0));
    let tasks =
        (1..=3).map(|n| script(["", "A", "B", "C"][n as usize], &[us(n), meet, us(1)])).collect();
    let mut plan = plan(tasks);
    plan.barriers = vec![3];
    shows(
        plan,
        3,
        "0 | A..A.
         1 | BB.B.
         2 | CCCC.",
    );
}

#[test]
fn a_lock_is_taken_by_one_task_at_a_time() {
    let (lock, unlock) = (Op::Lock(LockId(0)), Op::Unlock(LockId(0)));
    let tasks = ["A", "B"].map(|name| script(name, &[lock, us(2), unlock, us(1)])).into();
    let mut plan = plan(tasks);
    plan.locks = 1;
    shows(
        plan,
        2,
        "0 | AAA...
         1 | ..BBB.",
    );
}

#[test]
fn a_semaphore_counts_its_posts() {
    let (post, take) = (Op::Post(SemaphoreId(0)), Op::AwaitPost(SemaphoreId(0)));
    let tasks = vec![
        script("A", &[us(1), post, us(1), post, us(2)]),
        script("B", &[take, us(2), take, us(1)]),
    ];
    let mut plan = plan(tasks);
    plan.semaphores = 1;
    shows(
        plan,
        2,
        "0 | AAAA.
         1 | .BBB.",
    );
}

#[test]
fn a_reader_sleeps_until_a_message_comes_and_learns_of_the_end() {
    let mut plan = plan(Vec::new());
    let channel = plan.channel(Transport::Pipe, 1);
    let (send, receive) = (Op::Send { channel, bytes: 8 }, Op::Receive { channel, bytes: 8 });
    let sender = script("A", &[us(2), send, us(2)]);
    let reader = script("B", &[receive, us(1), receive, us(1)]);
    plan.tasks = vec![Task { sends: vec![0], ..sender }, Task { receives: vec![0], ..reader }];
    shows(
        plan,
        2,
        "0 | AAAA..
         1 | ..B.B.",
    );
}

#[test]
fn a_yield_goes_to_the_end_of_the_queue() {
    let tasks = vec![script("A", &[us(1), Op::Yield, us(1)]), script("B", &[us(2)])];
    shows(
        plan(tasks),
        1,
        "0 | ABBA.
           | baa",
    );
}

#[test]
fn a_slow_cpu_takes_longer() {
    use schedlab_sim::policy::Fifo;
    use schedlab_sim::{Hardware, World};
    let mut hardware = Hardware::new(schedlab_model::Topology::flat(2));
    hardware.set_speed(1, 500_000);
    let mut plan = plan(vec![script("A", &[us(3)]), script("B", &[us(3)])]);
    let mut world = World::new(&mut plan, hardware, Box::new(Fifo::new(2, None)), bare());
    assert!(text(&mut world).starts_with("0 | AAA....\n1 | BBBBBB.\n"));
}
