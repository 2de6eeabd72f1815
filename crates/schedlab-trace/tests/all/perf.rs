//! perf.data: counts equal `perf script`'s, and damage is never fatal.

use crate::common::{Bodies, data, peer};
use crate::perf_file::{
    late, made, made_with, many_rounds, packed_names, packed_rounds, piped, with_empty_rounds,
};
use schedlab_model::{Event, EventSource, What};
use schedlab_trace::dat::{Compression, Version};
use schedlab_trace::{Census, Encoding, TraceErrorKind, open, open_bytes};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

pub(crate) const FILES: [&str; 2] = ["local_2cpu_pipe.perf.data", "local_2cpu_zstd.perf.data"];

fn events(source: &mut dyn EventSource) -> Vec<Event> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        all.extend_from_slice(&batch);
    }
    assert!(all.is_sorted_by_key(|event| event.time), "events come by time");
    all
}

#[test]
fn names_in_compressed_records_are_known_once_for_each_task() {
    for (apart, tasks) in [(true, 10), (false, 1)] {
        let mut source = open_bytes(Path::new("x"), packed_names(640, apart)).unwrap();
        assert!(events(source.as_mut()).is_empty(), "names from before are no events");
        let comms = &source.info().comms;
        assert_eq!(comms.len(), tasks);
        assert!(comms.values().all(|comm| comm.starts_with(b"evil\0")));
    }
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
    let name = "fibo.compressed2.pipe.data";
    let Some(path) = data("traces").map(|dir| dir.join(name)) else { return };
    let error = open(&path).err().unwrap();
    assert_eq!(error.kind(), TraceErrorKind::NoEvents, "{error:?}");
    let text = error.to_string();
    assert!(text.contains(name) && text.contains("no tracepoints"), "{text}");
    assert!(text.contains("perf sched record"), "{text}");
}

#[test]
fn records_that_an_older_perf_refuses_are_unpacked() {
    let Some(path) = data("traces").map(|dir| dir.join("fibo.compressed2.pipe.data")) else {
        return;
    };
    let error = open(&path).err().unwrap().to_string();
    // It was read to its end: what it lacks is known.
    assert!(error.contains("holds samples of other events"), "{error}");
    let Some((out, refused)) = peer("perf", &["script", "-i"], &path) else { return };
    // Records of type 83 (COMPRESSED2) came with perf 6.17.
    let refuses = refused.contains("failed to process type: 83");
    assert!(refuses || out.contains("cycles"), "perf reads it or says why not: {refused}");
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

#[test]
fn rounds_are_put_in_order_in_either_byte_order() {
    let story = |big_endian| {
        let mut source = open_bytes(Path::new("x"), made(big_endian)).unwrap();
        let events = events(source.as_mut());
        (events, source.warnings().to_vec(), source.info().clock.clone())
    };
    let (events, warnings, clock) = story(false);
    let times: Vec<(u64, &str)> =
        events.iter().map(|event| (event.time.0, event.what.kind().name())).collect();
    let switches = times.iter().filter(|(_, name)| *name == "sched_switch").map(|(time, _)| *time);
    assert_eq!(switches.collect::<Vec<_>>(), [10, 20, 30, 40]);
    // An event of the second round may be older than the newest of the first.
    assert!(times.contains(&(35, "sched_waking")), "{times:?}");
    assert!(times.contains(&(50, "lost")) && times.contains(&(60, "sched_migrate_task")));
    assert!(times.iter().any(|(time, name)| *time <= 45 && *name == "comm"));
    assert_eq!(clock, schedlab_model::Clock::Monotonic);
    assert_eq!(warnings[0].code, "samples-skipped");
    assert!(story(true) == (events, warnings, clock), "big-endian tells the same");
}

#[test]
fn no_round_is_lost_between_others() {
    let mut source = open_bytes(Path::new("x"), many_rounds(20, 30, 3)).unwrap();
    let census = Census::of(source.as_mut()).unwrap();
    assert!(census.per_cpu.values().all(|names| names["sched_switch"] == 20 * 30));
    assert_eq!((census.per_cpu.len(), source.warnings().len()), (3, 0));
}

#[test]
fn empty_rounds_change_nothing() {
    let read = |empty: u64| {
        let whole = with_empty_rounds(empty);
        let all = events(open_bytes(Path::new("x"), whole.clone()).unwrap().as_mut());
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("x.data"), folder.path().join("x.dat"));
        std::fs::write(&from, whole).unwrap();
        let target = schedlab_trace::Target::Dat(Version::V6, Compression::None);
        schedlab_trace::convert(&from, &to, target).unwrap();
        (all, events(open(&to).unwrap().as_mut()))
    };
    let none = read(0);
    let switches = none.0.iter().filter(|event| matches!(event.what, What::Switch { .. }));
    assert_eq!(switches.count(), 3 * 20 * 3);
    for empty in [1, 2, 500] {
        assert!(read(empty) == none, "{empty}");
    }
}

