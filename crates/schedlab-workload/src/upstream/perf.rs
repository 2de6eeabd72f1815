//! The text of `perf bench sched`.

use super::whole_millis;
use std::fmt::Write as _;

/// `perf bench sched messaging`.
#[must_use]
pub fn messaging(processes: bool, groups: u64, fds: u64, seconds: f64) -> String {
    let kind = if processes { "processes" } else { "threads" };
    let mut text = String::from("# Running 'sched/messaging' benchmark:\n");
    let _ = writeln!(text, "# {fds} sender and receiver {kind} per group");
    let _ = writeln!(text, "# {groups} groups == {} {kind} run\n", 2 * fds * groups);
    let _ = writeln!(text, "     Total time: {} [sec]", whole_millis(seconds));
    text
}

/// `perf bench -f simple`: the seconds and nothing else.
#[must_use]
pub fn simple(seconds: f64) -> String {
    format!("{}\n", whole_millis(seconds))
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
    let _ = writeln!(text, "     Total time: {} [sec]\n", whole_millis(seconds));
    let _ = writeln!(text, " {each:>14.6} usecs/op");
    let _ = writeln!(text, " {rate:>14.0} ops/sec");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `perf bench sched pipe -l 1000` of perf 6.1 prints them.
    #[test]
    fn the_columns_of_a_pipe_are_those_of_perf() {
        let slow = pipe(true, 1_000, 0.075_553);
        assert_eq!(
            slow,
            "# Running 'sched/pipe' benchmark:\n# Executed 1000 pipe operations between two processes\n\n     \
             Total time: 0.075 [sec]\n\n      75.553000 usecs/op\n          13236 ops/sec\n"
        );
        let quick = pipe(false, 1_000, 0.008_752);
        assert!(quick.contains("two threads\n") && quick.contains("\n       8.752000 usecs/op\n"));
        assert!(quick.ends_with("\n         114260 ops/sec\n"), "{quick}");
        assert!(pipe(false, 0, 0.0).contains("\n       0.000000 usecs/op\n"));
    }
}
