//! schbench in virtual time: its tasks perform their operations on as many CPUs as there are tasks, where a
//! multiplication takes a millisecond and all else nothing. So what the arrivals of an open loop do to
//! latencies, queues and drops can be computed by hand.

use crate::placement::MachineProperties;
use crate::plan::{Plan, Queue, Task};
use crate::{CounterId, DialId, Done, Instruments, Op, SampleId, workloads};
use schedlab_model::{Cpu, Nanos, Topology};
use std::collections::{BTreeMap, VecDeque};

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;

/// What the tasks measured.
#[derive(Default)]
struct Told {
    samples: BTreeMap<u32, Vec<u64>>,
    counts: BTreeMap<u32, u64>,
    dials: Vec<u64>,
    until: Option<Nanos>,
}

impl Instruments for Told {
    fn sample(&mut self, series: SampleId, value: u64) {
        self.samples.entry(series.0).or_default().push(value);
    }

    fn count(&mut self, counter: CounterId, by: u64) {
        *self.counts.entry(counter.0).or_default() += by;
    }

    fn dial(&self, dial: DialId) -> u64 {
        self.dials[dial.0 as usize]
    }

    fn until(&self) -> Option<Nanos> {
        self.until
    }
}

/// How a task stands between two operations.
enum Stand {
    /// It goes on at a time, and learns it.
    Until(Nanos, Done),
    /// It waits for a word.
    On(u32),
    Gone,
}

struct World {
    plan: Plan,
    tasks: Vec<Task>,
    stands: Vec<Stand>,
    /// Words that were woken, with the stamp.
    woken: BTreeMap<u32, Nanos>,
    queues: Vec<VecDeque<u64>>,
    /// What a task took from a stack.
    batches: Vec<VecDeque<u64>>,
    told: Told,
}

impl World {
    fn of(line: &str) -> Self {
        let given = line.split_whitespace().map(|word| {
            let (name, value) = word.split_once('=').unwrap_or((word, "true"));
            (name.to_owned(), value.to_owned())
        });
        let topology = Topology::flat(4);
        let allowed = (0..4).map(Cpu).collect();
        let around = MachineProperties { topology, allowed, speed: 1, seed: 1 };
        let mut plan = workloads::plan("schbench", &given.collect(), &around).unwrap();
        let tasks = std::mem::take(&mut plan.tasks);
        let told =
            Told { dials: plan.dials.clone(), until: plan.timing.duration, ..Told::default() };
        Self {
            stands: tasks.iter().map(|_| Stand::Until(Nanos::ZERO, Done::Start)).collect(),
            woken: BTreeMap::new(),
            queues: plan.queues.iter().map(|_| VecDeque::new()).collect(),
            batches: tasks.iter().map(|_| VecDeque::new()).collect(),
            plan,
            tasks,
            told,
        }
    }

    /// Runs it until all that happens before `end` has happened; then every task is asked to stop.
    fn run(line: &str, end: u64) -> Self {
        let mut world = Self::of(line);
        while let Some((task, now)) = world.next().filter(|(_, now)| now.0 < end) {
            let stand = std::mem::replace(&mut world.stands[task], Stand::Gone);
            let Stand::Until(_, done) = stand else { unreachable!("it was next") };
            world.stands[task] = world.step(task, now, done);
        }
        for task in 0..world.tasks.len() {
            let behaviour = &mut world.tasks[task].behaviour;
            assert_eq!(behaviour.next(Nanos(end), Done::Stopped, &mut world.told), Op::Exit);
        }
        world
    }

    /// The task that goes on first.
    fn next(&self) -> Option<(usize, Nanos)> {
        let ready = self.stands.iter().enumerate().filter_map(|(task, stand)| match stand {
            Stand::Until(at, _) => Some((task, *at)),
            _ => None,
        });
        ready.min_by_key(|&(task, at)| (at, task))
    }

    fn step(&mut self, task: usize, now: Nanos, done: Done) -> Stand {
        let op = self.tasks[task].behaviour.next(now, done, &mut self.told);
        let after = |time: Nanos, done| Stand::Until(now + time, done);
        match op {
            Op::Sleep(time) => after(time, Done::Ok),
            Op::SleepUntil(until) => Stand::Until(until.max(now), Done::Ok),
            Op::Multiply { times, .. } => after(Nanos(u64::from(times) * MILLI), Done::Ok),
            Op::Push { queue, value } => after(Nanos::ZERO, self.push(queue.0, value)),
            Op::Pop(queue) => after(Nanos::ZERO, self.pop(task, queue.0)),
            Op::Wake { word, stamp } => {
                self.wake(word.0, now, stamp);
                after(Nanos::ZERO, Done::Ok)
            }
            Op::Wait(word) => match self.woken.remove(&word.0) {
                Some(stamp) => after(Nanos::ZERO, Done::Woken { stamp }),
                None => Stand::On(word.0),
            },
            Op::Exit => Stand::Gone,
            _ => after(Nanos::ZERO, Done::Ok),
        }
    }

