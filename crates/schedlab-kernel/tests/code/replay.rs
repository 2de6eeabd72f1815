//! A run of the kernel's code becomes a demand, which the kernel's code performs again.

use super::{events_of, machine, near, spec};
use schedlab_kernel::OfTree;
use schedlab_model::{EventSource as _, Setting};
use schedlab_replay::{Infer, MemorySource, Options, Side};
use schedlab_timeline::{Cut, ask};
use schedlab_workload::{Machine as _, RunSpec};

/// A run on a machine, with its events.
fn recorded(machine: OfTree, spec: &RunSpec) -> MemorySource {
    let (info, events) = events_of(super::recorded(machine, spec).unwrap());
    MemorySource::new(info, events)
}

fn replayed(kernel: &str, rest: &str, from: &mut MemorySource) -> MemorySource {
    from.rewind();
    let question = Infer::new(from.info(), Options::default());
    let demand = ask(from, question).unwrap().answer.demand;
    let replay = spec("replay", &[("program", &demand.to_string())]);
    recorded(machine(kernel, rest).unwrap(), &replay)
}

pub(super) fn a_run_comes_back(kernel: &str) {
    // A burst that is recorded contains the kernel's code, which must not take its time twice.
    for options in [
        &[("duration", "1s"), ("work", "300us"), ("sleep", "2ms")][..],
        &[("duration", "1s"), ("work", "20us"), ("sleep", "100us"), ("tasks", "2")],
        &[("duration", "1s"), ("work", "3ms"), ("sleep", "1ms"), ("tasks", "3")],
    ] {
        let mut first = recorded(machine(kernel, "cpus=1").unwrap(), &spec("mixed", options));
        let mut second = replayed(kernel, "cpus=1", &mut first);
        let side = |source: &mut MemorySource| {
            source.rewind();
            Side::of(source, Cut::default(), false).unwrap()
        };
        let (one, two) = (side(&mut first), side(&mut second));
        let ratio = |of: fn(&Side) -> u64| of(&two) as f64 / of(&one) as f64;
        // Where tasks wait for each other most of the time, a switch that is a microsecond off moves others.
        near(ratio(|side| side.switches), 1.0, 0.05, "switches of the replay");
        near(ratio(|side| side.ran.0), 1.0, 0.002, "CPU time of the replay");
    }
}

pub(super) fn a_machine_is_like_another(kernel: &str) {
    let name = format!("sim:kernel={kernel},cpus=4").parse().unwrap();
    let topology = machine(kernel, "cores=2,smt=2").unwrap().model().topology.clone();
    let slices = [("base_slice", "2ms"), ("features", "NO_WAKEUP_PREEMPTION")];
    let old = [("min_granularity", "2ms"), ("features", "NO_WAKEUP_PREEMPTION")];
    let like = OfTree::like(&name, &name, None, Some(topology.clone()), |model| {
        let adopt = |(knob, value): (&str, &str)| {
            let one = Setting { knob: knob.to_owned(), value: value.to_owned() };
            model.set(knob, value).ok().map(|()| one)
        };
        slices.into_iter().chain(old).filter_map(adopt).collect()
    })
    .unwrap();
    assert_eq!(like.offers().topology, topology);
    // The kernel says what it has.
    let knobs = &like.offers().knobs;
    let value = |name: &str| knobs.iter().find(|knob| knob.name == name)?.value.clone();
    let slice = value("base_slice").or_else(|| value("min_granularity"));
    assert_eq!(slice.as_deref(), Some("2000000"));
    assert!(value("features").unwrap().contains("NO_WAKEUP_PREEMPTION"), "{knobs:?}");
    let ran = recorded(like, &spec("mixed", &[("tasks", "4"), ("duration", "100ms")]));
    assert_eq!(ran.info().topology.as_ref(), Some(&topology));
}
