//! Where the switches of the port by hand first differ from those of the kernel's code: in the same world, at the same
//! costs, under the same random loads. `SCHEDLAB_SHOW` prints so many events of both sides before the first
//! difference, `SCHEDLAB_LOADS` names kinds of loads, as `all classes` or `in groups`.
//!
//! Interrupts take no time here. The port charges their work to the task that runs after them, the kernel's world to the
//! one before.

use crate::port::{COSTS, port_of};
use crate::{events_of, recorded, scenario, seeds, with};
use schedlab_kernel::OfTree;
use schedlab_model::{Cpu, Event, Left, Nanos, Pid, Prio, What};
use schedlab_sim::{Model, Simulated};
use schedlab_timeline::{Decision, FirstDifference, first_difference};
use schedlab_workload::{Machine, Observed, RecordSpec, RunSpec, WorkloadSpec};
use std::collections::BTreeMap;

const INTERRUPTS: &str = "tick = 0\ntimer = 0\nwake = 0\n";

/// A switch of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    at: Nanos,
    prev: Pid,
    left: Left,
    next: Pid,
    prios: (Prio, Prio),
}

/// The pid of the task that starts the load, on both sides. Threads of the kernel have lower ones.
const STARTER: i32 = 1_000;

/// Both runs of a load.
struct Both {
    port: Vec<Event>,
    kernel: Vec<Event>,
}

impl Both {
    /// The events of both runs; `None` if a side refuses the load.
    fn of(kernel: &str, rest: &str, load: &RunSpec) -> Option<Self> {
        let load = RunSpec { record: Some(RecordSpec::default()), ..load.clone() };
        let name = format!("sim:kernel={},{rest}", port_of(kernel)?).parse().unwrap();
        let costs = format!("{COSTS}{INTERRUPTS}");
        let model = Model::of(&name, Some(&costs)).unwrap();
        let cpus = i32::try_from(model.topology.places().len()).unwrap();
        let mut of_port = Observed::default();
        Simulated::new(model).run(&load, &mut of_port).ok()?;
        let name = format!("sim:kernel={kernel},{rest}").parse().unwrap();
        let trace = recorded(OfTree::new(&name, Some(costs)).unwrap(), &load).ok()?;
        let (_, events) = events_of(trace);
        let port = decisions(&of_port.events, 0);
        Some(Self { port, kernel: decisions(&events, 10 * cpus) })
    }

    /// The first switch that differs, in its time too.
    fn difference(&self) -> FirstDifference<Turn> {
        let [port, kernel] = [&self.port, &self.kernel].map(|events| turns(events));
        FirstDifference::of([&port, &kernel], |a, b| a == b, |turn| turn.at)
    }

    fn show(&self, around: Nanos, before: usize) {
        for (name, events) in [("port", &self.port), ("kernel", &self.kernel)] {
            let at = events.partition_point(|event| event.time <= around);
            println!("{name}:");
            for event in &events[at.saturating_sub(before)..(at + 3).min(events.len())] {
                println!("  {} {} {:?}", event.time.0, event.cpu, event.what);
            }
        }
    }
}

/// Switches, wakeups and moves of the load's tasks, as times since it began and pids from that of its starter on. Threads
/// of the kernel take no time: what they displace goes on behind them.
fn decisions(events: &[Event], shift: i32) -> Vec<Event> {
    let began = events.first().map_or(0, |event| event.time.0 / 1_000_000_000 * 1_000_000_000);
    let own = |pid: Pid| if pid == Pid::IDLE { pid } else { Pid(pid.0 - shift) };
    let is_thread = |pid: Pid| pid != Pid::IDLE && pid.0 < STARTER;
    let mut held: BTreeMap<Cpu, (Pid, Left, Prio)> = BTreeMap::new();
    let mut all = Vec::new();
    for event in events {
        let what = match event.what {
            What::Switch { prev, prev_prio, left, next, next_prio } => {
                let (mut prev, mut left, mut prev_prio) = (own(prev), left, prev_prio);
                let next = own(next);
                if is_thread(prev) {
                    let Some(before) = held.remove(&event.cpu) else { continue };
                    (prev, left, prev_prio) = before;
                }
                if is_thread(next) {
                    held.insert(event.cpu, (prev, left, prev_prio));
                }
                if is_thread(next) || prev == next {
                    continue;
                }
                What::Switch { prev, prev_prio, left, next, next_prio }
            }
            What::Wakeup { pid, prio, cpu, new } if !is_thread(own(pid)) => {
                What::Wakeup { pid: own(pid), prio, cpu, new }
            }
            What::Migrate { pid, from, to } if !is_thread(own(pid)) => {
                What::Migrate { pid: own(pid), from, to }
            }
            _ => continue,
        };
        all.push(Event { time: Nanos(event.time.0 - began), what, ..*event });
    }
    all
}

fn turns(events: &[Event]) -> Vec<(Cpu, Turn)> {
    let turn = |event: &Event| {
        let What::Switch { prev, prev_prio, left, next, next_prio } = event.what else {
            return None;
        };
        let prios = (prev_prio, next_prio);
        Some((event.cpu, Turn { at: event.time, prev, left, next, prios }))
    };
    events.iter().filter_map(turn).collect()
}

/// What kind of task a priority is of.
fn class(pid: Pid, prio: Prio) -> &'static str {
    match prio.0 {
        _ if pid == Pid::IDLE => "idle",
        ..0 => "deadline",
        0..100 => "real-time",
        _ => "fair",
    }
}

