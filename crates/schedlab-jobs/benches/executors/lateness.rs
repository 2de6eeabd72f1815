//! Start lateness at 70 % utilisation with a fixed gap: of all jobs, and outside the shadow of the machine's stalls.

use super::concurrency::run;
use super::mark::{Middle, mark};
use schedlab_jobs::load::{Burner, Kind};
use schedlab_jobs::profile::Profile;
use schedlab_jobs::rig::{Stall, UnstalledLateness};

const JOBS: u32 = 20_000;

pub(super) fn measure(repeats: usize) {
    let workers = 2;
    let burner = Burner::calibrate_at(Kind::Cpu, workers);
    let gap = "gap:143us".parse().expect("an arrival");
    let mut outside = Vec::new();
    for _ in 0..repeats {
        let run = run(workers, burner, JOBS, &gap);
        let profile = Profile::of(&run, workers);
        let (mut stalls, mut all, mut others) = (Vec::new(), Vec::new(), 0);
        for (worker, held) in run.held() {
            let stall = Stall::of(worker, &held);
            all.push(stall);
            if held.by_machine() {
                stalls.push(stall);
            } else {
                others += held.lost_ns;
            }
        }
        let shadow = UnstalledLateness::of(&run, workers, &stalls);
        let calm = UnstalledLateness::of(&run, workers, &all);
        let ms = |ns: Option<u64>| ns.unwrap_or(0) as f64 / 1e6;
        let lost: u64 = stalls.iter().map(|stall| stall.lost_ns).sum();
        println!(
            "lateness, 70 %: p99 {:.3} ms of all, {:.3} ms outside shadows ({:.2} % set aside); {} stalls, {:.2} ms, \
             longest {:.2} ms; other tasks {:.2} ms, without their shadow as well {:.3} ms ({:.2} % set aside)",
            ms(profile.lateness(0.99)),
            ms(shadow.lateness(0.99)),
            100.0 * shadow.aside as f64 / f64::from(JOBS),
            stalls.len(),
            lost as f64 / 1e6,
            ms(stalls.iter().map(|stall| stall.lost_ns).max()),
            others as f64 / 1e6,
            ms(calm.lateness(0.99)),
            100.0 * calm.aside as f64 / f64::from(JOBS),
        );
        outside.push(ms(shadow.lateness(0.99)));
    }
    let what = "lateness at 70 %, p99 outside the machine's stalls, ms";
    mark(what, Middle::of(outside), 0.5, true);
}
