//! The probes: a start of a few tasks, a lone sender, a ping-pong, a forced switch.

use super::load_phases::LoadEvents;
use crate::Kernel;
use schedlab_model::Setting;
use schedlab_workload::{Observed, RecordSpec, RunSpec, WorkloadSpec};

/// Small runs, a number that is read off them, and the costs that it decides.
#[derive(Clone, Debug)]
pub struct Probe {
    pub name: &'static str,
    /// The costs that the number decides; several keep the ratio of the costs that the search begins with.
    pub costs: &'static [&'static str],
    /// What is read off the runs, as a noun.
    pub(crate) what: &'static str,
    pub(crate) runs: Vec<RunSpec>,
    /// The number in nanoseconds; `None`: the runs do not show it.
    pub(crate) read: fn(&[Observed]) -> Option<f64>,
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

/// CPU time of a role that the second run takes longer than the first, in nanoseconds.
fn cpu_of(seen: &[Observed], role: &str) -> Option<f64> {
    let [short, long] = seen else { return None };
    let figure = |seen: &Observed, name: &str| {
        seen.of_roles.get(&(name.to_owned(), role.to_owned())).copied()
    };
    let time = |seen: &Observed| Some(figure(seen, "cpu_user_s")? + figure(seen, "cpu_system_s")?);
    Some((time(long)? - time(short)?) * 1e9)
}

/// Messages of the shorter and the longer run of a pair whose reader preempts, and those by which they differ. While
/// both begin, the reader has less CPU time behind it than the sender; later it may not preempt any more.
const FEW: [&str; 2] = ["20", "80"];
const MORE: f64 = 60.0;

/// CPU time of sender and reader for each message, if nearly every message made the reader preempt.
fn forced(seen: &[Observed]) -> Option<(f64, f64)> {
    let [short, long] = seen else { return None };
    let displaced = |seen: &Observed| seen.figures.get("switches_involuntary").copied();
    if displaced(long)? - displaced(short)? < 0.95 * MORE {
        return None;
    }
    Some((cpu_of(seen, "sender")? / MORE, cpu_of(seen, "receiver")? / MORE))
}

/// What a block and a wakeup take, from a ping-pong without preemption (the first two runs) and one with. A preempted
/// writer finds its answer without sleeping.
fn block_and_wake(seen: &[Observed]) -> Option<f64> {
    let [calm_short, calm_long, hasty_short, hasty_long] = seen else { return None };
    let more = |name: &str| {
        let of = |seen: &Observed| seen.figures.get(name).copied();
        Some(of(calm_long)? - of(calm_short)? - (of(hasty_long)? - of(hasty_short)?))
    };
    let time = more("time_s")?;
    let sleeps = more("switches_voluntary")?;
    (sleeps >= 100.0).then(|| time * 1e9 / sleeps)
}

/// Sender, reader, and a block with a wakeup, in nanoseconds: of the six runs of the probes below.
fn parts(seen: &[Observed]) -> Option<(f64, f64, f64)> {
    let (forced_pair, pingpongs) = seen.split_at_checked(2)?;
    let (sender, reader) = forced(forced_pair)?;
    Some((sender, reader, block_and_wake(pingpongs)?))
}

