//! What makes a request senseless or impossible on a machine, in sentences, before anything is changed.

use super::Request;
use crate::slow::{Change, Ground, Method, Node, SlowError, Speed, Speeds, bandwidth, hogs, quota};
use schedlab_model::{CpuSet, Pid};
use schedlab_sys::cgroup::Version;
use schedlab_workload::Happening;

pub(super) fn usage(text: impl Into<String>) -> SlowError {
    SlowError::Usage(text.into())
}

pub(super) fn check_nodes(nodes: &[Node], ground: &Ground) -> Result<(), SlowError> {
    if nodes.iter().all(|node| node.speeds.is_empty()) {
        return Err(usage("no CPU is named: say which and how fast, as in --cpu 0=30%"));
    }
    let mut taken = CpuSet::new();
    for (index, node) in nodes.iter().enumerate() {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if node.name.is_empty() || node.name.len() > 64 || !node.name.chars().all(letters) {
            return Err(usage(format!(
                "'{}' is no name of a node: letters, digits, - and _",
                node.name
            )));
        }
        if nodes[..index].iter().any(|other| other.name == node.name) {
            return Err(usage(format!("two nodes are called {}", node.name)));
        }
        if node.speeds.is_empty() {
            return Err(usage(format!("node {} has no CPUs", node.name)));
        }
        check_cpus(&node.cpus(), &format!("node {}", node.name), ground)?;
        for cpu in node.cpus().iter() {
            if taken.contains(cpu) {
                return Err(usage(format!(
                    "CPU {cpu} is in two nodes, {} being the second",
                    node.name
                )));
            }
            taken.insert(cpu);
        }
        if let Some(empty) = node.commands.iter().position(Vec::is_empty) {
            return Err(usage(format!("command {} of node {} is empty", empty + 1, node.name)));
        }
        if let Some(pid) =
            node.attach.iter().find(|pid| schedlab_sys::process::start_ticks(**pid).is_none())
        {
            return Err(usage(format!("there is no process {pid}")));
        }
        check_attached(node)?;
    }
    Ok(())
}

/// Refuses to take in this program: it would slow and freeze itself, its guardian included.
fn check_attached(node: &Node) -> Result<(), SlowError> {
    if let Some(pid) = node.attach.iter().find(|pid| schedlab_sys::process::is_above_us(**pid)) {
        return Err(usage(format!(
            "schedlab itself descends from process {pid}: it would slow and freeze itself; \
             start it from elsewhere, or name a process further down"
        )));
    }
    let us = Pid(std::process::id().cast_signed());
    for dir in &node.attach_groups {
        let all = crate::slow::group::processes(dir);
        if all.contains(&us) {
            return Err(usage(format!(
                "schedlab itself is in {}: it would slow and freeze itself; start it from another group",
                dir.display()
            )));
        }
        if all.is_empty() {
            return Err(usage(format!("there is no process in {}", dir.display())));
        }
    }
    Ok(())
}

pub(super) fn check_networks(request: &Request, ground: &Ground) -> Result<(), SlowError> {
    for node in request.nodes.iter().filter(|node| node.net.is_some()) {
        let name = &node.name;
        if !node.attach.is_empty() || !node.attach_groups.is_empty() || node.admits {
            return Err(usage(format!(
                "node {name}: a process that runs can't be moved into a network; leave out its net"
            )));
        }
        if request.keep {
            return Err(usage(format!(
                "node {name}: its network goes with schedlab, and its commands would be kept; leave out --keep"
            )));
        }
        if !ground.root {
            return Err(SlowError::Missing(format!(
                "node {name} has a network: making a network namespace needs root; \
                 without its net CPUs are emulated and no network"
            )));
        }
        if let Some(link) = node.net.as_ref().filter(|_| ground.links) {
            crate::net::try_link(link)
                .map_err(|why| SlowError::Missing(format!("the network of node {name}: {why}")))?;
        }
    }
    let of_events = request.cluster.events.iter().filter_map(|event| match &event.what {
        Happening::Link(pair, link) => Some((pair, link)),
        _ => None,
    });
    for (pair, link) in request.cluster.links.iter().chain(of_events).filter(|_| ground.links) {
        crate::net::try_link(link)
            .map_err(|why| SlowError::Missing(format!("the link of {pair}: {why}")))?;
    }
    Ok(())
}

