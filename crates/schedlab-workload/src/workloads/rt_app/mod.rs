//! rt-app: tasks described by the JSON of the tool of that name (its documented grammar, 1.0).
//!
//! A task goes through phases, each a list of events done in the order in which they are written;
//! keys may carry a suffix (`run1`, `sleep_b`) so that they differ. What is not supported is an error
//! that names it, never left out in silence.

mod json;

use super::Workload;
use crate::options::{Kind, OptionDoc, OptionError, Options};
use crate::placement::Surroundings;
use crate::plan::{Block, Placement, Plan, Policy, Queue, Task, Timing};
use crate::{BarrierId, Behaviour, CounterId, Done, Instruments, LockId, Op, SampleId, WordId};
use crate::{BlockId, QueueId};
use json::Node;
use schedlab_model::{Better, CpuSet, Metric, Nanos, Unit};
use std::collections::BTreeMap;

pub(super) const WORKLOAD: Workload = Workload {
    name: "rt-app",
    about: "periodic and dependent tasks described by a file of rt-app's JSON",
    options: &[
        OptionDoc {
            name: "program",
            short: None,
            kind: Kind::Text,
            default: "",
            help: "the JSON itself (the command takes FILE.json as an operand)",
        },
        OptionDoc {
            name: "duration",
            short: None,
            kind: Kind::Duration(1_000_000_000),
            default: "",
            help: "how long, instead of what the file says",
        },
    ],
    build,
};

fn wrong(place: &str, why: impl Into<String>) -> OptionError {
    OptionError::new("program", format!("{place}: {}", why.into()))
}

/// What a task does next.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Run(u64),
    Runtime(Nanos),
    Sleep(Nanos),
    Timer {
        index: usize,
        period: Nanos,
        absolute: bool,
    },
    Lock(LockId),
    Unlock(LockId),
    Barrier(BarrierId),
    Suspend(WordId),
    Resume(WordId),
    /// Stand in the row of those that wait for a condition.
    StandInRow(QueueId),
    /// Until the condition is signalled to this task.
    AwaitSignal,
    /// Wake so many of those that stand in the row, the first ones first.
    Signal {
        row: QueueId,
        most: u32,
    },
    /// Write so many bytes into the task's buffer.
    Write(u32),
    Yield,
}

#[derive(Clone, Debug, PartialEq)]
struct Phase {
    /// How often; `None`: without end.
    times: Option<u64>,
    events: Vec<Event>,
}

/// A task under way.
struct Program {
    phases: Vec<Phase>,
    times: Option<u64>,
    delay: Nanos,
    phase: usize,
    round: u64,
    event: usize,
    loops: u64,
    /// When each of its timers is due next.
    timers: Vec<Nanos>,
    /// When the sleep under way was to end.
    due: Option<Nanos>,
    ran: Option<Nanos>,
    /// Until when a `runtime` computes, in small pieces.
    busy_until: Option<Nanos>,
    piece: u64,
    /// The word on which it waits for conditions.
    own: WordId,
    /// Its buffer.
    buffer: BlockId,
    /// The row that is being woken, and how many more of it at most.
    waking: Option<(QueueId, u32)>,
    measured: Measured,
}

#[derive(Clone, Copy)]
struct Measured {
    late: SampleId,
    run: SampleId,
    activations: CounterId,
}

impl Program {
    /// The next event, or `None` at the end.
    fn step(&mut self) -> Option<Event> {
        loop {
            let phase = self.phases.get(self.phase)?;
            if let Some(event) = phase.events.get(self.event) {
                self.event += 1;
                return Some(*event);
            }
            self.event = 0;
            self.round += 1;
            if phase.times.is_some_and(|times| self.round >= times) {
                self.round = 0;
                self.phase += 1;
                if self.phase == self.phases.len() {
                    self.loops += 1;
                    if self.times.is_none_or(|times| self.loops < times) {
                        self.phase = 0;
                    }
                }
            }
        }
    }

