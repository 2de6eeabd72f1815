//! From options to where and how the tasks of each role run.

use crate::options::{Kind, OptionDoc, OptionError, Options};
use crate::plan::{Placement, Policy, Task};
use schedlab_model::{CpuSet, Topology};

pub const COMMON: &[OptionDoc] = &[
    OptionDoc {
        name: "cpus",
        short: None,
        kind: Kind::Text,
        default: "",
        help: "CPUs that the tasks may use: a list (0-3,8), or ROLE=LIST for one role; several with /",
    },
    OptionDoc {
        name: "place",
        short: None,
        kind: Kind::Choice(&["anywhere", "llc", "node", "socket", "no-smt", "spread"]),
        default: "anywhere",
        help: "keep each group of tasks in one LLC, node or socket; or use one CPU of each core; or bind task i to CPU i",
    },
    OptionDoc {
        name: "policy",
        short: None,
        kind: Kind::Text,
        default: "",
        help: "normal, batch, idle, ext, fifo:N or rr:N; ROLE=POLICY for one role; several with commas",
    },
    OptionDoc {
        name: "nice",
        short: None,
        kind: Kind::Text,
        default: "",
        help: "nice value, -20 to 19; ROLE=N for one role; several with commas",
    },
    OptionDoc {
        name: "slice",
        short: None,
        kind: Kind::Text,
        default: "",
        help: "slice of the tasks, 100us to 100ms (Linux 6.12); ROLE=TIME for one role",
    },
    OptionDoc {
        name: "cgroup",
        short: None,
        kind: Kind::Text,
        default: "",
        help: "control group to run in, below the mount point (made for the run if it is not there); ROLE=PATH for one role",
    },
    OptionDoc {
        name: "weight",
        short: None,
        kind: Kind::Text,
        default: "",
        help: "weight of the control group, 1 to 10000 (100: as any other); without one it is made; ROLE=N for one role",
    },
    OptionDoc {
        name: "compat",
        short: None,
        kind: Kind::Choice(&["none", "upstream"]),
        default: "none",
        help: "upstream: keep the behaviour of the original tool also where it changes a number",
    },
];

/// The machine as far as plans depend on it.
#[derive(Clone, Debug)]
pub struct MachineProperties {
    /// The CPUs of the machine, and what they share.
    pub topology: Topology,
    /// Those that the load may use.
    pub allowed: CpuSet,
    /// Iterations of the calibrated loop that a CPU does in a microsecond.
    pub speed: u64,
    /// Seed of everything random.
    pub seed: u64,
}

/// Values by role: what stands under no role holds for the others.
fn by_role<'v>(
    option: &str,
    value: &'v str,
    separator: char,
    roles: &[String],
) -> Result<Vec<(Option<usize>, &'v str)>, OptionError> {
    let parts = value.split(separator).filter(|part| !part.is_empty());
    parts
        .map(|part| match part.split_once('=') {
            None => Ok((None, part)),
            Some((name, rest)) => match roles.iter().position(|role| role == name) {
                Some(role) => Ok((Some(role), rest)),
                None => Err(OptionError::new(
                    option,
                    format!("unknown role '{name}': use {}", roles.join(", ")),
                )),
            },
        })
        .collect()
}

/// Sets one property of every task to which a value applies, a role's own value last.
fn apply<T>(
    tasks: &mut [Task],
    values: &[(Option<usize>, T)],
    mut set: impl FnMut(&mut Placement, &T),
) {
    for wanted in [false, true] {
        for (role, value) in values.iter().filter(|(role, _)| role.is_some() == wanted) {
            let concerned =
                tasks.iter_mut().filter(|task| role.is_none_or(|r| usize::from(task.role) == r));
            concerned.for_each(|task| set(&mut task.placement, value));
        }
    }
}

