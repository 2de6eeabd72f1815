//! The loads of one idea each: compute, compute and sleep, send datagrams, sweep memory, meet at a
//! barrier, pass a token.
//!
//! Work is a number of iterations, fixed at the start by how long the calibrated loop takes at full
//! speed: on a slowed or shared CPU the same work takes longer, and that is what is measured.

use super::Workload;
use crate::options::{Kind, OptionDoc, OptionError, Options, option};
use crate::placement::MachineProperties;
use crate::plan::{Block, Plan, Task, Timing, Transport};
use crate::{BarrierId, Behaviour, BlockId, ChannelId, CounterId, Done, Instruments, Op, SampleId};
use crate::{Sweep, WordId};
use schedlab_model::{Better, Metric, Nanos, Phase, Unit};

const SECOND: u64 = 1_000_000_000;

pub(super) const DURATION: OptionDoc =
    option("duration", Kind::Duration(SECOND), "3s", "how long; 0: until Ctrl-C");
pub(super) const WARM_UP: OptionDoc =
    option("warmup", Kind::Duration(SECOND), "0", "what is measured before is left out");
pub(super) const INTERVAL: OptionDoc = option(
    "interval",
    Kind::Duration(SECOND),
    "0",
    "report metrics each time that this has passed",
);

/// Durations without a unit are microseconds.
pub(super) const MICRO: Kind = Kind::Duration(1_000);

pub(super) const CPU: Workload = Workload {
    name: "cpu",
    about: "one task that only computes: how much work a CPU does",
    options: &[
        option("tasks", Kind::Number(1, 100_000), "1", "how many such tasks, as threads"),
        option("work", MICRO, "1ms", "work of a loop, as time at full speed"),
        DURATION,
        WARM_UP,
        INTERVAL,
    ],
    build: |options, around| compute("cpu", options, around, false),
};

pub(super) const THREADS: Workload = Workload {
    name: "threads",
    about: "several threads of one process that only compute",
    options: &[
        option("tasks", Kind::Number(1, 100_000), "5", "how many threads"),
        option("work", MICRO, "1ms", "work of a loop, as time at full speed"),
        DURATION,
        WARM_UP,
        INTERVAL,
    ],
    build: |options, around| compute("threads", options, around, false),
};

pub(super) const PROCESSES: Workload = Workload {
    name: "processes",
    about: "several processes that only compute",
    options: &[
        option("tasks", Kind::Number(1, 100_000), "5", "how many processes"),
        option("work", MICRO, "1ms", "work of a loop, as time at full speed"),
        DURATION,
        WARM_UP,
        INTERVAL,
    ],
    build: |options, around| compute("processes", options, around, true),
};

pub(super) const MIXED: Workload = Workload {
    name: "mixed",
    about: "tasks that sleep a fixed time and compute a fixed amount, by turns",
    options: &[
        option("tasks", Kind::Number(1, 100_000), "1", "how many such tasks"),
        option("work", MICRO, "1ms", "work of a loop, as time at full speed"),
        option("sleep", MICRO, "1ms", "sleep before each loop"),
        DURATION,
        WARM_UP,
        INTERVAL,
    ],
    build: |options, around| compute("mixed", options, around, false),
};

pub(super) const UDP: Workload = Workload {
    name: "udp",
    about: "tasks that send datagrams: over a link with --rate, else over the loopback (which is CPU work, not a network)",
    options: &[
        option("tasks", Kind::Number(1, 10_000), "1", "how many senders"),
        option("datasize", Kind::Size(1), "1024", "bytes of a datagram"),
        option(
            "rate",
            Kind::Text,
            "",
            "send over a link of this rate (10Mbit, 1Gbit) into a network namespace; needs root and iproute2",
        ),
        DURATION,
        WARM_UP,
        INTERVAL,
    ],
    build: udp,
};

