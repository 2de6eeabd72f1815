//! What holds in any run, whatever the tasks do.

use super::{POLICIES, bare, events, plan, policy, script, us, world};
use proptest::prelude::*;
use schedlab_model::{Event, Left, Nanos, Topology, What};
use schedlab_sim::{Config, Costs, Gap, Hardware, Start, TaskId, World};
use schedlab_workload::plan::{Plan, Policy};
use schedlab_workload::{LockId, Op, WordId};

/// Operations of one task that need no partner, or one that is always there.
fn ops() -> impl Strategy<Value = Vec<Op>> {
    let one = prop_oneof![
        4 => (1_u64..40).prop_map(us),
        2 => (1_u64..30).prop_map(|time| Op::Sleep(Nanos(time * 1_000))),
        1 => Just(Op::Yield),
        1 => (0_u32..3).prop_map(|word| Op::Wake { word: WordId(word), stamp: Nanos(0) }),
    ];
    prop::collection::vec(one, 0..12)
}

/// Some of the operations are done while a lock is held.
fn guarded(ops: &[Op], lock: u32) -> Vec<Op> {
    let mut all = Vec::new();
    for (at, op) in ops.iter().enumerate() {
        if at % 3 == 1 {
            all.extend([Op::Lock(LockId(lock)), *op, Op::Unlock(LockId(lock))]);
        } else {
            all.push(*op);
        }
    }
    all
}

/// What the tasks of a plan are, in turn: fair, of three real-time priorities, and with a reservation if `deadlines`.
fn give_classes(plan: &mut Plan, deadlines: bool) {
    let ms = |ms: u64| Nanos(ms * 1_000_000);
    let reserved = Policy::Deadline { runtime: ms(4), deadline: ms(30), period: ms(40) };
    let last = if deadlines { reserved } else { Policy::Normal };
    let all = [Policy::Normal, Policy::Fifo(3), Policy::RoundRobin(3), Policy::Fifo(9), last];
    for (task, policy) in plan.tasks.iter_mut().zip(all.iter().cycle()) {
        task.placement.policy = Some(*policy);
    }
}

fn any_plan(tasks: &[Vec<Op>]) -> Plan {
    let letters = "ABCDEFGHIJ";
    let tasks = tasks.iter().enumerate();
    let mut plan = plan(
        tasks.map(|(at, ops)| script(&letters[at..=at], &guarded(ops, at as u32 % 2))).collect(),
    );
    (plan.words, plan.locks) = (3, 2);
    plan
}

/// Follows events: who runs where, who waits. Panics where they contradict each other.
#[derive(Default)]
struct Follow {
    running: Vec<Option<i32>>,
    since: Vec<u64>,
    ran: std::collections::BTreeMap<i32, u64>,
    idle: u64,
    waiting: std::collections::BTreeMap<i32, usize>,
}