/// Places the tasks by the common options. What a workload placed by options of its own stays, where
/// these say nothing.
///
/// # Errors
/// A value that is none, an empty list of CPUs, a CPU that the load may not use.
pub(crate) fn place(
    tasks: &mut [Task],
    roles: &[String],
    options: &Options,
    surroundings: &MachineProperties,
) -> Result<(), OptionError> {
    let parsed = |name: &'static str, separator| {
        if options.is_given(name) && options.text(name).trim().is_empty() {
            return Err(OptionError::new(name, "it is empty"));
        }
        by_role(name, options.text(name), separator, roles)
    };
    let cpus = parsed("cpus", '/')?
        .into_iter()
        .map(|(role, text)| Ok((role, allowed("cpus", text, surroundings)?)))
        .collect::<Result<Vec<_>, OptionError>>()?;
    spread(tasks, options.text("place"), &cpus, surroundings);
    apply(tasks, &cpus, |p, v: &CpuSet| {
        let set = p.cpus.as_ref().map_or_else(|| v.clone(), |own| own.intersection(v));
        p.cpus = Some(if set.is_empty() { v.clone() } else { set });
    });
    let policies = parse_all(parsed("policy", ',')?, policy)?;
    apply(tasks, &policies, |p, v| p.policy = Some(*v));
    let nices = parse_all(parsed("nice", ',')?, |text| match text.parse::<i32>() {
        Ok(n) if (-20..=19).contains(&n) => Ok(n),
        _ => Err(OptionError::new("nice", format!("invalid value '{text}': use -20 to 19"))),
    })?;
    apply(tasks, &nices, |p, v| p.nice = Some(*v));
    let slices = parse_all(parsed("slice", ',')?, slice)?;
    apply(tasks, &slices, |p, v| p.slice = Some(*v));
    let groups = parsed("cgroup", ',')?;
    for (_, group) in &groups {
        if group.split('/').any(|part| part == "..") {
            return Err(OptionError::new(
                "cgroup",
                format!("'{group}' leads out of the hierarchy"),
            ));
        }
    }
    apply(tasks, &groups, |p, v| p.cgroup = Some((*v).to_owned()));
    weigh(tasks, roles, &parse_all(parsed("weight", ',')?, weight)?);
    Ok(())
}

/// Gives the groups of tasks their weights; those without a group get one of the load's own: all
/// together, or each role that has a weight by itself.
fn weigh(tasks: &mut [Task], roles: &[String], weights: &[(Option<usize>, u32)]) {
    for wanted in [false, true] {
        for (role, weight) in weights.iter().filter(|(role, _)| role.is_some() == wanted) {
            let own = format!("@{}", role.map_or("all", |role| roles[role].as_str()));
            for task in tasks.iter_mut() {
                if role.is_some_and(|role| usize::from(task.role) != role) {
                    continue;
                }
                let place = &mut task.placement;
                place.weight = Some(*weight);
                if place.cgroup.as_ref().is_none_or(|group| group.starts_with('@')) {
                    place.cgroup = Some(own.clone());
                }
            }
        }
    }
}

fn weight(text: &str) -> Result<u32, OptionError> {
    match text.parse() {
        Ok(n) if (1..=10_000).contains(&n) => Ok(n),
        _ => Err(OptionError::new("weight", format!("invalid value '{text}': use 1 to 10000"))),
    }
}

fn parse_all<T>(
    values: Vec<(Option<usize>, &str)>,
    parse: impl Fn(&str) -> Result<T, OptionError>,
) -> Result<Vec<(Option<usize>, T)>, OptionError> {
    values.into_iter().map(|(role, text)| Ok((role, parse(text)?))).collect()
}

fn slice(text: &str) -> Result<schedlab_model::Nanos, OptionError> {
    let time: schedlab_model::Nanos = text
        .parse()
        .map_err(|e: schedlab_model::NanosError| OptionError::new("slice", e.to_string()))?;
    if (100_000..=100_000_000).contains(&time.0) {
        Ok(time)
    } else {
        Err(OptionError::new("slice", format!("invalid time {time}: use 100us to 100ms")))
    }
}

/// A list of CPUs of which all may be used.
///
/// # Errors
/// When it is no list, is empty, or names a CPU that may not be used.
pub(crate) fn allowed(
    option: &str,
    text: &str,
    surroundings: &MachineProperties,
) -> Result<CpuSet, OptionError> {
    let set: CpuSet = text
        .parse()
        .map_err(|e: schedlab_model::CpuListError| OptionError::new(option, e.to_string()))?;
    if set.is_empty() {
        return Err(OptionError::new(option, "the list of CPUs is empty"));
    }
    let foreign = set.iter().find(|cpu| !surroundings.allowed.contains(*cpu));
    match foreign {
        None => Ok(set),
        Some(cpu) => Err(OptionError::new(
            option,
            format!("CPU {cpu} is not available: use {}", surroundings.allowed),
        )),
    }
}