    fn op(&mut self, event: Event, now: Nanos, instruments: &mut dyn Instruments) -> Op {
        match event {
            Event::Run(iterations) => {
                self.ran = Some(now);
                Op::Compute { iterations }
            }
            Event::Runtime(time) => {
                self.ran = Some(now);
                self.busy_until = Some(now + time);
                Op::Compute { iterations: self.piece }
            }
            Event::Sleep(time) => {
                self.due = Some(now + time);
                Op::Sleep(time)
            }
            Event::Timer { index, period, absolute } => {
                instruments.count(self.measured.activations, 1);
                let timer = &mut self.timers[index];
                *timer = if *timer == Nanos::ZERO { now + period } else { *timer + period };
                if !absolute && *timer < now {
                    // A relative timer that was missed starts anew; an absolute one catches up.
                    *timer = now;
                }
                self.due = Some(*timer);
                Op::SleepUntil(*timer)
            }
            Event::Lock(lock) => Op::Lock(lock),
            Event::Unlock(lock) => Op::Unlock(lock),
            Event::Barrier(barrier) => Op::Meet(barrier),
            Event::Suspend(word) => Op::Wait(word),
            Event::Resume(word) => Op::Wake { word, stamp: now },
            Event::StandInRow(row) => Op::Push { queue: row, value: self.own.0.into() },
            Event::AwaitSignal => Op::Wait(self.own),
            Event::Signal { row, most } => {
                self.waking = Some((row, most));
                Op::Pop(row)
            }
            Event::Write(bytes) => Op::Fill { block: self.buffer, bytes },
            Event::Yield => Op::Yield,
        }
    }

    /// The next step of waking those that wait for a condition, while there is one.
    fn wake_on(&mut self, now: Nanos, last: Done) -> Option<Op> {
        let (row, most) = self.waking?;
        match last {
            Done::Popped { value, .. } => {
                let word = u32::try_from(value).expect("only words are put in rows");
                return Some(Op::Wake { word: WordId(word), stamp: now });
            }
            Done::Ok if most > 1 => {
                self.waking = Some((row, most - 1));
                return Some(Op::Pop(row));
            }
            _ => self.waking = None,
        }
        None
    }
}

impl Behaviour for Program {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        if matches!(last, Done::Stopped | Done::Failed(_)) {
            return Op::Exit;
        }
        if last == Done::Start && self.delay > Nanos::ZERO {
            return Op::Sleep(self.delay);
        }
        if self.busy_until.is_some_and(|until| now < until) {
            return Op::Compute { iterations: self.piece };
        }
        self.busy_until = None;
        if let Some(op) = self.wake_on(now, last) {
            return op;
        }
        if let Some(due) = self.due.take() {
            instruments.sample(self.measured.late, (now - due).0);
        }
        if let Some(began) = self.ran.take() {
            instruments.sample(self.measured.run, (now - began).0);
        }
        match self.step() {
            Some(event) => self.op(event, now, instruments),
            None => Op::Exit,
        }
    }
}

/// What tasks have in common, by the names that the file gives.
#[derive(Default)]
struct Names {
    locks: BTreeMap<String, u32>,
    barriers: BTreeMap<String, u32>,
    words: BTreeMap<String, u32>,
    /// Conditions: each is a row of those that wait for it.
    rows: BTreeMap<String, u32>,
    /// Bytes of a task's buffer.
    buffer_bytes: u32,
}

fn number(names: &mut BTreeMap<String, u32>, name: &str) -> u32 {
    let next = u32::try_from(names.len()).expect("a file has fewer names");
    *names.entry(name.to_owned()).or_insert(next)
}

fn build(options: &Options, around: &Surroundings) -> Result<Plan, OptionError> {
    let text = options.text("program");
    let root: Node = json::read(text).map_err(|why| wrong("the file", why))?;
    let root = root.object().ok_or_else(|| wrong("the file", "it is no object"))?;
    let mut plan = Plan::new("rt-app");
    plan.timing = Timing::default();
    let measured = Measured {
        late: plan.series(Metric::new("wakeup_latency_ns", Unit::Nanoseconds, Better::Lower)),
        run: plan.series(Metric::new("run_ns", Unit::Nanoseconds, Better::Lower)),
        activations: plan.counter(Metric::new("activations", Unit::Count, Better::Higher)),
    };
    plan.progress = Some(measured.activations.0);
    let mut default_policy = None;
    let mut names = Names { buffer_bytes: 4 << 20, ..Names::default() };
    let mut tasks = None;
    for (key, node) in root {
        match key.as_str() {
            "tasks" => tasks = node.object(),
            "global" => default_policy = global(node, &mut plan, &mut names)?,
            "resources" => {}
            other => return Err(wrong("the file", format!("there is no section '{other}'"))),
        }
    }
    if options.is_given("duration") {
        plan.timing.duration = Some(options.duration("duration"));
    }
    let tasks = tasks.ok_or_else(|| wrong("the file", "it has no tasks"))?;
    for (name, node) in tasks {
        task(name, node, &mut plan, &mut names, around, measured, default_policy)?;
    }
    if plan.tasks.is_empty() {
        return Err(wrong("tasks", "there is none"));
    }
    plan.locks = u32::try_from(names.locks.len()).expect("few");
    plan.words = u32::try_from(names.words.len()).expect("few");
    let capacity = u32::try_from(plan.tasks.len()).expect("few");
    plan.queues = names.rows.iter().map(|_| Queue::Fifo { capacity }).collect();
    parties(&mut plan, &names);
    Ok(plan)
}

