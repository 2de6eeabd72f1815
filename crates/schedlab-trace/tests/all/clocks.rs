//! Clocks of a trace.dat that must be corrected: what our times are is what trace-cmd's are.

use crate::common::{header, peer, small};
use crate::convert::read;
use schedlab_model::Clock;
use schedlab_model::table::Rows;
use schedlab_timeline::{Reply, Tasks, TasksAnswer, ask};
use schedlab_trace::dat::{Compression, Header, Version};
use schedlab_trace::{Target, convert, convert_ticks, open, tick_hz};
use std::num::NonZeroU64;
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

/// A trace.dat of this clock, and what `Tasks` says of it.
fn of_clock(folder: &Path, clock: &str) -> (std::path::PathBuf, Reply<TasksAnswer>) {
    let path = folder.join(format!("{clock}.dat"));
    let header = Header { clock: clock.into(), ..header(Version::V6, Compression::None, 3) };
    std::fs::write(&path, small(&header)).unwrap();
    let reply = ask(&mut *open(&path).unwrap(), Tasks::new()).unwrap();
    (path, reply)
}

#[test]
fn counters_have_ticks_and_no_unit_of_time_and_a_note_with_a_code() {
    let dir = tempfile::tempdir().unwrap();
    let (_, mono) = of_clock(dir.path(), "mono");
    assert!(!mono.known.ticks && mono.warnings.iter().all(|note| note.code != "clock-not-time"));
    let text = |reply: &Reply<TasksAnswer>| {
        let rows = reply.rows(&reply.answer.rows);
        let rows = Rows::new(&rows, reply.origin).known(&reply.known);
        let mut table = rows.text(usize::MAX, &[]);
        table.all();
        table.print(0)
    };
    let has_unit = |text: String| {
        text.split_whitespace().any(|word| ["ns", "us", "µs", "ms", "s"].contains(&word))
    };
    assert!(has_unit(text(&mono)), "{}", text(&mono));
    for clock in ["x86-tsc", "counter", "jiffies"] {
        let (path, reply) = of_clock(dir.path(), clock);
        assert_eq!(open(&path).unwrap().info().clock, Clock::Ticks(clock.into()));
        let note = reply.warnings.iter().find(|note| note.code == "clock-not-time").unwrap();
        assert!(note.what.contains(clock), "{note}");
        assert!(!has_unit(text(&reply)), "{clock}:\n{}", text(&reply));
        // As text too a time without a point is a number of ticks.
        let report = dir.path().join("x.txt");
        convert(&path, &report, Target::Report).unwrap();
        assert!(matches!(open(&report).unwrap().info().clock, Clock::Ticks(_)));
    }
    // Hundredths of a second are a unit of time.
    let (path, reply) = of_clock(dir.path(), "uptime");
    assert!(matches!(open(&path).unwrap().info().clock, Clock::Nanoseconds(_)));
    assert!(!reply.known.ticks);
}

#[test]
fn ticks_whose_rate_the_user_tells_become_nanoseconds_for_trace_cmd_too() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = of_clock(dir.path(), "counter");
    let ticks = ours(&path);
    let hz = NonZeroU64::new(2_500_000_000).unwrap();
    let (dat, text) = (dir.path().join("timed.dat"), dir.path().join("timed.txt"));
    let target = Target::Dat(Version::V7, Compression::Zstd);
    let done = convert_ticks(&path, &dat, target, hz).unwrap();
    assert!(done.untouched);
    convert_ticks(&path, &text, Target::Report, hz).unwrap();
    let expected: Vec<u64> = ticks.iter().map(|ticks| ticks * 2 / 5).collect();
    for file in [&dat, &text] {
        assert!(matches!(open(file).unwrap().info().clock, Clock::Nanoseconds(_)), "{file:?}");
        let apart = |a: u64, b: u64| a.abs_diff(b) <= 1 + b / 2_000_000_000;
        for (a, b) in ours(file).into_iter().zip(&expected) {
            assert!(apart(a, *b), "{file:?}: {a} {b}");
        }
        assert_eq!(ours(file).len(), expected.len());
    }
    if let Some(theirs) = theirs(&dat) {
        assert_eq!(theirs, ours(&dat));
    }
    let (mono, _) = of_clock(dir.path(), "mono");
    let error = convert_ticks(&mono, &dat, target, hz).unwrap_err().to_string();
    assert!(error.contains("counts nanoseconds"), "{error}");
}

/// A text in ticks of a third of a nanosecond, with what tasks ran by the kernel; an interrupt of 1 ms is not in it.
fn with_runtimes(folder: &Path, kernel_tells: bool) -> std::path::PathBuf {
    let line = |ns: u64, event: &str| format!(" a-7 [000] d..2. {}: {event}\n", ns * 3);
    let switch = |prev: u32, next: u32| {
        format!(
            "sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 prev_state=S ==> \
             next_comm=b next_pid={next} next_prio=120"
        )
    };
    let ran = |ns: u64| format!("sched_stat_runtime: comm=b pid=7 runtime={ns} [ns]");
    let mut text = line(999, &ran(500));
    for round in 1..10 {
        let at = round * 100_000_000;
        text += &line(at, &switch(0, 7));
        if kernel_tells {
            text += &line(at + 4_000_000, &ran(4_000_000));
            text += &line(at + 7_000_000, &ran(if round == 1 { 2_000_000 } else { 3_000_000 }));
        }
        text += &line(at + 7_001_000, &switch(7, 0));
    }
    let path = folder.join("ticks.txt");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_rate_of_a_counter_comes_from_what_the_kernel_says_of_run_times() {
    let dir = tempfile::tempdir().unwrap();
    let path = with_runtimes(dir.path(), true);
    assert_eq!(tick_hz(&path).unwrap().get(), 3_000_000_000);
    let silent = with_runtimes(dir.path(), false);
    let error = tick_hz(&silent).unwrap_err().to_string();
    assert!(error.contains("sched_stat_runtime"), "{error}");
    let (mono, _) = of_clock(dir.path(), "mono");
    assert!(tick_hz(&mono).unwrap_err().to_string().contains("counts nanoseconds"));
}
