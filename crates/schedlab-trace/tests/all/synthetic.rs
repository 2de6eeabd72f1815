//! The synthetic trace is a trace: it reads back as it was made, and trace-cmd agrees.

use crate::common::{counts, peer};
use schedlab_model::{Event, EventSource, What};
use schedlab_trace::dat::{Compression, Header, Version};
use schedlab_trace::synthetic::{Plan, Synthetic};
use schedlab_trace::{Census, open};

fn all(source: &mut dyn EventSource) -> Vec<Event> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        all.extend(batch.iter().filter(|event| !matches!(event.what, What::Comm { .. })));
    }
    all
}

#[test]
fn a_plan_gives_one_trace_whatever_its_spelling() {
    let plan = Plan { cpus: 5, events: 20_000, ..Plan::default() };
    let made = all(&mut Synthetic::new(plan.clone()));
    assert_eq!(made.len(), 20_000);
    assert!(made.is_sorted_by_key(|event| event.time));
    assert!(made == all(&mut Synthetic::new(plan.clone())), "twice the same");
    let dir = tempfile::tempdir().unwrap();
    for (version, compression) in
        [(Version::V6, Compression::None), (Version::V7, Compression::Zstd)]
    {
        let path = dir.path().join("x.dat");
        let header = Header { version, compression, ..Header::default() };
        Synthetic::new(plan.clone()).write(&path, header).unwrap();
        let mut read = all(open(&path).unwrap().as_mut());
        // Equal times of different CPUs may change places.
        let mut made = made.clone();
        let key = |event: &Event| (event.time, event.cpu);
        made.sort_by_key(key);
        read.sort_by_key(key);
        assert!(read == made, "{version:?}");
        let Some((out, _)) = peer("trace-cmd", &["report", "-N", "-i"], &path) else { return };
        let ours = Census::of(open(&path).unwrap().as_mut()).unwrap();
        let theirs: u64 = counts(&out).0.values().sum();
        assert_eq!(ours.total(), theirs);
    }
}

#[test]
fn each_switch_leaves_the_task_that_ran() {
    let mut running = std::collections::BTreeMap::new();
    let mut kinds = std::collections::BTreeSet::new();
    for event in all(&mut Synthetic::new(Plan { cpus: 3, tasks_per_cpu: 4, ..Plan::default() })) {
        kinds.insert(event.what.kind());
        if let What::Switch { prev, next, .. } = event.what {
            let before = running.insert(event.cpu, next).unwrap_or(prev);
            assert_eq!(before, prev, "at {}", event.time.0);
            assert_ne!(prev, next, "at {}", event.time.0);
        }
    }
    assert_eq!(kinds.len(), 4, "{kinds:?}");
}
