//! The text that other tools print, so that what reads theirs reads ours.
//!
//! Pure functions from what was measured to text; the formats are those of schbench (main, December
//! 2025), rt-tests' hackbench (2.4 to 2.8) and `perf bench sched` (6.1), as observed.

pub mod hackbench;
pub mod perf;
pub mod schbench;
