//! Where the switches of the port by hand first differ from those of the kernel's code: in the same world, at the same
//! costs, with the same random loads.

use crate::port::port_of;
use crate::{Traced, scenario, seeds};
use schedlab_kernel::OfTree;
use schedlab_model::{Cpu, Event, Left, Nanos, Pid, Prio, What};
use schedlab_sim::{Model, Simulated};
use schedlab_timeline::FirstDifference;
use schedlab_workload::{Machine, Observed, RecordSpec, RunSpec};
use std::collections::BTreeMap;

/// A switch of a CPU. Tasks are numbered from the one that starts the load: 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    at: Nanos,
    prev: i32,
    left: Left,
    next: i32,
    prios: (Prio, Prio),
}

/// The idle task, and threads of the kernel.
const IDLE: i32 = -1;
const THREAD: i32 = -2;

/// The switches of each CPU, in order of time. Threads of the kernel take no time: what they displace goes on behind them.
fn turns(events: &[Event], first: i32) -> Vec<(Cpu, Turn)> {
    let began = events.first().map_or(0, |event| event.time.0 / 1_000_000_000 * 1_000_000_000);
    let number = |pid: Pid| match pid {
        Pid::IDLE => IDLE,
        Pid(pid) if pid < first => THREAD,
        Pid(pid) => pid - first,
    };
    let mut all: Vec<(Cpu, Turn)> = Vec::new();
    let mut held: BTreeMap<Cpu, Turn> = BTreeMap::new();
    for event in events {
        let What::Switch { prev, prev_prio, left, next, next_prio } = event.what else { continue };
        let (prev, next) = (number(prev), number(next));
        let mut turn = Turn { at: Nanos(event.time.0 - began), prev, left, next, prios: (prev_prio, next_prio) };
        if prev == THREAD
            && let Some(before) = held.remove(&event.cpu)
        {
            (turn.prev, turn.left, turn.prios.0) = (before.prev, before.left, before.prios.0);
        }
        if next == THREAD {
            held.insert(event.cpu, turn);
        } else if turn.prev != next {
            all.push((event.cpu, turn));
        }
    }
    all
}

struct Both {
    port: Vec<Event>,
    kernel: Vec<Event>,
    cpus: i32,
}

impl Both {
    /// The events of both runs; `None` if a side refuses the load.
    fn of(kernel: &str, rest: &str, load: &RunSpec) -> Option<Self> {
        let load = RunSpec { record: Some(RecordSpec::default()), ..load.clone() };
        let name = format!("sim:kernel={},{rest}", port_of(kernel)?).parse().unwrap();
        let costs = std::env::var("COSTS").unwrap_or_default().replace(' ', "\n");
        let costs = format!("{}{costs}", crate::port::COSTS);
        let model = Model::of(&name, Some(&costs)).unwrap();
        let cpus = model.topology.places().len();
        let mut of_port = Observed::default();
        Simulated::new(model).run(&load, &mut of_port).ok()?;
        let name = format!("sim:kernel={kernel},{rest}").parse().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut told = Traced(folder.path().join("x.dat"), Observed::default());
        OfTree::new(&name, Some(costs)).unwrap().run(&load, &mut told).ok()?;
        let mut source = schedlab_trace::open(&told.0).unwrap();
        let (mut batch, mut events) = (Vec::new(), Vec::new());
        while source.next(&mut batch).unwrap() {
            events.append(&mut batch);
        }
        Some(Self { port: of_port.events, kernel: events, cpus: i32::try_from(cpus).unwrap() })
    }

    fn difference(&self, is_same: impl Fn(&Turn, &Turn) -> bool) -> FirstDifference<Turn> {
        let port = turns(&self.port, 1_000);
        let kernel = turns(&self.kernel, 1_000 + 10 * self.cpus);
        FirstDifference::of([&port, &kernel], is_same, |turn| turn.at)
    }

    fn show(&self, around: Nanos) {
        let before = |name: &str, default: usize| {
            std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
        };
        for (name, events, first) in
            [("port", &self.port, 1_000), ("kernel", &self.kernel, 1_000 + 10 * self.cpus)]
        {
            let shown = |event: &&Event| matches!(event.what, What::Switch { .. } | What::Wakeup { .. });
            let began = events[0].time.0;
            let events: Vec<&Event> = events.iter().filter(shown).collect();
            let at = events.partition_point(|event| event.time.0 - began <= around.0);
            println!("{name}:");
            for event in &events[at.saturating_sub(before("BEFORE", 12))..(at + std::env::var("AFTER").ok().and_then(|n| n.parse().ok()).unwrap_or(3)).min(events.len())] {
                let n = |pid: Pid| if pid.0 < first { -1 } else { pid.0 - first };
                let time = event.time.0 - began;
                match event.what {
                    What::Switch { prev, left, next, prev_prio, next_prio } => println!("  {time:>10} c{} {} ({}) {left:?} -> {} ({})", event.cpu.0, n(prev), prev_prio.0, n(next), next_prio.0),
                    What::Wakeup { pid, prio, cpu, .. } => println!("  {time:>10} c{} wakeup {} ({}) on {}", event.cpu.0, n(pid), prio.0, cpu.0),
                    _ => {}
                }
            }
        }
    }
}

