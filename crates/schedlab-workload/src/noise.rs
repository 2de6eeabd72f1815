//! Background noise, as it is asked for: bursts of computing on chosen CPUs, at random times.

use schedlab_model::{CpuSet, Nanos};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Noise on some CPUs: `0-1:20:500us` is 20 bursts a second of 500 µs on CPUs 0 and 1.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Noise {
    /// The CPUs on which noise runs.
    pub cpus: CpuSet,
    /// Bursts a second on each.
    pub rate: f64,
    /// The length of each burst.
    pub length: Nanos,
    /// Seed of the times.
    #[serde(default)]
    pub seed: u64,
}

impl FromStr for Noise {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("invalid noise '{text}': use CPUS:RATE:LENGTH, as in 0-1:20:500us");
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().ok_or_else(wrong);
        let cpus = part()?;
        let rate = part()?;
        let length = part()?;
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
            return Err("noise needs a CPU: name one, as in 0:20:500us".into());
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
}
