//! The tree's own schedutil chooses frequencies, and CPUs work in proportion to them.

use super::{ends, machine, near, run, scenario, seeds, tasks, time, trace_of, with_options};
use schedlab_kernel::build::Built;
use schedlab_model::What;
use std::collections::BTreeMap;
use std::path::Path;

/// The changes of each CPU's frequency: when, in milliseconds, and to how many MHz.
type Changes = BTreeMap<u64, Vec<(u64, u64)>>;

fn changes(trace: &[u8]) -> Changes {
    let options = schedlab_trace::Options { arguments: true, ..Default::default() };
    let name = Path::new("x.dat");
    let mut source = schedlab_trace::open_bytes_with(name, trace.to_vec(), &options).unwrap();
    let mut found = Changes::new();
    let (mut batch, mut first) = (Vec::new(), None);
    while source.next(&mut batch).unwrap() {
        for (at, event) in batch.iter().enumerate() {
            let first = *first.get_or_insert(event.time.0);
            let What::Other { format } = event.what else { continue };
            let name = &source.info().others[usize::from(format)];
            assert_eq!((&*name.system, &*name.name), ("power", "cpu_frequency"));
            let text = source.arguments(at).unwrap().into_owned();
            let number = |key: &str| -> u64 {
                let word = text.split_whitespace().find_map(|word| word.strip_prefix(key));
                word.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
            };
            let change = ((event.time.0 - first) / 1_000_000, number("state=") / 1_000);
            found.entry(number("cpu_id=")).or_default().push(change);
        }
    }
    found
}

pub(super) fn schedutil_chooses_frequencies(kernel: &str) {
    let fixed = kernel;
    let kernel = &with_options(kernel);
    let one = "cpus=1,frequency=600MHz-2GHz";
    // A new task counts as half of what its CPU has left. 3 % of a CPU come to the lowest frequency.
    let light = tasks("\"a\": {\"loop\": -1, \"run\": 300, \"sleep\": 9700}");
    let found = changes(&trace_of(kernel, one, &light));
    let (at, last) = *found[&0].last().unwrap();
    assert!(last == 600 && at < 200, "{found:?}");
    let hog = tasks("\"hog\": {\"loop\": -1, \"run\": 1000}");
    let trace = trace_of(kernel, one, &hog);
    let found = changes(&trace);
    // 1.25 times a utilization of 80 % is all (map_util_perf). At full speed half of what lacks comes in 32 ms.
    let rising = found[&0].is_sorted_by_key(|(_, mhz)| *mhz);
    let (at, last) = *found[&0].last().unwrap();
    assert!(rising && last == 2_000 && (20..=120).contains(&at), "{found:?}");
    assert!(trace == trace_of(kernel, one, &hog), "two traces of one run differ");
    // 4 ms of work in each 10 ms: 1.25 times 40 % of the highest frequency, at which it takes 8 ms.
    let periodic = "\"loop\": -1, \"run\": 4000, \"timer\": {\"ref\": \"t\", \"period\": 10000}";
    let load = tasks(&format!("\"a\": {{{periodic}}}"));
    near(time(&run(fixed, "cpus=1", &load), "a"), 0.8, 0.01, "CPU time at the highest frequency");
    near(time(&run(kernel, one, &load), "a"), 1.6, 0.15, "CPU time at half of it");
    // CPUs of a policy change together, others do not.
    let bound = tasks(&format!("\"a\": {{\"cpus\": [1], {periodic}}}"));
    let two = "cpus=4,frequency=0-1:600MHz-2GHz+2-3:1GHz-3GHz";
    let found = changes(&trace_of(kernel, two, &bound));
    assert!(found[&0].len() > 20 && found[&0] == found[&1], "{found:?}");
    assert!(!found.contains_key(&2), "{found:?}");
    // The image under test may have it too.
    if Built::find(fixed).unwrap().code.has("schedutil") {
        return;
    }
    let why = machine(fixed, one).err().unwrap().to_string();
    assert!(why.contains("this kernel has no schedutil: schedlab sim build TREE --set"), "{why}");
}

pub(super) fn random_scenarios_end_with_frequencies(kernel: &str) {
    let kernel = with_options(kernel);
    for seed in seeds() {
        let (rest, load) = scenario(seed);
        let shared = ["600MHz-2GHz", "0:1GHz-3.2GHz"][seed as usize % 2];
        ends(&kernel, &format!("{rest},irq=20us/1ms,frequency={shared}"), seed, &load);
    }
}