/// In words: who leaves whom to whom, and which side is first.
fn reason(found: &FirstDifference<Turn>) -> String {
    let what = |turn: &Turn| {
        let [prev, next] = [(turn.prev, turn.prios.0), (turn.next, turn.prios.1)]
            .map(|(pid, prio)| class(pid, prio));
        format!("{prev} {:?} {next}", turn.left)
    };
    match (&found.before, &found.after) {
        (None, None) => "equal".to_owned(),
        (Some(port), Some(kernel)) => {
            let order = match (port.prev, port.next) == (kernel.prev, kernel.next) {
                true => format!("the same: {}", what(port)),
                false => format!("port {}, kernel {}", what(port), what(kernel)),
            };
            format!("{order}, {:?}", port.at.cmp(&kernel.at))
        }
        (port, kernel) => format!("one ends: {:?}", port.or(*kernel).as_ref().map(what)),
    }
}

/// The same load without what these words mark, in its tasks.
fn without(load: &RunSpec, parts: &[&str]) -> RunSpec {
    let mut load = load.clone();
    if let WorkloadSpec::Builtin { options, .. } = &mut load.workload
        && let Some(program) = options.get_mut("program")
    {
        parts.iter().for_each(|part| *program = program.replace(part, ""));
    }
    load
}

/// The same load in a group with 20 ms of each 100 ms, in which its groups are.
fn limited(load: &RunSpec) -> RunSpec {
    let mut load = with(load.clone(), &[("cgroup_max", "20ms")]);
    if let WorkloadSpec::Builtin { options, .. } = &mut load.workload
        && let Some(program) = options.get_mut("program")
    {
        *program = program.replace("\"taskgroup\": \"/", "\"taskgroup\": \"@");
    }
    load
}

const GROUPS: [&str; 2] = ["\"taskgroup\": \"/a\", ", "\"taskgroup\": \"/a/b\", "];
const CLASSES: [&str; 3] = [
    "\"policy\": \"SCHED_FIFO\", \"priority\": 20, ",
    "\"policy\": \"SCHED_RR\", \"priority\": 5, ",
    "\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 2000, \"dl-period\": 20000, ",
];

/// How many loads were compared, and how many had equal switches to the end, with their times.
fn count(kernel: &str, parts: &[&str], is_limited: bool) -> (usize, usize) {
    let shows = std::env::var("SCHEDLAB_SHOW").ok().map(|events| events.parse().unwrap());
    let mut reasons: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for seed in seeds() {
        let mut load = without(&scenario(seed).1, parts);
        if is_limited {
            load = limited(&load);
        }
        let Some(both) = Both::of(kernel, "cpus=1", &load) else { continue };
        let found = both.difference();
        reasons.entry(reason(&found)).or_default().push(seed);
        if let (Some(shows), Some(turn)) = (shows, found.before.or(found.after)) {
            println!("{seed}: {:?}\n{:?}\n{:?}", load.workload, found.before, found.after);
            both.show(turn.at, shows);
        }
    }
    for (reason, seeds) in &reasons {
        let shown = if reason == "equal" { &seeds[..seeds.len().min(5)] } else { seeds };
        println!("{} {reason}: {shown:?}", seeds.len());
    }
    let equal = reasons.get("equal").map_or(0, Vec::len);
    (reasons.values().map(Vec::len).sum(), equal)
}

/// On one CPU the port decides as the kernel does.
pub(crate) fn switches_are_equal(kernel: &str) {
    if port_of(kernel).is_none() {
        return;
    }
    let asked = std::env::var("SCHEDLAB_LOADS").unwrap_or_default();
    let fair = [&GROUPS[..], &CLASSES[..]].concat();
    for (what, parts, is_limited) in [
        ("fair tasks", &fair[..], false),
        ("fair tasks in groups", &CLASSES[..], false),
        ("fair tasks in limited groups", &CLASSES[..], true),
        ("all classes", &GROUPS[..], false),
        ("all classes in groups", &[], false),
        ("all classes in limited groups", &[], true),
    ] {
        if !what.contains(&asked) {
            continue;
        }
        let (compared, equal) = count(kernel, parts, is_limited);
        println!("{what}: {equal} of {compared} are equal to the end");
        assert!(compared > 0 && equal == compared, "{what}: {equal} of {compared}");
    }
}

/// What kind of decision differs first on several CPUs.
fn kind(both: &Both) -> &'static str {
    let found = first_difference(&both.port, &both.kernel);
    let of = |side: Option<schedlab_timeline::Decided>, events: &[Event]| match side?.decision {
        Decision::Switch { .. } => Some("who runs"),
        Decision::Wakeup { .. } => Some("placement"),
        Decision::Move { pid, .. } => {
            let at = side?.at;
            let mut near = events.iter().filter(|event| event.time == at);
            let woken =
                near.any(|event| matches!(event.what, What::Wakeup { pid: of, .. } if of == pid));
            Some(if woken { "placement" } else { "balancing" })
        }
    };
    match (of(found.before, &both.port), of(found.after, &both.kernel)) {
        (None, None) => "none",
        (Some("placement"), _) | (_, Some("placement")) => "placement",
        (Some("balancing"), _) | (_, Some("balancing")) => "balancing",
        _ => "who runs",
    }
}

/// On several CPUs the port places and balances by rules of its own: it parts from the kernel there, not in whom a CPU picks.
pub(crate) fn placement_differs_first(kernel: &str) {
    if port_of(kernel).is_none() {
        return;
    }
    for cpus in [2, 8, 64] {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for seed in seeds().step_by(4) {
            let (_, load) = scenario(seed);
            if let Some(both) = Both::of(kernel, &format!("cpus={cpus}"), &load) {
                *kinds.entry(kind(&both)).or_default() += 1;
            }
        }
        println!("{cpus} CPUs: {kinds:?}");
        let of = |name| kinds.get(name).copied().unwrap_or(0);
        assert!(of("placement") + of("balancing") >= of("who runs"), "{cpus}: {kinds:?}");
    }
}
