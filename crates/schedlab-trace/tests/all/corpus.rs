//! The kept corpus: small traces of what no public file shows, made by our own writer. `cargo xtask
//! corpus` writes them anew; the tests hold them against what they should say.

use crate::common::{Bodies, counts, formats, header, instances, peer, small};
use crate::perf_file;
use schedlab_model::{Cpu, Nanos, What};
use schedlab_trace::dat::{Compression, Version, Writer};
use schedlab_trace::{Census, Target, convert, open, open_bytes};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

/// Losses of known and unknown size, a long sleep, a long record, a mark.
fn lost() -> Vec<u8> {
    small(&header(Version::V6, Compression::None, 3))
}

fn zlib() -> Vec<u8> {
    small(&header(Version::V7, Compression::Zlib, 3))
}

fn buffers() -> Vec<u8> {
    let mut header = header(Version::V7, Compression::Zstd, 3);
    header.instances = instances();
    small(&header)
}

fn big_endian() -> Vec<u8> {
    let mut header = header(Version::V6, Compression::None, 3);
    header.encoding.big_endian = true;
    header.encoding.long = 4;
    small(&header)
}

fn sub_buffers() -> Vec<u8> {
    let mut header = header(Version::V7, Compression::Zstd, 3);
    header.page_size = 1 << 16;
    small(&header)
}

