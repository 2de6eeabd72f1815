//! Policies that follow recordings of the simulated machine.

use proptest::prelude::*;
use schedlab_model::{
    Clock, Context, Cpu, Event, Left, Nanos, Pid, Prio, Setting, TraceInfo, What,
};
use schedlab_sim::follow::{Charged, Comparison, Count, Follower, Following, Kind, Notes, phase};
use schedlab_sim::policy::Charge;
use schedlab_sim::{Hardware, Model, Simulated};
use schedlab_workload::{Machine, Observed, RecordSpec, RunSpec, WorkloadSpec};

fn recorded(
    machine: &str,
    load: &str,
    options: &[(&str, &str)],
    knobs: &[(&str, &str)],
) -> Observed {
    let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let workload = WorkloadSpec::Builtin { name: load.to_owned(), options };
    let setting =
        |&(knob, value): &(&str, &str)| Setting { knob: knob.to_owned(), value: value.to_owned() };
    let settings = knobs.iter().map(setting).collect();
    let spec = RunSpec { settings, record: Some(RecordSpec::default()), ..RunSpec::of(workload) };
    let mut told = Observed::default();
    Simulated::new(model(machine)).run(&spec, &mut told).unwrap();
    told
}

fn model(machine: &str) -> Model {
    Model::of(&machine.parse().unwrap(), None).unwrap()
}

fn follow(told: &Observed, machine: &str, knobs: &[(&str, &str)]) -> Comparison {
    follow_with(told, machine, knobs, true)
}

fn follow_with(told: &Observed, machine: &str, knobs: &[(&str, &str)], sync: bool) -> Comparison {
    follow_part(told, machine, knobs, (sync, 0))
}

/// Follows the events from one on.
fn follow_part(
    told: &Observed,
    machine: &str,
    knobs: &[(&str, &str)],
    (sync, from): (bool, usize),
) -> Comparison {
    let mut model = model(machine);
    knobs.iter().for_each(|(knob, value)| model.set(knob, value).unwrap());
    let hardware = Hardware::new(model.topology.clone());
    let policy = model.policy(&hardware, 0);
    let following = Following::new(1_000_000_000 / model.hz, Some(0));
    let following = Following { sync, from_the_start: from == 0, ..following };
    let info = told.info.as_ref().unwrap();
    Follower::new(following, hardware, policy, info)
        .unwrap()
        .follow(&told.events[from..], &Notes::default())
        .unwrap()
}

const SMALL: [(&str, &str); 4] = [("groups", "2"), ("fds", "4"), ("loops", "30"), ("pipe", "true")];

#[test]
fn a_model_makes_the_decisions_that_it_made() {
    for machine in ["sim:kernel=cfs-6.1", "sim:kernel=eevdf-6.12"] {
        let told = recorded(machine, "hackbench", &SMALL, &[]);
        let found = follow(&told, machine, &[]);
        assert_eq!(found.differences, [], "{machine}: {:?}", found.counts);
        let compared: u64 = found.counts.values().map(|count| count.same).sum();
        assert!(compared > 100, "{machine}: {:?}", found.counts);
    }
}

/// A task of the CPU is woken three times by another, as Linux 6.1 logs it: events and charges. `off` is added to the
/// virtual time at which the kernel places it the third time.
fn charged(off: i64) -> (Vec<Event>, Vec<Charged>) {
    let (mut events, mut charges, mut now) = (Vec::new(), Vec::new(), 1_000);
    let mut vruntime = [100_000_000, 0];
    let pids = [Pid(10), Pid(20)];
    let mut log = |by: Pid, context: Context, what: What| {
        now += 1_000;
        events.push(Event { time: Nanos(now), by, cpu: Cpu(0), context, what });
        events.len() - 1
    };
    let switch = |prev: Pid, left: Left, next: Pid| What::Switch {
        prev,
        prev_prio: Prio::NORMAL,
        left,
        next,
        next_prio: Prio::NORMAL,
    };
    let mut charge = |event: usize, vruntime: &mut [i64; 2], of: usize, time: u64| {
        vruntime[of] += time.cast_signed();
        let charge = Charge { time, vruntime: Some(vruntime[of]) };
        charges.push(Charged { event, pid: pids[of], charge });
    };
    let other = What::Other { format: 0 };
    log(Pid::IDLE, Context::Task, switch(Pid::IDLE, Left::Yielded, pids[0]));
    for round in 0..3 {
        charge(log(pids[0], Context::HardIrq, other), &mut vruntime, 0, 5_000_000);
        let (pid, prio, cpu) = (pids[1], Prio::NORMAL, Cpu(0));
        log(pids[0], Context::Task, What::Waking { pid, prio, last_cpu: cpu });
        charge(log(pids[0], Context::Task, other), &mut vruntime, 0, 1_000);
        // Half the latency of 6 ms behind the least virtual time.
        vruntime[1] = vruntime[0] - 3_000_000 + if round == 2 { off } else { 0 };
        log(pids[0], Context::Task, What::Wakeup { pid, prio, cpu, new: false });
        charge(log(pids[0], Context::Task, other), &mut vruntime, 0, 500);
        log(pids[0], Context::Task, switch(pids[0], Left::Yielded, pids[1]));
        charge(log(pids[1], Context::Task, other), &mut vruntime, 1, 2_000);
        log(pids[1], Context::Task, switch(pids[1], Left::Slept, pids[0]));
    }
    (events, charges)
}

