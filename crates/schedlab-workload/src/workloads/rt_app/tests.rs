//! Each construct of the grammar yields the operations that its documentation promises, and what is
//! not of the grammar is reported with its place.

use super::*;
use crate::{
    BarrierId, CounterId, Done, ForkId, Instruments, LockId, Op, PlaceId, QueueId, SampleId,
};
use crate::{SemaphoreId, WordId};
use schedlab_model::{CpuSet, Phase};

fn planned(text: &str) -> Result<Plan, crate::workloads::PlanError> {
    let around = MachineProperties {
        topology: schedlab_model::Topology::flat(4),
        allowed: CpuSet::first(4),
        speed: 1_000,
        seed: 1,
    };
    let given = [("program".to_owned(), text.to_owned())].into_iter().collect();
    crate::workloads::plan("rt-app", &given, &around)
}

/// Notes what it learns.
#[derive(Default)]
struct Heard {
    samples: Vec<(u32, u64)>,
    counts: Vec<u32>,
    marks: Vec<(u32, Phase)>,
}

impl Instruments for Heard {
    fn sample(&mut self, series: SampleId, value: u64) {
        self.samples.push((series.0, value));
    }
    fn count(&mut self, counter: CounterId, _: u64) {
        self.counts.push(counter.0);
    }
    fn dial(&self, _: crate::DialId) -> u64 {
        0
    }
    fn mark(&mut self, _: Nanos, id: u32, phase: Phase) {
        self.marks.push((id, phase));
    }
}

/// The operations of the plan's task `index` until it ends, each of which takes no time but for
/// sleeps and `compute` for each computation; `answer` tells how each went.
fn lived(
    plan: &mut Plan,
    index: usize,
    compute: u64,
    answer: impl Fn(&Op) -> Done,
) -> (Vec<Op>, Heard) {
    let mut last = Done::Start;
    let mut ops = Vec::new();
    let mut now = Nanos(1);
    let mut heard = Heard::default();
    while ops.len() < 1_000 {
        let op = plan.tasks[index].behaviour.next(now, last, &mut heard);
        match op {
            Op::Exit => break,
            Op::Sleep(time) => now += time,
            Op::SleepUntil(until) => now = now.max(until),
            Op::Compute { .. } => now += Nanos(compute),
            _ => {}
        }
        last = answer(&op);
        ops.push(op);
    }
    (ops, heard)
}

fn ops(plan: &mut Plan, index: usize, answer: impl Fn(&Op) -> Done) -> Vec<Op> {
    lived(plan, index, 0, answer).0
}

