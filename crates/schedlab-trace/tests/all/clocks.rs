//! Clocks of a trace.dat that must be corrected: what our times are is what trace-cmd's are.

use crate::common::{header, peer, small};
use crate::convert::read;
use schedlab_model::Clock;
use schedlab_trace::dat::{Compression, Header, Version};
use schedlab_trace::open;
use std::path::Path;

/// Numbers of options.
const DATE: u16 = 1;
const OFFSET: u16 = 7;
const TIME_SHIFT: u16 = 12;
const TSC2NSEC: u16 = 14;

/// What is corrected, the clock's name, and the options that ask for it.
type Case = (&'static str, &'static str, Vec<(u16, Vec<u8>)>);

/// Times that trace-cmd prints, ascending; `None` without it.
fn theirs(path: &Path) -> Option<Vec<u64>> {
    let (out, err) = peer("trace-cmd", &["report", "-t", "-N", "-i"], path)?;
    let time = |line: &str| {
        // `comm-pid [cpu] secs.nanos: name: ...`
        let stamp = line.split_once("] ")?.1.trim_start().split(':').next()?.to_owned();
        let (secs, nanos) = stamp.split_once('.')?;
        assert_eq!(nanos.len(), 9, "{line}");
        Some(secs.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?)
    };
    let mut times: Vec<u64> = out.lines().filter_map(time).collect();
    assert!(times.len() > 100, "{err}");
    times.sort_unstable();
    Some(times)
}

fn ours(path: &Path) -> Vec<u64> {
    let events = read(path);
    let told = events.iter().filter(|event| event.what.kind() != schedlab_model::Kind::Lost);
    told.map(|event| event.time.0).collect()
}

fn option(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A guest's corrections for each of three CPUs: times, what is added from then on, scaling, and fraction bits.
fn shift() -> Vec<u8> {
    let mut option = 0x1234u64.to_le_bytes().to_vec();
    option.extend(0u32.to_le_bytes());
    option.extend(3u32.to_le_bytes());
    for _ in 0..3 {
        option.extend(4u32.to_le_bytes());
        let columns = [
            [0u64, 20_000, 50_000, 90_000],
            [1_000, 300_000, 1_000_000, 2_000_000],
            [3 << 10, 2 << 10, 5 << 9, 1 << 10],
        ];
        for column in columns {
            option.extend(column.into_iter().flat_map(u64::to_le_bytes));
        }
    }
    for _ in 0..3 {
        option.extend([10u64, 10, 9, 10].into_iter().flat_map(u64::to_le_bytes));
    }
    option
}

#[test]
fn corrected_times_are_those_of_trace_cmd() {
    let dir = tempfile::tempdir().unwrap();
    let tsc = option(&[&(3u32 << 20).to_le_bytes(), &21u32.to_le_bytes(), &7u64.to_le_bytes()]);
    let cases: [Case; 5] = [
        ("ticks of a TSC", "tsc2nsec", vec![(TSC2NSEC, tsc.clone())]),
        ("a date, microseconds", "mono", vec![(DATE, b"0x5f5e100\0".to_vec())]),
        ("an offset, nanoseconds", "mono", vec![(OFFSET, b"1234567\0".to_vec())]),
        ("a guest", "mono", vec![(TIME_SHIFT, shift())]),
        (
            "all of it",
            "tsc2nsec",
            vec![(TIME_SHIFT, shift()), (TSC2NSEC, tsc), (OFFSET, b"77\0".to_vec())],
        ),
    ];
    for (name, clock, options) in cases {
        let mut changed = 0;
        for version in [Version::V6, Version::V7] {
            let plain: Header = header(version, Compression::None, 3);
            let path = dir.path().join("x.dat");
            std::fs::write(&path, small(&plain)).unwrap();
            let before = ours(&path);
            let header = Header { clock: clock.into(), options: options.clone(), ..plain };
            std::fs::write(&path, small(&header)).unwrap();
            assert!(matches!(
                open(&path).unwrap().info().clock,
                Clock::Monotonic | Clock::Nanoseconds(_)
            ));
            let after = ours(&path);
            changed += before.iter().zip(&after).filter(|(before, after)| before != after).count();
            let Some(theirs) = theirs(&path) else { continue };
            assert_eq!(after, theirs, "{name}, {version:?}");
        }
        assert!(changed > 100, "{name}: {changed} times are corrected");
    }
}
