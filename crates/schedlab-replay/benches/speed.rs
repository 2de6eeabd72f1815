//! How long a replay of a million events takes: the inference and the simulation apart, best of several passes.
//!
//! `cargo bench -p schedlab-replay`. The trace is hackbench on a simulated machine with 4 CPUs, in memory.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use schedlab_replay::{Infer, MemorySource, Options};
use schedlab_sim::{Model, Simulated};
use schedlab_timeline::ask;
use schedlab_workload::demand::Demand;
use schedlab_workload::{Machine, Observed, RecordSpec, RunSpec, WorkloadSpec};
use std::time::{Duration, Instant};

const EVENTS: usize = 1_000_000;
/// Passes, of which the best counts: others may use the machine.
const PASSES: usize = 5;
const MACHINE: &str = "sim:cpus=4,kernel=cfs-6.1";

fn run(name: &str, options: &[(&str, &str)]) -> MemorySource {
    let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let workload = WorkloadSpec::Builtin { name: name.to_owned(), options };
    let spec = RunSpec { record: Some(RecordSpec::default()), ..RunSpec::of(workload) };
    let name = MACHINE.parse().expect("a machine's name");
    let model = Model::of(&name, None).expect("a model");
    let mut told = Observed::default();
    Simulated::new(model).run(&spec, &mut told).expect("a run");
    MemorySource::new(told.info.expect("a recorded run"), told.events)
}

fn best<T>(mut pass: impl FnMut() -> T) -> (Duration, T) {
    let mut timed = || {
        let start = Instant::now();
        let value = pass();
        (start.elapsed(), value)
    };
    let first = timed();
    (1..PASSES).fold(first, |best, _| {
        let next = timed();
        if next.0 < best.0 { next } else { best }
    })
}

fn main() {
    let whole =
        run("hackbench", &[("groups", "4"), ("fds", "10"), ("loops", "9000"), ("pipe", "true")]);
    let info = schedlab_model::EventSource::info(&whole).clone();
    let events = whole.events()[..EVENTS.min(whole.events().len())].to_vec();
    let count = events.len();
    assert_eq!(count, EVENTS, "the load makes fewer events than are to be measured");
    let (inference, demand): (_, Demand) = best(|| {
        let mut kept = MemorySource::new(info.clone(), events.clone());
        let question = Infer::new(&info, Options::default());
        ask(&mut kept, question).expect("events in memory").answer.demand
    });
    let (simulation, replayed) =
        best(|| run("replay", &[("program", demand.to_string().as_str()), ("real-time", "fair")]));
    let seconds = |time: Duration| time.as_secs_f64();
    println!(
        "{count} events of {} tasks: inference {:.2} s, simulation {:.2} s ({} events), together {:.2} s",
        demand.actors.len(),
        seconds(inference),
        seconds(simulation),
        replayed.events().len(),
        seconds(inference + simulation)
    );
}
