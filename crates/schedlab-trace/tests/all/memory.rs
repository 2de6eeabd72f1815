//! Private memory does not grow with the trace: what `docs/formats.md` promises, by the kernel's own count. And no
//! file takes the machine: what `SECURITY.md` promises of files that repeat, point back and loop.
//!
//! A process of its own for each, since other tests' memory would count. Each kind of trace is read
//! twice, once four times as long: the reader takes no more, and less than the bound, which the longer file
//! exceeds by far. A latency table takes what its tasks take (histograms that fill, up to 30 KiB each).

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test says what it found"
)]

use crate::{perf_file, structure};

use schedlab_model::{Event, EventSource, TraceInfo, Warning};
use schedlab_timeline::{Latency, ask};
use schedlab_trace::dat::{Compression, Header, Version};
use schedlab_trace::synthetic::{Plan, Synthetic};
use schedlab_trace::{Options, Target, convert, open_with};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;

/// Anonymous memory of this process now, in bytes (`RssAnon` of `/proc/self/status`, proc(5)).
fn private() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// A source whose reader's memory is looked at every now and then.
struct Watched {
    source: Box<dyn EventSource>,
    before: u64,
    most: u64,
    batches: u64,
    events: u64,
}

impl EventSource for Watched {
    fn info(&self) -> &TraceInfo {
        self.source.info()
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        let more = self.source.next(batch)?;
        self.events += batch.len() as u64;
        if self.batches.is_multiple_of(8) || !more {
            self.most = self.most.max(private().saturating_sub(self.before));
        }
        self.batches += 1;
        Ok(more)
    }

    fn warnings(&self) -> &[Warning] {
        self.source.warnings()
    }
}

/// What one reading took.
#[derive(Clone, Copy, Default)]
struct Took {
    /// Private memory to read the events.
    reader: u64,
    /// With a latency table made of them.
    table: u64,
    events: u64,
    tasks: u64,
}

/// The most that a task takes in a latency table: two histograms of 30 KiB.
const TASK: u64 = 60 << 10;

/// The waits that a latency table gathers before it records them: 6 MiB, and a copy while they grow.
const WAITS: u64 = 8 * MIB;

/// Names the file to the process that reads it, which is this program again: its memory is its own.
const FILE: &str = "SCHEDLAB_TEST_MEMORY_OF";
const THREADS: &str = "SCHEDLAB_TEST_MEMORY_THREADS";

/// The name of the file that is read through a pipe.
const PIPED: &str = "piped.dat";

/// In the process that reads: prints what it took.
fn read(path: &Path) {
    let threads = std::env::var(THREADS).unwrap().parse().unwrap();
    let watched = || {
        let before = private();
        let source = open_with(path, &Options { threads, ..Options::default() }).unwrap();
        Watched { source, before, most: 0, batches: 0, events: 0 }
    };
    let (mut alone, mut batch) = (watched(), Vec::new());
    while alone.next(&mut batch).unwrap() {}
    // What the first reading gave back may be used again, so it counts.
    let before = alone.before;
    let mut source = watched();
    source.before = before;
    let reply = ask(&mut source, Latency::new()).unwrap();
    assert!(!reply.answer.tasks.is_empty());
    let tasks = reply.answer.tasks.len();
    println!("\ntook {} {} {} {tasks}", alone.most, source.most, alone.events);
}

fn took(path: &Path, threads: usize) -> Took {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "memory::memory_is_bounded_whatever_the_size_of_the_file",
        "--nocapture",
    ]);
    command.env(FILE, path).env(THREADS, threads.to_string());
    let mut cat = None;
    if path.ends_with(PIPED) {
        let mut from = Command::new("cat").arg(path).stdout(Stdio::piped()).spawn().unwrap();
        command.env(FILE, "-").stdin(from.stdout.take().unwrap());
        cat = Some(from);
    }
    let output = command.output().unwrap();
    assert!(cat.is_none_or(|mut cat| cat.wait().unwrap().success()), "all of the pipe was read");
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find_map(|line| line.strip_prefix("took ")).expect("it was read");
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    Took { reader: numbers[0], table: numbers[1], events: numbers[2], tasks: numbers[3] }
}