/// Memory bandwidth needs root and hardware that can limit it.
pub(super) fn check_memory(nodes: &[Node], ground: &Ground) -> Result<(), SlowError> {
    let Some(node) = nodes.iter().find(|node| node.memory.is_some()) else { return Ok(()) };
    let why = match ground.root {
        false => Err("limiting it needs root".to_owned()),
        true => bandwidth::steps(&ground.resctrl).map(drop),
    };
    why.map_err(|why| {
        SlowError::Missing(format!("the memory bandwidth of node {}: {why}", node.name))
    })
}

pub(super) fn check_cpus(cpus: &CpuSet, whose: &str, ground: &Ground) -> Result<(), SlowError> {
    for cpu in cpus.iter() {
        if !ground.present.contains(cpu) {
            return Err(usage(format!(
                "{whose}: there is no CPU {cpu}; there are {}",
                ground.present
            )));
        }
        if !ground.online.contains(cpu) {
            return Err(usage(format!(
                "{whose}: CPU {cpu} is offline; online are {}",
                ground.online
            )));
        }
        if !ground.root && !ground.allowed.contains(cpu) {
            let why =
                format!("{whose}: CPU {cpu} is not among those allowed to us, {}", ground.allowed);
            return Err(SlowError::Missing(why));
        }
    }
    Ok(())
}

pub(super) fn check_method(
    method: Method,
    request: &Request,
    speeds: &Speeds,
    ground: &Ground,
) -> Result<(), SlowError> {
    let slowest = speeds.values().min().copied().unwrap_or(Speed::FULL);
    let scripted =
        request.nodes.iter().flat_map(|node| &node.script).filter_map(|step| match step.change {
            Change::Speed(speed) => Some(speed),
            _ => None,
        });
    let happens = request.cluster.events.iter().filter_map(|event| match &event.what {
        Happening::Node(_, Change::Speed(speed)) => Some(*speed),
        _ => None,
    });
    let slowest = scripted.chain(happens).chain([slowest]).min().expect("one at least");
    for node in &request.nodes {
        check_node(method, node, request)?;
    }
    match method {
        Method::Hogs => {
            if slowest < Speed::percent(hogs::SLOWEST_PERCENT).expect("below a hundred") {
                return Err(usage(format!(
                    "hogs can't make {slowest}: below {}% real-time throttling and the fair server take over; \
                     take --method weight (exact there), or a higher speed",
                    hogs::SLOWEST_PERCENT
                )));
            }
            ground
                .realtime_obstacle(slowest.fraction())
                .map_or(Ok(()), |why| Err(SlowError::Missing(why)))
        }
        Method::Stop | Method::StopGroup => Ok(()),
        Method::Weight | Method::WeightPerCpu | Method::WeightPinned | Method::Quota => {
            if !ground.root {
                return Err(SlowError::Missing(format!(
                    "{method} makes control groups: run as root"
                )));
            }
            if ground.cpu_group.is_none() {
                return Err(SlowError::Missing(format!(
                    "{method} needs the CPU controller of control groups, and none is mounted"
                )));
            }
            Ok(())
        }
        Method::Freq | Method::Gov => check_clocks(method, speeds, ground),
        Method::Deadline => check_deadline(slowest, speeds, ground),
        Method::Uclamp => {
            let group =
                || ground.cpu_group.is_none().then(|| "it needs a control group".to_owned());
            let root = || (!ground.root).then(|| "it makes control groups: run as root".to_owned());
            let obstacle = ground.clamp_obstacle.clone().or_else(root).or_else(group);
            obstacle.map_or(Ok(()), |why| Err(SlowError::Missing(format!("{method}: {why}"))))
        }
    }
}

