//! How fast a trace becomes events, and a latency table; beside the peers on the same events.
//!
//! `cargo bench -p schedlab-trace --bench read [-- EVENTS [CPUS] [--no-peers]]` makes a synthetic trace (5 million
//! events of 8 CPUs unless told) as trace.dat v6 and v7 with zstd, and lets `perf record` trace
//! hackbench until it has as many events: once the scheduler's usual ones, once all of `sched:*`, as
//! `trace-cmd record -e sched` does, and a fifth as many of the usual ones packed by zstd. Those files stay in the
//! temporary folder for the next run; the second is read as a trace.dat too. What each is made of is printed above
//! its rows.
//! All are read to a latency table, on one core and with two threads, beside `trace-cmd report`,
//! `perf script`, `perf sched latency`, and libkshark's load (from a program of ten lines that is
//! compiled here). Times are those on a CPU, which a busy machine disturbs least; with threads it is wall
//! time. The rows of ours alone are the best of five.
//!
//! A machine that is shared has moods, so a peer's runs lie between runs of our table on one core, five each time:
//! the first ratio is that of the best of both, then comes the median of each run of the peer over the best of ours
//! just before and after it, and the range of those. Ratios, not verdicts.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks and may fail")]

use schedlab_model::{Event, EventSource, Kind};
use schedlab_timeline::{Latency, ask_all};
use schedlab_trace::dat::{Compression, Header, Version};
use schedlab_trace::synthetic::{Plan, Synthetic};
use schedlab_trace::{Census, Options, Target, Trace, convert, open_with};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs of ours, alone and beside each run of a peer.
const RUNS: usize = 5;
/// Runs of a peer: as many as fit into [`PEER_TIME`], but at least and at most so many.
const PEER_RUNS: std::ops::RangeInclusive<usize> = 3..=7;
const PEER_TIME: Duration = Duration::from_secs(15);

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<u64>().ok());
    let events = numbers.next().unwrap_or(5_000_000);
    let cpus = u16::try_from(numbers.next().unwrap_or(8)).unwrap();
    let peers = !std::env::args().any(|argument| argument == "--no-peers");
    let dir = tempfile::tempdir().unwrap();
    synthetic(dir.path(), events, cpus, peers);
    for (name, tracepoints) in [("usual", USUAL), ("all", ALL)] {
        match recorded(events, name, tracepoints, &[]) {
            Some(file) => {
                perf("perf.data, hackbench", &file, peers);
                if name == "all" {
                    converted(dir.path(), &file, peers);
                }
            }
            None => println!("MISSING: perf or hackbench, or the right to trace: no perf.data"),
        }
    }
    // What unpacking costs shows in fewer events too, and recording them takes long.
    match recorded(events / 5, "zstd", USUAL, &["-z"]) {
        Some(file) => perf("perf.data packed by zstd, hackbench", &file, false),
        None => println!("MISSING: a perf that packs: no compressed perf.data"),
    }
}

/// What tells who ran and waited, with how long and whose birth and end.
const USUAL: &str = "sched:sched_switch,sched:sched_waking,sched:sched_wakeup,sched:sched_wakeup_new,\
                     sched:sched_migrate_task,sched:sched_stat_runtime,sched:sched_process_fork,\
                     sched:sched_process_exit";
/// All that the scheduler tells.
const ALL: &str = "sched:*";

/// A trace.dat of the four events of each wakeup, and what packing it costs.
fn synthetic(dir: &Path, events: u64, cpus: u16, peers: bool) {
    let plan = Plan { cpus, events, ..Plan::default() };
    let v6 = dir.join("v6.dat");
    let zstd = dir.join("zstd.dat");
    Synthetic::new(plan.clone()).write(&v6, Header::default()).unwrap();
    let header =
        Header { version: Version::V7, compression: Compression::Zstd, ..Header::default() };
    Synthetic::new(plan).write(&zstd, header).unwrap();
    dat(dir, &format!("synthetic, {cpus} CPUs"), &v6, peers);
    row("schedlab: latency table, v7 zstd", events, best(1, || latency(&zstd, 1)));
    row("schedlab: latency table, v7 zstd, 2 threads", events, best(2, || latency(&zstd, 2)));
}

/// The records of a perf.data in a trace.dat.
fn converted(dir: &Path, file: &Path, peers: bool) {
    let v6 = dir.join("all.dat");
    convert(file, &v6, Target::Dat(Version::V6, Compression::None)).unwrap();
    dat(dir, "hackbench", &v6, peers);
}

