//! schbench: message threads wake workers, which do a request each and ask for the next.
//!
//! In the closed loop a worker that wants work puts itself on its message thread's stack, wakes it
//! and waits for its own word; the message thread wakes all that it finds there, with one time stamp
//! for the batch, so that what a waker costs is part of the wakeup latency. With a rate the message
//! thread hands out requests by the clock instead, whether or not workers are free: see
//! `dispatcher`.

mod dispatcher;
mod messenger;
mod worker;

use super::Workload;
use crate::options::{Kind, OptionDoc, OptionError, Options};
use crate::placement::{MachineProperties, allowed};
use crate::plan::{Block, Placement, Plan, Queue, Regulation, Task, Timing};
use crate::upstream::plat;
use crate::{CounterId, Instruments, SampleId, WordId};
use dispatcher::{Arrivals, Dispatcher};
use messenger::Messenger;
use schedlab_model::{Better, CpuSet, Metric, Nanos, Unit};
use worker::{Duty, Orders, Worker};

const SECOND: u64 = 1_000_000_000;
/// The role of message threads; workers have the next.
const MESSAGE: u16 = 0;
const NO_SHORT: char = '\0';

const fn option(
    name: &'static str,
    short: char,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> OptionDoc {
    let short = if short == NO_SHORT { None } else { Some(short) };
    OptionDoc { name, short, kind, default, help }
}

/// The largest page of the pipe mode.
pub const PIPE_BYTES_MAX: u64 = 1 << 20;
/// No Linux has more tasks (`PID_MAX_LIMIT`).
const TASKS_MAX: u64 = 4_194_304;
/// Requests that may lie before a worker before further ones are dropped.
const PENDING_MAX: u32 = 128;

pub(super) const WORKLOAD: Workload = Workload {
    name: "schbench",
    about: "message threads that wake workers: the tail of wakeup and request latency",
    options: &[
        option("message-threads", 'm', Kind::Number(1, 100_000), "1", "message threads"),
        option(
            "threads",
            't',
            Kind::Number(0, 100_000),
            "0",
            "workers of each; 0: CPUs / message threads",
        ),
        option(
            "runtime",
            'r',
            Kind::Duration(SECOND),
            "30",
            "how long (seconds, or with a unit); 0: until Ctrl-C",
        ),
        option(
            "intervaltime",
            'i',
            Kind::Duration(SECOND),
            "10",
            "time between reports; 0: each second",
        ),
        option(
            "warmuptime",
            'w',
            Kind::Duration(SECOND),
            "0",
            "what is measured before is left out",
        ),
        option(
            "zerotime",
            'z',
            Kind::Duration(SECOND),
            "0",
            "start the metrics anew at each multiple of this; 0: never",
        ),
        option(
            "cache_footprint",
            'F',
            Kind::Size(1 << 10),
            "256",
            "memory of a worker's matrices (KiB, or with a unit)",
        ),
        option(
            "operations",
            'n',
            Kind::Number(0, 1 << 30),
            "5",
            "matrix multiplications of a request",
        ),
        option(
            "sleep_usec",
            's',
            Kind::Duration(1_000),
            "100",
            "sleep at the start of a request (us, or with a unit)",
        ),
        option("no-locking", 'L', Kind::Flag, "false", "requests take no lock of their CPU"),
        option(
            "calibrate",
            'C',
            Kind::Flag,
            "false",
            "no locks, and the sleep is not part of a request",
        ),
        option(
            "rps",
            'R',
            Kind::Number(0, 1_000_000_000),
            "0",
            "requests a second of all; 0: as many as the workers can",
        ),
        option(
            "auto-rps",
            'A',
            Kind::Number(0, 100),
            "0",
            "search for the request rate that keeps CPUs N % busy",
        ),
        option(
            "pipe",
            'p',
            Kind::Size(1),
            "0",
            "hand over memory of this size instead of doing requests",
        ),
        option(
            "message-cpus",
            'M',
            Kind::Text,
            "",
            "CPUs of message threads, in turn; auto: one each, workers elsewhere",
        ),
        option("worker-cpus", 'W', Kind::Text, "", "CPUs of workers; auto: as for message-cpus"),
        option(
            "split",
            NO_SHORT,
            Kind::Number(0, 100),
            "",
            "percent of the work on memory of its own, the rest shared",
        ),
        option(
            "arrivals",
            NO_SHORT,
            Kind::Choice(&["burst", "paced", "poisson"]),
            "burst",
            "when requests of a rate come: all at the start of each second, evenly, or at random",
        ),
        option(
            "processes",
            NO_SHORT,
            Kind::Flag,
            "false",
            "tasks are processes that share memory, not threads",
        ),
    ],
    build,
};

/// What both kinds of task measure into.
#[derive(Clone, Copy)]
struct Measured {
    wakeup: SampleId,
    request: SampleId,
    /// Both in the original's buckets, where its numbers are wanted.
    in_buckets: Option<(SampleId, SampleId)>,
    requests: CounterId,
}

/// What message threads that hand requests out by the clock count besides.
#[derive(Clone, Copy)]
struct Offers {
    depth: SampleId,
    offered: CounterId,
    dropped: CounterId,
}

impl Offers {
    fn of(plan: &mut Plan) -> Self {
        let count = |name, better| Metric::new(name, Unit::Count, better);
        Self {
            depth: plan.series(count("queue_depth", Better::Neither)),
            offered: plan.counter(count("requests_offered", Better::Neither)),
            dropped: plan.counter(count("requests_dropped", Better::Lower)),
        }
    }
}

impl Measured {
    fn of(plan: &mut Plan, upstream: bool) -> Self {
        let latency = |name| Metric::new(name, Unit::Nanoseconds, Better::Lower);
        let wakeup = plan.series(latency("wakeup_latency_ns"));
        let request = plan.series(latency("request_latency_ns"));
        let in_buckets =
            upstream.then(|| (plan.twin_in_buckets(wakeup), plan.twin_in_buckets(request)));
        Self {
            wakeup,
            request,
            in_buckets,
            requests: plan.counter(Metric::new("requests", Unit::Count, Better::Higher)),
        }
    }

    fn wakeup(&self, from: Nanos, to: Nanos, instruments: &mut dyn Instruments) {
        sample(self.wakeup, self.in_buckets.map(|both| both.0), from, to, instruments);
    }

    fn request(&self, from: Nanos, to: Nanos, instruments: &mut dyn Instruments) {
        sample(self.request, self.in_buckets.map(|both| both.1), from, to, instruments);
    }
}

/// Records a time; as the original, in its microseconds, where there is a series of its buckets.
fn sample(
    series: SampleId,
    in_buckets: Option<SampleId>,
    from: Nanos,
    to: Nanos,
    instruments: &mut dyn Instruments,
) {
    let Some(buckets) = in_buckets else {
        instruments.sample(series, (to - from).0);
        return;
    };
    if let Some(micros) = plat::micros(from, to) {
        instruments.sample(series, micros * 1_000);
        instruments.sample(buckets, plat::recorded(micros));
    }
}

/// The side of each of three square matrices of 8-byte numbers that fill `bytes`.
#[must_use]
pub(crate) fn side(bytes: u64) -> u32 {
    u32::try_from((bytes / 3 / 8).isqrt()).unwrap_or(u32::MAX)
}

fn build(options: &Options, surroundings: &MachineProperties) -> Result<Plan, OptionError> {
    let mut plan = Plan::new("schbench");
    plan.processes = options.flag("processes");
    let upstream = options.text("compat") == "upstream";
    let rate = rate(options)?;
    plan.timing = timing(options, upstream, rate.is_some());
    let measured = Measured::of(&mut plan, upstream);
    plan.progress = Some(measured.requests.0);
    plan.marks.push("request".to_owned());
    let messengers = options.small("message-threads");
    let threads = threads(options, surroundings, messengers, &mut plan)?;
    let orders = orders(options, upstream, &mut plan)?;
    let dial = rate.map(|rate| {
        plan.dials.push(rate);
        (crate::DialId(0), Offers::of(&mut plan))
    });
    if options.number("auto-rps") > 0 {
        plan.regulation = Some(Regulation { dial: 0, busy: options.small("auto-rps") });
    }
    let page = match options.size("pipe") {
        0 => None,
        bytes => Some(u32::try_from(bytes.min(PIPE_BYTES_MAX)).expect("at most 1 MiB")),
    };
    let message_role = plan.role("message");
    let worker_role = plan.role("worker");
    debug_assert_eq!(message_role, MESSAGE);
    let cpus = Cpus::new(options, surroundings, messengers, upstream)?;
    plan.notes.extend(cpus.notes(messengers));
    for m in 0..messengers {
        let own = plan.word();
        let words: Vec<WordId> = (0..threads).map(|_| plan.word()).collect();
        let pages: Vec<_> = match page {
            Some(_) => words.iter().map(|_| plan.block(Block::Page { bytes: 1 << 20 })).collect(),
            None => Vec::new(),
        };
        let queues: Vec<_> = match dial {
            Some(_) => {
                words.iter().map(|_| plan.queue(Queue::Fifo { capacity: PENDING_MAX })).collect()
            }
            None => vec![plan.queue(Queue::Stack { capacity: threads })],
        };
        let behaviour: Box<dyn crate::Behaviour> = match dial {
            Some((dial, offers)) => Box::new(Dispatcher::new(
                Arrivals::named(options.text("arrivals")),
                dial,
                messengers,
                queues.iter().copied().zip(words.iter().copied()).collect(),
                offers,
                surroundings.seed.wrapping_add(u64::from(m)),
            )),
            None => Box::new(Messenger::new(own, queues[0], words.clone(), page, pages.clone())),
        };
        plan.tasks.push(task(message_role, m, cpus.message(m as usize), behaviour));
        for (index, &word) in words.iter().enumerate() {
            let duty = match (dial, page) {
                (Some(_), _) => Duty::Rate { queue: queues[index], upstream },
                (None, page) => Duty::Closed {
                    queue: queues[0],
                    messenger: own,
                    index: index as u64,
                    page: page.map(|bytes| (pages[index], bytes)),
                },
            };
            let behaviour = Box::new(Worker::new(word, duty, orders, measured));
            let at = m as usize * threads as usize + index;
            let worker = task(worker_role, m, cpus.worker(at), behaviour);
            plan.tasks.push(Task { blocks: vec![orders.private.0.0], ..worker });
        }
    }
    Ok(plan)
}

fn task(role: u16, group: u32, placement: Placement, behaviour: Box<dyn crate::Behaviour>) -> Task {
    let comm = if role == MESSAGE { "schbench-msg" } else { "schbench-worker" };
    let sends = Vec::new();
    let receives = Vec::new();
    let blocks = Vec::new();
    let origin = None;
    Task {
        comm: comm.to_owned(),
        role,
        group,
        placement,
        sends,
        receives,
        blocks,
        origin,
        behaviour,
    }
}

/// The rate to begin with, of all message threads together; `None` in the closed loop.
fn rate(options: &Options) -> Result<Option<u64>, OptionError> {
    let rps = options.number("rps");
    let messengers = options.number("message-threads");
    if rps > 0 && rps < messengers {
        let why = format!(
            "cannot divide {rps} requests a second among {messengers} message threads: use a \
             multiple"
        );
        return Err(OptionError::new("rps", why));
    }
    if options.is_given("arrivals") && rps == 0 && options.number("auto-rps") == 0 {
        return Err(OptionError::new("arrivals", "it needs a rate: --rps or --auto-rps"));
    }
    match (rps, options.number("auto-rps")) {
        (0, 0) => Ok(None),
        (0, _) => Ok(Some(10.max(messengers))),
        (rps, _) => Ok(Some(rps)),
    }
}

fn timing(options: &Options, upstream: bool, open: bool) -> Timing {
    let runtime = options.duration("runtime");
    let short = runtime < Nanos::from_secs(30);
    // Upstream leaves the warm-up out of short runs and of all modes but one.
    let ignored = upstream && (short || open || options.size("pipe") > 0);
    let warm_up = if ignored { Nanos::ZERO } else { options.duration("warmuptime") };
    let interval = match options.duration("intervaltime") {
        Nanos::ZERO => Nanos::from_secs(1),
        interval => interval,
    };
    Timing {
        duration: (runtime > Nanos::ZERO).then_some(runtime),
        endless: runtime == Nanos::ZERO,
        warm_up,
        interval,
        zero: options.duration("zerotime"),
    }
}

fn threads(
    options: &Options,
    surroundings: &MachineProperties,
    messengers: u32,
    plan: &mut Plan,
) -> Result<u32, OptionError> {
    let threads = match options.small("threads") {
        0 => {
            let upstream = options.text("compat") == "upstream";
            // Upstream counts the CPUs that are online, whether or not it may use them.
            let cpus = match upstream {
                true => surroundings.topology.cpus().len(),
                false => surroundings.allowed.len(),
            };
            let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
            let threads = cpus.div_ceil(messengers).max(1);
            plan.notes.push(format!("setting worker threads to {threads}"));
            threads
        }
        threads => threads,
    };
    let tasks = u64::from(messengers) * (u64::from(threads) + 1);
    if tasks > TASKS_MAX {
        let why = format!(
            "{messengers} message threads with {threads} workers each are {tasks} tasks; Linux has {TASKS_MAX} at most"
        );
        return Err(OptionError::new("threads", why));
    }
    Ok(threads)
}

/// What a request is, for all workers alike.
fn orders(options: &Options, upstream: bool, plan: &mut Plan) -> Result<Orders, OptionError> {
    let footprint = options.size("cache_footprint");
    if footprint > 1 << 36 {
        return Err(OptionError::new("cache_footprint", "more than 64 GiB for each worker"));
    }
    let operations = options.small("operations");
    let matrices = |plan: &mut Plan, bytes: u64, shared| {
        plan.block(Block::Matrices { side: side(bytes), shared, unwritten: upstream })
    };
    let (private, shared) = match options.is_given("split") {
        false => ((matrices(plan, footprint, false), operations), None),
        true => {
            let percent = options.number("split");
            // In whole KiB, as the original divides them: the sides of the matrices hang on it.
            let part = |percent: u64| (((footprint >> 10) * percent) / 100) << 10;
            let own = part(percent);
            let rest = part(100 - percent);
            let own_times = u64::from(operations) * percent / 100;
            let own_times = u32::try_from(own_times).expect("a part of a 32-bit number");
            plan.notes.push(format!(
                "split mode: {percent}% private ({} KB per thread), {}% shared ({} KB total)",
                own >> 10,
                100 - percent,
                rest >> 10
            ));
            plan.notes.push(format!("matrix sizes: private={}, shared={}", side(own), side(rest)));
            (
                (matrices(plan, own, false), own_times),
                Some((matrices(plan, rest, true), operations - own_times)),
            )
        }
    };
    if options.size("pipe") > PIPE_BYTES_MAX {
        plan.notes.push(format!("pipe size too big, using {PIPE_BYTES_MAX}"));
    }
    let calibrate = options.flag("calibrate");
    Ok(Orders {
        private,
        shared,
        sleep: options.duration("sleep_usec"),
        locking: !calibrate && !options.flag("no-locking"),
        sleep_counts: !calibrate,
    })
}

/// Where message threads and workers go.
struct Cpus {
    message: Option<Vec<CpuSet>>,
    worker: Option<Vec<CpuSet>>,
    /// Whether the CPUs were chosen by schedlab.
    auto: bool,
}

impl Cpus {
    fn new(
        options: &Options,
        surroundings: &MachineProperties,
        messengers: u32,
        upstream: bool,
    ) -> Result<Self, OptionError> {
        let message = options.text("message-cpus");
        let worker = options.text("worker-cpus");
        if [message, worker].contains(&"auto") {
            return Ok(Self::auto(surroundings, messengers as usize, upstream));
        }
        let one_each = |option: &str, text: &str| {
            // Like the original, and like Linux, it skips what is empty between two commas.
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            let set = allowed(option, &items.collect::<Vec<_>>().join(","), surroundings)?;
            Ok::<_, OptionError>(set.iter().map(|cpu| std::iter::once(cpu).collect()).collect())
        };
        let set = |option: &str, text: &str| -> Result<Option<Vec<CpuSet>>, OptionError> {
            options.is_given(option).then(|| one_each(option, text)).transpose()
        };
        let message = set("message-cpus", message)?;
        let worker = set("worker-cpus", worker)?;
        Ok(Self { message, worker, auto: false })
    }

    /// Message thread i on CPU i; workers on the others, or, as upstream has it, on all.
    fn auto(surroundings: &MachineProperties, messengers: usize, upstream: bool) -> Self {
        let cpus: Vec<_> = surroundings.allowed.iter().collect();
        let message =
            (0..messengers).map(|m| std::iter::once(cpus[m % cpus.len()]).collect()).collect();
        let rest: CpuSet = cpus.iter().copied().skip(messengers).collect();
        let workers = if upstream || rest.is_empty() { surroundings.allowed.clone() } else { rest };
        Self { message: Some(message), worker: Some(vec![workers]), auto: true }
    }

    /// What the original says of it: a line for each message thread, here in their order.
    fn notes(&self, messengers: u32) -> Vec<String> {
        let auto = self.auto.then(|| "auto pinning message and worker threads".to_owned());
        let threads = if self.message.is_some() { messengers } else { 0 };
        let lines = (0..threads).map(|index| {
            let cpus = self.message(index as usize).cpus.unwrap_or_default();
            format!("Pinning to message thread index {index} cpu {cpus}")
        });
        auto.into_iter().chain(lines).collect()
    }

    fn message(&self, index: usize) -> Placement {
        Self::pick(self.message.as_deref(), index)
    }

    fn worker(&self, index: usize) -> Placement {
        Self::pick(self.worker.as_deref(), index)
    }

    fn pick(sets: Option<&[CpuSet]>, index: usize) -> Placement {
        let cpus = sets.and_then(|sets| sets.get(index % sets.len().max(1)).cloned());
        Placement { cpus, ..Placement::default() }
    }
}

#[cfg(test)]
mod tests;
