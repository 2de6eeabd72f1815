//! Jobs that end late though a schedule without costs ends each 2 ms before its deadline, and what they waited for.

#[path = "../../tests/all/feasible/play.rs"]
mod play;

use super::mark::Middle;
use play::{Asked, frames, independent, play};
use schedlab_jobs::load::{Burner, Kind};
use schedlab_jobs::rig::Cause;

/// A set by its name, from a seed.
type Named = (&'static str, fn(u64) -> Vec<Asked>);

const WORKERS: usize = 2;

pub(super) fn measure(repeats: usize) {
    println!(
        "| set | jobs before | sets in time | job time over planned | jobs | late | by busy workers | by the kernel | by the pool | lost, longest |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let sets: [Named; 3] = [
        ("40 %", |seed| independent(WORKERS, 0.4, 300, seed)),
        ("90 %", |seed| independent(WORKERS, 0.9, 300, seed)),
        ("decode, filter, encode", |_| frames(25)),
    ];
    for (name, set) in sets {
        for past in [0, 20_000] {
            let (mut jobs, mut by, mut long) = (0, [0; Cause::ALL.len()], Vec::new());
            let (mut kept, mut lost_ns) = (0, 0);
            for seed in 1..=repeats as u64 {
                let set = set(seed);
                let burner = Burner::calibrate_at(Kind::Cpu, WORKERS);
                let run_delay = || schedlab_sys::task::own_run_delay().map(|delay| delay.0);
                let played = play(&set, WORKERS, past, burner, run_delay);
                jobs += set.len();
                let late = played.late();
                late.iter().for_each(|&(_, cause)| by[cause as usize] += 1);
                kept += usize::from(late.is_empty());
                lost_ns = lost_ns.max(played.longest(Cause::Lost));
                long.push(played.inflation());
            }
            let [busy, kernel, pool, _] = by;
            let late = by.iter().sum::<usize>();
            let long = Middle::of(long);
            println!(
                "| {name} | {past} | {kept} of {repeats} | {long} | {jobs} | {late} | {busy} | {kernel} | {pool} | {lost_ns} ns |"
            );
        }
    }
}
