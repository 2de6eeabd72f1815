//! perf.data: counts equal `perf script`'s, and damage is never fatal.

use crate::common::{Bodies, data, header, peer};
use schedlab_model::{Event, EventSource};
use schedlab_trace::dat::{Compression, Version, Writer};
use schedlab_trace::{Census, Encoding, TraceError, open, open_bytes};
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

/// A perf.data made here, in either byte order: two CPUs dumped one after the other in two rounds, a
/// name, a loss, and samples of an event that is no tracepoint.
pub(crate) fn made(big_endian: bool) -> Vec<u8> {
    made_with(big_endian, &[])
}

/// The same with further bodies on CPU 1, at 70 ns and later.
pub(crate) fn made_with(big_endian: bool, further: &[Vec<u8>]) -> Vec<u8> {
    let encoding = Encoding { big_endian, long: 8 };
    let p = Put(encoding);
    let tracing = tracing_data(encoding);
    let attr = |kind: u32, sample_type: u64| {
        let mut attr = [p.u32(kind), p.u32(112)].concat();
        attr.extend([p.u64(7), p.u64(1), p.u64(sample_type), p.u64(0)].concat());
        // sample_id_all, and the clock: a bit field counts from the other end on big-endian machines.
        let flags = 1u64 << 18 | 1 << 25;
        attr.extend(p.u64(if big_endian { flags.reverse_bits() } else { flags }));
        attr.resize(92, 0);
        attr.extend(p.u32(1));
        attr.resize(112, 0);
        attr
    };
    // IDENTIFIER, TID, TIME, CPU; one of the two has RAW.
    let base = 1 << 16 | 2 | 4 | 1 << 7;
    let mut data = Vec::new();
    let bodies = Bodies(encoding);
    let sample = |id: u64, time: u64, cpu: u32, body: &[u8]| {
        let mut content =
            [p.u64(id), p.u32(5), p.u32(5), p.u64(time), p.u32(cpu), p.u32(0)].concat();
        if id == 100 {
            let length = (body.len() + 4).next_multiple_of(8) - 4;
            content.extend(p.u32(length as u32));
            content.extend(body);
            content.resize(content.len() + length - body.len(), 0xee);
        }
        p.record(9, &content)
    };
    for (time, cpu) in [(10, 0), (30, 0), (20, 1), (40, 1)] {
        data.extend(sample(100, time, cpu, &bodies.switch(0, 0, 7 + time as i32)));
    }
    data.extend(p.record(68, &[]));
    let end = |time: u64, cpu: u32| {
        [p.u32(5), p.u32(5), p.u64(time), p.u32(cpu), p.u32(0), p.u64(100)].concat()
    };
    let name = [[p.u32(50), p.u32(50)].concat(), b"renamed\0".to_vec(), end(45, 1)].concat();
    data.extend(p.record(3, &name));
    data.extend(p.record(2, &[[p.u64(100), p.u64(77)].concat(), end(50, 0)].concat()));
    data.extend(sample(200, 46, 0, &[]));
    data.extend(sample(100, 60, 0, &bodies.migrate(0, 50, 0, 1)));
    data.extend(sample(100, 35, 1, &bodies.waking(0x10, 0, 50, 0)));
    for (time, body) in (70..).zip(further) {
        data.extend(sample(100, time, 1, body));
    }
    data.extend(p.record(68, &[]));

    let entry = 112 + 16u64;
    let ids_at = 104;
    let attrs_at = ids_at + 16;
    let data_at = attrs_at + 2 * entry;
    let table_at = data_at + data.len() as u64;
    let mut file = [p.u64(0x3245_4c49_4652_4550), p.u64(104), p.u64(entry)].concat();
    file.extend(
        [p.u64(attrs_at), p.u64(2 * entry), p.u64(data_at), p.u64(data.len() as u64)].concat(),
    );
    file.extend([p.u64(0), p.u64(0), p.u64(2), p.u64(0), p.u64(0), p.u64(0)].concat());
    file.extend([p.u64(100), p.u64(200)].concat());
    for (index, sample_type) in [base | 1 << 10, base].into_iter().enumerate() {
        file.extend(attr(if index == 0 { 2 } else { 0 }, sample_type));
        file.extend([p.u64(ids_at + index as u64 * 8), p.u64(8)].concat());
    }
    file.extend(data);
    file.extend([p.u64(table_at + 16), p.u64(tracing.len() as u64)].concat());
    file.extend(tracing);
    file
}

/// Numbers in one byte order.
struct Put(Encoding);

impl Put {
    fn u32(&self, value: u32) -> Vec<u8> {
        if self.0.big_endian { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    fn u64(&self, value: u64) -> Vec<u8> {
        if self.0.big_endian { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    fn record(&self, kind: u32, content: &[u8]) -> Vec<u8> {
        let size = u16::try_from(content.len() + 8).unwrap();
        let size = if self.0.big_endian { size.to_be_bytes() } else { size.to_le_bytes() };
        [self.u32(kind), vec![0, 0], size.to_vec(), content.to_vec()].concat()
    }
}

/// The miniature trace.dat that perf keeps: the head of ours up to the formats, under its version.
fn tracing_data(encoding: Encoding) -> Vec<u8> {
    let mut header = header(Version::V6, Compression::None, 2);
    header.encoding = encoding;
    let whole = Writer::new(std::io::Cursor::new(Vec::new()), &header).unwrap();
    let whole = whole.finish().unwrap().into_inner();
    [b"\x17\x08\x44tracing0.6\0".as_slice(), &whole[12..]].concat()
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
    // One that just fits 4 KiB, and what perf can hold and such a page can't.
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