/// Writes a file's records as the folder of `perf record --threads` has them: those of each CPU in a file of their own.
fn in_threads(whole: &[u8], folder: &Path) {
    let word = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap()) as usize;
    let (start, length) = (word(40), word(48));
    let mut parts = BTreeMap::<u32, Vec<u8>>::new();
    let mut records = &whole[start..start + length];
    while let [_, _, _, _, _, _, low, high, ..] = records {
        let (record, rest) = records.split_at(usize::from(u16::from_le_bytes([*low, *high])));
        // A sample: its id, time and CPU.
        if record[0] == 9 {
            parts.entry(u32::from(record[32])).or_default().extend(record);
        }
        records = rest;
    }
    assert!(parts.len() > 1);
    std::fs::create_dir(folder).unwrap();
    for (at, part) in parts.into_values().enumerate() {
        std::fs::write(folder.join(format!("data.{at}")), part).unwrap();
    }
    // Its own records are behind its features: the end of a round, and where the features are.
    let (at, places) = (whole.len() as u64, &whole[start + length..][..16]);
    let head = [&whole[..40], &at.to_le_bytes(), &8u64.to_le_bytes(), &whole[56..]].concat();
    let data = [&head[..], &[68, 0, 0, 0, 0, 0, 8, 0], places].concat();
    std::fs::write(folder.join("data"), data).unwrap();
}

#[test]
fn the_folder_of_a_recording_with_threads_is_read_as_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let whole = many_rounds(3, 500, 4);
    let folder = dir.path().join("perf.data");
    in_threads(&whole, &folder);
    let mut joined = open(&folder).unwrap();
    let expected = events(open_bytes(Path::new("x"), whole).unwrap().as_mut());
    assert_eq!((events(joined.as_mut()), joined.warnings().len()), (expected, 0));
    std::fs::write(folder.join("data"), "no perf.data").unwrap();
    assert!(open(&folder).is_err_and(|error| error.kind() == TraceErrorKind::Io));
}

#[test]
fn a_folder_of_perf_itself_counts_as_perf_counts_it() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("perf.data");
    let record = [
        "record",
        "--threads",
        "-a",
        "-z",
        "-e",
        "sched:sched_switch,sched:sched_waking",
        "-o",
        folder.to_str().unwrap(),
        "sleep",
        "0.3",
    ];
    let recorded = std::process::Command::new("perf").args(record).output();
    if !recorded.is_ok_and(|output| output.status.success()) || !folder.is_dir() {
        let what = "MISSING: perf record --threads: no folder of perf's own was read";
        return drop(writeln!(std::io::stderr(), "{what}"));
    }
    let Some((out, _)) = peer("perf", &["script", "-F", "event", "-i"], &folder) else { return };
    let mut source = open(&folder).unwrap();
    let ours = Census::of(source.as_mut()).unwrap();
    let count: u64 = ours.per_cpu.values().flat_map(BTreeMap::values).sum();
    assert_eq!((count, source.warnings().len()), (out.lines().count() as u64, 0));
}

