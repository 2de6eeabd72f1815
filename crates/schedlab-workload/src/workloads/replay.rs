//! replay: what recorded tasks demanded ([`crate::demand`]), performed again.

use super::Workload;
use crate::demand::{Actor, Class, Demand, Object, Source, Step};
use crate::options::{Kind, OptionError, Options, option};
use crate::placement::MachineProperties;
use crate::plan::{Channel, Fork, Origin, Placement, Plan, Policy, Task, Transport};
use crate::{
    Behaviour, ChannelId, CounterId, Done, ForkId, Instruments, Op, PlaceId, SampleId, SemaphoreId,
};
use schedlab_model::{Better, CpuSet, Metric, Nanos, Prio, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const WORKLOAD: Workload = Workload {
    name: "replay",
    about: "the tasks of a recorded trace: their bursts, waits and wakeups",
    options: &[
        option(
            "program",
            Kind::Text,
            "",
            "the demand itself (the command takes a trace as an operand)",
        ),
        option(
            "real-time",
            Kind::Choice(&["keep", "fair"]),
            "keep",
            "fair: real-time tasks run with nice -20, for machines without real-time policies",
        ),
        option(
            "groups",
            Kind::Choice(&["none", "keep"]),
            "none",
            "keep: tasks share CPUs in the groups and sessions of the recording",
        ),
        option(
            "calls",
            Kind::Choice(&["own", "recorded"]),
            "own",
            "recorded: calls that read and write take the recorded time, for machines on which they \
             take none",
        ),
    ],
    build,
};

fn build(options: &Options, around: &MachineProperties) -> Result<Plan, OptionError> {
    let text = options.text("program");
    if text.is_empty() {
        return Err(OptionError::new("program", "missing trace: write replay FILE"));
    }
    let demand: Demand = text.parse().map_err(|why: String| OptionError::new("program", why))?;
    let options = ReplayOptions {
        real_time: options.text("real-time") == "keep",
        groups: options.text("groups") == "keep",
        calls: options.text("calls") == "recorded",
    };
    Ok(plan_of(&demand, options, around))
}

/// What of the recorded scheduling a machine performs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayOptions {
    /// Real-time policies; without, these tasks run with nice -20.
    pub(crate) real_time: bool,
    /// Control groups and sessions.
    pub(crate) groups: bool,
    /// The time that calls took which read and write; without, they take the machine's.
    pub(crate) calls: bool,
}

#[must_use]
pub(crate) fn plan_of(demand: &Demand, options: ReplayOptions, around: &MachineProperties) -> Plan {
    let mut plan = Plan::new("replay");
    let role = plan.role("task");
    let time = |name, better| Metric::new(name, Unit::Nanoseconds, better);
    let late = plan.series(time("wakeup_latency_ns", Better::Lower));
    let activations = plan.counter(Metric::new("activations", Unit::Count, Better::Higher));
    plan.progress = Some(activations.0);
    plan.in_place = Some(demand.start);
    let transport = |object: &Object| match object {
        Object::Pipe => Transport::Pipe,
        Object::Socket => Transport::SocketPair,
        Object::Large => Transport::Inet,
    };
    let channel = |object| Channel { transport: transport(object), senders: 0 };
    plan.channels = demand.objects.iter().map(channel).collect();
    plan.semaphores = u32::try_from(demand.actors.len()).expect("tasks are counted in 32 bits");
    let forks = forks(demand);
    plan.forks = forks.keys().map(|&task| Fork { tasks: vec![task as usize] }).collect();
    let origin = Arc::new(AtomicU64::new(0));
    let mut homeless = 0;
    for (index, actor) in demand.actors.iter().enumerate() {
        let steps = actor.steps.iter().filter_map(|step| match *step {
            Step::Fork(task) => Some(Step::Fork(forks[&task])),
            Step::Prio(prio) => Some(Step::Prio(place_of(&mut plan.places, actor, prio, options))),
            Step::InCall(time) => options.calls.then_some(Step::Run(time)),
            step => Some(step),
        });
        let steps = steps.collect();
        let task = ReplayTask {
            steps,
            next: 0,
            began: None,
            arrival: None,
            source: actor.source,
            own: SemaphoreId(index as u32),
            origin: origin.clone(),
            length: demand.length,
            speed: around.speed,
            late,
            activations,
        };
        let cpus = allowed(actor, around, &mut homeless);
        let mut task = Task::new(actor.comm.clone(), role, Box::new(task));
        let cgroup = actor.group.clone().filter(|_| options.groups);
        task.placement = Placement { cpus, cgroup, ..placed(actor, actor.prio, options) };
        (task.sends, task.receives) = ends(actor);
        for object in &task.sends {
            plan.channels[*object as usize].senders += 1;
        }
        task.origin = Some(Origin { pid: actor.pid, cpu: actor.cpu });
        plan.tasks.push(task);
    }
    if homeless > 0 {
        plan.notes.push(format!(
            "{homeless} tasks may run on any CPU: this machine does not have the CPUs to which \
             they were bound"
        ));
    }
    plan
}

/// The objects into which a task puts, and those from which it takes.
fn ends(actor: &Actor) -> (Vec<u32>, Vec<u32>) {
    let mut puts = BTreeSet::new();
    let mut takes = BTreeSet::new();
    for step in &actor.steps {
        match *step {
            Step::Put { object, .. } => puts.insert(object),
            Step::Take { object, .. } => takes.insert(object),
            _ => continue,
        };
    }
    (puts.into_iter().collect(), takes.into_iter().collect())
}

