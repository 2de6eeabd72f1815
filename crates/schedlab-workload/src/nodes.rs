//! `nodes.toml`: virtual nodes as a file.
//!
//! ```toml
//! method = "hogs"                  # or auto, weight, ...
//! [[node]]
//! name = "small"
//! cpus = "0"
//! speed = "30%"
//! commands = [["./server", "--port", "1"], "./client | tee log"]   # a text is run by sh
//! script = [{ at = "10s", speed = "60%" }, { at = "20s", fail = true }, { at = "25s", recover = true }]
//! [node.net]                       # a network of its own, behind a link
//! rate = "10Mbit"
//! delay = "5ms"
//! loss = "1%"
//! [[node]]
//! name = "large"
//! cpus = "1-3"
//! speeds = { "1" = "75%", "2-3" = "90%" }
//! [[noise]]
//! cpus = "1"
//! rate = 20.0
//! length = "500us"
//! ```
//!
//! A speed may also be a clock, `1200MHz`: the one that reads the file knows those of its CPUs.

use crate::link::{RawNet, link_of};
pub use crate::nemesis::Change;
use crate::nemesis::{self, Cluster, NodeInfo, RawEvent, RawLink, RawNemesis};
use crate::requested_speed::{OfClock, RequestedSpeed, Settling};
use crate::{Assignment, Link, Noise, Speed, Speeds, speeds};
use schedlab_model::{Cpu, CpuSet, Nanos, Pid};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;

/// A virtual node: CPUs with their speeds, and the tasks that are scheduled there.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// Its CPUs and how fast each is.
    pub speeds: Speeds,
    /// Its tasks run on its CPUs only.
    pub bind: bool,
    /// The commands that are started in it, each with its arguments.
    pub commands: Vec<Vec<String>>,
    /// Processes that are moved into it, with their children. They are never killed.
    pub attach: Vec<Pid>,
    /// The folders of control groups whose processes are moved into it, those of groups below them included.
    pub attach_groups: Vec<PathBuf>,
    /// Processes are moved into it later, by the one that holds the session.
    pub admits: bool,
    /// The link by which its commands, in a network of their own, reach this machine and other nodes.
    pub net: Option<Link>,
    /// The part of the memory bandwidth that its CPUs may use; `None`: all of it.
    pub memory: Option<Speed>,
    /// Its commands see their node in `/proc/cpuinfo` and in the list of online CPUs.
    pub shown: bool,
    /// What changes while it runs, by time since the start.
    pub script: Vec<Step>,
}

impl Node {
    #[must_use]
    pub fn has_tasks(&self) -> bool {
        !(self.commands.is_empty() && self.attach.is_empty() && self.attach_groups.is_empty())
    }

    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        self.speeds.keys().copied().collect()
    }
}

/// A change at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Since the start of the session.
    pub at: Nanos,
    pub change: Change,
}

/// What a file of nodes says. A machine makes it true in its way: the host slows its CPUs, a simulator
/// takes the speed of a CPU as its capacity.
#[derive(Clone, Debug, Default)]
pub struct NodesFile {
    /// The name of the method by which the host slows CPUs; `None` chooses.
    pub method: Option<String>,
    /// Period of the method; `None`: its own.
    pub period: Option<Nanos>,
    /// The session ends after this time; `None`: the command's own limit holds.
    pub time_limit: Option<Nanos>,
    /// The nodes; at least one.
    pub nodes: Vec<Node>,
    /// The background noise on CPUs.
    pub noise: Vec<Noise>,
    /// Links of pairs, and what happens to links and nodes.
    pub cluster: Cluster,
}

