//! Background noise: bursts of computing on chosen CPUs, at random times.
//!
//! Bursts come as a Poisson process of the given rate on each CPU, each as long as asked; one that
//! comes while another lasts waits for its end. The same seed gives the same times.

use super::entry::{Entry, enter};
use super::{SlowError, journal_kill};
use schedlab_model::{Cpu, CpuSet, Nanos};
use schedlab_stats::Random;
use schedlab_sys::guard::Guard;
use schedlab_sys::{clock, process};
use serde::{Deserialize, Serialize};
use std::process::{Child, Stdio};
use std::str::FromStr;

/// Noise on some CPUs: `0-1:20:500us` is 20 bursts a second of 500 µs on CPUs 0 and 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// The CPUs.
    pub cpus: CpuSet,
    /// Bursts a second on each.
    pub rate: f64,
    /// Length of each.
    pub length: Nanos,
    /// Seed of the times.
    #[serde(default)]
    pub seed: u64,
}

impl FromStr for Noise {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not CPUS:RATE:LENGTH: write it as in 0-1:20:500us");
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().ok_or_else(wrong);
        let (cpus, rate, length) = (part()?, part()?, part()?);
        let noise = Self {
            cpus: cpus.parse().map_err(|e: schedlab_model::CpuListError| e.to_string())?,
            rate: rate.parse().map_err(|_| wrong())?,
            length: length.parse().map_err(|e: schedlab_model::NanosError| e.to_string())?,
            seed: 0,
        };
        noise.check().map(|()| noise)
    }
}

impl Noise {
    /// Whether it can be made.
    ///
    /// # Errors
    /// In a sentence: no CPU, no rate, bursts that would take more than 95 % of the time.
    pub fn check(&self) -> Result<(), String> {
        if self.cpus.is_empty() {
            return Err("noise needs a CPU to be made on".into());
        }
        if !(self.rate.is_finite() && self.rate > 0.0 && self.length > Nanos::ZERO) {
            return Err("noise needs a rate and a length above 0".into());
        }
        let share = self.rate * self.length.as_secs_f64();
        if share > 0.95 {
            return Err(format!("noise would take {:.0}% of the CPU; 95% at most", share * 100.0));
        }
        Ok(())
    }

    /// Starts a child that makes it, and journals its end.
    pub(super) fn start(&self, guard: &mut Guard) -> Result<NoiseProcess, SlowError> {
        let mut command = Entry::Noise(self.clone()).command()?;
        command.stdin(Stdio::null()).stdout(Stdio::null());
        process::own_session(&mut command);
        process::die_with_parent(&mut command);
        let child = command.spawn().map_err(|e| SlowError::io("starting the noise", e))?;
        journal_kill(guard, &child)?;
        Ok(NoiseProcess(child))
    }
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
    fn noise_is_read_and_checked() {
        let noise: Noise = "0-1:20:500us".parse().unwrap();
        assert_eq!((noise.cpus.len(), noise.length), (2, Nanos::from_micros(500)));
        for (text, why) in [
            ("0:20", "CPUS:RATE:LENGTH"),
            (":20:1ms", "needs a CPU"),
            ("0:0:1ms", "above 0"),
            ("0:nan:1ms", "above 0"),
            ("0:1000:1ms", "100% of the CPU"),
        ] {
            let error = text.parse::<Noise>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn gaps_have_the_mean_of_the_rate() {
        let mut random = Random::new(7);
        let total: u64 = (0..20_000).map(|_| gap(50.0, &mut random).0).sum();
        let mean = total as f64 / 20_000.0;
        assert!((19.5e6..20.5e6).contains(&mean), "{mean}");
    }
}
