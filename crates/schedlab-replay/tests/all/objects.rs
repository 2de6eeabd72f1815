//! Objects with tokens: a reader that found data does not sleep in a replay either, unless the order changes.

use schedlab_model::{Setting, What};
use schedlab_replay::{Infer, Inferred, MemorySource, Options, Side};
use schedlab_sim::{Model, Simulated};
use schedlab_timeline::{Cut, WithArguments, ask};
use schedlab_workload::demand::Object;
use schedlab_workload::{Machine, Observed, RecordSpec, RunSpec, WorkloadSpec};
use std::collections::BTreeMap;

type Pairs<'p> = &'p [(&'p str, &'p str)];

const MACHINE: &str = "sim:cpus=1,kernel=cfs-6.1";
const CALLS: &str = "syscalls:sys_enter_read";

fn run(name: &str, options: Pairs<'_>, granularity: &str) -> MemorySource {
    let told = observe(MACHINE, name, options, granularity);
    MemorySource::new(told.info.unwrap(), told.events).with_arguments(told.arguments)
}

fn observe(machine: &str, name: &str, options: Pairs<'_>, granularity: &str) -> Observed {
    let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let workload = WorkloadSpec::Builtin { name: name.to_owned(), options };
    let setting = Setting { knob: "wakeup_granularity".into(), value: granularity.into() };
    let record = RecordSpec { events: vec![CALLS.to_owned()], ..RecordSpec::default() };
    let settings = vec![setting];
    let spec = RunSpec { settings, record: Some(record), ..RunSpec::of(workload) };
    let model = Model::of(&machine.parse().unwrap(), Some("rcu = 0")).unwrap();
    let mut told = Observed::default();
    Simulated::new(model).run(&spec, &mut told).unwrap();
    told
}

fn infer(recorded: &mut MemorySource, objects: bool) -> Inferred {
    recorded.rewind();
    let options = Options { objects, ..Options::default() };
    let question = Infer::new(schedlab_model::EventSource::info(recorded), options);
    assert_eq!(question.wants_arguments(), objects);
    let inferred = ask(recorded, WithArguments(question)).unwrap().answer;
    inferred.demand.check().unwrap();
    inferred
}

fn replay(inferred: &Inferred, granularity: &str) -> MemorySource {
    let program = inferred.demand.to_string();
    run("replay", &[("program", &program), ("calls", "recorded")], granularity)
}

/// Mean run delay in nanoseconds, and switches.
fn figures(kept: &mut MemorySource) -> (f64, f64) {
    kept.rewind();
    let side = Side::of(kept, Cut::default(), true).unwrap();
    (side.waited.0 as f64 / side.total.run_delay.count() as f64, side.switches as f64)
}

const HACKBENCH: Pairs<'_> = &[("groups", "1"), ("fds", "4"), ("loops", "300"), ("pipe", "true")];

fn off(is: f64, truth: f64) -> f64 {
    (is / truth).ln().abs().exp()
}

#[test]
fn hackbench_under_another_granularity_is_predicted_better_with_its_calls() {
    let (mut with_calls, mut without_calls) = (0.0, 0.0);
    for (from, to) in [("0.5ms", "8ms"), ("8ms", "0.5ms"), ("1ms", "0.2ms")] {
        let mut recorded = run("hackbench", HACKBENCH, from);
        let mut truth = run("hackbench", HACKBENCH, to);
        let (with, without) = (infer(&mut recorded, true), infer(&mut recorded, false));
        assert_eq!(with.totals.calls, 9_600, "2 calls for each of 4 x 4 x 300 messages");
        assert_eq!(with.totals.calls_unknown, 0, "{:?}", with.totals);
        assert_eq!(with.demand.objects, [Object::Pipe; 4]);
        let truth = figures(&mut truth);
        let [new, old] = [&with, &without].map(|inferred| figures(&mut replay(inferred, to)));
        println!("{from} to {to}: {truth:?}, with calls {new:?}, without {old:?}");
        for (truth, new, old) in [(truth.0, new.0, old.0), (truth.1, new.1, old.1)] {
            assert!(off(new, truth) < 1.2, "{from} to {to}: {new} for {truth}");
            with_calls += off(new, truth).ln();
            without_calls += off(old, truth).ln();
        }
    }
    assert!(with_calls * 5.0 < without_calls, "{with_calls} {without_calls}");
}

#[test]
fn a_ping_pong_pair_with_its_calls_is_replayed_as_it_was() {
    let mut recorded = run("pingpong", &[("duration", "50ms"), ("via", "pipe")], "1ms");
    let inferred = infer(&mut recorded, true);
    assert_eq!(inferred.demand.objects.len(), 2, "a pipe each way");
    let mut replayed = replay(&inferred, "1ms");
    let (was, is) = (figures(&mut recorded), figures(&mut replayed));
    assert!(off(is.0, was.0) < 1.01 && off(is.1, was.1) < 1.01, "{was:?} {is:?}");
    let pair = inferred.accounts.iter().filter(|one| one.on_objects > 100);
    assert!(pair.clone().count() == 2 && pair.clone().all(|one| one.by_task < one.on_objects + 5));
}

/// Waits for futexes of a load that slept, those that found the value changed, and wakeups that found a task.
fn futexes(machine: &str, name: &str, options: Pairs<'_>) -> [usize; 3] {
    let told = observe(machine, name, options, "1ms");
    let others = told.events.iter().filter(|event| matches!(event.what, What::Other { .. }));
    assert_eq!(others.clone().count(), told.arguments.len());
    let (mut entered, mut counts) = (BTreeMap::new(), [0; 3]);
    for (event, arguments) in others.zip(&told.arguments) {
        match arguments.strip_prefix("ret=") {
            None => drop(entered.insert(event.by, arguments.clone())),
            Some(result) => {
                let enter = entered.remove(&event.by).unwrap();
                match (enter.contains("op=0"), enter.contains("op=1"), result) {
                    (true, _, "0") => counts[0] += 1,
                    (true, _, "-11") => counts[1] += 1,
                    (_, true, "1") => counts[2] += 1,
                    _ => {}
                }
            }
        }
    }
    counts
}

#[test]
fn futexes_of_a_simulated_load_are_calls_too() {
    let pair = [("duration", "50ms"), ("via", "futex")];
    let [slept, changed, woke] = futexes(MACHINE, "pingpong", &pair);
    assert!(slept > 100 && slept.abs_diff(woke) <= 2 && changed == 0, "{slept} {changed} {woke}");
    let load = [("runtime", "1"), ("message-threads", "1"), ("threads", "4")];
    let [slept, changed, woke] = futexes("sim:cpus=2,kernel=cfs-6.1", "schbench", &load);
    assert!(slept > 100 && slept.abs_diff(woke) <= 5, "{slept} {changed} {woke}");
}
