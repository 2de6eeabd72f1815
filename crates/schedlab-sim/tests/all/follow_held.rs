//! A policy follows a recording of Linux 6.12 in which probes tell what the kernel held.

use schedlab_model::{
    Clock, Context, Cpu, Event, Left, Nanos, OtherFormat, Pid, Prio, TraceInfo, What,
};
use schedlab_sim::follow::{Comparison, Count, Follower, Following, Kind, Notes};
use schedlab_sim::{Hardware, Model};

const A: Pid = Pid(10);
const B: Pid = Pid(20);
const NAMES: [&str; 5] =
    ["sched_stat_runtime", "knows_charge", "knows_switch", "knows_waking", "knows_wakeup"];

/// A recording as it grows.
#[derive(Default)]
struct Log {
    events: Vec<Event>,
    arguments: Vec<String>,
}

impl Log {
    fn put(&mut self, by: Pid, context: Context, what: What) {
        let time = Nanos(1_000_000 + 1_000 * self.events.len() as u64);
        self.events.push(Event { time, by, cpu: Cpu(0), context, what });
    }

    fn other(&mut self, by: Pid, context: Context, name: &str, text: &str) {
        let format = NAMES.iter().position(|of| *of == name).unwrap() as u16;
        self.put(by, context, What::Other { format });
        self.arguments.push(text.to_owned());
    }

    fn charge(&mut self, of: Pid, context: Context, time: u64, held: &str) {
        let text = format!("comm=x pid={of} runtime={time}");
        self.other(of, context, "sched_stat_runtime", &text);
        self.other(of, context, "knows_charge", held);
    }

    fn switch(&mut self, prev: Pid, left: Left, next: Pid, held: &str) {
        let (prev_prio, next_prio) = (Prio::NORMAL, Prio::NORMAL);
        let what = What::Switch { prev, prev_prio, left, next, next_prio };
        self.put(prev, Context::Task, what);
        self.other(prev, Context::Task, "knows_switch", held);
    }
}

/// A task: its pid, virtual time, deadline, and lag or mark; then whether it sleeps in the queue, and is in it.
fn task(
    prefix: &str,
    (pid, vruntime, deadline, vlag): (Pid, i64, i64, i64),
    (delayed, queued): (u8, u8),
    (nr, sum, load, zero): (u64, i64, i64, i64),
) -> String {
    format!(
        "{prefix}pid={pid} {prefix}vruntime={vruntime} {prefix}deadline={deadline} {prefix}vlag={vlag} \
         {prefix}slice=700000 {prefix}delayed={delayed} {prefix}relative=0 {prefix}queued={queued} \
         {prefix}nr={nr} {prefix}sum={sum} {prefix}load={load} {prefix}zero={zero}"
    )
}

