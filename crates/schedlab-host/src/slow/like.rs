//! As slow as another machine: speeds by measured work, and by the clock of a machine that has a name.
//!
//! A profile says how much work a CPU of a machine does in a second at full speed, by three loops: integers, branches
//! that cannot be foreseen, and loads that miss the caches. The speed of a machine here is the geometric mean of the
//! three ratios. A single speed cannot make all three right, so each ratio is reported as well.

use super::SlowError;
use schedlab_model::{Cpu, CpuSet, Nanos, Pid};
use schedlab_sys::{clock, process, sched};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A machine by the work of one of its CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name of the machine.
    pub machine: String,
    /// The clock of the CPU at full speed, where it could be read.
    pub mhz: Option<f64>,
    /// How schedlab was built, since its loops are compiled: `release` or `debug`.
    pub build: String,
    /// Work in a second.
    pub work: Rates,
}

/// Rounds of each loop in a second of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Multiplications and additions, each of which needs the one before.
    pub integer: f64,
    /// Steps of the Collatz iteration in a second: each has a branch that cannot be foreseen.
    pub branches: f64,
    /// Loads from random places of 32 MiB, each of which needs the one before.
    pub memory: f64,
}

/// What another machine is to this one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Likeness {
    /// Its speed, in parts of this machine's full speed.
    pub speed: f64,
    /// The ratio of each loop.
    pub ratios: Rates,
}

/// How schedlab was built.
const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "release" };
/// CPU time of each turn of a loop, of which the best of some counts: what disturbs makes it slower.
const TURN: Nanos = Nanos::from_millis(60);
const TURNS: usize = 5;

impl Profile {
    /// Whether all of its numbers make sense.
    ///
    /// # Errors
    /// In a sentence.
    pub fn check(&self) -> Result<(), String> {
        let Rates { integer, branches, memory } = self.work;
        let all = [integer, branches, memory, self.mhz.unwrap_or(1.0)];
        match all.iter().all(|rate| rate.is_finite() && *rate > 0.0) {
            true => Ok(()),
            false => Err("its work and its clock must be above 0".into()),
        }
    }

    /// Measures a CPU of this machine, at the speed that it has now, in a second.
    ///
    /// # Errors
    /// When the CPU cannot be used.
    pub fn measure(machine: &str, cpu: Cpu) -> Result<Self, SlowError> {
        let bind = || {
            sched::set_affinity(Pid(0), &CpuSet::from_iter([cpu]))?;
            let ring = ring(32 << 20);
            Ok(Rates {
                integer: best(integer),
                branches: best(branches),
                memory: best(|end| memory(&ring, end)),
            })
        };
        let work = process::on_a_thread(bind)
            .map_err(|e| SlowError::io(format!("measuring CPU {cpu}"), e))?;
        let mhz = mhz(Path::new("/sys"), Path::new("/proc/cpuinfo"), cpu);
        Ok(Self { machine: machine.to_owned(), mhz, build: BUILD.to_owned(), work })
    }

    /// What this machine is to another one, `here`.
    ///
    /// # Errors
    /// When the two cannot be compared.
    pub fn beside(&self, here: &Self) -> Result<Likeness, String> {
        if self.build != here.build {
            return Err(format!(
                "measure {} again: a {} build of schedlab measured it, and this is a {} build \
                 with other loops",
                self.machine, self.build, here.build
            ));
        }
        let ratios = Rates {
            integer: self.work.integer / here.work.integer,
            branches: self.work.branches / here.work.branches,
            memory: self.work.memory / here.work.memory,
        };
        let speed = (ratios.integer * ratios.branches * ratios.memory).cbrt();
        Ok(Likeness { speed, ratios })
    }
}

