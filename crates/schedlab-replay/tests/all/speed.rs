//! Bursts at recorded frequencies, beside busy siblings and under steal, in traces by hand.

use schedlab_model::{
    Clock, Context, Cpu, Event, Groups, Left, Nanos, OtherFormat, Pid, Place, Prio, Topology,
    TraceInfo, What,
};
use schedlab_replay::{Infer, Inferred, MemorySource, Options};
use schedlab_timeline::{WithArguments, ask};

const US: u64 = 1_000;

fn switch(at: u64, cpu: u16, prev: i32, next: i32) -> Event {
    let (prev, next, prio) = (Pid(prev), Pid(next), Prio::NORMAL);
    let left = if prev.is_idle() { Left::Displaced } else { Left::Slept };
    let what = What::Switch { prev, prev_prio: prio, left, next, next_prio: prio };
    Event { time: Nanos(at * US), by: prev, cpu: Cpu(cpu), context: Context::Task, what }
}

fn frequency(at: u64) -> Event {
    let what = What::Other { format: 0 };
    Event { time: Nanos(at * US), by: Pid(0), cpu: Cpu(0), context: Context::Task, what }
}

fn info() -> TraceInfo {
    let mut info = TraceInfo::new("test", Clock::Monotonic);
    let place = |cpu| Place { cpu: Cpu(cpu), core: 0, llc: 0, node: 0, socket: 0 };
    info.topology = Some(Topology::new(vec![place(0), place(1)]));
    info.others = vec![OtherFormat { system: "power".into(), name: "cpu_frequency".into() }];
    info
}

fn infer(
    info: TraceInfo,
    events: Vec<Event>,
    arguments: &[&str],
    smt_percent: Option<u32>,
) -> Inferred {
    let arguments = arguments.iter().map(|&text| text.to_owned()).collect();
    let mut kept = MemorySource::new(info, events).with_arguments(arguments);
    let options =
        Options { switch: Nanos::ZERO, wake: Nanos::ZERO, smt_percent, ..Options::default() };
    let question = Infer::new(schedlab_model::EventSource::info(&kept), options);
    assert!(question.wants_arguments());
    ask(&mut kept, WithArguments(question)).unwrap().answer
}

fn cpu_time(inferred: &Inferred, pid: i32) -> u64 {
    let task = inferred.accounts.iter().find(|one| one.pid == Pid(pid)).unwrap();
    task.cpu_time.0 / US
}

#[test]
fn a_burst_counts_in_cycles_at_the_highest_frequency() {
    // 100 us before the first event, 100 us at 1 GHz, 100 us at 4 GHz.
    let events = vec![
        switch(0, 0, 0, 11),
        frequency(100),
        frequency(200),
        switch(300, 0, 11, 0),
        switch(400, 0, 0, 11),
        switch(500, 0, 11, 0),
    ];
    let told = ["state=1000000 cpu_id=0", "state=4000000 cpu_id=0"];
    let inferred = infer(info(), events, &told, None);
    assert_eq!(cpu_time(&inferred, 11), 100 + 25 + 100 + 100);
    assert_eq!(inferred.totals.speed_unknown, Nanos(100 * US), "before the first event");
}

#[test]
fn a_busy_sibling_makes_speed_unknown_unless_its_factor_is_given() {
    // CPU 1 of the same core works from 100 to 200 us.
    let events = || {
        vec![
            frequency(0),
            switch(1, 0, 0, 11),
            switch(101, 1, 0, 12),
            switch(201, 1, 12, 0),
            switch(301, 0, 11, 0),
            switch(401, 0, 0, 11),
        ]
    };
    let told = ["state=2000000 cpu_id=0"];
    let unknown = infer(info(), events(), &told, None);
    assert_eq!((cpu_time(&unknown, 11), cpu_time(&unknown, 12)), (300, 100));
    // 12 ran beside 11 all the time; no frequency of its CPU is known either.
    assert_eq!(unknown.totals.speed_unknown, Nanos(200 * US));
    let stated = infer(info(), events(), &told, Some(60));
    assert_eq!((cpu_time(&stated, 11), cpu_time(&stated, 12)), (260, 60));
    assert_eq!(stated.totals.speed_unknown, Nanos(60 * US));
}

#[test]
fn steal_is_taken_from_all_bursts_evenly() {
    let mut info = info();
    let steal = vec![(Nanos(0), Nanos(7_000)), (Nanos(500 * US), Nanos(7_000 + 40 * US))];
    info.groups = Some(Groups { steal, ..Groups::default() });
    let events = vec![
        switch(0, 0, 0, 11),
        switch(300, 0, 11, 12),
        switch(400, 0, 12, 0),
        switch(500, 0, 0, 11),
    ];
    let inferred = infer(info, events, &[], None);
    assert_eq!((cpu_time(&inferred, 11), cpu_time(&inferred, 12)), (270, 90));
}
