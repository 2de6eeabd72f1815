//! A program with more threads than CPUs, like those written for a managed runtime: producers hand
//! items to a pool of consumers, consumers allocate, and collectors wake all at once, work and sleep.

use super::Workload;
use crate::options::{Kind, OptionError, Options, option};
use crate::placement::MachineProperties;
use crate::plan::{Plan, Queue, Task, Timing};
use crate::{Behaviour, CounterId, Done, Instruments, Op, QueueId, SampleId, WordId};
use schedlab_model::{Better, Metric, Nanos, Phase, Unit};

const MICRO: Kind = Kind::Duration(1_000);
const SECOND: Kind = Kind::Duration(1_000_000_000);

pub(super) const WORKLOAD: Workload = Workload {
    name: "app",
    about: "more threads than CPUs: pools that hand work on, allocate, and bursts of collection",
    options: &[
        option(
            "producers",
            Kind::Number(0, 10_000),
            "0",
            "threads that make items; 0: as many as CPUs",
        ),
        option(
            "consumers",
            Kind::Number(0, 10_000),
            "0",
            "threads that take them; 0: twice as many as CPUs",
        ),
        option(
            "collectors",
            Kind::Number(0, 10_000),
            "0",
            "threads of a collection; 0: as many as CPUs",
        ),
        option(
            "work",
            MICRO,
            "100us",
            "work to make an item, and to take it, as time at full speed",
        ),
        option("allocate", Kind::Size(1), "64KiB", "memory that an item needs"),
        option("pause", MICRO, "50ms", "time between two collections"),
        option("collect", MICRO, "5ms", "work of each collector in a collection"),
        option("duration", SECOND, "3s", "how long; 0: until Ctrl-C"),
        option("warmup", SECOND, "0", "what is measured before is left out"),
        option("interval", SECOND, "0", "report metrics each time that this has passed"),
    ],
    build,
};

/// Items that may lie before a consumer.
const ITEMS: u32 = 64;

#[derive(Clone, Copy)]
struct Measured {
    handed: SampleId,
    collection: SampleId,
    items: CounterId,
}

fn ends(last: Done) -> bool {
    matches!(last, Done::Stopped | Done::Failed(_))
}

/// Makes an item and hands it to the next consumer; waits where that has too many.
struct Producer {
    work: u64,
    consumers: Vec<(QueueId, WordId)>,
    turn: usize,
    pushed: bool,
    /// When the item was made that is on its way.
    made: Nanos,
}

impl Behaviour for Producer {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        let (queue, word) = self.consumers[self.turn];
        match last {
            last if ends(last) => Op::Exit,
            Done::Pushed { .. } => {
                let request = request(self.made.0);
                instruments.mark_request(self.made, REQUEST, Phase::Begin, request);
                self.turn = (self.turn + 1) % self.consumers.len();
                self.pushed = true;
                Op::Wake { word, stamp: now }
            }
            Done::Full => {
                self.turn = (self.turn + 1) % self.consumers.len();
                Op::Sleep(Nanos::from_micros(200))
            }
            Done::Ok if !std::mem::take(&mut self.pushed) => {
                self.made = now;
                Op::Push { queue, value: now.0 }
            }
            _ => Op::Compute { iterations: self.work },
        }
    }
}

#[derive(Clone, Copy)]
enum At {
    Look,
    Wait,
    Allocate,
    Work,
}

struct Consumer {
    work: u64,
    bytes: u32,
    queue: QueueId,
    word: WordId,
    measured: Measured,
    at: At,
    /// The item in hand, by when it was made.
    made: u64,
}

impl Behaviour for Consumer {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        if ends(last) {
            return Op::Exit;
        }
        match (self.at, last) {
            (At::Look, Done::Popped { value, .. }) => {
                instruments.sample(self.measured.handed, (now - Nanos(value)).0);
                self.made = value;
                self.at = At::Allocate;
                Op::Allocate { bytes: self.bytes }
            }
            (At::Look, Done::Empty) => {
                self.at = At::Wait;
                Op::Wait(self.word)
            }
            (At::Allocate, _) => {
                self.at = At::Work;
                instruments.mark(now, ITEM, Phase::Begin);
                Op::Compute { iterations: self.work }
            }
            (at, _) => {
                if matches!(at, At::Work) {
                    instruments.count(self.measured.items, 1);
                    instruments.mark(now, ITEM, Phase::End);
                    instruments.mark_request(now, REQUEST, Phase::End, request(self.made));
                }
                self.at = At::Look;
                Op::Pop(self.queue)
            }
        }
    }
}