#[test]
fn a_sample_that_comes_rounds_too_late_gets_the_time_of_the_one_before() {
    let mut source = open_bytes(Path::new("x"), late()).unwrap();
    let events = events(source.as_mut());
    let switches = events.iter().filter(|event| matches!(event.what, What::Switch { .. }));
    assert_eq!(switches.map(|event| event.time.0).collect::<Vec<_>>(), [10, 20, 20, 30]);
    let what = &source.warnings()[0].what;
    assert!(what.contains("1 events are in a later round than their time"), "{what}");
}

#[test]
fn compressed_records_that_hold_many_rounds_lose_nothing() {
    // A megabyte each, unpacked: many steps, and a sample across each of their ends.
    for together in [1, 4, 7] {
        let mut source = open_bytes(Path::new("x"), packed_rounds(9, 2_000, 2, together)).unwrap();
        let events = events(source.as_mut());
        let switches = events.iter().filter(|event| matches!(event.what, What::Switch { .. }));
        assert_eq!(switches.count(), 9 * 2_000 * 2, "{together} rounds together");
        assert!(source.warnings().is_empty(), "{:?}", source.warnings());
    }
}

#[test]
fn a_pipe_whose_head_goes_on_inside_a_round_is_read_by_what_it_said_so_far() {
    let mut source = open_bytes(Path::new("x"), piped()).unwrap();
    let events = events(source.as_mut());
    let story = events.iter().filter_map(|event| match event.what {
        What::Switch { next, .. } => Some((event.time.0, "switch", next.0)),
        What::Waking { pid, .. } => Some((event.time.0, "waking", pid.0)),
        What::Comm { .. } => None,
        _ => Some((event.time.0, "other", 0)),
    });
    let switch = |time, next| (time, "switch", next);
    let [first, second] = [[switch(10, 7), switch(20, 8)], [switch(25, 5), (30, "waking", 9)]];
    let third = [switch(40, 9), (50, "waking", 8)];
    assert_eq!(story.collect::<Vec<_>>(), [first, second, third].concat());
    assert_eq!(source.info().kernel.as_deref(), Some("6.18.1"));
    assert!(source.warnings().is_empty(), "{:?}", source.warnings());
}

#[test]
fn a_name_told_after_the_first_round_reaches_the_trace_dat() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("x.data"), dir.path().join("x.dat"));
    std::fs::write(&from, made(false)).unwrap();
    let target = schedlab_trace::Target::Dat(Version::V6, Compression::None);
    schedlab_trace::convert(&from, &to, target).unwrap();
    let source = schedlab_trace::open(&to).unwrap();
    let comm = source.info().comms.get(&schedlab_model::Pid(50)).copied();
    assert_eq!(comm, Some(crate::common::comm("renamed")));
}

#[test]
fn records_longer_than_a_page_of_the_kernel_reach_the_trace_dat_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("x.data"), dir.path().join("x.dat"));
    let bodies = Bodies(Encoding::default());
    // One that just fits 4 KiB, and what perf can hold and such a page cannot.
    let further = [bodies.irq(0, 4040), bodies.irq(0, 4096), bodies.irq(0, 32_000)];
    std::fs::write(&from, made_with(false, &further)).unwrap();
    for version in [Version::V6, Version::V7] {
        let target = schedlab_trace::Target::Dat(version, Compression::None);
        let converted = schedlab_trace::convert(&from, &to, target).unwrap();
        assert!(converted.untouched);
        let census = |path: &Path| Census::of(open(path).unwrap().as_mut()).unwrap();
        let (before, after) = (census(&from), census(&to));
        assert_eq!(before.per_cpu, after.per_cpu);
        let bytes = std::fs::read(&to).unwrap();
        let name = vec![b'x'; 31_999];
        assert!(bytes.windows(name.len()).any(|window| window == name), "its bytes are there");
        let Some((out, err)) = peer("trace-cmd", &["report", "-i"], &to) else { return };
        let lines = out.lines().filter(|line| line.contains("irq_handler_entry:")).count();
        assert_eq!(lines, further.len(), "{err}");
    }
}