/// The probes that a kernel has the knobs for.
///
/// A lone sender needs a waking reader that does not preempt; a forced switch needs one that does.
#[must_use]
pub fn probes(kernel: Kernel) -> Vec<Probe> {
    let cfs = kernel == Kernel::Cfs61;
    let period = [("latency", "24ms"), ("min_granularity", "20ms")];
    let calm: Vec<(&str, &str)> = match kernel {
        _ if cfs => [&period[..], &[("wakeup_granularity", "30ms")]].concat(),
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
    match cfs {
        true => all.extend(switches(&calm, &hasty)),
        false => all.extend(round_trips(&calm)),
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
    if kernel.is_linux() {
        all.extend(times());
        all.extend(objects(&calm));
    }
    all
}

/// What sleeps, ticks and timers take.
fn times() -> Vec<Probe> {
    const LONE: &str = r#"{"tasks":{"t":{"run":100,"timer":{"ref":"unique","period":3100}}}}"#;
    const ABOVE: &str = r#"{"tasks":{"t":{"policy":"SCHED_FIFO","priority":10,"run":100,
        "timer":{"ref":"unique","period":3100}},"hog":{"run":1000}}}"#;
    let probe = |name, costs, what, runs, read| Probe { name, costs, what, runs, read };
    let sleeps =
        |time| run("mixed", &[("work", "10us"), ("sleep", "1ms"), ("duration", time)], &[]);
    let rt_app = |text| run("rt-app", &[("program", text), ("duration", "200ms")], &[]);
    let ticks = run("cpu", &[("work", "10us"), ("duration", "200ms")], &[]);
    vec![
        probe(
            "sleep",
            &["sleep"],
            "the CPU time of a sleep",
            vec![sleeps("50ms"), sleeps("250ms")],
            |s| {
                let [short, long] = s else { return None };
                let of = |seen: &Observed, name: &str| seen.figures.get(name).copied();
                let cpu =
                    |seen: &Observed| Some(of(seen, "cpu_user_s")? + of(seen, "cpu_system_s")?);
                Some((cpu(long)? - cpu(short)?) * 1e9 / (of(long, "loops")? - of(short, "loops")?))
            },
        ),
        probe("tick", &["tick"], "a tick", vec![ticks], |seen| {
            Some(figure(seen, "burst_ns_p999")? - figure(seen, "burst_ns_p50")?)
        }),
        probe(
            "timer on an idle CPU",
            &["idle_exit"],
            "the lateness of a lone task",
            vec![rt_app(LONE)],
            |seen| figure(seen, "wakeup_latency_ns_p50"),
        ),
        probe(
            "timer on a busy CPU",
            &["timer"],
            "the lateness of a real-time task beside another",
            vec![rt_app(ABOVE)],
            |seen| figure(seen, "wakeup_latency_ns_p50"),
        ),
    ]
}

/// What switches between processes, futexes, eventfds and products of matrices take.
fn objects(calm: &Options) -> Vec<Probe> {
    let probe = |name, costs, what, runs, read| Probe { name, costs, what, runs, read };
    let schbench = |operations| {
        let options = [("threads", "1"), ("cache_footprint", "32"), ("sleep_usec", "200")];
        let more = [("operations", operations), ("runtime", "60ms")];
        run("schbench", &[&options[..], &more[..]].concat(), &[])
    };
    let futex = |processes, rounds| {
        run("pingpong", &[("via", "futex"), ("processes", processes), ("rounds", rounds)], calm)
    };
    let round = |via| vec![pingpong("200", via, calm), pingpong("1000", via, calm)];
    vec![
        probe(
            "threads and processes",
            &["switch_process"],
            "what a switch between processes takes longer",
            ["true", "false"]
                .into_iter()
                .flat_map(|of| ["200", "1000"].map(|n| futex(of, n)))
                .collect(),
            |seen| {
                let (processes, threads) = seen.split_at_checked(2)?;
                Some((each(processes, 800.0)? - each(threads, 800.0)?) / 2.0)
            },
        ),
        probe(
            "futex",
            &["post", "wait"],
            "a round trip through two futexes",
            round("futex"),
            |seen| each(seen, 800.0),
        ),
        probe(
            "eventfd",
            &["eventfd"],
            "a round trip through two eventfds",
            round("eventfd"),
            |seen| each(seen, 800.0),
        ),
        probe(
            "matrices",
            &["multiply_1000"],
            "two products of matrices of 32 KiB",
            vec![schbench("1"), schbench("3")],
            |seen| {
                let [one, three] = seen else { return None };
                let time = |seen: &Observed| seen.figures.get("request_latency_ns_p50").copied();
                Some(time(three)? - time(one)?)
            },
        ),
    ]
}

/// A figure of the first run.
fn figure(seen: &[Observed], name: &str) -> Option<f64> {
    seen.first()?.figures.get(name).copied()
}

