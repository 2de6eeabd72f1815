//! Background noise: bursts of computing on chosen CPUs, at random times.
//!
//! Bursts come as a Poisson process of the given rate on each CPU, each as long as asked; one that
//! comes while another lasts waits for its end. The same seed gives the same times.

use super::SlowError;
use super::child_entry::{Entry, enter};
use super::helper_process::HelperProcess;
use schedlab_model::{Cpu, CpuSet, Nanos};
use schedlab_stats::Random;
use schedlab_sys::clock;
use schedlab_sys::guard::Guard;
use schedlab_workload::Noise;

pub(super) fn start(noise: &Noise, guard: &mut Guard) -> Result<HelperProcess, SlowError> {
    let command = Entry::Noise(noise.clone()).helper()?;
    HelperProcess::start(format!("the noise on CPUs {}", noise.cpus), command, guard)
}

/// The life of the child: a thread for each CPU, until it is killed.
pub(super) fn child(noise: &Noise) -> i32 {
    std::thread::scope(|scope| {
        for cpu in noise.cpus.iter() {
            let body = move || bursts(noise, cpu);
            if std::thread::Builder::new().spawn_scoped(scope, body).is_err() {
                // Noise on only some of the CPUs would be wrong. The session notices that this process ends.
                std::process::exit(1);
            }
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