/// A barrier waits for every task that names it.
fn parties(plan: &mut Plan, names: &Names) {
    let mut parties = vec![0; names.barriers.len()];
    for task in &plan.tasks {
        task.receives.iter().for_each(|&barrier| parties[barrier as usize] += 1);
    }
    // They were only noted there: the tasks have no channels.
    plan.tasks.iter_mut().for_each(|task| task.receives.clear());
    plan.barriers = parties;
}

fn global(node: &Node, plan: &mut Plan, names: &mut Names) -> Result<Option<Policy>, OptionError> {
    let place = "global";
    let mut policy = None;
    for (key, value) in node.object().ok_or_else(|| wrong(place, "it is no object"))? {
        match key.as_str() {
            "duration" => {
                let seconds =
                    value.number().ok_or_else(|| wrong(place, "duration is no number"))?;
                if seconds > 0 {
                    plan.timing.duration = Some(Nanos::from_secs(seconds.unsigned_abs()));
                }
            }
            "default_policy" => policy = self::policy(place, value, None, &[])?,
            "mem_buffer_size" => {
                let bytes = value.number().and_then(|n| u32::try_from(n).ok());
                names.buffer_bytes = bytes
                    .filter(|bytes| (1..=1 << 30).contains(bytes))
                    .ok_or_else(|| wrong(place, "mem_buffer_size is not 1 to 2^30 bytes"))?;
            }
            "calibration" => plan.notes.push(
                "calibration is left to schedlab: a run of n is n us at full speed".to_owned(),
            ),
            "logdir" | "log_basename" | "log_size" | "ftrace" | "gnuplot" | "io_device"
            | "cumulative_slack" => {
                plan.notes.push(format!("{key} is not used: figures come with the run"));
            }
            "pi_enabled" | "lock_pages" => {
                if value.truth() == Some(true) {
                    return Err(wrong(place, format!("{key} is not supported")));
                }
            }
            other => return Err(wrong(place, format!("there is no key '{other}'"))),
        }
    }
    Ok(policy)
}

/// The budget of a deadline task from its keys; the period is the runtime and the deadline the period
/// where they are not given.
fn deadline(place: &str, keys: &[(String, Node)]) -> Result<Policy, OptionError> {
    let time = |names: [&str; 2]| {
        let found = keys.iter().find(|(key, _)| names.contains(&key.as_str()));
        match found.map(|(key, node)| (key, node.number())) {
            None => Ok(None),
            Some((_, Some(n @ 1..))) => Ok(Some(Nanos::from_micros(n.unsigned_abs()))),
            Some((key, _)) => Err(wrong(place, format!("{key} is no number of microseconds"))),
        }
    };
    let runtime = time(["dl-runtime", "dl-runtime"])?
        .ok_or_else(|| wrong(place, "SCHED_DEADLINE needs dl-runtime (microseconds)"))?;
    let period = time(["dl-period", "period"])?.unwrap_or(runtime);
    let deadline = time(["dl-deadline", "deadline"])?.unwrap_or(period);
    if runtime <= deadline && deadline <= period {
        Ok(Policy::Deadline { runtime, deadline, period })
    } else {
        Err(wrong(place, "it takes dl-runtime <= dl-deadline <= dl-period"))
    }
}

fn policy(
    place: &str,
    node: &Node,
    priority: Option<i64>,
    keys: &[(String, Node)],
) -> Result<Option<Policy>, OptionError> {
    let level = || match u32::try_from(priority.unwrap_or(10)) {
        Ok(level @ 1..=99) => Ok(level),
        _ => Err(wrong(place, "the priority is not 1 to 99")),
    };
    match node.text() {
        Some("SCHED_OTHER") => Ok(Some(Policy::Normal)),
        Some("SCHED_BATCH") => Ok(Some(Policy::Batch)),
        Some("SCHED_IDLE") => Ok(Some(Policy::Idle)),
        Some("SCHED_FIFO") => Ok(Some(Policy::Fifo(level()?))),
        Some("SCHED_RR") => Ok(Some(Policy::RoundRobin(level()?))),
        Some("SCHED_DEADLINE") => Ok(Some(deadline(place, keys)?)),
        Some(other) => Err(wrong(place, format!("the policy {other} is not supported"))),
        None => Err(wrong(place, "the policy is no text")),
    }
}