/// The plan's number of each task that is forked.
fn forks(demand: &Demand) -> BTreeMap<u32, u32> {
    let tasks = (0..).zip(&demand.actors).filter(|(_, actor)| actor.forked);
    tasks.map(|(task, _)| task).zip(0..).collect()
}

/// The plan's number of the place of a task that changes to a priority, as a step holds it.
fn place_of(
    places: &mut Vec<Placement>,
    actor: &Actor,
    prio: Prio,
    options: ReplayOptions,
) -> Prio {
    let place = moved(actor, prio, options);
    let known = places.iter().position(|known| *known == place);
    let number = known.unwrap_or_else(|| {
        places.push(place);
        places.len() - 1
    });
    Prio(i16::try_from(number).expect("there are less than 32768 priorities and policies"))
}

/// A priority as a policy. Events do not tell FIFO from round robin, nor the numbers of deadline tasks: without a class
/// these become FIFO tasks.
fn placed(actor: &Actor, prio: Prio, options: ReplayOptions) -> Placement {
    let slice = actor.slice;
    match (prio.0, actor.class) {
        (100.., Some(Class::Idle)) => {
            Placement { policy: Some(Policy::Idle), ..Placement::default() }
        }
        (nice @ 100.., class) => Placement {
            nice: Some(i32::from(nice) - 120).filter(|nice| *nice != 0),
            policy: (class == Some(Class::Batch)).then_some(Policy::Batch),
            slice,
            ..Placement::default()
        },
        _ if !options.real_time => Placement { nice: Some(-20), ..Placement::default() },
        (prio, class) => {
            let level = (99 - i32::from(prio)).clamp(1, 99).unsigned_abs();
            let policy = match class {
                Some(Class::RoundRobin) => Policy::RoundRobin(level),
                _ => Policy::Fifo(level),
            };
            Placement { policy: Some(policy), ..Placement::default() }
        }
    }
}

/// The same for a task that had another priority before.
fn moved(actor: &Actor, prio: Prio, options: ReplayOptions) -> Placement {
    let Placement { nice, policy, slice, .. } = placed(actor, prio, options);
    let (nice, policy) = match policy {
        None => (Some(nice.unwrap_or(0)), Some(Policy::Normal)),
        Some(Policy::Batch) => (Some(nice.unwrap_or(0)), policy),
        policy => (nice, policy),
    };
    Placement { nice, policy, slice, ..Placement::default() }
}

/// The CPUs to which a task is bound here. If this machine has none of the recorded ones, it may run anywhere.
fn allowed(actor: &Actor, around: &MachineProperties, homeless: &mut usize) -> Option<CpuSet> {
    let here = actor.cpus.as_ref()?.intersection(&around.allowed);
    if here.is_empty() {
        *homeless += 1;
        return None;
    }
    (here != around.allowed).then_some(here)
}

/// Microseconds of work after which a task without an end looks whether the replay is over.
const PORTION_US: u64 = 1_000;

/// Performs the steps of one task.
#[derive(Clone)]
struct ReplayTask {
    steps: Arc<[Step]>,
    next: usize,
    began: Option<Nanos>,
    /// When the interrupt came that the task waited for last.
    arrival: Option<Nanos>,
    source: Source,
    own: SemaphoreId,
    /// When the replay began, for all tasks; 0 until the first looks.
    origin: Arc<AtomicU64>,
    /// When it is over, since it began.
    length: Nanos,
    speed: u64,
    late: SampleId,
    activations: CounterId,
}

impl ReplayTask {
    fn begins(&mut self, now: Nanos) -> Nanos {
        *self.began.get_or_insert_with(|| {
            // The one that comes first says when it began.
            let first = self.origin.compare_exchange(0, now.0, Ordering::AcqRel, Ordering::Acquire);
            Nanos(first.map_or_else(|origin| origin, |_| now.0))
        })
    }
}

impl Behaviour for ReplayTask {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        if last == Done::Stopped {
            return Op::Exit;
        }
        let origin = self.begins(now);
        if let Some(arrival) = self.arrival.take() {
            instruments.sample(self.late, now.0.saturating_sub(arrival.0));
            instruments.count(self.activations, 1);
        }
        loop {
            let Some(step) = self.steps.get(self.next).copied() else { return Op::Exit };
            self.next += 1;
            return match step {
                Step::Run(time) | Step::InCall(time) => {
                    let work = u128::from(time.0) * u128::from(self.speed) / 1_000;
                    match u64::try_from(work).unwrap_or(u64::MAX) {
                        0 => continue,
                        iterations => Op::Compute { iterations },
                    }
                }
                Step::Put { object, bytes } => Op::Send { channel: ChannelId(object), bytes },
                Step::Take { object, bytes } => Op::Receive { channel: ChannelId(object), bytes },
                Step::Post(task) => Op::Post(SemaphoreId(task)),
                Step::Wait => {
                    instruments.count(self.activations, 1);
                    Op::AwaitPost(self.own)
                }
                Step::Interrupt { at, .. } if self.source == Source::Open => {
                    self.arrival = Some(origin + at);
                    Op::SleepUntil(origin + at)
                }
                Step::Interrupt { slept, .. } => {
                    self.arrival = Some(now + slept);
                    Op::Sleep(slept)
                }
                Step::Fork(fork) => Op::Fork(ForkId(fork)),
                Step::Endless if now < origin + self.length => {
                    self.next -= 1;
                    Op::Compute { iterations: PORTION_US * self.speed }
                }
                Step::Endless => continue,
                Step::Prio(place) => Op::Place(PlaceId(u32::from(place.0.unsigned_abs()))),
            };
        }
    }

    fn again(&self) -> Option<Box<dyn Behaviour>> {
        Some(Box::new(Self { next: 0, began: None, arrival: None, ..self.clone() }))
    }
}
