//! A trace that is read without batches, and asked without queues, says what it says with them.

use crate::common::data;
use schedlab_model::EventSource;
use schedlab_timeline::{Latency, Reply, ask, ask_all};
use schedlab_trace::dat::Header;
use schedlab_trace::synthetic::{Plan, Synthetic};
use schedlab_trace::{Options, Trace, open};
use std::path::{Path, PathBuf};

/// All traces at hand, and synthetic ones of as many CPUs as the merge has ways for.
fn traces(dir: &Path) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("corpus"), root.join("fuzz/corpus/perf")];
    folders.extend(data("traces"));
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    for cpus in [1, 2, 3, 8, 9, 40] {
        let path = dir.join(format!("{cpus}.dat"));
        let plan = Plan { cpus, events: 30_000, ..Plan::default() };
        Synthetic::new(plan).write(&path, Header::default()).unwrap();
        all.push(path);
    }
    all
}

#[test]
fn draining_gives_the_events_of_the_batches_with_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let mut read = 0;
    for path in traces(dir.path()) {
        let Ok(mut batches) = open(&path) else { continue };
        let (mut expected, mut batch) = (Vec::new(), Vec::new());
        while batches.next(&mut batch).unwrap() {
            expected.append(&mut batch);
        }
        let ways = [
            (1, None),
            (2, None),
            (2, Some(1)),
            (3, Some(50_000)),
            (5, Some(1)),
            (16, Some(9_000)),
        ];
        for (threads, portion) in ways {
            let options = Options { threads, portion, ..Options::default() };
            let mut trace = Trace::open(&path, &options).unwrap();
            let mut drained = Vec::new();
            // Begun by a batch, as a pass does.
            trace.next(&mut drained).unwrap();
            trace.drain(&mut drained).unwrap();
            assert!(drained == expected, "{}, {threads} threads, {portion:?}", path.display());
            assert_eq!(trace.warnings(), batches.warnings(), "{}", path.display());
        }
        // Who stops listening ends the threads.
        let options = Options { threads: 3, portion: Some(1), ..Options::default() };
        let mut left = Trace::open(&path, &options).unwrap();
        left.next(&mut batch).unwrap();
        read += usize::from(!expected.is_empty());
    }
    assert!(read >= 12, "{read} files had events");
}

#[test]
fn a_latency_table_is_the_same_with_and_without_batches_and_queues() {
    let dir = tempfile::tempdir().unwrap();
    let mut waits = 0;
    for path in traces(dir.path()) {
        let Ok(mut trace) = Trace::open(&path, &Options::default()) else { continue };
        let straight = ask_all(&mut trace, Latency::new()).unwrap();
        // Beside a question that looks at queues, they are kept.
        let question = (Latency::new(), schedlab_timeline::Waiting::new(10));
        let beside = ask(open(&path).unwrap().as_mut(), question).unwrap();
        let Reply { answer: (latency, _), origin, observed, state, warnings, known, checked } =
            beside;
        let beside = Reply { answer: latency, origin, observed, state, warnings, known, checked };
        assert_eq!(said(&straight), said(&beside), "{}", path.display());
        waits += straight.answer.total.run_delay.count();
    }
    assert!(waits > 10_000, "{waits} waits in all traces");
}

/// All that a latency table says.
fn said(reply: &Reply<schedlab_timeline::LatencyAnswer>) -> String {
    let Reply { answer, origin, observed, state, warnings, .. } = reply;
    let tally = state.tally();
    format!("{answer:?} {origin:?} {observed:?} {tally:?} {warnings:?} {}", state.waiting())
}