/// All collectors wake at the same points in time.
struct Collector {
    work: u64,
    pause: Nanos,
    due: Nanos,
    stage: Stage,
    measured: Measured,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Asleep,
    Working,
}

/// The numbers of the marks around a collection, the work on an item, and an item from its making to its end.
const COLLECTION: u32 = 0;
const ITEM: u32 = 1;
const REQUEST: u32 = 2;

/// The number of the item that was made at this time; never 0. No item lasts the four seconds after which numbers
/// come again.
const fn request(made: u64) -> u32 {
    made as u32 | 1
}

impl Behaviour for Collector {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        if ends(last) {
            return Op::Exit;
        }
        match self.stage {
            Stage::Asleep if last != Done::Start => {
                instruments.mark(now, COLLECTION, Phase::Begin);
                self.stage = Stage::Working;
                return Op::Compute { iterations: self.work };
            }
            Stage::Working => {
                instruments.sample(self.measured.collection, (now - self.due).0);
                instruments.mark(now, COLLECTION, Phase::End);
                self.stage = Stage::Asleep;
            }
            Stage::Asleep => {}
        }
        // On one grid for all, so that they meet without talking.
        let pause = self.pause.0.max(1);
        self.due = Nanos((now.0 / pause + 1) * pause);
        Op::SleepUntil(self.due)
    }
}

fn build(options: &Options, around: &MachineProperties) -> Result<Plan, OptionError> {
    let mut plan = Plan::new("app");
    let duration = options.duration("duration");
    plan.timing = Timing {
        duration: (duration > Nanos::ZERO).then_some(duration),
        endless: duration == Nanos::ZERO,
        warm_up: options.duration("warmup"),
        interval: options.duration("interval"),
        zero: Nanos::ZERO,
    };
    let time = |name| Metric::new(name, Unit::Nanoseconds, Better::Lower);
    let measured = Measured {
        handed: plan.series(time("handover_latency_ns")),
        collection: plan.series(time("collection_ns")),
        items: plan.counter(Metric::new("items", Unit::Count, Better::Higher)),
    };
    plan.progress = Some(measured.items.0);
    plan.marks.extend(["collection", "item", "request"].map(str::to_owned));
    let cpus = u32::try_from(around.allowed.len()).unwrap_or(1).max(1);
    let many = |name, default| match options.small(name) {
        0 => default,
        n => n,
    };
    let Ok(bytes) = u32::try_from(options.size("allocate")) else {
        return Err(OptionError::new("allocate", "an item has less than 4 GiB"));
    };
    let iterations = |name: &str| {
        let product = u128::from(options.duration(name).0) * u128::from(around.speed) / 1_000;
        u64::try_from(product).unwrap_or(u64::MAX)
    };
    let roles = [plan.role("producer"), plan.role("consumer"), plan.role("collector")];
    let consumers: Vec<(QueueId, WordId)> = (0..many("consumers", 2 * cpus))
        .map(|_| (plan.queue(Queue::Fifo { capacity: ITEMS }), plan.word()))
        .collect();
    let work = iterations("work");
    for turn in 0..many("producers", cpus) {
        let turn = turn as usize % consumers.len();
        let consumers = consumers.clone();
        let behaviour = Producer { work, consumers, turn, pushed: true, made: Nanos::ZERO };
        plan.tasks.push(Task::new("app-producer", roles[0], Box::new(behaviour)));
    }
    for &(queue, word) in &consumers {
        let behaviour = Consumer { work, bytes, queue, word, measured, at: At::Wait, made: 0 };
        plan.tasks.push(Task::new("app-consumer", roles[1], Box::new(behaviour)));
    }
    let work = iterations("collect");
    let pause = options.duration("pause");
    for _ in 0..many("collectors", cpus) {
        let due = Nanos::ZERO;
        let behaviour = Collector { work, pause, due, stage: Stage::Asleep, measured };
        plan.tasks.push(Task::new("app-collector", roles[2], Box::new(behaviour)));
    }
    Ok(plan)
}