    fn push(&mut self, queue: u32, value: u64) -> Done {
        let kind = self.plan.queues[queue as usize];
        let queue = &mut self.queues[queue as usize];
        match kind {
            Queue::Fifo { capacity } if queue.len() == capacity as usize => return Done::Full,
            Queue::Fifo { .. } => queue.push_back(value),
            Queue::Stack { .. } => queue.push_front(value),
        }
        Done::Pushed { depth: queue.len() as u64 }
    }

    fn pop(&mut self, task: usize, queue: u32) -> Done {
        let stack = matches!(self.plan.queues[queue as usize], Queue::Stack { .. });
        let queue = &mut self.queues[queue as usize];
        if !stack {
            return queue
                .pop_front()
                .map_or(Done::Empty, |value| Done::Popped { value, first: true });
        }
        let batch = &mut self.batches[task];
        let first = batch.is_empty();
        if first {
            batch.append(queue);
        }
        batch.pop_front().map_or(Done::Empty, |value| Done::Popped { value, first })
    }

    fn wake(&mut self, word: u32, now: Nanos, stamp: Nanos) {
        let waiter =
            self.stands.iter().position(|stand| matches!(stand, Stand::On(on) if *on == word));
        match waiter {
            Some(task) => self.stands[task] = Stand::Until(now, Done::Woken { stamp }),
            None => {
                self.woken.entry(word).or_insert(stamp);
            }
        }
    }

    /// Samples of a series by its metric's name.
    fn samples(&self, name: &str) -> Vec<u64> {
        let series = self.plan.samples.iter().position(|metric| metric.name == name).unwrap();
        self.told.samples.get(&u32::try_from(series).unwrap()).cloned().unwrap_or_default()
    }

    fn count(&self, name: &str) -> u64 {
        let counter = self.plan.counters.iter().position(|metric| metric.name == name).unwrap();
        self.told.counts.get(&u32::try_from(counter).unwrap()).copied().unwrap_or(0)
    }
}

/// A worker that takes two milliseconds for a request: 500 a second at most.
const WORKER: &str = "message-threads=1 threads=1 operations=2 sleep_usec=0 no-locking";

#[test]
fn paced_requests_come_evenly_and_a_worker_that_keeps_up_is_as_fast_as_alone() {
    let world = World::run(&format!("{WORKER} rps=100 arrivals=paced"), 10 * SECOND);
    assert_eq!(world.count("requests_offered"), 1_000);
    assert_eq!((world.count("requests"), world.count("requests_dropped")), (1_000, 0));
    assert!(world.samples("request_latency_ns").iter().all(|&latency| latency == 2 * MILLI));
    assert!(world.samples("queue_depth").iter().all(|&depth| depth == 1));
}

#[test]
fn under_overload_latency_counts_from_the_intended_start_and_what_finds_no_room_is_counted() {
    // Twice as many as can be done: each waits a millisecond longer than the one before.
    let world = World::run(&format!("{WORKER} rps=1000 arrivals=paced"), 10 * SECOND);
    let latencies = world.samples("request_latency_ns");
    for (at, latency) in latencies.iter().take(100).enumerate() {
        assert_eq!(*latency, (at as u64 + 2) * MILLI, "request {at}");
    }
    // Once the queue is full a request waits for the 128 before it.
    let last = *latencies.last().unwrap();
    assert!((256 * MILLI..=260 * MILLI).contains(&last), "{last}");
    let of = |name| world.count(name);
    assert_eq!(of("requests_offered"), 10_000);
    assert!((4_990..=5_000).contains(&of("requests")), "{}", of("requests"));
    let queued = of("requests_offered") - of("requests") - of("requests_dropped");
    assert!((127..=130).contains(&queued), "{queued}");
    assert_eq!(world.samples("queue_depth").iter().max(), Some(&128));
}

#[test]
fn upstream_s_latency_leaves_the_queue_out() {
    let line = format!("{WORKER} rps=1000 arrivals=paced compat=upstream");
    let world = World::run(&line, 10 * SECOND);
    assert!(world.samples("request_latency_ns").iter().all(|&latency| latency == 2 * MILLI));
}