fn check_deadline(slowest: Speed, speeds: &Speeds, ground: &Ground) -> Result<(), SlowError> {
    let missing = |why: String| Err(SlowError::Missing(format!("deadline: {why}")));
    if slowest < Speed::percent(hogs::SLOWEST_PERCENT).expect("below a hundred") {
        return Err(usage(format!(
            "deadline can't make {slowest}: the kernel admits no burner above {}% (kernel.sched_rt_runtime_us less \
             the fair server's part); take --method weight-pinned",
            100 - hogs::SLOWEST_PERCENT
        )));
    }
    if let Some(why) = &ground.deadline_obstacle {
        return missing(why.clone());
    }
    if !ground.root || !ground.realtime {
        return missing("its burners and their cpusets need root; take --method stop".into());
    }
    match &ground.cpuset_group {
        None => missing(
            "a burner can be bound only to a CPU that is a root domain of its own, which takes the cpuset \
             controller of control groups, and none is mounted; take --method hogs"
                .into(),
        ),
        Some(group)
            if group.version == Version::V2
                && ground.online.len() > 1
                && ground.online.iter().all(|cpu| speeds.contains_key(&cpu)) =>
        {
            missing(
                "its CPUs become partitions, and one CPU must stay outside for everybody else; take --method hogs"
                    .into(),
            )
        }
        Some(_) => Ok(()),
    }
}

fn check_node(method: Method, node: &Node, request: &Request) -> Result<(), SlowError> {
    let name = &node.name;
    let empty = !node.has_tasks() && !node.admits;
    if method.is_for_command() && empty {
        return Err(usage(format!(
            "{method} slows processes and not CPUs: give a command (after --), or take --method hogs"
        )));
    }
    if method.is_for_one_cpu() && node.speeds.len() > 1 {
        let why = match method {
            Method::Quota => {
                "a budget for several CPUs is no speed: one thread would run at full speed"
            }
            Method::Deadline => {
                "its burner needs a CPU that is cut off from balancing; make a node for each CPU"
            }
            _ => "tasks would have to be placed one by one",
        };
        return Err(usage(format!(
            "{method} is for nodes of one CPU, and {name} has {}: {why}",
            node.speeds.len()
        )));
    }
    let mut distinct = node.speeds.values();
    let first = distinct.next();
    let alike = distinct.all(|speed| Some(speed) == first);
    if method.is_for_command() && method != Method::WeightPerCpu && !alike {
        return Err(usage(format!(
            "{method} gives all CPUs of a node one speed: take --method hogs, or a node for each"
        )));
    }
    if method == Method::Quota {
        for speed in node.speeds.values() {
            quota::check(*speed, request.quota_period(), request.quota_burst).map_err(usage)?;
        }
    }
    Ok(())
}

fn check_clocks(method: Method, speeds: &Speeds, ground: &Ground) -> Result<(), SlowError> {
    if ground.domains.is_empty() {
        return Err(SlowError::Missing(format!(
            "{method} needs a cpufreq driver, and there is none here (a virtual machine has none as a rule); \
             take --method hogs"
        )));
    }
    if !ground.root {
        return Err(SlowError::Missing(format!("{method} sets clocks: run as root")));
    }
    for (cpu, speed) in speeds {
        let Some(domain) = ground.domains.iter().find(|domain| domain.cpus.contains(*cpu)) else {
            return Err(SlowError::Missing(format!("the clock of CPU {cpu} can't be set")));
        };
        if let Some(other) = domain.cpus.iter().find(|other| speeds.get(other) != Some(speed)) {
            return Err(usage(format!(
                "CPUs {} share one clock: CPU {other} must have the speed of CPU {cpu}",
                domain.cpus
            )));
        }
        let lowest = domain.levels.first().copied().unwrap_or(domain.lowest);
        if method == Method::Freq && domain.full - speed.lost(domain.full) < lowest * 9 / 10 {
            return Err(usage(format!(
                "the lowest clock of CPU {cpu} is {:.0}% of full speed: {speed} can be had by gov, which also \
                 freezes, or by hogs",
                lowest as f64 / domain.full as f64 * 100.0
            )));
        }
    }
    Ok(())
}
