//! What waiting costs: wakeups of an idle pool, and memory of jobs that wait. Counts, so the machine need not be quiet.
//!
//! `cargo bench -p schedlab-pool --bench costs`

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use schedlab_pool::{Handle, Options, Pool, Request};
use std::time::{Duration, Instant};

/// Voluntary and other context switches of all threads of this process but the caller's.
fn switches() -> u64 {
    let own = std::fs::read_link("/proc/thread-self").expect("Linux");
    let own = own.file_name().expect("a thread").to_owned();
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
    let others = tasks.filter(|task| task.file_name() != own);
    let status = others.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let count = |line: &str| line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    status
        .map(|text| {
            let lines = text.lines().filter(|line| line.contains("ctxt_switches"));
            lines.filter_map(count).sum::<u64>()
        })
        .sum()
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("a size");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("KiB") * 1024
}

fn idle(workers: usize, starts: u32, gap: Duration, length: Duration) -> u64 {
    let pool = Pool::start(Options::new(workers)).expect("threads");
    let begin = Instant::now() + gap;
    for number in 0..starts {
        let request = Request::new().start(begin + number * gap);
        pool.spawn_with(request, || ()).expect("room");
    }
    // All workers have gone to sleep.
    std::thread::sleep(Duration::from_millis(300));
    let before = switches();
    std::thread::sleep(length);
    switches() - before
}

const JOBS: u64 = 1_000_000;

/// Bytes for each of a million waiting jobs with a closure of 16 bytes.
fn memory(kept: bool, spread: Duration) -> u64 {
    let pool = Pool::start(Options::new(1)).expect("threads");
    let far = Instant::now() + Duration::from_secs(3600);
    let mut handles: Vec<Handle<'static, u64>> =
        Vec::with_capacity(if kept { JOBS as usize } else { 0 });
    let before = resident();
    for number in 0..JOBS {
        let mut request = Request::new().start(far);
        if spread > Duration::ZERO {
            request = request.deadline(far + spread * number as u32);
        }
        let (one, other) = (number, number ^ 7);
        let handle = pool.spawn_with(request, move || one.wrapping_add(other)).expect("room");
        if kept {
            handles.push(handle);
        }
    }
    let bytes = (resident() - before) / JOBS;
    pool.stop(Duration::MAX);
    bytes
}

/// The same in a process of its own: memory that one measurement frees, the next one would use.
fn memory_apart(kept: bool, spread: bool) -> String {
    let program = std::env::current_exe().expect("it runs");
    let words =
        ["memory", if kept { "kept" } else { "detached" }, if spread { "spread" } else { "" }];
    let out = std::process::Command::new(program).args(words).output().expect("it starts");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if words.iter().any(|word| word == "memory") {
        let spread = u64::from(words.iter().any(|word| word == "spread"));
        let kept = words.iter().any(|word| word == "kept");
        println!("{}", memory(kept, Duration::from_secs(spread)));
        return;
    }
    let hour = Duration::from_secs(3600);
    for workers in [1, 2, 64] {
        let none = idle(workers, 0, hour, Duration::from_secs(10));
        let one = idle(workers, 1, hour, Duration::from_secs(10));
        let many = idle(workers, 50, Duration::from_millis(100), Duration::from_secs(6));
        println!(
            "{workers} workers: {none} switches in 10 s of idleness, {one} with a start an hour away; \
             {many} for 50 starts 0.1 s apart"
        );
    }
    for (kept, what) in [(false, "detached"), (true, "with a handle")] {
        let (same, apart) = (memory_apart(kept, false), memory_apart(kept, true));
        println!("a waiting job {what}: {same} bytes, {apart} bytes with deadlines 1 s apart");
    }
}