/// The operations of one task with these events.
fn of(events: &str) -> Vec<Op> {
    let text = format!(
        r#"{{"tasks": {{"t": {{"loop": 1, {events}}}}}, "global": {{"mem_buffer_size": 1000}}}}"#
    );
    let mut plan = planned(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    ops(&mut plan, 0, |op| if matches!(op, Op::Pop(_)) { Done::Empty } else { Done::Ok })
}

#[test]
fn each_event_performs_its_operations() {
    let fill = |bytes| Op::Fill { block: BlockId(0), bytes };
    let send = |bytes| Op::Send { channel: ChannelId(0), bytes };
    let row = QueueId(0);
    let table: [(&str, Vec<Op>); 15] = [
        (r#""run": 3"#, vec![Op::Compute { iterations: 3_000 }]),
        (r#""sleep_b": 5"#, vec![Op::Sleep(Nanos(5_000))]),
        (r#""lock": "m", "unlock1": "m""#, vec![Op::Lock(LockId(0)), Op::Unlock(LockId(0))]),
        (r#""barrier": "b""#, vec![Op::Meet(BarrierId(0))]),
        (r#""sem_post": "s""#, vec![Op::Post(SemaphoreId(0))]),
        (r#""sem_wait": "s""#, vec![Op::AwaitPost(SemaphoreId(0))]),
        (r#""yield": """#, vec![Op::Yield]),
        (r#""yield""#, vec![Op::Yield]),
        (r#""mem": 2500"#, vec![fill(1_000), fill(1_000), fill(500)]),
        (r#""iorun": 1500"#, vec![send(1_000), send(500)]),
        (r#""suspend": "whatever""#, vec![Op::Push { queue: row, value: 0 }, Op::Wait(WordId(0))]),
        (r#""resume": "t""#, vec![Op::Pop(row)]),
        (
            r#""memrun": {"type": "read", "size": 64, "count": 100}"#,
            vec![Op::Walk { block: BlockId(0), bytes: 100, writes: false }],
        ),
        (
            r#""memrun": {"type": "write", "size": 64, "count": 9}"#,
            vec![Op::Walk { block: BlockId(0), bytes: 9, writes: true }],
        ),
        (
            r#""memrun": {"type": "chase", "size": 4096, "count": 7, "pattern": "sequential"}"#,
            vec![Op::Chase { block: BlockId(0), steps: 7 }],
        ),
    ];
    for (events, expected) in table {
        assert_eq!(of(events), expected, "{events}");
    }
}

#[test]
fn a_runtime_computes_until_its_time_has_passed() {
    let text = r#"{"tasks": {"t": {"loop": 1, "runtime": 100}}}"#;
    let (ops, heard) = lived(&mut planned(text).unwrap(), 0, 30_000, |_| Done::Ok);
    assert_eq!(ops, [Op::Compute { iterations: 20_000 }; 4]);
    assert_eq!(heard.samples, [(1, 120_000)]);
}

#[test]
fn events_come_in_the_order_in_which_they_are_written_and_phases_are_marked() {
    let text = r#"{"tasks": {"t": {"loop": 2, "phases": {
        "b": {"loop": 2, "sleep": 5, "run": 3}, "a": {"lock": "m", "unlock": "m"}}}}}"#;
    let mut plan = planned(text).unwrap();
    let (ops, heard) = lived(&mut plan, 0, 0, |_| Done::Ok);
    let once = [
        Op::Sleep(Nanos(5_000)),
        Op::Compute { iterations: 3_000 },
        Op::Sleep(Nanos(5_000)),
        Op::Compute { iterations: 3_000 },
        Op::Lock(LockId(0)),
        Op::Unlock(LockId(0)),
    ];
    assert_eq!(ops, [once, once].concat());
    assert_eq!(plan.marks, ["t: b", "t: a"]);
    let pair = |id| [(id, Phase::Begin), (id, Phase::End)];
    let round = [pair(0), pair(0), pair(1)].concat();
    assert_eq!(heard.marks, [round.clone(), round].concat());
}

#[test]
fn a_delay_comes_once_and_first() {
    let text = r#"{"tasks": {"t": {"delay": 70, "loop": 2, "yield": ""}}}"#;
    let expected = [Op::Sleep(Nanos(70_000)), Op::Yield, Op::Yield];
    assert_eq!(ops(&mut planned(text).unwrap(), 0, |_| Done::Ok), expected);
}

/// When a task with a run of 10 ms, once of 30 ms, and a timer of 20 ms is to wake, in ms.
fn timer(mode: &str) -> (Vec<u64>, Heard) {
    let text = format!(
        r#"{{"tasks": {{"t": {{"loop": 1, "phases": {{
            "a": {{"loop": 2, "runtime": 10000, "timer": {{"ref": "unique", "period": 20000, "mode": "{mode}"}}}},
            "b": {{"runtime": 30000, "timer": {{"ref": "unique", "period": 20000, "mode": "{mode}"}}}},
            "c": {{"loop": 2, "runtime": 10000, "timer": {{"ref": "unique", "period": 20000, "mode": "{mode}"}}}}}}}}}}}}"#
    );
    let (ops, heard) = lived(&mut planned(&text).unwrap(), 0, 10_000_000, |_| Done::Ok);
    let until =
        |op: &Op| if let Op::SleepUntil(until) = op { Some(until.0 / 1_000_000) } else { None };
    (ops.iter().filter_map(until).collect(), heard)
}

#[test]
fn a_missed_relative_timer_starts_anew_and_an_absolute_one_catches_up() {
    // The first period counts from the begin of the phase: 20, 40; the run to 70 misses 60. From there
    // a relative timer goes on with 90, 110, an absolute one with 80 (just met) and 100.
    let (relative, heard) = timer("relative");
    assert_eq!(relative, [20, 40, 60, 90, 110]);
    let slack: Vec<u64> = heard.samples.iter().filter(|(id, _)| *id == 2).map(|s| s.1).collect();
    assert_eq!(slack, [10_000_000, 10_000_000, 0, 10_000_000, 10_000_000]);
    assert_eq!(heard.counts.iter().filter(|counter| **counter == 1).count(), 1, "missed");
    assert_eq!(timer("absolute").0, [20, 40, 60, 80, 100]);
}

#[test]
fn a_wait_frees_its_lock_and_a_signal_wakes_who_stands_first_in_the_row() {
    let text = r#"{"tasks": {
        "a": {"loop": 1, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"},
        "b": {"loop": 1, "signal": "c", "broad": "c"},
        "c": {"loop": 1, "sync": {"ref": "c", "mutex": "m"}}}}"#;
    let mut plan = planned(text).unwrap();
    assert_eq!((plan.queues.len(), plan.words, plan.locks), (1, 3, 1));
    let row = QueueId(0);
    let waiting = [
        Op::Lock(LockId(0)),
        Op::Push { queue: row, value: 0 },
        Op::Unlock(LockId(0)),
        Op::Wait(WordId(0)),
        Op::Lock(LockId(0)),
        Op::Unlock(LockId(0)),
    ];
    assert_eq!(ops(&mut plan, 0, |_| Done::Ok), waiting);
    // One is there for the signal, two for the broadcast.
    let left = std::cell::Cell::new(3_u64);
    let popped = |op: &Op| match op {
        Op::Pop(_) if left.get() > 0 => {
            left.set(left.get() - 1);
            Done::Popped { value: left.get(), first: true }
        }
        Op::Pop(_) => Done::Empty,
        _ => Done::Ok,
    };
    let wake = |word| Op::Wake { word: WordId(word), stamp: Nanos(1) };
    let pop = Op::Pop(row);
    assert_eq!(ops(&mut plan, 1, popped), [pop, wake(2), pop, wake(1), pop, wake(0), pop]);
    let sync = ops(&mut plan, 2, |op| match op {
        Op::Pop(_) => Done::Empty,
        _ => Done::Ok,
    });
    assert_eq!(sync[..2], [Op::Lock(LockId(0)), pop]);
    assert_eq!(sync.len(), 7, "{sync:?}");
}