/// A trace.dat v6 beside trace-cmd and libkshark.
fn dat(dir: &Path, what: &str, v6: &Path, peers: bool) {
    let events = title(&format!("trace.dat, {what}"), v6);
    row("schedlab: latency table, v6", events, best(1, || latency(v6, 1)));
    row("schedlab: events only, v6", events, best(1, || drain(v6, 1)));
    for threads in threads() {
        let name = |what: &str| format!("schedlab: {what}, v6, {threads} threads");
        row(&name("latency table"), events, best(threads, || latency(v6, threads)));
        row(&name("events only"), events, best(threads, || drain(v6, threads)));
    }
    if !peers {
        return;
    }
    beside("trace-cmd report, v6", events, "trace-cmd", &["report", "-i"], v6);
    match kshark(dir) {
        Some(program) => beside("libkshark: load, v6", events, program.to_str().unwrap(), &[], v6),
        None => println!("MISSING: libkshark (libkshark-dev and a C compiler): no ratio to it"),
    }
}

/// Numbers of threads to read with: as many as there are CPUs, at most eight.
fn threads() -> impl Iterator<Item = usize> {
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    [2, 4, 8].into_iter().filter(move |threads| *threads == 2 || *threads <= cpus)
}

/// Prints what a file is made of; its events.
fn title(what: &str, file: &Path) -> u64 {
    let census = Census::of(source(file, 1).as_mut()).unwrap();
    let counts = census.events();
    // Names are told in the records that have them, and are none of their own.
    let total: u64 = counts.iter().filter(|(name, _)| **name != "comm").map(|(_, n)| n).sum();
    let bytes = std::fs::metadata(file).unwrap().len() as f64 / total as f64;
    println!("\n{what}: {total} events, {bytes:.1} bytes each");
    let share = |(name, count): (&str, u64)| {
        let percent = count as f64 * 100.0 / total as f64;
        (name != "comm" && percent >= 0.5).then(|| format!("{name} {percent:.0} %"))
    };
    println!("{}\n", counts.into_iter().filter_map(share).collect::<Vec<_>>().join(", "));
    total
}

/// perf.data beside perf.
fn perf(what: &str, file: &Path, peers: bool) {
    let events = title(what, file);
    row("schedlab: latency table, perf.data", events, best(1, || latency(file, 1)));
    row("schedlab: events only, perf.data", events, best(1, || drain(file, 1)));
    row("schedlab: latency table, perf.data, 2 threads", events, best(2, || latency(file, 2)));
    if !peers {
        return;
    }
    beside("perf sched latency", events, "perf", &["sched", "latency", "-i"], file);
    beside("perf script", events, "perf", &["script", "-i"], file);
}

/// A perf.data of hackbench with at least this many of these events, from an earlier run where there is
/// one.
fn recorded(events: u64, name: &str, tracepoints: &str, options: &[&str]) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = own.join(format!("bench-read-{name}-{events}.perf.data"));
    let mut loops = 100;
    while !file.exists() || count(&file) < events {
        let partial = file.with_extension("partial");
        record(&partial, loops, tracepoints, options)?;
        let seen = count(&partial);
        println!("recorded hackbench with {loops} loops: {seen} events");
        // A tenth more than in proportion, and at least twice as many loops.
        loops = (loops * events * 11 / seen.max(1) / 10).max(loops * 2);
        std::fs::rename(&partial, &file).ok()?;
    }
    Some(file)
}