/// Why a file of nodes is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NodesError(pub String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    method: Option<String>,
    period: Option<String>,
    time_limit: Option<String>,
    #[serde(default)]
    node: Vec<RawNode>,
    #[serde(default)]
    noise: Vec<RawNoise>,
    #[serde(default)]
    link: Vec<RawLink>,
    #[serde(default)]
    event: Vec<RawEvent>,
    nemesis: Option<RawNemesis>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNode {
    name: String,
    cpus: CpuSet,
    speed: Option<Spanned<RequestedSpeed>>,
    #[serde(default)]
    speeds: BTreeMap<String, Spanned<RequestedSpeed>>,
    #[serde(default)]
    commands: Vec<RawCommand>,
    #[serde(default)]
    script: Vec<RawStep>,
    net: Option<RawNet>,
    memory: Option<Speed>,
    #[serde(default = "yes")]
    shown: bool,
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a command is a text for sh, or a list of a program and its arguments"
)]
enum RawCommand {
    Shell(String),
    Argv(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    at: String,
    speed: Option<Spanned<RequestedSpeed>>,
    #[serde(default)]
    fail: bool,
    #[serde(default)]
    recover: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNoise {
    cpus: CpuSet,
    rate: f64,
    length: String,
    #[serde(default)]
    seed: u64,
}

/// Reads the text of a file of nodes. Tasks of nodes are bound to their CPUs. `of_clock` turns speeds such as
/// `1200MHz` into parts of the full speed of a CPU.
///
/// # Errors
/// In a sentence, with the line where the text is no TOML or a speed is wrong.
pub fn parse(text: &str, of_clock: OfClock<'_>) -> Result<NodesFile, NodesError> {
    let file: File = toml::from_str(text).map_err(|error| NodesError(error.to_string()))?;
    if file.node.is_empty() {
        let example = "[[node]]\nname = \"small\"\ncpus = \"0\"\nspeed = \"30%\"";
        return Err(NodesError(format!("missing node: write one as in\n{example}")));
    }
    let duration = |text: &str| {
        text.parse::<Nanos>()
            .map_err(|error: schedlab_model::NanosError| NodesError(error.to_string()))
    };
    let mut read = NodesFile {
        method: file.method.filter(|name| name != "auto"),
        period: file.period.as_deref().map(duration).transpose()?,
        time_limit: file.time_limit.as_deref().map(duration).transpose()?,
        ..NodesFile::default()
    };
    let settling = Settling { text, of_clock };
    for raw in file.node {
        let name = raw.name.clone();
        let node = node(raw, &settling).map_err(|why| NodesError(format!("node {name}: {why}")))?;
        read.nodes.push(node);
    }
    let seat = |node: &Node| NodeInfo {
        name: node.name.clone(),
        wired: node.net.is_some(),
        speed: node.speeds.values().next().copied(),
        cpu: node.speeds.keys().next().copied().unwrap_or_default(),
    };
    let seats: Vec<NodeInfo> = read.nodes.iter().map(seat).collect();
    let nemesis = file.nemesis.as_ref();
    let cluster = nemesis::cluster(&seats, file.link, file.event, nemesis, &settling);
    read.cluster = cluster.map_err(NodesError)?;
    for raw in file.noise {
        let length = duration(&raw.length)?;
        read.noise.push(Noise { cpus: raw.cpus, rate: raw.rate, length, seed: raw.seed });
    }
    Ok(read)
}

fn node(raw: RawNode, settling: &Settling<'_, '_>) -> Result<Node, String> {
    let mut all = Vec::new();
    for (cpus, wish) in &raw.speeds {
        let cpus: CpuSet = cpus.parse().map_err(|e: schedlab_model::CpuListError| e.to_string())?;
        if let Some(cpu) = cpus.iter().find(|cpu| !raw.cpus.contains(*cpu)) {
            return Err(format!("CPU {cpu} has a speed, but is not among its cpus {}", raw.cpus));
        }
        let speed = settling.settle(wish, cpus.iter().next().unwrap_or_default())?;
        all.push(Assignment { cpus, speed });
    }
    let named: CpuSet = all.iter().flat_map(|assignment| assignment.cpus.iter()).collect();
    let rest: CpuSet = raw.cpus.iter().filter(|cpu| !named.contains(*cpu)).collect();
    match raw.speed {
        Some(_) if rest.is_empty() => {}
        Some(wish) => {
            let speed = settling.settle(&wish, rest.iter().next().unwrap_or_default())?;
            all.push(Assignment { cpus: rest, speed });
        }
        None if rest.is_empty() => {}
        None => return Err(format!("no speed for CPUs {rest}: add speed = \"...\"")),
    }
    let first = raw.cpus.iter().next().unwrap_or_default();
    let steps = raw.script.iter().map(|raw| step(raw, first, settling));
    let script = steps.collect::<Result<Vec<Step>, String>>()?;
    if script.windows(2).any(|pair| pair[0].at > pair[1].at) {
        return Err("the steps of its script are not in order of time: sort them by `at`".into());
    }
    let command = |raw| match raw {
        RawCommand::Shell(text) => vec!["sh".into(), "-c".into(), text],
        RawCommand::Argv(argv) => argv,
    };
    Ok(Node {
        name: raw.name,
        speeds: speeds(&all)?,
        bind: true,
        memory: raw.memory,
        shown: raw.shown,
        net: raw.net.as_ref().map(link_of).transpose()?,
        commands: raw.commands.into_iter().map(command).collect(),
        script,
        ..Node::default()
    })
}

fn step(raw: &RawStep, cpu: Cpu, settling: &Settling<'_, '_>) -> Result<Step, String> {
    let at = raw.at.parse().map_err(|error: schedlab_model::NanosError| error.to_string())?;
    let change = match (&raw.speed, raw.fail, raw.recover) {
        (Some(wish), false, false) => Change::Speed(settling.settle(wish, cpu)?),
        (None, true, false) => Change::Fail,
        (None, false, true) => Change::Recover,
        _ => return Err(format!("the step at {} needs one of speed, fail, recover", raw.at)),
    };
    Ok(Step { at, change })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<NodesFile, NodesError> {
        super::parse(text, &|text, cpu| match text {
            "800MHz" => Ok(Speed::percent(10 + u32::from(cpu.0)).unwrap()),
            _ => Err(format!("no CPU has {text}")),
        })
    }

    const FILE: &str = r#"
method = "hogs"
time_limit = "1m"
[[node]]
name = "small"
cpus = "0"
speed = "30%"
commands = [["./server", "--port", "1"], "./client | tee log"]
script = [{ at = "10s", speed = "60%" }, { at = "20s", fail = true }, { at = "25s", recover = true }]
[node.net]
rate = "10Mbit"
delay = "5ms"
loss = "0.5%"
[[node]]
name = "large"
cpus = "1-3"
speed = "75%"
speeds = { "2-3" = "90%" }
[[noise]]
cpus = "1"
rate = 20.0
length = "500us"
"#;

    #[test]
    fn nodes_have_cpus_speeds_commands_and_scripts() {
        let request = parse(FILE).unwrap();
        assert_eq!(request.method.as_deref(), Some("hogs"));
        let [small, large] = &request.nodes[..] else { panic!("two nodes") };
        assert_eq!(small.commands[1], ["sh", "-c", "./client | tee log"]);
        assert_eq!(small.script[1], Step { at: Nanos::from_secs(20), change: Change::Fail });
        assert_eq!(large.speeds[&Cpu(1)].to_string(), "75%");
        assert_eq!(large.speeds[&Cpu(3)].to_string(), "90%");
        assert!(large.bind);
        let link = small.net.unwrap();
        assert_eq!((link.rate_bit_s, link.delay), (Some(10_000_000), Nanos::from_millis(5)));
        assert_eq!((link.loss_millionths, large.net), (5_000, None));
        assert_eq!(request.noise[0].length, Nanos::from_micros(500));
    }

    #[test]
    fn a_speed_may_be_a_number_and_a_file_without_nodes_is_shown_one() {
        let text = FILE.replacen("speed = \"30%\"", "speed = 0.3", 1);
        assert_eq!(parse(&text).unwrap().nodes[0].speeds, parse(FILE).unwrap().nodes[0].speeds);
        let error = parse(&FILE.replacen("speed = \"30%\"", "speed = 30", 1)).unwrap_err();
        assert!(error.to_string().contains("did you mean 30%"), "{error}");
        for empty in ["", "node = []", "method = \"hogs\""] {
            assert!(parse(empty).unwrap_err().to_string().contains("[[node]]"), "{empty}");
        }
    }

    #[test]
    fn a_clock_is_compared_with_that_of_the_first_cpu_that_it_is_for() {
        let text = FILE
            .replace("speed = \"60%\"", "speed = \"800MHz\"")
            .replace("{ \"2-3\" = \"90%\" }", "{ \"2-3\" = \"800MHz\" }");
        let event = "\n[[event]]\nat = \"1s\"\nnode = \"large\"\nspeed = \"800MHz\"\n";
        let read = parse(&(text.clone() + event)).unwrap();
        assert_eq!(read.nodes[0].script[0].change, Change::Speed(Speed::percent(10).unwrap()));
        assert_eq!(read.nodes[1].speeds[&Cpu(3)].to_string(), "12%");
        assert_eq!(read.cluster.events[0].what.to_string(), "speed large 11%");
        // The node, the line and what it says.
        for (from, why) in [
            ("\nspeed = \"30%\"", "node small: line 7: speed '900MHz': no CPU has"),
            ("at = \"10s\", speed = \"60%\"", "node small: line 9: speed '900MHz': no CPU"),
            ("\"2-3\" = \"90%\"", "node large: line 18: speed '900MHz': no CPU"),
        ] {
            let percent = from.rsplit('"').nth(1).unwrap();
            let text = FILE.replacen(from, &from.replace(percent, "900MHz"), 1);
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{from}: {error}");
        }
        let error = parse(&(FILE.to_owned() + &event.replace("800MHz", "900MHz")));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("the event at 1s: line 27: speed '900MHz'"), "{error}");
        let error = parse(&FILE.replacen("30%", "0%", 1)).unwrap_err().to_string();
        assert!(error.contains("line 7") && error.contains("\"0%\""), "{error}");
    }

    #[test]
    fn mistakes_are_said_with_their_node() {
        for (from, to, why) in [
            ("speed = \"30%\"", "speed = \"0%\"", "more than 0"),
            ("speed = \"30%\"", "", "no speed for CPUs 0"),
            ("{ \"2-3\" = ", "{ \"2-9\" = ", "node large: CPU 4"),
            ("\"20s\", fail", "\"5s\", fail", "not in order"),
            ("recover = true", "recover = true, fail = true", "needs one of"),
            ("rate = 20.0", "rat = 20.0", "rat"),
            ("\"10s\"", "\"soon\"", "soon"),
            ("\"10Mbit\"", "\"10MB\"", "as in 10Mbit"),
            ("\"0.5%\"", "\"100%\"", "invalid loss"),
            ("\"5ms\"", "\"5min\"", "node small"),
        ] {
            let text = FILE.replacen(from, to, 1);
            assert_ne!(text, FILE, "{from}");
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{to}: {error}");
        }
    }
}
