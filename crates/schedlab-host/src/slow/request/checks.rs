//! What makes a request senseless or impossible on a machine, in sentences, before anything is changed.

use super::Request;
use crate::slow::{
    Change, Method, Node, SlowError, Speed, Speeds, Support, bandwidth, hogs, quota,
};
use schedlab_model::{CpuSet, Pid};
use schedlab_sys::capability;
use schedlab_sys::cgroup::Version;
use schedlab_workload::Happening;

pub(super) fn usage(text: impl Into<String>) -> SlowError {
    SlowError::Usage(text.into())
}

pub(super) fn check_nodes(nodes: &[Node], support: &Support) -> Result<(), SlowError> {
    if nodes.iter().all(|node| node.speeds.is_empty()) {
        return Err(usage("missing CPU: name CPUs and their speed, as in --cpu 0=30%"));
    }
    let mut taken = CpuSet::new();
    for (index, node) in nodes.iter().enumerate() {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if node.name.is_empty() || node.name.len() > 64 || !node.name.chars().all(letters) {
            return Err(usage(format!(
                "invalid name of a node '{}': use letters, digits, '-' and '_'",
                node.name
            )));
        }
        if nodes[..index].iter().any(|other| other.name == node.name) {
            return Err(usage(format!("two nodes have the name {}: rename one", node.name)));
        }
        if node.speeds.is_empty() {
            return Err(usage(format!("node {} has no CPUs", node.name)));
        }
        check_cpus(&node.cpus(), &format!("node {}", node.name), support)?;
        for cpu in node.cpus().iter() {
            if taken.contains(cpu) {
                return Err(usage(format!(
                    "CPU {cpu} is in two nodes, the second is {}: remove it from one",
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
            return Err(usage(format!("process {pid} does not exist")));
        }
        check_attached(node)?;
    }
    Ok(())
}

/// Refuses to take in this program: it would slow and freeze itself, its guardian included.
fn check_attached(node: &Node) -> Result<(), SlowError> {
    if let Some(pid) = node.attach.iter().find(|pid| schedlab_sys::process::is_above_us(**pid)) {
        return Err(usage(format!(
            "schedlab is a child of process {pid} and would freeze itself: start it elsewhere, \
             or name a process further down"
        )));
    }
    let us = Pid(std::process::id().cast_signed());
    for dir in &node.attach_groups {
        let all = crate::slow::group::processes(dir);
        if all.contains(&us) {
            return Err(usage(format!(
                "schedlab is in {} and would freeze itself: start it from another group",
                dir.display()
            )));
        }
        if all.is_empty() {
            return Err(usage(format!("{} holds no process", dir.display())));
        }
    }
    Ok(())
}

pub(super) fn check_networks(request: &Request, support: &Support) -> Result<(), SlowError> {
    for node in request.nodes.iter().filter(|node| node.net.is_some()) {
        let name = &node.name;
        if !node.attach.is_empty() || !node.attach_groups.is_empty() || node.admits {
            return Err(usage(format!(
                "node {name}: a running process cannot move into a network: leave out its net"
            )));
        }
        if request.keep {
            return Err(usage(format!(
                "node {name}: its network ends with schedlab, but its commands would go on: \
                 leave out --keep"
            )));
        }
        if !support.root {
            return Err(SlowError::Missing(format!(
                "node {name} has a network, which needs root: run as root, or leave out its net \
                 to emulate only CPUs"
            )));
        }
        if let Some(link) = node.net.as_ref().filter(|_| support.links) {
            crate::net::try_link(link)
                .map_err(|why| SlowError::Missing(format!("the network of node {name}: {why}")))?;
        }
    }
    let of_events = request.cluster.events.iter().filter_map(|event| match &event.what {
        Happening::Link(pair, link) => Some((pair, link)),
        _ => None,
    });
    for (pair, link) in request.cluster.links.iter().chain(of_events).filter(|_| support.links) {
        crate::net::try_link(link)
            .map_err(|why| SlowError::Missing(format!("the link of {pair}: {why}")))?;
    }
    Ok(())
}

pub(super) fn check_memory(nodes: &[Node], support: &Support) -> Result<(), SlowError> {
    let Some(node) = nodes.iter().find(|node| node.memory.is_some()) else { return Ok(()) };
    let why = match support.root {
        false => Err("limiting it needs root".to_owned()),
        true => bandwidth::steps(&support.resctrl).map(drop),
    };
    why.map_err(|why| {
        SlowError::Missing(format!("the memory bandwidth of node {}: {why}", node.name))
    })
}

pub(super) fn check_cpus(cpus: &CpuSet, whose: &str, support: &Support) -> Result<(), SlowError> {
    for cpu in cpus.iter() {
        if !support.present.contains(cpu) {
            return Err(usage(format!("{whose}: unknown CPU {cpu}: use {}", support.present)));
        }
        if !support.online.contains(cpu) {
            return Err(usage(format!("{whose}: CPU {cpu} is offline: use {}", support.online)));
        }
        if !support.root && !support.allowed.contains(cpu) {
            let why = format!(
                "{whose}: CPU {cpu} is not allowed for this process: use {}",
                support.allowed
            );
            return Err(SlowError::Missing(why));
        }
    }
    Ok(())
}

pub(super) fn check_method(
    method: Method,
    request: &Request,
    speeds: &Speeds,
    support: &Support,
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
                    "hogs cannot make {slowest}: below {}% real-time throttling and the fair \
                     server interfere; use --method weight (exact there), or a higher speed",
                    hogs::SLOWEST_PERCENT
                )));
            }
            support
                .realtime_obstacle(slowest.fraction())
                .map_or(Ok(()), |why| Err(SlowError::Missing(why)))
        }
        Method::Stop | Method::StopGroup => Ok(()),
        Method::Weight | Method::WeightPerCpu | Method::WeightPinned | Method::Quota => {
            if !support.root {
                return Err(SlowError::Missing(format!(
                    "{method} makes control groups: run as root"
                )));
            }
            if support.cpu_group.is_none() {
                return Err(SlowError::Missing(format!(
                    "{method} needs the CPU controller of control groups, which is not mounted"
                )));
            }
            Ok(())
        }
        Method::Freq | Method::Gov => check_clocks(method, speeds, support),
        Method::Deadline => check_deadline(slowest, speeds, support),
        Method::Uclamp => {
            let group =
                || support.cpu_group.is_none().then(|| "it needs a control group".to_owned());
            let root =
                || (!support.root).then(|| "it makes control groups: run as root".to_owned());
            let obstacle = support.clamp_obstacle.clone().or_else(root).or_else(group);
            obstacle.map_or(Ok(()), |why| Err(SlowError::Missing(format!("{method}: {why}"))))
        }
    }
}