#[test]
fn virtual_times_that_the_kernel_logs_are_compared_to_the_nanosecond() {
    let model = model("sim:kernel=cfs-6.1");
    let follow = |off: i64| {
        let (events, charges) = charged(off);
        let hardware = Hardware::new(model.topology.clone());
        let policy = model.policy(&hardware, 0);
        let mut info = TraceInfo::new("test", Clock::Monotonic);
        info.cpus = [Cpu(0)].into_iter().collect();
        let following = Following::new(4_000_000, None);
        Follower::new(following, hardware, policy, &info)
            .unwrap()
            .follow(&events, &Notes::of(charges))
            .unwrap()
    };
    let found = follow(0);
    assert_eq!(found.differences, []);
    // The first place tells nothing, the second the queue's least virtual time, and the third is compared.
    assert_eq!(found.counts[&Kind::Place], Count { same: 1, different: 0, skipped: 2 });
    assert_eq!(found.counts[&Kind::Next].same, 3, "{:?}", found.counts);
    assert_eq!(found.counts[&Kind::Displacement].different, 0, "{:?}", found.counts);
    let found = follow(1);
    assert_eq!(found.differences.len(), 1, "{:?}", found.differences);
    assert_eq!(found.differences[0].kind, Kind::Place);
}

#[test]
fn a_recording_from_the_middle_shows_no_difference_for_what_came_before() {
    let told = recorded("sim:kernel=cfs-6.1", "hackbench", &SMALL, &[]);
    let mut compared = 0;
    for from in (1..40).chain((40..told.events.len()).step_by(50)) {
        let found = follow_part(&told, "sim:kernel=cfs-6.1", &[], (true, from));
        assert_eq!(found.differences, [], "from event {from}: {:?}", found.counts);
        compared += found.counts.values().map(|count| count.same).sum::<u64>();
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn a_planted_difference_is_found_with_its_cause() {
    let hasty = [("wakeup_granularity", "0")];
    let told = recorded("sim:kernel=cfs-6.1", "hackbench", &SMALL, &hasty);
    let found = follow(&told, "sim:kernel=cfs-6.1", &[]);
    let first = &found.differences[0];
    assert_eq!(first.kind, Kind::Displacement, "{first:?}");
    assert!(first.recorded.contains("is displaced by"), "{first:?}");
    assert!(first.model.ends_with("goes on"), "{first:?}");
    assert!(first.state[0].contains("vruntime"), "{first:?}");
    // The other way round: the recorded scheduler lets tasks run that the model displaces.
    let long = [("groups", "2"), ("fds", "4"), ("loops", "300"), ("pipe", "true")];
    let told = recorded("sim:kernel=cfs-6.1", "hackbench", &long, &[]);
    let found = follow(&told, "sim:kernel=cfs-6.1", &hasty);
    let counted = found.counts[&Kind::Displacement];
    assert!(counted.different > 0 && counted.same > 0, "{counted:?}");
}

#[test]
fn ticks_are_found_from_displacements() {
    let told = recorded(
        "sim:kernel=cfs-6.1,hz=250",
        "threads",
        &[("tasks", "3"), ("duration", "200ms")],
        &[],
    );
    assert_eq!(phase(&told.events, 4_000_000), Some(0));
    assert_eq!(phase(&told.events[..10], 4_000_000), None);
}

#[test]
fn placements_of_the_model_itself_score_one() {
    let machine = "sim:cpus=4,kernel=cfs-6.1";
    let options = [("message-threads", "2"), ("threads", "3"), ("runtime", "2")];
    let told = recorded(machine, "schbench", &options, &[]);
    // Wakes of a futex are not sync.
    let found = follow_with(&told, machine, &[], false);
    let score = found.score;
    assert!(score.early > 0 && score.counted > 20, "{score:?}");
    assert!(score.value().unwrap() > 0.8, "{score:?} {:?}", score.value());
}

#[test]
fn what_cannot_be_followed_is_refused_with_the_reason() {
    let told = recorded("sim:cpus=2,kernel=cfs-6.1", "cpu", &[("duration", "10ms")], &[]);
    let refused = |machine: &str| {
        let model = model(machine);
        let hardware = Hardware::new(model.topology.clone());
        let policy = model.policy(&hardware, 0);
        let info = told.info.as_ref().unwrap();
        let follower = Follower::new(Following::new(4_000_000, None), hardware, policy, info);
        follower.err().unwrap().to_string()
    };
    assert!(refused("sim:cpus=1").contains("set cpus=N"));
    assert!(refused("sim:cpus=2,kernel=fifo").contains("use kernel=cfs-6.1"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn no_difference_is_found_where_there_is_none(
        fds in 1_u32..6,
        loops in 1_u32..40,
        pipe in any::<bool>(),
        eevdf in any::<bool>(),
        granularity in 0_u64..10,
    ) {
        let machine = if eevdf { "sim:kernel=eevdf-6.12" } else { "sim:kernel=cfs-6.1" };
        let (fds, loops) = (fds.to_string(), loops.to_string());
        let (pipe, time) = (pipe.to_string(), format!("{granularity}ms"));
        let options = [("groups", "1"), ("fds", &fds), ("loops", &loops), ("pipe", &pipe)];
        let knobs = [("wakeup_granularity", time.as_str())];
        let knobs = if eevdf { &[][..] } else { &knobs };
        let told = recorded(machine, "hackbench", &options, knobs);
        let found = follow(&told, machine, knobs);
        prop_assert_eq!(found.differences, []);
    }
}
