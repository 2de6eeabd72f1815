//! Sets of jobs that can end in time, on threads: what the log must show on every machine, however slow. How many jobs
//! end late, and why, the benchmark `executors -- feasible` shows.

mod play;

use play::{Asked, frames, independent, play};
use schedlab_jobs::load::{Burner, Kind};
use schedlab_jobs::rig::Cause;

/// No due job may wait while a worker sleeps, unless another is on its way to the job.
fn loses_none(sets: &[Vec<Asked>]) {
    let burner = Burner::calibrate_at(Kind::Cpu, 2);
    for workers in [1, 2, 4] {
        for past in [0, 20_000] {
            for set in sets {
                let played = play(set, workers, past, burner, || None);
                let (lost, late) = (played.longest(Cause::Lost), played.late());
                let took = played.inflation();
                assert_eq!(
                    lost, 0,
                    "{workers} workers, {past} jobs before, {took}, late: {late:?}"
                );
            }
        }
    }
}

#[test]
fn no_due_job_waits_while_a_worker_sleeps_and_nobody_is_on_the_way() {
    let set = |load, seed| independent(2, load, 80, seed);
    loses_none(&[set(0.4, 1), set(0.9, 2)]);
}

#[test]
fn no_job_of_a_chain_waits_while_a_worker_sleeps_and_nobody_is_on_the_way() {
    loses_none(&[frames(6)]);
}