/// The same load of fair tasks without groups.
fn fair(mut load: RunSpec, what: &str) -> RunSpec {
    if let schedlab_workload::WorkloadSpec::Builtin { options, .. } = &mut load.workload
        && let Some(program) = options.get_mut("program")
    {
        for part in [
            "\"taskgroup\": \"/a\", ",
            "\"taskgroup\": \"/a/b\", ",
            "\"policy\": \"SCHED_FIFO\", \"priority\": 20, ",
            "\"policy\": \"SCHED_RR\", \"priority\": 5, ",
            "\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 2000, \"dl-period\": 20000, ",
        ] {
            if (what != "flat" || part.contains("taskgroup")) && (what != "groups" || !part.contains("taskgroup")) { *program = program.replace(part, ""); }
        }
    }
    load
}

/// What kind of task a priority is of.
fn class(number: i32, prio: Prio) -> &'static str {
    match prio.0 {
        _ if number == IDLE => "idle",
        ..0 => "deadline",
        0..100 => "real-time",
        _ => "fair",
    }
}

fn reason(found: &FirstDifference<Turn>) -> String {
    let what = |turn: &Turn| {
        format!(
            "{} {:?} {}",
            class(turn.prev, turn.prios.0),
            turn.left,
            class(turn.next, turn.prios.1)
        )
    };
    match (&found.before, &found.after) {
        (None, None) => "equal".to_owned(),
        (Some(port), Some(kernel)) => {
            let order = match (port.prev, port.next) == (kernel.prev, kernel.next) {
                true => format!("same order, {}", what(port)),
                false => format!("{}; kernel {}", what(port), what(kernel)),
            };
            let time = match port.at.0.cmp(&kernel.at.0) {
                std::cmp::Ordering::Less => "port first",
                std::cmp::Ordering::Equal => "same time",
                std::cmp::Ordering::Greater => "kernel first",
            };
            format!("{order}, {time}")
        }
        (Some(port), None) => format!("{}; kernel ends", what(port)),
        (None, Some(kernel)) => format!("port ends; kernel {}", what(kernel)),
    }
}

pub(crate) fn switches_are_equal(kernel: &str) {
    if port_of(kernel).is_none() {
        return;
    }
    let only = std::env::var("ONLY").unwrap_or_default();
    let shows = std::env::var_os("SCHEDLAB_SHOW").is_some();
    let mut reasons: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let (mut compared, mut equal, mut in_order) = (0, 0, 0);
    for seed in seeds() {
        let (_, mut load) = scenario(seed);
        if let Ok(what) = std::env::var("FAIR") { load = fair(load, &what); }
        let program = format!("{:?}", load.workload).replace('\\', "");
        let kind = format!("{}{}{}", if program.contains("taskgroup") { "G" } else { "-" }, if program.contains("DEADLINE") { "D" } else { "-" }, if program.contains("_RR") || program.contains("FIFO") { "R" } else { "-" });
        if !only.is_empty() && kind != only { continue; }
        let Some(both) = Both::of(kernel, "cpus=1", &load) else { continue };
        let found = both.difference(|a, b| a == b);
        let order = |a: &Turn, b: &Turn| (a.prev, a.next) == (b.prev, b.next);
        let is_in_order = both.difference(order).before.is_none();
        compared += 1;
        equal += u32::from(found.before.is_none() && found.after.is_none());
        in_order += u32::from(is_in_order);
        reasons.entry(format!("{kind} {}", reason(&found))).or_default().push(seed);
        if shows && let Some(turn) = found.before.or(found.after) {
            println!("==== {seed}: after {} {:?}\n {:?}", found.equal, found.before, found.after);
            println!("{program}");
            both.show(turn.at);
        }
    }
    println!("{compared} compared, {equal} equal, {in_order} in order");
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, seeds)| std::cmp::Reverse(seeds.len()));
    for (reason, seeds) in reasons {
        println!("{} {reason}: {:?}", seeds.len(), &seeds[..seeds.len().min(5)]);
    }
}
