//! trace.dat: what our writer writes, our reader and trace-cmd read alike; damage is never fatal.

use crate::common::{Bodies, MARK, comm, counts, data, header, instances, peer, small};
use schedlab_model::{
    Affinity, Context, Cpu, Event, EventSource, Kind, Left, Nanos, Phase, Pid, Topology, What,
};
use schedlab_trace::dat::{Companion, Compression, Header, Version, Writer};
use schedlab_trace::synthetic::{Plan, Synthetic};
use schedlab_trace::{Census, Encoding, TraceErrorKind, mark, open, open_bytes};
use std::collections::BTreeMap;
use std::io::{Cursor, Write as _};
use std::path::Path;

pub(crate) const KINDS: [(Version, Compression); 4] = [
    (Version::V6, Compression::None),
    (Version::V7, Compression::None),
    (Version::V7, Compression::Zlib),
    (Version::V7, Compression::Zstd),
];

fn opened(bytes: Vec<u8>) -> Box<dyn EventSource> {
    open_bytes(Path::new("test.dat"), bytes).unwrap()
}

fn events(source: &mut dyn EventSource) -> Vec<Event> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        all.extend_from_slice(&batch);
    }
    assert!(all.is_sorted_by_key(|event| event.time), "events come by time");
    all
}

fn census(bytes: Vec<u8>) -> Census {
    Census::of(opened(bytes).as_mut()).unwrap()
}

/// Our counts as trace-cmd's.
fn per_cpu(census: &Census) -> BTreeMap<(u16, String), u64> {
    let all = census.per_cpu.iter();
    all.flat_map(|(cpu, names)| names.iter().map(|(name, n)| ((cpu.0, name.clone()), *n))).collect()
}

#[test]
fn records_come_back_as_events_from_every_version() {
    for (version, compression) in KINDS {
        let bytes = small(&header(version, compression, 3));
        let mut source = opened(bytes);
        let all = events(source.as_mut());
        let whats: Vec<What> = all.iter().map(|event| event.what).collect();
        assert!(whats.contains(&What::Migrate { pid: Pid(100), from: Cpu(0), to: Cpu(2) }));
        assert!(whats.contains(&What::Mark {
            pid: Pid(200),
            id: 1,
            phase: Phase::Begin,
            request: 9
        }));
        assert!(whats.contains(&What::Lost { count: std::num::NonZeroU32::new(77) }));
        assert!(whats.contains(&What::Lost { count: None }));
        assert!(whats.contains(&What::Comm { pid: Pid(200), comm: comm("task 200") }));
        let waking = all.iter().find(|event| matches!(event.what, What::Waking { .. })).unwrap();
        assert_eq!(
            (waking.time, waking.context, waking.by, waking.cpu),
            (Nanos(300_000_000_000), Context::SoftIrq, Pid(0), Cpu(0))
        );
        let left: Vec<Left> = all
            .iter()
            .filter(|event| event.cpu == Cpu(2))
            .filter_map(|event| match event.what {
                What::Switch { left, .. } => Some(left),
                _ => None,
            })
            .collect();
        assert_eq!(left, [Left::Displaced, Left::Preempted]);
        assert!(source.warnings().is_empty(), "{:?}", source.warnings());
        assert_eq!(source.info().comms[&Pid(1)], comm("init"));
        assert_eq!(source.info().kernel.as_deref(), Some("Linux test 6.18"));
        assert_eq!(source.info().clock, schedlab_model::Clock::Monotonic);
    }
}