/// 1,024 CPUs, of which every 32nd was busy.
fn many_cpus() -> Vec<u8> {
    let header = header(Version::V7, Compression::Zstd, 1024);
    let bodies = Bodies(header.encoding);
    let mut writer = Writer::new(Cursor::new(Vec::new()), &header).unwrap();
    for cpu in (31..1024u16).step_by(32) {
        let mut lane = writer.cpu(Cpu(cpu)).unwrap();
        for i in 0..4u64 {
            let time = Nanos(i * 10_000 + u64::from(cpu));
            let (prev, next) = if i % 2 == 0 { (0, 2000) } else { (2000, 0) };
            lane.record(time, &bodies.switch(prev, 1, next + i32::from(cpu) * (next > 0) as i32))
                .unwrap();
        }
        lane.finish().unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A record whose time is an absolute stamp rather than a delta. The writer knows none, but an extend
/// from time zero carries the same number: only its type changes.
fn absolute() -> Vec<u8> {
    let header = header(Version::V6, Compression::None, 1);
    let bodies = Bodies(header.encoding);
    let mut writer = Writer::new(Cursor::new(Vec::new()), &header).unwrap();
    let mut lane = writer.cpu(Cpu(0)).unwrap();
    lane.record(Nanos(0), &bodies.switch(0, 0, 7)).unwrap();
    lane.record(Nanos(300_000_000_000), &bodies.switch(7, 1, 0)).unwrap();
    lane.record(Nanos(300_000_000_700), &bodies.switch(0, 0, 7)).unwrap();
    lane.finish().unwrap();
    let mut bytes = writer.finish().unwrap().into_inner();
    // Head of the page, then a record of 4 + 64 bytes.
    let at = bytes.len() - 4096 + 16 + 68;
    assert_eq!(bytes[at] & 31, 30, "an extend lies here");
    bytes[at] |= 1;
    bytes
}

/// A guest's trace with corrections towards its host: from 50 µs on, 1 ms is added. The last sample says
/// only where that stretch ends.
fn guest() -> Vec<u8> {
    let mut header = header(Version::V6, Compression::None, 3);
    let mut option = 0x1234u64.to_le_bytes().to_vec();
    option.extend(0u32.to_le_bytes());
    option.extend(1u32.to_le_bytes());
    option.extend(3u32.to_le_bytes());
    for column in [[0u64, 50_000, 1 << 40], [0, 1_000_000, 1_000_000], [1, 1, 1]] {
        option.extend(column.into_iter().flat_map(u64::to_le_bytes));
    }
    header.options.push((12, option));
    small(&header)
}

/// A name, and what makes the file's bytes.
type Made = (&'static str, fn() -> Vec<u8>);

const FILES: [Made; 8] = [
    ("lost.dat", lost),
    ("zlib.dat", zlib),
    ("buffers.dat", buffers),
    ("big_endian.dat", big_endian),
    ("sub_buffers.dat", sub_buffers),
    ("many_cpus.dat", many_cpus),
    ("absolute.dat", absolute),
    ("guest.dat", guest),
];

#[test]
fn the_kept_files_say_what_the_writer_says() {
    let anew = std::env::var_os("SCHEDLAB_CORPUS").is_some();
    for (name, make) in FILES {
        let path = folder().join(name);
        if anew {
            std::fs::write(&path, make()).unwrap();
        }
        let kept = Census::of(open(&path).unwrap().as_mut()).unwrap();
        let made = Census::of(open_bytes(Path::new(name), make()).unwrap().as_mut()).unwrap();
        assert_eq!(kept, made, "{name}: `cargo xtask corpus` writes it anew");
    }
    let seeds = folder().join("../fuzz/corpus");
    if anew {
        for (target, name) in [("dat", "lost.dat"), ("dat", "zlib.dat"), ("dat", "buffers.dat")] {
            std::fs::create_dir_all(seeds.join(target)).unwrap();
            // The target puts the magic before its bytes.
            std::fs::write(seeds.join(target).join(name), &bytes_of(name)[10..]).unwrap();
        }
        for (target, file, to) in
            [("text", "x.txt", Target::Report), ("perfetto", "x.pftrace", Target::Perfetto)]
        {
            std::fs::create_dir_all(seeds.join(target)).unwrap();
            convert(&folder().join("lost.dat"), &seeds.join(target).join(file), to).unwrap();
        }
        for (folder, file, bytes) in seeds_of_their_own() {
            std::fs::create_dir_all(seeds.join(folder)).unwrap();
            std::fs::write(seeds.join(folder).join(file), bytes).unwrap();
        }
    }
    for (folder, file, bytes) in seeds_of_their_own() {
        let kept = std::fs::read(seeds.join(folder).join(&file)).unwrap();
        assert!(kept == bytes, "{folder}/{file}: `cargo xtask corpus` writes it anew");
    }
}

/// Seeds of the targets that read no kept file: target, name, bytes.
fn seeds_of_their_own() -> Vec<(&'static str, String, Vec<u8>)> {
    let perf = [("little", false), ("big", true)];
    let perf = perf.map(|(name, big)| ("perf", format!("{name}.data"), perf_file::made(big)));
    let formats = formats().into_iter().enumerate();
    let formats = formats.map(|(at, (_, text))| ("format", format!("{at}.txt"), text.into_bytes()));
    perf.into_iter().chain(formats).collect()
}

fn bytes_of(name: &str) -> Vec<u8> {
    FILES.iter().find(|file| file.0 == name).unwrap().1()
}

/// Events by CPU and name.
fn per_cpu(name: &str) -> BTreeMap<(u16, String), u64> {
    let census = Census::of(open(&folder().join(name)).unwrap().as_mut()).unwrap();
    let all = census.per_cpu.into_iter();
    all.flat_map(|(cpu, names)| names.into_iter().map(move |(name, n)| ((cpu.0, name), n)))
        .collect()
}

#[test]
fn trace_cmd_counts_the_kept_files_alike_or_refuses_one_that_is_sound() {
    let Some((packings, _)) = peer("trace-cmd", &["list"], Path::new("-c")) else { return };
    for (name, _) in FILES {
        let Some((out, err)) = peer("trace-cmd", &["report", "-N", "-i"], &folder().join(name))
        else {
            return;
        };
        if name == "zlib.dat" && !packings.contains("zlib") {
            // Built without zlib, which other builds have: the file holds what lost.dat holds.
            assert!(out.is_empty() && err.contains("error reading header"), "{out}{err}");
            assert_eq!(per_cpu(name), per_cpu("lost.dat"));
            continue;
        }
        assert_eq!(per_cpu(name), counts(&out).0, "{name}\n{err}");
    }
}

#[test]
fn an_absolute_stamp_is_a_time_and_not_a_delta() {
    let mut source = open(&folder().join("absolute.dat")).unwrap();
    let mut batch = Vec::new();
    assert!(source.next(&mut batch).unwrap());
    let times: Vec<u64> = batch
        .iter()
        .filter(|event| matches!(event.what, What::Switch { .. }))
        .map(|event| event.time.0)
        .collect();
    assert_eq!(times, [0, 300_000_000_000, 300_000_000_700]);
}

#[test]
fn a_guests_times_are_its_hosts() {
    let span = |name: &str| {
        Census::of(open(&folder().join(name)).unwrap().as_mut()).unwrap().span.unwrap()
    };
    let (guest, plain) = (span("guest.dat"), span("lost.dat"));
    assert_eq!(guest.start, plain.start, "before the first correction");
    assert_eq!(guest.end, plain.end + Nanos(1_000_000));
}