/// Reads a policy as the option `policy` takes it: `normal`, `batch`, `idle`, `ext`, `fifo:N` or `rr:N`.
///
/// # Errors
/// When it is none, or its priority is not 1 to 99.
pub fn policy(text: &str) -> Result<Policy, OptionError> {
    let (name, number) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
    let priority = || match number.unwrap_or("1").parse::<u32>() {
        Ok(n) if (1..=99).contains(&n) => Ok(n),
        _ => Err(OptionError::new("policy", format!("invalid priority in '{text}': use 1 to 99"))),
    };
    match (name, number) {
        ("normal" | "other", None) => Ok(Policy::Normal),
        ("batch", None) => Ok(Policy::Batch),
        ("idle", None) => Ok(Policy::Idle),
        ("ext", None) => Ok(Policy::Ext),
        ("fifo", _) => Ok(Policy::Fifo(priority()?)),
        ("rr", _) => Ok(Policy::RoundRobin(priority()?)),
        _ => {
            let why =
                format!("unknown policy '{text}': use normal, batch, idle, ext, fifo:N or rr:N");
            Err(OptionError::new("policy", why))
        }
    }
}

/// Gives each task its share of the machine, by the word after `--place`.
fn spread(
    tasks: &mut [Task],
    word: &str,
    cpus: &[(Option<usize>, CpuSet)],
    surroundings: &MachineProperties,
) {
    let whole = match cpus.iter().find(|(role, _)| role.is_none()) {
        Some((_, set)) => set.clone(),
        None => surroundings.allowed.clone(),
    };
    let parts: Vec<CpuSet> = match word {
        "llc" => surroundings.topology.groups(|place| place.llc),
        "node" => surroundings.topology.groups(|place| place.node),
        "socket" => surroundings.topology.groups(|place| place.socket),
        "no-smt" => {
            let cores = surroundings.topology.groups(|place| place.core);
            let mut one = CpuSet::new();
            cores
                .iter()
                .filter_map(|(_, set)| set.intersection(&whole).iter().next())
                .for_each(|cpu| one.insert(cpu));
            vec![(0, one)]
        }
        "spread" => whole.iter().map(|cpu| (0, std::iter::once(cpu).collect())).collect(),
        _ => return,
    }
    .into_iter()
    .map(|(_, set): (u32, CpuSet)| set.intersection(&whole))
    .filter(|set| !set.is_empty())
    .collect();
    if parts.is_empty() {
        return;
    }
    for (index, task) in tasks.iter_mut().enumerate() {
        let which = if word == "spread" { index } else { task.group as usize };
        task.placement.cpus = Some(parts[which % parts.len()].clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Behaviour, Done, Instruments, Op};
    use schedlab_model::{Cpu, Nanos, Place};

    struct Nothing;

    impl Behaviour for Nothing {
        fn next(&mut self, _: Nanos, _: Done, _: &mut dyn Instruments) -> Op {
            Op::Exit
        }
    }

    /// Two sockets with a node each, two LLCs in each, of two cores with two CPUs: the siblings of CPU n
    /// are n and n + 8, as Linux numbers them.
    fn around() -> MachineProperties {
        let place = |cpu: u16| {
            let core = u32::from(cpu % 8);
            Place { cpu: Cpu(cpu), core, llc: core / 2, node: core / 4, socket: core / 4 }
        };
        let topology = Topology::new((0..16).map(place).collect());
        MachineProperties { topology, allowed: CpuSet::first(16), speed: 1, seed: 1 }
    }

    /// A messenger and two workers in each of five groups, placed by these options.
    fn placed(
        given: &[(&str, &str)],
        around: &MachineProperties,
    ) -> Result<Vec<Task>, OptionError> {
        let given = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let options = Options::new(&[COMMON], &given)?;
        let task = |index: u32| {
            let role = u16::from(!index.is_multiple_of(3));
            Task { group: index / 3, ..Task::new("", role, Box::new(Nothing)) }
        };
        let mut tasks: Vec<Task> = (0..15).map(task).collect();
        let roles = ["message", "worker"].map(str::to_owned);
        place(&mut tasks, &roles, &options, around)?;
        Ok(tasks)
    }

    /// The CPUs of each task, in words.
    fn cpus(given: &[(&str, &str)]) -> Vec<String> {
        let told = |task: Task| task.placement.cpus.map_or("any".to_owned(), |set| set.to_string());
        placed(given, &around()).unwrap().into_iter().map(told).collect()
    }

    /// The same for each task of a group, the five groups one after another.
    fn by_group(groups: [&str; 5]) -> Vec<String> {
        groups.iter().flat_map(|set| [(); 3].map(|()| (*set).to_owned())).collect()
    }

    #[test]
    fn groups_stay_in_an_llc_a_node_or_a_socket_by_turns() {
        let llcs = by_group(["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15", "0-1,8-9"]);
        assert_eq!(cpus(&[("place", "llc")]), llcs);
        let nodes = by_group(["0-3,8-11", "4-7,12-15", "0-3,8-11", "4-7,12-15", "0-3,8-11"]);
        assert_eq!(cpus(&[("place", "node")]), nodes);
        assert_eq!(cpus(&[("place", "socket")]), nodes);
        assert_eq!(cpus(&[]), by_group(["any"; 5]));
    }

    #[test]
    fn without_siblings_one_cpu_of_each_core_is_used() {
        assert_eq!(cpus(&[("place", "no-smt")]), by_group(["0-7"; 5]));
        // Where only a sibling may be used it is that one.
        let some = [("place", "no-smt"), ("cpus", "1,8-10")];
        assert_eq!(cpus(&some), by_group(["1,8,10"; 5]));
    }

    #[test]
    fn placing_keeps_within_the_cpus_that_are_given_and_those_of_a_role() {
        let llc = [("place", "llc"), ("cpus", "0-3")];
        assert_eq!(cpus(&llc), by_group(["0-1", "2-3", "0-1", "2-3", "0-1"]));
        let spread = cpus(&[("place", "spread"), ("cpus", "2-4")]);
        assert_eq!(spread[..5], ["2", "3", "4", "2", "3"]);
        let apart = cpus(&[("cpus", "message=0/worker=4-7")]);
        assert_eq!(apart[..4], ["0", "4-7", "4-7", "0"]);
        // A role's own list wins over that for all.
        let apart = cpus(&[("cpus", "8-9/message=0")]);
        assert_eq!(apart[..3], ["0", "8-9", "8-9"]);
    }

    #[test]
    fn each_role_has_its_own_policy_nice_slice_and_group() {
        let given = [
            ("policy", "batch,message=fifo:5"),
            ("nice", "worker=3"),
            ("slice", "3ms,message=200us"),
            ("cgroup", "worker=a/b"),
            ("weight", "message=300"),
        ];
        let tasks = placed(&given, &around()).unwrap();
        let [message, worker] = [&tasks[0].placement, &tasks[1].placement];
        assert_eq!((message.policy, worker.policy), (Some(Policy::Fifo(5)), Some(Policy::Batch)));
        assert_eq!((message.nice, worker.nice), (None, Some(3)));
        let micros = |us| Some(Nanos::from_micros(us));
        assert_eq!((message.slice, worker.slice), (micros(200), micros(3_000)));
        let groups = (message.cgroup.as_deref(), worker.cgroup.as_deref());
        assert_eq!(groups, (Some("@message"), Some("a/b")));
        assert_eq!((message.weight, worker.weight), (Some(300), None));
    }

    #[test]
    fn what_is_no_placement_is_told_with_what_is_one() {
        for (option, value, part) in [
            ("place", "core", "anywhere"),
            ("cpus", "", "it is empty"),
            ("cpus", "worker=", "the list of CPUs is empty"),
            ("nice", " ", "it is empty"),
            ("cpus", "16", "CPU 16 is not available: use 0-15"),
            ("cpus", "boss=1", "unknown role 'boss': use message, worker"),
            ("policy", "fast", "use normal, batch"),
            ("policy", "fifo:0", "use 1 to 99"),
            ("nice", "20", "use -20 to 19"),
            ("slice", "1us", "use 100us to 100ms"),
            ("cgroup", "../x", "leads out"),
            ("weight", "0", "use 1 to 10000"),
        ] {
            let error = placed(&[(option, value)], &around()).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains(part), "{option}={value}: {error}");
        }
    }
}
