//! Where and how a task or one of its phases runs: CPUs, policy, budget, clamps, memory, group.

use super::json::Node;
use super::wrong;
use crate::options::OptionError;
use crate::plan::{Placement, Policy};
use schedlab_model::{CpuSet, Nanos};

pub(super) const KEYS: [&str; 10] = [
    "cpus",
    "policy",
    "priority",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "nodes_membind",
    "util_min",
    "util_max",
    "taskgroup",
];

type Keys<'k> = &'k [(String, Node)];

fn get<'n>(keys: Keys<'n>, wanted: &str) -> Option<&'n Node> {
    keys.iter().find(|(key, _)| key == wanted).map(|(_, node)| node)
}

/// What an object asks for beyond what `above` it does: a phase's policy goes on from that of its task.
/// What it says nothing of is absent.
pub(super) fn read(
    place: &str,
    keys: Keys<'_>,
    above: Option<Policy>,
    allowed: &CpuSet,
) -> Result<Placement, OptionError> {
    let mut placement = Placement::default();
    let priority = get(keys, "priority").map(|node| {
        node.number().ok_or_else(|| wrong(place, "invalid priority: use a whole number"))
    });
    let priority = priority.transpose()?;
    let scheduling = ["policy", "priority", "dl-runtime", "dl-period", "dl-deadline"];
    if keys.iter().any(|(key, _)| scheduling.contains(&key.as_str())) {
        placement.policy = match get(keys, "policy") {
            Some(node) => Some(policy(place, node, priority, keys)?),
            None => again(place, above, priority, keys)?,
        };
    }
    if matches!(placement.policy, None | Some(Policy::Normal | Policy::Batch)) {
        // Since Linux 6.12 it asks for a slice where there is no budget to give.
        if let Some(node) = get(keys, "dl-runtime") {
            let slice = node.number().filter(|us| (100..=100_000).contains(us));
            let slice =
                slice.ok_or_else(|| wrong(place, "invalid dl-runtime: use 100 to 100000 (us)"))?;
            placement.slice = Some(Nanos::from_micros(slice.unsigned_abs()));
        }
        let nice = |nice: i64| i32::try_from(nice).ok().filter(|n| (-20..=19).contains(n));
        placement.nice = match priority.map(nice) {
            Some(None) => return Err(wrong(place, "the priority of this policy is -20 to 19")),
            nice => nice.flatten(),
        };
    }
    placement.cpus = get(keys, "cpus").map(|node| cpus(place, node, allowed)).transpose()?;
    placement.memory = get(keys, "nodes_membind").map(|node| nodes(place, node)).transpose()?;
    placement.clamp = clamp(place, keys)?;
    placement.cgroup = group(place, keys)?;
    Ok(placement)
}

/// The same policy with another number.
fn again(
    place: &str,
    above: Option<Policy>,
    priority: Option<i64>,
    keys: Keys<'_>,
) -> Result<Option<Policy>, OptionError> {
    Ok(match above {
        Some(Policy::Fifo(_)) => Some(Policy::Fifo(level(place, priority)?)),
        Some(Policy::RoundRobin(_)) => Some(Policy::RoundRobin(level(place, priority)?)),
        Some(Policy::Deadline { .. }) => Some(deadline(place, keys)?),
        same => same,
    })
}

fn level(place: &str, priority: Option<i64>) -> Result<u32, OptionError> {
    match u32::try_from(priority.unwrap_or(10)) {
        Ok(level @ 1..=99) => Ok(level),
        _ => Err(wrong(place, "the priority of this policy is 1 to 99")),
    }
}

pub(super) fn policy(
    place: &str,
    node: &Node,
    priority: Option<i64>,
    keys: Keys<'_>,
) -> Result<Policy, OptionError> {
    const THERE: &str =
        "use SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR or SCHED_DEADLINE";
    match node.text() {
        Some("SCHED_OTHER") => Ok(Policy::Normal),
        Some("SCHED_BATCH") => Ok(Policy::Batch),
        Some("SCHED_IDLE") => Ok(Policy::Idle),
        Some("SCHED_FIFO") => Ok(Policy::Fifo(level(place, priority)?)),
        Some("SCHED_RR") => Ok(Policy::RoundRobin(level(place, priority)?)),
        Some("SCHED_DEADLINE") => deadline(place, keys),
        Some(other) => Err(wrong(place, format!("unknown policy '{other}': {THERE}"))),
        None => Err(wrong(place, format!("invalid policy: {THERE}"))),
    }
}