fn record(file: &Path, loops: u64, tracepoints: &str, options: &[&str]) -> Option<()> {
    let status = Command::new("perf")
        .args(["record", "-q", "-a", "-c", "1", "-m", "4M"])
        .args(options)
        .args(["-e", tracepoints, "-o"])
        .arg(file)
        .args(["hackbench", "-g", "4", "-l", &loops.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.ok()?.success().then_some(())
}

/// The events of a file, names apart, which we make of records that have them.
fn count(file: &Path) -> u64 {
    let Ok(mut source) = open_with(file, &Options::default()) else { return 0 };
    let (mut batch, mut count) = (Vec::new(), 0);
    while source.next(&mut batch).unwrap() {
        count += batch.iter().filter(|event| event.what.kind() != Kind::Comm).count() as u64;
    }
    count
}

/// A program that loads a file as KernelShark does; `None` where it cannot be compiled. It declares what
/// it calls itself, since the library's headers want those of three others.
fn kshark(dir: &Path) -> Option<PathBuf> {
    const SOURCE: &str = r#"
        _Bool kshark_instance(void **context);
        int kshark_open(void *context, const char *file);
        long kshark_load_entries(void *context, int stream, void ***entries);
        int main(int argc, char **argv) {
            void *context = 0, **entries = 0;
            if (argc < 2 || !kshark_instance(&context)) return 1;
            int stream = kshark_open(context, argv[1]);
            if (stream < 0) return 1;
            return kshark_load_entries(context, stream, &entries) > 0 ? 0 : 1;
        }
    "#;
    let source = dir.join("load.c");
    let program = dir.join("load");
    std::fs::write(&source, SOURCE).ok()?;
    let mut compile = Command::new("cc");
    compile.arg("-O2").arg(&source).arg("-o").arg(&program).arg("-lkshark");
    let status = compile.stderr(Stdio::null()).status();
    status.ok()?.success().then_some(program)
}

/// Prints one line.
fn row(name: &str, events: u64, time: Duration) {
    println!("{}", line(name, events, time));
}

fn line(name: &str, events: u64, time: Duration) -> String {
    let rate = events as f64 / time.as_secs_f64() / 1e6;
    let each = time.as_secs_f64() * 1e9 / events as f64;
    format!("{name:46} {rate:8.2} M events/s {each:8.1} ns each")
}

/// Runs a peer on a file between runs of our latency table, and prints its line.
fn beside(name: &str, events: u64, program: &str, arguments: &[&str], file: &Path) {
    let ours = || best(1, || latency(file, 1));
    let (mut mine, mut theirs) = (vec![ours()], Vec::new());
    let mut spent = Duration::ZERO;
    while theirs.len() < *PEER_RUNS.start()
        || (theirs.len() < *PEER_RUNS.end() && spent < PEER_TIME)
    {
        let Some(time) = peer(program, arguments, file) else {
            println!("MISSING: {program} {}: no ratio to it", arguments.join(" "));
            return;
        };
        spent += time;
        theirs.push(time);
        mine.push(ours());
    }
    let ratio = |theirs: Duration, ours: Duration| theirs.as_secs_f64() / ours.as_secs_f64();
    let best = *theirs.iter().min().unwrap();
    let of_bests = ratio(best, *mine.iter().min().unwrap());
    let pair = |(theirs, ours): (&Duration, &[Duration])| ratio(*theirs, ours[0].min(ours[1]));
    let mut pairs: Vec<f64> = theirs.iter().zip(mine.windows(2)).map(pair).collect();
    pairs.sort_by(f64::total_cmp);
    let count = pairs.len();
    let median = (pairs[(count - 1) / 2] + pairs[count / 2]) / 2.0;
    println!(
        "{}  {of_bests:6.1} x ours; run by run {median:.1} ({:.1} to {:.1}, {count} runs)",
        line(name, events, best),
        pairs[0],
        pairs[count - 1],
    );
}

/// The best of our runs.
fn best(threads: usize, mut run: impl FnMut()) -> Duration {
    (0..RUNS).map(|_| on_cpu_of(threads, &mut run)).min().unwrap()
}

/// The time that a run takes, on a CPU where one thread does it and the system tells: a loaded machine disturbs that
/// less. Helpers' time is not in it, so with several threads wall time counts.
fn on_cpu_of(threads: usize, mut run: impl FnMut()) -> Duration {
    let (start, cpu) = (Instant::now(), on_cpu());
    run();
    match (threads, on_cpu().zip(cpu)) {
        (1, Some((after, before))) => after.saturating_sub(before),
        _ => start.elapsed(),
    }
}

/// Time that this thread was on a CPU; `None` where the kernel does not say.
fn on_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn source(path: &Path, threads: usize) -> Box<dyn EventSource> {
    open_with(path, &Options { threads, ..Options::default() }).unwrap()
}

fn latency(path: &Path, threads: usize) {
    let mut trace = Trace::open(path, &Options { threads, ..Options::default() }).unwrap();
    let reply = ask_all(&mut trace, Latency::new()).unwrap();
    std::hint::black_box(reply);
}

fn drain(path: &Path, threads: usize) {
    let mut source = source(path, threads);
    let mut batch: Vec<Event> = Vec::new();
    while source.next(&mut batch).unwrap() {
        std::hint::black_box(&batch);
    }
}

/// A peer's time on the file, on a CPU where the system tells. `None` where it is not installed or does not take
/// the file.
fn peer(program: &str, arguments: &[&str], file: &Path) -> Option<Duration> {
    let (start, before) = (Instant::now(), children_on_cpu());
    let mut command = Command::new(program);
    command.args(arguments).arg(file).stdout(Stdio::null()).stderr(Stdio::null());
    let success = command.status().is_ok_and(|status| status.success());
    let on_cpu = children_on_cpu().zip(before).map(|(after, before)| after - before);
    success.then(|| on_cpu.unwrap_or_else(|| start.elapsed()))
}

/// Time that children which have ended were on a CPU, to the kernel's tick of 10 ms.
fn children_on_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Fields are counted from 1, and the second, a name in brackets, may hold spaces.
    let after_name = text.rsplit_once(')')?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: u64 = fields.get(13)?.parse::<u64>().ok()? + fields.get(14)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}