#[test]
fn a_burst_comes_at_the_start_of_each_second_and_its_requests_queue_up() {
    let world = World::run(&format!("{WORKER} rps=100"), 3 * SECOND);
    assert_eq!(world.count("requests_offered"), 300);
    let latencies = world.samples("request_latency_ns");
    let expected: Vec<u64> = (0..300).map(|at| (at % 100 + 1) * 2 * MILLI).collect();
    assert_eq!(latencies, expected);
    let deepest = world.samples("queue_depth").into_iter().max().unwrap();
    assert!((99..=100).contains(&deepest), "{deepest}");
    // All of 200 at once do not find room; those that are left over are reported.
    let world = World::run(&format!("{WORKER} rps=200"), 3 * SECOND);
    let offered = world.count("requests_offered");
    let dropped = world.count("requests_dropped");
    assert_eq!(offered, 600);
    assert!((3 * 70..=3 * 72).contains(&dropped), "{dropped}");
    assert_eq!(world.count("requests"), offered - dropped);
}

#[test]
fn poisson_arrivals_have_their_rate_as_mean_and_exponential_gaps() {
    // A request takes no time, so that a latency is 0 and arrivals are seen by the wakeups alone.
    let line = "message-threads=1 threads=1 operations=0 sleep_usec=0 no-locking rps=1000 arrivals=poisson";
    let world = World::run(line, 20 * SECOND);
    let offered = world.count("requests_offered");
    // 20,000 with a standard deviation of 141.
    assert!((19_300..=20_700).contains(&offered), "{offered}");
    // The same seed, the same arrivals; another, others.
    assert_eq!(World::run(line, 20 * SECOND).count("requests_offered"), offered);
    // A single server whose service is constant, at half of what it can do: M/D/1, whose mean wait is
    // rho S / (2 (1 - rho)) = S / 2 (Pollaczek and Khinchine). Even arrivals would never wait.
    let world = World::run(&format!("{WORKER} rps=250 arrivals=poisson runtime=0"), 400 * SECOND);
    let latencies = world.samples("request_latency_ns");
    let mean = latencies.iter().sum::<u64>() as f64 / latencies.len() as f64 / MILLI as f64;
    assert!((2.9..=3.1).contains(&mean), "{mean} ms");
}

#[test]
fn message_threads_share_a_rate_and_workers_share_a_message_thread_s() {
    let line =
        "message-threads=2 threads=3 operations=1 sleep_usec=0 no-locking rps=120 arrivals=paced";
    let world = World::run(line, 10 * SECOND);
    assert_eq!(world.count("requests_offered"), 1_200);
    assert_eq!(world.count("requests"), 1_200);
}

#[test]
fn a_worker_that_idles_when_the_run_ends_records_no_wakeup() {
    // One request a second, each done at once: the last second is spent waiting.
    let line = "message-threads=1 threads=1 operations=1 rps=1";
    let world = World::run(line, 3 * SECOND - 1);
    let wakeups = world.samples("wakeup_latency_ns");
    assert!(wakeups.len() <= 3 && wakeups.iter().all(|&latency| latency == 0), "{wakeups:?}");
}

#[test]
fn a_worker_that_was_at_work_when_it_was_woken_records_no_wakeup_but_upstream_s_does() {
    // The second request of a pair comes while the first is being done, so the worker never sleeps before it.
    let line = format!("{WORKER} rps=2 runtime=1");
    let ours = World::run(&line, 2 * SECOND).samples("wakeup_latency_ns");
    assert!(ours.iter().all(|&latency| latency == 0), "{ours:?}");
    let upstream = World::run(&format!("{line} compat=upstream"), 2 * SECOND);
    assert_eq!(upstream.samples("wakeup_latency_ns"), [4 * MILLI]);
}

#[test]
fn nothing_is_offered_that_is_due_at_the_end_of_the_run() {
    for arrivals in ["burst", "paced"] {
        let line = format!("{WORKER} rps=100 runtime=2 arrivals={arrivals}");
        let world = World::run(&line, 5 * SECOND);
        assert_eq!(world.count("requests_offered"), 200, "{arrivals}");
        assert_eq!(world.count("requests"), 200, "{arrivals}");
    }
    assert_eq!(World::of("threads=1").plan.counters.len(), 1, "a closed loop offers nothing");
}

#[test]
fn the_closed_loop_counts_from_the_wakeup_and_calibration_leaves_the_sleep_out() {
    let line = "message-threads=1 threads=2 operations=3 sleep_usec=500";
    let of =
        |more: &str| World::run(&format!("{line} {more}"), SECOND).samples("request_latency_ns");
    let plain = of("");
    let calibrated = of("calibrate");
    assert!(plain.iter().all(|&latency| latency == 3 * MILLI + MILLI / 2), "{plain:?}");
    assert!(calibrated.iter().all(|&latency| latency == 3 * MILLI), "{calibrated:?}");
    assert!(plain.len() > 500 && calibrated.len() == plain.len(), "{}", plain.len());
}
