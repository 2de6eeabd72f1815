//! Background noise: bursts of computing on chosen CPUs, at random times.
//!
//! Bursts come as a Poisson process of the given rate on each CPU, each as long as asked; one that
//! comes while another lasts waits for its end. The same seed gives the same times.

use super::entry::{Entry, enter};
use super::{SlowError, journal_kill};
use schedlab_model::{Cpu, CpuSet, Nanos};
use schedlab_stats::Random;
use schedlab_sys::clock;
use schedlab_sys::guard::Guard;
use schedlab_workload::Noise;
use std::process::{Child, Stdio};

/// Starts a child that makes it, and journals its end.
pub(super) fn start(noise: &Noise, guard: &mut Guard) -> Result<NoiseProcess, SlowError> {
    let mut command = Entry::Noise(noise.clone()).helper()?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn().map_err(|e| SlowError::io("starting the noise", e))?;
    journal_kill(guard, &child)?;
    Ok(NoiseProcess(child))
}

/// Noise that is being made. Dropping it ends it.
#[derive(Debug)]
pub(super) struct NoiseProcess(Child);

impl Drop for NoiseProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The life of the child: a thread for each CPU, until it is killed.
pub(super) fn child(noise: &Noise) -> i32 {
    std::thread::scope(|scope| {
        for cpu in noise.cpus.iter() {
            scope.spawn(move || bursts(noise, cpu));
        }
    });
    1
}

fn bursts(noise: &Noise, cpu: Cpu) {
    if enter(&[], &CpuSet::from_iter([cpu])).is_err() {
        return;
    }
    let mut random = Random::new(noise.seed ^ (u64::from(cpu.0) << 32));
    let mut next = clock::monotonic();
    loop {
        next += gap(noise.rate, &mut random);
        clock::sleep_until(next);
        // The burst is work for the CPU and not time on the clock: a slowed CPU takes longer for it.
        let end = clock::thread_cpu() + noise.length;
        while clock::thread_cpu() < end {}
    }
}

/// Time to the next arrival: exponential, with mean 1 / rate.
fn gap(rate: f64, random: &mut Random) -> Nanos {
    Nanos((-(1.0 - random.unit()).ln() / rate * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_of_the_rate() {
        let mut random = Random::new(7);
        let total: u64 = (0..20_000).map(|_| gap(50.0, &mut random).0).sum();
        let mean = total as f64 / 20_000.0;
        assert!((19.5e6..20.5e6).contains(&mean), "{mean}");
    }
}
