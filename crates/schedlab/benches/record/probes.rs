//! What a probe and a stack cost the program, beside perf and bpftrace: `cargo bench -p schedlab --bench record -- ROUNDS
//! probes`.
//!
//! A round runs each load under nobody and under each recorder, in an order that turns. Printed: the median of what the load
//! took, and what a recorder added to it, with its 95 % interval, which resamples whole rounds; and the same divided by what
//! schedlab, the first of the recorders, added.

use crate::pipe_time;
use crate::rounds::resampled;
use schedlab_stats::Sample;
use std::path::Path;
use std::process::Command;

/// 60,000 calls of a function that has a probe at its begin and one at its end, and the CPU time of each.
const CALLS: &str = r#"
#include <stdio.h>
#include <time.h>
static volatile int sum;
__attribute__((noinline)) void request(int i) { sum += i; }
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}
int main(void) {
    double begin = now();
    for (int i = 0; i < 60000; i++) request(i);
    printf("%f usecs/op\n", (now() - begin) / 60000);
}
"#;

/// Who records, and its command line up to that of the load.
struct Arm(&'static str, &'static [&'static str]);

const SCHEDLAB: &str = env!("CARGO_BIN_EXE_schedlab");
const PIPE: &[&str] =
    &["/usr/bin/taskset", "-c", "0", "perf", "bench", "sched", "pipe", "-l", "20000"];

const PROBES: &[Arm] = &[
    Arm("nobody", &[]),
    Arm("schedlab", &[SCHEDLAB, "record", "-o", "x.dat", "--request", "r=./calls:request", "--"]),
    Arm("perf", &["perf", "record", "-q", "-a", "-o", "perf.data", "-e", "probe_calls:*", "--"]),
    Arm("bpftrace", &["bpftrace", "-e", PAIRED, "-c"]),
];

/// What schedlab tells of a request, its length, as a histogram in the kernel.
const PAIRED: &str = "uprobe:./calls:request { @begin[tid] = nsecs; } \
                      uretprobe:./calls:request /@begin[tid]/ { @length = hist(nsecs - @begin[tid]); delete(@begin[tid]); }";
/// Off-CPU time by stack, as a sum in the kernel.
const OFF_CPU: &str = "tracepoint:sched:sched_switch { @off[args->prev_pid] = (nsecs, kstack, ustack); } \
                       tracepoint:sched:sched_switch /@off[args->next_pid].0/ { \
                       @time[@off[args->next_pid].1, @off[args->next_pid].2] = sum(nsecs - @off[args->next_pid].0); }";

const STACKS: &[Arm] = &[
    Arm("nobody", &[]),
    Arm(
        "schedlab, 16 KiB copied",
        &[
            SCHEDLAB,
            "record",
            "-o",
            "x.dat",
            "--for",
            "scheduling",
            "--stacks",
            "user,kernel",
            "--",
        ],
    ),
    Arm(
        "schedlab, frame pointers",
        &[
            SCHEDLAB,
            "record",
            "-o",
            "y.dat",
            "--for",
            "scheduling",
            "--stacks",
            "user,kernel",
            "--stack-copy",
            "0",
            "--",
        ],
    ),
    Arm(
        "schedlab, no stacks",
        &[SCHEDLAB, "record", "-o", "z.dat", "--for", "scheduling", "--via", "perf", "--"],
    ),
    Arm(
        "perf, 16 KiB copied",
        &["perf", "sched", "record", "-q", "--call-graph", "dwarf,16384", "-o", "perf.data", "--"],
    ),
    Arm("perf, frame pointers", &["perf", "sched", "record", "-q", "-g", "-o", "perf.data", "--"]),
    Arm("bpftrace", &["bpftrace", "-e", OFF_CPU, "-c"]),
];

pub(crate) fn tell(rounds: usize, dir: &Path) {
    std::fs::write(dir.join("calls.c"), CALLS).unwrap();
    assert!(done(dir, &["gcc", "-O1", "-o", "calls", "calls.c"]).0);
    done(dir, &["perf", "probe", "-q", "-d", "probe_calls:*"]);
    for probe in ["request", "request%return"] {
        let (is_done, said) = done(dir, &["perf", "probe", "-q", "-x", "./calls", probe]);
        assert!(is_done, "{said}");
    }
    table(
        "a call with a probe at its begin and one at its end, CPU time",
        PROBES,
        &["./calls"],
        rounds,
        dir,
    );
    done(dir, &["perf", "probe", "-q", "-d", "probe_calls:*"]);
    table(
        "a hand-over and back, two switches, one of them of a task that sleeps; time",
        STACKS,
        PIPE,
        rounds,
        dir,
    );
}

fn done(dir: &Path, argv: &[&str]) -> (bool, String) {
    let output = Command::new(argv[0]).args(&argv[1..]).current_dir(dir).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn table(what: &str, arms: &[Arm], load: &[&str], rounds: usize, dir: &Path) {
    let arms: Vec<&Arm> = arms
        .iter()
        .filter(|Arm(_, argv)| argv.first() != Some(&"bpftrace") || has_bpftrace())
        .collect();
    let mut times = vec![Vec::new(); arms.len()];
    for round in 0..rounds {
        for turn in 0..arms.len() {
            let arm = (round + turn) % arms.len();
            let Arm(name, recorder) = arms[arm];
            // It takes the load as one word.
            let line = load.join(" ");
            let load =
                if recorder.last() == Some(&"-c") { vec![line.as_str()] } else { load.to_vec() };
            let (_, said) = done(dir, &[recorder, &load[..]].concat());
            let time = said.lines().find_map(pipe_time).unwrap_or_else(|| panic!("{name}: {said}"));
            eprintln!("{round} {name} {time}");
            times[arm].push(time);
        }
    }
    println!("{what}; {rounds} rounds");
    let all: Vec<usize> = (0..rounds).collect();
    let added = |arm: usize, rounds: &[usize]| {
        rounds.iter().map(|round| times[arm][*round] - times[0][*round]).sum::<f64>()
            / rounds.len() as f64
    };
    for (arm, Arm(name, _)) in arms.iter().enumerate() {
        let median = Sample::new(times[arm].clone()).unwrap().median();
        let (low, high) = resampled(rounds, &|rounds| added(arm, rounds));
        print!("  {name:26} {median:8.3} us  added {:8.3} [{low:.3}, {high:.3}]", added(arm, &all));
        if arm < 2 {
            println!();
            continue;
        }
        let ratio = |rounds: &[usize]| added(arm, rounds) / added(1, rounds);
        let (low, high) = resampled(rounds, &ratio);
        println!("  {:6.3} [{low:.3}, {high:.3}] of what the first recorder adds", ratio(&all));
    }
    println!();
}

fn has_bpftrace() -> bool {
    let is_there = Command::new("bpftrace").arg("--version").output().is_ok();
    if !is_there {
        println!("MISSING: bpftrace");
    }
    is_there
}