pub(super) const STREAM: Workload = Workload {
    name: "stream",
    about: "memory bandwidth: copy, scale, add and triad, after STREAM",
    options: &[
        option(
            "tasks",
            Kind::Number(1, 10_000),
            "1",
            "how many tasks, each with arrays of its own",
        ),
        option(
            "array",
            Kind::Size(1 << 20),
            "64MiB",
            "bytes of each of the three arrays (MiB, or with a unit)",
        ),
        DURATION,
        WARM_UP,
        INTERVAL,
    ],
    build: stream,
};

pub(super) const BARRIER: Workload = Workload {
    name: "barrier",
    about: "tasks that compute, meet at a barrier and go on: one that waits makes all wait",
    options: &[
        option("tasks", Kind::Number(0, 100_000), "0", "how many tasks; 0: one for each CPU"),
        option("work", MICRO, "1ms", "work between two barriers, as time at full speed"),
        option("imbalance", Kind::Number(0, 10_000), "0", "percent more work for the first task"),
        option("rounds", Kind::Number(1, 1 << 40), "", "end after N rounds"),
        DURATION,
        WARM_UP,
        INTERVAL,
    ],
    build: barrier,
};

pub(super) const PINGPONG: Workload = Workload {
    name: "pingpong",
    about: "pairs of tasks that pass a token: the cost of a wakeup and a switch",
    options: &[
        option("pairs", Kind::Number(1, 100_000), "1", "how many pairs"),
        option(
            "via",
            Kind::Choice(&["pipe", "socket", "inet", "eventfd", "futex"]),
            "pipe",
            "what the token is passed through",
        ),
        option("processes", Kind::Flag, "false", "tasks are processes, not threads"),
        option("rounds", Kind::Number(1, 1 << 40), "", "end after N round trips of each pair"),
        DURATION,
        WARM_UP,
        INTERVAL,
    ],
    build: pingpong,
};

pub(super) fn timing(options: &Options) -> Timing {
    let duration = options.duration("duration");
    Timing {
        duration: (duration > Nanos::ZERO).then_some(duration),
        endless: duration == Nanos::ZERO,
        warm_up: options.duration("warmup"),
        interval: options.duration("interval"),
        zero: Nanos::ZERO,
    }
}

/// Iterations of the calibrated loop that take `time` at full speed.
pub(super) fn iterations(time: Nanos, around: &MachineProperties) -> u64 {
    let iterations = u128::from(time.0) * u128::from(around.speed) / 1_000;
    u64::try_from(iterations).unwrap_or(u64::MAX).max(1)
}

pub(super) fn task(comm: &str, role: u16, group: u32, behaviour: impl Behaviour + 'static) -> Task {
    Task { group, ..Task::new(comm, role, Box::new(behaviour)) }
}

pub(super) fn count(name: &str) -> Metric {
    Metric::new(name, Unit::Count, Better::Higher)
}

pub(super) fn time(name: &str) -> Metric {
    Metric::new(name, Unit::Nanoseconds, Better::Lower)
}

/// Computes, and sleeps before where it shall.
struct Loops {
    sleep: Nanos,
    iterations: u64,
    loops: CounterId,
    burst: SampleId,
    began: Option<Nanos>,
}

impl Behaviour for Loops {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        if matches!(last, Done::Stopped | Done::Failed(_)) {
            return Op::Exit;
        }
        let computed = self.began.take();
        if let Some(began) = computed {
            instruments.sample(self.burst, (now - began).0);
            instruments.count(self.loops, 1);
            instruments.mark(now, 0, Phase::End);
        }
        let slept = computed.is_none() && last != Done::Start;
        if self.sleep > Nanos::ZERO && !slept {
            return Op::Sleep(self.sleep);
        }
        self.began = Some(now);
        instruments.mark(now, 0, Phase::Begin);
        Op::Compute { iterations: self.iterations }
    }
}

