//! The probes: a start of a few tasks, a lone sender, a ping-pong, a forced switch.

use super::load_phases::Story;
use crate::Kernel;
use schedlab_model::Setting;
use schedlab_workload::{Observed, RecordSpec, RunSpec, WorkloadSpec};

/// Small runs, a number that is read off them, and the costs that it decides.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The name of the probe.
    pub name: &'static str,
    /// The costs that the number decides; several keep the ratio of the costs that the search begins with.
    pub costs: &'static [&'static str],
    /// What is read off the runs, as a noun.
    pub what: &'static str,
    /// The runs that the probe needs.
    pub runs: Vec<RunSpec>,
    /// The number in nanoseconds; `None`: the runs do not show it.
    pub read: fn(&[Observed]) -> Option<f64>,
}

type Options = [(&'static str, &'static str)];

fn run(name: &str, options: &Options, knobs: &Options) -> RunSpec {
    let text = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    let options = options.iter().map(text).collect();
    let setting =
        |&(knob, value): &(&str, &str)| Setting { knob: knob.to_owned(), value: value.to_owned() };
    let settings = knobs.iter().map(setting).collect();
    let workload = WorkloadSpec::Builtin { name: name.to_owned(), options };
    RunSpec { settings, ..RunSpec::of(workload) }
}

/// One sender and one reader.
fn pair(loops: &'static str, pipe: bool, knobs: &Options) -> RunSpec {
    let all = [("groups", "1"), ("fds", "1"), ("loops", loops), ("pipe", "true")];
    run("hackbench", if pipe { &all } else { &all[..3] }, knobs)
}

fn pingpong(rounds: &'static str, via: &'static str, knobs: &Options) -> RunSpec {
    run("pingpong", &[("via", via), ("processes", "true"), ("rounds", rounds)], knobs)
}

/// The time that the second run takes longer than the first, for each of `more` units.
fn each(seen: &[Observed], more: f64) -> Option<f64> {
    let [short, long] = seen else { return None };
    let time = |seen: &Observed| seen.figures.get("time_s").copied();
    Some((time(long)? - time(short)?) * 1e9 / more)
}

/// The probes that a kernel has the knobs for.
///
/// A lone sender needs a waking reader that does not preempt; a forced switch needs one that does.
#[must_use]
pub fn probes(kernel: Kernel) -> Vec<Probe> {
    let cfs = kernel == Kernel::Cfs61;
    let period = [("latency", "24ms"), ("min_granularity", "20ms")];
    let calm: Vec<(&str, &str)> = match kernel {
        Kernel::Cfs61 => [&period[..], &[("wakeup_granularity", "30ms")]].concat(),
        Kernel::Eevdf612 => vec![("features", "NO_WAKEUP_PREEMPTION")],
        _ => Vec::new(),
    };
    let hasty = [&period[..], &[("wakeup_granularity", "0")]].concat();
    let mut all = start(&calm);
    all.push(Probe {
        name: "lone sender, pipe",
        costs: &["send_pipe", "receive_pipe"],
        what: "a message through a pipe that nobody waits at",
        runs: vec![pair("100", true, &calm), pair("600", true, &calm)],
        read: |seen| each(seen, 500.0),
    });
    all.push(Probe {
        name: "ping-pong, pipe",
        costs: if cfs { &["block", "wake"] } else { &["block", "wake", "switch"] },
        what: "a round trip through two pipes",
        runs: vec![pingpong("200", "pipe", &calm), pingpong("1000", "pipe", &calm)],
        read: |seen| each(seen, 800.0),
    });
    all.push(Probe {
        name: "ping-pong, socket",
        costs: &["send_socket", "receive_socket"],
        what: "a round trip through two sockets",
        runs: vec![pingpong("200", "socket", &calm), pingpong("1000", "socket", &calm)],
        read: |seen| each(seen, 800.0),
    });
    if cfs {
        all.push(Probe {
            name: "forced switch",
            costs: &["switch"],
            what: "a message through a socket whose reader preempts",
            runs: vec![pair("500", false, &hasty), pair("1500", false, &hasty)],
            read: |seen| each(seen, 1_000.0),
        });
    }
    all.push(Probe {
        name: "lone sender, full socket",
        costs: &["slab_step"],
        what: "a message through a socket with many unread",
        runs: vec![pair("1000", false, &calm), pair("2500", false, &calm)],
        read: |seen| each(seen, 1_500.0),
    });
    all.push(Probe {
        name: "lone sender, new memory",
        costs: &["slab_new"],
        what: "a message through a socket with more unread than ever before",
        runs: vec![pair("100", false, &calm), pair("250", false, &calm)],
        read: |seen| each(seen, 150.0),
    });
    all
}

/// The probes that read the start and the end of a load off a recording.
fn start(calm: &Options) -> Vec<Probe> {
    let options = [("groups", "2"), ("fds", "8"), ("loops", "10"), ("pipe", "true")];
    let load = RunSpec { record: Some(RecordSpec::default()), ..run("hackbench", &options, calm) };
    let probe =
        |name, costs, what, read| Probe { name, costs, what, runs: vec![load.clone()], read };
    vec![
        probe("fork", &["fork"], "the time between two forks", |seen| Story::of(&seen[0]).fork()),
        probe("new task", &["prepare"], "a new task's way to the start", |seen| {
            Story::of(&seen[0]).prepare()
        }),
        probe(
            "beginning",
            &["begin"],
            "the time from the last task's readiness to the start",
            |seen| Story::of(&seen[0]).begin(),
        ),
        probe("first write", &["first"], "a sender's way to its first message", |seen| {
            Story::of(&seen[0]).first()
        }),
        probe("first read", &["first_read"], "a reader's way to its first sleep", |seen| {
            Story::of(&seen[0]).first_read()
        }),
        probe("end", &["exit"], "the end of a task", |seen| Story::of(&seen[0]).exit()),
        probe("reaping", &["reap"], "what the starter does when a task ends", |seen| {
            Story::of(&seen[0]).reap()
        }),
        probe("RCU", &["rcu"], "a run of the kernel's RCU thread", |seen| {
            Story::of(&seen[0]).rcu()
        }),
    ]
}