#[test]
fn instances_barriers_and_placement_are_counted() {
    let text = r#"{"global": {"duration": 2, "default_policy": "SCHED_OTHER", "io_device": "/tmp/x"},
        "tasks": {"a": {"instance": 3, "cpus": [0, 2], "run": 1, "barrier": "x"},
                  "b": {"policy": "SCHED_FIFO", "priority": 7, "barrier": "x", "iorun": 5},
                  "never": {"instance": 0, "run": 1}}}"#;
    let plan = planned(text).unwrap();
    assert_eq!(plan.tasks.len(), 4);
    assert_eq!(plan.barriers, [4]);
    assert_eq!(plan.timing.duration, Some(Nanos::from_secs(2)));
    assert_eq!(plan.tasks[0].placement.cpus.as_ref().unwrap().to_string(), "0,2");
    assert_eq!(plan.tasks[3].placement.policy, Some(Policy::Fifo(7)));
    assert_eq!(plan.device.as_deref(), Some(std::path::Path::new("/tmp/x")));
    assert_eq!((&plan.tasks[3].sends[..], &plan.tasks[0].sends[..]), (&[0][..], &[][..]));
}

#[test]
fn a_phase_has_its_own_place_and_cpus_come_back_to_those_of_the_task() {
    let text = r#"{"tasks": {"t": {"loop": 2, "cpus": [3], "policy": "SCHED_FIFO", "phases": {
        "one": {"cpus": [0, 1], "loop": 2, "yield": "", "taskgroup": "/g"},
        "two": {"priority": 20, "util_min": 300, "nodes_membind": [0], "yield": ""},
        "three": {"policy": "SCHED_OTHER", "priority": -5, "dl-runtime": 3000, "yield": ""}}}}}"#;
    let mut plan = planned(text).unwrap();
    assert_eq!(plan.tasks[0].placement.policy, Some(Policy::Fifo(10)));
    let [one, two, three] = &plan.places[..] else { panic!("{:?}", plan.places) };
    let cpus = |place: &crate::plan::Placement| place.cpus.as_ref().unwrap().to_string();
    assert_eq!([one, two, three].map(cpus), ["0-1", "3", "3"]);
    assert_eq!((one.policy, one.cgroup.as_deref()), (None, Some("/g")));
    assert_eq!((two.policy, two.clamp), (Some(Policy::Fifo(20)), Some((300, 1024))));
    assert_eq!(two.memory.as_deref(), Some(&[0][..]));
    assert_eq!((three.policy, three.nice), (Some(Policy::Normal), Some(-5)));
    assert_eq!(three.slice, Some(Nanos::from_millis(3)));
    // A task that is there already is not moved again.
    let place = |id| Op::Place(PlaceId(id));
    let once = [place(0), Op::Yield, Op::Yield, place(1), Op::Yield, place(2), Op::Yield];
    assert_eq!(ops(&mut plan, 0, |_| Done::Ok), [once, once].concat());
}