impl Follow {
    fn step(&mut self, event: &Event) {
        match event.what {
            What::Switch { prev, left, next, .. } => {
                let (cpu, at) = (event.cpu.index(), event.time.0);
                let was = std::mem::take(&mut self.running[cpu]);
                assert_eq!(was.unwrap_or(0), prev.0, "{event:?}");
                let time = at - std::mem::replace(&mut self.since[cpu], at);
                match was {
                    Some(task) => *self.ran.entry(task).or_default() += time,
                    None => self.idle += time,
                }
                if !prev.is_idle() && left.is_runnable() {
                    self.waiting.insert(prev.0, cpu);
                }
                if !next.is_idle() {
                    assert_eq!(self.waiting.remove(&next.0), Some(cpu), "{event:?}");
                    self.running[cpu] = Some(next.0);
                }
                assert_ne!(left, Left::Other);
            }
            What::Wakeup { pid, cpu, .. } => {
                assert_eq!(self.waiting.insert(pid.0, cpu.index()), None, "{event:?}");
                assert!(!self.running.contains(&Some(pid.0)), "{event:?}");
            }
            What::Migrate { pid, to, .. } => {
                self.waiting.entry(pid.0).and_modify(|cpu| *cpu = to.index());
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_task_is_lost_and_time_is_conserved(
        tasks in prop::collection::vec(ops(), 1..8),
        cpus in 1_u16..5,
        costly in any::<bool>(),
        seed in 0_u64..4,
        kind in 0_usize..POLICIES.len(),
        deadlines in any::<bool>(),
        (gaps, skew_tick) in (any::<bool>(), any::<bool>()),
    ) {
        let costs = if costly { Costs::USUAL } else { Costs::NONE };
        let start = if costly { Start::Forked } else { Start::AtOnce };
        let count = tasks.len();
        let config = Config { costs, start, seed, first_pid: 3, skew_tick, ..bare() };
        let policy = policy(POLICIES[kind], cpus);
        let hardware = Hardware::new(Topology::flat(cpus));
        let mut plan = any_plan(&tasks);
        let classes = POLICIES[kind].starts_with("classes");
        if classes {
            give_classes(&mut plan, deadlines);
        }
        let mut world = World::new(&mut plan, hardware, policy, config);
        if gaps {
            // Interrupts on each CPU, and a hypervisor that takes the first one.
            let gap = |cpu| Gap { cpu, period: 7_000, length: 1_000, first: 500, is_steal: false };
            let mut all: Vec<Gap> = (0..cpus.into()).map(gap).collect();
            all.push(Gap { cpu: 0, period: 50_000, length: 20_000, first: 0, is_steal: false });
            world.set_gaps(&all);
        }
        let events = events(&mut world);
        let mut follow = Follow {
            running: vec![None; cpus.into()],
            since: vec![0; cpus.into()],
            ..Follow::default()
        };
        let mut last = 0;
        for (at, event) in events.iter().enumerate() {
            prop_assert!(event.time.0 >= last, "{event:?} after {last}");
            last = event.time.0;
            follow.step(event);
            // No CPU is idle beside its own waiting task: without costs, not even for a moment.
            // A task whose budget is used up waits for its next period.
            let held = classes && deadlines;
            if !costly && !held && events.get(at + 1).is_some_and(|next| next.time > event.time) {
                for cpu in follow.waiting.values() {
                    prop_assert!(follow.running[*cpu].is_some(), "CPU {} idles after {:?}", cpu, event);
                }
            }
        }
        // Each task ended, once.
        let ended = events.iter().filter(|e| matches!(e.what, What::Exit { .. })).count();
        prop_assert_eq!(ended, count);
        // The kernel's RCU thread may have been woken by the last tick.
        prop_assert!(follow.waiting.keys().all(|pid| *pid < 3));
        // Busy and idle time are all the time there was.
        let total: u64 = follow.ran.values().sum::<u64>() + follow.idle;
        let since: u64 = follow.since.iter().map(|since| last - since).sum();
        prop_assert_eq!(total + since, last * u64::from(cpus));
        // What gaps took is no task's. A gap under way when the last task ends is counted whole.
        let gone: u64 = (0..cpus.into()).map(|cpu| world.gone_ns(cpu)).sum();
        let ran: u64 = follow.ran.values().sum();
        prop_assert!(costly || ran == world.busy_ns() + gone, "{} of {} gone", gone, ran);
        // The events and the counts of the tasks agree.
        for task in 0..count {
            let usage = world.usage(TaskId(task as u32));
            let ran = follow.ran.get(&(3 + task as i32)).copied().unwrap_or(0);
            let used = usage.user_ns + usage.system_ns;
            prop_assert!(used == ran || (gaps && used < ran), "task {}: {} of {}", task, used, ran);
        }
    }

    #[test]
    fn the_same_plan_and_seed_give_the_same_events(
        tasks in prop::collection::vec(ops(), 1..8),
        cpus in 1_u16..5,
        seed in any::<u64>(),
    ) {
        let run = || {
            let config = Config { seed, costs: Costs::USUAL, ..Config::default() };
            events(&mut world(any_plan(&tasks), cpus, config))
        };
        prop_assert_eq!(run(), run());
    }
}

#[test]
fn a_deadlock_says_who_waits_for_whom() {
    let (first, second) = (Op::Lock(LockId(0)), Op::Lock(LockId(1)));
    let mut plan = plan(vec![
        script("A", &[first, us(1), second]),
        script("B", &[second, us(1), first]),
        script("C", &[Op::Wait(WordId(0))]),
    ]);
    (plan.locks, plan.words) = (2, 1);
    let error = world(plan, 2, bare()).run_until(u64::MAX - 1, &mut |_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "deadlock after 1000 ns: 3 tasks sleep and nobody can wake them; \
         A (pid 1) waits for lock 1, which B (pid 2) holds; \
         B (pid 2) waits for lock 0, which A (pid 1) holds; \
         C (pid 3) waits for a wake of word 0"
    );
}