#[test]
fn versions_and_compressions_tell_the_same_story() {
    let stories: Vec<Vec<Event>> = KINDS
        .iter()
        .map(|(version, compression)| {
            events(opened(small(&header(*version, *compression, 3))).as_mut())
        })
        .collect();
    assert!(stories.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn big_endian_and_32_bit_files_read_alike() {
    let story = |encoding: Encoding| {
        let mut header = header(Version::V6, Compression::None, 3);
        header.encoding = encoding;
        events(opened(small(&header)).as_mut())
    };
    let mut expected = story(Encoding::default());
    assert_eq!(story(Encoding { big_endian: false, long: 4 }), expected);
    // The mark's body is little-endian, so big-endian files have none; the loss before it then lies
    // before the next record.
    let without_mark = |events: &mut Vec<Event>| {
        events.retain(|e| !matches!(e.what, What::Mark { .. } | What::Lost { count: None }));
    };
    without_mark(&mut expected);
    for long in [4, 8] {
        let mut big = story(Encoding { big_endian: true, long });
        without_mark(&mut big);
        assert!(big == expected, "a long of {long} bytes");
    }
}

#[test]
fn trace_cmd_counts_as_we_do() {
    let dir = tempfile::tempdir().unwrap();
    let Some((known, _)) = peer("trace-cmd", &["list"], Path::new("-c")) else { return };
    for (version, compression) in KINDS {
        if compression != Compression::None && !known.contains(compression.name()) {
            drop(writeln!(
                std::io::stderr(),
                "MISSING: this trace-cmd was built without {}",
                compression.name()
            ));
            continue;
        }
        for big_endian in [false, true] {
            let mut header = header(version, compression, 3);
            header.encoding.big_endian = big_endian;
            header.companion = Some(companion());
            let bytes = small(&header);
            let path = dir.path().join("x.dat");
            std::fs::write(&path, &bytes).unwrap();
            let Some((out, err)) = peer("trace-cmd", &["report", "-N", "-i"], &path) else {
                return;
            };
            let ours = census(bytes);
            let (theirs, lost) = counts(&out);
            assert_eq!(per_cpu(&ours), theirs, "{version:?} {compression:?} {big_endian}\n{err}");
            assert_eq!((ours.lost, ours.losses_unknown), (77, 1));
            assert_eq!(lost, 77, "{out}");
            if !big_endian {
                assert!(out.contains("begin load pid=200"), "marks are printed by name:\n{out}");
            }
        }
    }
}

fn companion() -> Companion {
    Companion {
        topology: Some(Topology::flat(3)),
        affinity: Some(vec![Affinity {
            pid: Pid(100),
            at: Nanos(1_000),
            allowed: "0-1".parse().unwrap(),
        }]),
        marks: vec!["warm-up".into(), "load".into()],
        ..Companion::default()
    }
}

#[test]
fn topology_and_affinity_travel_with_the_trace_and_trace_cmd_passes_over_them() {
    let dir = tempfile::tempdir().unwrap();
    for version in [Version::V6, Version::V7] {
        let mut header = header(version, Compression::None, 3);
        header.companion = Some(companion());
        let bytes = small(&header);
        let source = opened(bytes.clone());
        assert_eq!(source.info().topology, companion().topology);
        assert_eq!(source.info().affinity, companion().affinity);
        assert_eq!(source.info().marks, companion().marks);
        let path = dir.path().join("x.dat");
        std::fs::write(&path, &bytes).unwrap();
        let Some((out, err)) = peer("trace-cmd", &["report", "-i"], &path) else { return };
        assert!(out.lines().count() > 100, "{version:?}: {err}");
        assert!(!err.to_lowercase().contains("error"), "{version:?}: {err}");
    }
}

#[test]
fn several_buffers_are_read_and_the_scheduler_is_told_once() {
    for version in [Version::V6, Version::V7] {
        let mut header = header(version, Compression::None, 3);
        header.instances = instances();
        let bytes = small(&header);
        let mut source = opened(bytes.clone());
        let switched_to_300 = events(source.as_mut())
            .iter()
            .any(|event| matches!(event.what, What::Switch { next: Pid(300), .. }));
        assert!(!switched_to_300, "the top buffer has switches of its own");
        assert_eq!(source.warnings()[0].code, "several-buffers");
        let counted = census(bytes.clone());
        assert_eq!(counted.per_cpu[&Cpu(1)]["sched_switch"], 2, "but nothing is lost");
        assert_eq!(counted.per_cpu[&Cpu(1)]["irq_handler_entry"], 2);

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.dat");
        std::fs::write(&path, &bytes).unwrap();
        let Some((out, err)) = peer("trace-cmd", &["report", "-N", "-i"], &path) else { return };
        let (theirs, _) = counts(&out);
        assert_eq!(per_cpu(&counted), theirs, "{version:?}\n{err}\n{out}");
    }
}

#[test]
fn what_the_top_buffer_lacks_another_one_tells() {
    let mut header = header(Version::V6, Compression::None, 3);
    header.instances = instances();
    let bodies = Bodies(header.encoding);
    let mut writer = Writer::new(Cursor::new(Vec::new()), &header).unwrap();
    let mut cpu = writer.cpu(Cpu(0)).unwrap();
    cpu.record(Nanos(1_000), &bodies.switch(0, 0, 100)).unwrap();
    cpu.finish().unwrap();
    for again in [false, true] {
        writer.instance().unwrap();
        let mut cpu = writer.cpu(Cpu(1)).unwrap();
        cpu.record(Nanos(900), &bodies.waking(0, 0, 100, 0)).unwrap();
        if again {
            cpu.record(Nanos(1_000), &bodies.switch(0, 0, 100)).unwrap();
        }
        cpu.finish().unwrap();
    }
    let mut source = opened(writer.finish().unwrap().into_inner());
    let kinds: Vec<Kind> = events(source.as_mut()).iter().map(|event| event.what.kind()).collect();
    let count = |kind| kinds.iter().filter(|one| **one == kind).count();
    assert_eq!((count(Kind::Switch), count(Kind::Waking)), (1, 1), "{kinds:?}");
    let said = &source.warnings()[0].what;
    assert!(
        said.contains("of the top buffer, buffer 'one' are used; the same ones of buffer 'two'"),
        "{said}"
    );
}

#[test]
fn files_of_others_count_as_trace_cmd_counts_them() {
    for name in ["lisa_example_rtapp.dat", "lisa_sched_load.dat", "trappy_trace.dat"] {
        let Some(path) = data("traces").map(|dir| dir.join(name)) else { return };
        let mut source = open(&path).unwrap();
        let ours = Census::of(source.as_mut()).unwrap();
        assert!(source.warnings().is_empty(), "{:?}", source.warnings());
        let report = || peer("trace-cmd", &["report", "-N", "-i"], &path);
        let Some((mut out, mut err)) = report() else { return };
        // trace-cmd was twice seen to print no event of the oldest of these files.
        for _ in 0..4 {
            if counts(&out).0.is_empty() {
                (out, err) = report().expect("it was there");
            }
        }
        let (theirs, lost) = counts(&out);
        assert_eq!(per_cpu(&ours), theirs, "{name}\n{err}\n{out:.200}");
        assert_eq!(ours.lost, lost, "{name}");
        assert!(ours.total() > 500, "{name}");
    }
}

#[test]
fn a_file_cut_anywhere_is_read_as_far_as_it_goes() {
    for (version, compression) in KINDS {
        let whole = small(&header(version, compression, 3));
        let all = events(opened(whole.clone()).as_mut()).len();
        let mut most = 0;
        for length in 0..whole.len() {
            // Texts and padding are long; some of their bytes are enough.
            if length > 600 && length % 13 != 0 {
                continue;
            }
            match open_bytes(Path::new("cut.dat"), whole[..length].to_vec()) {
                Ok(mut source) => {
                    let read = events(source.as_mut()).len();
                    assert!(read <= all);
                    most = most.max(read);
                    let warned = !source.warnings().is_empty();
                    assert!(warned || read == all, "{version:?} cut at {length}: {read} of {all}");
                }
                Err(error) => match error.kind() {
                    TraceErrorKind::Empty => assert_eq!(length, 0),
                    TraceErrorKind::Unknown => assert!(length < 10),
                    TraceErrorKind::Broken => assert_eq!(most, 0, "cut at {length}"),
                    _ => panic!("cut at {length}: {error}"),
                },
            }
        }
        // A packed chunk is read whole or not at all.
        let missing = if compression == Compression::None { 2 } else { 12 };
        assert!(most + missing >= all, "{version:?}: most of an almost whole file can be read");
    }
}

#[test]
fn any_byte_may_be_wrong_and_nothing_panics() {
    for (version, compression) in KINDS {
        let whole = small(&header(version, compression, 3));
        for at in 0..whole.len() {
            // Texts and padding are long; some of their bytes are enough.
            if at > 100 && at % 17 != 0 {
                continue;
            }
            let mut bytes = whole.clone();
            bytes[at] ^= if at % 2 == 0 { 0xff } else { 0x10 };
            if let Ok(mut source) = open_bytes(Path::new("wrong.dat"), bytes) {
                let mut batch = Vec::new();
                while source.next(&mut batch).unwrap() {}
            }
        }
    }
}

#[test]
fn what_is_no_trace_is_refused_with_its_name() {
    let refused = |bytes: &[u8]| {
        open_bytes(Path::new("some/file"), bytes.to_vec()).err().unwrap().to_string()
    };
    assert!(refused(b"").contains("some/file: the file is empty"));
    assert!(refused(b"\x7fELF").contains("an ELF program"));
    assert!(refused(&[1; 99]).contains("at offset 0"));
    assert!(refused(b"\x17\x08\x44tracing9\0\0\0").contains("version '9'"));
    let error = open(Path::new("/nowhere/x.dat")).err().unwrap();
    assert_eq!(error.kind(), TraceErrorKind::Io);
    assert!(error.to_string().contains("/nowhere/x.dat"));
    assert!(open(Path::new("/")).err().unwrap().to_string().contains("directory"));
}

#[test]
fn a_thousand_cpus_and_large_pages() {
    for (version, page_size) in [(Version::V6, 4096), (Version::V7, 65536)] {
        let mut header = header(version, Compression::None, 1024);
        header.page_size = page_size;
        let bodies = Bodies(header.encoding);
        let mut writer = Writer::new(Cursor::new(Vec::new()), &header).unwrap();
        for cpu in 0..1024u16 {
            let mut lane = writer.cpu(Cpu(cpu)).unwrap();
            for i in 0..3u64 {
                let time = Nanos(i * 10_000 + u64::from(cpu));
                lane.record(time, &bodies.switch(0, 0, i32::from(cpu) + 1)).unwrap();
            }
            lane.finish().unwrap();
        }
        let bytes = writer.finish().unwrap().into_inner();
        let mut source = opened(bytes);
        let all = events(source.as_mut());
        let switches = all.iter().filter(|event| matches!(event.what, What::Switch { .. })).count();
        assert_eq!(switches, 3072);
        assert_eq!(source.info().cpus.len(), 1024);
        let span = source.info().span.unwrap();
        assert_eq!((span.start, span.end), (Nanos(0), Nanos(21_023)));
    }
}

/// Some pages of one CPU, and where the last of them lies.
fn pages() -> (Vec<u8>, usize) {
    let header = header(Version::V6, Compression::None, 1);
    let bodies = Bodies(header.encoding);
    let mut writer = Writer::new(Cursor::new(Vec::new()), &header).unwrap();
    let mut lane = writer.cpu(Cpu(0)).unwrap();
    for i in 0..500 {
        lane.record(Nanos(1_000 + i * 10), &bodies.switch(0, 0, 7)).unwrap();
    }
    lane.finish().unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    let last = bytes.len() - 4096;
    (bytes, last)
}

#[test]
fn a_page_that_makes_no_sense_is_a_loss_and_told_with_its_place() {
    let (mut bytes, last) = pages();
    let all = events(opened(bytes.clone()).as_mut()).len();
    // The length of the first record is less than the length itself takes.
    bytes[last + 16..last + 24].copy_from_slice(&[0, 0, 0, 0, 3, 0, 0, 0]);
    let mut source = opened(bytes);
    let found = events(source.as_mut());
    assert!(found.len() < all);
    assert_eq!(found.last().unwrap().what, What::Lost { count: None });
    let what = &source.warnings()[0].what;
    let place = format!("CPU 0: 1 pages hold invalid records, the first at offset {}", last + 16);
    assert!(source.warnings().len() == 1 && what.contains(&place), "{what}");
}

#[test]
fn events_before_their_predecessor_are_raised_and_counted() {
    let (mut bytes, last) = pages();
    bytes[last..last + 8].copy_from_slice(&5_u64.to_le_bytes());
    let mut source = opened(bytes);
    let found = events(source.as_mut());
    let latest = found.last().unwrap().time;
    let raised = found.iter().filter(|event| event.time == latest).count() - 1;
    let what = &source.warnings()[0].what;
    let count = format!("CPU 0: {raised} events are earlier than the event before them");
    assert!(raised > 10 && what.contains(&count), "{raised}: {what}");
}

#[test]
fn the_span_goes_from_the_first_page_to_the_last() {
    let header = header(Version::V6, Compression::None, 2);
    let bodies = Bodies(header.encoding);
    let mut writer = Writer::new(Cursor::new(Vec::new()), &header).unwrap();
    for (cpu, records) in [(0, 500), (1, 1)] {
        let mut lane = writer.cpu(Cpu(cpu)).unwrap();
        for i in 0..records {
            lane.record(Nanos(1_000 + i * 10), &bodies.switch(0, 0, 7)).unwrap();
        }
        lane.finish().unwrap();
    }
    let source = opened(writer.finish().unwrap().into_inner());
    let span = source.info().span.unwrap();
    assert_eq!((span.start, span.end), (Nanos(1_000), Nanos(1_000 + 499 * 10)));
}

#[test]
fn the_writer_refuses_what_no_reader_could_read() {
    let bad = |change: fn(&mut schedlab_trace::dat::Header)| {
        let mut header = header(Version::V6, Compression::None, 1);
        change(&mut header);
        Writer::new(Cursor::new(Vec::new()), &header).is_err()
    };
    assert!(bad(|header| header.compression = Compression::Zstd));
    assert!(bad(|header| header.page_size = 1000));
    assert!(bad(|header| header.encoding.long = 2));
    let header = header(Version::V6, Compression::None, 1);
    let mut writer = Writer::new(Cursor::new(Vec::new()), &header).unwrap();
    assert!(writer.cpu(Cpu(1)).is_err(), "beyond the count");
    let mut cpu = writer.cpu(Cpu(0)).unwrap();
    assert!(cpu.record(Nanos(0), &[0; 5000]).is_err(), "larger than a page");
    cpu.finish().unwrap();
    assert!(writer.cpu(Cpu(0)).is_err(), "a second time");
    assert!(writer.instance().is_err(), "none were announced");
}

#[test]
fn marks_are_little_endian_records_with_the_common_head() {
    let body = mark::body(MARK, Pid(5), Pid(6), 1, Phase::End, 0);
    assert_eq!(body[..2], MARK.to_le_bytes());
    assert_eq!((body[4], body[8], body[12], body[16]), (5, 6, 1, 1));
    let text = mark::format_text(MARK, &["a \"b\"\n".into()]);
    assert!(text.contains("{ 0, \"a 'b''\" }"), "{text}");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.dat");
    let plan = Plan { cpus: 2, events: 20_000, ..Plan::default() };
    Synthetic::new(plan).write(&path, Header::default()).unwrap();
    let all = events(open(&path).unwrap().as_mut()).len();
    let mut source = open(&path).unwrap();
    source.next(&mut Vec::new()).unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
    let read = events(source.as_mut()).len();
    assert!(read < all, "{read} of {all}");
    assert_eq!(source.warnings()[0].code, "trace-cut");
}

/// As trace-cmd lays out version 7: the CPUs' pages first, the list of them behind.
#[test]
fn a_version_7_file_cut_before_its_list_of_pages_says_what_is_missing_and_what_helps() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (dir.path().join("a.dat"), dir.path().join("b.dat"));
    std::fs::write(&ours, small(&header(Version::V6, Compression::None, 3))).unwrap();
    let to = theirs.to_str().unwrap();
    let convert = ["convert", "--file-version", "7", "--compression", "none", "-o", to, "-i"];
    if peer("trace-cmd", &convert, &ours).is_none() {
        return;
    }
    let whole = std::fs::read(&theirs).unwrap();
    let all = Census::of(open(&theirs).unwrap().as_mut()).unwrap();
    assert_eq!(all, Census::of(open(&ours).unwrap().as_mut()).unwrap());
    let mut refused = 0;
    for length in (whole.len() / 4..whole.len()).step_by(97).chain([whole.len() - 1]) {
        match open_bytes(Path::new("cut.dat"), whole[..length].to_vec()) {
            Ok(mut source) => {
                // Only a section of strings that nobody reads may be cut without a word.
                let census = Census::of(source.as_mut()).unwrap();
                assert!(census == all || !source.warnings().is_empty(), "cut at {length}");
            }
            Err(error) => {
                let text = error.to_string();
                let told = text.contains(&format!("ends at {length}"));
                assert!(told && text.contains("trace-cmd restore"), "{text}");
                refused += 1;
            }
        }
    }
    assert!(refused > 10, "the list lies at the end: {refused}");
    // A writer that died first: no offset of the options.
    let at = whole.windows(5).position(|bytes| bytes == b"none\0").unwrap() + 6;
    let mut unfinished = whole;
    unfinished[at..at + 8].fill(0);
    let error = open_bytes(Path::new("unfinished.dat"), unfinished).err().unwrap().to_string();
    assert!(error.contains("stopped before it wrote") && error.contains("restore"), "{error}");
}

/// trace-cmd packs by default; then the places of CPUs are known, and the switches say which they are.
#[test]
fn a_packed_version_7_file_cut_before_its_list_of_pages_is_read_as_far_as_it_goes() {
    let Some(source) = data("traces/lisa_sched_load.dat") else { return };
    let dir = tempfile::tempdir().unwrap();
    let theirs = dir.path().join("b.dat");
    let to = theirs.to_str().unwrap();
    let convert = ["convert", "--file-version", "7", "--compression", "zstd", "-o", to, "-i"];
    if peer("trace-cmd", &convert, &source).is_none() {
        return;
    }
    let whole = std::fs::read(&theirs).unwrap();
    let census = |bytes: &[u8]| {
        let source = open_bytes(Path::new("cut.dat"), bytes.to_vec());
        source.map(|mut source| {
            let census = Census::of(source.as_mut()).unwrap();
            (census, source.warnings().to_vec())
        })
    };
    let (all, _) = census(&whole).unwrap();
    let mut most = 0;
    for length in (whole.len() - 45_000..whole.len()).step_by(397) {
        let Ok((found, warnings)) = census(&whole[..length]) else { continue };
        assert!(found == all || warnings.iter().any(|w| w.code == "trace-cut"), "cut at {length}");
        for (cpu, names) in &found.per_cpu {
            for (name, count) in names {
                let most = all.per_cpu[cpu][name];
                assert!(*count <= most, "cut at {length}: {count} {name} of {most} on CPU {cpu}");
            }
        }
        let events =
            |census: &Census| census.per_cpu.values().flat_map(|n| n.values()).sum::<u64>();
        if warnings
            .iter()
            .any(|warning| warning.what.contains("told apart by the names of their idle"))
        {
            assert!(events(&found) >= most, "cut at {length}: more of the file, fewer events");
            most = events(&found);
        }
    }
    assert!(most * 10 > 9 * 3724, "{most} of 3724 events, when only the list is cut off");
}