#[test]
fn a_fork_starts_tasks_that_are_not_there_at_first() {
    let text = r#"{"tasks": {"parent": {"loop": 2, "fork": "child", "sleep": 1},
        "child": {"instance": 0, "loop": 1, "mem": 10}}}"#;
    let mut plan = planned(text).unwrap();
    assert_eq!(plan.forks[0].tasks, (1..=ALIVE).collect::<Vec<_>>());
    assert_eq!(plan.tasks[1].comm, "child-f0");
    // Each has words and memory of its own, and may begin again.
    assert_ne!(plan.tasks[1].blocks, plan.tasks[2].blocks);
    assert_eq!(plan.words as usize, 1 + ALIVE);
    assert!(plan.tasks[1].behaviour.again().is_some());
    let fork = Op::Fork(ForkId(0));
    let sleep = Op::Sleep(Nanos(1_000));
    let full = |op: &Op| if *op == fork { Done::Full } else { Done::Ok };
    let (ops, heard) = lived(&mut plan, 0, 0, full);
    assert_eq!(ops, [fork, sleep, fork, sleep]);
    assert_eq!(plan.counters[heard.counts[0] as usize].name, "forks_refused");
}

#[test]
fn buffers_are_shared_by_name_and_otherwise_each_event_has_its_own() {
    let text = r#"{"tasks": {"t": {"instance": 2, "loop": 1,
        "memrun_a": {"type": "chase", "size": 4096, "count": 1, "ref": "x"},
        "memrun_b": {"type": "read", "size": 64, "count": 1},
        "memrun_c": {"type": "read", "size": 64, "count": 1}}}}"#;
    let mut plan = planned(text).unwrap();
    assert_eq!(plan.blocks[0], Block::Chain { bytes: 4096, stride: 64, scattered: true });
    let blocks = |ops: Vec<Op>| -> Vec<u32> {
        let block = |op: &Op| match op {
            Op::Walk { block, .. } | Op::Chase { block, .. } => block.0,
            other => panic!("{other:?}"),
        };
        ops.iter().map(block).collect()
    };
    assert_eq!(blocks(ops(&mut plan, 0, |_| Done::Ok)), [0, 1, 2]);
    assert_eq!(blocks(ops(&mut plan, 1, |_| Done::Ok)), [0, 3, 4]);
    assert_eq!(plan.tasks[1].blocks, [3, 4, 0]);
}

#[test]
fn deadlines_have_budgets_and_pages_are_locked_for_real_time_tasks_alone() {
    let text = r#"{"tasks": {"t": {"loop": 1, "run": 1, "policy": "SCHED_DEADLINE",
        "dl-runtime": 100, "dl-period": 1000}}, "global": {"lock_pages": true}}"#;
    let plan = planned(text).unwrap();
    let budget = Policy::Deadline {
        runtime: Nanos::from_micros(100),
        deadline: Nanos::from_micros(1_000),
        period: Nanos::from_micros(1_000),
    };
    assert_eq!(plan.tasks[0].placement.policy, Some(budget));
    assert!(plan.lock_pages);
    let text = r#"{"tasks": {"t": {"run": 1}}, "global": {"lock_pages": true, "logdir": "/tmp", "calibration": 90}}"#;
    let plan = planned(text).unwrap();
    assert!(!plan.lock_pages);
    assert_eq!(plan.notes.len(), 3, "{:?}", plan.notes);
}

