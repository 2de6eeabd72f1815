//! What each load performs and counts, operation by operation.

use super::*;
use crate::{DialId, workloads};
use schedlab_model::{CpuSet, Topology};
use std::collections::BTreeMap;

fn planned(name: &str, given: &[(&str, &str)]) -> Plan {
    let around = MachineProperties {
        topology: Topology::flat(4),
        allowed: CpuSet::first(4),
        speed: 1_000,
        seed: 1,
    };
    let given = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    workloads::plan(name, &given, &around).unwrap()
}

/// Sums what is counted and keeps what is sampled.
#[derive(Default)]
struct Heard {
    counts: BTreeMap<u32, u64>,
    samples: Vec<(u32, u64)>,
}

impl Instruments for Heard {
    fn sample(&mut self, series: SampleId, value: u64) {
        self.samples.push((series.0, value));
    }
    fn count(&mut self, counter: CounterId, by: u64) {
        *self.counts.entry(counter.0).or_default() += by;
    }
    fn dial(&self, _: DialId) -> u64 {
        0
    }
}

/// The first `steps` operations of a task, and one step more, so that the last one counts; each takes a
/// microsecond.
fn lived(
    plan: &mut Plan,
    task: usize,
    steps: usize,
    done: impl Fn(&Op) -> Done,
) -> (Vec<Op>, Heard) {
    let (mut heard, mut ops, mut last, mut now) =
        (Heard::default(), Vec::new(), Done::Start, Nanos(1));
    for _ in 0..=steps {
        let op = plan.tasks[task].behaviour.next(now, last, &mut heard);
        ops.push(op);
        if op == Op::Exit {
            break;
        }
        last = done(&op);
        now += Nanos::from_micros(1);
    }
    ops.truncate(steps);
    (ops, heard)
}

#[test]
fn stream_goes_through_its_four_kernels_and_counts_bytes_as_stream_does() {
    let mut plan = planned("stream", &[("array", "8MiB"), ("tasks", "2")]);
    let elements = 1 << 20;
    assert_eq!(plan.blocks, [Block::Arrays { elements }]);
    let (ops, heard) = lived(&mut plan, 0, 4, |_| Done::Ok);
    let sweeps: Vec<Sweep> = ops
        .iter()
        .map(|op| if let Op::Stream { sweep, .. } = op { *sweep } else { panic!("{op:?}") })
        .collect();
    assert_eq!(sweeps, [Sweep::Copy, Sweep::Scale, Sweep::Add, Sweep::Triad]);
    // McCalpin: copy and scale move two words of 8 bytes an element, add and triad three.
    assert_eq!(heard.counts[&0], u64::from(elements) * (16 + 16 + 24 + 24));
    assert_eq!(heard.samples, [(0, 1_000), (1, 1_000), (2, 1_000), (3, 1_000)]);
}

#[test]
fn mixed_sleeps_and_computes_by_turns_and_counts_its_loops() {
    let mut plan = planned("mixed", &[("work", "3ms"), ("sleep", "2ms")]);
    let (ops, heard) = lived(&mut plan, 0, 6, |_| Done::Ok);
    let turn = [Op::Sleep(Nanos::from_millis(2)), Op::Compute { iterations: 3_000_000 }];
    assert_eq!(ops, [turn, turn, turn].concat());
    assert_eq!((heard.counts[&0], heard.samples.len()), (3, 3));
}

#[test]
fn computing_loads_only_compute_as_threads_or_processes() {
    for (name, tasks, processes) in
        [("cpu", 1, false), ("threads", 5, false), ("processes", 5, true)]
    {
        let mut plan = planned(name, &[("work", "1ms")]);
        assert_eq!((plan.tasks.len(), plan.processes), (tasks, processes), "{name}");
        let (ops, heard) = lived(&mut plan, 0, 4, |_| Done::Ok);
        assert_eq!(ops, [Op::Compute { iterations: 1_000_000 }; 4], "{name}");
        assert_eq!(heard.counts[&0], 4, "{name}");
    }
}

#[test]
fn one_task_of_a_barrier_has_more_to_do_and_it_alone_counts_rounds() {
    let mut plan = planned("barrier", &[("work", "1ms"), ("imbalance", "50"), ("rounds", "3")]);
    assert_eq!((plan.tasks.len(), &plan.barriers[..]), (4, &[4][..]), "a task for each CPU");
    let meet = Op::Meet(BarrierId(0));
    for (task, iterations, rounds) in [(0, 1_500_000, Some(&3)), (1, 1_000_000, None)] {
        let (ops, heard) = lived(&mut plan, task, 6, |_| Done::Ok);
        let round = [Op::Compute { iterations }, meet];
        assert_eq!(ops, [round, round, round].concat(), "task {task}");
        assert_eq!(heard.counts.get(&0), rounds, "task {task}");
    }
}

#[test]
fn a_datagram_is_counted_when_it_was_sent_and_the_loopback_is_called_cpu_work() {
    let mut plan = planned("udp", &[("datasize", "100")]);
    assert!(plan.notes[0].contains("CPU work") && plan.link_bit_s.is_none());
    let (ops, heard) = lived(&mut plan, 0, 5, |_| Done::Ok);
    assert_eq!(ops, [Op::Send { channel: ChannelId(0), bytes: 100 }; 5]);
    assert_eq!((heard.counts[&0], heard.counts[&1]), (5, 500));
    let plan = planned("udp", &[("rate", "10Mbit")]);
    assert!(plan.notes[0].contains("over a link") && plan.link_bit_s == Some(10_000_000));
}

#[test]
fn a_token_goes_there_and_back_whatever_carries_it() {
    for via in ["pipe", "socket", "inet", "eventfd", "futex"] {
        let mut plan = planned("pingpong", &[("via", via), ("rounds", "2")]);
        let done = |op: &Op| match op {
            Op::Wait(_) => Done::Woken { stamp: Nanos(1) },
            Op::Receive { .. } => Done::Received { stamp: Nanos(1) },
            _ => Done::Ok,
        };
        let sends = |op: &&Op| matches!(op, Op::Send { .. } | Op::Wake { .. });
        for (task, trips) in [(0, Some(&2)), (1, None)] {
            let (ops, heard) = lived(&mut plan, task, 9, done);
            assert_eq!(ops.iter().filter(sends).count(), 2, "{via}: {ops:?}");
            assert_eq!((ops.len(), ops.last()), (5, Some(&Op::Exit)), "{via}: {ops:?}");
            assert_eq!(heard.counts.get(&0), trips, "{via}");
        }
        let carried: Vec<Transport> = plan.channels.iter().map(|c| c.transport).collect();
        let expected = match via {
            "pipe" => vec![Transport::Pipe; 2],
            "socket" => vec![Transport::SocketPair; 2],
            "inet" => vec![Transport::Inet; 2],
            "eventfd" => vec![Transport::EventFd; 2],
            _ => Vec::new(),
        };
        assert_eq!((carried, plan.words), (expected, if via == "futex" { 2 } else { 0 }));
    }
}