/// What sleeping, waking and switching take, and messages of sockets, where knobs decide whether a reader preempts.
///
/// A message whose reader preempts takes a wakeup and a switch from its sender, and a block and a switch from its
/// reader. So its CPU times and the time of a block with a wakeup give all three.
fn switches(calm: &Options, hasty: &Options) -> Vec<Probe> {
    let pingpongs = [calm, hasty]
        .into_iter()
        .flat_map(|knobs| ["200", "1000"].map(|rounds| pingpong(rounds, "pipe", knobs)));
    let runs: Vec<RunSpec> =
        FEW.iter().map(|loops| pair(loops, true, hasty)).chain(pingpongs).collect();
    let probe = |name, costs, what, read| Probe { name, costs, what, runs: runs.clone(), read };
    let sockets = |name, costs, what, read| {
        let runs = FEW.iter().map(|loops| pair(loops, false, hasty)).collect();
        Probe { name, costs, what, runs, read }
    };
    vec![
        probe("forced switch", &["switch"], "a switch beside half a message", |seen| {
            let (sender, reader, both) = parts(seen)?;
            Some((sender + reader - both) / 2.0)
        }),
        probe("forced wakeup", &["wake"], "a wakeup beside what sending takes longer", |seen| {
            let (sender, reader, both) = parts(seen)?;
            Some((sender - reader + both) / 2.0)
        }),
        probe("forced block", &["block"], "a block beside what reading takes longer", |seen| {
            let (sender, reader, both) = parts(seen)?;
            Some((reader - sender + both) / 2.0)
        }),
        sockets(
            "forced switch, sender of a socket",
            &["send_socket"],
            "the sender's time for a message through a socket whose reader preempts",
            |seen| Some(forced(seen)?.0),
        ),
        sockets(
            "forced switch, reader of a socket",
            &["receive_socket"],
            "the reader's time for a message through a socket whose reader preempts",
            |seen| Some(forced(seen)?.1),
        ),
    ]
}

/// The same where a reader cannot be made to preempt: sleeping, waking and switching keep their ratio.
fn round_trips(calm: &Options) -> Vec<Probe> {
    let probe = |via, name, costs, what| Probe {
        name,
        costs,
        what,
        runs: vec![pingpong("200", via, calm), pingpong("1000", via, calm)],
        read: |seen| each(seen, 800.0),
    };
    vec![
        probe(
            "pipe",
            "ping-pong, pipe",
            &["block", "wake", "switch"],
            "a round trip through two pipes",
        ),
        probe(
            "socket",
            "ping-pong, socket",
            &["send_socket", "receive_socket"],
            "a round trip through two sockets",
        ),
    ]
}

/// The probes that read the start and the end of a load off a recording.
fn start(calm: &Options) -> Vec<Probe> {
    let options = [("groups", "2"), ("fds", "8"), ("loops", "10"), ("pipe", "true")];
    let load = RunSpec { record: Some(RecordSpec::default()), ..run("hackbench", &options, calm) };
    let probe =
        |name, costs, what, read| Probe { name, costs, what, runs: vec![load.clone()], read };
    vec![
        probe("fork", &["fork"], "the time between two forks", |seen| {
            LoadEvents::of(&seen[0]).fork()
        }),
        probe("new task", &["prepare"], "a new task's way to the start", |seen| {
            LoadEvents::of(&seen[0]).prepare()
        }),
        probe(
            "beginning",
            &["begin"],
            "the time from the last task's readiness to the start",
            |seen| LoadEvents::of(&seen[0]).begin(),
        ),
        probe("first write", &["first"], "a sender's way to its first message", |seen| {
            LoadEvents::of(&seen[0]).first()
        }),
        probe("first read", &["first_read"], "a reader's way to its first sleep", |seen| {
            LoadEvents::of(&seen[0]).first_read()
        }),
        probe("end", &["exit"], "the end of a task", |seen| LoadEvents::of(&seen[0]).exit()),
        probe("reaping", &["reap"], "what the starter does when a task ends", |seen| {
            LoadEvents::of(&seen[0]).reap()
        }),
        probe("RCU", &["rcu"], "a run of the kernel's RCU thread", |seen| {
            LoadEvents::of(&seen[0]).rcu()
        }),
    ]
}
