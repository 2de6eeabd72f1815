//! How tests of real runs wait, so that a machine which stalls breaks none of them: for a condition, never
//! for a time, and for what a run shows only if it had the CPU, in as many runs as that takes.

use std::time::{Duration, Instant};

/// What a test waits for takes less on any machine that can be worked with.
const LIMIT: Duration = Duration::from_secs(120);

/// Fewer runs than these prove nothing, however long they took.
const RUNS: u32 = 8;

/// Repeats an attempt until it gives something, for two minutes and at least eight times; then it fails with
/// what the last attempt saw. What holds whatever the time is asserted inside, so that one failure counts.
pub(crate) fn eventually<T>(mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + LIMIT;
    let mut runs = 0;
    loop {
        runs += 1;
        match attempt() {
            Ok(seen) => return seen,
            Err(saw) if runs >= RUNS && Instant::now() > until => {
                panic!("{runs} times in vain; the last time: {saw}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