#[track_caller]
fn bounded(name: &str, dir: &Path, threads: usize, bound: u64, make: impl Fn(&Path, u64)) {
    let [short, long] = [1, 4].map(|times| {
        let path = dir.join(name);
        make(&path, times);
        let took = took(&path, threads);
        let size = std::fs::metadata(&path).unwrap().len() >> 10;
        let (reader, table) = (took.reader >> 10, took.table >> 10);
        eprintln!("{name} x {times}, {size} KiB: read in {reader} KiB, with a table in {table}");
        std::fs::remove_file(path).unwrap();
        took
    });
    // Unpacked, each event takes some fifty bytes.
    assert!(long.events * 50 > bound * 2, "{name}: {} events prove nothing", long.events);
    // Buffers grow to the largest chunk, and how many batches wait between two threads is a matter of luck.
    assert!(long.reader < short.reader + 2 * MIB, "{name}: {} and {}", short.reader, long.reader);
    assert!(long.reader < bound, "{name}: {} bytes, more than {bound}", long.reader);
    // The same process has read the file before, and may not have given all of that back.
    let table = 2 * bound + WAITS + long.tasks * TASK;
    assert!(long.table < table, "{name}: {} bytes, more than {table}", long.table);
}

fn write(path: &Path, cpus: u16, events: u64, version: Version, compression: Compression) {
    let plan = Plan { cpus, events, ..Plan::default() };
    Synthetic::new(plan).write(path, Header { version, compression, ..Header::default() }).unwrap();
}

