//! Several threads tell of a trace.dat exactly what one tells, sound or broken, by whatever portions.

use crate::common::{header, instances, small};
use proptest::prelude::*;
use schedlab_model::{Event, EventSource, Warning};
use schedlab_trace::dat::{Compression, Header, Version};
use schedlab_trace::synthetic::{Plan, Synthetic};
use schedlab_trace::{Encoding, Options, open_bytes_with, open_with};
use std::path::Path;

/// Threads, and bytes of a portion: hardly any, about a page of each CPU, as many as they would have.
const WAYS: [(usize, Option<usize>); 6] = [
    (2, Some(1)),
    (3, Some(1)),
    (5, Some(20_000)),
    (2, Some(40_000)),
    (16, Some(5_000)),
    (2, None),
];

fn told(source: &mut dyn EventSource) -> (Vec<Event>, Vec<Warning>) {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        all.append(&mut batch);
    }
    assert!(!source.next(&mut batch).unwrap() && batch.is_empty(), "the end stays the end");
    (all, source.warnings().to_vec())
}

fn read(
    bytes: &[u8],
    threads: usize,
    portion: Option<usize>,
) -> Option<(Vec<Event>, Vec<Warning>)> {
    let options = Options { threads, portion, ..Options::default() };
    let mut source = open_bytes_with(Path::new("x.dat"), bytes.to_vec(), &options).ok()?;
    Some(told(source.as_mut()))
}

/// How many events one thread tells, and all others too.
#[track_caller]
fn alike(bytes: &[u8], ways: &[(usize, Option<usize>)], what: &str) -> usize {
    let alone = read(bytes, 1, None);
    for (threads, portion) in ways {
        let together = read(bytes, *threads, *portion);
        let (Some(alone), Some(together)) = (&alone, &together) else {
            assert_eq!(alone.is_some(), together.is_some(), "{what}");
            continue;
        };
        let first = alone.0.iter().zip(&together.0).position(|(a, b)| a != b);
        assert!(alone.0 == together.0, "{what}, {threads} threads, {portion:?}: event {first:?}");
        assert_eq!(alone.1, together.1, "{what}, {threads} threads, {portion:?}");
    }
    alone.map_or(0, |(events, _)| events.len())
}

fn synthetic(cpus: u16, events: u64, header: Header) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.dat");
    Synthetic::new(Plan { cpus, events, ..Plan::default() }).write(&path, header).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn several_threads_tell_the_same_story() {
    for cpus in [1, 2, 7, 40, 70] {
        let plain = synthetic(cpus, 30_000, Header::default());
        assert!(alike(&plain, &WAYS, &format!("{cpus} CPUs")) >= 30_000);
    }
    for cpus in [1, 7] {
        assert!(alike(&synthetic(cpus, 30_000, zstd()), &PACKED, "zstd") >= 30_000);
    }
}

/// Threads that unpack; the last of so many as four decodes.
const PACKED: [(usize, Option<usize>); 4] = [(2, Some(1)), (3, None), (4, None), (9, None)];

fn zstd() -> Header {
    Header { version: Version::V7, compression: Compression::Zstd, ..Header::default() }
}

#[test]
fn packed_pages_that_are_cut_or_wrong_are_told_alike() {
    let whole = synthetic(3, 20_000, zstd());
    let mut read = 0;
    for at in (0..whole.len()).step_by(9_973) {
        read += alike(&whole[..at], &PACKED, &format!("zstd cut at {at}"));
        let mut wrong = whole.clone();
        wrong[at] ^= 0x5a;
        read += alike(&wrong, &PACKED, &format!("zstd wrong at {at}"));
    }
    assert!(read > 100_000, "{read} events");
}