fn task(
    name: &str,
    node: &Node,
    plan: &mut Plan,
    names: &mut Names,
    around: &Surroundings,
    measured: Measured,
    default_policy: Option<Policy>,
) -> Result<(), OptionError> {
    let place = format!("task {name}");
    let keys = node.object().ok_or_else(|| wrong(&place, "it is no object"))?;
    let get = |wanted: &str| keys.iter().find(|(key, _)| key == wanted).map(|(_, node)| node);
    let instances = match get("instance").map(Node::number) {
        None => 1,
        Some(Some(n @ 1..=100_000)) => n,
        Some(_) => return Err(wrong(&place, "instance is not 1 to 100000")),
    };
    let placement = placement(&place, keys, default_policy)?;
    let mut timers = Vec::new();
    let mut scope = Scope { place, names, around, timers: &mut timers, name };
    let phases = match get("phases") {
        Some(node) => {
            let all = node.object().ok_or_else(|| wrong(&scope.place, "phases is no object"))?;
            let one = |(key, node): &(String, Node)| scope.phase(key, node);
            all.iter().map(one).collect::<Result<Vec<_>, _>>()?
        }
        None => {
            let inline = scope.phase("", node)?;
            vec![Phase { times: Some(1), ..inline }]
        }
    };
    let delay = get("delay").and_then(Node::number).unwrap_or(0).unsigned_abs();
    let times = times(get("loop"), None, &scope.place)?;
    if phases.iter().all(|phase| phase.events.is_empty()) {
        return Err(wrong(&scope.place, "it has no events"));
    }
    let barriers = barriers(&phases);
    let role = plan.role(name);
    let writes = phases.iter().flat_map(|phase| &phase.events);
    let writes = writes.clone().any(|event| matches!(event, Event::Write(_)));
    for instance in 0..instances {
        // Each has a buffer of its own where it writes at all.
        let blocks: Vec<u32> = match writes {
            true => vec![plan.block(Block::Page { bytes: names.buffer_bytes }).0],
            false => Vec::new(),
        };
        // A name of the file can't hold the zero byte.
        let own = WordId(number(&mut names.words, &format!("{name}\0{instance}")));
        let program = Program {
            phases: phases.clone(),
            times,
            delay: Nanos::from_micros(delay),
            phase: 0,
            round: 0,
            event: 0,
            loops: 0,
            timers: vec![Nanos::ZERO; timers.len()],
            due: None,
            ran: None,
            busy_until: None,
            piece: around.speed.saturating_mul(20).max(1),
            own,
            buffer: BlockId(blocks.first().copied().unwrap_or(0)),
            waking: None,
            measured,
        };
        let comm = if instances > 1 { format!("{name}-{instance}") } else { name.to_owned() };
        plan.tasks.push(Task {
            comm,
            role,
            group: 0,
            placement: placement.clone(),
            sends: Vec::new(),
            receives: barriers.clone(),
            blocks,
            behaviour: Box::new(program),
        });
    }
    Ok(())
}

/// Where and how a task runs.
fn placement(
    place: &str,
    keys: &[(String, Node)],
    default_policy: Option<Policy>,
) -> Result<Placement, OptionError> {
    let get = |wanted: &str| keys.iter().find(|(key, _)| key == wanted).map(|(_, node)| node);
    let priority = get("priority").and_then(Node::number);
    let mut placement = Placement { policy: default_policy, ..Placement::default() };
    if let Some(node) = get("policy") {
        placement.policy = policy(place, node, priority, keys)?;
    }
    if matches!(placement.policy, None | Some(Policy::Normal | Policy::Batch)) {
        // Since Linux 6.12 it asks for a slice where there is no budget to give.
        if let Some(node) = get("dl-runtime") {
            let slice = node.number().filter(|us| (100..=100_000).contains(us));
            let slice =
                slice.ok_or_else(|| wrong(place, "dl-runtime is not 100 to 100000 (us)"))?;
            placement.slice = Some(Nanos::from_micros(slice.unsigned_abs()));
        }
        placement.nice = priority.and_then(|nice| i32::try_from(nice).ok());
    }
    placement.cpus = get("cpus").map(|node| cpus(place, node)).transpose()?;
    Ok(placement)
}