fn compute(
    name: &str,
    options: &Options,
    around: &MachineProperties,
    processes: bool,
) -> Result<Plan, OptionError> {
    let mut plan = Plan::new(name);
    plan.processes = processes;
    plan.timing = timing(options);
    let burst = plan.series(time("burst_ns"));
    let loops = plan.counter(count("loops"));
    plan.progress = Some(loops.0);
    plan.marks.push("loop".to_owned());
    let role = plan.role("task");
    let sleep = if name == "mixed" { options.duration("sleep") } else { Nanos::ZERO };
    let iterations = iterations(options.duration("work"), around);
    for index in 0..options.small("tasks") {
        let behaviour = Loops { sleep, iterations, loops, burst, began: None };
        plan.tasks.push(task(name, role, index, behaviour));
    }
    Ok(plan)
}

/// What takes about a microsecond is marked this many at a time.
const BATCH: u64 = 1_024;

/// Sends datagrams that nobody reads: what does not fit the receiver's buffer is dropped there.
struct Datagrams {
    channel: ChannelId,
    bytes: u32,
    sent: CounterId,
    payload: CounterId,
    /// Of the batch that is marked.
    done: u64,
}

impl Behaviour for Datagrams {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        match last {
            Done::Stopped | Done::Failed(_) => return Op::Exit,
            Done::Ok => {
                instruments.count(self.sent, 1);
                instruments.count(self.payload, self.bytes.into());
                self.done += 1;
                if self.done.is_multiple_of(BATCH) {
                    instruments.mark(now, 0, Phase::Point);
                }
            }
            _ => {}
        }
        Op::Send { channel: self.channel, bytes: self.bytes }
    }
}

/// The rate of a link, `None` where none is asked for.
fn link_rate(text: &str) -> Result<Option<u64>, OptionError> {
    let read = || crate::link::rate(text).map_err(|why| OptionError::new("rate", why));
    if text.is_empty() { Ok(None) } else { read().map(Some) }
}

fn udp(options: &Options, _: &MachineProperties) -> Result<Plan, OptionError> {
    let bytes = options.size("datasize");
    if !(1..=65_507).contains(&bytes) {
        return Err(OptionError::new("datasize", "a datagram has 1 to 65507 bytes"));
    }
    let bytes = u32::try_from(bytes).expect("checked");
    let mut plan = Plan::new("udp");
    plan.timing = timing(options);
    let sent = plan.counter(count("datagrams"));
    let payload = plan.counter(Metric::new("bytes", Unit::Bytes, Better::Higher));
    plan.progress = Some(sent.0);
    let role = plan.role("sender");
    plan.marks.push(format!("{BATCH} datagrams"));
    plan.link_bit_s = link_rate(options.text("rate"))?;
    plan.notes.push(match plan.link_bit_s {
        None => "over the loopback sending is CPU work: no network limits it".to_owned(),
        Some(_) => format!("sending over a link of {} each way", options.text("rate")),
    });
    for index in 0..options.small("tasks") {
        let channel = plan.channel(Transport::Udp, 1);
        // The sender holds the reader's end as well: nobody reads, and nothing is refused.
        let sends = vec![channel.0];
        let receives = vec![channel.0];
        let behaviour = Datagrams { channel, bytes, sent, payload, done: 0 };
        plan.tasks.push(Task { sends, receives, ..task("udp", role, index, behaviour) });
    }
    Ok(plan)
}

const SWEEPS: [(Sweep, &str, u64); 4] = [
    (Sweep::Copy, "copy_ns", 16),
    (Sweep::Scale, "scale_ns", 16),
    (Sweep::Add, "add_ns", 24),
    (Sweep::Triad, "triad_ns", 24),
];

struct StreamTask {
    block: BlockId,
    elements: u64,
    series: [SampleId; 4],
    bytes: CounterId,
    at: usize,
    began: Nanos,
}

impl Behaviour for StreamTask {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        match last {
            Done::Stopped | Done::Failed(_) => return Op::Exit,
            Done::Ok => {
                instruments.sample(self.series[self.at], (now - self.began).0);
                instruments.count(self.bytes, self.elements * SWEEPS[self.at].2);
                instruments.mark(now, self.at as u32, Phase::End);
                self.at = (self.at + 1) % SWEEPS.len();
            }
            _ => {}
        }
        self.began = now;
        instruments.mark(now, self.at as u32, Phase::Begin);
        Op::Stream { block: self.block, sweep: SWEEPS[self.at].0 }
    }
}