fn check_deadline(slowest: Speed, speeds: &Speeds, support: &Support) -> Result<(), SlowError> {
    let missing = |why: String| Err(SlowError::Missing(format!("deadline: {why}")));
    if slowest < Speed::percent(hogs::SLOWEST_PERCENT).expect("below a hundred") {
        return Err(usage(format!(
            "deadline cannot make {slowest}: the kernel refuses a burner above {}% \
             (kernel.sched_rt_runtime_us less the fair server's share); use --method weight-pinned",
            100 - hogs::SLOWEST_PERCENT
        )));
    }
    if let Some(why) = &support.deadline_obstacle {
        return missing(why.clone());
    }
    if !support.root {
        return missing("its burners and their cpusets need root: use --method stop".into());
    }
    if !support.realtime {
        return missing(format!(
            "its burners need CAP_SYS_NICE: {}",
            capability::remedy("SYS_NICE")
        ));
    }
    match &support.cpuset_group {
        None => missing(
            "a deadline burner needs a separate root domain, so the cpuset controller, which is \
             not mounted: use --method hogs"
                .into(),
        ),
        Some(group)
            if group.version == Version::V2
                && support.online.len() > 1
                && support.online.iter().all(|cpu| speeds.contains_key(&cpu)) =>
        {
            missing(
                "its CPUs become partitions, and one CPU must stay outside for other tasks: use \
                 --method hogs"
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
            "{method} slows processes, not CPUs: give a command (after --), or use --method hogs"
        )));
    }
    if method.is_for_one_cpu() && node.speeds.len() > 1 {
        let why = match method {
            Method::Quota => "with a budget for several CPUs one thread would run at full speed",
            Method::Deadline => {
                "its burner needs a CPU that the kernel does not balance: make a node for each CPU"
            }
            _ => "it cannot place tasks one by one",
        };
        return Err(usage(format!(
            "{method} needs nodes of one CPU, but {name} has {}: {why}",
            node.speeds.len()
        )));
    }
    let mut distinct = node.speeds.values();
    let first = distinct.next();
    let alike = distinct.all(|speed| Some(speed) == first);
    if method.is_for_command() && method != Method::WeightPerCpu && !alike {
        return Err(usage(format!(
            "{method} gives all CPUs of a node one speed: use --method hogs, or a node for each CPU"
        )));
    }
    if method == Method::Quota {
        for speed in node.speeds.values() {
            quota::check(*speed, request.quota_period(), request.quota_burst).map_err(usage)?;
        }
    }
    Ok(())
}

fn check_clocks(method: Method, speeds: &Speeds, support: &Support) -> Result<(), SlowError> {
    if support.domains.is_empty() {
        return Err(SlowError::Missing(format!(
            "{method} needs a cpufreq driver, which this machine lacks (as most virtual machines \
             do): use --method hogs"
        )));
    }
    if !support.root {
        return Err(SlowError::Missing(format!("{method} sets clocks: run as root")));
    }
    for (cpu, speed) in speeds {
        let Some(domain) = support.domains.iter().find(|domain| domain.cpus.contains(*cpu)) else {
            return Err(SlowError::Missing(format!("cannot set the clock of CPU {cpu}")));
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
                "the lowest clock of CPU {cpu} is {:.0}% of full speed: for {speed} use gov, \
                 which also freezes, or hogs",
                lowest as f64 / domain.full as f64 * 100.0
            )));
        }
    }
    Ok(())
}