/// The barriers that phases name, each once.
fn barriers(phases: &[Phase]) -> Vec<u32> {
    let events = phases.iter().flat_map(|phase| &phase.events);
    let named = events.filter_map(|event| match event {
        Event::Barrier(id) => Some(id.0),
        _ => None,
    });
    named.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

fn cpus(place: &str, node: &Node) -> Result<CpuSet, OptionError> {
    let list = node.list().ok_or_else(|| wrong(place, "cpus is no list"))?;
    let one = |node: &Node| node.number().and_then(|n| u16::try_from(n).ok());
    let set: Option<CpuSet> = list.iter().map(|n| one(n).map(schedlab_model::Cpu)).collect();
    set.filter(|set| !set.is_empty()).ok_or_else(|| wrong(place, "cpus is no list of CPUs"))
}

/// `loop`: absent as `default` says, -1 without end.
fn times(
    node: Option<&Node>,
    default: Option<u64>,
    place: &str,
) -> Result<Option<u64>, OptionError> {
    match node.map(Node::number) {
        None => Ok(default),
        Some(Some(-1)) => Ok(None),
        Some(Some(n @ 1..)) => Ok(Some(n.unsigned_abs())),
        Some(_) => Err(wrong(place, "loop is neither -1 nor a positive number")),
    }
}

/// Keys of a task that are no events.
const NO_EVENTS: [&str; 13] = [
    "loop",
    "phases",
    "instance",
    "policy",
    "priority",
    "cpus",
    "delay",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "nodes_membind",
    "util_min",
    "util_max",
];

/// What is needed to read the events of one task.
struct Scope<'s> {
    place: String,
    names: &'s mut Names,
    around: &'s Surroundings,
    timers: &'s mut Vec<String>,
    name: &'s str,
}