/// A text, and a part of what is reported of it.
const WRONG: &[(&str, &str)] = &[
    ("", "the file: missing or empty"),
    ("{", "the file: "),
    ("[]", "invalid value: use an object"),
    (r#"{"global": {}}"#, "no tasks"),
    (r#"{"tasks": []}"#, "tasks: invalid value: use an object"),
    (r#"{"tasks": {"t": {}}}"#, "tasks.t: it has no events"),
    (
        r#"{"tasks": {"t": {"run": -1}}}"#,
        "tasks.t.run: invalid value: use a number of microseconds",
    ),
    (r#"{"tasks": {"t": {"frob": 1}}}"#, "tasks.t: unknown event 'frob': use run, runtime,"),
    (r#"{"tasks": {"t": {"phases": {"p": {"iorun2": "x"}}}}}"#, "tasks.t.phases.p.iorun2: invalid"),
    (r#"{"tasks": {"t": {"phases": {"p": {"run": 1}}, "run": 1}}}"#, "'run' is outside the phases"),
    (
        r#"{"tasks": {"t": {"phases": {"p": {"run": 1, "instance": 2}}}}}"#,
        "unknown event 'instance'",
    ),
    (r#"{"tasks": {"t": {"wait": {"ref": "c"}}}}"#, "tasks.t.wait: it names no mutex"),
    (r#"{"tasks": {"t": {"sync": "c"}}}"#, "tasks.t.sync: it names no ref"),
    (r#"{"tasks": {"t": {"mem": -1}}}"#, "use a number of bytes"),
    (r#"{"tasks": {"t": {"fork": "u"}}}"#, "fork names no task of the file: 'u'"),
    (
        r#"{"tasks": {"t": {"fork": "u"}, "u": {"instance": 0, "barrier": "b"}}}"#,
        "tasks.u: a forked task cannot wait at a barrier",
    ),
    (r#"{"tasks": {"t": {"instance": 0, "run": 1}}}"#, "no task starts by itself"),
    (
        r#"{"tasks": {"t": {"memrun": {"type": "swim", "size": 8, "count": 1}}}}"#,
        "read, write or chase",
    ),
    (r#"{"tasks": {"t": {"memrun": {"type": "read", "count": 1}}}}"#, "size: use 8 to"),
    (
        r#"{"tasks": {"t": {"memrun": {"type": "chase", "size": 64, "stride": 12, "count": 1}}}}"#,
        "stride is a multiple of 8",
    ),
    (
        r#"{"tasks": {"t": {"memrun": {"type": "read", "size": 64, "count": 1, "ref": "x"},
                "memrun2": {"type": "read", "size": 32, "count": 1, "ref": "x"}}}}"#,
        "memrun2: 'x' has another size",
    ),
    (r#"{"tasks": {"t": {"timer": {"ref": "a"}}}}"#, "it has no period"),
    (r#"{"tasks": {"t": {"timer": {"period": 1, "mode": "x"}}}}"#, "relative or absolute"),
    (r#"{"tasks": {"t": {"run": 1, "util_min": 2000}}}"#, "invalid util_min: use 0 to 1024"),
    (r#"{"tasks": {"t": {"run": 1, "util_min": 9, "util_max": 8}}}"#, "util_min <= util_max"),
    (r#"{"tasks": {"t": {"run": 1, "nodes_membind": 1}}}"#, "use a list of NUMA nodes"),
    (r#"{"tasks": {"t": {"run": 1, "taskgroup": "/a/../b"}}}"#, "leads out of the hierarchy"),
    (r#"{"tasks": {"t": {"run": 1, "priority": 40}}}"#, "the priority of this policy is -20 to 19"),
    (
        r#"{"tasks": {"t": {"run": 1, "policy": "SCHED_FIFO", "priority": 0}}}"#,
        "the priority of this policy is 1 to 99",
    ),
    (
        r#"{"tasks": {"t": {"run": 1, "policy": "FIFO"}}}"#,
        "unknown policy 'FIFO': use SCHED_OTHER,",
    ),
    (
        r#"{"tasks": {"t": {"run": 1, "policy": "SCHED_DEADLINE", "dl-runtime": 9, "dl-period": 5}}}"#,
        "dl-runtime <= dl-deadline",
    ),
    (r#"{"tasks": {"t": {"run": 1, "loop": 0}}}"#, "invalid loop"),
    (
        r#"{"tasks": {"t": {"run": 1, "policy": "SCHED_DEADLINE"}}}"#,
        "SCHED_DEADLINE needs dl-runtime",
    ),
    (r#"{"tasks": {"t": {"run": 1, "cpus": []}}}"#, "use a list of CPUs"),
    (
        r#"{"tasks": {"t": {"phases": {"p": {"run": 1, "cpus": [7, 9]}}}}}"#,
        "tasks.t.phases.p: the cpus 7,9 are not available: use 0-3",
    ),
    (r#"{"global": {"pi_enabled": 5}}"#, "global.pi_enabled: "),
    (r#"{"global": {"frob": 1}}"#, "unknown key 'frob': use duration,"),
    (r#"{"frob": {}}"#, "unknown section 'frob': use tasks, global and resources"),
];

#[test]
fn what_is_wrong_is_named_with_its_place_and_what_is_right() {
    for (text, part) in WRONG {
        let error = planned(text).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_resume_of_a_name_without_a_task_is_a_note() {
    let plan = planned(r#"{"tasks": {"t": {"resume": "u", "run": 1}}}"#).unwrap();
    let note = plan.notes.iter().find(|note| note.contains("names no task")).unwrap();
    assert_eq!(note, "tasks.t.resume wakes nobody: resume names no task of the file: 'u'");
}
