//! perf.data: counts equal `perf script`'s, and damage is never fatal.

use crate::common::{data, peer};
use schedlab_model::{Event, EventSource};
use schedlab_trace::{Census, TraceError, open, open_bytes};
use std::collections::BTreeMap;
use std::path::Path;

const FILES: [&str; 2] = ["local_2cpu_pipe.perf.data", "local_2cpu_zstd.perf.data"];

fn events(source: &mut dyn EventSource) -> Vec<Event> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        all.extend_from_slice(&batch);
    }
    assert!(all.is_sorted_by_key(|event| event.time), "events come by time");
    all
}

#[test]
fn files_of_others_count_as_perf_counts_them() {
    for name in FILES {
        let Some(path) = data("traces").map(|dir| dir.join(name)) else { return };
        let mut source = open(&path).unwrap();
        let ours = Census::of(source.as_mut()).unwrap();
        assert!(source.warnings().is_empty(), "{:?}", source.warnings());
        assert_eq!(ours.lost + ours.losses_unknown, 0);
        assert_eq!(source.info().cpus.len(), 2);
        let arguments = ["script", "--ns", "-F", "cpu,event", "-i"];
        let Some((out, _)) = peer("perf", &arguments, &path) else { return };
        let mut theirs = BTreeMap::<(u16, String), u64>::new();
        for line in out.lines() {
            // `[001] sched:sched_switch:`
            let Some((cpu, event)) = line.trim().trim_start_matches('[').split_once(']') else {
                continue;
            };
            let name = event.trim().trim_end_matches(':').rsplit(':').next().unwrap();
            *theirs.entry((cpu.parse().unwrap(), name.to_owned())).or_insert(0) += 1;
        }
        let ours: BTreeMap<(u16, String), u64> = ours
            .per_cpu
            .iter()
            .flat_map(|(cpu, names)| names.iter().map(|(name, n)| ((cpu.0, name.clone()), *n)))
            .collect();
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn the_topology_that_perf_kept_is_found() {
    for name in FILES {
        let Some(path) = data("traces").map(|dir| dir.join(name)) else { return };
        let source = open(&path).unwrap();
        let topology = source.info().topology.clone().unwrap();
        assert_eq!(topology.places().len(), 2, "{name}");
        assert!(source.info().kernel.as_deref().unwrap().starts_with("6.18"), "{name}");
    }
}

#[test]
fn a_file_without_tracepoints_is_refused_with_the_way_out() {
    for name in ["fibo.compressed2.pipe.data", "perf.data.ctx_switch_namespaces-4.14"] {
        let Some(path) = data("traces").map(|dir| dir.join(name)) else { return };
        let error = open(&path).err().unwrap();
        assert!(matches!(error, TraceError::NoEvents { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("no tracepoints"), "{text}");
        assert!(text.contains("perf sched record"), "{text}");
    }
}

#[test]
fn a_file_cut_or_damaged_anywhere_is_read_as_far_as_it_goes() {
    for name in FILES {
        let Some(path) = data("traces").map(|dir| dir.join(name)) else { return };
        let whole = std::fs::read(&path).unwrap();
        let all = events(open(&path).unwrap().as_mut()).len();
        let step = whole.len() / 60;
        for length in (0..300).chain((300..whole.len()).step_by(step)) {
            if let Ok(mut source) = open_bytes(Path::new("cut"), whole[..length].to_vec()) {
                let read = events(source.as_mut()).len();
                assert!(read < all || !source.warnings().is_empty(), "{name} cut at {length}");
            }
        }
        for at in (0..300).chain((300..whole.len()).step_by(step)) {
            let mut bytes = whole.clone();
            bytes[at] ^= if at % 2 == 0 { 0xff } else { 0x10 };
            if let Ok(mut source) = open_bytes(Path::new("wrong"), bytes) {
                events(source.as_mut());
            }
        }
    }
}
