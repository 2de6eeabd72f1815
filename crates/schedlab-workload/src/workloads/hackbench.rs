//! hackbench: groups of senders, each of which writes to every receiver of its group.
//!
//! Groups share nothing. A message carries the time at which it was sent where it is long enough, so
//! that the receiver can tell how long it was under way: in the channel, and waiting for its reader.

use super::Workload;
use crate::options::{Kind, OptionDoc, OptionError, Options};
use crate::placement::MachineProperties;
use crate::plan::{Plan, Task, Timing, Transport};
use crate::{Behaviour, ChannelId, CounterId, Done, Instruments, Loop, Op, SampleId};
use schedlab_model::{Better, Metric, Nanos, Phase, Unit};

const fn option(
    name: &'static str,
    short: char,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> OptionDoc {
    OptionDoc { name, short: Some(short), kind, default, help }
}

pub(super) const WORKLOAD: Workload = Workload {
    name: "hackbench",
    about: "groups of tasks that write messages to each other: throughput, many wakeups",
    options: &[
        option("groups", 'g', Kind::Number(1, 100_000), "10", "groups of tasks"),
        option("fds", 'f', Kind::Number(1, 10_000), "20", "senders, and receivers, of each group"),
        option(
            "loops",
            'l',
            Kind::Number(1, 1 << 40),
            "100",
            "messages of each sender to each receiver",
        ),
        option("datasize", 's', Kind::Number(1, 1 << 30), "100", "bytes of each message"),
        option("pipe", 'p', Kind::Flag, "false", "pipes instead of socket pairs"),
        option("inet", 'i', Kind::Flag, "false", "TCP over the loopback instead of socket pairs"),
        option("threads", 'T', Kind::Flag, "false", "each task is a thread"),
        option(
            "processes",
            'P',
            Kind::Flag,
            "false",
            "each task is a process (as it is by default)",
        ),
        option(
            "fifo",
            'F',
            Kind::Flag,
            "false",
            "the task that starts and awaits the others is SCHED_FIFO",
        ),
        OptionDoc {
            name: "duration",
            short: None,
            kind: Kind::Duration(1_000_000_000),
            default: "",
            help: "go on for this time, however many messages that makes, instead of --loops",
        },
        OptionDoc {
            name: "warmup",
            short: None,
            kind: Kind::Duration(1_000_000_000),
            default: "0",
            help: "samples and counts of this first time are left out (with --duration)",
        },
        OptionDoc {
            name: "interval",
            short: None,
            kind: Kind::Duration(1_000_000_000),
            default: "0",
            help: "report metrics each time that this has passed",
        },
    ],
    build,
};

/// Writes a message to every receiver, round after round.
struct Sender {
    channels: Vec<ChannelId>,
    bytes: u32,
    rounds: u64,
    /// Whether messages carry the time.
    stamped: bool,
    at: usize,
    closed: usize,
    /// Between the marks of a round.
    in_round: bool,
}

/// The number of the mark of a round; upstream's work has none beside it.
const ROUND: u32 = 0;

impl Sender {
    fn mark(&mut self, now: Nanos, phase: Phase, instruments: &mut dyn Instruments) {
        self.in_round = phase == Phase::Begin;
        if self.stamped {
            instruments.mark(now, ROUND, phase);
        }
    }
}

impl Behaviour for Sender {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        if self.in_round && self.at == 0 {
            self.mark(now, Phase::End, instruments);
        }
        if matches!(last, Done::Stopped | Done::Failed(_)) {
            self.rounds = 0;
        }
        if self.rounds == 0 {
            let closing = self.channels.get(self.closed).copied();
            self.closed += 1;
            return closing.map_or(Op::Exit, Op::Close);
        }
        if self.at == 0 {
            self.mark(now, Phase::Begin, instruments);
        }
        let channel = self.channels[self.at];
        self.at += 1;
        if self.at == self.channels.len() {
            self.at = 0;
            self.rounds -= 1;
        }
        Op::Send { channel, bytes: self.bytes }
    }

    fn whole(&self) -> Option<Loop> {
        let Self { ref channels, bytes, rounds, stamped, .. } = *self;
        let mark = stamped.then_some(ROUND);
        Some(Loop::Send { channels: channels.clone(), bytes, rounds, stamped, mark })
    }
}

