//! hackbench's lines.

use std::fmt::Write as _;

/// The long options of the original: what begins like one of them means that one.
pub const LONG_OPTIONS: &[&str] =
    &["groups", "fds", "loops", "datasize", "pipe", "inet", "threads", "processes", "fifo", "help"];

/// What a run of it is, as its banner says.
#[derive(Clone, Copy, Debug)]
pub struct Banner {
    /// Whether tasks are processes instead of threads.
    pub processes: bool,
    pub groups: u64,
    /// Number of senders, and of receivers, in each group.
    pub fds: u64,
    /// Number of messages of each sender to each receiver.
    pub loops: u64,
    pub bytes: u64,
}

/// The two lines before the run.
#[must_use]
pub fn banner(banner: &Banner) -> String {
    let Banner { processes, groups, fds, loops, bytes } = *banner;
    let mode = if processes { "process" } else { "threaded" };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "Running in {mode} mode with {groups} groups using {} file descriptors each (== {} tasks)",
        2 * fds,
        2 * fds * groups
    );
    let _ = writeln!(text, "Each sender will pass {loops} messages of {bytes} bytes");
    text
}

/// The line after it: seconds, milliseconds cut off.
#[must_use]
pub fn time(seconds: f64) -> String {
    format!("Time: {}\n", super::whole_millis(seconds))
}
