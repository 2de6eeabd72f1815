//! What is asked for, and whether it can be had: decided as a whole before anything is changed.

use super::{
    Change, Grid, Ground, Method, Node, Noise, SlowError, Speed, Speeds, choose, hogs, quota,
};
use schedlab_model::{CpuSet, Nanos, Warning};
use schedlab_sys::cgroup::Version;
use schedlab_workload::nodes::NodesFile;

/// All that is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// How; `None` chooses.
    pub method: Option<Method>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Period of the hogs' grid.
    pub period: Nanos,
    /// Period of budgets.
    pub quota_period: Nanos,
    /// What of a budget may be saved up beyond a period.
    pub quota_burst: Nanos,
    /// Background noise.
    pub noise: Vec<Noise>,
    /// Commands live on when the session ends.
    pub keep: bool,
    /// Measure each CPU after applying.
    pub measure: bool,
    /// Measure how late tasks wake on each CPU, before applying and after.
    pub wakeups: bool,
    /// The session ends after this time.
    pub time_limit: Option<Nanos>,
    /// Tasks of nodes have a weight beside which other load takes next to nothing: for measuring.
    pub heavy: bool,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            method: None,
            nodes: Vec::new(),
            period: Grid::PERIOD,
            quota_period: quota::PERIOD,
            quota_burst: Nanos::ZERO,
            noise: Vec::new(),
            keep: false,
            measure: true,
            wakeups: false,
            time_limit: None,
            heavy: false,
        }
    }
}

/// What a file of nodes asks for. Tasks of nodes are bound to their CPUs.
///
/// # Errors
/// [`SlowError::Usage`] for a method that there is none of.
impl TryFrom<NodesFile> for Request {
    type Error = SlowError;
    fn try_from(file: NodesFile) -> Result<Self, SlowError> {
        let base = Self::default();
        let method = file.method.map(|name| name.parse::<Method>().map_err(usage)).transpose()?;
        Ok(Self {
            method,
            nodes: file.nodes,
            period: file.period.unwrap_or(base.period),
            noise: file.noise,
            time_limit: file.time_limit,
            ..base
        })
    }
}

/// A request that can be had on this machine.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) request: Request,
    pub(super) grid: Grid,
    /// The method.
    pub method: Method,
    /// Why this method; empty when it was asked for.
    pub why: String,
    /// What is known to be wrong about it, and what to mind.
    pub warnings: Vec<Warning>,
}

impl Request {
    /// Checks the whole request, and chooses the method where none was asked for.
    ///
    /// # Errors
    /// [`SlowError::Usage`] for what makes no sense, [`SlowError::Missing`] for what this machine or
    /// our rights do not allow. Nothing is changed.
    pub fn plan(self, ground: &Ground) -> Result<Plan, SlowError> {
        let grid = Grid::new(self.period).ok_or_else(|| {
            usage(format!(
                "a period of {} can't be had: {} to {}",
                self.period,
                Grid::PERIOD_MIN,
                Grid::PERIOD_MAX
            ))
        })?;
        check_nodes(&self.nodes, ground)?;
        check_networks(&self, ground)?;
        for noise in &self.noise {
            noise.check().map_err(usage)?;
            check_cpus(&noise.cpus, "noise", ground)?;
        }
        let speeds: Speeds = self.nodes.iter().flat_map(|node| node.speeds.clone()).collect();
        let tasks =
            self.nodes.iter().any(|node| !node.commands.is_empty() || !node.attach.is_empty());
        let (method, why) = match self.method {
            Some(method) => (method, String::new()),
            None => choose(&speeds, tasks, ground),
        };
        check_method(method, &self, &speeds, ground)?;
        let warnings = doubts(method, &self.nodes, &speeds, ground);
        Ok(Plan { request: self, grid, method, why, warnings })
    }
}

fn usage(text: impl Into<String>) -> SlowError {
    SlowError::Usage(text.into())
}

