//! A file of nodes on a simulated machine: `schedlab slow nodes.toml --on sim:cpus=4`.
//!
//! Nodes share no CPU, and simulated loads send nothing from one node to another. So each node is a run of its own, on
//! a machine that has the node's CPUs alone. Scripts, events and the nemesis become speeds over time. One trace shows
//! all nodes.

mod trace;

use super::note;
use crate::commands::UsageError;
use crate::commands::load;
use crate::commands::temporary_folder::Scratch;
use crate::machines;
use anyhow::Context as _;
use schedlab_model::{Cpu, CpuSet, Nanos, Setting};
use schedlab_workload::nodes::NodesFile;
use schedlab_workload::{
    Change, Event, Happening, MachineName, Node, RecordSpec, RunSpec, Speed, WorkloadSpec,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// A node that failed: a millisecond of work takes 10 s, so a load that ends meanwhile still ends soon.
const STILL: Speed = Speed::from_millionths(100).expect("it is above 0");

/// Runs each node and prints what it did. The trace of all nodes goes to a file, where one is asked for.
pub(super) fn run(
    file: &NodesFile,
    on: &MachineName,
    whole: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    refuse(file).map_err(UsageError)?;
    let specs = file.nodes.iter().map(|node| spec(node, file, whole.is_some()));
    let specs = specs.collect::<anyhow::Result<Vec<RunSpec>>>()?;
    for event in &file.cluster.events {
        note(&format!("after {}: {}", event.at, event.what));
    }
    let scratch = whole.map(|_| Scratch::new("slow")).transpose()?;
    let (mut text, mut parts) = (String::new(), Vec::new());
    for (number, (node, spec)) in file.nodes.iter().zip(&specs).enumerate() {
        let trace = scratch.as_ref().map(|folder| folder.path().join(format!("{number}.dat")));
        let mut machine = machines::part(on, &node.cpus())?;
        let done = load::told_once(machine.as_mut(), spec, trace.clone())?;
        let _ = writeln!(text, "node {} on CPUs {} of {on}\n{done}", node.name, node.cpus());
        parts.extend(trace.map(|trace| trace::Part {
            trace,
            cpus: node.cpus().iter().collect(),
            happened: happened(node, &file.cluster.events),
        }));
    }
    if let Some(whole) = whole {
        let topology = machines::model(on)?.topology;
        trace::join(&parts, topology, whole).with_context(|| whole.display().to_string())?;
    }
    load::print(&text)
}

/// What a simulated machine has no model for.
fn refuse(file: &NodesFile) -> Result<(), String> {
    let links = "simulated loads send nothing from node to node, so a link would change nothing";
    let cut = |event: &&Event| !matches!(event.what, Happening::Node(..));
    if let Some(event) = file.cluster.events.iter().find(cut) {
        return Err(format!("the event '{}' at {}: {links}: leave it out", event.what, event.at));
    }
    if let Some(pair) = file.cluster.links.keys().next() {
        return Err(format!("the link of {pair}: {links}: leave it out"));
    }
    if let Some(node) = file.nodes.iter().find(|node| node.net.is_some()) {
        return Err(format!("node {}: {links}: leave its net out", node.name));
    }
    if !file.noise.is_empty() {
        return Err("noise is not simulated: leave it out".into());
    }
    if let Some(node) = file.nodes.iter().find(|node| node.memory.is_some()) {
        return Err(format!("node {}: memory bandwidth is not simulated", node.name));
    }
    let mut taken = CpuSet::new();
    for node in &file.nodes {
        if let Some(cpu) = node.cpus().iter().find(|cpu| taken.contains(*cpu)) {
            return Err(format!("node {}: CPU {cpu} belongs to a node before it", node.name));
        }
        taken = taken.iter().chain(node.cpus().iter()).collect();
    }
    Ok(())
}

/// The run of a node, on a machine that has its CPUs alone.
fn spec(node: &Node, file: &NodesFile, record: bool) -> anyhow::Result<RunSpec> {
    let wrong = |why: String| UsageError(format!("node {}: {why}", node.name));
    let line = line(node).map_err(wrong)?;
    let (_, workload) = load::workload_of(&line)?;
    let WorkloadSpec::Builtin { name, mut options } = workload else {
        anyhow::bail!(wrong("a command is not simulated".into()));
    };
    let cpus = match options.get("cpus") {
        Some(text) => {
            text.parse::<CpuSet>().map_err(|error| wrong(format!("option cpus: {error}")))?
        }
        None => node.cpus(),
    };
    let cpus: Result<CpuSet, String> = cpus.iter().map(|cpu| number(node, cpu)).collect();
    options.insert("cpus".to_owned(), cpus.map_err(wrong)?.to_string());
    Ok(RunSpec {
        workload: WorkloadSpec::Builtin { name, options },
        beside: Vec::new(),
        settings: settings(node, &file.cluster.events),
        record: record.then(RecordSpec::default),
        seed: 1,
        repeat: 0,
        time_limit: file.time_limit,
    })
}

/// The number of a CPU on the node's own machine.
fn number(node: &Node, cpu: Cpu) -> Result<Cpu, String> {
    let at = node.speeds.keys().position(|own| *own == cpu);
    let at = at.and_then(|at| u16::try_from(at).ok()).map(Cpu);
    at.ok_or_else(|| format!("CPU {cpu} is not among its cpus {}", node.cpus()))
}

/// The workload that the node's only command runs, as in `schedlab load schbench -m 2`.
fn line(node: &Node) -> Result<String, String> {
    let how = "a simulated machine runs one load: commands = [\"schedlab load cpu\"]";
    let [command] = &node.commands[..] else {
        return Err(format!("it has {} commands; {how}", node.commands.len()));
    };
    let words: Vec<&str> = match &command[..] {
        [sh, c, text] if sh == "sh" && c == "-c" => text.split_whitespace().collect(),
        argv => argv.iter().map(String::as_str).collect(),
    };
    match &words[..] {
        [program, load, rest @ ..]
            if program.rsplit('/').next() == Some("schedlab")
                && *load == "load"
                && !rest.is_empty() =>
        {
            Ok(rest.join(" "))
        }
        _ => Err(format!("it cannot run '{}': {how}", command.join(" "))),
    }
}

/// What changes at a node, by time: its script first, then events at the same time, as on this machine.
fn changes(node: &Node, events: &[Event]) -> BTreeMap<Nanos, Vec<Change>> {
    let script = node.script.iter().map(|step| (step.at, step.change));
    let own = events.iter().filter_map(|event| match &event.what {
        Happening::Node(name, change) if *name == node.name => Some((event.at, *change)),
        _ => None,
    });
    let mut changes: BTreeMap<Nanos, Vec<Change>> = BTreeMap::new();
    for (at, change) in script.chain(own) {
        changes.entry(at).or_default().push(change);
    }
    changes
}

/// The same in the words of marks.
fn happened(node: &Node, events: &[Event]) -> Vec<Vec<String>> {
    let told = |change: Change| Happening::Node(node.name.clone(), change).to_string();
    let at_once = |all: Vec<Change>| all.into_iter().map(told).collect();
    changes(node, events).into_values().map(at_once).collect()
}

/// A time as it is read back: rounded, two changes could come at one time.
fn exact(time: Nanos) -> String {
    let text = time.to_string();
    if text.parse() == Ok(time) { text } else { format!("{}ns", time.0) }
}

/// The speeds of the node's CPUs over time.
fn settings(node: &Node, events: &[Event]) -> Vec<Setting> {
    let changes = changes(node, events);
    let setting = |(number, first): (usize, &Speed)| {
        let (mut speed, mut failed) = (*first, false);
        let mut value = first.to_string();
        for (at, changes) in &changes {
            for change in changes {
                match change {
                    Change::Speed(new) => speed = *new,
                    Change::Fail => failed = true,
                    Change::Recover => failed = false,
                }
            }
            // What comes last at one time holds.
            let _ = write!(value, " {}@{}", if failed { STILL } else { speed }, exact(*at));
        }
        Setting { knob: format!("speed:{number}"), value }
    };
    node.speeds.values().enumerate().map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::nodes::parse;

    const FILE: &str = r#"
[[node]]
name = "a"
cpus = "0"
speed = "50%"
commands = ["schedlab load cpu --tasks 2"]
script = [{ at = "10ms", speed = "25%" }, { at = "20ms", fail = true }, { at = "30ms", recover = true }]
[[node]]
name = "b"
cpus = "1-2"
speed = "80%"
commands = [["/usr/bin/schedlab", "load", "mixed"]]
[[event]]
at = "15ms"
node = "a"
speed = "75%"
[[event]]
at = "5ms"
fail = "b"
"#;

    fn read(text: &str) -> NodesFile {
        parse(text, &mut |text, _| Err(text.to_owned())).unwrap()
    }

    #[test]
    fn scripts_and_events_become_speeds_over_time() {
        let file = read(FILE);
        refuse(&file).unwrap();
        let specs: Vec<RunSpec> =
            file.nodes.iter().map(|node| spec(node, &file, false).unwrap()).collect();
        let setting = |knob: &str, value: &str| Setting { knob: knob.into(), value: value.into() };
        let a = setting("speed:0", "50% 25%@10ms 75%@15ms 0.01%@20ms 75%@30ms");
        assert_eq!(specs[0].settings, [a]);
        // On the node's own machine CPU 1 is the first.
        let b = ["speed:0", "speed:1"].map(|knob| setting(knob, "80% 0.01%@5ms"));
        assert_eq!(specs[1].settings, b);
        let WorkloadSpec::Builtin { name, options } = &specs[0].workload else { panic!() };
        assert_eq!((name.as_str(), options["tasks"].as_str()), ("cpu", "2"));
        assert_eq!(options["cpus"], "0");
        let WorkloadSpec::Builtin { options, .. } = &specs[1].workload else { panic!() };
        assert_eq!(options["cpus"], "0-1");
        let said = happened(&file.nodes[0], &file.cluster.events);
        assert_eq!(said, [["speed a 25%"], ["speed a 75%"], ["fail a"], ["recover a"]]);
    }

    #[test]
    fn changes_at_nearly_one_time_stay_apart() {
        let text = FILE.replace("at = \"15ms\"", "at = \"1000001us\"");
        let text = text.replace("at = \"5ms\"\nfail = \"b\"", "at = \"1000002us\"\nfail = \"a\"");
        let file = read(&text);
        let value = &settings(&file.nodes[0], &file.cluster.events)[0].value;
        assert!(value.ends_with(" 75%@1000001000ns 0.01%@1000002000ns"), "{value}");
        let setting = Setting { knob: "speed:0".into(), value: value.clone() };
        let read = schedlab_workload::SpeedSettings::read_over_time(&[setting]).unwrap().1;
        assert!(read.is_sorted_by(|a, b| a.after < b.after) && read.len() == 5, "{read:?}");
    }

    #[test]
    fn what_is_not_simulated_is_refused_with_the_reason() {
        for (from, to, why) in [
            (
                "[[event]]",
                "[[noise]]\ncpus = \"1\"\nrate = 1.0\nlength = \"1ms\"\n[[event]]",
                "noise",
            ),
            ("speed = \"80%\"", "speed = \"80%\"\nmemory = \"50%\"", "node b: memory"),
            ("cpus = \"1-2\"", "cpus = \"0-2\"", "node b: CPU 0 belongs"),
            ("[[event]]", "[node.net]\n[[event]]", "node b: simulated loads send nothing"),
        ] {
            let text = FILE.replacen(from, to, 1);
            let error = refuse(&read(&text)).unwrap_err();
            assert!(error.contains(why), "{to}: {error}");
        }
        for (from, to, why) in [
            ("schedlab load cpu --tasks 2", "./server", "cannot run 'sh -c ./server'"),
            ("\"schedlab load cpu --tasks 2\"", "\"a\", \"b\"", "it has 2 commands"),
            ("load cpu --tasks", "load cpu --task-s", "task-s"),
            ("load cpu --tasks 2", "load cpu --cpus 2", "CPU 2 is not among its cpus 0"),
        ] {
            let file = read(&FILE.replacen(from, to, 1));
            let Err(error) = spec(&file.nodes[0], &file, false) else { panic!("{to} was taken") };
            assert!(error.to_string().contains(why), "{to}: {error}");
        }
    }
}