fn stream(options: &Options, _: &MachineProperties) -> Result<Plan, OptionError> {
    let elements = options.size("array") / 8;
    let Some(elements) = u32::try_from(elements).ok().filter(|&n| n > 0) else {
        return Err(OptionError::new("array", "an array has 8 B to 32 GiB"));
    };
    let mut plan = Plan::new("stream");
    plan.timing = timing(options);
    let series = SWEEPS.map(|(_, name, _)| plan.series(time(name)));
    let bytes = plan.counter(Metric::new("bytes", Unit::Bytes, Better::Higher));
    plan.progress = Some(bytes.0);
    plan.marks.extend(SWEEPS.map(|(_, name, _)| name.trim_end_matches("_ns").to_owned()));
    let role = plan.role("task");
    let block = plan.block(Block::Arrays { elements });
    for index in 0..options.small("tasks") {
        let elements = u64::from(elements);
        let behaviour = StreamTask { block, elements, series, bytes, at: 0, began: Nanos::ZERO };
        let blocks = vec![block.0];
        plan.tasks.push(Task { blocks, ..task("stream", role, index, behaviour) });
    }
    Ok(plan)
}

/// The mark of a round of [`BarrierTask`].
const ROUND: u32 = 0;
const COMPUTING: u32 = 1;

/// Computes and meets the others; the first task of all counts rounds.
struct BarrierTask {
    barrier: BarrierId,
    iterations: u64,
    round: SampleId,
    wait: SampleId,
    rounds: CounterId,
    first: bool,
    left: u64,
    began: Nanos,
    computed: Option<Nanos>,
    meeting: bool,
}

impl Behaviour for BarrierTask {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        if matches!(last, Done::Stopped | Done::Failed(_)) {
            return Op::Exit;
        }
        if last == Done::Ok && !self.meeting {
            instruments.mark(now, COMPUTING, Phase::End);
            self.computed = Some(now);
            self.meeting = true;
            return Op::Meet(self.barrier);
        }
        if let Some(computed) = self.computed.take() {
            instruments.sample(self.wait, (now - computed).0);
            if self.first {
                instruments.sample(self.round, (now - self.began).0);
                instruments.count(self.rounds, 1);
            }
            self.left -= 1;
            if self.left == 0 {
                return Op::Exit;
            }
        }
        self.meeting = false;
        if self.first {
            instruments.mark(now, ROUND, Phase::Point);
        }
        instruments.mark(now, COMPUTING, Phase::Begin);
        self.began = now;
        Op::Compute { iterations: self.iterations }
    }
}

/// Rounds after which tasks end by themselves, and the time after which they are stopped.
fn ends(options: &Options, plan: &mut Plan) -> u64 {
    plan.timing = timing(options);
    if !options.is_given("rounds") {
        return u64::MAX;
    }
    if !options.is_given("duration") {
        plan.timing.duration = None;
    }
    options.number("rounds")
}

fn barrier(options: &Options, around: &MachineProperties) -> Result<Plan, OptionError> {
    let mut plan = Plan::new("barrier");
    let left = ends(options, &mut plan);
    let tasks = match options.small("tasks") {
        0 => u32::try_from(around.allowed.len()).unwrap_or(1).max(1),
        tasks => tasks,
    };
    let round = plan.series(time("round_ns"));
    let wait = plan.series(time("barrier_wait_ns"));
    let rounds = plan.counter(count("rounds"));
    plan.progress = Some(rounds.0);
    plan.barriers.push(tasks);
    plan.marks.extend(["round", "computing"].map(str::to_owned));
    let role = plan.role("task");
    let even = options.duration("work");
    for index in 0..tasks {
        let extra = if index == 0 { even.0 * options.number("imbalance") / 100 } else { 0 };
        let behaviour = BarrierTask {
            barrier: BarrierId(0),
            iterations: iterations(even + Nanos(extra), around),
            round,
            wait,
            rounds,
            first: index == 0,
            left,
            began: Nanos::ZERO,
            computed: None,
            meeting: false,
        };
        plan.tasks.push(task("barrier", role, 0, behaviour));
    }
    Ok(plan)
}