/// The clock of a CPU at full speed, in MHz, from its driver; without a driver, the clock that it
/// has now.
#[must_use]
pub fn mhz(sys: &Path, cpuinfo: &Path, cpu: Cpu) -> Option<f64> {
    let driver = sys.join(format!("devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"));
    let khz = std::fs::read_to_string(driver).ok().and_then(|text| text.trim().parse::<f64>().ok());
    if let Some(khz) = khz {
        return Some(khz / 1e3);
    }
    let text = std::fs::read_to_string(cpuinfo).ok()?;
    let field = |block: &str, name: &str| {
        block.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    let own = text.split("\n\n").find(|b| field(b, "processor") == Some(cpu.to_string()))?;
    field(own, "cpu MHz")?.parse().ok().filter(|mhz| *mhz > 0.0)
}

/// The best rate of some turns. `work` works until CPU time `end` and returns its rounds.
fn best(work: impl Fn(Nanos) -> u64) -> f64 {
    let turn = |_| {
        let start = clock::thread_cpu();
        let rounds = work(start + TURN);
        rounds as f64 / (clock::thread_cpu() - start).as_secs_f64()
    };
    (0..TURNS).map(turn).fold(0.0, f64::max)
}

fn integer(end: Nanos) -> u64 {
    let (mut rounds, mut value) = (0u64, 1u64);
    while clock::thread_cpu() < end {
        for _ in 0..5_000 {
            value = std::hint::black_box(value.wrapping_mul(3).wrapping_add(1));
        }
        rounds += 5_000;
    }
    rounds
}

fn branches(end: Nanos) -> u64 {
    let (mut rounds, mut seed) = (0u64, 27u64);
    while clock::thread_cpu() < end {
        for _ in 0..50 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut value = std::hint::black_box(seed >> 40) | 1;
            while value != 1 {
                value = if value.is_multiple_of(2) { value / 2 } else { 3 * value + 1 };
                rounds += 1;
            }
        }
    }
    rounds
}

/// A ring through all of `bytes` in an order without a pattern (Sattolo 1986).
fn ring(bytes: usize) -> Vec<u32> {
    let mut next: Vec<u32> = (0..u32::try_from(bytes / 4).expect("a few megabytes")).collect();
    let mut random = schedlab_stats::Random::new(1);
    for last in (1..next.len()).rev() {
        next.swap(last, random.below(last));
    }
    next
}

fn memory(ring: &[u32], end: Nanos) -> u64 {
    let (mut rounds, mut at) = (0u64, 0u32);
    while clock::thread_cpu() < end {
        for _ in 0..500 {
            at = std::hint::black_box(ring[at as usize]);
        }
        rounds += 500;
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(machine: &str, integer: f64, branches: f64, memory: f64) -> Profile {
        let work = Rates { integer, branches, memory };
        Profile { machine: machine.into(), mhz: Some(1_500.0), build: BUILD.into(), work }
    }

    #[test]
    fn the_speed_is_the_geometric_mean_of_the_ratios() {
        let (here, pi) = (profile("here", 8e8, 4e8, 1e7), profile("pi", 4e8, 1e8, 1e7));
        let likeness = pi.beside(&here).unwrap();
        assert!((likeness.speed - 0.5).abs() < 1e-9, "{likeness:?}");
        assert!((likeness.ratios.branches - 0.25).abs() < 1e-9);
        let other = Profile { build: "other".into(), ..pi };
        assert!(other.beside(&here).unwrap_err().contains("with other loops"));
    }

    #[test]
    fn work_and_clock_are_above_0() {
        assert!(profile("pi", 1.0, 1.0, 1.0).check().is_ok());
        assert!(profile("pi", 1.0, 0.0, 1.0).check().unwrap_err().contains("above 0"));
        let still = Profile { mhz: Some(f64::NAN), ..profile("pi", 1.0, 1.0, 1.0) };
        assert!(still.check().is_err());
    }

    #[test]
    fn the_clock_is_the_drivers_or_that_of_now() {
        let dir = tempfile::tempdir().unwrap();
        let cpuinfo = dir.path().join("cpuinfo");
        std::fs::write(&cpuinfo, "processor: 0\ncpu MHz: 100.5\n\nprocessor: 1\ncpu MHz: 200\n")
            .unwrap();
        let clock = |cpu: u16| mhz(dir.path(), &cpuinfo, Cpu(cpu));
        assert_eq!([clock(0), clock(1), clock(2)], [Some(100.5), Some(200.0), None]);
        let driver = dir.path().join("devices/system/cpu/cpu1/cpufreq");
        std::fs::create_dir_all(&driver).unwrap();
        std::fs::write(driver.join("cpuinfo_max_freq"), "3400000\n").unwrap();
        assert_eq!(clock(1), Some(3_400.0));
    }

    #[test]
    fn a_ring_goes_through_all_places() {
        let ring = ring(4_000);
        let (mut at, mut count) = (0, 0);
        loop {
            at = ring[at as usize];
            count += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(count, 1_000);
    }

    #[test]
    fn each_loop_does_something() {
        let end = || clock::thread_cpu() + Nanos::from_millis(1);
        assert!(integer(end()) > 0 && branches(end()) > 0 && memory(&ring(4_000), end()) > 0);
    }
}