impl Scope<'_> {
    fn phase(&mut self, key: &str, node: &Node) -> Result<Phase, OptionError> {
        let place = if key.is_empty() {
            self.place.clone()
        } else {
            format!("{}, phase {key}", self.place)
        };
        let keys = node.object().ok_or_else(|| wrong(&place, "it is no object"))?;
        let mut events = Vec::new();
        let mut repeat = None;
        for (key, node) in keys {
            match key.as_str() {
                "loop" => repeat = Some(node),
                "cpus" if !key.is_empty() && place.contains("phase") => {
                    return Err(wrong(&place, "cpus of a phase is not supported, of a task it is"));
                }
                "policy" | "priority" | "dl-runtime" | "dl-period" | "dl-deadline"
                    if place.contains("phase") =>
                {
                    let why = format!("{key} of a phase is not supported, of a task it is");
                    return Err(wrong(&place, why));
                }
                "util_min" | "util_max" | "nodes_membind" => {
                    return Err(wrong(&place, format!("{key} is not supported")));
                }
                key if NO_EVENTS.contains(&key) => {}
                key => events.extend(self.events(&place, key, node)?),
            }
        }
        Ok(Phase { times: times(repeat, Some(1), &place)?, events })
    }

    /// What is done for one key.
    fn events(&mut self, place: &str, key: &str, node: &Node) -> Result<Vec<Event>, OptionError> {
        let kind = EVENTS
            .iter()
            .filter(|kind| key.starts_with(**kind))
            .max_by_key(|kind| kind.len())
            .ok_or_else(|| wrong(place, format!("there is no event '{key}'")))?;
        match *kind {
            "wait" => return self.wait(place, key, node),
            "sync" => return self.sync(place, key, node),
            "mem" => return self.write(place, key, node),
            _ => {}
        }
        self.event(kind, place, key, node).map(|event| vec![event])
    }

    /// The row of a condition.
    fn row(&mut self, name: &str) -> QueueId {
        QueueId(number(&mut self.names.rows, name))
    }

    /// The condition and the lock of a `wait` or `sync`.
    fn condition<'n>(
        place: &str,
        key: &str,
        node: &'n Node,
    ) -> Result<(&'n str, &'n str), OptionError> {
        let keys = node.object().ok_or_else(|| wrong(place, format!("{key} is no object")))?;
        let get = |wanted: &str| {
            let found = keys.iter().find(|(key, _)| key == wanted);
            found
                .and_then(|(_, node)| node.text())
                .ok_or_else(|| wrong(place, format!("{key} names no {wanted}")))
        };
        Ok((get("ref")?, get("mutex")?))
    }

    /// As `pthread_cond_wait`: the lock is free while the task waits, and its own again after.
    fn wait(&mut self, place: &str, key: &str, node: &Node) -> Result<Vec<Event>, OptionError> {
        let (name, mutex) = Self::condition(place, key, node)?;
        let (row, lock) = (self.row(name), LockId(number(&mut self.names.locks, mutex)));
        Ok(vec![Event::StandInRow(row), Event::Unlock(lock), Event::AwaitSignal, Event::Lock(lock)])
    }

    /// Lock, signal, wait, unlock.
    fn sync(&mut self, place: &str, key: &str, node: &Node) -> Result<Vec<Event>, OptionError> {
        let (name, mutex) = Self::condition(place, key, node)?;
        let (row, lock) = (self.row(name), LockId(number(&mut self.names.locks, mutex)));
        let mut events = vec![Event::Lock(lock), Event::Signal { row, most: 1 }];
        events.extend(self.wait(place, key, node)?);
        events.push(Event::Unlock(lock));
        Ok(events)
    }

    /// Writes over the buffer, from its beginning again and again where more is asked than it holds.
    fn write(&mut self, place: &str, key: &str, node: &Node) -> Result<Vec<Event>, OptionError> {
        let size = u64::from(self.names.buffer_bytes);
        let bytes = node.number().and_then(|n| u64::try_from(n).ok()).filter(|n| *n <= size << 10);
        let bytes = bytes.ok_or_else(|| {
            wrong(place, format!("{key} is not 0 to {} bytes (1024 buffers)", size << 10))
        })?;
        let piece = |n: u64| Event::Write(u32::try_from(n).expect("no more than a buffer"));
        let mut events: Vec<Event> = (0..bytes / size).map(|_| piece(size)).collect();
        if bytes % size > 0 {
            events.push(piece(bytes % size));
        }
        Ok(events)
    }

    fn event(
        &mut self,
        kind: &str,
        place: &str,
        key: &str,
        node: &Node,
    ) -> Result<Event, OptionError> {
        let micros = || match node.number() {
            Some(n) if n >= 0 => Ok(Nanos::from_micros(n.unsigned_abs())),
            _ => Err(wrong(place, format!("{key} is no number of microseconds"))),
        };
        let name = || node.text().ok_or_else(|| wrong(place, format!("{key} names nothing")));
        Ok(match kind {
            "runtime" => Event::Runtime(micros()?),
            "run" => Event::Run(micros()?.0.saturating_mul(self.around.speed) / 1_000),
            "sleep" => Event::Sleep(micros()?),
            "lock" => Event::Lock(LockId(number(&mut self.names.locks, name()?))),
            "unlock" => Event::Unlock(LockId(number(&mut self.names.locks, name()?))),
            "barrier" => Event::Barrier(BarrierId(number(&mut self.names.barriers, name()?))),
            // A task is resumed by its name.
            "suspend" => {
                let own = node.text().filter(|text| !text.is_empty()).unwrap_or(self.name);
                Event::Suspend(WordId(number(&mut self.names.words, own)))
            }
            "resume" => Event::Resume(WordId(number(&mut self.names.words, name()?))),
            "signal" => Event::Signal { row: self.row(name()?), most: 1 },
            "broad" => Event::Signal { row: self.row(name()?), most: u32::MAX },
            "yield" => Event::Yield,
            "timer" => self.timer(place, key, node)?,
            other => {
                let why = format!(
                    "the event {other} ({key}) is not supported: write it with run and sleep, mem, or lock, wait and signal"
                );
                return Err(wrong(place, why));
            }
        })
    }

    fn timer(&mut self, place: &str, key: &str, node: &Node) -> Result<Event, OptionError> {
        let keys = node.object().ok_or_else(|| wrong(place, format!("{key} is no object")))?;
        let get = |wanted: &str| keys.iter().find(|(key, _)| key == wanted).map(|(_, node)| node);
        let period = match get("period").and_then(Node::number) {
            Some(n) if n > 0 => Nanos::from_micros(n.unsigned_abs()),
            _ => return Err(wrong(place, format!("{key} has no period"))),
        };
        let absolute = match get("mode").map(Node::text) {
            None | Some(Some("relative")) => false,
            Some(Some("absolute")) => true,
            Some(_) => return Err(wrong(place, "a timer is relative or absolute")),
        };
        let name = get("ref").and_then(Node::text).unwrap_or(key);
        // "unique" gives each task a timer of its own, as all have here.
        let at = self.timers.iter().position(|known| known == name).unwrap_or_else(|| {
            self.timers.push(name.to_owned());
            self.timers.len() - 1
        });
        Ok(Event::Timer { index: at, period, absolute })
    }
}