#[test]
fn memory_is_bounded_whatever_the_size_of_the_file() {
    if let Some(path) = std::env::var_os(FILE) {
        return read(Path::new(&path));
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // Windows of all CPUs together (1 MiB), and the batch.
    bounded("8-cpus.dat", dir, 1, 2 * MIB, |path, times| {
        write(path, 8, times * 50_000, Version::V6, Compression::None);
    });
    // Three threads, and the caller's own place: windows, and two portions of a MiB a thread.
    bounded("8-cpus-3-threads.dat", dir, 3, 12 * MIB, |path, times| {
        write(path, 8, times * 180_000, Version::V6, Compression::None);
    });
    // A pipe is kept in a file meanwhile, not in memory.
    bounded(PIPED, dir, 1, 2 * MIB, |path, times| {
        write(path, 8, times * 50_000, Version::V6, Compression::None);
    });
    // A page of 4 KiB for each CPU.
    bounded("1024-cpus.dat", dir, 1, 6 * MIB, |path, times| {
        write(path, 1024, times * 75_000, Version::V6, Compression::None);
    });
    // Packed: an unpacked chunk of ten pages for each CPU.
    bounded("128-cpus.zstd.dat", dir, 1, 8 * MIB, |path, times| {
        write(path, 128, times * 150_000, Version::V7, Compression::Zstd);
    });
    // Rounds of 4,000 samples of 32 bytes on two CPUs: two of them, twice while one grows.
    bounded("rounds.perf.data", dir, 1, 2 * MIB, |path, times| {
        std::fs::write(path, perf_file::many_rounds(times * 15, 2_000, 2)).unwrap();
    });
    // Packed, with megabytes in each compressed record: a step of it at a time.
    bounded("packed.perf.data", dir, 1, 2 * MIB, |path, times| {
        std::fs::write(path, perf_file::packed_rounds(times * 40, 1_000, 2, 40)).unwrap();
    });
    // And sixteen batches ahead.
    bounded("ahead.perf.data", dir, 2, 4 * MIB, |path, times| {
        std::fs::write(path, perf_file::many_rounds(times * 25, 2_000, 2)).unwrap();
    });
    // And two times three of those rounds ahead, which together are enough to be handed over.
    bounded("rounds-ahead.perf.data", dir, 3, 4 * MIB, |path, times| {
        std::fs::write(path, perf_file::many_rounds(times * 25, 2_000, 2)).unwrap();
    });
    bounded("report.txt", dir, 1, 2 * MIB, |path, times| {
        let dat = dir.join("a.dat");
        write(&dat, 8, times * 25_000, Version::V6, Compression::None);
        convert(&dat, path, Target::Report).unwrap();
    });
}

/// Names the file that the process reads, or the seed of those that it makes.
const STRUCTURE: &str = "SCHEDLAB_TEST_STRUCTURE_OF";

/// Says what is not checked, where the harness does not keep it.
fn missing(what: &str) {
    drop(writeln!(std::io::stderr(), "MISSING: {what}"));
}

/// Runs this test in a process of its own, whose memory is its own and has an end.
fn alone(test: &str, of: &std::ffi::OsStr) -> String {
    // A reader that takes all memory fails here, and not the machine.
    let limited = "ulimit -v 8000000; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(STRUCTURE, of);
    // What is freed goes back at once, so what was resident before says nothing about the reader.
    command.env("MALLOC_MMAP_THRESHOLD_", "131072");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {}\n{said}\n{told}", of.display(), output.status);
    said
}

/// Files that are made of random choices; a fuzzer makes more of them (`fuzz/fuzz_targets/structure.rs`).
#[test]
fn files_that_repeat_and_loop_take_bounded_memory() {
    const THIS: &str = "memory::files_that_repeat_and_loop_take_bounded_memory";
    const SEEDS: u64 = 2;
    let Some(seed) = std::env::var_os(STRUCTURE) else {
        for seed in 0..SEEDS {
            let said = alone(THIS, seed.to_string().as_ref());
            assert!(said.contains("the largest"), "{said}");
        }
        return;
    };
    let rounds = std::env::var("SCHEDLAB_TEST_STRUCTURES").map_or(4, |text| text.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let mut random =
        schedlab_random::XorShiftStar::new(0x57ac ^ seed.to_str().unwrap().parse::<u64>().unwrap());
    let mut largest = 0;
    for _ in 0..rounds {
        let choices: Vec<u8> = (0..512).map(|_| (random.bits() >> 33) as u8).collect();
        let Some((size, took)) = structure::read(&choices, &dir.path().join("made")) else {
            missing("/proc/self/clear_refs: the memory of readers is not measured");
            break;
        };
        println!("{:?}: {size} bytes took {} MiB", &choices[..2], took >> 20);
        largest = largest.max(took);
    }
    println!("the largest took {} MiB", largest >> 20);
}

/// A fuzzer found these choices: a packed file of 409 KB whose head takes 200 MiB, read by a thread that is ahead of the
/// one that asks.
#[test]
fn what_is_known_of_a_trace_is_held_once() {
    const THIS: &str = "memory::what_is_known_of_a_trace_is_held_once";
    const CHOICES: [u8; 43] = [
        43, 115, 0, 0, 0, 0, 0, 0, 10, 10, 10, 10, 10, 16, 140, 4, 255, 255, 255, 250, 0, 0, 10,
        10, 10, 10, 10, 10, 10, 10, 10, 64, 10, 255, 255, 255, 55, 140, 0, 0, 7, 0, 2,
    ];
    if std::env::var_os(STRUCTURE).is_none() {
        let said = alone(THIS, "1".as_ref());
        return assert!(said.contains("took"), "{said}");
    }
    let dir = tempfile::tempdir().unwrap();
    match structure::read(&CHOICES, &dir.path().join("made")) {
        Some((size, took)) => println!("{size} bytes took {} MiB", took >> 20),
        None => missing("/proc/self/clear_refs: the memory of readers is not measured"),
    }
}

/// A trace.dat of version 7 with a packed section of names, which its list of options names `times` times; the list
/// names itself as the next one.
fn looped_names(text: &[u8], times: usize) -> Vec<u8> {
    let long = |bytes: &[u8]| [&(bytes.len() as u64).to_le_bytes()[..], bytes].concat();
    let section = |number: u16, flags: u16, content: &[u8]| {
        [&number.to_le_bytes()[..], &flags.to_le_bytes(), &[0; 4], &long(content)].concat()
    };
    let names = long(text);
    let packed = zstd::bulk::compress(&names, 3).unwrap();
    let sizes = [packed.len() as u32, names.len() as u32].map(u32::to_le_bytes).concat();
    let head = b"\x17\x08\x44tracing7\0\0\x08\0\x10\0\0zstd\x001\0";
    let names_at = head.len() as u64 + 8;
    let names = section(21, 1, &[sizes, packed].concat());
    let list_at = names_at + names.len() as u64;
    let option = |number: u16, at: u64| {
        [&number.to_le_bytes()[..], &8u32.to_le_bytes(), &at.to_le_bytes()].concat()
    };
    let list = [option(21, names_at).repeat(times), option(0, list_at)].concat();
    [&head[..], &list_at.to_le_bytes(), &names, &section(0, 0, &list)].concat()
}

#[test]
fn a_small_file_that_asks_for_gigabytes_gets_no_more_than_others() {
    const THIS: &str = "memory::a_small_file_that_asks_for_gigabytes_gets_no_more_than_others";
    if let Some(path) = std::env::var_os(STRUCTURE) {
        // As events, with one thread and with three; and as records.
        for how in [0, 1, 12] {
            match structure::measured(Path::new(&path), how) {
                Some((size, took)) => println!("{size} bytes took {} MiB", took >> 20),
                None => missing("/proc/self/clear_refs: memory is not measured"),
            }
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let said = alone(THIS, path.as_ref());
        eprintln!(
            "{name}: {}",
            said.lines().filter(|l| l.contains("took")).collect::<Vec<_>>().join(", ")
        );
    };
    write("loop.dat", &looped_names(&b"1 a\n".repeat(20_000), 1));
    write("large.dat", &looped_names(&b"1 a\n".repeat(60 << 20), 6));
    write("below.dat", &looped_names(&b"1 a\n".repeat(12 << 20), 6));
    write("names.perf.data", &perf_file::packed_names(400 << 20, false));
    write("tasks.perf.data", &perf_file::packed_names(400 << 20, true));
}
