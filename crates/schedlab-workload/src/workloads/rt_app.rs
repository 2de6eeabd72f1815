//! rt-app: tasks described by the JSON of the tool of that name (its documented grammar).
//!
//! A task goes through phases, each a list of events done in the order in which they are written;
//! keys may carry a suffix (`run1`, `sleep_b`) so that they differ. What is not supported is an error
//! that names it, never left out in silence. `json` reads the text, `task` and `events` make programs
//! of it, `place` says where and how they run, `program` is a task under way.

mod events;
mod json;
mod place;
mod program;
mod task;

use super::Workload;
use crate::options::{Kind, OptionDoc, OptionError, Options};
use crate::placement::MachineProperties;
use crate::plan::{Block, Fork, Plan, Policy, Queue, Timing, Transport};
use crate::{BlockId, ChannelId};
use json::Node;
use program::Measured;
use schedlab_model::{Better, Metric, Nanos, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use task::Definition;

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

/// How many tasks of one `fork` may be alive at a time.
const ALIVE: usize = 64;

fn wrong(place: &str, why: impl Into<String>) -> OptionError {
    OptionError::new("program", format!("{place}: {}", why.into()))
}

/// What tasks have in common, by the names that the file gives.
struct Names {
    locks: BTreeMap<String, u32>,
    barriers: BTreeMap<String, u32>,
    semaphores: BTreeMap<String, u32>,
    /// Conditions: each is a row of those that wait for it.
    rows: BTreeMap<String, u32>,
    buffers: BTreeMap<String, (Block, BlockId)>,
    /// Tasks that others start.
    forks: BTreeMap<String, u32>,
    /// Tasks that are resumed, with where.
    resumed: Vec<(String, String)>,
    /// Bytes of a task's buffer.
    buffer_bytes: u32,
    /// How many words tasks have to wait on.
    words: u32,
}

fn number(names: &mut BTreeMap<String, u32>, name: &str) -> u32 {
    let next = u32::try_from(names.len()).expect("a file has fewer names");
    *names.entry(name.to_owned()).or_insert(next)
}

fn measured(plan: &mut Plan) -> Measured {
    let time = |name, better| Metric::new(name, Unit::Nanoseconds, better);
    let count = |name, better| Metric::new(name, Unit::Count, better);
    let measured = Measured {
        late: plan.series(time("wakeup_latency_ns", Better::Lower)),
        run: plan.series(time("run_ns", Better::Lower)),
        slack: plan.series(time("slack_ns", Better::Higher)),
        period: plan.series(time("period_ns", Better::Neither)),
        activations: plan.counter(count("activations", Better::Higher)),
        missed: plan.counter(count("timers_missed", Better::Lower)),
        refused: None,
    };
    plan.progress = Some(measured.activations.0);
    measured
}

fn build(options: &Options, around: &MachineProperties) -> Result<Plan, OptionError> {
    let text = options.text("program");
    if text.trim().is_empty() {
        return Err(wrong("the file", "missing or empty: name a file, as in rt-app FILE.json"));
    }
    let root: Node = json::read(text).map_err(|why| wrong("the file", why))?;
    let root = root
        .object()
        .ok_or_else(|| wrong("the file", "invalid value: use an object, {\"tasks\": {...}}"))?;
    let mut plan = Plan::new("rt-app");
    plan.timing = Timing::default();
    let mut measured = measured(&mut plan);
    let mut names = Names {
        locks: BTreeMap::new(),
        barriers: BTreeMap::new(),
        semaphores: BTreeMap::new(),
        rows: BTreeMap::new(),
        buffers: BTreeMap::new(),
        forks: BTreeMap::new(),
        resumed: Vec::new(),
        buffer_bytes: 4 << 20,
        words: 0,
    };
    let mut policy = None;
    let mut tasks = None;
    for (key, node) in root {
        match key.as_str() {
            "tasks" => tasks = Some(node),
            "global" => policy = global(node, &mut plan, &mut names)?,
            // Old files declare them; they are made as they are named.
            "resources" => {}
            other => {
                let why = format!("unknown section '{other}': use tasks, global and resources");
                return Err(wrong("the file", why));
            }
        }
    }
    if options.is_given("duration") {
        plan.timing.duration = Some(options.duration("duration"));
    }
    let tasks = tasks.ok_or_else(|| wrong("the file", "it has no tasks"))?;
    let tasks = tasks
        .object()
        .ok_or_else(|| wrong("tasks", "invalid value: use an object, {\"NAME\": {...}}"))?;
    if text_forks(tasks) {
        let metric = Metric::new("forks_refused", Unit::Count, Better::Lower);
        measured.refused = Some(plan.counter(metric));
    }
    let read = |(name, node): &(String, Node)| {
        task::read(name, node, &mut plan, &mut names, around, measured, policy)
    };
    let definitions = tasks.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    populate(&mut plan, &mut names, &definitions)?;
    Ok(plan)
}

/// Whether a task starts others: any key of an event `fork`.
fn text_forks(tasks: &[(String, Node)]) -> bool {
    tasks.iter().any(|(key, node)| key.starts_with("fork") || node.object().is_some_and(text_forks))
}

/// Makes the tasks of the definitions and what they share.
fn populate(
    plan: &mut Plan,
    names: &mut Names,
    definitions: &[Definition],
) -> Result<(), OptionError> {
    let writes = definitions.iter().any(Definition::writes_device);
    let device = writes.then(|| plan.channel(Transport::Device, 1));
    if writes && plan.device.is_none() {
        plan.device = Some(PathBuf::from("/dev/null"));
    }
    let device = device.unwrap_or(ChannelId(0));
    for definition in definitions {
        for instance in 0..definition.instances {
            let comm = match definition.instances {
                1 => definition.name.clone(),
                _ => format!("{}-{instance}", definition.name),
            };
            definition.start(comm, plan, names, device);
        }
    }
    // Files of rt-app's own do so (browser-long.json).
    for (place, name) in &names.resumed {
        if !definitions.iter().any(|definition| definition.name == *name) {
            plan.notes
                .push(format!("{place} wakes nobody: resume names no task of the file: '{name}'"));
        }
    }
    let mut forks: Vec<(String, u32)> = names.forks.clone().into_iter().collect();
    forks.sort_by_key(|(_, id)| *id);
    for (name, _) in forks {
        let Some(definition) = definitions.iter().find(|definition| definition.name == name) else {
            return Err(wrong("tasks", format!("fork names no task of the file: '{name}'")));
        };
        if !definition.barriers.is_empty() {
            let place = format!("tasks.{name}");
            return Err(wrong(&place, "a forked task cannot wait at a barrier"));
        }
        let first = plan.tasks.len();
        for copy in 0..ALIVE {
            definition.start(format!("{name}-f{copy}"), plan, names, device);
        }
        plan.forks.push(Fork { tasks: (first..plan.tasks.len()).collect() });
    }
    if plan.tasks.len() == plan.forks.iter().map(|fork| fork.tasks.len()).sum::<usize>() {
        return Err(wrong(
            "tasks",
            "no task starts by itself: give one task an instance of 1 or more",
        ));
    }
    let few = |names: &BTreeMap<String, u32>| u32::try_from(names.len()).expect("few");
    plan.locks = few(&names.locks);
    plan.semaphores = few(&names.semaphores);
    plan.words = names.words;
    let capacity = u32::try_from(plan.tasks.len()).expect("few");
    plan.queues = names.rows.iter().map(|_| Queue::Fifo { capacity }).collect();
    // A barrier waits for every task that names it.
    let parties = |id: u32| {
        let of = definitions.iter().filter(|one| one.barriers.contains(&id));
        of.map(|one| one.instances).sum()
    };
    plan.barriers = (0..few(&names.barriers)).map(parties).collect();
    pages(plan);
    Ok(())
}

/// Pages are locked for real-time tasks; other policies cannot have it.
fn pages(plan: &mut Plan) {
    let places = plan.tasks.iter().map(|task| &task.placement).chain(&plan.places);
    let real_time = |policy: Policy| {
        matches!(policy, Policy::Fifo(_) | Policy::RoundRobin(_) | Policy::Deadline { .. })
    };
    if plan.lock_pages && !places.filter_map(|place| place.policy).any(real_time) {
        plan.lock_pages = false;
        plan.notes.push(
            "lock_pages has no effect: it concerns real-time tasks, and the file has none"
                .to_owned(),
        );
    }
}

/// The keys of the section `global`.
const GLOBAL: [&str; 13] = [
    "duration",
    "calibration",
    "default_policy",
    "pi_enabled",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
];

fn global(node: &Node, plan: &mut Plan, names: &mut Names) -> Result<Option<Policy>, OptionError> {
    let mut policy = None;
    let mut unused: BTreeSet<&str> = BTreeSet::new();
    for (key, value) in
        node.object().ok_or_else(|| wrong("global", "invalid value: use an object"))?
    {
        let place = format!("global.{key}");
        let truth = || value.truth().ok_or_else(|| wrong(&place, "it is true or false"));
        match key.as_str() {
            "duration" => {
                let seconds = value
                    .number()
                    .ok_or_else(|| wrong(&place, "invalid value: use a number of seconds"))?;
                if seconds > 0 {
                    plan.timing.duration = Some(Nanos::from_secs(seconds.unsigned_abs()));
                }
            }
            "default_policy" => policy = Some(place::policy(&place, value, None, &[])?),
            "mem_buffer_size" => {
                let bytes = value.number().and_then(|n| u32::try_from(n).ok());
                names.buffer_bytes = bytes
                    .filter(|bytes| (1..=1 << 30).contains(bytes))
                    .ok_or_else(|| wrong(&place, "it is 1 to 2^30 bytes"))?;
            }
            "io_device" => {
                let path = value.text().filter(|path| !path.is_empty());
                let path = path.ok_or_else(|| wrong(&place, "it is a path"))?;
                plan.device = Some(PathBuf::from(path));
            }
            "calibration" => plan.notes.push(
                "calibration is left to schedlab: a run of n is n us at full speed".to_owned(),
            ),
            "logdir" | "log_basename" | "log_size" | "ftrace" | "gnuplot" | "cumulative_slack"
            | "frag" => {
                unused.insert(key);
            }
            "pi_enabled" => plan.locks_inherit = truth()?,
            "lock_pages" => plan.lock_pages = truth()?,
            other => {
                let why = format!("unknown key '{other}': use {}", GLOBAL.join(", "));
                return Err(wrong("global", why));
            }
        }
    }
    if !unused.is_empty() {
        let keys: Vec<&str> = unused.into_iter().collect();
        let what = "ignored: the run reports metrics, and --trace adds marks of phases";
        plan.notes.push(format!("{}: {what}", keys.join(", ")));
    }
    Ok(policy)
}

#[cfg(test)]
mod tests;
