//! Timers of sleeps: slack, which sleeps end together, and what an interrupt delays. Times are computed by hand.

use super::{bare, events, plan, policy, script, us};
use schedlab_model::{Nanos, Topology, What};
use schedlab_sim::{Config, Costs, Hardware, World};
use schedlab_workload::Op;
use schedlab_workload::plan::{Placement, Policy, Task};

const US: u64 = 1_000;
const SLACK: u64 = 50 * US;

fn nap(us: u64) -> Op {
    Op::Sleep(Nanos(us * US))
}

fn above(name: &str, ops: &[Op]) -> Task {
    let policy = Some(Policy::Fifo(10));
    Task { placement: Placement { policy, ..Placement::default() }, ..script(name, ops) }
}

/// Pids with a time in microseconds each.
type Times = Vec<(i32, u64)>;

/// When tasks woke (after their begin), and when they were switched to.
fn times(tasks: Vec<Task>, costs: Costs) -> (Times, Times) {
    let hardware = Hardware::new(Topology::flat(1));
    let config = Config { costs, ..bare() };
    let world = World::new(&mut plan(tasks), hardware, policy("classes cfs", 1), config);
    let (mut woken, mut ran) = (Vec::new(), Vec::new());
    for event in events(&mut { world }) {
        let at = event.time.0 / US;
        match event.what {
            What::Wakeup { pid, new: false, .. } if at > 0 => woken.push((pid.0, at)),
            What::Switch { next, .. } if next.0 > 0 && at > 0 => ran.push((next.0, at)),
            _ => {}
        }
    }
    (woken, ran)
}

fn slack() -> Costs {
    Costs { timer_slack: SLACK, ..Costs::NONE }
}

#[test]
fn sleeps_that_are_due_end_with_the_first_that_must() {
    // A may sleep until 150. B, due at 130, ends with it; C, due at 160, ends at 210.
    let tasks = [("A", 100), ("B", 130), ("C", 160)].map(|(name, us)| script(name, &[nap(us)]));
    assert_eq!(times(tasks.into(), slack()).0, [(1, 150), (2, 150), (3, 210)]);
    // A later timer that is due does not fire before an earlier one that is not: B has no slack.
    let tasks = vec![script("A", &[nap(100)]), above("B", &[nap(149)]), script("C", &[nap(140)])];
    assert_eq!(times(tasks, slack()).0, [(2, 149), (1, 149), (3, 149)]);
}

#[test]
fn the_tick_of_a_busy_cpu_ends_sleeps_that_are_due() {
    let sleeper = || script("A", &[nap(3_980)]);
    assert_eq!(times(vec![sleeper()], slack()).0, [(1, 4_030)]);
    let beside = vec![sleeper(), script("B", &[us(5_000)])];
    assert_eq!(times(beside, slack()).0, [(1, 4_000)]);
}

/// Linux 6.1.192 and 6.12.117: of two timers with one time the older fires first. A's was set before the tick of 8 ms was,
/// so it fires with B's; C's was set later, so it waits for the tick.
#[test]
fn a_timer_that_is_older_than_the_tick_fires_before_it() {
    let tasks = vec![
        script("A", &[nap(7_950)]),
        script("B", &[nap(7_920)]),
        script("C", &[nap(4_100), nap(3_800)]),
        script("D", &[us(10_000)]),
    ];
    assert_eq!(times(tasks, slack()).0, [(3, 4_150), (2, 7_970), (1, 7_970), (3, 8_000)]);
}

/// Linux 6.1.192 and 6.12.117: the tick of a CPU that idles ends A's sleep, due at 3,990 µs. Not where the timer of a
/// deadline task is between: that of 4,005 µs, when what B has used is what it reserved. Then A's sleep ends with that.
#[test]
fn a_timer_of_a_deadline_task_holds_up_later_sleeps_at_the_tick_of_an_idle_cpu() {
    let costs = Costs { idle_exit: 2 * US, ..slack() };
    let sleeper = || script("A", &[us(200), nap(3_290)]);
    let reserving = |period: u64| {
        let [runtime, period] = [1_000, period].map(|us| Nanos(us * US));
        let policy = Some(Policy::Deadline { runtime, deadline: period, period });
        let placement = Placement { policy, ..Placement::default() };
        Task { placement, ..script("B", &[us(500), nap(20_000)]) }
    };
    let first = |period| times(vec![sleeper(), reserving(period)], costs).0[0];
    assert_eq!(first(16_000), (1, 4_002));
    assert_eq!(first(8_010), (1, 4_007));
}

#[test]
fn real_time_tasks_have_no_slack() {
    assert_eq!(times(vec![above("A", &[nap(100)])], slack()).0, [(1, 100)]);
}

#[test]
fn a_timer_that_was_not_needed_ends_nothing() {
    // B sleeps twice; the timer of its first sleep, which A's ended early, does not end the second.
    let tasks = vec![script("A", &[nap(100)]), script("B", &[nap(130), nap(400)])];
    assert_eq!(times(tasks, slack()).0, [(1, 150), (2, 150), (2, 600)]);
}

/// The interrupt takes 5 µs and the wakeup 2: the real-time task computes for 10 µs from 107 on, not from 100 on.
#[test]
fn what_an_interrupt_wakes_runs_after_the_interrupt() {
    let tasks = vec![above("A", &[nap(100), us(10)]), script("B", &[us(200)])];
    let costs = Costs { timer: 5 * US, wake: 2 * US, ..Costs::NONE };
    assert_eq!(times(tasks, costs).1, [(1, 100), (2, 117)]);
}
