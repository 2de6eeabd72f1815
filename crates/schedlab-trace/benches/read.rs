//! How fast a trace becomes events, and a latency table; beside the peers on the same events.
//!
//! `cargo bench -p schedlab-trace --bench read [-- EVENTS [CPUS]]` makes a synthetic trace (5 million
//! events of 8 CPUs unless told), reads it as trace.dat v6 and v7 with zstd, and runs `trace-cmd
//! report` and `perf sched latency` where they are installed. Best of three by CPU time (peers: wall time, once); ratios, not verdicts.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks and may fail")]

use schedlab_model::{Event, EventSource};
use schedlab_timeline::{Latency, ask};
use schedlab_trace::dat::{Compression, Header, Version};
use schedlab_trace::synthetic::{Plan, Synthetic};
use schedlab_trace::{Options, open_with};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<u64>().ok());
    let events = numbers.next().unwrap_or(5_000_000);
    let cpus = u16::try_from(numbers.next().unwrap_or(8)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    println!("{events} events of {cpus} CPUs, best of three\n");
    let plan = Plan { cpus, events, ..Plan::default() };
    let v6 = dir.path().join("v6.dat");
    let zstd = dir.path().join("zstd.dat");
    Synthetic::new(plan.clone()).write(&v6, Header::default()).unwrap();
    let header =
        Header { version: Version::V7, compression: Compression::Zstd, ..Header::default() };
    Synthetic::new(plan).write(&zstd, header).unwrap();
    let bytes = std::fs::metadata(&v6).unwrap().len();
    println!("trace.dat v6 has {:.1} bytes an event\n", bytes as f64 / events as f64);

    let ours = row("schedlab: latency table, v6", events, None, best(1, || latency(&v6, 1)));
    row("schedlab: events only, v6", events, None, best(1, || drain(&v6, 1)));
    row("schedlab: latency table, v6, 2 threads", events, None, best(2, || latency(&v6, 2)));
    row("schedlab: latency table, v7 zstd", events, None, best(1, || latency(&zstd, 1)));
    row("schedlab: latency table, v7 zstd, 2 threads", events, None, best(2, || latency(&zstd, 2)));
    if let Some(time) = peer("trace-cmd", &["report", "-i"], &v6) {
        row("trace-cmd report, v6", events, Some(ours), time);
    }
}

/// Prints one line; the time again.
fn row(name: &str, events: u64, ours: Option<Duration>, time: Duration) -> Duration {
    let rate = events as f64 / time.as_secs_f64() / 1e6;
    let each = time.as_secs_f64() * 1e9 / events as f64;
    let ratio = ours.map_or_else(String::new, |ours| {
        format!("  {:6.1} x ours", time.as_secs_f64() / ours.as_secs_f64())
    });
    println!("{name:44} {rate:8.2} M events/s {each:8.1} ns each{ratio}");
    time
}

/// The best of three by the time on a CPU, which a loaded machine disturbs less; helpers' time is not
/// in it, so with several threads wall time counts.
fn best(threads: usize, mut run: impl FnMut()) -> Duration {
    (0..3)
        .map(|_| {
            let (start, cpu) = (Instant::now(), on_cpu());
            run();
            match (threads, on_cpu().zip(cpu)) {
                (1, Some((after, before))) => after.saturating_sub(before),
                _ => start.elapsed(),
            }
        })
        .min()
        .unwrap()
}

/// Time that this thread was on a CPU; `None` where the kernel does not say.
fn on_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn source(path: &Path, threads: usize) -> Box<dyn EventSource> {
    open_with(path, &Options { threads }).unwrap()
}

fn latency(path: &Path, threads: usize) {
    let reply = ask(source(path, threads).as_mut(), Latency::new()).unwrap();
    std::hint::black_box(reply);
}

fn drain(path: &Path, threads: usize) {
    let mut source = source(path, threads);
    let mut batch: Vec<Event> = Vec::new();
    while source.next(&mut batch).unwrap() {
        std::hint::black_box(&batch);
    }
}

/// A peer's time on the file, once: it takes seconds. `None` where it is not installed.
fn peer(program: &str, arguments: &[&str], file: &Path) -> Option<Duration> {
    let start = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Some(start.elapsed()),
        _ => {
            println!("MISSING: {program}: no ratio to it");
            None
        }
    }
}