/// A runs, B wakes with a lag of -0.1 ms, the tick displaces A, and B sleeps while it is not eligible. Both have a
/// weight of 1024 and a slice of 0.7 ms. `off` is added to the virtual time at which B is placed.
fn recorded(off: i64) -> Log {
    let mut log = Log::default();
    let alone = (1, 0, 0, 1_000_000);
    let idle = task("prev_", (Pid::IDLE, 0, 0, 0), (0, 0), alone);
    let first = task("next_", (A, 1_000_000, 1_700_000, 1_700_000), (0, 1), alone);
    log.switch(Pid::IDLE, Left::Yielded, A, &format!("{idle} {first}"));
    let a = |vruntime, deadline, queue| task("", (A, vruntime, deadline, 1_700_000), (0, 1), queue);
    log.charge(A, Context::HardIrq, 500_000, &a(1_500_000, 1_700_000, alone));
    let (pid, prio, cpu) = (B, Prio::NORMAL, Cpu(0));
    log.put(A, Context::Task, What::Waking { pid, prio, last_cpu: cpu });
    let asleep = task("", (B, 900_000, 1_600_000, -100_000), (0, 0), alone);
    log.other(A, Context::Task, "knows_waking", &asleep);
    log.charge(A, Context::Task, 1_000, &a(1_501_000, 1_700_000, alone));
    // The average is A's 1,501,000. With B's weight beside A's, the lag doubles.
    log.put(A, Context::Task, What::Wakeup { pid, prio, cpu, new: false });
    let placed = 1_701_000 + off;
    let queue = (2, (placed - 1_501_000) * 1_024, 1_024, 1_501_000);
    let woken = task("", (B, placed, placed + 700_000, -100_000), (0, 1), queue);
    log.other(A, Context::Task, "knows_wakeup", &woken);
    // At the tick A's slice is used up. The average of 1,800,000 and 1,701,000 becomes the zero point.
    let queue = (2, (placed - 1_750_500) * 1_024, 1_024, 1_750_500);
    log.charge(A, Context::HardIrq, 299_000, &a(1_800_000, 2_500_000, queue));
    let queue = (2, (1_800_000 - 1_750_500) * 1_024, 1_024, 1_750_500);
    let prev = task("prev_", (A, 1_800_000, 2_500_000, 1_700_000), (0, 1), queue);
    let next = task("next_", (B, placed, placed + 700_000, placed + 700_000), (0, 1), queue);
    log.switch(A, Left::Yielded, B, &format!("{prev} {next}"));
    // B sleeps beyond the average of 1,901,000 and 1,800,000: it stays in the queue, and A runs.
    let b = (B, placed + 200_000, placed + 700_000, placed + 700_000);
    log.charge(B, Context::Task, 200_000, &task("", b, (0, 1), queue));
    let queue = (2, (placed + 200_000 - 1_750_500) * 1_024, 1_024, 1_750_500);
    let prev = task("prev_", b, (1, 1), queue);
    let next = task("next_", (A, 1_800_000, 2_500_000, 2_500_000), (0, 1), queue);
    log.switch(B, Left::Slept, A, &format!("{prev} {next}"));
    log
}

fn follow(log: &Log) -> Comparison {
    let model = Model::of(&"sim:kernel=eevdf-6.12".parse().unwrap(), None).unwrap();
    let hardware = Hardware::new(model.topology.clone());
    let policy = model.policy(&hardware, 0);
    let mut info = TraceInfo::new("test", Clock::Monotonic);
    info.cpus = [Cpu(0)].into_iter().collect();
    let format = |name: &str| OtherFormat { system: "schedlab_1".into(), name: name.into() };
    info.others = NAMES.iter().map(|name| format(name)).collect();
    let notes = Notes::read(&info, &log.events, &log.arguments);
    let following = Following::new(4_000_000, None);
    let follower = Follower::new(following, hardware, policy, &info).unwrap();
    follower.follow(&log.events, &notes).unwrap()
}

#[test]
fn what_the_kernel_held_is_compared_to_the_nanosecond() {
    let found = follow(&recorded(0));
    assert_eq!(found.differences, []);
    let same = |same| Count { same, different: 0, skipped: 0 };
    assert_eq!(found.counts[&Kind::Place], same(1));
    assert_eq!(found.counts[&Kind::Charge], same(4));
    assert_eq!(found.counts[&Kind::Leave], same(1));
    assert_eq!(found.counts[&Kind::Next], same(1));
    assert_eq!(found.counts[&Kind::Displacement].same, 2, "{:?}", found.counts);
}

#[test]
fn another_place_is_one_difference_since_the_model_takes_it_over() {
    let found = follow(&recorded(2));
    let kinds: Vec<Kind> = found.differences.iter().map(|of| of.kind).collect();
    assert_eq!(kinds, [Kind::Place], "{:?}", found.differences);
    assert!(found.differences[0].recorded.contains("1701002"), "{:?}", found.differences);
    assert!(found.differences[0].model.contains("1701000"));
}