#[test]
fn all_that_a_small_trace_can_hold_is_told_alike() {
    for version in [Version::V6, Version::V7] {
        for (big_endian, long) in [(false, 8), (true, 8), (false, 4)] {
            let header = Header {
                encoding: Encoding { big_endian, long },
                instances: instances(),
                ..header(version, Compression::None, 3)
            };
            assert!(
                alike(&small(&header), &WAYS, &format!("{version:?} {big_endian} {long}")) > 100
            );
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_told_alike() {
    let whole = synthetic(3, 4_000, Header::default());
    let mut read = 0;
    for length in (0..whole.len()).step_by(3_931).chain((0..whole.len()).step_by(16_384)) {
        read += alike(&whole[..length], &WAYS[..3], &format!("cut at {length}"));
    }
    assert!(read > 25_000, "{read} events");
    let small = small(&header(Version::V6, Compression::None, 3));
    for length in (small.len() / 2..small.len()).step_by(41) {
        alike(&small[..length], &WAYS[..2], &format!("cut at {length}"));
    }
}

#[test]
fn a_file_that_shrinks_while_threads_read_it_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.dat");
    let whole = synthetic(2, 20_000, Header::default());
    for (threads, portion) in WAYS {
        std::fs::write(&path, &whole).unwrap();
        let options = Options { threads, portion, ..Options::default() };
        let mut source = open_with(&path, &options).unwrap();
        let mut batch = Vec::new();
        source.next(&mut batch).unwrap();
        let length = whole.len() as u64;
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 3).unwrap();
        let (events, warnings) = told(source.as_mut());
        assert!(events.len() + batch.len() < 20_000, "{threads} threads, {portion:?}");
        assert_eq!(warnings[0].code, "trace-cut", "{threads} threads, {portion:?}");
        assert!(events.is_sorted_by_key(|event| event.time));
    }
}

/// Where pages begin in a file of the writer's, whose head ends on a page: those that hold events.
fn pages(bytes: &[u8]) -> Vec<usize> {
    let head = bytes.len() - bytes.len() / 4096 * 4096;
    (head..bytes.len()).step_by(4096).skip_while(|at| *at < 40_000).collect()
}

#[test]
fn a_page_whose_time_lies_costs_time_only() {
    let sound = synthetic(3, 5_000, Header::default());
    let (mut lies, mut seen) = (0, 0);
    for page in pages(&sound).into_iter().step_by(7) {
        for by in [-1_000_000i64, 500_000, 1 << 40] {
            let mut bytes = sound.clone();
            let time = u64::from_le_bytes(bytes[page..page + 8].try_into().unwrap());
            let time = time.wrapping_add_signed(by);
            bytes[page..page + 8].copy_from_slice(&time.to_le_bytes());
            alike(&bytes, &WAYS[..3], &format!("the page at {page} lies by {by}"));
            let (_, warnings) = read(&bytes, 1, None).unwrap();
            seen += usize::from(warnings.iter().any(|warning| warning.code == "time-goes-back"));
            lies += 1;
        }
    }
    // A CPU's first page may be earlier, and its last one later.
    assert!(seen * 2 > lies && lies > 15, "{seen} of {lies} lies were seen: they hit no heads");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Heads of pages lie: times far off, or back by little, losses that were none, lengths that cannot be.
    #[test]
    fn pages_whose_heads_lie_are_told_alike(
        lies in prop::collection::vec((any::<prop::sample::Index>(), 0..6, any::<i64>()), 1..12),
        way in 0..WAYS.len(),
    ) {
        let mut bytes = synthetic(3, 5_000, Header::default());
        let pages = pages(&bytes);
        prop_assert!(pages.len() > 20);
        for (page, lie, by) in lies {
            let at = pages[page.index(pages.len())];
            let place = if lie < 4 { at } else { at + 8 };
            let number = u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap());
            let number = match lie {
                0 => by.cast_unsigned(),
                1..4 => number.wrapping_add_signed(by % 3_000_000),
                4 => number | 1 << 31,
                _ => number.wrapping_add_signed(by % 5_000),
            };
            bytes[place..place + 8].copy_from_slice(&number.to_le_bytes());
        }
        alike(&bytes, &WAYS[way..=way], "lies");
    }
}
