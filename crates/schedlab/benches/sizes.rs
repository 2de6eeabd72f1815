//! Traces as large as machines make them: how long the command takes, how much memory, and how large its page is.
//!
//! `cargo bench -p schedlab --bench sizes [-- EVENTS [CPUS]]`: 100 million events of 1,024 CPUs unless told. Beside
//! them stands a tenth of the events: memory must not grow with the trace. The traces are synthetic and stay in the
//! temporary folder for the next run (4 GB). The command runs on the first two CPUs. Times are the best of three
//! runs (of those that begin within ten seconds), from the start of the process to its end, with the file in the
//! page cache; memory is the highest of its resident memory (the kernel's `VmHWM`). `SCHEDLAB_EVIDENCE=write`
//! writes the table of docs/sizes.md.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks and may fail")]

use schedlab_trace::dat::Header;
use schedlab_trace::synthetic::{Plan, Synthetic};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Most runs of a command, and for how long further ones begin.
const RUNS: usize = 3;
const RUNS_TIME: Duration = Duration::from_secs(10);
const CPUS_USED: &str = "0,1";

/// What is asked: its words, the kind of file that it writes, and the aim for 100 million events.
const QUESTIONS: [(&[&str], Option<&str>, &str); 6] = [
    (&["trace", "latency", "--threads", "2"], None, "4 s"),
    (&["trace", "tasks", "--threads", "2"], None, ""),
    (&["trace", "conservation", "--threads", "2"], None, ""),
    (&["draw", "cores"], Some("pdf"), "6 s"),
    (&["view", "--no-why"], Some("html"), "20 s"),
    (&["view"], Some("html"), "30 s"),
];

/// What a run took.
#[derive(Clone, Copy)]
struct Taken {
    wall: Duration,
    memory_kib: u64,
    /// Of the file that it wrote.
    bytes: u64,
}

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|text| text.parse().ok()).collect();
    let events = numbers.first().copied().unwrap_or(100_000_000);
    let cpus = numbers.get(1).map_or(1_024, |cpus| u16::try_from(*cpus).unwrap());
    let small = trace(events / 10, cpus);
    let large = trace(events, cpus);
    let mut table = format!(
        "| command | {} M events | memory | {} M events | memory | written | aim |\n\
         |---|---:|---:|---:|---:|---:|---|\n",
        events / 10_000_000,
        events / 1_000_000
    );
    for (words, kind, aim) in QUESTIONS {
        let [few, many] = [&small, &large].map(|file| best(words, kind, file));
        let written = kind.map_or_else(String::new, |_| megabytes(many.bytes));
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} | {} | {written} | {aim} |",
            words.join(" "),
            seconds(few.wall),
            megabytes(few.memory_kib << 10),
            seconds(many.wall),
            megabytes(many.memory_kib << 10)
        );
        println!("{}", table.lines().last().unwrap_or_default());
    }
    println!("\n{cpus} CPUs\n\n{table}");
    if std::env::var_os("SCHEDLAB_EVIDENCE").is_some_and(|word| word == "write") {
        keep(&table);
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn megabytes(bytes: u64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}

/// A synthetic trace.dat, from an earlier run where there is one.
fn trace(events: u64, cpus: u16) -> PathBuf {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = own.join(format!("sizes-{cpus}-{events}.dat"));
    if !file.exists() {
        let plan = Plan { cpus, tasks_per_cpu: 3, events, seed: 1 };
        let part = file.with_extension("part");
        Synthetic::new(plan).write(&part, Header::default()).unwrap();
        std::fs::rename(&part, &file).unwrap();
    }
    let bytes = std::fs::metadata(&file).unwrap().len();
    println!("{events} events of {cpus} CPUs: {}", megabytes(bytes));
    file
}

/// The fastest run, with the most memory of all.
fn best(words: &[&str], kind: Option<&str>, file: &Path) -> Taken {
    let start = Instant::now();
    let mut runs = vec![run(words, kind, file)];
    while runs.len() < RUNS && start.elapsed() < RUNS_TIME {
        runs.push(run(words, kind, file));
    }
    let fastest = runs.iter().copied().min_by_key(|run| run.wall).unwrap();
    let memory_kib = runs.iter().map(|run| run.memory_kib).max().unwrap();
    Taken { memory_kib, ..fastest }
}

fn run(words: &[&str], kind: Option<&str>, file: &Path) -> Taken {
    let out = kind.map(|kind| file.with_extension(kind));
    let mut command = Command::new("taskset");
    command.args(["-c", CPUS_USED, env!("CARGO_BIN_EXE_schedlab")]).args(words).arg(file);
    command.args(out.iter().flat_map(|out| [Path::new("-o"), out]));
    let start = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut memory_kib = 0;
    let status = loop {
        memory_kib = memory_kib.max(highest(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let wall = start.elapsed();
    assert!(status.success(), "{words:?}: {status}");
    let bytes = out.as_ref().map_or(0, |out| std::fs::metadata(out).unwrap().len());
    out.iter().for_each(|out| std::fs::remove_file(out).unwrap());
    Taken { wall, memory_kib, bytes }
}

/// The most memory that a process had so far.
fn highest(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Writes the table where the page has the last one.
fn keep(table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sizes.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("\n| command |").unwrap();
    let after = rest.split_once("\n\n").map_or("", |parts| parts.1);
    std::fs::write(&path, format!("{before}\n{table}\n{after}")).unwrap();
}