fn check_nodes(nodes: &[Node], ground: &Ground) -> Result<(), SlowError> {
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
    }
    Ok(())
}

fn check_networks(request: &Request, ground: &Ground) -> Result<(), SlowError> {
    for node in request.nodes.iter().filter(|node| node.net.is_some()) {
        let name = &node.name;
        if !node.attach.is_empty() || node.admits {
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
    Ok(())
}

fn check_cpus(cpus: &CpuSet, whose: &str, ground: &Ground) -> Result<(), SlowError> {
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

fn check_method(
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
    let slowest = scripted.chain([slowest]).min().expect("one at least");
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
    let empty = node.commands.is_empty() && node.attach.is_empty() && !node.admits;
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
            quota::check(*speed, request.quota_period, request.quota_burst).map_err(usage)?;
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

fn doubts(method: Method, nodes: &[Node], speeds: &Speeds, ground: &Ground) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for node in nodes {
        let speed = node.speeds.values().min().map_or(1.0, |speed| speed.fraction());
        let fault = method.fault(node.speeds.len(), speed);
        if !fault.is_empty() {
            let remedy = if method == Method::Freq { "" } else { "hogs have none of this" };
            warnings.push(Warning::new("method-fault", format!("{method}: {fault}"), remedy));
            break;
        }
    }
    let all_slow = ground.online.iter().all(|cpu| {
        speeds.get(&cpu).is_some_and(|speed| *speed < Speed::percent(20).expect("below a hundred"))
    });
    if method == Method::Hogs && all_slow {
        let what = "all CPUs are below 20%: this shell will be that slow too";
        warnings.push(Warning::new("machine-slow", what, "leave a CPU at full speed for yourself"));
    }
    let mut attached = nodes.iter().flat_map(|node| &node.attach).copied();
    warnings.extend(super::escape::warning(method, &mut attached));
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow::{Assignment, Step, speeds};
    use schedlab_model::Pid;
    use schedlab_workload::Link;

    #[test]
    fn a_file_names_its_method_and_one_that_is_none_is_refused() {
        let text = |method: &str| {
            format!("method = \"{method}\"\n[[node]]\nname = \"a\"\ncpus = \"0\"\nspeed = 0.5")
        };
        let file = |method: &str| schedlab_workload::nodes::parse(&text(method)).unwrap();
        let of = |method| Request::try_from(file(method));
        assert_eq!(of("hogs").unwrap().method, Some(Method::Hogs));
        assert_eq!(of("auto").unwrap().method, None);
        assert!(of("fracas").unwrap_err().to_string().contains("no method"));
    }

    fn node(name: &str, cpus: &str) -> Node {
        let all: Vec<Assignment> = cpus.split(' ').map(|text| text.parse().unwrap()).collect();
        Node {
            name: name.into(),
            speeds: speeds(&all).unwrap(),
            commands: vec![vec!["true".into()]],
            ..Node::default()
        }
    }

    fn plan(method: Option<Method>, nodes: Vec<Node>, ground: &Ground) -> Result<Plan, SlowError> {
        Request { method, nodes, ..Request::default() }.plan(ground)
    }

    /// The reason of the refusal, and whether it is one of usage.
    fn refused(method: Method, nodes: Vec<Node>, ground: &Ground) -> (bool, String) {
        match plan(Some(method), nodes, ground) {
            Err(SlowError::Usage(why)) => (true, why),
            Err(error) => (false, error.to_string()),
            Ok(_) => panic!("this must be refused"),
        }
    }

    #[test]
    fn cpus_that_are_missing_or_offline_are_refused() {
        let mut ground = Ground::fake(4);
        assert!(
            refused(Method::Hogs, vec![node("a", "9=50%")], &ground)
                .1
                .contains("there is no CPU 9")
        );
        ground.online.remove(schedlab_model::Cpu(3));
        let (usage, why) = refused(Method::Hogs, vec![node("a", "2-3=50%")], &ground);
        assert!(usage && why.contains("CPU 3 is offline"), "{why}");
        assert!(refused(Method::Hogs, vec![], &ground).1.contains("no CPU is named"));
    }

    #[test]
    fn nodes_that_overlap_or_share_a_name_are_refused() {
        let ground = Ground::fake(4);
        let overlap = vec![node("a", "0-1=50%"), node("b", "1-2=30%")];
        assert!(refused(Method::Hogs, overlap, &ground).1.contains("CPU 1 is in two nodes"));
        let twins = vec![node("a", "0=50%"), node("a", "1=30%")];
        assert!(refused(Method::Hogs, twins, &ground).1.contains("two nodes are called a"));
        assert!(refused(Method::Hogs, vec![node("a/b", "0=50%")], &ground).1.contains("no name"));
    }

    #[test]
    fn hogs_are_refused_below_a_tenth_and_without_rights() {
        let ground = Ground::fake(4);
        let (usage, why) = refused(Method::Hogs, vec![node("a", "0=9%")], &ground);
        assert!(usage && why.contains("weight"), "{why}");
        assert!(plan(Some(Method::Hogs), vec![node("a", "0=10%")], &ground).is_ok());
        let bare = Ground { root: false, realtime: false, ..Ground::fake(4) };
        for method in [Method::Hogs, Method::Weight, Method::Quota] {
            let (usage, why) = refused(method, vec![node("a", "0=50%")], &bare);
            assert!(!usage && why.contains("root"), "{method}: {why}");
        }
    }

    #[test]
    fn a_scripted_speed_is_checked_like_the_first() {
        let change = Change::Speed("5%".parse().unwrap());
        let script = vec![Step { at: Nanos::from_secs(1), change }];
        let node = Node { script, ..node("a", "0=50%") };
        assert!(refused(Method::Hogs, vec![node], &Ground::fake(2)).1.contains("5%"));
    }

    #[test]
    fn a_network_needs_root_and_commands_that_end_with_it() {
        let node = || Node { net: Some(Link::default()), ..node("a", "0=50%") };
        let bare = Ground { root: false, realtime: false, ..Ground::fake(2) };
        let (usage, why) = refused(Method::Stop, vec![node()], &bare);
        assert!(!usage && why.contains("needs root") && why.contains("no network"), "{why}");
        assert!(plan(Some(Method::Stop), vec![node()], &Ground::fake(2)).is_ok());
        let attached = Node { attach: vec![schedlab_sys::process::thread_id()], ..node() };
        assert!(
            refused(Method::Stop, vec![attached], &Ground::fake(2)).1.contains("can't be moved")
        );
        let kept = Request { keep: true, nodes: vec![node()], ..Request::default() };
        assert!(kept.plan(&Ground::fake(2)).unwrap_err().to_string().contains("--keep"));
    }

    #[test]
    fn a_real_time_process_is_warned_that_hogs_do_not_slow_it() {
        use schedlab_sys::sched::{Policy, set};
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid(child.id().cast_signed());
        let warned = || {
            let node = Node { attach: vec![pid], ..node("a", "0=50%") };
            let plan = plan(Some(Method::Hogs), vec![node], &Ground::fake(2)).unwrap();
            plan.warnings.iter().any(|warning| warning.code == "realtime-task")
        };
        let fair = warned();
        let made = set(pid, &Policy::Fifo { priority: 5 }.into());
        let realtime = warned();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!fair);
        match made {
            Ok(()) => assert!(realtime),
            Err(error) => eprintln!("MISSING: real-time tasks ({error}): no warning is tested"),
        }
    }

    #[test]
    fn a_budget_is_refused_for_several_cpus_with_the_reason() {
        let (usage, why) = refused(Method::Quota, vec![node("a", "0-1=50%")], &Ground::fake(4));
        assert!(usage && why.contains("one thread would run at full speed"), "{why}");
    }

    #[test]
    fn methods_that_slow_processes_need_some() {
        let empty = Node { commands: vec![], ..node("a", "0=50%") };
        let (usage, why) = refused(Method::Stop, vec![empty], &Ground::fake(4));
        assert!(usage && why.contains("give a command"), "{why}");
        let unequal = vec![node("a", "0=50% 1=30%")];
        assert!(refused(Method::Weight, unequal, &Ground::fake(4)).1.contains("one speed"));
    }

    #[test]
    fn clocks_are_checked_by_domain() {
        let tree = crate::slow::frequency::tests::tree();
        let ground =
            Ground { domains: crate::slow::frequency::domains(tree.path()), ..Ground::fake(4) };
        assert!(
            refused(Method::Gov, vec![node("a", "0=50%")], &ground).1.contains("share one clock")
        );
        assert!(refused(Method::Gov, vec![node("a", "3=50%")], &ground).1.contains("can't be set"));
        assert!(refused(Method::Freq, vec![node("a", "0-1=25%")], &ground).1.contains("gov"));
        assert!(plan(Some(Method::Gov), vec![node("a", "0-1=25%")], &ground).is_ok());
        let (usage, why) = refused(Method::Freq, vec![node("a", "0-1=50%")], &Ground::fake(2));
        assert!(!usage && why.contains("cpufreq"), "{why}");
    }

    #[test]
    fn deadline_burners_are_for_cpus_that_can_be_cut_off() {
        let one = || vec![node("a", "0=50%")];
        let ground = Ground::fake(2);
        assert!(plan(Some(Method::Deadline), one(), &ground).is_ok());
        let (usage, why) = refused(Method::Deadline, vec![node("a", "0-1=50%")], &ground);
        assert!(usage && why.contains("a node for each CPU"), "{why}");
        let (usage, why) = refused(Method::Deadline, vec![node("a", "0=9%")], &ground);
        assert!(usage && why.contains("weight-pinned"), "{why}");
        let none = Ground { cpuset_group: None, ..Ground::fake(2) };
        assert!(refused(Method::Deadline, one(), &none).1.contains("cpuset controller"));
        let old = Some("this kernel has no SCHED_DEADLINE".to_owned());
        let old = Ground { deadline_obstacle: old, ..Ground::fake(2) };
        assert!(refused(Method::Deadline, one(), &old).1.contains("no SCHED_DEADLINE"));
        // Version 2 takes the CPU away from everybody else, so one must stay.
        let mut unified = Ground::fake(2);
        unified.cpuset_group.as_mut().unwrap().version = Version::V2;
        let all = || vec![node("a", "0=50%"), node("b", "1=50%")];
        assert!(refused(Method::Deadline, all(), &unified).1.contains("one CPU must stay outside"));
        assert!(plan(Some(Method::Deadline), one(), &unified).is_ok());
        assert!(plan(Some(Method::Deadline), all(), &ground).is_ok());
    }

    #[test]
    fn clamps_are_refused_with_what_hinders_them() {
        let why = Some("the governor is performance".to_owned());
        let ground = Ground { clamp_obstacle: why, ..Ground::fake(2) };
        let (usage, why) = refused(Method::Uclamp, vec![node("a", "0=50%")], &ground);
        assert!(!usage && why.contains("governor is performance"), "{why}");
        let plan = plan(Some(Method::Uclamp), vec![node("a", "0-1=50%")], &Ground::fake(2));
        assert!(plan.unwrap().warnings.iter().any(|warning| warning.what.contains("no limit")));
    }

    #[test]
    fn known_faults_stand_beside_the_method() {
        let plan =
            plan(Some(Method::WeightPerCpu), vec![node("a", "0-1=50%")], &Ground::fake(2)).unwrap();
        assert!(plan.warnings.iter().any(|warning| warning.what.contains("33.3%")));
    }
}