/// Reads messages until it has all.
struct Receiver {
    channel: ChannelId,
    bytes: u32,
    /// Messages still to come.
    left: u64,
    /// Absent where upstream's work is wanted and nothing beside it.
    latency: Option<SampleId>,
    messages: CounterId,
}

impl Behaviour for Receiver {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        match last {
            Done::Received { stamp } => {
                if let Some(latency) = self.latency.filter(|_| stamp > Nanos::ZERO) {
                    instruments.sample(latency, (now - stamp).0);
                }
                instruments.count(self.messages, 1);
                self.left -= 1;
            }
            Done::Stopped | Done::Failed(_) | Done::Closed => self.left = 0,
            _ => {}
        }
        match self.left {
            0 => Op::Exit,
            _ => Op::Receive { channel: self.channel, bytes: self.bytes },
        }
    }

    fn whole(&self) -> Option<Loop> {
        let Self { channel, bytes, left: messages, latency, messages: counter } = *self;
        Some(Loop::Receive { channel, bytes, messages, latency, counter })
    }
}

fn transport(options: &Options) -> Result<Transport, OptionError> {
    match (options.flag("pipe"), options.flag("inet")) {
        (true, true) => Err(OptionError::new("inet", "inet and pipe exclude each other")),
        (true, false) => Ok(Transport::Pipe),
        (false, true) => Ok(Transport::Inet),
        (false, false) => Ok(Transport::SocketPair),
    }
}

fn build(options: &Options, _: &MachineProperties) -> Result<Plan, OptionError> {
    let transport = transport(options)?;
    if options.flag("threads") && options.flag("processes") {
        return Err(OptionError::new("threads", "threads and processes exclude each other"));
    }
    let groups = options.small("groups");
    let fds = options.small("fds");
    let bytes = options.small("datasize");
    let duration = options.is_given("duration").then(|| options.duration("duration"));
    if options.is_given("warmup") && duration.is_none_or(|d| d <= options.duration("warmup")) {
        return Err(OptionError::new("warmup", "it needs a --duration that is longer"));
    }
    let rounds = if duration.is_some() { u64::MAX } else { options.number("loops") };
    let tasks = u64::from(groups) * u64::from(fds) * 2;
    if tasks > 1 << 22 {
        let why = format!("{groups} groups of {fds} are {tasks} tasks; Linux has 4194304 at most");
        return Err(OptionError::new("groups", why));
    }
    let mut plan = Plan::new("hackbench");
    plan.processes = !options.flag("threads");
    plan.timing = Timing {
        duration,
        endless: false,
        warm_up: options.duration("warmup"),
        interval: options.duration("interval"),
        zero: Nanos::ZERO,
    };
    let stamped = options.text("compat") != "upstream";
    let latency = Metric::new("message_latency_ns", Unit::Nanoseconds, Better::Lower);
    let latency = stamped.then(|| plan.series(latency));
    let messages = plan.counter(Metric::new("messages", Unit::Count, Better::Higher));
    plan.progress = Some(messages.0);
    if stamped {
        plan.marks.push("round".to_owned());
    }
    let receivers = plan.role("receiver");
    let senders = plan.role("sender");
    let task = |role, group| Task {
        group,
        ..Task::new(
            "hackbench",
            role,
            Box::new(Receiver { channel: ChannelId(0), bytes, left: 0, latency: None, messages }),
        )
    };
    for group in 0..groups {
        let channels: Vec<ChannelId> = (0..fds).map(|_| plan.channel(transport, fds)).collect();
        for &channel in &channels {
            let left = rounds.saturating_mul(u64::from(fds));
            let behaviour = Receiver { channel, bytes, left, latency, messages };
            let receives = vec![channel.0];
            plan.tasks.push(Task {
                receives,
                behaviour: Box::new(behaviour),
                ..task(receivers, group)
            });
        }
        for _ in 0..fds {
            let channels = channels.clone();
            let behaviour =
                Sender { channels, bytes, rounds, stamped, at: 0, closed: 0, in_round: false };
            let sends = behaviour.channels.iter().map(|channel| channel.0).collect();
            plan.tasks.push(Task { sends, behaviour: Box::new(behaviour), ..task(senders, group) });
        }
    }
    Ok(plan)
}