/// The budget of a deadline task from its keys; the period is the runtime and the deadline the period
/// where they are not given.
fn deadline(place: &str, keys: Keys<'_>) -> Result<Policy, OptionError> {
    let time = |names: [&str; 2]| {
        let found = keys.iter().find(|(key, _)| names.contains(&key.as_str()));
        match found.map(|(key, node)| (key, node.number())) {
            None => Ok(None),
            Some((_, Some(n @ 1..))) => Ok(Some(Nanos::from_micros(n.unsigned_abs()))),
            Some((key, _)) => {
                Err(wrong(place, format!("invalid {key}: use a number of microseconds")))
            }
        }
    };
    let runtime = time(["dl-runtime", "dl-runtime"])?
        .ok_or_else(|| wrong(place, "SCHED_DEADLINE needs dl-runtime (microseconds)"))?;
    let period = time(["dl-period", "period"])?.unwrap_or(runtime);
    let deadline = time(["dl-deadline", "deadline"])?.unwrap_or(period);
    if runtime <= deadline && deadline <= period {
        Ok(Policy::Deadline { runtime, deadline, period })
    } else {
        Err(wrong(place, "invalid deadline: use dl-runtime <= dl-deadline <= dl-period"))
    }
}

fn cpus(place: &str, node: &Node, allowed: &CpuSet) -> Result<CpuSet, OptionError> {
    let told = || wrong(place, "invalid cpus: use a list of CPUs, as in [0, 2]");
    let one = |node: &Node| node.number().and_then(|n| u16::try_from(n).ok());
    let set: Option<CpuSet> =
        node.list().ok_or_else(told)?.iter().map(|n| one(n).map(schedlab_model::Cpu)).collect();
    let set = set.filter(|set| !set.is_empty()).ok_or_else(told)?;
    match set.intersection(allowed).is_empty() {
        false => Ok(set),
        true => Err(wrong(place, format!("the cpus {set} are not available: use {allowed}"))),
    }
}

fn nodes(place: &str, node: &Node) -> Result<Vec<u32>, OptionError> {
    let told = || wrong(place, "invalid nodes_membind: use a list of NUMA nodes, as in [0, 1]");
    let one = |node: &Node| node.number().and_then(|n| u32::try_from(n).ok()).filter(|n| *n < 1024);
    let nodes: Option<Vec<u32>> = node.list().ok_or_else(told)?.iter().map(one).collect();
    nodes.filter(|nodes| !nodes.is_empty()).ok_or_else(told)
}

/// One bound alone leaves the other as wide as it can be.
fn clamp(place: &str, keys: Keys<'_>) -> Result<Option<(u32, u32)>, OptionError> {
    let bound = |key: &str| {
        let read =
            |node: &Node| node.number().and_then(|n| u32::try_from(n).ok()).filter(|n| *n <= 1024);
        get(keys, key)
            .map(|node| {
                read(node).ok_or_else(|| wrong(place, format!("invalid {key}: use 0 to 1024")))
            })
            .transpose()
    };
    match (bound("util_min")?, bound("util_max")?) {
        (None, None) => Ok(None),
        (min, max) => {
            let both = (min.unwrap_or(0), max.unwrap_or(1024));
            if both.0 <= both.1 {
                Ok(Some(both))
            } else {
                Err(wrong(place, "invalid clamps: use util_min <= util_max"))
            }
        }
    }
}

/// A group below the mount point; an empty name is none.
fn group(place: &str, keys: Keys<'_>) -> Result<Option<String>, OptionError> {
    let Some(node) = get(keys, "taskgroup") else { return Ok(None) };
    let name =
        node.text().ok_or_else(|| wrong(place, "invalid taskgroup: use a path, as in \"/a/b\""))?;
    if name.split('/').any(|part| part == "..") {
        return Err(wrong(place, format!("taskgroup '{name}' leads out of the hierarchy")));
    }
    Ok((!name.is_empty()).then(|| name.to_owned()))
}
