//! The text of `perf bench sched`.

use std::fmt::Write as _;

/// `perf bench sched messaging`.
#[must_use]
pub fn messaging(processes: bool, groups: u64, fds: u64, seconds: f64) -> String {
    let kind = if processes { "processes" } else { "threads" };
    let mut text = String::from("# Running 'sched/messaging' benchmark:\n");
    let _ = writeln!(text, "# {fds} sender and receiver {kind} per group");
    let _ = writeln!(text, "# {groups} groups == {} {kind} run\n", 2 * fds * groups);
    let _ = writeln!(text, "     Total time: {seconds:.3} [sec]");
    text
}

/// `perf bench sched pipe`.
#[must_use]
pub fn pipe(processes: bool, rounds: u64, seconds: f64) -> String {
    let kind = if processes { "processes" } else { "threads" };
    let (each, rate) = match rounds {
        0 => (0.0, 0.0),
        n => (seconds * 1e6 / n as f64, n as f64 / seconds.max(f64::MIN_POSITIVE)),
    };
    let mut text = String::from("# Running 'sched/pipe' benchmark:\n");
    let _ = writeln!(text, "# Executed {rounds} pipe operations between two {kind}\n");
    let _ = writeln!(text, "     Total time: {seconds:.3} [sec]\n");
    let _ = writeln!(text, "      {each:.6} usecs/op");
    let _ = writeln!(text, "      {rate:>14.0} ops/sec");
    text
}