/// How a token is passed.
#[derive(Clone, Copy)]
enum Medium {
    Words { mine: WordId, other: WordId },
    Channels { mine: ChannelId, other: ChannelId },
}

/// Serves and awaits the token by turns; who serves first counts round trips.
struct PingPongTask {
    way: Medium,
    serves: bool,
    trip: SampleId,
    trips: CounterId,
    left: u64,
    sent: bool,
    began: Nanos,
}

impl PingPongTask {
    fn send(&mut self, now: Nanos) -> Op {
        self.sent = true;
        self.began = now;
        match self.way {
            Medium::Words { other, .. } => Op::Wake { word: other, stamp: now },
            Medium::Channels { other, .. } => Op::Send { channel: other, bytes: 8 },
        }
    }

    fn receive(&mut self) -> Op {
        self.sent = false;
        match self.way {
            Medium::Words { mine, .. } => Op::Wait(mine),
            Medium::Channels { mine, .. } => Op::Receive { channel: mine, bytes: 8 },
        }
    }
}

impl Behaviour for PingPongTask {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        match last {
            Done::Stopped | Done::Failed(_) | Done::Closed => return Op::Exit,
            Done::Start if !self.serves => return self.receive(),
            Done::Woken { .. } | Done::Received { .. } if self.serves => {
                instruments.sample(self.trip, (now - self.began).0);
                instruments.count(self.trips, 1);
                if self.left.is_multiple_of(BATCH) {
                    instruments.mark(now, 0, Phase::Point);
                }
                self.left -= 1;
                if self.left == 0 {
                    return Op::Exit;
                }
            }
            _ => {}
        }
        if !self.sent {
            return self.send(now);
        }
        if !self.serves {
            self.left -= 1;
            if self.left == 0 {
                return Op::Exit;
            }
        }
        self.receive()
    }
}

fn pingpong(options: &Options, _: &MachineProperties) -> Result<Plan, OptionError> {
    let mut plan = Plan::new("pingpong");
    let left = ends(options, &mut plan);
    plan.processes = options.flag("processes");
    let trip = plan.series(time("round_trip_ns"));
    let trips = plan.counter(count("round_trips"));
    plan.progress = Some(trips.0);
    plan.marks.push(format!("{BATCH} round trips"));
    let server = plan.role("server");
    let client = plan.role("client");
    let transport = match options.text("via") {
        "socket" => Some(Transport::SocketPair),
        "inet" => Some(Transport::Inet),
        "eventfd" => Some(Transport::EventFd),
        "futex" => None,
        _ => Some(Transport::Pipe),
    };
    for pair in 0..options.small("pairs") {
        let player = |way, serves| PingPongTask {
            way,
            serves,
            trip,
            trips,
            left,
            sent: false,
            began: Nanos::ZERO,
        };
        match transport {
            None => {
                let a = plan.word();
                let b = plan.word();
                let ways =
                    [Medium::Words { mine: a, other: b }, Medium::Words { mine: b, other: a }];
                plan.tasks.push(task("pingpong", server, pair, player(ways[0], true)));
                plan.tasks.push(task("pingpong", client, pair, player(ways[1], false)));
            }
            Some(transport) => {
                let a = plan.channel(transport, 1);
                let b = plan.channel(transport, 1);
                for (role, mine, other, serves) in [(server, a, b, true), (client, b, a, false)] {
                    let behaviour = player(Medium::Channels { mine, other }, serves);
                    let receives = vec![mine.0];
                    let sends = vec![other.0];
                    let base = task("pingpong", role, pair, behaviour);
                    plan.tasks.push(Task { receives, sends, ..base });
                }
            }
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests;
