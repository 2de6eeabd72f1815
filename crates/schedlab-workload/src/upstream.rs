//! The text that other tools print, so that what reads theirs reads ours.
//!
//! Pure functions from what was measured to text; the formats are those of schbench (main, December
//! 2025), rt-tests' hackbench (2.4 to 2.8) and `perf bench sched` (6.1), as observed.

pub mod hackbench;
pub mod perf;
pub(crate) mod plat;
pub mod schbench;

/// Seconds with milliseconds, which these tools cut off and do not round.
fn whole_millis(seconds: f64) -> String {
    let millis = (seconds * 1e3) as u64;
    format!("{}.{:03}", millis / 1_000, millis % 1_000)
}