/// The events of the grammar; those without a counterpart here are refused by name.
const EVENTS: [&str; 20] = [
    "run", "runtime", "sleep", "timer", "lock", "unlock", "barrier", "suspend", "resume", "yield",
    "mem", "iorun", "wait", "signal", "broad", "sync", "fork", "memrun", "sem_post", "sem_wait",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(text: &str) -> Result<Plan, crate::workloads::PlanError> {
        let around = Surroundings {
            topology: schedlab_model::Topology::flat(4),
            allowed: CpuSet::first(4),
            speed: 1_000,
            seed: 1,
        };
        let given = [("program".to_owned(), text.to_owned())].into_iter().collect();
        crate::workloads::plan("rt-app", &given, &around)
    }

    struct Deaf;

    impl Instruments for Deaf {
        fn sample(&mut self, _: SampleId, _: u64) {}
        fn count(&mut self, _: CounterId, _: u64) {}
        fn dial(&self, _: crate::DialId) -> u64 {
            0
        }
    }

    #[test]
    fn events_come_in_the_order_in_which_they_are_written() {
        let text = r#"{"tasks": {"t": {"loop": 2, "phases": {
            "b": {"loop": 2, "sleep": 5, "run": 3}, "a": {"lock": "m", "unlock": "m"}}}}}"#;
        let mut plan = planned(text).unwrap();
        let task = &mut plan.tasks[0];
        let mut last = Done::Start;
        let mut ops = Vec::new();
        loop {
            let op = task.behaviour.next(Nanos(1), last, &mut Deaf);
            last = Done::Ok;
            if op == Op::Exit {
                break;
            }
            ops.push(op);
        }
        let once = [
            Op::Sleep(Nanos(5_000)),
            Op::Compute { iterations: 3_000 },
            Op::Sleep(Nanos(5_000)),
            Op::Compute { iterations: 3_000 },
            Op::Lock(LockId(0)),
            Op::Unlock(LockId(0)),
        ];
        assert_eq!(ops, [once, once].concat());
    }

    #[test]
    fn instances_barriers_and_placement_are_counted() {
        let text = r#"{"global": {"duration": 2, "default_policy": "SCHED_OTHER"},
            "tasks": {"a": {"instance": 3, "cpus": [0, 2], "run": 1, "barrier": "x"},
                      "b": {"policy": "SCHED_FIFO", "priority": 7, "barrier": "x", "timer": {"ref": "u", "period": 100}}}}"#;
        let plan = planned(text).unwrap();
        assert_eq!(plan.tasks.len(), 4);
        assert_eq!(plan.barriers, [4]);
        assert_eq!(plan.timing.duration, Some(Nanos::from_secs(2)));
        assert_eq!(plan.tasks[0].placement.cpus.as_ref().unwrap().to_string(), "0,2");
        assert_eq!(plan.tasks[3].placement.policy, Some(Policy::Fifo(7)));
        assert!(plan.tasks.iter().all(|task| task.receives.is_empty()));
    }

    /// The operations of the plan's task `index` until it ends; `answer` tells how each went.
    fn ops(plan: &mut Plan, index: usize, answer: impl Fn(&Op) -> Done) -> Vec<Op> {
        let (mut last, mut ops) = (Done::Start, Vec::new());
        loop {
            let op = plan.tasks[index].behaviour.next(Nanos(1), last, &mut Deaf);
            if op == Op::Exit {
                return ops;
            }
            last = answer(&op);
            ops.push(op);
        }
    }

    #[test]
    fn a_wait_frees_its_lock_and_a_signal_wakes_who_stands_first_in_the_row() {
        let text = r#"{"tasks": {
            "a": {"loop": 1, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"},
            "b": {"loop": 1, "signal": "c", "broad": "c"},
            "c": {"loop": 1, "sync": {"ref": "c", "mutex": "m"}}}}"#;
        let mut plan = planned(text).unwrap();
        assert_eq!((plan.queues.len(), plan.words, plan.locks), (1, 3, 1));
        let row = QueueId(0);
        let waiting = [
            Op::Lock(LockId(0)),
            Op::Push { queue: row, value: 0 },
            Op::Unlock(LockId(0)),
            Op::Wait(WordId(0)),
            Op::Lock(LockId(0)),
            Op::Unlock(LockId(0)),
        ];
        assert_eq!(ops(&mut plan, 0, |_| Done::Ok), waiting);
        // One is there for the signal, two for the broadcast.
        let left = std::cell::Cell::new(3_u64);
        let popped = |op: &Op| match op {
            Op::Pop(_) if left.get() > 0 => {
                left.set(left.get() - 1);
                Done::Popped { value: left.get(), first: true }
            }
            Op::Pop(_) => Done::Empty,
            _ => Done::Ok,
        };
        let wake = |word| Op::Wake { word: WordId(word), stamp: Nanos(1) };
        let pop = Op::Pop(row);
        assert_eq!(ops(&mut plan, 1, popped), [pop, wake(2), pop, wake(1), pop, wake(0), pop]);
        let sync = ops(&mut plan, 2, |op| match op {
            Op::Pop(_) => Done::Empty,
            _ => Done::Ok,
        });
        assert_eq!(sync[..2], [Op::Lock(LockId(0)), pop]);
        assert_eq!(sync.len(), 7, "{sync:?}");
    }

    #[test]
    fn memory_is_written_in_whole_buffers_and_deadlines_have_budgets() {
        let text = r#"{"tasks": {"t": {"loop": 1, "mem": 2500, "policy": "SCHED_DEADLINE",
            "dl-runtime": 100, "dl-period": 1000}}, "global": {"mem_buffer_size": 1000}}"#;
        let mut plan = planned(text).unwrap();
        let budget = Policy::Deadline {
            runtime: Nanos::from_micros(100),
            deadline: Nanos::from_micros(1_000),
            period: Nanos::from_micros(1_000),
        };
        assert_eq!(plan.tasks[0].placement.policy, Some(budget));
        let bytes: Vec<u32> = ops(&mut plan, 0, |_| Done::Ok)
            .iter()
            .map(|op| if let Op::Fill { bytes, .. } = op { *bytes } else { 0 })
            .collect();
        assert_eq!(bytes, [1_000, 1_000, 500]);
        let slice = r#"{"tasks": {"t": {"run": 1, "dl-runtime": 3000}}}"#;
        let placement = &planned(slice).unwrap().tasks[0].placement;
        assert_eq!(placement.slice, Some(Nanos::from_millis(3)));
    }

    #[test]
    fn what_is_not_supported_is_named_with_its_place() {
        for (text, part) in [
            ("", "the file: "),
            ("{", "the file: "),
            ("[]", "no object"),
            (r#"{"global": {}}"#, "no tasks"),
            (r#"{"tasks": {"t": {}}}"#, "task t: it has no events"),
            (r#"{"tasks": {"t": {"run": -1}}}"#, "task t: run is no number"),
            (r#"{"tasks": {"t": {"frob": 1}}}"#, "no event 'frob'"),
            (
                r#"{"tasks": {"t": {"phases": {"p": {"iorun2": 1}}}}}"#,
                "phase p: the event iorun (iorun2) is not",
            ),
            (r#"{"tasks": {"t": {"wait": {"ref": "c"}}}}"#, "task t: wait names no mutex"),
            (r#"{"tasks": {"t": {"sync": "c"}}}"#, "sync is no object"),
            (r#"{"tasks": {"t": {"mem": -1}}}"#, "mem is not 0 to"),
            (r#"{"tasks": {"t": {"sem_post": "s"}}}"#, "sem_post (sem_post) is not supported"),
            (
                r#"{"tasks": {"t": {"phases": {"p": {"run": 1, "policy": "SCHED_FIFO"}}}}}"#,
                "phase p: policy of a phase",
            ),
            (
                r#"{"tasks": {"t": {"run": 1, "policy": "SCHED_DEADLINE", "dl-runtime": 9, "dl-period": 5}}}"#,
                "dl-runtime <= dl-deadline",
            ),
            (r#"{"tasks": {"t": {"run": 1, "loop": 0}}}"#, "loop is neither"),
            (
                r#"{"tasks": {"t": {"run": 1, "policy": "SCHED_DEADLINE"}}}"#,
                "SCHED_DEADLINE needs dl-runtime",
            ),
            (r#"{"tasks": {"t": {"run": 1, "cpus": []}}}"#, "no list of CPUs"),
            (r#"{"frob": {}}"#, "no section 'frob'"),
        ] {
            let error = planned(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
