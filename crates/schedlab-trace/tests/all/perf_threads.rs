//! A perf.data tells the same with any number of threads: events, what is known besides, and warnings; whole, cut
//! and damaged.

use crate::common::{Bodies, data};
use crate::perf::FILES;
use crate::perf_file::{made, made_with, many_rounds, packed_rounds, piped};
use schedlab_model::{Event, EventSink, EventSource};
use schedlab_trace::{Encoding, Options, Trace, TraceError, open_bytes_with};
use std::path::Path;

/// All that can be told.
#[derive(PartialEq)]
struct Told {
    events: Vec<Event>,
    /// Of tracepoints beyond the scheduler's, where they are asked for.
    arguments: Vec<String>,
    info: String,
    warnings: String,
    warned: usize,
}

/// By batches of a source whose type is unknown.
fn told(bytes: &[u8], options: &Options) -> Result<Told, TraceError> {
    let mut source = open_bytes_with(Path::new("x"), bytes.to_vec(), options)?;
    let (mut events, mut arguments, mut batch) = (Vec::new(), Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        let of = |at: usize| source.arguments(at).map(|text| text.into_owned());
        arguments.extend((0..batch.len()).filter_map(of));
        events.extend_from_slice(&batch);
    }
    assert!(!source.next(&mut batch).unwrap(), "it stays at its end");
    let info = format!("{:?}", source.info());
    let (warnings, warned) = (format!("{:?}", source.warnings()), source.warnings().len());
    Ok(Told { events, arguments, info, warnings, warned })
}

/// Without batches.
#[derive(Default)]
struct Drained(Vec<Event>);

impl EventSink for Drained {
    fn take(&mut self, event: &Event) {
        self.0.push(*event);
    }
}

/// How many events there were.
#[track_caller]
fn same(what: &str, bytes: &[u8]) -> usize {
    let mut count = 0;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    for arguments in [false, true] {
        let alone = told(bytes, &Options { threads: 1, arguments, ..Options::default() });
        for threads in [2, 3, 5] {
            let beside = told(bytes, &Options { threads, arguments, ..Options::default() });
            match (&alone, &beside) {
                (Ok(alone), Ok(beside)) => {
                    assert!(alone == beside, "{what}, {threads} threads");
                    let options = Options { threads, arguments, ..Options::default() };
                    let mut trace = Trace::open(file.path(), &options).unwrap();
                    let mut drained = Drained::default();
                    trace.drain(&mut drained).unwrap();
                    assert!(drained.0 == alone.events, "{what}, {threads} threads, drained");
                    assert_eq!(trace.warnings().len(), alone.warned, "{what}");
                    count = alone.events.len();
                }
                (alone, beside) => {
                    let [alone, beside] = [alone, beside].map(|told| told.as_ref().err());
                    assert_eq!(format!("{alone:?}"), format!("{beside:?}"), "{what}");
                }
            }
        }
    }
    count
}

/// The same of the file, of it cut at `cuts` places, and with as many bytes wrong.
#[track_caller]
fn same_anywhere(what: &str, whole: &[u8], cuts: usize) {
    assert!(same(what, whole) > 4, "{what} has events");
    for at in (1..=cuts).map(|part| whole.len() * part / (cuts + 1)) {
        same(&format!("{what} cut at {at}"), &whole[..at]);
        let mut wrong = whole.to_vec();
        wrong[at] ^= 0xff;
        same(&format!("{what} wrong at {at}"), &wrong);
    }
}

#[test]
fn files_made_here_tell_the_same_with_any_number_of_threads() {
    let bodies = Bodies(Encoding::default());
    let further = [bodies.irq(0, 4), bodies.irq(0, 300), bodies.switch(50, 1, 0)];
    for big_endian in [false, true] {
        same_anywhere("two rounds", &made(big_endian), 40);
    }
    same_anywhere("arguments", &made_with(false, &further), 40);
    same_anywhere("a pipe", &piped(), 200);
    // Small ones go over several at once, others one by one.
    same_anywhere("small rounds", &many_rounds(70, 9, 3), 12);
    same_anywhere("large rounds", &many_rounds(5, 5_000, 2), 6);
    same_anywhere("packed", &packed_rounds(12, 900, 2, 3), 6);
}

#[test]
fn files_of_others_tell_the_same_with_any_number_of_threads() {
    for name in FILES {
        let Some(path) = data("traces").map(|dir| dir.join(name)) else { return };
        same_anywhere(name, &std::fs::read(&path).unwrap(), 10);
    }
}

#[test]
fn who_stops_listening_early_ends_the_threads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    std::fs::write(&path, many_rounds(40, 5_000, 2)).unwrap();
    for threads in [2, 3] {
        let options = Options { threads, ..Options::default() };
        // Before anything, after a batch, and after the end.
        drop(Trace::open(&path, &options).unwrap());
        let (mut trace, mut batch) = (Trace::open(&path, &options).unwrap(), Vec::new());
        trace.next(&mut batch).unwrap();
        drop(trace);
        let (mut trace, mut all) = (Trace::open(&path, &options).unwrap(), Drained::default());
        trace.drain(&mut all).unwrap();
        assert!(all.0.len() >= 400_000, "{} events", all.0.len());
    }
}
